// SPDX-License-Identifier: Apache-2.0
#include "controller/recovery/owner_history.h"

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

// Compares run by run, so that a failure names the run.
void ExpectRuns(const OwnerHistory& owners, uint32_t slot,
                const std::deque<NaiveRun>& runs) {
  ASSERT_EQ(owners.runs(slot), runs.size()) << "slot " << slot;
  for (uint32_t i = 0; i < runs.size(); ++i) {
    const OwnerHistory::Run run = owners.run(slot, i);
    ASSERT_EQ(run.first, Clock{runs[i].first}) << "slot " << slot << " " << i;
    ASSERT_EQ(run.last, Clock{runs[i].last}) << "slot " << slot << " " << i;
    ASSERT_EQ(run.unit, runs[i].unit) << "slot " << slot << " " << i;
  }
}

TEST(OwnerHistory, KeepsTheRunsThatAreNotTaken) {
  OwnerHistory owners(2, 8);
  EXPECT_EQ(owners.runs(1), 0u);
  owners.Add(1, Clock{4}, kU0);
  owners.Add(1, Clock{6}, kU2);
  ExpectRuns(owners, 1, {{1, 4, kU0}, {5, 6, kU2}});
  ExpectRuns(owners, 0, {});
  owners.RemoveBefore(1, Clock{4});  // clock 4 ran at unit 0 itself
  ExpectRuns(owners, 1, {{1, 4, kU0}, {5, 6, kU2}});
  owners.RemoveBefore(1, Clock{5});
  ExpectRuns(owners, 1, {{5, 6, kU2}});
  owners.RemoveBefore(1, Clock{7});
  ExpectRuns(owners, 1, {});
  EXPECT_EQ(owners.size(), 0u);
}

TEST(OwnerHistory, ForgetsNothingTwiceOnALateTook) {
  OwnerHistory owners(1, 8);
  owners.RemoveBefore(0, Clock{9});
  owners.Add(0, Clock{4}, kU0);
  owners.Add(0, Clock{6}, kU1);
  owners.RemoveBefore(0, Clock{6});
  owners.RemoveBefore(0, Clock{5});
  owners.RemoveBefore(0, Clock{6});
  ExpectRuns(owners, 0, {{5, 6, kU1}});
}

TEST(OwnerHistory, BeginsWithClockOneWhereNoRunIsLeft) {
  OwnerHistory owners(1, 8);
  owners.Add(0, Clock{4}, kU0);
  owners.RemoveBefore(0, Clock{5});
  owners.Add(0, Clock{9}, kU1);
  ExpectRuns(owners, 0, {{1, 9, kU1}});
}

TEST(OwnerHistory, ForgetsTheFlowsOwnOldestRunWhereThereIsNoRoom) {
  OwnerHistory owners(2, 3);
  owners.Add(0, Clock{4}, kU0);
  owners.Add(1, Clock{2}, kU2);
  owners.Add(0, Clock{6}, kU1);
  EXPECT_EQ(owners.forgotten(), 0u);
  owners.Add(0, Clock{7}, kU2);
  ExpectRuns(owners, 0, {{5, 6, kU1}, {7, 7, kU2}});
  ExpectRuns(owners, 1, {{1, 2, kU2}});
  owners.Add(1, Clock{8}, kU0);
  ExpectRuns(owners, 1, {{3, 8, kU0}});
  EXPECT_EQ(owners.size(), 3u);
  EXPECT_EQ(owners.forgotten(), 2u);
}

TEST(OwnerHistory, DoesNothingForAFlowWithoutRunsWhereThereIsNoRoom) {
  OwnerHistory owners(2, 1);
  owners.Add(0, Clock{4}, kU0);
  owners.Add(1, Clock{5}, kU1);
  ExpectRuns(owners, 0, {{1, 4, kU0}});
  ExpectRuns(owners, 1, {});
  EXPECT_EQ(owners.forgotten(), 1u);
  owners.Erase(0);
  owners.Add(1, Clock{7}, kU2);
  ExpectRuns(owners, 1, {{1, 7, kU2}});
  OwnerHistory without_room(1, 0);
  without_room.Add(0, Clock{1}, kU0);
  ExpectRuns(without_room, 0, {});
  EXPECT_EQ(without_room.forgotten(), 1u);
}

TEST(OwnerHistory, IsAValue) {
  OwnerHistory owners(1, 8);
  owners.Add(0, Clock{4}, kU0);
  OwnerHistory copy = owners;
  copy.Add(0, Clock{5}, kU1);
  owners.RemoveBefore(0, Clock{5});
  ExpectRuns(owners, 0, {});
  ExpectRuns(copy, 0, {{1, 4, kU0}, {5, 5, kU1}});
}

TEST(OwnerHistoryDeathTest, RefusesClocksThatDoNotAscend) {
  OwnerHistory owners(1, 8);
  EXPECT_DEATH(owners.Add(0, Clock{}, kU0), "last > before");
  owners.Add(0, Clock{4}, kU0);
  EXPECT_DEATH(owners.Add(0, Clock{4}, kU1), "last > before");
}

// An OwnerHistory and its naive model, with flows whose clocks ascend.
class RandomHistory {
 public:
  RandomHistory(uint64_t seed, uint32_t flows, uint32_t max_runs)
      : rng_(seed),
        max_runs_(max_runs),
        owners_(flows, max_runs),
        naive_(flows),
        clocks_(flows) {}

  void Step() {
    const auto slot = static_cast<uint32_t>(rng_.Below(naive_.size()));
    const uint64_t what = rng_.Below(100);
    if (what < 50) {
      Add(slot);
    } else if (what < 96) {
      RemoveBefore(slot);
    } else {
      owners_.Erase(slot);
      size_ -= naive_[slot].size();
      naive_[slot].clear();
      clocks_[slot] = 0;
    }
    ASSERT_EQ(owners_.size(), size_);
    ASSERT_EQ(owners_.forgotten(), forgotten_);
    ExpectRuns(owners_, slot, naive_[slot]);
  }

  void ExpectAllRuns() const {
    for (uint32_t slot = 0; slot < naive_.size(); ++slot) {
      ExpectRuns(owners_, slot, naive_[slot]);
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
    owners_.Add(slot, Clock{clocks_[slot]}, unit);
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

  void RemoveBefore(uint32_t slot) {
    std::deque<NaiveRun>& runs = naive_[slot];
    // The clock is mostly late in the flow, as in reality.
    const uint64_t clock =
        clocks_[slot] + 1 - std::min(rng_.Below(9), clocks_[slot]);
    owners_.RemoveBefore(slot, Clock{clock});
    while (!runs.empty() && runs.front().last < clock) {
      runs.pop_front();
      --size_;
      ++taken_;
    }
  }

  Rng rng_;
  uint32_t max_runs_;
  OwnerHistory owners_;
  std::vector<std::deque<NaiveRun>> naive_;
  std::vector<uint64_t> clocks_;
  size_t size_ = 0;
  size_t longest_ = 0;
  uint64_t forgotten_ = 0;
  uint64_t taken_ = 0;
};

TEST(OwnerHistory, EqualsANaiveModel) {
  constexpr uint64_t kSeed = 23;
  struct Case {
    uint32_t flows, max_runs;
    bool overflows;
  };
  for (const Case& c : {Case{1, 1, true}, Case{1, 4, true}, Case{10, 5, true},
                        Case{100, 120, true}, Case{100, 20'000, false}}) {
    RandomHistory random(kSeed, c.flows, c.max_runs);
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
