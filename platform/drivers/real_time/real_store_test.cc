// SPDX-License-Identifier: Apache-2.0
//
// Runs in real time whose flows' state is in a Redis: what is checked are
// packets and counts, never how long something took.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/core/placement.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/system_test/test_run.h"
#include "runtime/redis/test_redis.h"

namespace snf {
namespace {

using testing::HasSubstr;

std::vector<OfferedFrame> Packets(uint32_t packets, uint32_t flows) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < packets; ++i) {
    frames.push_back(
        {.time = Instant{i * int64_t{10'000}},
         .bytes = UdpFrame({.flow = i % flows, .sequence = i / flows})});
  }
  return frames;
}

RunOptions External() {
  RunOptions options = SmallTables();
  options.state = StateMode::kExternal;
  options.controller.replica_choice = ReplicaChoice::kNone;
  options.controller.replicas = 0;
  options.controller.max_units = 8;
  return options;
}

RealOptions AsFastAsCanBe(uint32_t threads) {
  return {.speed = {.kind = Speed::Kind::kMax, .value = 0},
          .threads = threads,
          .buffers = {.small = 4'096, .medium = 16, .large = 4},
          .unpaced = true,
          .wait_for_room = true};
}

// Calls `at_half` ahead of the second half of the packets.
RunResult RunReal(
    const RunOptions& options, const RealOptions& real,
    const std::vector<OfferedFrame>& frames,
    const std::function<void()>& at_half = [] {}) {
  auto driver = RealDriver::Start(options, real, *FindPlacementPolicy("rotate"),
                                  TimelessChronicleNf(), {});
  EXPECT_TRUE(driver.ok()) << driver.status();
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i == frames.size() / 2) at_half();
    (*driver)->Offer(
        {.time = frames[i].time,
         .bytes = frames[i].bytes,
         .original_bytes = static_cast<uint32_t>(frames[i].bytes.size()),
         .link = frames[i].link});
  }
  RunResult result = (*driver)->Finish();
  EXPECT_TRUE(result.conserved());
  return result;
}

class RealStore : public testing::TestWithParam<uint32_t> {};

TEST_P(RealStore, GivesWhatOneUnitGivesAndNoStateGoesBetweenUnits) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  const auto frames = Packets(3'000, 50);
  RunOptions one = SmallTables();
  one.controller.max_units = 1;
  const Outcome expected = RunFrames(one, TimelessChronicleNf(), frames);
  // In a server of its own, and in one that was there before.
  for (const std::string& address :
       {std::string(), "unix:" + server->socket()}) {
    RealOptions real = AsFastAsCanBe(GetParam());
    real.redis = address;
    const RunResult run = RunReal(External(), real, frames);
    EXPECT_EQ(run.violations, 0u);
    EXPECT_EQ(run.packets_dropped(), 0u);
    EXPECT_EQ(run.digest, expected.run.digest);
    EXPECT_GE(run.controller.flowlets_moved, 2'000u);
    EXPECT_GE(run.store.reads, 2'000u);
    EXPECT_EQ(run.store.erased, 50u);
    EXPECT_EQ(run.state.units.replicas_taken, 0u);
    EXPECT_GE(run.store.round_trip_ns.count(), 4'000u);
    EXPECT_EQ(run.store.writes_lost + run.store.refused, 0u);
  }
}

// What the store has forgotten, the unit that had the flow writes again.
TEST_P(RealStore, LosesNothingWhereTheStoreDoes) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  const auto frames = Packets(1'000, 20);
  RunOptions one = SmallTables();
  one.controller.max_units = 1;
  RunOptions options = External();
  options.state_retry = Milliseconds(2);
  RealOptions real = AsFastAsCanBe(GetParam());
  real.redis = "unix:" + server->socket();
  const RunResult run = RunReal(options, real, frames, [&] {
    auto connection =
        ConnectToRedis({.path = server->socket(), .host = ""}, Seconds(5));
    ASSERT_TRUE(connection.ok()) << connection.status();
    ASSERT_TRUE(AskRedis(**connection, {"FLUSHALL"}).ok());
  });
  EXPECT_EQ(run.violations, 0u);
  EXPECT_EQ(run.packets_dropped(), 0u);
  EXPECT_EQ(run.digest,
            RunFrames(one, TimelessChronicleNf(), frames).run.digest);
  EXPECT_GE(run.state.answers, 1u);
}

TEST_P(RealStore, ThatStopsForAWhileCostsNamedPacketsAndNothingElse) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  RunOptions options = External();
  options.store.timeout = Milliseconds(5);
  options.store.patience = Milliseconds(200);
  RealOptions real = AsFastAsCanBe(GetParam());
  real.redis = "unix:" + server->socket();
  const RunResult run = RunReal(options, real, Packets(1'000, 20), [&] {
    auto connection =
        ConnectToRedis({.path = server->socket(), .host = ""}, Seconds(5));
    ASSERT_TRUE(connection.ok()) << connection.status();
    ASSERT_TRUE(AskRedis(**connection, {"CLIENT", "PAUSE", "500"}).ok());
  });
  EXPECT_EQ(run.failure, "");
  EXPECT_EQ(run.violations, 0u);
  const uint64_t silent =
      run.dropped[static_cast<size_t>(DropReason::kStoreSilent)];
  EXPECT_GE(silent, 1u);
  EXPECT_EQ(run.packets_dropped(), silent);
  EXPECT_EQ(run.packets_released, 1'000u - silent);
}

TEST_P(RealStore, ThatDiesEndsTheRunAndSaysSo) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  RunOptions options = External();
  options.store.timeout = Milliseconds(5);
  options.store.patience = Milliseconds(20);
  RealOptions real = AsFastAsCanBe(GetParam());
  real.redis = "unix:" + server->socket();
  const RunResult run = RunReal(options, real, Packets(1'000, 20),
                                [&] { kill(server->process(), SIGKILL); });
  EXPECT_THAT(run.failure, HasSubstr("the store at unix:/tmp/"));
  EXPECT_THAT(run.failure, HasSubstr("did not answer for more than 20.0 ms"));
  const uint64_t silent =
      run.dropped[static_cast<size_t>(DropReason::kStoreSilent)];
  EXPECT_GE(silent, 1u);
  EXPECT_EQ(run.packets_dropped(), silent);
}

INSTANTIATE_TEST_SUITE_P(Threads, RealStore, testing::Values(1, 3));

TEST(RealStoreAlone, ThatIsAbsentIsAnError) {
  RealOptions real = AsFastAsCanBe(1);
  real.redis = "unix:/nonexistent/socket";
  const auto driver = RealDriver::Start(
      External(), real, *FindPlacementPolicy("snf"), TimelessChronicleNf(), {});
  ASSERT_FALSE(driver.ok());
  EXPECT_THAT(std::string(driver.status().message()),
              HasSubstr("--redis=unix:/nonexistent/socket: cannot connect"));
}

}  // namespace
}  // namespace snf
