// SPDX-License-Identifier: Apache-2.0
#include "controller/live/packets_under_way.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace snf {
namespace {

using Kind = UnitCommand::Kind;
constexpr FlowId kFlow{7};

PacketMeta MetaOf(uint64_t clock) {
  PacketMeta meta;
  meta.flow = kFlow;
  meta.clock = Clock{clock};
  return meta;
}

class Kept : public ::testing::Test {
 protected:
  // A packet, or none, goes to the unit.
  void Send(uint16_t unit, uint64_t clock, PacketHandle packet) {
    packets_.Add(
        ControllerCommand::Enqueue(UnitId{unit}, packet, MetaOf(clock)));
  }
  // Unit 1 says something, if no other is named.
  bool Say(Kind kind, uint64_t clock, PacketHandle packet, uint16_t unit = 1,
           DropReason reason = {}) {
    UnitCommand word = UnitCommand::OfPacket(kind, packet, MetaOf(clock));
    word.unit = UnitId{unit};
    word.reason = reason;
    return packets_.On(word);
  }
  // Returns what was at the unit: packets by clock.
  std::map<uint64_t, PacketHandle> TakeOut(uint32_t unit) {
    std::map<uint64_t, PacketHandle> found;
    packets_.TakeOut([unit](UnitId id) { return value(id) == unit; },
                     [&](const PacketsUnderWay::Sent& sent) {
                       found[value(sent.meta.clock)] = sent.packet;
                     });
    return found;
  }

  using Found = std::map<uint64_t, PacketHandle>;
  BufferPool pool_{{.small = 8, .medium = 1, .large = 1}};
  PacketsUnderWay packets_{pool_};
};

TEST_F(Kept, AreThoseOfWhichNothingWasHeard) {
  Send(1, 1, PacketHandle{0});
  Send(1, 2, PacketHandle{1});
  Send(1, 3, PacketHandle{2});
  Send(2, 4, PacketHandle{3});
  Say(Kind::kRelease, 1, PacketHandle{0});
  Say(Kind::kNfDrop, 3, PacketHandle{2});
  EXPECT_EQ(TakeOut(1), (Found{{2, PacketHandle{1}}}));
  EXPECT_EQ(TakeOut(1), Found());
  EXPECT_EQ(TakeOut(2), (Found{{4, PacketHandle{3}}}));
}

TEST_F(Kept, HaveClocksWithoutAPacketAmongThem) {
  Send(1, 1, kNoPacket);
  Send(1, 2, kNoPacket);
  Say(Kind::kAdvance, 1, kNoPacket);
  EXPECT_EQ(TakeOut(1), (Found{{2, kNoPacket}}));
}

TEST_F(Kept, KeepTheClockOfAPacketThatItsUnitHasDropped) {
  Send(1, 1, PacketHandle{5});
  Say(Kind::kDropPayload, 1, PacketHandle{5});
  Send(2, 9, PacketHandle{5});  // the buffer is another packet's
  EXPECT_EQ(TakeOut(1), (Found{{1, kNoPacket}}));
  EXPECT_EQ(TakeOut(2), (Found{{9, PacketHandle{5}}}));
}

TEST_F(Kept, AreNotEndedByWhatAnNfHasMade) {
  Send(1, 1, PacketHandle{5});
  Say(Kind::kEmit, 1, PacketHandle{5});
  EXPECT_EQ(TakeOut(1), (Found{{1, PacketHandle{5}}}));
}

TEST_F(Kept, AreThoseOfTheUnitThatHasThemAlone) {
  const PacketHandle packet{3};
  Send(1, 2, packet);
  Send(1, 4, kNoPacket);
  EXPECT_FALSE(Say(Kind::kRelease, 2, packet, 2));
  EXPECT_FALSE(Say(Kind::kRelease, 1, packet));
  EXPECT_FALSE(Say(Kind::kDropPayload, 1, packet));
  EXPECT_FALSE(Say(Kind::kRelease, 2, PacketHandle{4}));
  EXPECT_FALSE(Say(Kind::kAdvance, 4, kNoPacket, 2));
  EXPECT_FALSE(Say(Kind::kAdvance, 5, kNoPacket, 1, DropReason::kUnitFailed));
  UnitCommand other = UnitCommand::OfPacket(Kind::kDrop, packet, MetaOf(2));
  other.unit = UnitId{1};
  other.meta.flow = FlowId{8};
  EXPECT_FALSE(packets_.On(other));
  EXPECT_EQ(TakeOut(1), (Found{{2, packet}, {4, kNoPacket}}));
  EXPECT_FALSE(Say(Kind::kRelease, 2, packet)) << "it has it no more";
}

}  // namespace
}  // namespace snf
