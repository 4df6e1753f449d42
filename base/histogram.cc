// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <algorithm>

namespace snf {

int64_t Histogram::GreatestOf(size_t bucket) {
  if (bucket < 2 * kPerPowerOfTwo) return static_cast<int64_t>(bucket);
  const size_t shift = bucket / kPerPowerOfTwo - 1;
  const uint64_t top = bucket - shift * kPerPowerOfTwo;
  return static_cast<int64_t>(((top + 1) << shift) - 1);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  AddToSum(other.sum_);
  lowest_ = std::min(lowest_, other.lowest_);
  max_ = std::max(max_, other.max_);
}

void Histogram::Reset() {
  // The counts are cleared in place: assigning a new Histogram would allocate.
  std::fill(counts_.begin(), counts_.end(), 0);
  count_ = 0;
  sum_ = 0;
  lowest_ = std::numeric_limits<int64_t>::max();
  max_ = 0;
}

int64_t Histogram::Quantile(uint32_t per_100000) const {
  SNF_CHECK(per_100000 <= 100'000);
  if (count_ == 0) return 0;
  if (per_100000 == 0) return lowest_;
  // This many values, rounded up, must not exceed the answer.
  const unsigned __int128 parts =
      static_cast<unsigned __int128>(count_) * per_100000 + 99'999;
  const uint64_t wanted = static_cast<uint64_t>(parts / 100'000);
  size_t bucket = 0;
  for (uint64_t seen = counts_[0]; seen < wanted; seen += counts_[bucket]) {
    ++bucket;
  }
  return std::min(GreatestOf(bucket), max_);
}

int64_t Histogram::QuantileSince(const Histogram& earlier,
                                 uint32_t per_100000) const {
  SNF_CHECK(per_100000 <= 100'000);
  SNF_CHECK(earlier.count_ <= count_);
  const uint64_t count = count_ - earlier.count_;
  if (count == 0) return 0;
  const unsigned __int128 parts =
      static_cast<unsigned __int128>(count) * per_100000 + 99'999;
  const uint64_t wanted =
      std::max(static_cast<uint64_t>(parts / 100'000), uint64_t{1});
  size_t bucket = BucketOf(lowest_);
  for (uint64_t seen = 0; true; ++bucket) {
    seen += counts_[bucket] - earlier.counts_[bucket];
    if (seen >= wanted) return std::min(GreatestOf(bucket), max_);
  }
}

}  // namespace snf
