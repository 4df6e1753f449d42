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
//
// A flowlet's measured rate is its bytes over the larger of its duration and T,
// at most a unit's capacity: the rate at which it loads a unit within the
// detector's own horizon (proto/decisions.md 10). DemandRule::kBurst leaves the
// floor out.
//
// Worked example, T = 500 µs: a lone 1500-byte packet measures 24 Mbit/s; ten
// of them within 2 ms measure 60 Mbit/s. With δ = 0.5, a flow estimated at
// 24 Mbit/s that then measured 60 is estimated at 42.
//
// Integers only, so the estimates are the same on every machine. A value.
class DemandEstimator {
 public:
  explicit DemandEstimator(const ControllerOptions& options)
      : rule_(options.demand_rule),
        floor_ns_(options.flowlet_timeout.ns),
        delta_65536_(options.ewma_delta_65536),
        capacity_bps_(options.unit_capacity_bps),
        first_bps_(
            options.first_demand_bps != 0
                ? std::min(options.first_demand_bps, options.unit_capacity_bps)
                : options.unit_capacity_bps / 100) {}

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
    if (measured_ == 0) return first_bps_;
    return static_cast<int64_t>(sum_ / measured_ << kMeanShift);
  }

 private:
  // The sum counts units of 64 bit/s: 10^9 flowlets of 1 Tbit/s, or 10^12 of
  // 1 Gbit/s, fit into it.
  static constexpr int kMeanShift = 6;
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 31;

  DemandRule rule_;
  int64_t floor_ns_;
  int64_t delta_65536_;
  int64_t capacity_bps_;
  int64_t first_bps_;
  uint64_t sum_ = 0;
  uint64_t measured_ = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_DEMAND_ESTIMATOR_H_
