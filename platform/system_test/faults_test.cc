// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"

// Runs in which a unit dies at a moment that was chosen.
namespace snf {
namespace {

// Unit 0 gets a block of ports, and dies before its logger hears of it, with
// the packet for which it had asked.
TEST(Faults, BringBackAGrantThatNoLoggerKnowsOf) {
  TinyNatOptions options = TinyNatTables();
  options.loggers = true;
  options.logger_delay = Milliseconds(3);
  options.unit_start_delay = {};
  options.controller.max_units = 2;
  options.controller.recovery_slots = 4;
  options.controller.flow_timeout = Seconds(2);
  options.faults.kills = {{.unit = UnitId{0}, .at = Milliseconds(1)}};
  std::vector<OfferedFrame> packets;
  for (const int64_t ms : {0, 1'000}) {
    packets.push_back({.time = Instant{} + Milliseconds(ms),
                       .bytes = UdpFrame({.flow = static_cast<uint32_t>(ms)})});
  }
  const Outcome outcome = RunFrames(options, options.nf, packets);
  EXPECT_EQ(outcome.run.violations, 0u);
  EXPECT_EQ(outcome.run.faults.kills, 1u);
  EXPECT_EQ(outcome.run.faults.packets_lost, 1u);
  EXPECT_EQ(outcome.run.packets_released, 1u);
  EXPECT_EQ(outcome.run.controller.pieces.blocks_granted, 2u);
  EXPECT_EQ(outcome.run.controller.pieces.pieces_out, 0u);
}

}  // namespace
}  // namespace snf
