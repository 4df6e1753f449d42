// SPDX-License-Identifier: Apache-2.0
//
// Tests of placement by waits (LoadSignal::kWait): where flowlets go, and when
// units are closed. A unit's capacity is 1 Gbit/s and the target 350 µs, so
// that 43,750 bytes are a full unit.
#include <optional>
#include <vector>

#include "controller/core/placement.h"
#include "controller/core/test_driver.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr uint32_t kFullBytes = 43'750;
constexpr int64_t kMbps = 1'000'000;
constexpr UnitId kU0{0}, kU1{1}, kU2{2};

// Active units, with so many bytes waiting at each, and warm ones behind them.
class ClosingTest : public testing::Test {
 protected:
  void Start(const std::vector<uint32_t>& queued, uint32_t warm = 0,
             const char* policy = "snf") {
    ControllerOptions options;
    options.max_units = static_cast<uint32_t>(queued.size()) + warm;
    options.warm_units = options.max_units;
    options.unit_idle_timeout = Milliseconds(1);
    policy_ = FindPlacementPolicy(policy);
    pool_.emplace(options);
    for (const uint32_t bytes : queued) {
      const UnitId unit = pool_->TakeWarm(now_, out_);
      pool_->on_ready(now_, unit);
      if (bytes > 0) Queue(unit, bytes);
    }
  }
  // Adds a packet to the unit's queue.
  void Queue(UnitId unit, uint32_t bytes) {
    ASSERT_NE(pool_->TakeSlot(now_, unit, bytes), 0u);
    pool_->OpenFlowlet(unit, 0);  // the index learns of it
    pool_->CloseFlowlet(unit, 0);
  }
  void Drain(UnitId unit, uint32_t bytes) {
    pool_->on_drained(now_, {.unit = unit, .packets = 1, .bytes = bytes});
  }
  PlacementRequest Request(UnitId owner, int64_t rate_bps = 0) const {
    return {.demand = pool_->Quanta(rate_bps),
            .owner = owner,
            .alpha = 1'024,
            .owner_alpha = 1'024};
  }
  Placement Place(const PlacementRequest& request) {
    out_.clear();
    const uint32_t before = pool_->placeable_units();
    pool_->Refresh(now_);
    closings_ += before - pool_->placeable_units();
    return policy_->Place(now_, request, *pool_, out_);
  }
  UnitId Place(UnitId owner, int64_t rate_bps = 0) {
    return Place(Request(owner, rate_bps)).unit;
  }
  // Places a small flowlet of each of these owners, 20 times a millisecond.
  void Run(Nanos time, const std::vector<UnitId>& owners) {
    const Instant end = now_ + time;
    while (now_ < end) {
      now_ = now_ + Microseconds(50);
      while (pool_->next_wakeup() <= now_) {
        out_.clear();
        pool_->on_timer(now_, out_);
      }
      for (const UnitId owner : owners) {
        const UnitId unit = Place(owner);
        ASSERT_NE(pool_->TakeSlot(now_, unit, 100), 0u);
        Drain(unit, 100);
      }
    }
  }

  Instant now_{1'000'000'000};
  const PlacementPolicy* policy_ = nullptr;
  std::optional<UnitPool> pool_;
  uint32_t closings_ = 0;  // units closed so far
  ControllerOut out_;
};

TEST_F(ClosingTest, AFlowStaysAtItsOwnerWhereverElseThereIsRoom) {
  Start({30'000, 10'000, 20'000});
  EXPECT_EQ(Place(kNoUnit), kU0);
  EXPECT_EQ(Place(kU1), kU1);
  PlacementRequest request = Request(kU1);
  request.replicas.units[request.replicas.count++] = kU2;
  EXPECT_EQ(Place(request).unit, kU1);
}

TEST_F(ClosingTest, AFlowWithoutRoomAtItsOwnerGoesToAReplica) {
  Start({30'000, 55'000, 20'000});
  EXPECT_EQ(Place(kU1), kU0);
  PlacementRequest request = Request(kU1);
  request.replicas.units[request.replicas.count++] = kU2;
  EXPECT_EQ(Place(request).unit, kU2);
}

TEST_F(ClosingTest, AnOwnerIsFilledAQuarterBeyondTheLimit) {
  Start({kFullBytes * 10 / 8, 0});
  EXPECT_EQ(Place(kNoUnit), kU1);
  EXPECT_EQ(Place(kU0), kU0);
  Queue(kU0, 100);
  EXPECT_EQ(Place(kU0), kU1);
}

TEST_F(ClosingTest, AnOwnerIsFilledAnEighthBeyondTheLimitWhereAReplicaIs) {
  Start({kFullBytes * 9 / 8, 0});
  PlacementRequest request = Request(kU0);
  request.replicas.units[request.replicas.count++] = kU1;
  EXPECT_EQ(Place(request).unit, kU0);
  Queue(kU0, 100);
  EXPECT_EQ(Place(request).unit, kU1);
  EXPECT_EQ(Place(kU0), kU0);
}

TEST_F(ClosingTest, ADemandNeedsRoomForWhatItBringsInAMillisecond) {
  Start({31'000, 0});  // room for 12,750 bytes
  EXPECT_EQ(Place(kNoUnit, 101 * kMbps), kU0);
  EXPECT_EQ(Place(kNoUnit, 103 * kMbps), kU1);
}

TEST_F(ClosingTest, AnEmptyUnitHasRoomForAnyDemand) {
  Start({0}, 1);
  const Placement placement = Place(Request(kNoUnit, 1'000 * kMbps));
  EXPECT_EQ(placement.unit, kU0);
  EXPECT_FALSE(placement.overcommitted);
  EXPECT_TRUE(out_.empty());
}

TEST_F(ClosingTest, AFlowletStaysBehindItsFlowsLastPacket) {
  Start({kFullBytes * 3 / 2, 0});  // 525 us
  PlacementRequest request = Request(kU0);
  EXPECT_EQ(Place(request).unit, kU1);
  request.gap = Microseconds(520);
  const Placement placement = Place(request);
  EXPECT_EQ(placement.unit, kU0);
  EXPECT_TRUE(placement.overcommitted);
  request.gap = Microseconds(526);
  EXPECT_EQ(Place(request).unit, kU1);
}

TEST_F(ClosingTest, AFlowletLeavesAUnitFarBehindUnlessItIsAloneThere) {
  Start({kFullBytes * 3, 0});
  PlacementRequest request = Request(kU0);
  request.gap = Microseconds(10);
  EXPECT_EQ(Place(request).unit, kU0);
  pool_->OpenFlowlet(kU0, kMbps);
  EXPECT_EQ(Place(request).unit, kU1);
}

TEST_F(ClosingTest, OfTheFlowletsOfAUnitFarBehindTheLargestStays) {
  Start({kFullBytes * 3, 0});
  PlacementRequest elephant = Request(kU0, 1'000 * kMbps);
  elephant.gap = Microseconds(10);
  elephant.demand_bps = 1'000 * kMbps;
  for (int i = 0; i < 9; ++i) pool_->OpenFlowlet(kU0, 111 * kMbps);
  EXPECT_EQ(Place(elephant).unit, kU0);
  // The others leave.
  pool_->OpenFlowlet(kU0, 1'000 * kMbps);
  PlacementRequest other = Request(kU0, 111 * kMbps);
  other.gap = Microseconds(10);
  other.demand_bps = 111 * kMbps;
  EXPECT_EQ(Place(other).unit, kU1);
  // One of two flows of the same size leaves as well.
  EXPECT_EQ(Place(elephant).unit, kU1);
}

TEST_F(ClosingTest, ClosesTheHighestUnitOnceTheOthersHaveRoomForLong) {
  Start({0, 0, 0});
  Run(Microseconds(950), {kU0, kU1, kU2});
  EXPECT_EQ(pool_->placeable_units(), 3u);
  Run(Microseconds(100), {kU0, kU1, kU2});
  EXPECT_FALSE(pool_->placeable(kU2));
  EXPECT_TRUE(pool_->placeable(kU1));
  // Its flows go on elsewhere, and the next unit is closed a hold later.
  EXPECT_NE(Place(kU2), kU2);
  Run(Microseconds(800), {kU0, kU1});
  EXPECT_TRUE(pool_->placeable(kU1));
  EXPECT_EQ(pool_->state(kU2), UnitPool::State::kWarm);
  Run(Microseconds(300), {kU0, kU1});
  EXPECT_FALSE(pool_->placeable(kU1));
  // One stays.
  Run(Milliseconds(5), {kU0});
  EXPECT_TRUE(pool_->placeable(kU0));
  EXPECT_EQ(closings_, 2u);
}

TEST_F(ClosingTest, AUnitThatAloneHasRoomIsNotClosed) {
  Start({kFullBytes * 2, kFullBytes * 2, 0});
  Run(Milliseconds(5), {kNoUnit});
  EXPECT_TRUE(pool_->placeable(kU2));
  EXPECT_EQ(closings_, 0u);
  Drain(kU0, kFullBytes * 2);
  Run(Microseconds(1'100), {kNoUnit});
  EXPECT_FALSE(pool_->placeable(kU2));
}

TEST_F(ClosingTest, TheOnlyUnitIsNotClosed) {
  Start({kFullBytes * 3 / 2});
  PlacementRequest request = Request(kU0);
  request.gap = Microseconds(10);  // stays in line, which needs no room
  for (int i = 0; i < 5; ++i) {
    now_ = now_ + Milliseconds(1);
    EXPECT_EQ(Place(request).unit, kU0);
  }
  EXPECT_EQ(closings_, 0u);
}

TEST_F(ClosingTest, AUnitIsParkedOnceNothingWaitsThereNotBefore) {
  Start({0, 100});
  pool_->OpenFlowlet(kU1, kMbps);
  Run(Milliseconds(4), {kU0});
  EXPECT_FALSE(pool_->placeable(kU1));
  EXPECT_EQ(pool_->state(kU1), UnitPool::State::kActive);
  EXPECT_NE(pool_->TakeSlot(now_, kU1, 200), 0u);
  Drain(kU1, 100);
  Drain(kU1, 200);
  Run(Microseconds(100), {kU0});
  EXPECT_EQ(pool_->state(kU1), UnitPool::State::kWarm);
  // The unit takes no packet of its open flowlet until the unit is used.
  EXPECT_TRUE(pool_->is_shut(kU1));
  EXPECT_EQ(pool_->TakeSlot(now_, kU1, 100), 0u);
  Queue(kU0, kFullBytes * 2);
  EXPECT_EQ(Place(kNoUnit), kU1);
  EXPECT_NE(pool_->TakeSlot(now_, kU1, 100), 0u);
}

TEST(ClosedUnit, IsLeftByAFlowletThatGoesOn) {
  ControllerOptions options;
  options.max_flows = 100;
  options.max_units = options.warm_units = 2;
  options.replicas = 0;
  TestDriver driver(options);
  Instant now{1'000'000'000};
  for (int i = 0; i < 40; ++i) driver.Packet(now, 1, 1'500);
  ControllerCommand last = driver.Packet(now, 2).back();
  ASSERT_EQ(last.unit, kU1);  // unit 0 is full
  driver.ReadyAll(now);
  driver.DrainAll(now);
  for (uint32_t i = 0; i < 40 && last.unit != kU0; ++i) {
    now = now + Microseconds(50);
    driver.RunTimers(now);
    driver.Packet(now, 10 + i);  // looks for a unit to close
    last = driver.Packet(now, 2).back();
    driver.DrainAll(now);
  }
  EXPECT_EQ(last.unit, kU0);
  EXPECT_EQ(last.meta.flowlet, 1u);
  EXPECT_EQ(last.meta.source, kU1);
  EXPECT_NE(last.meta.flags & PacketMeta::kMoved, 0);
  EXPECT_EQ(driver.state(kU1), UnitPool::State::kWarm);
  EXPECT_EQ(driver.counters().flowlets_moved, 1u);
}

TEST_F(ClosingTest, AClosingUnitIsUsedAgainBeforeAWarmOne) {
  Start({0, 100}, 1);
  Run(Microseconds(1'050), {kU0});
  ASSERT_FALSE(pool_->placeable(kU1));
  Queue(kU0, kFullBytes * 2);
  EXPECT_EQ(Place(kNoUnit), kU1);
  EXPECT_TRUE(out_.empty());
  EXPECT_TRUE(pool_->placeable(kU1));
  EXPECT_EQ(pool_->state(kU2), UnitPool::State::kWarm);
  // Its hold begins anew.
  Drain(kU0, kFullBytes * 2);
  Run(Microseconds(950), {kU0});
  EXPECT_TRUE(pool_->placeable(kU1));
}

TEST_F(ClosingTest, AFlowThatMayNotMoveKeepsItsUnitOpen) {
  Start({0, 0}, 0, "vanilla_flow");
  Run(Milliseconds(5), {kU0, kU1});
  EXPECT_TRUE(pool_->placeable(kU1));
  EXPECT_EQ(closings_, 0u);
  Run(Milliseconds(2), {kU0});
  EXPECT_FALSE(pool_->placeable(kU1));
  EXPECT_EQ(Place(kU1), kU1);
  EXPECT_TRUE(pool_->placeable(kU1));
}

}  // namespace
}  // namespace snf
