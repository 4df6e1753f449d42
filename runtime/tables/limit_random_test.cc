// SPDX-License-Identifier: Apache-2.0
//
// Units of one to four controllers that add to a shared value while it is below
// a limit, at random times.
// SNF_TEST_SEED=n runs the schedule with that seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/cluster_homes.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/unit_tables.h"

namespace snf {
namespace {

constexpr uint64_t kKey = 7;

class Adder final : public NetworkFunction {
 public:
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  SharedTable<uint64_t, int64_t> open =
      declare_shared<uint64_t, int64_t>("open", 10);
};

// Units, each of one of some controllers, the home of their table, and messages
// that take `delay`.
class LimitWorld {
 public:
  LimitWorld(uint32_t units, uint32_t controllers, const TableOptions& options,
             Nanos delay)
      : delay_(delay), common_(Adder(), controllers, units, options) {
    for (uint32_t c = 0; c < controllers; ++c) homes_.emplace_back(common_, c);
    for (uint16_t i = 0; i < units; ++i) {
      nfs_.push_back(std::make_unique<Adder>());
      units_.emplace_back(UnitId{i}, *nfs_[i], options);
      units_[i].on_ready(now_, 1);
    }
    Settle();
  }
  void RunUntil(Instant time) {
    while (Next() <= time) {
      now_ = std::max(now_, Next());
      while (!under_way_.empty() && under_way_.front().first <= now_) {
        const auto [to_home, message] = under_way_.front().second;
        under_way_.pop_front();
        if (to_home) {
          homes_[value(message.unit) % homes_.size()].on_message(now_, message,
                                                                 Sender(false));
        } else {
          units_[value(message.unit)].on_message(now_, message, Sender(true));
        }
      }
      Settle();
    }
    now_ = time;
  }
  SharedTable<uint64_t, int64_t>& open(uint32_t unit) {
    return nfs_[unit]->open;
  }
  void Called(uint32_t unit) {
    units_[unit].on_called(now_);
    Settle();
  }
  Instant now() const { return now_; }

 private:
  struct Send {
    LimitWorld* world;
    bool to_home;
    void operator()(const TableMessage& message) const {
      world->under_way_.push_back(
          {world->now_ + world->delay_, {to_home, message}});
    }
  };
  Send Sender(bool to_home) { return {this, to_home}; }
  void Settle() {
    for (TableHomes& homes : homes_) homes.on_timers(now_, 0, Sender(false));
    for (UnitTables& unit : units_) unit.on_timers(now_, Sender(true));
  }
  Instant Next() const {
    Instant next = Instant::max();
    for (const TableHomes& homes : homes_) {
      next = std::min(next, homes.next_wakeup());
    }
    for (const UnitTables& unit : units_) {
      next = std::min(next, unit.next_wakeup());
    }
    if (!under_way_.empty()) next = std::min(next, under_way_.front().first);
    return next;
  }

  Nanos delay_;
  Instant now_{1'000'000'000};
  ClusterHomes common_;
  std::vector<TableHomes> homes_;  // by controller
  std::vector<std::unique_ptr<Adder>> nfs_;
  std::deque<UnitTables> units_;
  std::deque<std::pair<Instant, std::pair<bool, TableMessage>>> under_way_;
};

struct Totals {
  uint64_t added = 0;
  uint64_t refused = 0;
  uint64_t removed = 0;
  int64_t most_above = 0;  // the limit
};

// The time after which all units know an update (table_replica.h): units that
// did not read for a while, in kUnreadPeriods.
Nanos SlowestNews(const TableOptions& options, Nanos delay) {
  constexpr int64_t kTick = 32'768;
  return {(TableOptions::kUnreadPeriods + 3) * (options.period.ns + kTick) +
          20 * delay.ns};
}

void RunOne(uint64_t seed, Totals& totals) {
  Rng rng(seed);
  TableOptions options;
  options.period = {rng.Uniform(1, 20) * 1'000'000};
  options.retry_after = Seconds(1);
  const Nanos delay = {rng.Uniform(1'000, 1'000'000)};
  const auto units = static_cast<uint32_t>(rng.Uniform(1, 8));
  const auto controllers = static_cast<uint32_t>(rng.Uniform(1, 4));
  const int64_t limit = rng.Uniform(1, 100);
  const bool removes = rng.Chance(32'768);
  const int64_t gap_max = rng.Chance(32'768) ? 100'000 : 5'000'000;
  const Nanos slowest = SlowestNews(options, delay);
  LimitWorld world(units, controllers, options, delay);
  struct Add {
    Instant time;
    uint32_t unit;
    int64_t delta;
  };
  std::deque<Add> recent;
  int64_t sum = 0;
  for (int step = 0; step < 500; ++step) {
    world.RunUntil({world.now().ns + rng.Uniform(0, gap_max)});
    const auto unit = static_cast<uint32_t>(rng.Below(units));
    while (!recent.empty() && recent.front().time + slowest < world.now()) {
      recent.pop_front();
    }
    int64_t unseen = 0;  // at most, above and below
    int64_t unseen_removed = 0;
    for (const Add& add : recent) {
      if (add.unit == unit) continue;
      (add.delta > 0 ? unseen : unseen_removed) += add.delta;
    }
    if (removes && sum > 0 && rng.Chance(30'000)) {
      world.open(unit).update(kKey, -1);
      recent.push_back({world.now(), unit, -1});
      --sum;
      ++totals.removed;
    } else {
      const int64_t delta = rng.Uniform(1, 3);
      const bool added = world.open(unit).add_if_below(kKey, limit, delta);
      if (!added) {
        ASSERT_GE(sum - unseen_removed, limit) << "refused too early";
        ++totals.refused;
      } else {
        sum += delta;
        recent.push_back({world.now(), unit, delta});
        ASSERT_LT(sum, limit + delta + unseen);
        if (!removes) {
          ASSERT_LT(sum, units * (limit + 3));
        }
        ++totals.added;
        totals.most_above = std::max(totals.most_above, sum - limit);
      }
    }
    world.Called(unit);
  }
}

TEST(LimitRandom, ALimitIsExceededByWhatIsNotYetKnownAtMost) {
  const TestSeeds seeds(300, 10'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    RunOne(seed, totals);
    if (HasFatalFailure()) return;
  }
  std::cout << "seeds " << seeds.first << "-" << seeds.last << ": "
            << totals.added << " added, " << totals.refused << " refused, "
            << totals.removed << " taken away; at most " << totals.most_above
            << " above a limit\n";
  if (seeds.is_part) return;
  EXPECT_GT(totals.added, 10 * seeds.count());
  EXPECT_GT(totals.refused, 10 * seeds.count());
  EXPECT_GT(totals.removed, 10 * seeds.count());
  EXPECT_GT(totals.most_above, 10);
}

}  // namespace
}  // namespace snf
