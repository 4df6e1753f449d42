// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGERS_LOGGER_LOOP_H_
#define SNF_RUNTIME_LIVE_LOGGERS_LOGGER_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/messages/unit_commands.h"
#include "runtime/live/loggers/fresh_names.h"
#include "runtime/live/loggers/logger_loop_options.h"
#include "runtime/live/loggers/logger_restore.h"
#include "runtime/live/loggers/loop_loggers.h"
#include "runtime/live/loggers/seal_reports.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/logger_commands.h"
#include "runtime/logger/output_logger.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/log_note.h"
#include "runtime/ring/logger_ledger.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/thread_link.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/shell/kept_report.h"
#include "runtime/tables/table_message.h"
#include "runtime/wire/decoder.h"
#include "runtime/wire/kept_word.h"
#include "runtime/wire/log_word.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// Holds what connects a loop of loggers to its units' loop and to a controller.
// Where it points to outlives the loop.
struct LoggerLoopLinks {
  Doorbell* units_bell;  // the units' loop's, rung when entries are released
  LoopProgress* progress;
  WireFaults* faults;  // what it finds wrong in what units say
  LinkIn from_units;
  LinkOut to_controller;
  // If the controller may fail: memory of the ledger of pieces.
  std::span<std::byte> ledger{};
  // If the units' loop is a process, which may fail, as this loop's may.
  struct Recovery {
    LinkIn from_controller;
    LinkOut to_units;  // answers of all loggers to Pulls of the units
    LinkIn kept;       // what units hand over to a new process of loggers
    LogControl* control;
    LogNote* note;
  };
  std::optional<Recovery> recovery{};
};

// Theory of operation. The event loop that runs the output loggers of a loop of
// units (unit_loop.h): it takes entries out of the ring that UnitLogs fills,
// lets each unit's logger apply them, and sends what becomes of their packets,
// and what they tell, to the controller. So a packet leaves only when what it
// did is here (proto/protocol.md I4). Four parts do the rest:
//
//   LoopLoggers    the loggers, and which process of the units each belongs to
//   UpdateSenders  send updates of shared tables to their homes
//   SealReports    obey the controller's orders when units have failed
//   LoggerRestore  gets what units hand over to a process that takes over
//
//   UnitLoop ─entries─► OutputLogger, one a unit ─UnitCommand─► controller
//       ▲                    │
//       └─released position──┘
//
// Entries stay in the ring until all that they led to is in the ring to the
// controller: the released position of the first ring, by which the units'
// loop goes, and the applied clocks of the loggers are different things (L3).
// While the controller's ring is full, nothing more is taken, so that the ring
// of entries fills and holds the units back.
//
// Units are not trusted. A bad word, an entry that cannot be, or one out of
// order, which shared memory does not bring about (U10), is told to the links'
// WireFaults and closes the link.
//
// When the units' process has ended (LogControl), the loop takes all that is in
// the ring, drops what is no whole entry, and only then seals loggers as the
// controller says, and reports (F2). The next process has the next incarnation:
// its first entry of a unit begins the unit's logger anew. Loops of the same
// thread know each other: units ask their own for the state of any unit that
// has failed.
//
// When the loop's own process is killed, another one takes over (F8): it goes
// on where the LogNote says that the old one has stopped. First it gets all
// that the units keep; then it goes through the entries that are still in the
// ring, and leaves out the words that are in the ring to the controller
// already. A flow that waits for its alias is whole again with its next entry.
// The loop has all that units keep once it has those, and all entries that the
// units had made when they handed over: some may have had no room in the ring.
//
// Worked example: the ring has entries 7 and 8 of unit 2, with a packet each. A
// turn applies them, sends 2 × kRelease, and releases both entries' cells.
//
// If the controller may fail, the loop also keeps a ledger of the pieces that
// came and went (LoggerLedger), which it tells to another controller once it
// has all that the units did before they reported (F9, F10), and of loggers
// that were sealed what they have of flows, with the names of these. Where the
// units have no process, the controller asks the loop itself, which seals what
// has failed first (LogControl::asked). What else the one before had not heard
// is in the ring to it, which outlives it. A report is due from the entry that
// asks for it on until all of it is in the ring, and nothing else is done
// meanwhile: if the process is killed over it, the next one reports anew.
//
// Where units may fail, entries have updates of shared tables
// (proto/protocol.md §8). The loop sends these to their
// homes at the controller, apart from the words of entries: a process that
// takes over sends updates again, by what its units hand over. An end of the
// units' process counts as seen once homes have merged all its updates, which
// are in this loop alone by then. While a logger keeps too many updates, no
// entries are taken.
//
// Owner-thread only, but for the progress in its links. Allocates a logger with
// the first word of its unit, memory for updates of tables, and nothing else
// for a packet.
class LoggerLoop {
 public:
  // The NF must be good (NfSpec::check).
  // Its parts refer to each other.
  LoggerLoop(const LoggerLoop&) = delete;
  LoggerLoop& operator=(const LoggerLoop&) = delete;
  LoggerLoop(const LoggerLoopOptions& options, const NfSpec& nf,
             LoggerLoopLinks links);

  // Names all loops, by index, the own among them; they run on one thread.
  void Know(std::span<const std::unique_ptr<LoggerLoop>> all) { all_ = all; }

  // Takes one turn; returns true if there was anything to do.
  bool Turn();
  // True if entries are there. For Doorbell::Wait.
  bool has_items() {
    if (restore_.is_restoring()) return links_.recovery->kept.has_items();
    if (has_report()) return true;
    return links_.from_units.has_items() ||
           (links_.recovery.has_value() && has_orders());
  }

  // Returns how many words the ledger of such an NF's pieces has.
  static uint32_t PieceWordsOf(const NetworkFunction& nf);

  // Returns null for a unit that has logged nothing. Call it when no turn is
  // under way any more.
  OutputLogger* logger(UnitId unit) { return loggers_.Find(unit); }
  // Returns how many names of the unit's flows are kept, if the controller may
  // fail.
  size_t names(UnitId unit) const { return kept_[value(unit)].names(); }

 private:
  // The controller is told all that the logger has told up to the entry.
  struct Told {
    OutputLogger* logger;
    uint64_t number;
  };

  size_t HandleEntries();
  void CloseIfBroken();
  // Of a loop whose units may fail (logger_loop_seal.cc):
  bool has_orders() {
    const LogControl& control = *links_.recovery->control;
    return links_.recovery->from_controller.has_items() ||
           (!awaits_homes_ &&
            control.ends.load(std::memory_order_seq_cst) != loggers_.ends()) ||
           control.asked.load(std::memory_order_seq_cst) > controller_;
  }
  bool Recover(bool has_drained);
  bool has_report() const { return reporting_to_ != Reporting::kNobody; }
  void on_report(uint32_t controller);
  void BeginReport(uint32_t controller);
  void GoOnReporting();
  void on_order(const ControllerCommand& order);
  bool ReportSome();
  void BeginAnew(UnitId unit);
  // Of a process that takes over (logger_loop_seal.cc as well):
  void TakeOver();
  bool Restore();
  bool on_kept(const KeptWord& word, std::span<const std::byte> bytes);
  void EndRestore();
  void TellIfRestored();
  void Note(LogNote::Others others);
  // Updates of tables (logger_loop_seal.cc as well):
  void on_home(const TableMessage& answer);
  bool SendUpdates();
  void on_pull(UnitId unit, const Pull& pull);
  void SendState(const LoggerCommand& command,
                 std::span<const std::byte> record);
  void Handle(UnitId unit, std::span<const std::byte> bytes);
  void Refuse(UnitId unit, std::string_view field, uint64_t number);
  void Execute(UnitId unit, const LoggerCommand& command);
  void on_name(UnitId unit, const FlowName& name);
  void MakeReport();
  void ReportUnit(UnitId unit);
  void ReportSealed(UnitId unit, const LoggerCommand& command);
  void ReportAlone(uint32_t controller);
  void Tell(UnitId unit, const LogEntry& entry);
  void Send(UnitId unit, UnitCommand command);
  void Publish();
  bool FlushAndRelease();

  LoggerLoopOptions options_;
  LoggerLoopLinks links_;
  LoopLoggers loggers_;
  std::optional<WordsToLoggers> words_;
  std::optional<OrdersToLoggers> order_words_;
  std::vector<Told> told_;  // with what is not flushed yet
  std::span<const std::unique_ptr<LoggerLoop>> all_;
  std::optional<WordsToNewLoggers> kept_words_;
  LoggerRestore restore_;
  // Words that the process before this one has sent: they come once more.
  uint64_t sent_before_ = 0;
  LogNote::Positions noted_;
  // If the controller may fail: the ledger, and names, by unit.
  std::optional<LoggerLedger> ledger_;
  SealReports seals_;
  std::vector<KeptReport> kept_;
  FreshNames fresh_;
  bool awaits_homes_ = false;  // which lack updates of units that have ended
  // The newest controller to which there is, or was, a report.
  enum class Reporting : uint8_t { kNobody, kDue, kSending };
  Reporting reporting_to_ = Reporting::kNobody;
  uint32_t controller_ = 0;
  LoggerOut out_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGERS_LOGGER_LOOP_H_
