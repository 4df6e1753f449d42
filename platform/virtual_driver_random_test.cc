// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "platform/test_run.h"
#include "platform/test_schedule.h"
#include "platform/virtual_driver.h"

// Random traffic on random configurations. SNF_LONG_TESTS=1 runs 50 times as
// many; SNF_TEST_SEED=n runs the one with that seed.
namespace snf {
namespace {

struct Totals {
  uint64_t packets = 0, released = 0, flows = 0, flowlets = 0, moved = 0;
  uint64_t seamless = 0, pulled = 0, held_max = 0, overcommitted = 0;
  uint64_t cold = 0, warm = 0, evacuations = 0, null_packets = 0;
  uint64_t pushes = 0, answers = 0, taken = 0, tooks = 0, tombstones = 0;
  uint64_t lost = 0, twice = 0, repeated = 0;
  uint64_t generated = 0, consumed = 0, passed = 0, late = 0, nf_dropped = 0;
  uint64_t compared = 0, compared_moved = 0, compared_state = 0;
  uint64_t compared_lost = 0, compared_null = 0, run_again = 0;
  uint64_t incomparable = 0;
  UnitCounters units;
  std::array<uint64_t, kDropReasons> dropped{};

  void Add(const RunResult& run) {
    packets += run.packets_in;
    released += run.packets_released;
    flows += run.controller.flows;
    flowlets += run.controller.flowlets;
    moved += run.controller.flowlets_moved;
    held_max = std::max(held_max, uint64_t{run.held_packets_max});
    overcommitted += run.controller.overcommitted;
    evacuations += run.controller.evacuations;
    cold += run.cold_starts;
    warm += run.warm_starts;
    generated += run.packets_generated;
    consumed += run.packets_consumed;
    passed += run.packets_passed_through;
    late += run.late_packets;
    for (const uint64_t n : run.nf_dropped) nf_dropped += n;
    for (size_t i = 0; i < kDropReasons; ++i) dropped[i] += run.dropped[i];
    AddState(run.state);
  }

  void AddState(const StateFigures& state) {
    seamless += state.seamless;
    pulled += state.pulled;
    pushes += state.pushes;
    answers += state.answers;
    tombstones += state.tombstones;
    null_packets += state.null_packets;
    lost += state.messages_lost;
    twice += state.messages_duplicated;
    taken += state.units.replicas_taken;
    repeated += state.units.pulls_repeated + state.units.tooks_repeated;
    units.replicas_evicted += state.units.replicas_evicted;
    units.replicas_expired += state.units.replicas_expired;
    for (size_t i = 0; i < kStateRefusals; ++i) {
      units.refused[i] += state.units.refused[i];
    }
  }

  uint64_t refused(StateRefusal refusal) const {
    return units.refused[static_cast<size_t>(refusal)];
  }

  // Each with the least that a run of the CI must reach.
  std::vector<std::tuple<std::string, uint64_t, uint64_t>> Floors() const {
    std::vector<std::tuple<std::string, uint64_t, uint64_t>> floors = {
        {"packets", packets, 50'000},
        {"released", released, 25'000},
        {"flows", flows, 10'000},
        {"flowlets", flowlets, 20'000},
        {"moved", moved, 1'000},
        {"  seamless", seamless, 1'000},
        {"  pulled", pulled, 1'000},
        {"held at a time", held_max, 20},
        {"pushes", pushes, 10'000},
        {"  taken", taken, 1'000},
        {"  refused as stale", refused(StateRefusal::kStale), 1'000},
        {"  evicted", units.replicas_evicted, 500},
        {"  expired", units.replicas_expired, 500},
        {"pulls answered", answers, 1'000},
        {"tooks", tooks, 1'000},
        {"repeated messages", repeated, 1'000},
        {"lost messages", lost, 1'000},
        {"messages that came twice", twice, 1'000},
        {"tombstones", tombstones, 50},
        {"null packets", null_packets, 500},
        {"units that left flows", evacuations, 200},
        {"overcommitted", overcommitted, 1'000},
        {"cold starts", cold, 500},
        {"warm starts", warm, 500},
        {"generated", generated, 5'000},
        {"consumed", consumed, 1'000},
        {"passed through", passed, 1'000},
        {"late", late, 200},
        {"dropped by the nf", nf_dropped, 1'000},
        {"compared with one big unit", compared, 100},
        {"  flowlets moved in those", compared_moved, 1'000},
        {"  with an nf that keeps state", compared_state, 50},
        {"  messages lost in those", compared_lost, 500},
        {"  null packets in those", compared_null, 50},
        {"  flows that ended elsewhen", incomparable, 0},
        {"run again", run_again, 50}};
    for (size_t i = 0; i < kDropReasons; ++i) {
      const auto reason = static_cast<DropReason>(i);
      // No controller gives a clock twice, and no frame here is too large.
      const bool never = reason == DropReason::kDuplicateClock ||
                         reason == DropReason::kPacketTooLarge;
      floors.emplace_back(ToString(reason), dropped[i], never ? 0 : 50);
    }
    return floors;
  }
};

// Counts the Tooks that reached a unit.
class TookObserver final : public SilentObserver {
 public:
  explicit TookObserver(uint64_t& tooks) : tooks_(tooks) {}
  void OnTook(Instant, UnitId told, const Took& took) override {
    EXPECT_NE(told, took.taker);
    ++tooks_;
  }

 private:
  uint64_t& tooks_;
};

// Forwarded packets leave in the order in which they came, each flow for
// itself; only a flow that ended and began anew may overtake its own past.
void ExpectOrder(const Outcome& outcome) {
  std::map<std::pair<uint32_t, std::byte>, uint32_t> next;
  for (const ReleasedFrame& frame : outcome.released) {
    if (!IsUdpFrame(frame.bytes)) continue;
    const std::byte first_of_source = frame.bytes[26];
    uint32_t& least = next[{FlowOf(frame.bytes), first_of_source}];
    ASSERT_GE(SequenceOf(frame.bytes), least);
    least = SequenceOf(frame.bytes) + 1;
  }
}

// The same on one unit that has room for everything, and whose state therefore
// never moves.
RunResult RunOnOneUnit(const RunOptions& options, const NfRegistration& nf,
                       const std::vector<OfferedFrame>& packets) {
  RunOptions big = options;
  big.controller.max_units = 1;
  big.controller.unit_capacity_bps = 1'000'000'000'000;
  big.controller.unit_queue_packets = 4096;
  big.controller.start_buffer_packets = 4096;
  // While the only unit is being stopped there is none.
  big.controller.keep_warm = Nanos::max();
  return RunFrames(big, nf, packets).run;
}

void RunOne(uint64_t seed, Totals& totals) {
  Rng rng(seed);
  const RunOptions options = AnyOptions(rng);
  const std::string_view policy = AnyPolicy(rng);
  const std::vector<OfferedFrame> packets = AnyTraffic(rng);
  const bool finite = options.controller.flow_timeout != Nanos::max();
  const std::array nfs = {
      &TimelessChronicleNf(), &TimelessChronicleNf(), &ForwardingNf(),
      &ChronicleNf(), &ScriptedNf(),
      // A timer that is set for ever needs a flow that ends.
      &KeepaliveNf()};
  const NfRegistration& nf = *nfs[rng.Below(finite ? 6 : 5)];

  TookObserver observer(totals.tooks);
  const Outcome outcome = RunFrames(options, nf, packets, policy, &observer);
  const RunResult& run = outcome.run;
  ExpectSound(outcome);
  ASSERT_EQ(run.packets_in, packets.size());
  EXPECT_EQ(outcome.flows_at_units, outcome.flows_with_a_unit);
  if (finite) {
    EXPECT_EQ(outcome.flows_at_controller, 0u);
    EXPECT_EQ(outcome.replicas_at_units, 0u);
    EXPECT_EQ(run.controller.flows, run.controller.flows_ended);
  } else {
    ExpectOrder(outcome);
  }
  totals.Add(run);
  if (rng.Chance(16'384)) {
    RunOptions unchecked = options;
    unchecked.check = rng.Chance(32'768);
    ExpectSame(run, RunFrames(unchecked, nf, packets, policy).run);
    ++totals.run_again;
  }
  uint64_t lost = 0;
  for (const uint64_t n : run.dropped) lost += n;
  if (lost == 0 && (&nf == &ForwardingNf() || &nf == &TimelessChronicleNf())) {
    const RunResult reference = RunOnOneUnit(options, nf, packets);
    ASSERT_EQ(reference.controller.flowlets_moved, 0u);
    // A flow ends at the first timer of the controller after its timeout, and
    // these follow the units. A packet that comes between the two belongs to
    // either flow.
    if (reference.controller.flows != run.controller.flows) {
      ++totals.incomparable;
      return;
    }
    EXPECT_EQ(reference.packets_in + reference.packets_generated,
              run.packets_in + run.packets_generated);
    EXPECT_EQ(reference.nf_dropped, run.nf_dropped);
    EXPECT_EQ(reference.digest, run.digest);
    ++totals.compared;
    totals.compared_state += &nf == &TimelessChronicleNf() ? 1 : 0;
    totals.compared_moved += run.controller.flowlets_moved;
    totals.compared_lost += run.state.messages_lost;
    totals.compared_null += run.state.null_packets;
  }
}

TEST(VirtualDriverRandom, HoldsItsPromisesOnAnySchedule) {
  const char* const long_tests = std::getenv("SNF_LONG_TESTS");
  const bool is_long = long_tests != nullptr && *long_tests == '1';
  const char* const one_seed = std::getenv("SNF_TEST_SEED");
  const uint64_t first =
      one_seed != nullptr ? std::strtoull(one_seed, nullptr, 10) : 1;
  const uint64_t runs = one_seed != nullptr ? 1 : is_long ? 50'000 : 1'000;
  Totals totals;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE(fmt::format("SNF_TEST_SEED={}", seed));
    RunOne(seed, totals);
    if (HasFailure()) return;
  }
  EXPECT_LE(totals.incomparable, totals.compared / 100);
  std::cout << "seeds " << first << " to " << first + runs - 1 << "\n";
  for (const auto& [name, count, floor] : totals.Floors()) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, count);
    if (one_seed == nullptr) {
      EXPECT_GE(count, floor) << name;
    }
  }
}

}  // namespace
}  // namespace snf
