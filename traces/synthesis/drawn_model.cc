// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/drawn_model.h"

#include <algorithm>
#include <vector>

namespace snf {
namespace {

constexpr uint16_t kTcpPort = 443;
constexpr uint16_t kUdpPort = 53;

uint32_t Per65536(double share) {
  return static_cast<uint32_t>(std::clamp(share, 0.0, 1.0) * 65'536);
}

}  // namespace

FlowModel DrawnModel(const FlowDistributions& distributions, uint32_t flows,
                     Rng rng) {
  FlowModel model;
  std::vector<ModelPacket> packets;
  uint64_t left = kMostDrawnPackets;
  for (uint32_t flow = 0; flow < flows && left > 0; ++flow) {
    packets.clear();
    const bool is_tcp = rng.Chance(Per65536(distributions.tcp_share));
    const int64_t wanted = distributions.flow_bytes.Draw(rng);
    int64_t bytes = 0;
    int64_t of_burst = 0;
    do {
      const bool is_pause = of_burst == 0;
      if (is_pause) {
        of_burst = std::max<int64_t>(1, distributions.burst_packets.Draw(rng));
      }
      --of_burst;
      const int64_t wire_bytes = std::clamp<int64_t>(
          distributions.packet_bytes.Draw(rng), 1, FlowModel::kMostBytes);
      const Distribution& gap =
          is_pause ? distributions.pause : distributions.gap;
      // TCP opens with one packet each way.
      const bool from_server =
          packets.empty() ? false
          : is_tcp && packets.size() == 1
              ? true
              : rng.Chance(Per65536(distributions.server_share));
      packets.push_back({.gap = {gap.Draw(rng)},
                         .wire_bytes = static_cast<uint32_t>(wire_bytes),
                         .from_server = from_server});
      bytes += wire_bytes;
      --left;
    } while (bytes < wanted && left > 0);
    model.Add({.protocol = is_tcp ? IpProtocol::kTcp : IpProtocol::kUdp,
               .l3 = L3::kIpv4,
               .server_port = is_tcp ? kTcpPort : kUdpPort},
              packets);
  }
  return model;
}

double ConcurrencyOf(const FlowModel& model, int64_t rate_bps) {
  const Conversations& conversations = model.conversations();
  double bytes = 0;
  double spans = 0;
  for (size_t i = 0; i < conversations.size(); ++i) {
    bytes += static_cast<double>(conversations.BytesOf(i));
    spans += static_cast<double>(conversations.SpanOf(i));
  }
  const double flows_per_ns = static_cast<double>(rate_bps) / 8e9 / bytes;
  return flows_per_ns * spans;
}

FlowModel WithConcurrency(const FlowModel& model, int64_t rate_bps,
                          uint32_t flows) {
  const double factor =
      static_cast<double>(flows) / ConcurrencyOf(model, rate_bps);
  FlowModel stretched;
  std::vector<ModelPacket> packets;
  const Conversations& conversations = model.conversations();
  for (size_t flow = 0; flow < conversations.size(); ++flow) {
    packets.clear();
    for (size_t i = 0; i < conversations.CountOf(flow); ++i) {
      packets.push_back(model.PacketOf(flow, i));
      packets.back().gap = {static_cast<int64_t>(
          static_cast<double>(packets.back().gap.ns) * factor)};
    }
    stretched.Add(model.KindOf(flow), packets);
  }
  return stretched;
}

}  // namespace snf
