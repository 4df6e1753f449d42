// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_ANSWERS_IP_WRITING_H_
#define SNF_BASE_ANSWERS_IP_WRITING_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_headers.h"
#include "base/packet/protocol_numbers.h"

namespace snf {

// The hops that a packet of our own making may take.
inline constexpr uint8_t kOwnHops = 64;

// Write an IP header of our own into the first bytes of `ip`, which are zeros.
// Length and, with IPv4, checksum are left to the caller. IPv4 has DF and
// identification 0 (RFC 6864 §4.1).
inline void WriteIpv4Header(std::span<std::byte> ip, uint8_t traffic_class,
                            IpProtocol protocol, const IpAddress& from,
                            const IpAddress& to) {
  ip[0] = std::byte{0x45};
  ip[1] = std::byte{traffic_class};
  ip[6] = std::byte{0x40};  // DF
  ip[8] = std::byte{kOwnHops};
  ip[9] = static_cast<std::byte>(protocol);
  const auto header = Ipv4Header<std::byte>::At(ip, 0);
  header.set_source(from.ipv4());
  header.set_destination(to.ipv4());
}
inline void WriteIpv6Header(std::span<std::byte> ip, uint8_t traffic_class,
                            uint32_t flow_label, IpProtocol next,
                            const IpAddress& from, const IpAddress& to) {
  Store(ip.data(), be32(uint32_t{6} << 28 | uint32_t{traffic_class} << 20 |
                        (flow_label & 0x000f'ffff)));
  ip[6] = static_cast<std::byte>(next);
  const auto header = Ipv6Header<std::byte>::At(ip, 0);
  header.set_hop_limit(kOwnHops);
  header.set_source(from);
  header.set_destination(to);
}

}  // namespace snf

#endif  // SNF_BASE_ANSWERS_IP_WRITING_H_
