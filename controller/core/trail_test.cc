// SPDX-License-Identifier: Apache-2.0
#include "controller/core/trail.h"

#include <algorithm>
#include <deque>
#include <iostream>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr UnitId kU0{0}, kU1{1}, kU2{2};

struct NaiveRun {
  uint64_t first, last;
  UnitId unit;
};

// Run by run, since a failure should name the run.
void ExpectRuns(const Trail& trail, uint32_t slot,
                const std::deque<NaiveRun>& runs) {
  ASSERT_EQ(trail.runs(slot), runs.size()) << "slot " << slot;
  for (uint32_t i = 0; i < runs.size(); ++i) {
    const Trail::Run run = trail.run(slot, i);
    ASSERT_EQ(run.first, Clock{runs[i].first}) << "slot " << slot << " " << i;
    ASSERT_EQ(run.last, Clock{runs[i].last}) << "slot " << slot << " " << i;
    ASSERT_EQ(run.unit, runs[i].unit) << "slot " << slot << " " << i;
  }
}

TEST(Trail, KeepsTheRunsThatAreNotTaken) {
  Trail trail(2, 8);
  EXPECT_EQ(trail.runs(1), 0u);
  trail.Add(1, Clock{4}, kU0);
  trail.Add(1, Clock{6}, kU2);
  ExpectRuns(trail, 1, {{1, 4, kU0}, {5, 6, kU2}});
  ExpectRuns(trail, 0, {});
  trail.Took(1, Clock{4});  // clock 4 ran at unit 0 itself
  ExpectRuns(trail, 1, {{1, 4, kU0}, {5, 6, kU2}});
  trail.Took(1, Clock{5});
  ExpectRuns(trail, 1, {{5, 6, kU2}});
  trail.Took(1, Clock{7});
  ExpectRuns(trail, 1, {});
  EXPECT_EQ(trail.size(), 0u);
}

TEST(Trail, ForgetsNothingTwiceOnALateTook) {
  Trail trail(1, 8);
  trail.Took(0, Clock{9});
  trail.Add(0, Clock{4}, kU0);
  trail.Add(0, Clock{6}, kU1);
  trail.Took(0, Clock{6});
  trail.Took(0, Clock{5});
  trail.Took(0, Clock{6});
  ExpectRuns(trail, 0, {{5, 6, kU1}});
}

TEST(Trail, BeginsWithClockOneWhereNoRunIsLeft) {
  Trail trail(1, 8);
  trail.Add(0, Clock{4}, kU0);
  trail.Took(0, Clock{5});
  trail.Add(0, Clock{9}, kU1);
  ExpectRuns(trail, 0, {{1, 9, kU1}});
}

TEST(Trail, ForgetsTheFlowsOwnOldestRunWhereThereIsNoRoom) {
  Trail trail(2, 3);
  trail.Add(0, Clock{4}, kU0);
  trail.Add(1, Clock{2}, kU2);
  trail.Add(0, Clock{6}, kU1);
  EXPECT_EQ(trail.forgotten(), 0u);
  trail.Add(0, Clock{7}, kU2);
  ExpectRuns(trail, 0, {{5, 6, kU1}, {7, 7, kU2}});
  ExpectRuns(trail, 1, {{1, 2, kU2}});
  trail.Add(1, Clock{8}, kU0);
  ExpectRuns(trail, 1, {{3, 8, kU0}});
  EXPECT_EQ(trail.size(), 3u);
  EXPECT_EQ(trail.forgotten(), 2u);
}

TEST(Trail, DoesNothingForAFlowWithoutRunsWhereThereIsNoRoom) {
  Trail trail(2, 1);
  trail.Add(0, Clock{4}, kU0);
  trail.Add(1, Clock{5}, kU1);
  ExpectRuns(trail, 0, {{1, 4, kU0}});
  ExpectRuns(trail, 1, {});
  EXPECT_EQ(trail.forgotten(), 1u);
  trail.Erase(0);
  trail.Add(1, Clock{7}, kU2);
  ExpectRuns(trail, 1, {{1, 7, kU2}});
  Trail without_room(1, 0);
  without_room.Add(0, Clock{1}, kU0);
  ExpectRuns(without_room, 0, {});
  EXPECT_EQ(without_room.forgotten(), 1u);
}

TEST(Trail, IsAValue) {
  Trail trail(1, 8);
  trail.Add(0, Clock{4}, kU0);
  Trail copy = trail;
  copy.Add(0, Clock{5}, kU1);
  trail.Took(0, Clock{5});
  ExpectRuns(trail, 0, {});
  ExpectRuns(copy, 0, {{1, 4, kU0}, {5, 5, kU1}});
}

TEST(TrailDeathTest, RefusesClocksThatDoNotAscend) {
  Trail trail(1, 8);
  EXPECT_DEATH(trail.Add(0, Clock{}, kU0), "last > before");
  trail.Add(0, Clock{4}, kU0);
  EXPECT_DEATH(trail.Add(0, Clock{4}, kU1), "last > before");
}

// A trail and its naive model, with flows whose clocks ascend.
class RandomTrail {
 public:
  RandomTrail(uint64_t seed, uint32_t flows, uint32_t max_runs)
      : rng_(seed),
        max_runs_(max_runs),
        trail_(flows, max_runs),
        naive_(flows),
        clocks_(flows) {}

  void Step() {
    const auto slot = static_cast<uint32_t>(rng_.Below(naive_.size()));
    const uint64_t what = rng_.Below(100);
    if (what < 50) {
      Add(slot);
    } else if (what < 96) {
      Took(slot);
    } else {
      trail_.Erase(slot);
      size_ -= naive_[slot].size();
      naive_[slot].clear();
      clocks_[slot] = 0;
    }
    ASSERT_EQ(trail_.size(), size_);
    ASSERT_EQ(trail_.forgotten(), forgotten_);
    ExpectRuns(trail_, slot, naive_[slot]);
  }

  void ExpectAllRuns() const {
    for (uint32_t slot = 0; slot < naive_.size(); ++slot) {
      ExpectRuns(trail_, slot, naive_[slot]);
    }
  }
  uint64_t forgotten() const { return forgotten_; }
  uint64_t taken() const { return taken_; }
  size_t longest() const { return longest_; }

 private:
  void Add(uint32_t slot) {
    std::deque<NaiveRun>& runs = naive_[slot];
    clocks_[slot] += 1 + rng_.Below(5);
    const UnitId unit{static_cast<uint16_t>(rng_.Below(9))};
    trail_.Add(slot, Clock{clocks_[slot]}, unit);
    const uint64_t first = runs.empty() ? 1 : runs.back().last + 1;
    if (size_ == max_runs_) {
      ++forgotten_;
      if (runs.empty()) return;
      runs.pop_front();
      --size_;
    }
    runs.push_back({first, clocks_[slot], unit});
    ++size_;
    longest_ = std::max(longest_, runs.size());
  }

  void Took(uint32_t slot) {
    std::deque<NaiveRun>& runs = naive_[slot];
    // Mostly late in the flow, as in life.
    const uint64_t clock =
        clocks_[slot] + 1 - std::min(rng_.Below(9), clocks_[slot]);
    trail_.Took(slot, Clock{clock});
    while (!runs.empty() && runs.front().last < clock) {
      runs.pop_front();
      --size_;
      ++taken_;
    }
  }

  Rng rng_;
  uint32_t max_runs_;
  Trail trail_;
  std::vector<std::deque<NaiveRun>> naive_;
  std::vector<uint64_t> clocks_;
  size_t size_ = 0;
  size_t longest_ = 0;
  uint64_t forgotten_ = 0;
  uint64_t taken_ = 0;
};

TEST(Trail, EqualsANaiveModel) {
  constexpr uint64_t kSeed = 23;
  struct Case {
    uint32_t flows, max_runs;
    bool overflows;
  };
  for (const Case& c : {Case{1, 1, true}, Case{1, 4, true}, Case{10, 5, true},
                        Case{100, 120, true}, Case{100, 20'000, false}}) {
    RandomTrail random(kSeed, c.flows, c.max_runs);
    for (int i = 0; i < 20'000; ++i) {
      random.Step();
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << kSeed;
      if (i % 1'000 == 0) random.ExpectAllRuns();
    }
    random.ExpectAllRuns();
    std::cout << "seed " << kSeed << ", " << c.flows << " flows, room for "
              << c.max_runs << ": " << random.taken() << " taken, "
              << random.forgotten() << " forgotten, " << random.longest()
              << " at most of a flow\n";
    EXPECT_GT(random.taken(), 500u);
    EXPECT_EQ(random.forgotten() > 500, c.overflows);
  }
}

}  // namespace
}  // namespace snf
