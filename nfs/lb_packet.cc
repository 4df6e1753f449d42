// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_packet.h"

#include <utility>

#include "base/packet/checksum.h"
#include "base/packet/flow_key.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = const std::byte;
using Bytes = std::span<const std::byte>;
using Tcp = TcpHeader<Byte>;

constexpr size_t kTcpBytes = Tcp::kMinBytes;
constexpr size_t kSequenceOffset = 4, kAckOffset = 8, kFlagsOffset = 13;

void ReadEnds(Bytes frame, const ParsedPacket& headers, LbView& view) {
  const FlowKey key = FiveTuple(frame, headers, false);
  const bool is_ipv6 = headers.l3 == L3::kIpv6;
  view.from = {key.source, key.source_port, key.protocol, is_ipv6};
  view.to = {key.destination, key.destination_port, key.protocol, is_ipv6};
}

uint32_t LoadWord(Bytes bytes, size_t offset) {
  return LoadBe32(&bytes[offset]).host();
}
void StoreWord(std::span<std::byte> bytes, size_t offset, uint32_t value) {
  Store(&bytes[offset], be32(value));
}

}  // namespace

bool MayAnswer(const IpAddress& to, bool is_ipv6) {
  if (is_ipv6) return to != IpAddress{} && to.bytes[0] != std::byte{0xff};
  const uint32_t net = to.ipv4().host() >> 24;
  return net != 0 && net != 127 && net < 224;
}

bool LbView::is_syn() const {
  constexpr uint8_t kAll = Tcp::kSyn | Tcp::kAck | Tcp::kFin | Tcp::kRst;
  return has_tcp && (tcp_flags & kAll) == Tcp::kSyn;
}

LbView ReadLbPacket(const Packet& packet) {
  const ParsedPacket& headers = packet.headers();
  const Bytes frame = packet.bytes();
  LbView view;
  if (headers.icmp_inner_offset != 0) {
    const ParsedPacket quoted = ParseInner(frame, headers);
    if (quoted.has_ip()) {
      view.is_error = true;
      view.is_later_fragment = quoted.fragment == Fragment::kLater;
      ReadEnds(frame, quoted, view);
      std::swap(view.from, view.to);
      return view;
    }
  }
  ReadEnds(frame, headers, view);
  view.is_later_fragment = headers.fragment == Fragment::kLater;
  if (view.is_later_fragment) return view;
  const bool is_cut = packet.original_length() > frame.size();
  const Bytes l4 = frame.subspan(headers.l4_offset, headers.l4_bytes());
  view.is_malformed =
      headers.result == ParseResult::kL4Malformed ||
      (headers.result != ParseResult::kComplete && !is_cut) ||
      (HasPorts(headers.l4_protocol) && !PortsView<Byte>::At(l4, 0));
  if (headers.l4_protocol != IpProtocol::kTcp) return view;
  if (l4.size() <= kFlagsOffset) {
    view.is_malformed = true;
    return view;
  }
  view.has_tcp = true;
  view.tcp_flags = std::to_integer<uint8_t>(l4[kFlagsOffset]);
  view.tcp_sequence = LoadWord(l4, kSequenceOffset);
  return view;
}

std::optional<uint32_t> QuicServerId(Bytes payload, uint32_t id_bytes) {
  if (payload.empty()) return std::nullopt;
  const auto first = std::to_integer<uint8_t>(payload[0]);
  constexpr uint8_t kLongHeader = 0x80, kHandshake = 2;
  size_t id = 1;
  if ((first & kLongHeader) != 0) {
    constexpr size_t kVersionOffset = 1, kLengthOffset = 5;
    if (payload.size() <= kLengthOffset ||
        LoadWord(payload, kVersionOffset) != 1 ||
        (first >> 4 & 3) != kHandshake ||
        std::to_integer<size_t>(payload[kLengthOffset]) < 1 + id_bytes) {
      return std::nullopt;
    }
    id = kLengthOffset + 1;
  }
  if (payload.size() < id + 1 + id_bytes) return std::nullopt;
  constexpr uint8_t kUnroutable = 7;
  if (std::to_integer<uint8_t>(payload[id]) >> 5 == kUnroutable) {
    return std::nullopt;
  }
  uint32_t server = 0;
  for (uint32_t i = 0; i < id_bytes; ++i) {
    server = server << 8 | std::to_integer<uint32_t>(payload[id + 1 + i]);
  }
  return server;
}

LbReset::LbReset(LinkType link, Bytes frame, const ParsedPacket& headers) {
  const auto tcp = Tcp::At(frame.first(headers.end_offset), headers.l4_offset);
  if (headers.l4_protocol != IpProtocol::kTcp || !tcp ||
      (tcp.flags() & Tcp::kRst) != 0) {
    return;
  }
  const bool is_ipv6 = headers.l3 == L3::kIpv6;
  const FlowKey ends = FiveTuple(frame, headers, false);
  if (!MayAnswer(ends.source, is_ipv6)) return;
  const auto link_bytes = ReverseLinkHeader(link, frame, headers, bytes_);
  if (!link_bytes.has_value()) return;
  const size_t ip_bytes =
      is_ipv6 ? Ipv6Header<Byte>::kBytes : Ipv4Header<Byte>::kMinBytes;
  const std::span<std::byte> ip =
      std::span(bytes_).subspan(*link_bytes, ip_bytes + kTcpBytes);
  const std::span<std::byte> l4 = ip.subspan(ip_bytes);
  Store(&l4[0], ends.destination_port);
  Store(&l4[2], ends.source_port);
  constexpr auto kWords = std::byte{5 << 4};
  l4[kFlagsOffset - 1] = kWords;
  if ((tcp.flags() & Tcp::kAck) != 0) {
    StoreWord(l4, kSequenceOffset, tcp.acknowledgement());
    l4[kFlagsOffset] = std::byte{Tcp::kRst};
  } else {
    const uint32_t counted = ((tcp.flags() & Tcp::kSyn) != 0 ? 1 : 0) +
                             ((tcp.flags() & Tcp::kFin) != 0 ? 1 : 0);
    StoreWord(l4, kAckOffset,
              tcp.sequence() + headers.payload_bytes() + counted);
    l4[kFlagsOffset] = std::byte{Tcp::kRst | Tcp::kAck};
  }
  constexpr uint8_t kHops = 64;
  if (is_ipv6) {
    ip[0] = std::byte{0x60};
    ip[6] = static_cast<std::byte>(IpProtocol::kTcp);
    const auto header = Ipv6Header<std::byte>::At(ip, 0);
    header.set_payload_bytes(kTcpBytes);
    header.set_hop_limit(kHops);
    header.set_source(ends.destination);
    header.set_destination(ends.source);
  } else {
    ip[0] = std::byte{0x45};
    ip[8] = std::byte{kHops};
    ip[9] = static_cast<std::byte>(IpProtocol::kTcp);
    const auto header = Ipv4Header<std::byte>::At(ip, 0);
    header.set_total_bytes(static_cast<uint16_t>(ip.size()));
    header.set_source(ends.destination.ipv4());
    header.set_destination(ends.source.ipv4());
    FillIpv4Checksum(header);
  }
  Store(&l4[Tcp::kChecksumOffset],
        L4Checksum(ends.destination, ends.source, IpProtocol::kTcp, l4));
  size_ = *link_bytes + ip.size();
}

}  // namespace snf
