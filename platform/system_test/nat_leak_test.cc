// SPDX-License-Identifier: Apache-2.0
//
// A million short flows through few ports: no port is lost, none is had twice,
// and whoever is refused one is refused because there is none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "controller/core/piece_pool.h"
#include "platform/system_test/test_run.h"
#include "runtime/core/unit_pieces.h"

namespace snf {
namespace {

constexpr uint32_t kPorts = 4'096, kFirstPort = 10'000;
constexpr Nanos kTimeout = Milliseconds(50);
// Hosts take turns, each long after its last flow.
constexpr uint32_t kHosts = 1 << 16;
// By turns for as long, few enough flows for the ports and too many.
constexpr Nanos kCalm = Milliseconds(200), kRush = Milliseconds(100);
constexpr int64_t kPeriodNs = kCalm.ns + kRush.ns;
constexpr Nanos kCalmGap = Nanos{16'700}, kRushGap = Nanos{8'300};
constexpr uint32_t kMaxFlows = 1 << 16;
constexpr uint32_t kMaxUnits = 16;

// A refusal is right if this many mappings were there at one time: all ports
// but those that a unit asked for ahead of need, which it keeps while it asks
// for more, and but 128 for mappings whose first packet, or whose end, is on
// its way. Some 240 begin and as many end in a millisecond.
constexpr uint32_t kFull = kPorts - kMaxUnits * UnitPieces::kAskBelow - 128;
// … and not longer ago than this. Freed ports stay at their unit until a round
// asks for them, and rounds have a distance.
constexpr Nanos kWindow = {2 * PiecePool::kRound.ns};

enum class Step : uint8_t { kFirst, kAnswer, kLast, kLastAnswer };
constexpr size_t kSteps = 4;
constexpr Nanos kStepGap = Milliseconds(2);

struct Flow {
  uint32_t number = 0;
  bool is_tcp = false;
  uint32_t host() const { return number % kHosts; }
};

// The last packet of a TCP flow, and the answer to it, close it.
enum class Ending : uint8_t { kFins, kResetFromInside, kResetFromOutside };
Ending EndingOf(const Flow& flow) {
  return static_cast<Ending>(flow.number / 2 % 3);
}

// Packets that bear their flow's number.
class Packets {
 public:
  const Frame& Of(const Flow& flow, Step step) {
    const bool back = IsBack(flow, step);
    Frame& frame = frames_[flow.is_tcp ? 1 : 0][back ? 1 : 0];
    const size_t inside = back ? kDestination : kSource;
    Put(frame, inside, 0x0a00'0000 + flow.host(), 4);
    Put(frame, flow.is_tcp ? kTcpSequence : kUdpPayload, flow.number, 4);
    if (flow.is_tcp) Put(frame, kTcpFlags, FlagsOf(flow, step), 1);
    return frame;
  }
  static uint32_t Get(std::span<const std::byte> frame, size_t at, size_t n) {
    uint32_t value = 0;
    for (size_t i = at; i < at + n; ++i) {
      value = value << 8 | std::to_integer<uint32_t>(frame[i]);
    }
    return value;
  }
  static constexpr size_t kProtocol = 23, kSource = 26, kDestination = 30,
                          kSourcePort = 34, kDestinationPort = 36,
                          kTcpSequence = 38, kUdpPayload = 42, kTcpFlags = 47;

 private:
  static bool IsBack(const Flow& flow, Step step) {
    if (step == Step::kLast && flow.is_tcp) {
      return EndingOf(flow) == Ending::kResetFromOutside;
    }
    return step == Step::kAnswer || step == Step::kLastAnswer;
  }
  static uint32_t FlagsOf(const Flow& flow, Step step) {
    constexpr uint32_t kFin = 1, kSyn = 2, kRst = 4, kAck = 16;
    if (step == Step::kFirst) return kSyn;
    if (step == Step::kAnswer) return kSyn | kAck;
    return EndingOf(flow) == Ending::kFins ? kFin | kAck : kRst;
  }
  static void Put(Frame& frame, size_t at, uint32_t value, size_t n) {
    for (size_t i = n; i-- > 0; value >>= 8) {
      frame[at + i] = static_cast<std::byte>(value);
    }
  }
  static Frame Of(bool is_tcp, bool back) {
    const uint16_t from = back ? 53 : 5000, to = back ? 5000 : 53;
    const IpAddress peer = V4(203, 0, 113, 9), host = V4(10, 0, 0, 0);
    return Ethernet(0x0800,
                    Ipv4({.source = back ? peer : host,
                          .destination = back ? host : peer,
                          .protocol = static_cast<uint8_t>(is_tcp ? 6 : 17)},
                         is_tcp ? Tcp(from, to) : Udp(from, to)));
  }
  std::array<std::array<Frame, 2>, 2> frames_ = {
      {{Of(false, false), Of(false, true)}, {Of(true, false), Of(true, true)}}};
};

// The mappings of one protocol as they show from outside: one is there from the
// release of its first packet until so long after its last that it may end.
class Mappings {
 public:
  bool IsThere(uint32_t number) const {
    const Mapping& mapping = of_host_[number % kHosts];
    return mapping.number == number && mapping.port != 0;
  }
  // Its port is free, and it is that flow's from now on.
  void on_made(Instant now, uint32_t number, uint32_t port) {
    End(now);
    Mapping& mapping = of_host_[number % kHosts];
    ASSERT_EQ(mapping.number, number);
    ASSERT_EQ(mapping.port, 0u) << "host of flow " << number;
    ASSERT_GE(port, kFirstPort);
    ASSERT_LT(port, kFirstPort + kPorts);
    ASSERT_FALSE(std::exchange(is_used_[port - kFirstPort], 1))
        << port << " is another's, at flow " << number;
    mapping.port = port;
    ++live_;
    max_live_ = std::max(max_live_, live_);
    while (!highs_.empty() && highs_.back().second <= live_) highs_.pop_back();
    highs_.push_back({now, live_});
  }
  // A packet of the flow comes.
  void on_packet(Instant now, uint32_t number) {
    Mapping& mapping = of_host_[number % kHosts];
    if (mapping.number != number) {
      End(now);
      ASSERT_EQ(mapping.port, 0u) << "host of flow " << number;
    }
    mapping.number = number;
    mapping.until = now + kTimeout;
    ends_.push_back({mapping.until, number});
  }
  uint32_t PortOf(uint32_t number) const {
    return of_host_[number % kHosts].port;
  }
  // The most that were there at one time in kWindow.
  uint32_t Highest(Instant now) {
    End(now);
    while (highs_.size() > 1 && now - highs_[1].first >= kWindow) {
      highs_.pop_front();
    }
    return highs_.empty() ? 0 : highs_.front().second;
  }
  uint32_t max_live() const { return max_live_; }

 private:
  struct Mapping {
    uint32_t number = 0;
    uint32_t port = 0;  // 0: there is none
    Instant until;
  };
  void End(Instant now) {
    for (; !ends_.empty() && ends_.front().first <= now; ends_.pop_front()) {
      Mapping& mapping = of_host_[ends_.front().second % kHosts];
      if (mapping.port == 0 || mapping.until > now) continue;
      is_used_[mapping.port - kFirstPort] = 0;
      mapping.port = 0;
      --live_;
    }
  }

  std::vector<Mapping> of_host_ = std::vector<Mapping>(kHosts);
  std::vector<char> is_used_ = std::vector<char>(kPorts);
  std::deque<std::pair<Instant, uint32_t>> ends_;   // some are outdated
  std::deque<std::pair<Instant, uint32_t>> highs_;  // ever lower
  uint32_t live_ = 0;
  uint32_t max_live_ = 0;
};

// Offers the flows' packets, and watches what becomes of them.
class Traffic final : public RunObserver {
 public:
  explicit Traffic(uint64_t seed) : rng_(seed) {}

  void Run(VirtualDriver& driver, uint32_t flows) {
    Instant next{};
    for (uint32_t number = 2; number < flows + 2;) {
      const Pending* const soonest = Soonest();
      if (soonest != nullptr && soonest->time <= next) {
        OfferNext(driver, *soonest);
        continue;
      }
      const Flow flow = {.number = number, .is_tcp = number % 2 != 0};
      Offer(driver, next, flow, Step::kFirst);
      pending_[0].push_back({next + kStepGap, flow, Step::kAnswer});
      next = next + Nanos{rng_.Exponential(IsRush(next) ? kRushGap.ns / 2
                                                        : kCalmGap.ns / 2)};
      ++number;
    }
    for (const Pending* p = Soonest(); p != nullptr; p = Soonest()) {
      OfferNext(driver, *p);
    }
  }

  void on_enqueue(Instant, UnitId, const PacketMeta& meta) override {
    if (meta.has_payload()) flows_[slot_of(meta.flow)] = current_;
  }
  void on_drop(const ReleasedPacket& packet, std::string_view reason) override {
    if (reason != "ports_exhausted") {
      ++dropped_otherwise;
      return;
    }
    ++refused;
    const uint32_t highest =
        of(flows_[slot_of(packet.route.flow)]).Highest(packet.time);
    lowest_full = std::min(lowest_full, highest);
    // A rush is over so long that its mappings are too, and so is the last
    // round of questions for ports.
    const Nanos into = {packet.time.ns % kPeriodNs};
    if (!IsRush(packet.time) && into.ns > kTimeout.ns + kWindow.ns) {
      ++refused_when_calm;
    }
  }
  void on_release(const ReleasedPacket& packet) override {
    const std::span<const std::byte> frame = packet.bytes;
    const uint32_t protocol = Packets::Get(frame, Packets::kProtocol, 1);
    if (protocol == 1) {
      ++told;
      return;
    }
    const bool is_tcp = protocol == 6;
    const uint32_t number = Packets::Get(
        frame, is_tcp ? Packets::kTcpSequence : Packets::kUdpPayload, 4);
    const Flow flow = {.number = number, .is_tcp = is_tcp};
    if (Packets::Get(frame, Packets::kDestination, 1) == 10) {
      EXPECT_EQ(Packets::Get(frame, Packets::kDestination, 4),
                0x0a00'0000 + flow.host());
      ++came_in;
      return;
    }
    const uint32_t port = Packets::Get(frame, Packets::kSourcePort, 2);
    if (of(flow).IsThere(number)) {
      EXPECT_EQ(port, of(flow).PortOf(number)) << number;
      ++went_on;
      return;
    }
    of(flow).on_made(packet.time, number, port);
    ++made;
  }

  Mappings& of(const Flow& flow) { return mappings_[flow.is_tcp ? 1 : 0]; }

  uint64_t made = 0, refused = 0, refused_when_calm = 0, told = 0;
  uint64_t went_on = 0, came_in = 0, dropped_otherwise = 0, offered = 0;
  uint32_t lowest_full = kPorts;

 private:
  struct Pending {
    Instant time;
    Flow flow;
    Step step{};
  };
  static bool IsRush(Instant time) { return time.ns % kPeriodNs >= kCalm.ns; }
  const Pending* Soonest() const {
    const Pending* soonest = nullptr;
    for (const std::deque<Pending>& queue : pending_) {
      if (queue.empty()) continue;
      if (soonest == nullptr || queue.front().time < soonest->time) {
        soonest = &queue.front();
      }
    }
    return soonest;
  }
  // What comes after the first packet, of those that have a port.
  void OfferNext(VirtualDriver& driver, const Pending& pending) {
    const auto [time, flow, step] = pending;
    const auto index = static_cast<size_t>(step);
    pending_[index - 1].pop_front();
    if (!of(flow).IsThere(flow.number)) return;
    const bool has_more =
        flow.is_tcp && index + 1 < kSteps &&
        (step == Step::kAnswer || EndingOf(flow) == Ending::kFins);
    // Of UDP flows, every fourth is answered.
    if (!flow.is_tcp && flow.number / 2 % 4 != 0) return;
    Offer(driver, time, flow, step);
    if (has_more) {
      pending_[index].push_back(
          {time + kStepGap, flow, static_cast<Step>(index + 1)});
    }
  }
  void Offer(VirtualDriver& driver, Instant time, const Flow& flow, Step step) {
    current_ = flow;
    ++offered;
    of(flow).on_packet(time, flow.number);
    const Frame& frame = packets_.Of(flow, step);
    driver.Offer({.time = time,
                  .bytes = frame,
                  .original_bytes = static_cast<uint32_t>(frame.size())});
  }

  Rng rng_;
  Packets packets_;
  Flow current_;
  std::array<std::deque<Pending>, kSteps - 1> pending_;
  std::array<Mappings, 2> mappings_;
  std::vector<Flow> flows_ = std::vector<Flow>(kMaxFlows);  // by slot
};

RunOptions Options(bool check) {
  RunOptions options;
  PlaceByDemand(options.controller);
  options.check = check;
  options.controller.max_flows = kMaxFlows;
  options.controller.max_units = kMaxUnits;
  options.controller.unit_capacity_bps = 50'000'000;
  options.controller.unit_queue_packets = 8'192;
  options.controller.start_buffer_packets = 8'192;
  options.hold_packets = 8'192;
  options.controller.flow_timeout = Milliseconds(100);
  options.controller.replicas = 1;
  options.buffers = {.small = 1 << 16, .medium = 64, .large = 8};
  options.inside = *ParsePrefixes("10.0.0.0/8");
  return options;
}

void RunFlows(uint32_t flows, bool check) {
  const uint64_t seed = TestSeeds::One(1);
  Traffic traffic(seed);
  const NfSpec nat = *NfSpec::Parse(
      "nat:ports=10000-14095,udp_timeout=50ms,tcp_transitory_timeout=50ms,"
      "tcp_timeout=10s");
  VirtualDriver driver(Options(check), *FindPlacementPolicy("snf"), nat,
                       {&traffic});
  traffic.Run(driver, flows);
  const RunResult run = driver.Finish();
  const PieceCounters& pieces = run.controller.pieces;
  std::cout << fmt::format(
      "SNF_TEST_SEED={}: {} flows, {} mapped, {} refused; {} packets; at most "
      "{} and {} mappings at once, {} when refused; {} units, {} moved, "
      "{} rounds\n",
      seed, flows, traffic.made, traffic.refused, traffic.offered,
      traffic.of({.is_tcp = false}).max_live(),
      traffic.of({.is_tcp = true}).max_live(), traffic.lowest_full,
      run.units_max, run.controller.flowlets_moved, pieces.reclaim_rounds);

  EXPECT_TRUE(run.conserved());
  EXPECT_EQ(run.violations, 0u) << run.violation_messages.front();
  EXPECT_EQ(run.packets_in, traffic.offered);
  // Each flow has a port or was refused one and told so; each packet that was
  // sent through one got through.
  EXPECT_EQ(traffic.made + traffic.refused, flows);
  EXPECT_EQ(traffic.told, traffic.refused);
  EXPECT_EQ(traffic.dropped_otherwise, 0u);
  EXPECT_EQ(traffic.made + traffic.went_on + traffic.came_in,
            traffic.offered - traffic.refused);
  // There were too few ports, again and again, and then enough again.
  EXPECT_GE(traffic.refused, flows / 50);
  EXPECT_GE(traffic.made, flows / 10 * 7);
  EXPECT_GE(traffic.lowest_full, kFull);
  EXPECT_EQ(traffic.refused_when_calm, 0u);
  EXPECT_GE(run.units_max, 3u);
  // All are back.
  EXPECT_EQ(pieces.pieces_out, 0u);
  EXPECT_EQ(pieces.pieces_faulty, 0u);
  EXPECT_EQ(pieces.messages_faulty, 0u);
  EXPECT_EQ(run.state.units.pieces_refused, 0u);
  EXPECT_EQ(driver.controller().flows().size(), 0u);
  EXPECT_EQ(driver.flows_at_units(), 0u);
  EXPECT_EQ(driver.buffers_in_use(), 0u);
}

TEST(NatLeak, LosesNoPortWhileFlowsComeAndGo) {
#ifdef __SANITIZE_ADDRESS__
  constexpr uint32_t kFlows = 200'000;
#else
  constexpr uint32_t kFlows = 1'000'000;
#endif
  RunFlows(kFlows, false);
}

TEST(NatLeak, LosesNoPortUnderTheChecker) { RunFlows(100'000, true); }

}  // namespace
}  // namespace snf
