// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/held_homes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Move = HeldHomes::Move;

// Members by number, with their incarnations.
using Members = std::map<uint32_t, uint64_t>;

GroupMember::View ViewOf(const Members& members, uint32_t self,
                         uint64_t joined = 1) {
  auto table = std::make_shared<GatewayTable>();
  for (const auto& [number, incarnation] : members) {
    table->members.push_back({.number = number, .incarnation = incarnation});
  }
  const bool is_in = table->Find(self) != nullptr;
  return {.table = std::move(table), .is_in = is_in, .joined = joined};
}

class HeldHomesTest : public testing::Test {
 protected:
  HeldHomes::Change Follow(const Members& members, uint64_t joined = 1) {
    return homes_.Follow(ViewOf(members, kSelf, joined));
  }
  std::vector<Move> Moves(const Members& members) {
    return Follow(members).moves;
  }
  // Returns homes of a group of four.
  MemberSet here() const { return homes_.here() & FirstOf(4); }
  static Move MoveOf(uint32_t to, MemberSet homes) {
    return {.to = to, .homes = homes};
  }
  static std::vector<Move> OfFour(std::vector<Move> moves) {
    for (Move& move : moves) move.homes &= FirstOf(4);
    return moves;
  }

  static constexpr uint32_t kSelf = 2;
  HeldHomes homes_{kSelf};
};

TEST_F(HeldHomesTest, AHomeGoesBackToItsMember) {
  EXPECT_THAT(Moves({{0, 1}, {1, 1}, {2, 1}}), IsEmpty());
  EXPECT_THAT(Moves({{0, 1}, {2, 1}}), IsEmpty());
  EXPECT_EQ(here(), SetOf(1));
  const HeldHomes::Change change = Follow({{0, 1}, {1, 2}, {2, 1}});
  EXPECT_EQ(change.moves, std::vector{MoveOf(1, SetOf(1))});
  EXPECT_EQ(change.stay, 0u);
  EXPECT_FALSE(Has(change.gone, 0));
  EXPECT_TRUE(Has(change.gone, 1));
  EXPECT_EQ(here(), SetOf(1)) << "until the move has ended";
  homes_.OnMoved(change.moves.front());
  EXPECT_EQ(here(), 0u);
}

TEST_F(HeldHomesTest, AMemberThatEndsAgainLeavesItsHomeHere) {
  Follow({{0, 1}, {2, 1}});
  ASSERT_EQ(Moves({{0, 1}, {1, 2}, {2, 1}}).size(), 1u);
  const HeldHomes::Change change = Follow({{0, 1}, {2, 1}});
  EXPECT_THAT(change.moves, IsEmpty());
  EXPECT_EQ(change.stay, SetOf(1));
  EXPECT_EQ(here(), SetOf(1));
  // Other changes of the table leave a move as it is.
  ASSERT_EQ(Moves({{0, 1}, {1, 3}, {2, 1}}).size(), 1u);
  const HeldHomes::Change other = Follow({{1, 3}, {2, 1}});
  EXPECT_THAT(other.moves, IsEmpty());
  EXPECT_EQ(other.stay, 0u);
}

TEST_F(HeldHomesTest, ANewProcessInAMembersPlaceHasComeBack) {
  Follow({{0, 1}, {1, 1}, {2, 1}});
  const HeldHomes::Change change = Follow({{0, 1}, {1, 2}, {2, 1}});
  EXPECT_EQ(change.moves, std::vector{MoveOf(1, SetOf(1))});
  EXPECT_TRUE(Has(change.gone, 1));
  // Again, before the move has ended.
  const HeldHomes::Change again = Follow({{0, 1}, {1, 3}, {2, 1}});
  EXPECT_EQ(again.stay, SetOf(1));
  EXPECT_EQ(again.moves, std::vector{MoveOf(1, SetOf(1))});
  // Another member's heir is 0.
  EXPECT_THAT(Moves({{0, 1}, {1, 3}, {2, 1}, {3, 1}}), IsEmpty());
  EXPECT_THAT(Moves({{0, 1}, {1, 3}, {2, 1}, {3, 2}}), IsEmpty());
}

TEST_F(HeldHomesTest, AnotherMembersHomeGoesToItsNewHeir) {
  Follow({{2, 1}});
  EXPECT_EQ(here(), SetOf(0) | SetOf(1) | SetOf(3));
  // 0 is the heir of 3; of 1, 2 is it.
  EXPECT_THAT(OfFour(Moves({{0, 1}, {2, 1}})),
              ElementsAre(MoveOf(0, SetOf(0) | SetOf(3))));
  // 3 comes before 0 has its flows: they are to be given to 3 as well.
  const HeldHomes::Change change = Follow({{0, 1}, {2, 1}, {3, 1}});
  EXPECT_EQ(change.stay & FirstOf(4), SetOf(0) | SetOf(3));
  EXPECT_THAT(OfFour(change.moves),
              ElementsAre(MoveOf(0, SetOf(0)), MoveOf(3, SetOf(3))));
}

TEST_F(HeldHomesTest, WhoWasOutGivesNothing) {
  Follow({{0, 1}, {2, 1}});
  EXPECT_THAT(Moves({{0, 1}}), IsEmpty());
  EXPECT_EQ(here(), 0u);
  EXPECT_THAT(Follow({{0, 1}, {1, 1}, {2, 1}}, 3).moves, IsEmpty());
  EXPECT_EQ(here(), 0u);
  // The member was out and in again between two looks.
  Follow({{0, 1}, {2, 1}}, 3);
  EXPECT_EQ(here(), SetOf(1));
  EXPECT_THAT(Follow({{0, 1}, {1, 2}, {2, 1}}, 7).moves, IsEmpty());
  EXPECT_EQ(here(), 0u);
}

TEST_F(HeldHomesTest, AMemberThatIsOutTakesBackItsMoves) {
  Follow({{0, 1}, {2, 1}});
  ASSERT_EQ(Moves({{0, 1}, {1, 2}, {2, 1}}).size(), 1u);
  const HeldHomes::Change change = Follow({{0, 1}, {1, 2}});
  EXPECT_THAT(change.moves, IsEmpty());
  EXPECT_EQ(change.stay, SetOf(1));
}

}  // namespace
}  // namespace snf
