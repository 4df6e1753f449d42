// SPDX-License-Identifier: Apache-2.0
#include "platform/report/report_advice.h"

#include <string>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/report/test_report.h"

namespace snf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
              EndsWith("40.0 µs. 100 packets were dropped (1.0 %), mostly "
                       "because the unit's queue of 1,024 packets was full."));
}

TEST(Meaning, TellsDropsOfTheNetworkFunction) {
  RunResult result = Result();
  result.packets_released -= 1;
  result.nf_drop_names = {"odd_length"};
  result.nf_dropped = {1};
  EXPECT_THAT(Meaning(Options(), result),
              EndsWith("40.0 µs. 1 packet was dropped (less than 0.1 %), "
                       "because the network function decided so."));
}

// Every packet is then one from the outside, to nobody.
TEST(Meaning, TellsThatTheInsideIsAnother) {
  RunResult result = WithAliases();
  RunOptions options = Options();
  options.inside = *ParsePrefixes("192.168.0.0/16");
  EXPECT_THAT(Meaning(options, result), Not(HasSubstr("--inside")));
  result.packets_released = 0;
  result.controller.aliases_granted = 0;
  Dropped(result, DropReason::kNoAlias) = 9'978;
  ASSERT_TRUE(result.conserved());
  EXPECT_THAT(Meaning(options, result),
              HasSubstr(" Few packets or none came from the inside that "
                        "--inside=192.168.0.0/16 names, so 0 aliases were "
                        "given; it is to name the hosts behind"));
  EXPECT_THAT(Commands(options, result, Info())[0],
              EndsWith(" --inside=10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"));
  // Without the flag, whoever sends first is inside.
  options.inside.clear();
  EXPECT_THAT(Meaning(options, result), Not(HasSubstr("--inside")));
}

// The inside was known all the same.
TEST(Proposals, AreNoInsideWhereAnswersCameTooEarly) {
  RunResult result = WithAliases();
  ASSERT_GT(Dropped(result, DropReason::kNotTranslated), 0u);
  for (const std::string& command : Commands(Options(), result, Info())) {
    EXPECT_THAT(command, Not(HasSubstr("--inside")));
  }
}

TEST(Meaning, TellsThatAPoolWasExhausted) {
  RunResult result = WithAliases();
  EXPECT_THAT(Meaning(Options(), result),
              EndsWith(" A pool of the network function was exhausted: 3 "
                       "requests for pieces of it found none. Its options in "
                       "--nf make pools larger; of nat that is ip, with more "
                       "addresses."));
  result.controller.pieces.requests_refused = 0;
  EXPECT_THAT(Meaning(Options(), result), Not(HasSubstr("pool")));
}

TEST(Meaning, TellsOvercommitment) {
  RunResult result = Result();
  result.controller.overcommitted = 5;
  EXPECT_THAT(Meaning(Options(), result),
              EndsWith(" 5 of 1,500 flowlets went to a unit that had no room "
                       "for them."));
}

TEST(Meaning, TellsHowFreelyFlowletsMoved) {
  RunResult result = Result();
  EXPECT_THAT(
      Meaning(Options(), result),
      EndsWith("990 µs. 73 % of flowlets could move to another unit, 20 % did, "
               "and 93 % of these were not held for state; the longest hold, "
               "of flow udp 10.0.0.1:5000 > 192.0.2.9:53, was 40.0 µs."));
  result.state.worst.key = {};  // forgotten by then
  EXPECT_THAT(Meaning(Options(), result),
              EndsWith("state; the longest hold was 40.0 µs."));
  result.state.worst = {};
  EXPECT_THAT(Meaning(Options(), result),
              EndsWith("93 % of these were not held for state."));
  result.controller.flowlets_moved = 0;
  EXPECT_THAT(Meaning(Options(), result),
              EndsWith("73 % of flowlets could move to another unit, none "
                       "did."));
  result.controller.flowlets = result.controller.flows;
  EXPECT_THAT(Meaning(Options(), result), EndsWith("left within 990 µs."));
}

TEST(Meaning, TellsThatOneUnitSufficed) {
  RunResult result = Result();
  result.units_max = 1;
  result.units_mean_1000 = 1'000;
  EXPECT_THAT(Meaning(Options(), result),
              AllOf(StartsWith("300 ms of traffic at 150 Mbit/s ran on a "
                               "single unit of 100 Mbit/s: "),
                    EndsWith("left within 990 µs.")));
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

TEST(Proposals, AreLargerUnitsWhereQueuesOverflow) {
  RunOptions options = Options();
  RunResult result = Result();
  Dropped(result, DropReason::kUnitQueueFull) = 1;
  EXPECT_THAT(Commands(options, result, Info())[1],
              EndsWith("cap.pcap --unit_capacity=400Mbps"));
  // Half idle, and still packets found a queue full: that was a burst. More
  // units are no help, be they few or overcommitted.
  options.controller.max_units = 2;
  result.controller.overcommitted = 9;
  for (EpochSample& epoch : result.epochs) epoch.drained_bytes /= 2;
  EXPECT_THAT(
      Commands(options, result, Info()),
      ElementsAre(EndsWith("cap.pcap --unit_capacity=400Mbps"),
                  EndsWith(" --unit_queue=4096"), EndsWith(" --explain top")));
  Dropped(result, DropReason::kUnitQueueFull) = 0;
  EXPECT_THAT(Commands(options, result, Info())[0], EndsWith("explain top"));
}

TEST(Proposals, DoNotRepeatAFlagWithoutAValue) {
  RunInfo info = Info();
  info.flags.push_back({"chaos", "", true});  // state_loss=0
  EXPECT_THAT(Commands(Options(), Result(), info)[0],
              EndsWith("cap.pcap --unit_capacity=100Mbps --explain top"));
}

TEST(Proposals, AreToKeepStateNearWhereManyWaitedForIt) {
  RunOptions options = Options();
  RunResult result = Result();
  result.state.pulled = 30;  // of 300
  EXPECT_THAT(Commands(options, result, Info()),
              ElementsAre(EndsWith(" --replica_chance=0.01"),
                          EndsWith(" --explain top"),
                          EndsWith(" --compare vanilla_flow")));
  options.controller.replica_choice = ReplicaChoice::kWeighted;
  options.controller.alpha_1024 = 256;
  EXPECT_THAT(Commands(options, result, Info()),
              ElementsAre(EndsWith(" --replicas=9"), EndsWith(" --alpha=0.75"),
                          EndsWith(" --explain top")));
  options.controller.replicas = 9;
  options.controller.alpha_1024 = 768;
  EXPECT_THAT(Commands(options, result, Info()),
              ElementsAre(EndsWith(" --replicas=16"), EndsWith(" --alpha=1"),
                          EndsWith(" --explain top")));
  // No more than there are other units, and none if none were wanted.
  options.controller.max_units = 10;
  options.controller.alpha_1024 = 1'024;
  EXPECT_THAT(Commands(options, result, Info())[0], EndsWith("explain top"));
  options.controller.max_units = 64;
  options.controller.replica_choice = ReplicaChoice::kNone;
  EXPECT_THAT(Commands(options, result, Info())[0], EndsWith("explain top"));
  result.state.pulled = 29;
  options.controller.replica_choice = ReplicaChoice::kWeighted;
  EXPECT_THAT(Commands(options, result, Info())[0], EndsWith("explain top"));
}

TEST(Proposals, AreAComparisonWhereSeveralUnitsRan) {
  RunInfo info = Info();
  EXPECT_THAT(Commands(Options(), Result(), info)[1],
              EndsWith(" --compare vanilla_flow"));
  info.policy = "hash";
  EXPECT_THAT(
      Commands(Options(), Result(), info),
      ElementsAre(EndsWith(" --explain top"), EndsWith(" --compare snf"),
                  EndsWith(" --csv figures")));
}

TEST(Proposals, AreNothingThatOnlyVirtualTimeHasAfterARunInRealTime) {
  RunResult result = Result();
  result.real.threads = 2;
  EXPECT_THAT(Commands(Options(), result, Info()),
              ElementsAre(EndsWith(" --watch=true"),
                          EndsWith(" --flowlet_timeout=100us"),
                          EndsWith(" --csv figures")));
}

TEST(Proposals, DoNotReadStdinTwice) {
  RunInfo info = Info();
  info.files = {"-"};
  EXPECT_THAT(
      Commands(Options(), Result(), info),
      ElementsAre(EndsWith(" --flowlet_timeout=100us"),
                  EndsWith(" --csv figures"), EndsWith(" --json result.json")));
}

TEST(Proposals, AreMoreRoomForPacketsThatWaitForState) {
  RunOptions options = Options();
  RunResult result = Result();
  Dropped(result, DropReason::kHoldOverflow) = 1;
  options.hold_packets = 100;
  EXPECT_THAT(Commands(options, result, Info())[0],
              EndsWith(" --hold_queue=400"));
  options.hold_packets = 1'000;
  EXPECT_THAT(Commands(options, result, Info())[0],
              EndsWith(" --hold_queue=1024"));
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
