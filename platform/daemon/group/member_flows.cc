// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/member_flows.h"

#include <utility>

#include "platform/daemon/group/flow_messages.h"
#include "runtime/ring/real_clock.h"

namespace snf {

void MemberFlows::Begin(const Controller& controller, Give give) {
  give_ = std::move(give);
  too_long_ = 0;
  std::vector<FlowId> flows;
  const FlowTable& table = controller.flows();
  for (uint32_t slot = 0; slot < table.used(); ++slot) {
    const bool has_run = table.cold(slot).owner != kNoUnit &&
                         table.hot(slot).key != FlowKey{} &&
                         table.hot(slot).clock != Clock{};
    if (has_run) flows.push_back(controller.IdOfSlot(slot));
  }
  giving_.Begin(RealClock::Monotonic(), flows);
}

bool MemberFlows::Turn(RealDriver& driver, size_t room) {
  giving_.Turn(RealClock::Monotonic(), driver.controller(), room,
               [&](FlowId flow) { driver.AskState(flow); });
  return giving_.is_done();
}

void MemberFlows::OnState(const Controller& controller, const State& state,
                          std::span<const std::byte> record, Instant now) {
  if (!is_giving()) return;
  const auto flow = giving_.OnState(controller, state);
  if (!flow.has_value()) return;
  if (record.size() != state.bytes) {
    ++too_long_;
    return;
  }
  const uint32_t home = returns_.HomeOf(state.flow);
  const auto kind =
      home == self_ ? FlowMessageKind::kGiven : FlowMessageKind::kFlow;
  give_({.from = home,
         .bytes = BytesOfFlow(
             {.kind = kind, .home = home, .flow = *flow, .state = state}, now,
             record)});
}

void MemberFlows::GiveCopies(const StandbyFlows& copies, Instant now) {
  copies.ForEachWaiting([&](uint32_t from, const StandbyFlow& copy) {
    give_({.from = from,
           .bytes = BytesOfFlow({.kind = FlowMessageKind::kFlow,
                                 .home = copy.home,
                                 .flow = copy.flow,
                                 .state = copy.state},
                                now, copy.record)});
  });
}

void MemberFlows::GiveAway(const AwayFlows& away) {
  away.ForEach([&](const AwayFlow& flow) {
    give_({.from = self_, .bytes = BytesOf(AwayMessage{.flow = flow})});
  });
}

}  // namespace snf
