// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_PACKET_H_
#define SNF_NFS_LB_PACKET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/packet/link_reversal.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_parser.h"
#include "nfs/lb_options.h"
#include "runtime/sdk/packet.h"

namespace snf {

// The fields of a packet that the load balancer looks at.
struct LbView {
  // The ends of the packet. An ICMP error has the ends of the packet that it
  // quotes, exchanged. Later fragments have no ports.
  LbEnd from;
  LbEnd to;
  // Layer 4 is malformed, or ends in the midst of its header as sent. Bytes cut
  // off by the capture's snap length are taken as correct if the ports were
  // captured, and with TCP the flags.
  bool is_malformed = false;
  bool is_error = false;  // of ICMP
  bool is_later_fragment = false;
  // The TCP header is whole as far as the flags, so the next two are valid.
  bool has_tcp = false;
  uint8_t tcp_flags = 0;
  uint32_t tcp_sequence = 0;

  // Returns true for a SYN that begins a connection.
  bool is_syn() const;
};

LbView ReadLbPacket(const Packet& packet);

// Returns the server identifier in a QUIC packet's connection id
// (draft-ietf-quic-load-balancers-19 §4.1: plaintext), of `id_bytes` behind the
// first octet. Returns nothing if the id was chosen by the client (Initial and
// 0-RTT), says itself that it cannot be routed, or is too short.
std::optional<uint32_t> QuicServerId(std::span<const std::byte> payload,
                                     uint32_t id_bytes);

// Returns true if a packet may be sent to this address in answer: it names one
// host.
bool MayAnswer(const IpAddress& to, bool is_ipv6);

// The TCP reset that answers a segment in `frame` (RFC 9293 §3.5.2, group 1),
// of IPv4 or IPv6, framed as the segment was. frame() is empty if there must be
// no answer: to a reset, to a group address, or if the link header cannot be
// reversed; it is valid as long as this object.
class LbReset {
 public:
  LbReset(LinkType link, std::span<const std::byte> frame,
          const ParsedPacket& headers);
  std::span<const std::byte> frame() const {
    return std::span(bytes_).first(size_);
  }

 private:
  static constexpr size_t kMaxIpBytes = 40 + 20;
  std::array<std::byte, kMaxReversedLinkBytes + kMaxIpBytes> bytes_{};
  size_t size_ = 0;
};

}  // namespace snf

#endif  // SNF_NFS_LB_PACKET_H_
