// SPDX-License-Identifier: Apache-2.0
#include "controller/recovery/forsaking.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

using Kind = ControllerCommand::Kind;
constexpr FlowId kFlow = MakeFlowId(0, 7, 3);

// Returns a pool of `units` units, of which the first `warm` have a channel.
UnitPool Pool(uint32_t units, uint32_t warm) {
  UnitPoolOptions options;
  options.max_units = units;
  options.warm_units = warm;
  return UnitPool(options);
}

std::vector<uint32_t> Told(const ControllerOut& out) {
  std::vector<uint32_t> units;
  for (const ControllerCommand& command : out.commands()) {
    EXPECT_EQ(command.kind, Kind::kForsake);
    EXPECT_EQ(command.end.flow, kFlow);
    units.push_back(value(command.unit));
  }
  return units;
}

TEST(Forsaking, TellsEachUnitWithAChannelAndTheOwnerLast) {
  const UnitPool units = Pool(6, 4);
  Forsaking forsaking(6);
  ControllerOut out;
  ASSERT_TRUE(forsaking.Tell(units, kFlow, UnitId{1}, Clock{9}, out));
  EXPECT_EQ(Told(out), (std::vector<uint32_t>{0, 2, 3, 1}));
  for (const ControllerCommand& command : out.commands()) {
    const bool is_owner = command.unit == UnitId{1};
    EXPECT_EQ(command.end.last, is_owner ? Clock{9} : Clock{});
  }
}

TEST(Forsaking, TellsAnOwnerWithoutChannelAsWell) {
  const UnitPool units = Pool(6, 2);
  Forsaking forsaking(6);
  ControllerOut out;
  ASSERT_TRUE(forsaking.Tell(units, kFlow, UnitId{5}, Clock{9}, out));
  EXPECT_EQ(Told(out), (std::vector<uint32_t>{0, 1, 5}));
}

TEST(Forsaking, DoesNotBeginBeforeThereIsRoom) {
  const UnitPool units = Pool(100, 100);
  Forsaking forsaking(100);
  ControllerOut out;
  while (out.room() > 100) {
    out.push(ControllerCommand::Forsake(UnitId{0}, {kFlow, Clock{}}));
  }
  const size_t before = out.commands().size();
  EXPECT_FALSE(forsaking.Tell(units, kFlow, UnitId{0}, Clock{9}, out));
  EXPECT_EQ(out.commands().size(), before);
}

TEST(Forsaking, GoesOnWhereItPaused) {
  constexpr uint32_t kUnits = 400;
  const UnitPool units = Pool(kUnits, kUnits);
  Forsaking forsaking(kUnits);
  std::set<uint32_t> told;
  size_t commands = 0;
  int calls = 0;
  for (bool done = false; !done; ++calls) {
    ASSERT_LT(calls, 10);
    ControllerOut out;
    done = forsaking.Tell(units, kFlow, UnitId{0}, Clock{9}, out);
    for (const uint32_t unit : Told(out)) told.insert(unit);
    commands += out.commands().size();
    EXPECT_EQ(done, out.commands().back().unit == UnitId{0});
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(told.size(), kUnits);
  EXPECT_EQ(commands, kUnits) << "a unit was told twice";
}

TEST(Forsaking, BeginsAnewAfterRestart) {
  constexpr uint32_t kUnits = 400;
  const UnitPool units = Pool(kUnits, kUnits);
  Forsaking forsaking(kUnits);
  ControllerOut first;
  ASSERT_FALSE(forsaking.Tell(units, kFlow, UnitId{0}, Clock{9}, first));
  forsaking.Restart();
  ControllerOut again;
  ASSERT_FALSE(forsaking.Tell(units, kFlow, UnitId{0}, Clock{9}, again));
  EXPECT_EQ(Told(again), Told(first));
}

}  // namespace
}  // namespace snf
