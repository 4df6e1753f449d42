// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGERS_LOOP_LOGGERS_H_
#define SNF_RUNTIME_LIVE_LOGGERS_LOOP_LOGGERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "runtime/live/loggers/logger_loop_options.h"
#include "runtime/live/loggers/update_senders.h"
#include "runtime/logger/output_logger.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/wire/log_word.h"

namespace snf {

// Theory of operation. The output loggers of a loop's units, and which process
// of the units each of them belongs to. A logger is made with the first word of
// its unit. The units of a loop are one process: when it ends, the next process
// has the next incarnation, and each logger still belongs to the predecessor
// until Begin. A logger takes only entries of the process that it belongs to.
//
//   Of ─► of process 1 ─on_end─► still of process 1 ─Begin─► of process 2
//
// Worked example: units 0 and 1 have logged, and their process ends. Unit 0
// logs again: its logger is sealed, reports, and begins with incarnation 2.
// The logger of unit 1 is of incarnation 1 until unit 1 logs, too.
//
// Makes a sender with each logger if the NF's entries have updates of tables.
//
// Owner-thread only. Allocates a logger with the first word of its unit, and
// nothing else.
class LoopLoggers {
 public:
  // The NF must be good (NfSpec::check). `logs_tables`: entries have updates of
  // its shared tables.
  LoopLoggers(const LoggerLoopOptions& options, const NfSpec& nf,
              bool logs_tables);

  const NetworkFunction& nf() const { return *example_; }
  uint32_t max_entry_bytes() const;
  size_t tables() const { return tables_.size(); }
  uint32_t units() const { return static_cast<uint32_t>(loggers_.size()); }

  // The incarnation of the units' process; the processes that have ended.
  uint32_t incarnation() const { return LogWord::kIncarnation + ends_; }
  uint32_t ends() const { return ends_; }
  void on_end(uint32_t ends) { ends_ = ends; }
  uint32_t incarnation(UnitId unit) const { return incarnation_[value(unit)]; }
  // Returns true if the unit's logger, which there must be, belongs to the
  // present process.
  bool is_of_now(UnitId unit) const {
    return incarnation_[value(unit)] == incarnation();
  }

  // Returns null for a unit that has logged nothing.
  OutputLogger* Find(UnitId unit) const { return loggers_[value(unit)].get(); }
  OutputLogger& operator[](UnitId unit) { return *loggers_[value(unit)]; }
  // Returns the unit's logger, which is made with that incarnation if there is
  // none.
  OutputLogger& Of(UnitId unit, uint32_t incarnation) {
    if (loggers_[value(unit)] == nullptr) [[unlikely]]
      MakeWithoutRecords(unit, incarnation);
    return *loggers_[value(unit)];
  }
  // Returns the unit's logger, which is made for the present process if there
  // is none. In a process of loggers that takes over, the logger waits for its
  // records then (OutputLogger::Restore).
  OutputLogger& ToRestore(UnitId unit);
  // Lets the logger begin with the present process. The logger must be sealed,
  // and have reported.
  void Begin(UnitId unit);
  // The units have no process: seals all loggers of processes that have ended.
  void SealEnded();

  // Returns true if a logger is still to get records.
  bool AreRestoring() const;
  // Returns true if a logger's records have effects of entries that have not
  // come yet.
  bool LackEntries() const;

  UpdateSenders& updates() { return updates_; }
  const UpdateSenders& updates() const { return updates_; }

 private:
  void Make(UnitId unit, uint32_t incarnation);
  void MakeWithoutRecords(UnitId unit, uint32_t incarnation);

  std::unique_ptr<NetworkFunction> example_;  // runs nothing
  StateSchema schema_;
  std::vector<TableShape> tables_;  // of which entries have updates
  uint32_t max_copies_;
  bool takes_over_;
  uint32_t ends_ = 0;  // of the units' processes
  std::vector<std::unique_ptr<OutputLogger>> loggers_;  // by unit
  std::vector<uint32_t> incarnation_;                   // of loggers_
  UpdateSenders updates_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGERS_LOOP_LOGGERS_H_
