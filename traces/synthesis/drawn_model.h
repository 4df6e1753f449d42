// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_DRAWN_MODEL_H_
#define SNF_TRACES_SYNTHESIS_DRAWN_MODEL_H_

#include <cstdint>
#include <optional>

#include "base/rng.h"
#include "traces/synthesis/distribution.h"
#include "traces/synthesis/flow_model.h"

namespace snf {

// The distributions that flows are drawn from if they imitate no capture.
struct FlowDistributions {
  Distribution flow_bytes;     // a flow ends with the packet that reaches it
  Distribution packet_bytes;   // Ethernet header included
  Distribution gap;            // between packets of a burst
  Distribution burst_packets;  // of an on period
  Distribution pause;          // of an off period
  double tcp_share = 1;        // of flows; the others are UDP
  double server_share = 0;     // of packets: sent by the server
};

// The most packets of a model that is drawn: the flow that would exceed it ends
// there.
inline constexpr uint64_t kMostDrawnPackets = 100'000'000;

// Draws `flows` flows.
FlowModel DrawnModel(const FlowDistributions& distributions, uint32_t flows,
                     Rng rng);

// Returns how many flows of `model` are under way at a time, on average, if
// they add up to the rate. A flow is under way from its first packet to its
// last (Little's law).
double ConcurrencyOf(const FlowModel& model, int64_t rate_bps);

// Returns the same flows with all gaps stretched so that ConcurrencyOf is
// `flows`.
FlowModel WithConcurrency(const FlowModel& model, int64_t rate_bps,
                          uint32_t flows);

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_DRAWN_MODEL_H_
