// SPDX-License-Identifier: Apache-2.0
#include "controller/live/unit_starter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace snf {
namespace {

constexpr Instant kNow{5'000'000};
constexpr UnitId kUnit0{0};
constexpr UnitId kUnit1{1};
constexpr UnitId kUnit3{3};

ControllerCommand Cold(UnitId unit) {
  return ControllerCommand::Start(unit, /*warm=*/false, /*incarnation=*/1);
}
ControllerCommand Warm(UnitId unit) {
  return ControllerCommand::Start(unit, /*warm=*/true, /*incarnation=*/1);
}

// Runs no loop, but counts who asked.
class NoLoops final : public LoopStarter {
 public:
  bool on_start(UnitId unit) override {
    asked.push_back(unit);
    return false;
  }
  std::vector<UnitId> asked;
};

class UnitStarterTest : public testing::Test {
 protected:
  std::vector<UnitId> Take(Instant now) {
    std::vector<UnitId> units;
    starter_.TakeReady(now, [&](const ControllerCommand& start) {
      units.push_back(start.unit);
    });
    return units;
  }

  UnitStarter starter_{Milliseconds(10), Nanos{0}, 4};
};

// The example in the header.
TEST_F(UnitStarterTest, LetsAColdStartTakeItsDelay) {
  EXPECT_FALSE(starter_.Begin(kNow, Cold(kUnit3)));
  EXPECT_EQ(starter_.next_ready(), kNow + Milliseconds(10));
  EXPECT_EQ(starter_.units(), std::vector<UnitId>{kUnit3});
  EXPECT_TRUE(Take(kNow + Milliseconds(9)).empty());
  EXPECT_EQ(Take(kNow + Milliseconds(10)), std::vector<UnitId>{kUnit3});
  EXPECT_TRUE(starter_.empty());
  EXPECT_EQ(starter_.next_ready(), Instant::max());
}

TEST_F(UnitStarterTest, FinishesAStartWithoutDelayAtOnce) {
  EXPECT_TRUE(starter_.Begin(kNow, Warm(kUnit0)));
  EXPECT_TRUE(starter_.empty());
}

TEST_F(UnitStarterTest, TakesStartsInTheOrderInWhichTheyBegan) {
  EXPECT_FALSE(starter_.Begin(kNow, Cold(kUnit3)));
  EXPECT_FALSE(starter_.Begin(kNow + Milliseconds(1), Cold(kUnit0)));
  starter_.AddReady(kNow + Milliseconds(2), Cold(kUnit1));
  EXPECT_EQ(starter_.next_ready(), kNow + Milliseconds(2));
  EXPECT_EQ(Take(kNow + Milliseconds(10)),
            (std::vector<UnitId>{kUnit3, kUnit1}));
  EXPECT_EQ(starter_.next_ready(), kNow + Milliseconds(11));
}

TEST_F(UnitStarterTest, ForgetsAStartThatHasFailed) {
  EXPECT_FALSE(starter_.Begin(kNow, Cold(kUnit0)));
  EXPECT_FALSE(starter_.Begin(kNow, Cold(kUnit1)));
  starter_.Forget([](UnitId unit) { return unit == kUnit0; });
  EXPECT_EQ(Take(kNow + Milliseconds(10)), std::vector<UnitId>{kUnit1});
}

TEST_F(UnitStarterTest, WaitsForALoopThatDoesNotRun) {
  NoLoops loops;
  starter_.set_starter(loops);
  EXPECT_FALSE(starter_.Begin(kNow, Warm(kUnit0)));
  EXPECT_FALSE(starter_.Begin(kNow, Cold(kUnit1)));
  EXPECT_EQ(loops.asked, (std::vector<UnitId>{kUnit0, kUnit1}));
  EXPECT_EQ(starter_.next_ready(), Instant::max());
  EXPECT_TRUE(Take(kNow + Seconds(1)).empty());
  starter_.BeginLoop(kNow + Seconds(2),
                     [](UnitId unit) { return unit == kUnit1; });
  EXPECT_EQ(Take(kNow + Seconds(2)), std::vector<UnitId>{kUnit1});
  EXPECT_EQ(starter_.units(), std::vector<UnitId>{kUnit0});
}

}  // namespace
}  // namespace snf
