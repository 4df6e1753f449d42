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

void TableHomes::Count(const TableMessage& message) {
  Home& home = homes_[message.table];
  ++home.traffic.messages;
  home.traffic.bytes += message.bytes(home.home.shape());
}

}  // namespace snf
