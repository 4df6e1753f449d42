// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LOGGER_LOGGED_FLOWS_H_
#define SNF_RUNTIME_LOGGER_LOGGED_FLOWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/slot_index.h"
#include "base/time.h"

namespace snf {

// Theory of operation. The flows of a unit's output logger, and the state of
// each: a table of fixed size, found by the flow's id. A flow has a slot until
// Forget; the record of a forgotten flow is the next to be used again.
//
// Worked example: flows 7 and 9 get slots 0 and 1. Flow 7 is forgotten, and
// flow 11 gets slot 0. A walk up to slots() sees both slots, of which one may
// be free.
//
// A value; owner-thread only; nothing is allocated after construction. Memory:
// what is used of 59 bytes a flow, and its state.
class LoggedFlows {
 public:
  static constexpr uint32_t kNone = SlotIndex::kNotFound;

  struct Flow {
    FlowId flow;
    Clock applied;
    Clock released;
    Instant timer;
    Nanos idle_timeout;
    uint32_t next_free;  // + 1, in a free record
    LinkType link;
    bool in_use;
    bool ended;  // only the mark is left (U11)
  };
  static_assert(sizeof(Flow) == 48);  // and 10.7 in the index

  LoggedFlows(uint32_t max_flows, uint32_t record_bytes)
      : max_flows_(max_flows),
        index_(max_flows),
        flows_(max_flows),
        state_words_(record_bytes / 8),
        states_(size_t{state_words_} * max_flows) {}

  // Counts the flows.
  uint32_t size() const { return index_.size(); }
  // All slots that have been used are below it.
  uint32_t slots() const { return used_; }
  const Flow& operator[](uint32_t slot) const { return flows_[slot]; }
  Flow& operator[](uint32_t slot) { return flows_[slot]; }
  std::span<std::byte> state(uint32_t slot) {
    return std::as_writable_bytes(
        std::span(states_.data() + size_t{state_words_} * slot, state_words_));
  }
  std::span<const std::byte> state(uint32_t slot) const {
    return std::as_bytes(
        std::span(states_.data() + size_t{state_words_} * slot, state_words_));
  }

  // Returns kNone for an unknown flow.
  uint32_t Find(FlowId flow) const {
    return index_.Find(
        HashOf(flow), [&](uint32_t slot) { return flows_[slot].flow == flow; });
  }
  // Adds a flow that is unknown so far, whose state has any content. Returns
  // kNone if there is no room.
  uint32_t Add(FlowId flow) {
    uint32_t slot = used_;
    if (free_ != 0) {
      slot = free_ - 1;
      free_ = flows_[slot].next_free;
    } else if (used_ < max_flows_) {
      ++used_;
    } else {
      return kNone;
    }
    flows_[slot] = {.flow = flow,
                    .applied = {},
                    .released = {},
                    .timer = Instant::max(),
                    .idle_timeout = Nanos{-1},
                    .next_free = 0,
                    .link = {},
                    .in_use = true,
                    .ended = false};
    index_.Insert(HashOf(flow), slot);
    return slot;
  }
  void Forget(uint32_t slot) {
    index_.Erase(HashOf(flows_[slot].flow), slot);
    flows_[slot].in_use = false;
    flows_[slot].next_free = free_;
    free_ = slot + 1;
  }

 private:
  static uint64_t HashOf(FlowId flow) {
    return value(flow) * 0x9e37'79b9'7f4a'7c15;  // fills the upper half
  }

  uint32_t max_flows_;
  SlotIndex index_;
  LazyArray<Flow> flows_;
  uint32_t state_words_;
  LazyArray<uint64_t> states_;
  uint32_t used_ = 0;
  uint32_t free_ = 0;  // heads the free records, + 1
};

}  // namespace snf

#endif  // SNF_RUNTIME_LOGGER_LOGGED_FLOWS_H_
