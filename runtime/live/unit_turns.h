// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_UNIT_TURNS_H_
#define SNF_RUNTIME_LIVE_UNIT_TURNS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"

namespace snf {

// A loop's view of what lets loops of several controllers share units: the
// loops take their turns on one thread, each loop is a controller's inbox in
// the units that it runs, and a unit serves one packet at a time. All calls are
// made by that thread, with the number that the loop's controller has for the
// unit.
class UnitTurns {
 public:
  virtual ~UnitTurns() = default;

  // The controller uses the unit from now on; all that a leaving controller has
  // sent there was served; nothing of the controller is left there.
  virtual void on_start(UnitId unit) = 0;
  virtual void on_drained(UnitId unit) = 0;
  virtual void on_stopped(UnitId unit) = 0;

  // The inbox has a packet that can be served next, of that cost in bytes; or
  // has none.
  virtual void on_next(UnitId unit, uint32_t cost) = 0;
  virtual void on_empty(UnitId unit) = 0;
  // Returns true if the unit is to serve that packet now; then on_served
  // follows, with the time of the machine's clock at which its service ended.
  virtual bool Begin(UnitId unit) = 0;
  virtual void on_served(UnitId unit, Instant end) = 0;
  // Returns when the last service ended, of whichever inbox; Instant::min() if
  // there was none.
  virtual Instant last_end(UnitId unit) const = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_UNIT_TURNS_H_
