// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_DHCP_MESSAGE_H_
#define SNF_NFS_DHCP_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/byte_order.h"
#include "base/packet/packet_parser.h"

namespace snf {

inline constexpr uint16_t kDhcpServerPort = 67, kDhcpClientPort = 68;

using MacAddress48 = std::array<std::byte, 6>;

// The types of messages (RFC 2132 §9.6).
enum class DhcpType : uint8_t {
  kDiscover = 1,
  kOffer = 2,
  kRequest = 3,
  kDecline = 4,
  kAck = 5,
  kNak = 6,
  kRelease = 7,
  kInform = 8,
};

// The fields of a client's message that a server needs (RFC 2131 §2, RFC 2132).
// Addresses are 0.0.0.0 if the message has none.
struct DhcpMessage {
  DhcpType type{};
  uint32_t transaction = 0;
  uint16_t flags = 0;
  MacAddress48 hardware{};
  be32 client;     // ciaddr: an address that the client already has
  be32 relay;      // giaddr
  be32 requested;  // option 50
  be32 server;     // option 54
  // Option 82 with its code and length, which goes back to the relay (RFC 3046
  // §2.2). Borrowed from the payload.
  std::span<const std::byte> relay_information;

  bool wants_broadcast() const { return (flags & 0x8000) != 0; }
};

// Returns the payload of a UDP packet for the port of DHCP servers; it is empty
// for any other packet, for fragments, and where the capture has cut it off.
std::span<const std::byte> DhcpPayloadOf(std::span<const std::byte> frame,
                                         const ParsedPacket& headers);

// Reads a client's message. Returns nothing if the bytes are none: not a
// request, a hardware address that is not Ethernet's, no magic cookie, options
// that end early, or no type. Options in the fields `sname` and `file` are not
// read. Budget: ≤ 100 ns.
std::optional<DhcpMessage> ReadDhcp(std::span<const std::byte> payload);

// Returns the hardware address of a client's message, of which no more is read.
std::optional<MacAddress48> DhcpHardwareOf(std::span<const std::byte> payload);

}  // namespace snf

#endif  // SNF_NFS_DHCP_MESSAGE_H_
