// SPDX-License-Identifier: Apache-2.0
#include "base/text/wording.h"

#include "gtest/gtest.h"

namespace snf {
namespace {

TEST(Percent, HasAsManyDigitsAsMatter) {
  EXPECT_EQ(Percent(0), "0 %");
  EXPECT_EQ(Percent(0.0001), "less than 0.1 %");
  EXPECT_EQ(Percent(0.041), "4.1 %");
  EXPECT_EQ(Percent(0.0999), "10 %");
  EXPECT_EQ(Percent(1), "100 %");
}

TEST(ShellWord, IsQuotedOnlyWhereItMustBe) {
  EXPECT_EQ(ShellWord("a-b_c/d.pcap"), "a-b_c/d.pcap");
  EXPECT_EQ(ShellWord("ä.pcap"), "ä.pcap");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("a b"), "'a b'");
  EXPECT_EQ(ShellWord("it's $HOME"), R"('it'\''s $HOME')");
  EXPECT_EQ(ShellWord("a\033'\\"), R"($'a\x1b\'\\')");
}

TEST(FileList, NamesThreeAndCountsTheOthers) {
  EXPECT_EQ(FileList({"a", "b\n", "c"}), "a, b?, c");
  EXPECT_EQ(FileList({"a", "b", "c", "d", "e"}), "a, b, c and 2 more");
}

TEST(Plural, IsForAllCountsButOne) {
  EXPECT_EQ(Plural(1, "packet"), "1 packet");
  EXPECT_EQ(Plural(1'234, "packet"), "1,234 packets");
  EXPECT_EQ(Plural(1, "process"), "1 process");
  EXPECT_EQ(Plural(3, "process"), "3 processes");
}

TEST(FlagText, CanBePasted) {
  EXPECT_EQ(FlagText("1.5 µs"), "1.5us");
  EXPECT_EQ(FlagText("100 Mbit/s"), "100Mbit/s");
}

}  // namespace
}  // namespace snf
