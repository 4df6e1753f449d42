// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_UNIT_TABLES_H_
#define SNF_RUNTIME_TABLES_UNIT_TABLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/table_copy.h"
#include "runtime/tables/table_message.h"
#include "runtime/tables/table_replica.h"
#include "runtime/tables/table_view.h"

namespace snf {

// Returns the shapes of all shared tables of the NF. If loggers may have to
// recover what units did, updates of these tables go with the entries of units'
// logs (proto/protocol.md §8).
std::vector<TableShape> LoggedTablesOf(const NetworkFunction& nf);

// The replicas of one unit: one for each shared table of its NF. The unit's
// driver carries the messages between them and the homes (table_homes.h);
// outgoing messages are handed out as send(message).
//
// If updates are logged, replicas only take totals, for the tables that packets
// read, and each joins with the incarnation of the unit's log (TableView).
//
// Owner-thread only.
class UnitTables {
 public:
  // `nf` must outlive the object. If updates are logged, the tables of `nf` are
  // logging already (Unit::LogTables).
  UnitTables(UnitId unit, const NetworkFunction& nf,
             const TableOptions& options, bool are_logged = false);

  // The NF is about to be called, until on_stop. A unit that was only parked,
  // or whose stop is withdrawn, still has its incarnation.
  void on_ready(Instant now, uint32_t incarnation) {
    stops_ = false;
    for (Table& table : tables_) {
      if (table.replica) table.replica->on_start(now, incarnation);
    }
  }
  // The NF was called.
  void on_called(Instant now) {
    if (are_logged_) return;
    for (Table& table : tables_) table.replica->on_updates(now);
  }
  // A log entry of the unit has these updates (table_update.h).
  void on_logged(std::span<const std::byte> updates);
  // The unit is to go. It may go at once if joined() is false, else as soon as
  // TakeGone returns true.
  void on_stop() {
    stops_ = true;
    for (Table& table : tables_) {
      if (table.replica) table.replica->on_stop();
    }
  }
  // Returns true if a home still waits for something from this unit.
  bool joined() const {
    return std::ranges::any_of(tables_, [](const Table& one) {
      return one.replica && one.replica->joined();
    });
  }
  // Returns true once: when the homes have all updates of the unit.
  bool TakeGone() {
    if (!stops_ || joined()) return false;
    stops_ = false;
    return true;
  }

  template <typename Send>
  void on_message(Instant now, const TableMessage& in, const Send& send) {
    Table& table = tables_[in.table];
    if (!table.replica) return;
    const uint64_t told = table.replica->told_seq();
    const uint64_t complete = table.replica->complete();
    TableMessage out;
    if (table.replica->on_message(now, in, out)) send(out);
    if (table.view == nullptr || table.replica->told_seq() == told) return;
    Forget(in, table.replica->complete() > complete, *table.view);
  }
  // Returns when on_timers wants to be called; Instant::max() for never.
  Instant next_wakeup() const {
    Instant wakeup = Instant::max();
    for (const Table& table : tables_) {
      if (table.replica)
        wakeup = std::min(wakeup, table.replica->next_wakeup());
    }
    return wakeup;
  }
  template <typename Send>
  void on_timers(Instant now, const Send& send) {
    TableMessage out;
    for (Table& table : tables_) {
      if (!table.replica) continue;
      while (table.replica->next_wakeup() <= now &&
             table.replica->on_timers(now, out)) {
        send(out);
      }
    }
  }

  size_t size() const { return tables_.size(); }
  bool are_logged() const { return are_logged_; }
  // Returns null for a table that is logged and that no packet reads.
  const TableReplica* replica(size_t table) const {
    return tables_[table].replica ? &*tables_[table].replica : nullptr;
  }
  const TableCopy& copy(size_t table) const { return *tables_[table].copy; }

 private:
  struct Table {
    TableCopy* copy;                    // of the NF
    std::unique_ptr<TableView> view{};  // null if it is not logged, or not read
    std::optional<TableReplica> replica{};
  };

  static void Forget(const TableMessage& told, bool ends_sweep,
                     TableView& view);

  std::vector<Table> tables_;
  bool are_logged_;
  bool stops_ = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_UNIT_TABLES_H_
