// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/away_list.h"

#include <algorithm>

#include "controller/hand_over/hand_over.h"

namespace snf {

void AwayList::Begin(MemberSet homes, const StandbyFlows& copies,
                     const AwayFlows& away) {
  homes_ = homes;
  next_slot_ = 0;
  found_.clear();
  away.ForEach([this](const AwayFlow& flow) {
    if (!Has(homes_, flow.home) && hosts_.MayBe(homes_, flow.key)) {
      found_.push_back(flow);
    }
  });
  copies.ForEach(
      [this](const StandbyFlow& copy) { Add(copy.flow.name, copy.home); });
}

void AwayList::Add(const FlowName& name, uint32_t home) {
  if (Has(homes_, home) || !hosts_.MayBe(homes_, name.key)) return;
  found_.push_back(
      {.key = name.key, .home = home, .idle_timeout = name.idle_timeout});
}

bool AwayList::Look(const Controller& c,
                    absl::FunctionRef<uint32_t(FlowId)> home_of) {
  constexpr uint32_t kMostAtOnce = 16'384;
  const FlowTable& flows = c.flows();
  const uint32_t end = std::min(flows.used(), next_slot_ + kMostAtOnce);
  for (; next_slot_ < end; ++next_slot_) {
    if (flows.cold(next_slot_).owner == kNoUnit ||
        !hosts_.MayBe(homes_, flows.hot(next_slot_).key)) {
      continue;
    }
    const FlowId flow = c.IdOfSlot(next_slot_);
    const auto named = FlowHandOver::ReadAsOf(c, flow, Clock{});
    if (named.has_value()) Add(named->name, home_of(flow));
  }
  return next_slot_ >= flows.used();
}

std::optional<AwayFlow> AwayList::Next() {
  if (found_.empty()) return std::nullopt;
  const AwayFlow flow = found_.back();
  found_.pop_back();
  return flow;
}

}  // namespace snf
