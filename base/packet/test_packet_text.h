// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_TEST_PACKET_TEXT_H_
#define SNF_BASE_PACKET_TEST_PACKET_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/packet/link_type.h"
#include "base/packet/packet_info.h"
#include "base/packet/test_packets.h"
#include "base/time.h"

namespace snf {

// A packet for tests, and the gap before it.
struct TestPacket {
  Frame bytes;
  uint32_t original_length = 0;  // on the wire; never below bytes.size()
  LinkType link = LinkType::kEthernet;
  Nanos gap = Milliseconds(1);  // after the packet before
  Side side = Side::kUnknown;   // by which it comes

  friend bool operator==(const TestPacket&, const TestPacket&) = default;
};

// Reads a packet written in prose:
//
//   udp 10.0.0.1:5000 > 192.0.2.9:53 "query"
//   tcp [2001:db8::1]:5000 > [2001:db8::9]:80 SYN seq=1 vlan=12 ttl=3
//   +20us tcp 10.0.0.1:5000 > 192.0.2.9:80 PSH ACK seq=1 ack=9 len=1460
//   icmp 10.0.0.1 > 192.0.2.9 echo id=7 seq=1 x'00ff'
//   icmp 192.0.2.1 > 10.0.0.1 unreachable code=1
//       about {udp 10.0.0.1:5000 > 192.0.2.9:53}
//   89 10.0.0.1 > 224.0.0.5 "the payload of another protocol"
//   frame x'ffffffffffff 020000000001 0806'             any other bytes
//
// A text begins with the gap to the packet before, 1 ms if none is given, and
// the flow (flow_key_text.h); the words after it may come in any order:
//
//   "…" x'…'           payload, text (with \" \\ \n \r \t) or hexadecimal
//   len=N              bytes of payload; zeros behind what is given
//   wire=N             bytes of the frame before the capture cut it
//   vlan=N             a tag; the outer one first
//   src=MAC dst=MAC    else 02:00:00:00:00:01 and :02
//   ttl=N tos=N        else 64 and 0; of IPv6 hop limit and traffic class
//   ip_id=N offset=N more df       fragments and their like, of IPv4
//   SYN ACK FIN RST PSH URG ECE CWR no_flags     of TCP; else ACK
//   seq=N ack=N win=N options=x'…' of TCP; else 0, 0, 65535, none
//   echo echo_reply unreachable too_big time_exceeded type=N code=N id=N seq=N
//   about {…}          of ICMP; an error quotes header and 8 bytes
//   no_checksum        of UDP
//   bad_checksum=N bad_ip_checksum=N   what stands there instead of the right
//
// Numbers are decimal, or hexadecimal with 0x. Lengths and checksums are
// correct unless the text says otherwise. A word that cannot be read gives
// InvalidArgument, which quotes it.
absl::StatusOr<TestPacket> ParsePacket(const std::string& text);

// Writes a packet in the same form, in one fixed order, without default values
// and without the gap. Texts are equal if and only if the packets are: if a
// packet has parts that the form cannot express (options of IP, other links,
// payloads too long to be shown), its text ends in digest=… over the whole
// packet.
std::string ToText(const TestPacket& packet);

}  // namespace snf

#endif  // SNF_BASE_PACKET_TEST_PACKET_TEXT_H_
