// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/test_chain_oracle.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "gtest/gtest.h"

namespace snf {

// Passes requests on; those of an NF of connections that concern the endpoint
// do nothing.
class ChainOracle::Services final : public FlowServices {
 public:
  Services(ChainOracle& oracle, bool is_of_connection)
      : oracle_(oracle), is_of_connection_(is_of_connection) {}
  bool Emit(std::span<const std::byte> frame) override {
    return oracle_.world_->Emit(frame);
  }
  std::optional<uint32_t> TakePiece(PoolId pool,
                                    const PiecePreference& wish) override {
    return oracle_.world_->TakePiece(pool, wish);
  }
  void GivePiece(PoolId pool, uint32_t piece) override {
    oracle_.world_->GivePiece(pool, piece);
  }
  bool IsExhausted(PoolId pool) const override {
    return oracle_.world_->IsExhausted(pool);
  }
  void SetAlias(const FlowKey& key, uint64_t group, uint32_t limit) override {
    if (!is_of_connection_) oracle_.world_->SetAlias(key, group, limit);
  }
  void Note(Nanos idle_timeout, bool over) override {
    if (is_of_connection_) {
      oracle_.is_connection_over_ |= over;
    } else {
      oracle_.world_->Note(idle_timeout, over);
    }
  }

 private:
  ChainOracle& oracle_;
  bool is_of_connection_;
};

ChainOracle::ChainOracle(const Tree& tree, uint32_t connections)
    : tree_(tree), max_connections_(connections) {
  Add(tree_);
  for (size_t i = 0; i < tree_.size(); ++i) {
    const auto& nf = nfs_[static_cast<size_t>(tree_[i].id - 'a')].nf;
    if (nf->flow_scope() == FlowScope::kInsideEndpoint) sided_ = i;
  }
  for (Nf& nf : nfs_) {
    nf.is_of_connections =
        sided_.has_value() && nf.nf->flow_scope() == FlowScope::kConnection;
    has_table_ |= nf.is_of_connections &&
                  (nf.nf->schema().slots() > 0 || nf.nf->has_timer());
  }
  state_.counts.resize(nfs_.size());
}

void ChainOracle::Add(const Tree& tree) {
  for (const Node& node : tree) {
    SNF_CHECK(node.id == static_cast<char>('a' + nfs_.size()));
    Nf nf = {.nf = FindNf("step")->create(*NfOptions::Parse(node.options)),
             .name = "step",
             .first_pool = 0,
             .is_of_connections = false};
    if (!nfs_.empty()) {
      nf.name += "#" + std::to_string(nfs_.size() + 1);
      const Nf& last = nfs_.back();
      nf.first_pool =
          static_cast<uint16_t>(last.first_pool + last.nf->pools().size());
    }
    nfs_.push_back(std::move(nf));
    for (const auto& [label, arm] : node.arms) Add(arm);
  }
}

std::string ChainOracle::TextOf(const Tree& tree) {
  std::string text;
  for (const Node& node : tree) {
    text +=
        (text.empty() ? "" : "|") + std::string("step(") + node.options + ")";
    if (node.arms.empty()) continue;
    text += "|{";
    for (const auto& [label, arm] : node.arms) {
      text += (text.back() == '{' ? "" : ",") + label + ":" + TextOf(arm);
    }
    text += "}";
  }
  return text;
}

// --- Calls ------------------------------------------------------------------

void ChainOracle::Call(
    size_t index, int connection,
    const std::function<void(NetworkFunction&, FlowState&)>& call) {
  const Nf& nf = nfs_[index];
  Kept& kept = state_.kept[{index, connection}];
  kept.record.resize(nf.nf->schema().record_bytes());
  Services services(*this, nf.is_of_connections);
  StateView state(kept.record);
  FlowState flow(FlowId{1}, now_, kept.timer, state, services,
                 {.first_pool = nf.first_pool});
  const uint64_t before = nf.nf->counts()[0];
  call(*nf.nf, flow);
  kept.timer = flow.timer();
  state_.counts[index] += nf.nf->counts()[0] - before;
}

void ChainOracle::UseConnection(int far_end) {
  std::list<int>& used = state_.connections;
  const auto found = std::ranges::find(used, far_end);
  if (found != used.end()) {
    used.splice(used.end(), used, found);
    return;
  }
  if (used.size() == max_connections_) {
    EndConnection(used.front());
    ++state_.forgotten;
  }
  used.push_back(far_end);
}

void ChainOracle::EndConnection(int far_end) {
  for (size_t i = 0; i < nfs_.size(); ++i) {
    if (!nfs_[i].is_of_connections) continue;
    Call(i, far_end, [](auto& nf, FlowState& flow) { nf.on_end(flow); });
    state_.kept.erase({i, far_end});
  }
  state_.connections.remove(far_end);
}

std::optional<std::string> ChainOracle::Visit(const Node& node) {
  const auto index = static_cast<size_t>(node.id - 'a');
  const Nf& nf = nfs_[index];
  int connection = kFlow;
  if (nf.is_of_connections && has_table_) {
    connection = far_end_;
    if (state_.connections.empty() || state_.connections.back() != far_end_) {
      UseConnection(far_end_);
    }
  }
  Verdict verdict = Verdict::forward();
  Call(index, connection, [&](NetworkFunction& one, FlowState& flow) {
    verdict = one.process_packet(*packet_, flow);
  });
  switch (verdict.kind()) {
    case Verdict::Kind::kDrop:
      return "drop: " + nf.name + "." +
             std::string(nf.nf->drop_reasons()[verdict.reason()]);
    case Verdict::Kind::kConsume:
      return "consume";
    case Verdict::Kind::kWait:
      return "wait: " + std::to_string(nf.first_pool);
    default:
      break;
  }
  for (const auto& [label, arm] : node.arms) {
    if (label == "*" || label == nf.nf->labels()[verdict.label()]) {
      return Walk(arm, 0, arm.size());
    }
  }
  return std::nullopt;
}

std::optional<std::string> ChainOracle::Walk(const Tree& tree, size_t begin,
                                             size_t end) {
  for (size_t i = begin; i < end; ++i) {
    std::optional<std::string> verdict = Visit(tree[i]);
    if (verdict.has_value()) return verdict;
  }
  return std::nullopt;
}

ChainFlow::Outcome ChainOracle::Send(ChainWorld& world,
                                     const ChainPacket& packet) {
  const State state_before = state_;
  const ChainWorld world_before = world;
  PacketInfo info;
  info.side = packet.side;
  std::vector<std::byte> bytes(packet.bytes.size());
  std::memcpy(bytes.data(), packet.bytes.data(), bytes.size());
  Packet view(info, bytes);
  world_ = &world;
  packet_ = &view;
  far_end_ = packet.far_end;
  now_ = packet.now;
  is_connection_over_ = false;

  std::optional<std::string> verdict;
  if (sided_.has_value() && packet.side == Side::kOutside) {
    verdict = Walk(tree_, *sided_ + 1, tree_.size());
    if (!verdict.has_value()) verdict = Walk(tree_, *sided_, *sided_ + 1);
    if (!verdict.has_value()) verdict = Walk(tree_, 0, *sided_);
  } else {
    verdict = Walk(tree_, 0, tree_.size());
  }
  if (is_connection_over_ && has_table_) EndConnection(far_end_);
  if (verdict.has_value() && verdict->starts_with("wait")) {
    state_ = state_before;
    world = world_before;
    return {.verdict = *verdict, .bytes = packet.bytes, .said = {}};
  }
  return {.verdict = verdict.value_or("forward"),
          .bytes = std::string(AsText(bytes)),
          .said = world.EndCall()};
}

ChainWorld::Said ChainOracle::on_timer(ChainWorld& world) {
  world_ = &world;
  now_ = timer();
  std::set<int> of = {kFlow};
  of.insert(state_.connections.begin(), state_.connections.end());
  for (const int connection : of) {
    is_connection_over_ = false;
    for (size_t i = 0; i < nfs_.size(); ++i) {
      const auto kept = state_.kept.find({i, connection});
      if (kept == state_.kept.end() || kept->second.timer > now_) continue;
      kept->second.timer = Instant::max();
      Call(i, connection, [](auto& nf, FlowState& flow) { nf.on_timer(flow); });
    }
    if (is_connection_over_) EndConnection(connection);
  }
  return world.EndCall();
}

ChainWorld::Said ChainOracle::on_end(ChainWorld& world, Instant now) {
  world_ = &world;
  now_ = now;
  while (!state_.connections.empty()) {
    EndConnection(state_.connections.front());
  }
  for (size_t i = 0; i < nfs_.size(); ++i) {
    if (nfs_[i].is_of_connections) continue;
    Call(i, kFlow, [](auto& nf, FlowState& flow) { nf.on_end(flow); });
  }
  state_.kept.clear();
  return world.EndCall();
}

ChainWorld::Said ChainOracle::on_alias_refused(ChainWorld& world, Instant now) {
  world_ = &world;
  now_ = now;
  for (size_t i = 0; i < nfs_.size(); ++i) {
    if (nfs_[i].is_of_connections) continue;
    Call(i, kFlow, [](auto& nf, FlowState& flow) {
      nf.on_alias_refused(flow, AliasResult::kConflict);
    });
  }
  return world.EndCall();
}

// --- What is kept -----------------------------------------------------------

Instant ChainOracle::timer() const {
  Instant earliest = Instant::max();
  for (const auto& [key, kept] : state_.kept) {
    earliest = std::min(earliest, kept.timer);
  }
  return earliest;
}

namespace {

// The values of slots by name; slots without a value are missing.
using Values = std::map<std::string, std::string>;

Values ValuesOf(const std::string& prefix, const StateSchema& schema,
                std::span<const std::byte> record) {
  Values values;
  for (uint32_t slot = 0; slot < schema.slots(); ++slot) {
    if ((LoadAs<uint64_t>(record.data()) >> slot & 1) == 0) continue;
    const uint32_t begin = schema.offset(slot);
    size_t length = schema.bytes(slot);
    size_t header = 0;
    if (schema.is_blob(slot)) {
      length = LoadAs<uint64_t>(&record[begin]);
      header = StateSchema::kBlobHeaderBytes;
    }
    values[prefix + std::string(schema.name(slot))] =
        AsText(record.subspan(begin + header, length));
  }
  return values;
}

}  // namespace

void ChainOracle::ExpectIsKept(const NetworkFunction& chain,
                               const ChainFlow& flow) const {
  const auto timers = std::ranges::count_if(
      nfs_, [](const Nf& nf) { return nf.nf->has_timer(); });
  Values expected;
  StateSchema of_connection;
  for (size_t i = 0; i < nfs_.size(); ++i) {
    const Nf& nf = nfs_[i];
    const bool has_slot =
        nf.nf->has_timer() && (timers > 1 || nf.is_of_connections);
    if (nf.is_of_connections) {
      of_connection.Append(nf.name, nf.nf->schema());
      if (has_slot) of_connection.AddSlot(nf.name + " timer", 8, "timer");
    }
    for (const auto& [key, kept] : state_.kept) {
      if (key.first != i) continue;
      const std::string prefix =
          key.second == kFlow ? "" : std::to_string(key.second) + " ";
      expected.merge(
          ValuesOf(prefix + nf.name + ".", nf.nf->schema(), kept.record));
      if (has_slot && kept.timer != Instant::max()) {
        std::string& timer = expected[prefix + nf.name + " timer"];
        timer.resize(8);
        std::memcpy(timer.data(), &kept.timer.ns, 8);
      }
    }
  }
  Values got = ValuesOf("", chain.schema(), flow.record);
  const std::string table = has_table_ ? got["connections"] : std::string();
  got.erase("connections");
  std::set<int> connections;
  const size_t entry_bytes = 32 + of_connection.record_bytes();
  for (size_t at = 0; at < table.size(); at += entry_bytes) {
    const int far_end = static_cast<unsigned char>(table[at + 15]) * 2 +
                        static_cast<unsigned char>(table[at + 16]) % 2;
    ASSERT_TRUE(connections.insert(far_end).second);
    got.merge(ValuesOf(
        std::to_string(far_end) + " ", of_connection,
        std::as_bytes(std::span(table).subspan(at + 32, entry_bytes - 32))));
  }
  ASSERT_EQ(got, expected);
  ASSERT_EQ(connections, std::set<int>(state_.connections.begin(),
                                       state_.connections.end()));
  ASSERT_EQ(flow.timer, timer());
}

}  // namespace snf
