// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_PACED_SERVICE_H_
#define SNF_RUNTIME_LIVE_PACED_SERVICE_H_

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace snf {

// Says when the packets end that a unit of the service model (service_model.h)
// serves on the real clock. The unit is looked at now and then, later than a
// packet ends: its capacity must not suffer from that, or flows that wait for
// one another would make the unit ever later. So a packet begins when the one
// before it ended, be that long ago, as long as there was one to begin.
//
// Worked example, packets of 10 µs: two are there at 100 µs, and end at 110 and
// 120, though both ends are seen at 150. There is nothing to run then. State
// comes at 200, for which a packet was held since 130: it ends at 210.
//
// A value; owner-thread only.
class PacedService {
 public:
  // The unit can serve from now on.
  void Start(Instant now) { end_ = std::max(end_, now); }
  // The unit has no packet to begin.
  void SeeIdle() { was_idle_ = true; }
  // The next packet begins, at `now` as it seems. A packet that `has_waited`
  // could not begin at its arrival: it waited for what came just now, unless it
  // is behind others.
  void Begin(Instant now, Instant arrival, bool has_waited, Nanos takes) {
    const bool was_idle = std::exchange(was_idle_, false);
    if (!has_waited) {
      end_ = std::max(end_, arrival);
    } else if (was_idle) {
      end_ = std::max(end_, now);
    }
    end_ = end_ + takes;
  }
  // Returns when the packet in service ends, or else when the last one did.
  Instant end() const { return end_; }

 private:
  Instant end_ = Instant::min();
  bool was_idle_ = true;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_PACED_SERVICE_H_
