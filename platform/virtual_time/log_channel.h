// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_LOG_CHANNEL_H_
#define SNF_PLATFORM_VIRTUAL_TIME_LOG_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "platform/run/run.h"
#include "platform/virtual_time/state_network.h"
#include "runtime/core/entry_maker.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/log_keeper.h"
#include "runtime/logger/output_logger.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Returns the network between units and loggers: what goes there meets delays
// and chaos of its own.
StateNetwork NetworkToLoggers(RunOptions options);

// A unit's output logger in virtual time, and the unit's end of the channel to
// it (proto/protocol.md §5): the entries are kept here until the unit knows
// that the logger has taken them.
//
// Owner-thread only. Grows with the entries that are kept.
class LogChannel {
 public:
  // A unit with so many entries here takes no packet into service.
  static constexpr size_t kMaxEntries = 16'384;

  // The schema and the pools must outlive the channel. If the logger `may_fail`
  // more is kept, so that Restore can be called. In the logger, `window`
  // entries may wait behind a hole.
  LogChannel(uint32_t max_flows, const StateSchema& schema,
             std::span<const NetworkFunction::Pool> pools,
             bool may_fail = false,
             uint32_t window = OutputLoggerOptions{}.window);

  EntryMaker& maker() { return maker_; }
  OutputLogger& logger() { return logger_; }
  const OutputLogger& logger() const { return logger_; }

  // Keeps what the maker has just made, and returns its number.
  uint64_t Keep(LoggerFigures& figures);
  // Returns an entry, or nothing if it is not here any more.
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
  bool empty() const { return entries_.empty(); }
  // The unit is to take no packet into service.
  bool is_full() const {
    return entries_.size() >= kMaxEntries ||
           (failure.has_value() && failure->pauses_unit);
  }
  uint64_t first() const { return first_; }  // the oldest entry's number

  // A new process of the unit begins, with entries from 1 on. What its logger
  // has of earlier ones stays there. Nothing may be here but what the logger
  // has taken, or nobody needs.
  void BeginAnew();

  // A new logger gets all that the unit keeps now; no flow of it may wait for
  // its alias. Entries up to `released` count as released by it. Returns the
  // records of flows that it gets.
  uint64_t Restore(const Unit& unit, uint64_t released);
  // The new logger has got it, and takes the place of the one that failed.
  // False if the unit has begun anew since, and another is needed.
  bool Replace();

  // There is no logger, since it has failed.
  struct Failure {
    Instant died;
    bool with_host = false;    // entries that came to it are lost
    bool pauses_unit = false;  // until its flows can be handed over
    bool is_asked = false;     // a Seal waits for the next one
    uint64_t released = 0;     // entries up to it count as released
  };
  std::optional<Failure> failure;
  // The unit has stopped, and says so once the channel is empty.
  bool has_stopped = false;
  bool has_heartbeat = false;  // one is to come
  bool is_broken = false;      // the logger found an entry impossible

 private:
  std::map<FlowId, Clock> ClocksReleased(uint64_t released) const;

  OutputLoggerOptions logger_options_;
  const StateSchema* schema_;
  std::span<const NetworkFunction::Pool> pools_;
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

#endif  // SNF_PLATFORM_VIRTUAL_TIME_LOG_CHANNEL_H_
