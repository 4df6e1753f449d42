// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_UNIT_TABLES_H_
#define SNF_RUNTIME_TABLES_UNIT_TABLES_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/table_copy.h"
#include "runtime/tables/table_message.h"
#include "runtime/tables/table_replica.h"

namespace snf {

// Returns the shapes of all shared tables of the NF if no packet reads any of
// them; else nothing. If loggers may have to recover what units did, updates of
// such tables go with the entries of units' logs (proto/protocol.md §8).
std::vector<TableShape> LoggedTablesOf(const NetworkFunction& nf);

// The replicas of one unit: one for each shared table of its NF. The unit's
// driver carries the messages between them and the homes (table_homes.h);
// outgoing messages are handed out as send(message). Owner-thread only.
class UnitTables {
 public:
  // `nf` must outlive the object. If updates are logged, there are no replicas.
  UnitTables(UnitId unit, const NetworkFunction& nf,
             const TableOptions& options, bool are_logged = false);

  // The NF is about to be called, until on_stop. A unit that was only parked,
  // or whose stop is withdrawn, still has its incarnation.
  void on_ready(Instant now, uint32_t incarnation) {
    stops_ = false;
    for (TableReplica& replica : replicas_) replica.on_start(now, incarnation);
  }
  // The NF was called.
  void on_called(Instant now) {
    for (TableReplica& replica : replicas_) replica.on_updates(now);
  }
  // The unit is to go. It may go at once if joined() is false, else as soon as
  // TakeGone returns true.
  void on_stop() {
    stops_ = true;
    for (TableReplica& replica : replicas_) replica.on_stop();
  }
  // Returns true if a home still waits for something from this unit.
  bool joined() const {
    return std::ranges::any_of(
        replicas_, [](const TableReplica& one) { return one.joined(); });
  }
  // Returns true once: when the homes have all updates of the unit.
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
  // Returns when on_timers wants to be called; Instant::max() for never.
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

  size_t size() const { return replicas_.size(); }
  const TableReplica& replica(size_t table) const { return replicas_[table]; }
  const TableCopy& copy(size_t table) const { return *copies_[table]; }

 private:
  std::vector<TableReplica> replicas_;  // by table
  std::vector<TableCopy*> copies_;
  bool stops_ = false;
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_UNIT_TABLES_H_
