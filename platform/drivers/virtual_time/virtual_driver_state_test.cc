// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/packet/flow_key_text.h"
#include "platform/drivers/virtual_time/virtual_driver.h"
#include "platform/system_test/test_run.h"

// Runs in which a flow's state follows it from unit to unit.
namespace snf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;

OfferedFrame At(int64_t ns, const FrameFields& fields = {}) {
  return {.time = Instant{ns}, .bytes = UdpFrame(fields)};
}

// Where a flow ran, and what its state did, a line each.
class Story final : public RunObserver {
 public:
  explicit Story(uint32_t slot) : slot_(slot) {}
  void on_service_begin(Instant now, UnitId unit, const PacketMeta& meta,
                        Nanos wait) override {
    if (slot_of(meta.flow) != slot_) return;
    Add(now, fmt::format("unit {} runs {}{}", value(unit), value(meta.clock),
                         wait == Unit::kNeverHeld
                             ? ""
                             : fmt::format(" held {} us", wait.ns / kUs)));
  }
  void on_state_sent(Instant now, UnitId sender, UnitId receiver,
                     const State& state) override {
    if (slot_of(state.flow) != slot_) return;
    Add(now, fmt::format("unit {} {} {} to {}", value(sender),
                         state.pushed ? "pushes" : "answers",
                         value(state.applied), value(receiver)));
  }
  void on_pull(Instant now, UnitId asked, const Pull& pull) override {
    if (slot_of(pull.flow) != slot_) return;
    Add(now,
        fmt::format("unit {} is asked for {}", value(asked), value(pull.need)));
  }
  void on_takeover(Instant now, UnitId told,
                   const Takeover& takeover) override {
    if (slot_of(takeover.flow) != slot_) return;
    Add(now, fmt::format("unit {} was taken from at {}", value(told),
                         value(takeover.clock)));
  }
  std::vector<std::string> lines;

 private:
  void Add(Instant now, const std::string& what) {
    lines.push_back(fmt::format("{} us: {}", now.ns / kUs, what));
  }
  uint32_t slot_;
};

// Units of 10 Mbit/s, of which the fullest with room is taken wherever the
// state is.
RunOptions TwoUnits() {
  RunOptions options = SmallTables();
  options.controller.unit_capacity_bps = 10'000'000;
  options.controller.first_demand_bps = 6'000'000;
  options.controller.max_units = 2;
  options.controller.warm_units = 2;
  options.controller.alpha_1024 = 0;
  return options;
}

// Flow 0 runs on unit 0, which knows no other unit yet; then on unit 1, where
// flow 1 goes on; and then, after `back` times 100 us, on unit 0 again, where
// flow 2 does.
std::vector<OfferedFrame> ThereAndBack(uint32_t back = 40) {
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i <= 50; ++i) {
    const int64_t time = i * 100 * kUs;
    if (i == 0 || i == 20 || i == back)
      packets.push_back(At(time, {.sequence = i}));
    if (i % 4 == 1 && i < back - 8) {
      packets.push_back(At(time, {.flow = 1, .sequence = i}));
    }
    if (i == 2 || (i % 4 == 3 && i > 20)) {
      packets.push_back(At(time, {.flow = 2, .sequence = i}));
    }
  }
  return packets;
}

Outcome Tell(const RunOptions& options,
             const std::vector<OfferedFrame>& packets, Story& story) {
  const Outcome outcome =
      RunFrames(options, TimelessChronicleNf(), packets, "snf", &story);
  ExpectSound(outcome);
  EXPECT_EQ(outcome.run.packets_dropped(), 0u);
  // What one unit makes of the packets.
  RunOptions one = SmallTables();
  one.controller.max_units = 1;
  EXPECT_EQ(outcome.run.digest,
            RunFrames(one, TimelessChronicleNf(), packets).run.digest);
  return outcome;
}

TEST(VirtualDriverState, IsThereBeforeTheFlowletWhereTheGapIsLongEnough) {
  Story story(0);
  const RunResult run = Tell(TwoUnits(), ThereAndBack(), story).run;
  // A record takes 20 us and the time of its 56 bytes.
  EXPECT_THAT(
      story.lines,
      ElementsAre("30 us: unit 0 runs 1",  //
                  "2002 us: unit 0 is asked for 1",
                  "2002 us: unit 0 answers 1 to 1",
                  "2022 us: unit 1 runs 2 held 21 us",
                  "2071 us: unit 0 was taken from at 2",
                  "2326 us: unit 1 pushes 2 to 0", "4001 us: unit 0 runs 3",
                  "4050 us: unit 1 was taken from at 3",
                  "4325 us: unit 0 pushes 3 to 1"));
  EXPECT_EQ(run.controller.flowlets_moved, 2u);
  EXPECT_EQ(run.state.seamless, 1u);
  EXPECT_EQ(run.state.pulled, 1u);
  EXPECT_EQ(run.state.wait_ns.min(), 0);
  EXPECT_EQ(run.state.wait_ns.max(), 21'045);
  EXPECT_EQ(run.state.worst.wait.ns, 21'045);
  EXPECT_EQ(slot_of(run.state.worst.flow), 0u);
  EXPECT_EQ(run.state.worst.clock, Clock{2});
  EXPECT_EQ(run.state.worst.unit, UnitId{1});
  EXPECT_EQ(ToString(run.state.worst.key), "udp 10.0.0.0:5000 > 192.0.2.9:53");
  EXPECT_EQ(run.state.pulls, 1u);
  EXPECT_EQ(run.state.answers, 1u);
  EXPECT_EQ(run.state.pushed_bytes, run.state.pushes * 56);
  EXPECT_EQ(run.state.bytes, run.state.pushed_bytes + 56);
}

// If two units are on one host, nothing is pushed, and a move takes a hop for
// the Pull and local_handover, whatever the network to other hosts is like.
TEST(VirtualDriverState, IsHandedOverWithinAHost) {
  Story story(0);
  RunOptions options = TwoUnits();
  options.controller.units_per_host = 2;
  options.local_handover = Microseconds(5);
  options.state_delay = Milliseconds(5);
  options.state_bandwidth_bps = 1'000;
  const RunResult run = Tell(options, ThereAndBack(), story).run;
  EXPECT_THAT(story.lines,
              ElementsAre("30 us: unit 0 runs 1",  //
                          "2002 us: unit 0 is asked for 1",
                          "2002 us: unit 0 answers 1 to 1",
                          "2007 us: unit 1 runs 2 held 6 us",
                          "2056 us: unit 0 was taken from at 2",
                          "4002 us: unit 1 is asked for 2",
                          "4002 us: unit 1 answers 2 to 0",
                          "4007 us: unit 0 runs 3 held 6 us",
                          "4056 us: unit 1 was taken from at 3"));
  EXPECT_EQ(run.state.pulled, 2u);
  EXPECT_EQ(run.state.moves_within_host, 2u);
  EXPECT_EQ(run.state.handed_over_within_host, 2u);
  EXPECT_EQ(run.state.seamless_within_host, 0u);
  EXPECT_EQ(run.state.answers_within_host, 2u);
  EXPECT_EQ(run.state.bytes, 0u);
  EXPECT_GT(run.state.bytes_within_host, 0u);
  EXPECT_EQ(run.state.pushes, 0u);
}

// Each packet goes to the next of four units, two on a host. A flow at unit 1
// is pushed to host 1, and continues at its unit 2; one at 3, at unit 0.
TEST(VirtualDriverState, IsPushedForAllUnitsOfAHost) {
  RunOptions options = TwoUnits();
  options.controller.max_units = options.controller.warm_units = 4;
  options.controller.units_per_host = 2;
  options.controller.replicas = 1;
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < 9; ++i) {
    packets.push_back(At(i * 2'000 * kUs, {.sequence = i}));
  }
  const Outcome outcome =
      RunFrames(options, TimelessChronicleNf(), packets, "rotate");
  ExpectSound(outcome);
  const RunResult& run = outcome.run;
  EXPECT_EQ(run.packets_released, packets.size());
  EXPECT_EQ(run.state.seamless + run.state.pulled, 8u);
  EXPECT_EQ(run.state.moves_within_host, 4u);
  // The first of four moves between hosts finds no unit known on the other.
  EXPECT_EQ(run.state.seamless_within_host, 0u);
  EXPECT_EQ(run.state.seamless, 3u);
}

TEST(VirtualDriverState, IsPulledWhereNothingIsPushed) {
  RunOptions options = TwoUnits();
  options.controller.replica_choice = ReplicaChoice::kNone;
  Story story(0);
  const RunResult run = Tell(options, ThereAndBack(), story).run;
  EXPECT_EQ(run.state.pushes, 0u);
  EXPECT_EQ(run.state.seamless, 0u);
  EXPECT_EQ(run.state.pulled, 2u);
  EXPECT_THAT(story.lines, Contains("4022 us: unit 0 runs 3 held 21 us"));
}

// The push comes while the packet waits: that, too, is a wait.
TEST(VirtualDriverState, EndsTheWaitWhenAPushComesLate) {
  RunOptions options = TwoUnits();
  options.state_delay = Microseconds(400);
  Story story(0);
  const RunResult run = Tell(options, ThereAndBack(30), story).run;
  EXPECT_EQ(run.state.seamless, 0u);
  EXPECT_EQ(run.state.pulled, 2u);
  EXPECT_THAT(story.lines,
              ElementsAre("30 us: unit 0 runs 1",  //
                          "2002 us: unit 0 is asked for 1",
                          "2002 us: unit 0 answers 1 to 1",
                          "2402 us: unit 1 runs 2 held 401 us",
                          "2451 us: unit 0 was taken from at 2",
                          "2719 us: unit 1 pushes 2 to 0",
                          "3002 us: unit 1 is asked for 2",
                          "3002 us: unit 1 answers 2 to 0",
                          "3149 us: unit 0 runs 3 held 148 us",
                          "3198 us: unit 1 was taken from at 3",
                          "3473 us: unit 0 pushes 3 to 1"));
  EXPECT_GT(run.state.units.refused[static_cast<size_t>(StateRefusal::kStale)],
            0u);
}

// Whatever of the messages about flow 0 is lost, its third packet leaves as it
// should: at once where the push was not lost, or after a pull.
TEST(VirtualDriverState, IsPulledWhereThePushWasLost) {
  RunOptions options = TwoUnits();
  options.chaos.state_loss_65536 = 16'384;
  options.state_retry = Microseconds(200);
  uint64_t seamless = 0;
  uint64_t repeated = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    options.controller.seed = seed;
    Story story(0);
    const RunResult run = Tell(options, ThereAndBack(), story).run;
    const bool is_at_once =
        testing::Value(story.lines, Contains("4001 us: unit 0 runs 3"));
    EXPECT_EQ(is_at_once, run.state.seamless == 1);
    EXPECT_NE(is_at_once,
              testing::Value(story.lines,
                             Contains(HasSubstr("unit 1 is asked for 2"))));
    seamless += run.state.seamless;
    repeated += run.state.units.pulls_repeated;
  }
  EXPECT_GT(seamless, 20u);
  EXPECT_LT(seamless, 38u);
  EXPECT_GT(repeated, 5u);
}

// Flow 0 keeps unit 0 busy. Flow 1 runs on unit 1 and rests; when unit 1 has
// been warm for its time, it hands flow 1 over and goes.
std::vector<OfferedFrame> OneRests() {
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i <= 500; ++i) {
    const int64_t time = i * 400 * kUs;
    packets.push_back(At(time, {.sequence = i}));
    if (i == 1 || i == 500) {
      packets.push_back(At(time + 100 * kUs, {.flow = 1, .sequence = i}));
    }
  }
  return packets;
}

RunOptions ShortLives() {
  RunOptions options = TwoUnits();
  options.controller.unit_idle_timeout = Milliseconds(10);
  options.controller.keep_warm = Milliseconds(50);
  return options;
}

TEST(VirtualDriverState, GoesOnElsewhereWhenItsUnitStops) {
  Story story(1);
  const Outcome outcome = Tell(ShortLives(), OneRests(), story);
  const RunResult& run = outcome.run;
  EXPECT_THAT(story.lines,
              ElementsAre("530 us: unit 1 runs 1",  //
                          "851 us: unit 1 pushes 1 to 0",
                          "60556 us: unit 0 runs 2",  // a null packet
                          "60557 us: unit 1 was taken from at 2",
                          "200101 us: unit 0 runs 3"));
  EXPECT_EQ(run.controller.evacuations, 1u);
  EXPECT_EQ(run.state.null_packets, 1u);
  EXPECT_EQ(run.controller.flowlets_moved, 0u);
  EXPECT_EQ(run.state.seamless + run.state.pulled, 0u);
  // From 0.5 ms until it was idle, and no more.
  int64_t unit_ns = 0;
  for (const EpochSample& sample : run.epochs) unit_ns += sample.unit_ns;
  EXPECT_NEAR(static_cast<double>(unit_ns), (10.5 + 210.1) * 1e6, 0.5e6);
  EXPECT_EQ(outcome.units_stopped, 2u);
}

// The null packet pulls what was not pushed; until then the unit stays.
TEST(VirtualDriverState, IsPulledFromAUnitThatStops) {
  RunOptions options = ShortLives();
  options.controller.replica_choice = ReplicaChoice::kNone;
  Story story(1);
  const RunResult run = Tell(options, OneRests(), story).run;
  EXPECT_THAT(story.lines,
              ElementsAre("530 us: unit 1 runs 1",  //
                          "60557 us: unit 1 is asked for 1",
                          "60557 us: unit 1 answers 1 to 0",
                          "60577 us: unit 0 runs 2 held 21 us",
                          "60578 us: unit 1 was taken from at 2",
                          "200101 us: unit 0 runs 3"));
  EXPECT_EQ(run.state.null_packets, 1u);
  EXPECT_EQ(run.state.pulls, 1u);
  EXPECT_EQ(run.state.wait_ns.count(), 0u);
}

// What unit 1 keeps after its second start came to it since.
TEST(VirtualDriverState, StartsAgainEmptyAfterAStop) {
  RunOptions options = ShortLives();
  std::vector<OfferedFrame> packets = OneRests();
  // Both flows end up on unit 0. Enough load later to need unit 1 again.
  for (uint32_t i = 0; i < 60; ++i) {
    for (uint32_t flow = 0; flow < 4; ++flow) {
      packets.push_back(
          At((300 + i) * kMs + flow * 10 * kUs,
             {.flow = flow, .sequence = 1'000 + i, .bytes = 400}));
    }
  }
  Story story(1);
  const RunResult run = Tell(options, packets, story).run;
  EXPECT_EQ(run.cold_starts, 1u);
  EXPECT_GT(run.controller.flowlets_moved, 3u);
  EXPECT_GT(run.state.units.replicas_taken, 3u);
}

// Packets that find no room to be held are dropped; their clocks go on.
TEST(VirtualDriverState, GoesOnAfterPacketsThatWereNotHeld) {
  RunOptions options = TwoUnits();
  options.hold_packets = 2;
  std::vector<OfferedFrame> packets = ThereAndBack();
  for (uint32_t i = 1; i <= 4; ++i) {
    packets.push_back(At(2 * kMs + i, {.sequence = 20 + i}));
  }
  std::ranges::stable_sort(packets, {}, &OfferedFrame::time);
  Story story(0);
  const Outcome outcome =
      RunFrames(options, TimelessChronicleNf(), packets, "snf", &story);
  ExpectSound(outcome);
  EXPECT_THAT(outcome.run.dropped, Contains(3u));
  EXPECT_EQ(outcome.run.state.tombstones, 3u);
  EXPECT_EQ(outcome.run.packets_dropped(), 3u);
  EXPECT_THAT(story.lines, IsSupersetOf({"2022 us: unit 1 runs 2 held 21 us",
                                         "2070 us: unit 1 runs 3 held 69 us",
                                         // Which take no time.
                                         "2118 us: unit 1 runs 4 held 117 us",
                                         "2118 us: unit 1 runs 5 held 117 us",
                                         "2118 us: unit 1 runs 6 held 117 us",
                                         "4001 us: unit 0 runs 7"}));
}

}  // namespace
}  // namespace snf
