// SPDX-License-Identifier: Apache-2.0
#include "controller/hand_over/flow_giving.h"

#include <algorithm>

namespace snf {

void FlowGiving::Begin(Instant now, std::span<const FlowId> flows) {
  flows_.assign(flows.begin(), flows.end());
  waiting_.clear();
  waiting_.insert(flows.begin(), flows.end());
  at_ = 0;
  unshown_ = 0;
  next_turn_ = now;
  const auto turns = static_cast<int64_t>(flows.size() / kAsksPerTurn);
  end_ = now + kPatience + Nanos{turns * kPause.ns};
}

void FlowGiving::Turn(Instant now, const Controller& c, size_t room,
                      absl::FunctionRef<void(FlowId)> ask) {
  if (now < next_turn_) return;
  next_turn_ = now + kPause;
  if (now >= end_) {
    unshown_ += waiting_.size();
    waiting_.clear();
  }
  size_t asks = std::min(room, kAsksPerTurn);
  for (size_t looked = flows_.size(); looked > 0 && asks > 0; --looked) {
    if (at_ >= flows_.size()) at_ = 0;
    const FlowId flow = flows_[at_];
    if (waiting_.contains(flow) && IsThere(c, flow)) {
      --asks;
      ++at_;
      ask(flow);
      continue;
    }
    waiting_.erase(flow);
    flows_[at_] = flows_.back();
    flows_.pop_back();
  }
}

std::optional<HandedFlow> FlowGiving::OnState(const Controller& c,
                                              const State& state) {
  if (!waiting_.contains(state.flow)) return std::nullopt;
  std::optional<HandedFlow> handed =
      FlowHandOver::ReadAsOf(c, state.flow, state.applied);
  if (!handed.has_value() ||
      state.applied != c.flows().hot(slot_of(state.flow)).clock) {
    return std::nullopt;
  }
  waiting_.erase(state.flow);
  return handed;
}

}  // namespace snf
