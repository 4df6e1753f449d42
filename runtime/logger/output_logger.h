// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_OUTPUT_LOGGER_H_
#define SNF_RUNTIME_LOGGER_OUTPUT_LOGGER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "runtime/logger/entry_window.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/logged_flows.h"
#include "runtime/logger/logged_pieces.h"
#include "runtime/logger/logger_commands.h"
#include "runtime/logger/update_log.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

struct OutputLoggerOptions {
  uint32_t max_flows = 1'024;  // at least as many as the unit has copies
  uint32_t window = 256;       // entries that may wait behind a hole
  uint32_t max_tells = 256;    // kept for the controller
  uint32_t packets = 65'536;   // handles are below it
  // Entries with updates wait while too many are kept; else the caller has to
  // see to that (UpdateLog::is_full).
  bool bounds_updates = true;
};

// Theory of operation. A unit's output logger keeps what the unit's packets did
// to their flows, and only then lets the packets go (proto/protocol.md §5). It
// takes entries (log_entry.h) in the order of their numbers. An entry in front
// of which others are missing waits, and these are asked for. A number counts
// once: its packets are released, its pieces move, and the controller is told.
// Its state counts only if it is newer than the logger's, because a whole
// record in place of a lost entry may run ahead of later ones (L4). Four parts
// keep the facts:
//
//   EntryWindow   entries behind a hole
//   LoggedFlows   flows and their state
//   LoggedPieces  pieces that are free at the unit
//   UpdateLog     updates of shared tables
//
// Worked example: entries 1 and 3 come, of clocks 1 and 2 of a flow; 2 is lost.
// 1 is applied and released; 3 waits, and kAskAgain asks for 2. It comes, 2 and
// 3 are applied and released in order.
//
// Seal ends the unit's incarnation: what waits for room among what the logger
// keeps for the controller is taken, what waits behind a hole is lost, all
// later entries are refused, and the controller hears what the logger has. From
// then on it answers Pulls in place of the unit (F2, F5).
//
// Updates of shared tables in entries go into updates(), from where the driver
// sends them to the tables' homes, also after a Seal (proto/protocol.md §8).
//
// `out` must have room for kMaxCommandsPerCall with each call. Afterwards
//     while (has_more()) Resume()   with `out` emptied before
// A value; owner-thread only; nothing is allocated after construction. Memory:
// at most 64 bytes a flow and its state, and window entries.
class OutputLogger {
 public:
  static constexpr size_t kMaxCommandsPerCall = kMaxLogEmits + 8;

  // The outcome of an entry.
  enum class Result : uint8_t {
    kTaken,      // it is applied and released
    kDuplicate,  // its number has been taken, or waits
    kWaits,      // for earlier entries, or for room for its message or updates
    kTooFar,     // behind the end of the window; asked for later
    kAsked,      // its base is missing: a whole entry is asked for
    kRefused,    // its incarnation is sealed, or not this one
    kImpossible  // impossible: the channel is to be ended (U14)
  };

  // The schema is that of the unit's NF and must outlive the logger. If
  // `takes_over`, the logger first gets its unit's records by Restore (F8).
  OutputLogger(uint32_t incarnation, const OutputLoggerOptions& options,
               const StateSchema& schema,
               std::span<const NetworkFunction::Pool> pools = {},
               bool takes_over = false,
               std::span<const TableShape> tables = {});

  // An entry came; its bytes are parsed, not trusted.
  Result on_entry(std::span<const std::byte> bytes, LoggerOut& out);
  // The unit has sent entries up to this number: missing ones are asked for.
  void on_heartbeat(uint64_t sent, LoggerOut& out);
  // Called when the controller acknowledges the messages of entries up to this
  // one.
  void on_told(uint64_t number);

  // Takes the unit's data, as an entry: a whole one for a flow, with the
  // released clock in `base`; a kGrant for the unit's free pieces; a kReturn,
  // or a partial entry without a delta, for an unacknowledged message to the
  // controller; a kUpdates for updates of tables (log_keeper.h). Returns false
  // for an impossible entry.
  bool Restore(std::span<const std::byte> bytes);
  // Ends the calls of Restore. Entries up to `released` have been released; the
  // records are as of the entry `made`.
  void EndRestore(uint64_t released, uint64_t made);

  // The unit's incarnation has failed.
  void Seal();
  bool is_restoring() const { return restoring_; }
  bool sealed() const { return sealed_; }
  bool was_sealed() const { return was_sealed_; }  // some time
  // Repeats the report of all flows, for another round (F3). Only after Seal or
  // EndRestore.
  void Report();
  // Accepts entries again, from the unit's new incarnation after a restart.
  // State of earlier incarnations stays until another unit takes it over. Only
  // once the report is complete.
  void Begin(uint32_t incarnation);
  // Messages about flows of a sealed incarnation; others are ignored. A
  // Takeover is also ignored until the report is complete; its sender repeats
  // it.
  void on_pull(const Pull& pull, LoggerOut& out);
  void on_takeover(const Takeover& takeover, LoggerOut& out);
  void on_end_ack(FlowId flow, Clock clock);

  bool has_more() const;
  void Resume(LoggerOut& out);

  // Returns the flow's applied clock, or 0 (F3).
  Clock applied(FlowId flow) const;
  // The bytes are valid until the next call. The flow must be known.
  std::span<const std::byte> state_bytes(FlowId flow) const;
  uint32_t flows() const { return flows_.size(); }
  // An entry could not be; no other is taken.
  bool is_broken() const { return broken_; }
  uint64_t taken() const { return last_; }  // the newest number
  // Returns how many grants the unit has got, as far as the logger knows.
  uint64_t grants() const { return pieces_.last_grant(); }
  // Returns the entry as of which the records are; it may not have been taken
  // yet (F8).
  uint64_t kept_through() const { return kept_through_; }
  uint64_t lost() const { return lost_; }  // clocks whose packets are lost
  uint64_t refused() const { return refused_; }
  uint32_t tells() const { return tell_count_; }
  const PieceSet& pieces(uint16_t pool) const { return pieces_.free(pool); }
  // Holds the updates of shared tables that homes have not merged yet. When
  // some are merged, has_more() may have become true.
  UpdateLog& updates() { return updates_; }
  const UpdateLog& updates() const { return updates_; }

 private:
  static constexpr uint32_t kNone = LoggedFlows::kNone;
  static constexpr int kMaxAsks = 4;  // of a heartbeat, for holes
  // Most commands that one entry causes.
  static constexpr size_t kMaxCommandsToDrain = kMaxLogEmits + 4;

  enum class Phase : uint8_t { kTells, kWaiting, kPieces, kFlows, kEnd, kDone };

  Result Take(const LogEntryView& entry, LoggerOut& out);
  Result TakeClock(const LogEntryView& entry, LoggerOut& out);
  Result ApplyState(const LogEntryView& entry, uint32_t& slot);
  bool TakeBlock(const LogEntry& entry);
  bool RestoreTell(const LogEntry& entry);
  bool RestoreUpdates(const LogEntryView& entry);
  bool RestoreFlow(const LogEntryView& entry);
  void Release(const LogEntryView& entry, LoggerOut& out);
  bool MustHoldUpdates() const {
    return options_.bounds_updates && updates_.is_full();
  }
  void KeepTell(const LogEntry& entry);
  void ForgetOlder(FlowId flow, Clock clock);
  void Drain(LoggerOut& out);
  void AskWhole(const LogEntry& entry, LoggerOut& out);
  void AskAgain(uint64_t first, uint64_t last, LoggerOut& out);

  void ReportStep(LoggerOut& out);
  void ReportTells(LoggerOut& out);
  void DropWaiting(LoggerOut& out);
  void ReportPieces(LoggerOut& out);
  void ReportFlow(LoggerOut& out);

  const StateSchema* schema_;
  OutputLoggerOptions options_;
  LogEntryLimits limits_;
  uint32_t incarnation_;
  bool restoring_;
  bool sealed_ = false;
  bool was_sealed_ = false;  // some time
  bool broken_ = false;

  uint64_t last_ = 0;          // all entries up to it are taken
  uint64_t asked_ = 0;         // entries up to it came or were asked for
  uint64_t kept_through_ = 0;  // the records are as of this entry (F8)
  uint64_t lost_ = 0;
  uint64_t lost_entries_ = 0;
  uint64_t refused_ = 0;

  LoggedFlows flows_;
  LoggedPieces pieces_;
  EntryWindow waiting_;
  LazyArray<LoggerTell> tells_;  // is a ring
  uint32_t first_tell_ = 0;
  uint32_t tell_count_ = 0;
  uint64_t told_ = 0;

  UpdateLog updates_;

  // Progress of the report after a Seal.
  Phase phase_ = Phase::kDone;
  uint32_t at_ = 0;
  uint16_t pool_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_OUTPUT_LOGGER_H_
