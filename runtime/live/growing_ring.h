// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_LIVE_GROWING_RING_H_
#define SNF_RUNTIME_LIVE_GROWING_RING_H_

#include <cstddef>
#include <vector>

#include "base/check.h"

namespace snf {

// A queue that allocates only when more is in it than ever before: then its
// room doubles. A value; owner-thread only.
template <typename T>
class GrowingRing {
 public:
  // `room` is a power of two.
  explicit GrowingRing(size_t room) : items_(room) {
    SNF_CHECK(room > 0 && (room & (room - 1)) == 0);
  }

  bool empty() const { return begin_ == end_; }
  size_t size() const { return end_ - begin_; }
  // There must be one.
  const T& front() const { return items_[begin_ & (items_.size() - 1)]; }
  void pop() { ++begin_; }
  // Calls visit(item) for each, the oldest first.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (size_t i = begin_; i != end_; ++i) {
      visit(items_[i & (items_.size() - 1)]);
    }
  }
  // Returns the new item, which the caller fills.
  T& push() {
    if (size() == items_.size()) [[unlikely]]
      Grow();
    return items_[end_++ & (items_.size() - 1)];
  }

 private:
  void Grow() {
    std::vector<T> larger(2 * items_.size());
    for (size_t i = begin_; i < end_; ++i) {
      larger[i & (larger.size() - 1)] = items_[i & (items_.size() - 1)];
    }
    items_.swap(larger);
  }

  std::vector<T> items_;
  size_t begin_ = 0;  // both count since the beginning
  size_t end_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_LIVE_GROWING_RING_H_
