// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/unit_tables.h"

#include <cstdint>

namespace snf {

UnitTables::UnitTables(UnitId unit, const NetworkFunction& nf,
                       const TableOptions& options)
    : copies_(TablesOf(nf)) {
  for (uint16_t table = 0; table < copies_.size(); ++table) {
    replicas_.emplace_back(table, unit, *copies_[table], options);
  }
}

}  // namespace snf
