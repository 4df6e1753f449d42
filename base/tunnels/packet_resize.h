// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TUNNELS_PACKET_RESIZE_H_
#define SNF_BASE_TUNNELS_PACKET_RESIZE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/packet/packet_info.h"

namespace snf {

// The outcome of a change of a packet's size. Anything but kDone leaves the
// packet as it was.
enum class PacketResize : uint8_t {
  kDone,
  kNoRoom,   // the buffer has no room for the bytes
  kTooLong,  // the IP packet would be longer than the MTU, or than IP allows
  // The packet is not whole: a fragment, or a frame that the capture cut; or
  // its protocol is not TCP, UDP or ICMP.
  kNotWhole,
  // The bytes to be removed are more than the packet has, or they leave no IP
  // packet.
  kTooShort,
  // The link header has a length, or cannot name the version of IP.
  kLink,
  kNoCounterpart,  // the other version of IP has none (ip_translation.h)
};
// Returns "done", "no_room" …
std::string_view Name(PacketResize outcome);

// Theory of operation. A packet lies at the beginning of its room, which may be
// larger. These functions change its size in place: bytes behind the change
// move, and `info` says how long the packet now is and where its headers are.
// Padding of the frame is dropped. `mtu` is the most bytes of an IP packet,
// without link header.
//
// The link header stays, and names the version of IP that follows it. It must
// be Ethernet II or PPP with or without VLAN tags, Linux cooked, raw IP, or,
// where the version stays, a loopback header; others have lengths of their own.
//
// Example: prepending an IPv4 header of 20 bytes to a frame of 14 + 40 bytes
// moves 40 bytes by 20, and the outer header says 60 bytes.
//
// Budget: ≤ 100 ns for 1,500 bytes; no allocation.

// Returns the bytes of the IP packet as sent, from its header on: as its own
// length says, or, if that is 0, up to the end of the frame.
uint32_t IpBytes(const PacketInfo& info, std::span<const std::byte> frame);

// Puts headers in front of the IP packet. They begin with an IPv4 or IPv6
// header, whose length and checksum are filled in; if a UDP header follows, its
// length too. Its checksum stays as given. The packet may be a fragment, or cut
// by the capture.
PacketResize PrependHeaders(PacketInfo& info, std::span<std::byte> room,
                            std::span<const std::byte> headers, uint32_t mtu);

// Removes bytes in front of the IP packet, so that another IP packet in it
// begins the frame.
PacketResize RemoveHeaders(PacketInfo& info, std::span<std::byte> room,
                           uint32_t bytes);

// Puts headers, which begin with an IPv4 or IPv6 header and are right as they
// are, in the place of the first bytes of the IP packet.
PacketResize ReplaceHeaders(PacketInfo& info, std::span<std::byte> room,
                            uint32_t removed,
                            std::span<const std::byte> headers, uint32_t mtu);

// Appends data to the payload of the packet, or trims bytes off its end. The
// lengths of IP and UDP and the checksums of IPv4, TCP, UDP and ICMP follow
// (RFC 1624): a wrong one stays as wrong as it was.
PacketResize AppendPayload(PacketInfo& info, std::span<std::byte> room,
                           std::span<const std::byte> data, uint32_t mtu);
PacketResize TrimPayload(PacketInfo& info, std::span<std::byte> room,
                         uint32_t bytes);

}  // namespace snf

#endif  // SNF_BASE_TUNNELS_PACKET_RESIZE_H_
