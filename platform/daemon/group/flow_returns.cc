// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/flow_returns.h"

#include <algorithm>
#include <utility>

#include "platform/daemon/group/flow_messages.h"
#include "runtime/ring/real_clock.h"

namespace snf {

void FlowReturns::Follow(const GroupMember::View& view, Instant now) {
  const auto front = [this] {
    return returns_.empty() ? HeldHomes::Move{} : returns_.front().move;
  };
  const HeldHomes::Move before = front();
  const HeldHomes::Change change = homes_.Follow(view);
  PutBack(change.stay, now);
  for (const HeldHomes::Move& move : change.moves) {
    Return back = {.move = move,
                   .copies = copies_.TakeAll(move.homes, change.gone)};
    if (back.copies.empty() && InheritedOf(move.homes).empty()) {
      homes_.OnMoved(move);
    } else {
      returns_.push_back(std::move(back));
    }
  }
  if (front() != before) BeginFirst();
  if (view.is_in) DropStrays();
}

// Their member has ended, and maybe another one is to have them now.
void FlowReturns::PutBack(MemberSet homes, Instant now) {
  std::erase_if(returns_, [&](Return& back) {
    if ((back.move.homes & homes) == 0) return false;
    for (StandbyFlow& copy : back.copies) {
      const uint32_t home = copy.home;
      copies_.Put(home, 0, now, std::move(copy));
    }
    return true;
  });
}

void FlowReturns::OnTaken(const RealDriver& driver, const StandbyFlow& copy) {
  const Controller& c = driver.controller();
  const FlowKey& key = copy.flow.name.key;
  const uint32_t slot = c.flows().Find(key, c.flows().HashOf(key));
  if (slot == FlowTable::kNone) return;
  inherited_[c.IdOfSlot(slot)] = copy.home;
  if (inherited_.size() < prune_at_) return;
  absl::erase_if(inherited_, [&c](const auto& one) {
    return !FlowGiving::IsThere(c, one.first);
  });
  prune_at_ = 2 * inherited_.size() + 1'024;
}

std::vector<FlowId> FlowReturns::InheritedOf(MemberSet homes) const {
  std::vector<FlowId> flows;
  for (const auto& [flow, home] : inherited_) {
    if (Has(homes, home)) flows.push_back(flow);
  }
  return flows;
}

// Flows of homes that another member has, and that are not given to it, are of
// no use here.
void FlowReturns::DropStrays() {
  const MemberSet here = homes_.here();
  absl::erase_if(inherited_, [&](const auto& one) {
    if (Has(here, one.second)) return false;
    leaving_.push_back(one.first);
    return true;
  });
}

void FlowReturns::Turn(RealDriver* driver, bool is_linked, Instant now) {
  if (driver != nullptr && !leaving_.empty()) DeleteSome(*driver);
  if (returns_.empty()) return;
  if (RealClock::Monotonic() >= until_) return End(false);
  const uint64_t round = is_linked ? link_.round() : 0;
  if (round != round_) BeginRound(round);
  if (round_ == 0 || driver == nullptr || !driver->has_controller()) return;
  GiveSome(*driver, now);
}

void FlowReturns::BeginFirst() {
  BeginRound(0);
  until_ = RealClock::Monotonic() + kMost;
}

void FlowReturns::BeginRound(uint64_t round) {
  round_ = round;
  next_copy_ = 0;
  sent_ = 0;
  has_sent_all_ = false;
  if (round == 0) return;
  giving_.Begin(RealClock::Monotonic(),
                InheritedOf(returns_.front().move.homes));
}

void FlowReturns::GiveSome(RealDriver& driver, Instant now) {
  if (has_sent_all_) return;
  const std::vector<StandbyFlow>& copies = returns_.front().copies;
  size_t room = link_.room();
  for (; room > 0 && next_copy_ < copies.size(); --room) {
    const StandbyFlow& copy = copies[next_copy_++];
    ++sent_;
    link_.Send(round_, BytesOfFlow({.kind = FlowMessageKind::kGiven,
                                    .home = copy.home,
                                    .round = round_,
                                    .flow = copy.flow,
                                    .state = copy.state},
                                   now, copy.record));
  }
  giving_.Turn(RealClock::Monotonic(), driver.controller(), room,
               [&](FlowId flow) { driver.AskState(flow); });
  if (next_copy_ < copies.size() || !giving_.is_done()) return;
  link_.Send(round_, BytesOf(RoundMessage{.kind = FlowMessageKind::kGivenAll,
                                          .round = round_}));
  has_sent_all_ = true;
}

bool FlowReturns::OnState(const Controller& controller, const State& state,
                          std::span<const std::byte> record, Instant now) {
  if (round_ == 0 || returns_.empty()) return false;
  const auto flow = giving_.OnState(controller, state);
  if (!flow.has_value()) return false;
  if (record.size() != state.bytes) return true;  // it is too long
  ++sent_;
  link_.Send(round_, BytesOfFlow({.kind = FlowMessageKind::kGiven,
                                  .home = HomeOf(state.flow),
                                  .round = round_,
                                  .flow = *flow,
                                  .state = state},
                                 now, record));
  return true;
}

void FlowReturns::OnTakenBy(uint32_t member, uint64_t round) {
  if (to() == member && has_sent_all_ && round == round_) End(true);
}

// No more packets of these flows come here.
void FlowReturns::End(bool is_taken) {
  const Return back = std::move(returns_.front());
  returns_.pop_front();
  const std::vector<FlowId> flows = InheritedOf(back.move.homes);
  const uint64_t all = back.copies.size() + flows.size();
  const uint64_t given = is_taken ? std::min(sent_, all) : 0;
  given_ += given;
  ungiven_ += all - given;
  homes_.OnMoved(back.move);
  DropStrays();
  BeginFirst();
}

// A flow that is not ready to be deleted is tried again.
void FlowReturns::DeleteSome(RealDriver& driver) {
  constexpr size_t kMostPerTurn = 64;
  constexpr Nanos kPause = Milliseconds(1);
  const Instant now = RealClock::Monotonic();
  if (!driver.has_controller() || now < next_delete_) return;
  const Controller& c = driver.controller();
  for (size_t i = std::min(kMostPerTurn, leaving_.size()); i > 0; --i) {
    const FlowId flow = leaving_.front();
    leaving_.pop_front();
    if (!FlowGiving::IsThere(c, flow) || driver.DeleteFlow(flow)) continue;
    leaving_.push_back(flow);
    next_delete_ = now + kPause;
  }
}

void FlowReturns::AppendTo(std::vector<NamedCount>& counts) const {
  counts.push_back({"states_given", given_});
  counts.push_back({"states_ungiven", ungiven_});
}

}  // namespace snf
