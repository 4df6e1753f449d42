// SPDX-License-Identifier: Apache-2.0
//
// Units of several controllers, which fail, with loggers that send their
// updates, over networks that lose, repeat and delay. SNF_TEST_SEED=n runs the
// schedule with that seed; SNF_LONG_TESTS=1 runs 20 times as many.
#include "runtime/tables/cluster_homes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "runtime/logger/table_update.h"
#include "runtime/logger/update_log.h"
#include "runtime/sdk/nf.h"
#include "runtime/tables/table_homes.h"
#include "runtime/tables/unit_tables.h"
#include "runtime/tables/update_sender.h"

namespace snf {
namespace {

constexpr uint32_t kUnits = 3;  // of each controller

class Summer final : public NetworkFunction {
 public:
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
  SharedTable<uint64_t, uint64_t> sums =
      declare_shared<uint64_t, uint64_t>("sums", 20);
};

// Has the units of all controllers, and the homes. A unit that fails begins
// again with the next incarnation; its logger stays.
class ClusterWorld {
 public:
  ClusterWorld(uint64_t seed, uint32_t controllers)
      : rng_(Rng(seed).Fork(1)),
        is_calm_(Rng(seed).Fork(2).Chance(32'768)),
        common_(Summer(), controllers, kUnits, options_) {
    for (uint32_t c = 0; c < controllers; ++c) homes_.emplace_back(common_, c);
    for (uint32_t i = 0; i < controllers * kUnits; ++i) {
      senders_.emplace_back(IdOf(i), options_, 1);
      logs_.emplace_back(LoggedTablesOf(Summer()), 1);
      units_.emplace_back();
      Begin(i);
    }
  }

  uint32_t units() const { return static_cast<uint32_t>(units_.size()); }
  Instant now() const { return now_; }

  // The unit fails, and begins again. Updates in its log are not lost.
  void Fail(uint32_t i) {
    homes_[i / kUnits].on_unit_failed(IdOf(i));
    ++units_[i].incarnation;
    logs_[i].Begin(units_[i].incarnation);
    Begin(i);
    Settle();
  }
  void Update(uint32_t i, uint64_t key, uint64_t delta) {
    const uint64_t words[] = {key, delta};
    const uint64_t number = logs_[i].newest(0) + 1;
    std::vector<std::byte> bytes;
    AppendUpdate({.number = number, .words = 2}, words, bytes);
    logs_[i].Add(number, bytes);
    units_[i].tables->on_logged(bytes);
    Settle();
  }
  uint64_t Read(uint32_t i, uint64_t key) {
    const uint64_t read = units_[i].nf->sums.get(key);
    units_[i].tables->on_called(now_);
    Settle();
    return read;
  }
  void RunUntil(Instant time) {
    for (Instant next = Next(); next <= time; next = Next()) {
      now_ = std::max(now_, next);
      while (!under_way_.empty() && under_way_.begin()->first.first <= now_) {
        const Message sent = under_way_.begin()->second;
        under_way_.erase(under_way_.begin());
        Deliver(sent);
      }
      Settle();
    }
    now_ = std::max(now_, time);
  }
  // Returns false if something is under way for ever.
  bool RunToTheEnd() {
    const Instant patience = now_ + Seconds(1'000);
    while (Next() < patience) RunUntil(Next());
    return Next() == Instant::max();
  }
  // Returns the home's total.
  uint64_t Total(uint64_t key) const {
    const uint64_t* const total = common_.home(0).Find(&key);
    return total == nullptr ? 0 : *total;
  }

 private:
  enum class To : uint8_t { kHome, kUnit, kLogger };
  struct Message {
    To to;
    uint32_t unit;  // that the message is of, or for
    uint32_t incarnation;
    TableMessage message;
  };
  struct Unit {
    uint32_t incarnation = 1;
    std::unique_ptr<Summer> nf{};
    std::unique_ptr<UnitTables> tables{};
  };

  static UnitId IdOf(uint32_t i) {
    return UnitId{static_cast<uint16_t>(i % kUnits)};
  }
  void Begin(uint32_t i) {
    Unit& unit = units_[i];
    unit.tables.reset();
    unit.nf = std::make_unique<Summer>();
    TablesOf(*unit.nf).front()->BeginLogging();
    unit.tables = std::make_unique<UnitTables>(IdOf(i), *unit.nf, options_,
                                               /*are_logged=*/true);
    unit.tables->on_ready(now_, unit.incarnation);
  }
  void Send(To to, uint32_t i, const TableMessage& message) {
    const int copies = is_calm_             ? 1
                       : rng_.Chance(8'000) ? 0
                       : rng_.Chance(8'000) ? 2
                                            : 1;
    for (int n = 0; n < copies; ++n) {
      const Nanos delay = {rng_.Uniform(1'000, is_calm_ ? 1'000 : 20'000'000)};
      under_way_[{now_ + delay, ++sent_}] = {to, i, message.incarnation,
                                             message};
    }
  }
  // Answers go to the unit or logger that they are for.
  auto ToUnitsOf(uint32_t controller) {
    return [this, controller](const TableMessage& message) {
      const uint32_t i = controller * kUnits + value(message.unit);
      const bool to_logger = message.kind == TableMessage::Kind::kLoggedAck;
      Send(to_logger ? To::kLogger : To::kUnit, i, message);
    };
  }
  auto ToHomeFrom(uint32_t i) {
    return
        [this, i](const TableMessage& message) { Send(To::kHome, i, message); };
  }
  void Deliver(const Message& sent) {
    const uint32_t i = sent.unit;
    switch (sent.to) {
      case To::kHome:
        // A home takes no message of a unit that has failed (T6).
        if (sent.message.kind != TableMessage::Kind::kLogged &&
            sent.incarnation != units_[i].incarnation) {
          return;
        }
        homes_[i / kUnits].on_message(now_, sent.message,
                                      ToUnitsOf(i / kUnits));
        return;
      case To::kUnit:
        units_[i].tables->on_message(now_, sent.message, ToHomeFrom(i));
        return;
      case To::kLogger:
        TableMessage out;
        if (senders_[i].on_message(now_, sent.message, logs_[i], out)) {
          Send(To::kHome, i, out);
        }
    }
  }
  void Settle() {
    for (uint32_t c = 0; c < homes_.size(); ++c) {
      homes_[c].on_timers(now_, 0, ToUnitsOf(c));
    }
    for (uint32_t i = 0; i < units(); ++i) {
      units_[i].tables->on_timers(now_, ToHomeFrom(i));
      TableMessage out;
      while (senders_[i].next_wakeup(logs_[i]) <= now_ &&
             senders_[i].on_timers(now_, logs_[i], out)) {
        Send(To::kHome, i, out);
      }
    }
  }
  Instant Next() const {
    Instant next = Instant::max();
    for (const TableHomes& homes : homes_) {
      next = std::min(next, homes.next_wakeup());
    }
    for (uint32_t i = 0; i < units(); ++i) {
      next = std::min({next, units_[i].tables->next_wakeup(),
                       senders_[i].next_wakeup(logs_[i])});
    }
    if (!under_way_.empty()) {
      next = std::min(next, under_way_.begin()->first.first);
    }
    return next;
  }

  const TableOptions options_ = {.are_logged = true};
  Rng rng_;
  bool is_calm_;  // messages take a microsecond each, and none is lost
  Instant now_{1'000'000'000};
  ClusterHomes common_;
  std::vector<TableHomes> homes_;  // by controller
  std::vector<Unit> units_;        // by controller and unit
  std::deque<UpdateSender> senders_;
  std::deque<UpdateLog> logs_;
  uint64_t sent_ = 0;
  std::map<std::pair<Instant, uint64_t>, Message> under_way_;
};

TEST(ClusterHomes, HaveEachUpdateOnceWhicheverUnitsFail) {
  const TestSeeds seeds(100, 2'000);
  uint64_t failures = 0;
  uint64_t reads_of_others = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    ClusterWorld world(seed, static_cast<uint32_t>(rng.Uniform(2, 4)));
    std::map<uint64_t, uint64_t> all;
    std::map<std::pair<uint32_t, uint64_t>, uint64_t> own;
    const auto fails_65536 = static_cast<uint32_t>(rng.Uniform(0, 3'000));
    for (int step = 0; step < 300; ++step) {
      world.RunUntil({world.now().ns + rng.Uniform(0, 5'000'000)});
      const auto unit = static_cast<uint32_t>(rng.Below(world.units()));
      const uint64_t key = rng.Below(10);
      const uint64_t read = world.Read(unit, key);
      ASSERT_LE(read, all[key]);
      reads_of_others += read > own[{unit, key}] ? 1 : 0;
      const uint64_t delta = 1 + rng.Below(4);
      world.Update(unit, key, delta);
      all[key] += delta;
      own[{unit, key}] += delta;
      if (!rng.Chance(fails_65536)) continue;
      world.Fail(static_cast<uint32_t>(rng.Below(world.units())));
      ++failures;
    }
    ASSERT_TRUE(world.RunToTheEnd());
    for (const auto& [key, sum] : all) {
      ASSERT_EQ(world.Total(key), sum) << key;
      for (uint32_t i = 0; i < world.units(); ++i) {
        ASSERT_EQ(world.Read(i, key), sum) << "key " << key << " unit " << i;
      }
    }
  }
  std::cout << "seeds " << seeds.first << "-" << seeds.last << ": " << failures
            << " failures, " << reads_of_others
            << " reads of others' updates\n";
  if (seeds.is_part) return;
  EXPECT_GT(failures, seeds.count());
  EXPECT_GT(reads_of_others, 100 * seeds.count());
}

// Units of a controller that has left get nothing, and other controllers' do.
TEST(ClusterHomes, WaitForNoUnitOfAControllerThatHasLeft) {
  ClusterHomes common(Summer(), 2, kUnits, TableOptions{});
  std::array<TableHomes, 2> homes = {TableHomes(common, 0),
                                     TableHomes(common, 1)};
  Instant now{1'000'000'000};
  uint32_t answers = 0;
  for (TableHomes& each : homes) {
    each.on_message(now,
                    {.kind = TableMessage::Kind::kUpdate,
                     .unit = UnitId{2},
                     .incarnation = 1,
                     .seq = 1},
                    [&](const TableMessage& answer) {
                      EXPECT_EQ(answer.unit, UnitId{2});
                      ++answers;
                    });
  }
  EXPECT_EQ(answers, 2u);
  EXPECT_EQ(common.home(0).joined().size(), 2u);
  homes[0].Leave();
  ASSERT_EQ(common.home(0).joined().size(), 1u);
  EXPECT_EQ(common.home(0).joined().front(), UnitId{kUnits + 2});
  // A unit beyond the controller's is none of the next controller.
  homes[0].on_message(now,
                      {.kind = TableMessage::Kind::kUpdate,
                       .unit = UnitId{kUnits + 1},
                       .incarnation = 1,
                       .seq = 1},
                      [](const TableMessage&) { ADD_FAILURE(); });
  EXPECT_EQ(common.home(0).joined().size(), 1u);
}

}  // namespace
}  // namespace snf
