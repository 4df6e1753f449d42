// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NAT_STATIC_H_
#define SNF_NFS_NAT_STATIC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/protocol_numbers.h"
#include "nfs/nat_packet.h"
#include "runtime/sdk/nf_options.h"

namespace snf {

// The mappings of a NAT that its options give, and the packets that they
// exempt. Immutable; the same at every unit.
//
// Example: forward=tcp:203.0.113.1:80->10.0.0.5:8080 sends connections to port
// 80 of 203.0.113.1 to 10.0.0.5:8080, and forward=ip:203.0.113.9->10.0.0.9 all
// packets to 203.0.113.9, whose ports stay. With exempt=10.0.0.0/8->
// 192.168.0.0/16, packets between the two networks are not translated.
class NatStatic {
 public:
  static constexpr size_t kMaxForwards = 4'096;
  static constexpr size_t kMaxExempt = 256;

  explicit NatStatic(NfOptions& options);

  bool has_forwards() const { return !by_external_.empty(); }
  bool has_exempt() const { return !exempt_.empty(); }

  // Returns the inside end to which packets to the external one go, or nothing.
  std::optional<NatEnd> InsideOf(NatEnd external, IpProtocol protocol) const;
  // Returns the external end of packets from the inside one, or nothing.
  std::optional<NatEnd> ExternalOf(NatEnd inside, IpProtocol protocol) const;
  // Returns true if a forward has this external address.
  bool IsExternal(be32 address) const;
  // Returns true if a forward has all ports of this external address.
  bool HasWhole(be32 address) const;
  // Returns the external ports of forwards at the address, ascending.
  std::vector<uint16_t> PortsOf(be32 address, IpProtocol protocol) const;
  bool IsExempt(be32 inside, be32 outside) const;

 private:
  // Ports are 0, and there is no protocol, if it forwards a whole address.
  struct Forward {
    NatEnd from;
    NatEnd to;
    IpProtocol protocol{};
  };
  struct Exempt {
    IpPrefix inside;
    IpPrefix outside;
  };
  static std::optional<Forward> ParseForward(std::string_view text);
  static std::optional<NatEnd> Find(const std::vector<Forward>& forwards,
                                    NatEnd from, IpProtocol protocol);
  void AskForwards(NfOptions& options);
  void AskExempt(NfOptions& options);

  std::vector<Forward> by_external_;  // sorted by address, protocol and port
  std::vector<Forward> by_inside_;    // the same, exchanged
  std::vector<Exempt> exempt_;
};

}  // namespace snf

#endif  // SNF_NFS_NAT_STATIC_H_
