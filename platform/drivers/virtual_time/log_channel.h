// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_LOG_CHANNEL_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_LOG_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "platform/drivers/virtual_network/state_network.h"
#include "platform/run/run.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/log_keeper.h"
#include "runtime/logger/output_logger.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/state_schema.h"
#include "runtime/sdk/table_copy.h"
#include "runtime/shell/entry_maker.h"

namespace snf {

// Returns the network between units and loggers: what goes there meets delays
// and chaos of its own.
StateNetwork NetworkToLoggers(RunOptions options);

// A unit's output logger in virtual time, and the unit's end of the channel to
// it (proto/protocol.md §5). Entries are kept here until the unit knows that
// the logger has taken them.
//
// Owner-thread only. Grows with the entries that are kept.
class LogChannel {
 public:
  // Most entries here; beyond them the unit takes no packet into service.
  static constexpr size_t kMaxEntries = 16'384;

  // The schema and the pools must outlive the channel. If the logger
  // `may_fail`, more is kept, so that Restore can be called. In the logger,
  // `window` entries may wait behind a hole. Entries have the updates of these
  // tables, if any.
  LogChannel(uint32_t max_flows, const StateSchema& schema,
             std::span<const NetworkFunction::Pool> pools,
             bool may_fail = false,
             uint32_t window = OutputLoggerOptions{}.window,
             std::span<const TableShape> tables = {});

  EntryMaker& maker() { return maker_; }
  uint32_t incarnation() const { return incarnation_; }
  OutputLogger& logger() { return logger_; }
  const OutputLogger& logger() const { return logger_; }

  // Keeps the entry that the maker has just made, and returns its number.
  uint64_t Keep(LoggerFigures& figures);
  // Returns an entry; nothing if the entry is not here any more.
  std::span<const std::byte> entry(uint64_t number) const;
  std::optional<LogEntryView> Parse(std::span<const std::byte> bytes) const {
    return LogEntryView::Parse(limits_, bytes);
  }
  // Puts another entry in place of this one, with the flow's present record;
  // but not if a later one moves pieces: were that lost with the unit, they
  // would be in the flow's record and in the unit's (L4, I8).
  void Replace(uint64_t number, const Unit& unit);
  // Takes the oldest entry out.
  std::vector<std::byte> Pop() {
    std::vector<std::byte> bytes = std::move(entries_.front());
    entries_.pop_front();
    ++first_;
    return bytes;
  }
  // The homes have merged the updates of tables of entries up to this one.
  void on_updates_merged(uint64_t number) {
    if (keeper_.has_value()) keeper_->on_updates_merged(number);
  }
  bool empty() const { return entries_.empty(); }
  // Returns true if the unit is to take no packet into service.
  bool is_full() const {
    return entries_.size() >= kMaxEntries ||
           (failure.has_value() && failure->pauses_unit);
  }
  uint64_t first() const { return first_; }  // the oldest entry's number

  // Begins a new process of the unit, with entries from 1 on. The logger keeps
  // what it has of earlier processes. All entries here must be taken by the
  // logger, or lost.
  void BeginAnew();

  // Gives a new logger all that the unit keeps now; no flow of the unit may
  // wait for its alias. Entries up to `released` count as released. Returns the
  // number of records that the logger gets.
  uint64_t Restore(const Unit& unit, uint64_t released);
  // Puts the new logger in place of the one that failed. Returns false if the
  // unit has begun anew since, so that another logger is needed.
  bool Replace();

  // Set while the logger has failed, and the next one is not here yet.
  struct Failure {
    Instant died;
    bool with_host = false;    // entries that came to it are lost
    bool pauses_unit = false;  // until its flows can be handed over
    bool is_asked = false;     // a Seal waits for the next one
    uint64_t released = 0;     // entries up to it count as released
  };
  std::optional<Failure> failure;
  // True if the unit has stopped, which it says once the channel is empty.
  bool has_stopped = false;
  bool has_heartbeat = false;  // a heartbeat is scheduled
  bool is_broken = false;      // the logger found an entry impossible

 private:
  std::map<FlowId, Clock> ClocksReleased(uint64_t released) const;

  OutputLoggerOptions logger_options_;
  const StateSchema* schema_;
  std::span<const NetworkFunction::Pool> pools_;
  std::vector<TableShape> tables_;
  uint32_t incarnation_ = 1;
  LogEntryLimits limits_;
  EntryMaker maker_;
  std::optional<LogKeeper> keeper_;
  OutputLogger logger_;
  std::optional<OutputLogger> next_logger_;
  uint64_t first_ = 1;
  std::deque<std::vector<std::byte>> entries_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_LOG_CHANNEL_H_
