// SPDX-License-Identifier: Apache-2.0
#include "base/packet/rewrite.h"

#include <algorithm>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Bytes = std::span<std::byte>;

enum class End : uint8_t { kSource, kDestination };

// The new end, and the address before.
struct Change {
  End end;
  be32 address_before;
  be32 address;
  be16 port;
};

// Sets the port or identifier at `offset` of `l4`, if it was captured, and
// updates the checksum, if that was captured. The checksum covers the address
// where it covers a pseudo header.
void SetPort(Bytes l4, size_t offset, size_t checksum_offset,
             IpProtocol protocol, const Change& change) {
  if (l4.size() < offset + sizeof(be16)) return;
  const be16 before = LoadBe16(&l4[offset]);
  Store(&l4[offset], change.port);
  if (l4.size() < checksum_offset + sizeof(be16)) return;
  be16 checksum = LoadBe16(&l4[checksum_offset]);
  if (protocol == IpProtocol::kUdp) {
    if (checksum == be16(0)) return;
    checksum = UpdateChecksum(checksum, change.address_before, change.address);
    checksum = UdpChecksumToSend(UpdateChecksum(checksum, before, change.port));
  } else {
    if (protocol == IpProtocol::kTcp) {
      checksum =
          UpdateChecksum(checksum, change.address_before, change.address);
    }
    checksum = UpdateChecksum(checksum, before, change.port);
  }
  Store(&l4[checksum_offset], checksum);
}

void RewriteL4(Bytes l4, const ParsedPacket& headers, const Change& change) {
  if (headers.fragment == Fragment::kLater) return;
  const size_t port_offset = change.end == End::kSource ? 0 : 2;
  switch (headers.l4_protocol) {
    case IpProtocol::kTcp:
      return SetPort(l4, port_offset, TcpHeader<std::byte>::kChecksumOffset,
                     headers.l4_protocol, change);
    case IpProtocol::kUdp:
      return SetPort(l4, port_offset, UdpHeader<std::byte>::kChecksumOffset,
                     headers.l4_protocol, change);
    case IpProtocol::kIcmp: {
      const auto icmp = IcmpHeader<std::byte>::At(l4, 0, headers.l4_protocol);
      if (!icmp || !icmp.is_query()) return;
      constexpr size_t kIdentifierOffset = 4;
      return SetPort(l4, kIdentifierOffset,
                     IcmpHeader<std::byte>::kChecksumOffset,
                     headers.l4_protocol, change);
    }
    default:
      return;
  }
}

// Rewrites one end of the packet that `headers` describes: the frame's own or
// the one that it quotes.
void RewriteOne(Bytes frame, const ParsedPacket& headers, End end, be32 address,
                be16 port) {
  const auto ip = Ipv4Header<std::byte>::At(frame, headers.l3_offset);
  const bool is_source = end == End::kSource;
  const be32 before = is_source ? ip.source() : ip.destination();
  ip.set_checksum(UpdateChecksum(ip.checksum(), before, address));
  is_source ? ip.set_source(address) : ip.set_destination(address);
  RewriteL4(frame.subspan(headers.l4_offset, headers.l4_bytes()), headers,
            {end, before, address, port});
}

// Rewrites the quoted packet and updates the checksum of the message around it.
void RewriteQuoted(Bytes frame, const ParsedPacket& outer, End end,
                   be32 address, be16 port) {
  const ParsedPacket quoted = ParseInner(frame, outer);
  if (quoted.l3 != L3::kIpv4) return;
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

void Rewrite(Bytes frame, const ParsedPacket& headers, End end, be32 address,
             be16 port) {
  if (headers.l3 != L3::kIpv4) return;
  RewriteOne(frame, headers, end, address, port);
  if (headers.icmp_inner_offset == 0 ||
      headers.l4_protocol != IpProtocol::kIcmp) {
    return;
  }
  RewriteQuoted(frame, headers,
                end == End::kSource ? End::kDestination : End::kSource, address,
                port);
}

}  // namespace

void RewriteSource(std::span<std::byte> frame, const ParsedPacket& headers,
                   be32 address, be16 port) {
  Rewrite(frame, headers, End::kSource, address, port);
}

void RewriteDestination(std::span<std::byte> frame, const ParsedPacket& headers,
                        be32 address, be16 port) {
  Rewrite(frame, headers, End::kDestination, address, port);
}

}  // namespace snf
