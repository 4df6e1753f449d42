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

// What a packet's text (test_packet_text.h) says of an Ethernet frame with IP,
// and what is as if not said.
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
  uint32_t seq = 0;  // of TCP, or of ICMP
  uint32_t ack = 0;
  uint16_t window = 65'535;
  Frame tcp_options;
  Frame payload;               // of an ICMP error what it quotes
  bool is_icmp_error = false;  // to be read only
  bool no_checksum = false;
  std::optional<uint16_t> bad_checksum;
  std::optional<uint16_t> bad_ip_checksum;

  bool is_ipv4() const { return flow.form == FlowKeyForm::kIpv4; }
};

Frame FrameOf(const TestPacketFields& fields);
// As well as they can say it: FrameOf of them may be another frame. Without
// value where there is no IP.
std::optional<TestPacketFields> FieldsOf(const Frame& frame);
std::string TextOf(const TestPacketFields& fields);
// "x'00ff'".
std::string HexText(std::span<const std::byte> bytes);

// By bit.
inline constexpr std::array<std::string_view, 8> kTcpFlagNames = {
    "FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"};

// Types of ICMP that have a name.
struct TestIcmpName {
  std::string_view name;
  int ipv4;  // -1: not there
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
