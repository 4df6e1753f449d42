// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/readdress.h"

#include <algorithm>
#include <optional>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Bytes = std::span<std::byte>;

const IpAddress& Mapped(const IpAddress& address, const AddressMap& map) {
  for (size_t i = 0; i < map.from.size(); ++i) {
    if (address == map.from[i]) return map.to[i];
  }
  return address;
}

struct Ends {
  IpAddress source;
  IpAddress destination;
};

// The IP header at `packet.l3_offset`, whose version is as parsed.
Ends EndsOf(Bytes frame, const ParsedPacket& packet) {
  if (packet.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<std::byte>::At(frame, packet.l3_offset);
    return {IpAddress::FromIpv4(ip.source()),
            IpAddress::FromIpv4(ip.destination())};
  }
  const auto ip = Ipv6Header<std::byte>::At(frame, packet.l3_offset);
  return {ip.source(), ip.destination()};
}

// Returns the offset in layer 4 of the checksum that covers the addresses, if
// there is one.
std::optional<size_t> PseudoChecksumOffset(const ParsedPacket& packet) {
  switch (packet.l4_protocol) {
    case IpProtocol::kTcp:
      return TcpHeader<std::byte>::kChecksumOffset;
    case IpProtocol::kUdp:
      return UdpHeader<std::byte>::kChecksumOffset;
    case IpProtocol::kIcmpv6:
      return IcmpHeader<std::byte>::kChecksumOffset;
    default:
      return std::nullopt;
  }
}

void UpdateL4(Bytes frame, const ParsedPacket& packet, const Ends& before,
              const Ends& after) {
  const std::optional<size_t> offset = PseudoChecksumOffset(packet);
  if (!offset || packet.fragment == Fragment::kLater ||
      packet.l4_bytes() < *offset + sizeof(be16)) {
    return;
  }
  std::byte* const field = &frame[packet.l4_offset + *offset];
  be16 checksum = LoadBe16(field);
  const bool is_udp = packet.l4_protocol == IpProtocol::kUdp;
  if (is_udp && checksum == be16(0)) return;
  checksum = UpdateChecksum(checksum, before.source, after.source);
  checksum = UpdateChecksum(checksum, before.destination, after.destination);
  Store(field, is_udp ? UdpChecksumToSend(checksum) : checksum);
}

void ReplaceEnds(Bytes frame, const ParsedPacket& packet,
                 const AddressMap& map) {
  const Ends before = EndsOf(frame, packet);
  const Ends after = {Mapped(before.source, map),
                      Mapped(before.destination, map)};
  if (packet.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<std::byte>::At(frame, packet.l3_offset);
    ip.set_checksum(UpdateChecksum(
        UpdateChecksum(ip.checksum(), before.source, after.source),
        before.destination, after.destination));
    ip.set_source(after.source.ipv4());
    ip.set_destination(after.destination.ipv4());
  } else {
    const auto ip = Ipv6Header<std::byte>::At(frame, packet.l3_offset);
    ip.set_source(after.source);
    ip.set_destination(after.destination);
  }
  UpdateL4(frame, packet, before, after);
}

// The packet that an error quotes, and the checksum of the error around it.
void ReplaceQuoted(Bytes frame, const ParsedPacket& error,
                   const AddressMap& map) {
  const ParsedPacket quoted = ParseInner(frame, error);
  if (!quoted.has_ip()) return;
  // All changes are in the IP header and the first words behind it.
  const size_t end = std::min<size_t>(
      quoted.end_offset, quoted.l4_offset + TcpHeader<std::byte>::kMinBytes);
  const Bytes changes = frame.subspan(quoted.l3_offset, end - quoted.l3_offset);
  const be16 before = InternetChecksum(changes);
  ReplaceEnds(frame, quoted, map);
  const auto icmp =
      IcmpHeader<std::byte>::At(frame, error.l4_offset, error.l4_protocol);
  // Complements of sums, hence the other way around.
  icmp.set_checksum(
      UpdateChecksum(icmp.checksum(), InternetChecksum(changes), before));
}

// Returns true if the frame has all bytes that the packet's length fields
// promise.
bool IsWhole(Bytes frame, const ParsedPacket& packet) {
  if (packet.result != ParseResult::kComplete ||
      packet.fragment != Fragment::kNone) {
    return false;
  }
  const size_t ip_bytes = packet.end_offset - packet.l3_offset;
  if (packet.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<std::byte>::At(frame, packet.l3_offset);
    if (ip.total_bytes() != ip_bytes) return false;
  } else {
    const auto ip = Ipv6Header<std::byte>::At(frame, packet.l3_offset);
    // If there is a routing header, the checksum is over another destination.
    if (ip.payload_bytes() + Ipv6Header<std::byte>::kBytes != ip_bytes ||
        ip.next_header() == IpProtocol::kRouting ||
        ip.next_header() == IpProtocol::kHopByHop) {
      return false;
    }
  }
  if (packet.l4_protocol != IpProtocol::kUdp) return true;
  const auto udp = UdpHeader<std::byte>::At(frame, packet.l4_offset);
  return udp.length_bytes() == packet.l4_bytes() &&
         (udp.checksum() != be16(0) || packet.l3 == L3::kIpv6);
}

}  // namespace

void Readdress(Bytes frame, const ParsedPacket& packet, const AddressMap& map) {
  ReplaceEnds(frame, packet, map);
  if (packet.icmp_inner_offset != 0) ReplaceQuoted(frame, packet, map);
}

void FillChecksums(Bytes frame, const ParsedPacket& packet) {
  if (packet.l3 == L3::kIpv4) {
    FillIpv4Checksum(Ipv4Header<std::byte>::At(frame, packet.l3_offset));
  }
  const bool is_icmp =
      packet.l3 == L3::kIpv4 && packet.l4_protocol == IpProtocol::kIcmp;
  const std::optional<size_t> offset =
      is_icmp ? IcmpHeader<std::byte>::kChecksumOffset
              : PseudoChecksumOffset(packet);
  if (!offset || !IsWhole(frame, packet)) return;
  const Bytes l4 = frame.subspan(packet.l4_offset, packet.l4_bytes());
  Store(&l4[*offset], be16(0));
  const Ends ends = EndsOf(frame, packet);
  be16 checksum = is_icmp ? InternetChecksum(l4)
                          : L4Checksum(ends.source, ends.destination,
                                       packet.l4_protocol, l4);
  if (packet.l4_protocol == IpProtocol::kUdp) {
    checksum = UdpChecksumToSend(checksum);
  }
  Store(&l4[*offset], checksum);
}

}  // namespace snf
