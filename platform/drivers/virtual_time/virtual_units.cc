// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/virtual_units.h"

#include "base/counters.h"
#include "platform/run/figures/run_totals.h"

namespace snf {
namespace {

// A unit keeps at most so many flows for which its logger has a copy.
uint32_t MaxCopies(const UnitOptions& options) {
  return options.max_flows + options.queue_packets + options.packets_elsewhere;
}

}  // namespace

VirtualUnits::VirtualUnits(const UnitOptions& options, const NfSpec& nf,
                           const NetworkFunction& example, uint32_t max_units,
                           bool loggers_fail, bool logs_tables)
    : options_(options),
      nf_(nf),
      example_(example),
      schema_(example.schema()),
      loggers_fail_(loggers_fail),
      logs_tables_(logs_tables),
      units_(max_units) {
  for (const TableCopy* const table : TablesOf(example)) {
    if (logs_tables) tables_.push_back(table->shape());
  }
  options_.guard_every = 1;
}

VirtualUnit& VirtualUnits::Make(UnitId unit) {
  std::unique_ptr<VirtualUnit>& made = units_[value(unit)];
  made = std::make_unique<VirtualUnit>(VirtualUnit{
      {.unit = Unit(unit, options_, schema_, example_.pools()),
       .nf = nf_.create()},
      options_.has_logger
          ? std::make_unique<LogChannel>(MaxCopies(options_), schema_,
                                         example_.pools(), loggers_fail_,
                                         OutputLoggerOptions{}.window, tables_)
          : nullptr});
  if (logs_tables_) made->unit.LogTables(TablesOf(*made->nf));
  if (stops_timers_) made->unit.StopTimers();
  return *made;
}

void VirtualUnits::Renew(UnitId unit) {
  std::unique_ptr<VirtualUnit>& place = units_[value(unit)];
  const std::unique_ptr<VirtualUnit> old = std::move(place);
  AddCounters(former_, old->unit.counters());
  size_t i = 0;
  for (const NetworkFunction::Part& part : old->nf->parts()) {
    for (const uint64_t n : part.nf->counts()) {
      if (i == former_counts_.size()) former_counts_.push_back(0);
      former_counts_[i++] += n;
    }
  }
  VirtualUnit& made = Make(unit);
  made.log = std::move(old->log);
  made.log->BeginAnew();
  made.process.life = made.process.log_life = old->process.life;
  made.process.log_epoch = old->process.log_epoch;
  // The next logger, where one has failed, is still to answer that.
  made.process.seal = old->process.seal;
}

void VirtualUnits::StopTimers() {
  if (stops_timers_) return;
  stops_timers_ = true;
  for (const std::unique_ptr<VirtualUnit>& each : units_) {
    if (each != nullptr) each->unit.StopTimers();
  }
}

uint64_t VirtualUnits::flows() const {
  uint64_t sum = 0;
  for (const std::unique_ptr<VirtualUnit>& each : units_) {
    if (each == nullptr || !each->process.lives()) continue;
    sum += each->unit.flows() - each->unit.replicas();
  }
  return sum;
}

uint64_t VirtualUnits::replicas() const {
  uint64_t sum = 0;
  for (const std::unique_ptr<VirtualUnit>& each : units_) {
    if (each == nullptr || !each->process.lives()) continue;
    sum += each->unit.replicas();
  }
  return sum;
}

void VirtualUnits::ForEach(absl::FunctionRef<void(VirtualUnit&)> visit) {
  for (const std::unique_ptr<VirtualUnit>& each : units_) {
    if (each != nullptr) visit(*each);
  }
}

void VirtualUnits::AddTotals(RunResult& result) const {
  AddCounters(result.state.units, former_);
  for (size_t i = 0; i < former_counts_.size(); ++i) {
    result.nf_counters[i].value += former_counts_[i];
  }
  for (const std::unique_ptr<VirtualUnit>& each : units_) {
    if (each == nullptr) continue;
    AddCounters(result.state.units, each->unit.counters());
    AddNfCounts(*each->nf, result);
  }
}

}  // namespace snf
