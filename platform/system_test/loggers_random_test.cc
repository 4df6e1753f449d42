// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>
#include <string_view>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/run/run_events.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_schedule.h"
#include "platform/system_test/test_tiny_nat.h"

// Random schedules with output loggers, whose way takes from nothing to longer
// than a flowlet's gap. SNF_TEST_SEED=n runs the one with that seed;
// SNF_LONG_TESTS=1 runs 50 times as many.
namespace snf {
namespace {

// Sums over schedules, by name.
using Totals = std::map<std::string_view, uint64_t>;

class EntryCounter final : public RunObserver {
 public:
  void on_logged(Instant, UnitId, const PacketMeta&) override { ++entries; }
  uint64_t entries = 0;
};

RunOptions WithLoggers(RunOptions options, Rng& rng) {
  options.loggers = true;
  constexpr int64_t kDelays[] = {0, 1'000, 50'000, 3'000'000};
  options.logger_delay = Nanos{kDelays[rng.Below(4)]};
  if (rng.Below(2) == 0) return options;
  ChaosOptions& chaos = options.chaos;
  chaos.logger_loss_65536 = static_cast<uint32_t>(rng.Below(20'000));
  chaos.logger_duplicate_65536 = static_cast<uint32_t>(rng.Below(20'000));
  chaos.logger_delay_max = Nanos{static_cast<int64_t>(rng.Below(2'000'000))};
  return options;
}

Outcome RunLogged(const Schedule& schedule, const NfSpec& nf, Rng& rng,
                  Totals& totals) {
  EntryCounter counter;
  const Outcome outcome =
      RunFrames(WithLoggers(schedule.options, rng), nf, schedule.packets,
                schedule.policy, &counter);
  ExpectSound(outcome);
  ++totals["schedules"];
  totals["entries"] += counter.entries;
  totals["moves"] += outcome.run.controller.flowlets_moved;
  totals["pulls answered"] += outcome.run.state.answers;
  totals["pushes"] += outcome.run.state.pushes;
  totals["messages lost"] += outcome.run.state.messages_lost;
  const LoggerFigures& loggers = outcome.run.loggers;
  totals["whole deltas"] += loggers.whole;
  totals["partial deltas"] += loggers.partial;
  totals["entries lost"] += loggers.messages_lost;
  totals["entries sent again"] += loggers.sent_again;
  totals["i6 compared"] += outcome.run.i6_compared;
  return outcome;
}

// Nothing is lost, and the flows are the same, so their bytes must be.
void CompareWithoutLoggers(const Schedule& schedule, const NfSpec& nf,
                           const Outcome& logged, Totals& totals) {
  const Outcome plain =
      RunFrames(schedule.options, nf, schedule.packets, schedule.policy);
  uint64_t lost = 0;
  for (const uint64_t n : logged.run.dropped) lost += n;
  for (const uint64_t n : plain.run.dropped) lost += n;
  if (lost > 0 || plain.run.controller.flows != logged.run.controller.flows) {
    return;
  }
  EXPECT_EQ(plain.run.digest_up_to_renaming, logged.run.digest_up_to_renaming);
  EXPECT_EQ(plain.run.packets_released, logged.run.packets_released);
  ++totals["compared without loggers"];
}

template <typename RunOne>
Totals RunSeeds(uint64_t count, const RunOne& run_one) {
  const TestSeeds seeds(count, 50 * count);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    run_one(rng, totals);
    if (testing::Test::HasFailure()) break;
  }
  std::cout << fmt::format("seeds {} to {}\n", seeds.first, seeds.last);
  for (const auto& [name, sum] : totals) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, sum);
    if (!seeds.is_part) {
      EXPECT_GT(sum, 0u) << name;
    }
  }
  return totals;
}

TEST(LoggersRandom, ReleaseTheSameOfChronicle) {
  const Totals totals = RunSeeds(300, [](Rng& rng, Totals& sums) {
    Schedule schedule = AnySchedule(rng);
    schedule.nf = &TimelessChronicleNf();
    const Outcome logged = RunLogged(schedule, *schedule.nf, rng, sums);
    CompareWithoutLoggers(schedule, *schedule.nf, logged, sums);
  });
  if (TestSeeds(300).is_part) return;
  EXPECT_GE(totals.at("compared without loggers"), 60u);
  EXPECT_GE(totals.at("entries"), 10'000u);
  EXPECT_GE(totals.at("moves"), 500u);
  EXPECT_GE(totals.at("pulls answered"), 500u);
}

TEST(LoggersRandom, HoldTheirPromisesWhateverAnNfDoes) {
  const Totals totals = RunSeeds(300, [](Rng& rng, Totals& sums) {
    const Schedule schedule = AnyScheduleOfAsks(rng);
    RunLogged(schedule, *schedule.nf, rng, sums);
  });
  if (TestSeeds(300).is_part) return;
  EXPECT_GE(totals.at("entries"), 10'000u);
  EXPECT_GE(totals.at("moves"), 500u);
}

}  // namespace
}  // namespace snf
