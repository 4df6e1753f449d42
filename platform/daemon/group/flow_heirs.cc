// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/flow_heirs.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/packet/link_type.h"

namespace snf {
namespace {

enum class Kind : uint32_t { kFlow, kEnded, kWhole };

// The records of messages: members run the same program.
struct FlowMessage {
  Kind kind = Kind::kFlow;
  uint32_t reserved = 0;
  uint64_t round = 0;  // grows with each beginning of a sweep
  HandedFlow flow;
  State state;  // its record follows
};
struct EndedMessage {
  Kind kind = Kind::kEnded;
  uint32_t reserved = 0;
  FlowSweep::Ended flow;
};
struct WholeMessage {
  Kind kind = Kind::kWhole;
  uint32_t reserved = 0;
  uint64_t round = 0;
};
static_assert(std::is_trivially_copyable_v<FlowMessage> &&
              std::is_trivially_copyable_v<EndedMessage> &&
              std::is_trivially_copyable_v<WholeMessage>);
static_assert(sizeof(FlowMessage) + kMaxShownBytes <= StateLink::kMostBytes);

template <typename Message>
std::vector<std::byte> BytesOf(const Message& message,
                               std::span<const std::byte> rest = {}) {
  std::vector<std::byte> bytes(sizeof message + rest.size());
  std::memcpy(bytes.data(), &message, sizeof message);
  if (!rest.empty()) {
    std::memcpy(&bytes[sizeof message], rest.data(), rest.size());
  }
  return bytes;
}

template <typename Message>
bool Load(std::span<const std::byte> bytes, Message& message) {
  if (bytes.size() != sizeof message) return false;
  std::memcpy(&message, bytes.data(), sizeof message);
  return true;
}

// The clock of one machine means nothing to another: a message has times as
// spans from when it was sent.
Instant SpanTo(Instant time, Instant now) {
  return time == Instant::max() ? time : Instant{(time - now).ns};
}
Instant TimeOf(Instant span, Instant now) {
  return span == Instant::max() ? span : now + Nanos{span.ns};
}

// Bytes from elsewhere are no bool or enumerator before they are checked.
bool IsPlain(std::span<const std::byte> state) {
  const auto is_none = [state](size_t at) { return state[at] == std::byte{}; };
  return is_none(offsetof(State, pushed)) && is_none(offsetof(State, named)) &&
         is_none(offsetof(State, delta)) &&
         IsLinkType(
             LinkType{std::to_integer<uint8_t>(state[offsetof(State, link)])});
}

// Deletes the driver's flow of that key, and the flow with its alias: both are
// older than a copy, for the dead member has had the key since. Returns false
// if one cannot be deleted now.
bool MakeWay(RealDriver& driver, const FlowName& name) {
  const Controller& c = driver.controller();
  const FlowTable& flows = c.flows();
  const uint32_t same = flows.Find(name.key, flows.HashOf(name.key));
  if (same != FlowTable::kNone && !driver.DeleteFlow(c.IdOfSlot(same))) {
    return false;
  }
  if (name.alias == FlowKey{}) return true;
  const uint32_t other = c.aliases().Find(name.alias, flows.HashOf(name.alias));
  return other == AliasTable::kNone || driver.DeleteFlow(c.IdOfSlot(other));
}

}  // namespace

// Takes messages that members sent before they left, and none of later ones.
void FlowHeirs::Follow(const GatewayTable& table, bool is_in) {
  if (now_ != Instant::min()) Receive(now_, StateLink::kMostReceived);
  live_ = table.live();
  link_->Follow(table, self_, is_in ? NextMember(self_, live_) : std::nullopt);
  // Copies of flows that are another member's to continue grow old.
  for (uint32_t member = 0; member < kMostAtPorts; ++member) {
    if (NextMember(member, live_) != self_) standby_.Forget(member);
  }
  UpdateHeritage();
}

void FlowHeirs::UpdateHeritage() {
  has_heritage_ = false;
  for (uint32_t member = 0; member < kMostAtPorts; ++member) {
    has_heritage_ |= !Has(live_, member) && standby_.size_of(member) > 0;
  }
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
    driver->set_on_state(
        [this, driver](const State& state, std::span<const std::byte> record) {
          if (driver == driver_) OnState(driver->controller(), state, record);
        });
  }
  Receive(now, kMostAtOnce);
  if (driver == nullptr || !driver->has_controller()) return;
  SettleTaken(*driver);
  Send(*driver, now);
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

// Goes through a full table in ten seconds.
void FlowHeirs::DropExpired() {
  constexpr Nanos kPeriod = Milliseconds(10);
  constexpr size_t kMost = 64;
  if (now_ < next_drop_) return;
  next_drop_ = now_ + kPeriod;
  standby_.DropExpired(now_, kMost);
  UpdateHeritage();
}

// The ends of flows of an earlier sweep are not sent: the heir knows them once
// the sweep is whole.
void FlowHeirs::Send(RealDriver& driver, Instant now) {
  const uint64_t round = link_->round();
  if (round != round_) {
    sweep_.Begin();
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
    link_->Send(round_, BytesOf(WholeMessage{.round = sweep_round_}));
  }
}

void FlowHeirs::OnState(const Controller& controller, const State& state,
                        std::span<const std::byte> record) {
  standby_.OnShown(state.flow, state.applied);
  if (round_ == 0) return;
  const auto flow = sweep_.OnState(controller, state);
  if (!flow.has_value()) return;
  // The heir continues no flow as of long ago.
  if (record.size() != state.bytes) {
    ++too_long_;
    const FlowSweep::Ended none = {.key = flow->name.key,
                                   .flow = flow->name.flow};
    link_->Send(round_, BytesOf(EndedMessage{.flow = none}));
    return;
  }
  ++sent_;
  FlowMessage message = {.round = sweep_round_, .flow = *flow, .state = state};
  message.flow.last_packet = SpanTo(message.flow.last_packet, now_);
  message.state.timer = SpanTo(message.state.timer, now_);
  link_->Send(round_, BytesOf(message, record));
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
  Kind kind{};
  if (bytes.size() < sizeof kind || !Load(bytes.first(sizeof kind), kind)) {
    return false;
  }
  if (WholeMessage whole; kind == Kind::kWhole) {
    if (!Load(bytes, whole)) return false;
    standby_.OnWhole(message.from, whole.round);
    return true;
  }
  if (EndedMessage ended; kind == Kind::kEnded) {
    if (!Load(bytes, ended)) return false;
    standby_.OnEnd(message.from, ended.flow.key, ended.flow.flow);
    return true;
  }
  return kind == Kind::kFlow && TakeCopy(now, message);
}

// Inherit asks if units can take the record: members change their chains one
// after the other.
bool FlowHeirs::TakeCopy(Instant now, const StateLink::Received& message) {
  FlowMessage flow;
  const std::span<const std::byte> bytes = message.bytes;
  if (bytes.size() < sizeof flow ||
      !IsPlain(
          bytes.subspan(offsetof(FlowMessage, state)).first<sizeof(State)>()) ||
      !Load(bytes.first(sizeof flow), flow)) {
    return false;
  }
  const auto record = bytes.subspan(sizeof flow);
  const bool is_right =
      flow.flow.name.key != FlowKey{} && flow.flow.last == flow.state.applied &&
      flow.flow.last != Clock{} && flow.flow.last < kMaxRestoredClock &&
      record.size() <= kMaxShownBytes && record.size() == flow.state.bytes;
  if (!is_right) return false;
  flow.flow.last_packet = TimeOf(flow.flow.last_packet, now);
  flow.state.timer = TimeOf(flow.state.timer, now);
  standby_.Put(message.from, flow.round, now,
               {.flow = flow.flow,
                .state = flow.state,
                .record = {record.begin(), record.end()}});
  return true;
}

void FlowHeirs::Inherit(RealDriver& driver, const CapturedPacket& packet) {
  const auto sought = driver.SoughtBy(packet);
  if (!sought.has_value()) return;
  const StandbyFlow* const copy =
      standby_.Find(sought->key, sought->by_alias, packet.time);
  if (copy == nullptr) return;
  HandedFlow flow = copy->flow;
  flow.last_packet = packet.time;
  if (!driver.IsRecord(copy->state, copy->record)) {
    ++untaken_;
    standby_.Drop(flow.name.key);
  } else if (MakeWay(driver, flow.name) &&
             driver.TakeFlow(flow, copy->state, copy->record)) {
    const FlowTable& flows = driver.controller().flows();
    const FlowKey& key = flow.name.key;
    const uint32_t slot = flows.Find(key, flows.HashOf(key));
    standby_.OnTaken(key, driver.controller().IdOfSlot(slot));
  } else {
    ++put_off_;  // the flow's next packet tries again
    return;
  }
  UpdateHeritage();
}

std::vector<NamedCount> FlowHeirs::named() const {
  const StandbyCounters& kept = standby_.counters();
  return {{"states_connected", link_->round() == 0 ? 0u : 1u},
          {"states_sent", sent_},
          {"states_behind", sweep_.behind()},
          {"states_sweep_us", static_cast<uint64_t>(sweep_.last().ns / 1'000)},
          {"states_ended", ended_},
          {"states_too_long", too_long_},
          {"states_came", kept.kept},
          {"states_kept", standby_.size()},
          {"states_taken", kept.taken},
          {"states_returned", kept.returned},
          {"states_untaken", untaken_},
          {"states_put_off", put_off_},
          {"states_evicted", kept.evicted},
          {"states_expired", kept.expired},
          {"states_malformed", malformed_},
          {"states_refused", link_->refused()}};
}

}  // namespace snf
