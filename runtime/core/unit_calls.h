// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_CALLS_H_
#define SNF_RUNTIME_CORE_UNIT_CALLS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "runtime/core/unit.h"

namespace snf {

// Calls Unit::on_stop until nothing more comes of it at once. `execute`
// executes the commands in `out`; those of the last call are left there.
void StopUnit(Unit& unit, UnitOut& out, absl::FunctionRef<void()> execute);

// Calls Unit::on_reclaim in the same way. A unit that `serves` packets is
// called once: it returns the other pieces while it serves.
void ReclaimFrom(Unit& unit, bool serves, uint16_t pool, UnitOut& out,
                 absl::FunctionRef<void()> execute);

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_CALLS_H_
