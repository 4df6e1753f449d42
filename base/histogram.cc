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

void Histogram::AppendWords(std::vector<uint64_t>& words) const {
  const size_t begin = words.size();
  words.insert(words.end(), {0, count_, sum_, static_cast<uint64_t>(lowest_),
                             static_cast<uint64_t>(max_)});
  for (size_t i = 0; i < kBuckets; ++i) {
    if (counts_[i] == 0) continue;
    words.insert(words.end(), {i, counts_[i]});
    ++words[begin];
  }
}

bool Histogram::MergeWords(std::span<const uint64_t>& words) {
  constexpr size_t kFixed = 5;
  if (words.size() < kFixed || words[0] > kBuckets ||
      words.size() < kFixed + 2 * words[0]) {
    return false;
  }
  Histogram more;
  more.count_ = words[1];
  more.sum_ = words[2];
  more.lowest_ = static_cast<int64_t>(words[3]);
  more.max_ = static_cast<int64_t>(words[4]);
  constexpr uint64_t kMost = uint64_t{1} << 48;
  if (more.count_ > kMost || more.lowest_ < 0 || more.max_ < 0) return false;
  uint64_t count = 0;
  size_t last = 0;
  for (size_t i = 0; i < words[0]; ++i) {
    const uint64_t bucket = words[kFixed + 2 * i];
    const uint64_t recorded = words[kFixed + 2 * i + 1];
    if (bucket >= kBuckets || (i > 0 && bucket <= last)) return false;
    if (recorded == 0 || recorded > more.count_ - count) return false;
    // Quantiles are looked for from the lowest one's bucket on.
    if (i == 0 && bucket != BucketOf(more.lowest_)) return false;
    last = bucket;
    more.counts_[bucket] = recorded;
    count += recorded;
  }
  if (count != more.count_) return false;
  if (count > 0 && last != BucketOf(more.max_)) return false;
  words = words.subspan(kFixed + 2 * words[0]);
  Merge(more);
  return true;
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
