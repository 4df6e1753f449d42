// SPDX-License-Identifier: Apache-2.0
#include "base/text/progress.h"

#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A clock that the test sets, and what was written.
class ProgressTest : public testing::Test {
 protected:
  Progress::Options Terminal() {
    return {.terminal = {.is_terminal = true},
            .clock = [this] { return now_; },
            .write = [this](std::string_view t) { written_.emplace_back(t); }};
  }
  Progress::Options LogFile() {
    Progress::Options options = Terminal();
    options.terminal = {};
    return options;
  }
  void Pass(Nanos time) { now_ = now_ + time; }

  Instant now_{1'000'000'000'000};
  std::vector<std::string> written_;
};

TEST_F(ProgressTest, RedrawsOneLineOnATerminal) {
  Progress::Options options = Terminal();
  options.total_bytes = 1'000;
  Progress progress(options);
  Pass(Seconds(2));
  progress.Update(2'420'000, 410);
  EXPECT_THAT(written_,
              ElementsAre("\r\033[Kreplaying: 2,420,000 packets, 1.21 M/s, "
                          "41 %, 3 s left"));
}

TEST_F(ProgressTest, RedrawsAtMostFourTimesASecond) {
  Progress progress(Terminal());
  for (int i = 0; i < 1'000; ++i) {
    Pass(Milliseconds(1));
    progress.Update(static_cast<uint64_t>(i), 0);
  }
  EXPECT_EQ(written_.size(), 4u);
}

TEST_F(ProgressTest, WipesTheLineAtTheEndOnce) {
  {
    Progress progress(Terminal());
    Pass(Seconds(1));
    progress.Update(812, 0);
    progress.Finish();
    progress.Finish();
  }
  EXPECT_THAT(written_, ElementsAre("\r\033[Kreplaying: 812 packets, 812 /s",
                                    "\r\033[K"));
}

TEST_F(ProgressTest, IsWipedWhenItGoesOutOfScope) {
  {
    Progress progress(Terminal());
    Pass(Seconds(1));
    progress.Update(1, 0);
  }
  ASSERT_EQ(written_.size(), 2u);
  EXPECT_EQ(written_.back(), "\r\033[K");
}

TEST_F(ProgressTest, DoesNotReachTheLastColumn) {
  Progress::Options options = Terminal();
  options.terminal.columns = 20;
  Progress progress(options);
  Pass(Seconds(1));
  progress.Update(1'000'000, 0);
  EXPECT_THAT(written_, ElementsAre("\r\033[Kreplaying: 1,000,00"));
}

TEST_F(ProgressTest, WritesALinePerTenSecondsToAFile) {
  Progress progress(LogFile());
  for (int i = 1; i <= 25; ++i) {
    Pass(Seconds(1));
    progress.Update(static_cast<uint64_t>(i) * 12'000, 0);
  }
  progress.Finish();
  EXPECT_THAT(written_, ElementsAre("replaying: 120,000 packets, 12 k/s\n",
                                    "replaying: 240,000 packets, 12 k/s\n"));
}

TEST_F(ProgressTest, SaysNothingWhenItWasQuick) {
  {
    Progress progress(Terminal());
    Pass(Milliseconds(249));
    progress.Update(1, 0);
  }
  {
    Progress progress(LogFile());
    Pass(Milliseconds(9'999));
    progress.Update(1, 0);
  }
  EXPECT_THAT(written_, IsEmpty());
}

TEST_F(ProgressTest, SaysNothingWhenQuiet) {
  Progress::Options options = Terminal();
  options.quiet = true;
  {
    Progress progress(options);
    Pass(Seconds(100));
    progress.Update(1, 0);
  }
  EXPECT_THAT(written_, IsEmpty());
}

TEST_F(ProgressTest, TellsLongWaitsInMinutes) {
  Progress::Options options = Terminal();
  options.total_bytes = 1'000;
  Progress progress(options);
  Pass(Seconds(60));
  progress.Update(60'000, 100);
  EXPECT_THAT(
      written_,
      ElementsAre(
          "\r\033[Kreplaying: 60,000 packets, 1 k/s, 10 %, 9 min left"));
}

// A file that grows while it is read.
TEST_F(ProgressTest, NeverExceedsAHundredPercent) {
  Progress::Options options = Terminal();
  options.total_bytes = 1'000;
  Progress progress(options);
  Pass(Seconds(1));
  progress.Update(10, 5'000);
  EXPECT_THAT(
      written_,
      ElementsAre("\r\033[Kreplaying: 10 packets, 10 /s, 100 %, 0 s left"));
}

}  // namespace
}  // namespace snf
