// SPDX-License-Identifier: Apache-2.0
//
// Entries in, words to a controller out, over links; there are no units.
#include "runtime/live/logger_loop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
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
  explicit Loggers(bool recovers = false, bool reports = false,
                   std::string_view nf = "passthrough")
      : recovers_(recovers),
        reports_(reports),
        bell_(region_.New<Doorbell>()),
        progress_(region_.New<LoopProgress>()),
        log_ring_(region_.RingMemory()),
        up_ring_(region_.RingMemory()),
        down_ring_(region_.RingMemory()),
        answer_ring_(region_.RingMemory()),
        kept_ring_(region_.RingMemory()),
        control_(region_.New<LogControl>()),
        note_(region_.New<LogNote>()),
        log_(OutTo(log_ring_)),
        from_(InFrom(up_ring_, 0)),
        orders_(OutTo(down_ring_)),
        kept_(OutTo(kept_ring_)),
        nf_(*NfSpec::Parse(nf)),
        schema_(nf_.create()->schema()) {
    MakeLoop(0);
  }

  // The process of the loop has ended, wherever it was in its work, and another
  // one takes over.
  void Replace() {
    loop_.reset();
    MakeLoop(++process_);
  }
  // Units hand over to that process what they keep: of flow 7 a record, of
  // whose clocks those of entries up to `released` are released.
  void HandOver(uint32_t process, uint64_t released, bool is_ahead = false) {
    Keep({.kind = KeptWord::Kind::kBegin, .number = process});
    LogEntry record;
    record.number = number_;
    record.meta.flow = FlowId{7};
    record.meta.clock = record.state = Clock{clock_};
    record.base = Clock{clock_ - (number_ - released)};
    record.schema = schema_.hash();
    record.incarnation = incarnation_;
    record.flags = LogEntry::kWhole;
    Keep(record, is_ahead);
    Keep({.kind = KeptWord::Kind::kUnit,
          .unit = kUnit,
          .released = released,
          .number = number_});
    Keep({.kind = KeptWord::Kind::kAll, .number = process});
  }
  void Keep(const KeptWord& word, std::span<const std::byte> bytes = {}) {
    kept_.SendBytes(word, bytes);
    kept_.Flush();
  }
  // The same: free pieces, after one grant.
  void HandOverGrant(uint32_t process, uint64_t released, uint64_t mask) {
    Keep({.kind = KeptWord::Kind::kBegin, .number = process});
    LogEntry grant;
    grant.number = number_;
    grant.schema = schema_.hash();
    grant.incarnation = incarnation_;
    grant.kind = LogEntry::Kind::kGrant;
    grant.argument = 1;
    grant.block = {.word = 20, .pool = 0, .unit = kUnit, .mask = mask};
    Keep(grant);
    Keep({.kind = KeptWord::Kind::kUnit,
          .unit = kUnit,
          .released = released,
          .number = number_});
    Keep({.kind = KeptWord::Kind::kAll, .number = process});
  }
  void Keep(const LogEntry& entry, bool is_ahead = false) {
    std::vector<std::byte> bytes(sizeof entry);
    WriteLogEntry(entry, {}, {}, nullptr, {}, bytes);
    Keep({.kind = KeptWord::Kind::kEntry,
          .is_ahead = is_ahead ? uint8_t{1} : uint8_t{0},
          .unit = kUnit,
          .bytes = static_cast<uint32_t>(bytes.size())},
         bytes);
  }
  // As if those entries had not been released.
  void TakeBackReleased(uint64_t cells) {
    reinterpret_cast<RingHeader*>(log_ring_.data())->released = cells;
  }
  LogControl& control() { return *control_; }
  LogNote& note() { return *note_; }
  uint64_t clock() const { return clock_; }

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
  // The entry of another flow's first clock.
  LogEntry NextOf(FlowId flow) {
    LogEntry entry = NextClock();
    --clock_;
    entry.meta.flow = flow;
    entry.meta.clock = entry.state = Clock{1};
    entry.base = {};
    entry.flags = LogEntry::kWhole;
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
      loop_->Turn();
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
  LinkOut& log() { return log_; }
  LoopProgress& progress() { return *progress_; }
  const WireFaults& faults() const { return faults_; }
  LoggerLoop& loop() { return *loop_; }

 private:
  static LinkOut OutTo(std::span<std::byte> ring) {
    return {*CellRing::Producer::Attach(ring, nullptr), 64};
  }
  static LinkIn InFrom(std::span<std::byte> ring, size_t max_payload_bytes) {
    return {*CellRing::Consumer::Attach(ring), max_payload_bytes};
  }
  void MakeLoop(uint32_t process) {
    const uint32_t entry_bytes = MaxLogEntryBytes(schema_);
    LoggerLoopLinks links = {.units_bell = bell_,
                             .progress = progress_,
                             .faults = &faults_,
                             .from_units = InFrom(log_ring_, entry_bytes),
                             .to_controller = OutTo(up_ring_),
                             .ledger = ledger_};
    if (recovers_) {
      links.recovery.emplace(
          LoggerLoopLinks::Recovery{.from_controller = InFrom(down_ring_, 0),
                                    .to_units = OutTo(answer_ring_),
                                    .kept = InFrom(kept_ring_, entry_bytes),
                                    .control = control_,
                                    .note = note_});
    }
    loop_.emplace(LoggerLoopOptions{.max_units = 4,
                                    .max_copies = 64,
                                    .reports = reports_,
                                    .process = process},
                  nf_, std::move(links));
  }

  bool recovers_;
  bool reports_;
  TestRegion region_;
  Doorbell* bell_;
  LoopProgress* progress_;
  std::span<std::byte> log_ring_;
  std::span<std::byte> up_ring_;
  std::span<std::byte> down_ring_;
  std::span<std::byte> answer_ring_;
  std::span<std::byte> kept_ring_;
  LogControl* control_;
  LogNote* note_;
  alignas(128) std::array<std::byte, 65'536> ledger_{};
  LinkOut log_;
  LinkIn from_;
  LinkOut orders_;
  LinkOut kept_;
  NfSpec nf_;
  StateSchema schema_;
  WireFaults faults_;
  std::optional<LoggerLoop> loop_;
  uint32_t process_ = 0;
  uint64_t number_ = 0;
  uint64_t clock_ = 0;
  uint32_t incarnation_ = LogWord::kIncarnation;
};

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
