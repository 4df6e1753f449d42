// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_FLOW_MODEL_H_
#define SNF_TRACES_SYNTHESIS_FLOW_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/packet/packet_parser.h"
#include "base/packet/protocol_numbers.h"
#include "base/rng.h"
#include "base/time.h"
#include "traces/synthesis/conversations.h"
#include "traces/synthesis/source_captures.h"

namespace snf {

// What all packets of a modelled flow share.
struct FlowKind {
  IpProtocol protocol = IpProtocol::kTcp;  // or UDP, which stands for others
  L3 l3 = L3::kIpv4;
  uint16_t server_port = 80;

  // Of the headers that such a packet has at least, Ethernet's included.
  uint32_t LeastBytes() const {
    return (l3 == L3::kIpv4 ? 34 : 54) +
           (protocol == IpProtocol::kTcp ? 20 : 8);
  }
  friend bool operator==(const FlowKind&, const FlowKind&) = default;
};

struct ModelPacket {
  Nanos gap;  // since the flow's packet before; of the first, no matter
  uint32_t wire_bytes = 0;
  bool from_server = false;
};

// Flows that stand for all others: when packets come, of which size, and from
// which end. Gaps depend on the pace of their flow, and sizes on gaps, so flows
// are kept whole, rather than a distribution of each. Owner-thread only.
class FlowModel {
 public:
  // Of so long a window; max: flows are whole.
  explicit FlowModel(Nanos period = Nanos::max()) : period_(period) {}

  // At least one packet. Sizes are held between LeastBytes and kMostBytes; a
  // flow that would not fit into the period ends where it does not.
  void Add(const FlowKind& kind, std::span<const ModelPacket> packets);

  Nanos period() const { return period_; }
  const Conversations& conversations() const { return conversations_; }
  const FlowKind& KindOf(size_t flow) const { return kinds_[flow]; }
  bool FromServer(size_t flow, size_t number) const {
    return from_server_[conversations_.FirstOf(flow) + number] != 0;
  }
  ModelPacket PacketOf(size_t flow, size_t number) const;

  static constexpr uint32_t kMostBytes = 65'535;

 private:
  Nanos period_;
  Conversations conversations_;
  std::vector<FlowKind> kinds_;
  std::vector<uint8_t> from_server_;  // by packet
  std::vector<PacketShape> shapes_;
};

// Of a capture with conversations: each as it is, the period being what the
// capture covers.
FlowModel ModelOf(const SourceCaptures& capture);

// As many flows of the same kinds and lengths as `model` has, but others: of
// each flow, one block of 16 packets after the other comes from any flow of its
// class, with the same protocol and about as many packets in about as much
// time. Within a block gaps, sizes and directions go together as they did.
FlowModel Resampled(const FlowModel& model, Rng rng);

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_FLOW_MODEL_H_
