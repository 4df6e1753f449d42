// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/release_order.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using Kind = UnitCommand::Kind;

UnitCommand Command(Kind kind, FlowId flow, uint64_t clock) {
  PacketMeta meta;
  meta.flow = flow;
  meta.clock = Clock{clock};
  return UnitCommand::OfPacket(kind, kNoPacket, meta);
}

// The controller gives the flow's clocks 1 … newest to units.
void GiveTo(ReleaseOrder& order, FlowId flow, uint64_t newest) {
  for (uint64_t clock = 1; clock <= newest; ++clock) {
    PacketMeta meta;
    meta.flow = flow;
    meta.clock = Clock{clock};
    if (clock == 1) meta.flags = PacketMeta::kNewFlow;
    order.Enqueue(meta);
  }
}

class ReleaseOrderTest : public testing::Test {
 protected:
  static constexpr FlowId kFlow = MakeFlowId(0, 3, 0);
  void Give(uint64_t newest, FlowId flow = kFlow) {
    GiveTo(order_, flow, newest);
  }
  bool On(Kind kind, uint64_t clock, FlowId flow = kFlow) {
    return order_.On(Command(kind, flow, clock), [&](const UnitCommand& c) {
      out_.push_back(fmt::format("{}{}", c.kind == Kind::kEmit ? "e" : "",
                                 value(c.meta.clock)));
    });
  }
  ReleaseOrder order_{4};
  std::vector<std::string> out_;
};

TEST_F(ReleaseOrderTest, FollowsTheWorkedExample) {
  Give(3);
  On(Kind::kEmit, 3);
  On(Kind::kRelease, 3);
  EXPECT_THAT(out_, ElementsAre());
  EXPECT_EQ(order_.waiting(), 2u);
  On(Kind::kRelease, 1);
  EXPECT_THAT(out_, ElementsAre("1"));
  On(Kind::kRelease, 2);
  EXPECT_THAT(out_, ElementsAre("1", "2", "e3", "3"));
  EXPECT_EQ(order_.waiting(), 0u);
}

TEST_F(ReleaseOrderTest, WaitsForWhateverEndsAClock) {
  Give(5);
  On(Kind::kRelease, 5);
  On(Kind::kNfDrop, 1);
  On(Kind::kDrop, 2);
  On(Kind::kConsume, 3);
  EXPECT_THAT(out_, ElementsAre("1", "2", "3"));
  On(Kind::kAdvance, 4);
  EXPECT_THAT(out_, ElementsAre("1", "2", "3", "4", "5"));
}

// Clock 4 was lost, and becomes a tombstone; 6 is in a unit.
TEST_F(ReleaseOrderTest, GoesOnWithWhatUnitsHaveOfAnotherProcess) {
  order_.Succeed(0, 4, [](uint32_t slot) {
    return slot == 3 ? std::pair(kFlow, Clock{6}) : std::pair(kNoFlow, Clock{});
  });
  const auto meta = [](uint64_t clock) {
    return Command(Kind::kRelease, kFlow, clock).meta;
  };
  order_.Inherit(meta(5));
  order_.Inherit(meta(6));
  order_.Enqueue(meta(4));
  order_.Enqueue(meta(7));
  EXPECT_FALSE(On(Kind::kRelease, 3));
  On(Kind::kRelease, 6);
  On(Kind::kRelease, 5);
  EXPECT_THAT(out_, ElementsAre());
  On(Kind::kAdvance, 4);
  On(Kind::kRelease, 7);
  EXPECT_THAT(out_, ElementsAre("4", "5", "6", "7"));
}

// Nobody had its packets, but clocks 5 and 6 were lost.
TEST_F(ReleaseOrderTest, GivesLostClocksOfADeadProcessOnceMore) {
  order_.Succeed(0, 1, [](uint32_t) { return std::pair(kFlow, Clock{6}); });
  const auto meta = [](uint64_t clock) {
    return Command(Kind::kAdvance, kFlow, clock).meta;
  };
  EXPECT_FALSE(On(Kind::kAdvance, 5));
  order_.Enqueue(meta(5));
  order_.Enqueue(meta(6));
  EXPECT_TRUE(On(Kind::kAdvance, 6));
  EXPECT_TRUE(On(Kind::kAdvance, 5));
  EXPECT_FALSE(On(Kind::kAdvance, 4));
  EXPECT_THAT(out_, ElementsAre("5", "6"));
}

TEST_F(ReleaseOrderTest, LetsATimersPacketOutBehindItsClock) {
  Give(1);
  On(Kind::kRelease, 1);
  On(Kind::kEmit, 1);
  EXPECT_THAT(out_, ElementsAre("1", "e1"));
}

TEST_F(ReleaseOrderTest, RefusesAClockThatHasEnded) {
  Give(2);
  EXPECT_TRUE(On(Kind::kRelease, 1));
  EXPECT_FALSE(On(Kind::kRelease, 1));
  EXPECT_TRUE(On(Kind::kRelease, 2));
  EXPECT_FALSE(On(Kind::kDrop, 1));
  EXPECT_THAT(out_, ElementsAre("1", "2"));
}

// Clocks 1 and 3 are lost with a unit. The flow's slot is another flow's later.
TEST_F(ReleaseOrderTest, LetsAFlowGoThatIsGivenUp) {
  Give(6);
  On(Kind::kRelease, 4);
  On(Kind::kRelease, 2);
  EXPECT_EQ(order_.waiting(), 2u);
  order_.Forsake(kFlow, [&](const UnitCommand& c) {
    out_.push_back(fmt::format("{}", value(c.meta.clock)));
  });
  EXPECT_THAT(out_, UnorderedElementsAre("2", "4"));
  EXPECT_EQ(order_.waiting(), 0u);
  out_.clear();
  EXPECT_TRUE(On(Kind::kDrop, 6));
  EXPECT_FALSE(On(Kind::kDrop, 7)) << "it was not given";
  constexpr FlowId kNext = MakeFlowId(0, 3, 1);
  Give(2, kNext);
  EXPECT_TRUE(On(Kind::kDrop, 5));
  EXPECT_THAT(out_, ElementsAre("6", "5"));
  EXPECT_EQ(order_.earlier(), 0u);
  EXPECT_TRUE(On(Kind::kRelease, 1, kNext));
  EXPECT_FALSE(On(Kind::kRelease, 1, kNext));
}

TEST_F(ReleaseOrderTest, LetsAFlowGoThatIsGivenUpBehindTheNextOfItsSlot) {
  Give(3);
  On(Kind::kRelease, 3);
  Give(1, MakeFlowId(0, 3, 1));
  EXPECT_EQ(order_.earlier(), 1u);
  order_.Forsake(kFlow, [&](const UnitCommand& c) {
    out_.push_back(fmt::format("{}", value(c.meta.clock)));
  });
  EXPECT_EQ(order_.waiting() + order_.earlier(), 0u);
  EXPECT_TRUE(On(Kind::kRelease, 2));
  EXPECT_THAT(out_, ElementsAre("3", "2"));
}

TEST_F(ReleaseOrderTest, RefusesWhatWasNotGiven) {
  EXPECT_FALSE(On(Kind::kRelease, 1));
  Give(2);
  EXPECT_FALSE(On(Kind::kRelease, 3));
  EXPECT_FALSE(On(Kind::kEmit, 3));
  EXPECT_FALSE(On(Kind::kRelease, ~uint64_t{0}));
  EXPECT_FALSE(On(Kind::kRelease, 0));
  EXPECT_FALSE(On(Kind::kRelease, 1, MakeFlowId(0, 3, 9)));
  EXPECT_FALSE(On(Kind::kRelease, 1, MakeFlowId(1, 3, 0)));
  EXPECT_FALSE(On(Kind::kRelease, 1, MakeFlowId(0, 0xffff'ffff, 0)));
  EXPECT_EQ(order_.waiting(), 0u);
  EXPECT_THAT(out_, ElementsAre());
  EXPECT_TRUE(On(Kind::kRelease, 1));
}

TEST_F(ReleaseOrderTest, TellsOfAClockThatEndedTwiceWhileItWaited) {
  Give(3);
  EXPECT_TRUE(On(Kind::kRelease, 2));
  EXPECT_TRUE(On(Kind::kRelease, 2));
  EXPECT_TRUE(On(Kind::kRelease, 2));
  EXPECT_EQ(order_.repeated(), nullptr);
  EXPECT_TRUE(On(Kind::kRelease, 1));
  EXPECT_THAT(out_, ElementsAre("1", "2"));
  ASSERT_NE(order_.repeated(), nullptr);
  EXPECT_EQ(order_.repeated()->meta.clock, Clock{2});
  EXPECT_EQ(order_.waiting(), 0u);
}

TEST_F(ReleaseOrderTest, KnowsAFlowWhoseSlotAnotherHas) {
  const FlowId old = MakeFlowId(0, 3, 7);
  const FlowId young = MakeFlowId(0, 3, 8);
  Give(3, old);
  On(Kind::kRelease, 1, old);
  On(Kind::kRelease, 3, old);
  order_.End(old, Clock{3});
  Give(2, young);
  On(Kind::kRelease, 1, young);
  EXPECT_THAT(out_, ElementsAre("1", "1"));
  EXPECT_EQ(order_.earlier(), 1u);
  On(Kind::kRelease, 2, old);
  EXPECT_THAT(out_, ElementsAre("1", "1", "2", "3"));
  On(Kind::kRelease, 2, young);
  EXPECT_EQ(out_.back(), "2");
  EXPECT_FALSE(On(Kind::kRelease, 3, old));
  EXPECT_EQ(order_.earlier(), 0u);
}

TEST_F(ReleaseOrderTest, KnowsAFlowOfWhichNothingCameBeforeItsEnd) {
  const FlowId old = MakeFlowId(0, 3, 7);
  Give(2, old);
  order_.End(old, Clock{2});
  Give(1, MakeFlowId(0, 3, 8));
  On(Kind::kRelease, 1, MakeFlowId(0, 3, 8));
  On(Kind::kRelease, 2, old);
  EXPECT_THAT(out_, ElementsAre("1"));
  On(Kind::kRelease, 1, old);
  EXPECT_THAT(out_, ElementsAre("1", "1", "2"));
  EXPECT_EQ(order_.earlier(), 0u);
}

TEST_F(ReleaseOrderTest, KeepsNothingOfFlowsThatAreOver) {
  for (uint32_t generation = 0; generation < 1'000; ++generation) {
    const FlowId flow = MakeFlowId(0, 3, generation);
    Give(1, flow);
    EXPECT_TRUE(On(Kind::kRelease, 1, flow));
    order_.End(flow, Clock{1});
    EXPECT_EQ(order_.earlier(), 0u);
  }
  // What one of them emits at its end.
  EXPECT_TRUE(On(Kind::kEmit, 1, MakeFlowId(0, 3, 7)));
  EXPECT_EQ(out_.back(), "e1");
  EXPECT_FALSE(On(Kind::kRelease, 1, MakeFlowId(0, 3, 7)));
  EXPECT_EQ(order_.earlier() + order_.waiting(), 0u);
}

TEST_F(ReleaseOrderTest, KeepsOrderWhenGenerationsWrap) {
  constexpr uint32_t kLast = 0xff'ffff;
  for (uint32_t i = 0; i < 6; ++i) {
    // Each flow's second clock is still under way when the next flow begins.
    const FlowId flow = MakeFlowId(0, 3, kLast - 2 + i);
    out_.clear();
    Give(3, flow);
    On(Kind::kRelease, 3, flow);
    order_.End(flow, Clock{3});
    On(Kind::kRelease, 1, flow);
    EXPECT_THAT(out_, ElementsAre("1")) << i;
    if (i == 0) continue;
    const FlowId before = MakeFlowId(0, 3, kLast - 3 + i);
    EXPECT_TRUE(On(Kind::kRelease, 2, before)) << i;
    EXPECT_THAT(out_, ElementsAre("1", "2", "3")) << i;
    EXPECT_FALSE(On(Kind::kRelease, 3, before)) << i;
  }
  EXPECT_EQ(order_.earlier(), 0u);
}

TEST_F(ReleaseOrderTest, KeepsTheFlowsOfControllersApart) {
  // The slot is the same, and the generations are not compared.
  const FlowId first = MakeFlowId(0, 3, 9);
  const FlowId second = MakeFlowId(1, 3, 2);
  for (const FlowId flow : {first, second}) {
    Give(3, flow);
    EXPECT_TRUE(On(Kind::kRelease, 2, flow));
    EXPECT_EQ(order_.waiting(), 1u);
    out_.clear();
    EXPECT_TRUE(On(Kind::kRelease, 1, flow));
    EXPECT_THAT(out_, ElementsAre("1", "2"));
  }
  EXPECT_TRUE(On(Kind::kRelease, 3, first));
  EXPECT_FALSE(On(Kind::kRelease, 2, second));
  order_.End(first, Clock{3});
  EXPECT_TRUE(On(Kind::kRelease, 3, second));
  EXPECT_FALSE(On(Kind::kRelease, 3, first));
  EXPECT_EQ(order_.earlier() + order_.waiting(), 0u);
}

// Clocks run at random units, whose words come in order, but not those of
// different units.
TEST(ReleaseOrderRandom, PutsAnyOrderRight) {
  const TestSeeds seeds(300);
  uint64_t waited = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    std::vector<std::deque<UnitCommand>> units(rng.Uniform(1, 5));
    std::map<FlowId, std::vector<std::string>> expected;
    std::map<FlowId, Clock> ends;
    for (uint32_t i = 0; i < 12; ++i) {
      const FlowId flow = MakeFlowId(0, i % 4, i / 4);
      const auto clocks = static_cast<uint64_t>(rng.Uniform(1, 20));
      ends[flow] = Clock{clocks};
      for (uint64_t clock = 1; clock <= clocks; ++clock) {
        auto& unit = units[rng.Below(units.size())];
        if (rng.Chance(20'000)) {
          unit.push_back(Command(Kind::kEmit, flow, clock));
          expected[flow].push_back(fmt::format("e{}", clock));
        }
        unit.push_back(Command(Kind::kRelease, flow, clock));
        expected[flow].push_back(std::to_string(clock));
      }
    }
    ReleaseOrder order(4);
    // Flows of a slot begin and end one after the other, at the latest when
    // something of the next one comes.
    FlowId begun[4] = {kNoFlow, kNoFlow, kNoFlow, kNoFlow};
    const auto begin_up_to = [&](FlowId flow) {
      FlowId& newest = begun[slot_of(flow)];
      for (const auto& [other, last] : ends) {
        if (slot_of(other) != slot_of(flow) || other > flow) continue;
        if (newest != kNoFlow && other <= newest) continue;
        if (newest != kNoFlow) order.End(newest, ends[newest]);
        GiveTo(order, other, value(last));
        newest = other;
      }
    };
    std::map<FlowId, std::vector<std::string>> seen;
    const auto is_empty = [](const auto& unit) { return unit.empty(); };
    while (!std::ranges::all_of(units, is_empty)) {
      auto& unit = units[rng.Below(units.size())];
      if (unit.empty()) continue;
      begin_up_to(unit.front().meta.flow);
      EXPECT_TRUE(order.On(unit.front(), [&](const UnitCommand& c) {
        seen[c.meta.flow].push_back(fmt::format(
            "{}{}", c.kind == Kind::kEmit ? "e" : "", value(c.meta.clock)));
      }));
      unit.pop_front();
      waited += order.waiting();
    }
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(order.waiting(), 0u);
    EXPECT_EQ(order.earlier(), 0u);
    if (testing::Test::HasFailure()) return;
  }
  std::cout << "commands that waited: " << waited << "\n";
  if (!seeds.is_part) {
    EXPECT_GT(waited, 10'000u);
  }
}

}  // namespace
}  // namespace snf
