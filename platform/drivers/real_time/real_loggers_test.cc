// SPDX-License-Identifier: Apache-2.0
//
// Runs in real time with output loggers: packets in, packets out.
#include "platform/drivers/loops/real_loggers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "controller/core/placement.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"

namespace snf {
namespace {

constexpr int64_t kStart = 1'700'000'000'000'000'000;
constexpr int64_t kUs = 1'000;

// Flows that take turns.
std::vector<OfferedFrame> Packets(uint32_t packets, uint32_t flows) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < packets; ++i) {
    frames.push_back(
        {.time = Instant{kStart + i * 10 * kUs},
         .bytes = UdpFrame({.flow = i % flows, .sequence = i / flows})});
  }
  return frames;
}

// A run with loggers; what each of them has in the end is what its unit has.
RunResult RunLogged(RunOptions options, uint32_t threads, const NfSpec& nf,
                    std::span<const OfferedFrame> frames,
                    std::string_view policy = "rotate") {
  options.loggers = true;
  auto driver =
      RealDriver::Start(options,
                        {.speed = {.kind = Speed::Kind::kMax, .value = 0},
                         .threads = threads,
                         .buffers = {.small = 4'096, .medium = 16, .large = 4},
                         .unpaced = true,
                         .wait_for_room = true},
                        *FindPlacementPolicy(policy), nf, {});
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
  EXPECT_EQ(result.violations, 0u);
  return result;
}

class RealLoggersOnThreads : public testing::TestWithParam<uint32_t> {};

// Flows do not end, so that there is something to compare.
TEST_P(RealLoggersOnThreads, ReleaseWhatOneUnitWouldHoweverFlowsMove) {
  const auto frames = Packets(20'000, 50);
  RunOptions options = SmallTables();
  options.controller.flow_timeout = Nanos::max();
  options.controller.max_units = 1;
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames);
  options.controller.max_units = 16;
  const RunResult result =
      RunLogged(options, GetParam(), TimelessChronicleNf(), frames);
  EXPECT_EQ(result.packets_released, 20'000u);
  EXPECT_EQ(result.digest, one.run.digest);
  EXPECT_GE(result.controller.flowlets_moved, 18'000u);
  EXPECT_GE(result.state.pulled, 1'000u);
  EXPECT_GE(result.loggers.entries, 20'000u);
  EXPECT_GE(result.loggers.whole, 18'000u);
  EXPECT_EQ(result.real.threads, GetParam());
  // Of flows that stay where they are, what changed is enough.
  const RunResult stays =
      RunLogged(options, GetParam(), TimelessChronicleNf(), frames, "hash");
  EXPECT_EQ(stays.digest, one.run.digest);
  EXPECT_EQ(stays.loggers.whole, 50u);
  EXPECT_EQ(stays.loggers.partial, 19'950u);
}

// Ports are taken and given back, and flows end.
TEST_P(RealLoggersOnThreads, TranslateAsOneUnitWouldHoweverFlowsMove) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < 6'000; ++i) {
    frames.push_back({.time = Instant{kStart + i * 20 * kUs},
                      .bytes = UdpFrame({.flow = i / 3 % 40,
                                         .sequence = i,
                                         .from_responder = i % 3 == 2})});
  }
  TinyNatOptions options = TinyNatTables();
  options.inside = *ParsePrefixes("10.0.0.0/8");
  options.controller.max_units = 16;
  const RunResult result = RunLogged(options, GetParam(), options.nf, frames);
  EXPECT_EQ(result.packets_released, 6'000u);
  EXPECT_EQ(result.aliases.packets_found, 2'000u);
  EXPECT_EQ(result.controller.aliases_granted, 40u);
  EXPECT_GE(result.controller.flowlets_moved, 5'000u);
}

// What a frame asks for, with timers and packets of the NF's own.
TEST_P(RealLoggersOnThreads, EndWhateverBecameOfAPacket) {
  const auto frames = FramesThatAskForAnything(5'000, Instant{kStart});
  RunOptions options = SmallTables();
  options.controller.max_units = 5;
  const RunResult result =
      RunLogged(options, GetParam(), ChronicleNf(), frames);
  EXPECT_EQ(result.packets_in, 5'000u);
  EXPECT_GT(result.packets_consumed, 400u);
  EXPECT_GT(result.packets_generated, 400u);
  for (const uint64_t dropped : result.nf_dropped) EXPECT_GT(dropped, 400u);
}

INSTANTIATE_TEST_SUITE_P(Threads, RealLoggersOnThreads,
                         testing::Values(1, 2, 3, 4, 6));

}  // namespace
}  // namespace snf
