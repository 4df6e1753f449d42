// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/lone_tables.h"

#include <algorithm>
#include <utility>

#include "base/timing_wheel.h"

namespace snf {
namespace {

constexpr UnitId kUnit{0};
// A home's timers run out up to a tick late.
constexpr Nanos kTick{1 << TimingWheel::kTickShift};

}  // namespace

LoneTables::LoneTables(const std::vector<TableCopy*>& copies,
                       const TableOptions& options) {
  // No message is lost.
  const TableOptions at_once = {.period = Nanos{},
                                .retry_after = Seconds(1),
                                .forget_after = options.forget_after,
                                .hash_seed = options.hash_seed};
  uint16_t number = 0;
  for (TableCopy* const copy : copies) {
    tables_.push_back(std::make_unique<Table>(
        Table{.replica = TableReplica(number, kUnit, *copy, at_once),
              .home = TableHome(number, copy->shape(), 1, at_once)}));
    tables_.back()->replica.on_start(now_, 1);
    ++number;
  }
}

void LoneTables::MergeAll(Instant now) {
  now_ = std::max(now_, now);
  for (const auto& table : tables_) Settle(*table);
}

// Lets both sides talk until neither has anything to say.
void LoneTables::Settle(Table& table) {
  table.replica.on_updates(now_);
  TableMessage said;
  while (true) {
    if (table.replica.on_timers(now_, said)) {
      Talk(table, said, true);
    } else if (table.home.next_wakeup() <= now_ + kTick &&
               table.home.on_timers(now_ + kTick, said)) {
      Talk(table, said, false);
    } else if (table.home.next_wakeup() > now_ + kTick) {
      return;
    }
  }
}

// Brings the message to its receiver, and answers to and fro.
void LoneTables::Talk(Table& table, TableMessage& said, bool to_home) {
  TableMessage answer;
  while (to_home ? table.home.on_message(now_, said, answer)
                 : table.replica.on_message(now_, said, answer)) {
    std::swap(said, answer);
    to_home = !to_home;
  }
}

}  // namespace snf
