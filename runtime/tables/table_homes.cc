// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/table_homes.h"

#include "runtime/tables/unit_tables.h"

namespace snf {

TableHomes::TableHomes(const NetworkFunction& example, uint32_t max_units,
                       const TableOptions& options) {
  for (const TableCopy* const table : TablesOf(example)) {
    homes_.emplace_back(static_cast<uint16_t>(homes_.size()), table->shape(),
                        max_units, options);
  }
  traffic_.resize(homes_.size());
}

size_t TableHomes::BytesToKeep(const NetworkFunction& example,
                               uint32_t max_units) {
  size_t bytes = 0;
  for (const TableCopy* const table : TablesOf(example)) {
    bytes += KeptHome::BytesFor(table->shape(), max_units);
  }
  return bytes;
}

void TableHomes::Keep(Instant now, std::span<std::byte> memory,
                      uint32_t max_units) {
  for (TableHome& home : homes_) {
    const TableShape& shape = home.shape();
    const size_t bytes = KeptHome::BytesFor(shape, max_units);
    home.Keep(now, KeptHome(memory.first(bytes), shape, max_units));
    memory = memory.subspan(bytes);
  }
}

void TableHomes::Count(const TableMessage& message) {
  Traffic& traffic = traffic_[message.table];
  ++traffic.messages;
  traffic.bytes += message.bytes(home(message.table).shape());
}

}  // namespace snf
