// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_TRAIL_H_
#define SNF_CONTROLLER_CORE_TRAIL_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"

namespace snf {

// Where each flow ran before its present owner, as far as it is not yet taken:
// runs of clocks and their units (protocol.md F5). When a flow moves, the run
// that ends is added; Took(c) removes the runs that end before c. Usually none
// or one a flow, and none for most flows.
//
// The room is bounded: where it is used up, Add forgets the flow's oldest run,
// or, if it has none, does nothing; both are counted.
//
// A value; owner-thread only; nothing is allocated after construction. 4 bytes
// for each flow slot and 24 for each run.
class Trail {
 public:
  struct Run {
    Clock first{};
    Clock last{};
    UnitId unit = kNoUnit;
  };

  Trail(uint32_t max_flows, uint32_t max_runs);

  // Of the flow in `slot` the clocks since the run before ran at `unit`, the
  // last of them being `last`.
  void Add(uint32_t slot, Clock last, UnitId unit);
  // Everything before `clock` is taken.
  void Took(uint32_t slot, Clock clock);
  void Erase(uint32_t slot);

  // The flow's runs, oldest first: the i-th, for i < runs(slot).
  uint32_t runs(uint32_t slot) const;
  Run run(uint32_t slot, uint32_t i) const;

  uint32_t size() const { return size_; }
  uint64_t forgotten() const { return forgotten_; }

 private:
  static constexpr uint32_t kNone = 0xffff'ffff;
  struct Node {
    Clock first;
    Clock last;
    UnitId unit;
    uint32_t next;  // the newer run
  };
  static_assert(sizeof(Node) == 24);
  uint32_t size_ = 0;
  uint32_t used_ = 0;
  uint32_t free_ = 0;  // 1 + node
  uint64_t forgotten_ = 0;
  LazyArray<uint32_t> oldest_;  // 1 + node of each flow's oldest run; 0 = none
  LazyArray<Node> nodes_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_TRAIL_H_
