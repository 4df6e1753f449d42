// SPDX-License-Identifier: Apache-2.0
#include "nfs/vpn_packet.h"

#include <algorithm>
#include <cstring>

#include "base/answers/ip_writing.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = std::byte;

constexpr size_t kUdpBytes = UdpHeader<Byte>::kBytes;
constexpr size_t kIpv6Bytes = Ipv6Header<Byte>::kBytes;
constexpr IpProtocol kIpv4InIp{4}, kIpv6InIp{41}, kNoNextHeader{59};
constexpr uint8_t kEcnMask = 3, kEct1 = 1, kCe = 3;

uint8_t ClassOf(std::span<const Byte> bytes, size_t l3) {
  if (const auto ip = Ipv4Header<const Byte>::At(bytes, l3)) {
    return ip.traffic_class();
  }
  return Ipv6Header<const Byte>::At(bytes, l3).traffic_class();
}

void SetEcn(std::span<Byte> inner, uint8_t ecn) {
  if (const auto ip = Ipv4Header<Byte>::At(inner, 0)) {
    const be16 before = LoadBe16(inner.data());
    inner[1] = (inner[1] & ~Byte{kEcnMask}) | Byte{ecn};
    ip.set_checksum(
        UpdateChecksum(ip.checksum(), before, LoadBe16(inner.data())));
    return;
  }
  constexpr int kShift = 4;  // of the traffic class in the second byte
  inner[1] = (inner[1] & ~(Byte{kEcnMask} << kShift)) | Byte{ecn} << kShift;
}

void StoreNumber(Byte* to, uint64_t number) {
  Store(to, be32(static_cast<uint32_t>(number >> 32)));
  Store(to + 4, be32(static_cast<uint32_t>(number)));
}

// The outer headers up to the IV, and room for what follows the inner packet.
class OuterHeaders {
 public:
  OuterHeaders(const VpnTunnel& tunnel, const VpnNumber& number,
               uint8_t traffic_class, size_t trailer)
      : size_(tunnel.outer_bytes() + kEspHeaderBytes + trailer) {
    const bool is_udp = tunnel.udp_port != 0;
    const IpProtocol protocol = is_udp ? IpProtocol::kUdp : IpProtocol::kEsp;
    const std::span<Byte> ip = std::span(bytes_).first(size_);
    if (tunnel.is_ipv6) {
      WriteIpv6Header(ip, traffic_class, 0, protocol, tunnel.local,
                      tunnel.peer);
    } else {
      WriteIpv4Header(ip, traffic_class, protocol, tunnel.local, tunnel.peer);
    }
    Byte* const esp = &bytes_.at(tunnel.outer_bytes());
    if (is_udp) {
      Store(esp - kUdpBytes, be16(VpnTunnels::kUdpPort));
      Store(esp - kUdpBytes + 2, be16(tunnel.udp_port));
    }
    Store(esp, be32(tunnel.spi_out));
    Store(esp + 4, be32(static_cast<uint32_t>(number.sequence)));
    StoreNumber(esp + 8, number.iv);
  }
  std::span<const Byte> bytes() const { return std::span(bytes_).first(size_); }

 private:
  static constexpr size_t kMaxTrailer =
      kEspAlignment - 1 + kEspTrailerBytes + EspCipher::kTagBytes;
  static constexpr size_t kMaxBytes =
      kIpv6Bytes + kUdpBytes + kEspHeaderBytes + kMaxTrailer;
  static_assert(kMaxBytes <= kMaxPacketGrowth);

  std::array<Byte, kMaxBytes> bytes_{};
  size_t size_;
};

}  // namespace

bool IsWholePacket(const Packet& packet) {
  const ParsedPacket& h = packet.headers();
  size_t stated = 0;
  if (h.l3 == L3::kIpv4) {
    stated = Ipv4Header<Byte>::At(packet.bytes(), h.l3_offset).total_bytes();
  } else {
    stated = kIpv6Bytes +
             Ipv6Header<Byte>::At(packet.bytes(), h.l3_offset).payload_bytes();
  }
  return stated == h.end_offset - h.l3_offset;
}

uint32_t VpnInnerMtu(const VpnTunnel& tunnel, uint32_t mtu) {
  const auto around = static_cast<uint32_t>(
      tunnel.outer_bytes() + kEspHeaderBytes + EspCipher::kTagBytes);
  constexpr auto kAligned = static_cast<uint32_t>(kEspAlignment);
  return (mtu - around) / kAligned * kAligned -
         static_cast<uint32_t>(kEspTrailerBytes);
}

EspAssociated::EspAssociated(uint32_t spi, uint64_t sequence, bool has_esn)
    : size_(has_esn ? 12 : 8) {
  Store(bytes_.data(), be32(spi));
  if (has_esn) {
    StoreNumber(&bytes_[4], sequence);
  } else {
    Store(&bytes_[4], be32(static_cast<uint32_t>(sequence)));
  }
}

// The packet's bytes move to behind the IV, and the room that was in front of
// them is then behind them.
PacketResize Encapsulate(const VpnTunnel& tunnel, const VpnNumber& number,
                         uint32_t mtu, EspCipher& cipher, Packet& packet) {
  const size_t l3 = packet.headers().l3_offset;
  const size_t inner_bytes = packet.headers().end_offset - l3;
  const IpProtocol next =
      packet.headers().l3 == L3::kIpv6 ? kIpv6InIp : kIpv4InIp;
  const size_t padding =
      (kEspAlignment - (inner_bytes + kEspTrailerBytes) % kEspAlignment) %
      kEspAlignment;
  const size_t trailer = padding + kEspTrailerBytes + EspCipher::kTagBytes;
  const OuterHeaders outer(tunnel, number, ClassOf(packet.bytes(), l3),
                           trailer);
  const PacketResize done = packet.prepend(outer.bytes(), mtu);
  if (done != PacketResize::kDone) return done;
  const std::span<Byte> esp = packet.bytes().subspan(l3 + tunnel.outer_bytes());
  const std::span<Byte> text =
      esp.subspan(kEspHeaderBytes, inner_bytes + padding + kEspTrailerBytes);
  std::memmove(text.data(), text.data() + trailer, inner_bytes);
  for (size_t i = 0; i < padding; ++i) {
    text[inner_bytes + i] = static_cast<Byte>(i + 1);
  }
  text[text.size() - 2] = static_cast<Byte>(padding);
  text[text.size() - 1] = static_cast<Byte>(next);
  const EspAssociated associated(tunnel.spi_out, number.sequence,
                                 tunnel.has_esn);
  cipher.Seal(esp.subspan<8, EspCipher::kIvBytes>(), associated.bytes(), text,
              esp.last<EspCipher::kTagBytes>());
  return PacketResize::kDone;
}

std::optional<EspText> ReadEspText(std::span<Byte> text) {
  const auto next = static_cast<IpProtocol>(text[text.size() - 1]);
  const auto padding = std::to_integer<size_t>(text[text.size() - 2]);
  if (padding > text.size() - kEspTrailerBytes) return std::nullopt;
  const size_t payload = text.size() - kEspTrailerBytes - padding;
  for (size_t i = 0; i < padding; ++i) {
    if (text[payload + i] != static_cast<Byte>(i + 1)) return std::nullopt;
  }
  if (next == kNoNextHeader)
    return EspText{.is_dummy = true, .ip = {}, .ends = {}};
  const std::span<Byte> ip = text.first(payload);
  size_t bytes = 0;
  size_t least = 0;
  ParsedPacket headers;
  if (next == kIpv4InIp) {
    const auto ip4 = Ipv4Header<Byte>::At(ip, 0);
    if (!ip4) return std::nullopt;
    bytes = ip4.total_bytes();
    least = ip4.header_bytes();
    headers.l3 = L3::kIpv4;
  } else if (next == kIpv6InIp) {
    const auto ip6 = Ipv6Header<Byte>::At(ip, 0);
    if (!ip6) return std::nullopt;
    bytes = kIpv6Bytes + ip6.payload_bytes();
    headers.l3 = L3::kIpv6;
  } else {
    return std::nullopt;
  }
  // Bytes behind the packet hide its length (RFC 4303 §2.7).
  if (bytes < least || bytes > payload) return std::nullopt;
  return EspText{.ip = ip.first(bytes), .ends = VpnEnds::Of(ip, headers)};
}

bool BringCongestion(std::span<const Byte> frame, const ParsedPacket& headers,
                     std::span<Byte> inner) {
  const auto outer =
      static_cast<uint8_t>(ClassOf(frame, headers.l3_offset) & kEcnMask);
  const auto own = static_cast<uint8_t>(ClassOf(inner, 0) & kEcnMask);
  if (own == 0) return outer != kCe;
  const bool is_marked = outer == kCe || (outer == kEct1 && own != kCe);
  if (is_marked && own != outer) SetEcn(inner, outer);
  return true;
}

}  // namespace snf
