// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/loggers/update_senders.h"

#include <algorithm>

namespace snf {

void UpdateSenders::Add(UnitId unit, OutputLogger& logger) {
  if (tables_ == 0) return;
  senders_.try_emplace(unit,
                       Sender{UpdateSender(unit, options_, tables_), &logger});
}

void UpdateSenders::BeginAnew(UnitId unit) {
  const auto sender = senders_.find(unit);
  if (sender != senders_.end()) sender->second.told = 0;
}

bool UpdateSenders::HasUpdates() const {
  return std::ranges::any_of(senders_, [](const auto& one) {
    return !one.second.logger->updates().empty();
  });
}

bool UpdateSenders::IsFull() const {
  return std::ranges::any_of(senders_, [](const auto& one) {
    return one.second.logger->updates().is_full();
  });
}

bool UpdateSenders::Hurry() {
  for (auto& [unit, one] : senders_) one.sender.Hurry(one.logger->updates());
  return !HasUpdates();
}

// The message that follows at once is sent with the next SendDue.
uint64_t UpdateSenders::on_home(Instant now, const TableMessage& answer) {
  Sender& one = senders_.find(answer.unit)->second;
  UpdateLog& updates = one.logger->updates();
  TableMessage next;
  if (one.sender.on_message(now, answer, updates, next)) {
    answers_.push_back(next);
  }
  const uint64_t merged = updates.entries_merged(one.logger->taken());
  return merged > one.told ? merged : 0;
}

bool UpdateSenders::IsDue(Instant now) const {
  return !answers_.empty() ||
         std::ranges::any_of(senders_, [&](const auto& one) {
           const UpdateLog& log = one.second.logger->updates();
           return one.second.sender.next_wakeup(log) <= now;
         });
}

}  // namespace snf
