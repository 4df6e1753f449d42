// SPDX-License-Identifier: Apache-2.0
// What a unit calls its NF for, and what the NF asks of it meanwhile.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

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

// For the length of one call of the NF.
class Unit::NfServices final : public FlowServices {
 public:
  // `node` is that of the packet which the NF is to process, or kNone; only
  // then may it take pieces or set an alias.
  NfServices(Unit& unit, BufferPool& buffers, uint32_t slot, uint32_t node,
             const PacketMeta& meta, LinkType link, UnitOut& out)
      : unit_(unit),
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
    UnitPieces& pieces = unit_.pieces_;
    const std::optional<uint32_t> piece = pieces.Take(index, wish);
    if (!piece.has_value()) return piece;
    ++kept_;
    if (pieces.size(index) < UnitPieces::kAskBelow && !unit_.stopping_) {
      pieces.Request(index, out_);
    }
    return piece;
  }

  void GivePiece(PoolId pool, uint32_t piece) override {
    const uint16_t index = IndexOf(pool);
    UnitPieces& pieces = unit_.pieces_;
    if (!pieces.Give(index, piece)) {
      ++unit_.counters_.pieces_refused;
      return;
    }
    --kept_;
    if (pieces.size(index) > UnitPieces::kKeep && !has_returned_) {
      pieces.ReturnWord(index, out_);
      has_returned_ = true;
    }
    unit_.Wake(index);
  }

  bool IsExhausted(PoolId pool) const override {
    return node_ == kNone ||
           (unit_.records_[slot_].waited &&
            unit_.waiting_packets_[node_].IsRefused(IndexOf(pool)));
  }

  void SetAlias(const FlowKey& key, uint64_t group,
                uint32_t group_limit) override {
    SNF_CHECK(node_ != kNone);
    unit_.waiting_packets_[node_].alias = {.key = key,
                                           .flow = meta_.flow,
                                           .clock = meta_.clock,
                                           .group = group,
                                           .group_limit = group_limit,
                                           .unit = unit_.id_};
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
  // At the end of the call: sends what the NF said, the alias first.
  void Tell() {
    if (has_alias_) [[unlikely]] {
      out_.push(UnitCommand::OfPacket(UnitCommand::Kind::kSendAlias, kNoPacket,
                                      meta_));
    }
    if (note_.has_value()) [[unlikely]]
      out_.push(UnitCommand::Send(*note_));
  }
  // That a packet which waits must not.
  bool has_changed() const {
    return emitted_ > 0 || has_alias_ || note_.has_value() || kept_ != 0;
  }

 private:
  uint16_t IndexOf(PoolId pool) const {
    const auto index = static_cast<uint16_t>(pool);
    SNF_CHECK(index < unit_.pieces_.pools());
    return index;
  }

  Unit& unit_;
  BufferPool& buffers_;
  UnitOut& out_;
  const PacketMeta& meta_;
  uint32_t slot_;
  uint32_t node_;
  LinkType link_;
  bool has_alias_ = false;
  bool has_returned_ = false;
  int emitted_ = 0;
  int kept_ = 0;  // pieces: taken less given
  std::optional<FlowNote> note_;
};

// The one call of it is in finish().
[[gnu::always_inline]] inline Unit::Outcome Unit::RunNf(
    Instant now, NfContext env, uint32_t slot, uint32_t node, UnitOut& out) {
  Record& record = records_[slot];
  const PacketMeta& meta = nodes_[node].meta;
  const PacketHandle packet = nodes_[node].packet;
  const auto& [info, bytes] = env.buffers.view(packet);
  if (record.waited) [[unlikely]]
    pieces_.Ran(waiting_packets_[node].pool);

  StateView state(StateOf(slot));
  NfServices services(*this, env.buffers, slot, node, meta, info.link, out);
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
    if (AwaitPieces(slot, node, pool, out)) {
      out.push(UnitCommand::OfPacket(Kind::kWait, packet, meta));
      return Outcome(Kind::kWait);
    }
    // Packets after it may find some here.
    if (!waiting_packets_[node].IsRefused(pool) && !stopping_) {
      pieces_.Request(pool, out);
    }
    outcome = Outcome(Kind::kDrop, DropReason::kNoPieces);
  }
  record.timer = flow.timer();
  record.link = info.link;
  services.Tell();
  if (services.has_alias()) [[unlikely]] {
    waiting_packets_[node].kind = outcome.kind();
    waiting_packets_[node].nf_reason = outcome.nf_reason();
    record.parked = node;
  }
  return outcome;
}

// The packet leaves the unit, and the flow goes on.
inline void Unit::Complete(Instant now, uint32_t slot, Outcome outcome,
                           uint32_t node, NfContext env, UnitOut& out) {
  const PacketMeta& meta = nodes_[node].meta;
  Record& record = records_[slot];
  if (max_set_ > 0) record.due = now + push_after_;
  out.push_made([&] {
    return UnitCommand{.kind = outcome.kind(),
                       .reason = outcome.reason(),
                       .nf_reason = outcome.nf_reason(),
                       .packet = nodes_[node].packet,
                       .meta = meta};
  });
  if ((meta.flags & PacketMeta::kFirstOfFlowlet) != 0 &&
      meta.source_kind == StateSource::kUnit && meta.source != id_) {
    TellTakeover(now, slot, meta, out);
  }
  nodes_.Free(node);
  if (record.pending != kNone || record.held.head != kNone) {
    EndIfOver(now, slot, &env, out);
    AfterChange(now, slot, out);
  } else {
    ArmTimer(slot);
  }
  if (stopping_) [[unlikely]]
    PushStoppedIfDone(out);
}

void Unit::finish(Instant now, NfContext env, UnitOut& out) {
  SNF_CHECK(busy() && out.room() >= kMaxUnitCommandsPerCall);
  const uint32_t node = in_service_;
  const uint32_t slot = in_service_slot_;
  const PacketMeta& meta = nodes_[node].meta;
  pieces_.ClearTaken();
  const Outcome outcome = meta.has_payload()
                              ? RunNf(now, env, slot, node, out)
                              : Outcome(UnitCommand::Kind::kAdvance);

  in_service_ = kNone;
  if (outcome.kind() == UnitCommand::Kind::kWait) [[unlikely]]
    return;
  Record& record = records_[slot];
  record.applied = meta.clock;
  record.has_left = false;
  record.waited = false;
  if (record.parked != kNone) [[unlikely]] {
    ArmTimer(slot);
    return;
  }
  Complete(now, slot, outcome, node, env, out);
}

// False if the packet was refused already, by the pool or by enough others.
bool Unit::AwaitPieces(uint32_t slot, uint32_t node, uint16_t pool,
                       UnitOut& out) {
  SNF_CHECK(pool < pieces_.pools());
  Record& record = records_[slot];
  WaitingPacket& packet = waiting_packets_[node];
  if (!record.waited) {
    record.waited = true;
    packet.refused.fill(kNoPool);
    packet.in_vain = 0;
    // It has been shown how long it waited for state.
    nodes_[node].held_since = Instant::max();
  } else if (packet.IsRefused(pool) || packet.refused.back() != kNoPool) {
    return false;
  } else if (pieces_.size(packet.pool) > 0) {
    ++packet.in_vain;
  }
  record.resumed = true;
  packet.pool = pool;
  if (packet.in_vain == kMaxRunsInVain) {
    packet.Refuse();
    Resume(node);
  } else {
    nodes_.Append(pieces_.waiting(pool), node);
    pieces_.Request(pool, out);
  }
  return true;
}

// The packets that wait for the pool go first, in order: as many as there are
// pieces, since those after them would find none.
void Unit::Wake(uint16_t pool) {
  PacketList& waiting = pieces_.waiting(pool);
  while (waiting.head != kNone && pieces_.unclaimed(pool) > 0) {
    Resume(nodes_.PopFront(waiting));
  }
}

void Unit::Resume(uint32_t node) {
  pieces_.Woken(waiting_packets_[node].pool);
  nodes_.Append(resumed_, node);
}

void Unit::on_pieces(Instant /*now*/, const PieceBlock& pieces, UnitOut& out) {
  const uint16_t pool = pieces.pool;
  if (pool >= pieces_.pools() || !pieces_.is_requested(pool)) {
    counters_.pieces_refused +=
        static_cast<uint64_t>(std::popcount(pieces.mask));
    return;
  }
  counters_.pieces_refused += pieces_.Receive(pieces);
  PacketList& waiting = pieces_.waiting(pool);
  if (pieces.mask == 0) {
    while (waiting.head != kNone) {
      const uint32_t node = nodes_.PopFront(waiting);
      waiting_packets_[node].Refuse();
      Resume(node);
    }
  } else {
    Wake(pool);
    if (waiting.head != kNone) pieces_.Request(pool, out);
  }
  PushStoppedIfDone(out);
}

void Unit::on_reclaim(uint16_t pool, UnitOut& out) {
  if (pool >= pieces_.pools()) return;
  pieces_.Reclaim(pool);
  pieces_.ReturnReclaimed(out);
  PushStoppedIfDone(out);
}

const Alias& Unit::alias(FlowId flow) const {
  const uint32_t slot = Find(flow);
  SNF_CHECK(slot != FlowIndex::kNotFound && records_[slot].parked != kNone);
  return waiting_packets_[records_[slot].parked].alias;
}

void Unit::on_alias_ack(Instant now, const AliasAck& ack, NfContext env,
                        UnitOut& out) {
  const uint32_t slot = Find(ack.flow);
  if (slot == FlowIndex::kNotFound) return;
  Record& record = records_[slot];
  const uint32_t node = record.parked;
  if (node == kNone || nodes_[node].meta.clock != ack.clock) return;
  record.parked = kNone;
  Outcome outcome(waiting_packets_[node].kind, {},
                  waiting_packets_[node].nf_reason);
  if (ack.result != AliasResult::kGranted) {
    const AliasResult why = std::min(ack.result, AliasResult::kUnknown);
    RunNfRefused(now, env, slot, node, why, out);
    if (outcome.kind() == UnitCommand::Kind::kRelease) {
      outcome = Outcome(UnitCommand::Kind::kDrop, ReasonOf(why));
    }
  }
  Complete(now, slot, outcome, node, env, out);
}

void Unit::RunNfRefused(Instant now, NfContext env, uint32_t slot,
                        uint32_t node, AliasResult why, UnitOut& out) {
  Record& record = records_[slot];
  StateView state(StateOf(slot));
  NfServices services(*this, env.buffers, slot, kNone, nodes_[node].meta,
                      record.link, out);
  FlowState flow(record.flow, now, record.timer, state, services);
  env.nf.on_alias_refused(flow, why);
  record.timer = flow.timer();
  services.Tell();
}

void Unit::RunNfTimer(Instant now, NfContext env, uint32_t slot, UnitOut& out) {
  Record& record = records_[slot];
  const PacketMeta meta = {
      .flow = record.flow, .clock = record.applied, .arrival = record.timer};
  StateView state(StateOf(slot));
  NfServices services(*this, env.buffers, slot, kNone, meta, record.link, out);
  FlowState flow(record.flow, record.timer, Instant::max(), state, services);
  env.nf.on_timer(flow);
  record.timer = std::max(flow.timer(), record.timer + FlowState::kMinPeriod);
  if (max_set_ > 0) record.due = now + push_after_;
  services.Tell();
}

void Unit::RunNfEnd(Instant now, NfContext env, uint32_t slot, UnitOut& out) {
  const Record& record = records_[slot];
  const PacketMeta meta = {
      .flow = record.flow, .clock = record.applied, .arrival = now};
  StateView state(StateOf(slot));
  NfServices services(*this, env.buffers, slot, kNone, meta, record.link, out);
  FlowState flow(record.flow, now, record.timer, state, services);
  env.nf.on_end(flow);
}

}  // namespace snf
