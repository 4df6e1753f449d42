// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_EVENT_QUEUE_H_
#define SNF_PLATFORM_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace snf {

// Events by time, and at the same time in the order of pushing, so that a run
// is the same on every machine. Payloads lie in a slab; the binary heap moves
// 24-byte keys only. Grows to the largest number of events pending at one time.
template <typename Event>
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  // Instant::max() when empty.
  Instant next_time() const {
    return heap_.empty() ? Instant::max() : heap_.front().time;
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

  // Requires !empty().
  Event Pop() {
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
  static bool Later(const Key& a, const Key& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }

  uint64_t pushed_ = 0;
  std::vector<Key> heap_;
  std::vector<Event> slab_;
  std::vector<uint32_t> free_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_EVENT_QUEUE_H_
