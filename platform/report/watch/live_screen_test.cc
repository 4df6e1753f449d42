// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/live_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/text/page.h"
#include "platform/report/watch/test_live.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTitle[] = "small.pcap.zst: nat under policy snf";

std::string Joined(const std::vector<LiveText>& lines) {
  std::string text;
  for (const LiveText& line : lines) text += line.text + "\n";
  return text;
}

std::string Screen(const Terminal& terminal) {
  return Joined(
      LiveScreen(kTitle, LiveFiguresAfter(20), LiveFiguresAfter(21), terminal));
}

// Of those that stand for a unit, their numbers.
std::vector<int> UnitsOf(const std::vector<LiveText>& lines) {
  std::vector<int> units;
  bool is_unit = false;
  for (const LiveText& line : lines) {
    if (is_unit && !line.text.starts_with("        and")) {
      units.push_back(std::stoi(line.text));
    }
    is_unit |= line.text.starts_with("Units");
  }
  return units;
}

TEST(LiveScreen, ShowsARunInEightyColumns) {
  EXPECT_EQ(Screen({}),
            R"(small.pcap.zst: nat under policy snf
10.5 s at 1kpps, 41 %               now   on average       in all
Packets in                     1,000 /s     1,000 /s       10,500
        released               1,000 /s       999 /s       10,490
        dropped                    0 /s         0 /s            0
        under way                    10
Bits    in                  1.00 Mbit/s  1.00 Mbit/s      1.31 MB
Flows                             20 /s        20 /s          210
Flowlets                         120 /s       120 /s        1,260
Moves   seamless                  16 /s        16 /s          168
        pulled                     8 /s         8 /s           84
Latency p50                      119 µs                    120 µs
        p99                     1.25 ms                   1.76 ms
Late    p50                      900 ns                    800 ns
        p99                     12.0 µs                   14.0 µs
Units   2 up, 1.00 Mbit/s each
      0 ██████████████████████████████····················   60 %    600 kbit/s
      1 ████████████████████······························   40 %    400 kbit/s
)");
  EXPECT_EQ(Screen({.columns = 200}), Screen({}));
}

TEST(LiveScreen, HasARowForEachFigureThatIsToHaveOne) {
  const LiveFigures before = LiveFiguresAfter(20);
  LiveFigures now = LiveFiguresAfter(21);
  uint64_t count = 1'000'000;
  for (const Figure& figure : Figures()) {
    if (!figure.row.label.empty()) now.counts[figure.place] = ++count;
  }
  const std::string text =
      Joined(LiveScreen(kTitle, before, now, {.rows = 100}));
  count = 1'000'000;
  for (const Figure& figure : Figures()) {
    if (figure.row.label.empty()) continue;
    EXPECT_THAT(text, HasSubstr("\n" + std::string(figure.row.label) + " "));
    EXPECT_THAT(text, HasSubstr(" " + FormatCount(++count) + "\n"));
  }
}

TEST(LiveScreen, LeavesOutTheAverageWhereItIsNarrow) {
  EXPECT_EQ(Screen({.columns = 54, .utf8 = false}),
            R"(small.pcap.zst: nat under policy snf
10.5 s at 1kpps, 41 %               now       in all
Packets in                     1,000 /s       10,500
        released               1,000 /s       10,490
        dropped                    0 /s            0
        under way                    10
Bits    in                  1.00 Mbit/s      1.31 MB
Flows                             20 /s          210
Flowlets                         120 /s        1,260
Moves   seamless                  16 /s          168
        pulled                     8 /s           84
Latency p50                      119 us       120 us
        p99                     1.25 ms      1.76 ms
Late    p50                      900 ns       800 ns
        p99                     12.0 us      14.0 us
Units   2 up, 1.00 Mbit/s each
      0 ##############..........   60 %    600 kbit/s
      1 ##########..............   40 %    400 kbit/s
)");
}

TEST(LiveScreen, ShowsTheFirstLinesWhereThereAreFew) {
  EXPECT_EQ(Screen({.columns = 40, .rows = 6}),
            R"(small.pcap.zst: nat under policy snf
10.5 s at 1kpps, 41 %               now
Packets in                     1,000 /s
        released               1,000 /s
        dropped                    0 /s
)");
}

TEST(LiveScreen, FitsIntoAnyTerminal) {
  LiveFigures before = LiveFiguresAfter(20);
  LiveFigures now = LiveFiguresAfter(21);
  now.drops[0].packets = 12;
  now.counts[&RunResult::packets_consumed] = 5;
  for (const bool utf8 : {false, true}) {
    for (size_t columns = 0; columns < 140; ++columns) {
      for (size_t rows = 0; rows < 30; ++rows) {
        const auto lines =
            LiveScreen(kTitle, before, now,
                       {.columns = columns, .rows = rows, .utf8 = utf8});
        ASSERT_LE(lines.size(), rows == 0 ? 0 : rows - 1);
        for (const LiveText& line : lines) {
          ASSERT_LE(ColumnsOf(line.text), columns == 0 ? 0 : columns - 1)
              << line.text;
          const auto is_ascii = [](char c) { return (c & 0x80) == 0; };
          ASSERT_TRUE(utf8 || std::ranges::all_of(line.text, is_ascii));
        }
      }
    }
  }
}

TEST(LiveScreen, SaysWhichPacketsWereDroppedAndAlarmsWhileTheyAre) {
  const LiveFigures before = LiveFiguresAfter(20);
  LiveFigures now = LiveFiguresAfter(21);
  now.drops[0].packets = 1'012;
  now.drops[2].packets = 3;
  auto lines = LiveScreen(kTitle, before, now, {});
  EXPECT_THAT(lines[4].text, HasSubstr("2,030 /s"));
  EXPECT_EQ(lines[4].tone, LiveText::Tone::kAlarm);
  EXPECT_EQ(lines[5].text, "          1,012 unit_queue_full, 3 nf:denied");
  lines = LiveScreen(kTitle, now, now, {});
  EXPECT_EQ(lines[4].tone, LiveText::Tone::kPlain);
}

TEST(LiveScreen, HasNoUnitsBeforeTheFirstPacket) {
  const auto lines = LiveScreen(kTitle, {}, {}, {});
  EXPECT_EQ(lines[1].text.find("0 ns at 1x"), 0u) << lines[1].text;
  EXPECT_EQ(lines.back().text, "Units   0 up, shares of all packets");
}

TEST(LiveScreen, ShowsTheBusiestUnitsWhereThereAreMoreThanRows) {
  LiveFigures before = LiveFiguresAfter(20);
  LiveFigures now = LiveFiguresAfter(21);
  before.units.clear();
  now.units.clear();
  for (uint16_t i = 0; i < 100; ++i) {
    LiveFigures::Unit unit = {.id = UnitId{i}, .is_up = i != 99};
    before.units.push_back(unit);
    unit.packets = 1;
    // Of unit 37 all it can do; 62 is second, 5 third.
    unit.bytes = i == 37 ? 62'500 : i == 62 ? 31'250 : i == 5 ? 15'625 : 625;
    now.units.push_back(unit);
  }
  now.units.back().packets = 0;  // is down and did nothing: not shown
  auto lines = LiveScreen(kTitle, before, now, {.rows = 21});
  EXPECT_THAT(UnitsOf(lines), ElementsAre(5, 37, 62));
  EXPECT_EQ(lines.size(), 20u);
  EXPECT_EQ(lines.back().text, "        and 96 more, 1 % at most");
  EXPECT_THAT(lines[17].text, HasSubstr("██  100 %"));
  EXPECT_THAT(lines[18].text, HasSubstr("·   50 %    500 kbit/s"));
  lines = LiveScreen(kTitle, before, now, {.rows = 116});
  EXPECT_EQ(UnitsOf(lines).size(), 99u);
  lines = LiveScreen(kTitle, before, now, {.rows = 115});
  EXPECT_EQ(UnitsOf(lines).size(), 97u);
  EXPECT_EQ(lines.back().text, "        and 2 more, 1 % at most");
}

TEST(LiveScreen, ShowsSharesOfPacketsWhereUnitsHaveNoCapacity) {
  LiveFigures before = LiveFiguresAfter(20);
  LiveFigures now = LiveFiguresAfter(21);
  now.unit_capacity_bps.reset();
  now.units[0].packets = before.units[0].packets + 30;
  now.units[1].packets = before.units[1].packets + 10;
  const std::string text = Joined(LiveScreen(kTitle, before, now, {}));
  EXPECT_THAT(text, HasSubstr("Units   2 up, shares of all packets"));
  EXPECT_THAT(text, HasSubstr("·   75 %"));
  EXPECT_THAT(text, HasSubstr("·   25 %"));
}

TEST(LiveScreen, ShowsInAsciiThatAUnitDoesSomething) {
  LiveFigures before = LiveFiguresAfter(20);
  LiveFigures now = LiveFiguresAfter(21);
  now.units[1].bytes = before.units[1].bytes + 100;
  const Terminal terminal = {.columns = 53, .utf8 = false};
  const auto lines = LiveScreen(kTitle, before, now, terminal);
  EXPECT_THAT(lines.back().text, HasSubstr(" -" + std::string(22, '.') + " "));
}

TEST(LiveLine, SaysItInALineOfAscii) {
  EXPECT_EQ(LiveLine(LiveFiguresAfter(20), LiveFiguresAfter(21)),
            "10.5 s, 41 %: 10,500 packets in, 1,000 /s, 1.00 Mbit/s; 10,490 "
            "released, 0 dropped; 210 flows, 1,260 flowlets, 168 seamless, 84 "
            "pulled; 2 units up; latency p50 120 us, p99 1.76 ms, late p99 "
            "14.0 us");
  LiveFigures now = LiveFiguresAfter(21);
  now.done_1000.reset();
  now.late = {};
  const std::string line = LiveLine(LiveFiguresAfter(20), now);
  EXPECT_EQ(line.find("10.5 s: "), 0u);
  EXPECT_THAT(line, Not(HasSubstr("late p99")));
}

}  // namespace
}  // namespace snf
