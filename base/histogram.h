// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_HISTOGRAM_H_
#define SNF_BASE_HISTOGRAM_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"

namespace snf {

// Counts how often each value was recorded: any int64 ≥ 0, to three significant
// digits, in a fixed 432 KiB (55,296 buckets of 8 bytes), allocated by the
// constructor alone.
//
// Theory of operation. Values below 2,048 have a bucket each. Above, each power
// of two is cut into 1,024 buckets of equal width, so that a bucket is never
// wider than 1/1,024 of its values (the log-linear layout of HdrHistogram). The
// bucket of v is found by shifting v until 11 bits are left. Worked example:
// 1,000,000 ns has 20 bits, is shifted by 9 to 1,953, and shares its bucket
// with 999,936 … 1,000,447.
//
// A quantile is given as the greatest value of its bucket, but never more than
// the exact maximum. So it is never too low, and too high by less than 1/1,024
// (0.098 %). Count, sum, minimum and maximum are exact.
//
// A value type; owner-thread only. Equal histograms have recorded the same
// numbers per bucket and the same exact figures, in any order.
class Histogram {
 public:
  Histogram() : counts_(kBuckets) {}

  // Budget: ≤ 5 ns, no allocation, no lock. `value` ≥ 0.
  void Record(int64_t value) { Record(value, 1); }
  // Records the value `times` times; times > 0.
  void Record(int64_t value, uint32_t times) {
    SNF_CHECK(value >= 0 && times > 0);
    counts_[BucketOf(value)] += times;
    count_ += times;
    AddToSum(static_cast<uint64_t>(value), times);
    if (value < lowest_) lowest_ = value;
    if (value > max_) max_ = value;
  }

  // Adds everything that `other` has recorded. O(buckets).
  void Merge(const Histogram& other);

  // Appends the histogram as words, for MergeWords in another process of the
  // same program: two words for each bucket in use, and five more.
  void AppendWords(std::vector<uint64_t>& words) const;
  // Adds the histogram that AppendWords wrote, and cuts its words off the front
  // of `words`. Returns false, and adds nothing, if these are not the words of
  // a histogram.
  bool MergeWords(std::span<const uint64_t>& words);

  // Forgets everything that was recorded. O(buckets), no allocation.
  void Reset();

  // Returns the smallest recorded value that at least `per_100000` of 100,000
  // of the values do not exceed, in the accuracy above: 50'000 is the median,
  // 99'900 is p99.9. 0 gives the exact minimum, 100'000 the exact maximum; an
  // empty histogram gives 0. per_100000 ≤ 100,000. O(buckets), some 10 µs.
  int64_t Quantile(uint32_t per_100000) const;
  // Returns the quantile of the values recorded after `earlier`, a copy of this
  // histogram, was made. Here 0 is only as exact as any other quantile.
  int64_t QuantileSince(const Histogram& earlier, uint32_t per_100000) const;

  uint64_t count() const { return count_; }
  // The sum saturates at 2^64 - 1, which nanoseconds reach after 584 years.
  uint64_t sum() const { return sum_; }
  // Minimum, maximum and mean (rounded down) of an empty histogram are 0.
  int64_t min() const { return count_ == 0 ? 0 : lowest_; }
  int64_t max() const { return max_; }
  int64_t mean() const {
    return count_ == 0 ? 0 : static_cast<int64_t>(sum_ / count_);
  }

  friend bool operator==(const Histogram&, const Histogram&) = default;

 private:
  static constexpr int kExactBits = 11;
  static constexpr size_t kPerPowerOfTwo = size_t{1} << (kExactBits - 1);
  static constexpr size_t kBuckets = kPerPowerOfTwo * (63 - kExactBits + 2);
  static_assert(kBuckets == 55'296);

  static size_t BucketOf(int64_t value) {
    const uint64_t v = static_cast<uint64_t>(value);
    const auto bits = std::bit_width(v | (2 * kPerPowerOfTwo - 1));
    const int shift = static_cast<int>(bits) - kExactBits;
    return static_cast<size_t>(shift) * kPerPowerOfTwo + (v >> shift);
  }
  static int64_t GreatestOf(size_t bucket);

  void AddToSum(uint64_t amount, uint32_t times = 1) {
    uint64_t product = 0;
    if (__builtin_mul_overflow(amount, times, &product) ||
        __builtin_add_overflow(sum_, product, &sum_)) {
      sum_ = ~uint64_t{0};
    }
  }

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  int64_t lowest_ = std::numeric_limits<int64_t>::max();
  int64_t max_ = 0;
};

}  // namespace snf

#endif  // SNF_BASE_HISTOGRAM_H_
