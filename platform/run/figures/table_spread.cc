// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures/table_spread.h"

#include <algorithm>

namespace snf {

void TableSpread::on_merged(size_t table, uint64_t version, Instant oldest) {
  const Unseen update = {version, oldest};
  tables_[table].unread.push_back(update);
  tables_[table].unseen.push_back(update);
}

void TableSpread::Find(Instant now, size_t table, const TableHome& home) {
  const auto find = [&](std::deque<Unseen>& updates, bool everywhere,
                        Histogram& times) {
    while (!updates.empty() &&
           IsKnown(home, table, updates.front().version, everywhere)) {
      times.Record((now - updates.front().oldest).ns);
      updates.pop_front();
    }
  };
  Table& of = tables_[table];
  find(of.unread, true, of.spread_ns);
  find(of.unseen, false, of.staleness_ns);
}

bool TableSpread::IsKnown(const TableHome& home, size_t table, uint64_t version,
                          bool everywhere) const {
  return std::ranges::all_of(home.joined(), [&](UnitId unit) {
    const uint32_t controller = value(unit) / max_units_;
    const auto own = static_cast<uint16_t>(value(unit) % max_units_);
    const TableReplica& replica =
        readers_[controller]->ReplicaOf(table, UnitId{own});
    return home.joined_at(unit) >= version || replica.complete() >= version ||
           (!everywhere && !replica.is_read());
  });
}

void TableSpread::AddTimes(RunResult& result) const {
  for (size_t table = 0; table < tables_.size(); ++table) {
    result.tables[table].staleness_ns = tables_[table].staleness_ns;
    result.tables[table].spread_ns = tables_[table].spread_ns;
  }
}

}  // namespace snf
