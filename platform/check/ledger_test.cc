// SPDX-License-Identifier: Apache-2.0
#include "platform/check/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/packet/flow_key_text.h"

namespace snf {
namespace {

constexpr FlowId kFlow = MakeFlowId(0, 7, 3);
constexpr FlowId kOther = MakeFlowId(0, 8, 1);
constexpr PoolId kPool{2};

PieceWord Pieces(uint32_t word, uint64_t mask, uint16_t pool = 2) {
  return {.word = word, .pool = pool, .unit = UnitId{1}, .mask = mask};
}

Alias AliasOf(FlowId flow, uint64_t clock, const std::string& key) {
  return {.key = *ParseFlowKey(key), .flow = flow, .clock = Clock{clock}};
}

TEST(Ledger, LetsPiecesGoToAUnitAndBackAgain) {
  Ledger ledger;
  EXPECT_EQ(ledger.OnGranted(Pieces(3, 0b1110)), "");
  EXPECT_EQ(ledger.OnReturned(Pieces(3, 0b0100)), "");
  EXPECT_EQ(ledger.OnGranted(Pieces(3, 0b0101)), "");
  EXPECT_EQ(ledger.OnGranted(Pieces(4, 0b1110)), "");
  EXPECT_EQ(ledger.OnGranted(Pieces(3, 0b1110, 0)), "");
  EXPECT_EQ(ledger.OnReturned(Pieces(3, 0)), "");
  EXPECT_EQ(ledger.OnGranted(Pieces(9, 0)), "");
}

TEST(Ledger, NamesPiecesThatAreInTwoPlaces) {
  Ledger ledger;
  ledger.OnGranted(Pieces(3, 0b1110));
  EXPECT_EQ(ledger.OnGranted(Pieces(3, 0b11000)),
            "was granted a piece of pool 2, the first of them 195, which had "
            "not come back");
  EXPECT_EQ(ledger.OnReturned(Pieces(3, 0b1100000)),
            "returned 2 pieces of pool 2, the first of them 197, which no unit "
            "was granted");
}

TEST(Ledger, LetsAFlowTakeWhatNobodyHas) {
  Ledger ledger;
  ledger.OnGranted(Pieces(3, ~uint64_t{0}));
  EXPECT_EQ(ledger.OnTaken(kFlow, kPool, 192), "");
  EXPECT_EQ(ledger.OnTaken(kFlow, kPool, 193), "");
  ledger.OnGivenBack(kFlow, kPool, 192);
  EXPECT_EQ(ledger.OnTaken(kOther, kPool, 192), "");
  ledger.OnPiecesGone(kFlow);
  EXPECT_EQ(ledger.OnTaken(kOther, kPool, 193), "");
  ledger.OnPiecesGone(kFlow);
}

TEST(Ledger, NamesWhoHasThePieceThatIsTaken) {
  Ledger ledger;
  ledger.OnGranted(Pieces(3, ~uint64_t{0}));
  ledger.OnTaken(kFlow, kPool, 192);
  EXPECT_EQ(ledger.OnTaken(kOther, kPool, 192),
            "took piece 192 of pool 2, which flow slot 7 generation 3 has");
  // Others cannot give it back.
  ledger.OnGivenBack(kOther, kPool, 192);
  EXPECT_NE(ledger.OnTaken(kOther, kPool, 192), "");
}

TEST(Ledger, NamesAPieceThatTheControllerHas) {
  Ledger ledger;
  EXPECT_EQ(ledger.OnTaken(kFlow, kPool, 192),
            "took piece 192 of pool 2, which no unit was granted");
  ledger.OnGranted(Pieces(3, 0b10));
  ledger.OnReturned(Pieces(3, 0b10));
  EXPECT_NE(ledger.OnTaken(kFlow, kPool, 193), "");
}

TEST(Ledger, LetsAnAliasPassFromFlowToFlow) {
  Ledger ledger;
  EXPECT_EQ(ledger.OnAlias(AliasOf(kFlow, 1, "udp 198.51.100.1:1")), "");
  // Another in its place, or the same again.
  EXPECT_EQ(ledger.OnAlias(AliasOf(kFlow, 2, "udp 198.51.100.1:2")), "");
  EXPECT_EQ(ledger.OnAlias(AliasOf(kFlow, 3, "udp 198.51.100.1:2")), "");
  EXPECT_EQ(ledger.OnAlias(AliasOf(kOther, 1, "udp 198.51.100.1:1")), "");
  ledger.OnAliasGone(kFlow, Clock{3});
  EXPECT_EQ(ledger.OnAlias(AliasOf(kOther, 2, "udp 198.51.100.1:2")), "");
  EXPECT_EQ(ledger.OnAlias(AliasOf(kFlow, 4, "udp 198.51.100.1:1")), "");
}

TEST(Ledger, NamesTheFlowThatHasTheAlias) {
  Ledger ledger;
  ledger.OnAlias(AliasOf(kFlow, 5, "udp 198.51.100.1:1"));
  EXPECT_EQ(ledger.OnAlias(AliasOf(kOther, 1, "udp 198.51.100.1:1")),
            "was granted udp 198.51.100.1:1, which flow slot 7 generation 3 "
            "has");
  // What was said before it was set takes nothing.
  ledger.OnAliasGone(kFlow, Clock{4});
  EXPECT_NE(ledger.OnAlias(AliasOf(kOther, 2, "udp 198.51.100.1:1")), "");
}

}  // namespace
}  // namespace snf
