// SPDX-License-Identifier: Apache-2.0
// With an output logger, what is applied is not yet released
// (proto/protocol.md U6, U13).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "runtime/core/test_unit.h"
#include "runtime/logger/delta.h"

namespace snf {
namespace {

using Lines = TestUnit::Lines;

UnitOptions Logged() {
  UnitOptions options = kSmallUnit;
  options.has_logger = true;
  return options;
}

class UnitRelease : public ::testing::Test {
 protected:
  TestUnit unit_{1, Logged()};
};

TEST_F(UnitRelease, AnEntryIsWholeWhereTheLoggerLacksItsBase) {
  unit_.Send(New(7));
  EXPECT_EQ(unit_.Serve(), (Lines{"release 7/1", "log whole 7/1"}));
  unit_.Send(Within(7, 2));
  EXPECT_EQ(unit_.Serve(), (Lines{"release 7/2", "log 7/2"}));
}

TEST_F(UnitRelease, TheDeltaLeadsToTheRecordOfTheUnit) {
  unit_.Send(New(7));
  unit_.Serve();
  const StateSchema schema = ScriptedNf::Schema();
  std::vector<std::byte> record(schema.record_bytes());
  std::ranges::copy(unit_.changes.at(0), record.begin());
  unit_.Send(Within(7, 2));
  unit_.Serve();
  ASSERT_TRUE(ApplyDelta(schema, unit_.changes.at(1), record));
  EXPECT_TRUE(std::ranges::equal(record, unit_.unit.state_bytes(FlowId{7})));
}

TEST_F(UnitRelease, AnAnswerWaitsUntilAllIsReleased) {
  unit_.Send(New(7));
  unit_.Send(Within(7, 2));
  unit_.Serve();
  EXPECT_EQ(unit_.on_pull(7, 2, 2), Lines{});
  EXPECT_EQ(unit_.on_released(New(7)), Lines{});
  EXPECT_EQ(unit_.on_released(Within(7, 2)), Lines{"state 7 applied 2 to 2"});
}

TEST_F(UnitRelease, ATakeoverIsToldWhenItsPacketIsReleased) {
  unit_.on_push(7, 1);
  unit_.Send(First(7, 2, 3));
  EXPECT_EQ(unit_.Serve(), (Lines{"release 7/2", "log whole 7/2"}));
  EXPECT_EQ(unit_.on_released(First(7, 2, 3)), (Lines{"took 7/2 to 3"}));
}

TEST_F(UnitRelease, APushThatWasDueHappensAfterTheRelease) {
  unit_.Replicate(7, {2});
  unit_.Send(New(7));
  unit_.Serve();
  const Nanos idle = kSmallUnit.push_after;
  EXPECT_FALSE(unit_.unit.is_waiting());
  EXPECT_EQ(unit_.on_timers(unit_.now + idle + idle), Lines{});
  EXPECT_TRUE(unit_.unit.is_waiting());
  EXPECT_EQ(unit_.on_released(New(7)), Lines{});
  EXPECT_FALSE(unit_.unit.is_waiting());
  EXPECT_EQ(unit_.on_timers(unit_.now + idle + idle),
            Lines{"push 7 applied 1 to 2"});
}

TEST_F(UnitRelease, AFlowEndsOnceItsLastPacketIsReleased) {
  unit_.Send(New(7));
  unit_.Serve();
  unit_.on_end_flow(7, 1);
  EXPECT_EQ(unit_.on_released(New(7)), Lines{"log 7/2"});
  EXPECT_EQ(unit_.unit.own_copies(), 0u);
  EXPECT_EQ(unit_.unit.flows(), 1u);
  unit_.on_released(Within(7, 2));
  EXPECT_EQ(unit_.unit.flows(), 0u);
}

TEST_F(UnitRelease, AUnitStopsOnceAllIsReleased) {
  unit_.Send(New(7));
  unit_.Serve();
  unit_.on_end_flow(7, 1);
  EXPECT_EQ(unit_.on_stop(), Lines{});
  EXPECT_EQ(unit_.on_released(New(7)), Lines{"log 7/2"});
  const Lines lines = unit_.on_released(Within(7, 2));
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), "stopped");
}

TEST_F(UnitRelease, StateThatComesFromElsewhereMakesTheNextEntryWhole) {
  unit_.Send(New(7));
  unit_.Serve();
  unit_.on_released(New(7));
  unit_.on_pull(7, 1, 2);  // clock 2 runs at unit 2, which keeps the state
  unit_.Send(First(7, 3, 2));
  unit_.Serve();
  unit_.on_state(7, 2);
  EXPECT_EQ(unit_.Serve(), (Lines{"release 7/3", "log whole 7/3"}));
}

}  // namespace
}  // namespace snf
