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

// The properties that all packets of a modelled flow share.
struct FlowKind {
  IpProtocol protocol = IpProtocol::kTcp;  // or UDP, which stands for others
  L3 l3 = L3::kIpv4;
  uint16_t server_port = 80;

  // Returns the bytes of the headers that every such packet has, Ethernet's
  // included.
  uint32_t LeastBytes() const {
    return (l3 == L3::kIpv4 ? 34 : 54) +
           (protocol == IpProtocol::kTcp ? 20 : 8);
  }
  friend bool operator==(const FlowKind&, const FlowKind&) = default;
};

// A packet of a modelled flow.
struct ModelPacket {
  Nanos gap;  // since the flow's packet before; ignored for the first
  uint32_t wire_bytes = 0;
  bool from_server = false;
};

// Flows that stand for all others: the time, size and direction of each of
// their packets. Gaps depend on the pace of their flow, and sizes on gaps, so
// flows are kept whole, rather than a distribution of each property.
// Owner-thread only.
class FlowModel {
 public:
  // The flows come from a window of the length `period`, whose ends cut them;
  // with max they are whole.
  explicit FlowModel(Nanos period = Nanos::max()) : period_(period) {}

  // Adds a flow of at least one packet. Sizes are limited to the range from
  // LeastBytes to kMostBytes; a flow that is longer than the period ends with
  // the last packet that fits.
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

// Returns the conversations of a capture, which has at least one, as they are.
// The period is the time that the capture covers.
FlowModel ModelOf(const SourceCaptures& capture);

// Returns other flows, as many as `model` has and of the same kinds and
// lengths. Each is put together from blocks of 16 packets, which come from any
// flows of its class: flows of the same protocol with similar packet count and
// duration. Within a block gaps, sizes and directions stay together.
FlowModel Resampled(const FlowModel& model, Rng rng);

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_FLOW_MODEL_H_
