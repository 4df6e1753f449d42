// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_GWLB_PORT_H_
#define SNF_PLATFORM_PORTS_GWLB_PORT_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/tunnels/geneve.h"
#include "base/tunnels/gwlb_header.h"
#include "platform/ports/gwlb/outer_table.h"
#include "platform/ports/health_responder.h"
#include "platform/ports/interface/network_interface.h"
#include "platform/ports/packet_port.h"

namespace snf {

// Theory of operation. The appliance's end of AWS's Gateway Load Balancer: the
// packets in GENEVE that come to UDP port 6081 of the interface. Each inner IP
// packet comes in as an Ethernet frame whose addresses name its outer header
// (outer_table.h). A frame that leaves goes back in the outer header that its
// addresses name: with the IP addresses exchanged, the UDP ports as they came,
// and the GENEVE header byte for byte, except the type of the inner packet.
//
//   GWLB ─IP, UDP port → 6081, GENEVE, inner─► Receive ─Ethernet, inner─► chain
//   GWLB ◄─IP, UDP port → 6081, GENEVE, inner─ Send ◄──Ethernet, inner── chain
//
//   Worked example: 10.0.1.7:40001 sends to 10.0.2.9:6081. The packet goes back
//   from 10.0.2.9:40001 to 10.0.1.7:6081, so the balancer's own hash of the
//   outer header finds its way.
//
// The outer packets are received by a UDP socket: the kernel checks checksums,
// and puts fragments together. They are sent by a raw socket, because each has
// the source port of its sender. UDP checksums are 0 (RFC 8926 §4.3.1).
//
// Packets of both sides of a connection come in here, so this port is the only
// one of a run. Refused packets are counted by name (GwlbRefusal). A frame
// whose outer header is no longer known is counted as kNoOuterHeader.
//
// Owner-thread only.
class GwlbPort final : public PacketPort {
 public:
  static constexpr size_t kBatch = 64;
  static constexpr int kReceiveBytes = 64 << 20;
  static constexpr int kSendBytes = 4 << 20;
  static constexpr const char* kNoOuterHeader = "no_outer_header";
  static constexpr const char* kNotIp = "not_ip";
  static constexpr const char* kEvicted = "evicted_headers";

  static absl::StatusOr<std::unique_ptr<PacketPort>> Open(const PortSpec& spec);

  bool Receive(Take take) override;
  void StopReceiving() override;
  void Send(std::span<const std::byte> frame) override;
  void Flush() override;
  // Also answers health checks: call it again and again.
  void UpdateFigures() override;
  std::vector<PortReason> reasons() const override;
  bool has_both_sides() const override { return true; }
  int descriptor() const override { return in_.number(); }

 private:
  static constexpr size_t kIpBytes = 20;
  static constexpr size_t kUdpBytes = 8;
  static constexpr size_t kFrontBytes = kIpBytes + kUdpBytes + kMaxGeneveBytes;
  // The payload lies behind room for an Ethernet header.
  static constexpr size_t kLinkRoom = 64;
  static constexpr size_t kInRoomBytes = kLinkRoom + 65'536;
  static constexpr size_t kOutRoomBytes =
      (kFrontBytes + kGwlbMtu + 63) / 64 * 64;
  static constexpr size_t kControlBytes = 128;

  struct In {
    In();
    std::span<std::byte> room(size_t i) {
      return {&rooms[i * kInRoomBytes], kInRoomBytes};
    }
    std::unique_ptr<std::byte[]> rooms;
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> parts{};
    std::array<sockaddr_in, kBatch> senders{};
    struct alignas(8) Control {
      std::array<std::byte, kControlBytes> bytes;
    };
    std::array<Control, kBatch> controls{};
  };
  struct Out {
    Out();
    std::span<std::byte> room(size_t i) {
      return {&rooms[i * kOutRoomBytes], kOutRoomBytes};
    }
    std::unique_ptr<std::byte[]> rooms;
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> parts{};
    std::array<sockaddr_in, kBatch> receivers{};
  };

  explicit GwlbPort(const PortSpec& spec)
      : PacketPort(spec), interface_(spec.interface) {}
  absl::Status Connect();
  absl::Status ConnectIn();
  absl::Status Failed(const char* what) const;
  void TakePacket(size_t i, Instant now, Take take);
  void ReadKernelDrops();
  void Drop(uint64_t& reason);
  static size_t WriteOuter(const OuterHeader& outer, EtherType inner,
                           std::span<std::byte> to);

  NetworkInterface interface_;
  Descriptor in_;
  Descriptor out_;
  std::unique_ptr<HealthResponder> health_;  // null: none
  OuterTable outer_;
  In received_;
  Out queued_;
  size_t queue_ = 0;  // packets in it
  std::array<uint64_t, kGwlbRefusals> refusals_{};
  uint64_t no_outer_header_ = 0;
  uint64_t not_ip_ = 0;
  bool has_turned_ = false;  // Receive was called since the last look
  bool has_stopped_ = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_GWLB_PORT_H_
