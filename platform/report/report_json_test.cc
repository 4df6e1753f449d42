// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "platform/report/report.h"
#include "platform/report/test_report.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;

TEST(JsonReport, HasTheKeysThatProgramsRelyOn) {
  RunResult result = Result();
  result.packets_released -= 4;
  Dropped(result, DropReason::kUnitQueueFull) = 3;
  result.nf_drop_names = {"odd_length"};
  result.nf_dropped = {1};
  const std::string text = JsonReport(Options(), result, Info());
  EXPECT_THAT(text, EndsWith("}\n"));
  const auto json = nlohmann::ordered_json::parse(text);
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  ASSERT_GE(keys.size(), 19u);
  keys.resize(19);
  EXPECT_THAT(
      keys, ElementsAre("packets_in", "packets_inherited", "packets_generated",
                        "packets_released", "packets_consumed",
                        "packets_passed_through", "packets_dropped", "flows",
                        "flowlets", "decisions", "units_used_max",
                        "units_used_mean", "overcommitted", "latency_ns",
                        "digest", "seed", "flags", "version", "elapsed_s"));
  for (const char* key :
       {"packets_in", "packets_generated", "packets_released",
        "packets_consumed", "packets_passed_through", "flows", "flowlets",
        "decisions", "units_used_max", "overcommitted", "seed"}) {
    EXPECT_TRUE(json[key].is_number_integer()) << key;
  }
  EXPECT_EQ(json["packets_in"], 10'000);
  EXPECT_EQ(json["packets_dropped"]["unit_queue_full"], 3);
  EXPECT_EQ(json["packets_dropped"]["flow_table_full"], 0);
  EXPECT_EQ(json["packets_dropped"]["nf:odd_length"], 1);
  EXPECT_EQ(json["packets_dropped"].size(), kDropReasons + 1);
  EXPECT_EQ(json["units_used_mean"], 1.75);
  EXPECT_EQ(json["latency_ns"]["p50"], result.latency_ns.Quantile(50'000));
  EXPECT_EQ(json["latency_ns"]["p999"], result.latency_ns.Quantile(99'900));
  EXPECT_EQ(json["latency_ns"]["max"], 1'000'000);
  EXPECT_EQ(json["latency_ns"].size(), 5u);
  EXPECT_EQ(json["digest"], "0123456789abcdef");
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["flags"]["unit_capacity"], "100Mbps");
  EXPECT_EQ(json["flags"].size(), 2u);
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["elapsed_s"], 0.5);
}

TEST(JsonReport, HasFurtherFigures) {
  const auto json =
      nlohmann::ordered_json::parse(JsonReport(Options(), Result(), Info()));
  EXPECT_EQ(json["sound"], true);
  EXPECT_EQ(json["flowlets_by"]["new_flow"], 400);
  EXPECT_EQ(json["flowlets_by"]["gap"], 1'000);
  EXPECT_EQ(json["flowlets_by"]["bytes"], 100);
  EXPECT_EQ(json["starts_cold"], 2);
  EXPECT_EQ(json["starts_warm"], 1);
  EXPECT_EQ(json["bit_rate_mean_bps"], 150'000'000);
  EXPECT_DOUBLE_EQ(json["duration_s"], 0.3);
  EXPECT_NEAR(json["capacity_used"], 0.857, 0.001);
  EXPECT_EQ(json["parse_results"]["not_ip"], 8);
  EXPECT_EQ(json["files"][0], "cap.pcap");
}

TEST(JsonReport, HasNoShareOfACapacityThatUnitsDoNotHave) {
  RunResult result = Result();
  result.cluster.controllers = 1;
  result.controllers = {{.capacity_used = 0.5}};
  RunInfo info = Info();
  for (const bool is_unpaced : {false, true}) {
    info.is_unpaced = is_unpaced;
    const auto json =
        nlohmann::ordered_json::parse(JsonReport(Options(), result, info));
    EXPECT_EQ(json.at("capacity_used").is_null(), is_unpaced);
    EXPECT_EQ(json.at("utilisation").at("p50").is_null(), is_unpaced);
    EXPECT_EQ(json.at("utilisation").at("p99").is_null(), is_unpaced);
    const auto& controller = json.at("leases").at("by_controller").at(0);
    EXPECT_EQ(controller.at("capacity_used").is_null(), is_unpaced);
    EXPECT_EQ(json.at("units_used_mean"), 1.75);
  }
}

TEST(JsonReport, SaysThatItWasInterrupted) {
  RunInfo info = Info();
  for (const bool is_interrupted : {false, true}) {
    info.is_interrupted = is_interrupted;
    const auto json =
        nlohmann::ordered_json::parse(JsonReport(Options(), Result(), info));
    EXPECT_EQ(json.at("interrupted"), is_interrupted);
  }
}

TEST(JsonReport, HasNullForWhatNobodyMeasuredOfUnits) {
  RunResult result = Result();
  result.unit_ns_with_traffic = 0;
  result.cluster.controllers = 1;
  result.controllers = {{.packets = 10'000}};
  const auto json =
      nlohmann::ordered_json::parse(JsonReport(Options(), result, Info()));
  EXPECT_EQ(json["units_used_max"], 2);
  EXPECT_TRUE(json["units_used_mean"].is_null());
  EXPECT_TRUE(json["capacity_used"].is_null());
  EXPECT_TRUE(json["utilisation"]["p50"].is_null());
  EXPECT_TRUE(json["utilisation"]["p99"].is_null());
  const auto& one = json["leases"]["by_controller"][0];
  EXPECT_TRUE(one["units_max"].is_null());
  EXPECT_TRUE(one["capacity_used"].is_null());
}

TEST(JsonReport, TellsHowStateMoved) {
  RunResult result = Result();
  StateFigures& state = result.state;
  state.tombstones = 3;
  state.null_packets = 4;
  state.messages_lost = 5;
  state.messages_duplicated = 6;
  state.units = {.replicas_taken = 7,
                 .replicas_evicted = 8,
                 .replicas_expired = 9,
                 .pulls_repeated = 10,
                 .takeovers_repeated = 11,
                 .takeovers_said_once = 12,
                 .timers_left = 14};
  state.units.refused[0] = 13;
  const auto json =
      nlohmann::ordered_json::parse(JsonReport(Options(), result, Info()));
  for (const auto& [key, number] : std::vector<std::pair<std::string, int64_t>>{
           {"flowlets_movable", 1'100},
           {"flowlets_moved", 300},
           {"flowlets_moved_without_replica", 12},
           {"flowlets_moved_elsewhere", 9},
           {"flowlets_moved_too_soon", 1},
           {"flowlets_seamless", 280},
           {"flowlets_pulled", 20},
           {"state_pushes", 1'200},
           {"state_pulls", 20},
           {"state_answers", 20},
           {"state_bytes", 122'000},
           {"state_pushed_bytes", 120'000},
           {"replication_bps", 4'480'000},
           {"held_packets_max", 7},
           {"tombstones", 3},
           {"flows_handed_over", 4},
           {"state_messages_lost", 5},
           {"state_messages_duplicated", 6},
           {"replicas_taken", 7},
           {"replicas_evicted", 8},
           {"replicas_expired", 9},
           {"pulls_repeated", 10},
           {"takeovers_repeated", 11},
           {"takeovers_said_once", 12},
           {"timers_left", 14}}) {
    EXPECT_EQ(json.value(key, -1), number) << key;
  }
  EXPECT_EQ(json["wait_ns"]["p50"], 0);
  EXPECT_EQ(json["wait_ns"]["max"], 40'000);
  EXPECT_EQ(json["wait_ns"].size(), 5u);
  EXPECT_EQ(json["wait_worst"]["flow"], "udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(json["wait_worst"]["clock"], 17);
  EXPECT_EQ(json["wait_worst"]["unit"], 1);
  EXPECT_EQ(json["wait_worst"]["wait_ns"], 40'000);
  EXPECT_EQ(json["state_refused"]["stale"], 13);
  EXPECT_EQ(json["state_refused"].size(), kStateRefusals);
  result.state = {};
  EXPECT_TRUE(
      nlohmann::ordered_json::parse(JsonReport(Options(), result, Info()))
          .at("wait_worst")
          .is_null());
}

TEST(JsonReport, TellsOfAliasesAndPoolsWhereTheNfHasThem) {
  const auto parsed = [](const RunResult& result) {
    return nlohmann::json::parse(JsonReport(Options(), result, Info()));
  };
  EXPECT_FALSE(parsed(Result()).contains("aliases"));
  EXPECT_FALSE(parsed(Result()).contains("pools"));
  const auto json = parsed(WithAliases());
  EXPECT_EQ(json["aliases"],
            nlohmann::json::parse(
                R"({"granted": 120, "at_once_max": 90, "packets_offered": 3002,
                    "packets_found": 3000, "packets_hairpinned": 6,
                    "refused": {"conflict": 8, "group_full": 0,
                                "unknown": 0}})"));
  EXPECT_EQ(json["pools"],
            nlohmann::json::parse(
                R"({"pools": 6, "pieces_out_max": 640, "blocks_granted": 10,
                    "requests_refused": 3, "reclaim_rounds": 2})"));
  EXPECT_EQ(json["conserved"], true);
}

TEST(JsonReport, TellsWhatTheNfsCounted) {
  const auto counters = [](const RunResult& result) {
    return nlohmann::json::parse(
        JsonReport(Options(), result, Info()))["counters"];
  };
  EXPECT_EQ(counters(Result()), nlohmann::json::object());
  EXPECT_EQ(
      counters(WithCounters()),
      nlohmann::json::parse(R"({"firewall.admitted": 9990, "ids.alerts": 0})"));
  RunResult alone = WithCounters();
  alone.nf_counters = {{.nf = "", .name = "seen", .help = "", .value = 3}};
  EXPECT_EQ(counters(alone), nlohmann::json::parse(R"({"seen": 3})"));
}

TEST(JsonReport, SaysWhenTheRunIsNotSound) {
  RunResult result = Result();
  result.packets_released -= 1;
  result.violations = 1;
  result.violation_messages = {"order"};
  result.i6_compared = 7;
  result.i6_not_compared = 3;
  const auto json =
      nlohmann::ordered_json::parse(JsonReport(Options(), result, Info()));
  EXPECT_EQ(json["sound"], false);
  EXPECT_EQ(json["conserved"], false);
  EXPECT_EQ(json["violations"], 1);
  EXPECT_EQ(json["violation_messages"][0], "order");
  EXPECT_EQ(json["i6_compared"], 7);
  EXPECT_EQ(json["i6_not_compared"], 3);
}

// The keys of a document, where objects of which the schema knows the keys are
// left out for these.
void AddKeys(const nlohmann::ordered_json& json, const std::string& prefix,
             const std::set<std::string>& objects, std::set<std::string>& to) {
  for (const auto& [name, value] : json.items()) {
    const std::string key = prefix + name;
    if (objects.contains(key)) {
      AddKeys(value, key + ".", objects, to);
    } else {
      to.insert(key);
    }
  }
}

TEST(JsonSchema, HasTheKeysOfAReportAndNoOthers) {
  RunResult result = WithAliases();
  result.real.threads = 3;
  result.real.starts.is_pooled = true;
  result.live.ports.emplace_back();
  result.loggers.entries = 1;
  result.state.units.records_shown = 1;
  result.faults.kills = 1;
  result.controller_faults.kills = 1;
  result.cluster.controllers = 2;
  result.store.reads = 1;
  result.recovery.samples = 1;
  RunInfo info = Info();
  info.stories.emplace_back();
  std::set<std::string> in_schema;
  std::set<std::string> objects;
  for (const auto& line : nlohmann::ordered_json::parse(JsonSchema())) {
    const std::string key = line["key"];
    EXPECT_TRUE(in_schema.insert(key).second) << key;
    EXPECT_FALSE(line["type"].get<std::string>().empty()) << key;
    EXPECT_FALSE(line["help"].get<std::string>().empty()) << key;
    for (size_t i = key.find('.'); i != key.npos; i = key.find('.', i + 1)) {
      objects.insert(key.substr(0, i));
    }
  }
  std::set<std::string> in_report;
  AddKeys(nlohmann::ordered_json::parse(JsonReport(Options(), result, info)),
          "", objects, in_report);
  EXPECT_EQ(in_report, in_schema);
}

TEST(JsonSchema, SaysOfEachKeyWhatItIs) {
  const auto schema = nlohmann::ordered_json::parse(JsonSchema());
  EXPECT_EQ(schema.front(), nlohmann::ordered_json::parse(
                                R"({"key": "packets_in", "type": "integer",
                    "unit": "packets", "adds_up": "sum",
                    "metric": "snf_packets_in_total",
                    "help": "Packets taken from the capture."})"));
}

TEST(JsonReport, StandsFileNamesThatAreNotUtf8) {
  RunInfo info = Info();
  info.files = {"a\xff.pcap", "\"quoted\""};
  const auto json =
      nlohmann::ordered_json::parse(JsonReport(Options(), Result(), info));
  EXPECT_EQ(json["files"][0], "a\uFFFD.pcap");
  EXPECT_EQ(json["files"][1], "\"quoted\"");
}

}  // namespace
}  // namespace snf
