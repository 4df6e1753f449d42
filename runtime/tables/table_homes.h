// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_TABLE_HOMES_H_
#define SNF_RUNTIME_TABLES_TABLE_HOMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "base/time.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_home.h"
#include "runtime/tables/table_message.h"

namespace snf {

// The homes of all shared tables of an NF. Their owner carries the messages
// between them and the units (unit_tables.h); outgoing messages are handed out
// as send(message). Owner-thread only.
class TableHomes {
 public:
  // Makes the homes of the tables of all NFs in `example`, which is not kept.
  TableHomes(const NetworkFunction& example, uint32_t max_units,
             const TableOptions& options);

  // Returns the bytes of memory in which all homes can be kept
  // (TableHome::Keep).
  static size_t BytesToKeep(const NetworkFunction& example, uint32_t max_units);
  void Keep(Instant now, std::span<std::byte> memory, uint32_t max_units);
  // Returns the highest incarnation of a unit that has ever joined one.
  uint32_t newest_incarnation() const {
    uint32_t newest = 0;
    for (const Home& one : homes_) {
      newest = std::max(newest, one.home.newest_incarnation());
    }
    return newest;
  }

  size_t size() const { return homes_.size(); }
  const TableHome& home(size_t table) const { return homes_[table].home; }

  // Counts a message, in either direction.
  void Count(const TableMessage& message);
  struct Traffic {
    uint64_t messages = 0;
    uint64_t bytes = 0;
  };
  const Traffic& traffic(size_t table) const { return homes_[table].traffic; }

  template <typename Send>
  void on_message(Instant now, const TableMessage& in, const Send& send) {
    TableMessage out;
    if (homes_[in.table].home.on_message(now, in, out)) send(out);
  }
  void on_unit_failed(UnitId unit) {
    for (Home& one : homes_) one.home.on_unit_failed(unit);
  }
  // Returns when a table wants on_timers to be called; Instant::max() for
  // never.
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

 private:
  struct Home {
    TableHome home;
    Traffic traffic;
  };
  std::deque<Home> homes_;  // by table
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_TABLE_HOMES_H_
