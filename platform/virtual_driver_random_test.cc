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
#include <vector>

#include "base/rng.h"
#include "platform/test_run.h"
#include "platform/virtual_driver.h"

// Random traffic on random configurations. SNF_LONG_TESTS=1 runs 20 times as
// many; SNF_TEST_SEED=n runs the one with that seed.
namespace snf {
namespace {

constexpr int64_t kMs = 1'000'000;

// Uniform in the exponent.
int64_t Any(Rng& rng, int64_t low, int64_t high) {
  const int64_t upper = low << rng.Below(64);
  if (upper >= high || upper < low) return rng.Uniform(low, high);
  return rng.Uniform(low, std::max(low, upper));
}

RunOptions AnyOptions(Rng& rng) {
  RunOptions options = SmallTables();
  ControllerOptions& c = options.controller;
  c.flowlet_timeout = Nanos{Any(rng, 1'000, 5 * kMs)};
  c.flowlet_bytes = static_cast<uint32_t>(Any(rng, 100, 100'000));
  c.flow_timeout =
      rng.Chance(20'000)
          ? Nanos::max()
          : Nanos{c.flowlet_timeout.ns + Any(rng, 1, int64_t{1} << 32)};
  c.max_flows =
      rng.Chance(10'000) ? static_cast<uint32_t>(rng.Uniform(1, 8)) : 4096;
  c.alpha_1024 = static_cast<uint32_t>(rng.Below(1025));
  c.ewma_delta_65536 = static_cast<uint32_t>(rng.Below(65'537));
  c.demand_rule = rng.Chance(32'768) ? DemandRule::kFloor : DemandRule::kBurst;
  c.load_signal =
      rng.Chance(32'768) ? LoadSignal::kDemand : LoadSignal::kDrained;
  c.load_bucket = Nanos{Any(rng, 10'000, 5 * kMs)};
  c.load_buckets = static_cast<uint32_t>(rng.Uniform(1, 200));
  c.max_units = static_cast<uint32_t>(rng.Uniform(1, 32));
  c.unit_capacity_bps = Any(rng, 10'000, 1'000'000'000);
  if (rng.Chance(32'768)) {
    c.unit_capacity_bps = Any(rng, 1'000'000, 100'000'000);
  }
  c.first_demand_bps = rng.Chance(32'768) ? 0 : c.unit_capacity_bps / 3;
  c.unit_queue_packets = static_cast<uint32_t>(Any(rng, 1, 256));
  c.start_buffer_packets = static_cast<uint32_t>(rng.Uniform(0, 256));
  if (rng.Chance(20'000)) {
    c.unit_queue_packets = c.start_buffer_packets = 4096;
  }
  c.warm_units = static_cast<uint32_t>(rng.Below(c.max_units + 1));
  c.unit_idle_timeout = Nanos{Any(rng, 2 * kMs, 200 * kMs)};
  c.keep_warm = rng.Chance(16'384) ? Nanos{0} : Nanos{Any(rng, 1, 1'000 * kMs)};
  options.hop_delay = Nanos{rng.Chance(32'768) ? 0 : rng.Uniform(0, 5 * kMs)};
  options.unit_start_delay = Nanos{rng.Uniform(0, 5 * kMs)};
  options.warm_start_delay = Nanos{rng.Uniform(0, 5 * kMs)};
  if (rng.Chance(8'192)) {
    options.buffers.small = static_cast<uint32_t>(rng.Uniform(1, 40));
    options.buffers.medium = options.buffers.large = 0;
  }
  constexpr std::array kKinds = {FlowKeyKind::kConnection, FlowKeyKind::k5Tuple,
                                 FlowKeyKind::k3Tuple};
  options.flow.kind = kKinds[rng.Below(kKinds.size())];
  options.flow.vlan = rng.Chance(32'768);
  return options;
}

Nanos AnyGap(Rng& rng) {
  constexpr std::array<uint32_t, 7> kWeights = {30, 30, 30, 6, 2, 1, 1};
  switch (rng.Weighted(kWeights)) {
    case 0:
      return {0};
    case 1:
      return {rng.Exponential(10'000)};
    case 2:
      return {rng.Exponential(kMs)};
    case 3:
      return {rng.Exponential(100 * kMs)};
    case 4:
      return {rng.Exponential(3'000 * kMs)};
    case 5:
      return {-rng.Exponential(kMs)};
    default:
      return Seconds(int64_t{rng.Uniform(1, 3)} * 365 * 86'400);
  }
}

// A frame that is no plain UDP packet.
Frame OddFrame(Rng& rng) {
  const auto any16 = [&] { return static_cast<uint16_t>(rng.Below(4)); };
  const auto payload = Frame(8 * (1 + rng.Below(40)), std::byte{0x5a});
  switch (rng.Below(7)) {
    case 0:
      return Ethernet(0x0806, Frame(28));
    case 1:
      return Ethernet(0x0800,
                      Ipv4({.protocol = 1}, Icmp(8, 0, any16(), payload)));
    case 2:
      return Ethernet(0x0800, Ipv4({.id = any16(), .more_fragments = true},
                                   Udp(any16(), 53, 16)));
    case 3:
      return Ethernet(
          0x0800, Ipv4({.id = any16(), .fragment_offset_bytes = 24}, payload));
    case 4:
      return Ethernet(0x0800, Ipv4({.protocol = 1},
                                   Icmp(3, 3, 0, Ipv4({}, Udp(any16(), 53)))));
    case 5:
      return Ethernet(0x8100, Vlan(any16(), 0x86dd,
                                   Ipv6({.next_header = 6},
                                        Tcp(any16(), 80, 0, rng.Below(900)))));
    default:
      return Ethernet(0x0800, Hex("45 00 00"));
  }
}

std::vector<OfferedFrame> AnyTraffic(Rng& rng) {
  std::vector<OfferedFrame> packets;
  Instant time{rng.Uniform(-1'000 * kMs, 1'000 * kMs)};
  const uint64_t count = rng.Uniform(1, 400);
  const uint64_t flows = rng.Uniform(1, 30);
  const bool runs = rng.Chance(32'768);  // of packets of one flow
  constexpr std::array kAsks = {
      Ask::kDropFirst, Ask::kDropSecond, Ask::kConsume,     Ask::kReply,
      Ask::kFlood,     Ask::kTimer,      Ask::kCancelTimer, Ask::kRewrite};
  FrameFields fields;
  for (uint32_t i = 0; i < count; ++i) {
    time = time + AnyGap(rng);
    if (rng.Chance(6'000)) {
      packets.push_back({.time = time, .bytes = OddFrame(rng)});
      continue;
    }
    if (!runs || rng.Chance(6'000)) {
      fields.flow = static_cast<uint32_t>(rng.Below(flows));
    }
    fields.sequence = i;
    fields.bytes = static_cast<uint32_t>(Any(rng, 60, 1514));
    if (rng.Chance(300)) fields.bytes = 20'000;
    fields.ask =
        rng.Chance(16'384) ? kAsks[rng.Below(kAsks.size())] : Ask::kForward;
    fields.first_payload_byte = static_cast<std::byte>(rng.Below(100));
    fields.from_responder = rng.Chance(20'000);
    OfferedFrame packet{.time = time, .bytes = UdpFrame(fields)};
    if (rng.Chance(2'000)) {
      packet.original_length = static_cast<uint32_t>(rng.Below(60'000));
    }
    packets.push_back(std::move(packet));
  }
  return packets;
}

struct Totals {
  uint64_t packets = 0, released = 0, flows = 0, flowlets = 0, moved = 0;
  uint64_t pulls = 0, held_max = 0, overcommitted = 0, cold = 0, warm = 0;
  uint64_t generated = 0, consumed = 0, passed = 0, late = 0, nf_dropped = 0;
  uint64_t compared = 0, compared_moved = 0, repeated = 0;
  std::array<uint64_t, kDropReasons> dropped{};

  void Add(const RunResult& run) {
    packets += run.packets_in;
    released += run.packets_released;
    flows += run.controller.flows;
    flowlets += run.controller.flowlets;
    moved += run.controller.flowlets_moved;
    pulls += run.state_pulls;
    held_max = std::max(held_max, uint64_t{run.held_packets_max});
    overcommitted += run.controller.overcommitted;
    cold += run.cold_starts;
    warm += run.warm_starts;
    generated += run.packets_generated;
    consumed += run.packets_consumed;
    passed += run.packets_passed_through;
    late += run.late_packets;
    for (const uint64_t n : run.nf_dropped) nf_dropped += n;
    for (size_t i = 0; i < kDropReasons; ++i) dropped[i] += run.dropped[i];
  }

  // Each with the least that a run of the CI must reach.
  std::vector<std::tuple<std::string, uint64_t, uint64_t>> Floors() const {
    std::vector<std::tuple<std::string, uint64_t, uint64_t>> floors = {
        {"packets", packets, 50'000},
        {"released", released, 25'000},
        {"flows", flows, 10'000},
        {"flowlets", flowlets, 20'000},
        {"moved", moved, 1'000},
        {"pulls", pulls, 1'000},
        {"held at a time", held_max, 20},
        {"overcommitted", overcommitted, 1'000},
        {"cold starts", cold, 500},
        {"warm starts", warm, 500},
        {"generated", generated, 5'000},
        {"consumed", consumed, 1'000},
        {"passed through", passed, 1'000},
        {"late", late, 200},
        {"dropped by the nf", nf_dropped, 1'000},
        {"compared with one big unit", compared, 20},
        {"flowlets moved in those", compared_moved, 100},
        {"repeated", repeated, 50}};
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

void RunOne(uint64_t seed, Totals& totals) {
  Rng rng(seed);
  const RunOptions options = AnyOptions(rng);
  const std::vector<OfferedFrame> packets = AnyTraffic(rng);
  const std::array nfs = {&ScriptedNf(), &ForwardingNf(), &KeepaliveNf()};
  const bool finite = options.controller.flow_timeout != Nanos::max();
  // A timer that is set for ever needs a flow that ends.
  const NfRegistration& nf = *nfs[rng.Below(finite ? 3 : 2)];

  const Outcome outcome = RunFrames(options, nf, packets);
  ExpectSound(outcome);
  ASSERT_EQ(outcome.run.packets_in, packets.size());
  ASSERT_EQ(outcome.run.state_pulls, outcome.run.controller.flowlets_moved);
  if (finite) {
    EXPECT_EQ(outcome.flows_at_controller, 0u);
    EXPECT_EQ(outcome.flows_at_units, 0u);
    EXPECT_EQ(outcome.run.controller.flows, outcome.run.controller.flows_ended);
  } else {
    ExpectOrder(outcome);
  }
  totals.Add(outcome.run);
  if (rng.Chance(16'384)) {
    RunOptions unchecked = options;
    unchecked.check = rng.Chance(32'768);
    ExpectSame(outcome.run, RunFrames(unchecked, nf, packets).run);
    ++totals.repeated;
  }
  uint64_t lost = 0;
  for (const uint64_t n : outcome.run.dropped) lost += n;
  if (lost == 0 && &nf == &ForwardingNf()) {
    RunOptions big = options;
    big.controller.max_units = 1;
    big.controller.unit_capacity_bps = 1'000'000'000'000;
    big.controller.unit_queue_packets = 4096;
    big.controller.start_buffer_packets = 4096;
    // While the only unit is being stopped there is none.
    big.controller.keep_warm = Nanos::max();
    const RunResult reference = RunFrames(big, nf, packets).run;
    ASSERT_EQ(reference.packets_dropped(), 0u);
    EXPECT_EQ(reference.digest, outcome.run.digest);
    ++totals.compared;
    totals.compared_moved += outcome.run.controller.flowlets_moved;
  }
}

TEST(VirtualDriverRandom, HoldsItsPromisesOnAnySchedule) {
  const char* const long_tests = std::getenv("SNF_LONG_TESTS");
  const bool is_long = long_tests != nullptr && *long_tests == '1';
  const char* const one_seed = std::getenv("SNF_TEST_SEED");
  const uint64_t first =
      one_seed != nullptr ? std::strtoull(one_seed, nullptr, 10) : 1;
  const uint64_t runs = one_seed != nullptr ? 1 : is_long ? 20'000 : 1'000;
  Totals totals;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE(fmt::format("SNF_TEST_SEED={}", seed));
    RunOne(seed, totals);
    if (HasFailure()) return;
  }
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
