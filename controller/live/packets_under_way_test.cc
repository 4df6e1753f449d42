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
  void Say(Kind kind, uint64_t clock, PacketHandle packet) {
    packets_.On(UnitCommand::OfPacket(kind, packet, MetaOf(clock)));
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

}  // namespace
}  // namespace snf
