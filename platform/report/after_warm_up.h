// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_AFTER_WARM_UP_H_
#define SNF_PLATFORM_REPORT_AFTER_WARM_UP_H_

#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/time.h"
#include "platform/run/provisioning.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"

namespace snf {

// Measures what runs are judged by without their beginning, when units start
// and little is known of flows yet: the latency of packets that arrived when
// the warm-up was over, and from then on the units that were up and how they
// were used. Owner-thread only.
class AfterWarmUp final : public RunObserver {
 public:
  AfterWarmUp(Nanos warm_up, const ControllerOptions& options)
      : warm_up_(warm_up), is_up_(options.max_units), provisioning_(options) {}

  // Puts what was measured in the place of that of the whole run: latency_ns,
  // units_max, units_mean_1000 and utilisation_1000. Returns false, and changes
  // nothing, if no packet left that arrived after the warm-up.
  bool Apply(RunResult& result) const;

  void on_start(Instant first_packet) override {
    begin_ = first_packet + warm_up_;
  }
  void on_arrival(Instant now, const FlowKey& key,
                  uint32_t original_length) override;
  void on_unit_up(Instant now, UnitId unit) override;
  void on_unit_down(Instant now, UnitId unit) override;
  void on_drained(Instant now, UnitId unit, uint32_t packets,
                  uint64_t bytes) override;
  void on_release(const ReleasedPacket& packet) override;
  void on_end(Instant now) override;

 private:
  // Returns true if the warm-up is over, which it is once and for all.
  bool IsOver(Instant now);

  Nanos warm_up_;
  Instant begin_;  // of what is measured
  bool is_over_ = false;
  std::vector<bool> is_up_;  // by unit, during the warm-up
  Provisioning provisioning_;
  Histogram latency_ns_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_AFTER_WARM_UP_H_
