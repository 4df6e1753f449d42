// SPDX-License-Identifier: Apache-2.0
// Random schedules with pieces, aliases and the ends of flows: a controller
// that grants, refuses, reclaims and acknowledges whenever it likes, or asks
// everybody before it refuses units that are slow. No piece may be at two
// places, and none may be lost; packets leave in order; no state leaves while
// its flow waits; and all comes to its end.
#include <algorithm>
#include <deque>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/core/test_network.h"
#include "runtime/core/test_piece_controller.h"
#include "runtime/core/test_pieces.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"

namespace snf {
namespace {

class PieceSchedule : public TestNetwork<PieceFlow, PieceNf> {
 public:
  PieceSchedule(uint64_t seed, PieceTotals& totals)
      : TestNetwork(seed, totals, {.small = 512, .medium = 0, .large = 0}),
        totals_(totals),
        is_slow_(rng_.Below(4) == 0),
        pools_({RandomPool(), RandomPool()}),
        ledger_(pools_),
        alias_ports_(rng_.Uniform(1, 40)) {
    packets_left_ = static_cast<int>(rng_.Uniform(20, 200));
    slots_ = 32;
    stickiness_ = static_cast<uint32_t>(rng_.Below(60'000));
    const auto units = static_cast<uint16_t>(rng_.Uniform(1, 4));
    const auto flows = static_cast<uint32_t>(rng_.Uniform(1, 30));
    const UnitOptions options = {
        .max_flows = flows,
        .queue_packets = slots_,
        .packets_elsewhere = (units - 1u) * slots_,
        .replicas = static_cast<uint32_t>(rng_.Below(3)),
        .max_replicas = static_cast<uint32_t>(rng_.Uniform(1, 30))};
    for (uint16_t u = 0; u < units; ++u) {
      auto nf = std::make_unique<PieceNf>(UnitId{u}, flows_, ledger_, totals);
      const StateSchema& schema = nf->schema();
      sites_.push_back({.unit = Unit(UnitId{u}, options, schema, pools_),
                        .nf = std::move(nf)});
    }
    reports_.resize(units);
    for (uint32_t slot = 0; slot < flows; ++slot) {
      present_.push_back(NewFlow(MakeFlowId(0, slot, 0)));
    }
  }

  void Run() {
    for (int step = 0; packets_left_ > 0 && !Failed(); ++step) {
      ASSERT_LT(step, kMaxSteps) << "stuck";
      if (rng_.Below(4) == 0) RoutePacket();
      if (rng_.Below(100) == 0) EndFlow(AnyFlow());
      if (rng_.Below(200) == 0) StopOrStart(sites_[value(AnyUnit())]);
      Step();
    }
    RunOut();
    for (const FlowId flow : std::vector(present_)) EndFlow(flow);
    EndAll();
    CheckEnd();
  }

 private:
  // Where units are slow, pieces are few.
  NetworkFunction::Pool RandomPool() {
    const auto first = static_cast<uint32_t>(rng_.Below(100));
    const uint64_t size = is_slow_ ? 6 : rng_.Below(4) == 0 ? 1'000 : 30;
    return {"", first, first + static_cast<uint32_t>(rng_.Below(size))};
  }

  PacketHandle MakePacket(uint64_t clock) override {
    return snf::MakePacket(AnyWanted(clock, alias_ports_, rng_), buffers_);
  }

  void EndFlow(FlowId id) {
    PieceFlow& flow = flows_.at(id);
    if (flow.owner != kNoUnit) flow.alias.reset();
    EndFlowOf(id);
  }

  void HandleReport(Site& site) {
    std::deque<PieceReport>& reports = reports_[value(site.unit.id())];
    const PieceReport report = reports.front();
    reports.pop_front();
    const UnitCommand& command = report.command;
    if (command.kind == UnitCommand::Kind::kSendAlias) {
      AnswerAlias(site, report.alias);
    } else if (command.kind == UnitCommand::Kind::kSendNote) {
      PieceFlow& flow = flows_.at(command.note.flow);
      ++totals_.notes;
      EXPECT_TRUE(command.note.over);
      flow.alias.reset();
      if (command.note.clock == Clock{flow.clock}) EndFlow(flow.id);
    } else if (command.kind == UnitCommand::Kind::kRequestPieces) {
      controller_.on_request(command.request);
      ++totals_.requests;
    } else {
      controller_.on_returned(command.pieces);
    }
  }

  void AnswerAlias(Site& site, const Alias& alias) {
    const PieceFlow& flow = flows_.at(alias.flow);
    ASSERT_TRUE(flow.is_parked);
    ASSERT_EQ(alias.clock, Clock{flow.processed});
    const AliasResult result = controller_.Decide(alias, present_);
    ++totals_.aliases;
    totals_.aliases_refused += result != AliasResult::kGranted ? 1 : 0;
    const Item item = {.kind = Item::Kind::kAck,
                       .ack = {alias.flow, alias.clock, result}};
    site.channel.push_back(item);
    if (rng_.Below(4) != 0) return;
    ++totals_.acks_doubled;
    site.channel.push_back(item);
  }

  void WorkAt(uint16_t pool) {
    using Kind = PieceController::Work::Kind;
    const PieceController::Work work = controller_.WorkAt(pool, rng_);
    if (work.kind == Kind::kGrant) {
      totals_.refusals += work.pieces.mask == 0 ? 1 : 0;
      sites_[value(work.pieces.unit)].channel.push_back(
          {.kind = Item::Kind::kPieces, .pieces = work.pieces});
    } else if (work.kind == Kind::kReclaim) {
      ++totals_.reclaims;
      for (Site& site : sites_) {
        // Who waits for some has none to spare.
        if (is_slow_ && controller_.HasRequest(pool, site.unit.id())) continue;
        controller_.Ask(pool, site.unit.id());
        site.channel.push_back(
            {.kind = Item::Kind::kReclaim, .pieces = work.pieces});
      }
    }
  }

  void Step() override {
    now_ = now_ + Nanos{rng_.Uniform(0, 100'000)};
    Site& site = sites_[rng_.Below(sites_.size())];
    switch (rng_.Below(8)) {
      case 0:
        if (!site.channel.empty()) Deliver(site);
        break;
      case 1:
        if (!wires_.empty()) DeliverWire(TakeAnyWire());
        break;
      case 2:
        if (site.unit.next_wakeup() <= now_) RunTimers(site);
        break;
      case 3:
        if (site.stops) Empty(site);
        if (rng_.Below(2) == 0) AnswerTimer();
        break;
      case 4:
        if (!reports_[value(site.unit.id())].empty()) HandleReport(site);
        break;
      case 5:
        WorkAt(static_cast<uint16_t>(rng_.Below(kTestPools)));
        break;
      default:
        if (!site.unit.busy()) {
          Begin(site);
        } else if (!is_slow_ || IsNextToFinish(site)) {
          Finish(site);
        }
    }
    for (uint16_t pool = 0; pool < kTestPools; ++pool) {
      ASSERT_EQ(site.unit.pieces(pool),
                ledger_.Count(pool, PieceLedger::At(site.unit.id())));
    }
  }

  // A service takes longer than all that can be on its way, and each as long.
  bool IsNextToFinish(const Site& site) const {
    return in_service_.front() == site.unit.id() && wires_.empty() &&
           asked_.empty() &&
           std::ranges::all_of(
               sites_, [](const Site& s) { return s.channel.empty(); }) &&
           HasNoReport() && !controller_.has_work(0) &&
           !controller_.has_work(1);
  }
  bool HasNoReport() const {
    return std::ranges::all_of(
        reports_, [](const auto& reports) { return reports.empty(); });
  }
  bool IsQuiet() const override {
    return TestNetwork::IsQuiet() && controller_.is_quiet() && HasNoReport();
  }

  void DeliverAnswer(Site& site, const Item& item) override {
    if (item.kind == Item::Kind::kAck) {
      PieceFlow& flow = flows_.at(item.ack.flow);
      if (flow.is_parked && item.ack.clock == Clock{flow.processed}) {
        flow.is_parked = false;
        flow.is_refused = item.ack.result != AliasResult::kGranted;
      }
      site.unit.on_alias_ack(now_, item.ack, NfContextOf(site), out_);
      ASSERT_FALSE(flow.is_refused) << "the NF was not told";
    } else if (item.kind == Item::Kind::kPieces) {
      ledger_.MoveWord(item.pieces, PieceLedger::kUnderWay,
                       PieceLedger::At(site.unit.id()));
      site.unit.on_pieces(now_, item.pieces, out_);
    } else {
      site.unit.on_reclaim(item.pieces.pool, out_);
    }
  }

  void DeliverWire(const NetworkWire& wire) {
    Site& site = sites_[value(wire.command.unit)];
    wire.Deliver(now_, site.unit, out_);
    Execute(site);
  }

  void on_begin(Site& site, PieceFlow& flow) override {
    EXPECT_FALSE(flow.is_parked);
    in_service_.push_back(site.unit.id());
  }

  void Finish(Site& site) {
    PieceFlow& flow = flows_.at(site.unit.in_service().flow);
    flow.waits = false;
    site.unit.finish(now_, NfContextOf(site), out_);
    in_service_.erase(std::ranges::find(in_service_, site.unit.id()));
    flow.serving = kNoUnit;
    totals_.waits += flow.waits ? 1 : 0;
    flow.processed += flow.waits ? 0 : 1;
    ASSERT_LE(out_.commands().size(), kMaxUnitCommandsPerCall);
    Execute(site);
  }

  void Execute(Site& site) override {
    using Kind = UnitCommand::Kind;
    std::deque<PieceReport>& reports = reports_[value(site.unit.id())];
    for (const UnitCommand& command : out_.commands()) {
      switch (command.kind) {
        case Kind::kDrop:
          CheckDrop(command);
          [[fallthrough]];
        case Kind::kRelease:
        case Kind::kNfDrop:
          buffers_.Free(command.packet);
          [[fallthrough]];
        case Kind::kAdvance:
          Leave(site, command.meta);
          break;
        case Kind::kEmit:
          buffers_.Free(command.packet);
          break;
        case Kind::kWait:
          ASSERT_TRUE(flows_.at(command.meta.flow).waits);
          break;
        case Kind::kReportTakeover:
          break;
        case Kind::kSendTimerDue:
          asked_.push_back(command.timer_due);
          break;
        case Kind::kSendAlias:
          ASSERT_TRUE(flows_.at(command.meta.flow).is_parked);
          reports.push_back({command, site.unit.alias(command.meta.flow)});
          break;
        case Kind::kReturnPieces:
          ledger_.MoveWord(command.pieces, PieceLedger::At(site.unit.id()),
                           PieceLedger::kUnderWay);
          ++totals_.returns;
          [[fallthrough]];
        case Kind::kSendNote:
        case Kind::kRequestPieces:
          reports.push_back({command});
          break;
        case Kind::kStopped:
          CheckStopped(site);
          break;
        case Kind::kSendState:
          // Of what is no newer than the last packet that left.
          ASSERT_LE(value(command.state.applied),
                    flows_.at(command.state.flow).left);
          [[fallthrough]];
        default:
          Send(site, command);
      }
    }
    out_.clear();
  }

  void CheckDrop(const UnitCommand& command) {
    PieceFlow& flow = flows_.at(command.meta.flow);
    if (command.reason == DropReason::kNoPieces) {
      ASSERT_TRUE(std::exchange(flow.lacks_piece, false));
      ++totals_.no_pieces;
      return;
    }
    ASSERT_TRUE(command.reason == DropReason::kAliasConflict ||
                command.reason == DropReason::kAliasLimit ||
                command.reason == DropReason::kNoAlias);
  }

  void Leave(Site& site, const PacketMeta& meta) {
    --site.slots_used;
    PieceFlow& flow = flows_.at(meta.flow);
    ASSERT_EQ(value(meta.clock), flow.left + 1) << "out of order";
    ASSERT_FALSE(flow.lacks_piece);
    ASSERT_FALSE(flow.is_parked);
    ++flow.left;
  }

  void CheckStopped(Site& site) {
    on_stopped(site);
    for (uint16_t pool = 0; pool < kTestPools; ++pool) {
      ASSERT_EQ(site.unit.pieces(pool), 0u);
      ASSERT_FALSE(controller_.HasRequest(pool, site.unit.id()));
    }
  }

  void CheckEnd() {
    for (const auto& [id, flow] : flows_) {
      ASSERT_EQ(flow.left, flow.clock);
      ASSERT_EQ(flow.ends, flow.is_over ? 1u : 0u);
    }
    for (const Site& site : sites_) {
      ASSERT_EQ(site.unit.counters().pieces_refused, 0u);
    }
    ASSERT_EQ(ledger_.Count(0, PieceLedger::kController) +
                  ledger_.Count(1, PieceLedger::kController),
              ledger_.size());
  }

  PieceTotals& totals_;
  bool is_slow_;
  std::vector<NetworkFunction::Pool> pools_;
  PieceLedger ledger_;
  uint64_t alias_ports_;
  PieceController controller_{flows_, ledger_, is_slow_};
  std::vector<std::deque<PieceReport>> reports_;  // of each unit
  std::deque<UnitId> in_service_;                 // units, as they began
};

TEST(UnitPieceSchedules, LoseAndDoubleNoPieceAndKeepAliasedFlowsInOrder) {
  PieceTotals totals;
  const uint64_t run = RunSchedules<PieceSchedule>(totals);
  std::cout << totals << "\n";
  if (run < 3'000) return;
  // About half of what 3,000 schedules come to.
  EXPECT_GT(totals.packets, 150'000u);
  EXPECT_GT(totals.moves, 25'000u);
  EXPECT_GT(totals.taken, 40'000u);
  EXPECT_GT(totals.fell_back, 3'000u);
  EXPECT_GT(totals.given_elsewhere, 7'000u);
  EXPECT_GT(totals.waits, 110'000u);
  EXPECT_GT(totals.refusals, 25'000u);
  EXPECT_GT(totals.no_pieces, 9'000u);
  EXPECT_GT(totals.went_without, 9'000u);
  EXPECT_GT(totals.reclaims, 30'000u);
  EXPECT_GT(totals.returns, 100'000u);
  EXPECT_GT(totals.aliases, 35'000u);
  EXPECT_GT(totals.aliases_refused, 20'000u);
  EXPECT_GT(totals.acks_doubled, 9'000u);
  EXPECT_GT(totals.timers, 8'000u);
  EXPECT_GT(totals.flows_ended, 35'000u);
  EXPECT_GT(totals.stops, 4'000u);
  EXPECT_GT(totals.starts, 600u);
}

}  // namespace
}  // namespace snf
