// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/flow_store.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace snf {
namespace {

// Counts all packets under way anywhere: each may have its flow looked for,
// taken or ended here.
uint32_t PacketsAnywhere(const UnitOptions& options) {
  return options.queue_packets + options.packets_elsewhere;
}

// Some Takeovers for each packet under way may wait for their acknowledgement,
// and more where there are few packets, since lost ones pile up.
uint32_t MaxTakeovers(const UnitOptions& options) {
  return std::max(PacketsAnywhere(options) + 1, 4'096u);
}

// Returns the most records: the controller's flows, ended flows that wait for
// their last packets, flows with only Pulls or Takeovers of other units, and
// replicas.
uint32_t MaxRecords(const UnitOptions& options) {
  const uint64_t most =
      uint64_t{options.max_flows} + options.max_replicas +
      2 * (uint64_t{options.queue_packets} + options.packets_elsewhere + 1) +
      MaxTakeovers(options);
  SNF_CHECK(most < FlowIndex::kNotFound);
  return static_cast<uint32_t>(most);
}

constexpr uint32_t kLineBytes = 64;
constexpr uint32_t kLargeRecordBytes = 8'192;

// No state lies in more cache lines than it must.
uint32_t WordsOf(const StateSchema& schema) {
  const uint32_t bytes = schema.record_bytes();
  const uint32_t rounded =
      bytes > kLineBytes ? (bytes + kLineBytes - 1) / kLineBytes * kLineBytes
                         : std::bit_ceil(bytes);
  return bytes == 0 ? 0 : rounded / 8;
}

Pages PagesOf(const UnitOptions& options) {
  return options.large_pages ? Pages::kGrowing : Pages::kSmall;
}
// Records of several pages have parts without a write, which cost nothing in
// small pages (ZeroLazily).
Pages PagesOf(const UnitOptions& options, const StateSchema& schema) {
  return schema.record_bytes() > kLargeRecordBytes ? Pages::kSmall
                                                   : PagesOf(options);
}

}  // namespace

FlowStore::FlowStore(const UnitOptions& options, const StateSchema& schema)
    : max_set_(options.replicas),
      packets_(options.queue_packets),
      pending_(PacketsAnywhere(options) + 1, MaxTakeovers(options),
               MaxRecords(options)),
      index_(options.max_flows, MaxRecords(options), PagesOf(options)),
      records_(MaxRecords(options), PagesOf(options)),
      sets_(size_t{MaxRecords(options)} * options.replicas, PagesOf(options)),
      flowlets_(options.replicas > 0 ? MaxRecords(options) : 0,
                PagesOf(options)),
      has_logger_(options.has_logger),
      logged_(options.has_logger ? MaxRecords(options) : 0, PagesOf(options)),
      used_words_(schema.record_bytes() / 8),
      state_words_(WordsOf(schema)),
      states_(MaxRecords(options) * size_t{state_words_},
              PagesOf(options, schema)),
      timers_(MaxRecords(options), PagesOf(options)) {
  SNF_CHECK(max_set_ <= kMaxReplicas);
  FindHotLines(schema);
}

// Marks the cache lines with slots and the begins of blobs as hot, except for
// blobs that packets seldom use.
void FlowStore::FindHotLines(const StateSchema& schema) {
  for (uint32_t slot = 0; slot < schema.slots(); ++slot) {
    if (schema.is_seldom(slot)) continue;
    const uint32_t begin = schema.offset(slot);
    const uint32_t header =
        schema.is_blob(slot) ? StateSchema::kBlobHeaderBytes : 0;
    const uint32_t bytes =
        header + std::min(schema.bytes(slot),
                          std::max(schema.grain(slot), kPrefetchBytes));
    for (uint32_t at = begin / kLineBytes * kLineBytes; at < begin + bytes;
         at += kLineBytes) {
      if (hot_line_count_ == hot_lines_.size()) return;
      if (hot_line_count_ > 0 && at <= hot_lines_[hot_line_count_ - 1])
        continue;
      hot_lines_[hot_line_count_++] = static_cast<uint16_t>(at);
    }
  }
}

uint32_t FlowStore::Add(FlowId flow) {
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
                    .copy = CopyKind::kNone,
                    .link = LinkType::kEthernet,
                    .replicas = 0,
                    .engaged = false,
                    .waited = false,
                    .idle_armed = false,
                    .ran_here = false,
                    .has_left = false};
  if (max_set_ > 0) flowlets_[slot] = {};
  if (has_logger_) logged_[slot] = {};
  index_.Insert(flow, slot,
                [&](uint32_t other) { return records_[other].flow; });
  return slot;
}

void FlowStore::ForgetIfEmpty(uint32_t slot) {
  FlowRecord& record = records_[slot];
  if (record.copy != CopyKind::kNone || record.held.head != kNone ||
      record.pending != kNone || announced(slot) != 0 || is_unreleased(slot)) {
    return;
  }
  timers_.Disarm(slot);
  index_.Erase(record.flow, slot);
  record.flow = kNoFlow;
  record.older = free_record_;
  free_record_ = slot;
}

void FlowStore::ForgetAll() {
  for (uint32_t slot = 0; slot < records_used_; ++slot) {
    FlowRecord& record = records_[slot];
    if (record.flow == kNoFlow) continue;
    if (record.copy != CopyKind::kNone) DropCopy(slot);
    while (record.pending != kNone) pending_.Erase(&record.pending);
    on_over(slot);
    ForgetIfEmpty(slot);
  }
}

void FlowStore::SetCopy(uint32_t slot, CopyKind copy) {
  FlowRecord& record = records_[slot];
  if (record.copy == CopyKind::kReplica) {
    (record.older == kNone ? oldest_replica_ : records_[record.older].newer) =
        record.newer;
    (record.newer == kNone ? newest_replica_ : records_[record.newer].older) =
        record.older;
    record.older = record.newer = kNone;
    record.due = Instant::max();
    --replicas_;
  } else if (record.copy != CopyKind::kNone) {
    --own_copies_;
  }
  if (copy != CopyKind::kCurrent) ForgetTimerRequest(slot);
  if (copy == CopyKind::kNone || copy == CopyKind::kReplica) MakeWhole(slot);
  record.copy = copy;
  if (copy == CopyKind::kReplica) {
    record.older = newest_replica_;
    (newest_replica_ == kNone ? oldest_replica_
                              : records_[newest_replica_].newer) = slot;
    newest_replica_ = slot;
    ++replicas_;
  } else if (copy != CopyKind::kNone) {
    ++own_copies_;
  }
}

bool FlowStore::AddEntry(uint32_t slot) {
  Logged& logged = logged_[slot];
  const bool is_whole = logged.has_base == 0;
  logged.has_base = 1;
  ++logged.entries;
  ++unreleased_;
  return is_whole;
}

void FlowStore::ForgetTimerRequest(uint32_t slot) {
  uint32_t& head = records_[slot].pending;
  if (head == kNone) return;
  uint32_t* const asked = pending_.LinkOf(head, Pending::Kind::kMyTimer);
  if (*asked != kNone) pending_.Erase(asked);
}

void FlowStore::DropCopy(uint32_t slot) {
  SetCopy(slot, CopyKind::kNone);
  FlowRecord& record = records_[slot];
  record.applied = Clock{};
  record.has_left = false;
  record.timer = record.due = Instant::max();
}

void FlowStore::SetTargets(const ReplicaSet& replicas) {
  if (max_set_ == 0) return;
  const uint32_t slot = FindOrAdd(replicas.flow);
  Flowlets& flowlets = flowlets_[slot];
  const uint32_t named = replicas.flowlet + 1;
  if (named < std::max(flowlets.begun, flowlets.announced)) return;
  const size_t count = std::min<size_t>(replicas.count, max_set_);
  std::copy_n(replicas.units.begin(), count, &sets_[size_t{slot} * max_set_]);
  records_[slot].replicas = static_cast<uint8_t>(count);
  if (named > flowlets.begun) flowlets.announced = named;
}

}  // namespace snf
