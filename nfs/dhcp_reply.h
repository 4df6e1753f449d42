// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_DHCP_REPLY_H_
#define SNF_NFS_DHCP_REPLY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "nfs/dhcp_message.h"
#include "nfs/dhcp_options.h"
#include "runtime/sdk/packet.h"

namespace snf {

// The frame of a server's answer (RFC 2131 §4.3). It goes to the relay, to the
// address that the client has, or to the address that it gets, or is broadcast,
// as RFC 2131 §4.1 says. In Ethernet it always goes to the sender of the packet
// that it answers, also where the IP destination is 255.255.255.255: only so is
// it known at which port the client is. frame() is valid as long as the answer.
class DhcpReply {
 public:
  // `yours` is the address that the client gets, or 0.0.0.0.
  DhcpReply(const Packet& packet, const DhcpMessage& message,
            const DhcpOptions& options, DhcpType type, be32 yours);

  // Empty if the link header of the packet has no room here.
  std::span<const std::byte> frame() const {
    return std::span(bytes_).first(size_);
  }

 private:
  static constexpr size_t kMaxLinkBytes = 64;
  static constexpr size_t kMaxIpBytes = 1'024;

  // The end of the IP packet that Write fills, from the DHCP message on.
  size_t WriteMessage(const DhcpMessage& message, const DhcpOptions& options,
                      DhcpType type, be32 yours, std::span<std::byte> to);
  static be32 DestinationOf(const DhcpMessage& message, DhcpType type,
                            be32 yours);

  std::array<std::byte, kMaxLinkBytes + kMaxIpBytes> bytes_{};
  size_t size_ = 0;
};

}  // namespace snf

#endif  // SNF_NFS_DHCP_REPLY_H_
