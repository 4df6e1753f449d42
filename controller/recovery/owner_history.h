// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_RECOVERY_OWNER_HISTORY_H_
#define SNF_CONTROLLER_RECOVERY_OWNER_HISTORY_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"

namespace snf {

// The units at which each flow ran before its present owner, as runs of clocks,
// until the state of each run is taken over (proto/protocol.md F5). When a flow
// moves, the run that ends is added; RemoveBefore(c) removes the runs that end
// before c. A flow usually has no run or one, and most flows have none.
//
// Worked example: clocks 1-4 ran at unit 0, 5-6 at unit 2, and the flow is now
// at unit 1: Add(slot, 4, 0), Add(slot, 6, 2) leave the runs 1-4 at 0 and 5-6
// at 2. When unit 2 has taken the state over with clock 5, RemoveBefore(slot,
// 5) leaves 5-6 at 2; RemoveBefore(slot, 7) leaves none.
//
// The room is bounded: when it is used up, Add replaces the flow's oldest run
// or, if the flow has none, does nothing. Both are counted as forgotten.
//
// A value; owner-thread only; nothing is allocated after construction. Takes 4
// bytes for each flow slot and 24 for each run.
class OwnerHistory {
 public:
  struct Run {
    Clock first{};
    Clock last{};
    UnitId unit = kNoUnit;
    bool at_logger = false;  // the unit has failed: its logger has the state
    bool is_taken = false;   // its copy is gone; there is an older one
    // A later clock of the flow is released: no unit asks for this copy.
    bool is_superseded = false;
  };

  OwnerHistory(uint32_t max_flows, uint32_t max_runs);

  // Adds the run of the flow in `slot` that ended at clock `last` and ran at
  // `unit`. `last` is greater than that of every earlier run. The run begins
  // behind the flow's newest run, or with clock 1 if it has none: earlier runs
  // are then taken over or forgotten. O(1).
  void Add(uint32_t slot, Clock last, UnitId unit) {
    Add(slot, {.last = last, .unit = unit});
  }
  // Adds a run with the fields of `run` except `first`.
  void Add(uint32_t slot, const Run& run);
  // Removes the runs that end before `clock`: their state is taken over. O(runs
  // removed).
  void RemoveBefore(uint32_t slot, Clock clock);
  // The copy of the run that ends with that clock, if there is one, is gone. It
  // is removed once no older one is left, of which it tells who took it over.
  // O(runs).
  void TakeEndingAt(uint32_t slot, Clock last);
  // Removes all runs of the flow. O(runs removed).
  void Erase(uint32_t slot);

  // The number of the flow's runs, in O(runs), and the i-th of them, oldest
  // first, for i < runs(slot), in O(i).
  uint32_t runs(uint32_t slot) const;
  Run run(uint32_t slot, uint32_t i) const;

  // Calls `visit` with each of the flow's runs, oldest first.
  template <typename Visit>
  void ForEach(uint32_t slot, const Visit& visit) const {
    const uint32_t newest = newest_[slot];
    if (newest == 0) return;
    uint32_t at = newest;
    do {
      at = node(at).next;
      visit(RunOf(node(at)));
    } while (at != newest);
  }

  uint32_t max_runs() const { return static_cast<uint32_t>(nodes_.size()); }
  // The runs of all flows, and how many were forgotten so far.
  uint32_t size() const { return size_; }
  uint64_t forgotten() const { return forgotten_; }

 private:
  struct Node {
    Clock first;
    Clock last;
    UnitId unit;
    bool at_logger : 1;
    bool is_taken : 1;
    bool is_superseded : 1;
    uint32_t next;  // 1 + the newer run's node; the newest leads to the oldest
  };
  static_assert(sizeof(Node) == 24);

  // A node's name is 1 + its index; 0 names none.
  Node& node(uint32_t name) { return nodes_[name - 1]; }
  const Node& node(uint32_t name) const { return nodes_[name - 1]; }
  static Run RunOf(const Node& node) {
    return {.first = node.first,
            .last = node.last,
            .unit = node.unit,
            .at_logger = node.at_logger,
            .is_taken = node.is_taken,
            .is_superseded = node.is_superseded};
  }
  uint32_t TakeNode();

  uint32_t size_ = 0;
  uint32_t used_ = 0;  // nodes ever used
  uint32_t free_ = 0;  // list of freed nodes
  uint64_t forgotten_ = 0;
  LazyArray<uint32_t> newest_;  // of each flow, in a ring; 0 = none
  LazyArray<Node> nodes_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_RECOVERY_OWNER_HISTORY_H_
