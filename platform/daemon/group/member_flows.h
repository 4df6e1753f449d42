// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_GROUP_MEMBER_FLOWS_H_
#define SNF_PLATFORM_DAEMON_GROUP_MEMBER_FLOWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/hand_over/flow_giving.h"
#include "controller/hand_over/standby_flows.h"
#include "platform/daemon/group/away_flows.h"
#include "platform/daemon/group/flow_returns.h"
#include "platform/daemon/group/state_link.h"
#include "platform/drivers/real_time/real_driver.h"

namespace snf {

// Theory of operation. Gives all flows of a member of a group to the process
// that continues its membership (proto/protocol.md H9): its own flows, flows
// that it continues for other members, and copies of others' flows. It takes no
// packets meanwhile, and has none under way.
//
//   own flows ────────FlowGiving─► kGiven ─► own flows of the other process
//   flows taken ──────FlowGiving─► kFlow ──► its copies: their next packets
//   copies ──────────────────────► kFlow ──► take them there, as by H6
//   keys of flows elsewhere ─────► kAway
//
// The flows stay here as well, so this process continues if the other one ends.
//
// Owner-thread only.
class MemberFlows {
 public:
  // A flow, as a message with the number of the member that has sent it; that
  // is its home if it is no copy.
  using Give = std::function<void(StateLink::Received message)>;

  // `returns` must outlive the object.
  explicit MemberFlows(const FlowReturns& returns, uint32_t self)
      : returns_(returns), self_(self) {}

  // Gives the flows of this controller from now on.
  void Begin(const Controller& controller, Give give);
  bool is_giving() const { return give_ != nullptr; }
  // Asks units for flows, at most `room` of them; returns true once each flow
  // was given or counted as lost.
  bool Turn(RealDriver& driver, size_t room);
  // Give copies, as they are now, and keys of flows elsewhere. `now` is the
  // clock of the copies' times.
  void GiveCopies(const StandbyFlows& copies, Instant now);
  void GiveAway(const AwayFlows& away);
  // A unit shows a state.
  void OnState(const Controller& controller, const State& state,
               std::span<const std::byte> record, Instant now);
  void End() { give_ = nullptr; }

  // Counts flows since Begin that do not go along: their state is longer than
  // units show, or their unit did not show it in time.
  uint64_t lost() const { return too_long_ + giving_.unshown(); }

 private:
  const FlowReturns& returns_;
  const uint32_t self_;
  Give give_;  // null: gives nothing
  FlowGiving giving_;
  uint64_t too_long_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_GROUP_MEMBER_FLOWS_H_
