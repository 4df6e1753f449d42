// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/test_chain.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "gtest/gtest.h"

namespace snf {

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::unique_ptr<NetworkFunction> MakeChain(std::string_view text) {
  const absl::StatusOr<NfSpec> spec = NfSpec::Parse(text);
  EXPECT_TRUE(spec.ok()) << text << ": " << spec.status();
  if (!spec.ok()) return nullptr;
  const absl::Status status = spec->check();
  EXPECT_TRUE(status.ok()) << text << ": " << status;
  return status.ok() ? spec->create() : nullptr;
}

// --- What a unit does -------------------------------------------------------

void ChainWorld::AddPools(const NetworkFunction& nf, uint32_t pieces) {
  for (size_t i = 0; i < nf.pools().size(); ++i) {
    std::set<uint32_t>& pool = pools.emplace_back();
    for (uint32_t p = 0; p < pieces; ++p) pool.insert(nf.pools()[i].first + p);
  }
}

bool ChainWorld::Emit(std::span<const std::byte> frame) {
  if (frame.empty() || said.frames.size() == FlowState::kMaxEmits) return false;
  said.frames.emplace_back(AsText(frame));
  return true;
}

std::optional<uint32_t> ChainWorld::TakePiece(PoolId pool,
                                              const PiecePreference& wish) {
  const auto index = static_cast<uint16_t>(pool);
  std::set<uint32_t>& free = pools.at(index);
  const auto found = std::ranges::find_if(
      free, [&](uint32_t piece) { return wish.Admits(piece); });
  if (found != free.end()) {
    const uint32_t piece = *found;
    free.erase(found);
    return piece;
  }
  const auto given = std::ranges::find_if(given_, [&](const auto& one) {
    return one.first == index && wish.Admits(one.second);
  });
  if (given == given_.end()) return std::nullopt;
  const uint32_t piece = given->second;
  given_.erase(given);
  return piece;
}

void ChainWorld::GivePiece(PoolId pool, uint32_t piece) {
  given_.emplace_back(static_cast<uint16_t>(pool), piece);
}

ChainWorld::Said ChainWorld::EndCall() {
  for (const auto& [pool, piece] : given_) {
    EXPECT_TRUE(pools.at(pool).insert(piece).second) << "given back twice";
  }
  given_.clear();
  return std::exchange(said, {});
}

// --- Calls ------------------------------------------------------------------

struct ChainFlow::Call {
  Call(ChainFlow& of, Instant now, Instant timer, FlowServices& services)
      : own(of),
        before(of.record),
        state(of.record),
        flow(FlowId{1}, now, timer, state, services) {}
  void End() {
    own.timer = flow.timer();
    if (before.empty()) return;
    const StateSchema& schema = *own.schema_;
    ASSERT_TRUE(schema.IsWellFormed(own.record));
    const auto present =
        LoadAs<uint64_t>(before.data()) ^ LoadAs<uint64_t>(own.record.data());
    ASSERT_EQ(present & ~state.dirty(), 0u);
    for (uint32_t slot = 0; slot < schema.slots(); ++slot) ExpectNoted(slot);
  }
  // Expects that the parts of a slot that are not noted as changed are
  // unchanged.
  void ExpectNoted(uint32_t slot) {
    const StateSchema& schema = *own.schema_;
    const uint32_t begin = schema.offset(slot);
    const bool is_dirty = (state.dirty() >> slot & 1) != 0;
    if (!schema.is_blob(slot)) {
      if (is_dirty) return;
      ASSERT_EQ(
          std::memcmp(&before[begin], &own.record[begin], schema.bytes(slot)),
          0);
      return;
    }
    const StateView was(before);
    const auto old_bytes = was.GetBlob(begin);
    const auto bytes = state.GetBlob(begin);
    if (!is_dirty) {
      ASSERT_EQ(AsText(old_bytes), AsText(bytes));
      return;
    }
    const StateView::Range range = state.dirty_range(slot);
    for (size_t i = 0; i < std::min(old_bytes.size(), bytes.size()); ++i) {
      if (i >= range.begin && i < range.end) continue;
      ASSERT_EQ(old_bytes[i], bytes[i]) << schema.name(slot) << " " << i;
    }
    if (bytes.size() > old_bytes.size()) {
      ASSERT_LE(range.begin, old_bytes.size());
      ASSERT_EQ(range.end, bytes.size());
    }
  }

  ChainFlow& own;
  std::vector<std::byte> before;
  StateView state;
  FlowState flow;
};

namespace {

struct PacketBytes {
  explicit PacketBytes(const ChainPacket& of)
      : bytes(of.bytes.size()), packet(info, bytes) {
    info.arrival = of.now;
    info.length = info.original_length = static_cast<uint32_t>(of.bytes.size());
    info.side = of.side;
    info.far_address =
        IpAddress::FromIpv4(be32(0xc000'0200u + of.far_end / 2u));
    info.far_port = be16(static_cast<uint16_t>(50 + of.far_end % 2));
    std::memcpy(bytes.data(), of.bytes.data(), of.bytes.size());
  }
  PacketInfo info;
  std::vector<std::byte> bytes;
  Packet packet;
};

std::string InWords(const NetworkFunction& nf, const Verdict& verdict) {
  switch (verdict.kind()) {
    case Verdict::Kind::kForward:
      return "forward";
    case Verdict::Kind::kDrop:
      return "drop: " + std::string(nf.drop_reasons()[verdict.reason()]);
    case Verdict::Kind::kConsume:
      return "consume";
    case Verdict::Kind::kWait:
      return "wait: " + std::to_string(static_cast<int>(verdict.pool()));
  }
  return "?";
}

}  // namespace

ChainFlow::Outcome ChainFlow::Send(NetworkFunction& nf, ChainWorld& world,
                                   const ChainPacket& packet) {
  PacketBytes copy(packet);
  const auto pools_before = world.pools;
  Call call(*this, packet.now, timer, world);
  const Verdict verdict = nf.process_packet(copy.packet, call.flow);
  Outcome outcome = {.verdict = InWords(nf, verdict),
                     .bytes = std::string(AsText(copy.bytes)),
                     .said = world.EndCall()};
  if (verdict.kind() == Verdict::Kind::kWait) {
    EXPECT_EQ(record, call.before);
    EXPECT_EQ(call.state.dirty(), 0u);
    EXPECT_EQ(call.flow.timer(), timer);
    EXPECT_EQ(world.pools, pools_before);
    EXPECT_EQ(outcome.bytes, packet.bytes);
    EXPECT_EQ(outcome.said, ChainWorld::Said());
  }
  call.End();
  return outcome;
}

std::vector<ChainFlow::Outcome> ChainFlow::SendBurst(
    Chain& chain, ChainWorld& world, std::span<ChainFlow* const> flows,
    std::span<const ChainPacket> packets) {
  std::vector<std::unique_ptr<PacketBytes>> copies;
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<Packet*> packet_pointers;
  std::vector<FlowState*> states;
  for (size_t i = 0; i < flows.size(); ++i) {
    copies.push_back(std::make_unique<PacketBytes>(packets[i]));
    calls.push_back(std::make_unique<Call>(*flows[i], packets[i].now,
                                           flows[i]->timer, world));
    packet_pointers.push_back(&copies[i]->packet);
    states.push_back(&calls[i]->flow);
  }
  std::vector<Verdict> verdicts(flows.size(), Verdict::consume());
  chain.process_burst(packet_pointers, states, verdicts);
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < flows.size(); ++i) {
    calls[i]->End();
    outcomes.push_back({.verdict = InWords(chain, verdicts[i]),
                        .bytes = std::string(AsText(copies[i]->bytes)),
                        .said = world.EndCall()});
  }
  return outcomes;
}

ChainWorld::Said ChainFlow::on_timer(NetworkFunction& nf, ChainWorld& world) {
  Call call(*this, timer, Instant::max(), world);
  nf.on_timer(call.flow);
  call.End();
  return world.EndCall();
}

ChainWorld::Said ChainFlow::on_end(NetworkFunction& nf, ChainWorld& world,
                                   Instant now) {
  Call call(*this, now, timer, world);
  nf.on_end(call.flow);
  call.End();
  std::ranges::fill(record, std::byte{0});
  timer = Instant::max();
  return world.EndCall();
}

ChainWorld::Said ChainFlow::on_alias_refused(NetworkFunction& nf,
                                             ChainWorld& world, Instant now) {
  Call call(*this, now, timer, world);
  nf.on_alias_refused(call.flow, AliasResult::kConflict);
  call.End();
  return world.EndCall();
}

std::optional<std::string> ChainFlow::ValueOf(std::string_view name) const {
  for (uint32_t slot = 0; slot < schema_->slots(); ++slot) {
    if (schema_->name(slot) != name) continue;
    const uint32_t begin = schema_->offset(slot);
    if ((LoadAs<uint64_t>(record.data()) >> slot & 1) == 0) return {};
    if (!schema_->is_blob(slot)) {
      return std::string(
          AsText(std::span(record).subspan(begin, schema_->bytes(slot))));
    }
    const auto length = LoadAs<uint64_t>(&record[begin]);
    return std::string(AsText(std::span(record).subspan(
        begin + StateSchema::kBlobHeaderBytes, length)));
  }
  ADD_FAILURE() << "there is no slot " << name;
  return {};
}

uint64_t ChainFlow::Number(std::string_view name) const {
  const std::optional<std::string> bytes = ValueOf(name);
  uint64_t number = 0;
  if (bytes.has_value()) std::memcpy(&number, bytes->data(), 8);
  return number;
}

}  // namespace snf
