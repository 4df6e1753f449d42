// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_FILL_LIMIT_H_
#define SNF_CONTROLLER_UNITS_FILL_LIMIT_H_

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "controller/units/load_meter.h"
#include "controller/units/pool_options.h"

namespace snf {

// Theory of operation. The load up to which units are filled
// (proto/decisions.md 32). With LoadSignal::kWait a load is a wait, in parts of
// latency_target, and the limit is the only thing that decides between few
// units and short waits. So it is controlled by its purpose: 1 % of the packets
// that are given to units may meet a wait above the target. Each packet that
// does lowers the limit by 99 steps, every other raises it by one, so that it
// comes to rest where 1 % do. It stays between a quarter and the whole of the
// target: bursts of a single flow wait for themselves wherever they run, and no
// number of units would help them.
//
// Worked example: a limit of 1024 quanta, and 64 packets that meet too long a
// wait: the limit falls by 64 · 99 / 64 = 99 quanta, and it takes 6336 packets
// without one to raise it again.
//
// With the other signals the limit is a full unit. A value; owner-thread only.
class FillLimit {
 public:
  explicit FillLimit(const UnitPoolOptions& options)
      : step_(options.load_signal == LoadSignal::kWait ? kStep : 0),
        allowed_bytes_(BytesOf(options.latency_target, options)) {}

  // Returns the bytes that a unit works off in `time`.
  static uint64_t BytesOf(Nanos time, const UnitPoolOptions& options) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>(
        Wide{static_cast<uint64_t>(options.unit_capacity_bps)} *
        static_cast<uint64_t>(time.ns) / 8'000'000'000);
  }

  // Counts a packet that is given to a unit at which `queued_bytes` wait.
  // Budget: ≤ 1 ns.
  void Count(uint64_t queued_bytes) {
    value_ += queued_bytes > allowed_bytes_ ? -kLateSteps * step_ : step_;
    value_ = std::clamp(value_, kLeast, kMost);
  }

  // Returns the limit in quanta, at most kFullLoad.
  uint32_t value() const { return static_cast<uint32_t>(value_ / kQuantum); }

 private:
  static constexpr int64_t kQuantum = 1 << 16;
  static constexpr int64_t kMost = kFullLoad * kQuantum;
  static constexpr int64_t kLeast = kMost / 4;
  static constexpr int64_t kStep = kQuantum / 64;
  static constexpr int64_t kLateSteps = 99;

  int64_t step_;
  uint64_t allowed_bytes_;
  int64_t value_ = kMost;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_FILL_LIMIT_H_
