// SPDX-License-Identifier: Apache-2.0
//
// Controllers that lease shares of the same units, on threads.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/messages/drop_reason.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "platform/drivers/real_cluster/test_real_cluster.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000'000};

std::vector<OfferedFrame> Packets(uint32_t count, uint32_t flows, Nanos gap) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < count; ++i) {
    frames.push_back(
        {.time = kStart + Nanos{gap.ns * i},
         .bytes = UdpFrame({.flow = i % flows, .sequence = i, .bytes = 200})});
  }
  return frames;
}

RunResult RunAll(const RunOptions& options, const RealOptions& real,
                 const ClusterOptions& of_cluster, const NfSpec& nf,
                 std::span<const OfferedFrame> frames) {
  TestRealCluster cluster(options, real, of_cluster, nf);
  EXPECT_TRUE(cluster.status().ok()) << cluster.status();
  if (!cluster.status().ok()) return {};
  for (const OfferedFrame& frame : frames) {
    cluster.Offer(frame.time, frame.bytes, frame.link);
  }
  RunResult result = cluster.Finish();
  EXPECT_EQ(result.failure, "");
  for (size_t why = 0; why < result.dropped.size(); ++why) {
    EXPECT_EQ(result.dropped[why], 0u)
        << ToString(static_cast<DropReason>(why));
  }
  return result;
}

ClusterOptions Shared(uint32_t controllers) {
  return {.controllers = controllers,
          .shared = true,
          .epoch = Milliseconds(2),
          .term = Seconds(10),
          .revoke_grace = Milliseconds(2)};
}

TEST(RealClusterLeases, ReleaseWhatOneUnitWould) {
  const auto frames = Packets(10'000, 50, Microseconds(10));
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames);
  options.controller.max_units = 4;
  for (const uint32_t controllers : {1u, 2u, 6u}) {
    for (const uint32_t threads : {1u, 2u}) {
      SCOPED_TRACE(controllers * 10 + threads);
      const RunResult result =
          RunAll(options, AsFastAsCanBe(threads), Shared(controllers),
                 TimelessChronicleNf(), frames);
      EXPECT_EQ(result.packets_released, 10'000u);
      EXPECT_EQ(result.digest, one.run.digest);
      EXPECT_EQ(result.cluster.controllers, controllers);
      EXPECT_EQ(result.real.threads, 2 + controllers + threads);
      EXPECT_GE(result.cluster.grants, controllers);
      EXPECT_GE(result.cluster.units_up_max, 1u);
      EXPECT_LE(result.cluster.units_up_max, 4u);
      for (const ControllerFigures& each : result.controllers) {
        EXPECT_GT(each.packets, 0u);
        EXPECT_GE(each.share_max, 128);
      }
    }
  }
}

// By their schedule, to units of a capacity, which one serves for all.
TEST(RealClusterLeases, TakePacketsAtTheirTime) {
  const auto frames = Packets(2'000, 40, Microseconds(20));
  RunOptions options = SmallTables();
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames);
  RealOptions real = AsFastAsCanBe(1);
  real.speed = Speed{};
  real.unpaced = false;
  const RunResult result =
      RunAll(options, real, Shared(3), TimelessChronicleNf(), frames);
  EXPECT_EQ(result.packets_released, 2'000u);
  EXPECT_EQ(result.digest, one.run.digest);
}

// The next one is told by the units who has which leases: they stay, and
// nothing is lost.
TEST(RealClusterLeases, OutliveTheResourceManager) {
  const auto frames = Packets(10'000, 50, Microseconds(20));
  RunOptions options = SmallTables();
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames);
  Kill kill;
  kill.victim = Kill::Victim::kManager;
  kill.at = Milliseconds(20);
  options.faults.kills = {kill};
  options.faults.detection = Milliseconds(20);
  RealOptions real = AsFastAsCanBe(2);
  real.speed = Speed{};
  const RunResult result =
      RunAll(options, real, Shared(3), TimelessChronicleNf(), frames);
  EXPECT_EQ(result.packets_released, 10'000u);
  EXPECT_EQ(result.digest, one.run.digest);
  EXPECT_EQ(result.cluster.managers_failed, 1u);
  EXPECT_EQ(result.cluster.managers_recovered, 1u);
  EXPECT_GE(result.cluster.manager_recovery_ns_max, 20'000'000u);
  // Whoever renews a lease that is unknown hears that it is gone.
  EXPECT_EQ(result.cluster.gone, 0u);
}

// No port twice, and what comes back finds its flow.
TEST(RealClusterLeases, DivideANatsPorts) {
  constexpr uint32_t kHosts = 60;
  std::vector<OfferedFrame> frames;
  Instant time = kStart;
  for (uint32_t i = 0; i < 10 * kHosts; ++i) {
    for (const bool from_responder : {false, true}) {
      time = time + Microseconds(200);
      frames.push_back({.time = time,
                        .bytes = UdpFrame({.flow = i % kHosts,
                                           .sequence = i,
                                           .bytes = 500,
                                           .from_responder = from_responder})});
    }
  }
  TinyNatOptions options = TinyNatTables("first=1024,last=5119");
  options.controller.flow_timeout = Seconds(100);
  const Outcome one = ReplayTiny(options, frames);
  for (const uint32_t controllers : {2u, 8u}) {
    SCOPED_TRACE(controllers);
    const RunResult result = RunAll(options, AsFastAsCanBe(1),
                                    Shared(controllers), options.nf, frames);
    EXPECT_EQ(result.packets_dropped(), 0u);
    EXPECT_EQ(result.aliases.packets_found, frames.size() / 2);
    EXPECT_EQ(result.digest_up_to_renaming, one.run.digest_up_to_renaming);
  }
}

// Leases come and go: little load, then much. So do resource managers.
TEST(RealClusterLeases, HoldTheInvariantsHoweverLeasesMove) {
  const TestSeeds seeds(10, 300);
  uint64_t given_back = 0;
  uint64_t managers_recovered = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    std::vector<OfferedFrame> frames;
    Instant time = kStart;
    const auto flows = static_cast<uint32_t>(rng.Uniform(1, 60));
    for (uint32_t i = 0; i < 3'000; ++i) {
      // Bursts, and silence between them.
      time = time + (rng.Chance(200) ? Milliseconds(5)
                                     : Microseconds(rng.Uniform(1, 10)));
      frames.push_back({.time = time,
                        .bytes = UdpFrame({.flow = i % flows,
                                           .sequence = i,
                                           .bytes = static_cast<uint32_t>(
                                               rng.Uniform(60, 1'000))})});
    }
    RunOptions options = SmallTables();
    options.controller.max_units = static_cast<uint32_t>(rng.Uniform(1, 6));
    // The same at a rate that one unit can serve.
    std::vector<OfferedFrame> slowly = frames;
    for (size_t i = 0; i < slowly.size(); ++i) {
      slowly[i].time = kStart + Microseconds(20 * static_cast<int64_t>(i));
    }
    const Outcome one = RunFrames(SmallTables(), TimelessChronicleNf(), slowly);
    ASSERT_EQ(one.run.packets_released, 3'000u);
    if (rng.Chance(32'768)) {
      Kill kill;
      kill.victim = Kill::Victim::kManager;
      kill.chance_65536 = 65;
      options.faults.kills = {kill};
      options.faults.detection = Milliseconds(rng.Uniform(0, 5));
    }
    RealOptions real = AsFastAsCanBe(static_cast<uint32_t>(rng.Uniform(1, 2)));
    real.speed = Speed{};
    real.unpaced = rng.Chance(32'768);
    ClusterOptions cluster = Shared(static_cast<uint32_t>(rng.Uniform(
        1, std::min<int64_t>(5, 7 * options.controller.max_units))));
    cluster.epoch = Milliseconds(rng.Uniform(1, 4));
    cluster.term = Seconds(10);  // a thread of a busy machine may be late
    cluster.revoke_grace = Milliseconds(rng.Uniform(1, 4));
    const RunResult result =
        RunAll(options, real, cluster, TimelessChronicleNf(), frames);
    EXPECT_EQ(result.packets_released, 3'000u);
    EXPECT_EQ(result.digest, one.run.digest);
    EXPECT_LE(result.cluster.managers_recovered,
              result.cluster.managers_failed);
    given_back += result.cluster.given_back;
    managers_recovered += result.cluster.managers_recovered;
    if (testing::Test::HasFailure()) return;
  }
  if (!seeds.is_part) {
    EXPECT_GT(given_back, seeds.count());
    EXPECT_GT(managers_recovered, 0u);
  }
}

}  // namespace
}  // namespace snf
