// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_UNIT_SERIES_H_
#define SNF_PLATFORM_REPORT_UNIT_SERIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "platform/run/run_events.h"

namespace snf {

// Collects what single units did over time, as CSV. Times are since the run's
// first packet. A unit is up from the order to start it until it is parked, as
// in Provisioning.
//
// UnitTimes() has a line for each time that a unit was up, in the order of
// their ends: so their sum is what was provisioned, to the nanosecond.
//
//   unit, up_s, down_s, packets, bytes (drained; original lengths)
//
// UnitSteps() has a line for each step of 10 ms in which a unit was up or
// released packets. Steps are left out in which all units are idle, from 1 s
// behind the last event on, so a gap of years costs nothing:
//
//   start_s, unit, up (share of the step), utilisation (of what it could have
//   drained while it was up), packets (released), p50_s, p99_s (their
//   latency; empty without packets)
//
// Example: a unit of 1 Gbit/s that drained 125 kB in a step in which it was up
// for 5 ms has up 0.5 and utilisation 0.2.
//
// Memory grows with the lines. Owner-thread only.
class UnitSeries final : public RunObserver {
 public:
  static constexpr int64_t kStepNs = 10'000'000;

  UnitSeries(int64_t unit_capacity_bps, uint32_t max_units);

  const std::string& UnitTimes() const { return times_; }
  const std::string& UnitSteps() const { return steps_; }

  void on_start(Instant first_packet) override { start_ = first_packet; }
  void on_unit_up(Instant now, UnitId unit) override;
  void on_unit_down(Instant now, UnitId unit) override;
  void on_drained(Instant now, UnitId unit, uint32_t packets,
                  uint64_t bytes) override;
  void on_release(const ReleasedPacket& packet) override;
  // Closes the last step. Units that are still up are counted until now.
  void on_end(Instant now) override;

 private:
  struct Unit {
    bool is_up = false;
    Instant up_since;
    uint64_t packets = 0;  // drained since then
    uint64_t bytes = 0;
    // In this step:
    int64_t up_ns = 0;  // of times that are over
    uint64_t step_bytes = 0;
    std::vector<int64_t> latencies_ns;
  };

  // Closes the step if `now` is behind it.
  void Advance(Instant now);
  void CloseStep();
  void WriteStep(uint16_t id, int64_t begin_ns);

  double bytes_per_ns_;  // of a unit
  std::vector<Unit> units_;
  Instant start_;
  int64_t step_ = 0;  // steps before this one
  std::string times_;
  std::string steps_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_UNIT_SERIES_H_
