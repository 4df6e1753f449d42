// SPDX-License-Identifier: Apache-2.0
#include "controller/hand_over/flow_giving.h"

#include <gtest/gtest.h>

#include <vector>

#include "controller/core/placement.h"

namespace snf {
namespace {

ControllerOptions OptionsOfGiver() {
  ControllerOptions options;
  options.controller_id = 1;
  options.leased = true;
  options.max_units = 1;
  options.max_flows = 16;
  options.replicas = 0;
  return options;
}

class FlowGivingTest : public testing::Test {
 protected:
  FlowGivingTest()
      : controller_(OptionsOfGiver(), *FindPlacementPolicy("snf")) {
    EXPECT_TRUE(controller_.on_lease(now_, UnitId{0}, 1'024, out_));
  }
  FlowId Packet(uint8_t number) {
    FlowKey key{};
    key.form = FlowKeyForm::kIpv4;
    key.source.bytes[15] = std::byte{number};
    const Arrival arrival = {.key = key, .time = now_, .original_length = 100};
    out_.clear();
    EXPECT_EQ(controller_.on_packets(now_, {&arrival, 1}, out_), 1u);
    controller_.on_drained(now_,
                           {.unit = UnitId{0}, .packets = 1, .bytes = 100});
    return out_.commands().back().meta.flow;
  }
  // The flows that the next turn asks for.
  std::vector<FlowId> Asked(size_t room = 64) {
    now_ = now_ + FlowGiving::kPause;
    std::vector<FlowId> asked;
    giving_.Turn(now_, controller_, room,
                 [&](FlowId flow) { asked.push_back(flow); });
    return asked;
  }
  bool Shows(FlowId flow, uint64_t clock) {
    return giving_.OnState(controller_, {.flow = flow, .applied = Clock{clock}})
        .has_value();
  }

  Instant now_{1'000'000'000};
  ControllerOut out_;
  Controller controller_;
  FlowGiving giving_;
};

TEST_F(FlowGivingTest, AFlowIsGivenOnceItsUnitHasRunAll) {
  const FlowId a = Packet(1), b = Packet(2), other = Packet(3);
  Packet(2);
  giving_.Begin(now_, std::vector{a, b});
  EXPECT_EQ(Asked(), (std::vector{a, b}));
  EXPECT_TRUE(Shows(a, 1));
  EXPECT_FALSE(Shows(a, 1)) << "it was given";
  EXPECT_FALSE(Shows(b, 1)) << "a packet is under way";
  EXPECT_FALSE(Shows(other, 1));
  EXPECT_FALSE(giving_.is_done());
  EXPECT_EQ(Asked(), std::vector{b});
  EXPECT_TRUE(Shows(b, 2));
  EXPECT_TRUE(giving_.is_done());
  EXPECT_TRUE(Asked().empty());
}

TEST_F(FlowGivingTest, AFlowThatHasEndedIsNotAwaited) {
  const FlowId a = Packet(1), b = Packet(2);
  giving_.Begin(now_, std::vector{a, b});
  EXPECT_TRUE(controller_.DeleteFlow(now_, a, out_));
  EXPECT_EQ(Asked(), std::vector{b});
  EXPECT_FALSE(Shows(a, 1));
  EXPECT_TRUE(Shows(b, 1));
  EXPECT_TRUE(giving_.is_done());
}

TEST_F(FlowGivingTest, AsksInTurnForAsManyAsThereIsRoom) {
  const FlowId a = Packet(1), b = Packet(2), c = Packet(3);
  giving_.Begin(now_, std::vector{a, b, c});
  EXPECT_EQ(Asked(2), (std::vector{a, b}));
  EXPECT_EQ(Asked(2), (std::vector{c, a}));
  EXPECT_TRUE(Asked(0).empty());
}

TEST_F(FlowGivingTest, AFlowThatIsNotShownIsGivenUp) {
  const FlowId a = Packet(1);
  giving_.Begin(now_, std::vector{a});
  now_ = now_ + Nanos{FlowGiving::kPatience.ns - 2 * FlowGiving::kPause.ns};
  EXPECT_EQ(Asked(), std::vector{a});
  EXPECT_FALSE(giving_.is_done());
  EXPECT_TRUE(Asked().empty());
  EXPECT_TRUE(giving_.is_done());
  EXPECT_EQ(giving_.unshown(), 1u);
  EXPECT_FALSE(Shows(a, 1));
  giving_.Begin(now_, {});
  EXPECT_EQ(giving_.unshown(), 0u);
}

TEST_F(FlowGivingTest, AnotherConnectionGetsAll) {
  const FlowId a = Packet(1);
  giving_.Begin(now_, std::vector{a});
  EXPECT_TRUE(Shows(a, 1));
  giving_.Begin(now_, std::vector{a});
  EXPECT_FALSE(giving_.is_done());
  EXPECT_TRUE(Shows(a, 1));
}

}  // namespace
}  // namespace snf
