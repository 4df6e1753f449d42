// SPDX-License-Identifier: Apache-2.0
//
// Tests a controller that holds shares of units by leases: what a share has
// room for, and how a unit is left. Units have 1 Gbit/s and the target is
// 350 µs, so that 43,750 bytes are a full unit.
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr uint32_t kFullBytes = 43'750;
constexpr UnitId kU0{0}, kU1{1}, kU2{2};

ControllerOptions Leased(uint32_t units) {
  ControllerOptions options;
  options.leased = true;
  options.max_units = units;
  options.replicas = 0;
  options.flow_timeout = Seconds(100);
  return options;
}

// A pool whose units have these shares and so many bytes waiting.
class LeasedPool {
 public:
  struct Of {
    uint32_t share;
    uint32_t queued;
  };
  explicit LeasedPool(const std::vector<Of>& units,
                      LoadSignal signal = LoadSignal::kWait)
      : pool_(OptionsFor(units.size(), signal)) {
    for (uint32_t i = 0; i < units.size(); ++i) {
      const UnitId unit = TestDriver::Id(i);
      EXPECT_TRUE(pool_.on_lease(kStart, unit, units[i].share, out_));
      if (units[i].queued == 0) continue;
      EXPECT_NE(pool_.TakeSlot(kStart, unit, units[i].queued), 0u);
      pool_.OpenFlowlet(unit, 0);  // the index learns of it
      pool_.CloseFlowlet(unit, 0);
    }
    EXPECT_EQ(out_.commands().size(), units.size());  // kStartUnit
    out_.clear();
  }
  UnitPool& pool() { return pool_; }
  ControllerOut& out() { return out_; }
  Placement Place(int64_t rate_bps, UnitId owner = kNoUnit) {
    pool_.Refresh(kStart);
    return FindPlacementPolicy("snf")->Place(kStart,
                                             {.demand = pool_.Quanta(rate_bps),
                                              .owner = owner,
                                              .alpha = 1'024,
                                              .owner_alpha = 1'024},
                                             pool_, out_);
  }

 private:
  static ControllerOptions OptionsFor(size_t units, LoadSignal signal) {
    ControllerOptions options = Leased(static_cast<uint32_t>(units));
    options.load_signal = signal;
    return options;
  }
  ControllerOut out_;
  UnitPool pool_;
};

TEST(LeasedPool, LoadIsThePartOfTheShareInUse) {
  LeasedPool units({{1'024, 10'000}, {256, 10'000}, {512, 0}});
  const uint32_t whole = units.pool().load(kU0);
  EXPECT_EQ(whole, (10'000u * 1'024 + kFullBytes - 1) / kFullBytes);
  EXPECT_EQ(units.pool().load(kU1), 4 * whole);
  EXPECT_EQ(units.pool().load(kU2), 0u);
  EXPECT_EQ(units.pool().placeable_units(), 3u);
  EXPECT_EQ(units.pool().LeastLoaded(), kU2);
  units.pool().on_drained(kStart, {.unit = kU1, .packets = 1, .bytes = 10'000});
  EXPECT_EQ(units.pool().load(kU1), 0u);
  EXPECT_EQ(units.pool().LeastLoaded(), kU1);
}

TEST(LeasedPool, TheFullestWithRoomWinsAmongWholeUnitsAndParts) {
  LeasedPool units({{1'024, 20'000}, {512, 12'000}, {256, 12'000}});
  EXPECT_EQ(units.Place(0).unit, kU1);  // 24,000 of 43,750; the last is full
  EXPECT_EQ(units.Place(0, kU0).unit, kU0);
}

TEST(LeasedPool, ADemandTakesALargerPartOfASmallerShare) {
  // 100 Mbit/s bring 12,500 bytes in a millisecond. Of a quarter of a unit,
  // which has 1,000 bytes for each 4,000 of a whole one, they are 50,000.
  LeasedPool units({{1'024, 2'000}, {256, 2'000}});
  EXPECT_EQ(units.Place(0).unit, kU1);
  EXPECT_EQ(units.Place(60'000'000).unit, kU1);
  EXPECT_EQ(units.Place(100'000'000).unit, kU0);
  // What is empty has room for any demand.
  LeasedPool empty({{100, 0}});
  EXPECT_FALSE(empty.Place(900'000'000).overcommitted);
}

TEST(LeasedPool, APartFadesWithTheOthers) {
  LeasedPool units({{512, 10'000}}, LoadSignal::kDrained);
  units.pool().on_drained(kStart, {.unit = kU0, .packets = 1, .bytes = 10'000});
  units.pool().Refresh(kStart);
  EXPECT_GT(units.pool().load(kU0), 0u);
  units.pool().Refresh(kStart + Seconds(1));
  EXPECT_EQ(units.pool().load(kU0), 0u);
}

TEST(LeasedPool, AShareGrowsAndShrinks) {
  LeasedPool units({{512, 10'000}});
  const uint32_t half = units.pool().load(kU0);
  EXPECT_TRUE(units.pool().on_lease(kStart, kU0, 1'024, units.out()));
  EXPECT_EQ(units.pool().load(kU0), half / 2);
  EXPECT_FALSE(units.pool().is_part(kU0));
  EXPECT_TRUE(units.pool().on_lease(kStart, kU0, 256, units.out()));
  EXPECT_EQ(units.pool().load(kU0), 2 * half);
  EXPECT_EQ(units.pool().placeable_units(), 1u);
  EXPECT_TRUE(units.out().empty());
}

TEST(LeasedPool, RefusesWhatCannotBe) {
  LeasedPool units({{512, 0}, {512, 0}});
  UnitPool& pool = units.pool();
  EXPECT_FALSE(pool.on_lease(kStart, kU0, 0, units.out()));
  EXPECT_FALSE(pool.on_lease(kStart, kU0, 1'025, units.out()));
  EXPECT_TRUE(pool.on_revoke(kStart, kU0, false, units.out()));
  EXPECT_FALSE(pool.on_revoke(kStart, kU0, false, units.out()));
  EXPECT_TRUE(pool.on_revoke(kStart, kU0, true, units.out()));
  EXPECT_FALSE(pool.on_revoke(kStart, kU0, true, units.out()));
  ControllerOptions options;
  UnitPool own(options);
  EXPECT_FALSE(own.on_lease(kStart, kU0, 512, units.out()));
  EXPECT_FALSE(own.on_revoke(kStart, kU0, false, units.out()));
}

TEST(LeasedPool, StartsNoUnitByItself) {
  LeasedPool units({{512, 0}});
  ASSERT_TRUE(units.pool().on_revoke(kStart, kU0, false, units.out()));
  EXPECT_EQ(units.Place(0).unit, kNoUnit);
  for (const PlacementPolicy* policy : PlacementPolicies()) {
    EXPECT_EQ(
        policy->Place(kStart, {.owner = kU0}, units.pool(), units.out()).unit,
        kNoUnit)
        << policy->name();
  }
  EXPECT_TRUE(units.out().empty());
}

class LeavingTest : public testing::Test {
 protected:
  LeavingTest() : driver_(Leased(3), policy_) {
    driver_.Lease(now_, kU0, 512);
    policy_.unit = kU0;
  }
  Commands RunTimers(Nanos time) {
    now_ = now_ + time;
    return driver_.RunTimers(now_);
  }
  DirectedPolicy policy_;
  TestDriver driver_;
  Instant now_ = kStart;
};

TEST_F(LeavingTest, AnOpenFlowletGoesOnAndTheNextGoesElsewhere) {
  driver_.Lease(now_, kU1, 512);
  driver_.Packet(now_, 1);
  driver_.Packet(now_, 2);
  driver_.DrainAll(now_);
  EXPECT_TRUE(driver_.Revoke(now_, kU0, false).empty());
  policy_.unit = kU1;
  Commands sent = Only(Kind::kEnqueue, driver_.Packet(now_, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].unit, kU0);
  driver_.ExpectStatesAgree();
  now_ = now_ + Milliseconds(1);
  sent = Only(Kind::kEnqueue, driver_.Packet(now_, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].unit, kU1);
  EXPECT_EQ(sent[0].meta.source, kU0);
  // A packet waits there: nothing is stopped yet.
  EXPECT_TRUE(Only(Kind::kStopUnit, RunTimers(Milliseconds(5))).empty());
  driver_.DrainAll(now_);
  // Then the flow that is left moves by a null packet.
  const Commands moved = RunTimers(Milliseconds(5));
  ASSERT_EQ(Only(Kind::kStopUnit, moved).size(), 1u);
  const Commands null_packets = Only(Kind::kEnqueue, moved);
  ASSERT_EQ(null_packets.size(), 1u);
  EXPECT_EQ(null_packets[0].unit, kU1);
  EXPECT_EQ(null_packets[0].meta.source, kU0);
  driver_.Stopped(kU0);
  EXPECT_EQ(driver_.units().share(kU0), 0u);
  driver_.ExpectStatesAgree();
}

TEST_F(LeavingTest, AtOnceAnOpenFlowletGoesOnElsewhere) {
  driver_.Lease(now_, kU1, 512);
  driver_.Packet(now_, 1);
  driver_.Packet(now_, 2);
  policy_.unit = kU1;
  EXPECT_EQ(Only(Kind::kStopUnit, driver_.Revoke(now_, kU0, true)).size(), 1u);
  const Commands sent = Only(Kind::kEnqueue, driver_.Packet(now_, 1));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].unit, kU1);
  EXPECT_EQ(sent[0].meta.source, kU0);
  EXPECT_EQ(value(sent[0].meta.clock), 2u);
  // The other flow moves without a packet of its own, amid its flowlet, which
  // then goes on at its new owner.
  EXPECT_EQ(Only(Kind::kEnqueue, RunTimers(Nanos{1})).size(), 1u);
  EXPECT_EQ(driver_.units().open_flowlets(kU0), 0u);
  const Commands next = Only(Kind::kEnqueue, driver_.Packet(now_, 2));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].unit, kU1);
  EXPECT_EQ(value(next[0].meta.clock), 3u);
  driver_.DrainAll(now_);
  driver_.Stopped(kU0);
  driver_.Lease(now_, kU0, 100);
  policy_.unit = kU0;
  EXPECT_EQ(Only(Kind::kEnqueue, driver_.Packet(now_, 3)).size(), 1u);
}

TEST_F(LeavingTest, WhereThereIsNoOtherUnitItStaysUntilThereIsOne) {
  driver_.Packet(now_, 1);
  driver_.DrainAll(now_);
  driver_.Revoke(now_, kU0, false);
  policy_.unit = kU1;
  EXPECT_TRUE(RunTimers(Milliseconds(50)).empty());
  EXPECT_EQ(Only(Kind::kDrop, driver_.Packet(now_, 1)).size(), 1u);
  driver_.Lease(now_, kU1, 100);
  EXPECT_EQ(Only(Kind::kEnqueue, RunTimers(Milliseconds(5))).size(), 1u);
  driver_.Stopped(kU0);
}

TEST_F(LeavingTest, ANewLeaseWithdrawsTheStop) {
  driver_.Packet(now_, 1);
  ASSERT_EQ(driver_.Revoke(now_, kU0, true).size(), 1u);
  EXPECT_EQ(driver_.units().leaving_flows(), 1u);
  const Commands started = driver_.Lease(now_, kU0, 300);
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0].kind, Kind::kStartUnit);
  EXPECT_EQ(driver_.units().leaving_flows(), 0u);
  EXPECT_FALSE(driver_.controller().on_unit_stopped(kU0));
  EXPECT_EQ(Only(Kind::kEnqueue, driver_.Packet(now_, 1)).size(), 1u);
  driver_.ExpectStatesAgree();
}

// Leases come, change, and end in both ways, at random, under packets at
// random: the driver holds every command to what must always be.
class LeaseSchedule {
 public:
  LeaseSchedule(uint64_t seed, const ControllerOptions& options)
      : rng_(seed), options_(options), driver_(options) {}

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      now_ = now_ + Nanos{rng_.Exponential(Microseconds(60).ns)};
      ChangeALease();
      PlayUnits();
      if (rng_.Chance(50'000)) driver_.RunTimers(now_);
      for (uint64_t left = rng_.Below(8); left > 0; --left) {
        driver_.Packet(now_, static_cast<uint32_t>(rng_.Below(40)),
                       static_cast<uint32_t>(rng_.Uniform(60, 1'500)));
        ++packets_;
      }
      if (i % 16 == 0) driver_.ExpectStatesAgree();
      EXPECT_EQ(driver_.enqueued + driver_.dropped, packets_);
    }
    Finish();
  }

  const TestDriver& driver() const { return driver_; }

 private:
  void ChangeALease() {
    if (!rng_.Chance(6'000)) return;
    const UnitId unit =
        TestDriver::Id(static_cast<uint32_t>(rng_.Below(options_.max_units)));
    const bool active = driver_.state(unit) == UnitState::kActive;
    const uint32_t share = rng_.Chance(20'000)
                               ? 1'024u
                               : static_cast<uint32_t>(rng_.Uniform(1, 1'024));
    if (!active || rng_.Chance(10'000)) {
      driver_.Lease(now_, unit, share);
    } else if (driver_.revoked(unit)) {
      driver_.Revoke(now_, unit, true);
    } else {
      driver_.Revoke(now_, unit, rng_.Chance(16'000));
    }
  }

  void PlayUnits() {
    for (uint32_t i = 0; i < options_.max_units; ++i) {
      const UnitId unit = TestDriver::Id(i);
      if (rng_.Chance(20'000)) driver_.Drain(now_, unit, 1 + rng_.Below(20));
      if (driver_.state(unit) == UnitState::kStopping &&
          driver_.owned(unit) == 0 && driver_.queued(unit) == 0 &&
          rng_.Chance(20'000)) {
        driver_.Stopped(unit);
      }
    }
  }

  // All leases but one end: everything goes there.
  void Finish() {
    driver_.Lease(now_, kU0, 512);
    for (uint32_t i = 1; i < options_.max_units; ++i) {
      const UnitId unit = TestDriver::Id(i);
      if (driver_.state(unit) != UnitState::kActive) continue;
      if (!driver_.revoked(unit)) driver_.Revoke(now_, unit, false);
    }
    for (int round = 0; round < 200; ++round) {
      driver_.DrainAll(now_);
      driver_.RunTimers(now_);
      now_ = now_ + Milliseconds(1);
    }
    EXPECT_EQ(driver_.units().leaving_flows(), 0u);
    EXPECT_EQ(driver_.units().placeable_units(), 1u);
    for (uint32_t i = 1; i < options_.max_units; ++i) {
      const UnitId unit = TestDriver::Id(i);
      EXPECT_NE(driver_.state(unit), UnitState::kActive) << i;
      EXPECT_EQ(driver_.owned(unit), 0u) << i;
    }
  }

  Rng rng_;
  ControllerOptions options_;
  TestDriver driver_;
  Instant now_ = kStart;
  uint64_t packets_ = 0;
};

TEST(LeaseSchedules, KeepEveryPromise) {
  uint64_t stopped = 0, withdrawn = 0, null_packets = 0, moved = 0, sent = 0;
  constexpr uint64_t kSeeds = 100;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    ControllerOptions options = Leased(1 + static_cast<uint32_t>(rng.Below(6)));
    options.load_signal = LoadSignal{static_cast<uint8_t>(rng.Below(3))};
    options.unit_queue_packets = static_cast<uint32_t>(rng.Uniform(4, 64));
    options.evacuate_slots = static_cast<uint32_t>(rng.Uniform(1, 30));
    options.replicas = static_cast<uint32_t>(rng.Below(4));
    options.unit_capacity_bps = 50'000'000 << rng.Below(5);
    options.max_owner_runs = 1 << 18;
    LeaseSchedule schedule(seed, options);
    schedule.Run(1'500);
    if (testing::Test::HasFailure()) return;
    stopped += schedule.driver().stopped;
    withdrawn += schedule.driver().warm;
    null_packets += schedule.driver().null_packets;
    moved += schedule.driver().moved;
    sent += schedule.driver().enqueued;
  }
  std::cout << "seeds 1-" << kSeeds << ": " << sent << " packets sent, "
            << stopped << " units stopped, " << withdrawn
            << " stops withdrawn, " << null_packets << " null packets, "
            << moved << " moves\n";
  EXPECT_GT(stopped, 3'000u);
  EXPECT_GT(withdrawn, 500u);
  EXPECT_GT(null_packets, 2'000u);
  EXPECT_GT(moved, 5'000u);
}

}  // namespace
}  // namespace snf
