// SPDX-License-Identifier: Apache-2.0
//
// Runs of an NF with two sides: packets in, packets out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/packet/flow_key_text.h"
#include "base/packet/ip_prefix.h"
#include "base/packet/rewrite.h"
#include "platform/system_test/test_tiny_nat.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;
OfferedFrame Out(int64_t ns, uint32_t flow, uint32_t sequence = 0,
                 Ask ask = Ask::kForward) {
  return {.time = Instant{ns},
          .bytes = UdpFrame({.flow = flow, .sequence = sequence, .ask = ask})};
}
OfferedFrame Back(int64_t ns, uint32_t flow, uint32_t sequence = 0,
                  Ask ask = Ask::kForward) {
  return {.time = Instant{ns},
          .bytes = UdpFrame({.flow = flow,
                             .sequence = sequence,
                             .ask = ask,
                             .from_responder = true})};
}

// "udp 10.0.0.1:5000 > 192.0.2.9:53", with "#n" for the number in its payload.
std::string Told(std::span<const std::byte> frame) {
  const ParsedPacket parsed = Parse(LinkType::kEthernet, frame);
  const auto number = std::to_integer<int>(frame[kNumberAt]);
  return ToString(FiveTuple(frame, parsed, false)) + " #" +
         std::to_string(number);
}
std::vector<std::string> Told(const Outcome& outcome) {
  std::vector<std::string> told;
  for (const ReleasedFrame& frame : outcome.released) {
    told.push_back(Told(frame.bytes));
  }
  return told;
}

uint64_t Dropped(const RunResult& run, DropReason reason) {
  return run.dropped[static_cast<size_t>(reason)];
}

TEST(NatDriver, TranslatesOutAndBackAgain) {
  const std::vector<OfferedFrame> packets = {
      Out(0, 1), Back(20 * kMs, 1), Out(21 * kMs, 1), Back(22 * kMs, 1)};
  const Outcome outcome = ReplayTiny(TinyNatTables(), packets);
  EXPECT_THAT(Told(outcome),
              ElementsAre("udp 198.51.100.1:1024 > 192.0.2.9:53 #1",
                          "udp 192.0.2.9:53 > 10.0.0.1:5000 #2",
                          "udp 198.51.100.1:1024 > 192.0.2.9:53 #3",
                          "udp 192.0.2.9:53 > 10.0.0.1:5000 #4"));
  // What came back is as it was sent, but for its number.
  Frame back = outcome.released[1].bytes;
  back[kNumberAt] = packets[1].bytes[kNumberAt];
  EXPECT_EQ(back, packets[1].bytes);
  EXPECT_EQ(outcome.run.controller.flows, 1u);
  const AliasFigures& aliases = outcome.run.aliases;
  EXPECT_EQ(aliases.packets_offered, 2u);
  EXPECT_EQ(aliases.packets_found, 2u);
  EXPECT_EQ(aliases.at_once_max, 1u);
  EXPECT_EQ(outcome.run.controller.aliases_granted, 1u);
}

// All that an inside endpoint sends is one flow, whoever it is sent to.
TEST(NatDriver, MakesOneFlowOfAnEndpointsConnections) {
  const auto to = [](int64_t ns, uint8_t host) {
    return OfferedFrame{
        .time = Instant{ns},
        .bytes = Ethernet(0x0800, Ipv4({.destination = V4(192, 0, 2, host)},
                                       Udp(5000, 53, 32)))};
  };
  const Outcome outcome =
      ReplayTiny(TinyNatTables(), {to(0, 1), to(1, 2), to(2, 3)});
  EXPECT_EQ(outcome.run.controller.flows, 1u);
  EXPECT_THAT(Told(outcome),
              ElementsAre("udp 198.51.100.1:1024 > 192.0.2.1:53 #1",
                          "udp 198.51.100.1:1024 > 192.0.2.2:53 #2",
                          "udp 198.51.100.1:1024 > 192.0.2.3:53 #3"));
}

// The unit starts for 30 us, so what comes before cannot be an answer.
TEST(NatDriver, DropsAnAnswerToWhatNeverWentOut) {
  const Outcome outcome =
      ReplayTiny(TinyNatTables(), {Out(0, 1), Back(15 * kUs, 1), Back(kMs, 1)});
  EXPECT_THAT(outcome.released, SizeIs(2));
  EXPECT_EQ(Dropped(outcome.run, DropReason::kNotTranslated), 1u);
  EXPECT_EQ(outcome.run.aliases.packets_offered, 1u);
}

// The NF says why it does not; and so nobody can have answered.
TEST(NatDriver, DropsAnAnswerToWhatIsNotTranslated) {
  const Ipv6Fields out;
  const Ipv6Fields back = {.source = out.destination,
                           .destination = out.source};
  const std::vector<OfferedFrame> packets = {
      {.time = Instant{0}, .bytes = Ethernet(0x86dd, Ipv6(out, Udp(5000, 53)))},
      {.time = Instant{20 * kMs},
       .bytes = Ethernet(0x86dd, Ipv6(back, Udp(53, 5000)))}};
  const Outcome outcome = RunFrames(SmallTables(), *FindNf("nat"), packets);
  ExpectSound(outcome);
  EXPECT_EQ(outcome.run.nf_drop_names[0], "not_ipv4");
  EXPECT_EQ(outcome.run.nf_dropped[0], 1u);
  EXPECT_EQ(Dropped(outcome.run, DropReason::kNotTranslated), 1u);
}

TEST(NatDriver, HoldsTheFlowUntilItsAliasStands) {
  TinyNatOptions options = TinyNatTables();
  options.hop_delay = Microseconds(100);
  const Outcome outcome =
      ReplayTiny(options, {Out(0, 1), Out(1, 1), Out(2, 2)});
  ASSERT_THAT(outcome.released, SizeIs(3));
  // To the unit, for a piece and back, for the alias and back, out; and the
  // services.
  for (const ReleasedFrame& frame : outcome.released) {
    EXPECT_GE(frame.time.ns, 600 * kUs);
    EXPECT_LE(frame.time.ns, 602 * kUs);
  }
  EXPECT_EQ(outcome.run.controller.pieces.blocks_granted, 1u);
}

TEST(NatDriver, KnowsTheInsideByItsPrefix) {
  TinyNatOptions options = TinyNatTables();
  options.inside = *ParsePrefixes("10.0.0.0/8");
  const Outcome outcome = ReplayTiny(
      options, {Back(0, 1),
                Out(kMs, 1),
                Back(30 * kMs, 1),
                // Of two that are not inside.
                {.time = Instant{31 * kMs},
                 .bytes = Ethernet(0x0800, Ipv4({.source = V4(192, 0, 2, 1),
                                                 .destination = kExternal},
                                                Udp(53, 1023, 32)))}});
  EXPECT_THAT(Told(outcome),
              ElementsAre("udp 198.51.100.1:1024 > 192.0.2.9:53 #1",
                          "udp 192.0.2.9:53 > 10.0.0.1:5000 #2"));
  EXPECT_EQ(Dropped(outcome.run, DropReason::kNotTranslated), 1u);
  EXPECT_EQ(Dropped(outcome.run, DropReason::kNoAlias), 1u);
  EXPECT_EQ(outcome.run.aliases.packets_offered, 2u);
  EXPECT_EQ(outcome.run.aliases.packets_found, 1u);
}

TEST(NatDriver, TranslatesLaterFragmentsOnceTheirFirstHasCome) {
  const auto fragment = [](int64_t ns, uint16_t id, bool is_first) {
    return OfferedFrame{
        .time = Instant{ns},
        .bytes =
            Ethernet(0x0800, Ipv4({.id = id,
                                   .fragment_offset_bytes =
                                       static_cast<uint16_t>(is_first ? 0 : 48),
                                   .more_fragments = is_first},
                                  is_first ? Udp(5000, 53, 40) : Frame(48)))};
  };
  const Outcome outcome = ReplayTiny(
      TinyNatTables(), {fragment(0, 1, false), fragment(1, 1, true),
                        fragment(2, 1, false), fragment(3, 2, false)});
  EXPECT_THAT(Told(outcome),
              ElementsAre("udp 198.51.100.1:1024 > 192.0.2.9:53 #1",
                          "udp 198.51.100.1 > 192.0.2.9 #2",
                          "udp 198.51.100.1 > 192.0.2.9 #3"));
  EXPECT_EQ(Dropped(outcome.run, DropReason::kFragmentEarly), 1u);
  EXPECT_EQ(outcome.run.packets_in, 4u);
  EXPECT_EQ(outcome.run.fragments_kept, 2u);
  EXPECT_EQ(outcome.run.fragments_kept_matched, 1u);
  EXPECT_EQ(outcome.run.classifier.packets(), 4u);
  EXPECT_EQ(outcome.run.classifier.fragments_unmatched, 1u);
}

TEST(NatDriver, DropsThePacketWhoseAliasIsAnothers) {
  const Outcome outcome = ReplayTiny(
      TinyNatTables("one_alias=true"),
      {Out(0, 1), Out(20 * kMs, 2), Out(21 * kMs, 2), Out(22 * kMs, 1)});
  EXPECT_THAT(Told(outcome),
              ElementsAre("udp 198.51.100.1:1024 > 192.0.2.9:53 #1",
                          "udp 198.51.100.1:1024 > 192.0.2.9:53 #2"));
  EXPECT_EQ(Dropped(outcome.run, DropReason::kAliasConflict), 2u);
  EXPECT_EQ(outcome.run.controller.aliases_conflict, 2u);
  EXPECT_EQ(outcome.run.aliases.at_once_max, 1u);
}

TEST(NatDriver, DropsThePacketWhoseGroupHasItsLimit) {
  std::vector<OfferedFrame> packets;
  for (uint32_t flow = 0; flow < 5; ++flow) {
    packets.push_back(Out((20 + flow) * kMs, flow));
  }
  const Outcome outcome = ReplayTiny(TinyNatTables("limit=3"), packets);
  EXPECT_THAT(outcome.released, SizeIs(3));
  EXPECT_EQ(Dropped(outcome.run, DropReason::kAliasLimit), 2u);
  EXPECT_EQ(outcome.run.aliases.at_once_max, 3u);
}

TEST(NatDriver, DropsThePacketForWhichNoPieceIsLeft) {
  const Outcome outcome = ReplayTiny(
      TinyNatTables("first=2000,last=2001"),
      {Out(0, 1), Out(1 * kMs, 2), Out(20 * kMs, 3), Out(40 * kMs, 1)});
  EXPECT_THAT(Told(outcome),
              ElementsAre("udp 198.51.100.1:2000 > 192.0.2.9:53 #1",
                          "udp 198.51.100.1:2001 > 192.0.2.9:53 #1",
                          "udp 198.51.100.1:2000 > 192.0.2.9:53 #2"));
  EXPECT_EQ(Dropped(outcome.run, DropReason::kNoPieces), 1u);
  EXPECT_GE(outcome.run.controller.pieces.requests_refused, 1u);
  EXPECT_EQ(outcome.run.controller.pieces.pieces_out_max, 2u);
}

// Four ports below 1024: who finds none left has one above in its first packet.
TEST(NatDriver, GivesAPortOfTheOtherHalfInTheFirstPacket) {
  std::vector<OfferedFrame> packets;
  for (uint8_t host = 1; host <= 6; ++host) {
    packets.push_back(
        {.time = Instant{host * 20 * kMs},
         .bytes = Ethernet(
             0x0800, Ipv4({.source = V4(10, 0, 0, host)}, Udp(500, 53, 32)))});
  }
  const Outcome outcome =
      RunFrames(SmallTables(),
                *NfSpec::Parse("nat:ip=198.51.100.1,ports=1020-1087"), packets);
  ExpectSound(outcome);
  std::vector<uint16_t> ports;
  for (const ReleasedFrame& frame : outcome.released) {
    const ParsedPacket parsed = Parse(LinkType::kEthernet, frame.bytes);
    ports.push_back(FiveTuple(frame.bytes, parsed, false).source_port.host());
  }
  EXPECT_THAT(ports, ElementsAre(1020, 1022, 1021, 1023, 1024, 1026));
  EXPECT_EQ(Dropped(outcome.run, DropReason::kNoPieces), 0u);
}

// The port of a flow that is over, at once or after a while, is another's.
TEST(NatDriver, GivesThePieceOfAFlowThatIsOverToAnother) {
  for (const Ask ask : {kEnd, kBrief}) {
    const Outcome outcome =
        ReplayTiny(TinyNatTables("first=2000,last=2000"),
                   {Out(0, 1), Out(20 * kMs, 1, 1, ask), Back(24 * kMs, 1),
                    Out(30 * kMs, 2), Back(31 * kMs, 2)});
    EXPECT_THAT(Told(outcome),
                ElementsAre("udp 198.51.100.1:2000 > 192.0.2.9:53 #1",
                            "udp 198.51.100.1:2000 > 192.0.2.9:53 #2",
                            "udp 198.51.100.1:2000 > 192.0.2.9:53 #1",
                            "udp 192.0.2.9:53 > 10.0.0.2:5000 #2"));
    EXPECT_EQ(Dropped(outcome.run, DropReason::kNotTranslated), 1u);
    EXPECT_EQ(outcome.run.controller.flows, 2u);
    EXPECT_EQ(outcome.run.controller.flows_over, ask == kEnd ? 1u : 0u);
  }
}

// The end was said at clock 2, when clock 3 was on its way: the flow lives, and
// has its alias again with clock 3. In between it has none.
TEST(NatDriver, LetsAFlowLiveOnThatHadPacketsOnTheirWay) {
  TinyNatOptions options = TinyNatTables();
  options.controller.unit_capacity_bps = 1'000'000;  // a packet takes 480 us
  const Outcome outcome = ReplayTiny(
      options, {Out(0, 1), Out(20 * kMs, 1, 1, kEnd), Out(20 * kMs, 1, 2),
                Back(20 * kMs + 700 * kUs, 1), Back(30 * kMs, 1)});
  EXPECT_THAT(Told(outcome),
              ElementsAre("udp 198.51.100.1:1024 > 192.0.2.9:53 #1",
                          "udp 198.51.100.1:1024 > 192.0.2.9:53 #2",
                          "udp 198.51.100.1:1024 > 192.0.2.9:53 #3",
                          "udp 192.0.2.9:53 > 10.0.0.1:5000 #4"));
  EXPECT_EQ(outcome.run.controller.flows, 1u);
  EXPECT_EQ(outcome.run.controller.aliases_granted, 2u);
  EXPECT_EQ(Dropped(outcome.run, DropReason::kNotTranslated), 1u);
}

TEST(NatDriver, BringsBackWhatWasSentToAnAlias) {
  // 10.0.0.2 sends to the external end of 10.0.0.1, which answers alike.
  const auto hairpin = [](int64_t ns, uint8_t host, uint16_t to) {
    return OfferedFrame{
        .time = Instant{ns},
        .bytes = Ethernet(0x0800, Ipv4({.source = V4(10, 0, 0, host),
                                        .destination = kExternal},
                                       Udp(5000, to, 32)))};
  };
  const Outcome outcome =
      ReplayTiny(TinyNatTables(),
                 {Out(0, 1), Out(20 * kMs, 2), hairpin(21 * kMs, 2, 1024),
                  hairpin(22 * kMs, 1, 1025), hairpin(23 * kMs, 1, 1026)});
  EXPECT_THAT(Told(outcome),
              ElementsAre("udp 198.51.100.1:1024 > 192.0.2.9:53 #1",
                          "udp 198.51.100.1:1025 > 192.0.2.9:53 #1",
                          "udp 198.51.100.1:1025 > 198.51.100.1:1024 #2",
                          "udp 198.51.100.1:1025 > 10.0.0.1:5000 #2",
                          "udp 198.51.100.1:1024 > 198.51.100.1:1025 #3",
                          "udp 198.51.100.1:1024 > 10.0.0.2:5000 #3",
                          "udp 198.51.100.1:1024 > 198.51.100.1:1026 #4"));
  EXPECT_EQ(outcome.run.aliases.packets_hairpinned, 2u);
  EXPECT_EQ(outcome.run.packets_in, 5u);
  EXPECT_EQ(outcome.run.packets_released, 7u);
  // What comes back comes a hop after it left, and is timed from there.
  const int64_t left = outcome.released[2].time.ns;
  EXPECT_GE(outcome.released[3].time.ns, left + 3 * kUs);
  EXPECT_LE(outcome.released[3].time.ns, left + 5 * kUs);
}

// Else it would go round for ever.
TEST(NatDriver, BringsAPacketBackOnce) {
  Frame to_itself = UdpFrame({.flow = 1});
  RewriteDestination(to_itself, Parse(LinkType::kEthernet, to_itself),
                     kExternal.ipv4(), be16(1024));
  const Outcome outcome =
      ReplayTiny(TinyNatTables("forwards_inbound=true"),
                 {Out(0, 1), {.time = Instant{kMs}, .bytes = to_itself}});
  EXPECT_THAT(Told(outcome),
              ElementsAre("udp 198.51.100.1:1024 > 192.0.2.9:53 #1",
                          "udp 198.51.100.1:1024 > 198.51.100.1:1024 #2",
                          "udp 198.51.100.1:1024 > 198.51.100.1:1024 #3"));
  EXPECT_EQ(outcome.run.aliases.packets_hairpinned, 1u);
}

// Unit 0 got all the ports there are for its first flow, and used one.
TEST(NatDriver, AsksUnitsForThePiecesThatTheyDoNotNeed) {
  TinyNatOptions options = TinyNatTables("first=1024,last=1087");
  options.controller.max_units = 2;
  options.controller.warm_units = 2;
  std::vector<OfferedFrame> packets;
  for (uint32_t flow = 0; flow < 10; ++flow) {
    packets.push_back(Out(flow * 20 * kMs, flow));
    packets.push_back(Back((flow * 20 + 15) * kMs, flow));
  }
  const Outcome outcome = ReplayTiny(options, packets, "hash");
  EXPECT_EQ(outcome.run.units_max, 2u);
  EXPECT_THAT(outcome.released, SizeIs(20));
  EXPECT_GE(outcome.run.controller.pieces.reclaim_rounds, 1u);
}

// A packet takes longer than the controller asks around for pieces. Two units
// that gave the port back before their packets had run would never be done.
TEST(NatDriver, LetsOneOfTwoSlowUnitsHaveTheLastPiece) {
  TinyNatOptions options = TinyNatTables("first=1024,last=1024");
  options.controller.unit_capacity_bps = 10'000;
  options.controller.max_units = 2;
  options.controller.warm_units = 2;
  const Outcome outcome =
      ReplayTiny(options, {Out(0, 0), Out(25 * kMs, 3)}, "hash");
  EXPECT_GE(outcome.run.controller.pieces.reclaim_rounds, 1u);
  EXPECT_THAT(outcome.released, SizeIs(1));
  EXPECT_EQ(Dropped(outcome.run, DropReason::kNoPieces), 1u);
}

// Many flows on two units, which end so that of each word some pieces stay.
std::vector<OfferedFrame> ManyThatEnd(uint32_t flows) {
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < flows; ++i) packets.push_back(Out(i * 5 * kUs, i));
  for (uint32_t i = 0; i < flows; ++i) {
    const uint32_t flow = (i * 67) % flows;
    packets.push_back(Out(30 * kMs + i * 5 * kUs, flow, 1, kEnd));
  }
  return packets;
}

// A unit that is stopped, when it serves no packets, has more than goes at
// once.
TEST(NatDriver, TakesAllPiecesFromAUnitThatStops) {
  TinyNatOptions options = TinyNatTables("first=1024,last=5119");
  options.controller.max_units = 2;
  options.controller.warm_units = 2;
  options.controller.unit_idle_timeout = Milliseconds(20);
  options.controller.keep_warm = Milliseconds(50);
  const std::vector<OfferedFrame> packets = ManyThatEnd(2048);
  const Outcome outcome = ReplayTiny(options, packets, "hash");
  EXPECT_THAT(outcome.released, SizeIs(packets.size()));
  EXPECT_EQ(outcome.units_stopped, 2u);
}

// Unit 1 is parked, and has what unit 0 needs.
TEST(NatDriver, TakesAllPiecesFromAUnitThatIsParked) {
  TinyNatOptions options = TinyNatTables("first=1024,last=3135");
  options.controller.unit_capacity_bps = 60'000'000;
  options.controller.first_demand_bps = 600'000;
  options.controller.max_units = 2;
  options.controller.warm_units = 2;
  options.controller.unit_idle_timeout = Milliseconds(20);
  std::vector<OfferedFrame> packets = ManyThatEnd(2048);
  for (uint32_t i = 0; i < 2000; ++i) {
    packets.push_back(Out((200 + i) * kMs, 3000 + i));
  }
  const Outcome outcome = ReplayTiny(options, packets);
  EXPECT_EQ(outcome.run.units_max, 2u);
  EXPECT_THAT(outcome.released, SizeIs(packets.size()));
  EXPECT_EQ(outcome.run.controller.pieces.reclaim_rounds, 1u);
}

}  // namespace
}  // namespace snf
