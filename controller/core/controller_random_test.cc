// SPDX-License-Identifier: Apache-2.0
//
// Runs random schedules under all policies: packets, drains, delays of start
// and stop, late timers, takeovers that come late, repeated and out of order.
// The test's driver checks every command against what must always hold.
#include <array>
#include <iostream>
#include <map>
#include <vector>

#include "base/rng.h"
#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};

// Counts everything that happened in all runs.
struct Totals {
  uint64_t packets = 0, enqueued = 0, queue_full = 0, start_full = 0,
           table_full = 0, flowlets = 0, placed_again = 0, moved = 0,
           overcommitted = 0, cold = 0, warm = 0, parked = 0, stopped = 0,
           ended = 0, full_outs = 0, replica_sets = 0, null_packets = 0,
           evacuations = 0, moved_off_leaving = 0, takeovers = 0,
           takeovers_refused = 0, runs = 0;
};

ControllerOptions RandomOptions(Rng& rng) {
  ControllerOptions options;
  options.flowlet_timeout = Microseconds(rng.Uniform(50, 500));
  options.flowlet_bytes = static_cast<uint32_t>(rng.Uniform(1'000, 15'000));
  options.flow_timeout = Milliseconds(rng.Uniform(2, 50));
  options.max_flows = static_cast<uint32_t>(rng.Uniform(20, 200));
  options.alpha_1024 = static_cast<uint32_t>(rng.Below(5) * 256);
  options.demand_rule =
      rng.Chance(16'384) ? DemandRule::kBurst : DemandRule::kFloor;
  options.load_signal = LoadSignal{static_cast<uint8_t>(rng.Below(3))};
  options.latency_target = Microseconds(rng.Uniform(100, 5'000));
  options.max_units = static_cast<uint32_t>(
      rng.Chance(16'384) ? rng.Uniform(65, 100) : rng.Uniform(1, 12));
  options.warm_units = static_cast<uint32_t>(rng.Below(3));
  options.unit_capacity_bps = 20'000'000 << rng.Below(6);
  options.unit_queue_packets = static_cast<uint32_t>(rng.Uniform(8, 64));
  options.start_buffer_packets = static_cast<uint32_t>(rng.Uniform(1, 8));
  options.unit_idle_timeout = Microseconds(rng.Uniform(50, 8'000));
  options.keep_warm = Milliseconds(rng.Uniform(0, 12));
  options.load_buckets = static_cast<uint32_t>(rng.Uniform(1, 40));
  options.replicas =
      static_cast<uint32_t>(rng.Chance(6'000) ? kMaxReplicas : rng.Below(6));
  options.replica_choice = ReplicaChoice{static_cast<uint8_t>(rng.Below(4))};
  options.replica_chance_65536 = static_cast<uint32_t>(rng.Uniform(1, 32'768));
  options.push_delay = Microseconds(rng.Uniform(0, 500));
  options.reassign_period = Milliseconds(rng.Uniform(1, 30));
  options.evacuate_slots = static_cast<uint32_t>(rng.Uniform(1, 300));
  return options;
}

// Returns a random policy, mostly "snf".
const PlacementPolicy& RandomPolicy(Rng& rng) {
  const auto policies = PlacementPolicies();
  return *policies[rng.Chance(40'000) ? 0 : rng.Below(policies.size())];
}

class Schedule {
 public:
  Schedule(uint64_t seed, const ControllerOptions& options,
           const PlacementPolicy& policy)
      : rng_(seed), options_(options), driver_(options, policy) {
    hot_flows_ = 1 + rng_.Below(options.max_flows + options.max_flows / 8);
    drain_chance_ = 1'000 + static_cast<uint32_t>(rng_.Below(30'000));
  }

  void Run(size_t steps) {
    for (size_t step = 0; step < steps; ++step) {
      now_ = now_ + Nanos{rng_.Chance(300)
                              ? rng_.Uniform(0, Milliseconds(100).ns)
                              : rng_.Exponential(Microseconds(60).ns)};
      PlayUnits();
      if (rng_.Chance(50'000)) driver_.RunTimers(now_);
      if (rng_.Chance(3'000)) driver_.Timers(now_);
      DeliverTakeovers();
      SendBurst();
      if (step % 16 == 0) CheckPool();
      if (testing::Test::HasFailure()) return;
    }
    Finish();
  }

  void AddTo(Totals& totals) const {
    totals.packets += packets_;
    totals.enqueued += driver_.enqueued;
    totals.queue_full += drops_[size_t(DropReason::kUnitQueueFull)];
    totals.start_full += drops_[size_t(DropReason::kStartBufferFull)];
    totals.table_full += drops_[size_t(DropReason::kFlowTableFull)];
    totals.flowlets += driver_.counters().flowlets;
    totals.placed_again += driver_.resent_first;
    totals.moved += driver_.moved;
    totals.overcommitted += driver_.counters().overcommitted;
    totals.cold += driver_.cold;
    totals.warm += driver_.warm;
    totals.parked += driver_.parked;
    totals.stopped += driver_.stopped;
    totals.ended += driver_.ended;
    totals.full_outs += driver_.full_outs;
    totals.replica_sets += driver_.replica_sets;
    totals.null_packets += driver_.null_packets;
    totals.evacuations += driver_.evacuated;
    totals.moved_off_leaving += driver_.moved_off_leaving;
    totals.takeovers += takeovers_;
    totals.takeovers_refused += driver_.counters().takeovers_refused_unknown;
    totals.runs += runs_;
  }

 private:
  // Lets some units become ready, stop and drain.
  void PlayUnits() {
    for (uint32_t i = 0; i < options_.max_units; ++i) {
      const UnitId unit = TestDriver::Id(i);
      switch (driver_.state(unit)) {
        case UnitState::kStarting:
          if (rng_.Chance(6'000)) driver_.Ready(now_, unit);
          break;
        case UnitState::kStopping:
          if (driver_.owned(unit) == 0 && rng_.Chance(6'000)) {
            driver_.Stopped(unit);
          }
          break;
        case UnitState::kActive:
          if (rng_.Chance(drain_chance_)) {
            driver_.Drain(now_, unit, 1 + rng_.Below(40));
          }
          break;
        default:
          break;
      }
    }
  }

  // Delivers some takeovers: late, in random order, some never and some twice.
  void DeliverTakeovers() {
    for (uint64_t left = rng_.Below(4); left > 0; --left) {
      const size_t there = driver_.takeovers().size();
      if (there == 0) return;
      driver_.DeliverTakeover(there - 1 -
                              rng_.Below(std::min<size_t>(there, 40)));
      ++takeovers_;
    }
  }

  void SendBurst() {
    const int64_t late =
        rng_.Chance(4'000) ? rng_.Uniform(0, Milliseconds(10).ns) : 0;
    std::vector<Arrival> burst(1 + rng_.Below(rng_.Chance(2'000) ? 600 : 12));
    for (Arrival& arrival : burst) {
      arrival = {
          .key = Flow(static_cast<uint32_t>(rng_.Below(hot_flows_))),
          .time = {now_.ns - late - rng_.Exponential(Microseconds(20).ns)},
          .original_length = static_cast<uint32_t>(rng_.Uniform(0, 1'514)),
          .packet = PacketHandle{static_cast<uint32_t>(packets_++)}};
    }
    // Every packet is enqueued or dropped, once and in order.
    size_t next = 0;
    for (const ControllerCommand& command :
         driver_.Send(now_, burst, 1 + rng_.Below(300))) {
      if (command.kind != Kind::kEnqueue && command.kind != Kind::kDrop) {
        continue;
      }
      ASSERT_LT(next, burst.size());
      ASSERT_EQ(command.packet, burst[next].packet);
      if (command.kind == Kind::kEnqueue) {
        ASSERT_EQ(command.meta.arrival, burst[next].time);
        ASSERT_EQ(command.meta.original_length, burst[next].original_length);
      } else {
        ++drops_.at(size_t(command.reason));
      }
      ++next;
    }
    ASSERT_EQ(next, burst.size());
  }

  void CheckPool() {
    driver_.ExpectStatesAgree();
    EXPECT_LE(driver_.controller().flows().size(), options_.max_flows);
    EXPECT_EQ(driver_.counters().flows - driver_.counters().flows_ended,
              driver_.controller().flows().size());
    driver_.ExpectOwnersAgree();
    runs_ += driver_.controller().owners().size();
    EXPECT_EQ(driver_.counters().enqueued, driver_.enqueued);
    EXPECT_EQ(driver_.counters().null_packets, driver_.null_packets);
    EXPECT_EQ(driver_.counters().evacuations, driver_.evacuated);
    EXPECT_EQ(driver_.counters().takeovers_refused_future, 0u);
    EXPECT_EQ(driver_.counters().flowlets_moved, driver_.moved);
    EXPECT_LE(driver_.counters().moved_without_replica +
                  driver_.counters().moved_elsewhere +
                  driver_.counters().moved_too_soon,
              driver_.moved);
  }

  // Lets time pass without packets: everything must end by itself. Units are
  // not parked while flowlets are open on them, so none stays open.
  void Finish() {
    for (int round = 0; round < 200; ++round) {
      driver_.ReadyAll(now_);
      driver_.DrainAll(now_);
      driver_.RunTimers(now_);
      for (uint32_t i = 0; i < options_.max_units; ++i) {
        const UnitId unit = TestDriver::Id(i);
        if (driver_.state(unit) == UnitState::kStopping &&
            driver_.owned(unit) == 0) {
          driver_.Stopped(unit);
        }
      }
      now_ = now_ + Milliseconds(5);
    }
    CheckPool();
    EXPECT_EQ(driver_.controller().next_wakeup(), Instant::max());
    EXPECT_EQ(driver_.controller().flows().size(), 0u);
    EXPECT_EQ(driver_.units().placeable_units(), 0u);
    EXPECT_EQ(driver_.units().starting_units(), 0u);
    EXPECT_EQ(driver_.units().total_load(), 0u);
    EXPECT_EQ(driver_.units().leaving_flows(), 0u);
    EXPECT_EQ(driver_.controller().owners().size(), 0u);
    EXPECT_EQ(driver_.enqueued + driver_.dropped, packets_);
    for (uint32_t i = 0; i < options_.max_units; ++i) {
      // A unit that was warm at the start and never used stays so.
      const UnitState state = driver_.state(TestDriver::Id(i));
      EXPECT_TRUE(state == UnitState::kStopped ||
                  (state == UnitState::kWarm && i < options_.warm_units));
    }
  }

  Rng rng_;
  ControllerOptions options_;
  TestDriver driver_;
  Instant now_ = kStart;
  uint64_t hot_flows_ = 0;
  uint32_t drain_chance_ = 0;
  uint64_t packets_ = 0;
  uint64_t takeovers_ = 0;
  uint64_t runs_ = 0;  // seen in owner histories
  std::array<uint64_t, kDropReasons> drops_{};
};

TEST(ControllerSchedules, KeepEveryPromiseAndComeToTheirEnd) {
  constexpr uint64_t kSeeds = 150;
  Totals t;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    ControllerOptions options = RandomOptions(rng);
    // There is room for every run, so that owner histories can be compared.
    options.max_owner_runs = 1 << 20;
    Schedule schedule(seed, options, RandomPolicy(rng));
    schedule.Run(1'000);
    if (HasFailure()) return;
    schedule.AddTo(t);
  }
  std::cout << "seeds 1-" << kSeeds << ": " << t.packets << " packets, "
            << t.enqueued << " enqueued, dropped " << t.queue_full
            << " queue full, " << t.start_full << " start buffer full, "
            << t.table_full << " table full; " << t.flowlets << " flowlets, "
            << t.placed_again << " placed again, " << t.moved << " moved, "
            << t.overcommitted << " overcommitted; units " << t.cold
            << " cold, " << t.warm << " warm starts, " << t.parked
            << " parked, " << t.stopped << " stopped; " << t.ended
            << " flows ended, " << t.full_outs << " times out of room; "
            << t.replica_sets << " replica sets, " << t.null_packets
            << " null packets, " << t.evacuations << " evacuations, "
            << t.moved_off_leaving << " flows that went by themselves, "
            << t.takeovers << " takes, " << t.takeovers_refused
            << " of ended flows, " << t.runs << " runs of owners seen\n";
  EXPECT_GT(t.enqueued, 300'000u);
  EXPECT_GT(t.queue_full, 10'000u);
  EXPECT_GT(t.start_full, 1'000u);
  EXPECT_GT(t.table_full, 1'000u);
  EXPECT_GT(t.placed_again, 5u);  // thousands in flowlets_test.cc
  EXPECT_GT(t.moved, 10'000u);
  EXPECT_GT(t.overcommitted, 10'000u);
  EXPECT_GT(t.cold, 300u);
  EXPECT_GT(t.warm, 300u);
  EXPECT_GT(t.parked, 1'000u);
  EXPECT_GT(t.stopped, 300u);
  EXPECT_GT(t.ended, 10'000u);
  EXPECT_GT(t.full_outs, 100u);
  EXPECT_GT(t.replica_sets, 100'000u);
  EXPECT_GT(t.null_packets, 2'000u);
  EXPECT_GT(t.evacuations, 1'000u);
  EXPECT_GT(t.moved_off_leaving, 100u);
  EXPECT_GT(t.takeovers, 100'000u);
  EXPECT_GT(t.takeovers_refused, 10'000u);
  EXPECT_GT(t.runs, 100'000u);
}

}  // namespace
}  // namespace snf
