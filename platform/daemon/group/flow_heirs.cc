// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/flow_heirs.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "platform/daemon/group/flow_messages.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

// Returns true if the driver has had the key later than the copy's member. A
// flow that began while its home was away stays at the heir, and another one
// begins at its home: the heir's copy of it is out of date.
bool IsOutlived(const RealDriver& driver, const StandbyFlow& copy) {
  if (copy.is_due) return false;
  const FlowTable& flows = driver.controller().flows();
  const FlowKey& key = copy.flow.name.key;
  const uint32_t same = flows.Find(key, flows.HashOf(key));
  return same != FlowTable::kNone &&
         flows.hot(same).last_packet > copy.flow.last_packet;
}

std::optional<AwayFlow> ReadAway(std::span<const std::byte> bytes) {
  AwayMessage away;
  if (!Load(bytes, away) || away.kind != FlowMessageKind::kAway ||
      away.flow.home >= kMostAtPorts || away.flow.key == FlowKey{}) {
    return std::nullopt;
  }
  return away.flow;
}

bool IsThere(const RealDriver& driver, const KnownFlows::Sought& sought) {
  const Controller& c = driver.controller();
  const uint64_t hash = c.flows().HashOf(sought.key);
  return sought.by_alias
             ? c.aliases().Find(sought.key, hash) != AliasTable::kNone
             : c.flows().Find(sought.key, hash) != FlowTable::kNone;
}

// Deletes the driver's flow of that key, and the flow with its alias: both are
// older than a copy, for the dead member has had the key since. Returns false
// if one cannot be deleted now.
bool MakeWay(RealDriver& driver, const FlowName& name) {
  const Controller& c = driver.controller();
  const FlowTable& flows = c.flows();
  const uint32_t same = flows.Find(name.key, flows.HashOf(name.key));
  if (same != FlowTable::kNone &&
      !driver.DeleteFlow(c.IdOfSlot(same), Deletion::kForAnother)) {
    return false;
  }
  if (name.alias == FlowKey{}) return true;
  const uint32_t other = c.aliases().Find(name.alias, flows.HashOf(name.alias));
  return other == AliasTable::kNone ||
         driver.DeleteFlow(c.IdOfSlot(other), Deletion::kForAnother);
}

}  // namespace

// Takes messages that members sent before they left, and none of later ones.
void FlowHeirs::Follow(const GroupMember::View& view) {
  if (now_ != Instant::min()) Receive(now_, StateLink::kMostReceived);
  table_ = view.table;
  is_in_ = view.is_in;
  live_ = table_->live();
  returns_.Follow(
      view, now_,
      !begun_.empty() || (hosts_.are_known() && has_pools_ && has_flows_));
  const auto has_left = [this](const Taken& one) {
    return !Has(live_, one.by);
  };
  std::erase_if(taken_, has_left);
  std::erase_if(came_, has_left);
  Connect();
  // Copies of flows that are another member's to continue grow old.
  for (uint32_t member = 0; member < kMostAtPorts; ++member) {
    if (NextMember(member, live_) != self_) standby_.Forget(member);
  }
  UpdateHeritage();
}

// A member that waits for an answer comes first.
void FlowHeirs::Connect() {
  const auto heir = is_in_ ? NextMember(self_, live_) : std::nullopt;
  Target target = {.to = heir, .is_heir = true};
  if (!taken_.empty()) {
    const uint32_t by = taken_.front().by;
    target = {.to = by, .is_heir = heir == by};
  } else if (returns_.to().has_value()) {
    target = {.to = returns_.to(), .is_heir = false};
  }
  link_->Follow(*table_, self_, target.to);
  if (target == target_) return;
  target_ = target;
  round_ = 0;
}

void FlowHeirs::UpdateHeritage() {
  has_heritage_ = has_away_ = false;
  for (uint32_t member = 0; member < kMostAtPorts; ++member) {
    has_heritage_ |= !Has(live_, member) && standby_.size_of(member) > 0;
    has_away_ |= OwnerOf(member) == self_ && away_.size_of(member) > 0;
  }
  begins_ = hosts_.are_known() && !has_pools_ && returns_.here() != 0;
  looks_ = has_heritage_ || has_away_ || begins_ ||
           (has_pools_ && returns_.to().has_value());
}

void FlowHeirs::Turn(RealDriver* driver, Instant now) {
  constexpr size_t kMostAtOnce = 512;
  now_ = now;
  DropExpired();
  const bool is_other =
      driver != nullptr && (driver != driver_ || !driver->has_on_state());
  if (is_other) {
    driver_ = driver;
    round_ = 0;
    standby_.ForgetTaken();
    returns_.ForgetInherited();
    returned_.OnOtherDriver();
    driver->set_on_state(
        [this, driver](const State& state, std::span<const std::byte> record) {
          if (driver == driver_) OnState(driver->controller(), state, record);
        });
  }
  if (driver != nullptr && driver->has_controller()) {
    has_pools_ = !driver->pieces().pools().empty();
    has_flows_ = driver->controller().flows().size() > 0 ||
                 standby_.size() > 0 || away_.size() > 0;
    returns_.set_stay(hosts_.are_known() && has_pools_);
    if (!begun_.empty()) NoteBegun(*driver);
  }
  const auto to = returns_.to();
  Receive(now, kMostAtOnce);
  if (driver != nullptr && is_continuing_) TakeMoved();
  if (driver != nullptr) returned_.Turn(*driver);
  SayTaken();
  returns_.Turn(driver, target_.to == returns_.to(), now);
  if (returns_.to() != to) Connect();
  if (to.has_value()) UpdateHeritage();
  if (driver == nullptr || !driver->has_controller()) return;
  SettleTaken(*driver);
  // Until all flows are here, the heir keeps what the process before has sent.
  if (target_.is_heir && !is_continuing_) Send(*driver, now);
}

// Asks units for the flows that this member has taken, until they have them
// (proto/protocol.md H6). Only failures give flows up.
void FlowHeirs::SettleTaken(RealDriver& driver) {
  constexpr Nanos kPeriod = Milliseconds(2);
  constexpr size_t kMost = 64;
  const Controller& c = driver.controller();
  const uint64_t given_up = c.counters().failures.flows_given_up;
  if (standby_.taken() == 0) given_up_ = given_up;
  if (standby_.taken() == 0 || now_ < next_settling_) return;
  next_settling_ = now_ + kPeriod;
  standby_.Settle(kMost, [&](FlowId flow) {
    const uint32_t slot = slot_of(flow);
    const bool is_there =
        c.flows().cold(slot).owner != kNoUnit && c.IdOfSlot(slot) == flow;
    if (!is_there) {
      return given_up == given_up_ ? StandbyFlows::Fate::kEnded
                                   : StandbyFlows::Fate::kLost;
    }
    driver.AskState(flow);
    return StandbyFlows::Fate::kRuns;
  });
  UpdateHeritage();
}

bool FlowHeirs::Move(RealDriver& driver, size_t room) {
  if (!moves_.Turn(driver, room)) return false;
  moves_.GiveCopies(standby_, now_);
  moves_.GiveAway(away_);
  return true;
}

// Own flows are taken in before packets, others by their next packets.
void FlowHeirs::TakeMoved() {
  const auto moved = std::exchange(moved_, {});
  for (const StateLink::Received& message : moved) {
    if (const auto away = ReadAway(message.bytes); away.has_value()) {
      away_.Put(now_, hosts_.OfFlow(away->key, self_), *away);
      continue;
    }
    auto came = ReadFlow(message.bytes, now_);
    if (!came.has_value() || message.from >= kMostAtPorts) {
      ++malformed_;
      continue;
    }
    ++came_along_;
    if (came->kind == FlowMessageKind::kGiven) {
      returned_.Continue(std::move(came->flow));
    } else {
      standby_.Put(message.from, 0, now_, std::move(came->flow));
    }
  }
  UpdateHeritage();
  is_continuing_ = !returned_.is_done();
}

// Flows that came and wait are taken in; none may come any more.
void FlowHeirs::set_active(bool is_active) {
  if (is_active && !is_active_) returned_.EndWaiting();
  is_active_ = is_active;
}

// Says it by each connection, until one has taken the message.
void FlowHeirs::SayTaken() {
  if (!came_.empty() && returned_.is_done()) {
    for (Taken& came : came_) {
      came.until = RealClock::Monotonic() + FlowReturns::kMost;
      std::erase_if(taken_,
                    [&](const Taken& one) { return one.by == came.by; });
      taken_.push_back(came);
    }
    came_.clear();
    Connect();
  }
  if (taken_.empty()) return;
  Taken& first = taken_.front();
  const uint64_t round = target_.to == first.by ? link_->round() : 0;
  const bool is_over =
      round != 0 && round == first.said_in && link_->unsent() == 0;
  if (is_over || RealClock::Monotonic() >= first.until) {
    taken_.pop_front();
    return Connect();
  }
  if (round == 0 || round == first.said_in) return;
  first.said_in = round;
  link_->Send(round, BytesOf(RoundMessage{.kind = FlowMessageKind::kTaken,
                                          .round = first.round}));
}

// Goes through a full table in ten seconds.
void FlowHeirs::DropExpired() {
  constexpr Nanos kPeriod = Milliseconds(10);
  constexpr size_t kMost = 64;
  if (now_ < next_drop_) return;
  next_drop_ = now_ + kPeriod;
  standby_.DropExpired(now_, kMost);
  away_.DropExpired(now_, kMost);
  UpdateHeritage();
}

// The ends of flows of an earlier sweep are not sent: the heir knows them once
// the sweep is whole.
void FlowHeirs::Send(RealDriver& driver, Instant now) {
  const uint64_t round = link_->round();
  if (round != round_) {
    sweep_.Begin();
    away_.TellAll();
    sweep_round_ = std::max(sweep_round_ + 1, round);
  }
  round_ = round;
  if (round == 0) return;
  const bool is_whole = sweep_.Turn(
      now, driver.controller(), link_->room(),
      [&](FlowId flow) { driver.AskState(flow); },
      [&](const FlowSweep::Ended& flow) {
        ++ended_;
        link_->Send(round_, BytesOf(EndedMessage{.flow = flow}));
      });
  if (is_whole) {
    link_->Send(round_, BytesOf(RoundMessage{.round = sweep_round_}));
  }
  for (size_t room = link_->room(); room > 0; --room) {
    const auto flow = away_.Next();
    if (!flow.has_value()) break;
    link_->Send(round_, BytesOf(AwayMessage{.flow = *flow}));
  }
}

void FlowHeirs::OnState(const Controller& controller, const State& state,
                        std::span<const std::byte> record) {
  standby_.OnShown(state.flow, state.applied);
  moves_.OnState(controller, state, record, now_);
  // The heir continues no flow as of long ago.
  const bool is_too_long = record.size() != state.bytes;
  if (returns_.OnState(controller, state, record, now_)) {
    too_long_ += is_too_long ? 1 : 0;
    return;
  }
  if (!target_.is_heir || round_ == 0) return;
  const auto flow = sweep_.OnState(controller, state);
  if (!flow.has_value()) return;
  if (is_too_long) {
    ++too_long_;
    const FlowSweep::Ended none = {.key = flow->name.key,
                                   .flow = flow->name.flow};
    link_->Send(round_, BytesOf(EndedMessage{.flow = none}));
    return;
  }
  ++sent_;
  link_->Send(round_, BytesOfFlow({.home = returns_.HomeOf(state.flow),
                                   .round = sweep_round_,
                                   .flow = *flow,
                                   .state = state},
                                  now_, record));
}

void FlowHeirs::Receive(Instant now, size_t most) {
  const std::vector<StateLink::Received> received = link_->Take(most);
  for (const StateLink::Received& message : received) {
    if (!TakeMessage(now, message)) ++malformed_;
  }
  if (!received.empty()) UpdateHeritage();
}

bool FlowHeirs::TakeMessage(Instant now, const StateLink::Received& message) {
  const std::span<const std::byte> bytes = message.bytes;
  FlowMessageKind kind{};
  if (bytes.size() < sizeof kind || !Load(bytes.first(sizeof kind), kind)) {
    return false;
  }
  switch (kind) {
    case FlowMessageKind::kWhole:
    case FlowMessageKind::kGivenAll:
    case FlowMessageKind::kTaken:
      return TakeRound(message);
    case FlowMessageKind::kEnded: {
      EndedMessage ended;
      if (!Load(bytes, ended)) return false;
      standby_.OnEnd(message.from, ended.flow.key, ended.flow.flow);
      return true;
    }
    case FlowMessageKind::kFlow:
    case FlowMessageKind::kGiven:
      return TakeCopy(now, message);
    case FlowMessageKind::kAway:
      return TakeAway(now, message);
  }
  return false;
}

bool FlowHeirs::TakeAway(Instant now, const StateLink::Received& message) {
  const auto away = ReadAway(message.bytes);
  if (!away.has_value()) return false;
  if (!hosts_.are_known() || away->home == self_) return true;
  const uint32_t owner = hosts_.OfFlow(away->key, self_);
  // A flow may have begun here, if it came too late.
  if (is_active_ && OwnerOf(owner) == self_) return true;
  away_.Put(now, owner, *away);
  return true;
}

bool FlowHeirs::TakeRound(const StateLink::Received& message) {
  RoundMessage whole;
  if (!Load(message.bytes, whole)) return false;
  if (whole.kind == FlowMessageKind::kWhole) {
    standby_.OnWhole(message.from, whole.round);
  } else if (whole.kind == FlowMessageKind::kTaken) {
    returns_.OnTakenBy(message.from, whole.round);
  } else if (refused_ == std::pair(message.from, whole.round)) {
    // The tables differ: the giver gives all once more by the later one.
  } else if (!is_active_) {
    returned_.OnWhole(message.from, whole.round);
    std::erase_if(came_,
                  [&](const Taken& one) { return one.by == message.from; });
    came_.push_back({.by = message.from, .round = whole.round});
  }
  return true;
}

bool FlowHeirs::TakeCopy(Instant now, const StateLink::Received& message) {
  auto came = ReadFlow(message.bytes, now);
  if (!came.has_value()) return false;
  const uint32_t home = came->flow.home;
  if (came->kind == FlowMessageKind::kFlow) {
    standby_.Put(message.from, came->round, now, std::move(came->flow));
  } else if (is_active_) {
    returned_.Refuse();
  } else if (home == self_) {
    returned_.Put(message.from, came->round, now, std::move(came->flow));
  } else if (!Has(live_, home) && NextMember(home, live_) == self_) {
    // Flows of who is dead wait here from now on.
    standby_.Put(home, came->round, now, std::move(came->flow));
  } else {
    returned_.Refuse();
    refused_ = std::pair(message.from, came->round);
  }
  return true;
}

std::optional<FlowHeirs::Aside> FlowHeirs::Look(RealDriver& driver,
                                                const CapturedPacket& packet,
                                                const Way& way) {
  if (!driver.has_controller()) return std::nullopt;
  const auto sought = driver.SoughtBy(packet);
  if (!sought.has_value()) return std::nullopt;
  if (way.kind == Way::Kind::kBack) {
    away_.Erase(sought->key);
  } else if (way.kind == Way::Kind::kOwner && packet.side == Side::kInside &&
             !sought->by_alias) {
    const auto holder = HolderOf(driver, packet, sought->key);
    if (holder.has_value()) return holder;
  }
  if (has_heritage_) Inherit(driver, packet, *sought);
  const bool is_known = IsThere(driver, *sought) || standby_.Knows(sought->key);
  if (is_known) return std::nullopt;
  if (way.kind == Way::Kind::kHolder) {
    return Aside{.to = way.from, .home = self_, .is_back = true};
  }
  away_.Erase(sought->key);
  if (!begins_) return std::nullopt;
  const uint32_t home = hosts_.OfHost(sought->host, sought->key.form);
  if (Has(returns_.here(), home)) {
    begun_.push_back({.key = sought->key, .home = home});
  }
  return std::nullopt;
}

// The home of an entry may be dead: then its flow runs here. A copy whose home
// lives shows as well where the flow is, as does a flow that is being given.
std::optional<FlowHeirs::Aside> FlowHeirs::HolderOf(
    const RealDriver& driver, const CapturedPacket& packet,
    const FlowKey& key) {
  std::optional<uint32_t> home;
  if (has_away_) home = away_.Find(packet.time, key);
  if (!home.has_value() && has_pools_) {
    const FlowTable& flows = driver.controller().flows();
    const uint32_t slot = flows.Find(key, flows.HashOf(key));
    if (slot != FlowTable::kNone) {
      home = returns_.HomeOf(driver.controller().IdOfSlot(slot));
    } else if (has_heritage_) {
      const StandbyFlow* const copy = standby_.Find(key, false, packet.time);
      if (copy != nullptr) home = copy->home;
    }
  }
  if (!home.has_value()) return std::nullopt;
  const auto owner = OwnerOf(*home);
  if (!owner.has_value() || *owner == self_) return std::nullopt;
  return Aside{.to = *owner, .home = *home};
}

void FlowHeirs::NoteBegun(const RealDriver& driver) {
  std::erase_if(begun_, [&](Begun& one) {
    return returns_.OnFlowOf(one.home, driver, one.key) ||
           std::exchange(one.was_sought, true);
  });
}

void FlowHeirs::Inherit(RealDriver& driver, const CapturedPacket& packet,
                        const KnownFlows::Sought& sought) {
  const StandbyFlow* const copy =
      standby_.Find(sought.key, sought.by_alias, packet.time);
  if (copy == nullptr) return;
  // Another member runs it.
  if (has_pools_ && OwnerOf(copy->home) != self_) return;
  HandedFlow flow = copy->flow;
  if (IsOutlived(driver, *copy)) {
    standby_.DropOutlived(flow.name.key);
    return UpdateHeritage();
  }
  flow.last_packet = packet.time;
  if (!driver.IsRecord(copy->state, copy->record)) {
    ++untaken_;
    standby_.Drop(flow.name.key);
  } else if (MakeWay(driver, flow.name) &&
             driver.TakeFlow(flow, copy->state, copy->record)) {
    returns_.OnFlowOf(copy->home, driver, flow.name.key);
    const FlowTable& flows = driver.controller().flows();
    const FlowKey& key = flow.name.key;
    const uint32_t slot = flows.Find(key, flows.HashOf(key));
    standby_.OnTaken(key, driver.controller().IdOfSlot(slot));
  } else {
    ++put_off_;  // the flow's next packet tries again
    standby_.SetDue(flow.name.key);
    return;
  }
  UpdateHeritage();
}

std::vector<NamedCount> FlowHeirs::named() const {
  const StandbyCounters& kept = standby_.counters();
  std::vector<NamedCount> counts = {
      {"states_connected", link_->round() == 0 ? 0u : 1u},
      {"states_sent", sent_},
      {"states_behind", sweep_.behind()},
      {"states_sweep_us", static_cast<uint64_t>(sweep_.last().ns / 1'000)},
      {"states_ended", ended_},
      {"states_too_long", too_long_},
      {"states_came", kept.kept},
      {"states_kept", standby_.size()},
      {"states_taken", kept.taken},
      {"states_reverted", kept.reverted},
      {"states_untaken", untaken_},
      {"states_put_off", put_off_},
      {"states_evicted", kept.evicted},
      {"states_outlived", kept.outlived},
      {"states_expired", kept.expired},
      {"states_away", away_.size()},
      {"states_away_evicted", away_.evicted()},
      {"states_malformed", malformed_},
      {"states_refused", link_->refused()},
      {"states_moved", came_along_},
      {"states_unmoved", lost_}};
  returns_.AppendTo(counts);
  returned_.AppendTo(counts);
  return counts;
}

}  // namespace snf
