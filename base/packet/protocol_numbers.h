// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_PROTOCOL_NUMBERS_H_
#define SNF_BASE_PACKET_PROTOCOL_NUMBERS_H_

#include <cstdint>

namespace snf {

// The protocol field of IPv4 and the next-header field of IPv6
// (iana.org/assignments/protocol-numbers). Any byte is a valid value; only
// those that this code names are listed.
enum class IpProtocol : uint8_t {
  kHopByHop = 0,
  kIcmp = 1,
  kTcp = 6,
  kUdp = 17,
  kDccp = 33,
  kRouting = 43,
  kFragment = 44,
  kGre = 47,
  kEsp = 50,
  kAuthentication = 51,
  kIcmpv6 = 58,
  kNoNextHeader = 59,
  kDestinationOptions = 60,
  kSctp = 132,
  kMobility = 135,
  kUdpLite = 136,
  kHip = 139,
  kShim6 = 140,
};

// Returns true if the protocol's header begins with a source and a destination
// port.
constexpr bool HasPorts(IpProtocol protocol) {
  return protocol == IpProtocol::kTcp || protocol == IpProtocol::kUdp ||
         protocol == IpProtocol::kSctp || protocol == IpProtocol::kUdpLite ||
         protocol == IpProtocol::kDccp;
}

constexpr bool IsIcmp(IpProtocol protocol) {
  return protocol == IpProtocol::kIcmp || protocol == IpProtocol::kIcmpv6;
}

// Ethernet types (iana.org/assignments/ieee-802-numbers). A value below
// kSmallest is a length: an IEEE 802.3 frame with an LLC header.
enum class EtherType : uint16_t {
  kSmallest = 0x0600,
  kIpv4 = 0x0800,
  kArp = 0x0806,
  kReverseArp = 0x8035,
  kVlan = 0x8100,
  kIpv6 = 0x86dd,
  kMacControl = 0x8808,
  kSlowProtocols = 0x8809,  // LACP, link OAM
  kMpls = 0x8847,
  kMplsMulticast = 0x8848,
  kPppoeDiscovery = 0x8863,
  kPppoeSession = 0x8864,
  kEapol = 0x888e,        // 802.1X, MACsec key agreement
  kServiceVlan = 0x88a8,  // 802.1ad
  kLldp = 0x88cc,
  kMvrp = 0x88f5,
  kMmrp = 0x88f6,
  kPtp = 0x88f7,
  kCfm = 0x8902,       // 802.1ag, G.8032 rings
  kLoopTest = 0x9000,  // Ethernet's configuration testing
  kOldServiceVlan = 0x9100,
};

constexpr bool IsVlan(EtherType type) {
  return type == EtherType::kVlan || type == EtherType::kServiceVlan ||
         type == EtherType::kOldServiceVlan;
}

// Returns true if frames of this type keep a segment alive: they carry no
// packets of its users (nfs/unreadable.md lists them).
constexpr bool IsLinkControl(EtherType type) {
  switch (type) {
    case EtherType::kArp:
    case EtherType::kReverseArp:
    case EtherType::kMacControl:
    case EtherType::kSlowProtocols:
    case EtherType::kPppoeDiscovery:
    case EtherType::kEapol:
    case EtherType::kLldp:
    case EtherType::kMvrp:
    case EtherType::kMmrp:
    case EtherType::kPtp:
    case EtherType::kCfm:
    case EtherType::kLoopTest:
      return true;
    default:
      return false;
  }
}

// PPP protocols (iana.org/assignments/ppp-numbers).
enum class PppProtocol : uint16_t {
  kIpv4 = 0x0021,
  kIpv6 = 0x0057,
  kMpls = 0x0281,
};

// Returns true for the protocols that set up a PPP link or a network protocol
// on it (RFC 1661 §2): 0x8000 and above, such as LCP, CHAP and IPCP.
constexpr bool IsLinkControl(PppProtocol protocol) {
  return static_cast<uint16_t>(protocol) >= 0x8000;
}

}  // namespace snf

#endif  // SNF_BASE_PACKET_PROTOCOL_NUMBERS_H_
