// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/virtual_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "platform/system_test/test_run.h"

namespace snf {
namespace {

using testing::ElementsAre;

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;

OfferedFrame At(int64_t ns, const FrameFields& fields = {}) {
  return {.time = Instant{ns}, .bytes = UdpFrame(fields)};
}

Outcome Forward(const RunOptions& options,
                const std::vector<OfferedFrame>& packets) {
  const Outcome outcome = RunFrames(options, ForwardingNf(), packets);
  ExpectSound(outcome);
  EXPECT_EQ(outcome.run.packets_in, packets.size());
  return outcome;
}

Outcome RunScript(const RunOptions& options,
                  const std::vector<OfferedFrame>& packets) {
  const Outcome outcome = RunFrames(options, ScriptedNf(), packets);
  ExpectSound(outcome);
  return outcome;
}

std::vector<int64_t> TimesOf(const Outcome& outcome) {
  std::vector<int64_t> times;
  for (const ReleasedFrame& frame : outcome.released) {
    times.push_back(frame.time.ns);
  }
  return times;
}

// All drops of a run, by name.
std::map<std::string, uint64_t> DropsOf(const RunResult& run) {
  std::map<std::string, uint64_t> drops;
  for (size_t i = 0; i < kDropReasons; ++i) {
    if (run.dropped[i] == 0) continue;
    drops[std::string(ToString(static_cast<DropReason>(i)))] = run.dropped[i];
  }
  for (size_t i = 0; i < run.nf_dropped.size(); ++i) {
    if (run.nf_dropped[i] == 0) continue;
    drops[run.nf_drop_names[i]] = run.nf_dropped[i];
  }
  return drops;
}

using Drops = std::map<std::string, uint64_t>;

// Delays that are told apart by eye: hop 1 µs, warm start 30 µs, cold start
// 10 ms; 1250 bytes at 1 Gbit/s are 10 µs.
constexpr uint32_t kTenUs = 1250;

TEST(VirtualDriver, AddsUpALatencyOfHopServiceAndHop) {
  // The first packet wakes the unit and waits for it; the second does not.
  const Outcome outcome =
      Forward(SmallTables(), {At(0, {.bytes = kTenUs}),
                              At(100 * kUs, {.sequence = 1, .bytes = kTenUs})});
  EXPECT_THAT(TimesOf(outcome),
              ElementsAre((30 + 10 + 1) * kUs, (100 + 1 + 10 + 1) * kUs));
  EXPECT_EQ(outcome.run.latency_ns.max(), 41 * kUs);
  EXPECT_EQ(outcome.run.latency_ns.min(), 12 * kUs);
  EXPECT_EQ(outcome.run.warm_starts, 1u);
  EXPECT_EQ(outcome.run.cold_starts, 0u);
  EXPECT_EQ(outcome.run.bytes_in, 2 * kTenUs);
  EXPECT_EQ(outcome.released[0].bytes, UdpFrame({.bytes = kTenUs}));
  EXPECT_EQ(outcome.released[0].original_length, kTenUs);
}

TEST(VirtualDriver, LetsTheFirstPacketWaitForAColdStart) {
  RunOptions options = SmallTables();
  options.controller.warm_units = 0;
  const Outcome outcome = Forward(options, {At(0, {.bytes = kTenUs})});
  EXPECT_THAT(TimesOf(outcome), ElementsAre(10 * kMs + 10 * kUs + 1 * kUs));
  EXPECT_EQ(outcome.run.cold_starts, 1u);
  EXPECT_EQ(outcome.run.warm_starts, 0u);
}

TEST(VirtualDriver, TakesItsDelaysFromTheOptions) {
  RunOptions options = SmallTables();
  options.hop_delay = Microseconds(7);
  options.warm_start_delay = Microseconds(3);  // less than the hop
  options.controller.unit_capacity_bps = 100'000'000;
  const Outcome outcome = Forward(options, {At(0, {.bytes = kTenUs})});
  EXPECT_THAT(TimesOf(outcome), ElementsAre((7 + 100 + 7) * kUs));
}

TEST(VirtualDriver, ServesPacketsOneAfterTheOther) {
  const Outcome outcome =
      Forward(SmallTables(), {At(0, {.bytes = kTenUs}),
                              At(0, {.sequence = 1, .bytes = 2 * kTenUs}),
                              At(35 * kUs, {.flow = 1, .bytes = kTenUs})});
  EXPECT_THAT(TimesOf(outcome), ElementsAre(41 * kUs, 61 * kUs, 71 * kUs));
}

TEST(VirtualDriver, ServesByTheOriginalLengthOfACutPacket) {
  OfferedFrame cut = At(0);
  cut.original_length = kTenUs;
  const Outcome outcome = Forward(SmallTables(), {cut});
  EXPECT_THAT(TimesOf(outcome), ElementsAre(41 * kUs));
  EXPECT_EQ(outcome.run.bytes_in, kTenUs);
  EXPECT_EQ(outcome.released[0].bytes.size(), 60u);
  EXPECT_EQ(outcome.released[0].original_length, kTenUs);
}

TEST(VirtualDriver, PassesWhatIsNoIpThroughUntouchedAndAtOnce) {
  const Frame arp = Ethernet(0x0806, Frame(28));
  const Frame broken = Ethernet(0x0800, Hex("45 00"));
  const Outcome outcome =
      Forward(SmallTables(),
              {At(0, {.bytes = kTenUs}),
               {.time = Instant{5 * kUs}, .bytes = arp, .original_length = 90},
               {.time = Instant{6 * kUs},
                .bytes = broken,
                .link = LinkType::kEthernet}});
  EXPECT_THAT(TimesOf(outcome), ElementsAre(5 * kUs, 6 * kUs, 41 * kUs));
  EXPECT_EQ(outcome.run.packets_passed_through, 2u);
  EXPECT_EQ(outcome.run.packets_released, 1u);
  EXPECT_EQ(outcome.released[0].bytes, arp);
  EXPECT_EQ(outcome.released[0].original_length, 90u);
  EXPECT_EQ(outcome.released[1].bytes, broken);
  EXPECT_EQ(outcome.run.classifier.not_ip(), 2u);
}

TEST(VirtualDriver, TakesAPacketFromThePastAsOfNow) {
  const Outcome outcome = Forward(
      SmallTables(),
      {At(5 * kMs),
       At(3 * kMs, {.sequence = 1}),
       {.time = Instant{4 * kMs}, .bytes = Ethernet(0x0806, Frame(28))}});
  EXPECT_EQ(outcome.run.late_packets, 2u);
  EXPECT_EQ(outcome.run.first_packet, Instant{5 * kMs});
  EXPECT_EQ(outcome.run.last_packet, Instant{5 * kMs});
  EXPECT_EQ(outcome.released.front().time, Instant{5 * kMs});
  EXPECT_EQ(SequenceOf(outcome.released[2].bytes), 1u);
  EXPECT_EQ(outcome.run.controller.flowlets, 1u);
}

TEST(VirtualDriver, ReachesFromTheFirstInstantToTheLast) {
  constexpr int64_t kFirst = Instant::min().ns, kLast = Instant::max().ns;
  const std::vector<OfferedFrame> packets = {
      At(kFirst), At(kFirst + kMs, {.sequence = 1}),
      At(kLast - 50 * kMs, {.sequence = 2}), At(kLast - 1, {.sequence = 3}),
      At(kLast, {.flow = 1})};
  const Outcome outcome = RunFrames(SmallTables(), ForwardingNf(), packets);
  EXPECT_EQ(outcome.run.packets_released, packets.size());
  EXPECT_TRUE(outcome.run.conserved());
  EXPECT_EQ(outcome.run.violations, 0u);
  EXPECT_EQ(outcome.buffers_in_use, 0u);
  EXPECT_EQ(outcome.released.back().time, Instant::max());
}

TEST(VirtualDriver, DropsAPacketLargerThanTheLargestBuffer) {
  const Frame largest =
      UdpFrame({.bytes = 60}) + Frame(BufferPool::kMaxPacketBytes - 60);
  const Outcome outcome = Forward(
      SmallTables(), {{.time = Instant{0}, .bytes = largest},
                      {.time = Instant{0}, .bytes = largest + Frame(1)}});
  EXPECT_EQ(DropsOf(outcome.run), (Drops{{"packet_too_large", 1}}));
  EXPECT_EQ(outcome.released.at(0).bytes, largest);
}

TEST(VirtualDriver, DropsAPacketWithoutABuffer) {
  RunOptions options = SmallTables();
  options.buffers = {.small = 2, .medium = 1, .large = 1};
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < 6; ++i) packets.push_back(At(0, {.sequence = i}));
  packets.push_back(At(kMs, {.sequence = 6}));  // there are buffers again
  const Outcome outcome = Forward(options, packets);
  EXPECT_EQ(DropsOf(outcome.run), (Drops{{"buffer_pool_empty", 2}}));
  EXPECT_EQ(SequenceOf(outcome.released.back().bytes), 6u);
}

TEST(VirtualDriver, DropsAPacketOfOneFlowTooMany) {
  RunOptions options = SmallTables();
  options.controller.max_flows = 2;
  const Outcome outcome =
      Forward(options, {At(0), At(1, {.flow = 1}), At(2, {.flow = 2}), At(3)});
  EXPECT_EQ(DropsOf(outcome.run), (Drops{{"flow_table_full", 1}}));
  EXPECT_EQ(outcome.run.controller.flows, 2u);
}

TEST(VirtualDriver, DropsWhatAUnitThatStartsHasNoRoomFor) {
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  options.controller.start_buffer_packets = 3;
  options.controller.unit_queue_packets = 5;
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < 7; ++i) packets.push_back(At(0, {.sequence = i}));
  const Outcome outcome = Forward(options, packets);
  EXPECT_EQ(DropsOf(outcome.run), (Drops{{"start_buffer_full", 4}}));
}

TEST(VirtualDriver, DropsWhatAUnitHasNoRoomFor) {
  RunOptions options = SmallTables();
  options.controller.max_units = 1;
  options.controller.unit_queue_packets = 5;
  std::vector<OfferedFrame> packets = {At(0)};
  for (uint32_t i = 1; i < 9; ++i) {
    packets.push_back(At(kMs, {.sequence = i, .bytes = kTenUs}));
  }
  // By then two have left.
  packets.push_back(At(kMs + 22 * kUs, {.sequence = 9}));
  const Outcome outcome = Forward(options, packets);
  EXPECT_EQ(DropsOf(outcome.run), (Drops{{"unit_queue_full", 3}}));
  EXPECT_EQ(outcome.released.size(), 7u);
  EXPECT_EQ(SequenceOf(outcome.released.back().bytes), 9u);
}

TEST(VirtualDriver, CountsWhatTheNfDropsByItsOwnReasons) {
  const Outcome outcome =
      RunScript(SmallTables(), {At(0, {.ask = Ask::kDropFirst}), At(1),
                                At(2, {.ask = Ask::kDropSecond}),
                                At(3, {.ask = Ask::kDropFirst})});
  EXPECT_EQ(DropsOf(outcome.run), (Drops{{"unwanted", 2}, {"unloved", 1}}));
  EXPECT_THAT(outcome.run.nf_drop_names, ElementsAre("unwanted", "unloved"));
  EXPECT_EQ(outcome.run.packets_released, 1u);
  EXPECT_EQ(outcome.run.controller.enqueued, 4u);
}

TEST(VirtualDriver, CountsWhatTheNfConsumes) {
  const Outcome outcome =
      RunScript(SmallTables(), {At(0, {.ask = Ask::kConsume}), At(1)});
  EXPECT_EQ(outcome.run.packets_consumed, 1u);
  EXPECT_EQ(outcome.run.packets_released, 1u);
  EXPECT_EQ(outcome.run.packets_dropped(), 0u);
}

TEST(VirtualDriver, ReleasesWhatTheNfEmitsBeforeThePacketItself) {
  const Frame asking = UdpFrame({.bytes = kTenUs, .ask = Ask::kReply});
  Frame reply = asking;
  reply.back() = kReplied;
  const Outcome outcome =
      RunScript(SmallTables(), {{.time = Instant{0}, .bytes = asking}});
  ASSERT_EQ(outcome.released.size(), 2u);
  EXPECT_EQ(outcome.released[0].bytes, reply);
  EXPECT_EQ(outcome.released[1].bytes, asking);
  EXPECT_THAT(TimesOf(outcome), ElementsAre(41 * kUs, 41 * kUs));
  EXPECT_EQ(outcome.run.packets_generated, 1u);
  EXPECT_EQ(outcome.run.packets_released, 2u);
  EXPECT_EQ(outcome.run.latency_ns.count(), 1u);
}

TEST(VirtualDriver, RefusesAnNfThatEmitsWithoutEnd) {
  const Outcome outcome =
      RunScript(SmallTables(), {At(0, {.ask = Ask::kFlood})});
  EXPECT_EQ(outcome.run.packets_generated, FlowState::kMaxEmits);
  RunOptions options = SmallTables();
  options.buffers = {.small = 5, .medium = 0, .large = 0};
  EXPECT_EQ(
      RunScript(options, {At(0, {.ask = Ask::kFlood})}).run.packets_generated,
      4u);
}

TEST(VirtualDriver, ReleasesWhatTheNfRewrote) {
  const Outcome outcome =
      RunScript(SmallTables(), {At(0, {.ask = Ask::kRewrite})});
  Frame expected = UdpFrame({.ask = Ask::kRewrite});
  expected[expected.size() - 2] ^= std::byte{0xff};
  EXPECT_EQ(outcome.released.at(0).bytes, expected);
}

// A timer counts from the end of the service that set it, and is served within
// a tick of the wheel, 33 µs.
TEST(VirtualDriver, RunsTimersOfTheNf) {
  const Outcome outcome = RunScript(
      SmallTables(),
      {At(0, {.ask = Ask::kTimer, .first_payload_byte = std::byte{20}}),
       At(0,
          {.flow = 1, .ask = Ask::kTimer, .first_payload_byte = std::byte{10}}),
       At(kMs,
          {.flow = 2, .ask = Ask::kTimer, .first_payload_byte = std::byte{15}}),
       At(2 * kMs, {.flow = 2, .ask = Ask::kCancelTimer})});
  ASSERT_EQ(outcome.released.size(), 6u);
  EXPECT_EQ(outcome.run.packets_generated, 2u);
  for (const size_t i : {4u, 5u}) {
    EXPECT_EQ(outcome.released[i].bytes, TimerFrame());
    const int64_t due = (i == 4 ? 10 : 20) * kMs;
    EXPECT_GT(outcome.released[i].time.ns, due + 30 * kUs);
    EXPECT_LT(outcome.released[i].time.ns, due + 70 * kUs);
  }
}

// Flow 0 asks for 60 % of unit 0, flow 1 therefore runs on unit 1. When flow 0
// comes back, its estimate has fallen, and unit 1 is the fullest with room.
TEST(VirtualDriver, RunsATimerOnTheUnitThatTheFlowWasMovedTo) {
  RunOptions options = SmallTables();
  options.controller.unit_capacity_bps = 10'000'000;
  options.controller.first_demand_bps = 6'000'000;
  options.controller.warm_units = 2;
  options.controller.alpha_1024 = 0;
  std::vector<OfferedFrame> packets = {
      At(0, {.ask = Ask::kTimer, .first_payload_byte = std::byte{40}})};
  for (uint32_t i = 0; i < 5; ++i) {
    packets.push_back(At((100 + 400 * i) * kUs, {.flow = 1}));
  }
  packets.push_back(At(2 * kMs, {.sequence = 1}));
  const Outcome outcome = RunScript(options, packets);
  EXPECT_EQ(outcome.run.controller.flowlets_moved, 1u);
  // Its state was not pushed: no other unit was active then.
  EXPECT_EQ(outcome.run.state.pulled, 1u);
  // Hops of the packet, the pull, the state and the release; 60 bytes.
  ASSERT_EQ(outcome.released.size(), 8u);
  EXPECT_EQ(SequenceOf(outcome.released[6].bytes), 1u);
  EXPECT_EQ(outcome.released[6].time.ns, 2 * kMs + (1 + 1 + 20 + 48 + 1) * kUs);
  EXPECT_EQ(outcome.run.packets_generated, 1u);
  EXPECT_EQ(outcome.released.back().bytes, TimerFrame());
  EXPECT_NEAR(static_cast<double>(outcome.released.back().time.ns), 40e6, 2e5);
}

// Every flow sets an earlier timer than the one before; each of them then goes
// on every 10 ms. A timer costs five events, however many were set before: it
// is due, asked for, answered, and served, and its packet is released.
TEST(VirtualDriver, SpendsNoEventsOnTimersThatWereOvertaken) {
  RunOptions options = SmallTables();
  options.controller.flow_timeout = Seconds(2);
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < 100; ++i) {
    packets.push_back(At(i * kUs, {.flow = i,
                                   .ask = Ask::kTimer,
                                   .first_payload_byte = std::byte(200 - i)}));
  }
  const Outcome outcome = RunFrames(options, KeepaliveNf(), packets);
  ExpectSound(outcome);
  EXPECT_GT(outcome.run.packets_generated, 18'000u);
  EXPECT_LT(outcome.events, 5 * outcome.run.packets_generated + 5'000);
}

// Flows 0 and 1 move between two units. Null packets have nothing to compare.
TEST(VirtualDriver, ComparesAllPacketsWithWhatOneUnitMakesOfThem) {
  RunOptions options = SmallTables();
  options.controller.max_units = 2;
  options.controller.unit_capacity_bps = 10'000'000;
  options.controller.flow_timeout = Milliseconds(100);
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < 400; ++i) {
    packets.push_back(At(i * 700 * kUs, {.flow = i % 3 / 2, .sequence = i}));
  }
  packets.push_back(At(10'000 * kMs));
  Outcome outcome = RunFrames(options, ChronicleNf(), packets);
  ExpectSound(outcome);
  EXPECT_GT(outcome.run.controller.flows, 2u);
  EXPECT_EQ(outcome.run.packets_released, 401u);
  EXPECT_EQ(outcome.run.i6_compared, 401u);
  EXPECT_EQ(outcome.run.i6_not_compared, 0u);

  outcome = RunFrames(options, ForwardingNf(), packets);
  EXPECT_EQ(outcome.run.i6_compared, 401u);
  options.check = false;
  outcome = RunFrames(options, ChronicleNf(), packets);
  EXPECT_EQ(outcome.run.i6_compared + outcome.run.i6_not_compared, 0u);
}

// Writes into a flow's state what its unit has seen of all flows, and nothing
// into packets.
class Leaking final : public NetworkFunction {
  Slot<uint64_t> seen_ = declare<uint64_t>("seen");
  uint64_t packets_ = 0;
  Verdict process_packet(Packet&, FlowState& flow) override {
    flow.put(seen_, ++packets_);
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Leaking, "test_leaking", "keeps what is not a flow's");

TEST(VirtualDriver, ComparesTheStateThatNoPacketShows) {
  RunOptions options = SmallTables();
  options.controller.max_units = 2;
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < 40; ++i) {
    packets.push_back(At(i * 20 * kUs, {.flow = i % 8, .sequence = i}));
  }
  const Outcome outcome =
      RunFrames(options, registration_of_Leaking, packets, "hash");
  EXPECT_EQ(outcome.run.units_max, 2u);
  EXPECT_EQ(outcome.run.packets_released, 40u);
  ASSERT_GT(outcome.run.violations, 0u);
  EXPECT_THAT(
      outcome.run.violation_messages[0],
      testing::AllOf(
          testing::StartsWith("+10."), testing::HasSubstr(" ms, udp 10.0.0."),
          testing::HasSubstr("clock 1 was not processed on its own state: of "
                             "the state byte 8 is ")));
}

TEST(VirtualDriver, ComparesPacketsBehindATimerToo) {
  const Outcome outcome = RunFrames(
      SmallTables(), ChronicleNf(),
      std::vector<OfferedFrame>{
          At(0, {.ask = Ask::kTimer, .first_payload_byte = std::byte{2}}),
          At(1 * kMs, {.sequence = 1}), At(3 * kMs, {.sequence = 2}),
          At(3 * kMs, {.flow = 1}), At(4 * kMs, {.sequence = 3})});
  ExpectSound(outcome);
  EXPECT_EQ(outcome.run.i6_compared, 5u);
  EXPECT_EQ(outcome.run.i6_not_compared, 0u);
  EXPECT_EQ(outcome.run.state.timer_packets, 1u);
}

}  // namespace
}  // namespace snf
