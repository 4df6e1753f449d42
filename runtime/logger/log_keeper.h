// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_LOG_KEEPER_H_
#define SNF_RUNTIME_LOGGER_LOG_KEEPER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/update_log.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Keeps a unit's data beside the records of its flows, so that a new logger can
// replace a failed one (proto/protocol.md F8): the free pieces as of the
// entries, the number of the last grant, the marks of ended flows, messages of
// entries to the controller without an acknowledgement, and updates of shared
// tables that their homes may not have (proto/protocol.md §8).
//
// Worked example: entry 7 gives pieces 0-63 back and entry 9 ends a flow. A new
// logger gets a kReturn with number 7, a mark of the flow, and the message of
// entry 9; once entry 12 says that the controller has acknowledged entry 7,
// only the other two.
//
// Owner-thread only. Memory grows with the unacknowledged entries.
class LogKeeper {
 public:
  using Visit = absl::FunctionRef<void(std::span<const std::byte>)>;

  // The schema must outlive the keeper. Entries have updates of these tables.
  LogKeeper(const StateSchema& schema,
            std::span<const NetworkFunction::Pool> pools,
            std::span<const TableShape> tables = {});

  // The unit's next entry was made.
  void on_made(const LogEntryView& entry);
  // Called when the controller has acknowledged the messages of entries up to
  // this one, or when a new logger has taken these messages over.
  void on_told(uint64_t number);

  // The homes have merged all updates of tables in entries up to this one.
  void on_updates_merged(uint64_t number) {
    updates_.on_entries_merged(number);
  }

  // Returns the number of unacknowledged messages.
  size_t tells() const { return tells_.size(); }

  // Calls `visit` with all its data, as entries for OutputLogger::Restore. Ends
  // of flows from entries above `released` are marked as not released.
  void ForEach(uint32_t incarnation, uint64_t released,
               const Visit& visit) const;

 private:
  struct End {
    uint64_t number;  // of its entry
    Clock clock;
  };

  void Use(PieceUse use);
  void ShowPieces(LogEntry entry, const Visit& visit) const;
  void ShowUpdates(LogEntry entry, const Visit& visit) const;
  static void Show(const LogEntry& entry, const Visit& visit);

  uint64_t schema_;
  std::vector<PieceSet> pools_;
  uint64_t last_grant_ = 0;
  uint64_t last_ = 0;  // the newest entry's number
  std::deque<LogEntry> tells_;
  std::map<FlowId, End> ends_;
  UpdateLog updates_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_LOG_KEEPER_H_
