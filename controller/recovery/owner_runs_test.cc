// SPDX-License-Identifier: Apache-2.0
#include "controller/recovery/owner_runs.h"

#include <array>
#include <string>

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr UnitId kU0{0}, kU1{1}, kU2{2};

class OwnerRunsOfAFlow : public testing::Test {
 protected:
  void Append(uint64_t first, uint64_t last, UnitId unit,
              bool at_logger = false) {
    EXPECT_TRUE(runs_.Append({.first = Clock{first},
                              .last = Clock{last},
                              .unit = unit,
                              .at_logger = at_logger}));
  }
  // Returns the runs as in "1-3@0L 4-4@1", where L stands for the logger.
  std::string Text() const {
    std::string text;
    for (const OwnerRuns::Run& run : runs_.all()) {
      text += text.empty() ? "" : " ";
      text += std::to_string(value(run.first)) + "-" +
              std::to_string(value(run.last)) + "@" +
              std::to_string(value(run.unit)) + (run.at_logger ? "L" : "");
    }
    return text;
  }

  std::array<OwnerRuns::Run, 5> room_, spare_;
  OwnerRuns runs_{room_, spare_};
};

TEST_F(OwnerRunsOfAFlow, FindTheRunOfAClock) {
  Append(1, 4, kU0);
  Append(5, 6, kU2);
  EXPECT_EQ(runs_.Find(Clock{1})->unit, kU0);
  EXPECT_EQ(runs_.Find(Clock{4})->unit, kU0);
  EXPECT_EQ(runs_.Find(Clock{5})->unit, kU2);
  EXPECT_EQ(runs_.Find(Clock{7}), nullptr);
}

TEST_F(OwnerRunsOfAFlow, GiveAClockInTheMiddleToAnotherUnit) {
  Append(1, 9, kU0);
  ASSERT_TRUE(runs_.Assign(Clock{4}, kU1));
  EXPECT_EQ(Text(), "1-3@0 4-4@1 5-9@0");
}

TEST_F(OwnerRunsOfAFlow, GiveTheFirstClockAndTheLast) {
  Append(1, 4, kU0);
  ASSERT_TRUE(runs_.Assign(Clock{1}, kU1));
  EXPECT_EQ(Text(), "1-1@1 2-4@0");
  ASSERT_TRUE(runs_.Assign(Clock{4}, kU2));
  EXPECT_EQ(Text(), "1-1@1 2-3@0 4-4@2");
}

TEST_F(OwnerRunsOfAFlow, JoinClocksAtOneUnit) {
  Append(1, 4, kU0);
  Append(5, 5, kU1);
  ASSERT_TRUE(runs_.Assign(Clock{4}, kU1));
  EXPECT_EQ(Text(), "1-3@0 4-5@1");
  ASSERT_TRUE(runs_.Assign(Clock{3}, kU1));
  EXPECT_EQ(Text(), "1-2@0 3-5@1");
}

TEST_F(OwnerRunsOfAFlow, KeepAUnitApartFromItsLogger) {
  Append(1, 3, kU1, /*at_logger=*/true);
  Append(4, 9, kU0);
  ASSERT_TRUE(runs_.Assign(Clock{4}, kU1));
  EXPECT_EQ(Text(), "1-3@1L 4-4@1 5-9@0");
}

TEST_F(OwnerRunsOfAFlow, ChangeNothingWithoutRoom) {
  Append(1, 4, kU0);
  Append(5, 6, kU1);
  Append(7, 8, kU0);
  ASSERT_TRUE(runs_.Assign(Clock{2}, kU2));
  const std::string before = Text();
  EXPECT_EQ(before, "1-1@0 2-2@2 3-4@0 5-6@1 7-8@0");
  EXPECT_FALSE(runs_.Assign(Clock{8}, kU2));
  EXPECT_FALSE(runs_.Append({.first = Clock{9}, .last = Clock{9}}));
  EXPECT_EQ(Text(), before);
}

}  // namespace
}  // namespace snf
