// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_PACKET_H_
#define SNF_NFS_LB_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

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

}  // namespace snf

#endif  // SNF_NFS_LB_PACKET_H_
