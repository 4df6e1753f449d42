// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_DEMAND_ESTIMATOR_H_
#define SNF_CONTROLLER_CORE_DEMAND_ESTIMATOR_H_

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "controller/core/options.h"

namespace snf {

// Theory of operation. Estimates the rate that a new flowlet will need (SNF
// §4.1): for a flow's first flowlet, the mean measured rate of all flowlets of
// all flows so far; for a later one, e_n = δ·measured_{n-1} + (1-δ)·e_{n-1}.
// The mean begins as that of kPriorFlowlets flowlets of first_demand_bps: the
// first flowlets that end are those that B cut, and are faster than most.
//
// A flowlet's measured rate is its bytes over the larger of its duration and
// demand_floor, at most a unit's capacity (proto/decisions.md 10).
// DemandRule::kBurst leaves the floor out.
//
// Worked example, floor 500 µs: a lone 1500-byte packet measures 24 Mbit/s; ten
// of them within 2 ms measure 60 Mbit/s. With δ = 0.5, a flow estimated at
// 24 Mbit/s that then measured 60 is estimated at 42. With first_demand_bps
// 10 Mbit/s, new flows are estimated at 10.6 Mbit/s after those two flowlets:
// (100 · 10 + 24 + 60) / 102.
//
// Integers only, so the estimates are the same on every machine. A value.
class DemandEstimator {
 public:
  static constexpr uint64_t kPriorFlowlets = 100;

  explicit DemandEstimator(const ControllerOptions& options)
      : rule_(options.demand_rule),
        floor_ns_(options.demand_floor.ns),
        delta_65536_(options.ewma_delta_65536),
        capacity_bps_(options.unit_capacity_bps),
        sum_(kPriorFlowlets * (FirstOf(options) >> kMeanShift)) {}

  // Takes over δ and demand_floor.
  void Tune(const ControllerOptions& options) {
    floor_ns_ = options.demand_floor.ns;
    delta_65536_ = options.ewma_delta_65536;
  }

  // Returns the measured rate of a finished flowlet; `duration` is the time
  // from its first to its last packet. More than 2^31 bytes count as 2^31.
  int64_t Measure(uint64_t bytes, Nanos duration) const {
    const int64_t floor = rule_ == DemandRule::kFloor ? floor_ns_ : 0;
    const int64_t over_ns = std::max(duration.ns, floor);
    if (over_ns <= 0) return capacity_bps_;
    const uint64_t rate = std::min(bytes, kMaxBytes) * 8'000'000'000 /
                          static_cast<uint64_t>(over_ns);
    return static_cast<int64_t>(
        std::min(rate, static_cast<uint64_t>(capacity_bps_)));
  }

  // Adds a finished flowlet's rate to the mean and returns the flow's next
  // estimate, rounded down. Both rates are ≤ 2^40 bit/s.
  int64_t Update(int64_t estimate_bps, int64_t measured_bps) {
    sum_ += static_cast<uint64_t>(measured_bps) >> kMeanShift;
    ++measured_;
    constexpr int64_t kOne = 65'536;
    return (measured_bps * delta_65536_ +
            estimate_bps * (kOne - delta_65536_)) /
           kOne;
  }

  // Returns the estimate for a flow's first flowlet.
  int64_t FirstDemand() const {
    return static_cast<int64_t>(sum_ / measured_ << kMeanShift);
  }

 private:
  static uint64_t FirstOf(const ControllerOptions& options) {
    const int64_t capacity = options.unit_capacity_bps;
    return static_cast<uint64_t>(
        options.first_demand_bps != 0
            ? std::min(options.first_demand_bps, capacity)
            : capacity / 100);
  }

  // The sum counts units of 64 bit/s: 10^9 flowlets of 1 Tbit/s, or 10^12 of
  // 1 Gbit/s, fit into it.
  static constexpr int kMeanShift = 6;
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 31;

  DemandRule rule_;
  int64_t floor_ns_;
  int64_t delta_65536_;
  int64_t capacity_bps_;
  uint64_t sum_;  // of the prior and of all measured
  uint64_t measured_ = kPriorFlowlets;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_DEMAND_ESTIMATOR_H_
