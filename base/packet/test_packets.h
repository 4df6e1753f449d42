// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_TEST_PACKETS_H_
#define SNF_BASE_PACKET_TEST_PACKETS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/packet/ip_address.h"
#include "base/packet/link_type.h"

namespace snf {

// Hand-made packets for tests, built from the inside out:
//
//   Ethernet(0x8100, Vlan(7, 0x0800, Ipv4({}, Udp(5000, 53))))
//
// Each function puts one header in front of its payload. Lengths and the
// checksum of IPv4 are correct; checksums of layer 4 are 0. For tests only.
using Frame = std::vector<std::byte>;

// Reads bytes in hexadecimal, as "aa bb 0c"; blanks are ignored.
Frame Hex(const std::string& digits);
Frame operator+(Frame front, const Frame& back);

Frame Ethernet(uint16_t type, const Frame& payload);
Frame Vlan(uint16_t id, uint16_t type, const Frame& payload);
Frame Snap(uint16_t type, const Frame& payload);  // with the 802.3 header
Frame Pppoe(uint16_t ppp_protocol, const Frame& payload);
Frame Mpls(uint32_t label, bool is_bottom, const Frame& payload);
Frame LinuxSll(uint16_t type, const Frame& payload);
Frame LinuxSll2(uint16_t type, const Frame& payload);

struct Ipv4Fields {
  IpAddress source = IpAddress::FromIpv4(be32(0x0a00'0001));       // 10.0.0.1
  IpAddress destination = IpAddress::FromIpv4(be32(0xc000'0209));  // 192.0.2.9
  uint8_t protocol = 17;
  uint16_t id = 0;
  uint16_t fragment_offset_bytes = 0;
  bool more_fragments = false;
  size_t option_words = 0;
};
Frame Ipv4(const Ipv4Fields& fields, const Frame& payload);

struct Ipv6Fields {
  IpAddress source = Address("2001:db8::1");
  IpAddress destination = Address("2001:db8::9");
  uint8_t next_header = 17;

  static IpAddress Address(const char* text);
};
Frame Ipv6(const Ipv6Fields& fields, const Frame& payload);
// Builds a hop-by-hop, routing or destination options header of `words` × 8
// bytes, words ≥ 1.
Frame Ipv6Extension(uint8_t next_header, size_t words, const Frame& payload);
Frame Ipv6Authentication(uint8_t next_header, const Frame& payload);
Frame Ipv6Fragment(uint8_t next_header, uint16_t offset_bytes, bool more,
                   uint32_t id, const Frame& payload);

Frame Tcp(uint16_t source_port, uint16_t destination_port,
          size_t option_words = 0, size_t payload_bytes = 0);
Frame Udp(uint16_t source_port, uint16_t destination_port,
          size_t payload_bytes = 8);
Frame Icmp(uint8_t type, uint8_t code, uint16_t identifier,
           const Frame& payload);

IpAddress V4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);

// A frame of one kind that the parser knows.
struct Sample {
  std::string name;
  LinkType link;
  Frame frame;
};
// Returns a sample of each kind.
std::vector<Sample> AllSamples();

}  // namespace snf

#endif  // SNF_BASE_PACKET_TEST_PACKETS_H_
