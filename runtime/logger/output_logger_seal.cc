// SPDX-License-Identifier: Apache-2.0
// Parts of OutputLogger: the record of pieces, the messages kept for the
// controller, taking over from another logger, and standing in for a failed
// unit.
#include <algorithm>

#include "base/check.h"
#include "runtime/logger/logger_rules.h"
#include "runtime/logger/output_logger.h"

namespace snf {

using Kind = LoggerCommand::Kind;

// --- Pieces. ---

bool OutputLogger::TakeBlock(const LogEntry& entry) {
  const PieceBlock& block = entry.block;
  if (!pieces_.Exist(block)) return false;
  if (entry.number <= kept_through_) return true;
  return entry.kind == LogEntry::Kind::kGrant
             ? pieces_.Grant(block, entry.argument)
             : pieces_.Return(block);
}

// --- What the controller is to hear. ---

void OutputLogger::KeepTell(const LogEntry& entry) {
  if (entry.number <= told_) return;
  if (!SNF_LOGGER_RULE(kKeepUntilTold, true)) return;
  LoggerTell tell = {.number = entry.number,
                     .note = {.flow = entry.meta.flow,
                              .clock = entry.meta.clock,
                              .idle_timeout = entry.idle_timeout,
                              .over = entry.is(LogEntry::kOver)},
                     .is_return = entry.kind == LogEntry::Kind::kReturn,
                     .ended = entry.is(LogEntry::kEnd)};
  if (tell.is_return) tell.pieces = entry.block;
  tells_[(first_tell_ + tell_count_) % options_.max_tells] = tell;
  ++tell_count_;
}

void OutputLogger::on_told(uint64_t number) {
  told_ = std::max(told_, number);
  while (tell_count_ > 0 && tells_[first_tell_].number <= told_) {
    first_tell_ = (first_tell_ + 1) % options_.max_tells;
    --tell_count_;
  }
}

// --- A new logger (F8). ---

bool OutputLogger::Restore(std::span<const std::byte> bytes) {
  const auto entry = LogEntryView::Parse(limits_, bytes);
  if (!entry.has_value() || !restoring_ ||
      (*entry)->incarnation != incarnation_) {
    return false;
  }
  const PieceBlock& block = (*entry)->block;
  switch ((*entry)->kind) {
    case LogEntry::Kind::kGrant:
      return pieces_.Restore(block, (*entry)->argument);
    case LogEntry::Kind::kReturn:
      return pieces_.Exist(block) && RestoreTell(**entry);
    case LogEntry::Kind::kClock:
      return (*entry)->is(LogEntry::kWhole) ? RestoreFlow(*entry)
                                            : RestoreTell(**entry);
    case LogEntry::Kind::kUpdates:
      return RestoreUpdates(*entry);
    default:
      return false;
  }
}

bool OutputLogger::RestoreTell(const LogEntry& entry) {
  if (!entry.tells() || tell_count_ == options_.max_tells) return false;
  KeepTell(entry);
  return true;
}

bool OutputLogger::RestoreUpdates(const LogEntryView& entry) {
  if (entry->update_bytes() > 0) {
    if (!updates_.Follows(entry.updates())) return false;
    if (SNF_LOGGER_RULE(kUpdatesHandedOver, true)) {
      updates_.Add(entry->number, entry.updates());
    }
    return true;
  }
  const uint16_t table = entry->block.pool;
  if (table >= updates_.tables() || !updates_.updates(table).empty()) {
    return false;
  }
  updates_.BeginBehind(table, entry->block.mask);
  return true;
}

bool OutputLogger::RestoreFlow(const LogEntryView& entry) {
  uint32_t slot = flows_.Find(entry->meta.flow);
  if (slot != kNone || entry->base > entry->state ||
      ApplyState(entry, slot) != Result::kTaken) {
    return false;
  }
  flows_[slot].released = entry->base;
  flows_[slot].ended = entry->is(LogEntry::kEnd);
  return true;
}

void OutputLogger::EndRestore(uint64_t released, uint64_t made) {
  SNF_CHECK(restoring_ && released <= made);
  restoring_ = false;
  was_sealed_ = true;  // the logger before may have been
  last_ = asked_ = released;
  kept_through_ = made;
}

// --- Standing in for a unit that failed. ---

void OutputLogger::Seal() {
  if (sealed_) return;
  sealed_ = was_sealed_ = true;
  phase_ = Phase::kTells;
  at_ = 0;
  pool_ = 0;
}

void OutputLogger::Report() {
  SNF_CHECK(was_sealed_);
  // A report that has not reached the flows yet will list them anyway.
  if (phase_ < Phase::kFlows) return;
  phase_ = Phase::kFlows;
  at_ = 0;
}

void OutputLogger::Begin(uint32_t incarnation) {
  SNF_CHECK(sealed_ && phase_ == Phase::kDone);
  sealed_ = broken_ = false;
  incarnation_ = incarnation;
  restoring_ = false;
  if (!SNF_LOGGER_RULE(kUpdatesThrough, true)) {
    for (uint16_t i = 0; i < updates_.tables(); ++i) {
      updates_.on_merged(i, {incarnation, 0});
    }
  }
  updates_.Begin(incarnation);
  last_ = asked_ = kept_through_ = told_ = lost_entries_ = 0;
  first_tell_ = tell_count_ = 0;
  pieces_.Begin();
}

bool OutputLogger::has_more() const {
  if (phase_ != Phase::kDone) return true;
  return !broken_ && !waiting_.empty() && waiting_.Has(last_ + 1) &&
         tell_count_ < options_.max_tells && !MustHoldUpdates();
}

void OutputLogger::Resume(LoggerOut& out) {
  if (!sealed_) Drain(out);
  while (phase_ != Phase::kDone && out.room() >= kMaxCommandsToDrain) {
    ReportStep(out);
  }
}

void OutputLogger::ReportStep(LoggerOut& out) {
  switch (phase_) {
    case Phase::kWaiting:
      return DropWaiting(out);
    case Phase::kTells:
      return ReportTells(out);
    case Phase::kPieces:
      return ReportPieces(out);
    case Phase::kFlows:
      return ReportFlow(out);
    default:
      out.push({.kind = Kind::kSealed,
                .sealed = {.grant = pieces_.last_grant(),
                           .lost = lost_entries_,
                           .incarnation = incarnation_}});
      phase_ = Phase::kDone;
  }
}

// An entry that waited for room among the tells has it once these are told.
void OutputLogger::ReportTells(LoggerOut& out) {
  if (at_ < tell_count_) {
    const size_t tell = (first_tell_ + at_++) % options_.max_tells;
    out.push({.kind = Kind::kTell, .tell = tells_[tell]});
    return;
  }
  at_ = 0;
  const uint64_t before = last_;
  if (waiting_.Has(last_ + 1)) {
    while (tell_count_ > 0) on_told(tells_[first_tell_].number);
    Drain(out);
  }
  if (last_ == before) phase_ = Phase::kWaiting;
}

// The packets of one entry behind a hole are lost with the unit.
void OutputLogger::DropWaiting(LoggerOut& out) {
  if (at_ == waiting_.entries()) {
    phase_ = Phase::kPieces;
    at_ = 0;
    return;
  }
  const uint32_t at = at_++;
  if (!waiting_.Has(at)) return;
  const auto entry = LogEntryView::Parse(limits_, waiting_.At(at));
  waiting_.Drop(at);
  ++lost_entries_;
  const auto drop = [&](PacketHandle packet) {
    out.push({.kind = Kind::kDrop,
              .reason = DropReason::kUnitFailed,
              .packet = packet,
              .meta = (*entry)->meta});
  };
  for (size_t i = 0; i < (*entry)->emitted; ++i) drop(entry->emitted(i));
  if ((*entry)->packet != kNoPacket) drop((*entry)->packet);
}

void OutputLogger::ReportPieces(LoggerOut& out) {
  if (pool_ == pieces_.pools()) {
    phase_ = Phase::kFlows;
    at_ = 0;
    return;
  }
  const PieceSet& set = pieces_.free(pool_);
  while (at_ < set.words() && set.word(at_) == 0) ++at_;
  if (at_ == set.words()) {
    ++pool_;
    at_ = 0;
    return;
  }
  out.push({.kind = Kind::kFreePieces,
            .pieces = {.word = at_, .pool = pool_, .mask = set.word(at_)}});
  ++at_;
}

void OutputLogger::ReportFlow(LoggerOut& out) {
  while (at_ < flows_.slots() && !flows_[at_].in_use) ++at_;
  if (at_ == flows_.slots()) {
    phase_ = Phase::kEnd;
    return;
  }
  const LoggedFlows::Flow& flow = flows_[at_++];
  out.push(
      {.kind = Kind::kApplied,
       .applied = {
           .flow = flow.flow, .clock = flow.applied, .ended = flow.ended}});
}

void OutputLogger::on_pull(const Pull& pull, LoggerOut& out) {
  const uint32_t slot = flows_.Find(pull.flow);
  if (!was_sealed_ || slot == kNone) return;
  const LoggedFlows::Flow& flow = flows_[slot];
  if (flow.ended || flow.applied < pull.need) return;
  const auto bytes = StateSchema::WithoutZeros(flows_.state(slot));
  out.push({.kind = Kind::kSendState,
            .unit = pull.requester,
            .state = {.flow = flow.flow,
                      .applied = flow.applied,
                      .timer = flow.timer,
                      .schema = schema_->hash(),
                      .bytes = static_cast<uint32_t>(bytes.size()),
                      .link = flow.link,
                      .pushed = false}});
}

void OutputLogger::on_takeover(const Takeover& takeover, LoggerOut& out) {
  if (!was_sealed_ || phase_ != Phase::kDone) return;
  ForgetOlder(takeover.flow, takeover.clock);
  out.push({.kind = Kind::kSendTakeoverAck,
            .unit = takeover.taker,
            .takeover_ack = {.flow = takeover.flow, .clock = takeover.clock}});
}

void OutputLogger::on_end_ack(FlowId flow, Clock clock) {
  const uint32_t slot = flows_.Find(flow);
  if (!was_sealed_ || slot == kNone) return;
  if (flows_[slot].ended && flows_[slot].applied <= clock) flows_.Forget(slot);
}

}  // namespace snf
