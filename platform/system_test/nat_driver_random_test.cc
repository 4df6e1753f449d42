// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "base/packet/rewrite.h"
#include "base/rng.h"
#include "platform/system_test/test_schedule.h"
#include "platform/system_test/test_tiny_nat.h"

// Random traffic through an NF with two sides, on random configurations.
// SNF_LONG_TESTS=1 runs 50 times as many; SNF_TEST_SEED=n runs the one with
// that seed.
namespace snf {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kSentToAnAlias = 1 << 30;  // a bit of the sequence number

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
    "duplicate_clock", "fragment_early", "packet_corrupt", "packet_too_large",
    "unit_failed"};

// Of a schedule of another NF, made one of this.
TinyNatOptions AnyTinyNat(Rng& rng, RunOptions options) {
  options.flow.kind = FlowKeyKind::kConnection;
  options.flow.vlan = false;
  if (options.controller.flow_timeout == Nanos::max()) {
    options.controller.flow_timeout = Seconds(2);
  }
  // Small pools: what is there is somewhere else.
  const int64_t ports =
      rng.Chance(32'768) ? rng.Uniform(1, 24) : rng.Uniform(30, 1'000);
  std::string text = fmt::format("first=1024,last={}", 1023 + ports);
  if (rng.Chance(10'000)) text += fmt::format(",limit={}", rng.Uniform(1, 8));
  if (rng.Chance(4'000)) text += ",one_alias=true";
  if (rng.Chance(20'000)) options.inside = *ParsePrefixes("10.0.0.0/8");
  return {options, NfSpec(TinyNat(), *NfOptions::Parse(text))};
}

// Whoever is inside sends something before anything is sent to it, unless the
// prefix tells.
std::vector<OfferedFrame> AnyTinyTraffic(Rng& rng, bool has_inside) {
  const auto hosts = static_cast<uint64_t>(rng.Uniform(1, 40));
  const int64_t gap = rng.Chance(32'768) ? 20'000 : 500'000;
  std::vector<OfferedFrame> packets;
  std::set<uint32_t> known;
  int64_t time = 0;
  for (uint32_t i = 0; i < 250; ++i) {
    time += rng.Exponential(rng.Chance(1'500) ? 20 * kMs : gap);
    FrameFields fields = {.flow = static_cast<uint32_t>(rng.Below(hosts)),
                          .sequence = i};
    const bool is_known = !known.insert(fields.flow).second || has_inside;
    fields.from_responder = is_known && rng.Chance(26'000);
    if (rng.Chance(4'000)) fields.ask = rng.Chance(32'768) ? kEnd : kBrief;
    const bool to_alias =
        is_known && !fields.from_responder && rng.Chance(4'000);
    if (to_alias) fields.sequence |= kSentToAnAlias;
    Frame frame = UdpFrame(fields);
    if (to_alias) {
      const auto port = static_cast<uint16_t>(1024 + rng.Below(hosts));
      RewriteDestination(frame, Parse(LinkType::kEthernet, frame),
                         kExternal.ipv4(), be16(port));
    }
    packets.push_back({.time = Instant{time}, .bytes = std::move(frame)});
  }
  return packets;
}

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
    const bool is_compared = ExpectSameWithLoggers(
        options, Nanos{kDelays[seed / 2 % 4]}, packets, policy, outcome);
    ++totals.counts["with loggers"];
    totals.counts["with loggers, compared"] += is_compared ? 1 : 0;
  }
  if (!rng.Chance(16'384)) return;
  RunOptions unchecked = options;
  unchecked.check = false;
  ExpectSame(outcome.run,
             RunFrames(unchecked, options.nf, packets, policy).run);
  ++totals.counts["run again"];
}

TEST(NatDriverRandom, HoldsItsPromisesOnAnySchedule) {
  const char* const long_tests = std::getenv("SNF_LONG_TESTS");
  const bool is_long = long_tests != nullptr && *long_tests == '1';
  const char* const one_seed = std::getenv("SNF_TEST_SEED");
  const uint64_t first =
      one_seed != nullptr ? std::strtoull(one_seed, nullptr, 10) : 1;
  const uint64_t runs = one_seed != nullptr ? 1 : is_long ? 20'000 : 400;
  Totals totals;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE(fmt::format("SNF_TEST_SEED={}", seed));
    RunOne(seed, totals);
    if (HasFailure()) return;
  }
  std::cout << "seeds " << first << " to " << first + runs - 1 << "\n";
  for (const auto& [name, count] : totals.counts) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, count);
    if (one_seed != nullptr) continue;
    EXPECT_GE(count, kNever.contains(name) ? 0u : 50u) << name;
  }
}

}  // namespace
}  // namespace snf
