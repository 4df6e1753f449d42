// SPDX-License-Identifier: Apache-2.0
#include "platform/report/compare.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "base/text/page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "platform/report/test_report.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The result by hand, and one that kept flows where they were.
std::vector<ComparedRun> Runs() {
  std::vector<ComparedRun> runs;
  runs.push_back({.policy = "snf", .result = Result(), .elapsed_s = 0.5});
  runs.push_back(
      {.policy = "vanilla_flow", .result = Result(), .elapsed_s = 0.25});
  RunResult& sticky = runs.back().result;
  sticky.controller.flowlets_moved = 0;
  sticky.controller.overcommitted = 70;
  sticky.state = {};
  sticky.units_max = 3;
  sticky.units_mean_1000 = 2'500;
  sticky.latency_ns.Reset();
  for (int64_t i = 1; i <= 1'000; ++i) sticky.latency_ns.Record(i * 1'200);
  return runs;
}

void SetDigest(RunResult& result, uint64_t digest) {
  result.digest = result.digest_up_to_renaming = digest;
}

std::string Text(const std::vector<ComparedRun>& runs,
                 const Terminal& terminal = {}) {
  return TextComparison(Options(), runs, Info(), terminal);
}

TEST(TextComparison, PutsRunsSideBySide) {
  EXPECT_EQ(Text(Runs()), R"(cap.pcap: passthrough under 2 policies

                     snf    vanilla_flow
Flows                400         =
Flowlets           1,500         =
Decisions          1,502         =
Moved                300         0 -100%
  seamless          93 %         -
Units, most            2         3  +50%
  on average        1.75      2.50  +43%
Utilisation         86 %         =
Overcommitted          0        70
Dropped                0         =
Latency p50       500 µs    600 µs  +20%
        p90       900 µs   1.08 ms  +20%
        p99       990 µs   1.19 ms  +20%
        p99.9     999 µs   1.20 ms  +20%
        max      1.00 ms   1.20 ms  +20%
Wait    p99      34.0 µs         -
State sent        122 KB       0 B -100%

Digest        0123456789abcdef of all that was released, the same under each,
              seed 7
Took          0.75 s, snf 1.2.3

What it means
  snf ran on the fewest units (1.75 on average), vanilla_flow on the most
  (2.50); 99 of 100 packets left soonest under snf (within 990 µs), latest under
  vanilla_flow (1.19 ms).
)");
}

TEST(TextComparison, TellsDifferencesInAsManyDigitsAsMatter) {
  std::vector<ComparedRun> runs = Runs();
  const auto decisions = [&](uint64_t first, uint64_t second) {
    runs[0].result.controller.decisions = first;
    runs[1].result.controller.decisions = second;
    std::istringstream text(Text(runs));
    std::string line;
    while (!line.starts_with("Decisions")) std::getline(text, line);
    return line.substr(std::string("Decisions            1,000  ").size());
  };
  EXPECT_EQ(decisions(1'000, 1'001), " 1,001 +0.1%");
  EXPECT_EQ(decisions(1'000, 901), "   901 -9.9%");
  EXPECT_EQ(decisions(1'000, 900), "   900  -10%");
  EXPECT_EQ(decisions(1'000, 9'994), " 9,994 +899%");
  EXPECT_EQ(decisions(1'000, 10'000), "10,000   x10");
  EXPECT_EQ(decisions(1, 99'999), "99,999 x9999");
  EXPECT_EQ(decisions(0, 1), "     1");
  EXPECT_EQ(decisions(5, 5), "     =");
}

size_t Columns(const std::string& text) {
  size_t most = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    most = std::max(most, ColumnsOf(line));
  }
  return most;
}

TEST(TextComparison, KeepsFiveColumnsWithinTheScreen) {
  std::vector<ComparedRun> runs = Runs();
  for (const char* policy : {"smart_flow", "per_packet", "hash"}) {
    runs.push_back({.policy = policy, .result = Result()});
    runs.back().result.controller.decisions += runs.size();
  }
  EXPECT_THAT(Text(runs), HasSubstr("+0.2%"));
  EXPECT_LE(Columns(Text(runs)), 80u);
  // Large numbers are worth more than the differences.
  runs[2].result.controller.decisions = 123'456'789;
  EXPECT_THAT(Text(runs), HasSubstr(" 123,456,789 "));
  EXPECT_THAT(Text(runs), Not(HasSubstr("%\n")));
  EXPECT_LE(Columns(Text(runs)), 80u);
}

TEST(TextComparison, SaysWhatIsAlike) {
  std::vector<ComparedRun> runs = Runs();
  runs[1].result = Result();
  EXPECT_THAT(Text(runs), HasSubstr("All ran on 1.75 units on average; 99 of "
                                    "100 packets left within 990 µs under\n"
                                    "  each."));
  runs[0].result = runs[1].result = {};
  EXPECT_THAT(Text(runs), HasSubstr("There was no packet to replay."));
  runs[0].result.packets_in = runs[0].result.packets_passed_through = 3;
  EXPECT_THAT(Text(runs), HasSubstr("No packet has a readable IP header"));
  EXPECT_THAT(Text(runs), Not(HasSubstr("nan")));
}

TEST(TextComparison, IsAlarmedByDigestsThatDiffer) {
  std::vector<ComparedRun> runs = Runs();
  for (ComparedRun& run : runs) run.result.i6_compared = 9'990;
  EXPECT_TRUE(RunsAgree(runs));
  EXPECT_THAT(Text(runs), Not(HasSubstr("PROBLEM")));
  SetDigest(runs[1].result, 1);
  // What the NF drops, it drops under every policy.
  runs[1].result.nf_drop_names = {"unloved"};
  runs[1].result.nf_dropped = {7};
  runs[1].result.packets_released -= 7;
  EXPECT_FALSE(RunsAgree(runs));
  EXPECT_THAT(
      Text(runs),
      StartsWith("PROBLEM: not the same packets were released under each "
                 "policy: see Digest.\ncap.pcap: "));
  EXPECT_THAT(Text(runs),
              HasSubstr("Digest        differs, though no packet was dropped: "
                        "snf 0123456789abcdef\n"
                        "              vanilla_flow 0000000000000001\n"));
}

TEST(TextComparison, ComparesUpToARenamingOfExternalPorts) {
  std::vector<ComparedRun> runs = Runs();
  for (ComparedRun& run : runs) {
    run.result.i6_compared = 9'990;
    run.result.aliases.has_sides = true;
  }
  runs[1].result.digest = 1;
  EXPECT_TRUE(RunsAgree(runs));
  EXPECT_THAT(Text(runs), Not(HasSubstr("PROBLEM")));
  EXPECT_THAT(Text(runs),
              HasSubstr("Digest        0123456789abcdef of all that was "
                        "released, up to which external\n"
                        "              ports were given, the same under each, "
                        "seed 7\n"));
  runs[1].result.digest_up_to_renaming = 2;
  EXPECT_FALSE(RunsAgree(runs));
  EXPECT_THAT(Text(runs), HasSubstr("vanilla_flow 0000000000000002\n"));
  // Who finds a pool exhausted depends on who asked before.
  runs[1].result.controller.pieces.requests_refused = 1;
  EXPECT_TRUE(RunsAgree(runs));
  EXPECT_THAT(Text(runs), HasSubstr("Digest        differs; a pool was "
                                    "exhausted, so it cannot be compared\n"));
}

TEST(TextComparison, SaysWhyDigestsMayDiffer) {
  std::vector<ComparedRun> runs = Runs();
  for (ComparedRun& run : runs) run.result.i6_compared = 9'990;
  SetDigest(runs[1].result, 1);
  runs[1].result.i6_not_compared = 3;
  EXPECT_TRUE(RunsAgree(runs));
  EXPECT_THAT(Text(runs), HasSubstr("Digest        differs; not all packets "
                                    "were checked, so it cannot be compared"));
  runs[1].result.i6_not_compared = 0;
  runs[1].result.packets_released -= 2;
  Dropped(runs[1].result, DropReason::kUnitQueueFull) = 2;
  EXPECT_TRUE(RunsAgree(runs));
  EXPECT_THAT(Text(runs), HasSubstr("Digest        differs; packets were "
                                    "dropped, so it cannot be compared\n"));
  EXPECT_THAT(Text(runs), Not(HasSubstr("PROBLEM")));
  // But those beside it can.
  runs.push_back({.policy = "hash", .result = runs[0].result});
  EXPECT_TRUE(RunsAgree(runs));
  SetDigest(runs[2].result, 2);
  EXPECT_FALSE(RunsAgree(runs));
}

TEST(TextComparison, RanksByDrops) {
  std::vector<ComparedRun> runs = Runs();
  Dropped(runs[0].result, DropReason::kUnitQueueFull) = 1'234;
  EXPECT_THAT(Text(runs),
              HasSubstr("(1.19 ms); vanilla_flow dropped the fewest packets "
                        "(0), snf the\n  most (1,234)."));
  Dropped(runs[1].result, DropReason::kUnitQueueFull) = 1'234;
  EXPECT_THAT(Text(runs), Not(HasSubstr("fewest packets")));
}

TEST(TextComparison, SaysFirstWhichRunIsNotSound) {
  std::vector<ComparedRun> runs = Runs();
  runs[1].result.violations = 1;
  EXPECT_THAT(Text(runs),
              StartsWith("PROBLEM: the figures of vanilla_flow cannot be "
                         "trusted; --policy=vanilla_flow tells why.\n"
                         "cap.pcap: "));
}

TEST(TextComparison, KeepsToAsciiWhereItMust) {
  const std::string ascii = Text(Runs(), {.utf8 = false});
  EXPECT_TRUE(std::ranges::all_of(ascii, [](char c) { return c > 0; }));
  EXPECT_THAT(ascii, HasSubstr("500 us    600 us"));
}

TEST(TextComparison, RepeatsWhatWasNoticedAboutTheCapture) {
  RunInfo info = Info();
  info.warnings = {"cap.pcap: the last packet\033 is cut off"};
  EXPECT_THAT(
      TextComparison(Options(), Runs(), info, {}),
      HasSubstr("\nNotes\n  - cap.pcap: the last packet? is cut off\n"));
}

TEST(JsonComparison, IsTheFirstReportWithAllRunsInIt) {
  const auto json =
      nlohmann::ordered_json::parse(JsonComparison(Options(), Runs(), Info()));
  EXPECT_EQ(json["policy"], "snf");
  EXPECT_EQ(json["flowlets_moved"], 300);
  EXPECT_EQ(json["flags"]["unit_capacity"], "100Mbps");
  ASSERT_EQ(json["compare"].size(), 2u);
  const auto& sticky = json["compare"][1];
  EXPECT_EQ(json["compare"][0]["policy"], "snf");
  EXPECT_EQ(sticky["policy"], "vanilla_flow");
  EXPECT_EQ(sticky["flowlets_moved"], 0);
  EXPECT_EQ(sticky["overcommitted"], 70);
  EXPECT_EQ(sticky["latency_ns"]["max"], 1'200'000);
  EXPECT_EQ(sticky["elapsed_s"], 0.25);
  EXPECT_FALSE(sticky.contains("flags"));
  EXPECT_FALSE(sticky.contains("files"));
}

}  // namespace
}  // namespace snf
