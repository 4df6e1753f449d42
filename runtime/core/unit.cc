// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit.h"

#include <algorithm>

#include "base/check.h"
#include "base/lazy_zero.h"
#include "runtime/core/nf_services.h"
#include "runtime/core/pending_lists.h"
#include "runtime/core/rules.h"
#include "runtime/core/unit_flow_ends.h"
#include "runtime/core/unit_limits.h"

namespace snf {

Unit::Unit(UnitId id, const UnitOptions& options, const StateSchema& schema,
           std::span<const NetworkFunction::Pool> pools)
    : id_(id),
      has_logger_(options.has_logger),
      has_store_(options.has_store),
      packets_(options.hold_packets),
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
    if (!is_resumed) node = packets_.TakeNext(flows_);
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
      UnitPackets::DropDuplicate(node, flows_.packets(), out);
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

void Unit::Hold(Instant now, uint32_t slot, uint32_t node, UnitOut& out) {
  if (packets_.Hold(now, slot, node, flows_, out)) AfterChange(now, slot, out);
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
    changes_.Log(slot, meta, flows_, out);
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
    UnitFlowEnds(flows_).DropIfForsaken(id_, slot, out);
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
  packets_.TakeHeld(slot, flows_);
  flows_.SetCopy(slot, CopyKind::kCurrent);
  record.engaged = true;
  nodes.Append(flows_.resumed(), first);
  Replication::ForgetMyPull(slot, flows_);
}

void Unit::EndIfOver(Instant now, uint32_t slot, const NfContext* env,
                     UnitOut& out) {
  UnitFlowEnds ends(flows_);
  if (!ends.IsOver(slot)) return;
  // The last packet ran here: what else is here is a copy of that.
  if (flows_[slot].is_own()) {
    if (env == nullptr) return;
    nf_.RunEnd(now, *env, slot, flows_, out);
    if (has_logger_) changes_.LogEnd(now, slot, flows_, out);
    if (has_store_) {
      out.push(UnitCommand::Send(kNoUnit, State{.flow = flows_[slot].flow}));
    }
  }
  ends.Finish(slot);
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
  const uint32_t slot = UnitFlowEnds(flows_).Await(end);
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
