// SPDX-License-Identifier: Apache-2.0
#include "base/difference.h"

#include <gtest/gtest.h>

namespace snf {
namespace {

TEST(Difference, NamesWhatDiffersAndNothingElse) {
  EXPECT_EQ(DifferenceOf({{"a", "1"}, {"same", "x"}, {"z", "3"}},
                         {{"a", "2"}, {"new", "4"}, {"same", "x"}}, "--"),
            "--a \"1\", not \"2\"; --new nothing, not \"4\"; --z \"3\", not "
            "nothing");
}

TEST(Difference, OfEqualValuesIsEmpty) {
  EXPECT_EQ(DifferenceOf({}, {}), "");
  EXPECT_EQ(DifferenceOf({{"a", "1"}}, {{"a", "1"}}), "");
}

}  // namespace
}  // namespace snf
