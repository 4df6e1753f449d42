// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/tables/test_table_world.h"

namespace snf {
namespace {

using Value = TableWorld::Value;
constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;
// What the home's timers add: they go by ticks.
constexpr int64_t kTick = 32'768;

TableWorld Started(const TableWorldOptions& options) {
  TableWorld world(options);
  for (uint32_t unit = 0; unit < options.units; ++unit) world.Start(unit);
  world.RunUntil({kMs});
  return world;
}

TEST(Table, AnUpdateIsSeenAtOnceWhereItWasMade) {
  TableWorld world = Started({});
  world.Update(0, 7, {1, 100});
  world.Update(0, 7, {1, 50});
  EXPECT_EQ(world.Read(0, 7), (Value{2, 150}));
  EXPECT_EQ(world.Read(1, 7), (Value{0, 0}));
}

TEST(Table, AnUpdateIsSeenElsewhereWhenItHasGoneToTheHomeAndOn) {
  TableWorld world = Started({});
  world.RunUntil({20 * kMs});
  world.Update(0, 7, {1, 100});
  world.RunUntil({20 * kMs + 1 * kUs});
  EXPECT_EQ(world.home().version(), 1u);
  world.RunUntil({20 * kMs + 2 * kUs + kTick});
  EXPECT_EQ(world.Read(1, 7), (Value{1, 100}));
  EXPECT_EQ(world.Read(0, 7), (Value{1, 100}));
}

TEST(Table, UpdatesOfAPeriodGoTogether) {
  TableWorld world = Started({});
  world.RunUntil({20 * kMs});
  world.Update(0, 7, {1, 0});
  world.RunUntil({25 * kMs});
  world.Look(1);
  world.RunUntil({26 * kMs});
  const uint64_t before = world.messages;
  world.Update(0, 7, {1, 0});
  world.Update(0, 8, {1, 0});
  world.RunUntil({29 * kMs});
  EXPECT_EQ(world.messages, before);
  EXPECT_EQ(world.Read(1, 7), (Value{1, 0}));
  world.RunUntil({31 * kMs});
  // There and back, and to the other and back.
  EXPECT_EQ(world.messages, before + 4);
  EXPECT_EQ(world.Read(1, 7), (Value{2, 0}));
  EXPECT_EQ(world.Read(1, 8), (Value{1, 0}));
}

TEST(Table, WhereNothingChangesNothingIsSent) {
  TableWorld world = Started({});
  world.Update(0, 7, {1, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  const uint64_t before = world.messages;
  world.RunUntil({3'600'000 * kMs});
  EXPECT_EQ(world.messages, before);
  EXPECT_EQ(world.home().next_wakeup(), Instant::max());
}

TEST(Table, WhoAloneWritesIsToldByTheAnswers) {
  TableWorld world = Started({.units = 1});
  for (uint64_t key = 0; key < 10; ++key) {
    world.Look(0);
    world.RunUntil({world.now().ns + 20 * kMs});
    const uint64_t before = world.messages;
    world.Update(0, key, {1, 0});
    world.RunUntil({world.now().ns + kMs});
    EXPECT_EQ(world.messages, before + 2);
    EXPECT_EQ(world.replica(0).complete(), world.home().version());
  }
  EXPECT_EQ(world.Differences(true), "");
}

TEST(Table, ACopyThatNobodyReadsIsToldOnceInManyPeriods) {
  TableWorld world = Started({.units = 3});
  const uint64_t before = world.messages;
  constexpr int64_t kRounds = 10 * TableOptions::kUnreadPeriods;
  for (int64_t i = 0; i < kRounds; ++i) {
    world.Update(0, 7, {1, 0});
    world.RunUntil({world.now().ns + 10 * kMs});
  }
  // At the beginning, and then ten times, to each of the two and back.
  EXPECT_LE(world.messages, before + 2 * kRounds + 11 * 4);
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.Differences(true), "");
  EXPECT_GT(world.spread_max().ns, 990 * kMs);
  EXPECT_LE(world.spread_max().ns, 1'000 * kMs + kTick + 5 * kUs);
}

TEST(Table, ATableForReportsLeavesItsUnitOnceInManyPeriods) {
  TableWorld world = Started({.for_reports = true});
  const uint64_t before = world.messages;
  constexpr int64_t kRounds = 10 * TableOptions::kUnreadPeriods;
  for (int64_t i = 0; i < kRounds; ++i) {
    world.Update(0, static_cast<uint64_t>(i % 90), {1, 0});
    world.RunUntil({world.now().ns + 10 * kMs});
  }
  // 90 entries take 3 messages, each with its answer; as many go to the other.
  EXPECT_GT(world.messages, before + 9 * 6);
  EXPECT_LE(world.messages, before + 11 * 12);
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.Differences(true), "");
  EXPECT_EQ(world.Read(1, 7)[0] + world.Read(1, 89)[0], 12u + 11u);
}

TEST(Table, ATableForReportsIsWholeWhenItsUnitStops) {
  TableWorld world = Started({.for_reports = true});
  world.Update(0, 7, {1, 100});
  world.RunUntil({30 * kMs});
  EXPECT_EQ(world.home().size(), 0u);
  world.Stop(0);
  world.RunUntil({30 * kMs + 4 * kUs});
  ASSERT_EQ(world.home().size(), 1u);
  EXPECT_EQ(world.home().total(0)[1], 100u);
}

TEST(Table, ACopyIsToldWhatIsNewOnceItIsRead) {
  TableWorld world = Started({});
  world.Update(0, 7, {1, 0});
  world.RunUntil({20 * kMs});
  world.Update(0, 7, {1, 0});
  world.RunUntil({300 * kMs});
  EXPECT_EQ(world.Read(1, 7), (Value{1, 0}));
  world.Look(1);
  world.RunUntil({300 * kMs + 2 * kUs + kTick});
  EXPECT_EQ(world.Read(1, 7), (Value{2, 0}));
  world.Update(0, 7, {1, 0});
  world.RunUntil({1'000 * kMs});
  EXPECT_EQ(world.Read(1, 7), (Value{2, 0}));
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.Differences(true), "");
}

TEST(Table, ACopyThatIsReadIsToldEveryPeriod) {
  TableWorld world = Started({});
  world.Update(0, 7, {1, 0});
  for (int ms = 0; ms < 1'000; ++ms) {
    world.RunUntil({world.now().ns + kMs});
    world.Look(1);
    world.Update(0, 7, {1, 0});
  }
  EXPECT_GT(world.staleness_max().ns, 9 * kMs);
  EXPECT_LE(world.staleness_max().ns, 2 * (10 * kMs + kTick) + 4 * kUs);
  // In either direction a message and its answer a period.
  EXPECT_LT(world.messages, 4 * 110u);
}

TEST(Table, LossesDelayWhatIsReadByAFewPeriods) {
  TableWorldOptions options;
  options.units = 64;
  options.loss_65536 = 65'536 * 3 / 10;
  TableWorld world = Started(options);
  for (uint32_t ms = 0; ms < 1'000; ++ms) {
    world.RunUntil({world.now().ns + kMs});
    for (uint32_t unit = 0; unit < 64; ++unit) world.Look(unit);
    world.Update(ms % 64, ms % 50, {1, 0});
  }
  EXPECT_LT(world.staleness_max().ns, 300 * kMs);
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.Differences(true), "");
}

// Else whoever only reads would send for ever.
TEST(Table, AReadIsToldOfOnceUntilSomethingIsNew) {
  TableWorld world = Started({});
  world.Look(1);
  world.RunUntil({20 * kMs});
  const uint64_t before = world.messages;
  for (int ms = 0; ms < 1'000; ++ms) {
    world.Look(1);
    world.RunUntil({world.now().ns + kMs});
  }
  EXPECT_EQ(world.messages, before);
}

TEST(Table, WhatIsNotAnsweredIsRepeatedAsOftenAsBefore) {
  TableWorld world({});
  TableCopy copy(world.home().shape());
  TableReplica replica(0, UnitId{0}, copy, {});
  TableHome home(0, world.home().shape(), 1, {});
  replica.on_start({0}, 1);
  TableMessage update;
  TableMessage out;
  const uint64_t key = 7;
  copy.Update<1, 2>(&key, Value{3, 4}.data());
  ASSERT_TRUE(replica.on_timers({0}, update));
  ASSERT_TRUE(home.on_message({0}, update, out));
  TableMessage other = {.unit = UnitId{0}, .incarnation = 2, .seq = 1};
  ASSERT_TRUE(home.on_message({0}, other, out));
  ASSERT_TRUE(home.on_timers({0}, out));
  ASSERT_EQ(out.kind, TableMessage::Kind::kTold);
  Instant now;
  for (int i = 0; i < 100; ++i) {
    const Instant due = now + Milliseconds(10);
    EXPECT_EQ(replica.next_wakeup(), due);
    EXPECT_FALSE(home.on_timers(now + Milliseconds(9), out));
    now = due + Nanos{kTick};
    EXPECT_TRUE(replica.on_timers(now, out));
    EXPECT_TRUE(home.on_timers(now, out));
  }
}

TEST(Table, ALostUpdateIsSentAgainAndCountsOnce) {
  TableWorld world = Started({});
  TableMessage update;
  TableMessage answer;
  TableHome home(0, world.home().shape(), 1, {});
  TableCopy copy(world.home().shape());
  TableReplica replica(0, UnitId{0}, copy, {});
  replica.on_start({0}, 1);
  ASSERT_TRUE(replica.on_timers({0}, update));
  ASSERT_TRUE(home.on_message({0}, update, answer));
  ASSERT_FALSE(replica.on_message({0}, answer, update));
  const uint64_t key = 7;
  copy.Update<1, 2>(&key, Value{3, 4}.data());
  replica.on_updates({0});
  ASSERT_EQ(replica.next_wakeup(), Instant{10 * kMs});
  ASSERT_TRUE(replica.on_timers({10 * kMs}, update));
  ASSERT_TRUE(home.on_message({10 * kMs}, update, answer));
  // Its answer is lost.
  ASSERT_EQ(replica.next_wakeup(), Instant{20 * kMs});
  TableMessage again;
  ASSERT_FALSE(replica.on_timers({20 * kMs - 1}, again));
  ASSERT_TRUE(replica.on_timers({20 * kMs}, again));
  EXPECT_EQ(replica.next_wakeup(), Instant{30 * kMs});
  ASSERT_TRUE(home.on_message({20 * kMs}, again, answer));
  EXPECT_EQ(home.Find(&key)[0], 3u);
  EXPECT_FALSE(replica.on_message({20 * kMs}, answer, again));
  EXPECT_TRUE(replica.settled());
  Value read(2);
  copy.Read(&key, read.data());
  EXPECT_EQ(read, (Value{3, 4}));
}

TEST(Table, AUnitThatStartsLaterIsToldEverything) {
  TableWorld world({.units = 3, .max_entries = 500});
  world.Start(0);
  for (uint64_t key = 0; key < 300; ++key) world.Update(0, key, {key, 1});
  ASSERT_TRUE(world.RunToTheEnd());
  world.Start(2);
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.copy(2).size(), 300u);
  EXPECT_EQ(world.Read(2, 299), (Value{299, 1}));
  EXPECT_EQ(world.Differences(true), "");
}

TEST(Table, AUnitThatStopsDeliversWhatItHas) {
  TableWorld world = Started({.max_entries = 500});
  for (uint64_t key = 0; key < 300; ++key) world.Update(0, key, {1, 1});
  world.Stop(0);
  EXPECT_TRUE(world.joined(0));
  world.RunUntil({world.now().ns + kMs});
  EXPECT_FALSE(world.joined(0));
  EXPECT_EQ(world.home().size(), 300u);
  EXPECT_EQ(world.home().joined().size(), 1u);
  EXPECT_EQ(world.copy(0).size(), 0u);
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.Differences(true), "");
}

TEST(Table, AUnitHasSeveralLives) {
  TableWorld world = Started({});
  for (uint64_t life = 0; life < 5; ++life) {
    world.Update(0, life, {1, 1});
    world.Stop(0);
    ASSERT_TRUE(world.RunToTheEnd());
    ASSERT_FALSE(world.joined(0));
    world.Start(0);
    ASSERT_TRUE(world.RunToTheEnd());
    EXPECT_EQ(world.copy(0).size(), life + 1);
  }
  EXPECT_EQ(world.Differences(true), "");
}

TEST(Table, MessagesAreBounded) {
  TableWorld world = Started({.max_entries = 2'000});
  for (uint64_t key = 0; key < 2'000; ++key) world.Update(0, key, {1, 1});
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.words, TableMessage::kHeaderBytes / 8 + 42 * 3u);
  EXPECT_EQ(world.Differences(true), "");
}

TEST(Table, WhatThereIsNoRoomForGoesIntoTheRest) {
  TableWorld world = Started({.max_entries = 4});
  for (uint64_t key = 0; key < 4; ++key) world.Update(0, key, {1, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  world.Update(0, 100, {5, 0});
  world.Update(0, 3, {1, 0});
  EXPECT_EQ(world.copy(0).refused(), 1u);
  EXPECT_EQ(world.ReadRest(0), (Value{5, 0}));
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.ReadRest(1), (Value{5, 0}));
  EXPECT_EQ(world.Read(1, 3), (Value{2, 0}));
  EXPECT_EQ(world.Differences(false), "");
}

TEST(Table, KeysThatTheHomeHasNoRoomForLeaveTheCopiesThatHadThem) {
  TableWorld world = Started({.units = 3, .max_entries = 4});
  world.RunUntil({20 * kMs});
  for (uint64_t key = 0; key < 4; ++key) {
    for (uint64_t unit = 0; unit < 3; ++unit) {
      world.Update(static_cast<uint32_t>(unit), 10 * unit + key, {1, 0});
    }
  }
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.home().size(), 4u);
  EXPECT_EQ(world.home().rest()[0], 8u);
  EXPECT_EQ(world.Differences(false), "");
}

TEST(Table, WhatIsBeyondTheMaximumIsCountedAndInTheSums) {
  TableWorld world = Started({.max_entries = 4});
  world.RunUntil({20 * kMs});
  for (uint64_t key = 0; key < 6; ++key) world.Update(0, key, {1, key});
  for (uint64_t key = 10; key < 13; ++key) world.Update(1, key, {1, key});
  EXPECT_EQ(world.copy(0).refused(), 2u);
  EXPECT_EQ(world.ReadRest(0), (Value{2, 4 + 5}));
  EXPECT_EQ(world.copy(1).refused(), 0u);
  ASSERT_TRUE(world.RunToTheEnd());
  world.Update(1, 20, {1, 20});
  EXPECT_EQ(world.copy(1).refused(), 1u);
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.home().size(), 4u);
  // Each of the ten is an entry of its own, or counted.
  EXPECT_EQ(world.home().refused() + world.copy(0).refused() +
                world.copy(1).refused(),
            6u);
  for (uint32_t unit = 0; unit < 2; ++unit) {
    Value sum = world.ReadRest(unit);
    EXPECT_EQ(sum[0], 6u);
    for (uint32_t i = 0; i < 4; ++i) {
      const Value one = world.Read(unit, *world.home().key(i));
      EXPECT_EQ(one[0], 1u);
      sum = {sum[0] + one[0], sum[1] + one[1]};
    }
    EXPECT_EQ(sum, (Value{10, 15 + 33 + 20}));
  }
  EXPECT_EQ(world.Differences(false), "");
}

TEST(Table, AUnitThatStartsLaterIsToldTheRest) {
  TableWorld world({.units = 2, .max_entries = 1});
  world.Start(0);
  world.Update(0, 1, {1, 0});
  world.Update(0, 2, {5, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  world.Start(1);
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.ReadRest(1), (Value{5, 0}));
}

// A home with room for one key, and a copy that has another first.
TEST(Table, EachUpdateIsToldAnewWhetherItWentIntoTheRest) {
  TableWorld world = Started({.units = 2, .max_entries = 1});
  world.RunUntil({20 * kMs});
  world.Update(1, 50, {1, 0});
  world.RunUntil({20 * kMs + 1 * kUs});
  world.Update(0, 60, {1, 0});
  world.RunUntil({20 * kMs + 3 * kUs});
  EXPECT_EQ(world.ReadRest(0), (Value{1, 0}));
  world.RunUntil({29 * kMs});
  world.Update(0, 50, {1, 0});
  // The answer is here, and the home tells nobody else before.
  world.RunUntil({30 * kMs + 3 * kUs});
  EXPECT_EQ(world.Read(0, 50), (Value{2, 0}));
}

TEST(Table, ACopyIsCompleteWithTheLastMessageOfASweep) {
  TableWorld world({.units = 2, .max_entries = 500});
  world.Start(0);
  for (uint64_t key = 0; key < 300; ++key) world.Update(0, key, {1, 1});
  ASSERT_TRUE(world.RunToTheEnd());
  const uint64_t version = world.home().version();
  EXPECT_EQ(world.replica(0).complete(), version);
  world.Start(1);
  while (world.copy(1).size() < 300) {
    EXPECT_EQ(world.replica(1).complete(), 0u);
    world.RunUntil({world.now().ns + kUs});
  }
  world.RunUntil({world.now().ns + kUs});
  EXPECT_EQ(world.replica(1).complete(), version);
}

TEST(Table, AnAnswerIsNotCompleteWhileSomethingElseIsUnderWay) {
  const TableShape shape = TableWorld({}).home().shape();
  TableHome home(0, shape, 2, {});
  TableMessage out;
  TableMessage update = {.unit = UnitId{0}, .incarnation = 1, .seq = 1};
  ASSERT_TRUE(home.on_message({}, update, out));
  update = {.entries = 1, .unit = UnitId{1}, .incarnation = 1, .seq = 1};
  ASSERT_TRUE(home.on_message({}, update, out));
  EXPECT_EQ(out.complete, 1u);
  update = {.unit = UnitId{0}, .incarnation = 1, .seq = 2};
  ASSERT_TRUE(home.on_message({}, update, out));
  EXPECT_EQ(out.complete, 0u);
  TableMessage told;
  ASSERT_TRUE(home.on_timers({kTick}, told));
  update.seq = 3;
  ASSERT_TRUE(home.on_message({kTick}, update, out));
  EXPECT_EQ(out.complete, 0u);
  const TableMessage ack = {.kind = TableMessage::Kind::kToldAck,
                            .unit = UnitId{0},
                            .incarnation = 1,
                            .seq = told.seq};
  EXPECT_FALSE(home.on_message({kTick}, ack, out));
  update.seq = 4;
  ASSERT_TRUE(home.on_message({kTick}, update, out));
  EXPECT_EQ(out.complete, 1u);
}

// The unit has said that it leaves, and perhaps has heard the answer.
TEST(Table, AStopMayBeWithdrawnHoweverFarItHasCome) {
  for (const int64_t later : {int64_t{0}, kUs, 2 * kUs, 100 * kMs}) {
    SCOPED_TRACE(later);
    TableWorld world = Started({});
    world.Update(0, 7, {1, 100});
    world.Update(1, 8, {5, 5});
    world.RunUntil({100 * kMs});
    world.Stop(0);
    world.RunUntil({100 * kMs + later});
    world.Withdraw(0);
    world.Update(0, 7, {1, 50});
    world.Update(0, 9, {3, 3});
    ASSERT_TRUE(world.RunToTheEnd());
    EXPECT_TRUE(world.joined(0));
    EXPECT_EQ(world.Differences(true), "");
    world.Update(1, 8, {1, 1});
    world.Stop(0);
    ASSERT_TRUE(world.RunToTheEnd());
    EXPECT_FALSE(world.joined(0));
    EXPECT_EQ(world.Differences(true), "");
  }
}

TEST(Table, WhatIsWrittenBetweenTwoStopsIsNotLost) {
  TableWorld world = Started({});
  world.RunUntil({100 * kMs});
  world.Stop(0);
  world.Withdraw(0);
  world.Update(0, 7, {1, 50});
  world.Stop(0);
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_FALSE(world.joined(0));
  EXPECT_EQ(world.Differences(true), "");
}

// … whereas one that has failed does not come back by an update that is late.
TEST(Table, AUnitThatHasFailedIsNotHeardAgain) {
  for (const bool leaves : {false, true}) {
    TableWorld world({});
    TableHome home(0, world.home().shape(), 1, {});
    TableReplica& replica = world.replica(0);
    TableMessage update, answer, late;
    replica.on_start({}, 1);
    ASSERT_TRUE(replica.on_timers({}, update));
    ASSERT_TRUE(home.on_message({}, update, answer));
    replica.on_message({}, answer, late);
    if (leaves) {
      replica.on_stop();
      ASSERT_TRUE(replica.on_timers({}, update));
      ASSERT_TRUE(home.on_message({}, update, answer));
      replica.on_message({}, answer, late);
      replica.on_start({}, 1);
    }
    const uint64_t key = 7;
    world.copy(0).Update<1, 2>(&key, Value{1, 10}.data());
    replica.on_updates({});
    ASSERT_TRUE(replica.on_timers({kMs * 100}, late));
    home.on_unit_failed(UnitId{0});
    EXPECT_FALSE(home.on_message({}, late, answer));
    EXPECT_TRUE(home.joined().empty());
  }
}

// Its process is another one, which remembers nothing of the first.
TEST(Table, AUnitOfANewProcessIsHeardByItsIncarnation) {
  const TableShape shape = TableWorld({}).home().shape();
  TableHome home(0, shape, 1, {});
  const uint64_t key = 7;
  for (uint32_t incarnation = 1; incarnation <= 3; ++incarnation) {
    TableCopy copy(shape);
    TableReplica replica(0, UnitId{0}, copy, {});
    replica.on_start({}, incarnation);
    copy.Update<1, 2>(&key, Value{1, 10}.data());
    replica.on_updates({});
    TableMessage update, answer;
    ASSERT_TRUE(replica.on_timers({}, update));
    ASSERT_TRUE(home.on_message({}, update, answer)) << incarnation;
    EXPECT_FALSE(replica.on_message({}, answer, update));
    EXPECT_EQ(home.total(0)[0], incarnation);
    Value known(2);
    copy.Read(&key, known.data());
    EXPECT_EQ(known[0], incarnation);
  }
}

constexpr TableOptions kForgets = {.forget_after = Seconds(10)};

TEST(Table, AFullHomeForgetsKeysThatNobodyUpdates) {
  TableWorld world = Started({.max_entries = 4, .table = kForgets});
  for (uint64_t key = 0; key < 4; ++key) world.Update(0, key, {1, key});
  ASSERT_TRUE(world.RunToTheEnd());
  world.RunUntil({world.now().ns + 20'000 * kMs});
  world.Update(1, 3, {1, 3});  // keeps it
  ASSERT_TRUE(world.RunToTheEnd());
  // The first new key finds no room, but the old ones make some.
  world.Update(0, 10, {1, 100});
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.home().forgotten(), 3u);
  EXPECT_EQ(world.copy(0).refused(), 1u);
  EXPECT_EQ(world.home().size(), 1u);
  EXPECT_EQ(world.Differences(false), "");
  for (uint64_t key = 11; key < 14; ++key) world.Update(1, key, {1, 100});
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.home().refused(), 0u);
  EXPECT_EQ(world.home().size(), 4u);
  for (uint32_t unit = 0; unit < 2; ++unit) {
    EXPECT_EQ(world.Read(unit, 0), (Value{0, 0}));
    EXPECT_EQ(world.Read(unit, 3), (Value{2, 6}));
    EXPECT_EQ(world.Read(unit, 13), (Value{1, 100}));
    EXPECT_EQ(world.ReadRest(unit), (Value{4, 103}));
  }
  EXPECT_EQ(world.Differences(false), "");
}

TEST(Table, AKeyThatWasForgottenBeginsAnew) {
  TableWorld world = Started({.max_entries = 1, .table = kForgets});
  world.Update(0, 7, {5, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  world.RunUntil({world.now().ns + 20'000 * kMs});
  world.Update(0, 8, {1, 0});  // is refused, and 7 goes
  world.RunUntil({world.now().ns + 1'500});
  EXPECT_EQ(world.home().forgotten(), 1u);
  world.Update(1, 7, {2, 0});  // before this unit is told
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.home().forgotten(), 1u);
  EXPECT_EQ(world.Read(0, 7), (Value{2, 0}));
  EXPECT_EQ(world.Read(1, 7), (Value{2, 0}));
  EXPECT_EQ(world.ReadRest(0), (Value{6, 0}));
  EXPECT_EQ(world.Differences(false), "");
}

TEST(Table, WhatWasToldBeforeAKeyWentDoesNotBringItBack) {
  const TableShape shape = TableWorld({}).home().shape();
  TableCopy copy(shape);
  TableReplica replica(0, UnitId{0}, copy, {});
  replica.on_start({}, 1);
  TableMessage told = {.kind = TableMessage::Kind::kTold,
                       .entries = 1,
                       .unit = UnitId{0},
                       .incarnation = 1,
                       .seq = 1,
                       .version = 5};
  told.words = {7, 1, 2};
  TableMessage gone = told, out;
  gone.seq = 2;
  gone.version = 6;
  gone.in_rest = 1;
  EXPECT_TRUE(replica.on_message({}, told, out));
  EXPECT_EQ(copy.size(), 1u);
  EXPECT_TRUE(replica.on_message({}, gone, out));
  EXPECT_EQ(copy.size(), 0u);
  EXPECT_TRUE(replica.on_message({}, told, out));  // comes twice
  EXPECT_EQ(out.seq, 1u);
  EXPECT_EQ(copy.size(), 0u);
}

TEST(Table, AnErasedKeyIsGoneAtOnceHereAndLaterElsewhere) {
  TableWorld world = Started({});
  world.Update(0, 7, {5, 1});
  world.Update(1, 7, {3, 1});
  ASSERT_TRUE(world.RunToTheEnd());
  world.Update(0, 7, {1, 1});  // pending
  world.Erase(0, 7);
  EXPECT_EQ(world.Read(0, 7), (Value{0, 0}));
  EXPECT_EQ(world.Read(1, 7), (Value{8, 2}));
  for (int i = 0; i < 200; ++i) {  // also when it is answered, but not told
    world.RunUntil({world.now().ns + kMs});
    ASSERT_EQ(world.Read(0, 7), (Value{0, 0})) << i;
  }
  world.Update(0, 8, {1, 1});
  ASSERT_TRUE(world.RunToTheEnd());
  for (uint32_t unit = 0; unit < 2; ++unit) {
    EXPECT_EQ(world.Read(unit, 7), (Value{0, 0}));
    EXPECT_EQ(world.ReadRest(unit), (Value{9, 3}));
    EXPECT_EQ(world.copy(unit).size(), 1u);
  }
  EXPECT_EQ(world.home().erased(), 1u);
  EXPECT_EQ(world.home().size(), 1u);
  EXPECT_EQ(world.Differences(true), "");
}

TEST(Table, AnErasedKeyBeginsAnewWithLaterUpdates) {
  TableWorld world = Started({});
  world.Update(0, 7, {5, 1});
  ASSERT_TRUE(world.RunToTheEnd());
  world.RunUntil({world.now().ns + 20 * kMs});
  world.Erase(0, 7);  // is sent at once
  world.Update(0, 7, {2, 1});
  EXPECT_EQ(world.Read(0, 7), (Value{2, 1}));
  world.Update(1, 7, {4, 1});  // reaches the home after the erasure
  ASSERT_TRUE(world.RunToTheEnd());
  for (uint32_t unit = 0; unit < 2; ++unit) {
    EXPECT_EQ(world.Read(unit, 7), (Value{6, 2}));
    EXPECT_EQ(world.ReadRest(unit), (Value{5, 1}));
  }
}

// The answer is lost, so the erasure is sent again: later updates stay.
TEST(Table, ARepeatedErasureCountsOnce) {
  const TableShape shape = TableWorld({}).home().shape();
  TableHome home(0, shape, 2, {});
  TableMessage update = {.entries = 1, .unit = UnitId{0}, .incarnation = 1};
  update.seq = 1;
  update.words = {7, 5, 1};
  TableMessage out;
  ASSERT_TRUE(home.on_message({}, update, out));
  TableMessage erasure = update;
  erasure.seq = 2;
  erasure.in_rest = 1;
  erasure.words = {7, 0, 0};
  ASSERT_TRUE(home.on_message({}, erasure, out));
  EXPECT_EQ(out.in_rest, 1u);  // there is no such key
  EXPECT_EQ(home.size(), 0u);
  update.unit = UnitId{1};
  update.seq = 1;
  ASSERT_TRUE(home.on_message({}, update, out));
  ASSERT_TRUE(home.on_message({}, erasure, out));
  EXPECT_EQ(out.in_rest, 0u);
  EXPECT_EQ(out.words[1], 5u);
  EXPECT_EQ(home.erased(), 1u);
  EXPECT_EQ(home.rest()[0], 5u);
}

TEST(Table, TheSlotsOfErasedKeysAreUsedAgain) {
  TableWorld world = Started({.max_entries = 4});
  for (uint64_t key = 0; key < 100; ++key) {
    world.Update(0, key, {1, 1});
    ASSERT_TRUE(world.RunToTheEnd());
    world.Erase(1, key);
    ASSERT_TRUE(world.RunToTheEnd());
  }
  EXPECT_EQ(world.home().refused(), 0u);
  EXPECT_EQ(world.home().erased(), 100u);
  EXPECT_EQ(world.home().size(), 0u);
  EXPECT_EQ(world.ReadRest(0), (Value{100, 100}));
  EXPECT_EQ(world.Differences(false), "");
}

TEST(Table, KeysExpireByTheirAgeWithTheNextUpdate) {
  TableWorld world =
      Started({.max_entries = 100, .expires_after = Seconds(60)});
  for (uint64_t key = 0; key < 50; ++key) world.Update(0, key, {1, 1});
  ASSERT_TRUE(world.RunToTheEnd());
  world.RunUntil({world.now().ns + 40'000 * kMs});
  world.Update(1, 3, {1, 1});  // keeps it
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.home().expired(), 0u);
  world.RunUntil({world.now().ns + 40'000 * kMs});
  EXPECT_EQ(world.home().size(), 50u);  // nothing was updated
  world.Update(0, 60, {1, 1});
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.home().expired(), 32u);
  world.Update(0, 60, {1, 1});
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.home().expired(), 49u);
  for (uint32_t unit = 0; unit < 2; ++unit) {
    EXPECT_EQ(world.copy(unit).size(), 2u);
    EXPECT_EQ(world.Read(unit, 3), (Value{2, 2}));
    EXPECT_EQ(world.ReadRest(unit), (Value{49, 49}));
  }
  EXPECT_EQ(world.Differences(false), "");
}

// Moves the first word into the second, and lets keys go in which nothing was.
bool Turn(uint64_t* value, uint64_t periods) {
  value[1] = periods == 1 ? value[0] : 0;
  value[0] = 0;
  return value[1] > 0;
}

TEST(Table, ATimerIsCalledForEachKeyWithTheNextUpdate) {
  TableWorld world = Started({.on_timer = Turn, .timer_period = Seconds(100)});
  world.Update(0, 7, {3, 0});
  world.Update(1, 7, {2, 0});
  world.Update(1, 8, {1, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  world.RunUntil({90'000 * kMs});
  EXPECT_EQ(world.Read(0, 7), (Value{5, 0}));
  world.RunUntil({150'000 * kMs});
  EXPECT_EQ(world.Read(0, 7), (Value{5, 0}));  // nothing was updated
  world.Update(0, 7, {4, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  for (uint32_t unit = 0; unit < 2; ++unit) {
    EXPECT_EQ(world.Read(unit, 7), (Value{4, 5}));
    EXPECT_EQ(world.Read(unit, 8), (Value{0, 1}));
  }
  world.RunUntil({210'000 * kMs});
  world.Update(1, 7, {1, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.Read(0, 7), (Value{1, 4}));
  EXPECT_EQ(world.home().size(), 1u);  // 8 is erased
  EXPECT_EQ(world.copy(0).size(), 1u);
  world.RunUntil({500'000 * kMs});
  world.Update(1, 9, {1, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.Read(0, 7), (Value{0, 0}));  // some periods were idle
  EXPECT_EQ(world.Read(0, 9), (Value{1, 0}));
}

TEST(Table, ATimerIsCalledOnceForEachOfManyKeys) {
  TableWorld world = Started({.max_entries = 2'000,
                              .on_timer =
                                  [](uint64_t* value, uint64_t periods) {
                                    value[1] += periods;
                                    return true;
                                  },
                              .timer_period = Seconds(100)});
  for (uint64_t key = 0; key < 1'000; ++key) world.Update(0, key, {1, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  world.RunUntil({350'000 * kMs});
  world.Update(1, 999, {1, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  for (uint64_t key = 0; key < 1'000; ++key) {
    ASSERT_EQ(world.Read(1, key), (Value{key == 999 ? 2u : 1u, 3}));
    ASSERT_EQ(world.Read(0, key), world.Read(1, key));
  }
}

TEST(Table, SumsMayBeSigned) {
  TableWorld world = Started({});
  const auto minus = [](uint64_t n) { return uint64_t{0} - n; };
  world.Update(0, 7, {minus(3), 0});
  world.Update(1, 7, {1, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  for (uint32_t unit = 0; unit < 2; ++unit) {
    EXPECT_EQ(static_cast<int64_t>(world.Read(unit, 7)[0]), -2);
  }
  world.Update(1, 7, {2, 0});
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.Read(0, 7), (Value{0, 0}));
  EXPECT_EQ(world.Differences(true), "");
}

TEST(Table, AHookMergesAnythingThatHasAnOrderOfItsOwn) {
  TableWorld world = Started(
      {.value_words = 1, .merge = [](uint64_t* value, const uint64_t* more) {
         *value = std::max(*value, *more);
       }});
  world.Update(0, 7, {30});
  world.Update(1, 7, {20});
  ASSERT_TRUE(world.RunToTheEnd());
  world.Update(1, 7, {25});
  EXPECT_EQ(world.Read(1, 7), Value{30});
  world.Update(1, 7, {40});
  ASSERT_TRUE(world.RunToTheEnd());
  EXPECT_EQ(world.Read(0, 7), Value{40});
  EXPECT_EQ(world.Differences(true), "");
}

TEST(Table, NonsenseIsNotTaken) {
  TableWorld world = Started({});
  TableHome home(0, world.home().shape(), 2, {});
  TableMessage out;
  const TableMessage good = {.unit = UnitId{1}, .incarnation = 1, .seq = 1};
  TableMessage bad = good;
  bad.unit = UnitId{2};
  EXPECT_FALSE(home.on_message({}, bad, out));
  bad = good;
  bad.entries = 43;
  EXPECT_FALSE(home.on_message({}, bad, out));
  bad = good;
  bad.table = 1;
  EXPECT_FALSE(home.on_message({}, bad, out));
  bad = good;
  bad.seq = 2;
  EXPECT_FALSE(home.on_message({}, bad, out));
  bad = good;
  bad.kind = TableMessage::Kind::kMerged;
  EXPECT_FALSE(home.on_message({}, bad, out));
  EXPECT_TRUE(home.on_message({}, good, out));
}

TEST(Table, NobodyWaitsForAUnitThatHasFailed) {
  const TableWorld world = Started({});
  TableHome home(0, world.home().shape(), 2, {});
  TableMessage out;
  TableMessage update = {.incarnation = 1, .seq = 1};
  for (const UnitId unit : {UnitId{0}, UnitId{1}}) {
    update.unit = unit;
    ASSERT_TRUE(home.on_message({}, update, out));
  }
  update = {.entries = 1, .unit = UnitId{0}, .incarnation = 1, .seq = 2};
  update.words[0] = 7;
  update.words[1] = 100;
  ASSERT_TRUE(home.on_message({}, update, out));
  ASSERT_NE(home.next_wakeup(), Instant::max());  // to tell unit 1
  home.on_unit_failed(UnitId{1});
  home.on_unit_failed(UnitId{1});
  EXPECT_EQ(home.next_wakeup(), Instant::max());
  EXPECT_EQ(home.joined().size(), 1u);
  // What it had sent before is late, and its next life is told everything.
  update.unit = UnitId{1};
  EXPECT_FALSE(home.on_message({}, update, out));
  EXPECT_EQ(home.joined().size(), 1u);
  ASSERT_TRUE(home.on_message(
      {}, {.unit = UnitId{1}, .incarnation = 2, .seq = 1}, out));
  EXPECT_EQ(home.joined().size(), 2u);
  ASSERT_TRUE(home.on_timers({kMs * 20}, out));
  EXPECT_EQ(out.unit, UnitId{1});
  EXPECT_EQ(out.entries, 2);  // one is the rest
  EXPECT_EQ(out.words[1], 100u);
}

}  // namespace
}  // namespace snf
