// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/pending_lists.h"

#include "gtest/gtest.h"

namespace snf {
namespace {

using Kind = Pending::Kind;

Pending Of(Kind kind, uint16_t peer, uint64_t clock) {
  return {.clock = Clock{clock},
          .due = Instant::max(),
          .next = PendingLists::kNone,
          .peer = UnitId{peer},
          .kind = kind,
          .tries = 0};
}

TEST(PendingLists, FindWhatWasAddedByKindAndPeer) {
  PendingLists lists(4, 4, 2);
  uint32_t head = PendingLists::kNone;
  lists.Add(head, Of(Kind::kMyTakeover, 1, 5));
  lists.Add(head, Of(Kind::kPull, 2, 6));
  lists.Add(head, Of(Kind::kPull, 1, 7));
  EXPECT_EQ(lists[*lists.LinkOf(head, Kind::kMyTakeover)].clock, Clock{5});
  EXPECT_EQ(lists[*lists.LinkOf(head, Kind::kPull, UnitId{2})].clock, Clock{6});
  EXPECT_EQ(*lists.LinkOf(head, Kind::kEnd), PendingLists::kNone);
  const Pull pull = {FlowId{1}, Clock{7}, UnitId{1}};
  EXPECT_EQ(lists[*lists.LinkOf(head, pull)].clock, Clock{7});
  const Pull other = {FlowId{1}, Clock{6}, UnitId{1}};
  EXPECT_EQ(*lists.LinkOf(head, other), PendingLists::kNone);
  EXPECT_EQ(lists.PullsIn(head), 2u);
}

TEST(PendingLists, GoOnBehindWhatWasErased) {
  PendingLists lists(4, 4, 2);
  uint32_t head = PendingLists::kNone;
  for (uint64_t clock = 1; clock <= 3; ++clock) {
    lists.Add(head, Of(Kind::kPull, 1, clock));
  }
  uint32_t* const link =
      lists.LinkOf(head, Pull{FlowId{1}, Clock{2}, UnitId{1}});
  lists.Erase(link);
  EXPECT_EQ(lists[*link].clock, Clock{1});
  EXPECT_EQ(lists.PullsIn(head), 2u);
  while (head != PendingLists::kNone) lists.Erase(&head);
  EXPECT_EQ(lists.PullsIn(head), 0u);
}

TEST(PendingLists, SayWhenMorePullsWaitThanMay) {
  PendingLists lists(2, 1, 1);
  uint32_t one = PendingLists::kNone;
  uint32_t other = PendingLists::kNone;
  lists.Add(one, Of(Kind::kPull, 1, 1));
  lists.Add(other, Of(Kind::kPull, 1, 1));
  EXPECT_FALSE(lists.has_too_many_pulls());
  lists.Add(other, Of(Kind::kPull, 2, 1));
  EXPECT_TRUE(lists.has_too_many_pulls());
  lists.Erase(&one);
  EXPECT_FALSE(lists.has_too_many_pulls());
}

TEST(PendingLists, CountTakeovers) {
  PendingLists lists(1, 2, 1);
  uint32_t head = PendingLists::kNone;
  lists.Add(head, Of(Kind::kMyTakeover, 1, 1));
  EXPECT_TRUE(lists.has_room_for_takeover());
  lists.Add(head, Of(Kind::kMyTakeover, 2, 1));
  EXPECT_FALSE(lists.has_room_for_takeover());
  EXPECT_EQ(lists.takeovers(), 2u);
  lists.Erase(&head);
  EXPECT_EQ(lists.takeovers(), 1u);
}

TEST(PendingLists, UseTheRoomOfWhatWasErasedAgain) {
  PendingLists lists(1, 1, 1);  // room for five
  uint32_t head = PendingLists::kNone;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 5; ++i) lists.Add(head, Of(Kind::kEnd, 1, 1));
    for (int i = 0; i < 5; ++i) lists.Erase(&head);
  }
  for (int i = 0; i < 5; ++i) lists.Add(head, Of(Kind::kEnd, 1, 1));
  EXPECT_DEATH(lists.Add(head, Of(Kind::kEnd, 1, 1)), "check failed");
}

}  // namespace
}  // namespace snf
