// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "platform/report/watch/test_live.h"
#include "platform/run/figures/figures.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

// What the format allows, line by line: samples by their whole name, each below
// HELP and TYPE of its family.
std::map<std::string, std::string> Parse(const std::string& text) {
  static const std::regex kHelp("# HELP ([a-z_]+) \\S.*\\.");
  static const std::regex kType("# TYPE ([a-z_]+) (counter|gauge|summary)");
  static const std::regex kSample(
      R"re(([a-z_]+)(\{(?:,?[a-z]+="(?:[^"\\\n]|\\["\\n])*")+\})? ([\d.]+))re");
  std::map<std::string, std::string> samples;
  std::set<std::string> families;
  std::string family;
  std::string type;
  std::istringstream lines(text);
  EXPECT_EQ(text.back(), '\n');
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) {
      EXPECT_TRUE(families.insert(match[1]).second) << "twice: " << line;
      family = match[1];
      type.clear();
    } else if (std::regex_match(line, match, kType)) {
      EXPECT_EQ(match[1], family) << line;
      type = match[2];
    } else if (std::regex_match(line, match, kSample)) {
      const std::string name = match[1];
      EXPECT_FALSE(type.empty()) << line;
      EXPECT_TRUE(name == family ||
                  (type == "summary" &&
                   (name == family + "_sum" || name == family + "_count")))
          << line;
      EXPECT_EQ(type == "counter", name.ends_with("_total")) << line;
      EXPECT_TRUE(name.starts_with("snf_")) << line;
      const std::string key = name + std::string(match[2]);
      EXPECT_TRUE(samples.emplace(key, match[3]).second) << "twice: " << line;
    } else {
      ADD_FAILURE() << "no line of the format: " << line;
    }
  }
  return samples;
}

TEST(MetricsText, IsValidAndHasTheFigures) {
  LiveFigures figures = LiveFiguresAfter(21);
  figures.drops[0].packets = 7;
  const auto samples = Parse(MetricsText(MetricsOf(figures)));
  const std::map<std::string, std::string> wanted = {
      {"snf_run_seconds", "10.500000000"},
      {"snf_packets_in_total", "10500"},
      {"snf_packets_released_total", "10490"},
      {"snf_packets_dropped_total{reason=\"unit_queue_full\"}", "7"},
      {"snf_packets_dropped_total{reason=\"nf:denied\"}", "0"},
      {"snf_packets_under_way", "3"},
      {"snf_received_bytes_total", "1312500"},
      {"snf_flows_begun_total", "210"},
      {"snf_flowlets_handed_over_total{how=\"pulled\"}", "84"},
      {"snf_unit_starts_total{how=\"cold\"}", "2"},
      {"snf_units_up", "2"},
      {"snf_unit_capacity_bytes_per_second", "125000"},
      {"snf_unit_packets_total{unit=\"1\"}", "4200"},
      {"snf_packet_latency_seconds{quantile=\"0.99\"}", "0.001760000"},
      {"snf_packet_latency_seconds_sum", "1.500000042"},
      {"snf_packet_latency_seconds_count", "10490"},
      {"snf_schedule_error_seconds{quantile=\"1\"}", "0.000040000"}};
  for (const auto& [name, value] : wanted) {
    ASSERT_TRUE(samples.contains(name)) << name;
    EXPECT_EQ(samples.at(name), value) << name;
  }
}

TEST(MetricsText, HasEachFigureThatIsAMetric) {
  LiveFigures figures;
  uint64_t count = 100;
  for (const Figure& figure : Figures()) {
    if (!figure.metric.name.empty()) figures.counts[figure.place] = ++count;
  }
  const auto samples = Parse(MetricsText(MetricsOf(figures)));
  count = 100;
  for (const Figure& figure : Figures()) {
    const FigureMetric& metric = figure.metric;
    if (metric.name.empty()) continue;
    std::string name(metric.name);
    if (!metric.label.empty()) {
      name += "{" + std::string(metric.label) + "=\"" +
              std::string(metric.label_value) + "\"}";
    }
    ASSERT_TRUE(samples.contains(name)) << name;
    EXPECT_EQ(samples.at(name), std::to_string(++count)) << name;
  }
  EXPECT_GT(count, 110u);
}

TEST(MetricsOf, GivesASummaryItsQuantilesSumAndCount) {
  const std::vector<MetricFamily> metrics = MetricsOf(LiveFiguresAfter(21));
  const auto latency = std::ranges::find(metrics, "snf_packet_latency_seconds",
                                         &MetricFamily::name);
  ASSERT_NE(latency, metrics.end());
  EXPECT_EQ(latency->type, MetricFamily::Type::kSummary);
  ASSERT_EQ(latency->samples.size(), 5u);
  const MetricSample& p99 = latency->samples[1];
  EXPECT_THAT(p99.labels, ElementsAre(Pair("quantile", "0.99")));
  EXPECT_EQ(p99.value, 1'760'000u);
  EXPECT_EQ(p99.per_unit, 1'000'000'000u);
  EXPECT_EQ(latency->samples[3].suffix, "_sum");
  EXPECT_EQ(latency->samples[4].value, 10'490u);
  EXPECT_EQ(latency->samples[4].per_unit, 1u);
}

TEST(MetricsText, IsValidBeforeTheFirstPacket) {
  const auto samples = Parse(MetricsText(MetricsOf(LiveFigures())));
  EXPECT_EQ(samples.at("snf_packets_in_total"), "0");
}

TEST(MetricsText, SaysNothingOfWhatARunHasNot) {
  LiveFigures figures = LiveFiguresAfter(21);
  figures.unit_capacity_bps.reset();
  figures.late = {};
  const std::string text = MetricsText(MetricsOf(figures));
  Parse(text);
  EXPECT_THAT(text, Not(HasSubstr("capacity")));
  EXPECT_THAT(text, Not(HasSubstr("schedule")));
}

TEST(MetricsText, HasEveryCountOfAPort) {
  LiveFigures figures = LiveFiguresAfter(21);
  PortFigures& port = figures.live.ports.emplace_back();
  port.name = "inside";
  uint64_t next = 1;
  for (const PortCount& count : PortCounts()) port.*count.count = next++;
  const auto samples = Parse(MetricsText(MetricsOf(figures)));
  next = 1;
  for (const PortCount& count : PortCounts()) {
    const std::string name = std::string(count.metric) + "{port=\"inside\"}";
    ASSERT_TRUE(samples.contains(name)) << name;
    EXPECT_EQ(samples.at(name), std::to_string(next++));
  }
}

TEST(MetricsText, HasTheFiguresOfEachPort) {
  LiveFigures figures = LiveFiguresAfter(21);
  EXPECT_THAT(MetricsText(MetricsOf(figures)), Not(HasSubstr("snf_port_")));
  PortFigures inside;
  inside.name = "inside";
  inside.received = 12;
  inside.sent = 3;
  PortFigures outside;
  outside.name = "outside";
  outside.refused = 4;
  outside.kernel_drops = 5;
  outside.send_drops = 6;
  outside.too_long = 2;
  outside.down = Seconds(3);
  inside.router = {{"other_mac", 8}, {"no_route", 0}};
  outside.router = {{"other_mac", 0}, {"no_route", 9}};
  figures.live.ports = {inside, outside};
  figures.live.copies = 7;
  const auto samples = Parse(MetricsText(MetricsOf(figures)));
  const auto of = [&](const std::string& what, const std::string& port) {
    return samples.at("snf_port_" + what + "_total{port=\"" + port + "\"}");
  };
  EXPECT_EQ(of("received_packets", "inside"), "12");
  EXPECT_EQ(of("sent_packets", "inside"), "3");
  EXPECT_EQ(of("refused_frames", "outside"), "4");
  EXPECT_EQ(of("kernel_dropped_frames", "outside"), "5");
  EXPECT_EQ(of("send_dropped_packets", "outside"), "6");
  EXPECT_EQ(of("send_dropped_packets", "inside"), "0");
  EXPECT_EQ(of("too_long_packets", "outside"), "2");
  const auto router = [&](const std::string& labels) {
    return samples.at("snf_port_router_total{" + labels + "}");
  };
  EXPECT_EQ(router("port=\"inside\",what=\"other_mac\""), "8");
  EXPECT_EQ(router("port=\"outside\",what=\"no_route\""), "9");
  EXPECT_EQ(samples.at("snf_port_up{port=\"inside\"}"), "1");
  EXPECT_EQ(samples.at("snf_port_up{port=\"outside\"}"), "0");
  EXPECT_EQ(samples.at("snf_packet_copies_total"), "7");
}

TEST(MetricsText, HasTheStatesOfObjectsThatNfsWatch) {
  LiveFigures figures = LiveFiguresAfter(21);
  EXPECT_THAT(MetricsText(MetricsOf(figures)), Not(HasSubstr("snf_nf_object")));
  figures.nf_objects = {
      {.nf = "lb", .object = "a", .state = "up"},
      {.nf = "lb", .object = "b", .state = "down", .age = Milliseconds(1'500)}};
  const auto samples = Parse(MetricsText(MetricsOf(figures)));
  const std::string state = "snf_nf_object_state{nf=\"lb\",object=";
  EXPECT_EQ(samples.at(state + "\"a\",state=\"up\"}"), "1");
  EXPECT_EQ(samples.at(state + "\"b\",state=\"down\"}"), "1");
  const std::string age = "snf_nf_object_state_seconds{nf=\"lb\",object=";
  EXPECT_EQ(samples.at(age + "\"b\"}"), "1.500000000");
  EXPECT_FALSE(samples.contains(age + "\"a\"}"));
}

TEST(MetricsText, HasTheUnitsOfAllChainsOnEachHost) {
  LiveFigures figures = LiveFiguresAfter(21);
  EXPECT_THAT(MetricsText(MetricsOf(figures)), Not(HasSubstr("snf_host_")));
  figures.hosts = {{.name = "b", .address = "", .state = "joined"},
                   {.name = "c", .address = "", .state = "silent"}};
  figures.units = {};
  figures.chains = {{.nf = "monitor",
                     .name = "dns",
                     .units = {{.id = UnitId{0}, .is_up = true, .host = "b"},
                               {.id = UnitId{1}, .host = "b"}}},
                    {.nf = "monitor",
                     .name = "rest",
                     .units = {{.id = UnitId{0}, .is_up = true, .host = "b"},
                               {.id = UnitId{1}, .is_up = true, .host = "c"}}}};
  const auto samples = Parse(MetricsText(MetricsOf(figures)));
  EXPECT_EQ(samples.at("snf_host_units_up{host=\"b\"}"), "2");
  EXPECT_EQ(samples.at("snf_host_units_up{host=\"c\"}"), "1");
  EXPECT_EQ(samples.at("snf_host_joined{host=\"b\"}"), "1");
  EXPECT_EQ(samples.at("snf_host_joined{host=\"c\"}"), "0");
}

TEST(MetricsText, HasTheTableOfAGroup) {
  LiveFigures figures = LiveFiguresAfter(21);
  EXPECT_THAT(MetricsText(MetricsOf(figures)), Not(HasSubstr("snf_group_")));
  figures.group = {
      .name = "edge",
      .state = "active",
      .epoch = 7,
      .controllers = 3,
      .members = {{.number = 2, .name = "d", .address = "", .hosts_1000 = 512}},
      .counts = {{"forwarded", 9}, {"states_kept", 5}, {"states_sent", 8}}};
  auto samples = Parse(MetricsText(MetricsOf(figures)));
  EXPECT_EQ(samples.at("snf_group_epoch"), "7");
  EXPECT_EQ(samples.at("snf_group_active"), "1");
  EXPECT_EQ(samples.at("snf_group_hosts_thousandths{controller=\"2\"}"), "512");
  EXPECT_EQ(samples.at("snf_group_frames_total{what=\"forwarded\"}"), "9");
  EXPECT_EQ(samples.at("snf_group_states{what=\"kept\"}"), "5");
  EXPECT_EQ(samples.at("snf_group_states_total{what=\"sent\"}"), "8");
  figures.group->state = "joining";
  samples = Parse(MetricsText(MetricsOf(figures)));
  EXPECT_EQ(samples.at("snf_group_active"), "0");
}

TEST(MetricsText, TellsWhetherEtcdAndAManagerAnswerIfTheyAreAsked) {
  LiveFigures figures = LiveFiguresAfter(21);
  EXPECT_THAT(MetricsText(MetricsOf(figures)), Not(HasSubstr("snf_etcd_up")));
  EXPECT_THAT(MetricsText(MetricsOf(figures)),
              Not(HasSubstr("snf_manager_up")));
  figures.etcd = Outage::State();
  figures.manager = {.away = Seconds(9), .why = "Connection refused"};
  const auto samples = Parse(MetricsText(MetricsOf(figures)));
  EXPECT_EQ(samples.at("snf_etcd_up"), "1");
  EXPECT_EQ(samples.at("snf_manager_up"), "0");
}

TEST(MetricsText, EscapesWhatAReasonIsCalled) {
  LiveFigures figures = LiveFiguresAfter(21);
  figures.drops[2].name = "nf:\"a\\b\"\n";
  const auto samples = Parse(MetricsText(MetricsOf(figures)));
  EXPECT_TRUE(
      samples.contains(R"(snf_packets_dropped_total{reason="nf:\"a\\b\"\n"})"));
}

}  // namespace
}  // namespace snf
