// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/unit_stock.h"

#include <gtest/gtest.h>

namespace snf {
namespace {

using State = UnitStock::State;

constexpr Instant kStart{Seconds(1).ns};

class UnitStockTest : public testing::Test {
 protected:
  UnitStockTest() : stock_(Options()) {
    for (uint32_t u = 0; u < 3; ++u) stock_.SetState(kStart, u, State::kCold);
  }

  static ManagerOptions Options() {
    ManagerOptions options;
    options.max_units = 3;
    options.max_starts = 2;
    return options;
  }

  void Run(uint32_t unit, int64_t free) {
    stock_[unit].free = free;
    stock_.SetState(kStart, unit, State::kWarm);
  }

  UnitStock stock_;
};

TEST_F(UnitStockTest, FindsTheFullestUnitWithRoomAndTheEmptiest) {
  EXPECT_EQ(stock_.Emptiest(), UnitStock::kNone);
  Run(0, 100);
  Run(1, 300);
  Run(2, kWholeUnit);
  EXPECT_EQ(stock_.FullestWithRoom(100), 0u);
  EXPECT_EQ(stock_.FullestWithRoom(101), 1u);
  EXPECT_EQ(stock_.FullestWithRoom(301), 2u);
  EXPECT_EQ(stock_.Emptiest(), 2u);
  stock_.Reserve(2, kWholeUnit);
  EXPECT_EQ(stock_.FullestWithRoom(301), UnitStock::kNone);
  EXPECT_EQ(stock_.Emptiest(), 1u);
  stock_.Reserve(2, -kWholeUnit);
  EXPECT_EQ(stock_.Emptiest(), 2u);
}

TEST_F(UnitStockTest, CountsNoUnitThatDrainsAsRoom) {
  Run(0, kWholeUnit);
  stock_.SetState(kStart, 0, State::kDraining);
  EXPECT_EQ(stock_.Emptiest(), UnitStock::kNone);
  EXPECT_EQ(stock_.up(), 1u);
}

TEST_F(UnitStockTest, KeepsTheUnitsOfAStateByTime) {
  stock_.SetState(kStart, 0, State::kCold);
  EXPECT_EQ(stock_.First(State::kCold), 1u);
  EXPECT_EQ(stock_.Next(1), 2u);
  EXPECT_EQ(stock_.Next(2), 0u);
  EXPECT_EQ(stock_.First(State::kWarm), UnitStock::kNone);
}

TEST_F(UnitStockTest, StartsNoMoreThanItMayAndPausesAfterAFailure) {
  EXPECT_TRUE(stock_.CanStart(kStart));
  stock_.SetState(kStart, 0, State::kStarting);
  stock_.SetState(kStart, 1, State::kStarting);
  EXPECT_EQ(stock_.starting(), 2u);
  EXPECT_FALSE(stock_.CanStart(kStart));
  stock_.StartFailed(kStart, 0);
  EXPECT_FALSE(stock_.CanStart(kStart + Milliseconds(99)));
  EXPECT_TRUE(stock_.CanStart(kStart + Milliseconds(100)));
  stock_.StartFailed(kStart, 1);
  EXPECT_FALSE(stock_.CanStart(kStart + Milliseconds(199)));
  EXPECT_TRUE(stock_.CanStart(kStart + Milliseconds(200)));
  stock_.StartSucceeded();
  stock_.StartFailed(kStart, 2);
  EXPECT_TRUE(stock_.CanStart(kStart + Milliseconds(100)));
}

}  // namespace
}  // namespace snf
