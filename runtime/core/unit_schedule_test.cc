// SPDX-License-Identifier: Apache-2.0
// Random schedules: a controller that places flows at random and empties units,
// channels in order, messages between units that come in any order, twice or
// not at all, service whenever it comes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/core/test_flows.h"
#include "runtime/core/test_inputs.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {
namespace {

class Schedule {
 public:
  Schedule(uint64_t seed, Totals& totals)
      : rng_(seed),
        totals_(totals),
        pool_({.small = 1'024, .medium = 0, .large = 0}),
        packets_left_(static_cast<int>(rng_.Uniform(20, 300))),
        slots_(static_cast<uint32_t>(rng_.Uniform(1, 64))),
        stickiness_(static_cast<uint32_t>(rng_.Below(60'000))),
        loss_(rng_.Below(2) == 0 ? 0
                                 : static_cast<uint32_t>(rng_.Below(20'000))),
        packet_every_(rng_.Below(2) == 0 ? 3 : 30),
        is_slow_(rng_.Below(4) == 0) {
    const auto units = static_cast<uint16_t>(rng_.Uniform(1, 4));
    const auto flows = static_cast<uint32_t>(rng_.Uniform(1, 50));
    const UnitOptions options = {
        .max_flows = flows,
        .queue_packets = slots_,
        // Tooks that were lost wait beside the packets.
        .packets_elsewhere = (units - 1u) * slots_ + (loss_ > 0 ? 100 : 0),
        .hold_packets = rng_.Below(4) == 0 ? 2u : slots_,
        .replicas = static_cast<uint32_t>(rng_.Below(4)),
        .max_replicas = static_cast<uint32_t>(rng_.Uniform(1, 30))};
    for (uint16_t u = 0; u < units; ++u) {
      auto nf = std::make_unique<CheckingNf>(UnitId{u}, now_, flows_, totals);
      const StateSchema& schema = nf->schema();
      sites_.push_back(
          {.unit = Unit(UnitId{u}, options, schema), .nf = std::move(nf)});
    }
    for (uint32_t slot = 0; slot < flows; ++slot) {
      present_.push_back(NewFlow(MakeFlowId(0, slot, 0)));
    }
  }

  void Run() {
    while (packets_left_ > 0 && !Failed()) {
      if (rng_.Below(packet_every_) == 0) RoutePacket();
      if (rng_.Below(300) == 0)
        EndFlowOf(present_[rng_.Below(present_.size())]);
      if (rng_.Below(200) == 0) StopOrStart(rng_.Below(sites_.size()));
      Step();
    }
    RunOut();
    CheckCopies();
    for (FlowId& flow : present_) EndFlowOf(flow);
    for (Site& site : sites_) {
      if (!site.stops) Stop(site);
    }
    RunOut();
    CheckEnd();
  }

 private:
  struct Item {
    PacketHandle packet = kNoPacket;
    PacketMeta meta{};
    EndFlow end{};
    ReplicaSet replicas{};  // come before the packet
  };
  struct Wire {
    UnitCommand command;
    std::vector<std::byte> record;
  };
  struct Site {
    Unit unit;
    std::unique_ptr<CheckingNf> nf;
    std::deque<Item> channel{};
    uint32_t slots_used = 0;
    bool stops = false;
    bool stopped = false;
  };

  static bool Failed() { return ::testing::Test::HasFailure(); }

  FlowId NewFlow(FlowId id) {
    flows_[id].id = id;
    return id;
  }

  // The controller: gives the next packet of a flow its clock and its unit.
  void RoutePacket() {
    TestFlow& flow = flows_.at(present_[rng_.Below(present_.size())]);
    UnitId to = flow.owner;
    const bool is_first =
        to == kNoUnit || !rng_.Chance(stickiness_) || sites_[value(to)].stops;
    if (is_first) to = UnitId{static_cast<uint16_t>(rng_.Below(sites_.size()))};
    if (!Route(flow, to, is_first,
               rng_.Below(16) == 0 ? PacketMeta::kTombstone : uint8_t{0})) {
      return;
    }
    --packets_left_;
    ++totals_.packets;
  }

  bool Route(TestFlow& flow, UnitId to, bool is_first, uint8_t flags) {
    Site& site = sites_[value(to)];
    if (site.stops || site.slots_used == slots_) return false;
    ++site.slots_used;
    Item item = {.meta = Within(value(flow.id), ++flow.clock)};
    if (flow.clock == 1) {
      item.meta = New(value(flow.id));
    } else if (is_first) {
      item.meta = First(value(flow.id), flow.clock, value(flow.owner));
      moves_ += flow.owner != to ? 1 : 0;
    }
    if (is_first) {
      item.replicas = {.flow = flow.id, .count = 3};
      for (size_t i = 0; i < 3; ++i) {
        item.replicas.units.at(i) =
            UnitId{static_cast<uint16_t>(rng_.Below(sites_.size()))};
      }
    }
    item.meta.flags |= flags;
    if (flags == 0) item.packet = MakePacket(flow.clock);
    totals_.nulls += flags != 0 ? 1 : 0;
    flow.owner = to;
    site.channel.push_back(item);
    return true;
  }

  PacketHandle MakePacket(uint64_t clock) {
    Wish wish;
    std::memset(&wish, 0, sizeof wish);
    wish.action = rng_.Below(3) != 0
                      ? Action::kForward
                      : static_cast<Action>(
                            rng_.Below(static_cast<uint64_t>(Action::kCount)));
    wish.clock = clock;
    wish.timer_ns = static_cast<int64_t>(rng_.Next() >> (24 + rng_.Below(30)));
    const PacketHandle packet = pool_.Allocate(sizeof wish);
    std::memcpy(pool_.room(packet).data(), &wish, sizeof wish);
    pool_.info(packet).length = sizeof wish;
    return packet;
  }

  // The flow is over; its place goes to a new one.
  void EndFlowOf(FlowId& id) {
    TestFlow& flow = flows_.at(id);
    if (flow.owner == kNoUnit) return;
    flow.is_over = true;
    ++totals_.flows_ended;
    sites_[value(flow.owner)].channel.push_back(
        {.end = {flow.id, Clock{flow.clock}}});
    id = NewFlow(MakeFlowId(0, slot_of(id), generation_of(id) + 1));
  }

  void StopOrStart(size_t u) {
    Site& site = sites_[u];
    if (site.stopped) {
      site.stops = site.stopped = false;
      site.unit.on_start();
      ++totals_.starts;
    } else if (std::ranges::count(sites_, false, &Site::stops) > 1) {
      Stop(site);
    }
  }
  void Stop(Site& site) {
    site.stops = true;
    site.unit.on_stop(out_);
    Execute(site);
  }
  // Moves one flow from a unit that is to stop (U8).
  void Empty(const Site& site) {
    for (const FlowId id : present_) {
      TestFlow& flow = flows_.at(id);
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
    switch (rng_.Below(6)) {
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
      default:
        if (is_slow_ && rng_.Below(64) != 0) break;
        site.unit.busy() ? Finish(site) : Begin(site);
    }
  }

  void Deliver(Site& site) {
    const Item item = site.channel.front();
    site.channel.pop_front();
    if (item.end.last == Clock{}) {
      if (item.replicas.count > 0) site.unit.on_replicas(item.replicas);
      site.unit.on_packet(item.packet, item.meta);
      return;
    }
    flows_.at(item.end.flow).end_seen = true;
    site.unit.on_end_flow(now_, item.end, {*site.nf, pool_}, out_);
    ForgetTimerIfOver(item.end.flow);
    Execute(site);
  }

  void ForgetTimerIfOver(FlowId id) {
    TestFlow& flow = flows_.at(id);
    if (flow.end_seen && flow.processed == flow.clock) {
      flow.timer = Instant::max();
    }
  }

  void DeliverWire(size_t i) {
    std::swap(wires_[i], wires_.back());
    const Wire wire = wires_.back();
    wires_.pop_back();
    if (rng_.Chance(loss_)) {
      ++totals_.lost;
      return;
    }
    const UnitCommand& command = wire.command;
    Site& site = sites_[value(command.unit)];
    switch (command.kind) {
      case UnitCommand::Kind::kSendPull:
        totals_.chains += waiting_.count({command.unit, command.pull.flow});
        site.unit.on_pull(now_, command.pull, out_);
        break;
      case UnitCommand::Kind::kSendState:
        waiting_.erase({command.unit, command.state.flow});
        site.unit.on_state(now_, command.state, wire.record, out_);
        break;
      case UnitCommand::Kind::kSendTook:
        site.unit.on_took(now_, command.took, out_);
        break;
      default:
        site.unit.on_took_ack(now_, command.took_ack, out_);
    }
    Execute(site);
  }

  void Begin(Site& site) {
    const Unit::Next next = site.unit.begin(now_, out_);
    totals_.held_max = std::max(totals_.held_max, site.unit.held_packets());
    Execute(site);
    if (next != Unit::Next::kService) return;
    const PacketMeta& meta = site.unit.in_service();
    TestFlow& flow = flows_.at(meta.flow);
    ASSERT_EQ(flow.serving, kNoUnit) << "two units at one flow";
    ASSERT_EQ(value(meta.clock), flow.processed + 1);
    flow.serving = site.unit.id();
    totals_.seamless += meta.source_kind == StateSource::kUnit &&
                                meta.source != site.unit.id() &&
                                site.unit.in_service_wait() == Unit::kNeverHeld
                            ? 1
                            : 0;
  }

  void Finish(Site& site) {
    TestFlow& flow = flows_.at(site.unit.in_service().flow);
    site.unit.finish(now_, {*site.nf, pool_}, out_);
    ++flow.processed;
    flow.serving = kNoUnit;
    ForgetTimerIfOver(flow.id);
    Execute(site);
  }

  void RunTimers(Site& site) {
    site.unit.on_timers(now_, {*site.nf, pool_}, out_);
    Execute(site);
  }

  void Execute(Site& site) {
    using Kind = UnitCommand::Kind;
    for (const UnitCommand& command : out_.commands()) {
      switch (command.kind) {
        case Kind::kDrop:
          FAIL() << "dropped as " << ToString(command.reason);
        case Kind::kRelease:
        case Kind::kNfDrop:
        case Kind::kConsume:
          pool_.Free(command.packet);
          [[fallthrough]];
        case Kind::kAdvance:
          --site.slots_used;
          break;
        case Kind::kEmit:
          ++totals_.emitted;
          pool_.Free(command.packet);
          break;
        case Kind::kDropPayload:
          ++totals_.overflows;
          pool_.Free(command.packet);
          break;
        case Kind::kReportTook:
          ++reports_;
          break;
        case Kind::kStopped:
          ASSERT_TRUE(site.stops && !site.stopped);
          ASSERT_EQ(site.unit.flows(), 0u);
          site.stopped = true;
          ++totals_.stops;
          break;
        default:
          Send(site, command);
      }
    }
    out_.clear();
  }

  void Send(const Site& site, const UnitCommand& command) {
    ASSERT_NE(command.unit, site.unit.id()) << "to itself";
    Wire wire = {command, {}};
    if (command.kind == UnitCommand::Kind::kSendPull) {
      const Pull& pull = command.pull;
      totals_.pulls += pulled_.insert({pull.flow, pull.need}).second ? 1 : 0;
      waiting_.insert({pull.requester, pull.flow});
    } else if (command.kind == UnitCommand::Kind::kSendState) {
      const auto record = site.unit.state_bytes(command.state.flow);
      wire.record.assign(record.begin(), record.end());
      totals_.pushes += command.state.pushed ? 1 : 0;
    }
    wires_.push_back(wire);
    if (rng_.Below(8) == 0) {
      ++totals_.doubled;
      wires_.push_back(wire);
    }
  }

  // Until nothing is on its way or waits, as it must come to (I7), whatever
  // time that takes.
  void RunOut() {
    for (int step = 0; !Failed(); ++step) {
      ASSERT_LT(step, 500'000) << "stuck";
      const bool is_quiet =
          wires_.empty() && std::ranges::all_of(sites_, [&](const Site& site) {
            return site.channel.empty() && !site.unit.busy() &&
                   !MustEmpty(site);
          });
      if (is_quiet && !LetTimePass()) break;
      Step();
    }
    for (const Site& site : sites_) {
      ASSERT_EQ(site.slots_used, 0u);
      ASSERT_EQ(site.unit.held_packets(), 0u);
      ASSERT_EQ(site.stopped, site.stops);
    }
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
      Begin(site);
      if (site.unit.busy()) return true;
      next = std::min(next, site.unit.next_wakeup());
    }
    if (next == Instant::max()) return !wires_.empty();
    now_ = std::max(now_, next);
    for (Site& site : sites_) RunTimers(site);
    return true;
  }

  // All replicas have expired, and of each flow there is one copy.
  void CheckCopies() {
    uint32_t copies = 0;
    for (const Site& site : sites_) copies += site.unit.flows();
    uint32_t expected = 0;
    for (const FlowId id : present_) {
      const TestFlow& flow = flows_.at(id);
      ASSERT_EQ(flow.timer, Instant::max()) << "a timer never ran";
      expected += flow.clock > 0 ? 1 : 0;
    }
    ASSERT_EQ(copies, expected);
    ASSERT_EQ(reports_, moves_) << "a take that was not reported, or twice";
  }

  void CheckEnd() {
    for (const auto& [id, flow] : flows_) {
      ASSERT_EQ(flow.processed, flow.clock);
    }
    for (const Site& site : sites_) {
      ASSERT_EQ(site.unit.flows(), 0u);
      ASSERT_TRUE(site.stopped);
      const UnitCounters& counters = site.unit.counters();
      ASSERT_EQ(counters.tooks_said_once, 0u);
      totals_.repeated += counters.pulls_repeated + counters.tooks_repeated;
      totals_.evicted += counters.replicas_evicted;
      totals_.stale +=
          counters.refused[static_cast<size_t>(StateRefusal::kStale)];
    }
    ASSERT_EQ(pool_.in_use(), 0u);
    totals_.moves += moves_;
  }

  Rng rng_;
  Totals& totals_;
  BufferPool pool_;
  int packets_left_;
  uint32_t slots_;         // of each channel
  uint32_t stickiness_;    // of 65,536, that a packet stays in its flowlet
  uint32_t loss_;          // of 65,536 messages between units
  uint64_t packet_every_;  // so many steps
  bool is_slow_;           // service is rare, so that queues are long
  Instant now_;
  TestFlows flows_;
  std::vector<FlowId> present_;  // flows that are not over
  std::vector<Site> sites_;
  std::vector<Wire> wires_;
  std::set<std::pair<FlowId, Clock>> pulled_;
  std::set<std::pair<UnitId, FlowId>> waiting_;  // for a State
  uint64_t moves_ = 0;
  uint64_t reports_ = 0;
  UnitOut out_;
};

void Print(const Totals& t, uint64_t schedules) {
  std::cout << "seeds 1-" << schedules << ": " << t.packets << " packets, "
            << t.nulls << " null or tombstones, " << t.overflows
            << " overflows, " << t.moves << " moves (" << t.seamless
            << " seamless), " << t.pulls << " pulls, " << t.chains
            << " chains, " << t.pushes << " pushes, " << t.lost << " lost, "
            << t.doubled << " doubled, " << t.repeated << " repeated, "
            << t.evicted << " evicted, " << t.stale << " stale, held at most "
            << t.held_max << ", " << t.emitted << " emitted, " << t.timers
            << " timers (" << t.timers_moved << " moved), " << t.flows_ended
            << " flows ended, " << t.stops << " stops, " << t.starts
            << " starts\n";
}

TEST(UnitSchedules, ProcessEachClockOnceInOrderOnTheStateBefore) {
  const bool is_long = std::getenv("SNF_LONG_TESTS") != nullptr;
  const uint64_t schedules = is_long ? 100'000 : 3'000;
  Totals totals;
  for (uint64_t seed = 1; seed <= schedules; ++seed) {
    Schedule(seed, totals).Run();
    if (HasFailure()) {
      std::cout << "seed " << seed << "\n";
      return;
    }
  }
  Print(totals, schedules);
  // About half of what 3,000 schedules come to.
  EXPECT_GT(totals.packets, 250'000u);
  EXPECT_GT(totals.nulls, 50'000u);
  EXPECT_GT(totals.overflows, 5'000u);
  EXPECT_GT(totals.moves, 60'000u);
  EXPECT_GT(totals.seamless, 4'000u);
  EXPECT_GT(totals.pulls, 50'000u);
  EXPECT_GT(totals.chains, 10'000u);
  EXPECT_GT(totals.pushes, 100'000u);
  EXPECT_GT(totals.lost, 30'000u);
  EXPECT_GT(totals.doubled, 50'000u);
  EXPECT_GT(totals.repeated, 50'000u);
  EXPECT_GT(totals.evicted, 2'000u);
  EXPECT_GT(totals.stale, 20'000u);
  EXPECT_GT(totals.emitted, 10'000u);
  EXPECT_GT(totals.timers_moved, 1'000u);
  EXPECT_GT(totals.flows_ended, 50'000u);
  EXPECT_GT(totals.stops, 10'000u);
}

}  // namespace
}  // namespace snf
