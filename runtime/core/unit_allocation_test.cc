// SPDX-License-Identifier: Apache-2.0
// A unit allocates nothing after its construction.
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/test_allocations.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/unit.h"

namespace snf {
namespace {

class EmittingNf final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const std::optional<uint32_t> port = flow.take(ports_, {.last = 999});
    if (!port.has_value()) return Verdict::wait(ports_);
    flow.give_back(ports_, *port);
    flow.set_alias({});
    flow.emit(packet.bytes());
    flow.set_timer(Milliseconds(1));
    return Verdict::forward();
  }
  bool has_timer() const override { return true; }
  FlowScope flow_scope() const override { return FlowScope::kInsideEndpoint; }
  void on_timer(FlowState& flow) override {
    constexpr std::array<std::byte, 20> kFrame{};
    flow.emit(kFrame);
  }

  const PoolId ports_ = declare_pool("ports", 0, 999);
};

// Two units, among which `flows` flows move with every packet.
class PingPong {
 public:
  void Run(uint64_t flows) {
    for (uint64_t clock = 1; clock <= 6; ++clock) {
      for (uint64_t flow = 1; flow <= flows; ++flow) {
        const uint16_t to = clock % 2 == 0 ? 1 : 0;
        const uint16_t from = clock % 2 == 0 ? 0 : 1;
        const PacketHandle packet = pool_.Allocate(40);
        pool_.info(packet).length = 40;
        units_[to].on_packet(packet,
                             clock == 1 ? New(flow) : First(flow, clock, from));
      }
      for (int round = 0; round < 4; ++round) {
        for (size_t u = 0; u < 2; ++u) Serve(u);
      }
      now_ = now_ + Milliseconds(3);
      for (Unit& unit : units_) {
        while (unit.next_wakeup() <= now_) {
          unit.on_timers(now_, out_);
          Execute();
        }
      }
    }
    for (uint64_t flow = 1; flow <= flows; ++flow) {
      units_[1].on_packet(kNoPacket, TimerPacket(flow, 7, now_));
    }
    Serve(1);
    for (uint64_t flow = 1; flow <= flows; ++flow) {
      units_[1].on_end_flow(now_, {FlowId{flow}, Clock{7}}, {nf_, pool_}, out_);
      Execute();
    }
  }

  size_t flows() const { return units_[0].flows() + units_[1].flows(); }
  size_t processed() const { return processed_; }
  uint32_t pieces() const { return units_[0].pieces(0) + units_[1].pieces(0); }

 private:
  void Serve(size_t u) {
    while (true) {
      const bool serves = units_[u].begin(now_, out_);
      Execute();
      if (!serves && units_[u].has_more()) continue;
      if (!serves) return;
      units_[u].finish(now_, {nf_, pool_}, out_);
      ++processed_;
      Execute();
    }
  }

  void Execute() {
    const UnitOut out = out_;
    out_.clear();
    for (const UnitCommand& command : out.commands()) Execute(command);
  }

  void Execute(const UnitCommand& command) {
    using Kind = UnitCommand::Kind;
    switch (command.kind) {
      case Kind::kSendPull:
        units_[value(command.unit)].on_pull(now_, command.pull, out_);
        break;
      case Kind::kSendState:
        units_[value(command.unit)].on_state(now_, command.state, {}, out_);
        break;
      case Kind::kSendTakeover:
        units_[value(command.unit)].on_takeover(now_, command.takeover, out_);
        break;
      case Kind::kSendTakeoverAck:
        units_[value(command.unit)].on_takeover_ack(now_, command.takeover_ack,
                                                    out_);
        break;
      case Kind::kSendAlias: {
        Unit& unit = units_[value(command.meta.clock) % 2 == 0 ? 1 : 0];
        const Alias& alias = unit.alias(command.meta.flow);
        unit.on_alias_ack(now_, {alias.flow, alias.clock}, {nf_, pool_}, out_);
        break;
      }
      case Kind::kRequestPieces: {
        const uint16_t unit = value(command.request.unit);
        units_[unit].on_pieces(now_, {.word = unit, .mask = 0xffff}, out_);
        break;
      }
      case Kind::kWait:
        --processed_;
        return;
      case Kind::kReportTakeover:
      case Kind::kSendTimerDue:
      case Kind::kAdvance:
        return;
      default:
        pool_.Free(command.packet);
        return;
    }
    Execute();
  }

  static constexpr UnitOptions kOptions = {
      .max_flows = 64, .queue_packets = 64, .packets_elsewhere = 0};
  EmittingNf nf_;
  Unit units_[2] = {Unit(UnitId{0}, kOptions, nf_.schema(), nf_.pools()),
                    Unit(UnitId{1}, kOptions, nf_.schema(), nf_.pools())};
  BufferPool pool_{{.small = 256, .medium = 1, .large = 1}};
  UnitOut out_;
  Instant now_;
  size_t processed_ = 0;
};

TEST(UnitAllocation, IsNoneAfterConstruction) {
  PingPong units;
  const uint64_t at_start = Allocations();
  delete new std::vector<int>(9);
  EXPECT_EQ(Allocations(), at_start + 2) << "the counter does not count";
  const uint64_t before = Allocations();
  const size_t bytes_before = BytesInUse();
  units.Run(60);
  EXPECT_EQ(Allocations(), before);
  EXPECT_EQ(BytesInUse(), bytes_before);
  EXPECT_EQ(units.processed(), 7u * 60u);
  EXPECT_EQ(units.flows(), 0u);
  EXPECT_EQ(units.pieces(), 32u);
}

}  // namespace
}  // namespace snf
