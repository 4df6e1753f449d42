// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_LOG_CHECK_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_LOG_CHECK_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/time.h"
#include "platform/check/checker.h"
#include "platform/drivers/virtual_time/virtual_units.h"

namespace snf {

// Tells the checker where a unit's logger has not what the unit has, at the end
// of a run: flows, their records, and as many free pieces of each of the NF's
// pools. It seals the loggers, so that they say what they would if their units
// had failed. Units whose entries are not all released are left out, and those
// whose process is gone.
//
// Returns how many records loggers have left of processes that failed, of flows
// that are over or have newer clocks elsewhere (`is_old`): who would have told
// them has failed as well.
uint64_t CompareLoggers(Instant now, size_t pools, VirtualUnits& units,
                        absl::FunctionRef<bool(FlowId, Clock)> is_old,
                        Checker& checker);

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_LOG_CHECK_H_
