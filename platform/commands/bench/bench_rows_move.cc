// SPDX-License-Identifier: Apache-2.0
//
// Row 12: the cost of moving a flow to another unit of the host.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "platform/commands/bench/bench_rows.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;

// Keeps as much of a flow as a firewall, a monitor and a NAT do together.
class KeepingNf final : public NetworkFunction {
 public:
  static constexpr uint32_t kBytes = 72;

 private:
  Verdict process_packet(Packet&, FlowState& flow) override {
    static constexpr std::array<std::byte, kBytes> kState{};
    flow.put(state_, kState);
    return Verdict::forward();
  }
  Blob state_ = declare_blob("state", kBytes);
};

// Two units with some flows, each of which goes from one to the other with each
// of its packets.
class MovingFlows {
 public:
  explicit MovingFlows(uint32_t flows)
      : units_{MakeUnit(0, flows), MakeUnit(1, flows)},
        packet_(pool_.Allocate(60)),
        clocks_(flows, 0) {
    pool_.info(packet_).length = 60;
    for (uint32_t flow = 0; flow < flows; ++flow) Begin(flow);
  }

  // Moves a flow: held packet, Pull, State, service, Takeover and its
  // acknowledgement, without the rings in between.
  void MoveOne() {
    const auto flow = static_cast<uint32_t>(rng_.Below(clocks_.size()));
    const uint64_t clock = ++clocks_[flow];
    Unit& to = units_[clock % 2];
    Unit& from = units_[1 - clock % 2];
    PacketMeta meta = Meta(flow);
    meta.source_kind = StateSource::kUnit;
    meta.source = from.id();
    meta.flags = PacketMeta::kFirstOfFlowlet | PacketMeta::kMoved;
    to.on_packet(packet_, meta);
    to.begin(kNow, out_);
    from.on_pull(kNow, Take(UnitCommand::Kind::kSendPull).pull, out_);
    const State state = Take(UnitCommand::Kind::kSendState).state;
    to.on_state(kNow, state, from.state_bytes(meta.flow).first(state.bytes),
                out_);
    to.begin(kNow, out_);
    to.finish(kNow, {nf_, pool_}, out_);
    from.on_takeover(kNow, Take(UnitCommand::Kind::kSendTakeover).takeover,
                     out_);
    to.on_takeover_ack(
        kNow, Take(UnitCommand::Kind::kSendTakeoverAck).takeover_ack, out_);
    out_.clear();
  }
  bool has_all() const {
    return units_[0].flows() + units_[1].flows() == clocks_.size();
  }

 private:
  static constexpr Instant kNow{};

  Unit MakeUnit(uint16_t number, uint32_t flows) {
    return Unit(
        UnitId{number},
        {.max_flows = flows, .queue_packets = 64, .packets_elsewhere = 0},
        nf_.schema());
  }
  PacketMeta Meta(uint32_t flow) const {
    PacketMeta meta;
    meta.flow = MakeFlowId(0, flow, 1);
    meta.clock = Clock{clocks_[flow]};
    return meta;
  }
  void Begin(uint32_t flow) {
    Unit& unit = units_[++clocks_[flow] % 2];
    unit.on_packet(packet_, Meta(flow));
    SNF_CHECK(unit.begin(kNow, out_));
    unit.finish(kNow, {nf_, pool_}, out_);
    out_.clear();
  }
  // Returns the command of that kind, which has to be there, and clears all.
  UnitCommand Take(UnitCommand::Kind kind) {
    for (const UnitCommand& command : out_.commands()) {
      if (command.kind != kind) continue;
      const UnitCommand taken = command;
      out_.clear();
      return taken;
    }
    SNF_CHECK(false);
  }

  BufferPool pool_{{.small = 8, .medium = 0, .large = 0}};
  KeepingNf nf_;
  std::array<Unit, 2> units_;
  PacketHandle packet_;
  std::vector<uint64_t> clocks_;  // by flow
  UnitOut out_;
  Rng rng_{1};
};

BenchSuite::Make Moves(uint32_t flows) {
  return [flows]() -> absl::StatusOr<BenchCase> {
    auto moving = std::make_shared<MovingFlows>(flows);
    return BenchCase{
        .sample =
            [moving](uint64_t operations) {
              return CpuNsOf(operations, [&](uint64_t n) {
                for (uint64_t i = 0; i < n; ++i) moving->MoveOne();
                return n;
              });
            },
        .check =
            [moving] {
              return moving->has_all()
                         ? absl::OkStatus()
                         : absl::InternalError("a flow that moves is lost");
            }};
  };
}

}  // namespace

void AddMoveRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                 std::vector<BenchRow>& rows) {
  SNF_CHECK(number == 12);
  const auto side = [&suite](uint32_t flows) {
    const std::string what = InThousands(flows) + " flows";
    return BenchRow::Side{what, suite.Add("move " + what, Moves(flows))};
  };
  rows.push_back(
      {.number = 12,
       .what = "moving a flow inside a host, by how many there are",
       .must = {{.limit = 1.5}},
       .aim = {{.limit = 1.5}},
       .aim_ours = 10'000,
       .ours = side(10 * sizes.flows),
       .base = side(sizes.flows),
       .notes = {
           "The state of a chain, pulled; the time of both units, without "
           "the rings between them. Serpens moves a flow in 60 to 63 µs, "
           "state by reference."}});
}

}  // namespace snf
