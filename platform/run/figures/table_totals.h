// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FIGURES_TABLE_TOTALS_H_
#define SNF_PLATFORM_RUN_FIGURES_TABLE_TOTALS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "platform/run/run.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/unit_tables.h"

namespace snf {

// Tells of a unit's copy of a shared table at the end of a run. All words, so
// that another process can tell it.
struct TableCopyFigures {
  uint64_t updates = 0;
  uint64_t refused = 0;
  uint64_t repeated = 0;
  uint64_t joined = 0;  // 1: the following are to be the home's
  uint64_t entries = 0;
  uint64_t entries_digest = 0;  // of keys and values, in any order
  uint64_t rest_digest = 0;
};

// Makes the totals of a home the content of `copy`, which nothing updates.
void LoadTotals(const TableHome& home, TableCopy& copy);

// Returns what there is to tell of each table of a unit.
std::vector<TableCopyFigures> FiguresOf(const UnitTables& unit);
TableCopyFigures FiguresOf(const TableReplica& replica, const TableCopy& copy);

// Adds the figures of all shared tables to the result, and a violation for each
// copy of a unit that differs from its home; nothing may be under way any more.
// `units` has an element for each unit id, by table, which is empty for a unit
// that never ran. The totals become the tables of `nf`, which ran nothing, so
// that it can report them. If other controllers have the same homes, only the
// figures of units and messages are added, and AddClusterTables does the rest.
void AddTables(const TableHomes& homes,
               std::span<const std::vector<TableCopyFigures>> units,
               const NetworkFunction& nf, RunResult& result);

// Adds the figures of homes to the sum of the results of all controllers; no
// controller may use the homes any more. The totals become the tables of `nf`,
// whose reports become the reports of the result.
void AddClusterTables(const ClusterHomes& homes, const NetworkFunction& nf,
                      RunResult& result);

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FIGURES_TABLE_TOTALS_H_
