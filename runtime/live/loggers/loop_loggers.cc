// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/loggers/loop_loggers.h"

#include <algorithm>

#include "runtime/logger/log_entry.h"
#include "runtime/tables/unit_tables.h"

namespace snf {
namespace {

// The upper bits of a handle name its size, so any but kNoPacket is possible
// here; the controller knows its buffers.
constexpr uint32_t kHandles = value(kNoPacket);

}  // namespace

LoopLoggers::LoopLoggers(const LoggerLoopOptions& options, const NfSpec& nf,
                         bool logs_tables)
    : example_(nf.create()),
      schema_(example_->schema()),
      tables_(logs_tables ? LoggedTablesOf(*example_)
                          : std::vector<TableShape>()),
      max_copies_(options.max_copies),
      takes_over_(options.process > 0),
      loggers_(options.max_units),
      incarnation_(options.max_units),
      updates_(options.tables, tables_.size()) {}

uint32_t LoopLoggers::max_entry_bytes() const {
  return MaxLogEntryBytes(schema_, tables_);
}

void LoopLoggers::Make(UnitId unit, uint32_t incarnation) {
  incarnation_[value(unit)] = incarnation;
  loggers_[value(unit)] = std::make_unique<OutputLogger>(
      incarnation,
      OutputLoggerOptions{.max_flows = max_copies_,
                          .packets = kHandles,
                          .bounds_updates = false},
      schema_, example_->pools(), takes_over_, tables_);
  updates_.Add(unit, *loggers_[value(unit)]);
}

// In a process that takes over, nothing is kept of that unit.
void LoopLoggers::MakeWithoutRecords(UnitId unit, uint32_t incarnation) {
  Make(unit, incarnation);
  if (takes_over_) loggers_[value(unit)]->EndRestore(0, 0);
}

OutputLogger& LoopLoggers::ToRestore(UnitId unit) {
  if (loggers_[value(unit)] == nullptr) Make(unit, incarnation());
  return *loggers_[value(unit)];
}

void LoopLoggers::Begin(UnitId unit) {
  incarnation_[value(unit)] = incarnation();
  loggers_[value(unit)]->Begin(incarnation());
  updates_.BeginAnew(unit);
}

void LoopLoggers::SealEnded() {
  for (size_t i = 0; i < loggers_.size(); ++i) {
    if (loggers_[i] == nullptr || incarnation_[i] == incarnation()) continue;
    loggers_[i]->Seal();
  }
}

bool LoopLoggers::AreRestoring() const {
  return std::ranges::any_of(loggers_, [](const auto& logger) {
    return logger != nullptr && logger->is_restoring();
  });
}

bool LoopLoggers::LackEntries() const {
  return std::ranges::any_of(loggers_, [](const auto& logger) {
    return logger != nullptr && logger->taken() < logger->kept_through();
  });
}

}  // namespace snf
