// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/live_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "platform/report/watch/test_live.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(LiveCanvas, DrawsInThePlaceOfTheTextBefore) {
  LiveCanvas canvas(false);
  EXPECT_EQ(canvas.Draw({{.text = "one"}, {.text = "two"}}, 80),
            "\rone\033[K\ntwo\033[K\n\033[J");
  EXPECT_EQ(canvas.Draw({{.text = "three"}}, 80),
            "\r\033[2Athree\033[K\n\033[J");
  EXPECT_EQ(canvas.Wipe(80), "\r\033[1A\033[J");
  EXPECT_EQ(canvas.Wipe(80), "");
}

TEST(LiveCanvas, KnowsWhereANarrowerTerminalBrokeItsLines) {
  LiveCanvas canvas(false);
  canvas.Draw({{.text = std::string(30, 'x')}, {.text = ""}, {.text = "µµ"}},
              80);
  EXPECT_THAT(canvas.Draw({}, 15), StartsWith("\r\033[4A"));
}

TEST(LiveCanvas, ColoursOnlyWhereItMay) {
  const std::vector<LiveText> lines = {
      {.text = "title", .tone = LiveText::Tone::kHeading},
      {.text = "bad", .tone = LiveText::Tone::kAlarm}};
  EXPECT_EQ(LiveCanvas(true).Draw(lines, 80),
            "\r\033[1mtitle\033[0m\033[K\n\033[1;31mbad\033[0m\033[K\n\033[J");
  EXPECT_EQ(LiveCanvas(false).Draw(lines, 80),
            "\rtitle\033[K\nbad\033[K\n\033[J");
}

// A view with a board, and what it has written so far.
class LiveViewTest : public testing::Test {
 protected:
  void Begin(bool is_terminal) {
    view_ = std::make_unique<LiveView>(
        board_,
        LiveView::Options{
            .title = "a run",
            .terminal =
                [is_terminal] { return Terminal{.is_terminal = is_terminal}; },
            .write =
                [this](std::string_view text) {
                  written_.emplace_back(text);
                  did_write_.release();
                }});
  }
  // Publishes, and waits until the view has written something of it.
  void Show(int64_t half_seconds) {
    board_.Publish(LiveFiguresAfter(half_seconds));
    did_write_.acquire();
  }

  LiveBoard board_{[](uint64_t) { return 500; }};
  std::vector<std::string> written_;
  std::counting_semaphore<8> did_write_{0};
  std::unique_ptr<LiveView> view_;
};

TEST_F(LiveViewTest, DrawsWhatIsPublishedAndWipesItAtTheEnd) {
  Begin(true);
  Show(20);
  Show(21);
  view_.reset();
  ASSERT_EQ(written_.size(), 3u);
  EXPECT_THAT(written_[0], HasSubstr("10.0 s at 1kpps, 50 %"));
  EXPECT_THAT(written_[1], HasSubstr("10.5 s at 1kpps, 50 %"));
  EXPECT_THAT(written_[1], HasSubstr("1,000 /s"));
  EXPECT_THAT(written_[2], HasSubstr("\033[J"));
}

TEST_F(LiveViewTest, WritesALineEveryTwoSecondsToALog) {
  Begin(false);
  Show(4);
  board_.Publish(LiveFiguresAfter(5));
  board_.Publish(LiveFiguresAfter(7));
  Show(8);
  view_.reset();
  ASSERT_EQ(written_.size(), 2u);
  EXPECT_THAT(written_[0], StartsWith("2.00 s, 50 %: 2,000 packets in, "));
  EXPECT_THAT(written_[1], StartsWith("4.00 s, 50 %: 4,000 packets in, "));
}

TEST_F(LiveViewTest, WritesNothingOfARunThatIsOverAtOnce) {
  Begin(true);
  view_.reset();
  EXPECT_TRUE(written_.empty());
}

}  // namespace
}  // namespace snf
