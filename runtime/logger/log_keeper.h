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
#include "runtime/sdk/nf.h"
#include "runtime/sdk/piece_set.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// What a unit keeps beside the records of its flows, so that a new logger can
// take all over when the old one fails (proto/protocol.md F8): its free pieces
// as the entries say, the number of the last grant, the marks of flows that
// have ended, and what the controller has not acknowledged.
//
// Worked example: entry 7 gives pieces 0-63 back and entry 9 ends a flow. A new
// logger gets a kReturn with number 7, a mark of the flow, and what entry 9
// tells; once entry 12 says that the controller has acknowledged entry 7, only
// the other two.
//
// Owner-thread only. Grows with what the controller has not acknowledged.
class LogKeeper {
 public:
  using Visit = absl::FunctionRef<void(std::span<const std::byte>)>;

  // The schema must outlive the keeper.
  LogKeeper(const StateSchema& schema,
            std::span<const NetworkFunction::Pool> pools);

  // The unit's next entry was made.
  void on_made(const LogEntryView& entry);
  // The controller has acknowledged what entries up to this one tell it; or
  // whoever takes them over will tell it.
  void on_told(uint64_t number);

  // Counts what the controller is to acknowledge.
  size_t tells() const { return tells_.size(); }

  // Calls `visit` with all that it has, as entries for OutputLogger::Restore.
  // Of the ends of flows, those of entries above `released` are not released.
  void ForEach(uint32_t incarnation, uint64_t released,
               const Visit& visit) const;

 private:
  struct End {
    uint64_t number;  // of its entry
    Clock clock;
  };

  void Use(PieceUse use);
  void ShowPieces(LogEntry entry, const Visit& visit) const;
  static void Show(const LogEntry& entry, const Visit& visit);

  uint64_t schema_;
  std::vector<PieceSet> pools_;
  uint64_t last_grant_ = 0;
  uint64_t last_ = 0;  // the newest entry's number
  std::deque<LogEntry> tells_;
  std::map<FlowId, End> ends_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_LOG_KEEPER_H_
