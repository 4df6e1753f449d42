// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/loss_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LossLogTest : public testing::Test {
 protected:
  // Looks at so many packets lost at this time. Returns the new lines.
  std::vector<std::string> LinesAt(Nanos now, uint64_t queue_full,
                                   uint64_t by_nf = 0, PortFigures port = {}) {
    lines_.clear();
    LiveFigures figures;
    figures.elapsed = now;
    figures.drops = {{.name = "unit_queue_full", .packets = queue_full},
                     {.by_nf = true, .name = nf_reason_, .packets = by_nf}};
    port.name = "outside";
    port.interface = "wan0";
    figures.live.ports = {port};
    log_.Look(figures);
    return lines_;
  }

  std::string nf_reason_ = "nf:denied";
  std::vector<std::string> lines_;
  LossLog log_{[this](std::string_view line) { lines_.emplace_back(line); }};
};

TEST_F(LossLogTest, TellsTheFirstLossAtOnce) {
  EXPECT_THAT(LinesAt(Seconds(1), 0), IsEmpty());
  EXPECT_THAT(LinesAt(Seconds(2), 1),
              ElementsAre("1 packet lost: unit_queue_full; 1 in all"));
}

TEST_F(LossLogTest, WaitsLongerAndLongerWhileLossesGoOn) {
  std::vector<int64_t> told;  // seconds
  for (int64_t s = 0; s < 20'000; ++s) {
    if (!LinesAt(Seconds(s), static_cast<uint64_t>(s) + 1).empty()) {
      told.push_back(s);
    }
  }
  EXPECT_THAT(told, ElementsAre(0, 10, 30, 70, 150, 310, 630, 1270, 2550, 5110,
                                8710, 12310, 15910, 19510));
}

TEST_F(LossLogTest, CountsAllThatWereLostSinceItsLastLine) {
  LinesAt(Seconds(0), 5);
  EXPECT_THAT(LinesAt(Seconds(9), 105), IsEmpty());
  EXPECT_THAT(LinesAt(Seconds(10), 205),
              ElementsAre("200 packets lost: unit_queue_full; 205 in all"));
}

TEST_F(LossLogTest, TellsTheFirstLossAfterARestAtOnce) {
  LinesAt(Seconds(0), 5);
  LinesAt(Seconds(10), 6);
  EXPECT_THAT(LinesAt(Seconds(60), 7),
              ElementsAre("1 packet lost: unit_queue_full; 7 in all"));
  // The pause is the first one again.
  EXPECT_THAT(LinesAt(Seconds(70), 8),
              ElementsAre("1 packet lost: unit_queue_full; 8 in all"));
}

TEST_F(LossLogTest, LeavesVerdictsOfTheNfOut) {
  EXPECT_THAT(LinesAt(Seconds(1), 0, 1'000), IsEmpty());
}

TEST_F(LossLogTest, TellsOfAnExhaustedLimitOfTheNfAsOfOtherLosses) {
  nf_reason_ = "nf:nat.ports_exhausted";
  EXPECT_THAT(
      LinesAt(Seconds(1), 0, 40),
      ElementsAre("40 packets lost: nf:nat.ports_exhausted; 40 in all"));
  EXPECT_THAT(LinesAt(Seconds(2), 0, 90), IsEmpty());
  EXPECT_THAT(
      LinesAt(Seconds(11), 0, 90),
      ElementsAre("50 packets lost: nf:nat.ports_exhausted; 90 in all"));
}

TEST_F(LossLogTest, TellsWhatPortsLose) {
  PortFigures port;
  port.refused = 5;
  port.kernel_drops = 1'200;
  port.send_drops = 7;
  port.too_long = 4;
  EXPECT_THAT(
      LinesAt(Seconds(1), 0, 0, port),
      ElementsAre("5 packets lost: port outside (wan0): refused by the port; "
                  "5 in all",
                  "1,200 packets lost: port outside (wan0): dropped by the "
                  "kernel; 1,200 in all",
                  "3 packets lost: port outside (wan0): not taken by the "
                  "kernel; 3 in all",
                  "4 packets lost: port outside (wan0): longer than the MTU; "
                  "4 in all"));
}

TEST_F(LossLogTest, TellsWhatAGroupLosesAndNotWhatItForwards) {
  LiveFigures figures;
  figures.elapsed = Seconds(1);
  figures.group = {.name = "edge",
                   .state = "active",
                   .counts = {{"forwarded", 9},
                              {"out", 5},
                              {"taken", 7},
                              {"states_sent", 8},
                              {"states_untaken", 1},
                              {"states_too_long", 2},
                              {"states_returned", 3},
                              {"states_unreturned", 4},
                              {"states_ungiven", 5}}};
  log_.Look(figures);
  EXPECT_THAT(lines_,
              ElementsAre("5 frames lost: group: out; 5 in all",
                          "1 flow lost: group: states_untaken; 1 in all",
                          "2 flows lost: group: states_too_long; 2 in all",
                          "4 flows lost: group: states_unreturned; 4 in all",
                          "5 flows lost: group: states_ungiven; 5 in all"));
}

}  // namespace
}  // namespace snf
