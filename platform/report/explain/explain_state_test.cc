// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/report/explain/test_explain.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Explain, TellsWhenStateWasThereAlready) {
  RunOptions options = SlowUnits();
  options.controller.alpha_1024 = 0;
  options.controller.first_demand_bps = 6'000'000;
  Replay run(options);
  run.At(0, 2, 300);
  run.At(10, 1, 100);  // unit 0 has no room
  for (int64_t us = 400; us <= 2'000; us += 400) run.At(us, 2, 300);
  run.At(2'400, 1, 100);  // what waited is gone
  const std::string story = run.Story();
  EXPECT_THAT(story, HasSubstr("1 moved to another unit, 1 of them seamless;"));
  EXPECT_THAT(story, HasSubstr("  state     2 pushes\n"));
  EXPECT_THAT(story,
              HasSubstr("  pushed   as of clock 1 at +0.350 ms to unit 0\n"));
  EXPECT_THAT(story, HasSubstr(R"(
flowlet 2  +2.390 ms  gap of 2.39 ms > 500 µs; moves from unit 1 to 0
  demand   3.80 Mbit/s = 38.1 %; room on 2 of 2 units
  units   >0: 60.1+0.0=60.1   1: 0.1+0.0=0.1
  state    there since +0.370 ms
  packets  1 with 100 bytes; clock 2
)"));
}

TEST(Explain, ShowsNoScoresWhereTheyDoNotDecide) {
  Replay sticky(SlowUnits(), 1, "passthrough", "vanilla_flow");
  sticky.At(0, 1, 100);
  sticky.At(1'000, 1, 100);
  const std::string story = sticky.Story();
  EXPECT_THAT(story, HasSubstr("policy vanilla_flow chose \">\"."));
  EXPECT_THAT(story, Not(HasSubstr("+25.0")));
  EXPECT_THAT(story, HasSubstr("stays on unit 0\n"));
}

// As snf places, under another name.
class ByScorePolicy final : public PlacementPolicy {
 public:
  std::string_view name() const override { return "by_score"; }
  std::string_view help() const override { return "for tests"; }
  bool by_score() const override { return true; }
  Placement Place(Instant now, const PlacementRequest& request, UnitPool& units,
                  ControllerOut& out) const override {
    return FindPlacementPolicy("snf")->Place(now, request, units, out);
  }
};

TEST(Explain, ShowsScoresOfAnyPolicyThatGoesByThem) {
  static const ByScorePolicy kPolicy;
  Explainer explainer(KeyOf(1), SlowUnits(), kPolicy);
  VirtualDriver driver(SlowUnits(), kPolicy, *FindNf("passthrough"),
                       {&explainer});
  for (const int64_t us : {0, 1'000}) {
    const Frame frame = FrameOf(1, 60);
    driver.Offer(
        {.time = {Microseconds(us).ns}, .bytes = frame, .original_bytes = 100});
  }
  driver.Finish();
  EXPECT_THAT(explainer.Story(), HasSubstr("+25.0"));
  EXPECT_THAT(explainer.Story(), Not(HasSubstr("policy by_score chose")));
}

TEST(Explain, CallsFlowletsOfSinglePacketsByTheirPackets) {
  Replay run(SlowUnits(), 1, "passthrough", "per_packet");
  run.At(0, 1, 100);
  run.At(10, 1, 100);
  run.At(1'000, 1, 100);
  const std::string story = run.Story();
  EXPECT_THAT(story, HasSubstr("flowlet 2  +0.010 ms  the next packet; stays"));
  EXPECT_THAT(story, HasSubstr("flowlet 3  +1.000 ms  gap of 990 µs > 500 µs"));
  EXPECT_THAT(story, HasSubstr("+25.0"));
}

// The flow's packets with clocks 1 and 2 on unit 0.
struct ByHand {
  ByHand() : explainer(KeyOf(1), SlowUnits(), *FindPlacementPolicy("snf")) {
    const UnitPool pool(SlowUnits().controller);
    explainer.on_arrival({0}, KeyOf(1), 100);
    explainer.on_decision({.time = {0},
                           .flow = kFlow,
                           .flowlet = 1,
                           .cause = FlowletCause::kNewFlow,
                           .gap = {},
                           .request = {},
                           .placement = {.unit = UnitId{0}}},
                          pool);
    explainer.on_enqueue({0}, UnitId{0},
                         {.flow = kFlow, .clock = Clock{1}, .arrival = {0}});
    explainer.on_arrival({400'000}, KeyOf(1), 100);
    explainer.on_enqueue(
        {400'000}, UnitId{0},
        {.flow = kFlow, .clock = Clock{2}, .arrival = {400'000}});
  }
  void Push(int64_t us, uint64_t clock, uint16_t unit) {
    explainer.on_state_sent(
        {Microseconds(us).ns}, UnitId{0}, UnitId{unit},
        {.flow = kFlow, .applied = Clock{clock}, .pushed = true});
  }

  static constexpr FlowId kFlow = MakeFlowId(0, 5, 1);
  Explainer explainer;
};

TEST(Explain, TellsTheLastPushToAllItsUnits) {
  ByHand run;
  run.Push(250, 1, 1);
  run.Push(650, 2, 1);
  run.Push(650, 2, 4);
  run.Push(650, 2, 2);
  // An answer to a pull is none.
  run.explainer.on_state_sent({700'000}, UnitId{0}, UnitId{3},
                              {.flow = run.kFlow, .applied = Clock{2}});
  const std::string story = run.explainer.Story();
  EXPECT_THAT(story, HasSubstr("  state     4 pushes\n"));
  EXPECT_THAT(story,
              HasSubstr("  pushed   2 times; the last time as of clock 2 "
                        "at +0.650 ms to units 1, 4, 2\n"));
}

TEST(Explain, TellsThatAUnitHandedTheFlowOverBeforeItStopped) {
  ByHand run;
  // In between came a packet of another flow.
  run.explainer.on_arrival({900'000}, KeyOf(2), 100);
  PacketMeta meta = {.flow = run.kFlow,
                     .clock = Clock{3},
                     .arrival = {1'000'000},
                     .flowlet = 1,
                     .source = UnitId{0},
                     .source_kind = StateSource::kUnit,
                     .flags = PacketMeta::kFirstOfFlowlet | PacketMeta::kNull};
  run.explainer.on_enqueue({1'000'000}, UnitId{1}, meta);
  run.explainer.on_service_begin({2'000'000}, UnitId{1}, meta, Milliseconds(1));
  meta.flow = MakeFlowId(0, 6, 1);  // nor do those of other flows count
  run.explainer.on_enqueue({1'000'000}, UnitId{1}, meta);
  const std::string story = run.explainer.Story();
  EXPECT_THAT(story,
              HasSubstr("  state     1 handed over by a unit that was to "
                        "stop\n"));
  EXPECT_THAT(story, HasSubstr("  handed   over from unit 0, which is to stop, "
                               "to 1 at +1.000 ms (clock 3)\n"));
  EXPECT_EQ(run.explainer.story().packets.enqueued, 2u);
  EXPECT_EQ(run.explainer.story().packets.held, 0u);
}

}  // namespace
}  // namespace snf
