// SPDX-License-Identifier: Apache-2.0
#include "base/patience.h"

#include <gtest/gtest.h>

#include "base/time.h"

namespace snf {
namespace {

TEST(Patience, IsOverAfterTheWholeTime) {
  Patience patience(Milliseconds(800));
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(patience.is_over()) << i;
    EXPECT_EQ(patience.step(), Milliseconds(100));
    patience.Spend(Milliseconds(100));
  }
  EXPECT_TRUE(patience.is_over());
  EXPECT_EQ(patience.step(), Nanos{0});
}

TEST(Patience, CountsTimeThatStoodStillAsTwoSteps) {
  Patience patience(Milliseconds(800));
  patience.Spend(Milliseconds(100));
  patience.Spend(Seconds(3'600));
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(patience.is_over()) << i;
    patience.Spend(Milliseconds(100));
  }
  EXPECT_TRUE(patience.is_over());
}

TEST(Patience, HasShortStepsAtTheEnd) {
  Patience patience(Milliseconds(8));
  patience.Spend(Microseconds(1'999));
  for (int i = 0; i < 3; ++i) patience.Spend(Milliseconds(2));
  EXPECT_EQ(patience.step(), Microseconds(1));
  Patience none(Nanos{0});
  EXPECT_TRUE(none.is_over());
  EXPECT_EQ(none.step(), Nanos{0});
}

}  // namespace
}  // namespace snf
