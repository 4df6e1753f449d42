// SPDX-License-Identifier: Apache-2.0
//
// Entries in, words to a controller out, over links; there are no units.
#include "runtime/live/loggers/logger_loop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/live/loggers/test_loggers.h"

namespace snf {
namespace {

using Kind = UnitCommand::Kind;

TEST(LoggerLoop, ReleasesWhatItHasLogged) {
  Loggers loggers;
  loggers.Log(loggers.NextClock());
  loggers.Log(loggers.NextClock());
  loggers.Turn();
  const std::vector<UnitCommand> heard = loggers.TakeHeard();
  ASSERT_EQ(heard.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(heard[i].kind, Kind::kRelease);
    EXPECT_EQ(heard[i].unit, kUnit);
    EXPECT_EQ(heard[i].packet, PacketHandle{i + 1});
    EXPECT_EQ(heard[i].meta.clock, Clock{i + 1});
  }
  EXPECT_EQ(loggers.loop().logger(kUnit)->applied(FlowId{7}), Clock{2});
  EXPECT_EQ(loggers.log().released(), loggers.log().cells());
  EXPECT_EQ(loggers.progress().received.load(), loggers.log().cells());
  // Two words to the controller, and that two entries are released.
  EXPECT_EQ(loggers.progress().sent.load(), 2 + loggers.log().cells());
}

// What has gone no farther than to this loop's own memory would be lost with
// it: the units' loop has to keep it.
TEST(LoggerLoop, KeepsEntriesInTheRingUntilTheControllersRingHasTheirPackets) {
  constexpr uint64_t kEntries = 1'000;
  constexpr uint64_t kCells = 3;  // of an entry
  Loggers loggers;
  for (uint64_t i = 0; i < kEntries; ++i) loggers.Log(loggers.NextClock());
  loggers.Turn();
  EXPECT_LE(loggers.log().released(), kRingCells * kCells);
  EXPECT_GE(loggers.log().released(), kRingCells / 2 * kCells);
  EXPECT_FALSE(loggers.log().Flush()) << "the units are held back";
  uint64_t number = 0;
  while (number < kEntries) {
    const std::vector<UnitCommand> heard = loggers.TakeHeard();
    ASSERT_FALSE(heard.empty());
    for (const UnitCommand& command : heard) {
      ASSERT_EQ(command.meta.clock, Clock{++number});
    }
    loggers.Turn();
  }
  EXPECT_EQ(loggers.log().released(), kEntries * kCells);
}

// A logger keeps what it tells until it is told: it has no room for so much.
TEST(LoggerLoop, TellsTheControllerBehindThePackets) {
  constexpr uint64_t kEntries = 1'000;
  Loggers loggers;
  std::vector<UnitCommand> heard;
  for (uint64_t i = 0; i < kEntries; ++i) {
    LogEntry entry = loggers.NextClock();
    entry.flags |= LogEntry::kOver;
    entry.idle_timeout = Nanos{static_cast<int64_t>(i)};
    loggers.Log(entry);
    loggers.Turn();
    for (const UnitCommand& word : loggers.TakeHeard()) heard.push_back(word);
  }
  EXPECT_EQ(loggers.faults().count(), 0u);
  ASSERT_EQ(heard.size(), 2 * kEntries);
  for (uint64_t i = 0; i < kEntries; ++i) {
    EXPECT_EQ(heard[2 * i].kind, Kind::kRelease);
    const UnitCommand& note = heard[2 * i + 1];
    ASSERT_EQ(note.kind, Kind::kSendNote);
    EXPECT_EQ(note.unit, kUnit);
    EXPECT_EQ(note.note.flow, FlowId{7});
    EXPECT_EQ(note.note.clock, Clock{i + 1});
    EXPECT_EQ(note.note.idle_timeout.ns, static_cast<int64_t>(i));
    EXPECT_TRUE(note.note.over);
  }
  EXPECT_EQ(loggers.loop().logger(kUnit)->tells(), 0u);
}

TEST(LoggerLoop, SaysThatAUnitHasStoppedBehindItsEntries) {
  Loggers loggers;
  loggers.Log(loggers.NextClock());
  loggers.Send({.kind = LogWord::Kind::kStopped, .unit = kUnit}, {});
  loggers.Turn();
  const std::vector<UnitCommand> heard = loggers.TakeHeard();
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].kind, Kind::kRelease);
  EXPECT_EQ(heard[1].kind, Kind::kStopped);
  EXPECT_EQ(heard[1].unit, kUnit);
}

// One that moves a flow releases nothing, but its clock ends; the end of a flow
// is no clock of the controller's.
TEST(LoggerLoop, SaysOfClocksWithoutPacketsThatTheyEnded) {
  Loggers loggers;
  LogEntry null = loggers.NextClock();
  null.packet = kNoPacket;
  null.outcome = LogEntry::Outcome::kNone;
  null.meta.flags = PacketMeta::kNull;
  loggers.Log(null);
  LogEntry end = loggers.NextClock();
  end.packet = kNoPacket;
  end.outcome = LogEntry::Outcome::kNone;
  end.meta.flags = PacketMeta::kNull | PacketMeta::kEnd;
  end.flags |= LogEntry::kEnd;
  loggers.Log(end);
  loggers.Turn();
  const std::vector<UnitCommand> heard = loggers.TakeHeard();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].kind, Kind::kAdvance);
  EXPECT_EQ(heard[0].meta.clock, Clock{1});
  EXPECT_EQ(loggers.faults().count(), 0u);
}

struct BadEntry {
  std::string text;
  std::function<void(LogEntry&)> spoil;
};

// The good entry before is released; neither the bad one nor what follows is.
TEST(LoggerLoop, RefusesEntriesByNameAndHearsNoMore) {
  const std::vector<BadEntry> all = {
      {"log entry with a number out of order, not 2",
       [](LogEntry& entry) { entry.number = 3; }},
      {"log entry with a number out of order, not 2",
       [](LogEntry& entry) { entry.number = 1; }},
      {"log entry with a number out of order, not 2",
       [](LogEntry& entry) { entry.number = 1'000'000; }},
      {"log entry with another base, number 2",
       [](LogEntry& entry) {
         entry.meta.clock = entry.state = Clock{3};
         entry.base = Clock{2};
       }},
      {"log entry with another incarnation, behind number 1",
       [](LogEntry& entry) { entry.incarnation = 9; }},
      {"log entry with impossible contents, number 2",
       [](LogEntry& entry) { entry.schema = 1; }},
      {"log entry with impossible contents, number 2",
       [](LogEntry& entry) { entry.packet = kNoPacket; }},
      {"log entry with impossible contents, number 2", [](LogEntry& entry) {
         entry.meta.clock = entry.state = Clock{1};
         entry.base = Clock{0};
       }}};
  for (const BadEntry& bad : all) {
    SCOPED_TRACE(bad.text);
    Loggers loggers;
    loggers.Log(loggers.NextClock());
    LogEntry entry = loggers.NextClock();
    bad.spoil(entry);
    loggers.Log(entry);
    loggers.Log(loggers.NextClock());
    loggers.Turn();
    EXPECT_EQ(loggers.TakeHeard().size(), 1u);
    ASSERT_EQ(loggers.faults().count(), 1u);
    EXPECT_EQ(ToString(*loggers.faults().first()),
              "unit 2 sent a bad word: " + bad.text);
  }
}

TEST(LoggerLoop, RefusesWordsThatCannotBe) {
  const std::vector<std::pair<std::string, LogWord>> all = {
      {"the loop of units 0 sent a bad word: log word with unit 4",
       {.kind = LogWord::Kind::kEntry, .unit = UnitId{4}}},
      {"unit 2 sent a bad word: log word with kind 9",
       {.kind = LogWord::Kind{9}, .unit = kUnit}},
      {"unit 2 sent a bad word: log word with bytes 1000000",
       {.kind = LogWord::Kind::kEntry, .unit = kUnit, .bytes = 1'000'000}},
      {"unit 2 sent a bad word: log word with bytes 1",
       {.kind = LogWord::Kind::kStopped, .unit = kUnit, .bytes = 1}},
      {"unit 2 sent a bad word: log word with kind 2",
       {.kind = LogWord::Kind::kPull, .unit = kUnit, .bytes = sizeof(Pull)}},
      {"unit 2 sent a bad word: log entry with impossible contents, number 1",
       {.kind = LogWord::Kind::kEntry, .unit = kUnit}}};
  for (const auto& [text, word] : all) {
    SCOPED_TRACE(text);
    Loggers loggers;
    loggers.Send(word, {});
    loggers.Log(loggers.NextClock());
    loggers.Turn();
    EXPECT_TRUE(loggers.TakeHeard().empty());
    ASSERT_EQ(loggers.faults().count(), 1u);
    EXPECT_EQ(ToString(*loggers.faults().first()), text);
  }
}

TEST(LoggerLoop, RefusesToBeGivenWhatCannotBe) {
  using Word = KeptWord::Kind;
  const std::vector<std::pair<std::string, KeptWord>> all = {
      {"the loop of units 0 sent a bad word: kept word with unit 4",
       {.kind = Word::kEntry, .unit = UnitId{4}}},
      {"the loop of units 0 sent a bad word: kept word with kind 9",
       {.kind = Word{9}}},
      {"unit 2 sent a bad word: kept word with bytes 1000000",
       {.kind = Word::kEntry, .unit = kUnit, .bytes = 1'000'000}},
      {"unit 2 sent a bad word: kept word with released 2",
       {.kind = Word::kUnit, .unit = kUnit, .released = 2, .number = 1}},
      {"unit 2 sent a bad word: kept word with impossible contents, kind 1",
       {.kind = Word::kEntry, .unit = kUnit}},
  };
  for (const auto& [text, word] : all) {
    SCOPED_TRACE(text);
    Loggers loggers(/*recovers=*/true);
    loggers.Replace();
    loggers.Keep({.kind = Word::kBegin, .number = 1});
    loggers.Keep(word);
    loggers.Turn();
    EXPECT_EQ(loggers.control().restored, 0u);
    ASSERT_EQ(loggers.faults().count(), 1u);
    EXPECT_EQ(ToString(*loggers.faults().first()), text);
  }
  Loggers loggers(/*recovers=*/true);
  loggers.Replace();
  loggers.Keep({.kind = Word::kBegin, .number = 1});
  loggers.Keep({.kind = Word::kUnit, .unit = kUnit});
  loggers.Keep({.kind = Word::kUnit, .unit = kUnit});
  loggers.Turn();
  ASSERT_EQ(loggers.faults().count(), 1u) << "that was to be all of the unit";
}

}  // namespace
}  // namespace snf
