// SPDX-License-Identifier: Apache-2.0
//
// Several controllers in real time: what is checked are packets and counts,
// never how long something took.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "base/packet/ip_prefix.h"
#include "base/test_seeds.h"
#include "platform/drivers/real_cluster/test_real_cluster.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"

namespace snf {
namespace {

using testing::HasSubstr;

constexpr int64_t kStart = 1'700'000'000'000'000'000;
constexpr int64_t kUs = 1'000;

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

RunResult RunAll(const RunOptions& options, const RealOptions& real,
                 uint32_t controllers, const NfSpec& nf,
                 std::span<const OfferedFrame> frames,
                 std::string_view policy = "snf",
                 const std::vector<RunObserver*>& observers = {}) {
  TestRealCluster cluster(options, real, controllers, nf, policy, observers);
  EXPECT_TRUE(cluster.status().ok()) << cluster.status();
  for (const OfferedFrame& frame : frames) {
    cluster.Offer(frame.time, frame.bytes, frame.link);
  }
  return cluster.Finish();
}

TEST(RealCluster, ReleasesWhatOneUnitWouldHoweverFlowsMove) {
  constexpr uint32_t kPackets = TestSeeds::kSanitized ? 2'500 : 10'000;
  const auto frames = Packets(kPackets, 50, 10 * kUs);
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames);
  options.controller.max_units = 8;
  for (const uint32_t controllers : {1u, 2u, 5u}) {
    for (const uint32_t threads : {1u, 2u}) {
      SCOPED_TRACE(controllers * 10 + threads);
      const RunResult result =
          RunAll(options, AsFastAsCanBe(threads), controllers,
                 TimelessChronicleNf(), frames, "rotate");
      EXPECT_EQ(result.packets_released, kPackets);
      EXPECT_EQ(result.digest, one.run.digest);
      EXPECT_GE(result.controller.flowlets_moved, kPackets * 8 / 10);
      EXPECT_EQ(result.cluster.controllers, controllers);
      EXPECT_EQ(result.real.threads, 1 + controllers * threads);
      uint64_t packets = 0, bytes = 0;
      for (const ControllerFigures& each : result.controllers) {
        EXPECT_GT(each.packets, 0u);
        packets += each.packets;
        bytes += each.bytes;
      }
      EXPECT_EQ(packets, result.packets_in);
      EXPECT_EQ(bytes, result.bytes_in);
    }
  }
}

// By their schedule, to units of a capacity.
TEST(RealCluster, TakesPacketsAtTheirTime) {
  const auto frames = Packets(1'000, 40, 20 * kUs);
  RunOptions options = SmallTables();
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames);
  RealOptions real = AsFastAsCanBe(1);
  real.speed = Speed{};
  real.unpaced = false;
  options.unit_start_delay = Microseconds(50);
  const RunResult result =
      RunAll(options, real, 3, TimelessChronicleNf(), frames);
  EXPECT_EQ(result.packets_released, 1'000u);
  EXPECT_EQ(result.digest, one.run.digest);
  EXPECT_EQ(result.first_packet, frames.front().time);
  EXPECT_EQ(result.last_packet, frames.back().time);
  EXPECT_EQ(result.real.schedule_error_ns.count(), 1'000u);
}

TEST(RealCluster, PassesThroughWhatHasNoFlowInOrder) {
  std::vector<OfferedFrame> frames = Packets(200, 20, kUs);
  for (size_t i = 0; i < frames.size(); i += 3) {
    frames[i].bytes[12] = std::byte{0x88};  // no IP
  }
  const RunOptions options = SmallTables();
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames);
  const RunResult result =
      RunAll(options, AsFastAsCanBe(1), 4, TimelessChronicleNf(), frames);
  EXPECT_EQ(result.packets_passed_through, 67u);
  EXPECT_EQ(result.digest, one.run.digest);
  EXPECT_EQ(result.classifier.packets(), 200u);
}

// Has no room for what comes at once.
TEST(RealCluster, DropsWithAReasonWhatItHasNoRoomFor) {
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  options.controller.unit_queue_packets = 8;
  options.controller.start_buffer_packets = 4;
  RealOptions real = AsFastAsCanBe(1);
  real.wait_for_room = false;
  real.unpaced = false;
  const RunResult result =
      RunAll(options, real, 2, TimelessChronicleNf(), Packets(3'000, 30, kUs));
  EXPECT_GT(result.packets_dropped(), 0u);
}

// Counts what went out, by external ports.
class Translations final : public RunObserver {
 public:
  void on_release(const ReleasedPacket& packet) override {
    if (LoadBe32(&packet.bytes[26]) != kExternal.ipv4()) return;
    ++ports[LoadBe16(&packet.bytes[34]).host()];
  }
  std::map<uint16_t, uint64_t> ports;
};

TEST(RealCluster, WhatComesBackFindsItsController) {
  constexpr uint32_t kHosts = 60;
  std::vector<OfferedFrame> frames;
  Instant time{kStart};
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
  EXPECT_EQ(one.run.packets_dropped(), 0u);
  // Units run on their controllers' threads, or on others.
  for (const auto& [controllers, threads] :
       {std::pair{2u, 1u}, std::pair{2u, 2u}, std::pair{8u, 1u}}) {
    SCOPED_TRACE(controllers * 10 + threads);
    std::deque<Translations> seen(controllers);
    std::vector<RunObserver*> observers;
    for (Translations& each : seen) observers.push_back(&each);
    const RunResult result =
        RunAll(options, AsFastAsCanBe(threads), controllers, options.nf, frames,
               "snf", observers);
    EXPECT_EQ(result.packets_dropped(), 0u);
    EXPECT_EQ(result.aliases.packets_offered, frames.size() / 2);
    EXPECT_EQ(result.aliases.packets_found, frames.size() / 2);
    EXPECT_EQ(result.controller.aliases_granted, kHosts);
    EXPECT_EQ(result.digest_up_to_renaming, one.run.digest_up_to_renaming);
    std::map<uint16_t, uint64_t> ports;  // by how many controllers
    for (const Translations& each : seen) {
      for (const auto& [port, packets] : each.ports) {
        EXPECT_EQ(packets, 10u) << port;
        ++ports[port];
      }
    }
    EXPECT_EQ(ports.size(), kHosts);
    for (const auto& [port, times] : ports) EXPECT_EQ(times, 1u) << port;
  }
}

// The external port of the flow whose packets were released last.
class LastPort final : public RunObserver {
 public:
  explicit LastPort(std::atomic<uint16_t>& port) : port_(port) {}
  void on_release(const ReleasedPacket& packet) override {
    if (LoadBe32(&packet.bytes[26]) != kExternal.ipv4()) return;
    port_ = LoadBe16(&packet.bytes[34]).host();
  }

 private:
  std::atomic<uint16_t>& port_;
};

// Each host in turn sends to the alias of the first one, to which controller
// ever they belong.
TEST(RealCluster, BringsBackWhatLeavesForAnAliasOfAnyController) {
  constexpr uint32_t kHosts = 20;
  TinyNatOptions options = TinyNatTables("first=1024,last=5119");
  options.controller.flow_timeout = Seconds(100);
  options.inside = *ParsePrefixes("10.0.0.0/8");
  constexpr uint32_t kControllers = 4;
  std::atomic<uint16_t> port = 0;
  std::deque<LastPort> seen;
  std::vector<RunObserver*> observers;
  for (uint32_t i = 0; i < kControllers; ++i) {
    observers.push_back(&seen.emplace_back(port));
  }
  TestRealCluster cluster(options, AsFastAsCanBe(1), kControllers, options.nf,
                          "snf", observers);
  const auto offer = [&](const Frame& frame) {
    cluster.Offer(Instant{kStart}, frame);
  };
  offer(UdpFrame({.flow = 0}));
  offer(UdpFrame({.flow = 0, .from_responder = true}));  // once it has an alias
  ASSERT_NE(port, 0u);
  const uint16_t to = port;
  for (uint32_t host = 1; host < kHosts; ++host) {
    Frame frame = UdpFrame({.flow = host});
    Store(&frame[30], kExternal.ipv4());
    Store(&frame[36], be16(to));
    offer(frame);
  }
  const RunResult result = cluster.Finish();
  EXPECT_EQ(result.packets_in, kHosts + 1);
  EXPECT_EQ(result.packets_dropped(), 0u);
  EXPECT_EQ(result.aliases.packets_hairpinned, kHosts - 1);
  EXPECT_EQ(result.aliases.packets_found, kHosts);
  EXPECT_EQ(result.packets_released, 2 * kHosts);
}

// Answers that nobody asked for.
TEST(RealCluster, DropsWhatWasNeverTranslated) {
  TinyNatOptions options = TinyNatTables();
  options.inside = *ParsePrefixes("10.0.0.0/8");
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < 40; ++i) {
    frames.push_back({.time = Instant{kStart + i * kUs},
                      .bytes = UdpFrame({.flow = i, .from_responder = true})});
  }
  const RunResult result =
      RunAll(options, AsFastAsCanBe(1), 3, options.nf, frames);
  EXPECT_EQ(result.dropped[static_cast<size_t>(DropReason::kNotTranslated)],
            40u);
}

TEST(RealCluster, RefusesWhatSeveralControllersDoNotHave) {
  const RunOptions options = SmallTables();
  const auto refusal = [&](const RealOptions& real) {
    const TestRealCluster cluster(options, real, 2, TimelessChronicleNf());
    return std::string(cluster.status().message());
  };
  RealOptions pinned = AsFastAsCanBe(1);
  pinned.pin = true;
  EXPECT_THAT(refusal(pinned), HasSubstr("pin"));
  EXPECT_THAT(refusal(AsFastAsCanBe(100)), HasSubstr("100 threads"));
  EXPECT_EQ(refusal(AsFastAsCanBe(1)), "");
}

}  // namespace
}  // namespace snf
