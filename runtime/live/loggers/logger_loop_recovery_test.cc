// SPDX-License-Identifier: Apache-2.0
//
// Processes of loggers, units and controllers end and begin again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/live/loggers/logger_loop.h"
#include "runtime/live/loggers/test_loggers.h"

namespace snf {
namespace {

using Kind = UnitCommand::Kind;

constexpr std::string_view kNat = "nat:ip=203.0.113.1";

void LogPieces(LogEntry::Kind kind, uint64_t mask, Loggers& loggers) {
  LogEntry entry = loggers.NextClock();
  entry.meta = {};
  entry.packet = kNoPacket;
  entry.outcome = LogEntry::Outcome::kNone;
  entry.base = entry.state = {};
  entry.flags = 0;
  entry.kind = kind;
  entry.argument = kind == LogEntry::Kind::kGrant ? 1 : 0;
  entry.block = {.word = 20, .pool = 0, .unit = kUnit, .mask = mask};
  loggers.Log(entry);
}

void AskForReport(uint32_t epoch, Loggers& loggers) {
  loggers.control().newest = std::max(loggers.control().newest.load(), epoch);
  loggers.Send({.kind = LogWord::Kind::kReport, .bytes = sizeof epoch},
               std::as_bytes(std::span(&epoch, 1)));
}

// `heard` is the report of four units, of which one has got pieces.
void ExpectReport(std::span<const UnitCommand> heard, uint32_t epoch,
                  uint64_t mask) {
  ASSERT_EQ(heard.size(), 7u);
  EXPECT_EQ(heard[0].kind, Kind::kReported);
  EXPECT_EQ(heard[0].epoch, 0u) << "what was said before is void";
  EXPECT_EQ(heard[3].kind, Kind::kReportUnit);
  EXPECT_EQ(heard[3].unit, kUnit);
  EXPECT_EQ(heard[3].standing.grants, 1u);
  EXPECT_EQ(heard[5].kind, Kind::kReportWord);
  EXPECT_EQ(heard[5].pieces.word, 20u);
  EXPECT_EQ(heard[5].pieces.mask, mask);
  EXPECT_EQ(heard[6].kind, Kind::kReported);
  EXPECT_EQ(heard[6].epoch, epoch);
}

// F10: what units were granted, and have not given back through it.
TEST(LoggerLoop, ReportsToANewControllerWhichPiecesCameAndWent) {
  Loggers loggers(false, true, kNat);
  LogPieces(LogEntry::Kind::kGrant, 0b111, loggers);
  LogPieces(LogEntry::Kind::kReturn, 0b010, loggers);
  AskForReport(3, loggers);
  LogPieces(LogEntry::Kind::kReturn, 0b100, loggers);
  loggers.Turn();
  ASSERT_EQ(loggers.faults().count(), 0u)
      << ToString(*loggers.faults().first());
  const std::vector<UnitCommand> heard = loggers.TakeHeard();
  ASSERT_EQ(heard.size(), 9u);
  EXPECT_EQ(heard[0].kind, Kind::kReturnPieces);
  ExpectReport(std::span(heard).subspan(1, 7), 3, 0b101);
  EXPECT_EQ(heard[8].kind, Kind::kReturnPieces) << "it is told as ever";
}

void SendName(FlowId flow, Loggers& loggers) {
  const FlowName name = {.flow = flow, .version = value(flow)};
  loggers.Send(
      {.kind = LogWord::Kind::kName, .unit = kUnit, .bytes = sizeof name},
      std::as_bytes(std::span(&name, 1)));
}

// A flow's name comes once more behind its last packet at the unit, and then
// another unit takes the flow over, or it ends.
TEST(LoggerLoop, KeepsNoNameOfAFlowThatHasLeftItsUnit) {
  for (const auto kind : {LogEntry::Kind::kForget, LogEntry::Kind::kEnded}) {
    SCOPED_TRACE(static_cast<int>(kind));
    Loggers loggers(/*recovers=*/true, /*reports=*/true);
    size_t most = 0;
    for (uint32_t i = 0; i < 10'000; ++i) {
      const FlowId flow = MakeFlowId(0, i, 0);
      SendName(flow, loggers);
      if (kind == LogEntry::Kind::kForget) loggers.Log(loggers.NextOf(flow));
      SendName(flow, loggers);
      LogEntry gone = loggers.NextOf(flow);
      gone.kind = kind;
      gone.meta.clock = Clock{2};
      gone.state = Clock{};
      gone.flags = 0;
      gone.packet = kNoPacket;
      gone.outcome = LogEntry::Outcome::kNone;
      gone.block.unit = UnitId{1};
      loggers.Log(gone);
      loggers.Settle();
      loggers.TakeHeard();
      most = std::max(most, loggers.loop().names(kUnit));
    }
    ASSERT_EQ(loggers.faults().count(), 0u)
        << ToString(*loggers.faults().first());
    EXPECT_EQ(loggers.loop().logger(kUnit)->flows(), 0u);
    EXPECT_LE(most, 512u);
  }
}

// A packet of a flow may be on its way while others come.
TEST(LoggerLoop, KeepsTheNameOfAFlowWhosePacketsAreOnTheirWay) {
  Loggers loggers(/*recovers=*/true, /*reports=*/true);
  for (uint32_t i = 0; i < 1'000; ++i) {
    SendName(MakeFlowId(0, i, 0), loggers);
    loggers.Settle();
  }
  EXPECT_EQ(loggers.loop().names(kUnit), 1'000u);
}

TEST(FreshNames, AreAtMostSoMany) {
  FreshNames names;
  for (uint32_t i = 0; i < 5 * FreshNames::kMost; ++i) {
    names.Add(kUnit, MakeFlowId(0, i, 0));
    ASSERT_TRUE(names.Has(kUnit, MakeFlowId(0, i, 0)));
    ASSERT_LE(names.size(), 2 * FreshNames::kMost);
  }
  EXPECT_FALSE(names.Has(kUnit, MakeFlowId(0, 0, 0)));
  names.EraseAllOf(kUnit);
  EXPECT_TRUE(names.empty());
}

// Units may say what they like.
TEST(LoggerLoop, ReportsToNoControllerThatThereIsNotYet) {
  Loggers loggers(/*recovers=*/true, true, kNat);
  AskForReport(3, loggers);
  loggers.control().newest = 2;
  loggers.Turn();
  EXPECT_TRUE(loggers.TakeHeard().empty());
  ASSERT_EQ(loggers.faults().count(), 1u);
  EXPECT_EQ(ToString(*loggers.faults().first()),
            "the loop of units 0 sent a bad word: log word with controller 3");
}

// The controller has dropped words, as one of them could not be, that the
// process before had noted as sent: their entries are gone.
TEST(LoggerLoop, TellsOfWordsThatTheControllerHasDropped) {
  Loggers loggers(/*recovers=*/true);
  loggers.Log(loggers.NextClock());
  loggers.Log(loggers.NextClock());
  loggers.Turn();
  EXPECT_EQ(loggers.note().Read().words, 2u);
  loggers.DropWordsFrom(1);
  loggers.Replace();
  ASSERT_EQ(loggers.faults().count(), 1u);
  EXPECT_EQ(ToString(*loggers.faults().first()),
            "the logger of the loop of units 0 sent a bad word: words with "
            "position 2");
}

// Another process goes on with the ledger, in which each entry counts once; and
// if the one before was killed over its report, whatever of it had been sent,
// it reports anew.
TEST(LoggerLoop, ReportsAgainInPlaceOfAProcessThatWasKilledOverThat) {
  enum class Killed { kBefore, kBeforeAny, kBehindAll };
  for (const Killed at :
       {Killed::kBefore, Killed::kBeforeAny, Killed::kBehindAll}) {
    SCOPED_TRACE(static_cast<int>(at));
    Loggers loggers(true, true, kNat);
    LogPieces(LogEntry::Kind::kGrant, 0b111, loggers);
    loggers.Turn();
    const LogNote::Positions before = loggers.note().Read();
    LogPieces(LogEntry::Kind::kReturn, 0b010, loggers);
    if (at == Killed::kBefore) {  // it has noted nothing of the second entry
      loggers.Turn();
      loggers.TakeBackReleased(before.entries);
      loggers.note().Write(before);
    }
    AskForReport(3, loggers);
    if (at != Killed::kBefore) {
      loggers.loop().Turn();
      const LogNote::Positions due = loggers.note().Read();
      EXPECT_EQ(due.others, LogNote::Others::kReport);
      EXPECT_EQ(due.controller, 3u);
      if (at == Killed::kBehindAll) {
        loggers.Turn();
        EXPECT_EQ(loggers.note().Read().others, LogNote::Others::kNone);
        loggers.note().Write(due);
      }
    }
    EXPECT_EQ(loggers.TakeHeard().size(), at == Killed::kBehindAll ? 8u : 1u);
    loggers.Replace();
    loggers.HandOverGrant(1, at == Killed::kBefore ? 1 : 2, 0b101);
    loggers.Turn();
    ASSERT_EQ(loggers.faults().count(), 0u)
        << ToString(*loggers.faults().first());
    ExpectReport(loggers.TakeHeard(), 3, 0b101);
    // The one after it has nothing to report, though the loop was asked once.
    loggers.control().asked = 2;
    loggers.Replace();
    loggers.HandOverGrant(2, 2, 0b101);
    loggers.Turn();
    EXPECT_TRUE(loggers.TakeHeard().empty());
  }
}

// It waits for its alias, and its record is ahead of what its entries say.
TEST(LoggerLoop, HasAllOnceAFlowThatWasAheadIsWhole) {
  Loggers loggers(/*recovers=*/true);
  for (int i = 0; i < 2; ++i) loggers.Log(loggers.NextClock());
  loggers.Turn();
  loggers.TakeHeard();
  loggers.Replace();
  loggers.HandOver(1, 2, /*is_ahead=*/true);
  loggers.Turn();
  EXPECT_EQ(loggers.control().restored, 0u);
  loggers.Log(loggers.NextOf(FlowId{8}));
  loggers.Turn();
  EXPECT_EQ(loggers.control().restored, 0u);
  LogEntry next = loggers.NextClock();
  next.flags |= LogEntry::kWhole;
  loggers.Log(next);
  loggers.Turn();
  EXPECT_EQ(loggers.control().restored, 1u);
  EXPECT_EQ(loggers.TakeHeard().size(), 2u);
  EXPECT_EQ(loggers.loop().logger(kUnit)->applied(FlowId{7}), Clock{3});
  EXPECT_EQ(loggers.faults().count(), 0u);
}

// The ring had no room for an entry, whose effects are in the record.
TEST(LoggerLoop, HasAllOnceItHasTheEntriesThatUnitsHadMade) {
  Loggers loggers(/*recovers=*/true);
  loggers.Log(loggers.NextClock());
  const LogEntry second = loggers.NextClock();
  loggers.Turn();
  loggers.TakeHeard();
  loggers.Replace();
  loggers.HandOver(1, 1);
  loggers.Settle();
  EXPECT_EQ(loggers.loop().logger(kUnit)->applied(FlowId{7}), Clock{2});
  EXPECT_EQ(loggers.control().restored, 0u);
  loggers.Log(second);
  loggers.Settle();
  EXPECT_EQ(loggers.control().restored, 1u);
  EXPECT_EQ(loggers.TakeHeard().size(), 1u);
  EXPECT_EQ(loggers.faults().count(), 0u);
}

constexpr Seal kSeal = {.unit = kUnit, .incarnation = 1, .round = 5};

// What was whole in the ring is released before anybody hears that no more is.
TEST(LoggerLoop, TakesAllThatAProcessHadSentBeforeItSealsItsUnits) {
  Loggers loggers(/*recovers=*/true);
  for (int i = 0; i < 50; ++i) loggers.Log(loggers.NextClock());
  loggers.Send({.kind = LogWord::Kind::kEntry, .unit = kUnit, .bytes = 150},
               {});  // the other cells were never sent
  loggers.End();
  loggers.Order(kSeal);
  loggers.Turn();
  const std::vector<UnitCommand> heard = loggers.TakeHeard();
  ASSERT_EQ(heard.size(), 53u);
  for (uint32_t i = 0; i < 50; ++i) EXPECT_EQ(heard[i].kind, Kind::kRelease);
  EXPECT_EQ(heard[50].kind, Kind::kSendDone);
  EXPECT_EQ(heard[50].unit, kUnit);
  EXPECT_EQ(heard[50].done.flow, FlowId{7});
  EXPECT_EQ(heard[50].done.applied, Clock{50});
  EXPECT_EQ(heard[50].done.round, 5u);
  EXPECT_EQ(heard[51].kind, Kind::kSendGrants);
  EXPECT_EQ(heard[52].done.flow, kNoFlow);
  EXPECT_EQ(loggers.control().drained, 1u);
  EXPECT_EQ(loggers.log().released(), loggers.log().cells());
  EXPECT_EQ(loggers.faults().count(), 0u);
}

TEST(LoggerLoop, TakesEntriesOfTheNextProcessAndNoneOfTheOneThatEnded) {
  Loggers loggers(/*recovers=*/true);
  loggers.Log(loggers.NextClock());
  loggers.End();
  loggers.Order(kSeal);
  loggers.Turn();
  loggers.TakeHeard();
  LogEntry late = loggers.NextClock();
  loggers.BeginAnew();
  LogEntry next = loggers.NextClock();
  next.meta.clock = next.state = Clock{2};
  next.base = Clock{1};
  next.flags |= LogEntry::kWhole;
  loggers.Log(next);
  loggers.Turn();
  EXPECT_EQ(loggers.TakeHeard().size(), 1u);
  // Once more for another round: the flow is where it was.
  loggers.Order({.unit = kUnit, .is_sealed = true, .round = 6});
  loggers.Turn();
  const std::vector<UnitCommand> heard = loggers.TakeHeard();
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].done.applied, Clock{2});
  EXPECT_EQ(heard[1].done.flow, kNoFlow);
  EXPECT_EQ(loggers.faults().count(), 0u);
  loggers.Log(late);
  loggers.Turn();
  EXPECT_TRUE(loggers.TakeHeard().empty());
  EXPECT_EQ(loggers.faults().count(), 1u);
}

// A unit that has never logged has a logger all the same once it is sealed.
TEST(LoggerLoop, SealsUnitsOfWhichItHasNothing) {
  Loggers loggers(/*recovers=*/true);
  loggers.End();
  loggers.Order(kSeal);
  loggers.Turn();
  EXPECT_EQ(loggers.TakeHeard().size(), 2u);
  loggers.BeginAnew();
  loggers.Log(loggers.NextClock());
  loggers.Turn();
  EXPECT_EQ(loggers.TakeHeard().size(), 1u);
  EXPECT_EQ(loggers.faults().count(), 0u);
}

TEST(LoggerLoop, RefusesASealOfAUnitThatIsNotItsOwn) {
  for (const UnitId unit : {UnitId{4}, UnitId{65'534}}) {
    Loggers loggers(/*recovers=*/true);
    loggers.Order({.unit = unit, .incarnation = 1, .round = 5});
    loggers.Order(kSeal);
    loggers.Turn();
    EXPECT_TRUE(loggers.TakeHeard().empty());
    ASSERT_EQ(loggers.faults().count(), 1u);
    EXPECT_EQ(
        ToString(*loggers.faults().first()),
        fmt::format("the loop of units 0 sent a bad word: order with unit "
                    "{}",
                    value(unit)));
  }
}

// A unit that skips a number is refused, and then its process dies: of what the
// entry says nothing has come true.
TEST(LoggerLoop, DropsAnEntryThatWasRefusedWhenItsUnitIsSealed) {
  Loggers loggers(/*recovers=*/true);
  loggers.Log(loggers.NextClock());
  loggers.NextClock();
  loggers.Log(loggers.NextClock());
  loggers.Turn();
  EXPECT_EQ(loggers.faults().count(), 1u);
  EXPECT_EQ(loggers.TakeHeard().size(), 1u);
  loggers.End();
  loggers.Order(kSeal);
  loggers.Turn();
  const std::vector<UnitCommand> heard = loggers.TakeHeard();
  ASSERT_EQ(heard.size(), 3u);
  EXPECT_EQ(heard[0].kind, Kind::kSendDone);
  EXPECT_EQ(heard[0].done.applied, Clock{1});
  EXPECT_EQ(heard[1].kind, Kind::kSendGrants);
  EXPECT_EQ(heard[2].done.flow, kNoFlow);
}

// The one before has sent a part of what a burst of entries led to, as the
// controller's ring was full, and notes it only once it has sent all.
TEST(LoggerLoop, GoesOnWhereTheProcessBeforeItHasStopped) {
  constexpr uint64_t kEntries = 300;
  Loggers loggers(/*recovers=*/true);
  for (uint64_t i = 0; i < kEntries; ++i) {
    LogEntry entry = loggers.NextClock();
    if (i % 3 == 0) {
      entry.flags |= LogEntry::kOver;
      entry.idle_timeout = Nanos{static_cast<int64_t>(i)};
    }
    loggers.Log(entry);
  }
  loggers.Turn();
  const uint64_t released = loggers.log().released() / 3;  // cells an entry
  ASSERT_LT(released, kRingCells * 3 / 4) << "of 4 words for 3 entries";
  ASSERT_GT(released, kRingCells / 2);
  loggers.Replace();
  loggers.Turn();
  EXPECT_FALSE(loggers.loop().has_items()) << "it waits for the units";
  loggers.HandOver(1, released);
  uint64_t clock = 0;
  uint64_t notes = 0;
  for (int i = 0; i < 10; ++i) {
    for (const UnitCommand& word : loggers.TakeHeard()) {
      if (word.kind == Kind::kSendNote) {
        ++notes;
        EXPECT_EQ(value(word.note.clock), clock);
        continue;
      }
      ASSERT_EQ(word.kind, Kind::kRelease);
      ASSERT_EQ(word.meta.clock, Clock{++clock});
    }
    loggers.Turn();
  }
  EXPECT_EQ(clock, kEntries);
  EXPECT_EQ(notes, kEntries / 3);
  EXPECT_EQ(loggers.control().restored, 1u);
  EXPECT_EQ(loggers.control().records, 1u);
  EXPECT_EQ(loggers.loop().logger(kUnit)->applied(FlowId{7}), Clock{kEntries});
  EXPECT_EQ(loggers.log().released(), kEntries * 3);
  EXPECT_EQ(loggers.faults().count(), 0u);
  loggers.Log(loggers.NextClock());
  loggers.Turn();
  EXPECT_EQ(loggers.TakeHeard().size(), 1u);
}

// One that has gone through a part of the entries again dies as well.
TEST(LoggerLoop, GoesOnWhereSeveralProcessesHaveStopped) {
  constexpr uint64_t kEntries = 300;
  for (int turns = 0; turns < 8; ++turns) {
    SCOPED_TRACE(turns);
    Loggers loggers(/*recovers=*/true);
    for (uint64_t i = 0; i < kEntries; ++i) {
      LogEntry entry = loggers.NextClock();
      entry.flags |= LogEntry::kOver;
      entry.idle_timeout = Nanos{1};
      loggers.Log(entry);
    }
    loggers.Turn();  // until the ring has no room for two words an entry
    for (uint32_t process = 1; process < 4; ++process) {
      loggers.Replace();
      loggers.HandOver(process, loggers.log().released() / 3);
      // What it is to say of this waits for the words of entries.
      loggers.Order({.unit = kUnit, .is_sealed = true, .round = process});
      for (int i = 0; i < turns; ++i) loggers.loop().Turn();
    }
    uint64_t words = 0;
    for (int i = 0; i < 10; ++i) {
      loggers.Turn();
      for (const UnitCommand& word : loggers.TakeHeard()) {
        if (word.kind == Kind::kSendDone) continue;
        ASSERT_EQ(word.kind, words % 2 == 0 ? Kind::kRelease : Kind::kSendNote);
        ASSERT_EQ(value(words % 2 == 0 ? word.meta.clock : word.note.clock),
                  words / 2 + 1);
        ++words;
      }
    }
    EXPECT_EQ(words, 2 * kEntries);
    EXPECT_EQ(loggers.faults().count(), 0u);
  }
}

// All that entries led to was sent, but this was not noted; or it was, and the
// entries are still in the ring.
TEST(LoggerLoop, KnowsWhatWasSentWhereverItsPredecessorWasKilled) {
  for (const bool is_noted : {false, true}) {
    SCOPED_TRACE(is_noted);
    Loggers loggers(/*recovers=*/true);
    loggers.Log(loggers.NextClock());
    loggers.Turn();
    const LogNote::Positions before = loggers.note().Read();
    EXPECT_EQ(before, (LogNote::Positions{.entries = 3, .words = 1}));
    for (int i = 0; i < 2; ++i) loggers.Log(loggers.NextClock());
    loggers.Turn();
    EXPECT_EQ(loggers.TakeHeard().size(), 3u);
    loggers.TakeBackReleased(3);
    if (!is_noted) loggers.note().Write(before);
    loggers.Replace();
    loggers.HandOver(1, is_noted ? 3 : 1);
    loggers.Turn();
    EXPECT_TRUE(loggers.TakeHeard().empty());
    EXPECT_EQ(loggers.log().released(), 9u);
    loggers.Log(loggers.NextClock());
    loggers.Turn();
    EXPECT_EQ(loggers.TakeHeard().size(), 1u);
    EXPECT_EQ(loggers.faults().count(), 0u);
  }
}

// It dies before it has all, and what was for it is void.
TEST(LoggerLoop, TakesNothingThatUnitsHandOverToAProcessBeforeIt) {
  Loggers loggers(/*recovers=*/true);
  loggers.Log(loggers.NextClock());
  loggers.Turn();
  ASSERT_EQ(loggers.TakeHeard().size(), 1u);
  loggers.Replace();
  loggers.HandOver(1, 0);  // which is not true any more
  loggers.Replace();
  loggers.Turn();
  EXPECT_EQ(loggers.control().restored, 0u);
  EXPECT_EQ(loggers.control().records, 0u);
  loggers.HandOver(2, 1);
  loggers.Turn();
  EXPECT_EQ(loggers.control().restored, 2u);
  EXPECT_EQ(loggers.control().records, 1u);
  loggers.Log(loggers.NextClock());
  loggers.Turn();
  EXPECT_EQ(loggers.TakeHeard().size(), 1u);
  EXPECT_EQ(loggers.faults().count(), 0u);
}

// What it says of a failure is asked for again, and is no entry's.
TEST(LoggerLoop, DoesNotTakeAReportForWhatEntriesLedTo) {
  Loggers loggers(/*recovers=*/true);
  loggers.Log(loggers.NextClock());
  LogEntry other = loggers.NextClock();
  other.meta.flow = FlowId{8};
  other.flags |= LogEntry::kWhole;
  loggers.Log(other);
  loggers.End();
  loggers.Order(kSeal);
  loggers.Turn();
  ASSERT_EQ(loggers.TakeHeard().size(), 6u);
  // More reports than the ring has room for: a part of one is in it.
  for (uint32_t i = 0; i < kRingCells; ++i) {
    loggers.Order({.unit = kUnit, .is_sealed = true, .round = 6 + i});
    loggers.Turn();
  }
  // The next process of the units.
  ++loggers.control().begun;
  loggers.BeginAnew();
  LogEntry next = loggers.NextClock();
  next.flags |= LogEntry::kWhole;
  loggers.Log(next);
  loggers.Turn();
  loggers.Replace();
  loggers.HandOver(1, 0);
  uint64_t released = 0;
  for (int i = 0; i < 10; ++i) {
    loggers.Turn();
    for (const UnitCommand& word : loggers.TakeHeard()) {
      released += word.kind == Kind::kRelease ? 1 : 0;
    }
  }
  EXPECT_EQ(released, 1u);
  EXPECT_EQ(loggers.faults().count(), 0u);
}

// There is nobody to hand over what is sealed.
TEST(LoggerLoop, WaitsForNoUnitsThatHaveNoProcess) {
  Loggers loggers(/*recovers=*/true);
  loggers.End();
  loggers.Order(kSeal);
  loggers.Turn();
  loggers.TakeHeard();
  loggers.Replace();
  loggers.Turn();
  EXPECT_EQ(loggers.control().restored, 1u);
  loggers.Order({.unit = kUnit, .is_sealed = true, .round = 6});
  loggers.Turn();
  const std::vector<UnitCommand> heard = loggers.TakeHeard();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].done.flow, kNoFlow);
  EXPECT_EQ(heard[0].done.round, 6u);
}

}  // namespace
}  // namespace snf
