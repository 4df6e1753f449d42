// SPDX-License-Identifier: Apache-2.0
#include "base/timing_wheel.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kTick = int64_t{1} << TimingWheel::kTickShift;
constexpr int64_t kYear = int64_t{366} * 86'400 * 1'000'000'000;
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
// By the header's contract each level is opened at most once in a gap.
constexpr int kLevels = 9;

Instant At(int64_t ns) { return Instant{ns}; }

std::vector<uint32_t> PopAll(TimingWheel& wheel, Instant now) {
  std::vector<uint32_t> nodes;
  for (uint32_t node = wheel.PopDue(now); node != TimingWheel::kNone;
       node = wheel.PopDue(now)) {
    nodes.push_back(node);
  }
  return nodes;
}

TEST(TimingWheel, HasNothingDueWhenNothingIsArmed) {
  TimingWheel wheel(4);
  EXPECT_EQ(wheel.next_wakeup(), Instant::max());
  EXPECT_THAT(PopAll(wheel, Instant::max()), IsEmpty());
  EXPECT_FALSE(wheel.armed(3));
}

TEST(TimingWheel, IsDueAtTheFirstTickThatIsNotBefore) {
  TimingWheel wheel(2);
  wheel.Arm(0, At(3 * kTick));
  wheel.Arm(1, At(3 * kTick + 1));
  EXPECT_THAT(PopAll(wheel, At(3 * kTick - 1)), IsEmpty());
  EXPECT_THAT(PopAll(wheel, At(3 * kTick)), ElementsAre(0));
  EXPECT_FALSE(wheel.armed(0));
  EXPECT_TRUE(wheel.armed(1));
  EXPECT_THAT(PopAll(wheel, At(4 * kTick - 1)), IsEmpty());
  EXPECT_THAT(PopAll(wheel, At(4 * kTick)), ElementsAre(1));
}

TEST(TimingWheel, FallsFromLevelOneAsInTheWorkedExample) {
  TimingWheel wheel(1);
  EXPECT_THAT(PopAll(wheel, At(100 * kTick)), IsEmpty());
  wheel.Arm(0, At(130 * kTick));
  EXPECT_EQ(wheel.next_wakeup(), At(128 * kTick));
  EXPECT_THAT(PopAll(wheel, wheel.next_wakeup()), IsEmpty());
  EXPECT_EQ(wheel.next_wakeup(), At(130 * kTick));
  EXPECT_THAT(PopAll(wheel, wheel.next_wakeup()), ElementsAre(0));
}

TEST(TimingWheel, GivesNodesOfOneTickInTheOrderOfArming) {
  TimingWheel wheel(4);
  PopAll(wheel, At(0));
  wheel.Arm(3, At(100 * kTick));  // from level one
  wheel.Arm(1, At(100 * kTick));
  PopAll(wheel, At(70 * kTick));
  wheel.Arm(0, At(100 * kTick));  // straight to level zero
  wheel.Arm(2, At(99 * kTick));
  EXPECT_THAT(PopAll(wheel, At(100 * kTick)), ElementsAre(2, 3, 1, 0));
}

TEST(TimingWheel, TakesOnlyTheLastArmingOfANode) {
  TimingWheel wheel(3);
  wheel.Arm(0, At(5 * kTick));
  wheel.Arm(1, At(5 * kTick));
  wheel.Arm(2, At(5 * kTick));
  wheel.Arm(0, At(500 * kTick));
  wheel.Arm(1, Instant::max());
  EXPECT_FALSE(wheel.armed(1));
  EXPECT_THAT(PopAll(wheel, At(5 * kTick)), ElementsAre(2));
  wheel.Arm(0, At(6 * kTick));
  EXPECT_THAT(PopAll(wheel, At(6 * kTick)), ElementsAre(0));
  EXPECT_THAT(PopAll(wheel, At(1'000 * kTick)), IsEmpty());
}

TEST(TimingWheel, ForgetsADisarmedNode) {
  TimingWheel wheel(3);
  for (uint32_t node = 0; node < 3; ++node) wheel.Arm(node, At(9 * kTick));
  wheel.Disarm(1);
  wheel.Disarm(1);
  EXPECT_FALSE(wheel.armed(1));
  EXPECT_THAT(PopAll(wheel, At(9 * kTick)), ElementsAre(0, 2));
  EXPECT_EQ(wheel.next_wakeup(), Instant::max());
}

TEST(TimingWheel, HasATimeThatHasPassedDueAtOnce) {
  TimingWheel wheel(3);
  PopAll(wheel, At(1'000 * kTick));
  wheel.Arm(0, At(1'000 * kTick));
  wheel.Arm(1, At(0));
  wheel.Arm(2, Instant::min());
  EXPECT_LE(wheel.next_wakeup(), At(1'000 * kTick));
  EXPECT_THAT(PopAll(wheel, At(1'000 * kTick)), ElementsAre(0, 1, 2));
}

TEST(TimingWheel, FindsNothingNewAtAnEarlierTime) {
  TimingWheel wheel(2);
  PopAll(wheel, At(50 * kTick));
  wheel.Arm(0, At(51 * kTick));
  wheel.Arm(1, At(10 * kTick));
  EXPECT_THAT(PopAll(wheel, At(20 * kTick)), IsEmpty());
  EXPECT_THAT(PopAll(wheel, At(50 * kTick)), ElementsAre(1));
  EXPECT_THAT(PopAll(wheel, At(51 * kTick)), ElementsAre(0));
}

TEST(TimingWheel, HasNothingDueBehindTheLastTick) {
  constexpr int64_t kLast = kMax - kTick + 1;
  TimingWheel wheel(1);
  for (const int64_t due : {kMax, kMax - 1, kLast + 1}) {
    wheel.Arm(0, At(kLast));
    wheel.Arm(0, At(due));
    EXPECT_FALSE(wheel.armed(0)) << due;
    EXPECT_EQ(wheel.next_wakeup(), Instant::max());
    EXPECT_THAT(PopAll(wheel, At(kLast - 1)), IsEmpty());
  }
  wheel.Arm(0, At(kLast));
  EXPECT_THAT(PopAll(wheel, Instant::max()), ElementsAre(0));
  wheel.Arm(0, At(kMax));
  EXPECT_THAT(PopAll(wheel, Instant::max()), IsEmpty());
}

TEST(TimingWheel, SpansEveryTime) {
  TimingWheel wheel(5);
  wheel.Arm(4, At(kMax - 5 * kTick));
  wheel.Arm(0, At(kMin));
  wheel.Arm(2, At(0));
  wheel.Arm(3, At(1));
  wheel.Arm(1, At(-1));
  EXPECT_EQ(wheel.next_wakeup(), At(kMin));
  EXPECT_THAT(PopAll(wheel, At(kMin)), ElementsAre(0));
  EXPECT_THAT(PopAll(wheel, At(-1)), IsEmpty());
  EXPECT_THAT(PopAll(wheel, At(0)), ElementsAre(2, 1));
  EXPECT_THAT(PopAll(wheel, At(kYear)), ElementsAre(3));
  EXPECT_THAT(PopAll(wheel, Instant::max()), ElementsAre(4));
}

TEST(TimingWheel, WakesAtMostOnceALevelOverAGapOfYears) {
  Rng rng(11);
  int most = 0;
  for (int round = 0; round < 2'000; ++round) {
    TimingWheel wheel(1);
    const int64_t start = rng.Uniform(-100 * kYear, 100 * kYear);
    const int64_t gap = rng.Uniform(0, 150 * kYear) >> rng.Below(62);
    PopAll(wheel, At(start));
    wheel.Arm(0, At(start + gap));
    int wakeups = 0;
    Instant last = Instant::min();
    for (bool popped = false; !popped; ++wakeups) {
      const Instant wake = wheel.next_wakeup();
      ASSERT_GE(wake, last);
      ASSERT_LE(wake, At(start + gap + kTick));
      popped = wheel.PopDue(wake) == 0;
      last = wake;
    }
    ASSERT_LE(wakeups, kLevels);
    ASSERT_GE(last, At(start + gap));
    most = std::max(most, wakeups);
  }
  std::cout << "seed 11: at most " << most << " wake-ups for one timer\n";
  EXPECT_GE(most, 5);
}

TEST(TimingWheel, IsAValue) {
  TimingWheel wheel(2);
  wheel.Arm(0, At(7 * kTick));
  TimingWheel copy = wheel;
  copy.Arm(1, At(6 * kTick));
  EXPECT_THAT(PopAll(copy, At(7 * kTick)), ElementsAre(1, 0));
  EXPECT_THAT(PopAll(wheel, At(7 * kTick)), ElementsAre(0));
}

// Does what the wheel's contract says, with a std::multimap: nodes by tick,
// those of one tick in the order of arming.
class ReferenceWheel {
 public:
  using Tick = __int128;

  void Arm(uint32_t node, Instant due) {
    Disarm(node);
    // Floor, then one more unless that is exact; the last tick has no next.
    Tick tick = Floor(due);
    if (tick * kTick < Tick{due.ns}) ++tick;
    if (tick > Floor(Instant::max())) return;
    places_[node] = order_.emplace(std::max(tick, now_), node);
  }
  void Disarm(uint32_t node) {
    const auto it = places_.find(node);
    if (it == places_.end()) return;
    order_.erase(it->second);
    places_.erase(it);
  }
  uint32_t PopDue(Instant now) {
    if (order_.empty() || order_.begin()->first > Floor(now)) {
      now_ = std::max(now_, Floor(now));
      return TimingWheel::kNone;
    }
    const auto [tick, node] = *order_.begin();
    now_ = std::max(now_, tick);
    Disarm(node);
    return node;
  }
  bool empty() const { return order_.empty(); }
  bool armed(uint32_t node) const { return places_.count(node) != 0; }
  // Returns the time at which the first node is due.
  Instant FirstDue() const {
    return At(static_cast<int64_t>(order_.begin()->first * kTick));
  }

 private:
  static Tick Floor(Instant t) { return Tick{t.ns} >> TimingWheel::kTickShift; }

  Tick now_ = Floor(Instant::min());
  std::multimap<Tick, uint32_t> order_;
  std::map<uint32_t, std::multimap<Tick, uint32_t>::iterator> places_;
};

struct WheelTotals {
  uint64_t armed = 0;
  uint64_t armed_again = 0;
  uint64_t disarmed = 0;
  uint64_t popped = 0;
  uint64_t past = 0;
  uint64_t gaps_of_years = 0;
  uint64_t wakeups = 0;
};

class WheelComparison {
 public:
  WheelComparison(Rng& rng, WheelTotals& totals)
      : rng_(rng),
        totals_(totals),
        nodes_(static_cast<uint32_t>(rng.Uniform(1, 60))),
        wheel_(nodes_),
        now_(At(rng.Below(4) == 0 ? kMin : rng.Uniform(kMin, kMax))) {}

  void Run() {
    for (int step = 0; step < 300 && !::testing::Test::HasFatalFailure();
         ++step) {
      const auto node = static_cast<uint32_t>(rng_.Below(nodes_));
      switch (rng_.Below(8)) {
        case 0:
          totals_.disarmed += wheel_.armed(node) ? 1 : 0;
          wheel_.Disarm(node);
          reference_.Disarm(node);
          break;
        case 1:
          Advance(now_ + Span());
          break;
        case 2:
          if (!reference_.empty()) Advance(wheel_.next_wakeup());
          break;
        default:
          Arm(node);
      }
      CheckWakeup();
      ASSERT_EQ(wheel_.armed(node), reference_.armed(node));
    }
    Advance(Instant::max());
  }

 private:
  // Returns a span from nanoseconds to centuries; all magnitudes are equally
  // likely.
  Nanos Span() {
    return {static_cast<int64_t>(rng_.Next() >> (1 + rng_.Below(62)))};
  }

  void Arm(uint32_t node) {
    Instant due = rng_.Below(16) == 0 ? Instant::max() : now_ + Span();
    if (rng_.Below(4) == 0) due = now_ + Nanos{-Span().ns};
    // Many nodes share a tick.
    if (rng_.Below(4) == 0) due = now_ + Nanos{rng_.Uniform(0, 100'000)};
    totals_.armed += 1;
    totals_.armed_again += wheel_.armed(node) ? 1 : 0;
    totals_.past += due < now_ ? 1 : 0;
    wheel_.Arm(node, due);
    reference_.Arm(node, due);
  }

  void Advance(Instant now) {
    totals_.gaps_of_years += now - now_ > Nanos{kYear} ? 1 : 0;
    now_ = std::max(now_, now);
    while (true) {
      const uint32_t expected = reference_.PopDue(now_);
      ASSERT_EQ(wheel_.PopDue(now_), expected);
      if (expected == TimingWheel::kNone) break;
      ++totals_.popped;
      // A timer may be armed again from within.
      if (rng_.Below(8) == 0) Arm(expected);
    }
  }

  void CheckWakeup() {
    if (reference_.empty()) {
      ASSERT_EQ(wheel_.next_wakeup(), Instant::max());
      return;
    }
    ASSERT_LE(wheel_.next_wakeup(), reference_.FirstDue());
    // On a copy: waking whenever asked to comes to the first node.
    if (rng_.Below(8) != 0) return;
    TimingWheel copy = wheel_;
    int wakeups = 1;
    while (copy.PopDue(copy.next_wakeup()) == TimingWheel::kNone) ++wakeups;
    ASSERT_LE(wakeups, kLevels);
    totals_.wakeups += static_cast<uint64_t>(wakeups);
  }

  Rng& rng_;
  WheelTotals& totals_;
  uint32_t nodes_;
  TimingWheel wheel_;
  ReferenceWheel reference_;
  Instant now_;
};

TEST(TimingWheel, AgreesWithAMultimapOverRandomWork) {
  WheelTotals totals;
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    Rng rng(seed);
    WheelComparison(rng, totals).Run();
    if (HasFatalFailure()) {
      std::cout << "seed " << seed << "\n";
      return;
    }
  }
  std::cout << "seeds 1-1000: armed " << totals.armed << " ("
            << totals.armed_again << " again, " << totals.past
            << " in the past), disarmed " << totals.disarmed << ", popped "
            << totals.popped << ", gaps of years " << totals.gaps_of_years
            << ", wake-ups " << totals.wakeups << "\n";
  EXPECT_GT(totals.armed, 100'000u);
  EXPECT_GT(totals.armed_again, 20'000u);
  EXPECT_GT(totals.past, 10'000u);
  EXPECT_GT(totals.disarmed, 5'000u);
  EXPECT_GT(totals.popped, 30'000u);
  EXPECT_GT(totals.gaps_of_years, 1'000u);
  EXPECT_GT(totals.wakeups, 10'000u);
}

}  // namespace
}  // namespace snf
