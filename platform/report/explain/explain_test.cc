// SPDX-License-Identifier: Apache-2.0
#include "platform/report/explain/explain.h"

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/report/explain/test_explain.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Drops frames of 61 bytes and takes those of 62.
class Sorter final : public NetworkFunction {
  Verdict process_packet(Packet& packet, FlowState&) override {
    if (packet.bytes().size() == 61) return Verdict::drop(0);
    if (packet.bytes().size() == 62) return Verdict::consume();
    return Verdict::forward();
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"unwanted"};
    return kReasons;
  }
};
SNF_REGISTER_NF(Sorter, "explain_test_sorter", "drops and consumes");

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t Columns(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string WithoutLegend(const std::string& story) {
  const size_t from = story.find("How to read");
  const size_t to = story.find("\n\n", from);
  return story.substr(0, from) + story.substr(to + 2);
}

TEST(Explain, TellsTheStoryOfASmallRun) {
  Replay run(SlowUnits());
  run.At(0, 2, 900);
  run.At(1'000, 2, 900);  // flow 2 is measured and found large
  run.At(2'000, 1, 100);
  run.At(2'010, 1, 100);
  run.At(2'020, 2, 900);
  run.At(3'900, 2, 900);
  run.At(4'000, 1, 9'000);  // so unit 0 has no room
  run.At(4'001, 1, 9'000);
  run.At(4'300, 2, 900);
  run.At(4'600, 3, 100);
  run.At(4'700, 1, 100);  // has no room anywhere
  EXPECT_EQ(WithoutLegend(run.Story()),
            R"(Flow udp 10.0.0.1:1 <> 192.0.2.9:53
  traffic   5 packets, 18,300 bytes; lasted 2.70 ms;
            first seen 2.00 ms after the run's first packet
  decisions 4 flowlets; 3 moved to another unit; 2 overcommitted
  units     2 used; unit 0 for 2 flowlets; unit 1 for 2 flowlets
  state     1 push; 3 pulls;
            held 3 packets, 7.16 ms at most (flowlet 4, clock 5)
  packets   5 released
  latency   p50 7.23 ms, p99 14.4 ms, max 14.4 ms;
            longest wait 13.8 ms (flowlet 4, clock 5)

flowlet 1  +0.000 ms  new flow; starts on unit 0
  demand   294 kbit/s = 3.0 %; room on 1 of 1 unit
  units   >0: 1.5
  packets  2 with 200 bytes; clocks 1 to 2
  latency  p50 82.0 µs, max 152 µs; longest wait 70.0 µs (clock 2)
flowlet 2  +2.000 ms  gap of 1.99 ms > 500 µs; moves from unit 0 to 1
  demand   1.75 Mbit/s = 17.5 %; room on 1 of 2 units
  units    0: 87.7+25.0 no room  >1: 0.0
  state    asked of unit 0 as of clock 2 at +2.001 ms; came 21.0 µs later;
           held 1 packet for 21.0 µs (clock 3)
  packets  1 with 9,000 bytes; clock 3
  latency  7.22 ms; longest wait 21.0 µs (clock 3)
flowlet 3  +2.001 ms  9,000 + 9,000 bytes > 15,000; moves from unit 1 to 0
  demand   5.87 Mbit/s = 58.8 %; OVERCOMMITTED: no room on 2 units
  units   >0: 87.7 no room         1: 720.0+25.0 no room
  state    asked of unit 1 as of clock 3 at +2.621 ms; came 6.62 ms later;
           held 1 packet for 6.62 ms (clock 4)
  packets  1 with 9,000 bytes; clock 4
  latency  14.4 ms; longest wait 7.24 ms (clock 4)
flowlet 4  +2.700 ms  gap of 699 µs > 500 µs; moves from unit 0 to 1
  demand   7.94 Mbit/s = 79.4 %; OVERCOMMITTED: no room on 2 units
  units    0: 879.8+25.0 no room  >1: 726.1+25.0 no room
  state    asked of unit 0 as of clock 4 at +9.302 ms; came 7.16 ms later;
           held 1 packet for 7.16 ms (clock 5)
  packets  1 with 100 bytes; clock 5
  latency  13.8 ms; longest wait 13.8 ms (clock 5)
  pushed   as of clock 5 at +16.808 ms to unit 0
)");
}

TEST(Explain, ExplainsItsWordsInItsOwnUnits) {
  RunOptions options = SlowUnits();
  options.controller.alpha_1024 = 512;
  options.hop_delay = Microseconds(3);
  Replay run(options);
  run.At(0, 1, 100);
  const std::string story = run.Story();
  EXPECT_THAT(story, HasSubstr("in % of a unit of 10.0 Mbit/s\n"));
  EXPECT_THAT(story, HasSubstr("plus 50.0 for a unit with the flow's state"));
  EXPECT_THAT(story, HasSubstr("3 µs to the unit"));
}

TEST(Explain, SaysThatAFlowDidNotComeUp) {
  Replay run(SlowUnits(), 7);
  run.At(0, 1, 100);
  EXPECT_EQ(run.Story(),
            "Flow udp 10.0.0.1:7 <> 192.0.2.9:53 did not come up in this "
            "run.\n");
}

TEST(Explain, KeepsSoManyLatenciesOfAFlowlet) {
  RunOptions options = SlowUnits();
  options.controller.flowlet_bytes = 1'000'000;
  Replay run(options);
  for (int64_t i = 0; i < 300; ++i) run.At(i * 400, 1, 400);
  EXPECT_THAT(run.Story(), HasSubstr("p50 322 µs (of the first 256), max 322"));
  EXPECT_EQ(run.explainer.story().first_flowlets.at(0).latencies_ns.size(),
            FlowletStory::kMaxLatencies);
}

TEST(Explain, CountsDropsOfTheController) {
  RunOptions options = SlowUnits();
  options.controller.unit_queue_packets = 2;
  Replay run(options);
  for (int64_t i = 0; i < 5; ++i) run.At(i, 1, 1'000);
  const std::string story = run.Story();
  EXPECT_THAT(story, HasSubstr("  packets   2 released; "
                               "3 dropped (unit_queue_full 3)\n"));
  EXPECT_THAT(story, HasSubstr("  drops     +0.002 ms unit_queue_full; "
                               "+0.003 ms unit_queue_full;\n"));
  EXPECT_THAT(story, HasSubstr("  packets  5 with 5,000 bytes; clocks 1 to 2; "
                               "3 dropped (unit_queue_full 3)\n"));
}

TEST(Explain, SaysThatNoPacketOfAFlowletGotThrough) {
  RunOptions options = SlowUnits();
  options.controller.unit_queue_packets = 1;
  options.controller.max_units = 1;
  options.controller.warm_units = 1;
  Replay run(options);
  run.At(0, 2, 10'000);  // 8 ms of service
  run.At(1'000, 1, 100);
  EXPECT_THAT(run.Story(),
              HasSubstr("  packets  1 with 100 bytes; no packet got a clock;\n"
                        "           1 dropped (unit_queue_full 1)\n"));
  EXPECT_EQ(run.explainer.story().packets.enqueued, 0u);
}

TEST(Explain, CountsDropsBeforeTheController) {
  Replay run(SlowUnits());
  run.At(0, 1, 100'000, BufferPool::kMaxPacketBytes + 1);
  const std::string story = run.Story();
  EXPECT_THAT(story, HasSubstr("  traffic   1 packet, 100,000 bytes;\n"));
  EXPECT_THAT(story, HasSubstr("1 dropped (packet_too_large 1)"));
  EXPECT_THAT(story, Not(HasSubstr("flowlet 1")));
}

TEST(Explain, TellsWhatTheNfDroppedAndConsumed) {
  Replay run(SlowUnits(), 1, "explain_test_sorter");
  for (const size_t length : {60u, 61u, 62u, 61u, 60u}) {
    run.At(0, 1, 100, length);
  }
  run.At(1'000, 1, 100, 61);
  const std::string story = run.Story();
  EXPECT_THAT(story, HasSubstr("  packets   2 released; 1 consumed by the NF; "
                               "3 dropped (unwanted 3)\n"));
  EXPECT_THAT(story, HasSubstr("clocks 1 to 5; 1 consumed by the NF;\n"
                               "           2 dropped (unwanted 2)\n"));
  EXPECT_THAT(story, HasSubstr("clock 6; 1 dropped (unwanted 1)\n"));
}

TEST(Explain, FollowsAFlowThatCameBack) {
  RunOptions options = SlowUnits();
  options.controller.flow_timeout = Milliseconds(1);
  options.controller.max_units = options.controller.warm_units = 1;
  options.check = false;  // the Checker knows one life a slot
  Replay run(options);
  run.At(0, 1, 10'000);  // still in service when the flow is forgotten
  run.At(5'000, 1, 100);
  run.At(5'600, 1, 100);
  run.At(9'000, 1, 100);
  const std::string story = run.Story();
  EXPECT_EQ(run.explainer.story().lives, 3u);
  EXPECT_EQ(run.explainer.story().packets.released, 4u);
  EXPECT_THAT(story,
              HasSubstr("lives     3; it is forgotten when silent for 1 ms"));
  EXPECT_THAT(
      story,
      HasSubstr("flowlet 1  +5.000 ms  forgotten, new again after 5 ms"));
  EXPECT_THAT(story, HasSubstr("flowlet 2  +5.600 ms  gap of 600 µs > 500 µs"));
  EXPECT_THAT(story, HasSubstr("(flowlet 1, clock 1 in life 2)"));
}

TEST(Explain, ShowsTheTellingOnesOfManyUnits) {
  RunOptions options = SlowUnits();
  options.controller.max_units = 12;
  options.controller.warm_units = 12;
  options.controller.first_demand_bps = 6'000'000;
  Replay run(options, 12);
  run.At(0, 12, 100);
  for (uint16_t flow = 1; flow < 12; ++flow) run.At(100 + flow, flow, 100);
  run.At(1'000, 12, 100);
  const std::vector<FlowletStory>& flowlets =
      (run.Story(), run.explainer.story().first_flowlets);
  ASSERT_EQ(flowlets.size(), 2u);
  EXPECT_EQ(flowlets[0].candidates.size(), 1u);
  EXPECT_EQ(flowlets[1].placeable_units, 12u);
  ASSERT_LE(flowlets[1].candidates.size(), 4u);
  const Decision& decision = flowlets[1].decision;
  for (const UnitId shown : {decision.placement.unit, decision.request.owner}) {
    EXPECT_TRUE(std::ranges::any_of(
        flowlets[1].candidates,
        [&](const CandidateUnit& c) { return c.unit == shown; }));
  }
  EXPECT_THAT(run.explainer.Story(), HasSubstr(" others\n"));
}

// Traffic of four flows in bursts, so that all happens that can happen.
void Storm(Replay& run, uint64_t seed, int packets) {
  Rng rng(seed);
  int64_t us = 0;
  for (int i = 0; i < packets; ++i) {
    const uint64_t dice = rng.Below(200);
    us += dice == 0   ? 30'000  // longer than the flow timeout
          : dice < 10 ? 2'000
                      : static_cast<int64_t>(rng.Below(300));
    run.At(us, static_cast<uint16_t>(1 + rng.Below(4)),
           static_cast<uint32_t>(60 + rng.Below(1'400)),
           static_cast<size_t>(60 + rng.Below(3)));
  }
}

RunOptions StormOptions() {
  RunOptions options = SlowUnits();
  options.controller.max_units = 6;
  options.controller.warm_units = 2;
  options.controller.flowlet_bytes = 3'000;
  options.controller.unit_queue_packets = 4;
  options.controller.start_buffer_packets = 2;
  options.controller.flow_timeout = Milliseconds(20);
  options.unit_start_delay = Milliseconds(5);
  return options;
}

TEST(Explain, AddsUpAndKeepsItsBounds) {
  uint64_t moved = 0, overcommitted = 0, dropped = 0, lives = 0, held = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Replay run(StormOptions(), 1, "explain_test_sorter");
    Storm(run, seed, 2'000);
    const std::string text = run.Story();
    const FlowStory& story = run.explainer.story();
    ASSERT_EQ(story.first_flowlets.size(), Explainer::kFirstFlowlets);
    ASSERT_EQ(story.last_flowlets.size(), Explainer::kLastFlowlets);
    EXPECT_EQ(story.flowlets + story.late,
              story.between + story.moved_flowlets.size() +
                  Explainer::kFirstFlowlets + Explainer::kLastFlowlets);
    EXPECT_THAT(text, HasSubstr("flowlets between are not shown one by one"));
    EXPECT_LE(run.explainer.lives_followed(), 2u);

    PacketFates sum = story.between_packets;
    for (const FlowletStory& f : story.first_flowlets) sum.Add(f.packets);
    for (const FlowletStory& f : story.moved_flowlets) sum.Add(f.packets);
    for (const FlowletStory& f : story.last_flowlets) sum.Add(f.packets);
    const PacketFates& all = story.packets;
    EXPECT_EQ(sum.arrived, all.arrived);
    EXPECT_EQ(sum.bytes, all.bytes);
    EXPECT_EQ(sum.enqueued, all.enqueued);
    EXPECT_EQ(sum.released, all.released);
    EXPECT_EQ(sum.consumed, all.consumed);
    EXPECT_EQ(sum.longest_wait, all.longest_wait);
    EXPECT_EQ(sum.held, all.held);
    EXPECT_EQ(sum.longest_hold, all.longest_hold);
    EXPECT_EQ(sum.longest_latency, all.longest_latency);
    EXPECT_EQ(all.enqueued, all.released + all.consumed + all.dropped_at_unit);
    for (const std::string& line : LinesOf(text)) EXPECT_LE(Columns(line), 80u);

    EXPECT_LE(story.seamless, story.moved);
    moved += story.moved;
    held += all.held;
    overcommitted += story.overcommitted;
    dropped += all.arrived - all.enqueued;
    lives += story.lives;
  }
  EXPECT_GT(moved, 100u);
  EXPECT_GT(overcommitted, 100u);
  EXPECT_GT(dropped, 50u);
  EXPECT_GT(lives, 20u);
  EXPECT_GT(held, 50u);
}

TEST(Explain, ShowsTheFirstMovesAmongFlowletsThatItDoesNotShow) {
  RunOptions options = SlowUnits();
  options.controller.alpha_1024 = 0;  // to the fullest with room
  Replay run(options);
  int64_t ms = 0;
  for (int i = 0; i < 25; ++i) run.At(ms += 10'000, 1, 100);  // on unit 0
  // From here on flow 2, on unit 0 or 1, makes flow 1 go where it is or not.
  for (int i = 0; i < 200; ++i) {
    for (int k = 0; k < 10; ++k) run.At(ms += 700, 2, i % 10 < 5 ? 60 : 1'200);
    run.At(ms += 700, 1, 100);
  }
  const std::string text = run.Story();
  const FlowStory& story = run.explainer.story();
  ASSERT_GT(story.moved, 3u);
  EXPECT_TRUE(std::ranges::none_of(story.first_flowlets, &FlowletStory::moved));
  ASSERT_EQ(story.moved_flowlets.size(), Explainer::kMovedFlowlets);
  EXPECT_TRUE(std::ranges::all_of(story.moved_flowlets, &FlowletStory::moved));
  EXPECT_THAT(text, HasSubstr(" between are not shown one by one; 3 that "
                              "moved are\n"));
  const std::string name =
      "flowlet " +
      std::to_string(story.moved_flowlets.front().decision.flowlet) + " ";
  EXPECT_THAT(text, HasSubstr(name));
}

TEST(Explain, ShowsTheFlowletThatItIsToKeep) {
  FlowId flow = kNoFlow;
  for (const bool keeps : {false, true}) {
    Replay run(SlowUnits());
    if (keeps) run.explainer.Keep(flow, Clock{50});
    for (int64_t i = 0; i < 100; ++i) run.At(i * 10'000, 1, 100);
    run.Story();
    const FlowStory& story = run.explainer.story();
    flow = story.first_flowlets.front().decision.flow;
    ASSERT_EQ(story.flowlets, 100u);
    ASSERT_EQ(story.moved_flowlets.size(), keeps ? 1u : 0u);
    EXPECT_EQ(story.between, keeps ? 69u : 70u);
    if (!keeps) continue;
    EXPECT_EQ(story.moved_flowlets.front().first, Clock{50});
    EXPECT_EQ(story.moved_flowlets.front().packets.released, 1u);
  }
}

TEST(Explain, CountsAsTheRunDoesWhenThereIsOneFlow) {
  Replay run(StormOptions(), 1, "explain_test_sorter");
  for (int i = 0; i < 500; ++i) {
    run.At(i * 400 + i % 7 * 100, 1, 700, static_cast<size_t>(60 + i % 3));
  }
  // With pauses, in which the state goes to where it will be wanted.
  for (int i = 0; i < 400; ++i) run.At(210'000 + i / 4 * 10'000, 1, 1'400);
  run.Story();
  const FlowStory& story = run.explainer.story();
  EXPECT_EQ(story.packets.arrived, run.result.packets_in);
  EXPECT_EQ(story.packets.bytes, run.result.bytes_in);
  EXPECT_EQ(story.packets.released, run.result.packets_released);
  EXPECT_EQ(story.packets.consumed, run.result.packets_consumed);
  EXPECT_EQ(story.flowlets, run.result.controller.flowlets);
  EXPECT_EQ(story.moved, run.result.controller.flowlets_moved);
  EXPECT_EQ(story.overcommitted, run.result.controller.overcommitted);
  EXPECT_EQ(story.lives, run.result.controller.flows);
  EXPECT_EQ(story.latency_ns, run.result.latency_ns);
  const StateFigures& state = run.result.state;
  EXPECT_EQ(story.seamless, state.seamless);
  EXPECT_EQ(story.moved - story.seamless, state.pulled);
  EXPECT_EQ(story.pushes, state.pushes);
  EXPECT_GE(story.packets.longest_hold, state.worst.wait);
  EXPECT_GT(story.seamless, 20u);
  EXPECT_GT(state.pulled, 20u);
}

TEST(Explain, ChangesNothing) {
  Replay seen(StormOptions());
  VirtualDriver unseen(StormOptions(), *FindPlacementPolicy("snf"),
                       *FindNf("passthrough"), {});
  for (int i = 0; i < 500; ++i) {
    seen.At(i * 300, 1, 700);
    const Frame frame = FrameOf(1, 60);
    CapturedPacket packet;
    packet.time = {Microseconds(i * 300).ns};
    packet.bytes = frame;
    packet.original_bytes = 700;
    unseen.Offer(packet);
  }
  seen.Story();
  EXPECT_EQ(unseen.Finish().digest, seen.result.digest);
}

// Flowlets that are only summed up pull as well.
TEST(Explain, CountsThePullsOfAllFlowlets) {
  RunOptions options = SlowUnits();
  options.controller.alpha_1024 = 0;
  options.controller.replicas = 0;
  options.controller.replica_choice = ReplicaChoice::kNone;
  for (const bool is_kept : {false, true}) {
    Replay run(options, 1, "passthrough", "rotate");
    if (is_kept) run.explainer.Keep(MakeFlowId(0, 0, 1), Clock{50});
    for (int64_t i = 0; i < 100; ++i) run.At(i * 2'000, 1, 100);
    run.Story();
    const FlowStory& story = run.explainer.story();
    EXPECT_GT(story.between, 50u);
    EXPECT_GT(run.result.state.pulls, 60u);
    EXPECT_EQ(story.pulls, run.result.state.pulls);
    EXPECT_EQ(story.pulls, story.moved - story.seamless);
  }
}

// What a driver cannot be brought to in a few packets.
TEST(Explain, TellsOfAFlowletPlacedTwiceAndOfStateThatDidNotCome) {
  RunOptions options = SlowUnits();
  Explainer explainer(KeyOf(1), options, *FindPlacementPolicy("snf"));
  UnitPool pool(options.controller);
  const FlowId flow = MakeFlowId(0, 5, 1);
  explainer.on_arrival({0}, KeyOf(1), 100);
  Decision decision = {.time = {0},
                       .flow = flow,
                       .flowlet = 1,
                       .cause = FlowletCause::kNewFlow,
                       .gap = {},
                       .request = {},
                       .placement = {}};
  explainer.on_decision(decision, pool);
  explainer.on_drop({.time = {0}, .bytes = {}}, "start_buffer_full");
  explainer.on_arrival({100'000}, KeyOf(1), 100);
  decision.cause = FlowletCause::kLate;
  decision.time = {100'000};
  decision.placement.unit = UnitId{1};
  decision.request.owner = UnitId{0};
  explainer.on_decision(decision, pool);
  explainer.on_enqueue({100'000}, UnitId{1},
                       {.flow = flow, .clock = Clock{1}, .arrival = {100'000}});
  explainer.on_pull({104'000}, UnitId{0},
                    {.flow = flow, .need = Clock{0}, .requester = UnitId{1}});
  // The same need again, and another one, that no flowlet begins with.
  for (const uint64_t need : {0, 7, 0, 7}) {
    explainer.on_pull(
        {105'000}, UnitId{0},
        {.flow = flow, .need = Clock{need}, .requester = UnitId{1}});
  }
  EXPECT_EQ(explainer.story().pulls, 2u);
  const std::string story = explainer.Story();
  EXPECT_THAT(story, HasSubstr("1 placed twice"));
  EXPECT_THAT(story, HasSubstr("new flow; there is no unit for it\n"));
  EXPECT_THAT(story, HasSubstr("rest of flowlet 1  +0.100 ms  it had no unit"));
  EXPECT_THAT(story, HasSubstr("the state's unit 0 is parked"));
  EXPECT_THAT(story, HasSubstr("at +0.103 ms; it did not come"));
  EXPECT_THAT(story, HasSubstr("clock 1; 1 under way"));
}

}  // namespace
}  // namespace snf
