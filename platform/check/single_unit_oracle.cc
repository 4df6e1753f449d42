// SPDX-License-Identifier: Apache-2.0
#include "platform/check/single_unit_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/sdk/nf_call.h"

namespace snf {
namespace {

using Bytes = std::span<const std::byte>;

// Empty for equal ones.
std::string Difference(Bytes got, Bytes expected) {
  if (got.size() == expected.size() &&
      (got.empty() || std::memcmp(&got[0], &expected[0], got.size()) == 0)) {
    return {};
  }
  const auto at =
      std::mismatch(got.begin(), got.end(), expected.begin(), expected.end());
  const auto index = at.first - got.begin();
  if (at.first == got.end() || at.second == expected.end()) {
    return fmt::format(
        "{} bytes, should be {}; byte {} is the first that "
        "differs",
        got.size(), expected.size(), index);
  }
  return fmt::format("byte {} is {:02x}, should be {:02x}", index,
                     std::to_integer<int>(*at.first),
                     std::to_integer<int>(*at.second));
}

std::string InWords(const Verdict& verdict) {
  switch (verdict.kind()) {
    case Verdict::Kind::kForward:
      return "forwarded";
    case Verdict::Kind::kDrop:
      return fmt::format("dropped for reason {}", verdict.reason());
    case Verdict::Kind::kConsume:
      return "consumed";
    case Verdict::Kind::kWait:
      return "dropped for want of pieces";
  }
  return "?";
}

// The label of a forwarded packet, and the pool of a waiting one, are not
// compared.
bool IsSame(const Verdict& a, const Verdict& b) {
  return a.kind() == b.kind() &&
         (a.kind() != Verdict::Kind::kDrop || a.reason() == b.reason());
}

// The outcome of a packet at a unit, from the unit's commands: frames come
// first, and commands behind the packet's own are ignored.
struct Made {
  // `handle` is kNoPacket for a timer packet.
  Made(BufferPool& buffers, PacketHandle handle,
       std::span<const UnitCommand> commands) {
    if (handle != kNoPacket) packet = buffers.bytes(handle);
    using Kind = UnitCommand::Kind;
    for (const UnitCommand& command : commands) {
      switch (command.kind) {
        case Kind::kEmit:
          frames[frame_count++] = buffers.bytes(command.packet);
          continue;
        case Kind::kRelease:
          verdict = Verdict::forward();
          return;
        case Kind::kNfDrop:
          verdict = Verdict::drop(command.nf_reason);
          return;
        case Kind::kConsume:
          verdict = Verdict::consume();
          return;
        case Kind::kDrop:
          verdict = Verdict::wait({});
          return;
        case Kind::kSendAlias:
          return;
        default:
          continue;
      }
    }
  }
  std::optional<Verdict> verdict;  // none: the packet waits for its alias
  Bytes packet;
  size_t frame_count = 0;
  std::array<Bytes, FlowState::kMaxEmits> frames;
};

// Gives the NF here the pieces that the unit's NF took, in that order.
class ReplayedPieces {
 public:
  ReplayedPieces(FlowId flow, std::span<const std::optional<uint32_t>> taken,
                 bool waited, UniquenessCheck& uniqueness)
      : flow_(flow), taken_(taken), waited_(waited), uniqueness_(uniqueness) {}

  std::optional<uint32_t> Take(PoolId pool) {
    // The unit's NF got no more pieces than these.
    if (next_ == taken_.size()) return std::nullopt;
    const std::optional<uint32_t> piece = taken_[next_++];
    if (!piece.has_value()) return piece;
    std::string wrong = uniqueness_.on_taken(flow_, pool, *piece);
    if (wrong_.empty()) wrong_ = std::move(wrong);
    moves_.push_back({.pool = pool, .piece = *piece});
    return piece;
  }
  void Give(PoolId pool, uint32_t piece) {
    uniqueness_.on_given_back(flow_, pool, piece);
    moves_.push_back({.pool = pool, .piece = piece, .gives = true});
  }
  // Returns true if the pool was empty for the unit's NF: it got nothing and
  // did not wait. The last piece may be the one for which the NF would have
  // waited if it had not waited before.
  bool IsExhausted() const {
    if (next_ == taken_.size()) return !waited_;
    return !taken_[next_].has_value() ||
           (next_ > 0 && !taken_[next_ - 1].has_value());
  }

  const std::string& wrong() const { return wrong_; }
  std::vector<SingleUnitOracle::PieceMove> TakeMoves() {
    return std::move(moves_);
  }

 private:
  FlowId flow_;
  std::span<const std::optional<uint32_t>> taken_;
  bool waited_;
  UniquenessCheck& uniqueness_;
  size_t next_ = 0;
  std::vector<SingleUnitOracle::PieceMove> moves_;
  std::string wrong_;
};

// Holds what the NF emits here against what the unit's NF emitted.
class ComparedServices final : public FlowServices {
 public:
  ComparedServices(BufferPool& buffers, const Made& made,
                   ReplayedPieces& pieces, bool nf_logs)
      : buffers_(buffers), made_(made), pieces_(pieces), nf_logs_(nf_logs) {}

  bool Emit(Bytes frame) override { return Compare(frame, false); }

  std::optional<uint32_t> TakePiece(PoolId pool,
                                    const PiecePreference&) override {
    return pieces_.Take(pool);
  }
  void GivePiece(PoolId pool, uint32_t piece) override {
    pieces_.Give(pool, piece);
  }
  bool IsExhausted(PoolId) const override { return pieces_.IsExhausted(); }
  void SetAlias(const FlowKey&, uint64_t, uint32_t) override {}
  void Note(Nanos, bool) override {}
  LogBatch* Records() override {
    if (!nf_logs_) return nullptr;
    if (records_.is_open()) return &records_;
    if (made() == FlowState::kMaxEmits) return nullptr;
    records_ = LogBatch(record_bytes_);
    return &records_;
  }

  // After the call of the NF. The unit's records are its last frame.
  std::string TakeDifference() {
    if (records_.is_open()) {
      Compare(std::exchange(records_, {}).bytes(), true);
    }
    if (difference_.empty() && count_ < made_.frame_count) {
      return fmt::format("it emitted {} frames{}, should be {}",
                         made_.frame_count,
                         nf_logs_ ? " (its log counts as one)" : "", count_);
    }
    return std::move(difference_);
  }

 private:
  size_t made() const { return count_ + (records_.is_open() ? 1 : 0); }
  bool Compare(Bytes frame, bool is_log) {
    if (made() == FlowState::kMaxEmits || frame.empty() ||
        frame.size() > BufferPool::kMaxPacketBytes) {
      return false;
    }
    std::string difference;
    if (count_ >= made_.frame_count) {
      difference = fmt::format("it emitted {} frames and no more{}", count_,
                               nf_logs_ ? " (its log counts as one)" : "");
    } else if (difference = Difference(made_.frames[count_], frame);
               !difference.empty()) {
      difference = is_log ? "of the records that it logged " + difference
                          : fmt::format("of frame {} that it emitted {}",
                                        count_ + 1, difference);
    }
    // The unit may have been refused a buffer. None was freed since.
    if (!difference.empty() && !HasRoom(frame)) return false;
    if (difference_.empty()) difference_ = difference;
    ++count_;
    return true;
  }
  bool HasRoom(Bytes frame) {
    const PacketHandle buffer =
        buffers_.Allocate(static_cast<uint32_t>(frame.size()));
    if (buffer == kNoPacket) return false;
    buffers_.Free(buffer);
    return true;
  }

  BufferPool& buffers_;
  const Made& made_;
  ReplayedPieces& pieces_;
  bool nf_logs_;
  size_t count_ = 0;
  std::string difference_;
  std::array<std::byte, LogBatch::kMaxBytes> record_bytes_;
  LogBatch records_;
};

// Services for the NF when its alias was refused. It emits if there are free
// buffers, as the unit's NF will.
class RefusalServices final : public FlowServices {
 public:
  RefusalServices(FlowId flow, UniquenessCheck& uniqueness, BufferPool& buffers)
      : flow_(flow), uniqueness_(uniqueness), buffers_(buffers) {}
  ~RefusalServices() {
    for (int i = 0; i < emitted_; ++i) buffers_.Free(frames_[i]);
  }

  bool Emit(Bytes frame) override {
    if (emitted_ == FlowState::kMaxEmits || frame.empty() ||
        frame.size() > BufferPool::kMaxPacketBytes) {
      return false;
    }
    const PacketHandle buffer =
        buffers_.Allocate(static_cast<uint32_t>(frame.size()));
    if (buffer == kNoPacket) return false;
    frames_[emitted_++] = buffer;
    return true;
  }
  std::optional<uint32_t> TakePiece(PoolId, const PiecePreference&) override {
    return std::nullopt;
  }
  void GivePiece(PoolId pool, uint32_t piece) override {
    uniqueness_.on_given_back(flow_, pool, piece);
  }
  bool IsExhausted(PoolId) const override { return true; }
  void SetAlias(const FlowKey&, uint64_t, uint32_t) override {}
  void Note(Nanos, bool) override {}

 private:
  FlowId flow_;
  UniquenessCheck& uniqueness_;
  BufferPool& buffers_;
  std::array<PacketHandle, FlowState::kMaxEmits> frames_{};
  int emitted_ = 0;
};

}  // namespace

SingleUnitOracle::SingleUnitOracle(const NfSpec& nf, bool nf_logs)
    : nf_(nf.create()),
      record_bytes_(nf_->schema().record_bytes()),
      nf_logs_(nf_logs) {
  for (const NetworkFunction::Part& part : nf_->parts()) {
    for (const auto& table : part.nf->tables()) tables_.push_back(table.get());
  }
}

uint64_t SingleUnitOracle::TableReads() const {
  uint64_t reads = 0;
  for (const TableCopy* table : tables_) reads += table->reads();
  return reads;
}

void SingleUnitOracle::Before(const PacketInfo& info, Bytes bytes) {
  info_ = info;
  if (copy_.size() < bytes.size()) copy_.resize(bytes.size());
  std::ranges::copy(bytes, copy_.begin());
}

SingleUnitOracle::Findings SingleUnitOracle::After(Instant now,
                                                   const PacketMeta& meta,
                                                   UniquenessCheck& uniqueness,
                                                   const Outcome& outcome) {
  const auto [entry, is_new] = flows_.try_emplace(meta.flow);
  Flow& own = entry->second;
  if (is_new) own.record = std::make_unique<uint64_t[]>(record_bytes_ / 8);
  const uint64_t packets = meta.has_payload() ? 1 : 0;
  if (own.record == nullptr) {
    not_compared_[static_cast<size_t>(own.cause)] += packets;
    return {};
  }
  const Made made(outcome.buffers, outcome.packet, outcome.commands);
  const bool waited =
      made.verdict.has_value() && made.verdict->kind() == Verdict::Kind::kWait;
  ReplayedPieces pieces(meta.flow, outcome.pieces_taken, waited, uniqueness);
  ComparedServices services(outcome.buffers, made, pieces, nf_logs_);
  if (keeps_) {
    own.kept.push_back(
        {.clock = meta.clock,
         .record = {own.record.get(), own.record.get() + record_bytes_ / 8},
         .timer = own.timer,
         .moves = {}});
  }
  StateView state(StateOf(own));
  const uint64_t reads = TableReads();
  std::string difference;
  if (meta.runs_timer()) {
    RunTimer(meta, own, state, services);
    difference = services.TakeDifference();
  } else {
    FlowState flow(meta.flow, now, own.timer, state, services);
    // The copy has the room that the unit's buffer has.
    const size_t room = outcome.buffers.room(outcome.packet).size();
    if (copy_.size() < room) copy_.resize(room);
    const std::span<std::byte> copy = std::span(copy_).first(room);
    Packet packet(info_, copy.first(info_.length), copy);
    Verdict verdict = Verdict::forward();
    CallNf(*nf_, NfCall::Hook::kProcessPacket, &meta, outcome.packet,
           [&] { verdict = nf_->process_packet(packet, flow); });
    own.timer = flow.timer();
    difference = services.TakeDifference();
    if (difference.empty() && made.verdict.has_value() &&
        !IsSame(verdict, *made.verdict)) {
      difference = fmt::format("the packet was {}, should be {}",
                               InWords(*made.verdict), InWords(verdict));
    }
    if (difference.empty()) {
      difference = Difference(made.packet, packet.bytes());
      if (!difference.empty()) difference = "of the packet " + difference;
    }
  }
  if (keeps_) own.kept.back().moves = pieces.TakeMoves();
  if (TableReads() != reads) {
    StopComparing(meta.flow, own, Cause::kTableRead, uniqueness);
    not_compared_[static_cast<size_t>(own.cause)] += packets;
    return {.difference = {}, .pieces = pieces.wrong()};
  }
  compared_ += packets;
  if (difference.empty() && !outcome.record.empty()) {
    difference = Difference(outcome.record, state.record());
    if (!difference.empty()) difference = "of the state " + difference;
  }
  if (!difference.empty()) {
    StopComparing(meta.flow, own, Cause::kDifference, uniqueness);
  }
  return {.difference = std::move(difference), .pieces = pieces.wrong()};
}

void SingleUnitOracle::on_logged(FlowId flow, Clock clock) {
  if (!keeps_) return;
  const auto own = flows_.find(flow);
  if (own == flows_.end()) return;
  std::deque<Earlier>& kept = own->second.kept;
  while (!kept.empty() && kept.front().clock <= clock) kept.pop_front();
}

void SingleUnitOracle::on_lost(FlowId flow, Clock clock,
                               UniquenessCheck& uniqueness) {
  const auto own = flows_.find(flow);
  if (own == flows_.end()) return;
  for (const Earlier& earlier : own->second.kept) {
    if (earlier.clock != clock) continue;
    for (const PieceMove& move : earlier.moves) {
      if (!move.gives) uniqueness.on_given_back(flow, move.pool, move.piece);
    }
  }
}

void SingleUnitOracle::Undo(FlowId id, Clock clock,
                            UniquenessCheck& uniqueness) {
  const auto entry = flows_.find(id);
  if (entry == flows_.end() || entry->second.record == nullptr) return;
  Flow& own = entry->second;
  while (!own.kept.empty() && own.kept.back().clock >= clock) {
    const Earlier& earlier = own.kept.back();
    std::ranges::copy(earlier.record, own.record.get());
    own.timer = earlier.timer;
    for (size_t i = earlier.moves.size(); i-- > 0;) {
      const PieceMove& move = earlier.moves[i];
      if (move.gives) {
        uniqueness.on_taken(id, move.pool, move.piece);
      } else {
        uniqueness.on_given_back(id, move.pool, move.piece);
      }
    }
    own.kept.pop_back();
  }
}

SingleUnitOracle::Moved SingleUnitOracle::Read(FlowId flow) const {
  const auto own = flows_.find(flow);
  if (own == flows_.end()) return {};
  Moved moved;
  moved.is_known = true;
  moved.timer = own->second.timer;
  moved.cause = own->second.cause;
  if (const uint64_t* record = own->second.record.get(); record != nullptr) {
    moved.record.assign(record, record + record_bytes_ / 8);
  }
  return moved;
}

void SingleUnitOracle::Begin(FlowId flow, const Moved& moved) {
  if (!moved.is_known) return;
  Flow& own = flows_[flow];
  own.timer = moved.timer;
  own.cause = moved.cause;
  // An NF without state has an empty record, which is compared as well.
  if (moved.record.empty() && record_bytes_ > 0) return;
  own.record = std::make_unique<uint64_t[]>(record_bytes_ / 8);
  std::ranges::copy(moved.record, own.record.get());
}

void SingleUnitOracle::RunTimer(const PacketMeta& meta, Flow& own,
                                StateView& state, FlowServices& services) {
  if (own.timer > meta.arrival) return;
  FlowState flow(meta.flow, own.timer, Instant::max(), state, services);
  CallNf(*nf_, NfCall::Hook::kOnTimer, &meta, kNoPacket,
         [&] { nf_->on_timer(flow); });
  own.timer = std::max(flow.timer(), own.timer + FlowState::kMinPeriod);
}

void SingleUnitOracle::on_alias_refused(Instant now, FlowId id, AliasResult why,
                                        UniquenessCheck& uniqueness,
                                        BufferPool& buffers) {
  const auto entry = flows_.find(id);
  if (entry == flows_.end() || entry->second.record == nullptr) return;
  Flow& own = entry->second;
  RefusalServices services(id, uniqueness, buffers);
  StateView state(StateOf(own));
  FlowState flow(id, now, own.timer, state, services);
  const PacketMeta meta = {.flow = id, .arrival = now};
  CallNf(*nf_, NfCall::Hook::kOnAliasRefused, &meta, kNoPacket,
         [&] { nf_->on_alias_refused(flow, why); });
  own.timer = flow.timer();
}

void SingleUnitOracle::StopComparing(FlowId id, Flow& own, Cause cause,
                                     UniquenessCheck& uniqueness) {
  own.record.reset();
  own.cause = cause;
  own.kept.clear();
  uniqueness.on_pieces_gone(id);
}

}  // namespace snf
