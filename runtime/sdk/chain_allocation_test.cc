// SPDX-License-Identifier: Apache-2.0
// Tests that a chain allocates nothing after its construction.
#include <cstddef>
#include <optional>
#include <vector>

#include "base/test_allocations.h"
#include "gtest/gtest.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/test_chain.h"

namespace snf {
namespace {

// Does everything that an NF can do, and has two sides if asked.
class Busy final : public NetworkFunction {
 public:
  explicit Busy(NfOptions& options)
      : is_sided_(options.Flag("sided", false, "has two sides")) {}
  FlowScope flow_scope() const override {
    return is_sided_ ? FlowScope::kInsideEndpoint : FlowScope::kConnection;
  }
  bool has_timer() const override { return true; }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kLabels[] = {"even", "odd"};
    return kLabels;
  }
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    if (!flow.has(piece_)) {
      const auto piece = flow.take(pool_, {.last = 999});
      if (!piece.has_value()) return Verdict::wait(pool_);
      flow.put(piece_, *piece);
    }
    count(packets_);
    shared_.update(1, 1);
    flow.put(blob_, packet.bytes());
    packet.bytes()[0] ^= std::byte{1};
    flow.emit(packet.bytes());
    flow.set_alias({});
    flow.set_idle_timeout(Seconds(1));
    flow.set_timer(Milliseconds(1));
    return Verdict::forward(flow.get(piece_) % 2);
  }
  void on_timer(FlowState& flow) override { flow.end(); }
  void on_end(FlowState& flow) override {
    if (flow.has(piece_)) flow.give_back(pool_, flow.get(piece_));
    flow.erase(piece_);
  }

 private:
  bool is_sided_;
  PoolId pool_ = declare_pool("pool", 1, 99);
  Slot<uint32_t> piece_ = declare<uint32_t>("piece");
  Blob blob_ = declare_blob("blob", 100);
  Counter packets_ = declare_counter("packets", "it saw");
  SharedTable<uint64_t, uint64_t> shared_ =
      declare_shared<uint64_t, uint64_t>("shared", 16);
};
SNF_REGISTER_NF(Busy, "busy", "does all that an NF can do");

class Unit final : public FlowServices {
 public:
  bool Emit(std::span<const std::byte>) override { return true; }
  std::optional<uint32_t> TakePiece(PoolId, const PiecePreference&) override {
    if (!has_pieces || ++calls_ % 7 == 0) return std::nullopt;
    return static_cast<uint32_t>(calls_ % 99) + 1;
  }
  void GivePiece(PoolId, uint32_t) override {}
  bool IsExhausted(PoolId) const override { return false; }
  void SetAlias(const FlowKey&, uint64_t, uint32_t) override {}
  void Note(Nanos, bool) override {}

  bool has_pieces = false;

 private:
  uint64_t calls_ = 0;
};

TEST(ChainAllocation, AllocatesNothingAfterConstruction) {
  const auto chain =
      MakeChain("[connections=2] busy | {odd: busy} | busy(sided=true) | busy");
  std::vector<std::byte> record(chain->schema().record_bytes());
  std::vector<std::byte> bytes(64);
  PacketInfo info;
  Packet packet(info, bytes);
  Unit unit;
  size_t waits = 0;
  const uint64_t before = Allocations();
  for (uint32_t i = 0; i < 2'000; ++i) {
    info.side = i % 3 == 0 ? Side::kOutside : Side::kInside;
    unit.has_pieces = i % 4 != 0;
    info.far_port = be16(static_cast<uint16_t>(i / 20 % 4));
    StateView state(record);
    const Instant now{int64_t{i} * 100'000};
    FlowState flow(FlowId{1}, now, Instant::max(), state, unit);
    const Verdict verdict = chain->process_packet(packet, flow);
    waits += verdict.kind() == Verdict::Kind::kWait ? 1 : 0;
    if (i % 50 == 7) chain->on_timer(flow);
    if (i % 200 == 9) chain->on_end(flow);
    if (i % 200 == 11) chain->on_alias_refused(flow, AliasResult::kConflict);
  }
  EXPECT_EQ(Allocations(), before);
  EXPECT_GT(waits, 30u);
  EXPECT_LT(waits, 1'900u);
  EXPECT_GT(chain->parts().back().nf->counts()[0], 50u);  // forgotten
}

}  // namespace
}  // namespace snf
