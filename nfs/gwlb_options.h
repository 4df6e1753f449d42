// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_GWLB_OPTIONS_H_
#define SNF_NFS_GWLB_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/ip_address.h"
#include "base/time.h"
#include "nfs/lb_health_options.h"
#include "nfs/lb_maglev.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// The fields by which packets are one flow, which has one appliance.
enum class GwlbStickiness : uint8_t { k5Tuple, k3Tuple, k2Tuple };

// The fate of a flow whose appliance is unhealthy or deregistered.
enum class GwlbFailover : uint8_t { kNoRebalance, kRebalance };

// The fate of a new flow if all appliances are unhealthy.
enum class GwlbAllUnhealthy : uint8_t {
  kSend,  // to one of them all the same
  kDrop,
  kPass,  // past the appliances
};

// The options of --nf gwlb:… . NfOptions::status() reports errors.
struct GwlbOptions {
  explicit GwlbOptions(NfOptions& options);

  static constexpr size_t kMaxAppliances = 256;
  static constexpr uint32_t kTableSize = 65'537;
  // The headers in front of an inner packet: IPv4, UDP and GENEVE.
  static constexpr uint32_t kOuterBytes = 68;

  // The use of an appliance at a time.
  enum class Use : uint8_t {
    kUnused,    // not registered, and not draining
    kDraining,  // deregistered for less than deregistration_delay
    kRegistered,
  };
  // The appliances that are registered from a time on.
  struct Registered {
    std::vector<bool> has;  // by appliance
    MaglevTable table;
  };

  // address=10.0.2.1: the balancer's own address.
  IpAddress address;
  // appliances=10.0.2.11+10.0.2.12: the appliances of all times, sorted.
  std::vector<IpAddress> appliances;
  std::vector<NfOptions::Dated<std::shared_ptr<const Registered>>> dated;

  // stickiness=5_tuple|3_tuple|2_tuple.
  GwlbStickiness stickiness = GwlbStickiness::k5Tuple;
  // on_unhealthy, on_deregistration=no_rebalance|rebalance.
  GwlbFailover on_unhealthy = GwlbFailover::kNoRebalance;
  GwlbFailover on_deregistration = GwlbFailover::kNoRebalance;
  Nanos deregistration_delay = Seconds(300);
  // TCP connections of such flows are reset instead.
  bool resets_unhealthy = false;
  bool resets_deregistered = false;
  // A TCP packet of no flow, other than a SYN, is answered by a reset.
  bool resets_unknown = false;
  // all_unhealthy=send|drop|pass.
  GwlbAllUnhealthy all_unhealthy = GwlbAllUnhealthy::kSend;
  LbHealthOptions health;
  // The times without packets after which a flow is forgotten.
  Nanos tcp_idle_timeout = Seconds(350);
  Nanos idle_timeout = Seconds(120);
  // The identifiers in the options of GENEVE. Packets from the inside have
  // `attachment`, those from the outside the next number.
  uint64_t endpoint = 1;
  uint64_t attachment = 1;
  // mtu=1500: the longest IP packet to an appliance, outer headers included.
  uint32_t mtu = 1'500;

  // Returns the longest inner packet.
  uint32_t inner_mtu() const;
  std::optional<uint16_t> ApplianceOf(const IpAddress& address) const;
  const Registered& AsOf(Instant time) const {
    return *dated[IndexOf(time)].value;
  }
  Use UseOf(uint16_t appliance, Instant time) const;
  // Returns when the appliance's use at that time began; nothing if it began
  // with the options.
  std::optional<Instant> UseSince(uint16_t appliance, Instant time) const;
  // Returns the key of the flow to which a connection belongs.
  FlowKey FlowOf(FlowKey connection) const;

 private:
  using Addresses = std::vector<IpAddress>;

  static Addresses AskAppliances(NfOptions& options);
  void AskFailover(NfOptions& options);
  void AskHealth(NfOptions& options);
  void AskTimes(NfOptions& options);
  void Register(const std::vector<NfOptions::Dated<Addresses>>& asked,
                NfOptions& options);
  size_t IndexOf(Instant time) const;
};

}  // namespace snf

#endif  // SNF_NFS_GWLB_OPTIONS_H_
