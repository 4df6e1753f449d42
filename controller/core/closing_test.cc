// SPDX-License-Identifier: Apache-2.0
//
// Tests of placement by waits (LoadSignal::kWait): where flowlets go, and when
// units are closed. A unit's capacity is 1 Gbit/s and the target 350 µs, so
// that 43,750 bytes are a full unit.
#include <optional>
#include <vector>

#include "controller/core/placement.h"
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
  Start({30'000, 50'000, 20'000});
  EXPECT_EQ(Place(kU1), kU0);
  PlacementRequest request = Request(kU1);
  request.replicas.units[request.replicas.count++] = kU2;
  EXPECT_EQ(Place(request).unit, kU2);
}

TEST_F(ClosingTest, AnOwnerIsFilledAnEighthBeyondTheLimit) {
  Start({kFullBytes * 9 / 8, 0});
  EXPECT_EQ(Place(kNoUnit), kU1);
  EXPECT_EQ(Place(kU0), kU0);
  Queue(kU0, 100);
  EXPECT_EQ(Place(kU0), kU1);
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

TEST_F(ClosingTest, AUnitIsParkedOnceItIsEmptyNotBefore) {
  Start({0, 100});
  pool_->OpenFlowlet(kU1, kMbps);
  Run(Milliseconds(4), {kU0});
  EXPECT_FALSE(pool_->placeable(kU1));
  EXPECT_EQ(pool_->state(kU1), UnitPool::State::kActive);
  Drain(kU1, 100);
  Run(Milliseconds(1), {kU0});
  EXPECT_EQ(pool_->state(kU1), UnitPool::State::kActive);
  pool_->CloseFlowlet(kU1, kMbps);
  Run(Microseconds(100), {kU0});
  EXPECT_EQ(pool_->state(kU1), UnitPool::State::kWarm);
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
