// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/nf_calls.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/check.h"

namespace snf {
namespace {

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

// What the NF asks for during one call of it.
class NfCalls::Services final : public FlowServices {
 public:
  // `node` is that of the packet which the NF is to process, or kNone; only
  // then may it take pieces or set an alias.
  Services(NfCalls& calls, FlowStore& flows, BufferPool& buffers, uint32_t slot,
           uint32_t node, const PacketMeta& meta, LinkType link, UnitOut& out)
      : calls_(calls),
        flows_(flows),
        buffers_(buffers),
        out_(out),
        meta_(meta),
        slot_(slot),
        node_(node),
        link_(link) {}

  bool Emit(std::span<const std::byte> frame) override {
    if (emitted_ == FlowState::kMaxEmits) return false;
    if (frame.empty() || frame.size() > BufferPool::kMaxPacketBytes) {
      return false;
    }
    const auto length = static_cast<uint32_t>(frame.size());
    const PacketHandle packet = buffers_.Allocate(length);
    if (packet == kNoPacket) return false;
    std::memcpy(buffers_.room(packet).data(), frame.data(), frame.size());
    buffers_.info(packet) = {.arrival = meta_.arrival,
                             .length = length,
                             .original_length = length,
                             .headers = Parse(link_, frame),
                             .link = link_};
    ++emitted_;
    out_.push(UnitCommand::OfPacket(UnitCommand::Kind::kEmit, packet, meta_));
    return true;
  }

  std::optional<uint32_t> TakePiece(PoolId pool,
                                    const PiecePreference& wish) override {
    const uint16_t index = IndexOf(pool);
    if (node_ == kNone) return std::nullopt;
    UnitPieces& pieces = calls_.pieces_;
    const std::optional<uint32_t> piece = pieces.Take(index, wish);
    if (!piece.has_value()) return piece;
    ++kept_;
    if (pieces.size(index) < UnitPieces::kAskBelow && !calls_.stopping_) {
      pieces.Request(index, out_);
    }
    return piece;
  }

  void GivePiece(PoolId pool, uint32_t piece) override {
    const uint16_t index = IndexOf(pool);
    UnitPieces& pieces = calls_.pieces_;
    if (!pieces.Give(index, piece)) {
      ++calls_.pieces_refused_;
      return;
    }
    --kept_;
    if (pieces.size(index) > UnitPieces::kKeep && !has_returned_) {
      pieces.ReturnWord(index, out_);
      has_returned_ = true;
    }
    calls_.Wake(index, flows_);
  }

  bool IsExhausted(PoolId pool) const override {
    return node_ == kNone || (flows_[slot_].waited &&
                              calls_.waiting_[node_].IsRefused(IndexOf(pool)));
  }

  void SetAlias(const FlowKey& key, uint64_t group,
                uint32_t group_limit) override {
    SNF_CHECK(node_ != kNone);
    calls_.waiting_[node_].alias = {.key = key,
                                    .flow = meta_.flow,
                                    .clock = meta_.clock,
                                    .group = group,
                                    .group_limit = group_limit,
                                    .unit = calls_.id_};
    has_alias_ = true;
  }

  void Note(Nanos idle_timeout, bool over) override {
    if (!note_.has_value()) {
      note_ = FlowNote{.flow = meta_.flow, .clock = meta_.clock};
    }
    if (idle_timeout.ns >= 0) note_->idle_timeout = idle_timeout;
    note_->over |= over;
  }

  bool has_alias() const { return has_alias_; }
  // Sends what the NF said, the alias first; at the end of the call.
  void Tell() {
    if (has_alias_) [[unlikely]] {
      out_.push(UnitCommand::OfPacket(UnitCommand::Kind::kSendAlias, kNoPacket,
                                      meta_));
    }
    if (note_.has_value()) [[unlikely]]
      out_.push(UnitCommand::Send(*note_));
  }
  // The NF did something that it must not do at a packet which waits.
  bool has_changed() const {
    return emitted_ > 0 || has_alias_ || note_.has_value() || kept_ != 0;
  }

 private:
  uint16_t IndexOf(PoolId pool) const {
    const auto index = static_cast<uint16_t>(pool);
    SNF_CHECK(index < calls_.pieces_.pools());
    return index;
  }

  NfCalls& calls_;
  FlowStore& flows_;
  BufferPool& buffers_;
  UnitOut& out_;
  const PacketMeta& meta_;
  uint32_t slot_;
  uint32_t node_;
  LinkType link_;
  bool has_alias_ = false;
  bool has_returned_ = false;
  int emitted_ = 0;
  int kept_ = 0;  // counts pieces: taken less given
  std::optional<FlowNote> note_;
};

NfCalls::NfCalls(UnitId id, const UnitOptions& options,
                 std::span<const NetworkFunction::Pool> pools)
    : id_(id), waiting_(options.queue_packets), pieces_(id, pools) {}

NfCalls::Outcome NfCalls::Process(Instant now, NfContext env, uint32_t slot,
                                  uint32_t node, FlowStore& flows,
                                  UnitOut& out) {
  FlowRecord& record = flows[slot];
  const PacketMeta& meta = flows.packets()[node].meta;
  const PacketHandle packet = flows.packets()[node].packet;
  const auto& [info, bytes] = env.buffers.view(packet);
  if (record.waited) [[unlikely]]
    pieces_.Ran(waiting_[node].pool);

  StateView state(flows.state(slot));
  Services services(*this, flows, env.buffers, slot, node, meta, info.link,
                    out);
  FlowState flow(record.flow, now, record.timer, state, services);
  Packet view(info, bytes);
  const Verdict verdict = env.nf.process_packet(view, flow);

  using Kind = UnitCommand::Kind;
  Outcome outcome(Kind::kRelease);
  if (verdict.kind() == Verdict::Kind::kDrop) {
    SNF_CHECK(verdict.reason() < env.nf.drop_reasons().size());
    outcome = Outcome(Kind::kNfDrop, {}, verdict.reason());
  } else if (verdict.kind() == Verdict::Kind::kConsume) {
    outcome = Outcome(Kind::kConsume);
  } else if (verdict.kind() == Verdict::Kind::kWait) {
    SNF_CHECK(state.dirty() == 0 && !services.has_changed() &&
              flow.timer() == record.timer);
    const auto pool = static_cast<uint16_t>(verdict.pool());
    if (AwaitPieces(slot, node, pool, flows, out)) {
      out.push(UnitCommand::OfPacket(Kind::kWait, packet, meta));
      return Outcome(Kind::kWait);
    }
    // Packets after it may find some here.
    if (!waiting_[node].IsRefused(pool) && !stopping_) {
      pieces_.Request(pool, out);
    }
    outcome = Outcome(Kind::kDrop, DropReason::kNoPieces);
  }
  record.timer = flow.timer();
  record.link = info.link;
  services.Tell();
  if (services.has_alias()) [[unlikely]] {
    waiting_[node].kind = outcome.kind();
    waiting_[node].nf_reason = outcome.nf_reason();
    record.parked = node;
  }
  return outcome;
}

void NfCalls::RunTimer(NfContext env, uint32_t slot, FlowStore& flows,
                       UnitOut& out) {
  FlowRecord& record = flows[slot];
  const PacketMeta meta = {
      .flow = record.flow, .clock = record.applied, .arrival = record.timer};
  StateView state(flows.state(slot));
  Services services(*this, flows, env.buffers, slot, kNone, meta, record.link,
                    out);
  FlowState flow(record.flow, record.timer, Instant::max(), state, services);
  env.nf.on_timer(flow);
  record.timer = std::max(flow.timer(), record.timer + FlowState::kMinPeriod);
  services.Tell();
}

void NfCalls::RunEnd(Instant now, NfContext env, uint32_t slot,
                     FlowStore& flows, UnitOut& out) {
  const FlowRecord& record = flows[slot];
  const PacketMeta meta = {
      .flow = record.flow, .clock = record.applied, .arrival = now};
  StateView state(flows.state(slot));
  Services services(*this, flows, env.buffers, slot, kNone, meta, record.link,
                    out);
  FlowState flow(record.flow, now, record.timer, state, services);
  env.nf.on_end(flow);
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
  StateView state(flows.state(slot));
  Services services(*this, flows, env.buffers, slot, kNone,
                    flows.packets()[node].meta, record.link, out);
  FlowState flow(record.flow, now, record.timer, state, services);
  env.nf.on_alias_refused(flow, why);
  record.timer = flow.timer();
  services.Tell();
}

// Returns false if the packet was refused already, by the pool or by enough
// others.
bool NfCalls::AwaitPieces(uint32_t slot, uint32_t node, uint16_t pool,
                          FlowStore& flows, UnitOut& out) {
  SNF_CHECK(pool < pieces_.pools());
  FlowRecord& record = flows[slot];
  WaitingPacket& packet = waiting_[node];
  if (!record.waited) {
    record.waited = true;
    packet.refused.fill(kNoPool);
    packet.in_vain = 0;
    // It has been shown how long it waited for state.
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
  pieces_refused_ += pieces_.Receive(pieces);
  PacketList& waiting = pieces_.waiting(pool);
  if (pieces.mask != 0) {
    Wake(pool, flows);
    if (waiting.head != kNone) pieces_.Request(pool, out);
    return;
  }
  while (waiting.head != kNone) {
    const uint32_t node = flows.packets().PopFront(waiting);
    Refuse(waiting_[node]);
    Resume(node, flows);
  }
}

}  // namespace snf
