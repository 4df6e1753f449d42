// SPDX-License-Identifier: Apache-2.0
//
// Runs in real time in which the controller fails under load (F9), by chance.
// SNF_TEST_SEED=n says from what seed on; a failure names it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/packet/ip_prefix.h"
#include "controller/core/controller_counters.h"
#include "controller/core/placement.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/drivers/real_time/test_by_flow.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"

namespace snf {
namespace {

constexpr int64_t kStart = 1'700'000'000'000'000'000;

uint64_t FirstSeed() {
  const char* const chosen = std::getenv("SNF_TEST_SEED");
  return chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 1;
}

std::vector<OfferedFrame> Packets(uint32_t packets, uint32_t flows) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < packets; ++i) {
    frames.push_back(
        {.time = Instant{kStart + i * int64_t{10'000}},
         .bytes = UdpFrame({.flow = i % flows, .sequence = i / flows})});
  }
  return frames;
}

// A run whose controller fails with one packet of so many.
RunResult RunFailing(RunOptions options, uint32_t threads, uint64_t seed,
                     uint32_t packets_a_failure, const NfSpec& nf,
                     std::span<const OfferedFrame> frames,
                     RunObserver* observer, std::string_view policy) {
  options.loggers = true;
  options.controller.seed = seed;
  options.faults.kills = {{.victim = Kill::Victim::kController,
                           .chance_65536 = 65'536 / packets_a_failure}};
  auto driver =
      RealDriver::Start(options,
                        {.speed = {.kind = Speed::Kind::kMax, .value = 0},
                         .threads = threads,
                         .buffers = {.small = 4'096, .medium = 16, .large = 4},
                         .unpaced = true,
                         .wait_for_room = true},
                        *FindPlacementPolicy(policy), nf, {observer});
  EXPECT_TRUE(driver.ok()) << driver.status();
  for (const OfferedFrame& frame : frames) {
    (*driver)->Offer(
        {.time = frame.time,
         .bytes = frame.bytes,
         .original_bytes = static_cast<uint32_t>(frame.bytes.size())});
  }
  RunResult result = (*driver)->Finish();
  EXPECT_EQ((*driver)->buffers_in_use(), 0u);
  EXPECT_TRUE(result.conserved());
  EXPECT_THAT(result.violation_messages, testing::IsEmpty());
  const ControllerFaultFigures& faults = result.controller_faults;
  EXPECT_EQ(result.dropped[static_cast<size_t>(DropReason::kControllerFailed)],
            faults.packets_lost);
  EXPECT_EQ(faults.recovery_ns.count(), faults.kills);
  EXPECT_EQ(faults.flows_unnamed, 0u);
  EXPECT_EQ(result.controller.pieces.pieces_faulty, 0u);
  std::cout << fmt::format(
      "seed {}: {} controllers failed, with {} packets and {} clocks; {} "
      "flows found, {} tombstones, {} redirects, {} aliases withdrawn, {} "
      "packets waited; p50 {} us\n",
      seed, faults.kills, faults.packets_lost, faults.clocks_lost, faults.flows,
      faults.tombstones, faults.redirects, faults.aliases_withdrawn,
      faults.packets_waited, faults.recovery_ns.Quantile(50'000) / 1'000);
  return result;
}

class RealControllersOnThreads : public testing::TestWithParam<uint32_t> {};

TEST_P(RealControllersOnThreads, LoseNoFlowThatHasLostNothing) {
  const uint64_t seed = FirstSeed();
  SCOPED_TRACE(fmt::format("SNF_TEST_SEED={}", seed));
  const auto frames = Packets(10'000, 300);
  RunOptions options = SmallTables();
  options.controller.flow_timeout = Nanos::max();
  options.controller.max_units = 1;
  ByFlow whole;
  const Outcome one =
      RunFrames(options, TimelessChronicleNf(), frames, "snf", &whole);
  options.controller.max_units = 16;
  ByFlow by_flow;
  const RunResult result =
      RunFailing(options, GetParam(), seed, 500, TimelessChronicleNf(), frames,
                 &by_flow, "rotate");
  const ControllerFaultFigures& faults = result.controller_faults;
  EXPECT_EQ(result.packets_released + faults.packets_lost, 10'000u);
  EXPECT_GE(faults.kills, 8u);
  EXPECT_GE(faults.packets_lost, 20u);
  EXPECT_GE(faults.flows, 2'000u);
  EXPECT_GE(by_flow.CompareWith(whole), 30u);
}

TEST_P(RealControllersOnThreads, LeaveEachPortToOneFlow) {
  const uint64_t seed = FirstSeed();
  SCOPED_TRACE(fmt::format("SNF_TEST_SEED={}", seed));
  const auto frames = Packets(10'000, 100);
  RunOptions options = SmallTables();
  options.controller.flow_timeout = Nanos::max();
  options.inside = *ParsePrefixes("10.0.0.0/8");
  options.controller.max_units = 16;
  ByFlow by_flow;
  const RunResult result =
      RunFailing(options, GetParam(), seed, 500,
                 *NfSpec::Parse("firewall | nat(ip=203.0.113.1)"), frames,
                 &by_flow, "rotate");
  by_flow.ExpectOneFlowForEachPort();
  EXPECT_EQ(by_flow.ports(), 100u);
  EXPECT_GE(result.controller_faults.kills, 5u);
  EXPECT_EQ(result.packets_released + result.controller_faults.packets_lost,
            10'000u);
}

// Ports are taken and given back, flows end, and answers come by alias.
RunResult RunTinyNatFailing(uint32_t threads, uint64_t seed) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < 6'000; ++i) {
    frames.push_back({.time = Instant{kStart + i * int64_t{20'000}},
                      .bytes = UdpFrame({.flow = i / 3 % 40,
                                         .sequence = i,
                                         .from_responder = i % 3 == 2})});
  }
  TinyNatOptions options = TinyNatTables();
  options.inside = *ParsePrefixes("10.0.0.0/8");
  options.controller.max_units = 16;
  return RunFailing(options, threads, seed, 300, options.nf, frames, nullptr,
                    "rotate");
}

TEST_P(RealControllersOnThreads, TranslateAnswersOfFlowsThatTheyFound) {
  const uint64_t seed = FirstSeed();
  SCOPED_TRACE(fmt::format("SNF_TEST_SEED={}", seed));
  const RunResult result = RunTinyNatFailing(GetParam(), seed);
  EXPECT_GE(result.controller_faults.kills, 5u);
  EXPECT_GE(result.aliases.packets_found, 1'900u);
  EXPECT_EQ(result.controller.pieces.pieces_out, 0u);
}

// A flow moves while a clock of it is lost in some of these runs: how many
// depends on the threads.
TEST(RealControllers, CountAllThatSuccessorsSend) {
  SuccessionCounters sum;
  const uint64_t first = FirstSeed();
  for (uint64_t seed = first; seed < first + 50 && sum.redirects == 0; ++seed) {
    const RunResult result = RunTinyNatFailing(6, seed);
    AddCounters<SuccessionCounters>(sum, result.controller_faults);
  }
  EXPECT_GT(sum.redirects, 0u);
  EXPECT_GT(sum.tombstones, 0u);
}

// With timers and packets of the NF's own.
TEST_P(RealControllersOnThreads, EndWhateverBecameOfAPacket) {
  const uint64_t seed = FirstSeed();
  SCOPED_TRACE(fmt::format("SNF_TEST_SEED={}", seed));
  const auto frames = FramesThatAskForAnything(5'000, Instant{kStart});
  RunOptions options = SmallTables();
  options.controller.max_units = 5;
  const RunResult result = RunFailing(options, GetParam(), seed, 200,
                                      ChronicleNf(), frames, nullptr, "snf");
  EXPECT_GE(result.controller_faults.kills, 10u);
  EXPECT_GT(result.packets_generated, 400u);
}

INSTANTIATE_TEST_SUITE_P(Threads, RealControllersOnThreads,
                         testing::Values(1, 2, 3, 4, 6));

}  // namespace
}  // namespace snf
