// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/flow_returns.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "platform/daemon/group/flow_messages.h"
#include "runtime/ring/real_clock.h"

namespace snf {

void FlowReturns::Follow(const GroupMember::View& view, Instant now,
                         bool may_begin) {
  const auto front = [this] {
    return returns_.empty() ? HeldHomes::Move{} : returns_.front().move;
  };
  const HeldHomes::Move before = front();
  const HeldHomes::Change change = homes_.Follow(view);
  PutBackKept(change.gone, now);
  const bool begins = PutBack(change.stay, now);
  for (const HeldHomes::Move& move : change.moves) {
    // Flows of a move that was broken off are copies again, as of their homes.
    Return back = {
        .move = move,
        .copies = copies_.TakeAll(move.homes, change.gone | change.stay)};
    for (const StandbyFlow& copy : back.copies) {
      NoteGiven(copy.flow.name, copy.home, move.homes, now);
    }
    if (!may_begin && back.copies.empty() && InheritedOf(move.homes).empty()) {
      homes_.OnMoved(move);
    } else {
      returns_.push_back(std::move(back));
    }
  }
  if (begins || front() != before) BeginFirst();
  if (view.is_in) DropStrays();
}

// A flow that is given to its home, along with these homes, may have hosts that
// stay here.
void FlowReturns::NoteGiven(const FlowName& name, uint32_t home,
                            MemberSet homes, Instant now) {
  if (!stay_) return;
  const uint32_t owner = hosts_.OfFlow(name.key, self_);
  const MemberSet stay = (here() | SetOf(self_)) & ~homes;
  if (!Has(stay, owner)) return;
  away_.Put(now, owner,
            {.key = name.key, .home = home, .idle_timeout = name.idle_timeout});
}

// Their member has ended, and maybe another one is to have them now.
bool FlowReturns::PutBack(MemberSet homes, Instant now) {
  const bool has_first =
      !returns_.empty() && (returns_.front().move.homes & homes) != 0;
  std::erase_if(returns_, [&](Return& back) {
    if ((back.move.homes & homes) == 0) return false;
    for (StandbyFlow& copy : back.copies) {
      const uint32_t home = copy.home;
      copies_.Put(home, 0, now, std::move(copy));
    }
    return true;
  });
  return has_first;
}

// Members that have ended may have copied some of these flows since.
void FlowReturns::PutBackKept(MemberSet gone, Instant now) {
  std::erase_if(kept_, [&](Return& back) {
    if (!Has(gone, back.move.to)) return false;
    for (StandbyFlow& copy : back.copies) {
      if (copies_.Knows(copy.flow.name.key)) continue;
      const uint32_t home = copy.home;
      copies_.Put(home, 0, now, std::move(copy));
    }
    return true;
  });
}

void FlowReturns::DropKept() {
  if (kept_.empty()) return;
  if (RealClock::Monotonic() >= kept_.front().kept_until) kept_.pop_front();
}

bool FlowReturns::OnFlowOf(uint32_t home, const RealDriver& driver,
                           const FlowKey& key) {
  const Controller& c = driver.controller();
  const uint32_t slot = c.flows().Find(key, c.flows().HashOf(key));
  if (slot == FlowTable::kNone) return false;
  inherited_[c.IdOfSlot(slot)] = home;
  if (inherited_.size() < prune_at_) return true;
  absl::erase_if(inherited_, [&c](const auto& one) {
    return !FlowGiving::IsThere(c, one.first);
  });
  prune_at_ = 2 * inherited_.size() + 1'024;
  return true;
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
    leaving_.push_back(one);
    left_.insert(one);
    return true;
  });
}

void FlowReturns::Turn(RealDriver* driver, bool is_linked, Instant now) {
  DropKept();
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
  number_ = std::max(number_ + 1, round);
  next_copy_ = 0;
  sent_ = 0;
  given_running_.clear();
  tells_staying_ = gives_running_ = has_sent_all_ = false;
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
                                    .round = number_,
                                    .flow = copy.flow,
                                    .state = copy.state},
                                   now, copy.record));
  }
  if (next_copy_ < copies.size()) return;
  if (!gives_running_) {
    if (!TellStaying(driver.controller(), room)) return;
    gives_running_ = true;
    giving_.Begin(RealClock::Monotonic(),
                  InheritedOf(returns_.front().move.homes));
  }
  giving_.Turn(RealClock::Monotonic(), driver.controller(), room,
               [&](FlowId flow) { driver.AskState(flow); });
  if (!giving_.is_done()) return;
  link_.Send(round_, BytesOf(RoundMessage{.kind = FlowMessageKind::kGivenAll,
                                          .round = number_}));
  has_sent_all_ = true;
}

// The member's hosts have no more packets here, so no flow of them begins.
// Returns true once the member was told all.
bool FlowReturns::TellStaying(const Controller& controller, size_t& room) {
  if (!stay_) return true;
  if (!std::exchange(tells_staying_, true)) {
    staying_.Begin(returns_.front().move.homes, copies_, away_);
  }
  const bool is_all =
      staying_.Look(controller, [this](FlowId flow) { return HomeOf(flow); });
  for (; room > 0; --room) {
    const auto flow = staying_.Next();
    if (!flow.has_value()) return is_all;
    link_.Send(round_, BytesOf(AwayMessage{.flow = *flow}));
  }
  return false;
}

bool FlowReturns::OnState(const Controller& controller, const State& state,
                          std::span<const std::byte> record, Instant now) {
  if (round_ == 0 || returns_.empty() || !gives_running_) return false;
  const auto flow = giving_.OnState(controller, state);
  if (!flow.has_value()) return false;
  if (record.size() != state.bytes) return true;  // it is too long
  ++sent_;
  NoteGiven(flow->name, HomeOf(state.flow), returns_.front().move.homes, now);
  given_running_.push_back({.flow = *flow,
                            .state = state,
                            .record = {record.begin(), record.end()},
                            .home = HomeOf(state.flow)});
  link_.Send(round_, BytesOfFlow({.kind = FlowMessageKind::kGiven,
                                  .home = HomeOf(state.flow),
                                  .round = number_,
                                  .flow = *flow,
                                  .state = state},
                                 now, record));
  return true;
}

void FlowReturns::OnTakenBy(uint32_t member, uint64_t round) {
  if (to() == member && has_sent_all_ && round == number_) End(true);
}

// No more packets of these flows come here.
void FlowReturns::End(bool is_taken) {
  Return back = std::move(returns_.front());
  returns_.pop_front();
  homes_.OnMoved(back.move);
  if (is_taken) {
    given_ += sent_;
    ungiven_ += giving_.unshown();
    std::ranges::move(given_running_, std::back_inserter(back.copies));
    back.kept_until = RealClock::Monotonic() + kMost;
    kept_.push_back(std::move(back));
  } else {
    ungiven_ += back.copies.size() + InheritedOf(back.move.homes).size();
  }
  DropStrays();
  BeginFirst();
}

// A flow that is not ready to be deleted is tried again; a flow whose home has
// ended meanwhile stays here.
void FlowReturns::DeleteSome(RealDriver& driver) {
  constexpr size_t kMostPerTurn = 64;
  constexpr Nanos kPause = Milliseconds(1);
  const Instant now = RealClock::Monotonic();
  if (!driver.has_controller() || now < next_delete_) return;
  const Controller& c = driver.controller();
  for (size_t i = std::min(kMostPerTurn, leaving_.size()); i > 0; --i) {
    const auto one = leaving_.front();
    const auto [flow, home] = one;
    leaving_.pop_front();
    if (Has(homes_.here(), home)) {
      inherited_.insert(one);
      left_.erase(flow);
      continue;
    }
    if (!FlowGiving::IsThere(c, flow) ||
        driver.DeleteFlow(flow, Deletion::kForAnother)) {
      left_.erase(flow);
      continue;
    }
    leaving_.push_back(one);
    next_delete_ = now + kPause;
  }
}

void FlowReturns::AppendTo(std::vector<NamedCount>& counts) const {
  counts.push_back({"states_given", given_});
  counts.push_back({"states_ungiven", ungiven_});
}

}  // namespace snf
