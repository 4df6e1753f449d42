// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_network/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace snf {
namespace {

TEST(EventQueue, IsNeverDueWhenEmpty) {
  EventQueue<int> queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.next_time(), Instant::max());
  queue.Push(Instant::max(), 1);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, GivesEventsByTimeAndThenInOrderOfPushing) {
  EventQueue<int> queue;
  queue.Push(Instant{5}, 1);
  queue.Push(Instant{-5}, 2);
  queue.Push(Instant{5}, 3);
  queue.Push(Instant{4}, 4);
  queue.Push(Instant{5}, 5);
  EXPECT_EQ(queue.next_time(), Instant{-5});
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.Pop());
  EXPECT_EQ(order, (std::vector<int>{2, 4, 1, 3, 5}));
}

TEST(EventQueue, MixesThoseThatComeInOrderWithTheOthers) {
  EventQueue<int> queue;
  queue.PushInOrder(Instant{5}, 1);
  queue.Push(Instant{5}, 2);
  queue.PushInOrder(Instant{5}, 3);
  queue.Push(Instant{7}, 4);
  queue.PushInOrder(Instant{8}, 5);
  queue.Push(Instant{6}, 6);
  EXPECT_EQ(queue.next_time(), Instant{5});
  std::vector<int> order;
  while (!queue.empty()) order.push_back(queue.Pop());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 6, 4, 5}));
  EXPECT_EQ(queue.next_time(), Instant::max());
}

TEST(EventQueueDeathTest, RefusesOneOutOfOrder) {
  EventQueue<int> queue;
  queue.PushInOrder(Instant{5}, 1);
  EXPECT_DEATH(queue.PushInOrder(Instant{4}, 2), "");
}

// Pushes and pops at random; at every pop the event must be the one that a
// stable sort of what is pending puts first.
TEST(EventQueue, AgreesWithAStableSort) {
  const uint64_t seed = 11;
  SCOPED_TRACE(seed);
  Rng rng(seed);
  using Pending = std::pair<Instant, int>;
  const auto earlier = [](const Pending& a, const Pending& b) {
    return a.first < b.first;
  };
  EventQueue<int> queue;
  std::vector<Pending> pending;  // in the order of pushing
  Instant in_order;              // the time of the last PushInOrder
  int pushed = 0;
  int ties = 0;
  for (int step = 0; step < 50'000; ++step) {
    if (rng.Chance(34'000)) {
      Instant time{rng.Uniform(0, 40) + step / 100};
      if (rng.Chance(32'768)) {
        time = in_order = std::max(time, in_order);
        queue.PushInOrder(time, ++pushed);
      } else {
        queue.Push(time, ++pushed);
      }
      pending.emplace_back(time, pushed);
      continue;
    }
    if (pending.empty()) continue;
    const auto first =
        std::min_element(pending.begin(), pending.end(), earlier);
    ties += std::count_if(first + 1, pending.end(), [&](const Pending& p) {
              return p.first == first->first;
            }) > 0;
    ASSERT_EQ(queue.next_time(), first->first);
    ASSERT_EQ(queue.Pop(), first->second);
    pending.erase(first);
  }
  std::stable_sort(pending.begin(), pending.end(), earlier);
  for (const Pending& next : pending) ASSERT_EQ(queue.Pop(), next.second);
  EXPECT_TRUE(queue.empty());
  EXPECT_GT(ties, 4'000);
}

}  // namespace
}  // namespace snf
