// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/controller_asks.h"

#include "gtest/gtest.h"
#include "resource_manager/core/unit_stock.h"

namespace snf {
namespace {

constexpr uint64_t kEpoch = 3;

ControllerLife Life(uint8_t controller, uint64_t number,
                    uint64_t manager = kEpoch) {
  return {ControllerId{controller}, manager << 32 | number};
}

class ControllerAsksTest : public testing::Test {
 protected:
  ControllerAsksTest() : units_(Options()), leases_(Options(), kEpoch) {
    for (uint32_t u = 0; u < 4; ++u) {
      units_[u].free = kWholeUnit;
      units_.SetState(Instant{0}, u, UnitStock::State::kActive);
    }
  }
  static ManagerOptions Options() { return {.max_units = 4}; }

  void Give(uint8_t controller, uint32_t unit, int64_t share) {
    const ControllerLife holder = asks_.LifeOf(ControllerId{controller});
    const uint32_t slot = leases_.Add(LeaseId{++ids_}, holder, unit, units_);
    leases_.SetTo(slot, share, units_, out_);
  }
  LeaseRefusal AskFor(ControllerLife from, uint64_t number, int64_t capacity) {
    return asks_.on_ask({from, number, capacity}, 4 * kWholeUnit);
  }

  UnitStock units_;
  LeaseBook leases_;
  ControllerAsks asks_{kEpoch};
  ManagerOut out_;
  uint64_t ids_ = 0;
};

TEST_F(ControllerAsksTest, KnowsALaterLifeOfAnEarlierManagerOnly) {
  EXPECT_EQ(asks_.Check(Life(1, 0, 0)), LeaseRefusal::kUnknownController);
  EXPECT_EQ(asks_.Check(Life(1, 1)), LeaseRefusal::kUnknownController);
  EXPECT_EQ(asks_.Check(Life(1, 1, 2)), LeaseRefusal::kNone);
  EXPECT_TRUE(asks_.IsLater(Life(1, 1, 2)));
  asks_.Begin(Life(1, 1, 2));
  EXPECT_FALSE(asks_.IsLater(Life(1, 1, 2)));
  EXPECT_EQ(asks_.Check(Life(1, 1, 2)), LeaseRefusal::kNone);
  EXPECT_EQ(asks_.Check(Life(1, 9, 1)), LeaseRefusal::kStaleEpoch);
}

TEST_F(ControllerAsksTest, RefusesADeadLifeUntilTheNextBegins) {
  asks_.Begin(Life(1, 1));
  EXPECT_TRUE(asks_.IsAlive(Life(1, 1)));
  asks_.Die(ControllerId{1});
  EXPECT_EQ(asks_.Check(Life(1, 1)), LeaseRefusal::kUnknownController);
  EXPECT_FALSE(asks_.IsAlive(Life(1, 1)));
  asks_.Begin(Life(1, 2));
  EXPECT_EQ(asks_.Check(Life(1, 2)), LeaseRefusal::kNone);
  EXPECT_EQ(asks_.Check(Life(1, 1)), LeaseRefusal::kStaleEpoch);
}

TEST_F(ControllerAsksTest, TakesOnlyALaterAskForACapacityThatThereIs) {
  asks_.Begin(Life(1, 1));
  EXPECT_EQ(AskFor(Life(1, 1), 2, 600), LeaseRefusal::kNone);
  EXPECT_EQ(AskFor(Life(1, 1), 2, 700), LeaseRefusal::kStaleNumber);
  EXPECT_EQ(AskFor(Life(1, 1), 3, -1), LeaseRefusal::kNegative);
  EXPECT_EQ(AskFor(Life(1, 1), 3, 4 * kWholeUnit + 1), LeaseRefusal::kTooMuch);
  EXPECT_EQ(asks_.Missing(1, leases_), 600);
  Give(1, 0, 250);
  EXPECT_EQ(asks_.Missing(1, leases_), 350);
  asks_.LimitTo(ControllerId{1}, 400);
  EXPECT_EQ(asks_.Missing(1, leases_), 150);
}

TEST_F(ControllerAsksTest, ASuccessorMissesWhatItsPredecessorMissed) {
  asks_.Begin(Life(1, 1));
  AskFor(Life(1, 1), 5, 600);
  asks_.Succeed(Life(1, 2));
  EXPECT_EQ(asks_.Missing(1, leases_), 600);
  EXPECT_EQ(AskFor(Life(1, 2), 1, 700), LeaseRefusal::kNone);
  asks_.Begin(Life(1, 3));
  EXPECT_EQ(asks_.Missing(1, leases_), 0);
}

TEST_F(ControllerAsksTest, ServesTheControllerThatHoldsLeastFirst) {
  for (uint8_t c = 1; c <= 2; ++c) {
    asks_.Begin(Life(c, c));
    AskFor(Life(c, c), 1, 2 * kWholeUnit);
    asks_.Await(c, leases_);
  }
  EXPECT_EQ(asks_.NextWaiting(leases_), 1u);
  Give(1, 0, 600);
  Give(2, 1, 500);
  EXPECT_EQ(asks_.NextWaiting(leases_), 2u);
  EXPECT_EQ(asks_.MissingInAll(leases_), 4 * kWholeUnit - 1'100);
  asks_.Served(2);
  EXPECT_EQ(asks_.NextWaiting(leases_), 1u);
  asks_.Served(1);
  EXPECT_EQ(asks_.NextWaiting(leases_), ControllerAsks::kNone);
}

TEST_F(ControllerAsksTest, LetsNobodyWaitWhoMissesNothing) {
  asks_.Begin(Life(1, 1));
  AskFor(Life(1, 1), 1, 600);
  Give(1, 0, 600);
  asks_.Await(1, leases_);
  EXPECT_EQ(asks_.NextWaiting(leases_), ControllerAsks::kNone);
}

}  // namespace
}  // namespace snf
