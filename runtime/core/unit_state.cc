// SPDX-License-Identifier: Apache-2.0
// How a unit's copies of state come, go and are asked for.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "runtime/core/rules.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

namespace snf {
namespace {

bool IsLinkType(LinkType link) { return link <= LinkType::kLoop; }

}  // namespace

std::string_view ToString(StateRefusal refusal) {
  constexpr std::array<std::string_view, kStateRefusals> kNames = {
      "stale",       "malformed", "schema",     "future_clock", "not_taken",
      "unsolicited", "stopping",  "pull_stale", "pulls_full"};
  return kNames[static_cast<size_t>(refusal)];
}

void Unit::AfterChange(Instant now, uint32_t slot, UnitOut& out) {
  ResumeOrPull(now, slot, out);
  AnswerPulls(slot, out);
  ArmTimer(slot);
  ForgetIfEmpty(slot);
}

void Unit::ResumeOrPull(Instant now, uint32_t slot, UnitOut& out) {
  Record& record = records_[slot];
  const uint32_t first = record.held.head;
  if (first == kNone) return;
  const PacketMeta& meta = nodes_[first].meta;
  uint32_t* const my_pull = LinkOf(slot, Pending::Kind::kMyPull, kNoUnit);
  if (record.copy != Copy::kNone && IsRunnable(record, meta)) {
    nodes_.PopFront(record.held);
    --held_;
    held_payloads_ -= meta.has_payload() ? 1 : 0;
    SetCopy(slot, Copy::kCurrent);
    record.resumed = true;
    nodes_.Append(resumed_, first);
    if (*my_pull != kNone) ErasePending(my_pull);
    return;
  }
  const Clock need = meta.clock - 1;
  if (meta.source_kind != StateSource::kUnit || meta.source == id_ ||
      need == Clock{}) {
    return;
  }
  if (*my_pull != kNone) {
    if (pending_[*my_pull].clock == need) return;
    ErasePending(my_pull);
  }
  if (SNF_RULE(kU2, false, true)) return;
  AddPending(slot, {.clock = need,
                    .due = now + retry_after_,
                    .next = kNone,
                    .peer = meta.source,
                    .kind = Pending::Kind::kMyPull,
                    .tries = 0});
  out.push(UnitCommand::Send(
      meta.source, Pull{.flow = meta.flow, .need = need, .requester = id_}));
}

void Unit::AnswerPulls(uint32_t slot, UnitOut& out) {
  Record& record = records_[slot];
  size_t answers = 0;
  for (uint32_t* link = &record.pending; *link != kNone;) {
    const Pending& pull = pending_[*link];
    // A replica knows only what is past: whoever names it as a source lies, and
    // it may be gone before its state is on the way.
    const bool is_answerable =
        pull.kind == Pending::Kind::kPull && record.copy != Copy::kNone &&
        (record.is_own() || pull.clock < record.applied) &&
        SNF_RULE(kU5, pull.clock <= record.applied, true);
    if (!is_answerable || IsEngaged(slot) || answers == kMaxAnswersPerCall) {
      link = &pending_[*link].next;
      continue;
    }
    if (pull.clock < record.applied) {
      Refuse(StateRefusal::kPullStale);
    } else {
      out.push(UnitCommand::Send(pull.peer, StateMessage(slot)));
      record.has_left = true;
      if (record.copy == Copy::kCurrent) {
        SetCopy(slot, SNF_RULE(kHandedOver, Copy::kHandedOver, Copy::kReplica));
        record.due = Instant::max();
      }
      ++answers;
    }
    ErasePending(link);
  }
}

void Unit::EndIfOver(Instant now, uint32_t slot, const NfContext* env,
                     UnitOut& out) {
  const Record& record = records_[slot];
  uint32_t* const end = LinkOf(slot, Pending::Kind::kEnd, kNoUnit);
  if (*end == kNone || pending_[*end].clock > record.applied ||
      record.parked != kNone) {
    return;
  }
  // The last packet ran here: what else is here is a copy of that.
  if (record.is_own()) {
    if (env == nullptr) return;
    RunNfEnd(now, *env, slot, out);
  }
  ErasePending(end);
  DropCopy(slot);
}

State Unit::StateMessage(uint32_t slot) const {
  const Record& record = records_[slot];
  const auto bytes = StateSchema::WithoutZeros(StateOf(slot));
  return {.flow = record.flow,
          .applied = record.applied,
          .timer = record.timer,
          .schema = schema_->hash(),
          .bytes = static_cast<uint32_t>(bytes.size()),
          .link = record.link,
          .pushed = false};
}

void Unit::on_pull(Instant now, const Pull& pull, UnitOut& out) {
  using Kind = Pending::Kind;
  if (pull.flow == kNoFlow || pull.need == Clock{} || pull.requester == id_ ||
      pull.requester == kNoUnit) {
    Refuse(StateRefusal::kMalformed);
    return;
  }
  const uint32_t slot = FindOrAdd(pull.flow);
  const Instant due =
      retry_after_ == Nanos::max() ? Instant::max() : now + kPullLifetime;
  if (const uint32_t p = *LinkOfPull(slot, pull); p != kNone) {
    pending_[p].due = due;
  } else {
    AddPending(slot, {.clock = pull.need,
                      .due = due,
                      .next = kNone,
                      .peer = pull.requester,
                      .kind = Kind::kPull,
                      .tries = 0});
  }
  AfterChange(now, slot, out);
  // Only what has to wait needs room: others are answered all the same.
  if (pulls_waiting_ > max_waiting_ || PullsOf(slot) > kMaxPullsPerFlow) {
    Refuse(StateRefusal::kPullsFull);
    ErasePending(LinkOfPull(slot, pull));
    ForgetIfEmpty(slot);
  }
  PushStoppedIfDone(out);
}

bool Unit::IsSound(const State& state,
                   std::span<const std::byte> record) const {
  return state.flow != kNoFlow && state.applied != Clock{} &&
         IsLinkType(state.link) && record.size() == state.bytes &&
         !(state.pushed && state.timer != Instant::max());
}

StateRefusal Unit::Judge(const State& state,
                         std::span<const std::byte> record) const {
  if (!IsSound(state, record)) return StateRefusal::kMalformed;
  if (state.schema != schema_->hash()) return StateRefusal::kSchema;
  if (!schema_->IsWellFormed(record)) return StateRefusal::kMalformed;
  if (stopping_ && state.pushed) return StateRefusal::kStopping;
  const uint32_t slot = Find(state.flow);
  if (slot == FlowIndex::kNotFound) {
    return state.pushed ? StateRefusal::kCount : StateRefusal::kUnsolicited;
  }
  const Record& copy = records_[slot];
  if (copy.copy != Copy::kNone &&
      SNF_RULE(kU4, state.applied <= copy.applied, false)) {
    return StateRefusal::kStale;
  }
  if (IsEngaged(slot)) return StateRefusal::kFutureClock;
  const uint32_t first = copy.held.head;
  const bool is_awaited =
      first != kNone && state.applied + 1 == nodes_[first].meta.clock;
  if (first != kNone && state.applied >= nodes_[first].meta.clock) {
    return StateRefusal::kFutureClock;
  }
  if (is_awaited) return StateRefusal::kCount;
  if (!state.pushed) return StateRefusal::kUnsolicited;
  return SNF_RULE(kU4, copy.is_own(), false) ? StateRefusal::kNotTaken
                                             : StateRefusal::kCount;
}

void Unit::on_state(Instant now, const State& state,
                    std::span<const std::byte> record, UnitOut& out) {
  const StateRefusal refusal = Judge(state, record);
  if (refusal != StateRefusal::kCount) {
    Refuse(refusal);
    return;
  }
  const uint32_t slot = FindOrAdd(state.flow);
  Record& copy = records_[slot];
  const auto rest = std::ranges::copy(record, StateOf(slot).begin()).out;
  std::fill(rest, StateOf(slot).end(), std::byte{0});
  // What is awaited becomes current at once; all else is a cache, also where an
  // older copy was more than that.
  SetCopy(slot, Copy::kReplica);
  copy.due = now + replica_lifetime_;
  copy.has_left = false;
  counters_.replicas_taken += state.pushed ? 1 : 0;
  copy.applied = state.applied;
  // A timer that is long past could be one that sets itself again and again
  // until now.
  copy.timer = std::max(state.timer, now + Nanos{-kMaxTimerLag.ns});
  copy.link = state.link;
  EndIfOver(now, slot, nullptr, out);
  AfterChange(now, slot, out);
  while (replicas_ > max_replicas_) {
    const uint32_t oldest = oldest_replica_;
    ++counters_.replicas_evicted;
    DropCopy(oldest);
    ArmTimer(oldest);
    ForgetIfEmpty(oldest);
  }
  PushStoppedIfDone(out);
}

void Unit::TellTakeover(Instant now, uint32_t slot, const PacketMeta& meta,
                        UnitOut& out) {
  const Takeover takeover = {
      .flow = meta.flow, .clock = meta.clock, .taker = id_};
  out.push(UnitCommand::Send(meta.source, takeover));
  out.push(UnitCommand::Report(takeover));
  uint32_t* const told = LinkOf(slot, Pending::Kind::kMyTook, meta.source);
  if (*told != kNone) ErasePending(told);
  if (takeovers_waiting_ == max_tooks_) {
    ++counters_.takeovers_said_once;
    return;
  }
  AddPending(slot, {.clock = meta.clock,
                    .due = now + retry_after_,
                    .next = kNone,
                    .peer = meta.source,
                    .kind = Pending::Kind::kMyTook,
                    .tries = 0});
}

void Unit::on_takeover(Instant now, const Takeover& takeover, UnitOut& out) {
  if (takeover.taker == id_ || takeover.taker == kNoUnit) {
    Refuse(StateRefusal::kMalformed);
    return;
  }
  out.push(UnitCommand::Send(
      takeover.taker,
      TakeoverAck{
          .flow = takeover.flow, .clock = takeover.clock, .sender = id_}));
  const uint32_t slot = Find(takeover.flow);
  if (slot == FlowIndex::kNotFound) return;
  Record& record = records_[slot];
  // Its source ran the clock before, and sent what that left.
  if (record.is_own() && takeover.clock > record.applied &&
      (takeover.clock > record.applied + 1 || !record.has_left)) {
    Refuse(StateRefusal::kFutureClock);
    return;
  }
  // Pulls of what the taker has gone past.
  for (uint32_t* link = &record.pending; *link != kNone;) {
    const Pending& pending = pending_[*link];
    if (pending.kind == Pending::Kind::kPull &&
        pending.clock < takeover.clock) {
      Refuse(StateRefusal::kPullStale);
      ErasePending(link);
    } else {
      link = &pending_[*link].next;
    }
  }
  if (record.copy != Copy::kNone && !IsEngaged(slot) &&
      SNF_RULE(kU7, record.applied < takeover.clock, true)) {
    DropCopy(slot);
  }
  AfterChange(now, slot, out);
  PushStoppedIfDone(out);
}

void Unit::on_takeover_ack(Instant now, const TakeoverAck& ack, UnitOut& out) {
  if (ack.sender == id_ || ack.sender == kNoUnit) {
    Refuse(StateRefusal::kMalformed);
    return;
  }
  const uint32_t slot = Find(ack.flow);
  if (slot == FlowIndex::kNotFound) return;
  uint32_t* const told = LinkOf(slot, Pending::Kind::kMyTook, ack.sender);
  if (*told == kNone || pending_[*told].clock > ack.clock) return;
  ErasePending(told);
  AfterChange(now, slot, out);
  PushStoppedIfDone(out);
}

void Unit::on_timers(Instant now, NfContext env, UnitOut& out) {
  for (int i = 0; i < kMaxTimersPerCall; ++i) {
    if (out.room() < kMaxUnitCommandsPerCall) break;
    const uint32_t slot = timers_.PopDue(now);
    if (slot == TimingWheel::kNone) break;
    Record& record = records_[slot];
    record.idle_armed = false;
    if (record.copy == Copy::kReplica && record.due <= now) {
      ++counters_.replicas_expired;
      DropCopy(slot);
    } else if (record.copy == Copy::kCurrent) {
      // What a timer emits must not overtake a packet that waits.
      if (record.timer <= now && record.parked == kNone) {
        RunNfTimer(now, env, slot, out);
      } else if (record.due <= now) {
        PushState(slot, out);
      }
    }
    RepeatPending(now, slot, out);
    ArmTimer(slot);
    ForgetIfEmpty(slot);
  }
  PushStoppedIfDone(out);
}

void Unit::PushState(uint32_t slot, UnitOut& out) {
  Record& record = records_[slot];
  record.due = Instant::max();
  // Not idle, or soon to change without a clock, or of no use any more.
  if (IsEngaged(slot) || record.timer != Instant::max() || stopping_) {
    return;
  }
  State state = StateMessage(slot);
  state.pushed = true;
  for (const UnitId unit : std::span(ReplicasOf(slot), record.replicas)) {
    if (unit == id_) continue;
    out.push(UnitCommand::Send(unit, state));
    record.has_left = true;
  }
}

void Unit::RepeatPending(Instant now, uint32_t slot, UnitOut& out) {
  using Kind = Pending::Kind;
  Record& record = records_[slot];
  for (uint32_t* link = &record.pending; *link != kNone;) {
    Pending& pending = pending_[*link];
    uint32_t* const next = &pending.next;
    if (pending.due > now || out.room() == 0) {
      link = next;
      continue;
    }
    if (pending.kind == Kind::kPull) {
      ++counters_.pulls_forgotten;
      ErasePending(link);
      continue;
    }
    pending.due = now + NextDelay(pending.tries);
    if (pending.kind == Kind::kMyPull) {
      ++counters_.pulls_repeated;
      out.push(UnitCommand::Send(
          pending.peer,
          Pull{.flow = record.flow, .need = pending.clock, .requester = id_}));
    } else {
      ++counters_.takeovers_repeated;
      out.push(UnitCommand::Send(
          pending.peer,
          Takeover{.flow = record.flow, .clock = pending.clock, .taker = id_}));
    }
    link = next;
  }
}

Nanos Unit::NextDelay(uint8_t& tries) const {
  Nanos delay = retry_after_;
  for (int i = 0; i <= tries && delay < UnitOptions::kMaxRetryDelay; ++i) {
    delay.ns *= 2;
  }
  if (delay < UnitOptions::kMaxRetryDelay) ++tries;
  return std::min(delay, UnitOptions::kMaxRetryDelay);
}

void Unit::ArmTimer(uint32_t slot) {
  Record& record = records_[slot];
  const bool is_current = record.copy == Copy::kCurrent;
  // While a timer is pending, there is no push.
  const bool has_timer =
      is_current && record.timer != Instant::max() && record.parked == kNone;
  const bool only_idle = is_current && record.pending == kNone && !has_timer &&
                         record.due != Instant::max();
  // A due time that moved on is looked at when the timer runs out: not once a
  // packet.
  if (only_idle && record.idle_armed) return;
  record.idle_armed = only_idle;
  Instant due = has_timer ? record.timer : record.due;
  for (uint32_t p = record.pending; p != kNone; p = pending_[p].next) {
    due = std::min(due, pending_[p].due);
  }
  if (due == Instant::max()) {
    timers_.Disarm(slot);
  } else {
    timers_.Arm(slot, due);
  }
}

uint32_t* Unit::LinkOf(uint32_t slot, Pending::Kind kind, UnitId peer) {
  uint32_t* link = &records_[slot].pending;
  while (*link != kNone &&
         (pending_[*link].kind != kind ||
          (peer != kNoUnit && pending_[*link].peer != peer))) {
    link = &pending_[*link].next;
  }
  return link;
}

size_t Unit::PullsOf(uint32_t slot) const {
  size_t pulls = 0;
  for (uint32_t p = records_[slot].pending; p != kNone; p = pending_[p].next) {
    pulls += pending_[p].kind == Pending::Kind::kPull ? 1 : 0;
  }
  return pulls;
}

uint32_t* Unit::LinkOfPull(uint32_t slot, const Pull& pull) {
  uint32_t* link = &records_[slot].pending;
  while (*link != kNone && (pending_[*link].kind != Pending::Kind::kPull ||
                            pending_[*link].peer != pull.requester ||
                            pending_[*link].clock != pull.need)) {
    link = &pending_[*link].next;
  }
  return link;
}

void Unit::AddPending(uint32_t slot, const Pending& pending) {
  uint32_t p = free_pending_;
  if (p != kNone) {
    free_pending_ = pending_[p].next;
  } else {
    SNF_CHECK(pending_used_ < pending_.size());
    p = pending_used_++;
  }
  pending_[p] = pending;
  pending_[p].next = records_[slot].pending;
  records_[slot].pending = p;
  pulls_waiting_ += pending.kind == Pending::Kind::kPull ? 1 : 0;
  takeovers_waiting_ += pending.kind == Pending::Kind::kMyTook ? 1 : 0;
}

void Unit::ErasePending(uint32_t* link) {
  const uint32_t p = *link;
  Pending& pending = pending_[p];
  pulls_waiting_ -= pending.kind == Pending::Kind::kPull ? 1 : 0;
  takeovers_waiting_ -= pending.kind == Pending::Kind::kMyTook ? 1 : 0;
  *link = pending.next;
  pending.next = free_pending_;
  free_pending_ = p;
}

}  // namespace snf
