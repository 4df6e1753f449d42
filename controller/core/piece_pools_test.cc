// SPDX-License-Identifier: Apache-2.0
//
// Tests of pools of pieces, through the controller.
#include "controller/core/piece_pools.h"

#include <vector>

#include "controller/core/test_driver.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};
constexpr UnitId kU0{0}, kU1{1}, kU2{2};
constexpr uint64_t kAll = ~uint64_t{0};
constexpr Nanos kTick{1 << TimingWheel::kTickShift};

class PiecePoolsTest : public testing::Test {
 protected:
  explicit PiecePoolsTest(uint32_t units = 3)
      : driver_(Options(units), policy_) {}

  static ControllerOptions Options(uint32_t units) {
    ControllerOptions options;
    options.max_flows = 10;
    options.max_units = options.warm_units = units;
    return options;
  }
  void AddPiecePool(uint32_t first, uint32_t last) {
    driver_.controller().AddPiecePool(first, last);
  }
  Commands Request(UnitId unit, uint16_t pool = 0, bool is_ahead = false) {
    return driver_.On([&](Controller& c, ControllerOut& out) {
      c.on_piece_request(
          now_, {.pool = pool, .unit = unit, .is_ahead = is_ahead}, out);
    });
  }
  Commands RequestAhead(UnitId unit) { return Request(unit, 0, true); }
  Commands Return(UnitId unit, uint32_t word, uint64_t mask,
                  uint16_t pool = 0) {
    return driver_.On([&](Controller& c, ControllerOut& out) {
      c.on_pieces_returned(
          now_, {.word = word, .pool = pool, .unit = unit, .mask = mask}, out);
    });
  }
  static void ExpectPieces(const Commands& commands, UnitId unit, uint32_t word,
                           uint64_t mask) {
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0].kind, Kind::kPieces);
    EXPECT_EQ(commands[0].unit, unit);
    EXPECT_EQ(commands[0].pieces.unit, unit);
    EXPECT_EQ(commands[0].pieces.word, word);
    EXPECT_EQ(commands[0].pieces.mask, mask);
  }
  static void ExpectRefused(const Commands& commands, UnitId unit) {
    ExpectPieces(commands, unit, 0, 0);
  }
  static void ExpectReclaims(const Commands& commands,
                             const std::vector<UnitId>& units) {
    ASSERT_EQ(commands.size(), units.size());
    for (size_t i = 0; i < units.size(); ++i) {
      EXPECT_EQ(commands[i].kind, Kind::kReclaim);
      EXPECT_EQ(commands[i].unit, units[i]);
    }
  }
  Instant next_wakeup() { return driver_.controller().next_wakeup(); }
  const PieceCounters& counters() const { return driver_.counters().pieces; }

  DirectedPolicy policy_;
  TestDriver driver_;
  Instant now_ = kStart;
};

TEST_F(PiecePoolsTest, GrantsTheWordWithTheMostPieces) {
  AddPiecePool(60, 200);
  ExpectPieces(Request(kU0), kU0, 1, kAll);
  ExpectPieces(Request(kU1), kU1, 2, kAll);
  ExpectPieces(Request(kU0), kU0, 3, 0x1ff);
  ExpectPieces(Request(kU0), kU0, 0, uint64_t{0xf} << 60);
  EXPECT_EQ(counters().blocks_granted, 4u);
  EXPECT_EQ(counters().pieces_out, 141u);
}

TEST_F(PiecePoolsTest, LetsWhatComesBackRestLongest) {
  AddPiecePool(0, 191);
  ExpectPieces(Request(kU0), kU0, 0, kAll);
  EXPECT_TRUE(Return(kU0, 0, kAll).empty());
  ExpectPieces(Request(kU0), kU0, 1, kAll);
  ExpectPieces(Request(kU0), kU0, 2, kAll);
  ExpectPieces(Request(kU0), kU0, 0, kAll);
  EXPECT_EQ(counters().pieces_out_max, 192u);
}

TEST_F(PiecePoolsTest, KeepsPoolsApart) {
  AddPiecePool(0, 63);
  AddPiecePool(64, 127);
  ExpectPieces(Request(kU0, 1), kU0, 1, kAll);
  ExpectPieces(Request(kU0, 0), kU0, 0, kAll);
  ExpectRefused(Request(kU0, 1), kU0);
}

TEST_F(PiecePoolsTest, RefusesWhereNobodyHasAnyToSpare) {
  AddPiecePool(0, 63);
  Request(kU0);
  // The only unit that has some is the one that asks.
  ExpectRefused(Request(kU0), kU0);
  EXPECT_EQ(counters().requests_refused, 1u);
  EXPECT_EQ(counters().reclaim_rounds, 0u);
}

TEST_F(PiecePoolsTest, AsksTheOthersForTheirs) {
  AddPiecePool(0, 127);
  Request(kU0);
  Request(kU1);
  ExpectReclaims(Request(kU2), {kU0, kU1});
  EXPECT_TRUE(driver_.RunTimers(now_).empty());
  EXPECT_GT(next_wakeup(), now_);
  ExpectPieces(Return(kU1, 1, 0xff), kU2, 1, 0xff);
  // A request during the round waits as well.
  EXPECT_TRUE(Request(kU2).empty());
  EXPECT_TRUE(Return(kU1, 0, 0).empty());
  ExpectPieces(Return(kU0, 0, 1), kU2, 0, 1);
  EXPECT_TRUE(Return(kU0, 0, 0).empty());
  EXPECT_EQ(counters().reclaim_rounds, 1u);
  EXPECT_EQ(next_wakeup(), Instant::max());
}

TEST_F(PiecePoolsTest, RefusesAtOnceWhatNoPacketWaitsFor) {
  AddPiecePool(0, 63);
  ExpectPieces(RequestAhead(kU0), kU0, 0, kAll);
  ExpectRefused(RequestAhead(kU1), kU1);
  EXPECT_EQ(counters().reclaim_rounds, 0u);
  // The round is there for the unit whose packet waits.
  ExpectReclaims(Request(kU1), {kU0});
  // During a round as well.
  ExpectRefused(RequestAhead(kU2), kU2);
  ExpectPieces(Return(kU0, 0, 6), kU1, 0, 6);
}

// Unit 1 has got all pieces, and may spare most of them.
TEST_F(PiecePoolsTest, AsksInTheNextRoundWhoWasGrantedSeveral) {
  AddPiecePool(0, 63);
  Request(kU0);
  ExpectReclaims(Request(kU1), {kU0});
  ExpectPieces(Return(kU0, 0, 0xff), kU1, 0, 0xff);
  EXPECT_TRUE(Return(kU0, 0, 0).empty());
  now_ = kStart + Milliseconds(1);
  EXPECT_TRUE(Request(kU2).empty());
  EXPECT_EQ(counters().reclaim_rounds, 1u);
  now_ = kStart + PiecePool::kRound + kTick;
  ExpectReclaims(driver_.RunTimers(now_), {kU0, kU1});
  EXPECT_TRUE(Return(kU0, 0, 0).empty());
  ExpectPieces(Return(kU1, 0, 0xfe), kU2, 0, 0xfe);
  EXPECT_EQ(counters().requests_refused, 0u);
}

// The unit waits for the end of a round that cannot help, and for the next one.
TEST_F(PiecePoolsTest, KeepsWhoAsksInTheMidstOfARoundForTheNextOne) {
  AddPiecePool(0, 63);
  Request(kU0);
  ExpectReclaims(Request(kU1), {kU0});
  ExpectPieces(Return(kU0, 0, 0xff), kU1, 0, 0xff);
  EXPECT_TRUE(Request(kU2).empty());
  EXPECT_TRUE(Return(kU0, 0, 0).empty());
  now_ = kStart + PiecePool::kRound + kTick;
  ExpectReclaims(driver_.RunTimers(now_), {kU0, kU1});
  // No unit spares any: all pieces are in use.
  EXPECT_TRUE(Return(kU0, 0, 0).empty());
  ExpectRefused(Return(kU1, 0, 0), kU2);
}

TEST_F(PiecePoolsTest, GivesEachThatWaitsItsShare) {
  AddPiecePool(0, 63);
  Request(kU0);
  Request(kU1);
  Request(kU2);
  const Commands commands = Return(kU0, 0, 0xff);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].pieces.unit, kU1);
  EXPECT_EQ(commands[0].pieces.mask, 0x0fu);
  EXPECT_EQ(commands[1].pieces.unit, kU2);
  EXPECT_EQ(commands[1].pieces.mask, 0xf0u);
}

TEST_F(PiecePoolsTest, AsksOnceInTenMilliseconds) {
  AddPiecePool(0, 63);
  Request(kU0);
  ExpectReclaims(Request(kU1), {kU0});
  ExpectRefused(Return(kU0, 0, 0), kU1);
  now_ = kStart + PiecePool::kRound + Nanos{-1};
  ExpectRefused(Request(kU1), kU1);
  now_ = kStart + PiecePool::kRound;
  ExpectReclaims(Request(kU1), {kU0});
  EXPECT_EQ(counters().reclaim_rounds, 2u);
}

TEST_F(PiecePoolsTest, GrantsBetweenRoundsWhatIsThere) {
  AddPiecePool(0, 63);
  Request(kU0);
  Request(kU1);
  Return(kU0, 0, 0);
  EXPECT_TRUE(Return(kU0, 0, 6).empty());
  ExpectPieces(Request(kU1), kU1, 0, 6);
}

TEST_F(PiecePoolsTest, WaitsNoLongerThanItsLimit) {
  AddPiecePool(0, 63);
  Request(kU0);
  ExpectReclaims(Request(kU1), {kU0});
  EXPECT_TRUE(Request(kU2).empty());
  now_ = kStart + PiecePool::kRound + Nanos{-1};
  EXPECT_TRUE(driver_.RunTimers(now_).empty());
  now_ = kStart + PiecePool::kRound + kTick;
  const Commands commands = driver_.RunTimers(now_);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(commands[0].pieces.mask | commands[1].pieces.mask, 0u);
  EXPECT_EQ(next_wakeup(), Instant::max());
  // A late answer is not lost, and does not end another round.
  EXPECT_TRUE(Return(kU0, 0, 6).empty());
  EXPECT_TRUE(Return(kU0, 0, 0).empty());
  ExpectPieces(Request(kU2), kU2, 0, 6);
}

TEST_F(PiecePoolsTest, WaitsNoMoreForAnAnswerOfTheRoundBefore) {
  AddPiecePool(0, 127);
  Request(kU0);
  Request(kU1);
  ExpectReclaims(Request(kU2), {kU0, kU1});
  Return(kU1, 0, 0);
  now_ = kStart + PiecePool::kRound + kTick;
  ExpectRefused(driver_.RunTimers(now_), kU2);
  // Unit 0, which never answered, now asks for pieces itself.
  ExpectReclaims(Request(kU0), {kU1});
  ExpectRefused(Return(kU1, 0, 0), kU0);
}

// A unit returns pieces after it has run the packets that waited for them.
TEST_F(PiecePoolsTest, GivesWhatComesLateToWhoWaitsInTheNextRound) {
  AddPiecePool(0, 63);
  Request(kU0);
  ExpectReclaims(Request(kU1), {kU0});
  now_ = kStart + PiecePool::kRound + kTick;
  ExpectRefused(driver_.RunTimers(now_), kU1);
  ExpectReclaims(Request(kU2), {kU0});
  ExpectPieces(Return(kU0, 0, 6), kU2, 0, 6);
  EXPECT_TRUE(Return(kU0, 0, 0).empty());
  EXPECT_TRUE(Return(kU0, 0, 0).empty());  // the second answer
  EXPECT_EQ(counters().messages_faulty, 0u);
}

TEST_F(PiecePoolsTest, AnswersWhoWaitsInTurn) {
  AddPiecePool(0, 63);
  Request(kU0);
  Request(kU2);
  Request(kU1);
  ExpectPieces(Return(kU0, 0, 1), kU1, 0, 1);
  Request(kU1);
  ExpectPieces(Return(kU0, 0, 2), kU2, 0, 2);
  Request(kU2);
  ExpectPieces(Return(kU0, 0, 4), kU1, 0, 4);
}

// Units 0 and 1 run, and unit 0 stops.
class StoppingUnit : public PiecePoolsTest {
 protected:
  void StopUnit0() {
    policy_.unit = kU0;
    driver_.Packet(now_, 1);
    driver_.ReadyAll(now_);
    driver_.DrainAll(now_);
    policy_.unit = kU1;
    for (int i = 0; i < 10'000; ++i) {
      now_ = now_ + Milliseconds(90);
      driver_.Packet(now_, 2);
      driver_.ReadyAll(now_);
      driver_.RunTimers(now_);
      driver_.DrainAll(now_);
      if (driver_.state(kU0) == UnitState::kStopping &&
          driver_.owned(kU0) == 0) {
        return;
      }
    }
    FAIL();
  }
};

TEST_F(StoppingUnit, DoesNotHoldUpARound) {
  AddPiecePool(0, 127);
  Request(kU0);
  StopUnit0();
  Request(kU1);
  ExpectReclaims(Request(kU1), {kU0});
  driver_.Stopped(kU0);
  EXPECT_LE(next_wakeup(), now_);
  ExpectRefused(driver_.Timers(now_), kU1);
  // A stopped unit is not asked again, even if it was asked before it stopped.
  now_ = now_ + PiecePool::kRound;
  ExpectRefused(Request(kU1), kU1);
}

TEST_F(StoppingUnit, IsNotAnsweredWhenItIsGone) {
  AddPiecePool(0, 63);
  Request(kU1);
  StopUnit0();
  ExpectReclaims(Request(kU0), {kU1});
  driver_.Stopped(kU0);
  EXPECT_TRUE(Return(kU1, 0, 1).empty());
  EXPECT_TRUE(Return(kU1, 0, 0).empty());
  EXPECT_EQ(counters().pieces_out, 63u);
}

TEST_F(StoppingUnit, LeavesItsPiecesToTheUnitThatItsFlowsGoTo) {
  AddPiecePool(0, 63);
  Request(kU0);
  StopUnit0();
  driver_.Stopped(kU0);
  // Unit 1 was granted none, but flow 1 moved there, and its piece with it.
  ExpectReclaims(Request(kU2), {kU1});
}

TEST_F(PiecePoolsTest, DoesNotTakeWhatIsNotOfThePoolOrThereAlready) {
  AddPiecePool(10, 70);
  Request(kU0);
  EXPECT_EQ(counters().pieces_out, 54u);
  EXPECT_TRUE(Return(kU0, 0, 0b11 << 9).empty());  // 9 is not of the pool
  EXPECT_EQ(counters().pieces_faulty, 1u);
  EXPECT_TRUE(Return(kU0, 0, 0b11 << 10).empty());  // 10 is there
  EXPECT_EQ(counters().pieces_faulty, 2u);
  EXPECT_TRUE(Return(kU0, 1, kAll).empty());  // 64 … 70 are, others are not
  EXPECT_EQ(counters().pieces_faulty, 66u);
  EXPECT_TRUE(Return(kU0, 2, 1).empty());
  EXPECT_TRUE(Return(kU0, 0xffff'ffff, 1).empty());
  EXPECT_EQ(counters().pieces_faulty, 68u);
  EXPECT_EQ(counters().pieces_out, 52u);
  ExpectPieces(Request(kU0), kU0, 1, 0x7f);
  ExpectPieces(Request(kU0), kU0, 0, 0b11 << 10);
  EXPECT_EQ(counters().messages_faulty, 0u);
}

TEST_F(PiecePoolsTest, RefusesWhatIsOfNoPoolAndNoUnit) {
  AddPiecePool(0, 127);
  ExpectRefused(Request(kU0, 1), kU0);  // who asks wants an answer
  EXPECT_TRUE(Return(kU0, 0, 1, 1).empty());
  EXPECT_TRUE(Request(kNoUnit).empty());
  EXPECT_TRUE(Request(UnitId{3}).empty());
  EXPECT_TRUE(Return(UnitId{3}, 0, 1).empty());
  EXPECT_EQ(counters().messages_faulty, 5u);
  Request(kU0);
  Request(kU1);
  ExpectReclaims(Request(kU2), {kU0, kU1});
  EXPECT_TRUE(Request(kU2).empty());
  EXPECT_EQ(counters().messages_faulty, 6u);
}

TEST_F(PiecePoolsTest, IgnoresAnAnswerThatNobodyAskedFor) {
  AddPiecePool(0, 63);
  EXPECT_TRUE(Return(kU0, 0, 0).empty());
  Request(kU0);
  ExpectReclaims(Request(kU1), {kU0});
  EXPECT_TRUE(Return(kU2, 0, 0).empty());
  ExpectRefused(Return(kU0, 0, 0), kU1);
}

// There are more units than commands that fit into one ControllerOut.
class ManyUnits : public PiecePoolsTest {
 protected:
  static constexpr uint32_t kUnits = 1'000;
  ManyUnits() : PiecePoolsTest(kUnits + 1) {}
};

TEST_F(ManyUnits, AreAskedAndAnsweredPieceByPiece) {
  AddPiecePool(0, kUnits * 64 - 1);
  for (uint32_t i = 0; i < kUnits; ++i) Request(TestDriver::Id(i));
  Commands commands = Request(TestDriver::Id(kUnits));
  EXPECT_LT(commands.size(), kUnits);
  EXPECT_LE(next_wakeup(), now_);
  // Other units ask for pieces before all units have been asked for theirs.
  for (uint32_t i = kUnits - 300; i < kUnits; ++i) {
    for (const ControllerCommand& c : Request(TestDriver::Id(i))) {
      commands.push_back(c);
    }
  }
  for (const ControllerCommand& c : driver_.Timers(now_)) {
    commands.push_back(c);
  }
  const Commands reclaims = Only(Kind::kReclaim, commands);
  EXPECT_GE(reclaims.size(), kUnits - 300u);
  EXPECT_EQ(reclaims.size(), commands.size());
  size_t answered = 0;
  for (const ControllerCommand& c : reclaims) {
    answered += Return(c.unit, 0, 0).size();
  }
  answered += driver_.RunTimers(now_).size();
  EXPECT_EQ(answered, 301u);
  EXPECT_EQ(counters().requests_refused, 301u);
  EXPECT_EQ(counters().reclaim_rounds, 1u);
}

}  // namespace
}  // namespace snf
