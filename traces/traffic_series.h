// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_TRACES_TRAFFIC_SERIES_H_
#define SNF_TRACES_TRAFFIC_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace snf {

// Bytes over time in at most kMaxBins bins of equal width. The width begins
// with 1 ms and is doubled whenever the bins do not suffice. Example: a packet
// at 1 s ends in bin 1,000; one at 3 s then makes the bins 2 ms wide. A value;
// owner-thread only. O(1) amortised.
class TrafficSeries {
 public:
  static constexpr size_t kMaxBins = 2'048;

  // Counts bytes at the time `since` ≥ 0 after the start.
  void Add(Nanos since, uint64_t bytes) {
    while (static_cast<uint64_t>(since.ns / width_.ns) >= kMaxBins) Halve();
    const auto bin = static_cast<size_t>(since.ns / width_.ns);
    if (bin >= bins_.size()) bins_.resize(bin + 1);
    bins_[bin] += bytes;
  }

  Nanos width() const { return width_; }
  const std::vector<uint64_t>& bins() const { return bins_; }

 private:
  void Halve() {
    for (size_t i = 0; i < bins_.size(); ++i) {
      const uint64_t bytes = bins_[i];
      bins_[i] = 0;
      bins_[i / 2] += bytes;
    }
    bins_.resize((bins_.size() + 1) / 2);
    width_.ns *= 2;
  }

  Nanos width_ = Milliseconds(1);
  std::vector<uint64_t> bins_;
};

}  // namespace snf

#endif  // SNF_TRACES_TRAFFIC_SERIES_H_
