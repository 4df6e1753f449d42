// SPDX-License-Identifier: Apache-2.0
#include "controller/recovery/survivors.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr FlowId kFlow = MakeFlowId(0, 7, 3);
constexpr FlowId kOther = MakeFlowId(0, 2, 9);

PacketMeta Meta(FlowId flow, uint64_t clock) {
  return {.flow = flow,
          .clock = Clock{clock},
          .arrival = Instant{static_cast<int64_t>(clock) * 10},
          .original_length = static_cast<uint32_t>(100 + clock)};
}

std::vector<PacketHandle> TakeAll(Survivors& survivors) {
  std::vector<PacketHandle> taken;
  while (survivors.HasNext()) {
    const PacketHandle packet = survivors.TakeNext();
    if (packet != kNoPacket) taken.push_back(packet);
  }
  return taken;
}

TEST(Survivors, FindAPacketByItsFlowAndClockInWhateverOrderTheyCame) {
  Survivors survivors(4);
  EXPECT_TRUE(survivors.Add(Meta(kFlow, 8), PacketHandle{108}));
  EXPECT_TRUE(survivors.Add(Meta(kOther, 8), PacketHandle{208}));
  EXPECT_TRUE(survivors.Add(Meta(kFlow, 7), PacketHandle{107}));
  survivors.Sort();
  const Survivor* const found = survivors.Find(kFlow, Clock{7});
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->packet, PacketHandle{107});
  EXPECT_EQ(found->arrival, Instant{70});
  EXPECT_EQ(found->original_length, 107u);
  EXPECT_EQ(survivors.Find(kOther, Clock{8})->packet, PacketHandle{208});
  EXPECT_EQ(survivors.Find(kFlow, Clock{6}), nullptr);
  EXPECT_EQ(survivors.Find(kOther, Clock{7}), nullptr);
}

TEST(Survivors, RefuseAPacketBeyondTheirRoom) {
  Survivors survivors(1);
  EXPECT_TRUE(survivors.Add(Meta(kFlow, 1), PacketHandle{101}));
  EXPECT_FALSE(survivors.Add(Meta(kFlow, 2), PacketHandle{102}));
  survivors.Sort();
  EXPECT_EQ(TakeAll(survivors), std::vector<PacketHandle>{PacketHandle{101}});
}

// A packet that has survived two units is listed twice.
TEST(Survivors, GiveEachEntryOfAClockOnce) {
  Survivors survivors(4);
  survivors.Add(Meta(kFlow, 5), PacketHandle{105});
  survivors.Add(Meta(kFlow, 5), PacketHandle{305});
  survivors.Sort();
  std::vector<PacketHandle> taken;
  while (Survivor* const found = survivors.Find(kFlow, Clock{5})) {
    taken.push_back(std::exchange(found->packet, kNoPacket));
  }
  EXPECT_EQ(taken.size(), 2u);
  EXPECT_NE(taken[0], taken[1]);
  EXPECT_TRUE(TakeAll(survivors).empty());
}

TEST(Survivors, LeaveToTheEndThePacketsThatNoClockAskedFor) {
  Survivors survivors(4);
  survivors.Add(Meta(kFlow, 8), PacketHandle{108});
  survivors.Add(Meta(kFlow, 7), PacketHandle{107});
  survivors.Add(Meta(kFlow, 9), PacketHandle{109});
  survivors.Sort();
  survivors.Find(kFlow, Clock{8})->packet = kNoPacket;
  EXPECT_EQ(TakeAll(survivors),
            (std::vector<PacketHandle>{PacketHandle{107}, PacketHandle{109}}));
  survivors.Clear();
  EXPECT_EQ(survivors.Find(kFlow, Clock{7}), nullptr);
  EXPECT_FALSE(survivors.HasNext());
  EXPECT_TRUE(survivors.Add(Meta(kFlow, 1), PacketHandle{101}));
}

// Another unit fails while the packets of the first are dropped.
TEST(Survivors, BeginAgainOnceMoreHaveCome) {
  Survivors survivors(4);
  survivors.Add(Meta(kFlow, 7), PacketHandle{107});
  survivors.Add(Meta(kFlow, 9), PacketHandle{109});
  survivors.Sort();
  EXPECT_EQ(survivors.TakeNext(), PacketHandle{107});
  survivors.Add(Meta(kFlow, 3), PacketHandle{103});
  survivors.Sort();
  EXPECT_EQ(TakeAll(survivors),
            (std::vector<PacketHandle>{PacketHandle{103}, PacketHandle{109}}));
}

}  // namespace
}  // namespace snf
