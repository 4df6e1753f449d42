// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_OVERLAY_TALLY_H_
#define SNF_TRACES_SYNTHESIS_OVERLAY_TALLY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "traces/synthesis/flowlet_figures.h"
#include "traces/synthesis/overlay.h"

namespace snf {

// Counts the packets and flows of an overlay. Owner-thread only.
class OverlayTally {
 public:
  // Counts the next packet of the overlay.
  void Take(const Overlay::Packet& packet, uint32_t wire_bytes) {
    if (packet.slot >= flows_.size()) flows_.resize(packet.slot + size_t{1});
    alive_ns_ += static_cast<double>(alive_) *
                 static_cast<double>(packet.time.ns - newest_.ns);
    newest_ = packet.time;
    Flow& flow = flows_[packet.slot];
    if (packet.is_first) {
      flow = {};
      figures_.flows += 1;
      under_way_ += packet.is_under_way ? 1 : 0;
      most_alive_ = std::max(most_alive_, ++alive_);
    }
    const uint32_t begun = flow.cut.Take(packet.time, wire_bytes);
    for (size_t t = 0; t < kFlowletGaps.size(); ++t) {
      figures_.flowlets[t] += static_cast<double>(begun >> t & 1);
    }
    flow.bytes += wire_bytes;
    ++flow.packets;
    ++packets_;
    bytes_ += wire_bytes;
    packet_bytes_.Record(wire_bytes);
    if (!packet.is_last) return;
    flow_bytes_.Record(flow.bytes);
    flow_packets_.Record(flow.packets);
    --alive_;
  }

  uint64_t packets() const { return packets_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t flows() const { return flow_bytes_.count(); }
  uint64_t under_way() const { return under_way_; }
  // The most flows that were under way at one time, each from its first packet
  // to its last.
  uint64_t most_alive() const { return most_alive_; }
  // The mean number of flows under way over the time `time`, in which all
  // packets lie.
  double MeanAlive(Nanos time) const {
    return alive_ns_ / static_cast<double>(time.ns);
  }
  const FlowletFigures& figures() const { return figures_; }
  const Histogram& packet_bytes() const { return packet_bytes_; }
  const Histogram& flow_bytes() const { return flow_bytes_; }
  const Histogram& flow_packets() const { return flow_packets_; }

 private:
  struct Flow {
    FlowletCut cut;
    int64_t bytes = 0;
    int64_t packets = 0;
  };

  std::vector<Flow> flows_;  // by slot
  FlowletFigures figures_;
  uint64_t packets_ = 0;
  uint64_t bytes_ = 0;
  uint64_t under_way_ = 0;
  uint64_t alive_ = 0;
  uint64_t most_alive_ = 0;
  double alive_ns_ = 0;  // of all flows
  Nanos newest_{};       // packet
  Histogram packet_bytes_;
  Histogram flow_bytes_;
  Histogram flow_packets_;
};

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_OVERLAY_TALLY_H_
