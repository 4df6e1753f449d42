// SPDX-License-Identifier: Apache-2.0
#include "base/timing_wheel.h"

#include <algorithm>
#include <bit>

namespace snf {
namespace {

// Ticks count from the smallest Instant, so that they are never negative.
constexpr uint64_t kSign = uint64_t{1} << 63;
constexpr uint64_t kTickMask = ~uint64_t{0} >> TimingWheel::kTickShift;

uint64_t TickAtOrBefore(Instant t) {
  return (static_cast<uint64_t>(t.ns) ^ kSign) >> TimingWheel::kTickShift;
}

Instant StartOf(uint64_t tick) {
  return {static_cast<int64_t>((tick << TimingWheel::kTickShift) ^ kSign)};
}

}  // namespace

TimingWheel::TimingWheel(uint32_t capacity, Pages pages)
    : nodes_(capacity, pages) {}

uint64_t TimingWheel::FirstTickFrom(Instant t) {
  constexpr uint64_t kMask = (uint64_t{1} << kTickShift) - 1;
  const uint64_t shifted = static_cast<uint64_t>(t.ns) ^ kSign;
  return (shifted >> kTickShift) + ((shifted & kMask) != 0 ? 1 : 0);
}

void TimingWheel::Arm(uint32_t node, Instant due) {
  if (armed(node)) Unlink(node);
  const uint64_t tick = FirstTickFrom(due);
  // At the last tick it would be too early, and armed again, without an end.
  if (tick > kTickMask) return;
  Link(node, std::max(tick, now_tick_));
}

void TimingWheel::Disarm(uint32_t node) {
  if (armed(node)) Unlink(node);
}

void TimingWheel::Link(uint32_t node, uint64_t tick) {
  // The highest bit in which the tick differs from now names the level.
  const uint64_t differs = (tick ^ now_tick_) | 1;
  const int level = (static_cast<int>(std::bit_width(differs)) - 1) / kSlotBits;
  const uint64_t slot = tick >> (level * kSlotBits) & (kSlots - 1);
  const uint64_t place = static_cast<uint64_t>(level) * kSlots + slot;
  List& list = lists_[place];
  Node& n = nodes_[node];
  n = {.next = kNone,
       .previous = list.tail,
       .tick = tick & kTickMask,
       .place = (place + 1) & 0x7fff};
  if (list.tail == kNone) {
    list.head = node;
  } else {
    nodes_[list.tail].next = node;
  }
  list.tail = node;
  occupied_[static_cast<size_t>(level)] |= uint64_t{1} << slot;
}

void TimingWheel::Unlink(uint32_t node) {
  Node& n = nodes_[node];
  const size_t place = n.place - size_t{1};
  List& list = lists_[place];
  (n.previous == kNone ? list.head : nodes_[n.previous].next) = n.next;
  (n.next == kNone ? list.tail : nodes_[n.next].previous) = n.previous;
  if (list.head == kNone) {
    occupied_[place / kSlots] &= ~(uint64_t{1} << (place % kSlots));
  }
  n.place = 0;
}

Instant TimingWheel::next_wakeup() const {
  // The lowest occupied level holds the earliest slot: all its slots lie within
  // the present slot of the level above.
  for (int level = 0; level < kLevels; ++level) {
    const uint64_t slots = occupied_[static_cast<size_t>(level)];
    if (slots == 0) continue;
    const int shift = level * kSlotBits;
    const auto slot = static_cast<uint64_t>(std::countr_zero(slots));
    const uint64_t above = now_tick_ >> shift >> kSlotBits;
    const uint64_t start = ((above << kSlotBits) | slot) << shift;
    return StartOf(std::max(start, now_tick_));
  }
  return Instant::max();
}

uint32_t TimingWheel::PopDue(Instant now) {
  const uint64_t target = TickAtOrBefore(now);
  while (true) {
    const Instant wake = next_wakeup();
    if (wake == Instant::max() || wake > now) {
      now_tick_ = std::max(now_tick_, target);
      return kNone;
    }
    now_tick_ = std::max(now_tick_, TickAtOrBefore(wake));
    if (occupied_[0] != 0) {
      const auto slot = static_cast<size_t>(std::countr_zero(occupied_[0]));
      const uint32_t node = lists_[slot].head;
      Unlink(node);
      return node;
    }
    // Open the slot of a higher level whose time has come: its nodes fall.
    for (int level = 1; level < kLevels; ++level) {
      const auto l = static_cast<size_t>(level);
      if (occupied_[l] == 0) continue;
      const auto slot = static_cast<size_t>(std::countr_zero(occupied_[l]));
      const List list = lists_[l * kSlots + slot];
      lists_[l * kSlots + slot] = {};
      occupied_[l] &= ~(uint64_t{1} << slot);
      for (uint32_t node = list.head; node != kNone;) {
        const uint32_t next = nodes_[node].next;
        Link(node, nodes_[node].tick);
        node = next;
      }
      break;
    }
  }
}

}  // namespace snf
