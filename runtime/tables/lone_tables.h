// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_LONE_TABLES_H_
#define SNF_RUNTIME_TABLES_LONE_TABLES_H_

#include <memory>
#include <vector>

#include "base/time.h"
#include "runtime/sdk/table_copy.h"
#include "runtime/tables/table_home.h"
#include "runtime/tables/table_message.h"
#include "runtime/tables/table_replica.h"

namespace snf {

// The shared tables of an NF that runs alone, outside of a unit: in its test,
// and in `snf nf run`. Each copy has a home of its own, so that timers,
// triggers and expiry run as in a unit, but without delay.
//
// Worked example: a table has a timer of 1 s that sets its counts to zero. A
// call at 0.9 s counts 5 for a key, so the NF reads 5 from then on. A call at
// 1.2 s counts 1 for another key: Merge(1.2 s) calls the hook for the first
// key, and the NF reads 0 and 1.
//
// Owner-thread only. Memory: a table's copy and its home.
class LoneTables {
 public:
  // The copies must outlive this, and not have been updated yet. Of `options`
  // only forget_after and hash_seed count.
  explicit LoneTables(const std::vector<TableCopy*>& copies,
                      const TableOptions& options = {});
  LoneTables(const LoneTables&) = delete;
  LoneTables& operator=(const LoneTables&) = delete;

  // The NF was called at `now`: merges its updates, and brings the changes
  // of timers, triggers and expiry to the copies. A time that runs backwards
  // counts as the latest one.
  void Merge(Instant now) {
    if (!tables_.empty()) MergeAll(now);
  }

 private:
  struct Table {
    TableReplica replica;
    TableHome home;
  };
  void MergeAll(Instant now);
  void Settle(Table& table);
  void Talk(Table& table, TableMessage& said, bool to_home);

  Instant now_{};
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_LONE_TABLES_H_
