// SPDX-License-Identifier: Apache-2.0
//
// Packets in, packets out, in real time: what is checked are packets and
// counts, never how long something took.
#include "platform/drivers/real_time/real_driver.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "controller/core/placement.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"

namespace snf {
namespace {

using testing::HasSubstr;

constexpr int64_t kStart = 1'700'000'000'000'000'000;
constexpr int64_t kUs = 1'000;

// Flows that take turns.
std::vector<OfferedFrame> Packets(uint32_t packets, uint32_t flows,
                                  int64_t gap_ns) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < packets; ++i) {
    frames.push_back(
        {.time = Instant{kStart + i * gap_ns},
         .bytes = UdpFrame({.flow = i % flows, .sequence = i / flows})});
  }
  return frames;
}

std::unique_ptr<RealDriver> Start(const RunOptions& options,
                                  const RealOptions& real, const NfSpec& nf,
                                  std::string_view policy) {
  auto driver =
      RealDriver::Start(options, real, *FindPlacementPolicy(policy), nf, {});
  EXPECT_TRUE(driver.ok()) << driver.status();
  return *std::move(driver);
}

void Offer(RealDriver& driver, const OfferedFrame& frame) {
  const auto length = static_cast<uint32_t>(frame.bytes.size());
  driver.Offer({.time = frame.time,
                .bytes = frame.bytes,
                .original_bytes =
                    frame.original_length > 0 ? frame.original_length : length,
                .link = frame.link});
}

RunResult RunReal(const RunOptions& options, const RealOptions& real,
                  const NfSpec& nf, std::span<const OfferedFrame> frames,
                  std::string_view policy = "snf") {
  const auto driver = Start(options, real, nf, policy);
  for (const OfferedFrame& frame : frames) Offer(*driver, frame);
  RunResult result = driver->Finish();
  EXPECT_EQ(driver->buffers_in_use(), 0u);
  EXPECT_TRUE(result.conserved());
  EXPECT_THAT(result.violation_messages, testing::IsEmpty());
  EXPECT_EQ(result.violations, 0u);
  return result;
}

RealOptions AsFastAsCanBe(uint32_t threads) {
  return {.speed = {.kind = Speed::Kind::kMax, .value = 0},
          .threads = threads,
          .buffers = {.small = 4'096, .medium = 16, .large = 4},
          .unpaced = true,
          .wait_for_room = true};
}

// Each step costs a turn of all processes; all packets wait meanwhile.
TEST(RealDriver, EndsFlowsThatTimeOutAtAnyTimesInFewSteps) {
  constexpr uint32_t kFlows = 300;
  RunOptions options;
  options.controller.flow_timeout = Seconds(300);
  for (const uint32_t threads : {1u, 3u}) {
    const RunResult result =
        RunReal(options, AsFastAsCanBe(threads), TimelessChronicleNf(),
                Packets(kFlows, kFlows, 20'000 * kUs));
    EXPECT_EQ(result.controller.flows_ended, kFlows);
    EXPECT_LT(result.real.skips, 40u);
  }
}

TEST(RealDriver, TakesFragmentsOnceTheirFirstHasCome) {
  const auto fragment = [](int64_t us, uint16_t id, bool is_first) {
    const Ipv4Fields fields = {
        .id = id,
        .fragment_offset_bytes = static_cast<uint16_t>(is_first ? 0 : 48),
        .more_fragments = is_first};
    const Frame payload = is_first ? Udp(5000, 53, 40) : Frame(48);
    return OfferedFrame{.time = Instant{kStart + us * kUs},
                        .bytes = Ethernet(0x0800, Ipv4(fields, payload))};
  };
  const std::vector<OfferedFrame> frames = {
      fragment(0, 1, false), fragment(1, 1, true), fragment(2, 1, false),
      fragment(3, 2, false)};
  const TinyNatOptions options = TinyNatTables();
  for (const uint32_t threads : {1u, 3u}) {
    const RunResult result =
        RunReal(options, AsFastAsCanBe(threads), options.nf, frames);
    EXPECT_EQ(result.packets_in, 4u);
    EXPECT_EQ(result.packets_released, 3u);
    EXPECT_EQ(result.dropped[static_cast<size_t>(DropReason::kFragmentEarly)],
              1u);
    EXPECT_EQ(result.fragments_kept, 2u);
    EXPECT_EQ(result.fragments_kept_matched, 1u);
  }
}

class RealDriverOnThreads : public testing::TestWithParam<uint32_t> {};

TEST_P(RealDriverOnThreads, ReleasesWhatOneUnitWouldHoweverFlowsMove) {
  const auto frames = Packets(20'000, 50, 10 * kUs);
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames);
  options.controller.max_units = 16;
  const RunResult result = RunReal(options, AsFastAsCanBe(GetParam()),
                                   TimelessChronicleNf(), frames, "rotate");
  EXPECT_EQ(result.packets_released, 20'000u);
  EXPECT_EQ(result.digest, one.run.digest);
  EXPECT_GE(result.controller.flowlets_moved, 18'000u);
  EXPECT_GE(result.state.pulled, 1'000u);
  EXPECT_EQ(result.real.threads, GetParam());
}

// Translated, filtered and refused alike; ports come from a pool that is just
// large enough.
TEST_P(RealDriverOnThreads, TranslatesAsOneUnitWouldHoweverFlowsMove) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < 6'000; ++i) {
    const uint32_t flow = i / 3 % 40;
    frames.push_back(
        {.time = Instant{kStart + i * 20 * kUs},
         .bytes = UdpFrame(
             {.flow = flow, .sequence = i, .from_responder = i % 3 == 2})});
  }
  TinyNatOptions options = TinyNatTables();
  options.inside = *ParsePrefixes("10.0.0.0/8");
  options.controller.max_units = 1;
  const Outcome one = ReplayTiny(options, frames);
  EXPECT_EQ(one.run.packets_released, 6'000u);
  options.controller.max_units = 16;
  const RunResult result =
      RunReal(options, AsFastAsCanBe(GetParam()), options.nf, frames, "rotate");
  EXPECT_EQ(result.packets_released, 6'000u);
  EXPECT_EQ(result.aliases.packets_found, 2'000u);
  EXPECT_EQ(result.controller.aliases_granted, 40u);
  EXPECT_GE(result.controller.flowlets_moved, 5'000u);
}

// The order of what is released is kept for each flow until its last clock:
// what then still waited, or was kept, would be a violation.
TEST_P(RealDriverOnThreads, KeepsNothingOfFlowsWhoseSlotsOthersHave) {
  constexpr uint32_t kFlows = 3'000;
  RunOptions options = SmallTables();
  options.controller.max_flows = kFlows;
  options.controller.flowlet_timeout = Microseconds(100);
  options.controller.flow_timeout = Microseconds(500);
  RealOptions real = AsFastAsCanBe(GetParam());
  real.speed = {.kind = Speed::Kind::kPackets, .value = 100'000};
  const auto driver = Start(options, real, TimelessChronicleNf(), "rotate");
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    for (uint32_t i = 0; i < 2; ++i) {
      Offer(*driver, {.time = Instant{kStart},
                      .bytes = UdpFrame({.flow = flow, .sequence = i})});
    }
  }
  const RunResult result = driver->Finish();
  EXPECT_THAT(result.violation_messages, testing::IsEmpty());
  EXPECT_EQ(result.packets_released, 2 * kFlows);
  EXPECT_GE(result.controller.flows, kFlows);
  EXPECT_LT(driver->controller().flows().used(), kFlows / 2);
}
INSTANTIATE_TEST_SUITE_P(Threads, RealDriverOnThreads,
                         testing::Values(1, 2, 3, 6));

// What a frame asks for, with timers and packets of the NF's own.
TEST(RealDriver, EndsWhateverBecameOfAPacket) {
  const auto frames = FramesThatAskForAnything(5'000, Instant{kStart});
  RunOptions options = SmallTables();
  options.controller.max_units = 5;
  const RunResult result =
      RunReal(options, AsFastAsCanBe(3), ChronicleNf(), frames, "rotate");
  EXPECT_EQ(result.packets_in, 5'000u);
  EXPECT_GT(result.packets_consumed, 400u);
  EXPECT_GT(result.packets_generated, 400u);
  for (const uint64_t dropped : result.nf_dropped) EXPECT_GT(dropped, 400u);
}

// Flowlets are cut by when packets were due, not by when they were taken.
TEST(RealDriver, CutsTheSameFlowletsAsVirtualTime) {
  Rng rng(1);
  std::vector<OfferedFrame> frames;
  int64_t time = kStart;
  for (uint32_t i = 0; i < 1'000; ++i) {
    time += rng.Exponential(100 * kUs);
    frames.push_back(
        {.time = Instant{time},
         .bytes = UdpFrame(
             {.flow = static_cast<uint32_t>(rng.Below(6)), .sequence = i})});
  }
  const RunOptions options = SmallTables();
  const Outcome outcome = RunFrames(options, ForwardingNf(), frames);
  RealOptions real = AsFastAsCanBe(2);
  real.speed = {};
  real.wait_for_room = false;
  const RunResult result = RunReal(options, real, ForwardingNf(), frames);
  EXPECT_EQ(result.controller.flowlets, outcome.run.controller.flowlets);
  EXPECT_EQ(result.controller.flowlets_by_gap,
            outcome.run.controller.flowlets_by_gap);
  EXPECT_GT(result.controller.flowlets_by_gap, 200u);
  EXPECT_EQ(result.real.schedule_error_ns.count(), 1'000u);
  EXPECT_EQ(result.last_packet.ns, time);
}

// 12,000 bits each on a unit of 1 Mbit/s: 12 ms of service.
TEST(RealDriver, DropsAndCountsWhatAUnitHasNoRoomFor) {
  std::vector<OfferedFrame> frames = Packets(40, 1, 1);
  for (OfferedFrame& frame : frames) frame.original_length = 1'500;
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  options.controller.unit_capacity_bps = 1'000'000;
  options.controller.unit_queue_packets = 8;
  options.controller.start_buffer_packets = 8;
  options.unit_start_delay = options.warm_start_delay = {};
  RealOptions real = AsFastAsCanBe(2);
  real.unpaced = false;
  real.wait_for_room = false;
  const RunResult result = RunReal(options, real, ForwardingNf(), frames);
  EXPECT_EQ(result.packets_released, 8u);
  // While the unit starts, and then.
  EXPECT_EQ(result.packets_dropped(), 32u);
  EXPECT_GE(result.dropped[static_cast<size_t>(DropReason::kUnitQueueFull)],
            1u);
  // The last of eight, whatever the machine does meanwhile.
  EXPECT_GE(result.latency_ns.max(), 8 * 12'000 * kUs);
}

TEST(RealDriver, StartsUnitsAsLateAsItIsTold) {
  constexpr Nanos kDelay = Milliseconds(30);
  for (const bool warm : {false, true}) {
    SCOPED_TRACE(warm ? "warm" : "cold");
    RunOptions options = SmallTables();
    options.controller.max_units = 1;
    options.controller.warm_units = warm ? 1 : 0;
    options.controller.start_buffer_packets = 8;
    (warm ? options.warm_start_delay : options.unit_start_delay) = kDelay;
    (warm ? options.unit_start_delay : options.warm_start_delay) = {};
    RealOptions real = AsFastAsCanBe(2);
    real.unpaced = false;
    real.wait_for_room = false;
    const RunResult result =
        RunReal(options, real, ForwardingNf(), Packets(30, 1, 1));
    EXPECT_EQ(result.packets_released, 8u);
    EXPECT_EQ(result.dropped[static_cast<size_t>(DropReason::kStartBufferFull)],
              22u);
    EXPECT_GE(result.latency_ns.min(), kDelay.ns);
    // Those that wait are served one after the other, from then on.
    real.wait_for_room = true;
    options.controller.unit_capacity_bps = 10'000'000;
    std::vector<OfferedFrame> frames = Packets(8, 1, 1);
    for (OfferedFrame& frame : frames) frame.original_length = 1'500;
    EXPECT_GE(RunReal(options, real, ForwardingNf(), frames).latency_ns.max(),
              kDelay.ns + 8 * 1'200 * kUs);
  }
}

// Flows that want a unit each, of which one is warm and one starts cold, and
// get them in turn.
TEST(RealDriver, StartsEachUnitAtItsTime) {
  RunOptions options = SmallTables();
  options.controller.max_units = 2;
  options.controller.warm_units = 1;
  options.controller.first_demand_bps = options.controller.unit_capacity_bps;
  options.controller.unit_idle_timeout = Seconds(10);
  options.warm_start_delay = Milliseconds(5);
  options.unit_start_delay = Milliseconds(100);
  RealOptions real = AsFastAsCanBe(2);
  real.unpaced = false;
  real.speed = {};
  const RunResult result = RunReal(options, real, ForwardingNf(),
                                   Packets(10, 2, 1'000 * kUs), "rotate");
  EXPECT_EQ(result.packets_released, 10u);
  EXPECT_EQ(result.warm_starts, 1u);
  EXPECT_EQ(result.cold_starts, 1u);
  EXPECT_GE(result.latency_ns.max(), 90'000 * kUs);
}

TEST(RealDriver, StartsUnitsAtOnceWhereTheyAreAsFastAsCanBe) {
  RunOptions options = SmallTables();
  options.unit_start_delay = options.warm_start_delay = Seconds(600);
  const RunResult result =
      RunReal(options, AsFastAsCanBe(2), ForwardingNf(), Packets(100, 3, 1));
  EXPECT_EQ(result.packets_released, 100u);
}

TEST(RealDriver, WaitsForRoomWhereItIsTo) {
  std::vector<OfferedFrame> frames = Packets(200, 3, 1);
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  options.controller.unit_capacity_bps = 10'000'000;
  options.controller.unit_queue_packets = 8;
  options.controller.start_buffer_packets = 8;
  RealOptions real = AsFastAsCanBe(2);
  real.unpaced = false;
  const RunResult result = RunReal(options, real, ForwardingNf(), frames);
  EXPECT_EQ(result.packets_released, 200u);
}

TEST(RealDriver, DropsWhatIsTooLargeForABuffer) {
  OfferedFrame frame{.time = Instant{kStart},
                     .bytes = UdpFrame({.bytes = 20'000})};
  RealOptions real = AsFastAsCanBe(2);
  real.buffers = {.small = 64, .medium = 4, .large = 0};
  const RunResult result =
      RunReal(SmallTables(), real, ForwardingNf(), {&frame, 1});
  EXPECT_EQ(result.dropped[static_cast<size_t>(DropReason::kBufferPoolEmpty)],
            1u);
}

TEST(RealDriver, PassesFramesWithoutIpThrough) {
  const OfferedFrame frame{.time = Instant{kStart}, .bytes = Frame(60)};
  const RunResult result =
      RunReal(SmallTables(), AsFastAsCanBe(2), ForwardingNf(), {&frame, 1});
  EXPECT_EQ(result.packets_passed_through, 1u);
}

TEST(RealDriver, TakesAClockThatGoesBackwards) {
  std::vector<OfferedFrame> frames = Packets(4, 2, -500 * kUs);
  RealOptions real = AsFastAsCanBe(2);
  real.speed = {};
  const RunResult result = RunReal(SmallTables(), real, ForwardingNf(), frames);
  EXPECT_EQ(result.packets_released, 4u);
  EXPECT_EQ(result.late_packets, 3u);
  EXPECT_EQ(result.last_packet.ns, kStart);
}

TEST(RealDriver, TakesTimesBeforeTheEpoch) {
  for (const bool unpaced : {false, true}) {
    SCOPED_TRACE(unpaced ? "unpaced" : "paced");
    std::vector<OfferedFrame> frames = Packets(100, 3, 1);
    for (OfferedFrame& frame : frames)
      frame.time.ns -= kStart + 20'000'000 * kUs;
    RealOptions real = AsFastAsCanBe(2);
    real.unpaced = unpaced;
    const RunResult result =
        RunReal(SmallTables(), real, ForwardingNf(), frames);
    EXPECT_EQ(result.packets_released, 100u);
    EXPECT_LT(result.latency_ns.max(), 10'000'000 * kUs);  // not until 1970
  }
}

// A unit that starts only in ten minutes.
TEST(RealDriver, DoesNotWaitForRoomOnceItIsInterrupted) {
  const std::atomic<bool> interrupted = true;
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  options.controller.warm_units = 0;
  options.controller.start_buffer_packets = 8;
  options.unit_start_delay = Seconds(600);
  RealOptions real = AsFastAsCanBe(2);
  real.unpaced = false;
  real.interrupted = &interrupted;
  const auto driver = Start(options, real, ForwardingNf(), "snf");
  const std::vector<OfferedFrame> frames = Packets(80, 1, 1);
  for (const OfferedFrame& frame : frames) Offer(*driver, frame);
  EXPECT_EQ(driver->packets_in(), 80u);
}

TEST(RealDriver, ComesToItsEndWithoutAPacket) {
  const RunResult result =
      RunReal(SmallTables(), AsFastAsCanBe(2), ForwardingNf(), {});
  EXPECT_EQ(result.packets_in, 0u);
}

TEST(RealDriver, StopsItsThreadsWhereNobodyFinishes) {
  const auto driver =
      Start(SmallTables(), AsFastAsCanBe(3), ForwardingNf(), "snf");
  for (const OfferedFrame& frame : Packets(100, 3, 1)) Offer(*driver, frame);
}

TEST(RealDriver, DoesNotWaitOnceItIsInterrupted) {
  const std::atomic<bool> interrupted = true;
  RealOptions real = AsFastAsCanBe(2);
  real.speed = {};
  real.interrupted = &interrupted;
  // A year apart.
  const std::vector<OfferedFrame> frames =
      Packets(2, 1, 365ll * 86'400 * 1'000'000'000);
  const RunResult result = RunReal(SmallTables(), real, ForwardingNf(), frames);
  EXPECT_EQ(result.packets_released, 2u);
}

TEST(RealDriver, RefusesMoreThreadsThanThereMayBe) {
  const auto start = [](uint32_t threads, bool pin) {
    RealOptions real = AsFastAsCanBe(threads);
    real.pin = pin;
    const auto driver = RealDriver::Start(
        SmallTables(), real, *FindPlacementPolicy("snf"), ForwardingNf(), {});
    return driver.ok() ? "" : std::string(driver.status().message());
  };
  EXPECT_EQ(start(34, false), "34 threads are more than 33");
  const uint32_t cpus = std::thread::hardware_concurrency();
  if (cpus < RealOptions::kMaxThreads) {
    EXPECT_THAT(
        start(cpus + 1, true),
        HasSubstr(fmt::format("{} threads cannot be pinned to ", cpus + 1)));
  }
}

}  // namespace
}  // namespace snf
