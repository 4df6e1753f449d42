// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_TABLE_TOTALS_H_
#define SNF_PLATFORM_RUN_TABLE_TOTALS_H_

#include <span>

#include "platform/run/run.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/unit_tables.h"

namespace snf {

// Adds the figures of all shared tables to the result, and a violation for each
// copy of a unit that differs from its home; nothing may be under way any more.
// `units` has an element for each unit id, which is null for a unit that never
// ran. The totals become the tables of `nf`, which ran nothing, so that it can
// report them.
void AddTables(const TableHomes& homes,
               std::span<const UnitTables* const> units,
               const NetworkFunction& nf, RunResult& result);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_TABLE_TOTALS_H_
