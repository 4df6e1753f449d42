// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/replay/side_by_side.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/system_test/test_run.h"

namespace snf {
namespace {

class Recorder final : public RunObserver {
 public:
  void on_release(const ReleasedPacket& packet) override {
    released.push_back({.time = packet.time,
                        .bytes = {packet.bytes.begin(), packet.bytes.end()},
                        .original_length = packet.original_length,
                        .link = packet.link});
  }
  std::vector<ReleasedFrame> released;
};

struct ChainsRun {
  std::vector<RunResult> chains;
  std::vector<ReleasedFrame> released;
  uint64_t without_chain = 0;
};

ChainsRun RunChains(const std::string& text, const RunOptions& options,
                    const std::vector<OfferedFrame>& packets) {
  const absl::StatusOr<Config> config = ParseConfig(text, "test");
  EXPECT_TRUE(config.ok()) << config.status();
  Recorder recorder;
  auto made = SideBySide::Make(*config, options, *FindPlacementPolicy("snf"),
                               &recorder);
  EXPECT_TRUE(made.ok()) << made.status();
  for (const OfferedFrame& packet : packets) {
    (*made)->Offer(
        {.time = packet.time,
         .bytes = packet.bytes,
         .original_bytes = static_cast<uint32_t>(packet.bytes.size())});
  }
  ChainsRun run = {.chains = (*made)->Finish(), .released = {}};
  run.released = std::move(recorder.released);
  run.without_chain = (*made)->packets_without_chain();
  uint64_t packets_in = run.without_chain;
  for (const RunResult& chain : run.chains) {
    EXPECT_TRUE(chain.conserved());
    EXPECT_EQ(chain.violations, 0u);
    packets_in += chain.packets_in;
  }
  EXPECT_EQ(packets_in, packets.size());
  EXPECT_TRUE(std::ranges::is_sorted(run.released, {}, &ReleasedFrame::time));
  return run;
}

OfferedFrame Udp(int64_t ns, uint32_t flow, uint32_t sequence, bool back) {
  return {.time = Instant{ns},
          .bytes = UdpFrame(
              {.flow = flow, .sequence = sequence, .from_responder = back})};
}

constexpr char kByHost[] = R"(
chain { name: "a" text: "chronicle" }
chain { name: "b" text: "passthrough" }
rule { match: "any from 10.0.0.2 to any" chain: "b" }
rule { match: "any from 10.0.0.0/30 to any" chain: "a" }
)";

TEST(SideBySide, TakesBothDirectionsOfAConnectionToOneChain) {
  const ChainsRun run = RunChains(
      kByHost, SmallTables(),
      {Udp(0, 1, 0, false), Udp(1'000, 2, 0, false), Udp(2'000, 1, 1, true),
       Udp(3'000, 2, 1, true), Udp(4'000, 9, 0, false)});
  EXPECT_EQ(run.chains[0].packets_in, 2u);
  EXPECT_EQ(run.chains[1].packets_in, 2u);
  EXPECT_EQ(run.without_chain, 1u);
  EXPECT_EQ(run.released.size(), 4u);
}

// Each chain does what it would have done alone.
TEST(SideBySide, LetsNoChainFeelTheOthers) {
  const TestSeeds seeds(30);
  uint64_t moved = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    RunOptions options = SmallTables();
    options.controller.unit_capacity_bps = rng.Uniform(1'000'000, 50'000'000);
    options.controller.flowlet_timeout = Nanos{rng.Uniform(1'000, 1'000'000)};
    options.controller.max_units = 8;
    std::vector<OfferedFrame> all;
    std::vector<std::vector<OfferedFrame>> alone(2);
    int64_t time = 0;
    for (uint32_t i = 0; i < 400; ++i) {
      time += rng.Exponential(100'000);
      const auto flow = static_cast<uint32_t>(rng.Below(4));
      all.push_back(Udp(time, flow, i, rng.Chance(20'000)));
      alone[flow == 2 ? 1 : 0].push_back(all.back());
    }
    const ChainsRun run = RunChains(kByHost, options, all);
    EXPECT_EQ(run.without_chain, 0u);
    std::vector<ReleasedFrame> expected;
    for (size_t i = 0; i < 2; ++i) {
      const Outcome outcome = RunFrames(
          options, *FindNf(i == 0 ? "chronicle" : "passthrough"), alone[i]);
      ExpectSame(run.chains[i], outcome.run);
      moved += outcome.run.controller.flowlets_moved;
      expected.insert(expected.end(), outcome.released.begin(),
                      outcome.released.end());
    }
    std::ranges::stable_sort(expected, {}, &ReleasedFrame::time);
    EXPECT_EQ(run.released, expected);
    if (HasFailure()) return;
  }
  std::cout << "seeds from " << seeds.first << ": " << moved << " moved\n";
  if (!seeds.is_part) {
    EXPECT_GE(moved, 116u);
  }
}

TEST(SideBySide, GivesAChainTheSizesThatItAsksFor) {
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < 2'000; ++i) {
    packets.push_back(Udp(int64_t{i} * 10'000, i % 4, i, false));
  }
  RunOptions options = SmallTables();
  options.controller.unit_capacity_bps = 5'000'000;
  options.controller.unit_queue_packets = 64;
  options.controller.start_buffer_packets = 64;
  options.hold_packets = 64;
  const ChainsRun run = RunChains(R"(
chain { name: "small" text: "passthrough" max_units: 1 }
chain { name: "fast" text: "passthrough" unit_capacity: "10Gbps" }
chain { name: "as_given" text: "passthrough" }
rule { match: "any from 10.0.0.1 to any" chain: "small" }
rule { match: "any from 10.0.0.2 to any" chain: "fast" }
default_chain: "as_given")",
                                  options, packets);
  EXPECT_EQ(run.chains[0].units_max, 1u);
  EXPECT_EQ(run.chains[1].units_max, 1u);
  EXPECT_GT(run.chains[0].packets_dropped(), 0u);
  EXPECT_EQ(run.chains[1].packets_dropped(), 0u);
  EXPECT_GT(run.chains[2].units_max, 1u);
}

}  // namespace
}  // namespace snf
