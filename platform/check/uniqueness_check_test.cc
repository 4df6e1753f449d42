// SPDX-License-Identifier: Apache-2.0
#include "platform/check/uniqueness_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/packet/flow_key_text.h"

namespace snf {
namespace {

constexpr FlowId kFlow = MakeFlowId(0, 7, 3);
constexpr FlowId kOther = MakeFlowId(0, 8, 1);
constexpr PoolId kPool{2};

PieceBlock Pieces(uint32_t word, uint64_t mask, uint16_t pool = 2) {
  return {.word = word, .pool = pool, .unit = UnitId{1}, .mask = mask};
}

Alias AliasOf(FlowId flow, uint64_t clock, const std::string& key) {
  return {.key = *ParseFlowKey(key), .flow = flow, .clock = Clock{clock}};
}

TEST(UniquenessCheck, LetsPiecesGoToAUnitAndBackAgain) {
  UniquenessCheck uniqueness;
  EXPECT_EQ(uniqueness.on_granted(Pieces(3, 0b1110)), "");
  EXPECT_EQ(uniqueness.on_returned(Pieces(3, 0b0100)), "");
  EXPECT_EQ(uniqueness.on_granted(Pieces(3, 0b0101)), "");
  EXPECT_EQ(uniqueness.on_granted(Pieces(4, 0b1110)), "");
  EXPECT_EQ(uniqueness.on_granted(Pieces(3, 0b1110, 0)), "");
  EXPECT_EQ(uniqueness.on_returned(Pieces(3, 0)), "");
  EXPECT_EQ(uniqueness.on_granted(Pieces(9, 0)), "");
}

TEST(UniquenessCheck, NamesPiecesThatAreInTwoPlaces) {
  UniquenessCheck uniqueness;
  uniqueness.on_granted(Pieces(3, 0b1110));
  EXPECT_EQ(uniqueness.on_granted(Pieces(3, 0b11000)),
            "was granted a piece of pool 2, the first of them 195, which had "
            "not come back");
  EXPECT_EQ(uniqueness.on_returned(Pieces(3, 0b1100000)),
            "returned 2 pieces of pool 2, the first of them 197, which no unit "
            "was granted");
}

TEST(UniquenessCheck, LetsAFlowTakeWhatNobodyHas) {
  UniquenessCheck uniqueness;
  uniqueness.on_granted(Pieces(3, ~uint64_t{0}));
  EXPECT_EQ(uniqueness.on_taken(kFlow, kPool, 192), "");
  EXPECT_EQ(uniqueness.on_taken(kFlow, kPool, 193), "");
  uniqueness.on_given_back(kFlow, kPool, 192);
  EXPECT_EQ(uniqueness.on_taken(kOther, kPool, 192), "");
  uniqueness.on_pieces_gone(kFlow);
  EXPECT_EQ(uniqueness.on_taken(kOther, kPool, 193), "");
  uniqueness.on_pieces_gone(kFlow);
}

TEST(UniquenessCheck, NamesWhoHasThePieceThatIsTaken) {
  UniquenessCheck uniqueness;
  uniqueness.on_granted(Pieces(3, ~uint64_t{0}));
  uniqueness.on_taken(kFlow, kPool, 192);
  EXPECT_EQ(uniqueness.on_taken(kOther, kPool, 192),
            "took piece 192 of pool 2, which flow slot 7 generation 3 has");
  // Others cannot give it back.
  uniqueness.on_given_back(kOther, kPool, 192);
  EXPECT_NE(uniqueness.on_taken(kOther, kPool, 192), "");
}

// Its unit may never hear of that, and go on with them.
TEST(UniquenessCheck, AFlowKeepsWhatNobodyTookAfterItsEnd) {
  UniquenessCheck uniqueness;
  uniqueness.on_granted(Pieces(3, ~uint64_t{0}));
  for (const uint32_t piece : {192u, 193u, 194u, 195u}) {
    uniqueness.on_taken(kFlow, kPool, piece);
  }
  uniqueness.on_over(kFlow);
  EXPECT_THAT(uniqueness.PiecesOf(kFlow), testing::IsEmpty());
  EXPECT_EQ(uniqueness.on_taken(kOther, kPool, 193), "");
  // What it did last may be undone.
  uniqueness.on_given_back(kFlow, kPool, 195);
  uniqueness.on_goes_on(kFlow);
  const uint64_t pool = uint64_t{2} << 32;
  EXPECT_THAT(uniqueness.PiecesOf(kFlow),
              testing::ElementsAre(pool | 192, pool | 194));
  EXPECT_NE(uniqueness.on_taken(kOther, kPool, 192), "");
  EXPECT_EQ(uniqueness.on_taken(kOther, kPool, 195), "");
  // One that takes pieces is not over.
  uniqueness.on_over(kFlow);
  EXPECT_EQ(uniqueness.on_taken(kFlow, kPool, 196), "");
  EXPECT_NE(uniqueness.on_taken(kOther, kPool, 194), "");
}

TEST(UniquenessCheck, NamesAPieceThatTheControllerHas) {
  UniquenessCheck uniqueness;
  EXPECT_EQ(uniqueness.on_taken(kFlow, kPool, 192),
            "took piece 192 of pool 2, which no unit was granted");
  uniqueness.on_granted(Pieces(3, 0b10));
  uniqueness.on_returned(Pieces(3, 0b10));
  EXPECT_NE(uniqueness.on_taken(kFlow, kPool, 193), "");
}

TEST(UniquenessCheck, LetsAnAliasPassFromFlowToFlow) {
  UniquenessCheck uniqueness;
  EXPECT_EQ(uniqueness.on_alias(AliasOf(kFlow, 1, "udp 198.51.100.1:1")), "");
  // Another in its place, or the same again.
  EXPECT_EQ(uniqueness.on_alias(AliasOf(kFlow, 2, "udp 198.51.100.1:2")), "");
  EXPECT_EQ(uniqueness.on_alias(AliasOf(kFlow, 3, "udp 198.51.100.1:2")), "");
  EXPECT_EQ(uniqueness.on_alias(AliasOf(kOther, 1, "udp 198.51.100.1:1")), "");
  uniqueness.on_alias_gone(kFlow, Clock{3});
  EXPECT_EQ(uniqueness.on_alias(AliasOf(kOther, 2, "udp 198.51.100.1:2")), "");
  EXPECT_EQ(uniqueness.on_alias(AliasOf(kFlow, 4, "udp 198.51.100.1:1")), "");
}

TEST(UniquenessCheck, NamesTheFlowThatHasTheAlias) {
  UniquenessCheck uniqueness;
  uniqueness.on_alias(AliasOf(kFlow, 5, "udp 198.51.100.1:1"));
  EXPECT_EQ(uniqueness.on_alias(AliasOf(kOther, 1, "udp 198.51.100.1:1")),
            "was granted udp 198.51.100.1:1, which flow slot 7 generation 3 "
            "has");
  // What was said before it was set takes nothing.
  uniqueness.on_alias_gone(kFlow, Clock{4});
  EXPECT_NE(uniqueness.on_alias(AliasOf(kOther, 2, "udp 198.51.100.1:1")), "");
}

}  // namespace
}  // namespace snf
