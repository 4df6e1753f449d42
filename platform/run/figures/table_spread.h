// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FIGURES_TABLE_SPREAD_H_
#define SNF_PLATFORM_RUN_FIGURES_TABLE_SPREAD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "base/time.h"
#include "platform/run/run.h"
#include "runtime/tables/table_home.h"
#include "runtime/tables/table_replica.h"

namespace snf {

// The copies of units of one controller.
class TableReaders {
 public:
  // Returns the copy of a unit that has joined the table's home.
  virtual const TableReplica& ReplicaOf(size_t table, UnitId unit) const = 0;

 protected:
  ~TableReaders() = default;
};

// Measures when units see the updates of shared tables, in virtual time: for
// each message of updates, the time from its first update until all units know
// it that had joined when it reached the home; and until the units among them
// know it that read the table. One or more controllers have
// max_units units each. Owner-thread only.
class TableSpread {
 public:
  TableSpread(size_t tables, uint32_t max_units)
      : max_units_(max_units), tables_(tables) {}

  // Adds the next controller; the object is valid as long as `readers`.
  void Add(const TableReaders& readers) { readers_.push_back(&readers); }
  // The home has merged an update, made at `oldest`, into this version.
  void on_merged(size_t table, uint64_t version, Instant oldest);
  // Looks which updates are known by now.
  void Find(Instant now, size_t table, const TableHome& home);
  // Sets the times of the tables.
  void AddTimes(RunResult& result) const;

 private:
  struct Unseen {
    uint64_t version;
    Instant oldest;
  };
  struct Table {
    std::deque<Unseen> unread{};  // by version: not everywhere
    std::deque<Unseen> unseen{};  // by version: not where it is read
    Histogram staleness_ns{};     // as in TableFigures
    Histogram spread_ns{};
  };

  bool IsKnown(const TableHome& home, size_t table, uint64_t version,
               bool everywhere) const;

  uint32_t max_units_;
  std::vector<const TableReaders*> readers_;  // by controller
  std::vector<Table> tables_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FIGURES_TABLE_SPREAD_H_
