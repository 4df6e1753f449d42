// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/unit_stock.h"

#include <algorithm>
#include <bit>

namespace snf {
namespace {

constexpr uint32_t kStates =
    static_cast<uint32_t>(UnitStock::State::kAbsent) + 1;

}  // namespace

UnitStock::UnitStock(const ManagerOptions& options)
    : max_starts_(options.max_starts),
      first_back_off_(options.first_back_off),
      max_back_off_(options.max_back_off),
      units_(options.max_units),
      by_state_(kStates, options.max_units),
      by_free_(kWholeUnit + 1, options.max_units) {}

void UnitStock::SetState(Instant now, uint32_t unit, State state) {
  Unit& u = units_[unit];
  if (!u.is_placed && (state == State::kCold || state == State::kFailed)) {
    state = State::kAbsent;
  }
  const auto is_up = [](State s) {
    return s == State::kStarting || s == State::kWarm || s == State::kActive ||
           s == State::kDraining;
  };
  up_ += is_up(state);
  up_ -= is_up(u.state);
  starting_ += state == State::kStarting;
  starting_ -= u.state == State::kStarting;
  u.state = state;
  u.since = now;
  by_state_.PushBack(static_cast<uint32_t>(state), unit);
  Index(unit);
}

void UnitStock::Index(uint32_t unit) {
  const Unit& u = units_[unit];
  const uint32_t before = by_free_.ListOf(unit);
  by_free_.Remove(unit);
  if (before != kNone && by_free_.Front(before) == kNone) {
    has_free_[before / 64] &= ~(uint64_t{1} << before % 64);
  }
  const bool is_up = u.state == State::kWarm || u.state == State::kActive;
  if (!is_up || !u.is_placed) return;
  const auto free = static_cast<uint32_t>(u.free);
  by_free_.PushFront(free, unit);
  has_free_[free / 64] |= uint64_t{1} << free % 64;
}

void UnitStock::SetPlaced(uint32_t unit, bool is_placed) {
  if (units_[unit].is_placed == is_placed) return;
  units_[unit].is_placed = is_placed;
  Index(unit);
}

void UnitStock::Reserve(uint32_t unit, int64_t share) {
  units_[unit].free -= share;
  Index(unit);
}

uint32_t UnitStock::FullestWithRoom(int64_t share) const {
  auto word = static_cast<size_t>(share) / 64;
  uint64_t bits = has_free_[word] & ~uint64_t{0} << share % 64;
  while (bits == 0) {
    if (++word == has_free_.size()) return kNone;
    bits = has_free_[word];
  }
  return by_free_.Front(
      static_cast<uint32_t>(word * 64 + std::countr_zero(bits)));
}

uint32_t UnitStock::Emptiest() const {
  for (size_t word = has_free_.size(); word-- > 0;) {
    const uint64_t bits = has_free_[word] & (word == 0 ? ~uint64_t{1} : ~0ull);
    if (bits != 0) {
      return by_free_.Front(
          static_cast<uint32_t>(word * 64 + std::bit_width(bits) - 1));
    }
  }
  return kNone;
}

bool UnitStock::CanStart(Instant now) const {
  return now >= next_start_ && starting_ < max_starts_ &&
         (First(State::kCold) != kNone || First(State::kFailed) != kNone);
}

void UnitStock::StartFailed(Instant now, uint32_t unit) {
  SetState(now, unit, State::kFailed);
  const int64_t back_off = first_back_off_.ns << std::min(failures_++, 20u);
  next_start_ = now + Nanos{std::min(back_off, max_back_off_.ns)};
}

}  // namespace snf
