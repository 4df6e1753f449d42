// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/unit_tables.h"

#include <cstdint>

namespace snf {

std::vector<TableShape> LoggedTablesOf(const NetworkFunction& nf) {
  std::vector<TableShape> shapes;
  for (const TableCopy* const table : TablesOf(nf)) {
    if (!table->shape().for_reports) return {};
    shapes.push_back(table->shape());
  }
  return shapes;
}

UnitTables::UnitTables(UnitId unit, const NetworkFunction& nf,
                       const TableOptions& options, bool are_logged)
    : copies_(TablesOf(nf)) {
  if (are_logged) return;
  for (uint16_t table = 0; table < copies_.size(); ++table) {
    replicas_.emplace_back(table, unit, *copies_[table], options);
  }
}

}  // namespace snf
