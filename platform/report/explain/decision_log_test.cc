// SPDX-License-Identifier: Apache-2.0
#include "platform/report/explain/decision_log.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "platform/report/explain/test_explain.h"

namespace snf {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::SizeIs;

std::string NewFile(const std::string& suffix) {
  const auto* const test =
      testing::UnitTest::GetInstance()->current_test_info();
  std::string file = testing::TempDir() + "/snf_decisions_" + test->name();
  std::filesystem::remove(file + suffix);
  return file + suffix;
}

// The lines of the log of a small run, which is written to `file`.
std::vector<std::string> LinesOfRun(const std::string& file,
                                    std::string_view policy = "snf",
                                    uint32_t max_units = 2) {
  auto log = DecisionLog::Open(file);
  EXPECT_TRUE(log.ok()) << log.status();
  RunOptions options = SlowUnits();
  options.controller.max_units = max_units;
  options.controller.load_signal = LoadSignal::kDemand;
  options.controller.replica_choice = ReplicaChoice::kWeighted;
  options.controller.unit_idle_timeout = Milliseconds(100);
  options.controller.alpha_1024 = 256;
  options.controller.warm_units = max_units;
  VirtualDriver driver(options, *FindPlacementPolicy(policy),
                       *FindNf("passthrough"), {log->get()});
  const auto at = [&driver](int64_t us, uint16_t flow, uint32_t bytes) {
    const Frame frame = FrameOf(flow, 60);
    CapturedPacket packet;
    packet.time = {Microseconds(us).ns + Seconds(5).ns};
    packet.bytes = frame;
    packet.original_bytes = bytes;
    driver.Offer(packet);
  };
  at(0, 2, 900);
  at(1'000, 2, 900);
  at(2'000, 1, 100);
  at(2'010, 1, 100);
  at(2'020, 2, 900);
  at(3'900, 2, 900);
  at(4'000, 1, 9'000);
  at(4'001, 1, 9'000);
  driver.Finish();
  EXPECT_TRUE((*log)->Close().ok());
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::filesystem::remove(file);
  return lines;
}

TEST(DecisionLog, WritesALineOfCsvForEachDecision) {
  // Flow 2 is measured and found large; so flow 1 moves to the other unit, and
  // fills its queue.
  EXPECT_THAT(
      LinesOfRun(NewFile(".csv")),
      ElementsAre(
          "time_s,flow,flowlet,cause,gap_s,demand_bps,demand,owner,replicas,"
          "unit,reason,load,units,units_with_room,units_starting,candidates",
          "0.000000000,udp 10.0.0.1:2 > "
          "192.0.2.9:53,1,new_flow,0.000000000,99968,0.0107,,,0,room,0.0000,1,"
          "1,0,0:0.0000:0.0000",
          "0.001000000,udp 10.0.0.1:2 > "
          "192.0.2.9:53,2,gap,0.001000000,5049984,0.5059,0,,0,room,0.0078,1,1,"
          "0,0:0.0078:0.2578:state",
          "0.002000000,udp 10.0.0.1:1 > "
          "192.0.2.9:53,1,new_flow,0.000000000,294080,0.0303,,,0,room,0.0146,1,"
          "1,0,0:0.0146:0.0146",
          "0.002020000,udp 10.0.0.1:2 > "
          "192.0.2.9:53,3,gap,0.001020000,7524992,0.7529,0,,0,room,0.0303,1,1,"
          "0,0:0.0303:0.2803:state",
          "0.003900000,udp 10.0.0.1:2 > "
          "192.0.2.9:53,4,gap,0.001880000,8762496,0.8770,0,1,0,room,0.0234,2,2,"
          "0,0:0.0234:0.2734:state 1:0.0000:0.2500:state",
          "0.004000000,udp 10.0.0.1:1 > "
          "192.0.2.9:53,2,gap,0.001990000,1747040,0.1748,0,,1,room,0.0000,2,1,"
          "0,0:0.8770:-:state 1:0.0000:0.0000",
          "0.004001000,udp 10.0.0.1:1 > "
          "192.0.2.9:53,3,bytes,0.000001000,5873520,0.5879,1,,0,no_room,0.8770,"
          "2,0,0,0:0.8770:- 1:7.2002:-:state"));
}

TEST(DecisionLog, SaysWhyAUnitWasChosen) {
  const auto reasons = [](const std::vector<std::string>& lines) {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      found.push_back(nlohmann::json::parse(line)["reason"]);
    }
    return found;
  };
  // The only unit has no room for flow 1.
  EXPECT_THAT(reasons(LinesOfRun(NewFile(".jsonl"), "snf", 1)),
              Contains("no_room"));
  // A flow stays, whatever its next flowlet is expected to demand.
  EXPECT_THAT(
      reasons(LinesOfRun(NewFile(".jsonl"), "vanilla_flow")),
      ElementsAre("room", "kept", "room", "kept", "kept", "kept", "kept"));
}

TEST(DecisionLog, SaysTheSameInJson) {
  const std::vector<std::string> csv = LinesOfRun(NewFile(".csv"));
  const std::vector<std::string> json = LinesOfRun(NewFile(".jsonl"));
  ASSERT_THAT(json, SizeIs(csv.size() - 1));
  for (size_t i = 0; i < json.size(); ++i) {
    const auto object = nlohmann::ordered_json::parse(json[i]);
    std::string names;
    for (const auto& [key, value] : object.items()) {
      names += (names.empty() ? "" : ",") + key;
    }
    EXPECT_EQ(names, csv[0]);
  }
}

TEST(DecisionLog, KnowsItsFormsByTheNameOfTheFile) {
  EXPECT_TRUE(DecisionLog::Names("a.csv"));
  EXPECT_TRUE(DecisionLog::Names("a.jsonl.zst"));
  EXPECT_TRUE(DecisionLog::Names("a.csv.gz"));
  EXPECT_FALSE(DecisionLog::Names("a.json"));
  EXPECT_FALSE(DecisionLog::Names("a.gz"));
  EXPECT_FALSE(DecisionLog::Names("csv"));
}

TEST(DecisionLog, TellsOfAFileThatCannotBeWritten) {
  const auto log = DecisionLog::Open(testing::TempDir() + "/no/such/a.csv");
  ASSERT_FALSE(log.ok());
  EXPECT_THAT(log.status().message(), testing::HasSubstr("no/such/a.csv"));
}

}  // namespace
}  // namespace snf
