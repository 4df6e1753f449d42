// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "platform/check/checker.h"
#include "platform/check/test_checker.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using testing::ElementsAre;

// Notes in its slot how many packets a flow had, and in each packet's byte.
class Counting final : public NetworkFunction {
  Slot<uint64_t> packets_ = declare<uint64_t>("packets");
  Verdict process_packet(Packet& packet, FlowState& flow) override {
    flow.put(packets_, flow.get(packets_) + 1);
    packet.bytes()[0] = static_cast<std::byte>(flow.get(packets_));
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Counting, "test_counting", "counts a flow's packets");

class OracleCheckerTest : public CheckerTest {
 protected:
  OracleCheckerTest() {
    const NfSpec counting = registration_of_Counting;
    checker_ = Checker(&counting);
  }

  // A unit makes of the packet with that clock one that begins with `byte`.
  void Make(uint64_t clock, uint8_t byte, FlowId flow = kFlow) {
    Process(kA, clock, flow);
    checker_.on_nf_begin(pool_.info(packet_), pool_.bytes(packet_));
    pool_.bytes(packet_)[0] = std::byte{byte};
    const UnitCommand done = UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                                   packet_, Meta(flow, clock));
    checker_.on_nf_end(Now(), kA, Meta(flow, clock),
                       {.buffers = pool_,
                        .packet = packet_,
                        .commands = {&done, 1},
                        .pieces_taken = {},
                        .record = [] { return std::span<const std::byte>(); }});
    Release(clock, flow);
  }

  void SetUp() override {
    packet_ = pool_.Allocate(1);
    pool_.info(packet_).length = 1;
  }

  BufferPool pool_{{.small = 1, .medium = 0, .large = 0}};
  PacketHandle packet_ = kNoPacket;
};

TEST_F(OracleCheckerTest, ReportsWhatStaleStateMakesOfAPacket) {
  for (uint64_t clock = 1; clock <= 4; ++clock) Give(kA, clock);
  Make(1, 1);
  Make(2, 2);
  EXPECT_EQ(checker_.violations(), 0u);
  Make(3, 2);
  Make(4, 2);
  Finish();
  ExpectOne(
      "unit 1: clock 3 was not processed on its own state: of the packet byte "
      "0 is 02, should be 03");
}

TEST_F(OracleCheckerTest, GivesClocksWithoutPayloadNoState) {
  Give(kA, 1);
  GiveNull(2);
  Give(kB, 3);
  Give(kA, 4);
  Make(1, 1);
  Skip(kB, 2, PacketMeta::kNull);
  Advance(2);
  DropPayload(3);
  Skip(kB, 3);
  Advance(3);
  Make(4, 2);
  Finish();
  EXPECT_THAT(checker_.messages(), ElementsAre());
}

TEST_F(OracleCheckerTest, KeepsTheStateOfAFlowUntilItsLastPacketLeft) {
  Give(kA, 1);
  Give(kA, 2);
  Make(1, 1);
  EndFlowAt(2);
  EXPECT_EQ(checker_.oracle()->flows(), 1u);
  Give(kA, 1, kNextInSlot);
  Make(1, 1, kNextInSlot);
  EXPECT_EQ(checker_.oracle()->flows(), 2u);
  Make(2, 2);
  EXPECT_EQ(checker_.oracle()->flows(), 1u);
  EndFlowAt(1, kNextInSlot);
  EXPECT_EQ(checker_.oracle()->flows(), 0u);
  Finish();
  EXPECT_THAT(checker_.messages(), ElementsAre());
}

}  // namespace
}  // namespace snf
