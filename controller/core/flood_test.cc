// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a controller that strangers fill with flows.
#include <array>
#include <bit>
#include <cstdint>

#include "controller/core/test_driver.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

// Returns flows from any /64 prefix with one interface id, which makes a factor
// of the hash that anyone can compute zero.
FlowKey AimedFlow(uint32_t number) {
  FlowKey key = Flow(1);
  key.form = FlowKeyForm::kIpv6;
  key.source = std::bit_cast<IpAddress>(
      std::array<uint64_t, 2>{uint64_t{number} << 32, 0x1319'8a2e'0370'7345});
  return key;
}

ControllerOptions OneUnit(uint32_t max_flows) {
  ControllerOptions options;
  options.max_flows = max_flows;
  options.max_units = 1;
  return options;
}

TEST(Flood, OfKeysThatAreAimedAtTheHashCostsNoLongSearch) {
  constexpr uint32_t kFlows = 20'000;
  TestDriver driver(OneUnit(kFlows));
  EXPECT_EQ(Hash(AimedFlow(1)), Hash(AimedFlow(2)));
  Instant now;
  for (uint32_t i = 0; i < kFlows; ++i) {
    now = now + Microseconds(1);
    const Arrival arrival = {.key = AimedFlow(i),
                             .time = now,
                             .original_length = 60,
                             .packet = PacketHandle{i}};
    driver.Send(now, {&arrival, 1});
    driver.ReadyAll(now);
    driver.DrainAll(now);
  }
  EXPECT_EQ(driver.counters().flows, kFlows);
  EXPECT_EQ(driver.counters().long_probes, 0u);
}

// --- A full table
// -------------------------------------------------------------

ControllerOptions Small() {
  ControllerOptions options = OneUnit(100);
  options.flow_timeout = Seconds(300);
  return options;
}

// Sends a packet, which leaves its unit at once. Returns true if it was dropped
// for want of room.
bool Refuses(TestDriver& driver, Instant now, uint32_t flow) {
  const Commands commands = driver.Packet(now, flow, 60);
  driver.ReadyAll(now);
  driver.DrainAll(now);
  const Commands drops = Only(Kind::kDrop, commands);
  return !drops.empty() && drops[0].reason == DropReason::kFlowTableFull;
}

TEST(FullTable, RefusesAFlowOnlyWhileAllOthersAreBusy) {
  TestDriver driver(Small());
  const Instant start{1'000'000'000};
  for (uint32_t i = 0; i < 100; ++i) EXPECT_FALSE(Refuses(driver, start, i));
  const Instant soon = start + Milliseconds(999);
  driver.RunTimers(soon);
  EXPECT_TRUE(Refuses(driver, soon, 1'000));
  EXPECT_EQ(driver.counters().flows_evicted, 0u);
  // Flow 3 goes on; all others have been silent for a second.
  EXPECT_FALSE(Refuses(driver, soon, 3));
  const Instant then = start + Seconds(1);
  driver.RunTimers(then);
  for (uint32_t i = 0; i < 99; ++i) {
    EXPECT_FALSE(Refuses(driver, then, 1'000 + i)) << i;
  }
  EXPECT_TRUE(Refuses(driver, then, 2'000));
  EXPECT_FALSE(Refuses(driver, then, 3));
  EXPECT_EQ(driver.counters().flows_evicted, 99u);
  // Their units were told, as when a flow's time is out.
  EXPECT_EQ(driver.ended, 99u);
  EXPECT_EQ(driver.counters().flows_ended, 99u);
  EXPECT_EQ(driver.controller().flows().size(), 100u);
  driver.ExpectOwnersAgree();
}

TEST(FullTable, PrefersFlowsThatWouldSoonBeForgotten) {
  TestDriver driver(Small());
  const Instant start{1'000'000'000};
  for (uint32_t i = 0; i < 100; ++i) {
    const Commands sent = Only(Kind::kEnqueue, driver.Packet(start, i, 60));
    driver.ReadyAll(start);
    driver.DrainAll(start);
    ASSERT_EQ(sent.size(), 1u);
    if (i % 2 == 0) continue;
    // Every other one is kept for hours.
    driver.On([&](Controller& controller, ControllerOut& out) {
      controller.on_flow_note(start,
                              {.flow = sent[0].meta.flow,
                               .clock = sent[0].meta.clock,
                               .idle_timeout = Seconds(7'440)},
                              out);
    });
  }
  const Instant later = start + Seconds(60);
  driver.RunTimers(later);
  for (uint32_t i = 0; i < 50; ++i) {
    EXPECT_FALSE(Refuses(driver, later, 1'000 + i));
  }
  for (uint32_t i = 1; i < 100; i += 2) {
    EXPECT_NE(driver.controller().flows().Find(
                  Flow(i), driver.controller().flows().HashOf(Flow(i))),
              FlowTable::kNone)
        << i;
  }
}

TEST(FullTable, NeverEvictsWhereThatIsOff) {
  ControllerOptions options = Small();
  options.evict_after = Nanos::max();
  TestDriver driver(options);
  const Instant start{1'000'000'000};
  for (uint32_t i = 0; i < 100; ++i) EXPECT_FALSE(Refuses(driver, start, i));
  const Instant later = start + Seconds(299);
  driver.RunTimers(later);
  EXPECT_TRUE(Refuses(driver, later, 1'000));
}

// --- After a stall
// ------------------------------------------------------------

// Of the timers that are due most end no flow, and put no command out.
TEST(Stall, IsWorkedOffInSteps) {
  constexpr uint32_t kFlows = 10'000;
  TestDriver driver(OneUnit(kFlows));
  Instant now{1'000'000'000};
  for (uint32_t i = 0; i < kFlows; ++i) Refuses(driver, now, i);
  const auto open = [&] {
    uint32_t count = 0;
    const FlowTable& flows = driver.controller().flows();
    for (uint32_t slot = 0; slot < flows.used(); ++slot) {
      count += (flows.hot(slot).flags & FlowHot::kOpen) != 0 ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(open(), kFlows);
  now = now + Seconds(10);
  uint32_t left = kFlows;
  while (left > 0) {
    EXPECT_LE(driver.controller().next_wakeup(), now);
    driver.Timers(now);
    ASSERT_LT(open(), left);
    EXPECT_LE(left - open(), 2'000u);
    left = open();
  }
  EXPECT_GT(driver.controller().next_wakeup(), now);
}

}  // namespace
}  // namespace snf
