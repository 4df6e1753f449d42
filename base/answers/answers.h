// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_ANSWERS_ANSWERS_H_
#define SNF_BASE_ANSWERS_ANSWERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/packet/link_reversal.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_parser.h"
#include "base/time.h"

namespace snf {

// Theory of operation. Answers go back to the sender of a packet that is not
// forwarded: framed as the packet was, with Ethernet's addresses exchanged, and
// of the packet's diffserv class (RFC 5508 §7.7).
//
// There is no answer, and frame() is empty, if the sender could not use it, or
// others would suffer (RFC 1812 §4.3.2.7, RFC 4443 §2.4): the source is no
// host's address, the destination is a group or broadcast address, in IP or in
// the frame, the packet is a later fragment, or the link header cannot be
// reversed. frame() is valid as long as the answer.

// Returns false for an IPv4 address that no host has as its own: "this
// network", loopback, multicast, reserved, limited broadcast (RFC 1812 §5.3.7).
constexpr bool IsHostAddress(be32 address) {
  const uint32_t net = address.host() >> 24;
  return net != 0 && net != 127 && net < 224;
}

// The least time between two answers to one flow (RFC 1812 §4.3.2.8).
inline constexpr Nanos kAnswerPeriod = Seconds(1);

// The reset of a TCP connection that does not exist (RFC 9293 §3.10.7.1), from
// the segment's destination. A reset is not answered, nor is a segment whose
// header is not whole.
class TcpReset {
 public:
  TcpReset(LinkType link, std::span<const std::byte> frame,
           const ParsedPacket& headers);
  std::span<const std::byte> frame() const {
    return std::span(bytes_).first(size_);
  }

 private:
  static constexpr size_t kMaxIpBytes = 40 + 20;
  std::array<std::byte, kMaxReversedLinkBytes + kMaxIpBytes> bytes_{};
  size_t size_ = 0;
};

// An ICMP or ICMPv6 error, with as much of the packet as the least MTU of its
// version of IP holds (RFC 1812 §4.3.2.3, RFC 4443 §2.4). An ICMP error or a
// redirect is not answered.
class IcmpError {
 public:
  // Return "communication administratively prohibited" (RFC 1812 §5.2.7.1, RFC
  // 4443 §3.1), from the packet's destination or from another address.
  static IcmpError Prohibited(LinkType link, std::span<const std::byte> frame,
                              const ParsedPacket& headers);
  static IcmpError Prohibited(LinkType link, std::span<const std::byte> frame,
                              const ParsedPacket& headers,
                              const IpAddress& from);
  // Return "fragmentation needed" (RFC 1191) or "packet too big" (RFC 4443
  // §3.2), from the packet's destination or from another address.
  static IcmpError TooBig(LinkType link, std::span<const std::byte> frame,
                          const ParsedPacket& headers, uint32_t mtu);

  static IcmpError TooBig(LinkType link, std::span<const std::byte> frame,
                          const ParsedPacket& headers, uint32_t mtu,
                          const IpAddress& from);
  // Return a router's errors, from an address of its own (RFC 792, RFC 4443
  // §3.1, §3.3).
  static IcmpError TimeExceeded(LinkType link, std::span<const std::byte> frame,
                                const ParsedPacket& headers,
                                const IpAddress& from);
  enum class Unreached : uint8_t { kNetwork, kHost, kPort };
  static IcmpError Unreachable(LinkType link, std::span<const std::byte> frame,
                               const ParsedPacket& headers,
                               const IpAddress& from, Unreached what);

  std::span<const std::byte> frame() const {
    return std::span(bytes_).first(size_);
  }

 private:
  static constexpr size_t kMaxIpv4Bytes = 576, kMaxIpv6Bytes = 1'280;
  // The parts of a message that differ. `rest` is the second word.
  struct Message {
    uint8_t type;
    uint8_t code;
    uint32_t rest = 0;
  };
  IcmpError(LinkType link, std::span<const std::byte> frame,
            const ParsedPacket& headers, const IpAddress& from,
            const Message& message);

  // Not zeroed as a whole.
  std::array<std::byte, kMaxReversedLinkBytes + kMaxIpv6Bytes> bytes_;
  size_t size_ = 0;
};

}  // namespace snf

#endif  // SNF_BASE_ANSWERS_ANSWERS_H_
