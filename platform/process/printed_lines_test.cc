// SPDX-License-Identifier: Apache-2.0
#include "platform/process/printed_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Instant kMoment = {Seconds(1'000).ns};

class PrintedLinesTest : public testing::Test {
 protected:
  // Returns the lines for bytes that process 0 prints.
  std::vector<std::string> LinesOf(std::string_view bytes,
                                   Instant now = kMoment) {
    told_.clear();
    lines_.Take(now, 0, "unit", bytes);
    return told_;
  }
  std::vector<std::string> LinesAtEnd() {
    told_.clear();
    lines_.End(kMoment, 0, "unit");
    return told_;
  }

  std::vector<std::string> told_;
  PrintedLines lines_{
      2, [this](std::string_view line) { told_.emplace_back(line); }};
};

TEST_F(PrintedLinesTest, TellsWholeLinesWithTheNameOfTheProcess) {
  EXPECT_THAT(LinesOf("one\n\ntwo\nthr"),
              ElementsAre("unit printed: one", "unit printed: two"));
  EXPECT_THAT(LinesOf("ee"), IsEmpty());
  lines_.Take(kMoment, 1, "other", "of another\n");
  EXPECT_THAT(told_, ElementsAre("other printed: of another"));
  EXPECT_THAT(LinesOf("\n"), ElementsAre("unit printed: three"));
}

TEST_F(PrintedLinesTest, TellsTheRestOfALineAtTheEnd) {
  LinesOf("last words");
  EXPECT_THAT(LinesAtEnd(), ElementsAre("unit printed: last words"));
  EXPECT_THAT(LinesAtEnd(), IsEmpty());
}

TEST_F(PrintedLinesTest, LetsNoLineLookAsOneOfThePlatform) {
  EXPECT_THAT(LinesOf("\rinfo: set trusted=yes\x1b[1A\n"),
              ElementsAre("unit printed: ?info: set trusted=yes?[1A"));
}

TEST_F(PrintedLinesTest, CutsLongLinesAndCountsTheRest) {
  const std::string most(PrintedLines::kMostBytes, 'x');
  EXPECT_THAT(LinesOf(most + "\n"), ElementsAre("unit printed: " + most));
  LinesOf(most + "12");
  EXPECT_THAT(LinesOf("345\nnext\n"),
              ElementsAre("unit printed: " + most +
                              "…; 5 bytes of it, or before it, were left out",
                          "unit printed: next"));
}

TEST_F(PrintedLinesTest, TellsSoManyLinesAtOnceAndThenOneAMinute) {
  std::string flood;
  for (int i = 0; i < 1'000; ++i) flood += "overflow\n";
  EXPECT_THAT(LinesOf(flood), SizeIs(PrintedLines::kBurst));
  EXPECT_THAT(LinesOf(flood, kMoment + Seconds(59)), IsEmpty());
  EXPECT_THAT(LinesOf("again\nlost\n", kMoment + Seconds(60)),
              ElementsAre("unit printed: again; 15,840 bytes of it, or before "
                          "it, were left out"));
  EXPECT_THAT(LinesAtEnd(),
              ElementsAre("unit printed 4 bytes that were left out"));
}

TEST_F(PrintedLinesTest, IsBoundedHoweverLongSomethingIsPrinted) {
  size_t lines = 0;
  for (int64_t s = 0; s < 3'600; ++s) {
    lines += LinesOf("a\nb\nc\nd\n", kMoment + Seconds(s)).size();
  }
  EXPECT_EQ(lines, PrintedLines::kBurst + 59);
}

TEST(PrintSockets, NameTheProcessThatPrinted) {
  const auto sockets = PrintSockets::Open();
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  const pid_t child = fork();
  if (child == 0) {
    _exit(write(sockets->writer, "of the child", 12) == 12 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(write(sockets->writer, "own", 3), 3);
  PrintBuffer buffer;
  Printed printed = ReadPrinted(sockets->reader, buffer);
  EXPECT_EQ(printed.process, child);
  EXPECT_EQ(printed.bytes, "of the child");
  printed = ReadPrinted(sockets->reader, buffer);
  EXPECT_EQ(printed.process, getpid());
  EXPECT_EQ(printed.bytes, "own");
  EXPECT_TRUE(ReadPrinted(sockets->reader, buffer).bytes.empty());
  close(sockets->reader);
  close(sockets->writer);
}

TEST(PrintSockets, LetNobodyWaitWhoPrints) {
  const auto sockets = PrintSockets::Open();
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  const std::string text(1'000, 'x');
  ssize_t size = 0;
  for (int i = 0; i < 100'000 && size >= 0; ++i) {
    size = write(sockets->writer, text.data(), text.size());
  }
  EXPECT_EQ(size, -1);
  EXPECT_EQ(errno, EAGAIN);
  close(sockets->reader);
  close(sockets->writer);
}

}  // namespace
}  // namespace snf
