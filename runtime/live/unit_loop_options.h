// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_UNIT_LOOP_OPTIONS_H_
#define SNF_RUNTIME_LIVE_UNIT_LOOP_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/core/service_model.h"
#include "runtime/core/unit_options.h"
#include "runtime/shell/log_figures.h"
#include "runtime/shell/state_figures.h"
#include "runtime/tables/unit_tables.h"
#include "runtime/wire/log_word.h"

namespace snf {

// The options of a loop of units (unit_loop.h).
struct UnitLoopOptions {
  // The loop of this index among `loops` runs the units index, loops + index,
  // 2 · loops + index … below max_units.
  uint32_t index = 0;
  uint32_t loops = 1;
  uint32_t max_units = 64;
  uint32_t incarnation = LogWord::kIncarnation;  // of all units
  UnitOptions unit;                              // of each unit
  TableOptions tables;
  // A unit is as fast as this says; absent: as fast as it can be.
  std::optional<ServiceModel> service;
  // Tell for how long units were busy (LoopProgress): by the service model, or
  // else by the clock, which costs two more readings of it a turn.
  bool measures_busy = false;
  // The units give on the pieces of this part of each pool, of `parts`. Pieces
  // of other parts, which come with flows of other controllers, are not used
  // again when their flows end.
  uint32_t part = 0;
  uint32_t parts = 1;
};

// Counts what a loop's units did.
struct UnitLoopFigures {
  StateFigures state;
  uint32_t held_packets_max = 0;  // in one unit
  uint64_t sleeps = 0;            // for want of work
  UnitLogFigures logs;
  // The counts of all parts of the NF, in order, summed over units; empty if
  // the loop has none.
  std::vector<uint64_t> nf_counts;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_UNIT_LOOP_OPTIONS_H_
