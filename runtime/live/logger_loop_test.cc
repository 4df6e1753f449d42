// SPDX-License-Identifier: Apache-2.0
//
// Entries in, words to a controller out, over links; there are no units.
#include "runtime/live/logger_loop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ring/test_region.h"

namespace snf {
namespace {

using Kind = UnitCommand::Kind;

constexpr UnitId kUnit{2};
constexpr uint32_t kRingCells = 256;  // of a TestRegion

// A loop of loggers of all units, and the ends of its links.
class Loggers {
 public:
  explicit Loggers(bool recovers = false)
      : bell_(region_.New<Doorbell>()),
        progress_(region_.New<LoopProgress>()),
        log_ring_(region_.Ring(nullptr)),
        up_ring_(region_.Ring(nullptr)),
        down_ring_(region_.Ring(nullptr)),
        answer_ring_(region_.Ring(nullptr)),
        control_(region_.New<LogControl>()),
        log_(log_ring_.producer, 64),
        from_(up_ring_.consumer, 0),
        orders_(down_ring_.producer, 64),
        nf_(*NfSpec::Parse("passthrough")),
        schema_(nf_.create()->schema()),
        loop_(
            {.max_units = 4, .max_copies = 64}, nf_,
            {.units_bell = bell_,
             .progress = progress_,
             .faults = &faults_,
             .from_units =
                 LinkIn(log_ring_.consumer, MaxLogEntryBytes(schema_)),
             .to_controller = LinkOut(up_ring_.producer, 64),
             .recovery = recovers ? std::optional(Recovery()) : std::nullopt}) {
  }

  // The entry of the next clock of flow 7, whose packet has the handle of its
  // number.
  LogEntry NextClock() {
    LogEntry entry;
    entry.number = ++number_;
    entry.meta.flow = FlowId{7};
    entry.meta.clock = entry.state = Clock{++clock_};
    entry.base = Clock{clock_ - 1};
    entry.schema = schema_.hash();
    entry.incarnation = incarnation_;
    entry.packet = PacketHandle{static_cast<uint32_t>(number_)};
    entry.outcome = LogEntry::Outcome::kRelease;
    entry.flags = clock_ == 1 ? LogEntry::kWhole : 0;
    return entry;
  }
  void Log(const LogEntry& entry) {
    std::vector<std::byte> bytes(sizeof entry);
    WriteLogEntry(entry, {}, {}, nullptr, {}, bytes);
    Send({.kind = LogWord::Kind::kEntry,
          .unit = kUnit,
          .bytes = static_cast<uint32_t>(bytes.size())},
         bytes);
  }
  void Send(const LogWord& word, std::span<const std::byte> bytes) {
    log_.SendBytes(word, bytes);
    log_.Flush();
  }
  // Lets the loop take turns until it has nothing to do, or waits for room.
  void Turn() {
    for (int i = 0; i < 100; ++i) {
      log_.Flush();
      loop_.Turn();
    }
  }
  std::vector<UnitCommand> TakeHeard() {
    std::vector<UnitCommand> heard;
    bool more = true;
    while (std::exchange(more, false)) {
      from_.Receive();
      from_.Handle([](const Cell&) { return size_t{0}; },
                   [&](const Cell& cell, std::span<const std::byte>) {
                     heard.push_back(cell.As<UnitCommand>());
                     more = true;
                   });
    }
    return heard;
  }
  // The process of the units has ended, and the controller knows.
  void End() { ++control_->ends; }
  void Order(const Seal& seal) {
    orders_.Send(ControllerCommand::Of(seal));
    orders_.Flush();
  }
  // The next process begins.
  void BeginAnew() {
    ++incarnation_;
    number_ = 0;
  }
  const LogControl& control() const { return *control_; }
  LinkOut& log() { return log_; }
  LoopProgress& progress() { return *progress_; }
  const WireFaults& faults() const { return faults_; }
  LoggerLoop& loop() { return loop_; }

 private:
  LoggerLoopLinks::Recovery Recovery() {
    return {.from_controller = LinkIn(down_ring_.consumer, 0),
            .to_units = LinkOut(answer_ring_.producer, 64),
            .control = control_};
  }

  TestRegion region_;
  Doorbell* bell_;
  LoopProgress* progress_;
  LinkRing log_ring_;
  LinkRing up_ring_;
  LinkRing down_ring_;
  LinkRing answer_ring_;
  LogControl* control_;
  LinkOut log_;
  LinkIn from_;
  LinkOut orders_;
  NfSpec nf_;
  StateSchema schema_;
  WireFaults faults_;
  LoggerLoop loop_;
  uint64_t number_ = 0;
  uint64_t clock_ = 0;
  uint32_t incarnation_ = LogWord::kIncarnation;
};

constexpr Seal kSeal = {.unit = kUnit, .incarnation = 1, .round = 5};

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
    EXPECT_EQ(ToString(*loggers.faults().first()),
              fmt::format("the loop of units 0 sent a bad word: seal with unit "
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

}  // namespace
}  // namespace snf
