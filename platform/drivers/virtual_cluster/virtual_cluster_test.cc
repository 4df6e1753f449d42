// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/rng.h"
#include "gtest/gtest.h"
#include "platform/drivers/virtual_cluster/test_cluster.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_schedule.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000'000};

// Units of 1 Gbit/s, 16 of them, and room for some thousand packets.
RunOptions Options() {
  RunOptions options = SmallTables();
  options.controller = ControllerOptions{};
  options.controller.max_flows = 1'024;
  options.controller.max_units = 16;
  options.controller.flow_timeout = Milliseconds(200);
  options.buffers = {.small = 8'192, .medium = 8'192, .large = 8'192};
  return options;
}

// Frames of 1,000 bytes of flows in turn, at that rate in all.
std::vector<OfferedFrame> Steady(uint32_t flows, int64_t bps, Nanos duration,
                                 Instant begin = kStart) {
  std::vector<OfferedFrame> packets;
  const int64_t gap = 8'000 * int64_t{1'000'000'000} / bps;
  for (uint32_t i = 0; i * gap < duration.ns; ++i) {
    packets.push_back(
        {.time = begin + Nanos{i * gap},
         .bytes =
             UdpFrame({.flow = i % flows, .sequence = i, .bytes = 1'000})});
  }
  return packets;
}

// Counts the bytes of packets served within a time.
class Served final : public RunObserver {
 public:
  Served(Instant begin, Instant end) : begin_(begin), end_(end) {}
  void on_service_end(Instant now, UnitId, const PacketMeta& meta) override {
    if (now >= begin_ && now < end_) bytes += meta.original_length;
  }
  uint64_t bytes = 0;

 private:
  Instant begin_;
  Instant end_;
};

TEST(VirtualCluster, TwoControllersReleaseWhatOneDoes) {
  const auto packets = Steady(40, 800'000'000, Milliseconds(60));
  const Outcome one =
      RunFrames(Options(), TimelessChronicleNf(), packets, "snf");
  ASSERT_EQ(one.run.packets_released, packets.size());
  for (const uint32_t controllers : {1u, 2u, 5u}) {
    SCOPED_TRACE(controllers);
    ClusterOptions cluster;
    cluster.controllers = controllers;
    cluster.fixed_shares.assign(controllers, 1'024);
    const Ran ran = RunCluster(Options(), cluster, TimelessChronicleNf(),
                               Captured(packets));
    ExpectSoundCluster(ran);
    EXPECT_EQ(ran.run.packets_in, packets.size());
    EXPECT_EQ(ran.run.packets_dropped(), 0u);
    EXPECT_EQ(ran.run.digest, one.run.digest);
    EXPECT_EQ(ran.run.bytes_in, one.run.bytes_in);
    EXPECT_EQ(ran.run.cluster.controllers, controllers);
    EXPECT_EQ(ran.run.units_max, controllers);
  }
}

TEST(VirtualCluster, UnderOverloadAUnitIsSharedAsSharesSay) {
  RunOptions options = Options();
  options.controller.max_units = 1;
  ClusterOptions cluster;
  cluster.fixed_shares = {256, 768};
  const auto packets = Steady(64, 4'000'000'000, Milliseconds(40));
  Served small(kStart + Milliseconds(20), kStart + Milliseconds(30));
  Served large = small;
  const Ran ran = RunCluster(options, cluster, ForwardingNf(),
                             Captured(packets), {&small, &large});
  ExpectSoundCluster(ran);
  EXPECT_EQ(ran.run.cluster.units_started, 1u);
  // All of the unit is used, and 1:3 of it within 2 %.
  EXPECT_NEAR(static_cast<double>(small.bytes + large.bytes), 1'250'000, 3'000);
  EXPECT_NEAR(static_cast<double>(small.bytes), 312'500, 312'500 * 0.02);
}

// How long packets took that were released within a time.
class Latencies final : public RunObserver {
 public:
  Latencies(Instant begin, Instant end) : begin_(begin), end_(end) {}
  void on_release(const ReleasedPacket& packet) override {
    if (packet.time < begin_ || packet.time >= end_) return;
    ns.Record(packet.route.latency.ns);
  }
  Histogram ns;

 private:
  Instant begin_;
  Instant end_;
};

// Which controller of two has a flow.
bool IsOfTheFirst(uint32_t flow) {
  Latencies first(kStart, Instant::max());
  const std::vector<OfferedFrame> packet = {
      {.time = kStart, .bytes = UdpFrame({.flow = flow, .bytes = 100})}};
  RunCluster(Options(), {}, ForwardingNf(), Captured(packet), {&first});
  return first.ns.count() > 0;
}

// A small controller, whose load is within its share of a quarter, waits for
// four packets of the other one's burst, and no more than in a unit of its own
// besides.
TEST(VirtualCluster, ABurstOfTheOtherHardlyDelaysASmallOne) {
  std::vector<uint32_t> small, large;
  for (uint32_t flow = 0; flow < 16; ++flow) {
    (IsOfTheFirst(flow) ? small : large).push_back(flow);
  }
  ASSERT_GT(small.size(), 2u);
  ASSERT_GT(large.size(), 2u);
  // 100 Mbit/s all along, and 4 Gbit/s for 5 ms.
  std::vector<OfferedFrame> packets;
  const auto add = [&](const std::vector<uint32_t>& flows, Nanos begin,
                       Nanos end, Nanos gap) {
    for (int64_t ns = begin.ns; ns < end.ns; ns += gap.ns) {
      const auto i = static_cast<uint32_t>(ns / gap.ns);
      packets.push_back({.time = kStart + Nanos{ns},
                         .bytes = UdpFrame({.flow = flows[i % flows.size()],
                                            .sequence = i,
                                            .bytes = 1'000})});
    }
  };
  add(small, {}, Milliseconds(30), Microseconds(80));
  add(large, Milliseconds(10), Milliseconds(15), Microseconds(2));
  std::ranges::stable_sort(packets, {}, &OfferedFrame::time);
  RunOptions options = Options();
  options.controller.max_units = 1;
  int64_t p99[2];
  for (const bool shared : {false, true}) {
    ClusterOptions cluster;
    cluster.shared = shared;
    cluster.fixed_shares = {256, 768};
    Latencies watch(kStart + Milliseconds(10), kStart + Milliseconds(15));
    const Ran ran = RunCluster(options, cluster, ForwardingNf(),
                               Captured(packets), {&watch});
    ExpectSoundCluster(ran);
    ASSERT_GT(watch.ns.count(), 50u);
    p99[shared ? 1 : 0] = watch.ns.Quantile(99'000);
  }
  std::cout << "p99 of the small one: " << p99[0]
            << " ns in a unit of its own, " << p99[1] << " ns beside a burst\n";
  // A packet takes 8 us of the unit.
  EXPECT_LE(p99[1], p99[0] + 4 * 8'000);
}

TEST(VirtualCluster, AnIdleShareIsUsedByTheOther) {
  RunOptions options = Options();
  options.controller.max_units = 1;
  ClusterOptions cluster;
  cluster.fixed_shares = {100, 100};
  // One flow alone: its controller has the unit, whatever its share is.
  const auto packets = Steady(1, 900'000'000, Milliseconds(20));
  const Ran ran =
      RunCluster(options, cluster, ForwardingNf(), Captured(packets));
  ExpectSoundCluster(ran);
  EXPECT_EQ(ran.run.packets_dropped(), 0u);
}

// Load comes and goes, so leases do: none of it is lost or out of order, and
// what flows have seen is as if a single unit had run them.
TEST(VirtualCluster, LeasesFollowTheLoad) {
  std::vector<OfferedFrame> packets;
  Instant begin = kStart;
  for (const int64_t gbps : {1, 4, 1, 6, 2}) {
    const auto some = Steady(200, gbps * 500'000'000, Milliseconds(150), begin);
    packets.insert(packets.end(), some.begin(), some.end());
    begin = begin + Milliseconds(150);
  }
  ClusterOptions cluster;
  cluster.controllers = 3;
  const Ran ran =
      RunCluster(Options(), cluster, TimelessChronicleNf(), Captured(packets));
  ExpectSoundCluster(ran);
  EXPECT_GT(ran.run.cluster.units_started, 2u);
  EXPECT_GT(ran.run.cluster.given_back, 5u);
  EXPECT_EQ(ran.run.cluster.gone, 0u);
  EXPECT_GT(ran.run.packets_released, packets.size() * 9 / 10);
}

// Ten days are nine million epochs.
TEST(VirtualCluster, RenewsNoLeasesWhileNothingComesForDays) {
  constexpr Nanos kDay = Seconds(86'400);
  std::vector<OfferedFrame> packets;
  for (const int64_t days : {0, 10, 20}) {
    const auto more = Steady(40, 800'000'000, Milliseconds(20),
                             kStart + Nanos{days * kDay.ns});
    packets.insert(packets.end(), more.begin(), more.end());
  }
  ClusterOptions cluster;
  cluster.controllers = 3;
  const Ran ran =
      RunCluster(Options(), cluster, TimelessChronicleNf(), Captured(packets));
  ExpectSoundCluster(ran);
  EXPECT_EQ(ran.run.packets_released, packets.size());
  EXPECT_LT(ran.run.cluster.asks, 20'000u);
  EXPECT_EQ(ran.run.cluster.gone, 0u);
}

TEST(VirtualCluster, IndependentControllersHaveUnitsOfTheirOwn) {
  const auto packets = Steady(60, 1'000'000'000, Milliseconds(100));
  ClusterOptions cluster;
  cluster.controllers = 4;
  const Ran shared =
      RunCluster(Options(), cluster, ForwardingNf(), Captured(packets));
  cluster.shared = false;
  const Ran independent =
      RunCluster(Options(), cluster, ForwardingNf(), Captured(packets));
  ExpectSoundCluster(shared);
  ExpectSoundCluster(independent);
  EXPECT_GE(independent.run.units_max, 4u);
  EXPECT_LT(shared.run.units_max, independent.run.units_max);
}

// Adds up what happened in all runs.
struct Totals {
  uint64_t packets = 0, released = 0, moved = 0, null_packets = 0, revoked = 0,
           gone = 0, given_back = 0, started = 0, pulled = 0;
  void Add(const RunResult& run) {
    packets += run.packets_in;
    released += run.packets_released;
    moved += run.controller.flowlets_moved;
    null_packets += run.state.null_packets;
    pulled += run.state.pulled;
    revoked += run.cluster.revoked;
    gone += run.cluster.gone;
    given_back += run.cluster.given_back;
    started += run.cluster.units_started;
  }
  void Print() const {
    std::cout << packets << " packets, " << released << " released, " << moved
              << " flowlets moved, " << pulled << " pulled, " << null_packets
              << " null packets, " << started << " units started, "
              << given_back << " leases given back, " << revoked << " revoked, "
              << gone << " gone\n";
  }
};

// Schedules of other tests, run by several controllers whose units are taken
// back at random, at short notice: I1 … I7 hold, and nothing is lost untold.
TEST(VirtualClusterSchedules, HoldTheInvariantsHoweverLeasesMove) {
  Totals totals;
  constexpr uint64_t kSeeds = 500;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Schedule schedule = AnyScheduleOfAsks(rng);
    ControllerOptions& c = schedule.options.controller;
    c.unit_capacity_bps = std::max<int64_t>(c.unit_capacity_bps, 1'000'000);
    schedule.options.hop_delay =
        std::min(schedule.options.hop_delay, Microseconds(50));
    schedule.options.loggers = rng.Chance(20'000);
    // Packets are never years apart, or thousands of epochs would pass.
    Instant time = schedule.packets.front().time;
    Instant before = time;
    for (OfferedFrame& packet : schedule.packets) {
      const Nanos gap = packet.time - std::exchange(before, packet.time);
      time = time + std::min(gap, Milliseconds(30));
      packet.time = time;
    }
    const ClusterOptions cluster = AnyCluster(rng);
    const Ran ran = RunCluster(schedule.options, cluster, NfSpec(*schedule.nf),
                               Captured(schedule.packets), {}, seed);
    ExpectSoundCluster(ran);
    if (testing::Test::HasFailure()) return;
    totals.Add(ran.run);
  }
  totals.Print();
  EXPECT_GT(totals.moved, 500u);
  EXPECT_GT(totals.pulled, 500u);
}

TEST(VirtualClusterSchedules, DenseTrafficWhoseUnitsAreTakenBack) {
  Totals totals;
  constexpr uint64_t kSeeds = 40;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    RunOptions options = Options();
    options.controller.max_units = static_cast<uint32_t>(rng.Uniform(2, 8));
    options.controller.flow_timeout = Milliseconds(rng.Uniform(5, 50));
    options.unit_start_delay = Microseconds(rng.Uniform(10, 2'000));
    ClusterOptions cluster = AnyCluster(rng);
    cluster.shared = true;
    const auto packets =
        Steady(static_cast<uint32_t>(rng.Uniform(1, 80)),
               rng.Uniform(100'000'000, 3'000'000'000), Milliseconds(15));
    const Ran ran = RunCluster(options, cluster, TimelessChronicleNf(),
                               Captured(packets), {}, seed);
    ExpectSoundCluster(ran);
    if (testing::Test::HasFailure()) return;
    totals.Add(ran.run);
  }
  totals.Print();
  EXPECT_GT(totals.moved, 500u);
  EXPECT_GT(totals.null_packets, 100u);
  EXPECT_GT(totals.revoked, 100u);
  EXPECT_GT(totals.gone, 10u);
}

}  // namespace
}  // namespace snf
