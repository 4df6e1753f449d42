// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/nf_calls.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/core/nf_services.h"
#include "runtime/logger/delta.h"
#include "runtime/logger/table_update.h"
#include "runtime/sdk/nf_call.h"

namespace snf {
namespace {

constexpr size_t kMaxUpdateWords =
    (TableShape::kMaxKeyBytes + TableShape::kMaxValueBytes) / 8;

DropReason ReasonOf(AliasResult why) {
  switch (why) {
    case AliasResult::kConflict:
      return DropReason::kAliasConflict;
    case AliasResult::kGroupFull:
      return DropReason::kAliasLimit;
    default:
      return DropReason::kNoAlias;
  }
}

}  // namespace

NfCalls::NfCalls(UnitId id, const UnitOptions& options,
                 const StateSchema& schema,
                 std::span<const NetworkFunction::Pool> pools)
    : id_(id),
      has_logger_(options.has_logger),
      nf_logs_(options.nf_logs),
      schema_(&schema),
      delta_(options.has_logger ? MaxDeltaBytes(schema) : 0),
      guard_every_(options.guard_every),
      waiting_(options.queue_packets),
      pieces_(id, pools, options.has_logger) {
  if (has_logger_) uses_.reserve(kMaxPieceUsesPerCall);
}

void NfCalls::RunTimer(NfContext env, uint32_t slot, const PacketMeta& meta,
                       FlowStore& flows, UnitOut& out) {
  FlowRecord& record = flows[slot];
  if (record.timer > meta.arrival) return;
  StateView state(flows.state(slot));
  Services services(*this, flows, env.buffers, slot, kNone, meta, record.link,
                    out);
  FlowState flow(record.flow, record.timer, Instant::max(), state, services);
  CallNf(env.nf, NfCall::Hook::kOnTimer, &meta, kNoPacket,
         [&] { env.nf.on_timer(flow); });
  record.timer = std::max(flow.timer(), record.timer + FlowState::kMinPeriod);
  if (has_logger_) delta_bytes_ = EncodeDelta(*schema_, state, delta_);
  TakeUpdates();
  services.Tell();
}

void NfCalls::RunEnd(Instant now, NfContext env, uint32_t slot,
                     FlowStore& flows, UnitOut& out) {
  const FlowRecord& record = flows[slot];
  BeginEntry();
  const PacketMeta meta = {
      .flow = record.flow, .clock = record.applied, .arrival = now};
  StateView state(flows.state(slot));
  Services services(*this, flows, env.buffers, slot, kNone, meta, record.link,
                    out);
  FlowState flow(record.flow, now, record.timer, state, services);
  CallNf(env.nf, NfCall::Hook::kOnEnd, &meta, kNoPacket,
         [&] { env.nf.on_end(flow); });
  TakeUpdates();
  services.SendRecords();
}

void NfCalls::LogTables(std::span<TableCopy* const> tables) {
  SNF_CHECK(has_logger_);
  tables_.assign(tables.begin(), tables.end());
  for (TableCopy* const table : tables_) table->BeginLogging();
}

// Moves the NF's updates of tables to the updates of the call.
void NfCalls::TakeUpdates() {
  std::array<uint64_t, kMaxUpdateWords> words{};
  for (uint16_t i = 0; i < tables_.size(); ++i) {
    TableCopy& table = *tables_[i];
    const TableShape& shape = table.shape();
    while (true) {
      const TableCopy::Taken taken =
          table.TakeLogged(words.data(), &words[shape.key_words()]);
      using Taken = TableCopy::Taken;
      if (taken == Taken::kNothing) break;
      AppendUpdate({.table = i,
                    .is_rest = taken == Taken::kRest ? uint8_t{1} : uint8_t{0},
                    .erases = taken == Taken::kErased ? uint8_t{1} : uint8_t{0},
                    .words = shape.entry_words()},
                   words.data(), updates_);
    }
  }
}

NfCalls::Outcome NfCalls::on_alias_ack(Instant now, AliasResult result,
                                       NfContext env, uint32_t slot,
                                       uint32_t node, FlowStore& flows,
                                       UnitOut& out) {
  const Outcome outcome(waiting_[node].kind, {}, waiting_[node].nf_reason);
  if (result == AliasResult::kGranted) return outcome;
  const AliasResult why = std::min(result, AliasResult::kUnknown);
  RunRefused(now, env, slot, node, why, flows, out);
  if (outcome.kind() != UnitCommand::Kind::kRelease) return outcome;
  return Outcome(UnitCommand::Kind::kDrop, ReasonOf(why));
}

void NfCalls::RunRefused(Instant now, NfContext env, uint32_t slot,
                         uint32_t node, AliasResult why, FlowStore& flows,
                         UnitOut& out) {
  FlowRecord& record = flows[slot];
  const PacketNode& packet = flows.packets()[node];
  StateView state(flows.state(slot));
  Services services(*this, flows, env.buffers, slot, kNone, packet.meta,
                    record.link, out);
  FlowState flow(record.flow, now, record.timer, state, services);
  CallNf(env.nf, NfCall::Hook::kOnAliasRefused, &packet.meta, packet.packet,
         [&] { env.nf.on_alias_refused(flow, why); });
  TakeUpdates();
  record.timer = flow.timer();
  services.Tell();
}

// Has the packet's bytes behind it watched during the call.
[[gnu::noinline, gnu::cold]] Verdict NfCalls::ProcessGuarded(
    const NfContext& env, PacketHandle packet, Packet& view, FlowState& flow) {
  unguarded_ = 0;
  PacketGuard guard(env.buffers, packet);
  nf_call.guard = &guard;
  const Verdict verdict = env.nf.process_packet(view, flow);
  guard.Check();
  nf_call.guard = nullptr;
  return verdict;
}

void NfCalls::CheckPool(uint16_t pool) const {
  if (pool < pieces_.pools()) return;
  FailNf(absl::StrCat("named pool ", pool, ", but has ", pieces_.pools()));
}

void NfCalls::CheckWait(const NfContext& env, const StateView& state,
                        const Services& services, const FlowState& flow,
                        Instant timer_before) {
  if (!env.nf.may_wait(flow)) {
    FailNf("returned Verdict::wait, but may_wait() is false");
  }
  const std::string_view change = state.dirty() != 0 ? "changed the state"
                                  : flow.timer() != timer_before
                                      ? "set a timer"
                                      : services.change();
  if (change.empty()) return;
  FailNf(absl::StrCat("returned Verdict::wait, but ", std::string(change)));
}

// Returns false if the packet was refused already, by the pool or by enough
// others.
bool NfCalls::AwaitPieces(uint32_t slot, uint32_t node, uint16_t pool,
                          FlowStore& flows, UnitOut& out) {
  CheckPool(pool);
  FlowRecord& record = flows[slot];
  WaitingPacket& packet = waiting_[node];
  if (!record.waited) {
    record.waited = true;
    packet.refused.fill(kNoPool);
    packet.in_vain = 0;
    // Its wait for state has been reported already.
    flows.packets()[node].held_since = Instant::max();
  } else if (packet.IsRefused(pool) || packet.refused.back() != kNoPool) {
    return false;
  } else if (pieces_.size(packet.pool) > 0) {
    ++packet.in_vain;
  }
  packet.pool = pool;
  if (packet.in_vain == kMaxRunsInVain) {
    Refuse(packet);
    Resume(node, flows);
  } else {
    flows.packets().Append(pieces_.waiting(pool), node);
    pieces_.Request(pool, out);
  }
  return true;
}

void NfCalls::Refuse(WaitingPacket& packet) {
  *std::ranges::find(packet.refused, kNoPool) = packet.pool;
  packet.in_vain = 0;
}

void NfCalls::on_pieces_released(const PieceBlock& pieces, FlowStore& flows,
                                 UnitOut& out) {
  pieces_.GiveReleased(pieces);
  if (pieces_.size(pieces.pool) > UnitPieces::kKeep) {
    pieces_.ReturnWord(pieces.pool, out);
  }
  Wake(pieces.pool, flows);
}

// The packets that wait for the pool go first, in order: as many as there are
// pieces, since those after them would find none.
void NfCalls::Wake(uint16_t pool, FlowStore& flows) {
  PacketList& waiting = pieces_.waiting(pool);
  while (waiting.head != kNone && pieces_.unclaimed(pool) > 0) {
    Resume(flows.packets().PopFront(waiting), flows);
  }
}

void NfCalls::Resume(uint32_t node, FlowStore& flows) {
  pieces_.Woken(waiting_[node].pool);
  flows.packets().Append(flows.resumed(), node);
}

void NfCalls::on_pieces(const PieceBlock& pieces, FlowStore& flows,
                        UnitOut& out) {
  const uint16_t pool = pieces.pool;
  if (pool >= pieces_.pools() || !pieces_.is_requested(pool)) {
    pieces_refused_ += static_cast<uint64_t>(std::popcount(pieces.mask));
    return;
  }
  const bool was_ahead = pieces_.request(pool).is_ahead;
  const uint64_t fresh = pieces_.Receive(pieces);
  pieces_refused_ += static_cast<uint64_t>(std::popcount(pieces.mask & ~fresh));
  if (has_logger_ && fresh != 0) {
    PieceBlock came = pieces;
    came.mask = fresh;
    out.push(UnitCommand::Came(came));
  }
  PacketList& waiting = pieces_.waiting(pool);
  if (pieces.mask != 0) {
    Wake(pool, flows);
    if (waiting.head != kNone) pieces_.Request(pool, out);
    return;
  }
  // Packets came to wait since, and no piece has been asked for.
  if (was_ahead && waiting.head != kNone) {
    pieces_.Request(pool, out);
    return;
  }
  while (waiting.head != kNone) {
    const uint32_t node = flows.packets().PopFront(waiting);
    Refuse(waiting_[node]);
    Resume(node, flows);
  }
}

}  // namespace snf
