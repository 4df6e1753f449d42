// SPDX-License-Identifier: Apache-2.0
//
// Tests of the ends of flows, packets in and commands out; flood_test.cc has
// evictions. Flows time out after 5 s.
#include "controller/core/flow_ends.h"

#include <optional>

#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr UnitId kU0{0}, kU1{1};

ControllerOptions Options() {
  ControllerOptions options;
  options.max_flows = 100;
  options.max_units = options.warm_units = 2;
  options.replicas = 0;
  options.flow_timeout = Seconds(5);
  options.unit_idle_timeout = Seconds(100);
  return options;
}

class FlowEndsTest : public testing::Test {
 protected:
  void Make(const ControllerOptions& options) {
    driver_.emplace(options, policy_);
  }
  // Sends a packet of flow 1, which leaves `unit` at once.
  FlowId Send(Instant at, UnitId unit) {
    policy_.unit = unit;
    const Commands commands = Only(Kind::kEnqueue, driver_->Packet(at, 1));
    driver_->ReadyAll(at);
    driver_->DrainAll(at);
    return commands.at(0).meta.flow;
  }
  Commands Delete(Instant now, FlowId flow, bool* deleted) {
    return driver_->On([&](Controller& controller, ControllerOut& out) {
      *deleted = controller.DeleteFlow(now, flow, out);
    });
  }
  size_t flows() const { return driver_->controller().flows().size(); }
  const ControllerCounters& counters() const { return driver_->counters(); }

  DirectedPolicy policy_;
  std::optional<TestDriver> driver_;
};

TEST_F(FlowEndsTest, ComeWhenTheFlowWasSilentForItsTimeout) {
  Make(Options());
  Send(kStart, kU0);
  EXPECT_TRUE(
      Only(Kind::kEndFlow, driver_->RunTimers(kStart + Seconds(5) + Nanos{-1}))
          .empty());
  const Instant later = kStart + Seconds(5) + Milliseconds(1);
  const Commands ends = Only(Kind::kEndFlow, driver_->RunTimers(later));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].unit, kU0);
  EXPECT_EQ(ends[0].end.last, Clock{1});
  EXPECT_EQ(flows(), 0u);
}

TEST_F(FlowEndsTest, AreKeptUntilALoggerHasThem) {
  ControllerOptions options = Options();
  options.awaits_ends = true;
  Make(options);
  const FlowId flow = Send(kStart, kU0);
  Controller& controller = driver_->controller();
  EXPECT_FALSE(controller.on_ended(flow)) << "no end is awaited";
  driver_->RunTimers(kStart + Seconds(6));
  EXPECT_EQ(counters().flows_ended, 1u);
  EXPECT_EQ(controller.flows().used(), 1u);
  EXPECT_NE(slot_of(Send(kStart + Seconds(7), kU0)), slot_of(flow))
      << "the slot is still taken";
  EXPECT_TRUE(controller.on_ended(flow));
  EXPECT_FALSE(controller.on_ended(flow));
}

TEST_F(FlowEndsTest, ComeAtOnceWhenAFlowIsDeleted) {
  Make(Options());
  const FlowId flow = Send(kStart, kU0);
  bool deleted = false;
  const Commands ends = Only(Kind::kEndFlow, Delete(kStart, flow, &deleted));
  EXPECT_TRUE(deleted);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].end.flow, flow);
  EXPECT_EQ(counters().flows_deleted, 1u);
  Delete(kStart, flow, &deleted);
  EXPECT_FALSE(deleted);
  EXPECT_NE(Send(kStart, kU0), flow);
}

TEST_F(FlowEndsTest, WaitWhileAnEarlierOwnerMayHaveACopy) {
  ControllerOptions options = Options();
  options.forgets_copies = true;
  Make(options);
  const FlowId flow = Send(kStart, kU0);
  Send(kStart + Seconds(1), kU1);
  bool deleted = true;
  EXPECT_TRUE(Delete(kStart + Seconds(1), flow, &deleted).empty());
  EXPECT_FALSE(deleted);
  const Instant later = kStart + Seconds(6) + Milliseconds(20);
  EXPECT_TRUE(Only(Kind::kEndFlow, driver_->RunTimers(later)).empty());
  driver_->DeliverTakeover(0);
  const Commands ends =
      Only(Kind::kEndFlow, driver_->RunTimers(later + Milliseconds(20)));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].unit, kU1);
  EXPECT_EQ(ends[0].end.last, Clock{2});
}

}  // namespace
}  // namespace snf
