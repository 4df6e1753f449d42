// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_LB_TUNNEL_H_
#define SNF_NFS_LB_TUNNEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nfs/lb_options.h"
#include "runtime/sdk/packet.h"

namespace snf {

// The headers that bring a packet to a server as it is, for direct return: IP
// in IP (RFC 2003, RFC 2473), or UDP in front of the IP packet, which is
// variant 1 of GUE (draft-ietf-intarea-gue-09 §4). The traffic class is that of
// the packet (RFC 6040); IPv4 has DF and no identification (RFC 6864). The UDP
// source port, 49152 or higher, and the flow label tell connections apart; the
// UDP checksum is 0 (RFC 6935).
class LbOuterHeaders {
 public:
  // `entropy` is the same for all packets of a connection.
  LbOuterHeaders(const LbOptions& options, const LbEnd& server,
                 const Packet& packet, uint64_t entropy);
  std::span<const std::byte> bytes() const {
    return std::span(bytes_).first(size_);
  }

 private:
  std::array<std::byte, 40 + 8> bytes_{};
  size_t size_ = 0;
};

// Returns the bytes that the outer headers have.
size_t LbOuterBytes(const LbOptions& options, bool to_ipv6);

}  // namespace snf

#endif  // SNF_NFS_LB_TUNNEL_H_
