// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_TABLE_HOMES_H_
#define SNF_RUNTIME_TABLES_TABLE_HOMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/cluster_homes.h"
#include "runtime/tables/table_home.h"
#include "runtime/tables/table_message.h"

namespace snf {

// The homes of all shared tables of an NF, for the units of one controller.
// Their owner carries the messages between them and the units (unit_tables.h);
// outgoing messages are handed out as send(message). The homes are the
// controller's own, or several controllers have them (cluster_homes.h).
// Owner-thread only.
class TableHomes {
 public:
  // Makes the homes of the tables of all NFs in `example`, which is not kept.
  TableHomes(const NetworkFunction& example, uint32_t max_units,
             const TableOptions& options);
  // Uses the homes of several controllers, for the units of this one. `common`
  // must outlive the object.
  TableHomes(ClusterHomes& common, uint32_t controller)
      : common_(&common), controller_(controller), traffic_(common.size()) {}

  // Returns the bytes of memory in which all homes can be kept
  // (TableHome::Keep).
  static size_t BytesToKeep(const NetworkFunction& example, uint32_t max_units);
  // Keeps the controller's own homes.
  void Keep(Instant now, std::span<std::byte> memory, uint32_t max_units);
  // Returns the highest incarnation of a unit that has ever joined one.
  uint32_t newest_incarnation() const {
    if (common_ != nullptr) return common_->newest_incarnation();
    uint32_t newest = 0;
    for (const TableHome& home : homes_) {
      newest = std::max(newest, home.newest_incarnation());
    }
    return newest;
  }

  size_t size() const { return traffic_.size(); }
  // Returns the table's home. If several controllers have the home,
  // ClusterHomes::home says what may be read.
  const TableHome& home(size_t table) const {
    return common_ != nullptr ? common_->home(table) : homes_[table];
  }
  // Returns true if other controllers have the same homes.
  bool are_of_cluster() const { return common_ != nullptr; }
  // Counts the unit's logged updates that are merged.
  uint64_t logged(size_t table, UnitId unit) const {
    return common_ != nullptr ? common_->logged(controller_, table, unit)
                              : homes_[table].logged(unit);
  }

  // Counts a message, in either direction.
  void Count(const TableMessage& message);
  struct Traffic {
    uint64_t messages = 0;
    uint64_t bytes = 0;
  };
  const Traffic& traffic(size_t table) const { return traffic_[table]; }

  template <typename Send>
  void on_message(Instant now, const TableMessage& in, const Send& send) {
    TableMessage out;
    const bool has_out = common_ != nullptr
                             ? common_->on_message(now, controller_, in, out)
                             : homes_[in.table].on_message(now, in, out);
    if (has_out) send(out);
  }
  void on_unit_failed(UnitId unit) {
    if (common_ != nullptr) return common_->on_unit_failed(controller_, unit);
    for (TableHome& home : homes_) home.on_unit_failed(unit);
  }
  // The controller has ended, and other controllers may go on.
  void Leave() {
    if (common_ != nullptr) common_->Leave(controller_);
  }
  // Returns when a table wants on_timers to be called; Instant::max() for
  // never.
  Instant next_wakeup() const {
    if (common_ != nullptr) return common_->next_wakeup(controller_);
    Instant wakeup = Instant::max();
    for (const TableHome& home : homes_) {
      wakeup = std::min(wakeup, home.next_wakeup());
    }
    return wakeup;
  }
  template <typename Send>
  void on_timers(Instant now, size_t table, const Send& send) {
    TableMessage out;
    while (common_ != nullptr ? common_->on_timers(now, controller_, table, out)
                              : homes_[table].on_timers(now, out)) {
      send(out);
    }
  }

 private:
  ClusterHomes* common_ = nullptr;  // null: the homes are homes_
  uint32_t controller_ = 0;         // of common_
  std::deque<TableHome> homes_;     // by table
  std::vector<Traffic> traffic_;    // by table
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_TABLE_HOMES_H_
