// SPDX-License-Identifier: Apache-2.0
//
// Tests where flowlets begin: to the nanosecond and the byte, whatever the
// bursts and timers do.
#include "controller/core/flowlets.h"

#include <iostream>
#include <map>
#include <vector>

#include "base/rng.h"
#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Nanos kTimeout = Microseconds(500);
constexpr Nanos kNanosecond{1};
constexpr Instant kStart{1'000'000'000};

ControllerOptions Options() {
  ControllerOptions options;
  options.load_signal = LoadSignal::kDemand;
  options.unit_idle_timeout = Milliseconds(100);
  options.flow_timeout = Nanos::max();
  options.max_flows = 64;
  return options;
}

class FlowletTest : public testing::Test {
 protected:
  // Returns the flowlet of a packet of flow 1.
  uint32_t FlowletOf(Instant at, uint32_t length = 100) {
    const Commands enqueued =
        Only(Kind::kEnqueue, driver_.Packet(at, 1, length));
    EXPECT_EQ(enqueued.size(), 1u);
    driver_.DrainAll(at);
    return enqueued.empty() ? 0 : enqueued[0].meta.flowlet;
  }

  TestDriver driver_{Options()};
};

TEST_F(FlowletTest, GoesOnAfterAGapOfExactlyTheTimeout) {
  EXPECT_EQ(FlowletOf(kStart), 1u);
  EXPECT_EQ(FlowletOf(kStart + kTimeout), 1u);
  EXPECT_EQ(driver_.counters().flowlets_by_gap, 0u);
}

TEST_F(FlowletTest, EndsOneNanosecondLater) {
  EXPECT_EQ(FlowletOf(kStart), 1u);
  EXPECT_EQ(FlowletOf(kStart + kTimeout + kNanosecond), 2u);
  EXPECT_EQ(driver_.counters().flowlets_by_gap, 1u);
}

TEST_F(FlowletTest, HasNoLimitInTimeWhileItsGapsAreShort) {
  Instant at = kStart;
  for (int i = 0; i < 100; ++i, at = at + kTimeout) {
    EXPECT_EQ(FlowletOf(at), 1u);
  }
}

TEST_F(FlowletTest, HoldsExactlyTheThresholdInBytes) {
  EXPECT_EQ(FlowletOf(kStart, 14'000), 1u);
  EXPECT_EQ(FlowletOf(kStart, 1'000), 1u);
  EXPECT_EQ(FlowletOf(kStart, 0), 1u);
  EXPECT_EQ(FlowletOf(kStart, 1), 2u);
  EXPECT_EQ(driver_.counters().flowlets_by_bytes, 1u);
}

TEST_F(FlowletTest, EndsBeforeTheByteThatIsTooMuch) {
  EXPECT_EQ(FlowletOf(kStart, 14'000), 1u);
  EXPECT_EQ(FlowletOf(kStart, 1'001), 2u);
  EXPECT_EQ(FlowletOf(kStart, 13'999), 2u);  // the new one counts from 1001
  EXPECT_EQ(FlowletOf(kStart, 1), 3u);
}

TEST_F(FlowletTest, IsOneForEachPacketLargerThanTheThreshold) {
  EXPECT_EQ(FlowletOf(kStart, 15'001), 1u);
  EXPECT_EQ(FlowletOf(kStart, 0), 2u);
  EXPECT_EQ(FlowletOf(kStart, 0xffff'ffff), 3u);
  EXPECT_EQ(FlowletOf(kStart, 0xffff'ffff), 4u);
}

TEST_F(FlowletTest, IsNotEndedByATimeThatRunsBackwards) {
  EXPECT_EQ(FlowletOf(kStart), 1u);
  const Arrival early = {.key = Flow(1),
                         .time = {kStart.ns - Seconds(5).ns},
                         .original_length = 100,
                         .packet = {}};
  const Commands commands = driver_.Send(kStart, {&early, 1});
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].meta.flowlet, 1u);
  EXPECT_EQ(commands[0].meta.arrival, early.time);
  // The gap counts from the greatest arrival time, not from the packet sent
  // last.
  EXPECT_EQ(FlowletOf(kStart + kTimeout), 1u);
  EXPECT_EQ(FlowletOf(kStart + kTimeout + kTimeout + kNanosecond), 2u);
}

TEST_F(FlowletTest, CountsFromTheFirstPossibleInstantToTheLast) {
  TestDriver driver(Options());
  driver.Packet(Instant::min(), 1);
  driver.RunTimers({Instant::min().ns + Seconds(1).ns});
  driver.Packet({0}, 1);
  driver.Packet({Instant::max().ns - 1}, 1);
  driver.Packet(Instant::max(), 1);
  EXPECT_EQ(driver.counters().flowlets, 3u);
}

TEST_F(FlowletTest, GoesOnWhereTheTimerHadClosedItTooEarly) {
  const Arrival late = {.key = Flow(1),
                        .time = kStart + kTimeout,
                        .original_length = 100,
                        .packet = {}};
  FlowletOf(kStart);
  driver_.Timers(kStart + Milliseconds(2));  // closes it; the unit stays
  EXPECT_EQ(driver_.units().state(UnitId{0}), UnitPool::State::kStarting);
  const Commands commands = driver_.Send(kStart + Milliseconds(2), {&late, 1});
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].meta.flowlet, 1u);
  EXPECT_EQ(commands[0].meta.flags, 0);
  EXPECT_EQ(driver_.counters().decisions, 1u);
}

// Else one packet that the timer overtook would count as two flowlets.
TEST_F(FlowletTest, IsMeasuredOnceWhereALatePacketReopensIt) {
  const auto demand_after = [](bool is_late) {
    DirectedPolicy policy;
    TestDriver driver(Options(), policy);
    driver.Packet(kStart, 1, 1'000);
    driver.ReadyAll(kStart);
    Instant now = kStart + Milliseconds(2);
    driver.Timers(now);  // closes it
    if (is_late) {
      const Arrival late = {.key = Flow(1),
                            .time = kStart + kTimeout,
                            .original_length = 100,
                            .packet = {}};
      EXPECT_EQ(driver.Send(now, {&late, 1}).at(0).meta.flowlet, 1u);
      now = now + Milliseconds(2);
      driver.Timers(now);  // closes it once more
    }
    driver.Packet(now + Milliseconds(2), 1, 1'000);
    return policy.last.demand;
  };
  EXPECT_GT(demand_after(false), 0u);
  EXPECT_EQ(demand_after(true), demand_after(false));
}

TEST_F(FlowletTest, IsPlacedAgainWhereItsUnitWasParkedMeanwhile) {
  FlowletOf(kStart);
  driver_.Ready(kStart, UnitId{0});
  const Instant later = kStart + Seconds(1);
  EXPECT_EQ(Only(Kind::kParkUnit, driver_.RunTimers(later)).size(), 1u);
  const Arrival late = {.key = Flow(1),
                        .time = kStart + kTimeout,
                        .original_length = 100,
                        .packet = {}};
  const Commands commands = driver_.Send(later, {&late, 1});
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].kind, Kind::kStartUnit);
  EXPECT_EQ(commands[1].meta.flowlet, 1u);
  EXPECT_EQ(commands[1].meta.flags, PacketMeta::kFirstOfFlowlet);
  EXPECT_EQ(driver_.counters().decisions, 2u);
  EXPECT_EQ(driver_.counters().flowlets, 1u);
}

// --- Against an independent model --------------------------------------------

struct NaiveFlow {
  int64_t last = 0;
  uint64_t bytes = 0;
  uint32_t flowlet = 0;
};

// Returns the flowlet number of every packet, by the words of proto/protocol.md
// §1.
std::vector<uint32_t> NaiveFlowlets(const std::vector<Arrival>& arrivals,
                                    const ControllerOptions& options) {
  std::map<FlowKey, NaiveFlow> flows;
  std::vector<uint32_t> numbers;
  for (const Arrival& arrival : arrivals) {
    NaiveFlow& flow = flows[arrival.key];
    if (flow.flowlet == 0 ||
        arrival.time.ns - flow.last > options.flowlet_timeout.ns ||
        flow.bytes + arrival.original_length > options.flowlet_bytes) {
      flow.last = flow.flowlet == 0 ? arrival.time.ns : flow.last;
      ++flow.flowlet;
      flow.bytes = 0;
    }
    flow.last = std::max(flow.last, arrival.time.ns);
    flow.bytes += arrival.original_length;
    numbers.push_back(flow.flowlet);
  }
  return numbers;
}

// Returns packets with gaps around T, also exactly T and T + 1, and sizes that
// often fill B exactly.
std::vector<Arrival> RandomPackets(Rng& rng, size_t count) {
  std::vector<Arrival> arrivals;
  std::vector<int64_t> last(20, kStart.ns);
  int64_t now = kStart.ns;
  for (size_t i = 0; i < count; ++i) {
    const auto flow = static_cast<uint32_t>(rng.Below(20));
    const int64_t exact =
        last[flow] + kTimeout.ns + static_cast<int64_t>(rng.Below(2));
    const bool at_the_edge = rng.Chance(20'000) && exact >= now;
    now = at_the_edge ? exact : now + rng.Exponential(kTimeout.ns / 12);
    if (rng.Chance(50)) now += rng.Uniform(0, Seconds(2).ns);
    const int64_t time =
        rng.Chance(1'000) ? now - rng.Uniform(0, 900'000) : now;
    last[flow] = std::max(last[flow], time);
    const uint64_t kind = rng.Below(20);
    const uint32_t length = kind == 0   ? 15'000
                            : kind == 1 ? 20'000
                            : kind == 2 ? 1
                                        : 1'000 * uint32_t(1 + rng.Below(3));
    arrivals.push_back({.key = Flow(flow),
                        .time = {time},
                        .original_length = length,
                        .packet = PacketHandle{static_cast<uint32_t>(i)}});
  }
  return arrivals;
}

// Runs the packets in bursts of up to `most`, each burst handed over up to
// `late` after its last packet, with timers before or after it or not at all.
std::vector<uint32_t> ControllerFlowlets(const std::vector<Arrival>& arrivals,
                                         const ControllerOptions& options,
                                         size_t most, Nanos late, Rng& rng,
                                         TestDriver& driver) {
  std::vector<uint32_t> numbers;
  Instant now = kStart;
  for (size_t i = 0; i < arrivals.size();) {
    const auto burst = std::span(arrivals).subspan(
        i, std::min(1 + rng.Below(most), arrivals.size() - i));
    for (const Arrival& arrival : burst) now = std::max(now, arrival.time);
    now = now + Nanos{rng.Uniform(0, late.ns)};
    if (rng.Chance(30'000)) driver.RunTimers(now);
    if (rng.Chance(10'000)) driver.Timers(now);
    for (const auto& command : Only(Kind::kEnqueue, driver.Send(now, burst))) {
      EXPECT_EQ(command.packet, arrivals[numbers.size()].packet);
      numbers.push_back(command.meta.flowlet);
    }
    driver.ReadyAll(now);
    driver.DrainAll(now);
    i += burst.size();
  }
  EXPECT_EQ(driver.counters().enqueued, arrivals.size());
  EXPECT_EQ(options.max_units, driver.units().max_units());
  return numbers;
}

TEST(Flowlets, AreThoseOfANaiveModelWhateverTheBurstsAndTimers) {
  uint64_t by_gap = 0, by_bytes = 0, late_again = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Rng rng(seed);
    ControllerOptions options = Options();
    options.max_units = 8;
    options.unit_idle_timeout = Milliseconds(1);
    options.keep_warm = Milliseconds(2);
    const std::vector<Arrival> arrivals = RandomPackets(rng, 5'000);
    const std::vector<uint32_t> expected = NaiveFlowlets(arrivals, options);
    for (const size_t most : {1, 7, 32, 200}) {
      const Nanos late = Microseconds(rng.Below(3) * 2'000);
      TestDriver driver(options);
      EXPECT_EQ(ControllerFlowlets(arrivals, options, most, late, rng, driver),
                expected)
          << "seed " << seed << ", bursts of up to " << most;
      by_gap += driver.counters().flowlets_by_gap;
      by_bytes += driver.counters().flowlets_by_bytes;
      late_again += driver.resent_first;
    }
  }
  std::cout << "seeds 1-12: " << by_gap << " flowlets by gap, " << by_bytes
            << " by bytes, " << late_again << " placed again\n";
  EXPECT_GT(by_gap, 10'000u);
  EXPECT_GT(by_bytes, 10'000u);
  EXPECT_GT(late_again, 50u);
}

}  // namespace
}  // namespace snf
