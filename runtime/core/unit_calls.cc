// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit_calls.h"

#include <algorithm>

namespace snf {
namespace {

bool Returns(const UnitOut& out) {
  return std::ranges::any_of(out.commands(), [](const UnitCommand& command) {
    return command.kind == UnitCommand::Kind::kReturnPieces;
  });
}

// Returns true if the unit said that all it was asked for is back.
bool ReturnsAll(const UnitOut& out, uint16_t pool) {
  return std::ranges::any_of(out.commands(), [=](const UnitCommand& command) {
    return command.kind == UnitCommand::Kind::kReturnPieces &&
           command.pieces.pool == pool && command.pieces.mask == 0;
  });
}

}  // namespace

void StopUnit(Unit& unit, UnitOut& out, absl::FunctionRef<void()> execute) {
  unit.on_stop(out);
  while (Returns(out)) {
    execute();
    out.clear();
    unit.on_stop(out);
  }
}

void ReclaimFrom(Unit& unit, bool serves, uint16_t pool, UnitOut& out,
                 absl::FunctionRef<void()> execute) {
  unit.on_reclaim(pool, out);
  while (!serves && Returns(out) && !ReturnsAll(out, pool)) {
    execute();
    out.clear();
    unit.on_reclaim(pool, out);
  }
}

}  // namespace snf
