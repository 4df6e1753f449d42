// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/output_logger.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "runtime/logger/delta.h"
#include "runtime/logger/logger_rules.h"

namespace snf {
namespace {

using Kind = LoggerCommand::Kind;

// Returns what is asked of the driver for a packet of this outcome.
Kind KindOf(LogEntry::Outcome outcome) {
  switch (outcome) {
    case LogEntry::Outcome::kNfDrop:
      return Kind::kNfDrop;
    case LogEntry::Outcome::kDrop:
      return Kind::kDrop;
    case LogEntry::Outcome::kConsume:
      return Kind::kConsume;
    default:
      return Kind::kRelease;
  }
}

}  // namespace

OutputLogger::OutputLogger(uint32_t incarnation,
                           const OutputLoggerOptions& options,
                           const StateSchema& schema,
                           std::span<const NetworkFunction::Pool> pools,
                           bool takes_over, std::span<const TableShape> tables)
    : schema_(&schema),
      options_(options),
      limits_{.schema = schema.hash(),
              .max_delta_bytes =
                  std::max(schema.record_bytes(), MaxDeltaBytes(schema)),
              .packets = options.packets,
              .pools = static_cast<uint16_t>(pools.size()),
              .max_update_bytes = MaxUpdateBytes(tables)},
      incarnation_(incarnation),
      restoring_(takes_over),
      flows_(options.max_flows, schema.record_bytes()),
      pieces_(pools),
      waiting_(options.window, MaxLogEntryBytes(schema, tables)),
      tells_(options.max_tells),
      updates_(tables, incarnation) {
  SNF_CHECK(options.window > 0 && options.max_tells > 0);
}

// --- Flows. ---

Clock OutputLogger::applied(FlowId flow) const {
  const uint32_t slot = flows_.Find(flow);
  return slot == kNone ? Clock{} : flows_[slot].applied;
}

std::span<const std::byte> OutputLogger::state_bytes(FlowId flow) const {
  const uint32_t slot = flows_.Find(flow);
  SNF_CHECK(slot != kNone);
  return flows_.state(slot);
}

// --- Entries, in order. ---

OutputLogger::Result OutputLogger::on_entry(std::span<const std::byte> bytes,
                                            LoggerOut& out) {
  const auto entry = LogEntryView::Parse(limits_, bytes);
  if (!entry.has_value() || broken_) return Result::kImpossible;
  const bool is_refused = SNF_LOGGER_RULE(kSeal, sealed_) || restoring_ ||
                          (*entry)->incarnation != incarnation_;
  if (is_refused) {
    ++refused_;
    return Result::kRefused;
  }
  const uint64_t number = (*entry)->number;
  if (SNF_LOGGER_RULE(kOnce, number <= last_)) return Result::kDuplicate;
  // Acknowledgements of earlier entries are applied at once: they make room.
  if ((*entry)->kind == LogEntry::Kind::kTold) on_told((*entry)->argument);
  if (SNF_LOGGER_RULE(kInOrder, number > last_ + 1)) {
    if (number - last_ > options_.window) return Result::kTooFar;
    if (waiting_.Has(number)) return Result::kDuplicate;
    waiting_.Put(number, bytes);
    if (number - 1 > asked_) AskAgain(asked_ + 1, number - 1, out);
    asked_ = std::max(asked_, number);
    return Result::kWaits;
  }
  const Result result = Take(*entry, out);
  if (result == Result::kTaken) {
    waiting_.Drop(number);  // another of that number may wait
    Drain(out);
  }
  if (result == Result::kAsked) AskWhole(**entry, out);
  if (result == Result::kWaits && !waiting_.Has(number)) {
    waiting_.Put(number, bytes);
  }
  return broken_ ? Result::kImpossible : result;
}

OutputLogger::Result OutputLogger::Take(const LogEntryView& entry,
                                        LoggerOut& out) {
  if (entry->tells() && entry->number > kept_through_ &&
      tell_count_ == options_.max_tells) {
    return Result::kWaits;
  }
  // After a Seal no entries come any more.
  if (entry->update_bytes() > 0 && MustHoldUpdates() && !sealed_) {
    return Result::kWaits;
  }
  Result result = Result::kTaken;
  switch (entry->kind) {
    case LogEntry::Kind::kClock:
      result = TakeClock(entry, out);
      break;
    case LogEntry::Kind::kForget:
      ForgetOlder(entry->meta.flow, entry->meta.clock);
      // The unit forsakes the flow by itself.
      if (entry->block.unit == kNoUnit) break;
      out.push({.kind = Kind::kSendTakeoverAck,
                .unit = entry->block.unit,
                .takeover_ack = {.flow = entry->meta.flow,
                                 .clock = entry->meta.clock}});
      break;
    case LogEntry::Kind::kEnded: {
      const uint32_t slot = flows_.Find(entry->meta.flow);
      if (slot != kNone && flows_[slot].ended) flows_.Forget(slot);
      break;
    }
    case LogEntry::Kind::kGrant:
    case LogEntry::Kind::kReturn:
      if (!TakeBlock(*entry)) result = Result::kImpossible;
      break;
    case LogEntry::Kind::kUpdates:
      result = Result::kImpossible;
      break;
    default:
      break;
  }
  broken_ = result == Result::kImpossible;
  if (result != Result::kTaken) return result;
  last_ = std::max(last_, entry->number);
  asked_ = std::max(asked_, last_);
  if (entry->tells() && entry->number > kept_through_) KeepTell(*entry);
  return result;
}

OutputLogger::Result OutputLogger::TakeClock(const LogEntryView& entry,
                                             LoggerOut& out) {
  uint32_t slot = flows_.Find(entry->meta.flow);
  if (slot != kNone && entry->meta.clock <= flows_[slot].released) {
    return Result::kImpossible;
  }
  if (!updates_.Follows(entry.updates())) return Result::kImpossible;
  const bool is_kept = entry->number <= kept_through_;
  if (!is_kept && !pieces_.Use(entry)) return Result::kImpossible;
  const Result result = ApplyState(entry, slot);
  if (result != Result::kTaken) {
    if (!is_kept) pieces_.Undo(entry);
    return result;
  }
  if (SNF_LOGGER_RULE(kUpdatesLogged, true)) {
    updates_.Add(entry->number, entry.updates());
  }
  if (slot != kNone) {
    flows_[slot].released = entry->meta.clock;
    if (entry->is(LogEntry::kEnd)) flows_[slot].ended = true;
  }
  Release(entry, out);
  return result;
}

// Changes nothing unless the result is kTaken.
OutputLogger::Result OutputLogger::ApplyState(const LogEntryView& entry,
                                              uint32_t& slot) {
  if (slot != kNone &&
      SNF_LOGGER_RULE(kAppliedOnce, entry->state <= flows_[slot].applied)) {
    return Result::kTaken;
  }
  if (slot != kNone && flows_[slot].ended) return Result::kImpossible;
  if (entry->is(LogEntry::kWhole)) {
    if (entry.delta().size() > schema_->record_bytes() ||
        !schema_->IsWellFormed(entry.delta())) {
      return Result::kImpossible;
    }
    if (slot == kNone) slot = flows_.Add(entry->meta.flow);
    if (slot == kNone) return Result::kImpossible;
    const std::span<std::byte> state = flows_.state(slot);
    std::fill(
        std::copy(entry.delta().begin(), entry.delta().end(), state.begin()),
        state.end(), std::byte{});
  } else if (slot == kNone ||
             SNF_LOGGER_RULE(kBase, flows_[slot].applied != entry->base) ||
             !ApplyDelta(*schema_, entry.delta(), flows_.state(slot))) {
    return Result::kAsked;
  }
  LoggedFlows::Flow& flow = flows_[slot];
  flow.applied = entry->state;
  flow.timer = entry->timer;
  flow.link = entry->link;
  if (entry->idle_timeout.ns >= 0) flow.idle_timeout = entry->idle_timeout;
  return Result::kTaken;
}

// Packets that the end of a flow emits leave behind the flow's last clock,
// since the end has no clock of the controller's.
void OutputLogger::Release(const LogEntryView& entry, LoggerOut& out) {
  PacketMeta made = entry->meta;
  if ((made.flags & PacketMeta::kEnd) != 0) made.clock = entry->base;
  for (size_t i = 0; i < entry->emitted; ++i) {
    out.push({.kind = Kind::kEmit, .packet = entry.emitted(i), .meta = made});
  }
  if (entry->packet != kNoPacket) {
    out.push({.kind = KindOf(entry->outcome),
              .reason = entry->reason,
              .nf_reason = entry->nf_reason,
              .packet = entry->packet,
              .meta = entry->meta});
  }
  lost_ += entry->is(LogEntry::kPacketsLost) ? 1 : 0;
  out.push({.kind = Kind::kReleased, .meta = entry->meta});
}

// A copy that is newer than the Takeover stays.
void OutputLogger::ForgetOlder(FlowId flow, Clock clock) {
  const uint32_t slot = flows_.Find(flow);
  if (slot == kNone || flows_[slot].ended) return;
  const bool is_newer =
      SNF_LOGGER_RULE(kForgetOlder, flows_[slot].applied >= clock);
  if (!is_newer) flows_.Forget(slot);
}

// --- Entries that wait. ---

void OutputLogger::AskAgain(uint64_t first, uint64_t last, LoggerOut& out) {
  out.push({.kind = Kind::kAskAgain,
            .ask = {.first = first, .last = last, .flow = kNoFlow}});
  asked_ = std::max(asked_, last);
}

void OutputLogger::AskWhole(const LogEntry& entry, LoggerOut& out) {
  out.push({.kind = Kind::kAskWhole,
            .ask = {.first = entry.number,
                    .last = entry.number,
                    .flow = entry.meta.flow}});
}

void OutputLogger::on_heartbeat(uint64_t sent, LoggerOut& out) {
  if (sealed_ || restoring_ || broken_ || sent <= last_) return;
  const uint64_t end = std::min(sent, last_ + options_.window);
  uint64_t number = last_ + 1;
  for (int asks = 0; asks < kMaxAsks && number <= end; ++asks) {
    while (number <= end && waiting_.Has(number)) ++number;
    const uint64_t first = number;
    while (number <= end && !waiting_.Has(number)) ++number;
    if (first < number) AskAgain(first, number - 1, out);
  }
}

// Takes what waited for the last entry, as far as `out` has room.
void OutputLogger::Drain(LoggerOut& out) {
  while (!waiting_.empty() && out.room() >= kMaxCommandsToDrain) {
    const uint64_t number = last_ + 1;
    const std::span<const std::byte> bytes = waiting_.At(number);
    if (bytes.empty()) return;
    const auto entry = LogEntryView::Parse(limits_, bytes);
    SNF_CHECK(entry.has_value() && (*entry)->number == number);
    const Result result = Take(*entry, out);
    if (result == Result::kWaits) return;
    // After the seal no unit sends a whole entry any more.
    if (result == Result::kAsked && sealed_) return;
    waiting_.Drop(number);
    if (result == Result::kAsked) AskWhole(**entry, out);
    if (result != Result::kTaken) return;
  }
}

}  // namespace snf
