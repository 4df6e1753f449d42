// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_SIMULATE_FLOW_TRAFFIC_H_
#define SNF_PLATFORM_COMMANDS_SIMULATE_FLOW_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/rng.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "traces/synthesis/distribution.h"

namespace snf {

// Theory of operation. Traffic by flows, without packets: a flow has a rate all
// along its life, and belongs to one controller. Flows begin as a Poisson
// process, each at a newly drawn controller; their rates and durations come
// from kModelFlows flows drawn from distributions at construction. The traffic
// is stationary from time 0 on: the average number of flows is under way then,
// each drawn in proportion to its duration, at a random point of its life.
//
// Worked example: flows of 10 Mbit/s for 100 ms make 1 Gbit/s if 100 are under
// way on average, so if 1,000 begin a second.
//
// A flow ends up to 33 µs late, by the ticks of the timing wheel. The same
// options give the same flows on every machine that has the same logarithms.
//
// A value; owner-thread only. Next is O(1), whatever the number of flows.
class FlowTraffic {
 public:
  static constexpr uint32_t kModelFlows = 20'000;
  // At the same time.
  static constexpr uint32_t kMostFlows = 1u << 24;

  struct Options {
    uint32_t controllers = 1;  // > 0
    int64_t rate_bps = 0;      // of all together, on average
    Distribution flow_rate;    // in bit/s
    Distribution flow_duration;
    uint64_t seed = 1;
  };
  // A flow begins, or one ends.
  struct Change {
    Instant time;
    uint32_t controller = 0;
    int64_t bps = 0;  // below 0: it ends
  };

  // A flow has at least 1 bit/s and lasts at least 1 ns. Errors:
  // InvalidArgument if more would be under way on average than half of
  // kMostFlows, or they would begin more often than once in a nanosecond or
  // less often than once in an hour.
  static absl::StatusOr<FlowTraffic> Create(const Options& options);

  // Returns the next change that is due before `end`, or one of 0 bit/s at
  // `end` if none is. Times do not decrease; flows under way at the start have
  // time 0.
  Change Next(Instant end);

  uint32_t under_way() const { return under_way_; }
  // Counts flows that could not begin, as there were kMostFlows.
  uint64_t refused() const { return refused_; }

 private:
  struct Flow {
    int64_t bps;
    int64_t duration_ns;
  };
  struct UnderWay {
    uint32_t controller;
    uint32_t model;  // when free: the next free one
  };

  FlowTraffic(const Options& options, std::vector<Flow> model, double alive);
  void DrawNextBegin();
  Change Begin(Instant now, uint32_t model, int64_t left_ns);

  uint32_t controllers_;
  std::vector<Flow> model_;
  std::vector<int64_t> durations_before_;  // sums, one more than flows
  Rng rng_;
  uint64_t at_start_;  // flows that are yet to be put under way
  int64_t mean_gap_;   // in 2^-10 ns, as the next
  int64_t next_begin_ = 0;
  uint32_t under_way_ = 0;
  uint64_t refused_ = 0;
  std::vector<UnderWay> flows_;
  uint32_t free_ = TimingWheel::kNone;
  TimingWheel ends_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_SIMULATE_FLOW_TRAFFIC_H_
