// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit.h"

#include <algorithm>

#include "base/check.h"
#include "base/lazy_zero.h"
#include "runtime/core/nf_services.h"
#include "runtime/core/pending_lists.h"
#include "runtime/core/rules.h"
#include "runtime/core/unit_limits.h"

namespace snf {

Unit::Unit(UnitId id, const UnitOptions& options, const StateSchema& schema,
           std::span<const NetworkFunction::Pool> pools)
    : id_(id),
      hold_packets_(options.hold_packets),
      has_logger_(options.has_logger),
      has_store_(options.has_store),
      flows_(options, schema),
      replication_(id, options, schema),
      nf_(id, options, schema, pools) {}

bool Unit::begin(Instant now, UnitOut& out) {
  SNF_CHECK(!busy());
  is_cut_short_ = false;
  while (true) {
    if (out.room() < kMaxUnitCommandsPerCall) {
      is_cut_short_ = true;
      return false;
    }
    if (nf_.pieces().can_return()) [[unlikely]] {
      nf_.pieces().ReturnReclaimed(out);
      continue;
    }
    uint32_t node = flows_.packets().PopFront(flows_.resumed());
    const bool is_resumed = node != kNone;
    if (!is_resumed) {
      PrefetchAhead();
      node = flows_.packets().PopFront(inbox_);
    }
    if (node == kNone) {
      PushStoppedIfDone(out);
      return false;
    }
    const PacketMeta& meta = flows_.packets()[node].meta;
    const uint32_t slot = flows_.FindOrAdd(meta.flow);
    FlowRecord& record = flows_[slot];
    if (is_resumed) record.engaged = false;
    if ((meta.flags & PacketMeta::kFirstOfFlowlet) != 0) {
      flows_.on_first_of_flowlet(slot, meta.flowlet);
    }
    // A replica from the future is a lie, and no reason to drop a packet.
    if (record.copy == CopyKind::kReplica && meta.clock <= record.applied) {
      flows_.DropCopy(slot);
    }
    if (meta.clock <= record.applied) {
      DropDuplicate(node, out);
      flows_.ForgetIfEmpty(slot);
    } else if (IsRunnable(record, meta) ||
               replication_.TakeShown(now, meta, slot, flows_)) {
      TakeIntoService(now, slot, node);
      return true;
    } else {
      Hold(now, slot, node, out);
    }
  }
}

bool Unit::Resume(Instant now, UnitOut& out) {
  if (is_cut_short_) return begin(now, out);
  nf_.pieces().ReturnReclaimed(out);
  PushStoppedIfDone(out);
  return false;
}

// Brings in what the next packets need; the first of them is about to be
// taken.
void Unit::PrefetchAhead() {
  for (; prefetched_ <= kPrefetchPackets && ahead_ != kNone; ++prefetched_) {
    const PacketNode& node = flows_.packets()[ahead_];
    ahead_ = node.next;
    flows_.PrefetchRecord(node.meta.flow);
  }
  if (prefetched_ > 0) --prefetched_;
}

bool Unit::IsRunnable(const FlowRecord& record, const PacketMeta& meta) {
  if (record.copy == CopyKind::kNone) {
    return meta.clock == Clock{1} && meta.source_kind == StateSource::kNone;
  }
  return SNF_RULE(kU1, meta.clock == record.applied + 1, true) &&
         record.parked == kNone;
}

void Unit::TakeIntoService(Instant now, uint32_t slot, uint32_t node) {
  FlowRecord& record = flows_[slot];
  if (record.copy != CopyKind::kCurrent) {
    if (record.copy == CopyKind::kNone) {
      ZeroLazily(flows_.state(slot));
    }
    flows_.SetCopy(slot, CopyKind::kCurrent);
  }
  record.engaged = true;
  in_service_ = node;
  in_service_slot_ = slot;
  const Instant since = flows_.packets()[node].held_since;
  in_service_wait_ = since == Instant::max() ? kNeverHeld : now - since;
}

const PacketNode* Unit::held(FlowId flow) const {
  const uint32_t slot = flows_.Find(flow);
  if (slot == kNone || flows_[slot].held.head == kNone) return nullptr;
  return &flows_.packets()[flows_[slot].held.head];
}

void Unit::DropDuplicate(uint32_t node, UnitOut& out) {
  const PacketNode& n = flows_.packets()[node];
  UnitCommand drop =
      UnitCommand::OfPacket(UnitCommand::Kind::kDrop, n.packet, n.meta);
  // A packet without payload cannot be dropped, only applied.
  if (!drop.meta.has_payload()) drop.kind = UnitCommand::Kind::kAdvance;
  drop.reason = DropReason::kDuplicateClock;
  out.push(drop);
  flows_.packets().Free(node);
}

// The node stays as a tombstone.
void Unit::DropPayload(PacketNode& node, DropReason reason, UnitOut& out) {
  UnitCommand drop = UnitCommand::OfPacket(UnitCommand::Kind::kDropPayload,
                                           node.packet, node.meta);
  drop.reason = reason;
  out.push(drop);
  node.packet = kNoPacket;
  node.meta.flags |= PacketMeta::kTombstone;
}

void Unit::Hold(Instant now, uint32_t slot, uint32_t node, UnitOut& out) {
  PacketNodes& nodes = flows_.packets();
  PacketList& held = flows_[slot].held;
  PacketNode& n = nodes[node];
  const Clock clock = n.meta.clock;
  if (held.tail == kNone || nodes[held.tail].meta.clock < clock) {
    // The rule, since clocks of one flow come through the channel in order.
    nodes.Append(held, node);
  } else {
    uint32_t* link = &held.head;
    while (nodes[*link].meta.clock < clock) link = &nodes[*link].next;
    if (nodes[*link].meta.clock == clock) {
      DropDuplicate(node, out);
      return;
    }
    n.next = *link;
    *link = node;
  }
  ++held_;
  if (n.held_since == Instant::max()) n.held_since = now;
  if (n.meta.has_payload() && held_payloads_ >= hold_packets_) {
    DropPayload(n, DropReason::kHoldOverflow, out);
  }
  held_payloads_ += n.meta.has_payload() ? 1 : 0;
  AfterChange(now, slot, out);
}

void Unit::finish(Instant now, NfContext env, UnitOut& out) {
  SNF_CHECK(busy() && out.room() >= kMaxUnitCommandsPerCall);
  const uint32_t node = in_service_;
  const uint32_t slot = in_service_slot_;
  const PacketMeta& meta = flows_.packets()[node].meta;
  nf_.pieces().ClearTaken();
  NfCalls::Outcome outcome(UnitCommand::Kind::kAdvance);
  if (has_logger_) [[unlikely]]
    nf_.BeginEntry();
  if (meta.has_payload()) [[likely]] {
    outcome = nf_.Process(now, env, slot, node, flows_, out);
  } else if (meta.runs_timer()) {
    nf_.RunTimer(env, slot, meta, flows_, out);
  }

  in_service_ = kNone;
  if (outcome.kind() == UnitCommand::Kind::kWait) [[unlikely]]
    return;
  FlowRecord& record = flows_[slot];
  record.applied = meta.clock;
  record.engaged = false;
  record.waited = false;
  record.ran_here = true;
  record.has_left = false;
  if (record.parked != kNone) [[unlikely]] {
    replication_.ArmTimer(slot, flows_);
    return;
  }
  Complete(now, slot, outcome, node, env, out);
}

// Releases the packet from the unit, and continues with the flow.
[[gnu::always_inline]] inline void Unit::Complete(Instant now, uint32_t slot,
                                                  NfCalls::Outcome outcome,
                                                  uint32_t node, NfContext env,
                                                  UnitOut& out) {
  const PacketMeta& meta = flows_.packets()[node].meta;
  FlowRecord& record = flows_[slot];
  replication_.on_change(now, record);
  out.push_made([&] {
    return UnitCommand{.kind = outcome.kind(),
                       .reason = outcome.reason(),
                       .nf_reason = outcome.nf_reason(),
                       .packet = flows_.packets()[node].packet,
                       .meta = meta};
  });
  if (has_logger_) [[unlikely]]
    Log(slot, meta, out);
  if (TakesOver(meta) && SNF_RULE(kU13, !has_logger_, true)) {
    replication_.TellTakeover(now, meta, slot, flows_, out);
  }
  flows_.packets().Free(node);
  if (record.pending != kNone || record.held.head != kNone) {
    flows_.ForgetTimerRequest(slot);
    EndIfOver(now, slot, &env, out);
    AfterChange(now, slot, out);
  } else {
    replication_.ArmTimer(slot, flows_);
  }
  if (stopping_) [[unlikely]]
    PushStoppedIfDone(out);
}

void Unit::Log(uint32_t slot, const PacketMeta& meta, UnitOut& out) {
  is_whole_ = flows_.AddEntry(slot);
  logged_slot_ = slot;
  out.push(UnitCommand::OfPacket(UnitCommand::Kind::kLog, kNoPacket, meta));
}

void Unit::LogEnd(Instant now, uint32_t slot, UnitOut& out) {
  is_whole_ = flows_.AddEntry(slot);
  logged_slot_ = kNone;
  out.push(
      UnitCommand::OfPacket(UnitCommand::Kind::kLog, kNoPacket,
                            {.flow = flows_[slot].flow,
                             .clock = flows_[slot].applied + 1,
                             .arrival = now,
                             .flags = PacketMeta::kNull | PacketMeta::kEnd}));
}

Unit::Change Unit::change() const {
  if (logged_slot_ == kNone) return {.is_whole = is_whole_};
  if (is_whole_) return ChangeOf(logged_slot_);
  // The record is not looked at: most of it may be far.
  const FlowRecord& record = flows_[logged_slot_];
  return {.is_whole = false,
          .clock = record.applied,
          .timer = record.timer,
          .link = record.link,
          .bytes = nf_.delta()};
}

Unit::Change Unit::ChangeOf(uint32_t slot) const {
  const FlowRecord& record = flows_[slot];
  return {.is_whole = true,
          .clock = record.applied,
          .timer = record.timer,
          .link = record.link,
          .bytes = StateSchema::WithoutZeros(flows_.state(slot))};
}

Unit::Change Unit::whole(FlowId flow) const {
  const uint32_t slot = flows_.Find(flow);
  const bool is_settled =
      slot != kNone && flows_[slot].is_own() && flows_[slot].parked == kNone;
  return is_settled ? ChangeOf(slot) : Change{};
}

void Unit::on_released(Instant now, const PacketMeta& meta, NfContext env,
                       UnitOut& out) {
  const uint32_t slot = flows_.Find(meta.flow);
  SNF_CHECK(slot != kNone && flows_.is_unreleased(slot));
  flows_.ReleaseEntry(slot);
  if (TakesOver(meta) && SNF_RULE(kU13, true, false)) {
    replication_.TellTakeover(now, meta, slot, flows_, out);
  }
  if (!flows_.is_unreleased(slot)) replication_.on_released(now, flows_[slot]);
  EndIfOver(now, slot, &env, out);
  AfterChange(now, slot, out);
  PushStoppedIfDone(out);
}

void Unit::on_pieces_released(const PieceBlock& pieces, UnitOut& out) {
  nf_.on_pieces_released(pieces, flows_, out);
  PushStoppedIfDone(out);
}

void Unit::AfterChange(Instant now, uint32_t slot, UnitOut& out) {
  if (flows_[slot].pending != kNone) [[unlikely]]
    DropForsakenCopy(slot, out);
  if (flows_[slot].held.head != kNone) ResumeOrPull(now, slot, out);
  if (flows_[slot].pending != kNone) {
    replication_.AnswerPulls(slot, flows_, out);
  }
  replication_.ArmTimer(slot, flows_);
  flows_.ForgetIfEmpty(slot);
}

void Unit::ResumeOrPull(Instant now, uint32_t slot, UnitOut& out) {
  FlowRecord& record = flows_[slot];
  const uint32_t first = record.held.head;
  PacketNodes& nodes = flows_.packets();
  const PacketMeta& meta = nodes[first].meta;
  if (record.copy == CopyKind::kNone || !IsRunnable(record, meta)) {
    replication_.PullFor(now, meta, slot, flows_, out);
    return;
  }
  nodes.PopFront(record.held);
  --held_;
  held_payloads_ -= meta.has_payload() ? 1 : 0;
  flows_.SetCopy(slot, CopyKind::kCurrent);
  record.engaged = true;
  nodes.Append(flows_.resumed(), first);
  Replication::ForgetMyPull(slot, flows_);
}

void Unit::EndIfOver(Instant now, uint32_t slot, const NfContext* env,
                     UnitOut& out) {
  FlowRecord& record = flows_[slot];
  PendingLists& pending = flows_.pending();
  uint32_t* const end = pending.LinkOf(record.pending, Pending::Kind::kEnd);
  if (*end == kNone || pending[*end].clock > record.applied ||
      record.parked != kNone ||
      SNF_RULE(kU13, flows_.is_unreleased(slot), false)) {
    return;
  }
  // The last packet ran here: what else is here is a copy of that.
  if (record.is_own()) {
    if (env == nullptr) return;
    nf_.RunEnd(now, *env, slot, flows_, out);
    if (has_logger_) LogEnd(now, slot, out);
    if (has_store_) {
      out.push(UnitCommand::Send(kNoUnit, State{.flow = record.flow}));
    }
  }
  pending.Erase(end);
  flows_.DropCopy(slot);
  flows_.on_over(slot);
}

void Unit::on_pull(Instant now, const Pull& pull, UnitOut& out) {
  const uint32_t slot = replication_.on_pull(now, pull, flows_);
  if (slot == kNone) return;
  AfterChange(now, slot, out);
  replication_.RefuseExcess(pull, slot, flows_);
  PushStoppedIfDone(out);
}

void Unit::on_state(Instant now, const State& state,
                    std::span<const std::byte> record, UnitOut& out) {
  const uint32_t slot =
      state.named ? replication_.on_named_state(now, state, flows_, out)
                  : replication_.on_state(now, state, record, flows_);
  if (slot == kNone) return;
  if (flows_[slot].pending != kNone) EndIfOver(now, slot, nullptr, out);
  AfterChange(now, slot, out);
  replication_.EvictReplicas(flows_);
  PushStoppedIfDone(out);
}

void Unit::on_takeover(Instant now, const Takeover& takeover, UnitOut& out) {
  const uint32_t slot = replication_.on_takeover(takeover, flows_, out);
  if (slot == kNone) return;
  AfterChange(now, slot, out);
  PushStoppedIfDone(out);
}

void Unit::on_takeover_ack(Instant now, const TakeoverAck& ack, UnitOut& out) {
  const uint32_t slot = replication_.on_takeover_ack(ack, flows_, out);
  if (slot == kNone) return;
  AfterChange(now, slot, out);
  PushStoppedIfDone(out);
}

void Unit::on_alias_ack(Instant now, const AliasAck& ack, NfContext env,
                        UnitOut& out) {
  const uint32_t slot = flows_.Find(ack.flow);
  if (slot == kNone) return;
  const uint32_t node = flows_[slot].parked;
  if (node == kNone || flows_.packets()[node].meta.clock != ack.clock) return;
  flows_[slot].parked = kNone;
  nf_.BeginEntry();
  const NfCalls::Outcome outcome =
      nf_.on_alias_ack(now, ack.result, env, slot, node, flows_, out);
  // Other packets have run since, and left their own delta.
  flows_.MakeWhole(slot);
  Complete(now, slot, outcome, node, env, out);
}

void Unit::on_pieces(Instant /*now*/, const PieceBlock& pieces, UnitOut& out) {
  nf_.on_pieces(pieces, flows_, out);
  PushStoppedIfDone(out);
}

void Unit::on_reclaim(uint16_t pool, UnitOut& out) {
  if (pool >= nf_.pieces().pools()) return;
  nf_.pieces().Reclaim(pool);
  nf_.pieces().ReturnReclaimed(out);
  PushStoppedIfDone(out);
}

void Unit::on_end_flow(Instant now, const EndFlow& end, NfContext env,
                       UnitOut& out) {
  const uint32_t slot = flows_.FindOrAdd(end.flow);
  PendingLists& pending = flows_.pending();
  uint32_t& head = flows_[slot].pending;
  if (*pending.LinkOf(head, Pending::Kind::kEnd) == kNone) {
    pending.Add(head, {.clock = end.last,
                       .due = Instant::max(),
                       .next = kNone,
                       .peer = kNoUnit,
                       .kind = Pending::Kind::kEnd,
                       .tries = 0});
  }
  EndIfOver(now, slot, &env, out);
  AfterChange(now, slot, out);
  PushStoppedIfDone(out);
}

void Unit::on_stop(UnitOut& out) {
  stopping_ = true;
  replication_.on_stop();
  nf_.on_stop();
  PushStoppedIfDone(out);
}

void Unit::on_start() {
  stopping_ = stopped_ = false;
  replication_.on_start();
  nf_.on_start();
}

void Unit::PushStoppedIfDone(UnitOut& out) {
  if (!stopping_) return;
  UnitPieces& pieces = nf_.pieces();
  // Packets that can run may take some of them.
  if (is_idle()) pieces.ReturnSpare(out);
  if (stopped_ || flows_.packets().used() > 0) return;
  if (flows_.unreleased() > 0) return;
  if (SNF_RULE(kU8, flows_.own_copies() + flows_.pending().takeovers() > 0,
               false)) {
    return;
  }
  if (pieces.spare() + pieces.requests() + pieces.reclaims() > 0) return;
  stopped_ = true;
  flows_.ForgetAll();
  out.push(UnitCommand::Stopped());
}

// Returns whether there was one.
bool Unit::CancelDueTimer(Instant now, FlowRecord& record) {
  if (record.copy != CopyKind::kCurrent || record.timer > now ||
      record.parked != kNone) {
    return false;
  }
  record.timer = Instant::max();
  return true;
}

void Unit::on_timers(Instant now, UnitOut& out) {
  replication_.BeginTimers();
  for (int i = 0; i < kMaxTimersPerCall; ++i) {
    if (out.room() < kMaxUnitCommandsPerCall) break;
    const uint32_t slot = flows_.timers().PopDue(now);
    if (slot == TimingWheel::kNone) break;
    FlowRecord& record = flows_[slot];
    record.idle_armed = false;
    if (stops_timers_) [[unlikely]] {
      timers_left_ += CancelDueTimer(now, record) ? 1 : 0;
      // A request that is open may never be answered, and is not said again.
      PendingLists& pending = flows_.pending();
      uint32_t* const link =
          pending.LinkOf(record.pending, Pending::Kind::kMyTimer);
      if (*link != kNone) pending.Erase(link);
    } else {
      replication_.AskForTimer(now, slot, flows_, out);
    }
    replication_.PushOrExpire(now, slot, flows_, out);
    replication_.Repeat(now, slot, flows_, out);
    replication_.ArmTimer(slot, flows_);
    flows_.ForgetIfEmpty(slot);
  }
  PushStoppedIfDone(out);
}

std::span<const std::byte> Unit::state_bytes(FlowId flow) const {
  const uint32_t slot = flows_.Find(flow);
  SNF_CHECK(slot != kNone);
  return flows_.state(slot);
}

const Alias& Unit::alias(FlowId flow) const {
  const uint32_t slot = flows_.Find(flow);
  SNF_CHECK(slot != kNone && flows_[slot].parked != kNone);
  return nf_.alias(flows_[slot].parked);
}

}  // namespace snf
