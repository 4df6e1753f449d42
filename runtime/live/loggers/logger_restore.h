// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGERS_LOGGER_RESTORE_H_
#define SNF_RUNTIME_LIVE_LOGGERS_LOGGER_RESTORE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "runtime/live/loggers/loop_loggers.h"
#include "runtime/logger/log_entry.h"
#include "runtime/wire/kept_word.h"

namespace snf {

// Theory of operation. Restores the loggers of a process that takes over from
// another process (F8): units hand over the records that they keep, before the
// loggers take entries.
//
//   Begin ─► is_restoring ─kBegin, kEntry …, kUnit … kAll─► lacks_entries
//                                                      │ entries up to the
//                                                      ▼ records have come
//                                                    whole
//
// Records may be ahead: they have the effects of entries that have not come
// yet, and are lost if the units' process ends before they come. A flow that
// waits for its alias is ahead by a clock until its next entry.
//
// Worked example: the records of unit 2 are as of entry 9, and the loop has
// released 7. The process lacks entries 8 and 9. Once both have come, and the
// next one of each flow that is ahead, EndIfWhole ends the restore.
//
// Owner-thread only. The loggers must outlive the restore.
class LoggerRestore {
 public:
  // Names the meaning of a word.
  enum class Got : uint8_t {
    kNothing,     // a begin, an end of a unit, or a word for another process
    kEntry,       // the loggers have it
    kRecord,      // the same, and the entry is the record of an open flow
    kName,        // of a flow: the caller keeps it
    kAll,         // the end; the caller calls End
    kImpossible,  // the link is to be closed
    kTooEarly,    // an end, while a unit's end is missing: as kImpossible
  };

  // `process` numbers the process that takes over.
  LoggerRestore(uint32_t process, LoopLoggers& loggers)
      : process_(process), loggers_(loggers) {}

  // Units have to hand over their records from now on.
  void Begin() { is_restoring_ = true; }
  bool is_restoring() const { return is_restoring_; }
  // Takes a word, and the bytes of its entry.
  Got on_word(const KeptWord& word, std::span<const std::byte> bytes);
  // There are no more words.
  void End() {
    is_restoring_ = false;
    lacks_entries_ = true;
  }

  // Returns true from End on, until EndIfWhole has returned true.
  bool lacks_entries() const { return lacks_entries_; }
  // Returns true if the records are not ahead any more.
  bool EndIfWhole();
  bool has_flows_ahead() const { return !ahead_.empty(); }
  // An entry came of a flow whose record may be ahead.
  void on_entry(UnitId unit, const LogEntry& entry);

 private:
  uint32_t process_;
  LoopLoggers& loggers_;
  bool is_restoring_ = false;
  bool is_for_this_ = false;  // what units hand over now
  bool lacks_entries_ = false;
  // Flows whose records are ahead of the clocks that they go by, and these.
  absl::flat_hash_map<std::pair<UnitId, FlowId>, Clock> ahead_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGERS_LOGGER_RESTORE_H_
