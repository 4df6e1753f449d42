// SPDX-License-Identifier: Apache-2.0
#include "controller/live/unit_starter.h"

namespace snf {

bool UnitStarter::Begin(Instant now, const ControllerCommand& start) {
  if (starter_ != nullptr && !starter_->on_start(start.unit)) {
    starting_.push_back({.ready = Instant::max(), .command = start});
    return false;
  }
  const Nanos delay = start.warm ? warm_delay_ : cold_delay_;
  if (delay.ns == 0) return true;
  starting_.push_back({.ready = now + delay, .command = start});
  next_ready_ = std::min(next_ready_, starting_.back().ready);
  return false;
}

std::vector<UnitId> UnitStarter::units() const {
  std::vector<UnitId> units;
  for (const Start& start : starting_) units.push_back(start.command.unit);
  return units;
}

}  // namespace snf
