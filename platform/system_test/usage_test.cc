// SPDX-License-Identifier: Apache-2.0
//
// What UsageMeter says that a run used is what was done in it, however flows
// moved. SNF_TEST_SEED=n runs the one schedule with that seed.
#include <cstdint>
#include <map>
#include <string>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "platform/report/usage_meter.h"
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
  if (seeds.is_chosen) return;
  EXPECT_GT(moved, 1'000u);
  EXPECT_GT(packets, 10'000u);
}

}  // namespace
}  // namespace snf
