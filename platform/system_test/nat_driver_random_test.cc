// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/packet/rewrite.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/system_test/test_schedule.h"
#include "platform/system_test/test_tiny_nat.h"
#include "platform/system_test/test_tiny_nat_schedule.h"

// Random traffic through an NF with two sides, on random configurations.
// SNF_LONG_TESTS=1 runs 50 times as many; SNF_TEST_SEED=n runs the one with
// that seed.
namespace snf {
namespace {

struct Totals {
  std::map<std::string, uint64_t> counts;
  void Add(const RunResult& run) {
    counts["packets"] += run.packets_in;
    counts["released"] += run.packets_released;
    counts["moved"] += run.controller.flowlets_moved;
    counts["  pulled"] += run.state.pulled;
    counts["  messages lost"] += run.state.messages_lost;
    counts["flows over"] += run.controller.flows_over;
    counts["null packets"] += run.state.null_packets;
    counts["aliases"] += run.controller.aliases_granted;
    counts["found by alias"] += run.aliases.packets_found;
    counts["hairpinned"] += run.aliases.packets_hairpinned;
    counts["blocks"] += run.controller.pieces.blocks_granted;
    counts["requests refused"] += run.controller.pieces.requests_refused;
    counts["reclaim rounds"] += run.controller.pieces.reclaim_rounds;
    for (size_t i = 0; i < kDropReasons; ++i) {
      counts[std::string(ToString(DropReason{static_cast<uint8_t>(i)}))] +=
          run.dropped[i];
    }
  }
};

// What cannot be here.
const std::set<std::string, std::less<>> kNever = {
    "controller_failed",   "duplicate_clock",  "extension_not_read",
    "fragment_early",      "fragment_overlap", "ip_unreadable",
    "link_unreadable",     "nf_failed",        "no_upper_header",
    "packet_corrupt",      "packet_too_large", "store_silent",
    "too_many_extensions", "type_unknown",     "unit_failed"};

// What leaves has the external address on one side, and what comes in is its
// receiver's.
void ExpectTranslated(const Outcome& outcome) {
  for (const ReleasedFrame& frame : outcome.released) {
    const ParsedPacket parsed = Parse(LinkType::kEthernet, frame.bytes);
    const FlowKey key = FiveTuple(frame.bytes, parsed, false);
    if (key.source == kExternal) continue;
    ASSERT_EQ(SequenceOf(frame.bytes) & kSentToAnAlias, 0u);
    ASSERT_EQ(key.source, V4(192, 0, 2, 9));
    const uint32_t flow = FlowOf(frame.bytes);
    ASSERT_EQ(key.destination, V4(10, 0, 0, static_cast<uint8_t>(flow)));
    ASSERT_EQ(key.destination_port, be16(5000));
  }
}

void RunOne(uint64_t seed, Totals& totals) {
  Rng rng(seed);
  const Schedule any = AnyScheduleOfAsks(rng);
  const std::string_view policy = any.policy;
  const TinyNatOptions options = AnyTinyNat(rng, any.options);
  const std::vector<OfferedFrame> packets =
      AnyTinyTraffic(rng, !options.inside.empty());
  const Outcome outcome = ReplayTiny(options, packets, policy);
  EXPECT_EQ(outcome.flows_at_controller, 0u);
  EXPECT_EQ(outcome.flows_at_units, 0u);
  ExpectTranslated(outcome);
  totals.Add(outcome.run);
  if (seed % 2 == 0) {
    constexpr int64_t kDelays[] = {0, 1'000, 50'000, 3'000'000};
    TinyNatOptions logged = options;
    logged.loggers = true;
    logged.logger_delay = Nanos{kDelays[seed / 2 % 4]};
    logged.chaos.logger_loss_65536 = seed % 4 == 0 ? 8'192 : 0;
    ReplayTiny(logged, packets, policy);
    ++totals.counts["with loggers"];
  }
  if (!rng.Chance(16'384)) return;
  RunOptions unchecked = options;
  unchecked.check = false;
  ExpectSame(outcome.run,
             RunFrames(unchecked, options.nf, packets, policy).run);
  ++totals.counts["run again"];
}

TEST(NatDriverRandom, HoldsItsPromisesOnAnySchedule) {
  const TestSeeds seeds(400, 20'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    RunOne(seed, totals);
    if (HasFailure()) return;
  }
  std::cout << "seeds " << seeds.first << " to " << seeds.last << "\n";
  for (const auto& [name, count] : totals.counts) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, count);
    if (seeds.is_part) continue;
    EXPECT_GE(count, kNever.contains(name) ? 0u : 50u) << name;
  }
}

}  // namespace
}  // namespace snf
