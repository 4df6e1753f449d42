// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/flowlet_figures.h"

#include <algorithm>

namespace snf {
namespace {

double WeightOf(std::span<const double> weights, size_t i) {
  return weights.empty() ? 1.0 : weights[i];
}

}  // namespace

FlowletFigures WholeFigures(const Conversations& conversations, size_t first,
                            size_t end, std::span<const double> weights,
                            double divisor) {
  FlowletFigures figures;
  for (size_t i = first; i < end; ++i) {
    const double weight = WeightOf(weights, i);
    const std::span<const int64_t> offsets = conversations.OffsetsOf(i);
    FlowletCut cut;
    for (size_t k = 0; k < offsets.size(); ++k) {
      const auto offset =
          divisor == 1
              ? offsets[k]
              : static_cast<int64_t>(static_cast<double>(offsets[k]) / divisor);
      const uint32_t begun = cut.Take({offset}, conversations.WireBytes(i, k));
      for (size_t t = 0; t < kFlowletGaps.size(); ++t) {
        if ((begun >> t & 1) != 0) figures.flowlets[t] += weight;
      }
    }
    figures.flows += weight;
  }
  return figures;
}

FlowletFigures WindowFigures(const Conversations& conversations, Nanos window,
                             Nanos period, std::span<const double> weights) {
  FlowletFigures figures;
  const auto length = static_cast<double>(window.ns);
  for (size_t i = 0; i < conversations.size(); ++i) {
    const double weight = WeightOf(weights, i);
    const std::span<const int64_t> offsets = conversations.OffsetsOf(i);
    const int64_t last_gap = period.ns - offsets.back();
    FlowletCut cut;
    for (size_t k = 0; k < offsets.size(); ++k) {
      const uint32_t begun =
          cut.Take({offsets[k]}, conversations.WireBytes(i, k));
      // Number of places of a window in which the packet is the first of this
      // flow. Each such window shows the flow, and the packet begins a flowlet
      // in it.
      const int64_t gap = k == 0 ? last_gap : offsets[k] - offsets[k - 1];
      const double as_first =
          weight * static_cast<double>(std::min(gap, window.ns));
      figures.flows += as_first;
      for (size_t t = 0; t < kFlowletGaps.size(); ++t) {
        const bool begins = (begun >> t & 1) != 0 &&
                            !(k == 0 && last_gap <= kFlowletGaps[t].ns);
        figures.flowlets[t] += begins ? weight * length : as_first;
      }
    }
  }
  return figures;
}

}  // namespace snf
