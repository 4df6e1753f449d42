// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/test_unit_states.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "runtime/core/test_unit_fingerprint.h"

namespace snf {
namespace {

constexpr uint8_t kClocks = 16;
constexpr Nanos kTimerAfter = Microseconds(100);
// Marks the code of a timer packet, which names no units to push to.
constexpr uint8_t kTimerSet = 15;

FlowId IdOf(uint8_t flow) { return FlowId{flow + uint64_t{1}}; }
uint8_t FlowOf(FlowId id) { return static_cast<uint8_t>(value(id) - 1); }
uint8_t ClockOf(Clock clock) { return static_cast<uint8_t>(value(clock)); }
uint8_t UnitOf(UnitId unit) { return static_cast<uint8_t>(value(unit)); }

}  // namespace

uint16_t Item::Code() const {
  return static_cast<uint16_t>(
      static_cast<unsigned>(kind) | flow << 2 | clock << 3 | source << 7 |
      is_first << 10 | is_null << 11 | (is_timer ? kTimerSet : set) << 12);
}

Item Item::Of(uint16_t code) {
  const auto bits = [code](int shift, unsigned mask) {
    return static_cast<uint8_t>(code >> shift & mask);
  };
  return {.kind = static_cast<Kind>(bits(0, 3)),
          .flow = bits(2, 1),
          .clock = bits(3, 15),
          .source = bits(7, 7),
          .is_first = bits(10, 1) != 0,
          .is_null = bits(11, 1) != 0,
          .is_timer = bits(11, 1) != 0 && bits(12, 15) == kTimerSet,
          .set = bits(11, 1) != 0 ? uint8_t{0} : bits(12, 15)};
}

uint64_t Extended(uint64_t digest, uint8_t flow, uint8_t clock) {
  uint64_t hash =
      (digest ^ (uint64_t{flow} << 8 | clock)) * 0x9e37'79b9'7f4a'7c15;
  hash ^= hash >> 29;
  return hash | 1;  // never that of a new flow
}

Verdict UnitStates::Chronicle::process_packet(Packet& packet, FlowState& flow) {
  seen = flow.get(digest_);
  const auto clock = static_cast<uint8_t>(packet.bytes()[0]);
  flow.put(digest_, Extended(seen, FlowOf(flow.id()), clock));
  set_timer = has_timers && clock == 1;
  // Before the timers of the unit itself.
  if (set_timer) flow.set_timer(kTimerAfter);
  return Verdict::forward();
}

void UnitStates::Chronicle::on_timer(FlowState& flow) {
  seen = flow.get(digest_);
  timer_of = FlowOf(flow.id());
  flow.put(digest_, Extended(seen, timer_of, kTimerClock));
}

bool UnitStates::Host::Show(UnitId unit, uint32_t /*slot*/, const State& state,
                            std::span<const std::byte> bytes) {
  Message message{.kind = Message::Kind::kShown,
                  .flow = FlowOf(state.flow),
                  .clock = ClockOf(state.applied),
                  .peer = UnitOf(unit),
                  .has_timer = state.timer != Instant::max()};
  SNF_CHECK(bytes.size() <= sizeof message.record);
  std::memcpy(message.record.data(), bytes.data(), bytes.size());
  shown.push_back(message);
  return true;
}

std::optional<HostRecord> UnitStates::Host::Read(UnitId unit, FlowId flow,
                                                 Clock /*clock*/) {
  const uint16_t number = seen[UnitOf(unit)][FlowOf(flow)];
  if (number == 0) return std::nullopt;
  const Message& message = states_.message(number - 1);
  read_ = message.record;
  const auto bytes = StateSchema::WithoutZeros(std::as_bytes(std::span(read_)));
  return HostRecord{
      .state = {.flow = flow,
                .applied = Clock{message.clock},
                .timer = message.has_timer ? Instant{} + kTimerAfter
                                           : Instant::max(),
                .schema = states_.nf_.schema().hash(),
                .bytes = static_cast<uint32_t>(bytes.size())},
      .bytes = bytes};
}

UnitStates::UnitStates(const UnitOptions& options, uint8_t units,
                       bool begins_late, bool has_timers, bool has_host,
                       bool merges)
    : has_host_(has_host),
      pool_({.small = kClocks, .medium = 0, .large = 0}),
      begins_late_(begins_late),
      merges_(merges) {
  nf_.has_timers = has_timers;
  // Every packet of a clock is the same one; it is never freed.
  for (uint8_t clock = 0; clock < kClocks; ++clock) {
    packets_.push_back(pool_.Allocate(1));
    pool_.info(packets_.back()).length = 1;
    pool_.bytes(packets_.back())[0] = std::byte{clock};
  }
  for (uint8_t unit = 0; unit < units; ++unit) {
    roots_.push_back({Unit(UnitId{unit}, options, nf_.schema()), Instant{}});
    if (has_host_) roots_.back().unit.UseHost(host_);
    states_.push_back(FactsOf(roots_.back().unit));
    by_fingerprint_[states_.back().fingerprint] = unit;
  }
}

UnitStates::Facts UnitStates::FactsOf(const Unit& unit) const {
  uint64_t fingerprint = UnitFingerprint::Of(unit);
  for (const auto& flows : host_.seen) {
    for (const uint16_t number : flows) {
      if (number != 0) fingerprint = fingerprint * 0x9e37'79b9 + number;
    }
  }
  return {.fingerprint = fingerprint,
          .parent = 0,
          .input = 0,
          .unit = UnitOf(unit.id()),
          .flows = static_cast<uint8_t>(unit.flows()),
          .replicas = static_cast<uint8_t>(unit.replicas()),
          .held = static_cast<uint8_t>(unit.held_packets()),
          .busy = unit.busy()};
}

uint16_t UnitStates::NumberOf(const Message& message) {
  const auto number = static_cast<uint16_t>(messages_.size());
  const auto [it, is_new] = numbers_.try_emplace(message, number);
  if (is_new) {
    SNF_CHECK(messages_.size() < 0xffff);
    messages_.push_back(message);
  }
  return it->second;
}

uint16_t UnitStates::NumberOf(const Shown& shown) {
  const auto number = static_cast<uint16_t>(views_.size());
  const auto [it, is_new] = view_numbers_.try_emplace(shown, number);
  if (is_new) {
    SNF_CHECK(views_.size() < 0xffff);
    views_.push_back(shown);
  }
  return it->second;
}

UnitStates::Step UnitStates::Take(StateId state, Input input, uint16_t what) {
  const uint32_t code = uint32_t{static_cast<uint8_t>(input)} << 16 | what;
  const uint64_t key = uint64_t{state} << 32 | code;
  if (const auto it = steps_.find(key); it != steps_.end()) return it->second;

  Live live = Make(state);
  made_.clear();
  Run(live, input, what);
  Facts facts = FactsOf(live.unit);
  facts.parent = state;
  facts.input = code;
  Step step = {.next = static_cast<StateId>(states_.size()),
               .first_effect = static_cast<uint32_t>(effects_.size()),
               .effects = static_cast<uint32_t>(made_.size())};
  effects_.insert(effects_.end(), made_.begin(), made_.end());
  const bool looks = input == Input::kBegin || input == Input::kTimer;
  if (looks && made_.empty() &&
      facts.fingerprint == states_[state].fingerprint) {
    step.next = state;
  } else if (merges_) {
    const auto [it, is_new] =
        by_fingerprint_.try_emplace(facts.fingerprint, step.next);
    step.next = it->second;
  }
  if (step.next == states_.size()) states_.push_back(facts);
  steps_.emplace(key, step);
  return step;
}

UnitStates::Live UnitStates::Make(StateId state) const {
  std::vector<uint32_t> inputs;
  while (state >= roots_.size()) {
    inputs.push_back(states_[state].input);
    state = states_[state].parent;
  }
  Live live = roots_[state];
  auto& self = const_cast<UnitStates&>(*this);
  self.host_.seen = {};
  for (size_t i = inputs.size(); i-- > 0;) {
    self.Run(live, static_cast<Input>(inputs[i] >> 16),
             static_cast<uint16_t>(inputs[i]));
  }
  return live;
}

void UnitStates::Run(Live& live, Input input, uint16_t what) {
  const UnitCounters before = live.unit.counters();
  if (input == Input::kSee) {
    host_.seen = views_[what];
    return;
  }
  host_.shown.clear();
  switch (input) {
    case Input::kSee:
      break;
    case Input::kItem:
      RunItem(live, Item::Of(what));
      break;
    case Input::kMessage:
      RunMessage(live, messages_[what]);
      break;
    case Input::kBegin:
      Begin(live);
      break;
    case Input::kTimer:
      LetTimePass(live);
      break;
    case Input::kReleased:
      live.unit.on_released(live.now, MetaOf(Item::Of(what)), {nf_, pool_},
                            out_);
      Drain(live);
      break;
    case Input::kFinish: {
      const PacketMeta meta = live.unit.in_service();
      nf_.timer_of = Chronicle::kNoFlow;
      live.unit.finish(live.now, {nf_, pool_}, out_);
      if (meta.has_payload()) {
        Add({.kind = Effect::Kind::kRan,
             .flow = FlowOf(meta.flow),
             .clock = ClockOf(meta.clock),
             .sets_timer = nf_.set_timer,
             .value = nf_.seen});
      } else if (nf_.timer_of != Chronicle::kNoFlow) {
        Add({.kind = Effect::Kind::kRanTimer,
             .flow = nf_.timer_of,
             .clock = ClockOf(meta.clock),
             .value = nf_.seen});
      }
      Drain(live);
      break;
    }
  }
  Count(before, live.unit.counters());
  if (!begins_late_ && !live.unit.busy()) Begin(live);
  for (const Message& message : host_.shown) {
    Add({.kind = Effect::Kind::kShow, .message = NumberOf(message)});
  }
  host_.seen = {};
}

PacketMeta UnitStates::MetaOf(const Item& item) {
  PacketMeta meta;
  meta.flow = IdOf(item.flow);
  meta.clock = Clock{item.clock};
  if (item.is_first) meta.flags |= PacketMeta::kFirstOfFlowlet;
  if (item.is_null) meta.flags |= PacketMeta::kNull;
  if (item.is_timer) {
    meta.flags |= PacketMeta::kTimer;
    meta.arrival = Instant::max();  // what is set is due
  }
  if (item.source != Item::kNowhere) {
    const bool is_logger = item.source >= Item::kLoggerOf;
    meta.source_kind = is_logger ? StateSource::kLogger : StateSource::kUnit;
    meta.source = UnitId{static_cast<uint16_t>(
        item.source - (is_logger ? Item::kLoggerOf : uint8_t{0}))};
  }
  return meta;
}

void UnitStates::RunItem(Live& live, const Item& item) {
  const FlowId flow = IdOf(item.flow);
  if (item.kind == Item::Kind::kEnd) {
    live.unit.on_end_flow(live.now, {flow, Clock{item.clock}}, {nf_, pool_},
                          out_);
  } else if (item.kind == Item::Kind::kStop) {
    live.unit.on_stop(out_);
  } else if (item.kind == Item::Kind::kStart) {
    live.unit.on_start();
  } else {
    if (item.set != 0) {
      ReplicaSet set{.flow = flow};
      for (uint16_t unit = 0; unit < 4; ++unit) {
        if ((item.set >> unit & 1) != 0) set.units[set.count++] = UnitId{unit};
      }
      live.unit.on_replicas(set);
    }
    live.unit.on_packet(item.is_null ? kNoPacket : packets_[item.clock],
                        MetaOf(item));
  }
  Drain(live);
}

void UnitStates::RunMessage(Live& live, const Message& message) {
  using Kind = Message::Kind;
  const FlowId flow = IdOf(message.flow);
  const Clock clock{message.clock};
  const UnitId peer{message.peer};
  if (message.kind == Kind::kPull) {
    live.unit.on_pull(live.now, {flow, clock, peer, message.by_bytes}, out_);
  } else if (message.kind == Kind::kTakeover) {
    live.unit.on_takeover(live.now, {flow, clock, peer}, out_);
  } else if (message.kind == Kind::kTakeoverAck) {
    live.unit.on_takeover_ack(live.now, {flow, clock, peer}, out_);
  } else {
    const auto record =
        StateSchema::WithoutZeros(std::as_bytes(std::span(message.record)));
    const State sent = {
        .flow = flow,
        .applied = clock,
        .timer = message.has_timer ? live.now + kTimerAfter : Instant::max(),
        .schema = nf_.schema().hash(),
        .bytes = static_cast<uint32_t>(record.size()),
        .pushed = message.kind == Kind::kPush,
        .named = message.kind == Kind::kNamed};
    live.unit.on_state(live.now, sent, record, out_);
  }
  Drain(live);
}

void UnitStates::Begin(Live& live) {
  const bool serves = live.unit.begin(live.now, out_);
  SNF_CHECK(!live.unit.has_more());
  Drain(live);
  if (!serves) return;
  const PacketMeta& meta = live.unit.in_service();
  Add({.kind = Effect::Kind::kServe,
       .flow = FlowOf(meta.flow),
       .clock = ClockOf(meta.clock),
       .waited = live.unit.in_service_wait() != Unit::kNeverHeld,
       .is_moved = meta.source_kind == StateSource::kLogger ||
                   (meta.source_kind == StateSource::kUnit &&
                    meta.source != live.unit.id())});
}

void UnitStates::LetTimePass(Live& live) {
  const uint64_t before = UnitFingerprint::Of(live.unit);
  while (out_.empty() && UnitFingerprint::Of(live.unit) == before) {
    const Instant wakeup = live.unit.next_wakeup();
    if (wakeup == Instant::max()) return;
    live.now = std::max(live.now, wakeup);
    live.unit.on_timers(live.now, out_);
  }
  Drain(live);
}

void UnitStates::Count(const UnitCounters& before, const UnitCounters& after) {
  using Kind = Effect::Kind;
  const auto add = [&](Kind kind, uint64_t was, uint64_t is) {
    for (; was < is; ++was) Add({.kind = kind});
  };
  add(Kind::kEvicted, before.replicas_evicted, after.replicas_evicted);
  add(Kind::kExpired, before.replicas_expired, after.replicas_expired);
  add(Kind::kForgotten, before.pulls_forgotten, after.pulls_forgotten);
  add(Kind::kRepeated, before.pulls_repeated, after.pulls_repeated);
  add(Kind::kRepeated, before.takeovers_repeated, after.takeovers_repeated);
  add(Kind::kRepeated, before.timers_asked_again, after.timers_asked_again);
}

void UnitStates::Drain(const Live& live) {
  using Kind = UnitCommand::Kind;
  for (const UnitCommand& command : out_.commands()) {
    Effect effect{.kind = Effect::Kind::kDone};
    switch (command.kind) {
      case Kind::kSendPull:
      case Kind::kSendState:
      case Kind::kSendTakeover:
      case Kind::kSendTakeoverAck:
        effect.kind = Effect::Kind::kSend;
        effect.message = NumberOf(MessageOf(live, command));
        break;
      case Kind::kReportTakeover:
        continue;
      case Kind::kSendTimerDue:
        effect.kind = Effect::Kind::kAskTimer;
        effect.flow = FlowOf(command.timer_due.flow);
        effect.clock = ClockOf(command.timer_due.applied);
        break;
      case Kind::kLog: {
        const PacketMeta& meta = command.meta;
        Item item{.flow = FlowOf(meta.flow), .clock = ClockOf(meta.clock)};
        item.is_first = (meta.flags & PacketMeta::kFirstOfFlowlet) != 0;
        if (meta.source_kind == StateSource::kUnit) {
          item.source = UnitOf(meta.source);
        } else if (meta.source_kind == StateSource::kLogger) {
          item.source = Item::kLoggerOf + UnitOf(meta.source);
        }
        effect = {.kind = Effect::Kind::kLogged,
                  .flow = item.flow,
                  .clock = item.clock,
                  .message = item.Code()};
        break;
      }
      case Kind::kStopped:
        effect.kind = Effect::Kind::kStopped;
        break;
      default:
        if (command.kind == Kind::kDropPayload) {
          effect.kind = Effect::Kind::kDropPayload;
        } else if (command.reason == DropReason::kDuplicateClock) {
          effect.kind = Effect::Kind::kDuplicate;
        }
        effect.flow = FlowOf(command.meta.flow);
        effect.clock = ClockOf(command.meta.clock);
        break;
    }
    Add(effect);
  }
  out_.clear();
}

Message UnitStates::MessageOf(const Live& live,
                              const UnitCommand& command) const {
  using Kind = UnitCommand::Kind;
  Message message{.to = UnitOf(command.unit)};
  const auto fill = [&](Message::Kind kind, const auto& sent, Clock clock) {
    message.kind = kind;
    message.flow = FlowOf(sent.flow);
    message.clock = ClockOf(clock);
  };
  if (command.kind == Kind::kSendPull) {
    fill(Message::Kind::kPull, command.pull, command.pull.need);
    message.peer = UnitOf(command.pull.requester);
    message.by_bytes = command.pull.by_bytes;
  } else if (command.kind == Kind::kSendTakeover) {
    fill(Message::Kind::kTakeover, command.takeover, command.takeover.clock);
    message.peer = UnitOf(command.takeover.taker);
  } else if (command.kind == Kind::kSendTakeoverAck) {
    fill(Message::Kind::kTakeoverAck, command.takeover_ack,
         command.takeover_ack.clock);
    message.peer = UnitOf(command.takeover_ack.sender);
  } else {
    const State& state = command.state;
    fill(state.pushed ? Message::Kind::kPush : Message::Kind::kState, state,
         state.applied);
    if (state.named) {
      message.kind = Message::Kind::kNamed;
      return message;
    }
    message.has_timer = state.timer != Instant::max();
    const auto bytes = live.unit.bytes_of(state);
    SNF_CHECK(bytes.size() <= sizeof message.record);
    std::memcpy(message.record.data(), bytes.data(), bytes.size());
  }
  return message;
}

}  // namespace snf
