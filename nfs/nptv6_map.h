// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_NPTV6_MAP_H_
#define SNF_NFS_NPTV6_MAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/packet/ip_address.h"
#include "base/packet/ip_prefix.h"

namespace snf {

// Maps addresses of one IPv6 prefix to addresses of another, and back (RFC 6296
// §3). The map keeps the sum of an address's words, so no checksum changes: to
// the prefix's change it adds the opposite change of another word. With
// prefixes of at most 48 bits this is the word behind them, the subnet; with
// longer ones the first word of the interface identifier that is not ffff.
//
// Example: from fd01:203:405::/48 to 2001:db8:1::/48, fd01:203:405:1::1234
// becomes 2001:db8:1:d550::1234.
class Nptv6Map {
 public:
  static constexpr uint8_t kMostBits = 64;

  // Returns nothing if a prefix is one of IPv4, is empty or longer than 64
  // bits, or if the prefixes overlap. The shorter one is extended by zeros.
  static std::optional<Nptv6Map> Of(const IpPrefix& inside,
                                    const IpPrefix& outside);

  bool IsInside(const IpAddress& address) const {
    return inside_.Contains(address);
  }
  bool IsOutside(const IpAddress& address) const {
    return outside_.Contains(address);
  }
  // Map an address of the one prefix to the other. Return nothing if the word
  // to be changed is ffff, which has no counterpart.
  std::optional<IpAddress> ToOutside(const IpAddress& inside) const {
    return Map(inside, outside_, adjustment_);
  }
  std::optional<IpAddress> ToInside(const IpAddress& outside) const {
    return Map(outside, inside_, static_cast<uint16_t>(~adjustment_));
  }

 private:
  Nptv6Map(const IpPrefix& inside, const IpPrefix& outside);
  static std::optional<IpAddress> Map(const IpAddress& address,
                                      const IpPrefix& to, uint16_t adjustment);

  IpPrefix inside_;
  IpPrefix outside_;
  // The one's complement sum to be added to a word towards the outside.
  uint16_t adjustment_ = 0;
};

}  // namespace snf

#endif  // SNF_NFS_NPTV6_MAP_H_
