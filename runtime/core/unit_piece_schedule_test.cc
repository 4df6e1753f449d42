// SPDX-License-Identifier: Apache-2.0
// Random schedules with pieces, aliases and the ends of flows: a controller
// that grants, refuses, reclaims and acknowledges whenever it likes, moves
// flows at any packet, ends them and stops units. No piece may be at two
// places, and none may be lost; packets leave in order; no state leaves while
// its flow waits.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/core/test_inputs.h"
#include "runtime/core/test_piece_controller.h"
#include "runtime/core/test_pieces.h"
#include "runtime/core/unit.h"
#include "runtime/core/unit_limits.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {
namespace {

constexpr uint32_t kSlots = 32;  // of each channel

class PieceSchedule {
 public:
  PieceSchedule(uint64_t seed, PieceTotals& totals)
      : rng_(seed),
        totals_(totals),
        buffers_({.small = 512, .medium = 0, .large = 0}),
        pools_({RandomPool(), RandomPool()}),
        ledger_(pools_),
        packets_left_(static_cast<int>(rng_.Uniform(20, 200))),
        stickiness_(static_cast<uint32_t>(rng_.Below(60'000))),
        alias_ports_(rng_.Uniform(1, 40)) {
    const auto units = static_cast<uint16_t>(rng_.Uniform(1, 4));
    const auto flows = static_cast<uint32_t>(rng_.Uniform(1, 30));
    const UnitOptions options = {
        .max_flows = flows,
        .queue_packets = kSlots,
        .packets_elsewhere = (units - 1u) * kSlots,
        .replicas = static_cast<uint32_t>(rng_.Below(3)),
        .max_replicas = static_cast<uint32_t>(rng_.Uniform(1, 30))};
    for (uint16_t u = 0; u < units; ++u) {
      auto nf = std::make_unique<PieceNf>(UnitId{u}, flows_, ledger_, totals);
      const StateSchema& schema = nf->schema();
      sites_.push_back({.unit = Unit(UnitId{u}, options, schema, pools_),
                        .nf = std::move(nf)});
    }
    for (uint32_t slot = 0; slot < flows; ++slot) {
      present_.push_back(NewFlow(MakeFlowId(0, slot, 0)));
    }
  }

  void Run() {
    while (packets_left_ > 0 && !Failed()) {
      if (rng_.Below(4) == 0) RoutePacket();
      if (rng_.Below(100) == 0) {
        EndFlow(present_[rng_.Below(present_.size())]);
      }
      if (rng_.Below(200) == 0) StopOrStart(rng_.Below(sites_.size()));
      Step();
    }
    RunOut();
    for (const FlowId flow : std::vector(present_)) EndFlow(flow);
    for (Site& site : sites_) {
      if (!site.stops) Stop(site);
    }
    RunOut();
    CheckEnd();
  }

 private:
  using Item = PieceItem;
  using Site = PieceSite;

  static bool Failed() { return ::testing::Test::HasFailure(); }

  NetworkFunction::Pool RandomPool() {
    const auto first = static_cast<uint32_t>(rng_.Below(100));
    const bool is_large = rng_.Below(4) == 0;
    return {"", first,
            first + static_cast<uint32_t>(rng_.Below(is_large ? 1'000 : 30))};
  }
  FlowId NewFlow(FlowId id) {
    flows_[id].id = id;
    return id;
  }

  void RoutePacket() {
    PieceFlow& flow = flows_.at(present_[rng_.Below(present_.size())]);
    UnitId to = flow.owner;
    const bool is_first =
        to == kNoUnit || !rng_.Chance(stickiness_) || sites_[value(to)].stops;
    if (is_first) to = UnitId{static_cast<uint16_t>(rng_.Below(sites_.size()))};
    const bool is_tombstone = rng_.Below(16) == 0;
    if (!Route(flow, to, is_first,
               is_tombstone ? PacketMeta::kTombstone : uint8_t{0})) {
      return;
    }
    --packets_left_;
    ++totals_.packets;
  }

  bool Route(PieceFlow& flow, UnitId to, bool is_first, uint8_t flags) {
    Site& site = sites_[value(to)];
    if (site.stops || site.slots_used == kSlots) return false;
    ++site.slots_used;
    Item item = {.meta = Within(value(flow.id), ++flow.clock)};
    if (flow.clock == 1) {
      item.meta = New(value(flow.id));
    } else if (is_first) {
      item.meta = First(value(flow.id), flow.clock, value(flow.owner));
      totals_.moves += flow.owner != to ? 1 : 0;
    }
    if (is_first) {
      item.replicas = {.flow = flow.id, .count = 2};
      for (size_t i = 0; i < 2; ++i) {
        item.replicas.units.at(i) =
            UnitId{static_cast<uint16_t>(rng_.Below(sites_.size()))};
      }
    }
    item.meta.flags |= flags;
    if (flags == 0) {
      item.packet =
          MakePacket(AnyWanted(flow.clock, alias_ports_, rng_), buffers_);
    }
    flow.owner = to;
    site.channel.push_back(item);
    return true;
  }

  // The flow is over; its place goes to a new one.
  void EndFlow(FlowId id) {
    PieceFlow& flow = flows_.at(id);
    if (flow.owner == kNoUnit || flow.is_over) return;
    flow.is_over = true;
    flow.alias.reset();
    ++totals_.ends;
    sites_[value(flow.owner)].channel.push_back(
        {.kind = Item::Kind::kEnd, .end = {flow.id, Clock{flow.clock}}});
    *std::ranges::find(present_, id) =
        NewFlow(MakeFlowId(0, slot_of(id), generation_of(id) + 1));
  }

  void HandleReport(Site& site) {
    const PieceReport report = site.reports.front();
    site.reports.pop_front();
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
      controller_.OnRequest(command.request);
      ++totals_.requests;
    } else {
      controller_.OnReturned(command.pieces);
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
        controller_.Ask(pool, site.unit.id());
        site.channel.push_back(
            {.kind = Item::Kind::kReclaim, .pieces = work.pieces});
      }
    }
  }

  void StopOrStart(size_t u) {
    Site& site = sites_[u];
    if (site.stopped) {
      site.stops = site.stopped = false;
      site.unit.on_start();
      ++totals_.starts;
    } else if (!site.stops &&
               std::ranges::count(sites_, false, &Site::stops) > 1) {
      Stop(site);
    }
  }
  void Stop(Site& site) {
    site.stops = true;
    site.channel.push_back({.kind = Item::Kind::kStop});
  }
  // Moves one flow from a unit that is to stop (U8).
  void Empty(const Site& site) {
    for (const FlowId id : present_) {
      PieceFlow& flow = flows_.at(id);
      if (flow.owner != site.unit.id()) continue;
      const UnitId to{static_cast<uint16_t>(rng_.Below(sites_.size()))};
      Route(flow, to, true, PacketMeta::kNull);
      return;
    }
  }

  // One thing that may happen, happens.
  void Step() {
    now_ = now_ + Nanos{rng_.Uniform(0, 100'000)};
    Site& site = sites_[rng_.Below(sites_.size())];
    switch (rng_.Below(8)) {
      case 0:
        if (!site.channel.empty()) Deliver(site);
        break;
      case 1:
        if (!wires_.empty()) DeliverWire(rng_.Below(wires_.size()));
        break;
      case 2:
        if (site.unit.next_wakeup() <= now_) RunTimers(site);
        break;
      case 3:
        if (site.stops) Empty(site);
        break;
      case 4:
        if (!site.reports.empty()) HandleReport(site);
        break;
      case 5:
        WorkAt(static_cast<uint16_t>(rng_.Below(kTestPools)));
        break;
      default:
        if (site.unit.busy()) {
          Finish(site);
        } else {
          Begin(site);
        }
    }
    for (uint16_t pool = 0; pool < kTestPools; ++pool) {
      ASSERT_EQ(site.unit.pieces(pool),
                ledger_.Count(pool, PieceLedger::At(site.unit.id())));
    }
  }

  void Deliver(Site& site) {
    const Item item = site.channel.front();
    site.channel.pop_front();
    const Unit::Environment env = {*site.nf, buffers_};
    switch (item.kind) {
      case Item::Kind::kPacket:
        if (item.replicas.count > 0) site.unit.on_replicas(item.replicas);
        site.unit.on_packet(item.packet, item.meta);
        return;
      case Item::Kind::kEnd:
        site.unit.on_end_flow(now_, item.end, env, out_);
        break;
      case Item::Kind::kAck: {
        PieceFlow& flow = flows_.at(item.ack.flow);
        if (flow.is_parked && item.ack.clock == Clock{flow.processed}) {
          flow.is_parked = false;
          flow.is_refused = item.ack.result != AliasResult::kGranted;
        }
        site.unit.on_alias_ack(now_, item.ack, env, out_);
        ASSERT_FALSE(flow.is_refused) << "the NF was not told";
        break;
      }
      case Item::Kind::kPieces:
        ledger_.MoveWord(item.pieces, PieceLedger::kUnderWay,
                         PieceLedger::At(site.unit.id()));
        site.unit.on_pieces(now_, item.pieces, out_);
        break;
      case Item::Kind::kReclaim:
        site.unit.on_reclaim(item.pieces.pool, out_);
        break;
      case Item::Kind::kStop:
        site.unit.on_stop(out_);
    }
    ASSERT_LE(out_.commands().size(), kMaxUnitCommandsPerCall);
    Execute(site);
  }

  void DeliverWire(size_t i) {
    std::swap(wires_[i], wires_.back());
    const PieceWire wire = wires_.back();
    wires_.pop_back();
    Site& site = sites_[value(wire.command.unit)];
    wire.Deliver(now_, site.unit, out_);
    Execute(site);
  }

  bool Begin(Site& site) {
    const Unit::Next next = site.unit.begin(now_, out_);
    Execute(site);
    if (next != Unit::Next::kService) return next == Unit::Next::kAgain;
    const PacketMeta& meta = site.unit.in_service();
    PieceFlow& flow = flows_.at(meta.flow);
    EXPECT_EQ(flow.serving, kNoUnit) << "two units at one flow";
    EXPECT_EQ(value(meta.clock), flow.processed + 1);
    EXPECT_FALSE(flow.is_parked);
    flow.serving = site.unit.id();
    return true;
  }

  void Finish(Site& site) {
    PieceFlow& flow = flows_.at(site.unit.in_service().flow);
    flow.waits = false;
    site.unit.finish(now_, {*site.nf, buffers_}, out_);
    flow.serving = kNoUnit;
    totals_.waits += flow.waits ? 1 : 0;
    flow.processed += flow.waits ? 0 : 1;
    ASSERT_LE(out_.commands().size(), kMaxUnitCommandsPerCall);
    Execute(site);
  }

  void RunTimers(Site& site) {
    site.unit.on_timers(now_, {*site.nf, buffers_}, out_);
    Execute(site);
  }

  void Execute(Site& site) {
    using Kind = UnitCommand::Kind;
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
        case Kind::kReportTook:
          break;
        case Kind::kSendAlias:
          ASSERT_TRUE(flows_.at(command.meta.flow).is_parked);
          site.reports.push_back({command, site.unit.alias(command.meta.flow)});
          break;
        case Kind::kReturnPieces:
          ledger_.MoveWord(command.pieces, PieceLedger::At(site.unit.id()),
                           PieceLedger::kUnderWay);
          ++totals_.returns;
          [[fallthrough]];
        case Kind::kSendNote:
        case Kind::kRequestPieces:
          site.reports.push_back({command});
          break;
        case Kind::kStopped:
          CheckStopped(site);
          break;
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
    ASSERT_TRUE(site.stops && !site.stopped);
    ASSERT_EQ(site.unit.flows(), 0u);
    ASSERT_EQ(site.slots_used, 0u);
    for (uint16_t pool = 0; pool < kTestPools; ++pool) {
      ASSERT_EQ(site.unit.pieces(pool), 0u);
      ASSERT_FALSE(controller_.HasRequest(pool, site.unit.id()));
    }
    site.stopped = true;
    ++totals_.stops;
  }

  void Send(const Site& site, const UnitCommand& command) {
    ASSERT_NE(command.unit, site.unit.id()) << "to itself";
    PieceWire wire = {command, {}};
    if (command.kind == UnitCommand::Kind::kSendState) {
      const PieceFlow& flow = flows_.at(command.state.flow);
      // Of what is no newer than the last packet that left.
      ASSERT_LE(value(command.state.applied), flow.left);
      const auto record = site.unit.state_bytes(command.state.flow);
      wire.record.assign(record.begin(), record.end());
    }
    wires_.push_back(wire);
    if (rng_.Below(8) == 0) wires_.push_back(wire);
  }

  // Until nothing is on its way or waits, whatever time that takes.
  void RunOut() {
    for (int step = 0; !Failed(); ++step) {
      ASSERT_LT(step, 500'000) << "stuck";
      if (IsQuiet() && !LetTimePass()) break;
      Step();
    }
    for (const Site& site : sites_) {
      ASSERT_EQ(site.slots_used, 0u);
      ASSERT_EQ(site.stopped, site.stops);
    }
  }
  bool IsQuiet() const {
    return wires_.empty() && controller_.is_quiet() &&
           std::ranges::all_of(sites_, [&](const Site& site) {
             return site.channel.empty() && site.reports.empty() &&
                    !site.unit.busy() && !MustEmpty(site);
           });
  }
  bool MustEmpty(const Site& site) const {
    return site.stops && std::ranges::any_of(present_, [&](FlowId id) {
             return flows_.at(id).owner == site.unit.id();
           });
  }
  // Serves what can be, and lets the next timer run; false if there is neither.
  bool LetTimePass() {
    Instant next = Instant::max();
    for (Site& site : sites_) {
      if (Begin(site)) return true;
      next = std::min(next, site.unit.next_wakeup());
    }
    if (next == Instant::max()) return !IsQuiet();
    now_ = std::max(now_, next);
    for (Site& site : sites_) RunTimers(site);
    return true;
  }

  void CheckEnd() {
    for (const auto& [id, flow] : flows_) {
      ASSERT_EQ(flow.left, flow.clock);
      ASSERT_EQ(flow.ends, flow.is_over ? 1u : 0u);
    }
    for (const Site& site : sites_) {
      ASSERT_TRUE(site.stopped);
      ASSERT_EQ(site.unit.counters().pieces_refused, 0u);
      ASSERT_EQ(site.unit.counters().tooks_said_once, 0u);
    }
    ASSERT_EQ(ledger_.Count(0, PieceLedger::kController) +
                  ledger_.Count(1, PieceLedger::kController),
              ledger_.size());
    ASSERT_EQ(buffers_.in_use(), 0u);
  }

  Rng rng_;
  PieceTotals& totals_;
  BufferPool buffers_;
  std::vector<NetworkFunction::Pool> pools_;
  PieceLedger ledger_;
  int packets_left_;
  uint32_t stickiness_;  // of 65,536, that a packet stays in its flowlet
  uint64_t alias_ports_;
  Instant now_;
  PieceFlows flows_;
  PieceController controller_{flows_, ledger_};
  std::vector<FlowId> present_;  // flows that are not over
  std::vector<Site> sites_;
  std::vector<PieceWire> wires_;
  UnitOut out_;
};

TEST(UnitPieceSchedules, LoseAndDoubleNoPieceAndKeepAliasedFlowsInOrder) {
  const bool is_long = std::getenv("SNF_LONG_TESTS") != nullptr;
  const uint64_t schedules = is_long ? 100'000 : 3'000;
  PieceTotals totals;
  for (uint64_t seed = 1; seed <= schedules; ++seed) {
    PieceSchedule(seed, totals).Run();
    if (HasFailure()) {
      std::cout << "seed " << seed << "\n";
      return;
    }
  }
  std::cout << "seeds 1-" << schedules << ": " << totals << "\n";
  // About half of what 3,000 schedules come to.
  EXPECT_GT(totals.packets, 150'000u);
  EXPECT_GT(totals.moves, 25'000u);
  EXPECT_GT(totals.taken, 40'000u);
  EXPECT_GT(totals.given_elsewhere, 7'000u);
  EXPECT_GT(totals.waits, 90'000u);
  EXPECT_GT(totals.refusals, 13'000u);
  EXPECT_GT(totals.no_pieces, 9'000u);
  EXPECT_GT(totals.went_without, 9'000u);
  EXPECT_GT(totals.reclaims, 7'000u);
  EXPECT_GT(totals.returns, 50'000u);
  EXPECT_GT(totals.aliases, 35'000u);
  EXPECT_GT(totals.aliases_refused, 20'000u);
  EXPECT_GT(totals.acks_doubled, 9'000u);
  EXPECT_GT(totals.timers, 12'000u);
  EXPECT_GT(totals.ends, 35'000u);
  EXPECT_GT(totals.stops, 4'000u);
  EXPECT_GT(totals.starts, 600u);
}

}  // namespace
}  // namespace snf
