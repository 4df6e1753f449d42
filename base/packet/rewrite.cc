// SPDX-License-Identifier: Apache-2.0
#include "base/packet/rewrite.h"

#include <algorithm>
#include <type_traits>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Bytes = std::span<std::byte>;

enum class PacketEnd : uint8_t { kSource, kDestination };

// The new port of an end, and what becomes of checksums over its address.
struct Change {
  PacketEnd end;
  be16 port;
  ChecksumChange address;
};

// Returns true if the protocol's checksum covers the IP addresses.
template <typename Address>
constexpr bool CoversAddresses(IpProtocol protocol) {
  return std::is_same_v<Address, IpAddress> || protocol == IpProtocol::kTcp ||
         protocol == IpProtocol::kUdp;
}

// Sets the port or identifier at `offset` of `l4`, if it was captured, and
// updates the checksum, if that was captured. The checksum covers the address
// where it covers a pseudo header.
void SetPort(Bytes l4, size_t offset, size_t checksum_offset,
             IpProtocol protocol, bool covers_addresses, const Change& change) {
  if (l4.size() < offset + sizeof(be16)) return;
  ChecksumChange words = covers_addresses ? change.address : ChecksumChange();
  words.Replace(LoadBe16(&l4[offset]), change.port);
  Store(&l4[offset], change.port);
  if (l4.size() < checksum_offset + sizeof(be16)) return;
  be16 checksum = LoadBe16(&l4[checksum_offset]);
  const bool is_udp = protocol == IpProtocol::kUdp;
  if (is_udp && checksum == be16(0)) return;
  checksum = words.ApplyTo(checksum);
  Store(&l4[checksum_offset], is_udp ? UdpChecksumToSend(checksum) : checksum);
}

template <typename Address>
void RewriteL4(Bytes l4, const ParsedPacket& headers, const Change& change) {
  if (headers.fragment == Fragment::kLater) return;
  const bool covers_addresses = CoversAddresses<Address>(headers.l4_protocol);
  const size_t port_offset = change.end == PacketEnd::kSource ? 0 : 2;
  switch (headers.l4_protocol) {
    case IpProtocol::kTcp:
      return SetPort(l4, port_offset, TcpHeader<std::byte>::kChecksumOffset,
                     headers.l4_protocol, covers_addresses, change);
    case IpProtocol::kUdp:
      return SetPort(l4, port_offset, UdpHeader<std::byte>::kChecksumOffset,
                     headers.l4_protocol, covers_addresses, change);
    case IpProtocol::kIcmp:
    case IpProtocol::kIcmpv6: {
      const auto icmp = IcmpHeader<std::byte>::At(l4, 0, headers.l4_protocol);
      if (!icmp) return;
      if (icmp.is_query()) {
        constexpr size_t kIdentifierOffset = 4;
        return SetPort(l4, kIdentifierOffset,
                       IcmpHeader<std::byte>::kChecksumOffset,
                       headers.l4_protocol, covers_addresses, change);
      }
      if (covers_addresses) {
        icmp.set_checksum(change.address.ApplyTo(icmp.checksum()));
      }
      return;
    }
    default:
      return;
  }
}

// Rewrites one end of the packet that `headers` describes: the frame's own
// packet or the quoted one.
template <typename Address>
void RewriteOne(Bytes frame, const ParsedPacket& headers, PacketEnd end,
                const Address& address, be16 port) {
  const auto set = [&](const auto& ip) {
    const bool is_source = end == PacketEnd::kSource;
    const Address before = is_source ? ip.source() : ip.destination();
    is_source ? ip.set_source(address) : ip.set_destination(address);
    Change change = {.end = end, .port = port, .address = {}};
    change.address.Replace(before, address);
    RewriteL4<Address>(frame.subspan(headers.l4_offset, headers.l4_bytes()),
                       headers, change);
    return change.address;
  };
  if constexpr (std::is_same_v<Address, be32>) {
    const auto ip = Ipv4Header<std::byte>::At(frame, headers.l3_offset);
    const ChecksumChange change = set(ip);
    ip.set_checksum(change.ApplyTo(ip.checksum()));
  } else {
    set(Ipv6Header<std::byte>::At(frame, headers.l3_offset));
  }
}

template <typename Address>
constexpr L3 kVersionOf = std::is_same_v<Address, be32> ? L3::kIpv4 : L3::kIpv6;

// Rewrites the quoted packet and updates the checksum of the message around it.
template <typename Address>
void RewriteQuoted(Bytes frame, const ParsedPacket& outer, PacketEnd end,
                   const Address& address, be16 port) {
  const ParsedPacket quoted = ParseInner(frame, outer);
  if (quoted.l3 != kVersionOf<Address>) return;
  // All changes lie in the two quoted headers, and the checksum of the second
  // ends at most 18 bytes behind its beginning.
  constexpr size_t kL4Bytes = TcpHeader<std::byte>::kMinBytes;
  const size_t end_offset =
      std::min<size_t>(quoted.end_offset, quoted.l4_offset + kL4Bytes);
  const Bytes changes =
      frame.subspan(quoted.l3_offset, end_offset - quoted.l3_offset);
  const be16 before = InternetChecksum(changes);
  RewriteOne(frame, quoted, end, address, port);
  // The two checksums are complements of the sums of words, hence their order.
  const auto icmp =
      IcmpHeader<std::byte>::At(frame, outer.l4_offset, outer.l4_protocol);
  icmp.set_checksum(
      UpdateChecksum(icmp.checksum(), InternetChecksum(changes), before));
}

template <typename Address>
void Rewrite(Bytes frame, const ParsedPacket& headers, PacketEnd end,
             const Address& address, be16 port) {
  if (headers.l3 != kVersionOf<Address>) return;
  RewriteOne(frame, headers, end, address, port);
  if (headers.icmp_inner_offset == 0 || !IsIcmp(headers.l4_protocol)) return;
  RewriteQuoted(
      frame, headers,
      end == PacketEnd::kSource ? PacketEnd::kDestination : PacketEnd::kSource,
      address, port);
}

void Rewrite(Bytes frame, const ParsedPacket& headers, PacketEnd end,
             const IpAddress& address, be16 port) {
  if (headers.l3 == L3::kIpv4) {
    Rewrite<be32>(frame, headers, end, address.ipv4(), port);
  } else {
    Rewrite<IpAddress>(frame, headers, end, address, port);
  }
}

}  // namespace

void RewriteSource(std::span<std::byte> frame, const ParsedPacket& headers,
                   be32 address, be16 port) {
  Rewrite<be32>(frame, headers, PacketEnd::kSource, address, port);
}

void RewriteDestination(std::span<std::byte> frame, const ParsedPacket& headers,
                        be32 address, be16 port) {
  Rewrite<be32>(frame, headers, PacketEnd::kDestination, address, port);
}

void RewriteSource(std::span<std::byte> frame, const ParsedPacket& headers,
                   const IpAddress& address, be16 port) {
  Rewrite(frame, headers, PacketEnd::kSource, address, port);
}

void RewriteDestination(std::span<std::byte> frame, const ParsedPacket& headers,
                        const IpAddress& address, be16 port) {
  Rewrite(frame, headers, PacketEnd::kDestination, address, port);
}

}  // namespace snf
