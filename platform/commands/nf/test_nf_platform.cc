// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/nf/test_nf_platform.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/endpoint.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/rewrite.h"
#include "platform/run/flow_keys.h"

namespace snf {
namespace {

// A packet, and around it bytes that its NF must leave alone.
class GuardedRoom final : public NfCallGuard {
 public:
  explicit GuardedRoom(const Frame& bytes)
      : room_(kAround + bytes.size() + kMaxPacketGrowth + kAround, kUntouched),
        packet_(std::span(room_).subspan(kAround, bytes.size())) {
    std::ranges::copy(bytes, packet_.begin());
  }
  GuardedRoom(const GuardedRoom&) = delete;
  GuardedRoom& operator=(const GuardedRoom&) = delete;

  std::span<std::byte> packet() const { return packet_; }
  std::span<std::byte> room() { return std::span(room_).subspan(kAround); }
  void Check() const override {
    const std::span<const std::byte> room(room_);
    if (!IsUntouched(room.first(kAround))) Fail("before");
    if (!IsUntouched(room.subspan(kAround + packet_.size()))) Fail("behind");
  }
  void OnResize(size_t bytes) override {
    packet_ = room().first(bytes);
    std::ranges::fill(room().subspan(bytes), kUntouched);
  }

 private:
  static constexpr size_t kAround = 4'096;
  static constexpr std::byte kUntouched{0xa5};
  static bool IsUntouched(std::span<const std::byte> bytes) {
    return std::ranges::count(bytes, kUntouched) == std::ssize(bytes);
  }
  void Fail(const std::string& where) const {
    FailNf("wrote " + where + " the packet, which has " +
           std::to_string(packet_.size()) + " bytes");
  }

  std::vector<std::byte> room_;
  std::span<std::byte> packet_;
};

}  // namespace

NfTest::Platform::Platform(const NfSpec& spec, std::vector<IpPrefix> inside)
    : nf_(spec.create()),
      log_writer_(spec.create()),
      tables_(TablesOf(*nf_), {.forget_after = kFlowTimeout}),
      has_sides_(nf_->flow_scope() == FlowScope::kInsideEndpoint),
      own_keys_(*nf_),
      classifier_({}),
      peer_emulator_(std::move(inside)) {
  for (const NfLog& log : LogsOf(*nf_)) logs[log.name];
  for (const NetworkFunction::Pool& pool : nf_->pools()) {
    PieceSet& pieces = pools_.emplace_back(Pool{PieceSet(pool.words())}).here;
    for (uint32_t p = pool.first; p <= pool.last; ++p) {
      pieces.Add(p / 64, uint64_t{1} << p % 64);
    }
  }
}

bool NfTest::Platform::Emit(std::span<const std::byte> frame) {
  if (frame.empty() || call_.emitted == FlowState::kMaxEmits) return false;
  ++call_.emitted;
  emitted.push_back({.bytes = {frame.begin(), frame.end()},
                     .original_length = static_cast<uint32_t>(frame.size()),
                     .link = flows_.at(call_.flow).link});
  return true;
}

std::optional<uint32_t> NfTest::Platform::TakePiece(
    PoolId id, const PiecePreference& wish) {
  Pool& pool = pools_.at(static_cast<size_t>(id));
  const bool is_there = pool.supply == Supply::kHere ||
                        (pool.supply == Supply::kComing && call_.has_waited);
  if (!is_there || !call_.is_packet) return std::nullopt;
  const std::optional<uint32_t> piece = pool.here.Take(wish);
  if (piece.has_value()) {
    pool.in_use[*piece] = call_.flow;
    ++call_.kept;
  }
  return piece;
}

void NfTest::Platform::GivePiece(PoolId id, uint32_t piece) {
  Pool& pool = pools_.at(static_cast<size_t>(id));
  const auto used = pool.in_use.find(piece);
  if (used == pool.in_use.end() || used->second != call_.flow) {
    ADD_FAILURE() << "piece " << piece << " of pool "
                  << nf_->pools()[static_cast<size_t>(id)].name
                  << " was given back by a flow that did not have it";
    return;
  }
  pool.in_use.erase(used);
  pool.here.Add(piece / 64, uint64_t{1} << piece % 64);
  --call_.kept;
}

void NfTest::Platform::SetAlias(const FlowKey& key, uint64_t group,
                                uint32_t group_limit) {
  call_.alias = {.key = key, .group = group, .group_limit = group_limit};
}

void NfTest::Platform::Note(Nanos idle_timeout, bool over) {
  if (idle_timeout.ns >= 0) call_.idle_timeout = idle_timeout;
  call_.over |= over;
}

// What the NF asked for, but for an alias, becomes true, and its updates of
// tables become totals.
void NfTest::Platform::Keep(FlowId id, const FlowState& state) {
  Flow& flow = flows_.at(id);
  EXPECT_TRUE(nf_->schema().IsWellFormed(flow.record));
  flow.timer = state.timer();
  if (call_.idle_timeout.has_value()) flow.idle_timeout = *call_.idle_timeout;
  tables_.Merge(now_);
  WriteRecords();
}

// Writes the records of the call, by an object that processes no packet.
void NfTest::Platform::WriteRecords() {
  if (!records_.is_open()) return;
  const std::vector<NfLog> all = LogsOf(*log_writer_);
  const bool is_sound = LogBatch::Read(
      records_.bytes(),
      [&](LogId id, std::span<const std::byte> bytes) {
        const NfLog& log = all.at(static_cast<size_t>(id));
        log.nf->write_record({log.own, now_, bytes}, logs[log.name]);
      },
      [](LogId /*log*/, uint16_t lost) {
        ADD_FAILURE() << lost << " log records of one call found no room";
      });
  EXPECT_TRUE(is_sound);
  records_ = {};
}

template <typename Function>
void NfTest::Platform::CallFor(FlowId id, Instant now, NfCall::Hook hook,
                               Function function) {
  Flow& flow = flows_.at(id);
  call_ = {.flow = id};
  StateView view(flow.record);
  FlowState state(id, now, flow.timer, view, *this);
  nf_call.names = this;
  CallNf(*nf_, hook, &flow.meta, kNoPacket, [&] { function(state); });
  Keep(id, state);
}

void NfTest::Platform::End(FlowId id) {
  CallFor(id, now_, NfCall::Hook::kOnEnd,
          [&](FlowState& state) { nf_->on_end(state); });
  for (size_t i = 0; i < pools_.size(); ++i) {
    std::erase_if(pools_[i].in_use, [&](const auto& used) {
      if (used.second != id) return false;
      ADD_FAILURE() << "a flow is over, but keeps piece " << used.first
                    << " of pool " << nf_->pools()[i].name;
      return true;
    });
  }
  const Flow& flow = flows_.at(id);
  if (flow.alias.has_value()) aliases_.erase(flow.alias->key);
  peer_emulator_.on_flow_over(flow.key);
  ids_.erase(flow.key);
  flows_.erase(id);
}

void NfTest::Platform::Pass(Nanos time) {
  const Instant until = now_ + time;
  while (true) {
    FlowId next = kNoFlow;
    Instant due = Instant::max();
    for (const auto& [id, flow] : flows_) {
      const Instant idle = flow.last_packet + flow.idle_timeout;
      if (std::min(flow.timer, idle) >= due) continue;
      due = std::min(flow.timer, idle);
      next = id;
    }
    if (next == kNoFlow || due > until) break;
    now_ = std::max(now_, due);
    Flow& flow = flows_.at(next);
    if (flow.timer > due) {
      End(next);
      continue;
    }
    flow.timer = Instant::max();
    CallFor(next, due, NfCall::Hook::kOnTimer,
            [&](FlowState& state) { nf_->on_timer(state); });
    flow.timer = std::max(flow.timer, due + FlowState::kMinPeriod);
    if (call_.over) End(next);
  }
  now_ = until;
}

std::optional<DropReason> NfTest::Platform::Admit(TestPacket& packet,
                                                  PacketInfo& info,
                                                  const FlowKey& connection,
                                                  Direction direction,
                                                  FlowId& id) {
  FlowKey key = connection;
  if (own_keys_.any()) {
    own_keys_.Apply(packet.bytes, info.headers, direction, key);
  }
  if (has_sides_) {
    if (!HasEnds(connection)) return DropReason::kFragmentEarly;
    const Endpoints ends = EndpointsOf(connection, direction);
    NatPeerEmulator::Placed placed = peer_emulator_.Place(ends);
    if (placed.side == Side::kOutside) {
      const std::optional<FlowKey> inside =
          own_keys_.InsideOf(packet.bytes, info.headers, direction, connection);
      if (inside.has_value()) {
        placed = {.side = placed.side,
                  .key = *inside,
                  .inside = *inside,
                  .told = true};
      }
    }
    if (placed.untranslated) return DropReason::kNotTranslated;
    SetFarEnd(info, placed.side, ends);
    key = placed.key;
    if (placed.rewrite && key.form == FlowKeyForm::kIpv4Endpoint) {
      RewriteDestination(packet.bytes, info.headers, key.source.ipv4(),
                         key.source_port);
    }
    if (placed.by_alias()) {
      const auto named = aliases_.find(key);
      if (named == aliases_.end()) return DropReason::kNoAlias;
      id = named->second;
      return std::nullopt;
    }
  }
  const auto [entry, is_new] = ids_.try_emplace(key, FlowId{flows_begun_});
  id = entry->second;
  if (is_new) {
    ++flows_begun_;
    flows_[id] = {
        .key = key,
        .record = std::vector<std::byte>(nf_->schema().record_bytes())};
  }
  return std::nullopt;
}

void NfTest::Platform::CheckUnchanged(const Flow& before,
                                      const Frame& bytes_before,
                                      const Frame& bytes,
                                      const FlowState& state) {
  const Flow& flow = flows_.at(call_.flow);
  const auto unchanged = [](bool is_so, const char* what) {
    if (!is_so) ADD_FAILURE() << "Verdict::wait, but " << what;
  };
  unchanged(flow.record == before.record, "the state was changed");
  unchanged(bytes == bytes_before, "the packet was changed");
  unchanged(state.timer() == before.timer, "a timer was set");
  unchanged(call_.emitted == 0, "a packet was emitted");
  unchanged(!records_.is_open(), "a log record was written");
  unchanged(call_.kept == 0, "a piece was taken");
  unchanged(!call_.alias.has_value(), "an alias was set");
  unchanged(!call_.over && !call_.idle_timeout.has_value(),
            "the flow was ended, or its idle timeout set");
}

// Calls the NF with the packet in the midst of bytes that it must leave alone.
Verdict NfTest::Platform::Process(PacketInfo& info, Frame& bytes,
                                  FlowState& state) {
  GuardedRoom room(bytes);
  Packet packet(info, room.packet(), room.room());
  Verdict verdict = Verdict::forward();
  nf_call.names = this;
  nf_call.guard = &room;
  CallNf(*nf_, NfCall::Hook::kProcessPacket, &flows_.at(state.id()).meta,
         PacketHandle{0}, [&] {
           verdict = nf_->process_packet(packet, state);
           room.Check();
         });
  nf_call.guard = nullptr;
  bytes.assign(room.packet().begin(), room.packet().end());
  return verdict;
}

// As often as the NF waits for what may come.
Verdict NfTest::Platform::Run(FlowId id, PacketInfo& info, Frame& bytes) {
  const Flow before = flows_.at(id);
  const Frame bytes_before = bytes;
  std::optional<PoolId> refused;
  bool has_waited = false;
  while (true) {
    Flow& flow = flows_.at(id);
    call_ = {.flow = id,
             .is_packet = true,
             .has_waited = has_waited,
             .refused = refused};
    StateView view(flow.record);
    FlowState state(id, now_, flow.timer, view, *this);
    const bool may_wait = nf_->may_wait(state);
    const Verdict verdict = Process(info, bytes, state);
    if (verdict.kind() != Verdict::Kind::kWait) {
      Keep(id, state);
      return verdict;
    }
    if (!may_wait) ADD_FAILURE() << "Verdict::wait, but may_wait() is false";
    CheckUnchanged(before, bytes_before, bytes, state);
    if (refused.has_value()) return verdict;
    const Pool& pool = pools_.at(static_cast<size_t>(verdict.pool()));
    if (has_waited || pool.supply != Supply::kComing) refused = verdict.pool();
    has_waited = true;
  }
}

// Why the packet is dropped after all.
std::optional<DropReason> NfTest::Platform::SettleAlias(FlowId id,
                                                        Verdict& verdict) {
  if (!call_.alias.has_value()) return std::nullopt;
  const NamedAlias wanted = *call_.alias;
  const bool over = call_.over;
  const auto owner = aliases_.find(wanted.key);
  size_t in_group = 0;
  for (const auto& [other, flow] : flows_) {
    in_group += other != id && flow.alias.has_value() &&
                flow.alias->group == wanted.group;
  }
  AliasResult result = AliasResult::kGranted;
  if (owner != aliases_.end() && owner->second != id) {
    result = AliasResult::kConflict;
  } else if (wanted.group_limit > 0 && in_group >= wanted.group_limit) {
    result = AliasResult::kGroupFull;
  }
  result = std::exchange(next_alias, std::nullopt).value_or(result);
  Flow& flow = flows_.at(id);
  if (result == AliasResult::kGranted) {
    if (flow.alias.has_value()) aliases_.erase(flow.alias->key);
    flow.alias = wanted;
    aliases_[wanted.key] = id;
    peer_emulator_.on_alias(flow.key, wanted.key);
    return std::nullopt;
  }
  CallFor(id, now_, NfCall::Hook::kOnAliasRefused,
          [&](FlowState& state) { nf_->on_alias_refused(state, result); });
  call_.over |= over;
  if (verdict.kind() != Verdict::Kind::kForward) return std::nullopt;
  return result == AliasResult::kConflict    ? DropReason::kAliasConflict
         : result == AliasResult::kGroupFull ? DropReason::kAliasLimit
                                             : DropReason::kNoAlias;
}

NfResult NfTest::Platform::ResultOf(const Verdict& verdict,
                                    std::optional<DropReason> reason,
                                    TestPacket packet) {
  NfResult result;
  if (verdict.kind() == Verdict::Kind::kWait) reason = DropReason::kNoPieces;
  if (reason.has_value()) {
    result.text = "drop " + std::string(ToString(*reason));
  } else if (verdict.kind() == Verdict::Kind::kConsume) {
    result.text = "consume";
  } else if (verdict.kind() == Verdict::Kind::kDrop) {
    const auto reasons = nf_->drop_reasons();
    if (verdict.reason() < reasons.size()) {
      result.text = "drop " + std::string(reasons[verdict.reason()]);
    } else {
      ADD_FAILURE() << "Verdict::drop(" << int{verdict.reason()} << "), but "
                    << "drop_reasons() has " << reasons.size();
    }
  } else {
    const auto labels = nf_->labels();
    if (verdict.label() > 0 && verdict.label() >= labels.size()) {
      ADD_FAILURE() << "Verdict::forward(" << int{verdict.label()}
                    << "), but labels() has " << labels.size();
    } else if (verdict.label() > 0) {
      result.text = std::string(labels[verdict.label()]) + ": ";
    }
    result.text += ToText(packet);
  }
  result.packet = std::move(packet);
  return result;
}

NfResult NfTest::Platform::Send(const TestPacket& sent) {
  Pass(sent.gap);
  ++sent_;
  TestPacket packet = sent;
  PacketInfo info;
  info.arrival = now_;
  info.length = static_cast<uint32_t>(packet.bytes.size());
  info.original_length = std::max(packet.original_length, info.length);
  info.link = packet.link;
  info.side = std::exchange(packet.side, Side::kUnknown);
  FlowKey key;
  const Direction direction =
      classifier_.Classify(now_, packet.link, packet.bytes, info.headers, key);
  // What is not IP passes by the NF.
  if (direction == Direction::kNone) {
    return ResultOf(Verdict::forward(), std::nullopt, std::move(packet));
  }
  FlowId id{};
  Verdict verdict = Verdict::forward();
  std::optional<DropReason> reason = Admit(packet, info, key, direction, id);
  if (!reason.has_value()) {
    Flow& flow = flows_.at(id);
    flow.meta.flow = id;
    flow.meta.clock = Clock{value(flow.meta.clock) + 1};
    flow.last_packet = now_;
    flow.link = packet.link;
    const uint32_t length = info.length;
    verdict = Run(id, info, packet.bytes);
    if (info.length != length) packet.original_length = info.original_length;
    reason = SettleAlias(id, verdict);
    if (call_.over) End(id);
  }
  return ResultOf(verdict, reason, std::move(packet));
}

FlowId NfTest::Platform::Find(const TestPacket& packet) const {
  FlowClassifier classifier = classifier_;
  ParsedPacket headers;
  FlowKey key;
  const Direction direction =
      classifier.Classify(now_, packet.link, packet.bytes, headers, key);
  if (direction == Direction::kNone) return kNoFlow;
  if (has_sides_) {
    if (!HasEnds(key)) return kNoFlow;
    const Endpoints ends = EndpointsOf(key, direction);
    for (const FlowKey& end : {ends.from, ends.to}) {
      if (ids_.contains(end)) return ids_.at(end);
      if (aliases_.contains(end)) return aliases_.at(end);
    }
    return kNoFlow;
  }
  if (own_keys_.any()) {
    own_keys_.Apply(packet.bytes, headers, direction, key);
  }
  const auto found = ids_.find(key);
  return found == ids_.end() ? kNoFlow : found->second;
}

std::optional<std::vector<std::byte>> NfTest::Platform::SlotBytes(
    const std::string& name, FlowId id) const {
  const StateSchema& schema = nf_->schema();
  std::string known;
  for (uint32_t slot = 0; slot < schema.slots(); ++slot) {
    known += " " + std::string(schema.name(slot));
    if (schema.name(slot) != name) continue;
    const auto flow = flows_.find(id);
    if (flow == flows_.end()) return std::nullopt;
    std::vector<std::byte> record = flow->second.record;
    const StateView view(record);
    if (!view.Has(slot)) return std::nullopt;
    const uint32_t offset = schema.offset(slot);
    if (schema.is_blob(slot)) {
      const auto blob = view.GetBlob(offset);
      return std::vector<std::byte>(blob.begin(), blob.end());
    }
    const auto begin = record.begin() + offset;
    return std::vector<std::byte>(begin, begin + schema.bytes(slot));
  }
  ADD_FAILURE() << "no slot \"" << name << "\"; there is"
                << (known.empty() ? " none" : ":" + known);
  return std::nullopt;
}

std::string NfTest::Platform::AliasOf(FlowId id) const {
  const auto flow = flows_.find(id);
  if (flow == flows_.end() || !flow->second.alias.has_value()) return "";
  return ToString(flow->second.alias->key);
}

size_t NfTest::Platform::PoolNamed(const std::string& name) const {
  const auto pools = nf_->pools();
  for (size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].name == name) return i;
  }
  ADD_FAILURE() << "no pool \"" << name << "\"";
  return pools.size();
}

}  // namespace snf
