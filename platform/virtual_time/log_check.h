// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_LOG_CHECK_H_
#define SNF_PLATFORM_VIRTUAL_TIME_LOG_CHECK_H_

#include <cstddef>

#include "base/time.h"
#include "platform/check/checker.h"
#include "platform/virtual_time/virtual_units.h"

namespace snf {

// Tells the checker where a unit's logger has not what the unit has, at the end
// of a run: flows, their records, and as many free pieces of each of the NF's
// pools. It seals the loggers, so that they say what they would if their units
// had failed. Units whose entries are not all released are left out.
void CompareLoggers(Instant now, size_t pools, VirtualUnits& units,
                    Checker& checker);

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_LOG_CHECK_H_
