// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TUNNELS_IP_TRANSLATION_H_
#define SNF_BASE_TUNNELS_IP_TRANSLATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/packet_info.h"
#include "base/tunnels/packet_resize.h"

namespace snf {

// An IPv6 prefix whose addresses have IPv4 addresses in them (RFC 6052 §2.2).
// Example: in 64:ff9b::/96, 192.0.2.33 is 64:ff9b::192.0.2.33; in
// 2001:db8:122::/48 it is 2001:db8:122:c000:2:2100::.
class Ipv4InIpv6 {
 public:
  // Returns nothing if the length is not 32, 40, 48, 56, 64 or 96, or bits 64
  // to 71 are not zero.
  static std::optional<Ipv4InIpv6> Of(const IpPrefix& prefix);

  IpAddress Embed(be32 address) const;
  // Returns nothing for an address that is not in the prefix. A suffix that is
  // not zero is ignored.
  std::optional<be32> Extract(const IpAddress& address) const;

  friend bool operator==(const Ipv4InIpv6&, const Ipv4InIpv6&) = default;

 private:
  explicit Ipv4InIpv6(const IpPrefix& prefix) : prefix_(prefix) {}

  IpPrefix prefix_;
};

// The addresses of one translated packet: `stand_in` is the IPv4 address of the
// IPv6 host `inside`; all other addresses are in `prefix`.
struct IpTranslation {
  Ipv4InIpv6 prefix;
  be32 stand_in;
  IpAddress inside;
};

// Translates an IP packet to the other version, in place (RFC 7915): its IP
// header, ICMP's and ICMPv6's messages, and the packet that an ICMP error
// quotes; checksums follow, and a wrong one stays as wrong as it was. TTL and
// hop limit stay, for this is no hop. IPv4 options, IPv6 extension headers but
// that of fragments, and the flow label are dropped. Fragments stay fragments.
// An IPv4 packet of at most 1,260 bytes may be fragmented, a longer one not
// (RFC 7915 §5.1). From an ICMPv6 error, a source that has no IPv4 address
// becomes the stand-in, as it is a router's on the inside.
//
// Returns kNoCounterpart if the packet has none in the other version: an
// address that the translation lacks, a protocol other than TCP, UDP, ICMP
// and ICMPv6, a fragmented ICMP message, a type of ICMP that
// RFC 7915 §4.2 or §5.2 drops, a source route, or UDP over IPv4 without
// checksum in a fragment. kNotWhole means that the capture has cut an ICMP
// error, or a UDP packet that needs a checksum. `mtu` and other results are as
// in PrependHeaders. Anything but kDone leaves the packet as it was. Budget: ≤
// 100 ns for 1,500 bytes; no allocation.
PacketResize TranslateIp(PacketInfo& info, std::span<std::byte> room,
                         const IpTranslation& translation, uint32_t mtu);

}  // namespace snf

#endif  // SNF_BASE_TUNNELS_IP_TRANSLATION_H_
