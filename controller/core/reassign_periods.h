// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_REASSIGN_PERIODS_H_
#define SNF_CONTROLLER_CORE_REASSIGN_PERIODS_H_

#include "base/check.h"
#include "base/time.h"

namespace snf {

// Theory of operation. The periods after which policies like smart_flow place
// each flow again (ControllerOptions::reassign_period), on a grid that begins
// at time 0 for all flows. A flow is due with its first packet in a period.
//
// Worked example, a period of 100 ms: packets of a flow at 250 ms, 290 ms and
// 305 ms. The last one is the first in the period from 300 ms to 400 ms; the
// one at 290 ms is not the first in its own.
//
// A value; owner-thread only. Divides only if the arrival lies in another
// period than the arrival before.
class ReassignPeriods {
 public:
  explicit ReassignPeriods(Nanos period) : period_(period) {
    SNF_CHECK(period_.ns > 0);
  }

  void set_period(Nanos period) {
    period_ = period;
    start_ = {};
  }
  // Returns true if the period of `arrival` began after the last packet.
  bool Begins(Instant arrival, Instant last_packet) {
    if (arrival < start_ || arrival - start_ >= period_) {
      const int64_t into = arrival.ns % period_.ns;
      start_ = arrival + Nanos{into < 0 ? -period_.ns - into : -into};
    }
    return last_packet < start_;
  }

 private:
  Nanos period_;
  Instant start_;  // of the period last looked up
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_REASSIGN_PERIODS_H_
