// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_RECOVERY_OWNER_RUNS_H_
#define SNF_CONTROLLER_RECOVERY_OWNER_RUNS_H_

#include <cstddef>
#include <span>

#include "base/ids.h"
#include "controller/recovery/owner_history.h"

namespace snf {

// Theory of operation. The history of one flow while it is recovered: its runs
// of clocks, oldest first, where the last is that of the owner. OwnerHistory
// keeps the runs of all flows, but not the owner's, and only adds runs; here a
// lost clock in the middle of a run goes to another unit (Assign), which splits
// the run. Neighbouring clocks at one place are one run.
//
// Worked example: clocks 1-9 were at unit 0, which has failed, and clock 4 is
// lost. Assign(4, unit 1) makes the runs 1-3 at unit 0, 4 at unit 1, and 5-9 at
// unit 0. If clock 5 is lost as well, it extends the run of unit 1: 4-5.
//
// A value. The runs lie in one of two rooms of equal size, which outlive the
// object: no other may use them meanwhile.
class OwnerRuns {
 public:
  using Run = OwnerHistory::Run;

  OwnerRuns(std::span<Run> room, std::span<Run> spare)
      : room_(room), spare_(spare) {}

  // Adds the newest run. Returns false, and does nothing, if there is no room.
  bool Append(const Run& run) {
    if (count_ == room_.size()) return false;
    room_[count_++] = run;
    return true;
  }
  std::span<Run> all() { return room_.first(count_); }
  std::span<const Run> all() const { return room_.first(count_); }
  // Returns the run with that clock, or null.
  const Run* Find(Clock clock) const {
    for (const Run& run : all()) {
      if (clock >= run.first && clock <= run.last) return &run;
    }
    return nullptr;
  }
  // Gives the clock, which a run has, to `unit`. Returns false, and does
  // nothing, if there is no room.
  bool Assign(Clock clock, UnitId unit) {
    if (count_ + 2 > room_.size()) return false;
    OwnerRuns made(spare_, room_);
    for (const Run& run : all()) {
      if (clock < run.first || clock > run.last) {
        made.Extend(run);
        continue;
      }
      Run part = run;
      part.last = clock - 1;
      if (part.first <= part.last) made.Extend(part);
      made.Extend({.first = clock, .last = clock, .unit = unit});
      part = run;
      part.first = clock + 1;
      if (part.first <= part.last) made.Extend(part);
    }
    *this = made;
    return true;
  }

 private:
  // Appends a run, or extends the last one if that is at the same place.
  void Extend(const Run& run) {
    Run* const last = count_ > 0 ? &room_[count_ - 1] : nullptr;
    if (last != nullptr && last->unit == run.unit &&
        last->at_logger == run.at_logger &&
        last->is_superseded == run.is_superseded) {
      last->last = run.last;
    } else {
      Append(run);
    }
  }

  std::span<Run> room_;
  std::span<Run> spare_;
  size_t count_ = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_RECOVERY_OWNER_RUNS_H_
