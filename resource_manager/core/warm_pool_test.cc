// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/warm_pool.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"

namespace snf {
namespace {

using State = WarmPool::State;
using Action = WarmPool::Action;
using Kind = Action::Kind;

constexpr Instant kBegin{1'000'000'000'000};

// A pool whose first processes are there.
WarmPool ReadyPool(uint32_t places, uint32_t parked) {
  WarmPool pool({.places = places, .parked = parked});
  for (uint32_t i = 0; i < parked; ++i) EXPECT_FALSE(pool.on_ready(i));
  return pool;
}

TEST(WarmPool, StartsAUnitInAParkedProcessAndPreparesTheNext) {
  WarmPool pool = ReadyPool(4, 1);
  EXPECT_EQ(pool.Next(kBegin), std::nullopt);
  EXPECT_TRUE(pool.Use(kBegin, 0));
  EXPECT_EQ(pool.state(0), State::kUsed);
  EXPECT_EQ(pool.Next(kBegin), (Action{Kind::kStart, 1}));
  EXPECT_EQ(pool.Next(kBegin), std::nullopt);  // one at a time
  EXPECT_FALSE(pool.on_ready(1));
  EXPECT_EQ(pool.state(1), State::kParked);
  EXPECT_EQ(pool.Next(kBegin), std::nullopt);
}

TEST(WarmPool, AUnitWithoutAParkedProcessWaitsForANewOne) {
  WarmPool pool = ReadyPool(4, 0);
  EXPECT_FALSE(pool.Use(kBegin, 2));
  EXPECT_TRUE(pool.is_awaited(2));
  EXPECT_EQ(pool.Next(kBegin), (Action{Kind::kStart, 2}));
  EXPECT_EQ(pool.Next(kBegin), std::nullopt);
  EXPECT_TRUE(pool.on_ready(2));
  EXPECT_EQ(pool.state(2), State::kUsed);
  EXPECT_FALSE(pool.is_awaited(2));
}

// What is awaited does not wait until what is only prepared is there.
TEST(WarmPool, WhatIsAwaitedIsStartedBesideWhatIsPrepared) {
  WarmPool pool = ReadyPool(4, 1);
  EXPECT_TRUE(pool.Use(kBegin, 0));
  EXPECT_EQ(pool.Next(kBegin), (Action{Kind::kStart, 1}));
  EXPECT_FALSE(pool.Use(kBegin, 3));
  EXPECT_EQ(pool.Next(kBegin), (Action{Kind::kStart, 3}));
}

TEST(WarmPool, AUnitTakesOverAProcessThatIsComing) {
  WarmPool pool({.places = 2, .parked = 1});
  EXPECT_FALSE(pool.Use(kBegin, 0));
  EXPECT_TRUE(pool.on_ready(0));
  EXPECT_EQ(pool.state(0), State::kUsed);
}

// Two starts within a second want two parked; a second later one is enough.
TEST(WarmPool, FollowsTheLoadWithinBounds) {
  WarmPool pool = ReadyPool(16, 1);
  EXPECT_TRUE(pool.Use(kBegin, 0));
  EXPECT_FALSE(pool.Use(kBegin + Milliseconds(500), 1));
  EXPECT_EQ(pool.target(kBegin + Milliseconds(999)), 2u);
  EXPECT_EQ(pool.target(kBegin + Milliseconds(1'000)), 1u);
  EXPECT_EQ(pool.target(kBegin + Seconds(10)), 1u);
  for (int i = 0; i < 20; ++i) pool.Use(kBegin + Seconds(20), 0);
  EXPECT_EQ(pool.target(kBegin + Seconds(20)), WarmPool::kMostTimes);
}

TEST(WarmPool, WhatRestsIsParkedAndTheLastOfTooManyEnds) {
  WarmPool pool = ReadyPool(4, 1);
  EXPECT_TRUE(pool.Use(kBegin, 0));
  ASSERT_EQ(pool.Next(kBegin), (Action{Kind::kStart, 1}));
  pool.on_ready(1);
  const Instant later = kBegin + Seconds(5);
  pool.Rest(0);
  EXPECT_EQ(pool.Next(later), (Action{Kind::kEnd, 1}));
  EXPECT_EQ(pool.Next(later), std::nullopt);
  EXPECT_EQ(pool.state(0), State::kParked);
  // It is wanted again before it has ended.
  EXPECT_FALSE(pool.Use(later, 1));
  EXPECT_EQ(pool.Next(later), std::nullopt);
  pool.on_end(1);
  EXPECT_EQ(pool.Next(later), (Action{Kind::kStart, 1}));
}

TEST(WarmPool, OfNoneParkedAllEndThatRest) {
  WarmPool pool = ReadyPool(2, 0);
  EXPECT_FALSE(pool.Use(kBegin, 0));
  ASSERT_EQ(pool.Next(kBegin), (Action{Kind::kStart, 0}));
  EXPECT_TRUE(pool.on_ready(0));
  EXPECT_EQ(pool.Next(kBegin), std::nullopt);
  pool.Rest(0);
  EXPECT_EQ(pool.Next(kBegin), (Action{Kind::kEnd, 0}));
}

TEST(WarmPool, OnceClosedOnlyWhatIsAwaitedIsStarted) {
  WarmPool pool = ReadyPool(4, 2);
  pool.Close();
  EXPECT_TRUE(pool.Use(kBegin, 0));
  EXPECT_EQ(pool.Next(kBegin), std::nullopt);
  EXPECT_FALSE(pool.Use(kBegin, 3));
  EXPECT_EQ(pool.Next(kBegin), (Action{Kind::kStart, 3}));
  pool.on_ready(3);
  pool.Rest(0);
  pool.Rest(3);
  EXPECT_EQ(pool.Next(kBegin + Seconds(9)), std::nullopt);
}

// Whatever happens: each start and each end is asked for once, no more are
// parked for long than may be, and every unit gets its process.
TEST(WarmPool, PreparesNoneAtAShutPlaceButForAUnit) {
  WarmPool pool = ReadyPool(4, 1);
  EXPECT_TRUE(pool.Use(kBegin, 0));
  pool.Shut(1, true);
  EXPECT_EQ(pool.Next(kBegin), (Action{Kind::kStart, 2}));
  EXPECT_FALSE(pool.Use(kBegin, 1));
  EXPECT_EQ(pool.Next(kBegin), (Action{Kind::kStart, 1}));
}

TEST(WarmPool, PreparesAndEndsTheProcessOfAPlaceThatIsNamed) {
  WarmPool pool = ReadyPool(4, 1);
  EXPECT_EQ(pool.Prepare(3), (Action{Kind::kStart, 3}));
  EXPECT_FALSE(pool.on_ready(3));
  EXPECT_EQ(pool.End(0), (Action{Kind::kEnd, 0}));
  EXPECT_EQ(pool.Next(kBegin), std::nullopt);  // 3 is parked
  pool.on_end(0);
  EXPECT_EQ(pool.state(0), State::kNone);
}

TEST(WarmPool, RandomLivesKeepTheRules) {
  for (const uint64_t seed : TestSeeds(200, 5'000).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const auto places = static_cast<uint32_t>(rng.Uniform(1, 9));
    const auto parked = static_cast<uint32_t>(rng.Below(5));
    WarmPool pool({.places = places, .parked = parked});
    Instant now = kBegin;
    std::vector<bool> wanted(places);
    const auto act = [&] {
      while (const auto action = pool.Next(now)) {
        ASSERT_EQ(pool.state(action->place), action->kind == Kind::kStart
                                                 ? State::kComing
                                                 : State::kEnding);
        ASSERT_FALSE(action->kind == Kind::kEnd && wanted[action->place]);
      }
    };
    for (int step = 0; step < 300; ++step) {
      now = now + Milliseconds(static_cast<int64_t>(rng.Below(400)));
      const size_t place = rng.Below(places);
      switch (pool.state(place)) {
        case State::kNone:
        case State::kParked:
          wanted[place] = true;
          pool.Use(now, place);
          break;
        case State::kComing:
          ASSERT_EQ(pool.on_ready(place), wanted[place]);
          break;
        case State::kUsed:
          wanted[place] = false;
          pool.Rest(place);
          break;
        case State::kEnding:
          if (rng.Chance(32'768)) {
            wanted[place] = true;
            EXPECT_FALSE(pool.Use(now, place));
          } else {
            pool.on_end(place);
          }
          break;
      }
      act();
    }
    // All that is wanted comes.
    for (size_t place = 0; place < places; ++place) {
      if (pool.state(place) == State::kEnding) pool.on_end(place);
      act();
      if (pool.state(place) == State::kComing) pool.on_ready(place);
      ASSERT_EQ(pool.state(place) == State::kUsed, wanted[place]) << place;
    }
    now = now + Seconds(5);
    act();
    EXPECT_LE(pool.count(State::kParked), parked);
  }
}

}  // namespace
}  // namespace snf
