// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_network/virtual_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "platform/system_test/test_run.h"

// The store of its own, and runs in which flows' state is there.
namespace snf {
namespace {

constexpr FlowId kFlow{5};

RunOptions External(RunOptions options = SmallTables()) {
  options.state = StateMode::kExternal;
  options.controller.replica_choice = ReplicaChoice::kNone;
  options.controller.replicas = 0;
  return options;
}

// A server whose round trip is always the same.
RunOptions Steady(Nanos trip, Nanos operation) {
  RunOptions options = External();
  options.store.round_trips.fill(trip);
  options.store.operation = operation;
  return options;
}

State StateOf(uint64_t clock, uint32_t bytes = 8) {
  return {.flow = kFlow, .applied = Clock{clock}, .bytes = bytes};
}

// What units get, with the time.
struct Got {
  int64_t us;
  StoreAnswer answer;
};
std::vector<Got> RunAll(VirtualStore& store, Instant until = Instant::max()) {
  std::vector<Got> all;
  while (store.next_time() < until) {
    const Instant now = store.next_time();
    if (const auto answer = store.RunNext(now); answer.has_value()) {
      all.push_back({now.ns / 1'000, *answer});
    }
  }
  return all;
}

TEST(VirtualStore, ServesOneRequestAtATimeAndAddsTheRestOfTheRoundTrip) {
  RunOptions options = Steady(Microseconds(23), Microseconds(2));
  options.state_bandwidth_bps = 1'000'000'000'000;
  VirtualStore store(options, 64);
  store.Write(Instant{}, StateOf(1), std::vector<std::byte>(8));
  EXPECT_TRUE(RunAll(store).empty());
  const Instant now{1'000'000};
  for (const uint16_t unit : std::initializer_list<uint16_t>{1, 2}) {
    EXPECT_TRUE(store.Read(
        now, {.flow = kFlow, .need = Clock{1}, .requester = UnitId{unit}}));
  }
  const std::vector<Got> got = RunAll(store);
  ASSERT_EQ(got.size(), 2u);
  // A hop there, the server, 21 us more, and 20 us for the state back.
  EXPECT_EQ(got[0].us, 1'000 + 1 + 2 + 21 + 20);
  EXPECT_EQ(got[1].us, 1'000 + 1 + 2 + 2 + 21 + 20);
  EXPECT_TRUE(got[1].answer.is_there);
  EXPECT_EQ(got[1].answer.unit, UnitId{2});
  RunResult result;
  store.AddTotals(result);
  EXPECT_EQ(result.store.reads, 2u);
  EXPECT_EQ(result.store.writes, 1u);
  EXPECT_EQ(result.store.round_trip_ns.count(), 3u);
}

TEST(VirtualStore, ServesAsManyAtATimeAsItHasThreads) {
  RunOptions options = Steady(Microseconds(10), Microseconds(10));
  options.store.threads = 2;
  VirtualStore store(options, 64);
  for (const uint16_t unit : std::initializer_list<uint16_t>{1, 2, 3}) {
    store.Read(
        Instant{},
        {.flow = FlowId{unit}, .need = Clock{1}, .requester = UnitId{unit}});
  }
  // Nothing is there, so they are asked for again 50 us after the answer.
  RunResult before;
  RunAll(store, Instant{40'000});
  store.AddTotals(before);
  EXPECT_EQ(before.store.round_trip_ns.count(), 3u);
  EXPECT_EQ(before.store.round_trip_ns.min(), 12'000);
  EXPECT_EQ(before.store.round_trip_ns.max(), 22'000);
  EXPECT_EQ(before.store.read_again, 0u);
}

TEST(VirtualStore, DrawsRoundTripsByTheirQuantiles) {
  RunOptions options = External();
  options.hop_delay = Nanos{0};
  options.store.operation = Nanos{0};
  VirtualStore store(options, 64);
  for (int i = 0; i < 50'000; ++i) {
    store.Write(Instant{i * int64_t{1'000'000}}, StateOf(0), {});
    RunAll(store);
  }
  RunResult result;
  store.AddTotals(result);
  const Histogram& trips = result.store.round_trip_ns;
  const auto& wanted = options.store.round_trips;
  EXPECT_GE(trips.min(), wanted[0].ns);
  const auto is_near = [&](uint32_t per_100000, Nanos time, int64_t parts) {
    return std::abs(trips.Quantile(per_100000) - time.ns) <= time.ns / parts;
  };
  EXPECT_TRUE(is_near(50'000, wanted[1], 50));
  EXPECT_TRUE(is_near(90'000, wanted[2], 50));
  EXPECT_TRUE(is_near(99'000, wanted[3], 5));
  EXPECT_EQ(trips.max(), wanted[4].ns);
}

TEST(VirtualStore, TellsOfASilenceAndForgetsWhatIsOver) {
  RunOptions options = Steady(Microseconds(10), Microseconds(1));
  VirtualStore store(options, 64);
  store.Write(Instant{}, StateOf(3), std::vector<std::byte>(8));
  RunAll(store);
  EXPECT_EQ(store.size(), 1u);
  store.Write(Instant{1'000}, StateOf(0), {});
  RunAll(store);
  EXPECT_EQ(store.size(), 0u);
  options.chaos.state_loss_65536 = 65'536;
  VirtualStore silent(options, 64);
  silent.Read(Instant{}, {kFlow, Clock{1}, UnitId{1}});
  const std::vector<Got> got = RunAll(silent, Instant{1'500'000'000});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_FALSE(got[0].answer.is_there);
  EXPECT_EQ(got[0].answer.state.flow, kFlow);
  EXPECT_GE(got[0].us, 1'000'000);
}

// --- Whole runs. ---

std::vector<OfferedFrame> Packets(uint32_t packets, uint32_t flows,
                                  int64_t gap_ns) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < packets; ++i) {
    frames.push_back(
        {.time = Instant{i * gap_ns},
         .bytes = UdpFrame({.flow = i % flows, .sequence = i / flows})});
  }
  return frames;
}

uint64_t DigestOfOneUnit(std::span<const OfferedFrame> frames) {
  RunOptions one = SmallTables();
  one.controller.max_units = 1;
  return RunFrames(one, TimelessChronicleNf(), frames).run.digest;
}

TEST(ExternalState, GivesWhatOneUnitGivesAndNoStateGoesBetweenUnits) {
  const auto frames = Packets(4'000, 20, 30'000);
  for (const bool loggers : {false, true}) {
    RunOptions options = External();
    options.controller.max_units = 8;
    options.loggers = loggers;
    const Outcome outcome =
        RunFrames(options, TimelessChronicleNf(), frames, "rotate");
    ExpectSound(outcome);
    const RunResult& run = outcome.run;
    EXPECT_EQ(run.packets_dropped(), 0u);
    EXPECT_EQ(run.digest, DigestOfOneUnit(frames));
    EXPECT_GE(run.controller.flowlets_moved, 3'000u);
    EXPECT_GE(run.store.reads, 3'000u);
    EXPECT_GE(run.store.writes, 3'000u);
    EXPECT_EQ(run.store.erased, 20u);
    // All that leaves a unit goes to the store. Units are asked only where the
    // one before was not done after 10 ms, as at the start.
    EXPECT_EQ(run.state.pushes + run.state.answers, run.store.writes);
    EXPECT_EQ(run.state.units.replicas_taken, 0u);
    EXPECT_LE(run.state.answers, 40u);
  }
}

TEST(ExternalState, IsThereThoughMessagesAreLostTwiceOrLate) {
  const auto frames = Packets(2'000, 10, 30'000);
  RunOptions options = External();
  options.controller.max_units = 6;
  options.chaos = {.state_delay_min = Nanos{0},
                   .state_delay_max = Microseconds(300),
                   .state_loss_65536 = 6'554,
                   .state_duplicate_65536 = 6'554};
  options.store.timeout = Milliseconds(2);
  uint64_t asked_units = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    options.controller.seed = seed;
    const Outcome outcome =
        RunFrames(options, TimelessChronicleNf(), frames, "rotate");
    ExpectSound(outcome);
    EXPECT_EQ(outcome.run.packets_dropped(), 0u);
    EXPECT_EQ(outcome.run.digest, DigestOfOneUnit(frames));
    EXPECT_GE(outcome.run.store.timeouts, 1u);
    asked_units += outcome.run.state.answers;
  }
  // A write that was lost is made good by the unit that had the flow.
  EXPECT_GE(asked_units, 1u);
}

TEST(ExternalState, ThatNeverAnswersCostsPacketsAndNothingElse) {
  const auto frames = Packets(400, 4, 100'000);
  RunOptions options = External();
  options.controller.max_units = 4;
  options.store.timeout = Milliseconds(1);
  options.store.patience = Milliseconds(5);
  options.store.operation = Milliseconds(50);  // it is that slow
  const Outcome outcome =
      RunFrames(options, TimelessChronicleNf(), frames, "rotate");
  const RunResult& run = outcome.run;
  EXPECT_TRUE(run.conserved());
  EXPECT_THAT(run.violation_messages, testing::IsEmpty());
  const uint64_t silent =
      run.dropped[static_cast<size_t>(DropReason::kStoreSilent)];
  EXPECT_GE(silent, 1u);
  EXPECT_GE(run.store.silent, 1u);
  EXPECT_EQ(run.packets_dropped(), silent);
  EXPECT_EQ(run.packets_released, 400u - silent);
}

}  // namespace
}  // namespace snf
