// SPDX-License-Identifier: Apache-2.0
#include "base/text/wrapping.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using testing::ElementsAre;
using Pieces = std::vector<std::string>;

TEST(ColumnsOf, CountsCharactersOfUtf8) {
  EXPECT_EQ(ColumnsOf("12 µs …"), 7u);
  EXPECT_EQ(ColumnsOf(""), 0u);
}

TEST(WordsOf, KeepsANumberAndItsUnitTogether) {
  EXPECT_THAT(WordsOf("after 12 ms, or 3. And (1,234 B)"),
              ElementsAre("after", "12 ms,", "or", "3.", "And", "(1,234 B)"));
  EXPECT_THAT(WordsOf("a  b"), ElementsAre("a", "", "b"));
  EXPECT_TRUE(WordsOf("").empty());
}

TEST(Wrap, BreaksWhereTheNextWordDoesNotFit) {
  EXPECT_EQ(Wrap("  - ", WordsOf("one two"), {.columns = 11, .indent = 4}),
            "  - one two\n");
  EXPECT_EQ(Wrap("  - ", WordsOf("one two"), {.columns = 10, .indent = 4}),
            "  - one\n    two\n");
  EXPECT_EQ(Wrap("", WordsOf("µµµµ x"), {.columns = 6}), "µµµµ x\n");
}

TEST(Wrap, LeavesAPieceWholeThatIsTooLong) {
  EXPECT_EQ(Wrap("  ", Pieces{"longest", "a"}, {.columns = 4, .indent = 1}),
            "  longest\n a\n");
}

TEST(Wrap, PutsOnlyTheBlanksOfASeparatorBeyondTheEdge) {
  const Pieces pieces = {"abc", "def"};
  EXPECT_EQ(Wrap("", pieces, {.columns = 8, .separator = "; "}), "abc; def\n");
  EXPECT_EQ(Wrap("", pieces, {.columns = 4, .separator = "; "}), "abc;\ndef\n");
  EXPECT_EQ(
      Wrap("", Pieces{"a", "abc", "b"}, {.columns = 6, .separator = "; "}),
      "a;\nabc; b\n");
}

TEST(Wrap, LeavesNoBlankAtTheEndOfALine) {
  EXPECT_EQ(Wrap("label   ", Pieces{}, {}), "label\n");
  EXPECT_EQ(Wrap("", Pieces{"ab  ", "cd  "}, {.columns = 5}), "ab\ncd\n");
}

TEST(Wrap, MarksALineThatGoesOn) {
  EXPECT_EQ(Wrap("  ", Pieces{"cmd", "--flag"},
                 {.columns = 11, .indent = 4, .continued = " \\"}),
            "  cmd \\\n    --flag\n");
  EXPECT_EQ(Wrap("  ", Pieces{"cmd", "--flag"},
                 {.columns = 14, .indent = 4, .continued = " \\"}),
            "  cmd --flag\n");
}

}  // namespace
}  // namespace snf
