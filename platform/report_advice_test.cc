// SPDX-License-Identifier: Apache-2.0
#include "platform/report_advice.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/test_report.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Meaning, TellsThatNothingIsIp) {
  RunResult result;
  result.packets_in = result.packets_passed_through = 12;
  EXPECT_EQ(Meaning(Options(), result),
            "None of the 12 packets has a readable IP header, so there was no "
            "flow to place and nothing for a unit to do: all passed through "
            "untouched.");
  result.packets_in = result.packets_passed_through = 1;
  EXPECT_THAT(Meaning(Options(), result),
              StartsWith("The only packet lacks a readable IP header"));
}

TEST(Meaning, TellsDropsAndTheirMainReason) {
  RunResult result = Result();
  result.packets_released -= 100;
  Dropped(result, DropReason::kUnitQueueFull) = 90;
  Dropped(result, DropReason::kFlowTableFull) = 10;
  EXPECT_THAT(Meaning(Options(), result),
              EndsWith("990 µs. 100 packets were dropped (1.0 %), mostly "
                       "because the unit's queue of 1,024 packets was full."));
}

TEST(Meaning, TellsDropsOfTheNetworkFunction) {
  RunResult result = Result();
  result.packets_released -= 1;
  result.nf_drop_names = {"odd_length"};
  result.nf_dropped = {1};
  EXPECT_THAT(Meaning(Options(), result),
              EndsWith("990 µs. 1 packet was dropped (less than 0.1 %), "
                       "because the network function decided so."));
}

TEST(Meaning, TellsOvercommitment) {
  RunResult result = Result();
  result.controller.overcommitted = 5;
  EXPECT_THAT(Meaning(Options(), result),
              EndsWith("In 5 of 1,502 decisions no unit had room for the "
                       "flowlet, and it was placed all the same."));
}

TEST(Meaning, TellsThatOneUnitSufficed) {
  RunResult result = Result();
  result.units_max = 1;
  result.units_mean_1000 = 1'000;
  EXPECT_THAT(Meaning(Options(), result),
              StartsWith("300 ms of traffic at 150 Mbit/s ran on a single unit "
                         "of 100 Mbit/s: "));
}

TEST(Meaning, HasNoRateAtOneInstant) {
  RunResult result = Result();
  result.last_packet = result.first_packet;
  EXPECT_THAT(Meaning(Options(), result),
              StartsWith("10,000 packets at one instant ran on"));
  result.packets_in = result.packets_released = 1;
  result.packets_passed_through = 0;
  EXPECT_THAT(Meaning(Options(), result), StartsWith("One packet ran on"));
}

TEST(SlownessHint, IsGivenWhereOneUnitIsMostlyIdle) {
  RunOptions options = Options();
  RunResult result = Result();
  EXPECT_EQ(SlownessHint(options, result), "");
  result.units_max = 1;
  EXPECT_EQ(SlownessHint(options, result), "");  // busy all the same
  options.controller.unit_capacity_bps = 1'000'000'000;
  EXPECT_EQ(SlownessHint(options, result),
            "This traffic is too slow to show packing: its busiest 100 ms "
            "asked for 150 Mbit/s, 15 % of what one unit carries. Smaller "
            "units make it visible.");
}

TEST(Percent, HasAsManyDigitsAsMatter) {
  EXPECT_EQ(Percent(0), "0 %");
  EXPECT_EQ(Percent(0.0001), "less than 0.1 %");
  EXPECT_EQ(Percent(0.041), "4.1 %");
  EXPECT_EQ(Percent(0.0999), "10 %");
  EXPECT_EQ(Percent(1), "100 %");
}

std::vector<std::string> Commands(const RunOptions& options,
                                  const RunResult& result,
                                  const RunInfo& info) {
  std::vector<std::string> commands;
  for (const Proposal& proposal : Proposals(options, result, info)) {
    std::string& command = commands.emplace_back();
    for (const std::string& word : proposal.words) {
      command += (command.empty() ? "" : " ") + word;
    }
  }
  return commands;
}

TEST(Proposals, AreSmallerUnitsWhereOneSufficed) {
  RunResult result = Result();
  result.units_max = 1;
  EXPECT_THAT(Commands(Options(), result, Info()),
              ElementsAre("./snf replay cap.pcap --unit_capacity=37Mbps",
                          "./snf replay cap.pcap --unit_capacity=100Mbps "
                          "--explain top",
                          "./snf replay cap.pcap --unit_capacity=100Mbps "
                          "--flowlet_timeout=100us"));
  // Units cannot be any smaller.
  RunOptions options = Options();
  options.controller.unit_capacity_bps = 1'000;
  EXPECT_THAT(Commands(options, result, Info())[0], HasSubstr("explain"));
}

TEST(Proposals, AreRemediesFirst) {
  RunOptions options = Options();
  RunResult result = Result();
  result.controller.overcommitted = 1;
  options.controller.max_units = 2;
  Dropped(result, DropReason::kUnitQueueFull) = 1;
  Dropped(result, DropReason::kStartBufferFull) = 1;
  RunInfo info = Info();
  info.flags.clear();
  EXPECT_THAT(Commands(options, result, info),
              ElementsAre("./snf replay cap.pcap --max_units=8",
                          "./snf replay cap.pcap --unit_queue=4096",
                          "./snf replay cap.pcap --start_buffer=1024"));
}

TEST(Proposals, AreLargerUnitsWhereQueuesOverflowAndUnitsAreLeft) {
  RunResult result = Result();
  Dropped(result, DropReason::kUnitQueueFull) = 1;
  EXPECT_THAT(Commands(Options(), result, Info())[1],
              EndsWith("cap.pcap --unit_capacity=400Mbps"));
}

TEST(Proposals, AreMoreFlowsWhereTheTableIsFull) {
  RunOptions options = Options();
  RunResult result = Result();
  Dropped(result, DropReason::kFlowTableFull) = 1;
  options.controller.max_flows = 1'000;
  EXPECT_THAT(Commands(options, result, Info())[0],
              EndsWith(" --max_flows=4000"));
  options.controller.max_flows = 1u << 27;
  EXPECT_THAT(Commands(options, result, Info())[0],
              EndsWith(" --max_flows=268435456"));
  options.controller.max_flows = 1u << 28;
  EXPECT_THAT(Commands(options, result, Info())[0], EndsWith("explain top"));
}

TEST(Proposals, AreWaysToKeepTheFiguresWhereNothingIsIp) {
  RunResult result;
  result.packets_in = result.packets_passed_through = 12;
  RunInfo info = Info();
  info.flags.clear();
  EXPECT_THAT(Commands(Options(), result, info),
              ElementsAre("./snf replay cap.pcap --csv figures",
                          "./snf replay cap.pcap --json result.json",
                          "./snf replay cap.pcap --out out.pcapng"));
}

TEST(Proposals, QuoteFileNamesForTheShell) {
  EXPECT_EQ(ShellWord("a-b_c/d.pcap"), "a-b_c/d.pcap");
  EXPECT_EQ(ShellWord("ä.pcap"), "ä.pcap");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("a b"), "'a b'");
  EXPECT_EQ(ShellWord("it's $HOME"), R"('it'\''s $HOME')");
  EXPECT_EQ(ShellWord("a\033'\\"), R"($'a\x1b\'\\')");
  RunInfo info = Info();
  info.files = {"-odd", "-"};
  EXPECT_THAT(Commands(Options(), Result(), info)[0],
              StartsWith("./snf replay ./-odd - --unit"));
}

TEST(Proposals, AreBrokenIntoLinesThatCanBePasted) {
  RunInfo info = Info();
  info.files = {std::string(70, 'x')};
  EXPECT_THAT(TextReport(Options(), Result(), info, {}),
              HasSubstr("    ./snf replay \\\n      " + std::string(70, 'x') +
                        " \\\n      --unit_capacity=100Mbps --explain top\n"));
}

}  // namespace
}  // namespace snf
