// SPDX-License-Identifier: Apache-2.0
#include "base/inbox_scheduler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

// Inboxes with packets, of which only the costs are kept.
class Unit {
 public:
  explicit Unit(const std::vector<uint32_t>& shares)
      : scheduler(static_cast<uint32_t>(shares.size())),
        sent(shares.size()),
        queues_(shares.size()) {
    for (uint32_t i = 0; i < shares.size(); ++i) {
      scheduler.SetShare(i, shares[i]);
    }
  }
  void Put(uint32_t inbox, uint32_t cost) {
    queues_[inbox].push_back(cost);
    scheduler.Add(inbox);
  }
  void Drop(uint32_t inbox) {
    queues_[inbox].clear();
    scheduler.Remove(inbox);
  }
  uint32_t front(uint32_t inbox) const { return queues_[inbox].front(); }
  bool has(uint32_t inbox) const { return !queues_[inbox].empty(); }
  size_t waiting() const {
    return static_cast<size_t>(std::ranges::count_if(
        queues_, [](const auto& queue) { return !queue.empty(); }));
  }
  // Returns the inbox that a packet was served of.
  uint32_t Serve() {
    looks = 0;
    const uint32_t inbox = scheduler.Next([this](uint32_t i) {
      ++looks;
      EXPECT_FALSE(queues_[i].empty()) << "inbox " << i;
      return queues_[i].front();
    });
    if (inbox == InboxScheduler::kNone) return inbox;
    sent[inbox] += queues_[inbox].front();
    queues_[inbox].pop_front();
    if (queues_[inbox].empty()) scheduler.Remove(inbox);
    return inbox;
  }

  InboxScheduler scheduler;
  std::vector<int64_t> sent;
  uint64_t looks = 0;  // at costs, in the last Serve

 private:
  std::vector<std::deque<uint32_t>> queues_;
};

TEST(InboxScheduler, ServesInProportionToShares) {
  Rng rng(1);
  Unit unit({256, 768});
  for (int served = 0; served < 20'000; ++served) {
    // The smaller share has the larger packets.
    while (!unit.has(0)) {
      unit.Put(0, static_cast<uint32_t>(rng.Uniform(500, 1'500)));
    }
    while (!unit.has(1)) {
      unit.Put(1, static_cast<uint32_t>(rng.Uniform(60, 700)));
    }
    unit.Put(0, 1'000);
    unit.Put(1, 100);
    unit.Serve();
  }
  EXPECT_NEAR(
      static_cast<double>(unit.sent[1]) / static_cast<double>(unit.sent[0]), 3,
      0.06);
}

TEST(InboxScheduler, LendsAnIdleShareAndGivesItBackWithinARound) {
  Unit unit({512, 256, 256});
  for (int i = 0; i < 10'000; ++i) unit.Put(1, 1'000);
  for (int i = 0; i < 10'000; ++i) unit.Put(2, 1'000);
  for (int i = 0; i < 2'000; ++i) EXPECT_NE(unit.Serve(), 0u);
  EXPECT_NEAR(static_cast<double>(unit.sent[1]), 1e6, 2e3);
  EXPECT_NEAR(static_cast<double>(unit.sent[2]), 1e6, 2e3);
  // Its packet takes it two turns: the others send one each meanwhile at most.
  unit.Put(0, 1'000);
  int others = 0;
  while (unit.Serve() != 0) ++others;
  EXPECT_LE(others, 2);
  // It has no claim on what it did not use.
  for (int i = 0; i < 1'000; ++i) unit.Put(0, 1'000);
  const int64_t before = unit.sent[1] + unit.sent[2];
  unit.sent[0] = 0;
  for (int i = 0; i < 1'000; ++i) unit.Serve();
  EXPECT_NEAR(static_cast<double>(unit.sent[0]), 5e5, 2e3);
  EXPECT_NEAR(static_cast<double>(unit.sent[1] + unit.sent[2] - before), 5e5,
              2e3);
}

TEST(InboxScheduler, ServesOneAloneWhateverItsShare) {
  Unit unit({0, 1'024});
  EXPECT_EQ(unit.Serve(), InboxScheduler::kNone);
  for (int i = 0; i < 100; ++i) unit.Put(0, 1u << 30);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(unit.Serve(), 0u);
    EXPECT_EQ(unit.looks, 0u);
  }
  EXPECT_TRUE(unit.scheduler.empty());
  // A lease that ends is served at last beside a whole unit.
  unit.Put(0, 100);
  for (int i = 0; i < 1'000; ++i) unit.Put(1, 1'500);
  int others = 0;
  while (unit.Serve() != 0) ++others;
  EXPECT_NEAR(others, 100 * 1'024 / 1'500, 2);
}

// Of inboxes that have packets all along, none gets ahead of another by more
// than a round and a packet of each; and no service looks at more than each
// three times.
TEST(InboxScheduler, RandomInboxesKeepTheBounds) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const auto count = static_cast<uint32_t>(rng.Uniform(2, 12));
    std::vector<uint32_t> shares;
    std::vector<bool> steady;
    for (uint32_t i = 0; i < count; ++i) {
      shares.push_back(static_cast<uint32_t>(
          rng.Chance(6'000) ? 1 : rng.Uniform(1, 1'024 / count)));
      steady.push_back(i < 2 || rng.Chance(32'768));
    }
    const int64_t most = rng.Uniform(60, 60'000);
    Unit unit(shares);
    for (int step = 0; step < 3'000; ++step) {
      for (uint32_t i = 0; i < count; ++i) {
        if (steady[i] ? unit.has(i) : !rng.Chance(2'000)) continue;
        // Two, so that a steady one is not empty in between.
        unit.Put(i, static_cast<uint32_t>(rng.Uniform(60, most)));
        unit.Put(i, static_cast<uint32_t>(rng.Uniform(60, most)));
      }
      for (uint32_t i = 0; i < count; ++i) {
        if (steady[i]) {
          unit.Put(i, static_cast<uint32_t>(rng.Uniform(60, most)));
        }
      }
      const size_t waiting = unit.waiting();
      ASSERT_NE(unit.Serve(), InboxScheduler::kNone);
      ASSERT_LE(unit.looks, 3 * waiting);
      const auto turns = [&](uint32_t i) {
        return static_cast<double>(unit.sent[i]) / shares[i];
      };
      const auto packet = static_cast<double>(most);
      for (uint32_t i = 1; i < count; ++i) {
        if (!steady[i]) continue;
        ASSERT_LE(std::abs(turns(0) - turns(i)),
                  1 + packet / shares[0] + packet / shares[i]);
      }
    }
  }
}

// Deficit round robin as it is written, round by round.
class Reference {
 public:
  explicit Reference(std::vector<uint32_t> shares)
      : shares_(std::move(shares)), earned_(shares_.size()) {}

  void Add(uint32_t inbox) {
    if (std::ranges::find(ring_, inbox) == ring_.end()) ring_.push_back(inbox);
  }
  void Remove(uint32_t inbox) {
    const auto at = std::ranges::find(ring_, inbox);
    if (at == ring_.end()) return;
    if (at == ring_.begin()) has_earned_ = false;
    ring_.erase(at);
    earned_[inbox] = 0;
  }
  uint32_t Next(const Unit& unit) {
    if (ring_.empty()) return InboxScheduler::kNone;
    if (ring_.size() == 1) return ring_.front();
    for (;;) {
      const uint32_t inbox = ring_.front();
      if (!has_earned_) earned_[inbox] += std::max(shares_[inbox], 1u);
      has_earned_ = true;
      if (earned_[inbox] >= unit.front(inbox)) {
        earned_[inbox] -= unit.front(inbox);
        return inbox;
      }
      has_earned_ = false;
      ring_.pop_front();
      ring_.push_back(inbox);
    }
  }

 private:
  std::vector<uint32_t> shares_;
  std::vector<uint64_t> earned_;
  std::deque<uint32_t> ring_;
  bool has_earned_ = false;
};

TEST(InboxScheduler, ServesInTheOrderOfRoundsThatAreGoneThroughOneByOne) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const auto count = static_cast<uint32_t>(rng.Uniform(1, 8));
    std::vector<uint32_t> shares;
    for (uint32_t i = 0; i < count; ++i) {
      shares.push_back(static_cast<uint32_t>(rng.Uniform(0, 1'024 / count)));
    }
    const int64_t most = rng.Uniform(60, 9'000);
    Unit unit(shares);
    Reference reference(shares);
    for (int step = 0; step < 500; ++step) {
      const auto inbox = static_cast<uint32_t>(rng.Below(count));
      const uint64_t event = rng.Below(20);
      if (event < 9) {
        unit.Put(inbox, static_cast<uint32_t>(rng.Uniform(60, most)));
        reference.Add(inbox);
      } else if (event == 9) {
        unit.Drop(inbox);
        reference.Remove(inbox);
      } else {
        const uint32_t expected = reference.Next(unit);
        ASSERT_EQ(unit.Serve(), expected) << "step " << step;
        if (expected != InboxScheduler::kNone && !unit.has(expected)) {
          reference.Remove(expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace snf
