// SPDX-License-Identifier: Apache-2.0
#include "base/tunnels/ip_translation.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/answers/ip_writing.h"
#include "base/check.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const Byte>;

constexpr uint32_t kIpv4HeaderBytes = Ipv4Header<Byte>::kMinBytes;
constexpr uint32_t kIpv6HeaderBytes = Ipv6Header<Byte>::kBytes;
constexpr uint32_t kFragmentBytes = Ipv6FragmentHeader<Byte>::kBytes;
constexpr uint32_t kIcmpBytes = IcmpHeader<Byte>::kBytes;
constexpr uint32_t kLeastIpv6Mtu = 1'280;
// The most bytes of an ICMP error (RFC 1812 §4.3.2.3, RFC 4443 §2.4).
constexpr uint32_t kMaxIpv4Error = 576;
constexpr uint32_t kMaxIpv6Error = kLeastIpv6Mtu;

struct Ends {
  IpAddress source;
  IpAddress destination;
};

// The fields that both versions have. IPv4 addresses are mapped.
struct IpFields {
  uint8_t traffic_class = 0;
  uint8_t hops = 0;
  IpProtocol protocol{};
  Fragment fragment = Fragment::kNone;
  bool more_fragments = false;
  uint16_t fragment_offset_bytes = 0;
  uint32_t id = 0;
  uint32_t l4_bytes = 0;  // as sent
  Ends ends = {};
};

// `ip_bytes` is the length of the IP packet as sent.
IpFields FieldsOf(Bytes frame, const ParsedPacket& h, uint32_t ip_bytes) {
  IpFields fields = {.protocol = h.l4_protocol,
                     .fragment = h.fragment,
                     .more_fragments = h.fragment == Fragment::kFirst,
                     .fragment_offset_bytes = h.fragment_offset_bytes,
                     .id = h.fragment_id};
  const uint32_t before_l4 = h.l4_offset - uint32_t{h.l3_offset};
  fields.l4_bytes = ip_bytes - std::min(ip_bytes, before_l4);
  if (h.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<const Byte>::At(frame, h.l3_offset);
    fields.traffic_class = ip.traffic_class();
    fields.hops = ip.ttl();
    fields.more_fragments = ip.more_fragments();
    fields.ends = {IpAddress::FromIpv4(ip.source()),
                   IpAddress::FromIpv4(ip.destination())};
    return fields;
  }
  const auto ip = Ipv6Header<const Byte>::At(frame, h.l3_offset);
  fields.traffic_class = ip.traffic_class();
  fields.hops = ip.hop_limit();
  fields.ends = {ip.source(), ip.destination()};
  if (h.fragment == Fragment::kLater) {
    const auto fragment = Ipv6FragmentHeader<const Byte>::At(
        frame, h.l4_offset - size_t{kFragmentBytes});
    fields.more_fragments = fragment && fragment.more_fragments();
  }
  return fields;
}

// Returns true if the packet has a source route that is not at its end.
bool HasSourceRoute(Bytes frame, const ParsedPacket& h) {
  if (h.l3 == L3::kIpv4) {
    constexpr uint8_t kEnd = 0, kNoOperation = 1, kLoose = 131, kStrict = 137;
    Bytes options = Ipv4Header<const Byte>::At(frame, h.l3_offset).options();
    while (!options.empty()) {
      const auto kind = std::to_integer<uint8_t>(options[0]);
      if (kind == kEnd) return false;
      if (kind == kLoose || kind == kStrict) return true;
      size_t bytes = 1;
      if (kind != kNoOperation) {
        if (options.size() < 2) return false;
        bytes = std::max<size_t>(2, std::to_integer<uint8_t>(options[1]));
      }
      options = options.subspan(std::min(bytes, options.size()));
    }
    return false;
  }
  IpProtocol kind =
      Ipv6Header<const Byte>::At(frame, h.l3_offset).next_header();
  size_t at = size_t{h.l3_offset} + kIpv6HeaderBytes;
  while (at < h.l4_offset && IsIpv6Extension(kind)) {
    const auto header = Ipv6ExtensionHeader<const Byte>::At(frame, at, kind);
    if (!header) return false;
    constexpr size_t kSegmentsLeft = 3;
    if (kind == IpProtocol::kRouting && frame[at + kSegmentsLeft] != Byte{0}) {
      return true;
    }
    kind = header.next_header();
    at += header.header_bytes();
  }
  return false;
}

// Writes the header, and that of fragments, of the other version into `out`,
// which are zeros. Returns its bytes.
uint32_t WriteHeader(const IpFields& fields, bool to_ipv6,
                     std::span<Byte> out) {
  const bool is_fragment = fields.fragment != Fragment::kNone;
  if (to_ipv6) {
    const uint32_t before_l4 = is_fragment ? kFragmentBytes : 0;
    WriteIpv6Header(out, fields.traffic_class, 0,
                    is_fragment ? IpProtocol::kFragment : fields.protocol,
                    fields.ends.source, fields.ends.destination);
    const auto ip = Ipv6Header<Byte>::At(out, 0);
    ip.set_hop_limit(fields.hops);
    ip.set_payload_bytes(static_cast<uint16_t>(fields.l4_bytes + before_l4));
    if (!is_fragment) return kIpv6HeaderBytes;
    const std::span<Byte> header = out.subspan(kIpv6HeaderBytes);
    header[0] = static_cast<Byte>(fields.protocol);
    Store(&header[2],
          be16(static_cast<uint16_t>(fields.fragment_offset_bytes |
                                     static_cast<int>(fields.more_fragments))));
    Store(&header[4], be32(fields.id));
    return kIpv6HeaderBytes + kFragmentBytes;
  }
  constexpr uint16_t kDontFragment = 0x4000, kMoreFragments = 0x2000;
  constexpr uint32_t kMayBeFragmented = 1'260;  // RFC 7915 §5.1
  WriteIpv4Header(out, fields.traffic_class, fields.protocol,
                  fields.ends.source, fields.ends.destination);
  const uint32_t bytes = kIpv4HeaderBytes + fields.l4_bytes;
  const bool has_id = is_fragment || bytes <= kMayBeFragmented;
  uint16_t flags = has_id ? 0 : kDontFragment;
  if (is_fragment) {
    flags = static_cast<uint16_t>(fields.fragment_offset_bytes / 8 |
                                  (fields.more_fragments ? kMoreFragments : 0));
  }
  Store(&out[4], be16(has_id ? static_cast<uint16_t>(fields.id) : uint16_t{0}));
  Store(&out[6], be16(flags));
  const auto ip = Ipv4Header<Byte>::At(out, 0);
  ip.set_ttl(fields.hops);
  ip.set_total_bytes(static_cast<uint16_t>(bytes));
  FillIpv4Checksum(ip);
  return kIpv4HeaderBytes;
}

// --- ICMP -------------------------------------------------------------------

struct IcmpMessage {
  uint8_t type = 0;
  uint8_t code = 0;
  uint32_t rest = 0;  // the second word
};

constexpr uint8_t kEcho4 = 8, kEchoReply4 = 0, kEcho6 = 128, kEchoReply6 = 129;

// Returns the type of an echo or its reply in the other version.
std::optional<uint8_t> EchoType(uint8_t type, bool to_ipv6) {
  if (type == (to_ipv6 ? kEcho4 : kEcho6)) return to_ipv6 ? kEcho6 : kEcho4;
  if (type == (to_ipv6 ? kEchoReply4 : kEchoReply6)) {
    return to_ipv6 ? kEchoReply6 : kEchoReply4;
  }
  return std::nullopt;
}

// The places of a field in both versions' headers (RFC 7915 fig. 3 and 6).
struct PointerPlace {
  uint8_t ipv4;
  uint8_t ipv6;
};
constexpr std::array<PointerPlace, 8> kPointers = {
    {{0, 0}, {1, 1}, {2, 4}, {8, 7}, {9, 6}, {12, 8}, {16, 24}, {2, 5}}};

std::optional<uint8_t> Pointer(uint32_t pointer, bool to_ipv6) {
  // Every byte of an address is a place of the address.
  if (to_ipv6 && pointer >= 12 && pointer < 20) pointer = pointer / 4 * 4;
  if (to_ipv6 && pointer == 3) pointer = 2;
  if (!to_ipv6 && pointer >= 8 && pointer < 40) {
    pointer = pointer < 24 ? 8 : 24;
  }
  for (const PointerPlace& place : kPointers) {
    if (pointer == (to_ipv6 ? place.ipv4 : place.ipv6)) {
      return to_ipv6 ? place.ipv6 : place.ipv4;
    }
  }
  return std::nullopt;
}

// Returns the ICMPv6 error for an ICMP error (RFC 7915 §4.2).
std::optional<IcmpMessage> ToIcmpv6(const IcmpMessage& m, uint32_t growth) {
  constexpr uint8_t kUnreachable = 3, kTimeExceeded = 11, kParameter = 12;
  if (m.type == kTimeExceeded) return IcmpMessage{.type = 3, .code = m.code};
  if (m.type == kParameter && (m.code == 0 || m.code == 2)) {
    const auto pointer = Pointer(m.rest >> 24, true);
    if (!pointer.has_value()) return std::nullopt;
    return IcmpMessage{.type = 4, .code = 0, .rest = *pointer};
  }
  if (m.type != kUnreachable) return std::nullopt;
  switch (m.code) {
    case 0:
    case 1:
    case 5:
    case 6:
    case 7:
    case 8:
    case 11:
    case 12:
      return IcmpMessage{.type = 1, .code = 0};
    case 2:  // protocol unreachable: the next header is not known
      return IcmpMessage{.type = 4, .code = 1, .rest = 6};
    case 3:
      return IcmpMessage{.type = 1, .code = 4};
    case 4:
      return IcmpMessage{
          .type = 2,
          .code = 0,
          .rest = std::max(kLeastIpv6Mtu, (m.rest & 0xffff) + growth)};
    case 9:
    case 10:
    case 13:
    case 15:
      return IcmpMessage{.type = 1, .code = 1};
    default:
      return std::nullopt;
  }
}

// Returns the ICMP error for an ICMPv6 error (RFC 7915 §5.2).
std::optional<IcmpMessage> ToIcmp(const IcmpMessage& m, uint32_t shrinkage) {
  switch (m.type) {
    case 1: {
      constexpr std::array<uint8_t, 5> kCodes = {1, 10, 1, 1, 3};
      if (m.code >= kCodes.size()) return std::nullopt;
      return IcmpMessage{.type = 3, .code = kCodes[m.code]};
    }
    case 2: {
      const uint32_t mtu = m.rest - std::min(m.rest, shrinkage);
      return IcmpMessage{
          .type = 3, .code = 4, .rest = std::min<uint32_t>(mtu, 0xffff)};
    }
    case 3:
      return IcmpMessage{.type = 11, .code = m.code};
    case 4: {
      if (m.code == 1) return IcmpMessage{.type = 3, .code = 2};
      const auto pointer = Pointer(m.rest, false);
      if (m.code != 0 || !pointer.has_value()) return std::nullopt;
      return IcmpMessage{
          .type = 12, .code = 0, .rest = uint32_t{*pointer} << 24};
    }
    default:
      return std::nullopt;
  }
}

// Adds the pseudo header to the checksum of ICMP, or takes it away.
be16 WithPseudoHeader(be16 checksum, const Ends& ends, uint32_t l4_bytes,
                      bool is_added) {
  const be16 next = be16(static_cast<uint8_t>(IpProtocol::kIcmpv6));
  const auto update = [&](auto word) {
    const decltype(word) none = {};
    checksum = is_added ? UpdateChecksum(checksum, none, word)
                        : UpdateChecksum(checksum, word, none);
  };
  update(ends.source);
  update(ends.destination);
  update(be32(l4_bytes));
  update(next);
  return checksum;
}

// --- Layer 4 ----------------------------------------------------------------

IpProtocol Counterpart(IpProtocol protocol) {
  if (protocol == IpProtocol::kIcmp) return IpProtocol::kIcmpv6;
  if (protocol == IpProtocol::kIcmpv6) return IpProtocol::kIcmp;
  return protocol;
}

// Returns kDone if layer 4 can be translated and is no ICMP error. `l4` may
// end early in a quoted packet.
PacketResize CheckL4(Bytes l4, const IpFields& fields, bool to_ipv6) {
  const IpProtocol protocol = fields.protocol;
  if (protocol == IpProtocol::kTcp || protocol == IpProtocol::kUdp) {
    return PacketResize::kDone;
  }
  const IpProtocol icmp = to_ipv6 ? IpProtocol::kIcmp : IpProtocol::kIcmpv6;
  const bool can = protocol == icmp && fields.fragment == Fragment::kNone &&
                   l4.size() >= kIcmpBytes &&
                   EchoType(std::to_integer<uint8_t>(l4[0]), to_ipv6);
  return can ? PacketResize::kDone : PacketResize::kNoCounterpart;
}

// Adapts layer 4, for which CheckL4 returned kDone, to its new ends.
void TranslateL4(std::span<Byte> l4, const IpFields& before, const Ends& after,
                 bool to_ipv6) {
  if (before.fragment == Fragment::kLater) return;
  const auto update = [&](be16 sum) {
    sum = UpdateChecksum(sum, before.ends.source, after.source);
    return UpdateChecksum(sum, before.ends.destination, after.destination);
  };
  if (before.protocol == IpProtocol::kTcp) {
    constexpr size_t kEnd = TcpHeader<Byte>::kChecksumOffset + 2;
    if (l4.size() < kEnd) return;
    Byte* const at = &l4[TcpHeader<Byte>::kChecksumOffset];
    Store(at, update(LoadBe16(at)));
    return;
  }
  if (before.protocol == IpProtocol::kUdp) {
    const auto udp = UdpHeader<Byte>::At(l4, 0);
    if (!udp || udp.checksum() == be16(0)) return;
    udp.set_checksum(UdpChecksumToSend(update(udp.checksum())));
    return;
  }
  const be16 was = LoadBe16(l4.data());
  l4[0] = Byte{*EchoType(std::to_integer<uint8_t>(l4[0]), to_ipv6)};
  const auto icmp = IcmpHeader<Byte>::At(l4, 0, before.protocol);
  const be16 sum = UpdateChecksum(icmp.checksum(), was, LoadBe16(l4.data()));
  icmp.set_checksum(WithPseudoHeader(sum, to_ipv6 ? after : before.ends,
                                     before.l4_bytes, to_ipv6));
}

// --- Addresses --------------------------------------------------------------

std::optional<IpAddress> TranslateAddress(const IpAddress& address,
                                          const IpTranslation& t,
                                          bool to_ipv6) {
  if (to_ipv6) {
    return address.ipv4() == t.stand_in ? t.inside
                                        : t.prefix.Embed(address.ipv4());
  }
  if (address == t.inside) return IpAddress::FromIpv4(t.stand_in);
  const std::optional<be32> ipv4 = t.prefix.Extract(address);
  if (!ipv4.has_value()) return std::nullopt;
  return IpAddress::FromIpv4(*ipv4);
}

std::optional<Ends> TranslateEnds(const Ends& ends, const IpTranslation& t,
                                  bool to_ipv6) {
  const auto source = TranslateAddress(ends.source, t, to_ipv6);
  const auto destination = TranslateAddress(ends.destination, t, to_ipv6);
  if (!source.has_value() || !destination.has_value()) return std::nullopt;
  return Ends{*source, *destination};
}

// Returns the fields of the translated packet.
IpFields Translated(const IpFields& before, const Ends& ends) {
  IpFields after = before;
  after.protocol = Counterpart(before.protocol);
  after.ends = ends;
  return after;
}

// The same datagram sent again has the same identification, which does no harm.
uint32_t IdOf(Bytes l4, IpProtocol protocol) {
  const size_t at = protocol == IpProtocol::kTcp   ? 16
                    : protocol == IpProtocol::kUdp ? 6
                                                   : 2;
  return at + 2 <= l4.size() ? LoadBe16(&l4[at]).host() : 0;
}

bool HasGoodIcmpChecksum(Bytes l4, const Ends& ends, bool is_ipv6) {
  return be16(0) == (is_ipv6 ? L4Checksum(ends.source, ends.destination,
                                          IpProtocol::kIcmpv6, l4)
                             : InternetChecksum(l4));
}

// Writes the translated packet that an error quotes into `out`, which are
// zeros. Returns its bytes, or nothing if it has no counterpart.
std::optional<uint32_t> TranslateQuoted(Bytes frame, const ParsedPacket& outer,
                                        const IpTranslation& t, bool to_ipv6,
                                        std::span<Byte> out) {
  const ParsedPacket inner = ParseInner(frame, outer);
  if (inner.l3 != outer.l3) return std::nullopt;
  const uint32_t ip_bytes =
      to_ipv6 ? Ipv4Header<const Byte>::At(frame, inner.l3_offset).total_bytes()
              : kIpv6HeaderBytes +
                    Ipv6Header<const Byte>::At(frame, inner.l3_offset)
                        .payload_bytes();
  const IpFields fields = FieldsOf(frame, inner, ip_bytes);
  const Bytes l4 =
      frame.subspan(inner.l4_offset, outer.end_offset - inner.l4_offset);
  const std::optional<Ends> ends = TranslateEnds(fields.ends, t, to_ipv6);
  if (!ends.has_value() ||
      CheckL4(l4, fields, to_ipv6) != PacketResize::kDone) {
    return std::nullopt;
  }
  const uint32_t header = WriteHeader(Translated(fields, *ends), to_ipv6, out);
  const size_t copied = std::min(l4.size(), out.size() - header);
  std::ranges::copy(l4.first(copied), out.begin() + header);
  TranslateL4(out.subspan(header, copied), fields, *ends, to_ipv6);
  return static_cast<uint32_t>(header + copied);
}

PacketResize TranslateError(PacketInfo& info, std::span<Byte> room,
                            const IpTranslation& t, uint32_t mtu,
                            const IpFields& fields, bool to_ipv6) {
  const ParsedPacket h = info.headers;
  const Bytes frame = room.first(h.end_offset);
  const Bytes l4 = frame.subspan(h.l4_offset);
  if (l4.size() < fields.l4_bytes) return PacketResize::kNotWhole;
  const bool is_quoting = h.icmp_inner_offset != 0 &&
                          fields.fragment == Fragment::kNone &&
                          HasGoodIcmpChecksum(l4, fields.ends, !to_ipv6);
  if (!is_quoting) return PacketResize::kNoCounterpart;
  const IcmpMessage message = {std::to_integer<uint8_t>(l4[0]),
                               std::to_integer<uint8_t>(l4[1]),
                               LoadBe32(&l4[4]).host()};
  constexpr uint32_t kDifference = kIpv6HeaderBytes - kIpv4HeaderBytes;
  const std::optional<IcmpMessage> translated =
      to_ipv6 ? ToIcmpv6(message, kDifference) : ToIcmp(message, kDifference);
  if (!translated.has_value()) return PacketResize::kNoCounterpart;

  IpFields after = Translated(fields, fields.ends);
  const auto to = TranslateAddress(fields.ends.destination, t, to_ipv6);
  if (!to.has_value()) return PacketResize::kNoCounterpart;
  after.ends = {TranslateAddress(fields.ends.source, t, to_ipv6)
                    .value_or(IpAddress::FromIpv4(t.stand_in)),
                *to};
  std::array<Byte, kMaxIpv6Error> whole = {};
  const std::span<Byte> out =
      std::span(whole).first(to_ipv6 ? kMaxIpv6Error : kMaxIpv4Error);
  const uint32_t outer = to_ipv6 ? kIpv6HeaderBytes : kIpv4HeaderBytes;
  const std::optional<uint32_t> quoted =
      TranslateQuoted(frame, h, t, to_ipv6, out.subspan(outer + kIcmpBytes));
  if (!quoted.has_value()) return PacketResize::kNoCounterpart;
  after.l4_bytes = kIcmpBytes + *quoted;
  WriteHeader(after, to_ipv6, out);
  const std::span<Byte> icmp = out.subspan(outer, after.l4_bytes);
  icmp[0] = Byte{translated->type};
  icmp[1] = Byte{translated->code};
  Store(&icmp[4], be32(translated->rest));
  const be16 sum = to_ipv6
                       ? L4Checksum(after.ends.source, after.ends.destination,
                                    IpProtocol::kIcmpv6, icmp)
                       : InternetChecksum(icmp);
  Store(&icmp[2], sum);
  return ReplaceHeaders(info, room, h.end_offset - h.l3_offset,
                        out.first(outer + after.l4_bytes), mtu);
}

}  // namespace

std::optional<Ipv4InIpv6> Ipv4InIpv6::Of(const IpPrefix& prefix) {
  constexpr std::array<uint8_t, 6> kLengths = {32, 40, 48, 56, 64, 96};
  if (std::ranges::find(kLengths, prefix.length) == kLengths.end() ||
      prefix.is_ipv4() || prefix.address.bytes[8] != Byte{0}) {
    return std::nullopt;
  }
  return Ipv4InIpv6(prefix);
}

IpAddress Ipv4InIpv6::Embed(be32 address) const {
  IpAddress embedded = prefix_.address;
  size_t at = prefix_.length / 8;
  for (int shift = 24; shift >= 0; shift -= 8, ++at) {
    if (at == 8) ++at;  // bits 64 to 71 stay zero
    embedded.bytes[at] = static_cast<Byte>(address.host() >> shift & 0xff);
  }
  return embedded;
}

std::optional<be32> Ipv4InIpv6::Extract(const IpAddress& address) const {
  if (!prefix_.Contains(address)) return std::nullopt;
  uint32_t ipv4 = 0;
  size_t at = prefix_.length / 8;
  for (int i = 0; i < 4; ++i, ++at) {
    if (at == 8) ++at;
    ipv4 = ipv4 << 8 | std::to_integer<uint32_t>(address.bytes[at]);
  }
  return be32(ipv4);
}

PacketResize TranslateIp(PacketInfo& info, std::span<Byte> room,
                         const IpTranslation& t, uint32_t mtu) {
  SNF_CHECK(info.headers.has_ip());
  const ParsedPacket h = info.headers;
  const Bytes frame = room.first(h.end_offset);
  const bool to_ipv6 = h.l3 == L3::kIpv4;
  IpFields fields = FieldsOf(frame, h, IpBytes(info, room));
  if (HasSourceRoute(frame, h)) return PacketResize::kNoCounterpart;
  const Bytes l4 = frame.subspan(h.l4_offset);
  const bool is_icmp =
      fields.protocol == (to_ipv6 ? IpProtocol::kIcmp : IpProtocol::kIcmpv6);
  if (is_icmp && h.fragment != Fragment::kLater && l4.size() >= kIcmpBytes &&
      IcmpHeader<const Byte>::At(l4, 0, fields.protocol).is_error()) {
    return TranslateError(info, room, t, mtu, fields, to_ipv6);
  }
  const std::optional<Ends> ends = TranslateEnds(fields.ends, t, to_ipv6);
  if (!ends.has_value()) return PacketResize::kNoCounterpart;
  const PacketResize can = CheckL4(l4, fields, to_ipv6);
  if (can != PacketResize::kDone) return can;
  const auto udp = UdpHeader<const Byte>::At(l4, 0);
  const bool needs_checksum = to_ipv6 && fields.protocol == IpProtocol::kUdp &&
                              fields.fragment != Fragment::kLater && udp &&
                              udp.checksum() == be16(0);
  if (needs_checksum && fields.fragment != Fragment::kNone) {
    return PacketResize::kNoCounterpart;
  }
  if (needs_checksum && l4.size() < fields.l4_bytes) {
    return PacketResize::kNotWhole;
  }
  if (fields.fragment == Fragment::kNone) {
    fields.id = IdOf(l4, fields.protocol);
  }
  std::array<Byte, kIpv6HeaderBytes + kFragmentBytes> header = {};
  const uint32_t header_bytes =
      WriteHeader(Translated(fields, *ends), to_ipv6, header);
  const PacketResize done =
      ReplaceHeaders(info, room, h.l4_offset - uint32_t{h.l3_offset},
                     std::span(header).first(header_bytes), mtu);
  if (done != PacketResize::kDone) return done;
  const size_t at = size_t{h.l3_offset} + header_bytes;
  const std::span<Byte> moved = room.subspan(at, l4.size());
  if (needs_checksum) {
    Store(&moved[UdpHeader<Byte>::kChecksumOffset],
          UdpChecksumToSend(L4Checksum(ends->source, ends->destination,
                                       IpProtocol::kUdp, moved)));
  } else {
    TranslateL4(moved, fields, *ends, to_ipv6);
  }
  // The type of ICMP says whether a packet is quoted.
  if (is_icmp) Parse(info.link, room.first(info.length), info.headers);
  return PacketResize::kDone;
}

}  // namespace snf
