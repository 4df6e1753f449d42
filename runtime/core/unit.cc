// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "runtime/core/rules.h"
#include "runtime/core/unit_limits.h"

namespace snf {
namespace {

// All packets under way anywhere: each may have its flow looked for, taken or
// ended here.
uint32_t PacketsAnywhere(const UnitOptions& options) {
  return options.queue_packets + options.packets_elsewhere;
}

// Takeovers that may wait for their acknowledgement: some for each packet under
// way, and more where there are few, since lost ones pile up.
uint32_t MaxTooks(const UnitOptions& options) {
  return std::max(PacketsAnywhere(options) + 1, 4'096u);
}

// Flows kept: the controller's, those that are over and wait for their last
// packets, those with nothing but Pulls or Takeovers of others, and replicas.
uint32_t MaxRecords(const UnitOptions& options) {
  const uint64_t most =
      uint64_t{options.max_flows} + options.max_replicas +
      2 * (uint64_t{options.queue_packets} + options.packets_elsewhere + 1) +
      MaxTooks(options);
  SNF_CHECK(most < FlowIndex::kNotFound);
  return static_cast<uint32_t>(most);
}

constexpr uint32_t kLineBytes = 64;

// No record lies in more cache lines than it must.
uint32_t StateWords(const StateSchema& schema) {
  const uint32_t bytes = schema.record_bytes();
  const uint32_t rounded =
      bytes > kLineBytes ? (bytes + kLineBytes - 1) / kLineBytes * kLineBytes
                         : std::bit_ceil(bytes);
  return bytes == 0 ? 0 : rounded / 8;
}

}  // namespace

Unit::Unit(UnitId id, const UnitOptions& options, const StateSchema& schema,
           std::span<const NetworkFunction::Pool> pools)
    : id_(id),
      schema_(&schema),
      max_set_(options.replicas),
      hold_packets_(options.hold_packets),
      max_replicas_(options.max_replicas),
      push_after_(options.push_after),
      replica_lifetime_(options.replica_lifetime),
      retry_after_(options.retry_after),
      max_waiting_(PacketsAnywhere(options) + 1),
      max_tooks_(MaxTooks(options)),
      nodes_(options.queue_packets),
      waiting_packets_(options.queue_packets),
      // Pulls and Takeovers of others, and one Pull and one end for each
      // record.
      pending_(size_t{max_waiting_} + max_tooks_ +
               2 * size_t{MaxRecords(options)}),
      index_(options.max_flows, MaxRecords(options)),
      records_(MaxRecords(options), Pages::kGrowing),
      sets_(size_t{MaxRecords(options)} * options.replicas, Pages::kGrowing),
      announced_(options.replicas > 0 ? MaxRecords(options) : 0,
                 Pages::kGrowing),
      state_words_(StateWords(schema)),
      states_(MaxRecords(options) * size_t{state_words_}, Pages::kGrowing),
      timers_(MaxRecords(options), Pages::kGrowing),
      pieces_(id, pools) {
  SNF_CHECK(max_set_ <= kMaxReplicas && max_replicas_ > 0);
  SNF_CHECK(push_after_.ns > 0 && retry_after_.ns > 0);
  FindHotLines();
}

// Those where slots are and blobs begin.
void Unit::FindHotLines() {
  for (uint32_t slot = 0; slot < schema_->slots(); ++slot) {
    const uint32_t begin = schema_->offset(slot);
    const uint32_t header =
        schema_->is_blob(slot) ? StateSchema::kBlobHeaderBytes : 0;
    const uint32_t bytes =
        header + std::min(schema_->bytes(slot),
                          std::max(schema_->grain(slot), kPrefetchBytes));
    for (uint32_t at = begin / kLineBytes * kLineBytes; at < begin + bytes;
         at += kLineBytes) {
      if (hot_line_count_ == hot_lines_.size()) return;
      if (hot_line_count_ > 0 && at <= hot_lines_[hot_line_count_ - 1])
        continue;
      hot_lines_[hot_line_count_++] = static_cast<uint16_t>(at);
    }
  }
}

void Unit::on_replicas(const ReplicaSet& replicas) {
  if (max_set_ == 0) return;
  const uint32_t slot = FindOrAdd(replicas.flow);
  const size_t count = std::min<size_t>(replicas.count, max_set_);
  std::copy_n(replicas.units.begin(), count, ReplicasOf(slot));
  records_[slot].replicas = static_cast<uint8_t>(count);
  announced_[slot] = replicas.flowlet + 1;
}

Unit::Next Unit::begin(Instant now, UnitOut& out) {
  SNF_CHECK(!busy());
  while (true) {
    if (out.room() < kMaxUnitCommandsPerCall) return Next::kAgain;
    if (pieces_.can_return()) [[unlikely]] {
      pieces_.ReturnReclaimed(out);
      continue;
    }
    uint32_t node = nodes_.PopFront(resumed_);
    const bool is_resumed = node != kNone;
    if (!is_resumed) {
      PrefetchAhead();
      node = nodes_.PopFront(inbox_);
    }
    if (node == kNone) {
      PushStoppedIfDone(out);
      return stopping_ && pieces_.spare() > 0 ? Next::kAgain : Next::kIdle;
    }
    const PacketMeta& meta = nodes_[node].meta;
    const uint32_t slot = FindOrAdd(meta.flow);
    Record& record = records_[slot];
    if (is_resumed) record.resumed = false;
    if ((meta.flags & PacketMeta::kFirstOfFlowlet) != 0 && IsAnnounced(slot) &&
        announced_[slot] <= meta.flowlet + 1) {
      announced_[slot] = 0;
    }
    // A replica from the future is a lie, and no reason to drop a packet.
    if (record.copy == Copy::kReplica && meta.clock <= record.applied) {
      DropCopy(slot);
    }
    if (meta.clock <= record.applied) {
      DropDuplicate(node, out);
      ForgetIfEmpty(slot);
    } else if (IsRunnable(record, meta)) {
      TakeIntoService(now, slot, node);
      return Next::kService;
    } else {
      Hold(now, slot, node, out);
    }
  }
}

// Brings in what the next packets need; the first of them is about to be
// taken.
void Unit::PrefetchAhead() {
  for (; prefetched_ <= kPrefetchPackets && ahead_ != kNone; ++prefetched_) {
    const uint32_t slot = index_.Guess(nodes_[ahead_].meta.flow);
    ahead_ = nodes_[ahead_].next;
    if (slot == FlowIndex::kNotFound) continue;
    __builtin_prefetch(&records_[slot], 1);
    const std::byte* const state = std::as_const(*this).StateOf(slot).data();
    for (const uint16_t line : std::span(hot_lines_).first(hot_line_count_)) {
      __builtin_prefetch(state + line, 1);
    }
  }
  if (prefetched_ > 0) --prefetched_;
}

bool Unit::IsRunnable(const Record& record, const PacketMeta& meta) {
  if (record.copy == Copy::kNone) {
    return meta.clock == Clock{1} && meta.source_kind == StateSource::kNone;
  }
  return SNF_RULE(kU1, meta.clock == record.applied + 1, true) &&
         record.parked == kNone;
}

void Unit::TakeIntoService(Instant now, uint32_t slot, uint32_t node) {
  if (const Copy copy = records_[slot].copy; copy != Copy::kCurrent) {
    if (copy == Copy::kNone) std::ranges::fill(StateOf(slot), std::byte{0});
    SetCopy(slot, Copy::kCurrent);
  }
  in_service_ = node;
  in_service_slot_ = slot;
  const Instant since = nodes_[node].held_since;
  in_service_wait_ = since == Instant::max() ? kNeverHeld : now - since;
}

void Unit::DropDuplicate(uint32_t node, UnitOut& out) {
  UnitCommand drop = UnitCommand::OfPacket(
      UnitCommand::Kind::kDrop, nodes_[node].packet, nodes_[node].meta);
  // What has no payload cannot be dropped.
  if (!drop.meta.has_payload()) drop.kind = UnitCommand::Kind::kAdvance;
  drop.reason = DropReason::kDuplicateClock;
  out.push(drop);
  nodes_.Free(node);
}

void Unit::Hold(Instant now, uint32_t slot, uint32_t node, UnitOut& out) {
  PacketList& held = records_[slot].held;
  PacketNode& n = nodes_[node];
  const Clock clock = n.meta.clock;
  if (held.tail == kNone || nodes_[held.tail].meta.clock < clock) {
    // The rule, since clocks of one flow come through the channel in order.
    nodes_.Append(held, node);
  } else {
    uint32_t* link = &held.head;
    while (nodes_[*link].meta.clock < clock) link = &nodes_[*link].next;
    if (nodes_[*link].meta.clock == clock) {
      DropDuplicate(node, out);
      return;
    }
    n.next = *link;
    *link = node;
  }
  ++held_;
  if (n.held_since == Instant::max()) n.held_since = now;
  if (n.meta.has_payload() && held_payloads_ >= hold_packets_) {
    UnitCommand drop = UnitCommand::OfPacket(UnitCommand::Kind::kDropPayload,
                                             n.packet, n.meta);
    drop.reason = DropReason::kHoldOverflow;
    out.push(drop);
    n.packet = kNoPacket;
    n.meta.flags |= PacketMeta::kTombstone;
  }
  held_payloads_ += n.meta.has_payload() ? 1 : 0;
  AfterChange(now, slot, out);
}

void Unit::on_end_flow(Instant now, const EndFlow& end, NfContext env,
                       UnitOut& out) {
  const uint32_t slot = FindOrAdd(end.flow);
  if (*LinkOf(slot, Pending::Kind::kEnd, kNoUnit) == kNone) {
    AddPending(slot, {.clock = end.last,
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
  PushStoppedIfDone(out);
}

void Unit::PushStoppedIfDone(UnitOut& out) {
  if (!stopping_) return;
  // Not what packets that can run may take.
  const bool is_idle =
      !busy() && inbox_.head == kNone && resumed_.head == kNone;
  if (is_idle) pieces_.ReturnSpare(out);
  if (stopped_ || nodes_.used() > 0) return;
  if (SNF_RULE(kU8, own_copies_ + takeovers_waiting_ > 0, false)) return;
  if (pieces_.spare() + pieces_.requests() + pieces_.reclaims() > 0) return;
  stopped_ = true;
  ForgetAll();
  out.push(UnitCommand::Stopped());
}

std::span<const std::byte> Unit::state_bytes(FlowId flow) const {
  const uint32_t slot = Find(flow);
  SNF_CHECK(slot != FlowIndex::kNotFound);
  return StateOf(slot);
}

std::span<const std::byte> Unit::StateOf(uint32_t slot) const {
  return std::as_bytes(std::span(states_.data() + size_t{state_words_} * slot,
                                 schema_->record_bytes() / 8));
}

std::span<std::byte> Unit::StateOf(uint32_t slot) {
  return std::as_writable_bytes(
      std::span(states_.data() + size_t{state_words_} * slot,
                schema_->record_bytes() / 8));
}

uint32_t Unit::Add(FlowId flow) {
  uint32_t slot = free_record_;
  if (slot != kNone) {
    free_record_ = records_[slot].older;
  } else {
    SNF_CHECK(records_used_ < records_.size());
    slot = records_used_++;
  }
  records_[slot] = {.flow = flow,
                    .applied = {},
                    .timer = Instant::max(),
                    .due = Instant::max(),
                    .held = {},
                    .pending = kNone,
                    .older = kNone,
                    .newer = kNone,
                    .parked = kNone,
                    .copy = Copy::kNone,
                    .link = LinkType::kEthernet,
                    .replicas = 0,
                    .resumed = false,
                    .waited = false,
                    .idle_armed = false,
                    .has_left = false};
  index_.Insert(flow, slot,
                [&](uint32_t other) { return records_[other].flow; });
  return slot;
}

void Unit::ForgetIfEmpty(uint32_t slot) {
  Record& record = records_[slot];
  if (record.copy != Copy::kNone || record.held.head != kNone ||
      record.pending != kNone || IsAnnounced(slot)) {
    return;
  }
  timers_.Disarm(slot);
  index_.Erase(record.flow, slot);
  record.flow = kNoFlow;
  record.older = free_record_;
  free_record_ = slot;
}

void Unit::ForgetAll() {
  for (uint32_t slot = 0; slot < records_used_; ++slot) {
    Record& record = records_[slot];
    if (record.flow == kNoFlow) continue;
    if (record.copy != Copy::kNone) DropCopy(slot);
    while (record.pending != kNone) ErasePending(&record.pending);
    if (max_set_ > 0) announced_[slot] = 0;
    ForgetIfEmpty(slot);
  }
}

void Unit::SetCopy(uint32_t slot, Copy copy) {
  Record& record = records_[slot];
  if (record.copy == Copy::kReplica) {
    (record.older == kNone ? oldest_replica_ : records_[record.older].newer) =
        record.newer;
    (record.newer == kNone ? newest_replica_ : records_[record.newer].older) =
        record.older;
    record.older = record.newer = kNone;
    record.due = Instant::max();
    --replicas_;
  } else if (record.copy != Copy::kNone) {
    --own_copies_;
  }
  record.copy = copy;
  if (copy == Copy::kReplica) {
    record.older = newest_replica_;
    (newest_replica_ == kNone ? oldest_replica_
                              : records_[newest_replica_].newer) = slot;
    newest_replica_ = slot;
    ++replicas_;
  } else if (copy != Copy::kNone) {
    ++own_copies_;
  }
}

void Unit::DropCopy(uint32_t slot) {
  SetCopy(slot, Copy::kNone);
  Record& record = records_[slot];
  record.applied = Clock{};
  record.has_left = false;
  record.timer = record.due = Instant::max();
}

}  // namespace snf
