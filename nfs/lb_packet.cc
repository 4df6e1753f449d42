// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_packet.h"

#include <utility>

#include "base/packet/flow_key.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = const std::byte;
using Bytes = std::span<const std::byte>;
using Tcp = TcpHeader<Byte>;

constexpr size_t kSequenceOffset = 4, kFlagsOffset = 13;

void ReadEnds(Bytes frame, const ParsedPacket& headers, LbView& view) {
  const FlowKey key = FiveTuple(frame, headers, false);
  const bool is_ipv6 = headers.l3 == L3::kIpv6;
  view.from = {key.source, key.source_port, key.protocol, is_ipv6};
  view.to = {key.destination, key.destination_port, key.protocol, is_ipv6};
}

uint32_t LoadWord(Bytes bytes, size_t offset) {
  return LoadBe32(&bytes[offset]).host();
}

}  // namespace

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

}  // namespace snf
