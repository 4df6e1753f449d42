// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_LOGGERS_UPDATE_SENDERS_H_
#define SNF_RUNTIME_LIVE_LOGGERS_UPDATE_SENDERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/logger/output_logger.h"
#include "runtime/tables/table_message.h"
#include "runtime/tables/update_sender.h"

namespace snf {

// Theory of operation. Sends the updates of shared tables that the loggers of a
// loop keep to the tables' homes, by one UpdateSender a unit, and knows how far
// each unit has heard of what homes have merged (proto/protocol.md §8).
//
//   OutputLogger ─updates()─► UpdateSender ─SendDue─► homes
//                     ▲                ▲
//                     └──merged────────┴─on_home─ answers
//
// Worked example: unit 2 has logged updates with entries 7 and 8. SendDue
// sends them. The home's answer merges them, on_home returns 8, and the unit is
// told that the updates of entries up to 8 are merged.
//
// Loggers must outlive the senders. A value; owner-thread only.
class UpdateSenders {
 public:
  UpdateSenders(const TableOptions& options, size_t tables)
      : options_(options), tables_(tables) {}

  // Begins with a unit's logger. Does nothing if the NF has no such tables.
  void Add(UnitId unit, OutputLogger& logger);
  bool empty() const { return senders_.empty(); }
  bool Has(UnitId unit) const { return senders_.contains(unit); }
  // The unit's next process counts its entries from 1 again.
  void BeginAnew(UnitId unit);

  // Returns true if a logger keeps updates that no home has merged.
  bool HasUpdates() const;
  // Returns true if a logger keeps too many of these.
  bool IsFull() const;
  // No unit has the updates any more: makes all of them due at once. Returns
  // true if homes have merged everything.
  bool Hurry();

  // A home answers the unit's sender, which there is. Returns the entries whose
  // updates are merged, of which the unit has not heard yet; 0 for none.
  uint64_t on_home(Instant now, const TableMessage& answer);
  // The unit has heard of them.
  void on_told(UnitId unit, uint64_t merged) {
    senders_.find(unit)->second.told = merged;
  }

  // Returns true if there is anything to send.
  bool IsDue(Instant now) const;
  // Hands all messages that are due to `send(TableMessage)`.
  template <typename Send>
  void SendDue(Instant now, Send&& send) {
    for (const TableMessage& message : answers_) send(message);
    answers_.clear();
    TableMessage out;
    for (auto& [unit, one] : senders_) {
      while (one.sender.on_timers(now, one.logger->updates(), out)) send(out);
    }
  }

 private:
  struct Sender {
    UpdateSender sender;
    OutputLogger* logger;
    uint64_t told = 0;  // entries whose updates are merged, as the unit knows
  };

  TableOptions options_;
  size_t tables_;
  std::map<UnitId, Sender> senders_;
  std::vector<TableMessage> answers_;  // to answers of homes, not yet sent
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_LOGGERS_UPDATE_SENDERS_H_
