// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_UNIT_CALLS_H_
#define SNF_PLATFORM_RUN_UNIT_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "platform/run/run.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_options.h"

// These are calls that all drivers of units have in common.
namespace snf {

// Of the units of a run; `replicas` is Controller::replicas().
UnitOptions UnitOptionsOf(const RunOptions& options, uint32_t replicas);

// A packet begins service that was held for so long (Unit::in_service_wait): if
// its flowlet moved, that counts. Returns whether no other waited longer; then
// the key of figures.worst is to be filled in.
bool CountMove(StateFigures& figures, UnitId unit, const PacketMeta& meta,
               Nanos wait);

// Adds the counters up; of the worst waits the longer one is kept.
void AddTo(UnitCounters& sum, const UnitCounters& one);
void AddTo(StateFigures& sum, const StateFigures& one);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_UNIT_CALLS_H_
