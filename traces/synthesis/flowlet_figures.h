// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_SYNTHESIS_FLOWLET_FIGURES_H_
#define SNF_TRACES_SYNTHESIS_FLOWLET_FIGURES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "traces/synthesis/conversations.h"

namespace snf {

// The three timeouts T and the one limit B for which flowlets per flow, the
// chances to assign a flow to another unit, are counted. A packet begins a
// flowlet when it is its flow's first, when it comes more than T after the
// previous packet, or when the flowlet would exceed B bytes with it.
inline constexpr std::array kFlowletGaps = {Microseconds(100),
                                            Microseconds(500), Milliseconds(5)};
inline constexpr uint32_t kFlowletBytes = 15'000;

// The weighted numbers of flows and, for each T, of flowlets.
struct FlowletFigures {
  std::array<double, kFlowletGaps.size()> flowlets{};
  double flows = 0;

  double PerFlow(size_t gap) const {
    return flows == 0 ? 0 : flowlets[gap] / flows;
  }
  void Add(const FlowletFigures& other) {
    for (size_t i = 0; i < flowlets.size(); ++i) {
      flowlets[i] += other.flowlets[i];
    }
    flows += other.flows;
  }
};

// Cuts one flow into flowlets. It takes the packets in the order of time.
class FlowletCut {
 public:
  // Returns a bit for each of kFlowletGaps by which the packet begins a
  // flowlet.
  uint32_t Take(Nanos time, uint32_t wire_bytes) {
    uint32_t begun = 0;
    for (size_t i = 0; i < kFlowletGaps.size(); ++i) {
      const bool begins = is_new_ || time.ns - last_ > kFlowletGaps[i].ns ||
                          bytes_[i] + wire_bytes > kFlowletBytes;
      begun |= uint32_t{begins} << i;
      bytes_[i] = (begins ? 0 : bytes_[i]) + wire_bytes;
    }
    last_ = time.ns;
    is_new_ = false;
    return begun;
  }

 private:
  int64_t last_ = 0;
  std::array<uint32_t, kFlowletGaps.size()> bytes_{};
  bool is_new_ = true;
};

// Returns the figures of the conversations, with the times of the ones from
// `first` to before `end` divided by `divisor`. `weights` as in
// Overlay::Options.
FlowletFigures WholeFigures(const Conversations& conversations, size_t first,
                            size_t end, std::span<const double> weights,
                            double divisor = 1);

// Returns the figures that a window of length `window` shows on average if
// copies of each conversation begin at any time; overlay.h has the theory. A
// conversation with long gaps is seen by many windows, each of which takes the
// piece that it sees for a flow.
FlowletFigures WindowFigures(const Conversations& conversations, Nanos window,
                             Nanos period, std::span<const double> weights);

}  // namespace snf

#endif  // SNF_TRACES_SYNTHESIS_FLOWLET_FIGURES_H_
