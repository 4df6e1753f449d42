// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_TIME_LOOP_OPTIONS_H_
#define SNF_PLATFORM_DRIVERS_REAL_TIME_LOOP_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "controller/live/controller_loop.h"
#include "platform/drivers/real_time/real_setup.h"
#include "runtime/live/loggers/logger_loop.h"
#include "runtime/live/unit_loop.h"
#include "runtime/ring/real_clock.h"
#include "runtime/ring/shared_region.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_homes.h"

namespace snf {

// The options of the loops of a run in real time. `replicas` is what
// Controller::replicas returns.

// `example` runs nothing.
ControllerLoopOptions ControllerLoopOptionsOf(const RealSetup& setup,
                                              const NetworkFunction& example);
// Returns the options of the first loop of units; others have their own index.
UnitLoopOptions UnitLoopOptionsOf(const RealSetup& setup, uint32_t replicas);
// Returns the options of the first loop of loggers.
LoggerLoopOptions LoggerLoopOptionsOf(const RealSetup& setup,
                                      uint32_t replicas);
// Returns for how long a packet of a sound run may stay where it is.
Nanos PatienceOf(const RealSetup& setup);
// Returns true if updates of shared tables come from units' loggers.
bool LogsTables(const RealSetup& setup, const NetworkFunction& example);
// Returns the homes of the NF's shared tables, kept in `region` if there is
// one; of several controllers, the homes that they have in common.
TableHomes HomesOf(const RealSetup& setup, const NetworkFunction& example,
                   const std::optional<SharedRegion>& region,
                   const RealClock& clock);

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_TIME_LOOP_OPTIONS_H_
