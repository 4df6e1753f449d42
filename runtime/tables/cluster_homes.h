// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_TABLES_CLUSTER_HOMES_H_
#define SNF_RUNTIME_TABLES_CLUSTER_HOMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_home.h"
#include "runtime/tables/table_message.h"

namespace snf {

// Theory of operation. The homes of an NF's shared tables if several
// controllers run the NF: each table has one home for all controllers
// (proto/protocol.md T8). A unit that several controllers share has an NF and a
// copy of each table for each of them, so it is one unit of the home for each.
// Each controller passes on the messages of its own units, through its
// TableHomes. The home is unaware of controllers, except that each controller
// has its own timers.
//
//   units of 0 ◄─► TableHomes of 0 ─┐
//                                   ├─► ClusterHomes: TableHome of each table
//   units of 1 ◄─► TableHomes of 1 ─┘
//
// Worked example: with 64 units each, unit 3 of controller 1 is unit 67 of the
// homes. Unit 3 of controller 0 adds 2 to a key. The home merges the update,
// and arms the timer of unit 67, among the timers of controller 1. When
// controller 1 next looks at its timers, it gets the message to its unit 3.
//
// The object outlives controllers that fail, join and leave. Owner-thread only;
// a class derived from it makes calls of several threads possible.
class ClusterHomes {
 public:
  // Makes the homes of the tables of all NFs in `example`, which is not kept.
  // In all, controllers have at most kMaxUnits units.
  ClusterHomes(const NetworkFunction& example, uint32_t controllers,
               uint32_t max_units, const TableOptions& options);
  virtual ~ClusterHomes() = default;
  ClusterHomes(const ClusterHomes&) = delete;
  ClusterHomes& operator=(const ClusterHomes&) = delete;

  // Return the results of TableHome's calls; units are the controller's.
  virtual bool on_message(Instant now, uint32_t controller,
                          const TableMessage& in, TableMessage& out);
  virtual bool on_timers(Instant now, uint32_t controller, size_t table,
                         TableMessage& out);
  virtual void on_unit_failed(uint32_t controller, UnitId unit);
  virtual uint64_t logged(uint32_t controller, size_t table, UnitId unit) const;
  virtual uint32_t newest_incarnation() const;
  // Returns when a table wants on_timers to be called for the controller. The
  // updates of units of another controller may make that earlier.
  virtual Instant next_wakeup(uint32_t controller) const;
  // The controller has ended: the homes wait for none of its units.
  void Leave(uint32_t controller);

  uint32_t controllers() const { return controllers_; }
  uint32_t max_units() const { return max_units_; }
  size_t size() const { return homes_.size(); }
  // Returns the table's home. While another thread makes calls, only the shape
  // of the home may be read.
  const TableHome& home(size_t table) const { return homes_[table]; }

 private:
  UnitId NumberOf(uint32_t controller, UnitId unit) const {
    return UnitId{static_cast<uint16_t>(controller * max_units_ + value(unit))};
  }
  UnitId OwnOf(uint32_t controller, UnitId number) const {
    return UnitId{
        static_cast<uint16_t>(value(number) - controller * max_units_)};
  }

  uint32_t controllers_;
  uint32_t max_units_;           // of a controller
  std::deque<TableHome> homes_;  // by table
};

}  // namespace snf

#endif  // SNF_RUNTIME_TABLES_CLUSTER_HOMES_H_
