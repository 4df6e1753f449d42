// SPDX-License-Identifier: Apache-2.0
//
// What UsageMeter says that a run used is what was done in it, however flows
// moved. SNF_TEST_SEED=n runs the one schedule with that seed.
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "controller/core/placement.h"
#include "gtest/gtest.h"
#include "platform/drivers/real_cluster/test_real_cluster.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/report/usage_meter.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_schedule.h"
#include "runtime/core/service_model.h"

namespace snf {
namespace {

__extension__ using Wide = unsigned __int128;

Usage Sum(const UsageMeter& meter) {
  Usage sum;
  for (const auto& [key, used] : meter.ledger().rows()) {
    EXPECT_TRUE(AddUsage(sum, used));
  }
  return sum;
}

// Counts the same from the lives of flows, and from what packets should take.
class Recount final : public RunObserver {
 public:
  explicit Recount(const RunOptions& options)
      : service_(options.controller.unit_capacity_bps,
                 options.controller.unit_packets_ps),
        meter_(options.controller.max_units, 8) {}

  void on_start(Instant first) override { meter_.on_start(first); }
  void on_service_begin(Instant now, UnitId unit, const PacketMeta& meta,
                        Nanos wait) override {
    meter_.on_service_begin(now, unit, meta, wait);
    Begin(meta);
  }
  void on_service_again(Instant now, UnitId unit,
                        const PacketMeta& meta) override {
    meter_.on_service_again(now, unit, meta);
    Begin(meta);
  }
  void on_service_end(Instant now, UnitId unit,
                      const PacketMeta& meta) override {
    meter_.on_service_end(now, unit, meta);
    Life& life = lives_[meta.flow];
    if (life.units == 0) life.begin = now;
    life.units |= uint64_t{1} << value(unit) % 64;
    life.end = now;
  }
  // Comes once for each packet, however often it waited.
  void on_nf_end(Instant, UnitId, const PacketMeta& meta,
                 const NfOutcome&) override {
    if (!meta.has_payload()) return;
    ++packets;
    bytes += meta.original_length;
  }
  void on_end_flow(Instant now, UnitId unit, const EndFlow& end) override {
    meter_.on_end_flow(now, unit, end);
    Life& life = lives_[end.flow];
    life.is_over = true;
    life.ordered = now;
  }
  void on_end(Instant now) override {
    meter_.on_end(now);
    Wide byte_ns = 0;
    for (const auto& [flow, life] : lives_) {
      if (life.units == 0) continue;
      const Instant end = life.is_over ? std::max(life.ordered, life.end) : now;
      byte_ns += Wide{8} * static_cast<uint64_t>((end - life.begin).ns);
      live += life.is_over ? 0 : 1;
      moved += (life.units & (life.units - 1)) != 0 ? 1 : 0;
    }
    state_byte_seconds = static_cast<uint64_t>(byte_ns / 1'000'000'000);
  }

  const UsageMeter& meter() const { return meter_; }

  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t processing_ns = 0;
  uint64_t state_byte_seconds = 0;
  uint64_t live = 0;   // flows at the end
  uint64_t moved = 0;  // flows that ran at several units

 private:
  struct Life {
    Instant begin{};
    Instant end{};  // of its last service
    Instant ordered{};
    bool is_over = false;
    uint64_t units = 0;  // by 64
  };
  void Begin(const PacketMeta& meta) {
    if (!meta.has_payload()) return;
    processing_ns +=
        static_cast<uint64_t>(service_.ServiceTime(meta.original_length).ns);
  }

  ServiceModel service_;
  UsageMeter meter_;
  std::map<FlowId, Life> lives_;
};

TEST(Usage, SumsEqualTheWorkDoneThroughMoves) {
  const TestSeeds seeds(200);
  uint64_t moved = 0;
  uint64_t packets = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const Schedule schedule = AnyScheduleOfAsks(rng);
    Recount recount(schedule.options);
    const Outcome outcome =
        RunFrames(schedule.options, *schedule.nf, schedule.packets,
                  schedule.policy, &recount);
    const Usage used = Sum(recount.meter());
    EXPECT_EQ(used.packets, recount.packets);
    EXPECT_EQ(used.bytes, recount.bytes);
    EXPECT_EQ(used.processing_ns, recount.processing_ns);
    EXPECT_EQ(used.state_byte_seconds, recount.state_byte_seconds);
    EXPECT_EQ(recount.meter().live_flows(), recount.live);
    EXPECT_LE(used.packets, outcome.run.packets_in);
    EXPECT_GE(used.packets + outcome.run.packets_dropped() +
                  outcome.run.packets_passed_through,
              outcome.run.packets_in);
    EXPECT_TRUE(recount.meter().JsonLines("a chain").ok());
    moved += recount.moved;
    packets += used.packets;
  }
  if (seeds.is_part) return;
  EXPECT_GT(moved, 1'000u);
  EXPECT_GT(packets, 10'000u);
}

// --- Real time. --------------------------------------------------------------

// 40 flows of packets of two lengths; one in nine is dropped by the NF, and one
// in eleven consumed.
std::vector<OfferedFrame> Mixed(uint32_t packets) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < packets; ++i) {
    const Ask ask = i % 9 == 0    ? Ask::kDropFirst
                    : i % 11 == 0 ? Ask::kConsume
                                  : Ask::kForward;
    frames.push_back({.time = Instant{Seconds(1'000).ns + i * 5'000},
                      .bytes = UdpFrame({.flow = i % 40,
                                         .sequence = i,
                                         .bytes = i % 3 == 0 ? 900u : 100u,
                                         .ask = ask})});
  }
  return frames;
}

RealOptions InRealTime() {
  RealOptions real = AsFastAsCanBe(1);
  real.unpaced = false;
  real.measures_busy = true;
  return real;
}

// By one controller, or by several.
RunResult RunReal(const RunOptions& options, const RealOptions& real,
                  const std::vector<OfferedFrame>& frames,
                  std::deque<UsageMeter>& meters) {
  const NfSpec nf = TimelessChronicleNf();
  if (meters.size() > 1) {
    std::vector<RunObserver*> observers;
    for (UsageMeter& meter : meters) observers.push_back(&meter);
    TestRealCluster cluster(options, real, static_cast<uint32_t>(meters.size()),
                            nf, "rotate", observers);
    for (const OfferedFrame& frame : frames) {
      cluster.Offer(frame.time, frame.bytes);
    }
    return cluster.Finish();
  }
  auto driver = RealDriver::Start(options, real, *FindPlacementPolicy("rotate"),
                                  nf, {&meters.front()});
  EXPECT_TRUE(driver.ok()) << driver.status();
  for (const OfferedFrame& frame : frames) {
    const auto length = static_cast<uint32_t>(frame.bytes.size());
    (*driver)->Offer({.time = frame.time,
                      .bytes = frame.bytes,
                      .original_bytes = length,
                      .link = frame.link});
  }
  return (*driver)->Finish();
}

TEST(UsageInRealTime, IsThatOfVirtualTime) {
  const auto frames = Mixed(3'000);
  RunOptions options = SmallTables();
  options.controller.max_units = 4;
  options.controller.flow_timeout = Seconds(2);
  options.unit_start_delay = Microseconds(50);
  UsageMeter virtual_time(options.controller.max_units, 8);
  const Outcome one = RunFrames(options, TimelessChronicleNf(), frames,
                                "rotate", &virtual_time);
  EXPECT_EQ(one.run.packets_dropped() + one.run.packets_consumed, 576u);
  const Usage expected = Sum(virtual_time);
  EXPECT_EQ(expected.packets, 3'000u);
  for (const uint32_t controllers : {1u, 3u}) {
    SCOPED_TRACE(controllers);
    std::deque<UsageMeter> meters;
    UsageMeter all(options.controller.max_units, 8);
    for (uint32_t c = 0; c < controllers; ++c) {
      meters.emplace_back(options.controller.max_units, 8);
    }
    const RunResult result = RunReal(options, InRealTime(), frames, meters);
    EXPECT_EQ(result.digest, one.run.digest);
    for (const UsageMeter& meter : meters) {
      EXPECT_EQ(meter.live_flows(), 0u);
      all.Add(meter);
    }
    const Usage used = Sum(all);
    EXPECT_EQ(used.packets, expected.packets);
    EXPECT_EQ(used.bytes, expected.bytes);
    EXPECT_EQ(used.processing_ns, expected.processing_ns);
    // 40 flows of 8 bytes live for 2 s and longer.
    EXPECT_GE(used.state_byte_seconds, 640u);
  }
}

// Without a capacity the clock says how long units were busy.
TEST(UsageInRealTime, CountsTimeOfUnitsWithoutACapacity) {
  RealOptions real = InRealTime();
  real.unpaced = true;
  std::deque<UsageMeter> meters;
  meters.emplace_back(4, 8);
  RunOptions options = SmallTables();
  options.controller.max_units = 4;
  RunReal(options, real, Mixed(1'000), meters);
  EXPECT_EQ(Sum(meters[0]).packets, 1'000u);
  EXPECT_GT(Sum(meters[0]).processing_ns, 1'000u);
}

}  // namespace
}  // namespace snf
