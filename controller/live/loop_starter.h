// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_LOOP_STARTER_H_
#define SNF_CONTROLLER_LIVE_LOOP_STARTER_H_

#include "base/ids.h"

namespace snf {

// Begins loops of units on demand, when a unit of theirs is to start.
class LoopStarter {
 public:
  virtual ~LoopStarter() = default;
  // The controller starts the unit. Returns true if its loop runs; else the
  // start waits for ControllerLoop::BeginStarts of that loop.
  virtual bool on_start(UnitId unit) = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_LOOP_STARTER_H_
