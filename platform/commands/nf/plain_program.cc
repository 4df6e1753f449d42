// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/plain_program.h"

#include <algorithm>
#include <utility>

#include "platform/run/run_setup.h"

namespace snf {
namespace {

RunOptions IngressOptions(const std::vector<IpPrefix>& inside) {
  RunOptions options;
  options.inside = inside;
  return options;
}

std::vector<TableCopy*> TablesWithEvents(const NetworkFunction& nf) {
  std::vector<TableCopy*> tables = TablesOf(nf);
  std::erase_if(tables, [](const TableCopy* table) {
    return !table->shape().has_events();
  });
  return tables;
}

// A batch, a packet that fills it, and what NFs emit.
BufferPool::Options BuffersFor(uint32_t batch) {
  return {.small = 2 * batch + 64, .medium = batch + 64, .large = batch + 8};
}

}  // namespace

PlainProgram::PlainProgram(const NfSpec& nf, const Options& options,
                           RemoteState* remote)
    : nf_(nf.create()),
      parts_(nf_->parts()),
      tables_(remote == nullptr ? TablesWithEvents(*nf_)
                                : std::vector<TableCopy*>(),
              {.forget_after = options.flow_timeout}),
      options_(options),
      remote_(remote),
      buffers_(BuffersFor(options.batch)),
      ingress_(IngressOptions(options.inside), *nf_, buffers_) {
  for (const NetworkFunction::Pool& pool : nf_->pools()) {
    PieceSet& pieces = pools_.emplace_back(pool.words());
    for (uint32_t p = pool.first; p <= pool.last; ++p) {
      pieces.Add(p / 64, uint64_t{1} << p % 64);
    }
  }
}

PlainProgram::~PlainProgram() {
  for (const Waiting& waiting : batch_) buffers_.Free(waiting.packet);
}

// --- What the NF asks for ----------------------------------------------------

bool PlainProgram::Emit(std::span<const std::byte> frame) {
  if (frame.empty()) return false;
  ++totals_.packets_emitted;
  digest_.Add(flows_[call_.flow].id, frame);
  return true;
}

std::optional<uint32_t> PlainProgram::TakePiece(PoolId pool,
                                                const PiecePreference& wish) {
  const std::optional<uint32_t> piece =
      pools_.at(static_cast<size_t>(pool)).Take(wish);
  if (piece.has_value()) ++call_.pieces;
  return piece;
}

void PlainProgram::GivePiece(PoolId pool, uint32_t piece) {
  pools_.at(static_cast<size_t>(pool))
      .Add(piece / 64, uint64_t{1} << piece % 64);
  ++call_.pieces;
}

void PlainProgram::SetAlias(const FlowKey& key, uint64_t group,
                            uint32_t group_limit) {
  const Flow& flow = flows_[call_.flow];
  call_.alias = Alias{.key = key,
                      .flow = flow.id,
                      .clock = flow.meta.clock,
                      .group = group,
                      .group_limit = group_limit};
}

void PlainProgram::Note(Nanos idle_timeout, bool over) {
  if (idle_timeout.ns >= 0) flows_[call_.flow].idle_timeout = idle_timeout;
  call_.over |= over;
}

// --- Packets -----------------------------------------------------------------

absl::Status PlainProgram::Take(const CapturedPacket& captured) {
  now_ = std::max(now_, captured.time);
  ++totals_.packets_in;
  if (absl::Status s = RunDue(); !s.ok()) return s;
  using Fate = Ingress::Taken::Fate;
  const Ingress::Taken* taken = &ingress_.Take(now_, captured);
  // The packet may depend on packets that wait in the batch.
  if (taken->fate == Fate::kDropped && !batch_.empty()) {
    if (absl::Status s = Flush(); !s.ok()) return s;
    taken = &ingress_.TakeAgain(now_, captured);
  }
  if (taken->fate == Fate::kDropped) {
    Drop(taken->reason);
    return absl::OkStatus();
  }
  if (taken->fate == Fate::kPassesThrough) {
    ++totals_.packets_passed_through;
    digest_.Add(kNoFlow, captured.bytes);
    if (options_.released != nullptr) options_.released(captured);
    return absl::OkStatus();
  }
  const uint32_t flow = FindOrBegin(*taken);
  if (flow == kNone) {
    buffers_.Free(taken->packet);
    Drop(DropReason::kNoAlias);
    return absl::OkStatus();
  }
  batch_.push_back({taken->packet, flow});
  return batch_.size() < options_.batch ? absl::OkStatus() : Flush();
}

absl::Status PlainProgram::Flush() {
  if (batch_.empty()) return absl::OkStatus();
  if (absl::Status s = LoadBatch(); !s.ok()) return s;
  for (const Waiting& waiting : batch_) {
    Run(waiting);
    buffers_.Free(waiting.packet);
  }
  batch_.clear();
  if (absl::Status s = SaveBatch(); !s.ok()) return s;
  for (const FlowId flow : std::exchange(over_, {})) {
    if (!IsThere(flow)) continue;
    if (absl::Status s = End(slot_of(flow)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status PlainProgram::LoadBatch() {
  if (remote_ == nullptr || !remote_->has_flows()) return absl::OkStatus();
  records_.clear();
  for (const Waiting& waiting : batch_) {
    Flow& flow = flows_[waiting.flow];
    if (std::exchange(flow.is_loaded, true)) continue;
    records_.push_back({flow.id, flow.record});
  }
  return remote_->Load(records_);
}

absl::Status PlainProgram::SaveBatch() {
  if (remote_ == nullptr) return absl::OkStatus();
  if (remote_->has_flows()) {
    for (const RemoteState::Record& record : records_) {
      flows_[slot_of(record.flow)].is_loaded = false;
    }
    if (absl::Status s = remote_->Save(records_); !s.ok()) return s;
  }
  for (uint32_t i = 0; i < call_.pieces; ++i) {
    if (absl::Status s = remote_->CountPiece(); !s.ok()) return s;
  }
  call_.pieces = 0;
  for (const NetworkFunction::Part& part : parts_) {
    if (absl::Status s = remote_->Merge(part.nf->tables()); !s.ok()) return s;
  }
  return absl::OkStatus();
}

uint32_t PlainProgram::FindOrBegin(const Ingress::Taken& taken) {
  if (taken.by_alias) {
    const auto found = aliases_.find(*taken.key);
    return found == aliases_.end() ? kNone : found->second;
  }
  const auto [entry, is_new] = places_.try_emplace(*taken.key, kNone);
  if (is_new) entry->second = Begin(*taken.key);
  return entry->second;
}

uint32_t PlainProgram::Begin(const FlowKey& key) {
  uint32_t place = 0;
  if (free_.empty()) {
    place = static_cast<uint32_t>(flows_.size());
    flows_.emplace_back();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[place];
  flow = {.key = key,
          .id = MakeFlowId(0, place, flow.generation),
          .generation = flow.generation,
          .record = std::vector<std::byte>(nf_->schema().record_bytes()),
          .last_packet = now_,
          .idle_timeout = options_.flow_timeout,
          .is_there = true};
  flow.meta.flow = flow.id;
  ++totals_.flows;
  return place;
}

void PlainProgram::Run(const Waiting& waiting) {
  Flow& flow = flows_[waiting.flow];
  flow.meta.clock = Clock{value(flow.meta.clock) + 1};
  flow.meta.arrival = flow.last_packet = buffers_.info(waiting.packet).arrival;
  const Verdict verdict = Process(waiting.flow, waiting.packet);
  const bool over = call_.over;
  const std::optional<DropReason> refused = SettleAlias(waiting.flow);
  if (refused.has_value() && verdict.kind() == Verdict::Kind::kForward) {
    Drop(*refused);
  } else {
    Settle(waiting, verdict);
  }
  if (over || call_.over) over_.push_back(flow.id);
  tables_.Merge(flow.last_packet);
  Schedule(flow);
}

// Twice, if the NF waits for a piece: there will be none.
Verdict PlainProgram::Process(uint32_t place, PacketHandle handle) {
  Flow& flow = flows_[place];
  const auto& [info, room] = buffers_.whole(handle);
  Verdict verdict = Verdict::forward();
  std::optional<PoolId> refused;
  for (int i = 0; i < 3; ++i) {
    call_ = {.flow = place, .pieces = call_.pieces, .refused = refused};
    StateView view(flow.record);
    FlowState state(flow.id, flow.last_packet, flow.timer, view, *this);
    Packet packet(info, room.first(info.length), room);
    CallNf(*nf_, NfCall::Hook::kProcessPacket, &flow.meta, handle, [&] {
      verdict = nf_->process_packet(packet, state);
      if (verdict.kind() == Verdict::Kind::kForward) {
        CheckLabel(*nf_, verdict);
      } else if (verdict.kind() == Verdict::Kind::kDrop) {
        CheckDropReason(*nf_, verdict);
      }
    });
    if (verdict.kind() != Verdict::Kind::kWait) {
      flow.timer = state.timer();
      return verdict;
    }
    refused = verdict.pool();
  }
  return verdict;
}

void PlainProgram::Settle(const Waiting& waiting, const Verdict& verdict) {
  switch (verdict.kind()) {
    case Verdict::Kind::kForward:
      ++totals_.packets_released;
      digest_.Add(flows_[waiting.flow].id, buffers_.bytes(waiting.packet));
      if (options_.released != nullptr) Release(waiting.packet);
      return;
    case Verdict::Kind::kDrop:
      ++totals_.nf_dropped.at(verdict.reason());
      return;
    case Verdict::Kind::kConsume:
      ++totals_.packets_consumed;
      return;
    case Verdict::Kind::kWait:
      Drop(DropReason::kNoPieces);
      return;
  }
}

void PlainProgram::Release(PacketHandle packet) {
  const PacketInfo& info = buffers_.info(packet);
  const auto bytes = buffers_.bytes(packet);
  options_.released(
      {.time = now_,
       .bytes = bytes,
       .original_bytes =
           std::max(info.original_length, static_cast<uint32_t>(bytes.size())),
       .link = info.link});
}

// Returns why the flow does not get the alias that the NF asked for.
std::optional<DropReason> PlainProgram::SettleAlias(uint32_t place) {
  if (!call_.alias.has_value()) return std::nullopt;
  const Alias alias = *call_.alias;
  Flow& flow = flows_[place];
  const auto owner = aliases_.find(alias.key);
  AliasResult result = AliasResult::kGranted;
  if (owner != aliases_.end() && owner->second != place) {
    result = AliasResult::kConflict;
  } else if (alias.group_limit > 0 &&
             groups_[alias.group] >= alias.group_limit &&
             !(flow.alias.has_value() && flow.alias->group == alias.group)) {
    result = AliasResult::kGroupFull;
  }
  if (result == AliasResult::kGranted) {
    ForgetAlias(flow);
    flow.alias = alias;
    aliases_[alias.key] = place;
    ++groups_[alias.group];
    ingress_.on_alias(alias, flow.key);
    return std::nullopt;
  }
  CallFor(place, flow.last_packet, NfCall::Hook::kOnAliasRefused,
          [&](FlowState& state) { nf_->on_alias_refused(state, result); });
  return result == AliasResult::kConflict ? DropReason::kAliasConflict
                                          : DropReason::kAliasLimit;
}

// --- Timers and ends ---------------------------------------------------------

template <typename Function>
void PlainProgram::CallFor(uint32_t place, Instant now, NfCall::Hook hook,
                           const Function& function) {
  Flow& flow = flows_[place];
  call_ = {.flow = place, .pieces = call_.pieces};
  StateView view(flow.record);
  FlowState state(flow.id, now, flow.timer, view, *this);
  CallNf(*nf_, hook, &flow.meta, kNoPacket, [&] { function(state); });
  flow.timer = state.timer();
  tables_.Merge(now);
}

void PlainProgram::Schedule(Flow& flow) {
  const Instant due =
      std::min(flow.timer, flow.last_packet + flow.idle_timeout);
  if (due >= flow.looked_at) return;  // it is looked at before, and then again
  flow.looked_at = due;
  due_.push({due, flow.id});
}

absl::Status PlainProgram::RunDue() {
  while (!due_.empty() && due_.top().time <= now_) {
    const Due due = due_.top();
    due_.pop();
    if (!IsThere(due.flow)) continue;
    Flow& flow = flows_[slot_of(due.flow)];
    if (due.time != flow.looked_at) continue;  // there is an earlier one
    if (absl::Status s = Flush(); !s.ok()) return s;
    if (!IsThere(due.flow)) continue;
    flow.looked_at = Instant::max();
    const Instant next =
        std::min(flow.timer, flow.last_packet + flow.idle_timeout);
    if (next <= now_) {
      if (absl::Status s = RunTimer(slot_of(due.flow)); !s.ok()) return s;
    }
    if (IsThere(due.flow)) Schedule(flow);
  }
  return absl::OkStatus();
}

// The timer that is due, or the end of a flow that is silent.
absl::Status PlainProgram::RunTimer(uint32_t place) {
  Flow& flow = flows_[place];
  if (flow.timer > flow.last_packet + flow.idle_timeout) return End(place);
  const Instant due = std::exchange(flow.timer, Instant::max());
  if (absl::Status s = LoadOne(flow); !s.ok()) return s;
  CallFor(place, due, NfCall::Hook::kOnTimer,
          [&](FlowState& state) { nf_->on_timer(state); });
  flow.timer = std::max(flow.timer, due + FlowState::kMinPeriod);
  const bool over = call_.over;
  if (absl::Status s = SaveBatch(); !s.ok()) return s;
  return over ? End(place) : absl::OkStatus();
}

absl::Status PlainProgram::End(uint32_t place) {
  Flow& flow = flows_[place];
  if (absl::Status s = LoadOne(flow); !s.ok()) return s;
  CallFor(place, now_, NfCall::Hook::kOnEnd,
          [&](FlowState& state) { nf_->on_end(state); });
  if (absl::Status s = SaveBatch(); !s.ok()) return s;
  if (remote_ != nullptr && remote_->has_flows()) {
    if (absl::Status s = remote_->Forget(flow.id); !s.ok()) return s;
  }
  ForgetAlias(flow);
  places_.erase(flow.key);
  flow.is_there = false;
  ++flow.generation;
  free_.push_back(place);
  return absl::OkStatus();
}

absl::Status PlainProgram::LoadOne(const Flow& flow) {
  if (remote_ == nullptr || !remote_->has_flows()) return absl::OkStatus();
  records_ = {{flow.id, flows_[slot_of(flow.id)].record}};
  return remote_->Load(records_);
}

void PlainProgram::ForgetAlias(Flow& flow) {
  if (!flow.alias.has_value()) return;
  aliases_.erase(flow.alias->key);
  --groups_[flow.alias->group];
  ingress_.ForgetAlias(flow.id, flow.meta.clock);
  flow.alias.reset();
}

absl::Status PlainProgram::Finish() {
  if (absl::Status s = Flush(); !s.ok()) return s;
  for (uint32_t place = 0; place < flows_.size(); ++place) {
    if (!flows_[place].is_there) continue;
    if (absl::Status s = End(place); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace snf
