// SPDX-License-Identifier: Apache-2.0
// Random schedules: flows that move and timers that run while messages between
// units are lost, and service comes whenever it likes.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <set>
#include <utility>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/core/test_flows.h"
#include "runtime/core/test_host.h"
#include "runtime/core/test_inputs.h"
#include "runtime/core/test_network.h"
#include "runtime/core/unit.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {
namespace {

class Schedule : public TestNetwork<TestFlow, CheckingNf> {
 public:
  Schedule(uint64_t seed, Totals& totals, uint32_t push_bases = 0)
      : TestNetwork(seed, totals, {.small = 1'024, .medium = 0, .large = 0}),
        totals_(totals) {
    packets_left_ = static_cast<int>(rng_.Uniform(20, 300));
    slots_ = static_cast<uint32_t>(rng_.Uniform(1, 64));
    stickiness_ = static_cast<uint32_t>(rng_.Below(60'000));
    loss_ = rng_.Below(2) == 0 ? 0 : static_cast<uint32_t>(rng_.Below(20'000));
    packet_every_ = rng_.Below(2) == 0 ? 3 : 30;
    is_slow_ = rng_.Below(4) == 0;
    const auto units = static_cast<uint16_t>(rng_.Uniform(1, 4));
    const auto flows = static_cast<uint32_t>(rng_.Uniform(1, 50));
    const UnitOptions options = {
        .max_flows = flows,
        .queue_packets = slots_,
        // Takeovers that were lost wait beside the packets.
        .packets_elsewhere = (units - 1u) * slots_ + (loss_ > 0 ? 100 : 0),
        .hold_packets = rng_.Below(4) == 0 ? 2u : slots_,
        .replicas = static_cast<uint32_t>(rng_.Below(4)),
        .max_replicas = static_cast<uint32_t>(rng_.Uniform(1, 30)),
        .push_bases = push_bases};
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
      if (rng_.Below(300) == 0) EndFlowOf(AnyFlow());
      if (rng_.Below(200) == 0) StopOrStart(sites_[value(AnyUnit())]);
      Step();
    }
    RunOut();
    CheckCopies();
    EndAll();
    CheckEnd();
  }

 private:
  PacketHandle MakePacket(uint64_t clock) override {
    Wish wish;
    std::memset(&wish, 0, sizeof wish);
    wish.action = rng_.Below(3) != 0
                      ? Action::kForward
                      : static_cast<Action>(
                            rng_.Below(static_cast<uint64_t>(Action::kCount)));
    wish.clock = clock;
    wish.timer_ns = static_cast<int64_t>(rng_.Next() >> (24 + rng_.Below(30)));
    const PacketHandle packet = buffers_.Allocate(sizeof wish);
    std::memcpy(buffers_.room(packet).data(), &wish, sizeof wish);
    buffers_.info(packet).length = sizeof wish;
    return packet;
  }

  void Step() override {
    now_ = now_ + Nanos{rng_.Uniform(0, 100'000)};
    Site& site = sites_[rng_.Below(sites_.size())];
    switch (rng_.Below(6)) {
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
      default:
        if (is_slow_ && rng_.Below(64) != 0) break;
        site.unit.busy() ? Finish(site) : static_cast<void>(Begin(site));
    }
  }

  void on_end_seen(TestFlow& flow) override {
    flow.end_seen = true;
    ForgetTimerIfOver(flow);
  }
  static void ForgetTimerIfOver(TestFlow& flow) {
    if (flow.end_seen && flow.processed == flow.clock) {
      flow.timer = Instant::max();
    }
  }

  void DeliverWire(const NetworkWire& wire) {
    if (rng_.Chance(loss_)) {
      ++totals_.lost;
      return;
    }
    const UnitCommand& command = wire.command;
    if (command.kind == UnitCommand::Kind::kSendPull) {
      totals_.chains += waiting_.count({command.unit, command.pull.flow});
    } else if (command.kind == UnitCommand::Kind::kSendState) {
      waiting_.erase({command.unit, command.state.flow});
    }
    Site& site = sites_[value(command.unit)];
    wire.Deliver(now_, site.unit, out_);
    Execute(site);
  }

  void on_begin(Site& site, TestFlow&) override {
    const PacketMeta& meta = site.unit.in_service();
    totals_.seamless += meta.source_kind == StateSource::kUnit &&
                                meta.source != site.unit.id() &&
                                site.unit.in_service_wait() == Unit::kNeverHeld
                            ? 1
                            : 0;
  }

  void Finish(Site& site) {
    TestFlow& flow = flows_.at(site.unit.in_service().flow);
    site.unit.finish(now_, NfContextOf(site), out_);
    ++flow.processed;
    flow.serving = kNoUnit;
    ForgetTimerIfOver(flow);
    Execute(site);
  }

  void Execute(Site& site) override {
    using Kind = UnitCommand::Kind;
    totals_.held_max = std::max(totals_.held_max, site.unit.held_packets());
    for (const UnitCommand& command : out_.commands()) {
      switch (command.kind) {
        case Kind::kDrop:
          FAIL() << "dropped as " << ToString(command.reason);
        case Kind::kRelease:
        case Kind::kNfDrop:
        case Kind::kConsume:
          buffers_.Free(command.packet);
          [[fallthrough]];
        case Kind::kAdvance:
          totals_.nulls += command.meta.has_payload() ? 0 : 1;
          --site.slots_used;
          break;
        case Kind::kEmit:
          ++totals_.emitted;
          buffers_.Free(command.packet);
          break;
        case Kind::kDropPayload:
          ++totals_.overflows;
          buffers_.Free(command.packet);
          break;
        case Kind::kSendTimerDue:
          asked_.push_back(command.timer_due);
          break;
        case Kind::kReportTakeover:
          ++reports_;
          break;
        case Kind::kStopped:
          on_stopped(site);
          break;
        case Kind::kSendPull:
          totals_.pulls +=
              pulled_.insert({command.pull.flow, command.pull.need}).second;
          waiting_.insert({command.pull.requester, command.pull.flow});
          Send(site, command);
          break;
        case Kind::kSendState:
          totals_.pushes += command.state.pushed ? 1 : 0;
          totals_.deltas += command.state.delta ? 1 : 0;
          [[fallthrough]];
        default:
          Send(site, command);
      }
    }
    out_.clear();
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
    ASSERT_EQ(reports_, moves()) << "a take that was not reported, or twice";
  }

  void CheckEnd() {
    for (const auto& [id, flow] : flows_) {
      ASSERT_EQ(flow.processed, flow.clock);
    }
    for (const Site& site : sites_) {
      const UnitCounters& counters = site.unit.counters();
      totals_.repeated += counters.pulls_repeated + counters.takeovers_repeated;
      totals_.read += counters.records_read;
      totals_.named += counters.records_named;
      for (size_t i = 0; i < kHostMisses; ++i) {
        totals_.missed.at(i) += counters.records_missed.at(i);
      }
      totals_.evicted += counters.replicas_evicted;
      totals_.stale +=
          counters.refused[static_cast<size_t>(StateRefusal::kStale)];
      totals_.without_base +=
          counters
              .refused[static_cast<size_t>(StateRefusal::kDeltaWithoutBase)];
    }
  }
  uint64_t moves() const { return totals_.moves - moves_before_; }

  Totals& totals_;
  uint32_t loss_;          // of 65,536 messages between units
  uint64_t packet_every_;  // so many steps
  bool is_slow_;           // service is rare, so that queues are long
  std::set<std::pair<FlowId, Clock>> pulled_;
  std::set<std::pair<UnitId, FlowId>> waiting_;  // for a State
  uint64_t moves_before_ = totals_.moves;
  uint64_t reports_ = 0;
};

// Pushes have only what changed, with places for a few flows.
class DeltaSchedule final : public Schedule {
 public:
  DeltaSchedule(uint64_t seed, Totals& totals)
      : Schedule(seed, totals,
                 /*push_bases=*/static_cast<uint32_t>(1 + seed % 12)) {}
};

// The units are on one host, but in some schedules one is elsewhere, and in
// some units lie about their records.
class HostSchedule final : public Schedule {
 public:
  HostSchedule(uint64_t seed, Totals& totals) : Schedule(seed, totals) {
    if (rng_.Below(2) == 0) host_.Lie(lies_, 20'000);
    if (rng_.Below(4) == 0) {
      host_.away = {UnitId{static_cast<uint16_t>(rng_.Below(4))}};
    }
    for (Site& site : sites_) site.unit.UseHost(host_);
  }

 private:
  Rng lies_{7};
  // A flow above that finds no place.
  TestHost host_{/*units=*/4, /*slots=*/30};
};

void Print(const Totals& t) {
  std::cout << t.packets << " packets, " << t.nulls << " null or tombstones, "
            << t.overflows << " overflows, " << t.moves << " moves ("
            << t.seamless << " seamless), " << t.pulls << " pulls, " << t.chains
            << " chains, " << t.pushes << " pushes, " << t.lost << " lost, "
            << t.doubled << " doubled, " << t.repeated << " repeated, "
            << t.evicted << " evicted, " << t.stale << " stale, held at most "
            << t.held_max << ", " << t.emitted << " emitted, " << t.timers
            << " timers (" << t.timers_moved << " moved), " << t.flows_ended
            << " flows ended, " << t.stops << " stops, " << t.starts
            << " starts\n";
}

TEST(UnitSchedules, ProcessEachClockOnceInOrderOnTheStateBefore) {
  Totals totals;
  const uint64_t run = RunSchedules<Schedule>(totals);
  Print(totals);
  if (run < 3'000) return;
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

TEST(UnitSchedules, DoSoWherePushesHaveWhatChanged) {
  Totals totals;
  const uint64_t run = RunSchedules<DeltaSchedule>(totals);
  Print(totals);
  std::cout << totals.deltas << " deltas, " << totals.without_base
            << " without a base\n";
  if (run < 3'000) return;
  EXPECT_GT(totals.seamless, 4'000u);
  EXPECT_GT(totals.deltas, 10'000u);
  EXPECT_GT(totals.without_base, 1'000u);
  EXPECT_GT(totals.deltas, totals.without_base);
}

TEST(UnitSchedules, DoSoWhereUnitsReadWhatOthersShow) {
  Totals totals;
  const uint64_t run = RunSchedules<HostSchedule>(totals);
  Print(totals);
  if (run < 3'000) return;
  EXPECT_GT(totals.pushes, 1'000u);  // to the unit that is elsewhere
  EXPECT_GT(totals.seamless, 4'000u);
  EXPECT_GT(totals.read, 10'000u);
  EXPECT_GT(totals.named, 10'000u);
  for (const uint64_t missed : totals.missed) EXPECT_GT(missed, 1'000u);
}

}  // namespace
}  // namespace snf
