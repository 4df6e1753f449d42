// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_OWNER_HISTORY_H_
#define SNF_CONTROLLER_CORE_OWNER_HISTORY_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"

namespace snf {

// Where each flow ran before its present owner, as far as it is not yet taken:
// runs of clocks and their units (proto/protocol.md F5). When a flow moves, the
// run that ends is added; Takeover(c) removes the runs that end before c.
// Usually none or one a flow, and none for most flows.
//
// Worked example: clocks 1-4 ran at unit 0, 5-6 at unit 2, and the flow is now
// at unit 1: Add(slot, 4, 0), Add(slot, 6, 2) leave the runs 1-4 at 0 and 5-6
// at 2. Takeover(slot, 5), for unit 2 has the state, leaves 5-6 at 2;
// Takeover(slot, 7) none.
//
// The room is bounded: where it is used up, Add forgets the flow's oldest run,
// or, if it has none, does nothing; both are counted.
//
// A value; owner-thread only; nothing is allocated after construction. 4 bytes
// for each flow slot and 24 for each run.
class OwnerHistory {
 public:
  struct Run {
    Clock first{};
    Clock last{};
    UnitId unit = kNoUnit;
  };

  OwnerHistory(uint32_t max_flows, uint32_t max_runs);

  // Of the flow in `slot` the clocks since the run before ran at `unit`, the
  // last of them being `last`, which is greater than that of any run before.
  // Where no run is left, the run begins with clock 1: what ran elsewhere
  // before is taken, or forgotten. O(1).
  void Add(uint32_t slot, Clock last, UnitId unit);
  // Everything before `clock` is taken. O(runs removed).
  void Takeover(uint32_t slot, Clock clock);
  void Erase(uint32_t slot);

  // The flow's runs, oldest first: the i-th, for i < runs(slot). O(runs), O(i).
  uint32_t runs(uint32_t slot) const;
  Run run(uint32_t slot, uint32_t i) const;

  // Runs of all flows; those that were forgotten so far.
  uint32_t size() const { return size_; }
  uint64_t forgotten() const { return forgotten_; }

 private:
  struct Node {
    Clock first;
    Clock last;
    UnitId unit;
    uint32_t next;  // 1 + the newer run's node; the newest leads to the oldest
  };
  static_assert(sizeof(Node) == 24);

  // Nodes are named by 1 + their index, for 0 is none.
  Node& node(uint32_t name) { return nodes_[name - 1]; }
  const Node& node(uint32_t name) const { return nodes_[name - 1]; }
  uint32_t TakeNode();

  uint32_t size_ = 0;
  uint32_t used_ = 0;  // nodes ever used
  uint32_t free_ = 0;  // list of freed nodes
  uint64_t forgotten_ = 0;
  LazyArray<uint32_t> newest_;  // of each flow, in a ring; 0 = none
  LazyArray<Node> nodes_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_OWNER_HISTORY_H_
