// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/simulate/flow_traffic.h"

#include <cstdint>
#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

FlowTraffic::Options OptionsOf(int64_t rate_bps, const char* flow_rate,
                               const char* flow_duration, uint64_t seed = 1) {
  return {.controllers = 4,
          .rate_bps = rate_bps,
          .flow_rate =
              *Distribution::Parse(flow_rate, Distribution::Unit::kBitRate),
          .flow_duration =
              *Distribution::Parse(flow_duration, Distribution::Unit::kTime),
          .seed = seed};
}

// Loads by controller, over time.
struct Seen {
  std::vector<double> bits = std::vector<double>(4);
  int64_t least_bps = 0;
  uint64_t changes = 0;
};

Seen Watch(const FlowTraffic::Options& options, Instant end) {
  FlowTraffic traffic = *FlowTraffic::Create(options);
  Seen seen;
  std::vector<int64_t> load(4);
  Instant last{};
  for (;;) {
    const FlowTraffic::Change change = traffic.Next(end);
    EXPECT_GE(change.time, last);
    const double seconds = static_cast<double>((change.time - last).ns) * 1e-9;
    for (size_t c = 0; c < 4; ++c) {
      seen.bits[c] += static_cast<double>(load[c]) * seconds;
    }
    last = change.time;
    if (change.time == end) return seen;
    ++seen.changes;
    load[change.controller] += change.bps;
    seen.least_bps = std::min(seen.least_bps, load[change.controller]);
  }
}

TEST(FlowTraffic, HasTheWantedRateFromTheFirstMomentOn) {
  const auto options =
      OptionsOf(40'000'000'000, "uniform(1Mbps, 3Mbps)", "exp(100ms)");
  for (const Nanos duration : {Milliseconds(5), Seconds(2)}) {
    const Seen seen = Watch(options, Instant{} + duration);
    for (const double bits : seen.bits) {
      EXPECT_NEAR(bits / (static_cast<double>(duration.ns) * 1e-9) / 1e10, 1,
                  0.05);
    }
    EXPECT_EQ(seen.least_bps, 0);  // what ends has begun
  }
}

TEST(FlowTraffic, EndsAFlowByItsDuration) {
  // At any time 100 flows of 1 ms; each begins and ends at a controller.
  FlowTraffic traffic =
      *FlowTraffic::Create(OptionsOf(100'000'000, "1Mbps", "1ms"));
  std::map<Instant, int> begun;
  int at_start = 0;
  int ended = 0;
  Instant last_end{};
  const Instant end{Milliseconds(50).ns};
  for (auto change = traffic.Next(end); change.time < end;
       change = traffic.Next(end)) {
    if (change.bps > 0) {
      change.time == Instant{} ? ++at_start : ++begun[change.time];
      continue;
    }
    EXPECT_EQ(change.bps, -1'000'000);
    ++ended;
    if (ended <= at_start) {
      EXPECT_LE(change.time.ns, 1'033'000);
      continue;
    }
    const int64_t lasted = (change.time - begun.begin()->first).ns;
    EXPECT_GE(lasted, 1'000'000);
    EXPECT_LE(lasted, 1'033'000);
    if (--begun.begin()->second == 0) begun.erase(begun.begin());
    EXPECT_GE(change.time, last_end);
    last_end = change.time;
  }
  EXPECT_EQ(at_start, 100);
  EXPECT_GT(ended, 4'000);
}

TEST(FlowTraffic, IsTheSameBySeed) {
  const auto once = OptionsOf(1'000'000'000, "exp(2Mbps)", "exp(10ms)", 7);
  const auto other = OptionsOf(1'000'000'000, "exp(2Mbps)", "exp(10ms)", 8);
  const Instant end{Milliseconds(100).ns};
  EXPECT_EQ(Watch(once, end).bits, Watch(once, end).bits);
  EXPECT_NE(Watch(once, end).bits, Watch(other, end).bits);
}

TEST(FlowTraffic, RefusesMoreFlowsThanItHoldsByNumber) {
  const auto made =
      FlowTraffic::Create(OptionsOf(1'000'000'000'000'000, "1Mbps", "1s"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().message(),
            "1,000 Tbit/s would be 1,000,000,000 flows at a time, above "
            "8,388,608: use flows of a higher rate");
}

TEST(FlowTraffic, RefusesLessThanAFlowInAnHour) {
  const auto made = FlowTraffic::Create(OptionsOf(1'000, "5Gbps", "1h"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().message(),
            "1.00 kbit/s would be less than a flow in an hour: use slower or "
            "shorter flows");
}

}  // namespace
}  // namespace snf
