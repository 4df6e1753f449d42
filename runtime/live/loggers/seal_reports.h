// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGERS_SEAL_REPORTS_H_
#define SNF_RUNTIME_LIVE_LOGGERS_SEAL_REPORTS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "runtime/live/loggers/loop_loggers.h"
#include "runtime/logger/logger_commands.h"
#include "runtime/ring/logger_ledger.h"

namespace snf {

// Theory of operation. Obeys the orders of a controller whose units have
// failed: to seal the logger of a unit (F2), and to forget copies that another
// unit has taken over; and makes the words that answer them. The loop takes
// the words in its turns; in each turn a logger continues its report as far as
// there is room for its commands.
//
//   on_seal ─► reports ─GoOn…─► words: Return, Done(flow) …, Done: that was all
//   on_forget ─► ForgetSome ─► word: Takeover
//
// Of several Seals of a unit that come together, only the last is answered. A
// Seal is about a process of the units that has ended. If the unit's logger is
// sealed already, or has begun another incarnation, it only reports.
//
// Worked example: unit 2 has failed with flow 7 at clock 9. Seal(unit 2, round
// 1) comes. GoOn seals the logger, and TakeWords has Done(flow 7, applied 9)
// and Done(no flow), both of round 1.
//
// Owner-thread only. The loggers and the ledger must outlive the reports.
class SealReports {
 public:
  // The ledger is there if the controller may fail.
  SealReports(LoopLoggers& loggers, std::optional<LoggerLedger>& ledger);

  void on_seal(const Seal& seal);
  // Copies of the flow that are older than the Takeover are to be dropped, at
  // the logger of the unit `forget.taker`.
  void on_forget(const Takeover& forget) { forgets_.push_back(forget); }

  // Drops older copies than the controller has ordered, and answers. A logger
  // that has still to report keeps its copies until then. Calls
  // `forgotten(unit, flow)` for each order that a sealed logger has obeyed.
  template <typename Forgotten>
  void ForgetSome(Forgotten&& forgotten) {
    std::erase_if(forgets_, [&](const Takeover& forget) {
      const UnitId unit = forget.taker;
      OutputLogger* const logger = loggers_.Find(unit);
      if (logger != nullptr && logger->was_sealed()) {
        if (logger->has_more()) return false;
        out_.clear();
        logger->on_takeover(forget, out_);
        forgotten(unit, forget.flow);
      }
      Say(unit, UnitCommand::Report(forget));
      return true;
    });
  }
  bool has_forgets() const { return !forgets_.empty(); }

  // Returns true if a report is under way, or words are to be taken.
  bool is_due() const { return reporting_ > 0 || !words_.empty(); }
  // Lets loggers that are to report do so, as far as they can in this turn.
  void GoOn();
  // Calls take(word) for each word for the controller.
  template <typename Take>
  void TakeWords(const Take& take) {
    for (const UnitCommand& word : words_) take(word);
    words_.clear();
  }

  // The unit's logger says this on its way to a new incarnation.
  void on_command(UnitId unit, const LoggerCommand& command) {
    const Sealed& sealed = sealed_[value(unit)];
    if (sealed.reports && !sealed.is_new) Report(unit, command);
  }
  // Another report has all of the unit's.
  void Cancel(UnitId unit) {
    reporting_ -= std::exchange(sealed_[value(unit)].reports, false) ? 1 : 0;
  }
  // Another controller has not given these orders, and hears none of the words.
  void DropForAnother() {
    words_.clear();
    forgets_.clear();
  }

 private:
  // A logger that the controller has sealed reports to it.
  struct Sealed {
    Seal seal;
    bool reports = false;  // or is to report
    bool is_new = false;
  };

  void Obey(UnitId unit);
  void Report(UnitId unit, const LoggerCommand& command);
  void Say(UnitId unit, UnitCommand word) {
    word.unit = unit;
    words_.push_back(word);
  }

  LoopLoggers& loggers_;
  std::optional<LoggerLedger>& ledger_;
  std::vector<Sealed> sealed_;      // by unit
  uint32_t reporting_ = 0;          // of these
  std::vector<UnitCommand> words_;  // not yet taken
  std::vector<Takeover> forgets_;   // by the controller's order
  LoggerOut out_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGERS_SEAL_REPORTS_H_
