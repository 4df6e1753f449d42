// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/replication.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "base/lazy_zero.h"
#include "runtime/core/rules.h"
#include "runtime/core/unit_limits.h"
#include "runtime/logger/delta.h"

namespace snf {
namespace {

// Nanos::max() is without end, also in captures from before 1970.
Instant After(Instant now, Nanos delay) {
  return delay == Nanos::max() ? Instant::max() : now + delay;
}

bool IsSound(const State& state, std::span<const std::byte> record) {
  return state.flow != kNoFlow && state.applied != Clock{} &&
         IsLinkType(state.link) && record.size() == state.bytes;
}

// Returns the failed unit whose logger was asked for the flow, or kNoUnit.
UnitId AskedLogger(uint32_t slot, FlowStore& flows) {
  PendingLists& pending = flows.pending();
  const uint32_t p =
      *pending.LinkOf(flows[slot].pending, Pending::Kind::kMyPull);
  const bool is_logger = p != PendingLists::kNone && pending[p].of_logger != 0;
  return is_logger ? pending[p].peer : kNoUnit;
}

}  // namespace

std::string_view ToString(StateRefusal refusal) {
  constexpr std::array<std::string_view, kStateRefusals> kNames = {
      "stale",      "malformed",         "schema",   "future_clock",
      "not_taken",  "unsolicited",       "stopping", "pull_stale",
      "pulls_full", "delta_without_base"};
  return kNames[static_cast<size_t>(refusal)];
}

std::string_view ToString(HostMiss miss) {
  constexpr std::array<std::string_view, kHostMisses> kNames = {
      "unknown", "stale", "torn", "malformed", "full", "ahead", "away"};
  return kNames[static_cast<size_t>(miss)];
}

Replication::Replication(UnitId id, const UnitOptions& options,
                         const StateSchema& schema)
    : id_(id),
      pushes_(options.replicas > 0 || options.has_store),
      has_store_(options.has_store),
      max_replicas_(options.max_replicas),
      schema_(&schema),
      push_after_(options.push_after),
      replica_lifetime_(options.replica_lifetime),
      retry_after_(options.retry_after),
      bases_(options, schema) {
  SNF_CHECK(max_replicas_ > 0);
  SNF_CHECK(push_after_.ns > 0 && retry_after_.ns > 0);
}

uint32_t Replication::on_pull(Instant now, const Pull& pull, FlowStore& flows) {
  if (pull.flow == kNoFlow || pull.need == Clock{} || pull.requester == id_ ||
      pull.requester == kNoUnit) {
    Refuse(StateRefusal::kMalformed);
    return kNone;
  }
  const uint32_t slot = flows.FindOrAdd(pull.flow);
  uint32_t& head = flows[slot].pending;
  const Instant due =
      retry_after_ == Nanos::max() ? Instant::max() : now + kPullLifetime;
  if (const uint32_t p = *flows.pending().LinkOf(head, pull); p != kNone) {
    flows.pending()[p].due = due;
    if (pull.by_bytes) flows.pending()[p].by_bytes = 1;
  } else {
    flows.pending().Add(head, {.clock = pull.need,
                               .due = due,
                               .next = kNone,
                               .peer = pull.requester,
                               .kind = Pending::Kind::kPull,
                               .tries = 0,
                               .by_bytes = pull.by_bytes});
  }
  return slot;
}

// Only Pulls that have to wait need room: others are answered all the same.
void Replication::RefuseExcess(const Pull& pull, uint32_t slot,
                               FlowStore& flows) {
  PendingLists& pending = flows.pending();
  FlowRecord& record = flows[slot];
  if (!pending.has_too_many_pulls() &&
      pending.PullsIn(record.pending) <= kMaxPullsPerFlow) {
    return;
  }
  Refuse(StateRefusal::kPullsFull);
  pending.Erase(pending.LinkOf(record.pending, pull));
  flows.ForgetIfEmpty(slot);
}

std::optional<StateRefusal> Replication::Judge(
    const State& state, std::span<const std::byte> record,
    const FlowStore& flows) const {
  if (!IsSound(state, record)) return StateRefusal::kMalformed;
  if (state.schema != schema_->hash()) return StateRefusal::kSchema;
  if (state.delta ? !state.pushed : !schema_->IsWellFormed(record)) {
    return StateRefusal::kMalformed;
  }
  if (stopping_ && state.pushed) return StateRefusal::kStopping;
  const uint32_t slot = flows.Find(state.flow);
  if (slot == kNone) {
    if (!state.pushed) return StateRefusal::kUnsolicited;
    return std::nullopt;
  }
  const FlowRecord& copy = flows[slot];
  if (copy.copy != CopyKind::kNone &&
      SNF_RULE(kU4, state.applied <= copy.applied, false)) {
    return StateRefusal::kStale;
  }
  if (copy.is_busy()) return StateRefusal::kFutureClock;
  if (const uint32_t first = copy.held.head; first != kNone) {
    const Clock held = flows.packets()[first].meta.clock;
    if (state.applied >= held) return StateRefusal::kFutureClock;
    if (state.applied + 1 == held) return std::nullopt;
  }
  if (!state.pushed) return StateRefusal::kUnsolicited;
  if (SNF_RULE(kU4, copy.is_own(), false)) return StateRefusal::kNotTaken;
  return std::nullopt;
}

uint32_t Replication::on_state(Instant now, const State& state,
                               std::span<const std::byte> record,
                               FlowStore& flows) {
  if (const auto refusal = Judge(state, record, flows); refusal.has_value()) {
    Refuse(*refusal);
    return kNone;
  }
  if (state.delta) {
    const uint32_t slot = flows.Find(state.flow);
    const auto refusal = ApplyTo(slot, record, flows);
    if (refusal.has_value()) {
      Refuse(*refusal);
      return kNone;
    }
    SetTaken(now, state, slot, flows);
    ++counters_.replicas_taken;
    return slot;
  }
  const uint32_t slot = flows.FindOrAdd(state.flow);
  Take(now, state, record, slot, flows);
  counters_.replicas_taken += state.pushed ? 1 : 0;
  if (!state.pushed && is_neighbour(AskedLogger(slot, flows))) {
    ++counters_.records_rebuilt;
  }
  return slot;
}

std::optional<StateRefusal> Replication::ApplyTo(
    uint32_t slot, std::span<const std::byte> delta, FlowStore& flows) const {
  const auto base = BaseOf(delta);
  if (!base.has_value()) return StateRefusal::kMalformed;
  // Only the record of that clock is the one from which the delta was made.
  if (slot == kNone || flows[slot].copy == CopyKind::kNone ||
      flows[slot].applied != *base) {
    return StateRefusal::kDeltaWithoutBase;
  }
  if (!ApplyDelta(*schema_, delta.subspan(PushBases::kClockBytes),
                  flows.state(slot))) {
    return StateRefusal::kMalformed;
  }
  return std::nullopt;
}

void Replication::Take(Instant now, const State& state,
                       std::span<const std::byte> record, uint32_t slot,
                       FlowStore& flows) {
  const std::span<std::byte> bytes = flows.state(slot);
  const auto rest = std::ranges::copy(record, bytes.begin()).out;
  ZeroLazily({rest, bytes.end()});
  SetTaken(now, state, slot, flows);
}

void Replication::SetTaken(Instant now, const State& state, uint32_t slot,
                           FlowStore& flows) {
  FlowRecord& copy = flows[slot];
  // Awaited state becomes current at once; all else is a cache, also where an
  // older copy was more than that.
  flows.SetCopy(slot, CopyKind::kReplica);
  copy.due = After(now, replica_lifetime_);
  copy.has_left = false;
  copy.ran_here = false;
  copy.applied = state.applied;
  // A timer that is long past might be set again and again until it reaches
  // now.
  copy.timer =
      SNF_RULE(kU11, std::max(state.timer, now + Nanos{-kMaxTimerLag.ns}),
               Instant::max());
  copy.link = state.link;
  // Units that this unit pushed to before may have run the flow since.
  bases_.Keep(now, slot, state, flows.state(slot), {});
}

// --- Records of the host. ---

// Only a copy is believed, since the other unit may write at any time.
std::optional<HostRecord> Replication::ReadShown(UnitId unit, FlowId flow,
                                                 Clock clock) {
  const auto shown = host_->Read(unit, flow, clock);
  if (!shown.has_value()) {
    Miss(host_->miss());
    return std::nullopt;
  }
  const State& state = shown->state;
  if (state.flow != flow || SNF_RULE(kU16, state.applied != clock, false) ||
      !IsSound(state, shown->bytes) || state.schema != schema_->hash() ||
      !schema_->IsWellFormed(shown->bytes)) {
    Miss(HostMiss::kMalformed);
    return std::nullopt;
  }
  return shown;
}

// Replaces a held packet, a Pull and its answer. A packet behind held ones
// waits for their clocks, which may run here. If the source is a logger, its
// unit showed the record of that clock after its release (F5).
bool Replication::TakeFromHost(Instant now, const PacketMeta& meta,
                               uint32_t slot, FlowStore& flows) {
  const FlowRecord& copy = flows[slot];
  const Clock need = meta.clock - 1;
  const bool has_failed = meta.source_kind == StateSource::kLogger;
  const bool is_peer =
      meta.source_kind == StateSource::kUnit && meta.source != id_;
  if ((!has_failed && !is_peer) || need == Clock{} || need <= copy.applied ||
      copy.is_busy()) {
    return false;
  }
  if (is_peer && !host_->has(meta.source)) {
    Miss(HostMiss::kAway);
    return false;
  }
  const auto shown = SNF_RULE(kF5, false, has_failed)
                         ? host_->Read(meta.source, meta.flow, need)
                         : ReadShown(meta.source, meta.flow, need);
  if (!shown.has_value()) return false;
  Take(now, shown->state, shown->bytes, slot, flows);
  ForgetMyPull(slot, flows);
  ++counters_.records_read;
  counters_.records_recovered += has_failed ? 1 : 0;
  return true;
}

uint32_t Replication::on_named_state(Instant now, const State& state,
                                     FlowStore& flows, UnitOut& out) {
  const uint32_t slot = host_ != nullptr ? flows.Find(state.flow) : kNone;
  uint32_t p = kNone;
  if (slot != kNone) {
    p = *flows.pending().LinkOf(flows[slot].pending, Pending::Kind::kMyPull);
  }
  Pending* const pull = p != kNone ? &flows.pending()[p] : nullptr;
  if (pull == nullptr || pull->clock != state.applied || pull->of_logger != 0 ||
      pull->by_bytes != 0) {
    Refuse(StateRefusal::kUnsolicited);
    return kNone;
  }
  const auto shown = ReadShown(pull->peer, state.flow, state.applied);
  if (shown.has_value()) {
    const uint32_t taken = on_state(now, shown->state, shown->bytes, flows);
    counters_.records_read += taken != kNone ? 1 : 0;
    if (taken != kNone) return taken;
  }
  pull->by_bytes = 1;
  SendPull(pull->peer, /*to_logger=*/false,
           {state.flow, state.applied, id_, /*by_bytes=*/true}, out);
  return kNone;
}

bool Replication::Show(const State& state, uint32_t slot,
                       const FlowStore& flows) {
  const bool is_shown =
      host_->Show(id_, slot, state, flows.state(slot).first(state.bytes));
  if (is_shown) {
    ++counters_.records_shown;
  } else {
    Miss(HostMiss::kFull);
  }
  return is_shown;
}

// The unit that pulled finds the record where this unit shows it.
State Replication::AnswerTo(const Pending& pull, uint32_t slot,
                            const FlowStore& flows) {
  State state = MessageOf(slot, flows);
  if (pull.by_bytes != 0 || !is_neighbour(pull.peer) ||
      !Show(state, slot, flows)) {
    return state;
  }
  ++counters_.records_named;
  state.named = true;
  state.bytes = 0;
  return state;
}

void Replication::EvictReplica(FlowStore& flows) {
  const uint32_t oldest = flows.oldest_replica();
  ++counters_.replicas_evicted;
  flows.DropCopy(oldest);
  ArmTimer(oldest, flows);
  flows.ForgetIfEmpty(oldest);
}

uint32_t Replication::on_takeover(const Takeover& takeover, FlowStore& flows,
                                  UnitOut& out) {
  // kNoUnit: the controller tells it in the place of a unit that failed.
  if (takeover.taker == id_) {
    Refuse(StateRefusal::kMalformed);
    return kNone;
  }
  const uint32_t slot = flows.Find(takeover.flow);
  // Its source ran the clock before, and sent the state after that.
  if (slot != kNone && flows[slot].is_own() &&
      takeover.clock > flows[slot].applied &&
      (takeover.clock > flows[slot].applied + 1 || !flows[slot].has_left)) {
    Refuse(StateRefusal::kFutureClock);
    return kNone;
  }
  out.push(UnitCommand::Send(
      takeover.taker,
      TakeoverAck{
          .flow = takeover.flow, .clock = takeover.clock, .sender = id_}));
  if (slot == kNone) return kNone;
  FlowRecord& record = flows[slot];
  // The taker has gone past these Pulls.
  for (uint32_t* link = &record.pending; *link != kNone;) {
    Pending& pending = flows.pending()[*link];
    if (pending.kind == Pending::Kind::kPull &&
        pending.clock < takeover.clock) {
      Refuse(StateRefusal::kPullStale);
      flows.pending().Erase(link);
    } else {
      link = &pending.next;
    }
  }
  if (record.copy != CopyKind::kNone && !record.is_busy() &&
      SNF_RULE(kU7, record.applied < takeover.clock, true)) {
    flows.DropCopy(slot);
  }
  return slot;
}

uint32_t Replication::on_takeover_ack(const TakeoverAck& ack, FlowStore& flows,
                                      UnitOut& out) {
  if (ack.sender == id_ || ack.sender == kNoUnit) {
    Refuse(StateRefusal::kMalformed);
    return kNone;
  }
  const uint32_t slot = flows.Find(ack.flow);
  if (slot == kNone) return kNone;
  PendingLists& pending = flows.pending();
  uint32_t* const told = pending.LinkOf(flows[slot].pending,
                                        Pending::Kind::kMyTakeover, ack.sender);
  if (*told == kNone || pending[*told].clock > ack.clock) return kNone;
  out.push(UnitCommand::Report(
      {.flow = ack.flow, .clock = pending[*told].clock, .taker = id_}));
  pending.Erase(told);
  return slot;
}

void Replication::PullFor(Instant now, const PacketMeta& meta, uint32_t slot,
                          FlowStore& flows, UnitOut& out) {
  const Clock need = meta.clock - 1;
  const bool of_logger = meta.source_kind == StateSource::kLogger;
  const bool is_elsewhere =
      of_logger ||
      (meta.source_kind == StateSource::kUnit && meta.source != id_);
  if (!is_elsewhere || need == Clock{}) return;
  PendingLists& pending = flows.pending();
  uint32_t& head = flows[slot].pending;
  uint32_t* const my_pull = pending.LinkOf(head, Pending::Kind::kMyPull);
  if (*my_pull != kNone) {
    if (pending[*my_pull].clock == need) return;
    pending.Erase(my_pull);
  }
  if (SNF_RULE(kU2, false, true)) return;
  pending.Add(head, {.clock = need,
                     .due = After(now, retry_after_),
                     .next = kNone,
                     .peer = meta.source,
                     .kind = Pending::Kind::kMyPull,
                     .tries = 0,
                     .of_logger = of_logger});
  SendPull(meta.source, of_logger, {meta.flow, need, id_}, out);
}

void Replication::ForgetMyPull(uint32_t slot, FlowStore& flows) {
  PendingLists& pending = flows.pending();
  uint32_t* const my_pull =
      pending.LinkOf(flows[slot].pending, Pending::Kind::kMyPull);
  if (*my_pull != kNone) pending.Erase(my_pull);
}

void Replication::TellTakeover(Instant now, const PacketMeta& meta,
                               uint32_t slot, FlowStore& flows, UnitOut& out) {
  const Takeover takeover = {
      .flow = meta.flow, .clock = meta.clock, .taker = id_};
  // The unit's own logger has it from the unit's entry.
  if (meta.source == id_) {
    out.push(UnitCommand::Report(takeover));
    return;
  }
  out.push(UnitCommand::Send(meta.source, takeover));
  PendingLists& pending = flows.pending();
  uint32_t& head = flows[slot].pending;
  uint32_t* const told =
      pending.LinkOf(head, Pending::Kind::kMyTakeover, meta.source);
  if (*told != kNone) {
    // The state has been there once more since, so that copy is no more.
    out.push(UnitCommand::Report(
        {.flow = meta.flow, .clock = pending[*told].clock, .taker = id_}));
    pending.Erase(told);
  }
  if (!pending.has_room_for_takeover()) {
    ++counters_.takeovers_said_once;
    out.push(UnitCommand::Report(takeover));
    return;
  }
  pending.Add(head, {.clock = meta.clock,
                     .due = After(now, retry_after_),
                     .next = kNone,
                     .peer = meta.source,
                     .kind = Pending::Kind::kMyTakeover,
                     .tries = 0});
}

void Replication::AnswerPulls(uint32_t slot, FlowStore& flows, UnitOut& out) {
  FlowRecord& record = flows[slot];
  size_t answers = 0;
  for (uint32_t* link = &record.pending; *link != kNone;) {
    Pending& pull = flows.pending()[*link];
    // A replica answers only for earlier clocks: a unit that names it as the
    // source is wrong, and the replica may be gone before its state is sent.
    const bool is_answerable =
        pull.kind == Pending::Kind::kPull && record.copy != CopyKind::kNone &&
        (record.is_own() || pull.clock < record.applied) &&
        SNF_RULE(kU5, pull.clock <= record.applied, true);
    const bool waits =
        record.is_busy() || SNF_RULE(kU6, flows.is_unreleased(slot), false);
    if (!is_answerable || waits || answers == kMaxAnswersPerCall) {
      link = &pull.next;
      continue;
    }
    if (pull.clock < record.applied) {
      Refuse(StateRefusal::kPullStale);
    } else {
      out.push(UnitCommand::Send(pull.peer, AnswerTo(pull, slot, flows)));
      ++answers;
    }
    flows.pending().Erase(link);
  }
  if (answers == 0) return;
  record.has_left = true;
  if (record.copy != CopyKind::kCurrent) return;
  // This may shorten the list, so the list has been gone through before.
  flows.SetCopy(
      slot, SNF_RULE(kHandedOver, CopyKind::kHandedOver, CopyKind::kReplica));
  record.due = Instant::max();
}

State Replication::MessageOf(uint32_t slot, const FlowStore& flows) const {
  const FlowRecord& record = flows[slot];
  const auto bytes = StateSchema::WithoutZeros(flows.state(slot));
  return {.flow = record.flow,
          .applied = record.applied,
          .timer = record.timer,
          .schema = schema_->hash(),
          .bytes = static_cast<uint32_t>(bytes.size()),
          .link = record.link,
          .pushed = false};
}

void Replication::PushOrExpire(Instant now, uint32_t slot, FlowStore& flows,
                               UnitOut& out) {
  const FlowRecord& record = flows[slot];
  if (record.due > now) return;
  if (record.copy == CopyKind::kReplica) {
    ++counters_.replicas_expired;
    flows.DropCopy(slot);
  } else if (record.copy == CopyKind::kCurrent) {
    Push(now, slot, flows, out);
  }
}

void Replication::Push(Instant now, uint32_t slot, FlowStore& flows,
                       UnitOut& out) {
  FlowRecord& record = flows[slot];
  record.due = Instant::max();
  // No push if the flow is not idle, or is no longer needed, or will be due
  // again at on_released. A unit that takes the flow over from a stopping unit
  // finds the state in the store.
  if (record.is_busy() || (stopping_ && !has_store_)) return;
  if (SNF_RULE(kU6, flows.is_unreleased(slot), false)) {
    return flows.NoteMissedPush();
  }
  const auto is_other = [this](UnitId unit) {
    return unit != id_ && !is_neighbour(unit);
  };
  // A state without a target is not read: to read it was 400 instructions a
  // flowlet, and seven cache lines, where one unit is enough.
  if (!has_store_ && host_ == nullptr &&
      std::ranges::none_of(flows.targets(slot), is_other)) {
    return;
  }
  State state = MessageOf(slot, flows);
  if (host_ != nullptr) Show(state, slot, flows);
  state.pushed = true;
  // Any unit of the host may take the state from now on.
  record.has_left = true;
  if (has_store_) {
    out.push(UnitCommand::Send(kNoUnit, state));
    return;
  }
  if (std::ranges::none_of(flows.targets(slot), is_other)) return;
  const auto whole = flows.state(slot);
  const uint32_t delta_bytes = bases_.MakeDelta(now, slot, state, whole);
  for (const UnitId unit : flows.targets(slot)) {
    if (!is_other(unit)) continue;
    State sent = state;
    if (delta_bytes > 0 && bases_.has(slot, unit)) {
      sent.delta = true;
      sent.bytes = delta_bytes;
    }
    out.push(UnitCommand::Send(unit, sent));
  }
  bases_.Keep(now, slot, state, whole, flows.targets(slot));
}

void Replication::AskForTimer(Instant now, uint32_t slot, FlowStore& flows,
                              UnitOut& out) {
  FlowRecord& record = flows[slot];
  if (record.copy != CopyKind::kCurrent || record.timer > now ||
      record.parked != kNone) {
    return;
  }
  PendingLists& pending = flows.pending();
  if (*pending.LinkOf(record.pending, Pending::Kind::kMyTimer) != kNone) return;
  pending.Add(record.pending, {.clock = record.applied,
                               .due = After(now, retry_after_),
                               .next = kNone,
                               .peer = kNoUnit,
                               .kind = Pending::Kind::kMyTimer,
                               .tries = 0});
  out.push(UnitCommand::Send(
      TimerDue{.flow = record.flow, .applied = record.applied, .unit = id_}));
}

void Replication::Repeat(Instant now, uint32_t slot, FlowStore& flows,
                         UnitOut& out) {
  using Kind = Pending::Kind;
  FlowRecord& record = flows[slot];
  for (uint32_t* link = &record.pending; *link != kNone;) {
    Pending& pending = flows.pending()[*link];
    if (pending.due > now || out.room() == 0) {
      link = &pending.next;
      continue;
    }
    if (pending.kind == Kind::kPull) {
      ++counters_.pulls_forgotten;
      flows.pending().Erase(link);
      continue;
    }
    uint8_t tries = pending.tries;
    pending.due = now + NextDelay(tries);
    pending.tries = tries & 0x3f;
    if (pending.kind == Kind::kMyPull) {
      ++counters_.pulls_repeated;
      SendPull(pending.peer, pending.of_logger != 0,
               {record.flow, pending.clock, id_, pending.by_bytes != 0}, out);
    } else if (pending.kind == Kind::kMyTimer) {
      ++counters_.timers_asked_again;
      out.push(UnitCommand::Send(TimerDue{
          .flow = record.flow, .applied = pending.clock, .unit = id_}));
    } else {
      ++counters_.takeovers_repeated;
      out.push(UnitCommand::Send(
          pending.peer,
          Takeover{.flow = record.flow, .clock = pending.clock, .taker = id_}));
    }
    link = &pending.next;
  }
}

Nanos Replication::NextDelay(uint8_t& tries) const {
  Nanos delay = retry_after_;
  for (int i = 0; i <= tries && delay < UnitOptions::kMaxRetryDelay; ++i) {
    delay.ns *= 2;
  }
  if (delay < UnitOptions::kMaxRetryDelay) ++tries;
  return std::min(delay, UnitOptions::kMaxRetryDelay);
}

void Replication::ArmTimer(uint32_t slot, FlowStore& flows) {
  FlowRecord& record = flows[slot];
  const bool is_current = record.copy == CopyKind::kCurrent;
  // Once a timer packet is asked for, the request's own time counts.
  const bool has_timer =
      is_current && record.timer != Instant::max() && record.parked == kNone &&
      (record.pending == kNone ||
       *flows.pending().LinkOf(record.pending, Pending::Kind::kMyTimer) ==
           kNone);
  const bool only_idle = is_current && record.pending == kNone && !has_timer &&
                         record.due != Instant::max();
  // A due time that moved on is looked at when the timer runs out: not once a
  // packet.
  if (only_idle && record.idle_armed) return;
  record.idle_armed = only_idle;
  Instant due = has_timer ? std::min(record.timer, record.due) : record.due;
  for (uint32_t p = record.pending; p != kNone; p = flows.pending()[p].next) {
    due = std::min(due, flows.pending()[p].due);
  }
  if (due == Instant::max()) {
    flows.timers().Disarm(slot);
  } else {
    flows.timers().Arm(slot, due);
  }
}

}  // namespace snf
