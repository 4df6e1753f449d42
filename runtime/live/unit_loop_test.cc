// SPDX-License-Identifier: Apache-2.0
//
// Packets in, packets out, over links; there is no controller.
#include "runtime/live/unit_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/core/test_inputs.h"
#include "runtime/ring/test_region.h"
#include "runtime/wire/link_payload.h"
#include "runtime/wire/log_word.h"

namespace snf {
namespace {

using Kind = UnitCommand::Kind;

// Serves whoever asks, and notes what a loop says of its units.
class NotedTurns final : public UnitTurns {
 public:
  void on_start(UnitId /*unit*/) override { said_ += "start "; }
  void on_drained(UnitId /*unit*/) override { said_ += "drained "; }
  void on_stopped(UnitId /*unit*/) override { said_ += "stopped "; }
  void on_next(UnitId /*unit*/, uint32_t /*cost*/) override {}
  void on_empty(UnitId /*unit*/) override {}
  bool Begin(UnitId /*unit*/) override { return true; }
  void on_served(UnitId /*unit*/, Instant /*end*/) override {}
  Instant last_end(UnitId /*unit*/) const override { return Instant::min(); }
  std::string TakeSaid() { return std::exchange(said_, ""); }

 private:
  std::string said_;
};

// Notes to which controllers loops have reported.
class NotedReports final : public HostRecords {
 public:
  void on_report(uint32_t epoch) override { epochs.push_back(epoch); }
  bool has(UnitId /*unit*/) const override { return true; }
  bool Show(UnitId /*unit*/, uint32_t /*slot*/, const State& /*state*/,
            std::span<const std::byte> /*bytes*/) override {
    return true;
  }
  std::optional<HostRecord> Read(UnitId /*unit*/, FlowId /*flow*/,
                                 Clock /*clock*/) override {
    return std::nullopt;
  }
  HostMiss miss() const override { return HostMiss::kUnknown; }

  std::vector<uint32_t> epochs;
};

// Loops of units, and a controller's ends of their links.
class Loops {
 public:
  Loops(size_t count, std::string_view nf, UnitLoopOptions options = {},
        UnitTurns* turns = nullptr, HostRecords* host = nullptr) {
    clock_.Start(Instant{1'000'000});
    const std::vector<BufferPool::Options> shares(
        1 + count, {.small = 64, .medium = 0, .large = 0});
    region_.MakePool(shares);
    pool_ = std::make_unique<BufferPool>(region_.Attach(0));
    std::vector<Doorbell*> bells;
    for (size_t i = 0; i < count; ++i) bells.push_back(region_.New<Doorbell>());
    std::vector<std::vector<LinkOut>> outs(count);
    std::vector<std::vector<LinkIn>> ins(count);
    for (size_t from = 0; from < count; ++from) {
      for (size_t to = 0; to < count; ++to) {
        const LinkRing ring = region_.Ring(bells[to]);
        outs[from].emplace_back(ring.producer, 64);
        between_.emplace_back(ring.producer, 64);
        ins[to].emplace_back(ring.consumer, 4'096);
      }
    }
    options.loops = static_cast<uint32_t>(count);
    options.max_units = 4;
    const bool has_logger = options.unit.has_logger;
    options.unit = {.max_flows = 64,
                    .queue_packets = 64,
                    .replicas = 0,
                    .has_logger = has_logger};
    const NfSpec spec = *NfSpec::Parse(nf);
    for (size_t i = 0; i < count; ++i) {
      const LinkRing down = region_.Ring(bells[i]);
      const LinkRing up = region_.Ring(nullptr);
      to_.emplace_back(down.producer, 64);
      from_.emplace_back(up.consumer, kMaxPayloadToController);
      options.index = static_cast<uint32_t>(i);
      loops_.push_back(std::make_unique<UnitLoop>(
          options, spec, clock_,
          UnitLoopLinks{.buffers = region_.Attach(static_cast<uint8_t>(i + 1)),
                        .bell = bells[i],
                        .progress = region_.New<LoopProgress>(),
                        .control = region_.New<LoopControl>(),
                        .faults = &faults_,
                        .from_controller =
                            LinkIn(down.consumer, kMaxPayloadFromController),
                        .to_controller = LinkOut(up.producer, 64),
                        .from_loops = std::move(ins[i]),
                        .to_loops = std::move(outs[i]),
                        .host = host,
                        .to_loggers = OutToLoggers(has_logger),
                        .turns = turns,
                        .controllers = has_logger ? &controllers_ : nullptr}));
    }
  }
  // The controller has failed, and another one begins.
  void Succeed() { ++controllers_.newest; }
  void Name(uint16_t unit, const FlowName& name) {
    LinkOut& link = to_[unit % loops_.size()];
    link.Send(ControllerCommand::OfFlow(UnitId{unit}, name.flow),
              std::as_bytes(std::span(&name, 1)));
    EXPECT_TRUE(link.Flush());
  }

  void Start(uint16_t unit) {
    Send(ControllerCommand::Start(UnitId{unit}, false, ++incarnation_));
  }
  // A packet of 100 bytes, which counts as one of `length`.
  void Enqueue(uint16_t unit, PacketMeta meta, uint32_t length = 100) {
    const PacketHandle packet = pool_->Allocate(100);
    pool_->info(packet) = {};
    pool_->info(packet).length = 100;
    pool_->info(packet).original_length = length;
    meta.arrival = clock_.Now();
    meta.original_length = length;
    Send(ControllerCommand::Enqueue(UnitId{unit}, packet, meta));
  }
  void Send(const ControllerCommand& command) {
    LinkOut& link = to_[value(command.unit) % loops_.size()];
    link.Send(command);
    EXPECT_TRUE(link.Flush());
  }
  // Lets all loops take turns until none has anything to do; loggers take what
  // comes to them.
  void Turn() {
    bool did = true;
    while (std::exchange(did, false)) {
      for (const auto& loop : loops_) did |= loop->Turn();
      for (LinkIn& entries : entries_) did |= Log(entries);
    }
    Receive();
  }
  // Entries and other words that the loggers have taken.
  size_t logged() const { return logged_; }
  void Receive() {
    for (LinkIn& link : from_) {
      link.Receive();
      link.Handle(PayloadToController,
                  [this](const Cell& cell, std::span<const std::byte>) {
                    if (cell.is_table()) {
                      ++tables_;
                      return;
                    }
                    heard_.push_back(cell.As<UnitCommand>());
                    if (heard_.back().kind != Kind::kRelease) return;
                    pool_->Free(heard_.back().packet);
                  });
    }
  }
  std::vector<UnitCommand> TakeHeard() { return std::exchange(heard_, {}); }
  size_t tables() const { return tables_; }
  UnitLoop& loop(size_t i) { return *loops_[i]; }
  const WireFaults& faults() const { return faults_; }
  // Puts a word of one loop into its link to another.
  void SayBetween(size_t from, size_t to, const UnitCommand& word) {
    LinkOut& link = between_[from * loops_.size() + to];
    link.Send(word);
    EXPECT_TRUE(link.Flush());
  }
  RealClock& clock() { return clock_; }
  BufferPool& pool() { return *pool_; }

 private:
  static constexpr size_t kMaxEntryBytes = 4'096;

  std::optional<LinkOut> OutToLoggers(bool has_logger) {
    if (!has_logger) return std::nullopt;
    const LinkRing ring = region_.Ring(nullptr);
    entries_.emplace_back(ring.consumer, kMaxEntryBytes);
    return LinkOut(ring.producer, 64);
  }
  bool Log(LinkIn& entries) {
    entries.ReceiveKept();
    const size_t taken = entries.Handle(
        [](const Cell& cell) { return LogWord::Of(cell).payload_bytes(); },
        [](const Cell&, std::span<const std::byte>) {});
    entries.Release();
    logged_ += taken;
    return taken > 0;
  }

  TestRegion region_;
  RealClock clock_;
  std::unique_ptr<BufferPool> pool_;
  std::vector<LinkOut> to_;
  std::vector<LinkOut> between_;  // as long as the loops use theirs not
  std::vector<LinkIn> from_;
  std::vector<LinkIn> entries_;  // for the loggers, by loop
  size_t logged_ = 0;
  WireFaults faults_;
  std::vector<std::unique_ptr<UnitLoop>> loops_;
  std::vector<UnitCommand> heard_;
  size_t tables_ = 0;
  uint32_t incarnation_ = 0;
  ControllerEpoch controllers_;
};

// A unit hands no sender on that does not exist, and hears no more of that
// loop.
TEST(UnitLoop, HearsNoMoreOfALoopThatSaysWhatCannotBe) {
  Loops loops(2, "passthrough");
  loops.Start(0);
  loops.Turn();
  const Pull pull = {
      .flow = FlowId{7}, .need = Clock{1}, .requester = UnitId{60'001}};
  loops.SayBetween(1, 0, UnitCommand::Send(UnitId{0}, pull));
  loops.Turn();
  ASSERT_EQ(loops.faults().count(), 1u);
  EXPECT_EQ(ToString(*loops.faults().first()),
            "the loop of units 1 sent a bad word: pull with requester 60001");
  const uint64_t received = loops.loop(0).progress().received.load();
  loops.SayBetween(1, 0,
                   UnitCommand::Send(UnitId{0}, Takeover{.taker = UnitId{1}}));
  loops.Turn();
  EXPECT_EQ(loops.loop(0).progress().received.load(), received);
  // The controller is heard.
  loops.Enqueue(0, New(7));
  loops.Turn();
  EXPECT_EQ(loops.TakeHeard().size(), 1u);
}

TEST(UnitLoop, TakesNoMorePacketsThanAUnitsChannelHasSlots) {
  Loops loops(1, "passthrough");
  for (uint64_t i = 1; i <= 64; ++i) loops.Enqueue(2, Within(7, i + 1));
  loops.Turn();
  EXPECT_EQ(loops.faults().count(), 0u);
  PacketMeta meta = Within(7, 99);
  meta.flags = PacketMeta::kNull;
  loops.Send(ControllerCommand::Enqueue(UnitId{2}, kNoPacket, meta));
  loops.Turn();
  ASSERT_EQ(loops.faults().count(), 1u);
  EXPECT_EQ(ToString(*loops.faults().first()),
            "the controller sent a bad word: packet with number 0");
}

TEST(UnitLoop, ReleasesWhatItIsGiven) {
  Loops loops(1, "passthrough");
  loops.Start(2);
  loops.Enqueue(2, New(7));
  loops.Enqueue(2, Within(7, 2));
  loops.Turn();
  const std::vector<UnitCommand> heard = loops.TakeHeard();
  ASSERT_EQ(heard.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(heard[i].kind, Kind::kRelease);
    EXPECT_EQ(heard[i].unit, UnitId{2});
    EXPECT_EQ(heard[i].meta.clock, Clock{i + 1});
  }
  EXPECT_EQ(loops.pool().in_use(), 0u);
  EXPECT_EQ(loops.loop(0).progress().received.load(), 3u);
  EXPECT_EQ(loops.loop(0).progress().sent.load(), 2u);
}

TEST(UnitLoop, RunsNoPacketBeforeItsUnitIsStarted) {
  Loops loops(1, "passthrough");
  loops.Enqueue(0, New(7));
  loops.Turn();
  EXPECT_TRUE(loops.TakeHeard().empty());
  loops.Start(0);
  loops.Turn();
  EXPECT_EQ(loops.TakeHeard().size(), 1u);
}

TEST(UnitLoop, FetchesTheStateOfAFlowThatMovedFromAnotherLoop) {
  Loops loops(2, "passthrough");
  loops.Start(0);
  loops.Start(1);
  loops.Enqueue(0, New(7));
  loops.Turn();
  EXPECT_EQ(loops.TakeHeard().size(), 1u);
  PacketMeta moved = First(7, 2, 0);
  moved.flags |= PacketMeta::kMoved;
  loops.Enqueue(1, moved);
  loops.Turn();
  const std::vector<UnitCommand> heard = loops.TakeHeard();
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_EQ(heard[0].unit, UnitId{1});
  EXPECT_TRUE(heard[0].kind == Kind::kReportTakeover ||
              heard[1].kind == Kind::kReportTakeover);
  EXPECT_TRUE(heard[0].kind == Kind::kRelease ||
              heard[1].kind == Kind::kRelease);
  const UnitLoopFigures asked = loops.loop(0).figures();
  EXPECT_EQ(asked.state.answers, 1u);
  const UnitLoopFigures asks = loops.loop(1).figures();
  EXPECT_EQ(asks.state.pulls, 1u);
  EXPECT_EQ(asks.state.pulled, 1u);
  EXPECT_EQ(asks.held_packets_max, 1u);
}

// 1,500 bytes at 1 Mbit/s take 12 ms.
TEST(UnitLoop, ServesAsFastAsTheUnitsCapacity) {
  UnitLoopOptions options;
  options.service = ServiceModel(1'000'000);
  Loops loops(1, "passthrough", options);
  loops.Start(0);
  const Instant begin = loops.clock().Now();
  loops.Enqueue(0, New(7), 1'500);
  loops.loop(0).Turn();
  loops.Receive();
  EXPECT_TRUE(loops.TakeHeard().empty());
  const Instant due{loops.loop(0).progress().next_due.load()};
  EXPECT_GE(due - begin, Milliseconds(12));
  loops.clock().SkipTo(due);
  loops.loop(0).Turn();
  loops.Receive();
  EXPECT_EQ(loops.TakeHeard().size(), 1u);
}

TEST(UnitLoop, TellsTheHomesOfTablesThatAUnitStarts) {
  Loops loops(1, "monitor");
  loops.Start(3);
  loops.loop(0).Turn();
  loops.clock().SkipTo(loops.clock().Now() + Milliseconds(20));
  loops.loop(0).Turn();
  loops.Receive();
  EXPECT_GE(loops.tables(), 1u);
  EXPECT_TRUE(loops.loop(0).tables(UnitId{3})->joined());
  EXPECT_FALSE(loops.loop(0).tables(UnitId{2})->joined());
}

TEST(UnitLoop, SaysThatAUnitHasStopped) {
  Loops loops(2, "passthrough");
  loops.Start(1);
  loops.Send(ControllerCommand::OfUnit(ControllerCommand::Kind::kStopUnit,
                                       UnitId{1}, false));
  loops.Turn();
  const std::vector<UnitCommand> heard = loops.TakeHeard();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].kind, Kind::kStopped);
  EXPECT_EQ(heard[0].unit, UnitId{1});
  EXPECT_EQ(loops.loop(0).tables(UnitId{1}), nullptr);
}

// A recovery that finds no other unit starts it again.
TEST(UnitLoop, SaysNothingMoreOfAStopThatIsWithdrawn) {
  Loops loops(2, "passthrough");
  loops.Start(1);
  loops.Send(ControllerCommand::OfUnit(ControllerCommand::Kind::kStopUnit,
                                       UnitId{1}, false));
  loops.Send(ControllerCommand::Start(UnitId{1}, /*warm=*/true, 1));
  loops.Turn();
  EXPECT_EQ(loops.TakeHeard().size(), 1u);
  loops.Enqueue(1, New(7));
  loops.Turn();
  loops.Send(ControllerCommand::End(UnitId{1}, {FlowId{7}, Clock{1}}));
  loops.Turn();
  for (const UnitCommand& word : loops.TakeHeard()) {
    EXPECT_NE(word.kind, Kind::kStopped);
  }
}

// The controller's order to start comes behind the state, as it may come once
// the unit's loop runs.
TEST(UnitLoop, TakesTheStateOfAFlowForAUnitThatHasStopped) {
  Loops loops(1, "passthrough");
  loops.Start(1);
  loops.Send(ControllerCommand::OfUnit(ControllerCommand::Kind::kStopUnit,
                                       UnitId{1}, false));
  loops.Turn();
  ASSERT_EQ(loops.TakeHeard().size(), 1u);
  const uint64_t schema =
      NfSpec::Parse("passthrough")->create()->schema().hash();
  loops.Send(ControllerCommand::Take(UnitId{1}, {.flow = FlowId{7},
                                                 .applied = Clock{5},
                                                 .schema = schema,
                                                 .pushed = true}));
  loops.Turn();
  loops.Enqueue(1, First(7, 6, 1));
  loops.Start(1);
  loops.Turn();
  const std::vector<UnitCommand> heard = loops.TakeHeard();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].kind, Kind::kRelease);
  EXPECT_EQ(heard[0].meta.clock, Clock{6});
}

TEST(UnitLoop, ShowsNoMoreStatesThanTheWayToTheControllerHolds) {
  Loops loops(1, "passthrough");
  loops.Start(1);
  loops.Enqueue(1, New(7));
  loops.Turn();
  EXPECT_EQ(loops.TakeHeard().size(), 1u);
  for (int i = 0; i < 2'000; ++i) {
    loops.Send(ControllerCommand::AskState(UnitId{1}, FlowId{7}));
    while (loops.loop(0).Turn()) {
    }
  }
  size_t shown = 0;
  const auto hear = [&] {
    loops.Receive();
    const size_t heard = loops.TakeHeard().size();
    shown += heard;
    return heard > 0;
  };
  while (hear()) {
  }
  EXPECT_GT(shown, 0u);
  loops.Turn();
  EXPECT_FALSE(hear()) << "none waits in the loop";
  loops.Send(ControllerCommand::AskState(UnitId{1}, FlowId{7}));
  loops.Turn();
  ASSERT_EQ(loops.TakeHeard().size(), 1u);
}

// The logger forgets a flow that is given up as if another unit had taken it
// over; but there is none that would hear of it.
TEST(UnitLoop, AcknowledgesToNobodyThatAFlowIsGivenUp) {
  UnitLoopOptions options;
  options.unit.has_logger = true;
  Loops loops(2, "passthrough", options);
  loops.Start(1);
  loops.Enqueue(1, New(7));
  loops.Turn();
  EXPECT_EQ(loops.logged(), 1u);
  EXPECT_EQ(loops.loop(1).figures().logs.entries, 1u);
  loops.Send(ControllerCommand::Forsake(UnitId{1}, {.flow = FlowId{7}}));
  loops.Turn();
  EXPECT_EQ(loops.logged(), 2u);
  EXPECT_EQ(loops.faults().count(), 0u) << ToString(*loops.faults().first());
}

// A loop sleeps through a release for which no unit waits.
TEST(UnitLoop, AwaitsAReleaseIfAnotherUnitDoes) {
  UnitLoopOptions options;
  options.unit.has_logger = true;
  Loops loops(2, "passthrough", options);
  loops.Start(0);
  loops.Start(1);
  loops.Enqueue(0, New(7));
  loops.loop(0).Turn();
  EXPECT_FALSE(loops.loop(0).AwaitsRelease());
  PacketMeta moved = First(7, 2, 0);
  moved.flags |= PacketMeta::kMoved;
  loops.Enqueue(1, moved);
  loops.loop(1).Turn();
  loops.loop(0).Turn();
  EXPECT_TRUE(loops.loop(0).AwaitsRelease());  // its answer to the Pull
  loops.Turn();
  EXPECT_EQ(loops.loop(1).figures().state.pulled, 1u);
  EXPECT_FALSE(loops.loop(0).AwaitsRelease());
  EXPECT_FALSE(loops.loop(1).AwaitsRelease());
  loops.Enqueue(1, Within(7, 3));
  loops.loop(1).Turn();
  EXPECT_FALSE(loops.loop(1).AwaitsRelease());
  loops.Send(ControllerCommand::Forsake(UnitId{1}, {.flow = FlowId{7}}));
  loops.loop(1).Turn();
  EXPECT_TRUE(loops.loop(1).AwaitsRelease());
  loops.Turn();
  EXPECT_FALSE(loops.loop(1).AwaitsRelease());
}

// F9: what it has taken from the controller before is in it; the loggers report
// behind what is in their ring.
TEST(UnitLoop, ReportsToANewControllerWhatItsUnitsHave) {
  UnitLoopOptions options;
  options.unit.has_logger = true;
  NotedReports noted;
  Loops loops(2, "passthrough", options, nullptr, &noted);
  loops.Start(1);
  loops.Enqueue(1, New(7));
  loops.Turn();
  EXPECT_EQ(loops.logged(), 1u);
  EXPECT_EQ(noted.epochs, (std::vector<uint32_t>{0, 0}));
  EXPECT_TRUE(loops.TakeHeard().empty());
  FlowName name = {.flow = FlowId{9}, .version = 4};
  name.key.form = FlowKeyForm::kIpv4;
  loops.Name(1, name);
  loops.Enqueue(1, Within(9, 5));  // what comes before it is elsewhere
  loops.Enqueue(3, New(8));        // the unit is starting
  loops.Succeed();
  loops.Turn();
  std::vector<UnitCommand> of_loop;
  for (const UnitCommand& word : loops.TakeHeard()) {
    if (value(word.unit) % 2 == 1) of_loop.push_back(word);
  }
  ASSERT_EQ(of_loop.size(), 7u);
  EXPECT_EQ(of_loop[0].kind, Kind::kReportName);
  EXPECT_EQ(of_loop[1].kind, Kind::kReportFlow);
  EXPECT_EQ(of_loop[1].report.flow, FlowId{7});
  EXPECT_EQ(of_loop[1].report.clock, Clock{1});
  EXPECT_EQ(of_loop[1].report.kind, FlowReport::Kind::kRan);
  EXPECT_EQ(of_loop[2].kind, Kind::kReportPacket);
  EXPECT_EQ(of_loop[2].meta.flow, FlowId{9});
  EXPECT_EQ(of_loop[2].meta.clock, Clock{5});
  EXPECT_NE(of_loop[2].packet, kNoPacket);
  EXPECT_EQ(of_loop[3].kind, Kind::kReportUnit);
  EXPECT_EQ(of_loop[3].standing.state, UnitReport::State::kActive);
  EXPECT_EQ(of_loop[4].kind, Kind::kReportPacket);
  EXPECT_EQ(of_loop[4].unit, UnitId{3});
  EXPECT_EQ(of_loop[5].kind, Kind::kReportUnit);
  EXPECT_EQ(of_loop[5].standing.state, UnitReport::State::kStopped);
  EXPECT_EQ(of_loop[6].kind, Kind::kReported);
  EXPECT_EQ(of_loop[6].epoch, 1u);
  EXPECT_EQ(loops.logged(), 3u);  // the entry, and a word of each loop
  EXPECT_EQ(noted.epochs, (std::vector<uint32_t>{0, 0, 1, 1}));
  // It does so once.
  loops.Enqueue(1, New(10));
  loops.Turn();
  EXPECT_TRUE(loops.TakeHeard().empty());
}

// What is left of a lease: nothing, or flows that were about to move.
TEST(UnitLoop, ReportsASharedUnitAsUsedUntilItsControllerHasLeft) {
  UnitLoopOptions options;
  options.unit.has_logger = true;
  NotedTurns turns;
  Loops loops(1, "passthrough", options, &turns);
  const auto stop = [&](uint16_t unit) {
    loops.Send(ControllerCommand::OfUnit(ControllerCommand::Kind::kStopUnit,
                                         UnitId{unit}, false));
  };
  const auto states = [&] {
    std::vector<UnitReport::State> found;
    for (const UnitCommand& word : loops.TakeHeard()) {
      if (word.kind == Kind::kReportUnit) found.push_back(word.standing.state);
    }
    return found;
  };
  using State = UnitReport::State;
  loops.Start(0);
  loops.Start(1);
  loops.Enqueue(1, New(7));
  loops.Turn();
  EXPECT_EQ(turns.TakeSaid(), "start start ");
  stop(0);
  stop(1);
  loops.Turn();
  EXPECT_THAT(turns.TakeSaid(), testing::HasSubstr("stopped "));
  loops.Succeed();
  loops.Turn();
  EXPECT_THAT(states(), testing::ElementsAre(State::kStopped, State::kActive,
                                             State::kStopped, State::kStopped));
  // The Stop is void.
  EXPECT_EQ(turns.TakeSaid(), "start ");
  loops.Enqueue(1, New(8));
  loops.Turn();
  EXPECT_EQ(turns.TakeSaid(), "");
  loops.Start(0);
  loops.Succeed();
  loops.Turn();
  EXPECT_THAT(states(), testing::ElementsAre(State::kActive, State::kActive,
                                             State::kStopped, State::kStopped));
}

// U14: who sent what is in its ring may have reported.
TEST(UnitLoop, ReportsBeforeItHearsWhatAnotherSays) {
  UnitLoopOptions options;
  options.unit.has_logger = true;
  Loops loops(2, "passthrough", options);
  loops.Start(1);
  loops.Enqueue(1, New(7));
  loops.Turn();
  loops.SayBetween(0, 1,
                   UnitCommand::Send(UnitId{1}, Pull{.flow = FlowId{7},
                                                     .need = Clock{1},
                                                     .requester = UnitId{0}}));
  loops.Turn();
  loops.Succeed();
  loops.SayBetween(0, 1,
                   UnitCommand::Send(UnitId{1}, Takeover{.flow = FlowId{7},
                                                         .clock = Clock{2},
                                                         .taker = UnitId{0}}));
  loops.Turn();
  bool has_flow = false;
  for (const UnitCommand& word : loops.TakeHeard()) {
    has_flow |= word.kind == Kind::kReportFlow && word.unit == UnitId{1} &&
                word.report.kind == FlowReport::Kind::kHandedOver;
  }
  EXPECT_TRUE(has_flow);
  EXPECT_EQ(loops.loop(1).unit(UnitId{1}).own_copies(), 0u);
  EXPECT_EQ(loops.faults().count(), 0u);
}

TEST(UnitLoop, RunsOnAThreadUntilItIsStopped) {
  constexpr uint64_t kPackets = 2'000;
  Loops loops(1, "passthrough");
  std::thread thread([&loops] { loops.loop(0).Run(); });
  loops.Start(0);
  uint64_t released = 0;
  for (uint64_t sent = 0; released < kPackets;) {
    if (sent < kPackets && sent - released < 32) {
      ++sent;
      loops.Enqueue(0, sent == 1 ? New(7) : Within(7, sent));
    }
    loops.Receive();
    released += loops.TakeHeard().size();
    if (sent == kPackets) std::this_thread::yield();
  }
  loops.loop(0).Stop();
  thread.join();
  EXPECT_EQ(released, kPackets);
  EXPECT_EQ(loops.pool().in_use(), 0u);
}

}  // namespace
}  // namespace snf
