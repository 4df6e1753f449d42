// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_SYSTEM_TEST_TEST_NAT_PACKET_H_
#define SNF_PLATFORM_SYSTEM_TEST_TEST_NAT_PACKET_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/packet/test_packets.h"

// Packets as the model of a NAT reads, changes and compares them: Ethernet,
// IPv4 without options, and TCP, UDP or ICMP. Nothing here is shared with what
// translates (base/packet_parser, base/checksum, base/rewrite), on purpose.
namespace snf {

// An end of a packet. Of ICMP queries the port is the identifier.
struct ModelEnd {
  uint8_t protocol = 0;
  uint16_t port = 0;
  uint32_t address = 0;
  friend auto operator<=>(const ModelEnd&, const ModelEnd&) = default;
};
std::string Text(const ModelEnd& end);

struct ModelPacket {
  enum class Kind : uint8_t { kPlain, kIcmpRequest, kIcmpReply, kIcmpError };

  ModelEnd source;  // ports are 0 in errors and later fragments
  ModelEnd destination;
  Kind kind = Kind::kPlain;
  uint8_t tcp_flags = 0;
  uint16_t id = 0;  // of IP
  bool is_first_fragment = false;
  bool is_later_fragment = false;
  ModelEnd quoted_source;  // of errors
  ModelEnd quoted_destination;
  uint32_t number = 0;  // the last four bytes
  // Of the IP headers and of what layer 4 there is; that of UDP may be 0.
  bool has_good_checksums = false;

  bool is_error() const { return kind == Kind::kIcmpError; }
  bool has_flag(uint8_t flag) const { return (tcp_flags & flag) != 0; }
};
inline constexpr uint8_t kFlagFin = 1, kFlagSyn = 2, kFlagRst = 4,
                         kFlagAck = 16;
inline constexpr uint8_t kProtocolIcmp = 1, kProtocolTcp = 6, kProtocolUdp = 17;

ModelPacket ReadModelPacket(std::span<const std::byte> frame);

// What a translator is to make of a frame, but for checksums: one end becomes
// another; in an error it is the other end of what it quotes too.
Frame WithSource(const Frame& frame, const ModelEnd& source);
Frame WithDestination(const Frame& frame, const ModelEnd& destination);

// Whether `released` is `expected` with checksums as right or wrong as those of
// `offered`, and UDP checksums of 0 left alone. Else what is wrong.
std::string Difference(const Frame& offered, const Frame& expected,
                       const Frame& released);

// Frames of traffic. `number` becomes the last four bytes.
struct ModelFields {
  ModelEnd source;
  ModelEnd destination;
  uint8_t tcp_flags = kFlagAck;
  bool is_reply = false;  // an ICMP reply; else a request
  bool has_udp_checksum = true;
  bool has_wrong_checksum = false;
  uint16_t id = 0;
  uint32_t number = 0;
};
Frame ModelFrame(const ModelFields& fields);
// That packet in two: the first fragment ends with its number.
struct Fragments {
  Frame first;
  Frame later;
};
Fragments ModelFragments(const ModelFields& fields, uint32_t later_number);
// "Host unreachable" from `router` to `to`, about the packet that the fields
// tell of, of which it quotes `quoted_bytes`, 8 or more, of layer 4.
Frame ModelError(uint32_t router, uint32_t to, const ModelFields& about,
                 size_t quoted_bytes);

}  // namespace snf

#endif  // SNF_PLATFORM_SYSTEM_TEST_TEST_NAT_PACKET_H_
