// SPDX-License-Identifier: Apache-2.0
#include "platform/run/kill_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/ids.h"

namespace snf {
namespace {

using testing::ElementsAre;

Kill Of(uint16_t unit, Nanos at, uint32_t chance_65536 = 0) {
  Kill kill;
  kill.unit = UnitId{unit};
  kill.at = at;
  kill.chance_65536 = chance_65536;
  return kill;
}

FaultOptions With(std::vector<Kill> kills) {
  FaultOptions faults;
  faults.kills = std::move(kills);
  return faults;
}

// Collects the units of kills.
struct Killed {
  std::vector<uint16_t> units{};
  void operator()(const Kill& kill) { units.push_back(value(kill.unit)); }
};

TEST(KillPlan, KillsEachOnceAfterItsTime) {
  KillPlan plan(
      With({Of(1, Seconds(3)), Of(2, Seconds(1)), Of(3, Seconds(1))}));
  Killed killed;
  const auto kill = [&](const Kill& one) { killed(one); };
  EXPECT_FALSE(plan.due(Instant{} + Seconds(100), kill)) << "not started";
  const Instant first = Instant{} + Seconds(10);
  plan.on_start(first);
  EXPECT_EQ(plan.next(), first + Seconds(1));
  EXPECT_FALSE(plan.due(first, kill));
  EXPECT_TRUE(plan.due(first + Seconds(2), kill));
  EXPECT_THAT(killed.units, ElementsAre(2, 3));
  EXPECT_EQ(plan.next(), first + Seconds(3));
  EXPECT_TRUE(plan.due(first + Seconds(3), kill));
  EXPECT_THAT(killed.units, ElementsAre(2, 3, 1));
  EXPECT_EQ(plan.next(), Instant::max());
  EXPECT_FALSE(plan.due(first + Seconds(9), kill));
}

TEST(KillPlan, DrawsOnceForEachKillByChance) {
  constexpr uint32_t kAlways = 65'536;
  const KillPlan plan(With(
      {Of(1, Nanos{-1}, kAlways), Of(2, Seconds(1)), Of(3, Nanos{-1}, 0)}));
  Rng rng(7);
  Killed killed;
  plan.on_arrival(rng, [&](const Kill& one) { killed(one); });
  EXPECT_THAT(killed.units, ElementsAre(1));
  Rng same(7);
  same.Chance(kAlways);
  same.Chance(0);
  EXPECT_EQ(rng.Below(1'000'000), same.Below(1'000'000));
}

TEST(KillPlan, LeavesOutOthersAndStops) {
  KillPlan plan(With({Of(1, Seconds(1)), Of(2, Seconds(2))}),
                [](const Kill& kill) { return kill.unit == UnitId{2}; });
  ASSERT_EQ(plan.planned().size(), 1u);
  EXPECT_EQ(plan.planned()[0].kill.unit, UnitId{2});
  plan.on_start(Instant{});
  plan.Stop();
  EXPECT_EQ(plan.next(), Instant::max());
  EXPECT_TRUE(plan.planned().empty());
}

}  // namespace
}  // namespace snf
