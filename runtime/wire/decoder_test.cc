// SPDX-License-Identifier: Apache-2.0
#include "runtime/wire/decoder.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "base/rng.h"
#include "runtime/ring/test_region.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

constexpr size_t kBad = LinkIn::kNoMessage;
constexpr uint32_t kMaxUnits = 6;
constexpr uint32_t kRecordBytes = 64;
// Of a controller and two loops of units.
constexpr std::array<BufferPool::Options, 3> kShares = {
    {{.small = 4, .medium = 2, .large = 1},
     {.small = 2, .medium = 1, .large = 0},
     {.small = 2, .medium = 0, .large = 0}}};

template <typename Word>
Cell CellOf(const Word& word) {
  return std::bit_cast<Cell>(word);
}
// Spoils the byte of a bool, which then is neither true nor false.
void Spoil(bool& flag) {
  const uint8_t neither = 2;
  std::memcpy(&flag, &neither, 1);
}

class Decoders : public testing::Test {
 protected:
  Decoders() {
    region_.MakePool(kShares);
    pool_.emplace(region_.Attach(0));
    worker_.emplace(region_.Attach(2));
    const auto nf = NfSpec::Parse("monitor")->create();
    tables_.emplace(*nf, kMaxUnits, TableOptions{});
    packet_ = pool_->Allocate(100);
    emitted_ = worker_->Allocate(100);
    // Of loop 1 of 2: it runs the units 1, 3 and 5.
    const UnitsOfLoop loop_0(0, 2, kMaxUnits);
    const UnitsOfLoop loop_1(1, 2, kMaxUnits);
    to_controller_.emplace(
        loop_1,
        WordsToController::Limits{.max_flows = 8, .nf_reasons = 2, .pools = 1},
        *pool_, *tables_, faults_);
    to_units_.emplace(
        loop_1,
        WordsToUnits::Limits{.max_units = kMaxUnits,
                             .tables = static_cast<uint32_t>(tables_->size())},
        *worker_, faults_);
    between_.emplace(loop_1, loop_0, kRecordBytes, faults_);
  }

  // What a unit says of a packet that it got.
  UnitCommand OfPacket(UnitCommand::Kind kind) const {
    PacketMeta meta;
    meta.flow = MakeFlowId(0, 7, 0);
    meta.clock = Clock{1};
    UnitCommand word = UnitCommand::OfPacket(kind, packet_, meta);
    word.unit = UnitId{3};
    return word;
  }
  ControllerCommand Packet() const {
    PacketMeta meta;
    meta.source_kind = StateSource::kUnit;
    meta.source = UnitId{0};
    return ControllerCommand::Enqueue(UnitId{5}, packet_, meta);
  }
  // Checks that nothing, or just this, is wrong with a word.
  void Takes(size_t bytes, size_t expected) {
    EXPECT_EQ(bytes, expected);
    EXPECT_EQ(faults_.count(), 0u) << ToString(*faults_.first());
  }
  void Refuses(size_t bytes, const std::string& text) {
    EXPECT_EQ(bytes, kBad);
    Told(text);
  }
  void Told(const std::string& text) {
    ASSERT_EQ(faults_.count(), 1u);
    EXPECT_EQ(ToString(*faults_.first()), text);
  }

  TestRegion region_;
  std::optional<BufferPool> pool_;
  std::optional<BufferPool> worker_;
  std::optional<TableHomes> tables_;
  PacketHandle packet_{};
  PacketHandle emitted_{};
  WireFaults faults_;
  std::optional<WordsToController> to_controller_;
  std::optional<WordsToUnits> to_units_;
  std::optional<WordsBetweenUnits> between_;
};

TEST_F(Decoders, TakeWhatAUnitSaysOfItsPackets) {
  using Kind = UnitCommand::Kind;
  for (const Kind kind : {Kind::kRelease, Kind::kNfDrop, Kind::kDrop,
                          Kind::kConsume, Kind::kDropPayload}) {
    Takes((*to_controller_)(CellOf(OfPacket(kind))), 0);
  }
  UnitCommand advance = OfPacket(Kind::kAdvance);
  advance.meta.flags = PacketMeta::kNull;
  advance.packet = kNoPacket;
  Takes((*to_controller_)(CellOf(advance)), 0);
  UnitCommand emit = OfPacket(Kind::kEmit);
  emit.packet = emitted_;
  Takes((*to_controller_)(CellOf(emit)), 0);
}

// One bad field each, and what is told of it.
class BadWords : public Decoders {};

TEST_F(BadWords, OfAUnitThatIsNotOfTheLoop) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kRelease);
  word.unit = UnitId{2};
  Refuses((*to_controller_)(CellOf(word)),
          "the loop of units 1 sent a bad word: release with unit 2");
}

TEST_F(BadWords, OfAUnitThatDoesNotExist) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kRelease);
  word.unit = UnitId{60'001};
  Refuses((*to_controller_)(CellOf(word)),
          "the loop of units 1 sent a bad word: release with unit 60001");
}

TEST_F(BadWords, OfABufferThatDoesNotExist) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kRelease);
  word.packet = kNoPacket;
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: release with packet 4294967295");
}

TEST_F(BadWords, OfABufferThatIsFree) {
  pool_->Free(packet_);
  Refuses((*to_controller_)(CellOf(OfPacket(UnitCommand::Kind::kConsume))),
          "unit 3 sent a bad word: consume with packet 0");
}

TEST_F(BadWords, OfAnEmittedPacketThatIsNotTheLoops) {
  Refuses((*to_controller_)(CellOf(OfPacket(UnitCommand::Kind::kEmit))),
          "unit 3 sent a bad word: emit with packet 0");
}

TEST_F(BadWords, OfAnEmittedPacketOfNoFlow) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kEmit);
  word.packet = emitted_;
  word.meta.flow = MakeFlowId(0, 8, 0);
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: emit with flow 8");
}

TEST_F(BadWords, OfAReasonThatTheNfDoesNotHave) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kNfDrop);
  word.nf_reason = 2;
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: nf_drop with nf_reason 2");
}

TEST_F(BadWords, OfAReasonThatThePlatformDoesNotHave) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kDrop);
  word.reason = DropReason::kCount;
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: drop with reason " +
              std::to_string(kDropReasons));
}

TEST_F(BadWords, OfAPacketThatHasNoPayload) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kRelease);
  word.meta.flags = PacketMeta::kTombstone;
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: release with flags 8");
}

TEST_F(BadWords, OfAPayloadThatVanishes) {
  Refuses((*to_controller_)(CellOf(OfPacket(UnitCommand::Kind::kAdvance))),
          "unit 3 sent a bad word: advance with flags 0");
}

TEST_F(BadWords, OfAKindThatIsNotForAController) {
  constexpr auto kPull = UnitCommand::Kind::kSendPull;
  Refuses((*to_controller_)(CellOf(OfPacket(kPull))),
          "unit 3 sent a bad word: pull with kind " +
              std::to_string(static_cast<int>(kPull)));
}

TEST_F(BadWords, OfAKindThatDoesNotExist) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kRelease);
  word.kind = static_cast<UnitCommand::Kind>(200);
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: message with kind 200");
}

TEST_F(BadWords, OfATakeoverByAnother) {
  UnitCommand word = UnitCommand::Report({.taker = UnitId{5}});
  word.unit = UnitId{3};
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: takeover with taker 5");
}

TEST_F(BadWords, OfANoteThatIsNeitherTrueNorFalse) {
  UnitCommand word = UnitCommand::Send(FlowNote{});
  word.unit = UnitId{3};
  Spoil(word.note.over);
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: note with over 2");
}

TEST_F(BadWords, OfATimerThatAnotherUnitAsksFor) {
  UnitCommand word =
      UnitCommand::Send(TimerDue{.applied = Clock{1}, .unit = UnitId{3}});
  word.unit = UnitId{3};
  Takes((*to_controller_)(CellOf(word)), 0);
  word.timer_due.unit = UnitId{1};
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: timer_due with sender 1");
}

TEST_F(BadWords, OfPiecesOfAPoolThatDoesNotExist) {
  UnitCommand word =
      UnitCommand::Send(PieceRequest{.pool = 1, .unit = UnitId{3}});
  word.unit = UnitId{3};
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: piece_request with pool 1");
}

TEST_F(BadWords, OfARequestForPiecesThatIsNeitherAheadNorNot) {
  UnitCommand word =
      UnitCommand::Send(PieceRequest{.pool = 0, .unit = UnitId{3}});
  word.unit = UnitId{3};
  Takes((*to_controller_)(CellOf(word)), 0);
  Spoil(word.request.is_ahead);
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: piece_request with is_ahead 2");
}

TEST_F(BadWords, OfPiecesThatAnotherReturns) {
  UnitCommand word = UnitCommand::Return({.pool = 0, .unit = UnitId{1}});
  word.unit = UnitId{3};
  Refuses((*to_controller_)(CellOf(word)),
          "unit 3 sent a bad word: pieces with sender 1");
}

TEST_F(BadWords, OfAnAliasForAnother) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kSendAlias);
  EXPECT_EQ((*to_controller_)(CellOf(word)), sizeof(Alias));
  Alias alias;
  alias.key.form = FlowKeyForm::kIpv4;
  alias.unit = UnitId{3};
  EXPECT_TRUE(to_controller_->IsSound(CellOf(word),
                                      std::as_bytes(std::span(&alias, 1))));
  EXPECT_EQ(faults_.count(), 0u);
  alias.unit = UnitId{60'000};
  EXPECT_FALSE(to_controller_->IsSound(CellOf(word),
                                       std::as_bytes(std::span(&alias, 1))));
  Told("unit 3 sent a bad word: alias with sender 60000");
}

TEST_F(BadWords, OfAnAliasWithoutAForm) {
  const UnitCommand word = OfPacket(UnitCommand::Kind::kSendAlias);
  Alias alias;
  alias.unit = UnitId{3};
  alias.key.form = static_cast<FlowKeyForm>(5);
  EXPECT_FALSE(to_controller_->IsSound(CellOf(word),
                                       std::as_bytes(std::span(&alias, 1))));
  Told("unit 3 sent a bad word: alias with form 5");
}

TEST_F(BadWords, OfSharedTables) {
  const auto is_sound = [this](const TableMessage& message) {
    return to_controller_->IsSound(Cell::OfTable(),
                                   std::as_bytes(std::span(&message, 1)));
  };
  EXPECT_EQ((*to_controller_)(Cell::OfTable()), sizeof(TableMessage));
  TableMessage good = {.unit = UnitId{3}};
  EXPECT_TRUE(is_sound(good));
  TableMessage bad = good;
  bad.unit = UnitId{2};
  EXPECT_FALSE(is_sound(bad));
  Told("the loop of units 1 sent a bad word: table with unit 2");
  bad = good;
  bad.table = 9'999;
  EXPECT_FALSE(is_sound(bad));
  bad = good;
  bad.entries = 255;
  EXPECT_FALSE(is_sound(bad));
  bad = good;
  bad.kind = TableMessage::Kind::kTold;
  EXPECT_FALSE(is_sound(bad));
  bad = good;
  Spoil(bad.leaves);
  EXPECT_FALSE(is_sound(bad));
  EXPECT_EQ(faults_.count(), 5u);
}

TEST_F(Decoders, TakeWhatAControllerSays) {
  Takes((*to_units_)(CellOf(Packet())), 0);
  ControllerCommand null = Packet();
  null.packet = kNoPacket;
  null.meta.flags = PacketMeta::kNull;
  Takes((*to_units_)(CellOf(null)), 0);
  Takes((*to_units_)(CellOf(ControllerCommand::Drop(emitted_, {}))), 0);
  Takes((*to_units_)(Cell::OfTable()), sizeof(TableMessage));
  // After a failure.
  ControllerCommand moved = Packet();
  moved.meta.source_kind = StateSource::kLogger;
  Takes((*to_units_)(CellOf(moved)), 0);
  Takes((*to_units_)(CellOf(ControllerCommand::Ask(UnitId{1}, {}))), 0);
  Takes((*to_units_)(CellOf(ControllerCommand::Of(
            UnitId{1}, Redirect{.source = UnitId{2},
                                .source_kind = StateSource::kLogger}))),
        0);
  Takes((*to_units_)(CellOf(ControllerCommand::Forget(UnitId{1}, false, {}))),
        0);
  Takes((*to_units_)(CellOf(
            ControllerCommand::Take(UnitId{1}, {.bytes = 16, .pushed = true}))),
        16);
}

// A state that is too long is shown without its record.
TEST_F(Decoders, TakeTheStateThatAUnitShows) {
  Takes(
      (*to_controller_)(CellOf(UnitCommand::Show(UnitId{3}, {.bytes = 1'024}))),
      1'024);
  Takes(
      (*to_controller_)(CellOf(UnitCommand::Show(UnitId{3}, {.bytes = 1'032}))),
      0);
}

TEST_F(BadWords, OfAStateThatAUnitShows) {
  const auto refuses = [this](const State& state) {
    const uint64_t before = faults_.count();
    EXPECT_EQ((*to_controller_)(CellOf(UnitCommand::Show(UnitId{3}, state))),
              kBad);
    EXPECT_EQ(faults_.count(), before + 1);
  };
  refuses({.bytes = 12});
  Told("unit 3 sent a bad word: show_state with bytes 12");
  refuses({.delta = true});
  refuses({.link = static_cast<LinkType>(99)});
  refuses({.flow = MakeFlowId(0, 8, 0)});
}

// A flow that was over when it was moved has no key any more.
TEST_F(BadWords, OfNames) {
  const ControllerCommand word =
      ControllerCommand::OfFlow(UnitId{1}, FlowId{7});
  EXPECT_EQ((*to_units_)(CellOf(word)), sizeof(FlowName));
  FlowName name = {.flow = FlowId{7}};
  const auto is_sound = [&] {
    return to_units_->IsSound(CellOf(word), std::as_bytes(std::span(&name, 1)));
  };
  EXPECT_TRUE(is_sound());
  name.key.form = FlowKeyForm::kIpv4;
  EXPECT_TRUE(is_sound());
  EXPECT_EQ(faults_.count(), 0u);
  name.key.form = static_cast<FlowKeyForm>(5);
  EXPECT_FALSE(is_sound());
  EXPECT_EQ(faults_.count(), 1u);
  name = {.flow = FlowId{8}};
  EXPECT_FALSE(is_sound());
  EXPECT_EQ(faults_.count(), 2u);
}

TEST_F(BadWords, OfAController) {
  const auto refuses = [this](const ControllerCommand& word) {
    const uint64_t before = faults_.count();
    EXPECT_EQ((*to_units_)(CellOf(word)), kBad);
    EXPECT_EQ(faults_.count(), before + 1);
  };
  ControllerCommand word = Packet();
  word.packet = emitted_;  // not the controller's
  refuses(word);
  Told("the controller sent a bad word: packet with packet 6");
  word = Packet();
  word.unit = UnitId{2};
  refuses(word);
  word.unit = UnitId{60'001};
  refuses(word);
  word = Packet();
  word.meta.source = UnitId{kMaxUnits};
  refuses(word);
  word = Packet();
  word.meta.source_kind = static_cast<StateSource>(3);
  refuses(word);
  word = Packet();
  word.meta.flags = PacketMeta::kNull;
  refuses(word);
  refuses(ControllerCommand::Drop(packet_, {}));
  refuses(ControllerCommand::Of(UnitId{1},
                                Redirect{.source = UnitId{kMaxUnits},
                                         .source_kind = StateSource::kLogger}));
  word = ControllerCommand::Replicas(UnitId{1}, {.count = 17});
  refuses(word);
  word = ControllerCommand::Replicas(
      UnitId{1}, {.units = {UnitId{2}, UnitId{kMaxUnits}}, .count = 2});
  refuses(word);
  word = ControllerCommand::OfUnit(ControllerCommand::Kind::kStartUnit,
                                   UnitId{1}, false);
  Spoil(word.warm);
  refuses(word);
  refuses(ControllerCommand::Forget(UnitId{1}, true, {}));  // is its logger's
  const State state = {.bytes = 16, .pushed = true};
  const auto refuses_state = [&](const State& bad) {
    refuses(ControllerCommand::Take(UnitId{1}, bad));
  };
  State bad = state;
  bad.pushed = false;
  refuses_state(bad);
  Spoil(bad.pushed);
  refuses_state(bad);
  bad = state;
  bad.delta = true;
  refuses_state(bad);
  bad = state;
  Spoil(bad.named);
  refuses_state(bad);
  bad = state;
  bad.link = static_cast<LinkType>(99);
  refuses_state(bad);
  bad = state;
  bad.bytes = 1'032;
  refuses_state(bad);
  word = Packet();
  word.kind = static_cast<ControllerCommand::Kind>(77);
  refuses(word);
}

// An honest unit does not hand on a sender that does not exist.
TEST_F(BadWords, BetweenUnits) {
  const auto refuses = [this](const UnitCommand& word) {
    const uint64_t before = faults_.count();
    EXPECT_EQ((*between_)(CellOf(word)), kBad);
    EXPECT_EQ(faults_.count(), before + 1);
  };
  const UnitId to{4};
  EXPECT_EQ(
      (*between_)(CellOf(UnitCommand::Send(to, Takeover{.taker = UnitId{5}}))),
      0u);
  EXPECT_EQ(
      (*between_)(CellOf(UnitCommand::Send(to, State{.bytes = kRecordBytes}))),
      kRecordBytes);
  EXPECT_EQ(faults_.count(), 0u);
  refuses(UnitCommand::Send(to, Takeover{.taker = UnitId{60'000}}));
  Told("the loop of units 1 sent a bad word: takeover with taker 60000");
  refuses(UnitCommand::Send(to, Takeover{.taker = UnitId{0}}));
  refuses(UnitCommand::Send(to, Pull{.requester = UnitId{kMaxUnits}}));
  refuses(UnitCommand::Send(to, TakeoverAck{.sender = kNoUnit}));
  refuses(UnitCommand::Send(to, State{.bytes = kRecordBytes + 8}));
  refuses(UnitCommand::Send(to, State{.bytes = 12}));
  EXPECT_EQ((*between_)(CellOf(UnitCommand::Send(
                to, State{.bytes = 12, .pushed = true, .delta = true}))),
            12u);
  refuses(UnitCommand::Send(to, State{.bytes = 12, .delta = true}));
  refuses(UnitCommand::Send(
      to, State{.bytes = kRecordBytes + 1, .pushed = true, .delta = true}));
  refuses(UnitCommand::Send(to, State{.bytes = 0xffff'fff8}));
  UnitCommand state = UnitCommand::Send(to, State{});
  Spoil(state.state.pushed);
  refuses(state);
  state = UnitCommand::Send(to, State{.pushed = true});
  Spoil(state.state.delta);
  refuses(state);
  refuses(UnitCommand::Send(UnitId{5}, Takeover{.taker = UnitId{1}}));
  refuses(UnitCommand::Send(UnitId{60'000}, Takeover{.taker = UnitId{1}}));
  refuses(OfPacket(UnitCommand::Kind::kRelease));
}

class WordsWithLoggers : public Decoders {
 protected:
  using Sender = WordsToController::Sender;
  WordsToController Words(Sender sender) {
    return {UnitsOfLoop(1, 2, kMaxUnits),
            {.max_flows = 8, .nf_reasons = 2, .pools = 1, .sender = sender},
            *pool_,
            *tables_,
            faults_};
  }
};

// Each kind of word has one sender: units cannot release past their loggers.
TEST_F(WordsWithLoggers, ComeFromEitherTheUnitOrItsLogger) {
  using Kind = UnitCommand::Kind;
  const WordsToController units = Words(Sender::kUnitsWithLoggers);
  const WordsToController loggers = Words(Sender::kLoggers);
  for (uint8_t k = 0; k <= static_cast<uint8_t>(Kind::kStopped); ++k) {
    const Kind kind{k};
    SCOPED_TRACE(static_cast<int>(k));
    UnitCommand word = OfPacket(kind);
    if (kind == Kind::kAdvance) word.meta.flags = PacketMeta::kNull;
    if (kind == Kind::kEmit) word.packet = emitted_;
    if (kind == Kind::kReportTakeover) word.takeover = {.taker = word.unit};
    if (kind == Kind::kSendNote) word.note = {};
    if (kind == Kind::kSendTimerDue) word.timer_due = {.unit = word.unit};
    if (kind == Kind::kRequestPieces) word.request = {.unit = word.unit};
    if (kind == Kind::kReturnPieces) word.pieces = {.unit = word.unit};
    const bool is_word = (*to_controller_)(CellOf(word)) != kBad;
    const bool by_unit = units(CellOf(word)) != kBad;
    const bool by_logger = loggers(CellOf(word)) != kBad;
    // A sealed logger, too, tells that others have taken a flow over.
    const int senders = kind == Kind::kReportTakeover ? 2 : 1;
    EXPECT_EQ(by_unit + by_logger, is_word ? senders : 0);
    if (kind <= Kind::kEmit || kind == Kind::kStopped) {
      EXPECT_TRUE(by_logger);
    }
    if (kind == Kind::kSendAlias) {
      EXPECT_TRUE(by_unit);
    }
    // A duplicate is of a clock that was logged before, and what a unit
    // forsakes is not logged at all.
    if (kind != Kind::kDrop && kind != Kind::kAdvance) continue;
    for (const DropReason reason :
         {DropReason::kDuplicateClock, DropReason::kUnitFailed}) {
      word.reason = reason;
      EXPECT_NE(units(CellOf(word)), kBad);
      EXPECT_EQ(loggers(CellOf(word)), kBad);
    }
  }
}

TEST_F(WordsWithLoggers, AreToldByTheNameOfWhoSaidThem) {
  const UnitCommand word = OfPacket(UnitCommand::Kind::kRelease);
  Refuses(Words(Sender::kUnitsWithLoggers)(CellOf(word)),
          "unit 3 sent a bad word: release with kind 0");
}

// What units without loggers never say.
TEST_F(WordsWithLoggers, SayWhatIsDoneAfterAFailure) {
  const WordsToController units = Words(Sender::kUnitsWithLoggers);
  const WordsToController loggers = Words(Sender::kLoggers);
  UnitCommand done = UnitCommand::Done({.unit = UnitId{3}});
  UnitCommand ended = UnitCommand::Ended({});
  ended.unit = UnitId{3};
  UnitCommand grants = UnitCommand::Grants(7);
  grants.unit = UnitId{3};
  EXPECT_EQ(units(CellOf(done)), 0u);
  EXPECT_EQ(loggers(CellOf(done)), 0u);
  EXPECT_EQ(loggers(CellOf(ended)), 0u);
  EXPECT_EQ(loggers(CellOf(grants)), 0u);
  EXPECT_EQ(units(CellOf(ended)), kBad);
  EXPECT_EQ(units(CellOf(grants)), kBad);
  for (const UnitCommand& word : {done, ended, grants}) {
    EXPECT_EQ((*to_controller_)(CellOf(word)), kBad);
  }
  done.done.unit = UnitId{5};
  EXPECT_EQ(units(CellOf(done)), kBad);
  done.done = {.flow = FlowId{0xffff'ff00}, .unit = UnitId{3}};
  EXPECT_EQ(units(CellOf(done)), kBad);
  ended.ended.flow = FlowId{0xffff'ff00};
  EXPECT_EQ(loggers(CellOf(ended)), kBad);
}

TEST_F(WordsWithLoggers, ReportClocksThatAFlowCanHave) {
  using Kind = UnitCommand::Kind;
  const WordsToController units = Words(Sender::kUnitsWithLoggers);
  const auto report = [&](Kind kind, Clock clock) {
    UnitCommand word = OfPacket(kind);
    word.packet = kNoPacket;
    word.meta.clock = clock;
    if (kind == Kind::kReportFlow) {
      word.report = {.flow = FlowId{7}, .clock = clock, .unit = word.unit};
    }
    return units(CellOf(word));
  };
  for (const Kind kind :
       {Kind::kReportFlow, Kind::kReportPacket, Kind::kReportParked}) {
    EXPECT_EQ(report(kind, Clock{1}), 0u);
    EXPECT_EQ(report(kind, kMaxReportedClock), 0u);
    EXPECT_EQ(report(kind, Clock{0}), kind == Kind::kReportFlow ? 0u : kBad);
    EXPECT_EQ(report(kind, kMaxReportedClock + 1), kBad);
  }
  EXPECT_EQ(
      ToString(*faults_.first()),
      "unit 3 sent a bad word: report_flow with clock 9223372036854775809");
}

TEST_F(WordsWithLoggers, AreToldByTheNameOfTheLogger) {
  UnitCommand word = OfPacket(UnitCommand::Kind::kRelease);
  word.packet = kNoPacket;
  Refuses(
      Words(Sender::kLoggers)(CellOf(word)),
      "the logger of unit 3 sent a bad word: release with packet 4294967295");
}

// What a unit has told its logger is the unit's fault, whose loop ends alone,
// and what the logger says behind it is heard. What no unit makes it say is its
// own.
TEST_F(WordsWithLoggers, OfALoggerAreItsUnitsWhereLoopsMayEndAlone) {
  faults_.BlameLoops(2);
  const WordsToController loggers = Words(Sender::kLoggers);
  UnitCommand word = OfPacket(UnitCommand::Kind::kRelease);
  word.packet = kNoPacket;
  EXPECT_EQ(loggers(CellOf(word)), LinkIn::kPassOver);
  EXPECT_EQ(faults_.TakeBlame(1),
            "unit 3 sent a bad word: release with packet 4294967295");
  word = OfPacket(UnitCommand::Kind::kDrop);
  word.reason = DropReason::kDuplicateClock;
  EXPECT_EQ(loggers(CellOf(word)), LinkIn::kPassOver);
  EXPECT_NE(faults_.TakeBlame(1), std::nullopt);
  EXPECT_FALSE(faults_.has_blame());
  EXPECT_EQ(loggers(Cell::OfTable()), kBad);
  EXPECT_EQ(faults_.TakeBlame(2),
            "the logger of the loop of units 1 sent a bad word: message with "
            "unit 0");
  EXPECT_EQ(loggers(CellOf(OfPacket(UnitCommand::Kind::kWait))), kBad);
  EXPECT_NE(faults_.TakeBlame(2), std::nullopt);
  EXPECT_FALSE(faults_.has_blame());
  EXPECT_EQ(faults_.count(), 0u);
}

TEST_F(WordsWithLoggers, AreNotOfTablesWhereALoggerSaysThem) {
  Refuses(Words(Sender::kLoggers)(Cell::OfTable()),
          "the logger of the loop of units 1 sent a bad word: message with "
          "unit 0");
}

// Updates of tables that loggers send (proto/protocol.md §8).
class LoggedUpdates : public Decoders {
 protected:
  using Sender = WordsToController::Sender;
  WordsToController Words(Sender sender) {
    return {UnitsOfLoop(1, 2, kMaxUnits),
            {.max_flows = 8, .sender = sender, .logs_tables = true},
            *pool_,
            *tables_,
            faults_};
  }
  static TableMessage Good() {
    return {.kind = TableMessage::Kind::kLogged,
            .rest = 1,
            .entries = 2,
            .unit = UnitId{3},
            .incarnation = 1,
            .seq = 7,
            .merged = 5};
  }
  bool IsSound(const TableMessage& message) {
    return Words(Sender::kLoggers)
        .IsSound(Cell::OfTable(), std::as_bytes(std::span(&message, 1)));
  }
  template <typename Change>
  void Refuses(const Change& change, const std::string& what) {
    WireFaults faults;
    const WordsToController words(
        UnitsOfLoop(1, 2, kMaxUnits),
        {.max_flows = 8, .sender = Sender::kLoggers, .logs_tables = true},
        *pool_, *tables_, faults);
    TableMessage bad = Good();
    change(bad);
    EXPECT_FALSE(
        words.IsSound(Cell::OfTable(), std::as_bytes(std::span(&bad, 1))));
    ASSERT_EQ(faults.count(), 1u);
    EXPECT_EQ(ToString(*faults.first()), "the logger of " + what);
  }
};

TEST_F(LoggedUpdates, ComeFromLoggersAlone) {
  const WordsToController loggers = Words(Sender::kLoggers);
  Takes(loggers(Cell::OfTable()), sizeof(TableMessage));
  EXPECT_TRUE(IsSound(Good()));
  const WordsToController units = Words(Sender::kUnitsWithLoggers);
  TableMessage join = Good();
  join.kind = TableMessage::Kind::kUpdate;
  join.rest = TableMessage::kNoRest;
  join.entries = 0;
  const auto is_sound = [&] {
    return units.IsSound(Cell::OfTable(), std::as_bytes(std::span(&join, 1)));
  };
  EXPECT_TRUE(is_sound());  // a unit whose packets read
  join.entries = 1;
  EXPECT_FALSE(is_sound());
  Told("unit 3 sent a bad word: table with entries 1");
}

TEST_F(LoggedUpdates, AreRefusedByTheNameOfAField) {
  const std::string of_unit = "unit 3 sent a bad word: table with ";
  Refuses([](TableMessage& bad) { bad.unit = UnitId{2}; },
          "the loop of units 1 sent a bad word: table with unit 2");
  Refuses([](TableMessage& bad) { bad.table = 9; }, of_unit + "table 9");
  Refuses([](TableMessage& bad) { bad.entries = 255; },
          of_unit + "entries 255");
  Refuses([](TableMessage& bad) { bad.entries = 0; }, of_unit + "entries 0");
  Refuses([](TableMessage& bad) { bad.rest = 2; }, of_unit + "rest 2");
  Refuses([](TableMessage& bad) { Spoil(bad.leaves); }, of_unit + "leaves 2");
  Refuses([](TableMessage& bad) { bad.incarnation = 0; },
          of_unit + "incarnation 0");
  // Two entries are two updates at least.
  Refuses([](TableMessage& bad) { bad.seq = 6; }, of_unit + "seq 6");
  Refuses([](TableMessage& bad) { bad.seq = 4; }, of_unit + "seq 4");
  for (const auto kind :
       {TableMessage::Kind::kUpdate, TableMessage::Kind::kMerged,
        TableMessage::Kind::kToldAck, TableMessage::Kind::kLoggedAck,
        TableMessage::Kind{77}}) {
    Refuses([kind](TableMessage& bad) { bad.kind = kind; },
            of_unit + "kind " + std::to_string(static_cast<int>(kind)));
  }
}

TEST_F(LoggedUpdates, AreNotOfUnitsWithReplicas) {
  TableMessage message = Good();
  EXPECT_FALSE(to_controller_->IsSound(Cell::OfTable(),
                                       std::as_bytes(std::span(&message, 1))));
  Told("unit 3 sent a bad word: table with kind 4");
}

TEST_F(LoggedUpdates, HaveAnswersForLoggersOfTheLoop) {
  const auto told = [](const TableMessage& answer) -> std::string {
    WireFaults faults;
    const OrdersToLoggers orders(UnitsOfLoop(1, 2, kMaxUnits), 1, faults);
    EXPECT_EQ(orders(Cell::OfTable()), sizeof(TableMessage));
    if (orders.IsSound(answer)) return "sound";
    return ToString(*faults.first());
  };
  const TableMessage good = {.kind = TableMessage::Kind::kLoggedAck,
                             .unit = UnitId{3}};
  EXPECT_EQ(told(good), "sound");
  TableMessage bad = good;
  bad.kind = TableMessage::Kind::kTold;
  EXPECT_EQ(told(bad),
            "the loop of units 1 sent a bad word: table with kind 2");
  bad = good;
  bad.unit = UnitId{2};
  EXPECT_EQ(told(bad),
            "the loop of units 1 sent a bad word: table with unit 2");
  bad = good;
  bad.table = 1;
  EXPECT_EQ(told(bad),
            "the loop of units 1 sent a bad word: table with table 1");
}

// A logger tells its own unit alone what homes have merged.
TEST_F(LoggedUpdates, AreToldToTheUnitThatMadeThem) {
  const WordsBetweenUnits own(UnitsOfLoop(1, 2, kMaxUnits),
                              UnitsOfLoop(1, 2, kMaxUnits), kRecordBytes,
                              faults_);
  Takes(own(CellOf(UnitCommand::Merged(UnitId{3}, 9))), 0);
  const WordsBetweenUnits of_another(UnitsOfLoop(0, 2, kMaxUnits),
                                     UnitsOfLoop(1, 2, kMaxUnits), kRecordBytes,
                                     faults_);
  EXPECT_EQ(of_another(CellOf(UnitCommand::Merged(UnitId{3}, 9))), kBad);
  Told("the loop of units 0 sent a bad word: updates_merged with unit 3");
}

// The entries are judged by the loggers.
TEST_F(WordsWithLoggers, SayHowLongAnEntryIs) {
  constexpr uint32_t kEntryBytes = 500;
  const WordsToLoggers words(UnitsOfLoop(1, 2, kMaxUnits), kMaxUnits,
                             kEntryBytes, faults_);
  Rng rng(1);
  for (int i = 0; i < 100'000; ++i) {
    Cell cell;
    for (std::byte& byte : cell.bytes) {
      byte = static_cast<std::byte>(rng.Below(256));
    }
    const LogWord made = {
        .kind = LogWord::Kind{static_cast<uint8_t>(rng.Below(6))},
        .unit = UnitId{static_cast<uint16_t>(rng.Below(8))},
        .bytes = static_cast<uint32_t>(rng.Below(kEntryBytes + 50))};
    std::memcpy(cell.bytes.data(), &made, sizeof made);
    const bool is_unit = value(made.unit) % 2 == 1 && value(made.unit) < 6;
    const size_t bytes = words(cell);
    if (made.kind == LogWord::Kind::kEntry && is_unit &&
        made.bytes <= kEntryBytes) {
      ASSERT_EQ(bytes, made.bytes <= 56 ? 0 : made.bytes - 56);
    } else if (made.kind == LogWord::Kind::kStopped && is_unit &&
               made.bytes == 0) {
      ASSERT_EQ(bytes, 0u);
    } else if (made.kind == LogWord::Kind::kPull &&
               value(made.unit) < kMaxUnits && made.bytes == sizeof(Pull)) {
      ASSERT_EQ(bytes, 0u);  // to a logger of any loop
    } else if (made.kind == LogWord::Kind::kReport &&
               made.bytes == sizeof(uint32_t)) {
      ASSERT_EQ(bytes, 0u);  // whatever unit it names: it is of all
    } else if (made.kind == LogWord::Kind::kName && is_unit &&
               made.bytes == sizeof(FlowName)) {
      ASSERT_EQ(bytes, sizeof(FlowName) - 56);
    } else {
      ASSERT_EQ(bytes, kBad);
    }
  }
}

// Whatever passes is in range: what an index is made of is looked at once more.
TEST_F(Decoders, LetNothingRandomThrough) {
  constexpr uint64_t kSeed = 1;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  uint64_t passed = 0;
  for (int i = 0; i < 200'000; ++i) {
    Cell cell;
    for (std::byte& byte : cell.bytes) {
      byte = rng.Chance(32'768) ? std::byte{0}
                                : static_cast<std::byte>(rng.Below(256));
    }
    cell.bytes[0] = static_cast<std::byte>(rng.Below(20));
    const auto& word = cell.As<UnitCommand>();
    if ((*to_controller_)(cell) != kBad) {
      ++passed;
      EXPECT_TRUE(word.unit == UnitId{1} || word.unit == UnitId{3} ||
                  word.unit == UnitId{5});
    }
    if ((*between_)(cell) != kBad) {
      ++passed;
      EXPECT_LT(value(word.unit), kMaxUnits);
    }
    if ((*to_units_)(cell) != kBad &&
        cell.As<ControllerCommand>().kind != ControllerCommand::Kind::kDrop) {
      ++passed;
      EXPECT_LT(value(cell.As<ControllerCommand>().unit), kMaxUnits);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(passed, 10u);
}

}  // namespace
}  // namespace snf
