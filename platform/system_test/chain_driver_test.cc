// SPDX-License-Identifier: Apache-2.0
//
// Chains in runs: what holds for an NF holds for several. Random schedules:
// SNF_LONG_TESTS=1 runs 50 times as many; SNF_TEST_SEED=n runs the one with
// that seed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "base/packet/rewrite.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/system_test/test_schedule.h"
#include "platform/system_test/test_tiny_nat.h"

namespace snf {
namespace {

using testing::ElementsAre;

constexpr int64_t kMs = 1'000'000;

// Numbers the packets that it sees, and finds them odd or even.
class Sorter final : public NetworkFunction {
 public:
  explicit Sorter(NfOptions& options)
      : at_(static_cast<size_t>(
            options.Integer("at", 53, 53, 58, "byte that it writes"))),
        drop_(static_cast<uint64_t>(
            options.Integer("drop", 0, 0, 99, "drops each so many-th"))) {}
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"sorted_out"};
    return kReasons;
  }
  std::span<const std::string_view> labels() const override {
    static constexpr std::string_view kLabels[] = {"even", "odd"};
    return kLabels;
  }
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    const uint64_t packets = flow.get(packets_) + 1;
    flow.put(packets_, packets);
    count(counter_);
    if (packet.bytes().size() > at_) {
      packet.bytes()[at_] = static_cast<std::byte>(packets);
    }
    if (drop_ > 0 && packets % drop_ == 0) return Verdict::drop(0);
    return Verdict::forward(packets % 2);
  }

 private:
  size_t at_;
  uint64_t drop_;
  Counter counter_ = declare_counter("packets", "that it saw");
  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
};
SNF_REGISTER_NF(Sorter, "test_sorter", "numbers packets");

// Needs a piece for what it forwards, and gives it back at the end, or when
// its timer runs out.
class Taker final : public NetworkFunction {
 public:
  explicit Taker(NfOptions& options)
      : keep_(options.Duration("keep", Nanos{0}, Nanos{0}, Seconds(1),
                               "how long it keeps a piece; 0: for ever")) {
    const int64_t pieces = options.Integer("pieces", 9, 1, 999, "pieces");
    pool_ = declare_pool("pieces", 1, static_cast<uint32_t>(pieces));
  }
  bool has_timer() const override { return keep_.ns > 0; }
  bool may_wait(const FlowState& flow) const override {
    return !flow.has(piece_);
  }
  std::span<const std::string_view> drop_reasons() const override {
    static constexpr std::string_view kReasons[] = {"no_piece"};
    return kReasons;
  }
  Verdict process_packet(Packet&, FlowState& flow) override {
    if (!flow.has(piece_)) {
      const auto piece = flow.take(pool_, {.first = 0, .last = 999});
      if (!piece.has_value()) {
        if (!flow.is_exhausted(pool_)) return Verdict::wait(pool_);
        count(without_);
        return Verdict::drop(0);
      }
      flow.put(piece_, static_cast<uint16_t>(*piece));
      count(taken_);
    }
    if (keep_.ns > 0) flow.set_timer(keep_);
    return Verdict::forward();
  }
  void on_timer(FlowState& flow) override {
    count(timers_);
    on_end(flow);
    flow.emit(TimerFrame());
  }
  void on_end(FlowState& flow) override {
    if (!flow.has(piece_)) return;
    flow.give_back(pool_, flow.get(piece_));
    flow.erase(piece_);
  }

 private:
  Nanos keep_;
  PoolId pool_{};
  Counter taken_ = declare_counter("taken", "pieces");
  Counter without_ = declare_counter("without", "packets without a piece");
  Counter timers_ = declare_counter("timers", "that ran out");
  Slot<uint16_t> piece_ = declare<uint16_t>("piece");
};
SNF_REGISTER_NF(Taker, "test_taker", "takes pieces");

// --- Packets in, packets out ------------------------------------------------

NfSpec Spec(std::string_view text) {
  const absl::StatusOr<NfSpec> spec = NfSpec::Parse(text);
  EXPECT_TRUE(spec.ok() && spec->check().ok())
      << text << ": " << spec.status() << " "
      << (spec.ok() ? spec->check() : spec.status());
  return *spec;
}

// Of a UdpFrame, one that goes to another end outside, or comes from there.
Frame WithFarEnd(Frame frame, IpAddress address, uint16_t port,
                 bool from_responder) {
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
  if (from_responder) {
    RewriteSource(frame, headers, address.ipv4(), be16(port));
  } else {
    RewriteDestination(frame, headers, address.ipv4(), be16(port));
  }
  return frame;
}

OfferedFrame At(int64_t ms, Frame frame) {
  // Where NFs write their numbers.
  std::fill(frame.begin() + 53, frame.begin() + 56, std::byte{0});
  return {.time = Instant{ms * kMs}, .bytes = std::move(frame)};
}
OfferedFrame To(int64_t ms, uint32_t flow, IpAddress address, uint16_t port) {
  return At(ms, WithFarEnd(UdpFrame({.flow = flow}), address, port, false));
}
OfferedFrame From(int64_t ms, uint32_t flow, IpAddress address, uint16_t port) {
  return At(ms, WithFarEnd(UdpFrame({.flow = flow, .from_responder = true}),
                           address, port, true));
}

// The bytes from 53 on of each packet released.
std::vector<std::string> Numbers(const Outcome& outcome, size_t bytes) {
  std::vector<std::string> numbers;
  for (const ReleasedFrame& frame : outcome.released) {
    std::string& text = numbers.emplace_back();
    for (size_t i = 0; i < bytes; ++i) {
      text += std::to_string(std::to_integer<int>(frame.bytes[53 + i]));
    }
  }
  return numbers;
}

uint64_t CounterOf(const RunResult& run, std::string_view nf,
                   std::string_view name) {
  for (const RunResult::NfCounter& counter : run.nf_counters) {
    if (counter.nf == nf && counter.name == name) return counter.value;
  }
  ADD_FAILURE() << nf << " " << name;
  return 0;
}

const IpAddress kHostA = V4(192, 0, 2, 1);
const IpAddress kHostB = V4(192, 0, 2, 2);

TEST(ChainDriver, RunsSeveralNfsAsOne) {
  TinyNatOptions options = TinyNatTables();
  options.nf = Spec(
      "test_sorter | {odd: test_sorter(at=54,drop=3)} | test_sorter(at=55)");
  std::vector<OfferedFrame> packets;
  for (int i = 0; i < 6; ++i) packets.push_back(To(20 * i, 1, kHostA, 53));
  const Outcome outcome = ReplayTiny(options, packets);
  EXPECT_THAT(Numbers(outcome, 3),
              ElementsAre("111", "202", "323", "404", "605"));
  const RunResult& run = outcome.run;
  EXPECT_THAT(run.nf_drop_names,
              ElementsAre("test_sorter.sorted_out", "test_sorter#2.sorted_out",
                          "test_sorter#3.sorted_out"));
  EXPECT_THAT(run.nf_dropped, ElementsAre(0u, 1u, 0u));
  EXPECT_EQ(CounterOf(run, "test_sorter", "packets"), 6u);
  EXPECT_EQ(CounterOf(run, "test_sorter#2", "packets"), 3u);
  EXPECT_EQ(CounterOf(run, "test_sorter#3", "packets"), 5u);
  EXPECT_EQ(run.i6_compared, 6u);
}

TEST(ChainDriver, KnowsConnectionsBesideANatWhereverItsFlowIs) {
  TinyNatOptions options = TinyNatTables();
  options.nf = Spec("test_sorter | test_tiny_nat | test_sorter(at=54)");
  // Others keep units busy, so that the flow moves.
  options.controller.unit_capacity_bps = 2'000'000;
  std::vector<OfferedFrame> packets;
  std::vector<std::string> expected;
  std::map<int, int> count;
  for (int i = 0; i < 120; ++i) {
    const int far_end = i % 3;
    const IpAddress host = far_end == 0 ? kHostA : kHostB;
    const auto port = static_cast<uint16_t>(50 + far_end);
    packets.push_back(i > 0 && i % 7 < 3 ? From(20 * i, 1, host, port)
                                         : To(20 * i, 1, host, port));
    const std::string number = std::to_string(++count[far_end]);
    expected.push_back(number + number);
    for (uint32_t other = 2; other < 6; ++other) {
      packets.push_back(
          To(20 * i, other + static_cast<uint32_t>(i % 2), kHostA, 53));
      packets.back().original_length = 1'500;
    }
  }
  const Outcome outcome = ReplayTiny(options, packets);
  Outcome of_flow{.run = {}, .released = {}};
  for (const ReleasedFrame& frame : outcome.released) {
    if (FlowOf(frame.bytes) == 1) of_flow.released.push_back(frame);
  }
  EXPECT_EQ(Numbers(of_flow, 2), expected);
  EXPECT_GE(outcome.run.controller.flowlets_moved, 20u);
  EXPECT_EQ(CounterOf(outcome.run, "chain", "connections_forgotten"), 0u);
}

TEST(ChainDriver, CountsFragmentsToTheirConnection) {
  TinyNatOptions options = TinyNatTables();
  options.nf = Spec("test_sorter | test_tiny_nat");
  const auto fragment = [](int64_t ms, bool is_first) {
    return OfferedFrame{
        .time = Instant{ms * kMs},
        .bytes =
            Ethernet(0x0800, Ipv4({.destination = kHostA,
                                   .id = 7,
                                   .fragment_offset_bytes =
                                       static_cast<uint16_t>(is_first ? 0 : 48),
                                   .more_fragments = is_first},
                                  is_first ? Udp(5000, 53, 40) : Frame(48)))};
  };
  // All of 10.0.0.1:5000.
  const Outcome outcome =
      ReplayTiny(options, {To(0, 1, kHostA, 53), To(20, 1, kHostA, 54),
                           fragment(40, true), fragment(60, false),
                           To(80, 1, kHostA, 53), To(100, 1, kHostA, 54)});
  EXPECT_THAT(Numbers(outcome, 1), ElementsAre("1", "1", "2", "3", "4", "2"));
}

TEST(ChainDriver, SeesAPacketThatCameBackAsOneFromItsSendersExternalEnd) {
  TinyNatOptions options = TinyNatTables();
  options.nf = Spec("test_sorter | test_tiny_nat | test_sorter(at=54)");
  options.inside = *ParsePrefixes("10.0.0.0/8");
  // 1 and 2 have the external ports 1024 and 1025.
  const Outcome outcome = ReplayTiny(
      options,
      {To(0, 1, kHostA, 53), To(20, 2, kHostA, 53), To(40, 1, kExternal, 1025),
       To(60, 2, kExternal, 1024), To(80, 1, kExternal, 1025)});
  EXPECT_EQ(outcome.run.aliases.packets_hairpinned, 3u);
  // Each once as it went out and once as it came back.
  EXPECT_THAT(Numbers(outcome, 2),
              ElementsAre("11", "11", "11", "11", "22", "22", "33", "33"));
}

TEST(ChainDriver, LetsAPacketWaitAsIfNoNfHadSeenIt) {
  TinyNatOptions options = TinyNatTables();
  options.nf = Spec(
      "test_sorter | test_taker(pieces=2) | test_sorter(at=54) | "
      "test_taker(pieces=1,keep=5ms)");
  options.hop_delay = Microseconds(100);
  const Outcome outcome =
      ReplayTiny(options, {To(0, 1, kHostA, 53), To(20, 2, kHostA, 53),
                           To(22, 3, kHostA, 53), To(23, 1, kHostA, 53)});
  const RunResult& run = outcome.run;
  // The first comes to wait for both pools, and is seen once.
  EXPECT_EQ(CounterOf(run, "test_sorter", "packets") +
                run.dropped[static_cast<size_t>(DropReason::kNoPieces)],
            4u);
  EXPECT_EQ(CounterOf(run, "test_taker#2", "taken"), 2u);
  EXPECT_EQ(CounterOf(run, "test_taker#2", "timers"), 2u);
  EXPECT_GE(run.packets_released, 2u);
}

// --- Random schedules -------------------------------------------------------

struct Totals {
  std::map<std::string, uint64_t> counts;
  void Add(const RunResult& run) {
    counts["packets"] += run.packets_in;
    counts["released"] += run.packets_released;
    counts["generated"] += run.packets_generated;
    counts["moved"] += run.controller.flowlets_moved;
    counts["  pulled"] += run.state.pulled;
    counts["pushes"] += run.state.pushes;
    counts["flows over"] += run.controller.flows_over;
    counts["aliases"] += run.controller.aliases_granted;
    counts["found by alias"] += run.aliases.packets_found;
    counts["blocks"] += run.controller.pieces.blocks_granted;
    counts["requests refused"] += run.controller.pieces.requests_refused;
    counts["no pieces"] +=
        run.dropped[static_cast<size_t>(DropReason::kNoPieces)];
    counts["compared"] += run.i6_compared;
    for (const uint64_t dropped : run.nf_dropped) counts["NF drops"] += dropped;
    for (const RunResult::NfCounter& counter : run.nf_counters) {
      counts["NFs: " + counter.name] += counter.value;
    }
  }
};

std::string AnyNf(Rng& rng) {
  switch (rng.Below(8)) {
    case 0:
      return fmt::format("test_taker(pieces={})", rng.Uniform(1, 40));
    case 1:
      return fmt::format("test_taker(pieces={},keep={}us)", rng.Uniform(1, 40),
                         rng.Uniform(100, 20'000));
    case 2:
    case 3:
      return "test_timeless";
    case 4:
      return "test_scripted";
    default:
      return fmt::format("test_sorter(at={},drop={})", rng.Uniform(53, 57),
                         rng.Chance(32'768) ? 0 : rng.Uniform(2, 30));
  }
}

std::string AnyChain(Rng& rng, int depth) {
  std::string text;
  do {
    if (!text.empty()) text += " | ";
    const std::string nf = AnyNf(rng);
    text += nf;
    if (!nf.starts_with("test_sorter") || depth == 2) continue;
    if (!rng.Chance(30'000)) continue;
    text += " | {odd: " + AnyChain(rng, depth + 1);
    if (rng.Chance(32'768)) text += ", *: " + AnyChain(rng, depth + 1);
    text += "}";
  } while (rng.Chance(depth == 0 ? 40'000 : 16'000));
  return text;
}

// Of few NFs enough; with one that has two sides, or none.
NfSpec AnySpec(Rng& rng, bool has_sides) {
  while (true) {
    std::string text = AnyChain(rng, 0);
    if (has_sides) {
      const std::string nat =
          fmt::format("test_tiny_nat(first=1024,last={})",
                      1023 + rng.Uniform(1, rng.Chance(32'768) ? 24 : 600));
      const std::string other = AnyChain(rng, 0);
      const uint64_t kind = rng.Below(3);
      text = kind == 0   ? nat + " | " + text
             : kind == 1 ? text + " | " + nat
                         : text + " | " + nat + " | " + other;
      text = fmt::format("[connections={}] ", rng.Uniform(1, 6)) + text;
    } else {
      text = "test_sorter(at=58) | " + text;
    }
    const absl::StatusOr<NfSpec> spec = NfSpec::Parse(text);
    // Not more than there is room for.
    if (spec.ok() && spec->check().ok()) return *spec;
  }
}

// Whoever is inside sends something before anything is sent to it.
std::vector<OfferedFrame> AnyTrafficOfSides(Rng& rng) {
  const auto hosts = static_cast<uint64_t>(rng.Uniform(1, 20));
  const int64_t gap = rng.Chance(32'768) ? 20'000 : 500'000;
  std::set<uint32_t> known;
  std::vector<OfferedFrame> packets;
  int64_t time = 0;
  for (uint32_t i = 0; i < 250; ++i) {
    time += rng.Exponential(rng.Chance(1'500) ? 20 * kMs : gap);
    FrameFields fields = {.flow = static_cast<uint32_t>(rng.Below(hosts)),
                          .sequence = i};
    const bool is_known = !known.insert(fields.flow).second;
    fields.from_responder = is_known && rng.Chance(26'000);
    const std::array asks = {kEnd,        kBrief,      Ask::kDropFirst,
                             Ask::kReply, Ask::kTimer, Ask::kConsume};
    if (rng.Chance(8'000)) fields.ask = asks[rng.Below(asks.size())];
    fields.first_payload_byte = static_cast<std::byte>(rng.Below(8));
    const auto far_end = static_cast<uint8_t>(rng.Below(8));
    packets.push_back(
        {.time = Instant{time},
         .bytes = WithFarEnd(UdpFrame(fields), V4(192, 0, 2, far_end / 2),
                             static_cast<uint16_t>(53 + far_end % 2),
                             fields.from_responder)});
  }
  return packets;
}

void RunOne(uint64_t seed, Totals& totals) {
  Rng rng(seed);
  const Schedule any = AnyScheduleOfAsks(rng);
  const bool has_sides = rng.Chance(36'000);
  TinyNatOptions options{any.options, AnySpec(rng, has_sides)};
  SCOPED_TRACE(options.nf.text());
  if (options.controller.flow_timeout == Nanos::max()) {
    options.controller.flow_timeout = Seconds(2);
  }
  std::vector<OfferedFrame> packets = any.packets;
  if (has_sides) {
    options.flow.kind = FlowKeyKind::kConnection;
    options.flow.vlan = false;
    packets = AnyTrafficOfSides(rng);
  }
  ++totals.counts[has_sides ? "chains with two sides" : "other chains"];
  const Outcome outcome = ReplayTiny(options, packets, any.policy);
  EXPECT_EQ(outcome.flows_at_controller, 0u);
  EXPECT_EQ(outcome.flows_at_units, 0u);
  totals.Add(outcome.run);
  if (seed % 2 != 0) return;
  // Timers make what leaves depend on time; I6 is checked clock by clock.
  constexpr int64_t kDelays[] = {0, 1'000, 50'000, 3'000'000};
  options.loggers = true;
  options.logger_delay = Nanos{kDelays[seed / 2 % 4]};
  options.chaos.logger_loss_65536 = seed % 4 == 0 ? 8'192 : 0;
  ReplayTiny(options, packets, any.policy);
  ++totals.counts["with loggers"];
}

TEST(ChainDriverRandom, HoldsItsPromisesOnAnySchedule) {
  const TestSeeds seeds(300, 15'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    RunOne(seed, totals);
    if (HasFailure()) return;
  }
  std::cout << "seeds " << seeds.first << " to " << seeds.last << "\n";
  for (const auto& [name, count] : totals.counts) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, count);
    if (seeds.is_part) continue;
    EXPECT_GE(count, 50u) << name;
  }
}

}  // namespace
}  // namespace snf
