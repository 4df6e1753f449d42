// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_REAL_CLOCK_H_
#define SNF_RUNTIME_RING_REAL_CLOCK_H_

#include <time.h>

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace snf {

// The clock of a run in real time: the machine's monotonic one, set to the
// capture's time at its first packet. At the end of a run, when nothing is
// under way, it may skip to the next thing that is due.
//
// Any thread may read; one thread sets the clock. Times read before Start are
// void. Budget: Now ≤ 30 ns.
class RealClock {
 public:
  static Instant Monotonic() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
  }

  void Start(Instant now) {
    offset_.store((now - Monotonic()).ns, std::memory_order_seq_cst);
  }
  Instant Now() const {
    return Monotonic() + Nanos{offset_.load(std::memory_order_seq_cst)};
  }
  // How far the clock is ahead of Monotonic().
  Nanos offset() const {
    return Nanos{offset_.load(std::memory_order_seq_cst)};
  }
  void SetOffset(Nanos offset) {
    offset_.store(offset.ns, std::memory_order_seq_cst);
  }
  // Goes as the other one does now.
  void Follow(const RealClock& other) {
    offset_.store(other.offset_.load(std::memory_order_relaxed),
                  std::memory_order_seq_cst);
  }
  // Does nothing if that has passed.
  void SkipTo(Instant time) {
    const Nanos ahead = time - Now();
    if (ahead.ns > 0) {
      offset_.fetch_add(ahead.ns, std::memory_order_seq_cst);
    }
  }

 private:
  std::atomic<int64_t> offset_{0};
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_REAL_CLOCK_H_
