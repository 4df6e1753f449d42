// SPDX-License-Identifier: Apache-2.0
#include "base/outage.h"

#include <gtest/gtest.h>

#include <optional>

namespace snf {
namespace {

TEST(Outage, CountsFromTheFirstQuestionWithoutAnAnswer) {
  Outage outage;
  EXPECT_FALSE(outage.At(Instant{9'000}).is_away());
  outage.OnNoAnswer(Instant{1'000}, "no route");
  outage.OnNoAnswer(Instant{3'000}, "refused");
  const Outage::State state = outage.At(Instant{5'000});
  EXPECT_EQ(state.away, Nanos{4'000});
  EXPECT_EQ(state.why, "refused");
  outage.OnAnswer();
  EXPECT_FALSE(outage.At(Instant{6'000}).is_away());
  EXPECT_EQ(outage.At(Instant{6'000}).away, Nanos{});
  outage.OnNoAnswer(Instant{7'000}, "");
  EXPECT_EQ(outage.At(Instant{7'500}).away, Nanos{500});
  EXPECT_TRUE(outage.At(Instant{7'500}).is_away());
}

TEST(Outage, OfSeveralPartsTheLongestCounts) {
  std::optional<Outage::State> longest;
  TakeLonger({}, longest);
  ASSERT_TRUE(longest.has_value());
  EXPECT_FALSE(longest->is_away());
  TakeLonger({.away = Seconds(3), .why = "a"}, longest);
  TakeLonger({.away = Seconds(2), .why = "b"}, longest);
  TakeLonger({}, longest);
  EXPECT_EQ(longest->why, "a");
}

}  // namespace
}  // namespace snf
