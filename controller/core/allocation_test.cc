// SPDX-License-Identifier: Apache-2.0
// Tests that a controller allocates nothing after its construction.
#include <memory>

#include "base/rng.h"
#include "base/test_allocations.h"
#include "controller/core/test_driver.h"

namespace snf {
namespace {

// Executes commands: every packet leaves at once, every unit is ready at once,
// and a stopping unit is gone once it owns no flow.
void Obey(Instant now, Controller& controller, ControllerOut& out) {
  for (const ControllerCommand& command : out.commands()) {
    switch (command.kind) {
      case Kind::kStartUnit:
        controller.on_unit_ready(now, command.unit);
        break;
      case Kind::kEnqueue:
        controller.on_drained(now, {.unit = command.unit,
                                    .packets = 1,
                                    .bytes = command.meta.original_length});
        break;
      default:
        break;
    }
  }
  out.clear();
  for (uint16_t i = 0; i < controller.units().max_units(); ++i) {
    if (controller.units().state(UnitId{i}) == UnitState::kStopping &&
        controller.units().owned_flows(UnitId{i}) == 0) {
      controller.on_unit_stopped(UnitId{i});
    }
  }
}

// Sends the messages of units about the flow of each packet, and about pieces.
void Say(Instant now, Rng& rng, Controller& controller, ControllerOut& out) {
  const ControllerCommand last =
      out.empty() ? ControllerCommand{} : out.commands().back();
  if (last.kind == Kind::kEnqueue) {
    controller.on_alias({.key = External(static_cast<uint16_t>(rng.Below(500))),
                         .flow = last.meta.flow,
                         .clock = last.meta.clock,
                         .group = rng.Below(30),
                         .group_limit = 10,
                         .unit = last.unit},
                        out);
    controller.on_flow_note(now,
                            {.flow = last.meta.flow,
                             .clock = last.meta.clock,
                             .idle_timeout = {rng.Uniform(0, 40'000'000)},
                             .over = rng.Chance(5'000)},
                            out);
    controller.on_piece_request(now, {.pool = 0, .unit = last.unit}, out);
  }
  for (const ControllerCommand& command : out.commands()) {
    if (command.kind == Kind::kPieces && command.pieces.mask != 0 &&
        rng.Chance(16'384)) {
      controller.on_pieces_returned(now, command.pieces, out);
      return;
    }
  }
}

void ExpectNoAllocation(LoadSignal signal) {
  ControllerOptions options;
  options.load_signal = signal;
  options.max_flows = 300;
  options.max_units = 80;
  options.unit_capacity_bps = 10'000'000;
  options.flow_timeout = Milliseconds(20);
  options.unit_idle_timeout = Milliseconds(5);
  options.keep_warm = Milliseconds(5);
  Controller controller(options, *FindPlacementPolicy("snf"));
  controller.AddPiecePool(1'024, 65'535);
  const auto out = std::make_unique<ControllerOut>();
  Rng rng(1);
  Instant now{1'000'000'000};
  const uint64_t before = Allocations();
  EXPECT_GT(before, 0u);
  for (int i = 0; i < 50'000; ++i) {
    // Many units are in use, and then few.
    const int64_t gap = i / 1'000 % 2 == 0 ? 20'000 : 1'000'000;
    now = now + Nanos{rng.Exponential(rng.Chance(20) ? 80'000'000 : gap)};
    Arrival arrival = {.key = Flow(static_cast<uint32_t>(rng.Below(400))),
                       .time = now,
                       .original_length = 1'000,
                       .packet = {}};
    arrival.by_alias = rng.Chance(16'384);
    if (arrival.by_alias) {
      arrival.key = External(static_cast<uint16_t>(rng.Below(500)));
    }
    controller.on_packets(now, {&arrival, 1}, *out);
    Say(now, rng, controller, *out);
    Obey(now, controller, *out);
    while (controller.next_wakeup() <= now) {
      controller.on_timers(now, *out);
      Obey(now, controller, *out);
    }
  }
  EXPECT_EQ(Allocations(), before);
  EXPECT_GT(controller.units().cold_starts(), 20u);
  EXPECT_GT(controller.counters().flows_ended, 1'000u);
  EXPECT_GT(controller.counters().aliases_granted, 1'000u);
  EXPECT_GT(controller.counters().aliases_group_full, 100u);
  EXPECT_GT(controller.counters().flows_over, 1'000u);
  EXPECT_GT(controller.counters().pieces.blocks_granted, 1'000u);
  if (signal != LoadSignal::kDemand) return;
  // Placed by waits, the flows keep to the same few units here.
  EXPECT_GT(controller.counters().null_packets, 100u);
  EXPECT_GT(controller.counters().pieces.reclaim_rounds, 10u);
}

TEST(Controller, AllocatesNothingAfterItsConstruction) {
  ExpectNoAllocation(LoadSignal::kDemand);
  ExpectNoAllocation(LoadSignal::kWait);
}

}  // namespace
}  // namespace snf
