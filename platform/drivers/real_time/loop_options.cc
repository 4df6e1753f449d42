// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/loop_options.h"

#include <algorithm>

#include "base/check.h"
#include "platform/drivers/loops/unit_processes.h"
#include "platform/drivers/real_time/real_faults.h"
#include "platform/run/run_setup.h"
#include "runtime/core/service_model.h"
#include "runtime/tables/unit_tables.h"

namespace snf {
namespace {

ServiceModel ServiceOf(const ControllerOptions& options) {
  return ServiceModel(options.unit_capacity_bps, options.unit_packets_ps);
}

}  // namespace

ControllerLoopOptions ControllerLoopOptionsOf(const RealSetup& setup,
                                              const NetworkFunction& example) {
  const RunOptions& run = setup.run;
  const RealOptions& real = setup.real;
  const bool starts_at_once =
      real.unpaced || real.warm_pool.has_value() || run.controller.leased;
  return {.controller = run.controller,
          .cold_start_delay = starts_at_once ? Nanos{} : run.unit_start_delay,
          .warm_start_delay = starts_at_once ? Nanos{} : run.warm_start_delay,
          .nf_reasons = static_cast<uint32_t>(example.drop_reasons().size()),
          .pools = static_cast<uint32_t>(example.pools().size()),
          .counts_flows = HasSides(example),
          .shares_thread = real.threads == 1,
          .shares_units = real.host != nullptr,
          .recovers = setup.recovers,
          .fails = setup.may_fail,
          .inherits = setup.kept.has_value()};
}

UnitLoopOptions UnitLoopOptionsOf(const RealSetup& setup, uint32_t replicas) {
  UnitLoopOptions options;
  options.loops = setup.layout.loops;
  options.max_units = setup.run.controller.max_units;
  options.unit = UnitOptionsOf(setup.run, replicas);
  options.unit.guard_every = setup.real.guard_every;
  options.measures_busy = setup.real.measures_busy;
  options.tables = TableOptionsOf(setup.run);
  // Controllers of one process give each other pieces (H4).
  if (setup.real.aliases == nullptr) {
    options.part = setup.run.controller.controller_id;
    options.parts = setup.real.controllers;
  }
  if (!setup.real.unpaced) options.service = ServiceOf(setup.run.controller);
  return options;
}

LoggerLoopOptions LoggerLoopOptionsOf(const RealSetup& setup,
                                      uint32_t replicas) {
  const UnitOptions unit = UnitOptionsOf(setup.run, replicas);
  return {.loops = setup.layout.loops,
          .max_units = setup.run.controller.max_units,
          .max_copies =
              unit.max_flows + unit.queue_packets + unit.packets_elsewhere,
          .reports = setup.may_fail,
          .tables = TableOptionsOf(setup.run)};
}

Nanos PatienceOf(const RealSetup& setup) {
  const RunOptions& run = setup.run;
  Nanos patience = setup.real.patience;
  if (!setup.real.unpaced) {
    constexpr uint32_t kMaxPacket = 65'535;
    const Nanos service = ServiceOf(run.controller).ServiceTime(kMaxPacket);
    patience.ns +=
        std::max({run.unit_start_delay, run.warm_start_delay, service}).ns;
  }
  if (setup.real.warm_pool.has_value()) {
    patience.ns += UnitProcesses::kPatience.ns;
  }
  if (run.state == StateMode::kExternal) {
    patience.ns += 2 * run.store.patience.ns;
  }
  // Other units wait for the report of a failed one as long.
  if (setup.recovers) {
    const Nanos reports = RealFaults::PatienceFor(run);
    if (reports != Nanos::max()) patience.ns += reports.ns;
  }
  return patience;
}

bool LogsTables(const RealSetup& setup, const NetworkFunction& example) {
  return setup.recovers && !LoggedTablesOf(example).empty();
}

TableHomes HomesOf(const RealSetup& setup, const NetworkFunction& example,
                   const std::optional<SharedRegion>& region,
                   const RealClock& clock) {
  const ControllerOptions& controller = setup.run.controller;
  ClusterHomes* const common = setup.real.tables;
  if (common != nullptr) {
    SNF_CHECK(common->max_units() == controller.max_units);
    return {*common, controller.controller_id};
  }
  TableHomes homes(example, controller.max_units,
                   TableOptionsOf(setup.run, LogsTables(setup, example)));
  if (region.has_value()) {
    homes.Keep(clock.Now(), region->bytes(), controller.max_units);
  }
  return homes;
}

}  // namespace snf
