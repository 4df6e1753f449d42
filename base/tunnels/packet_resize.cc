// SPDX-License-Identifier: Apache-2.0
#include "base/tunnels/packet_resize.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const std::byte>;

constexpr uint32_t kMaxLength = 65'535;
constexpr uint32_t kIpv6Bytes = Ipv6Header<Byte>::kBytes;

// --- Link headers -----------------------------------------------------------

// Returns the place of the two bytes that name the version of IP, or 0 if the
// link header has none and needs none.
struct VersionPlace {
  bool is_plain = false;  // the link header has no length of its own
  uint32_t at = 0;
};
VersionPlace PlaceOfVersion(const PacketInfo& info) {
  const ParsedPacket& h = info.headers;
  const uint32_t tags = uint32_t{h.vlan_tags} * VlanTag<Byte>::kBytes;
  const uint32_t before = h.l3_offset - 2u;
  switch (info.link) {
    case LinkType::kRawIp:
      return {.is_plain = true};
    case LinkType::kEthernet:
      return {h.l3_offset == EthernetHeader<Byte>::kBytes + tags, before};
    case LinkType::kLinuxSll:
      return {h.l3_offset == LinuxSllHeader<Byte>::kBytes + tags, before};
    case LinkType::kLinuxSll2:
      return {h.l3_offset == LinuxSll2Header<Byte>::kBytes + tags,
              tags == 0 ? 0 : before};
    case LinkType::kPpp:
      return {h.l3_offset >= 2 && h.vlan_tags == 0, before};
    case LinkType::kNull:
    case LinkType::kLoop:
      return {h.l3_offset == LoopbackHeader<Byte>::kBytes && tags == 0, 0};
    case LinkType::kNflog:
      return {};
  }
  return {};
}

// Returns what stands in the link header for the version of IP, or 0.
uint16_t CodeOf(LinkType link, bool is_ipv6) {
  if (link == LinkType::kPpp) return is_ipv6 ? 0x0057 : 0x0021;
  if (link == LinkType::kEthernet || link == LinkType::kLinuxSll ||
      link == LinkType::kLinuxSll2) {
    return is_ipv6 ? 0x86dd : 0x0800;
  }
  return 0;
}

// Returns true if the link header can name a packet of this version.
bool CanName(const PacketInfo& info, Bytes frame, bool is_ipv6) {
  const VersionPlace place = PlaceOfVersion(info);
  if (!place.is_plain) return false;
  const bool was_ipv6 = info.headers.l3 == L3::kIpv6;
  const uint16_t code = CodeOf(info.link, was_ipv6);
  if (code == 0) {
    return info.link == LinkType::kRawIp || is_ipv6 == was_ipv6;
  }
  return LoadBe16(&frame[place.at]) == be16(code);
}

void NameVersion(const PacketInfo& info, std::span<Byte> frame, bool is_ipv6) {
  const uint16_t code = CodeOf(info.link, is_ipv6);
  if (code == 0) return;
  Store(&frame[PlaceOfVersion(info).at], be16(code));
}

// --- IP ---------------------------------------------------------------------

void SetIpBytes(std::span<Byte> packet, uint32_t bytes) {
  if (const auto ip = Ipv4Header<Byte>::At(packet, 0)) {
    const be16 before = be16(ip.total_bytes());
    ip.set_total_bytes(static_cast<uint16_t>(bytes));
    ip.set_checksum(UpdateChecksum(ip.checksum(), before,
                                   be16(static_cast<uint16_t>(bytes))));
  } else {
    Ipv6Header<Byte>::At(packet, 0).set_payload_bytes(
        static_cast<uint16_t>(bytes - kIpv6Bytes));
  }
}

bool IsTooLong(uint32_t bytes, bool is_ipv6, uint32_t mtu) {
  return bytes > mtu || bytes > kMaxLength + (is_ipv6 ? kIpv6Bytes : 0);
}

// Says where the packet ends, as sent and as captured, and finds its headers.
void Settle(PacketInfo& info, Bytes room, uint32_t end, uint32_t sent_end) {
  info.length = end;
  info.original_length = std::max(end, sent_end);
  Parse(info.link, room.first(end), info.headers);
}

// Puts headers in the place of the first `removed` bytes of the IP packet,
// which then has `bytes` bytes. Settle has to follow.
PacketResize Splice(PacketInfo& info, std::span<Byte> room, uint32_t removed,
                    Bytes headers, uint32_t bytes, uint32_t mtu) {
  const bool is_ipv6 = !Ipv4Header<const Byte>::At(headers, 0);
  SNF_CHECK(!is_ipv6 || Ipv6Header<const Byte>::At(headers, 0));
  const auto added = static_cast<uint32_t>(headers.size());
  const uint32_t l3 = info.headers.l3_offset;
  const uint32_t end = info.headers.end_offset;
  if (!CanName(info, room, is_ipv6)) return PacketResize::kLink;
  if (IsTooLong(bytes, is_ipv6, mtu)) return PacketResize::kTooLong;
  if (end - removed + added > room.size()) return PacketResize::kNoRoom;
  NameVersion(info, room, is_ipv6);
  const uint32_t from = l3 + removed;
  std::memmove(room.data() + l3 + added, room.data() + from, end - from);
  std::memcpy(&room[l3], headers.data(), added);
  return PacketResize::kDone;
}

// The sum of bytes of which the first lies at an odd or even place of the
// checksummed text, as one word of it.
be16 SumOf(Bytes bytes, bool is_odd) {
  const uint16_t sum = static_cast<uint16_t>(~InternetChecksum(bytes).host());
  return be16(is_odd ? static_cast<uint16_t>(sum << 8 | sum >> 8) : sum);
}

// Adapts layer 4 to data that came (from 0) or went (to 0) at its end.
void UpdateL4(std::span<Byte> l4, const ParsedPacket& headers, be16 from,
              be16 to, uint32_t bytes_before, uint32_t bytes_now) {
  const be16 before = be16(static_cast<uint16_t>(bytes_before));
  const be16 now = be16(static_cast<uint16_t>(bytes_now));
  const IpProtocol protocol = headers.l4_protocol;
  if (protocol == IpProtocol::kUdp) {
    const auto udp = UdpHeader<Byte>::At(l4, 0);
    const be16 length = be16(udp.length_bytes());
    const be16 length_now = be16(
        static_cast<uint16_t>(udp.length_bytes() + bytes_now - bytes_before));
    udp.set_length_bytes(length_now.host());
    be16 sum = UpdateUdpChecksum(udp.checksum(), length, length_now);
    sum = UpdateUdpChecksum(sum, before, now);
    udp.set_checksum(UpdateUdpChecksum(sum, from, to));
  } else if (protocol == IpProtocol::kTcp) {
    const auto tcp = TcpHeader<Byte>::At(l4, 0);
    const be16 sum = UpdateChecksum(tcp.checksum(), before, now);
    tcp.set_checksum(UpdateChecksum(sum, from, to));
  } else if (protocol == IpProtocol::kIcmp || protocol == IpProtocol::kIcmpv6) {
    const auto icmp = IcmpHeader<Byte>::At(l4, 0, protocol);
    be16 sum = icmp.checksum();
    if (protocol == IpProtocol::kIcmpv6) sum = UpdateChecksum(sum, before, now);
    icmp.set_checksum(UpdateChecksum(sum, from, to));
  }
}

// Returns true if the packet can be changed at its end.
bool IsWhole(const PacketInfo& info, Bytes frame) {
  const ParsedPacket& h = info.headers;
  const bool is_known = h.l4_protocol == IpProtocol::kTcp ||
                        h.l4_protocol == IpProtocol::kUdp ||
                        h.l4_protocol == IpProtocol::kIcmp ||
                        h.l4_protocol == IpProtocol::kIcmpv6;
  return is_known && h.fragment == Fragment::kNone &&
         h.result == ParseResult::kComplete &&
         h.end_offset == h.l3_offset + IpBytes(info, frame);
}

}  // namespace

std::string_view Name(PacketResize outcome) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "done",      "no_room", "too_long",      "not_whole",
      "too_short", "link",    "no_counterpart"};
  return kNames.at(static_cast<size_t>(outcome));
}

uint32_t IpBytes(const PacketInfo& info, Bytes frame) {
  const ParsedPacket& h = info.headers;
  uint32_t stated = 0;
  if (h.l3 == L3::kIpv4) {
    stated = Ipv4Header<const Byte>::At(frame, h.l3_offset).total_bytes();
  } else {
    stated = Ipv6Header<const Byte>::At(frame, h.l3_offset).payload_bytes();
    if (stated != 0) stated += kIpv6Bytes;
  }
  const uint32_t captured = h.end_offset - h.l3_offset;
  if (stated != 0) return std::max(stated, captured);
  return std::max(info.original_length - h.l3_offset, captured);
}

PacketResize PrependHeaders(PacketInfo& info, std::span<Byte> room,
                            Bytes headers, uint32_t mtu) {
  SNF_CHECK(info.headers.has_ip());
  const auto added = static_cast<uint32_t>(headers.size());
  const uint32_t l3 = info.headers.l3_offset;
  const uint32_t end = info.headers.end_offset;
  const uint32_t bytes = IpBytes(info, room) + added;
  const PacketResize done = Splice(info, room, 0, headers, bytes, mtu);
  if (done != PacketResize::kDone) return done;
  const std::span<Byte> outer = room.subspan(l3, added);
  size_t l4 = kIpv6Bytes;
  bool is_udp = false;
  if (const auto ip = Ipv4Header<Byte>::At(outer, 0)) {
    ip.set_total_bytes(static_cast<uint16_t>(bytes));
    FillIpv4Checksum(ip);
    l4 = ip.header_bytes();
    is_udp = ip.protocol() == IpProtocol::kUdp;
  } else {
    const auto ip6 = Ipv6Header<Byte>::At(outer, 0);
    ip6.set_payload_bytes(static_cast<uint16_t>(bytes - kIpv6Bytes));
    is_udp = ip6.next_header() == IpProtocol::kUdp;
  }
  const auto udp = UdpHeader<Byte>::At(outer, l4);
  if (is_udp && udp) udp.set_length_bytes(static_cast<uint16_t>(bytes - l4));
  Settle(info, room, end + added, l3 + bytes);
  return PacketResize::kDone;
}

PacketResize RemoveHeaders(PacketInfo& info, std::span<Byte> room,
                           uint32_t bytes) {
  SNF_CHECK(info.headers.has_ip());
  const uint32_t l3 = info.headers.l3_offset;
  const uint32_t end = info.headers.end_offset;
  if (bytes >= end - l3) return PacketResize::kTooShort;
  const Bytes inner = room.subspan(l3 + bytes, end - l3 - bytes);
  const bool is_ipv6 = bool{Ipv6Header<const Byte>::At(inner, 0)};
  if (!is_ipv6 && !Ipv4Header<const Byte>::At(inner, 0)) {
    return PacketResize::kTooShort;
  }
  if (!CanName(info, room, is_ipv6)) return PacketResize::kLink;
  const uint32_t sent = IpBytes(info, room) - bytes;
  NameVersion(info, room, is_ipv6);
  std::memmove(&room[l3], inner.data(), inner.size());
  Settle(info, room, end - bytes, l3 + sent);
  return PacketResize::kDone;
}

PacketResize ReplaceHeaders(PacketInfo& info, std::span<Byte> room,
                            uint32_t removed, Bytes headers, uint32_t mtu) {
  SNF_CHECK(info.headers.has_ip());
  const uint32_t l3 = info.headers.l3_offset;
  const uint32_t end = info.headers.end_offset;
  SNF_CHECK(removed <= end - l3);
  const auto added = static_cast<uint32_t>(headers.size());
  const uint32_t bytes = IpBytes(info, room) - removed + added;
  const PacketResize done = Splice(info, room, removed, headers, bytes, mtu);
  if (done != PacketResize::kDone) return done;
  Settle(info, room, end - removed + added, l3 + bytes);
  return PacketResize::kDone;
}

PacketResize AppendPayload(PacketInfo& info, std::span<Byte> room, Bytes data,
                           uint32_t mtu) {
  SNF_CHECK(info.headers.has_ip());
  const ParsedPacket before = info.headers;
  const auto added = static_cast<uint32_t>(data.size());
  const uint32_t bytes = before.end_offset - before.l3_offset + added;
  if (!PlaceOfVersion(info).is_plain) return PacketResize::kLink;
  if (!IsWhole(info, room)) return PacketResize::kNotWhole;
  if (IsTooLong(bytes, before.l3 == L3::kIpv6, mtu)) {
    return PacketResize::kTooLong;
  }
  if (before.end_offset + added > room.size()) return PacketResize::kNoRoom;
  if (data.empty()) return PacketResize::kDone;
  std::memcpy(&room[before.end_offset], data.data(), added);
  SetIpBytes(room.subspan(before.l3_offset), bytes);
  const uint32_t l4_bytes = before.l4_bytes();
  UpdateL4(room.subspan(before.l4_offset, l4_bytes + added), before, be16(0),
           SumOf(data, l4_bytes % 2 != 0), l4_bytes, l4_bytes + added);
  const uint32_t end = before.end_offset + added;
  Settle(info, room, end, end);
  return PacketResize::kDone;
}

PacketResize TrimPayload(PacketInfo& info, std::span<Byte> room,
                         uint32_t bytes) {
  SNF_CHECK(info.headers.has_ip());
  const ParsedPacket before = info.headers;
  if (!PlaceOfVersion(info).is_plain) return PacketResize::kLink;
  if (!IsWhole(info, room)) return PacketResize::kNotWhole;
  if (bytes > before.payload_bytes()) return PacketResize::kTooShort;
  if (bytes == 0) return PacketResize::kDone;
  const uint32_t end = before.end_offset - bytes;
  const uint32_t l4_bytes = before.l4_bytes();
  const be16 went =
      SumOf(room.subspan(end, bytes), (l4_bytes - bytes) % 2 != 0);
  SetIpBytes(room.subspan(before.l3_offset), end - before.l3_offset);
  UpdateL4(room.subspan(before.l4_offset, l4_bytes), before, went, be16(0),
           l4_bytes, l4_bytes - bytes);
  Settle(info, room, end, end);
  return PacketResize::kDone;
}

}  // namespace snf
