// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_EVENT_QUEUE_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace snf {

// Events by time, and at the same time in the order of pushing, so that a run
// is the same on every machine. Events that come in the order of their times
// (after a delay that is always the same) need no sorting and wait in a queue
// of their own; the others in a binary heap of 24-byte keys, their payloads in
// a slab. Grows to the largest number of events pending at one time.
template <typename Event>
class EventQueue {
 public:
  bool empty() const { return heap_.empty() && line_.empty(); }
  size_t size() const { return heap_.size() + line_.size(); }
  // Instant::max() when empty.
  Instant next_time() const {
    const Instant line =
        line_.empty() ? Instant::max() : line_.front().key.time;
    return heap_.empty() ? line : std::min(line, heap_.front().time);
  }

  void Push(Instant time, const Event& event) {
    uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(slab_.size());
      slab_.push_back(event);
    } else {
      slot = free_.back();
      free_.pop_back();
      slab_[slot] = event;
    }
    heap_.push_back({time, ++pushed_, slot});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }

  // Pushes an event whose time is not before that of the last PushInOrder.
  void PushInOrder(Instant time, const Event& event) {
    SNF_CHECK(line_.empty() || time >= line_.back().key.time);
    line_.push_back({{time, ++pushed_, 0}, event});
  }

  // Returns the number of pending events for which `is` returns true.
  template <typename Predicate>
  size_t Count(Predicate is) const {
    return static_cast<size_t>(
        std::ranges::count_if(
            heap_, [&](const Key& key) { return is(slab_[key.slot]); }) +
        std::ranges::count_if(
            line_, [&](const InOrder& each) { return is(each.event); }));
  }
  // Delays all events by that time.
  void Delay(Nanos by) {
    for (Key& key : heap_) key.time = key.time + by;
    for (InOrder& each : line_) each.key.time = each.key.time + by;
  }

  // Requires !empty().
  Event Pop() {
    if (heap_.empty() ||
        (!line_.empty() && Later(heap_.front(), line_.front().key))) {
      const Event event = line_.front().event;
      line_.pop_front();
      return event;
    }
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const uint32_t slot = heap_.back().slot;
    heap_.pop_back();
    free_.push_back(slot);
    return slab_[slot];
  }

 private:
  struct Key {
    Instant time;
    uint64_t order;
    uint32_t slot;
  };
  struct InOrder {
    Key key;
    Event event;
  };
  static bool Later(const Key& a, const Key& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }

  uint64_t pushed_ = 0;
  std::deque<InOrder> line_;
  std::vector<Key> heap_;
  std::vector<Event> slab_;
  std::vector<uint32_t> free_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_NETWORK_EVENT_QUEUE_H_
