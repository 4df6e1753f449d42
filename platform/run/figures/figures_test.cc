// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures/figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/counters.h"
#include "controller/core/controller_counters.h"

namespace snf {
namespace {

const Figure& FigureOf(std::string_view key) {
  const auto figure = std::ranges::find(Figures(), key, &Figure::key);
  EXPECT_NE(figure, Figures().end()) << key;
  return *figure;
}

TEST(Figures, HaveDifferentKeysPlacesAndMetrics) {
  std::set<std::string> keys;
  std::set<std::pair<std::string, std::string>> metrics;
  for (const Figure& figure : Figures()) {
    EXPECT_TRUE(keys.insert(std::string(figure.key)).second) << figure.key;
    EXPECT_TRUE(figure.help.ends_with('.')) << figure.key;
    if (figure.place.index() != 0) {
      EXPECT_EQ(std::ranges::count(Figures(), figure.place, &Figure::place), 1)
          << figure.key;
    } else {
      EXPECT_FALSE(figure.unit.empty()) << figure.key;
    }
    if (figure.metric.name.empty()) continue;
    EXPECT_TRUE(figure.metric.name.starts_with("snf_")) << figure.key;
    EXPECT_EQ(figure.metric.name.ends_with("_total"),
              figure.adds == AddUp::kSum)
        << figure.key;
    EXPECT_TRUE(
        metrics.emplace(figure.metric.name, figure.metric.label_value).second)
        << figure.key;
  }
}

TEST(Figures, AreReadWhereTheyAreCounted) {
  RunResult result;
  result.state.units.replicas_taken = 7;
  result.controller.pieces.blocks_granted = 8;
  result.held_packets_max = 9;
  ReportFigures derived;
  derived.capacity_used = 0.5;
  const auto value = [&](std::string_view key) {
    return ValueOf(FigureOf(key), result, derived);
  };
  EXPECT_EQ(value("replicas_taken"), FigureValue(uint64_t{7}));
  EXPECT_EQ(value("pools.blocks_granted"), FigureValue(uint64_t{8}));
  EXPECT_EQ(value("held_packets_max"), FigureValue(uint64_t{9}));
  EXPECT_EQ(value("capacity_used"), FigureValue(0.5));
  EXPECT_EQ(value("latency_ns"), FigureValue(&result.latency_ns));
  EXPECT_EQ(value("digest"), FigureValue());
}

TEST(Figures, HaveAllThatIsCountedOfSuccessions) {
  using Words =
      std::array<uint64_t, sizeof(SuccessionCounters) / sizeof(uint64_t)>;
  Words counts{};
  std::iota(counts.begin(), counts.end(), uint64_t{1});
  RunResult result;
  AddCounters<SuccessionCounters>(result.controller_faults,
                                  std::bit_cast<SuccessionCounters>(counts));
  for (const uint64_t count : counts) {
    EXPECT_EQ(std::ranges::count_if(
                  Figures(),
                  [&](const Figure& figure) {
                    return figure.key.starts_with("controller_faults.") &&
                           ValueOf(figure, result, {}) == FigureValue(count);
                  }),
              1)
        << "counter " << count;
  }
}

TEST(Figures, AreShownOfRunsThatHaveThem) {
  RunResult result;
  for (const char* key : {"real.threads", "aliases.granted", "pools.pools",
                          "loggers.whole", "host_records.read"}) {
    EXPECT_FALSE(IsShown(FigureOf(key), result)) << key;
  }
  result.real.threads = 2;
  result.aliases = {.has_sides = true, .pools = 1};
  result.loggers.entries = 1;
  result.state.units.records_shown = 1;
  for (const char* key : {"real.threads", "aliases.granted", "pools.pools",
                          "loggers.whole", "host_records.read"}) {
    EXPECT_TRUE(IsShown(FigureOf(key), result)) << key;
  }
  EXPECT_FALSE(IsShown(FigureOf("(flows_ended)"), result));
  // Units that found nothing have looked.
  result.state.units = {};
  result.state.units.records_missed.back() = 1;
  EXPECT_TRUE(IsShown(FigureOf("host_records.read"), result));
}

TEST(FigureCounts, CopyWhatHasBeenCounted) {
  RunResult result;
  result.packets_in = 3;
  result.controller.flows_ended = 4;
  result.aliases.packets_hairpinned = 5;
  FigureCounts counts(result);
  EXPECT_EQ(counts[&RunResult::packets_in], 3u);
  EXPECT_EQ(counts[&ControllerCounters::flows_ended], 4u);
  EXPECT_EQ(counts.of(FigureOf("aliases.packets_hairpinned")), 5u);
  counts[&StateCounters::pulled] += 6;
  EXPECT_EQ(counts.of(FigureOf("flowlets_pulled")), 6u);
}

}  // namespace
}  // namespace snf
