// SPDX-License-Identifier: Apache-2.0
#include "controller/hand_over/flow_sweep.h"

#include <algorithm>
#include <utility>

namespace snf {

void FlowSweep::Begin() {
  sent_.clear();
  at_ = 0;
  began_ = next_turn_ = Instant::min();
  is_first_ = true;
  is_whole_ = false;
  awaited_ = asked_ = behind_ = 0;
}

bool FlowSweep::Turn(Instant now, const Controller& c, size_t room,
                     absl::FunctionRef<void(FlowId)> ask,
                     absl::FunctionRef<void(const Ended&)> ended) {
  if (now < next_turn_) return false;
  next_turn_ = now + kPause;
  if (at_ == 0) {
    began_ = now;
    asked_ = 0;
  }
  // The table does not shrink.
  const uint32_t used = c.flows().used();
  if (sent_.size() < used) sent_.resize(used);
  size_t asks = kAsksPerTurn;
  const uint32_t end = static_cast<uint32_t>(
      std::min<size_t>(used, size_t{at_} + kSlotsPerTurn));
  for (; at_ < end; ++at_) {
    if (!Look(c, at_, asks, room, ask, ended)) return false;
  }
  if (at_ < used) return false;
  at_ = 0;
  last_ = now - began_;
  behind_ = asked_;
  ++sweeps_;
  next_turn_ = std::max(next_turn_, began_ + kPeriod);
  is_first_ = false;
  return awaited_ == 0 && !std::exchange(is_whole_, true);
}

bool FlowSweep::Look(const Controller& c, uint32_t slot, size_t& asks,
                     size_t& room, absl::FunctionRef<void(FlowId)> ask,
                     absl::FunctionRef<void(const Ended&)> ended) {
  Sent& sent = sent_[slot];
  const FlowHot& hot = c.flows().hot(slot);
  const bool is_there = c.flows().cold(slot).owner != kNoUnit &&
                        (hot.flags & FlowHot::kEnding) == 0 &&
                        hot.key != FlowKey{};
  const FlowId flow = is_there ? c.IdOfSlot(slot) : kNoFlow;
  if (sent.flow != flow) {
    if (sent.clock != Clock{}) {
      if (room == 0) return false;
      --room;
      ended({.key = sent.key, .flow = sent.flow});
    }
    StopAwaiting(sent);
    sent = {};
    sent.flow = flow;
    if (is_first_ && flow != kNoFlow && hot.clock != Clock{}) {
      sent.awaited = kMostAwaited;
      ++awaited_;
    }
  }
  if (!is_there || sent.clock == hot.clock) return true;
  if (asks == 0 || room == 0) return false;
  --asks;
  --room;
  ++asked_;
  if (sent.awaited == 1) StopAwaiting(sent);
  if (sent.awaited > 0) --sent.awaited;
  ask(flow);
  return true;
}

std::optional<HandedFlow> FlowSweep::OnState(const Controller& c,
                                             const State& state) {
  const uint32_t slot = slot_of(state.flow);
  if (slot >= sent_.size()) return std::nullopt;
  std::optional<HandedFlow> handed =
      FlowHandOver::ReadAsOf(c, state.flow, state.applied);
  Sent& sent = sent_[slot];
  const bool is_newer =
      sent.flow != state.flow || value(state.applied) > value(sent.clock);
  // A unit cannot have run a clock that was not given.
  if (!handed.has_value() || !is_newer ||
      state.applied > c.flows().hot(slot).clock) {
    return std::nullopt;
  }
  StopAwaiting(sent);
  sent.key = handed->name.key;
  sent.flow = state.flow;
  sent.clock = state.applied;
  return handed;
}

}  // namespace snf
