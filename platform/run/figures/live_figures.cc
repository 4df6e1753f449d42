// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures/live_figures.h"

namespace snf {

LiveFigures::Times LiveTimes::Take(const Histogram& grown) {
  const LiveFigures::Times times = {
      .now = {.p50 = {grown.QuantileSince(before_, 50'000)},
              .p99 = {grown.QuantileSince(before_, 99'000)}},
      .all = {.p50 = {grown.Quantile(50'000)}, .p99 = {grown.Quantile(99'000)}},
      .max = {grown.max()},
      .count = grown.count(),
      .sum_ns = grown.sum()};
  before_ = grown;
  return times;
}

}  // namespace snf
