// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_FIXTURE_FLOWS_H_
#define SNF_BASE_PACKET_FIXTURE_FLOWS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_order.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/ip_address.h"
#include "base/packet/protocol_numbers.h"
#include "base/rng.h"

// Packets of 60 bytes that all benchmarks share.
namespace snf {

inline constexpr size_t kMadeBytes = 60;
using MadeFrame = std::array<std::byte, 64>;  // the last four stay unused

struct MadeEnd {
  be32 address;
  be16 port;
};

// A connection between an inside endpoint of its own and one of 1,000 hosts
// outside. Eight inside endpoints share an address of 10.0.0.0/8. Connections
// of even number are TCP, the others UDP.
struct MadeConnection {
  MadeEnd inside;
  MadeEnd far;
  IpProtocol protocol{};

  static MadeConnection Number(uint32_t number) {
    const uint32_t mixed = number * 2'654'435'761u;
    const bool is_tcp = number % 2 == 0;
    return {.inside = {be32(0x0a00'0001 + number / 8),
                       be16(static_cast<uint16_t>(20'000 + number % 8 * 5'000 +
                                                  mixed % 5'000))},
            .far = {be32(0xc612'0000 + (mixed >> 8) % 1'000),
                    be16(is_tcp ? 443 : 53)},
            .protocol = is_tcp ? IpProtocol::kTcp : IpProtocol::kUdp};
  }
};

// Builds a frame of Ethernet and IPv4 with correct checksums.
inline MadeFrame MakeFrame(IpProtocol protocol, const MadeEnd& from,
                           const MadeEnd& to,
                           uint8_t tcp_flags = TcpHeader<std::byte>::kAck) {
  constexpr size_t kIp = 14, kL4 = 34;
  MadeFrame frame{};
  const auto set = [&frame](size_t at, uint8_t byte) {
    frame[at] = std::byte{byte};
  };
  const bool is_tcp = protocol == IpProtocol::kTcp;
  const std::span<std::byte> bytes = std::span(frame).first(kMadeBytes);
  Store(&frame[12], be16(0x0800));
  set(kIp, 0x45);
  set(kIp + 8, 64);
  set(kIp + 9, static_cast<uint8_t>(protocol));
  const auto ip = Ipv4Header<std::byte>::At(bytes, kIp);
  ip.set_total_bytes(kMadeBytes - kIp);
  ip.set_source(from.address);
  ip.set_destination(to.address);
  FillIpv4Checksum(ip);
  const auto ports = PortsView<std::byte>::At(bytes, kL4);
  ports.set_source_port(from.port);
  ports.set_destination_port(to.port);
  if (is_tcp) {
    set(kL4 + 12, 0x50);
    set(kL4 + 13, tcp_flags);
  } else {
    Store(&frame[kL4 + 4], be16(kMadeBytes - kL4));
  }
  const be16 sum =
      L4Checksum(IpAddress::FromIpv4(from.address),
                 IpAddress::FromIpv4(to.address), protocol, bytes.subspan(kL4));
  Store(&frame[kL4 + (is_tcp ? 16 : 6)], is_tcp ? sum : UdpChecksumToSend(sum));
  return frame;
}

// Packets from the inside of `flows` connections, contiguous in memory and in
// random order. There are at least 2^18; every connection has one packet, and
// the rest belong to random connections.
class MadeFrames {
 public:
  explicit MadeFrames(uint32_t flows)
      : frames_(std::max<size_t>(1 << 18, std::bit_ceil(flows))) {
    Rng rng(1);
    std::vector<uint32_t> order(frames_.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
      order[i] = i < flows ? i : static_cast<uint32_t>(rng.Below(flows));
    }
    rng.Shuffle(std::span(order));
    for (size_t i = 0; i < order.size(); ++i) {
      const MadeConnection of = MadeConnection::Number(order[i]);
      frames_[i] = MakeFrame(of.protocol, of.inside, of.far);
    }
  }

  size_t count() const { return frames_.size(); }  // a power of two
  std::span<const std::byte> frame(size_t i) const {
    return std::span(frames_[i]).first(kMadeBytes);
  }

 private:
  std::vector<MadeFrame> frames_;
};

}  // namespace snf

#endif  // SNF_BASE_PACKET_FIXTURE_FLOWS_H_
