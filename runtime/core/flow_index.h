// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_FLOW_INDEX_H_
#define SNF_RUNTIME_CORE_FLOW_INDEX_H_

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/slot_index.h"

namespace snf {

// Theory of operation. FlowIndex maps a flow's id to the slot of its record in
// a table that somebody else owns. An id has the slot of the flow in the
// controller's table (slot_of), and those in use lie close together; so what is
// looked up is mostly an array by that slot, where neighbours share cache lines
// and pages. That array has the newest flow of each slot. Earlier flows of a
// slot, of which something is still to come, flows of slots beyond the array,
// and all but one where controllers share a slot, are in a hash index.
//
// `flow_of(record)` gives the id of a record's flow, here and below.
//
// Fixed at construction; a value; owner-thread only; deterministic. Memory: 4
// bytes a slot of the controller, in pages of 1,024 slots as they come into
// use.
class FlowIndex {
 public:
  static constexpr uint32_t kNotFound = SlotIndex::kNotFound;

  // Makes room for `capacity` records of flows whose slots are mostly below
  // `slots`.
  FlowIndex(uint32_t slots, uint32_t capacity, Pages pages = Pages::kGrowing)
      : newest_(slots, pages), others_(capacity) {}

  uint32_t size() const { return in_newest_ + others_.size(); }

  void Prefetch(FlowId flow) const {
    if (slot_of(flow) < newest_.size()) {
      __builtin_prefetch(&newest_[slot_of(flow)]);
    }
  }
  // Returns a record that is most likely the flow's, or kNotFound; for
  // prefetching it.
  uint32_t Guess(FlowId flow) const { return NewestOf(flow); }

  // Returns the flow's record, or kNotFound.
  template <typename FlowOf>
  uint32_t Find(FlowId flow, const FlowOf& flow_of) const {
    const uint32_t newest = NewestOf(flow);
    if (newest != kNotFound && flow_of(newest) == flow) return newest;
    if (others_.size() == 0) return kNotFound;
    return others_.Find(
        HashOf(flow), [&](uint32_t record) { return flow_of(record) == flow; });
  }

  // Adds a record that is not in the index, which has at most `capacity`.
  template <typename FlowOf>
  void Insert(FlowId flow, uint32_t record, const FlowOf& flow_of) {
    const uint32_t newest = NewestOf(flow);
    if (slot_of(flow) >= newest_.size()) {
      others_.Insert(HashOf(flow), record);
    } else if (newest == kNotFound) {
      newest_[slot_of(flow)] = record + 1;
      ++in_newest_;
    } else if (IsNewer(flow_of(newest), flow)) {
      others_.Insert(HashOf(flow), record);
    } else {
      others_.Insert(HashOf(flow_of(newest)), newest);
      newest_[slot_of(flow)] = record + 1;
    }
  }

  // Removes a record that is in the index.
  void Erase(FlowId flow, uint32_t record) {
    if (NewestOf(flow) == record) {
      newest_[slot_of(flow)] = 0;
      --in_newest_;
    } else {
      others_.Erase(HashOf(flow), record);
    }
  }

 private:
  // The index looks at the upper half only, which this multiplication fills.
  static uint64_t HashOf(FlowId flow) {
    return value(flow) * 0x9e37'79b9'7f4a'7c15;
  }
  uint32_t NewestOf(FlowId flow) const {
    const uint32_t slot = slot_of(flow);
    return slot < newest_.size() ? newest_[slot] - 1 : kNotFound;
  }

  LazyArray<uint32_t> newest_;  // has record + 1 for each slot, or 0
  uint32_t in_newest_ = 0;
  SlotIndex others_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_FLOW_INDEX_H_
