// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_TABLE_ENDS_H_
#define SNF_PLATFORM_RUN_TABLE_ENDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "platform/run/run.h"
#include "runtime/core/table_home.h"
#include "runtime/core/table_message.h"
#include "runtime/core/table_replica.h"
#include "runtime/sdk/nf.h"

// The two ends of the shared tables of a run, for any driver: it carries the
// messages between them. They are given as send(message). Owner-thread only.
namespace snf {

TableOptions TableOptionsOf(const RunOptions& options);

// Of one unit: a copy of each table, that of its NF.
class UnitTables {
 public:
  // `nf` must outlive it.
  UnitTables(UnitId unit, const NetworkFunction& nf,
             const TableOptions& options);

  // The NF is about to be called, until on_stop.
  void on_ready(Instant now) {
    if (joined()) return;  // the unit was parked
    for (TableReplica& replica : replicas_) replica.on_start(now);
  }
  // It was called.
  void on_called(Instant now) {
    for (TableReplica& replica : replicas_) replica.on_updates(now);
  }
  // The unit is to go: at once if not joined(), else when TakeGone says so.
  void on_stop() {
    stops_ = true;
    for (TableReplica& replica : replicas_) replica.on_stop();
  }
  // Homes wait for something from here.
  bool joined() const {
    return std::ranges::any_of(
        replicas_, [](const TableReplica& one) { return one.joined(); });
  }
  // True once, when all that the unit wrote is with the homes.
  bool TakeGone() {
    if (!stops_ || joined()) return false;
    stops_ = false;
    return true;
  }

  template <typename Send>
  void on_message(Instant now, const TableMessage& in, const Send& send) {
    TableMessage out;
    if (replicas_[in.table].on_message(now, in, out)) send(out);
  }
  Instant next_wakeup() const {
    Instant wakeup = Instant::max();
    for (const TableReplica& replica : replicas_) {
      wakeup = std::min(wakeup, replica.next_wakeup());
    }
    return wakeup;
  }
  template <typename Send>
  void on_timers(Instant now, const Send& send) {
    TableMessage out;
    for (TableReplica& replica : replicas_) {
      while (replica.next_wakeup() <= now && replica.on_timers(now, out)) {
        send(out);
      }
    }
  }

  const TableReplica& replica(size_t table) const { return replicas_[table]; }
  const TableCopy& copy(size_t table) const { return *copies_[table]; }

 private:
  std::vector<TableReplica> replicas_;  // by table
  std::vector<TableCopy*> copies_;
  bool stops_ = false;
};

// The homes of all tables, and what is known of them in the end.
class TableHomes {
 public:
  // The tables are those of the NFs that `example` is made of.
  TableHomes(const NetworkFunction& example, uint32_t max_units,
             const TableOptions& options);

  size_t size() const { return homes_.size(); }
  TableHome& home(size_t table) { return homes_[table].home; }
  const TableHome& home(size_t table) const { return homes_[table].home; }
  TableFigures& figures(size_t table) { return homes_[table].figures; }

  // Of a message, in either direction.
  void Count(const TableMessage& message);
  template <typename Send>
  void on_message(Instant now, const TableMessage& in, const Send& send) {
    TableMessage out;
    if (homes_[in.table].home.on_message(now, in, out)) send(out);
  }
  Instant next_wakeup() const {
    Instant wakeup = Instant::max();
    for (const Home& one : homes_) {
      wakeup = std::min(wakeup, one.home.next_wakeup());
    }
    return wakeup;
  }
  template <typename Send>
  void on_timers(Instant now, size_t table, const Send& send) {
    TableMessage out;
    while (homes_[table].home.on_timers(now, out)) send(out);
  }

  // Nothing is under way any more: adds the figures, and which of the units'
  // copies is wrong. `units` has one for each unit id; those that never ran are
  // null. The tables of `nf`, which ran nothing, become those of the run.
  void Finish(const std::vector<const UnitTables*>& units,
              const NetworkFunction& nf, RunResult& result);

 private:
  struct Home {
    TableHome home;
    TableFigures figures;
  };
  std::deque<Home> homes_;  // by table
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_TABLE_ENDS_H_
