// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/logged_units.h"

#include <utility>
#include <vector>

namespace snf {

void LoggedUnits::LookForReleased(uint32_t loop) {
  logs_.LookForReleased();
  if (!logs_.TakeFault()) [[likely]]
    return;
  faults_.Add({.loop = loop,
               .kind = "ring",
               .field = "position",
               .value = logs_.acknowledged(),
               .of_logger = true});
}

void LoggedUnits::BeginHandover(uint32_t process,
                                std::span<const LoopUnit> units) {
  std::vector<LogHandover::Kept> kept;
  for (const LoopUnit& shell : units) {
    kept.push_back({.unit = &shell.unit, .names = &shell.kept});
  }
  handover_->Begin(process, logs_, std::move(kept));
}

}  // namespace snf
