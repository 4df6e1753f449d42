// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_TEST_PACKET_FIELDS_H_
#define SNF_BASE_PACKET_TEST_PACKET_FIELDS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/packet/flow_key.h"
#include "base/packet/l4_headers.h"
#include "base/packet/test_packets.h"

namespace snf {

// The fields of an Ethernet frame with IP that a packet's text
// (test_packet_text.h) can give, with the defaults for those that it leaves
// out.
struct TestPacketFields {
  static inline const Frame kSourceMac = Hex("02 00 00 00 00 01");
  static inline const Frame kDestinationMac = Hex("02 00 00 00 00 02");

  FlowKey flow;  // as FiveTuple gives it
  Frame source_mac = kSourceMac;
  Frame destination_mac = kDestinationMac;
  std::vector<uint16_t> vlans;
  uint8_t ttl = 64;
  uint8_t tos = 0;
  uint16_t ip_id = 0;
  uint16_t fragment_offset_bytes = 0;
  bool more_fragments = false;
  bool dont_fragment = false;
  uint8_t tcp_flags = TcpHeader<std::byte>::kAck;
  uint8_t icmp_type = 8;
  uint8_t icmp_code = 0;
  uint16_t icmp_id = 0;
  uint32_t seq = 0;  // TCP or ICMP
  uint32_t ack = 0;
  uint16_t window = 65'535;
  Frame tcp_options;
  Frame payload;               // of an ICMP error what it quotes
  bool is_icmp_error = false;  // set by FieldsOf, ignored by FrameOf
  bool no_checksum = false;
  std::optional<uint16_t> bad_checksum;
  std::optional<uint16_t> bad_ip_checksum;

  bool is_ipv4() const { return flow.form == FlowKeyForm::kIpv4; }
};

Frame FrameOf(const TestPacketFields& fields);
// Returns the fields that describe a frame best: FrameOf of them may give
// another frame. Returns nothing if the frame has no IP.
std::optional<TestPacketFields> FieldsOf(const Frame& frame);
std::string TextOf(const TestPacketFields& fields);
// Writes bytes as "x'00ff'".
std::string HexText(std::span<const std::byte> bytes);

// The names of the TCP flags, from bit 0.
inline constexpr std::array<std::string_view, 8> kTcpFlagNames = {
    "FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"};

// An ICMP type that has a name.
struct TestIcmpName {
  std::string_view name;
  int ipv4;  // -1: ICMP has no such type
  int ipv6;
};
inline constexpr TestIcmpName kTestIcmpNames[] = {{"echo", 8, 128},
                                                  {"echo_reply", 0, 129},
                                                  {"unreachable", 3, 1},
                                                  {"too_big", -1, 2},
                                                  {"time_exceeded", 11, 3}};
inline int IcmpTypeOf(const TestIcmpName& name, const FlowKey& flow) {
  return flow.protocol == IpProtocol::kIcmp ? name.ipv4 : name.ipv6;
}

}  // namespace snf

#endif  // SNF_BASE_PACKET_TEST_PACKET_FIELDS_H_
