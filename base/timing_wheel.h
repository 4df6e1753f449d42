// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_TIMING_WHEEL_H_
#define SNF_BASE_TIMING_WHEEL_H_

#include <array>
#include <cstdint>

#include "base/lazy_array.h"
#include "base/time.h"

namespace snf {

// Theory of operation. A hierarchical timing wheel (Varghese and Lauck, SOSP
// 1987, scheme 6) over nodes 0 … capacity - 1, each armed at most once. Time is
// counted in ticks of 2^15 ns = 32.8 µs; a node armed for t is due at the first
// tick that is not before t. Level l has 64 slots of 64^l ticks, and a bitmap
// of its non-empty slots, so the next wake-up is found without walking and a
// gap of years costs as much as one of a tick. Nine levels span every int64
// nanosecond; behind the last tick nothing is ever due. The lists are doubly
// linked by node number: arming, re-arming and disarming are O(1), and nothing
// is allocated after construction.
//
// Worked example: at tick 100, arming tick 130 puts the node on level 0 only if
// 130 and 100 share all bits above the lowest six: 100 = 1·64 + 36 and
// 130 = 2·64 + 2 do not, so it goes to level 1, slot 2. When time reaches tick
// 128, slot 2 of level 1 is opened and the node falls to level 0, slot 2.
//
// Deterministic: nodes of one tick come out in the order of arming. (A slot is
// opened the moment time enters it, so none can be armed below it before.)
// A value; owner-thread only.
class TimingWheel {
 public:
  static constexpr int kTickShift = 15;
  static constexpr uint32_t kNone = 0xffff'ffff;

  TimingWheel() : TimingWheel(0) {}
  explicit TimingWheel(uint32_t capacity, Pages pages = Pages::kSmall);

  // Arms the node for `due`, in place of the time it was armed for before. A
  // node armed for the past is due at the next PopDue; one armed for later than
  // the last tick, as for Instant::max(), is disarmed.
  void Arm(uint32_t node, Instant due);
  // Disarms the node, if it is armed.
  void Disarm(uint32_t node);
  bool armed(uint32_t node) const { return nodes_[node].place != 0; }

  // The time at which PopDue should next be called; Instant::max() if nothing
  // is armed. It may be earlier than the first node is due (a level must be
  // opened), never later.
  Instant next_wakeup() const;

  // Disarms and returns a node that is due at `now`, or returns kNone. Time
  // must not run backwards between calls.
  uint32_t PopDue(Instant now);

 private:
  static constexpr int kLevels = 9;
  static constexpr int kSlotBits = 6;
  static constexpr int kSlots = 1 << kSlotBits;

  struct Node {
    uint32_t next;
    uint32_t previous;
    uint64_t tick : 49;   // when it is due
    uint64_t place : 15;  // 1 + level * 64 + slot; 0 = not armed
  };
  static_assert(sizeof(Node) == 16);
  struct List {
    uint32_t head = kNone;
    uint32_t tail = kNone;
  };

  static uint64_t FirstTickFrom(Instant t);
  void Link(uint32_t node, uint64_t tick);
  void Unlink(uint32_t node);

  uint64_t now_tick_ = 0;  // everything before it has been popped
  std::array<uint64_t, kLevels> occupied_{};
  std::array<List, kLevels * kSlots> lists_{};
  LazyArray<Node> nodes_;
};

}  // namespace snf

#endif  // SNF_BASE_TIMING_WHEEL_H_
