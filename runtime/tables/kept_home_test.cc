// SPDX-License-Identifier: Apache-2.0
//
// Homes of tables whose process is killed, and others that go on with what is
// kept.
#include "runtime/tables/kept_home.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/tables/table_home.h"
#include "runtime/tables/table_message.h"

namespace snf {
namespace {

constexpr uint32_t kUnits = 3;
constexpr Instant kNow{1'000'000};

TableShape ShapeOf(uint32_t entries) {
  return {
      .name = "t", .key_bytes = 8, .value_bytes = 8, .max_entries = entries};
}

class KeptHomeTest : public testing::Test {
 protected:
  // A process begins.
  TableHome Begin() {
    TableHome home(0, shape_, kUnits, options_);
    home.Keep(kNow, KeptHome(memory_, shape_, kUnits));
    return home;
  }
  // The unit adds to keys; returns the home's answer.
  static TableMessage Update(TableHome& home, uint16_t unit, uint64_t seq,
                             std::vector<std::pair<uint64_t, uint64_t>> adds) {
    TableMessage in = {.entries = static_cast<uint8_t>(adds.size()),
                       .unit = UnitId{unit},
                       .incarnation = 1,
                       .seq = seq};
    for (size_t i = 0; i < adds.size(); ++i) {
      in.words[2 * i] = adds[i].first;
      in.words[2 * i + 1] = adds[i].second;
    }
    TableMessage out;
    EXPECT_TRUE(home.on_message(kNow, in, out));
    return out;
  }
  static uint64_t TotalOf(const TableHome& home, uint64_t key) {
    const uint64_t* const total = home.Find(&key);
    return total == nullptr ? 0 : *total;
  }

  TableOptions options_;
  TableShape shape_ = ShapeOf(2);
  std::vector<std::byte> memory_ =
      std::vector<std::byte>(KeptHome::BytesFor(ShapeOf(2), kUnits));
};

TEST_F(KeptHomeTest, AnotherHomeGoesOnWithAllTotals) {
  {
    TableHome home = Begin();
    Update(home, 0, 1, {{7, 3}, {8, 1}});
    Update(home, 1, 1, {{7, 4}, {9, 5}});  // no room for 9
  }
  TableHome home = Begin();
  EXPECT_EQ(TotalOf(home, 7), 7u);
  EXPECT_EQ(TotalOf(home, 8), 1u);
  EXPECT_EQ(*home.rest(), 5u);
  EXPECT_EQ(home.version(), 2u);
  EXPECT_EQ(home.joined().size(), 2u);
  EXPECT_EQ(home.newest_incarnation(), 1u);
}

TEST_F(KeptHomeTest, AnUpdateWithoutAnAnswerCountsOnce) {
  {
    TableHome home = Begin();
    Update(home, 0, 1, {{7, 3}});
    Update(home, 0, 2, {{7, 2}});  // the answer is lost with the process
  }
  TableHome home = Begin();
  const TableMessage again = Update(home, 0, 2, {{7, 2}});
  EXPECT_EQ(again.words[1], 5u);
  EXPECT_EQ(TotalOf(home, 7), 5u);
  Update(home, 0, 3, {{7, 1}});
  EXPECT_EQ(TotalOf(home, 7), 6u);
}

// The upper half of the value counts calls of the trigger. A process that dies
// before it answers has called the trigger for good.
TEST_F(KeptHomeTest, CallsATriggerOnceForEachCrossing) {
  constexpr uint64_t kCall = uint64_t{1} << 32;
  shape_.condition = [](const uint64_t* value) { return *value % kCall >= 10; };
  shape_.on_condition = [](uint64_t* value) { *value += kCall; };
  {
    TableHome home = Begin();
    Update(home, 0, 1, {{7, 6}});
    EXPECT_EQ(TotalOf(home, 7), 6u);
    EXPECT_EQ(Update(home, 0, 2, {{7, 6}}).words[1], 12 + kCall);
  }
  TableHome home = Begin();
  EXPECT_EQ(Update(home, 0, 2, {{7, 6}}).words[1], 12 + kCall);
  Update(home, 0, 3, {{7, 1}});
  EXPECT_EQ(TotalOf(home, 7), 13 + kCall);
  // Below the bound, and above the bound again.
  Update(home, 0, 4, {{7, ~uint64_t{9} + 1}});
  EXPECT_EQ(TotalOf(home, 7), 4 + kCall);
  Update(home, 0, 5, {{7, 20}});
  EXPECT_EQ(TotalOf(home, 7), 24 + 2 * kCall);
  // A new key meets no condition. The rest has no trigger: there is no room for
  // a third key.
  Update(home, 0, 6, {{8, 10}, {9, 100}});
  EXPECT_EQ(TotalOf(home, 8), 10 + kCall);
  EXPECT_EQ(*home.rest(), 100u);
}

TEST_F(KeptHomeTest, CallsATriggerForANewKeyWhateverZerosWouldMeet) {
  constexpr uint64_t kCall = uint64_t{1} << 32;
  shape_.condition = [](const uint64_t*) { return true; };
  shape_.on_condition = [](uint64_t* value) { *value += kCall; };
  TableHome home = Begin();
  Update(home, 0, 1, {{7, 6}});
  Update(home, 0, 2, {{7, 1}});
  EXPECT_EQ(TotalOf(home, 7), 7 + kCall);
}

// Updates of a logger count once, whichever home they came to.
TEST_F(KeptHomeTest, KnowsWhichLoggedUpdatesItHas) {
  const auto log = [](TableHome& home, uint32_t incarnation, uint64_t merged) {
    TableMessage in = {.kind = TableMessage::Kind::kLogged,
                       .entries = 1,
                       .unit = UnitId{2},
                       .incarnation = incarnation,
                       .seq = merged + 3,
                       .merged = merged};
    in.words[0] = 7;
    in.words[1] = 10;
    TableMessage out;
    EXPECT_TRUE(home.on_message(kNow, in, out));
    EXPECT_EQ(out.kind, TableMessage::Kind::kLoggedAck);
    return out.merged;
  };
  {
    TableHome home = Begin();
    EXPECT_EQ(log(home, 4, 0), 3u);
    EXPECT_EQ(log(home, 4, 3), 6u);  // the answer is lost with the process
  }
  TableHome home = Begin();
  EXPECT_EQ(TotalOf(home, 7), 20u);
  EXPECT_EQ(home.logged(UnitId{2}), 6u);
  EXPECT_EQ(log(home, 4, 3), 6u);
  EXPECT_EQ(TotalOf(home, 7), 20u);
  EXPECT_EQ(log(home, 5, 0), 3u);
  EXPECT_EQ(log(home, 4, 6), 3u);  // late
  EXPECT_EQ(TotalOf(home, 7), 30u);
}

TEST_F(KeptHomeTest, TellsUnitsAllAgainByNumbersThatAreNew) {
  TableMessage told;
  {
    TableHome home = Begin();
    Update(home, 0, 1, {{7, 3}});
    Update(home, 1, 1, {});
    while (!home.on_timers(home.next_wakeup(), told)) {
    }
  }
  const uint64_t before = told.seq;
  TableHome home = Begin();
  while (!home.on_timers(home.next_wakeup(), told)) {
  }
  EXPECT_GT(told.seq, before);
  EXPECT_EQ(told.entries, 2);  // the key, and the rest
}

TEST_F(KeptHomeTest, AUnitThatHasLeftOrFailedIsNotWaitedFor) {
  {
    TableHome home = Begin();
    Update(home, 0, 1, {{7, 3}});
    Update(home, 1, 1, {{8, 3}});
    home.on_unit_failed(UnitId{0});
  }
  TableHome home = Begin();
  ASSERT_EQ(home.joined().size(), 1u);
  EXPECT_EQ(home.joined()[0], UnitId{1});
}

TEST_F(KeptHomeTest, KeepsWhatWasErased) {
  {
    TableHome home = Begin();
    Update(home, 0, 1, {{7, 3}, {8, 1}});
    TableMessage in = {
        .entries = 1, .unit = UnitId{0}, .incarnation = 1, .seq = 2};
    in.in_rest = 1;
    in.words = {7, 0};
    TableMessage out;
    ASSERT_TRUE(home.on_message(kNow, in, out));
  }
  TableHome home = Begin();
  EXPECT_EQ(TotalOf(home, 7), 0u);
  EXPECT_EQ(home.size(), 1u);
  EXPECT_EQ(*home.rest(), 3u);
  Update(home, 0, 3, {{7, 2}});
  EXPECT_EQ(TotalOf(home, 7), 2u);
}

// A message of new keys lets as many old ones go as it can.
TEST_F(KeptHomeTest, KeepsTheMostThatAMessageChanges) {
  constexpr uint32_t kMany = 4'000;
  shape_ = ShapeOf(kMany);
  memory_.assign(KeptHome::BytesFor(shape_, kUnits), {});
  options_.forget_after = Nanos{0};
  TableHome home = Begin();
  std::vector<std::pair<uint64_t, uint64_t>> adds(TableCopy::kMaxSent);
  uint64_t seq = 0;
  uint64_t key = 0;
  for (uint32_t sent = 0; sent < kMany + 2 * adds.size(); sent += 64) {
    for (auto& [added, delta] : adds) {
      added = ++key;
      delta = 1;
    }
    Update(home, 0, ++seq, adds);
  }
  EXPECT_GT(home.forgotten(), 2'000u);
  TableHome next = Begin();
  EXPECT_EQ(next.size(), home.size());
  EXPECT_EQ(*next.rest(), *home.rest());
}

// The process dies when the timer was called for some keys.
TEST_F(KeptHomeTest, CallsATimerOnceForEachKey) {
  shape_ = ShapeOf(600);
  shape_.timer_period = Nanos{kNow.ns};
  shape_.on_timer = [](uint64_t* value, uint64_t periods) {
    *value += 1'000 * periods;
    return true;
  };
  memory_.assign(KeptHome::BytesFor(shape_, kUnits), {});
  uint64_t seq = 0;
  {
    TableHome home = Begin();
    for (uint64_t key = 1; key <= 600; ++key)
      Update(home, 0, ++seq, {{key, 1}});
    TableMessage in = {
        .entries = 1, .unit = UnitId{0}, .incarnation = 1, .seq = ++seq};
    in.words = {1, 1};
    TableMessage out;
    ASSERT_TRUE(home.on_message({2 * kNow.ns}, in, out));
    EXPECT_EQ(TotalOf(home, 1), 1'002u);
    EXPECT_EQ(TotalOf(home, 600), 1u);
    EXPECT_EQ(home.next_wakeup(), Instant::min());
    home.on_timers({2 * kNow.ns}, out);
    EXPECT_EQ(TotalOf(home, 400), 1'001u);
    EXPECT_EQ(home.next_wakeup(), Instant::min());
  }
  TableHome home = Begin();
  TableMessage out;
  while (home.next_wakeup() == Instant::min()) {
    while (home.on_timers({2 * kNow.ns}, out)) continue;
  }
  EXPECT_EQ(TotalOf(home, 1), 1'002u);
  for (uint64_t key = 2; key <= 600; ++key) {
    ASSERT_EQ(TotalOf(home, key), 1'001u) << key;
  }
}

// The words of the memory are those of a process that was killed between any
// two writes: of the changes of an update, some are done.
TEST_F(KeptHomeTest, PutsBackAChangeThatIsNotWhole) {
  KeptHome kept(memory_, shape_, kUnits);
  kept.Begin();
  const std::vector<uint64_t> first = {7, 3};
  const std::vector<uint64_t> second = {7, 5};
  const auto begin = [&](const std::vector<uint64_t>& words, uint64_t version) {
    kept.BeginChange(2);
    kept.Save(0);
    kept.Save(2);
    kept.Change({.version = version, .slots = 1},
                {.seq = version, .incarnation = 4, .joined = 1});
    kept.Set(0, 0, words.data());
  };
  begin(first, 1);
  kept.Set(2, 0, first.data());
  kept.EndChange();
  begin(second, 2);  // and no more
  KeptHome next(memory_, shape_, kUnits);
  const KeptHome::Totals totals = next.Begin();
  EXPECT_EQ(totals.version, 1u);
  EXPECT_EQ(totals.homes, 2u);
  EXPECT_EQ(next.unit(2).seq, 1u);
  EXPECT_EQ(next.words(0)[1], 3u);
  EXPECT_EQ(next.words(2)[1], 3u);
}

}  // namespace
}  // namespace snf
