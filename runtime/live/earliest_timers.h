// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_EARLIEST_TIMERS_H_
#define SNF_RUNTIME_LIVE_EARLIEST_TIMERS_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/time.h"

namespace snf {

// The earliest timer of each unit of a loop, side by side: a look for units
// with a due timer does not touch the memory of units, which would push the
// packets' out of the caches.
//
// Owner-thread only.
class EarliestTimers {
 public:
  // Adds a unit, with the next index.
  void Add(Instant timer) { timers_.push_back(timer); }
  // Sets the timer of the unit; Instant::max() for none.
  void Set(size_t unit, Instant timer) {
    timers_[unit] = timer;
    next_ = std::min(next_, timer);
  }
  // Returns a time not after the earliest timer of all units.
  Instant next() const { return next_; }
  // Calls run(i), which calls Set, for each unit with a due timer. next() is
  // exact afterwards.
  template <typename Run>
  void ForEachDue(Instant now, const Run& run) {
    next_ = Instant::max();
    for (size_t i = 0; i < timers_.size(); ++i) {
      if (timers_[i] <= now) run(i);
      next_ = std::min(next_, timers_[i]);
    }
  }

 private:
  std::vector<Instant> timers_;  // by unit
  Instant next_ = Instant::max();
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_EARLIEST_TIMERS_H_
