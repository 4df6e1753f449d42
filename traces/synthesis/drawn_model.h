// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_DRAWN_MODEL_H_
#define SNF_TRACES_SYNTHESIS_DRAWN_MODEL_H_

#include <cstdint>
#include <optional>

#include "base/rng.h"
#include "traces/synthesis/distribution.h"
#include "traces/synthesis/flow_model.h"

namespace snf {

// What flows are drawn from, where no capture is to be imitated.
struct FlowDistributions {
  Distribution flow_bytes;     // a flow ends with the packet that reaches it
  Distribution packet_bytes;   // Ethernet header included
  Distribution gap;            // between packets of a burst
  Distribution burst_packets;  // of an on period
  Distribution pause;          // of an off period
  double tcp_share = 1;        // of flows; the others are UDP
  double server_share = 0;     // of packets: sent by the server
};

// `flows` of them. Draws no more than kMostDrawnPackets packets: a flow that
// would be longer ends there.
inline constexpr uint64_t kMostDrawnPackets = 100'000'000;
FlowModel DrawnModel(const FlowDistributions& distributions, uint32_t flows,
                     Rng rng);

// How many flows of `model` are under way at a time, on average, where they add
// up to the rate: from the first packet of each to its last (Little's law).
double ConcurrencyOf(const FlowModel& model, int64_t rate_bps);

// The same flows, with all gaps so much longer that ConcurrencyOf is `flows`.
FlowModel WithConcurrency(const FlowModel& model, int64_t rate_bps,
                          uint32_t flows);

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_DRAWN_MODEL_H_
