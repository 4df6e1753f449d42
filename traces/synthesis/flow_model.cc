// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/flow_model.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "base/packet/flow_key.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

constexpr size_t kBlockPackets = 16;

using Packets = std::vector<ModelPacket>;

// Flows that lend each other blocks. A power of two of packets, a power of four
// of time.
using FlowClass = std::tuple<IpProtocol, L3, int, int>;

FlowClass ClassOf(const FlowModel& model, size_t flow) {
  const FlowKind& kind = model.KindOf(flow);
  const Conversations& conversations = model.conversations();
  const auto span = static_cast<uint64_t>(conversations.SpanOf(flow));
  return {kind.protocol, kind.l3,
          static_cast<int>(std::bit_width(conversations.CountOf(flow))),
          static_cast<int>(std::bit_width(span)) / 2};
}

FlowKind KindOf(const SourceCaptures& capture, size_t flow) {
  const auto bytes = capture.BytesOf(flow, 0);
  const ParsedPacket headers = Parse(LinkType::kEthernet, bytes);
  FlowKind kind = {.protocol = IpProtocol::kUdp,
                   .l3 = capture.EndsOf(flow).l3,
                   .server_port = 0};
  if (headers.l4_protocol == IpProtocol::kTcp) kind.protocol = IpProtocol::kTcp;
  const auto ports = PortsView<const std::byte>::At(bytes, headers.l4_offset);
  if (headers.fragment == Fragment::kLater || !ports ||
      !HasPorts(headers.l4_protocol)) {
    return kind;
  }
  const FlowKey key = FiveTuple(bytes, headers, /*with_vlan=*/false);
  const bool from_server = key.source == capture.EndsOf(flow).server;
  kind.server_port =
      (from_server ? ports.source_port() : ports.destination_port()).host();
  return kind;
}

bool FromServer(const SourceCaptures& capture, size_t flow, size_t number) {
  const auto bytes = capture.BytesOf(flow, number);
  const ParsedPacket headers = Parse(LinkType::kEthernet, bytes);
  const SourceCaptures::Ends& ends = capture.EndsOf(flow);
  if (!headers.has_ip() || ends.client == ends.server) return false;
  return FiveTuple(bytes, headers, /*with_vlan=*/false).source == ends.server;
}

}  // namespace

void FlowModel::Add(const FlowKind& kind,
                    std::span<const ModelPacket> packets) {
  shapes_.clear();
  Instant time{};
  for (const ModelPacket& packet : packets) {
    if (!shapes_.empty()) time = time + packet.gap;
    if (time.ns >= period_.ns) break;
    shapes_.push_back(
        {{time.ns},
         std::clamp(packet.wire_bytes, kind.LeastBytes(), kMostBytes)});
    from_server_.push_back(packet.from_server ? 1 : 0);
  }
  conversations_.Add(shapes_);
  kinds_.push_back(kind);
}

ModelPacket FlowModel::PacketOf(size_t flow, size_t number) const {
  const std::span<const int64_t> offsets = conversations_.OffsetsOf(flow);
  const int64_t before = number == 0 ? 0 : offsets[number - 1];
  return {.gap = {offsets[number] - before},
          .wire_bytes = conversations_.WireBytes(flow, number),
          .from_server = FromServer(flow, number)};
}

FlowModel ModelOf(const SourceCaptures& capture) {
  // The window is as much longer than from the first packet to the last as
  // packets are apart on the average.
  const SourceCaptures::File& file = capture.files().front();
  const Nanos apart = {file.duration.ns / static_cast<int64_t>(file.packets) +
                       1};
  FlowModel model((Instant{file.duration.ns} + apart) - Instant{});
  const Conversations& conversations = capture.conversations();
  Packets packets;
  for (size_t flow = 0; flow < conversations.size(); ++flow) {
    packets.clear();
    const std::span<const int64_t> offsets = conversations.OffsetsOf(flow);
    for (size_t i = 0; i < offsets.size(); ++i) {
      packets.push_back({.gap = {i == 0 ? 0 : offsets[i] - offsets[i - 1]},
                         .wire_bytes = conversations.WireBytes(flow, i),
                         .from_server = FromServer(capture, flow, i)});
    }
    model.Add(KindOf(capture, flow), packets);
  }
  return model;
}

FlowModel Resampled(const FlowModel& model, Rng rng) {
  const Conversations& conversations = model.conversations();
  std::map<FlowClass, std::vector<size_t>> classes;
  for (size_t flow = 0; flow < conversations.size(); ++flow) {
    classes[ClassOf(model, flow)].push_back(flow);
  }
  FlowModel resampled(model.period());
  Packets packets;
  for (size_t flow = 0; flow < conversations.size(); ++flow) {
    const std::vector<size_t>& lenders = classes[ClassOf(model, flow)];
    const size_t count = conversations.CountOf(flow);
    packets.clear();
    while (packets.size() < count) {
      // A block at about the same place of the lender's flow, for beginnings
      // differ from what follows.
      const size_t lender = lenders[rng.Below(lenders.size())];
      const size_t lent = conversations.CountOf(lender);
      const size_t wanted = std::min(kBlockPackets, count - packets.size());
      const size_t begin =
          std::min(packets.size(), lent - std::min(lent, wanted));
      const size_t end = std::min(begin + wanted, lent);
      for (size_t i = begin; i < end; ++i) {
        packets.push_back(model.PacketOf(lender, i));
      }
    }
    resampled.Add(model.KindOf(flow), packets);
  }
  return resampled;
}

}  // namespace snf
