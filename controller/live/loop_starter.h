// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_LOOP_STARTER_H_
#define SNF_CONTROLLER_LIVE_LOOP_STARTER_H_

#include "base/ids.h"

namespace snf {

// Lets loops of units begin to run when one of their units is to start, where
// not all of them run at all times.
class LoopStarter {
 public:
  virtual ~LoopStarter() = default;
  // The controller starts the unit. Returns true if its loop runs; else the
  // start waits for ControllerLoop::BeginStarts of that loop.
  virtual bool on_start(UnitId unit) = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_LOOP_STARTER_H_
