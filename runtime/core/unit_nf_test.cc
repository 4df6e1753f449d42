// SPDX-License-Identifier: Apache-2.0
// What an NF may do with packets inside a unit.
#include <unistd.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_unit.h"
#include "runtime/core/unit.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr uint16_t kA = 0;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(UnitNf, ForwardsDropsAndConsumes) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet& packet, FlowState&) {
    switch (static_cast<char>(packet.bytes()[0])) {
      case 'b':
        return Verdict::drop(0);
      case 'm':
        return Verdict::drop(1);
      case 'c':
        return Verdict::consume();
      default:
        return Verdict::forward();
    }
  };
  unit.Send(New(1), "bad");
  unit.Send(Within(1, 2), "malformed");
  unit.Send(Within(1, 3), "consumed");
  unit.Send(Within(1, 4), "forwarded");
  EXPECT_THAT(unit.Serve(), ElementsAre("nf_drop 1/1 for blocked",
                                        "nf_drop 1/2 for malformed",
                                        "consume 1/3", "release 1/4"));
  EXPECT_THAT(unit.released, ElementsAre("forwarded"));
  EXPECT_EQ(unit.pool.in_use(), 0u);
}

TEST(UnitNf, AbortsOnADropReasonWithoutName) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet&, FlowState&) { return Verdict::drop(2); };
  unit.Send(New(1));
  unit.Begin();
  EXPECT_DEATH(unit.Finish(),
               "returned Verdict::drop.2., but drop_reasons.. has 2");
}

TEST(UnitNf, SeesThePacketAndItsFlowAndMayRewriteIt) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet& packet, FlowState& flow) {
    EXPECT_EQ(flow.id(), FlowId{7});
    EXPECT_EQ(flow.timer(), Instant::max());
    EXPECT_THAT(packet.bytes(), SizeIs(4));
    packet.bytes()[0] = std::byte{'R'};
    return Verdict::forward();
  };
  unit.Send(New(7), "read");
  unit.Serve();
  EXPECT_THAT(unit.released, ElementsAre("Read"));
}

TEST(UnitNf, EmitsBeforeThePacketWhateverTheVerdict) {
  for (const Verdict verdict :
       {Verdict::forward(), Verdict::drop(1), Verdict::consume()}) {
    TestUnit unit(kA);
    unit.nf.packet = [&](Packet&, FlowState& flow) {
      EXPECT_TRUE(flow.emit(Bytes("one")));
      EXPECT_TRUE(flow.emit(Bytes("two")));
      return verdict;
    };
    unit.Send(New(1), "packet");
    const std::vector<std::string> lines = unit.Serve();
    ASSERT_THAT(lines, SizeIs(3));
    EXPECT_EQ(lines[0], "emit at 1/1");
    EXPECT_EQ(lines[1], "emit at 1/1");
    unit.released.resize(2);
    EXPECT_THAT(unit.released, ElementsAre("one", "two"));
    EXPECT_EQ(unit.pool.in_use(), 0u);
  }
}

TEST(UnitNf, EmitsACopyOfThePacketAsItIsAtThatTime) {
  TestUnit unit(kA);
  unit.nf.packet = [&](Packet& packet, FlowState& flow) {
    EXPECT_TRUE(flow.emit(packet.bytes()));
    packet.bytes()[0] = std::byte{'P'};
    return Verdict::forward();
  };
  unit.Send(New(1), "packet");
  unit.Serve();
  EXPECT_THAT(unit.released, ElementsAre("packet", "Packet"));
}

TEST(UnitNf, EmitsAtMostKMaxEmitsACall) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet&, FlowState& flow) {
    for (int i = 0; i < FlowState::kMaxEmits; ++i) {
      EXPECT_TRUE(flow.emit(Bytes("x")));
    }
    EXPECT_FALSE(flow.emit(Bytes("x")));
    return Verdict::forward();
  };
  unit.Send(New(1));
  unit.Send(Within(1, 2));
  EXPECT_THAT(unit.Serve(), SizeIs(2 * (FlowState::kMaxEmits + 1)));
}

TEST(UnitNf, EmitsFramesOfAllLengthsThatCanBe) {
  TestUnit unit(kA);
  size_t length = FlowState::kMaxFrameBytes;
  unit.nf.packet = [&](Packet&, FlowState& flow) {
    const std::vector<std::byte> frame(length);
    EXPECT_FALSE(flow.emit({}));
    EXPECT_TRUE(flow.emit(frame));
    return Verdict::forward();
  };
  unit.Send(New(1), "packet");
  EXPECT_THAT(unit.Serve(), ElementsAre("emit at 1/1", "release 1/1"));
  EXPECT_THAT(unit.released[0], SizeIs(65'599));
  ++length;
  unit.Send(Within(1, 2), "packet");
  unit.Begin();
  EXPECT_DEATH(unit.Finish(),
               "emitted a frame of 65600 bytes: want at most 65599");
}

TEST(UnitNf, AbortsOnWritingOutsideOfThePacket) {
  int at = 0;
  TestUnit unit(kA);
  unit.nf.packet = [&](Packet& packet, FlowState&) {
    packet.bytes().data()[at] ^= std::byte{1};
    return Verdict::forward();
  };
  unit.Send(New(1), "packet");
  unit.Begin();
  for (at = -1; at >= -64; at -= 7) {
    EXPECT_DEATH(unit.Finish(), "wrote before the packet, which has 6 bytes");
  }
  for (at = 6; at < 70; at += 9) {
    EXPECT_DEATH(unit.Finish(), "wrote behind the packet, which has 6 bytes");
  }
  at = 5;
  unit.Finish();
  EXPECT_THAT(unit.released, ElementsAre("packeu"));
}

TEST(UnitNf, AbortsOnAPoolThatIsNotThere) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet&, FlowState& flow) {
    flow.take(PoolId{3}, {});
    return Verdict::forward();
  };
  unit.Send(New(1));
  unit.Begin();
  EXPECT_DEATH(unit.Finish(), "named pool 3, but has 0");
}

TEST(UnitNf, EndsInTheCallThatThrows) {
  TestUnit unit(kA);
  unit.nf.packet = [](Packet&, FlowState&) -> Verdict {
    throw std::runtime_error("boom");
  };
  unit.Send(New(1));
  unit.Begin();
  EXPECT_DEATH(
      {
        try {
          unit.Finish();
        } catch (...) {
          _exit(0);  // it got out
        }
      },
      "boom");
}

TEST(UnitNf, CannotEmitWhenNoBufferIsFree) {
  TestUnit unit(kA);
  unit.pool = BufferPool({.small = 2, .medium = 0, .large = 0});
  unit.nf.packet = [](Packet&, FlowState& flow) {
    EXPECT_TRUE(flow.emit(Bytes("fits")));
    EXPECT_FALSE(flow.emit(Bytes("does not")));
    return Verdict::forward();
  };
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), ElementsAre("emit at 1/1", "release 1/1"));
  unit.Send(Within(1, 2));
  EXPECT_THAT(unit.Serve(), ElementsAre("emit at 1/2", "release 1/2"));
}

TEST(UnitNf, EmitsParsedPacketsOfTheFlowsFraming) {
  // IPv4, UDP 10.0.0.1:7 > 10.0.0.2:9, no link header.
  const std::vector<unsigned char> ip = {0x45, 0, 0,  28, 0, 0, 0,  0, 64, 17,
                                         0,    0, 10, 0,  0, 1, 10, 0, 0,  2,
                                         0,    7, 0,  9,  0, 8, 0,  0};
  BufferPool pool({.small = 4, .medium = 0, .large = 0});
  Unit unit(UnitId{kA}, kSmallUnit, ScriptedNf::Schema());
  ScriptedNf nf;
  nf.packet = [&](Packet&, FlowState& flow) {
    EXPECT_TRUE(flow.emit(std::as_bytes(std::span(ip))));
    flow.set_timer(Milliseconds(1));
    return Verdict::forward();
  };
  nf.timer = [&](FlowState& flow) {
    EXPECT_TRUE(flow.emit(std::as_bytes(std::span(ip))));
  };
  const PacketHandle packet = pool.Allocate(8);
  pool.info(packet).length = 8;
  pool.info(packet).link = LinkType::kRawIp;
  PacketMeta meta = New(1);
  meta.arrival = Instant{77};
  unit.on_packet(packet, meta);
  UnitOut out;
  ASSERT_TRUE(unit.begin(Instant{}, out));
  unit.finish(Instant{}, {nf, pool}, out);
  const Instant arrival = Instant{} + Seconds(1);
  unit.on_packet(kNoPacket, TimerPacket(1, 2, arrival));
  ASSERT_TRUE(unit.begin(arrival, out));
  unit.finish(arrival, {nf, pool}, out);
  ASSERT_THAT(out.commands(), SizeIs(4));
  for (const size_t i : {size_t{0}, size_t{2}}) {
    const UnitCommand& emit = out.commands()[i];
    ASSERT_EQ(emit.kind, UnitCommand::Kind::kEmit);
    const PacketInfo& info = pool.info(emit.packet);
    EXPECT_EQ(info.link, LinkType::kRawIp);
    EXPECT_EQ(info.length, ip.size());
    EXPECT_EQ(info.original_length, ip.size());
    EXPECT_EQ(info.headers.l3, L3::kIpv4);
    EXPECT_EQ(info.headers.l4_offset, 20);
  }
  EXPECT_EQ(pool.info(out.commands()[0].packet).arrival, Instant{77});
  EXPECT_EQ(pool.info(out.commands()[2].packet).arrival, arrival);
}

TEST(UnitNf, KeepsTheFramingOfAFlowThatMoved) {
  TestUnit unit(kA);
  unit.Send(Null(First(1, 5, 1)));  // has none of its own
  unit.Serve();
  SentState sent = StateOf(1, 4);
  sent.state.link = LinkType::kLinuxSll;
  unit.on_state(sent);
  unit.Serve();
  unit.on_pull(1, 5, 2);
  ASSERT_THAT(unit.states, SizeIs(1));
  EXPECT_EQ(unit.states[0].state.link, LinkType::kLinuxSll);
}

TEST(UnitNf, IsNotShownPacketsWithoutPayload) {
  TestUnit unit(kA);
  int shown = 0;
  unit.nf.packet = [&](Packet&, FlowState&) {
    ++shown;
    return Verdict::forward();
  };
  unit.Send(New(1));
  unit.Send(Tombstone(Within(1, 2)));
  unit.Send(Null(Within(1, 3)));
  unit.Send(Within(1, 4));
  unit.Send(Tombstone(New(2)));
  unit.Send(Within(2, 2));
  EXPECT_THAT(unit.Serve(),
              ElementsAre("release 1/1", "advance 1/2", "advance 1/3",
                          "release 1/4", "advance 2/1", "release 2/2"));
  EXPECT_EQ(shown, 3);
  EXPECT_EQ(unit.CountOf(1), 2u);
  EXPECT_EQ(unit.CountOf(2), 1u);
}

// Two units could hand two pools to and fro of each of which they need a piece.
TEST(UnitNf, WaitsForOnePoolAfterAnotherOnlySoOften) {
  static const std::vector<NetworkFunction::Pool> kPools = {{"a", 0, 99},
                                                            {"b", 0, 99}};
  TestUnit unit(kA, kSmallUnit, kPools);
  uint16_t awaited = 1;
  bool was_exhausted = false;
  unit.nf.missing = [&](FlowState& flow) -> std::optional<PoolId> {
    awaited ^= 1;
    was_exhausted = flow.is_exhausted(PoolId{awaited});
    if (was_exhausted) return std::nullopt;
    return PoolId{awaited};
  };
  unit.Send(New(1));
  EXPECT_THAT(unit.Serve(), ElementsAre("request 0", "wait 1/1"));
  uint32_t waits = 1;
  while (unit.released.empty() && waits < 100) {
    const uint16_t pool = awaited;
    unit.on_pieces(pool, 1, 1);
    unit.Serve();
    // Another unit asks for them.
    unit.on_reclaim(pool);
    EXPECT_EQ(unit.unit.pieces(pool), 0u);
    ++waits;
  }
  EXPECT_TRUE(was_exhausted);
  EXPECT_LE(waits, 2 * kMaxRunsInVain + 2);
}

}  // namespace
}  // namespace snf
