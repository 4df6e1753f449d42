// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_NF_SERVICES_H_
#define SNF_RUNTIME_CORE_NF_SERVICES_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "base/messages/messages.h"
#include "base/packet/packet_parser.h"
#include "runtime/core/nf_calls.h"
#include "runtime/core/rules.h"
#include "runtime/core/unit_limits.h"
#include "runtime/logger/delta.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/nf_call.h"

namespace snf {

// Services carries out the NF's requests during one call. It lives as long as
// the call, and borrows all its arguments.
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

  // The batch is one of the call's kMaxEmits.
  LogBatch* Records() override {
    if (!calls_.nf_logs_) return nullptr;
    if (records_.is_open()) return &records_;
    if (emitted_ < FlowState::kMaxEmits) {
      batch_ = buffers_.Allocate(LogBatch::kMaxBytes - kMaxPacketGrowth);
    }
    if (batch_ == kNoPacket) {
      ++calls_.records_refused_;
      return nullptr;
    }
    ++emitted_;
    records_ = LogBatch(buffers_.room(batch_));
    return &records_;
  }
  // Sends the records of the call, which has ended.
  void SendRecords() {
    if (!records_.is_open()) [[likely]]
      return;
    const auto length = static_cast<uint32_t>(records_.bytes().size());
    buffers_.info(batch_) = {.arrival = meta_.arrival,
                             .length = length,
                             .original_length = length,
                             .headers = {},
                             .link = link_,
                             .side = Side::kLogs};
    out_.push(UnitCommand::OfPacket(UnitCommand::Kind::kEmit, batch_, meta_));
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
      pieces.RequestAhead(index, out_);
    }
    return piece;
  }

  void GivePiece(PoolId pool, uint32_t piece) override {
    const uint16_t index = IndexOf(pool);
    UnitPieces& pieces = calls_.pieces_;
    if (calls_.has_logger_ &&
        (node_ == kNone || !pieces.Untake(index, piece))) {
      GiveWhenReleased(index, piece);
      return;
    }
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
    if (node_ == kNone) FailNf("called set_alias outside of process_packet");
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
  // Sends the NF's messages at the end of the call, the alias first.
  void Tell() {
    SendRecords();
    if (has_alias_) [[unlikely]] {
      out_.push(UnitCommand::OfPacket(UnitCommand::Kind::kSendAlias, kNoPacket,
                                      meta_));
    }
    if (note_.has_value()) [[unlikely]]
      out_.push(UnitCommand::Send(*note_));
    if (calls_.has_logger_ && node_ != kNone) [[unlikely]]
      calls_.pieces_.AppendTaken(calls_.uses_);
  }
  // Returns the action of the NF that is not allowed at a waiting packet; "" if
  // there is none.
  std::string_view change() const {
    return records_.is_open()  ? "wrote a log record"
           : emitted_ > 0      ? "emitted a packet"
           : has_alias_        ? "set an alias"
           : note_.has_value() ? "ended the flow or set its idle timeout"
           : kept_ != 0        ? "kept a piece"
                               : "";
  }

 private:
  // Another flow may use the piece only once this clock is released (U13).
  void GiveWhenReleased(uint16_t pool, uint32_t piece) {
    UnitPieces& pieces = calls_.pieces_;
    if (!SNF_RULE(kGivenBack, pieces.GiveLater(pool, piece),
                  pieces.Give(pool, piece))) {
      ++calls_.pieces_refused_;
      return;
    }
    --kept_;
    // The takes of this call are still to come.
    if (calls_.uses_.size() + kMaxTakesPerCall == kMaxPieceUsesPerCall) {
      FailNf("gave more pieces back than it may at one packet");
    }
    calls_.uses_.push_back({.piece = piece, .pool = pool, .gives = 1});
  }

  uint16_t IndexOf(PoolId pool) const {
    const auto index = static_cast<uint16_t>(pool);
    calls_.CheckPool(index);
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
  int kept_ = 0;                    // counts pieces: taken less given
  PacketHandle batch_ = kNoPacket;  // has records_
  LogBatch records_;
  std::optional<FlowNote> note_;
};

// This is on the path of every packet, and called at one place, Unit::finish().
[[gnu::always_inline]] inline NfCalls::Outcome NfCalls::Process(
    Instant now, NfContext env, uint32_t slot, uint32_t node, FlowStore& flows,
    UnitOut& out) noexcept {
  FlowRecord& record = flows[slot];
  const PacketMeta& meta = flows.packets()[node].meta;
  const PacketHandle packet = flows.packets()[node].packet;
  // Other processes can write the description while the NF runs, so the NF gets
  // a copy.
  const auto& [shared_info, room] = env.buffers.whole(packet);
  PacketInfo info = shared_info;
  const std::span<std::byte> bytes =
      room.first(std::min<size_t>(info.length, room.size()));
  if (record.waited) [[unlikely]]
    pieces_.Ran(waiting_[node].pool);

  if (info.length > room.size() || !info.IsSound()) [[unlikely]]
    return Outcome(UnitCommand::Kind::kDrop, DropReason::kPacketCorrupt);
  StateView state(flows.state(slot));
  Services services(*this, flows, env.buffers, slot, node, meta, info.link,
                    out);
  FlowState flow(record.flow, now, record.timer, state, services);
  Packet view(info, bytes, room);
  nf_call.nf = &env.nf;
  nf_call.hook = NfCall::Hook::kProcessPacket;
  nf_call.meta = &meta;
  nf_call.packet = packet;
  const bool is_guarded = ++unguarded_ >= guard_every_;
  const Verdict verdict = is_guarded ? ProcessGuarded(env, packet, view, flow)
                                     : env.nf.process_packet(view, flow);

  if (view.is_resized()) [[unlikely]] {
    if (verdict.kind() == Verdict::Kind::kWait) {
      FailNf("returned Verdict::wait, but changed the packet's size");
    }
    shared_info.length = info.length;
    shared_info.original_length = info.original_length;
    shared_info.headers = info.headers;
  }

  using Kind = UnitCommand::Kind;
  Outcome outcome(Kind::kRelease);
  if (verdict.forwards_below(1)) [[likely]] {
    // The outcome is that already.
  } else if (verdict.kind() == Verdict::Kind::kDrop) {
    CheckDropReason(env.nf, verdict);
    outcome = Outcome(Kind::kNfDrop, {}, verdict.reason());
  } else if (verdict.kind() == Verdict::Kind::kConsume) {
    outcome = Outcome(Kind::kConsume);
  } else if (verdict.kind() == Verdict::Kind::kWait) {
    CheckWait(env, state, services, flow, record.timer);
    const auto pool = static_cast<uint16_t>(verdict.pool());
    if (AwaitPieces(slot, node, pool, flows, out)) {
      out.push(UnitCommand::OfPacket(Kind::kWait, packet, meta));
      if (!tables_.empty()) {
        TakeUpdates();
        updates_.clear();  // the packet makes them when it runs again
      }
      nf_call.hook = NfCall::Hook::kNone;
      return Outcome(Kind::kWait);
    }
    // Later packets may find pieces here.
    if (!waiting_[node].IsRefused(pool) && !stopping_) {
      pieces_.RequestAhead(pool, out);
    }
    outcome = Outcome(Kind::kDrop, DropReason::kNoPieces);
  } else {
    CheckLabel(env.nf, verdict);
  }
  nf_call.hook = NfCall::Hook::kNone;
  record.timer = flow.timer();
  record.link = info.link;
  if (has_logger_) [[unlikely]] {
    delta_bytes_ = EncodeDelta(*schema_, state, delta_);
    if (!tables_.empty()) TakeUpdates();
  }
  services.Tell();
  if (services.has_alias()) [[unlikely]] {
    waiting_[node].kind = outcome.kind();
    waiting_[node].nf_reason = outcome.nf_reason();
    record.parked = node;
  }
  return outcome;
}

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_NF_SERVICES_H_
