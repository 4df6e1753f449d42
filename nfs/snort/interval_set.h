// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_NFS_SNORT_INTERVAL_SET_H_
#define SNF_NFS_SNORT_INTERVAL_SET_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/byte_order.h"
#include "base/packet/ip_address.h"

namespace snf::snort {

// A set of unsigned numbers as sorted intervals that neither touch nor overlap.
// A value; thread-compatible.
template <typename T>
class IntervalSet {
 public:
  struct Interval {
    T first;
    T last;
    friend bool operator==(const Interval&, const Interval&) = default;
  };
  static constexpr T kMax = static_cast<T>(~T{0});

  IntervalSet() = default;
  static IntervalSet All() { return Of(0, kMax); }
  static IntervalSet Of(T first, T last) {
    IntervalSet set;
    set.intervals_.push_back({first, last});
    return set;
  }

  bool is_empty() const { return intervals_.empty(); }
  bool is_all() const {
    return intervals_.size() == 1 && intervals_[0].first == 0 &&
           intervals_[0].last == kMax;
  }
  const std::vector<Interval>& intervals() const { return intervals_; }

  // Budget: ≤ 10 ns for a few intervals.
  bool Contains(T value) const {
    const auto after = std::upper_bound(
        intervals_.begin(), intervals_.end(), value,
        [](T v, const Interval& interval) { return v < interval.first; });
    return after != intervals_.begin() && value <= std::prev(after)->last;
  }

  void Add(const IntervalSet& other) {
    std::vector<Interval> all = intervals_;
    all.insert(all.end(), other.intervals_.begin(), other.intervals_.end());
    std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) {
      return a.first < b.first;
    });
    intervals_.clear();
    for (const Interval& interval : all) {
      if (!intervals_.empty() &&
          (intervals_.back().last == kMax ||
           interval.first <= intervals_.back().last + 1)) {
        intervals_.back().last =
            std::max(intervals_.back().last, interval.last);
      } else {
        intervals_.push_back(interval);
      }
    }
  }
  IntervalSet Complement() const {
    IntervalSet set;
    T next = 0;
    for (const Interval& interval : intervals_) {
      if (interval.first > next) {
        set.intervals_.push_back({next, static_cast<T>(interval.first - 1)});
      }
      if (interval.last == kMax) return set;
      next = static_cast<T>(interval.last + 1);
    }
    set.intervals_.push_back({next, kMax});
    return set;
  }
  void Remove(const IntervalSet& other) {
    // A \ B is the complement of (complement of A) + B.
    IntervalSet outside = Complement();
    outside.Add(other);
    *this = outside.Complement();
  }

  friend bool operator==(const IntervalSet&, const IntervalSet&) = default;

 private:
  std::vector<Interval> intervals_;
};

// An address as a number; IPv4 in the mapped form (ip_address.h).
using AddressNumber = unsigned __int128;
using AddressSet = IntervalSet<AddressNumber>;
using PortSet = IntervalSet<uint16_t>;

inline AddressNumber NumberOf(const IpAddress& address) {
  const auto half = [&address](size_t at) {
    return SwapToBigEndian(LoadAs<uint64_t>(address.bytes.data() + at));
  };
  return AddressNumber{half(0)} << 64 | half(8);
}

}  // namespace snf::snort

#endif  // SNF_NFS_SNORT_INTERVAL_SET_H_
