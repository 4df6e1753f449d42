// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/table_homes.h"

#include "runtime/tables/unit_tables.h"

namespace snf {

TableHomes::TableHomes(const NetworkFunction& example, uint32_t max_units,
                       const TableOptions& options) {
  for (const TableCopy* const table : TablesOf(example)) {
    const auto number = static_cast<uint16_t>(homes_.size());
    homes_.push_back(
        {.home = TableHome(number, table->shape(), max_units, options),
         .traffic = {}});
  }
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
  for (Home& one : homes_) {
    const TableShape& shape = one.home.shape();
    const size_t bytes = KeptHome::BytesFor(shape, max_units);
    one.home.Keep(now, KeptHome(memory.first(bytes), shape, max_units));
    memory = memory.subspan(bytes);
  }
}

void TableHomes::Count(const TableMessage& message) {
  Home& home = homes_[message.table];
  ++home.traffic.messages;
  home.traffic.bytes += message.bytes(home.home.shape());
}

}  // namespace snf
