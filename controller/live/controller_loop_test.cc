// SPDX-License-Identifier: Apache-2.0
//
// Packets in, packets out, over links whose other ends are the test's: there
// are no units.
#include "controller/live/controller_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/core/test_inputs.h"
#include "runtime/ring/test_region.h"
#include "runtime/wire/link_payload.h"

namespace snf {
namespace {

using Kind = ControllerCommand::Kind;

constexpr uint32_t kRingCells = 256;

FlowKey Key(uint16_t flow) {
  FlowKey key;
  key.source_port = be16{flow};
  key.form = FlowKeyForm::kIpv4;
  return key;
}

ControllerLoopOptions SmallOptions() {
  ControllerLoopOptions options;
  options.controller.max_flows = 64;
  options.controller.max_units = 4;
  options.controller.load_signal = LoadSignal::kDemand;  // starts no spare
  options.controller.replicas = 0;
  options.pools = 1;
  return options;
}

// A controller's loop with what runs it, and the ends of units' loops.
class TestController final : public ControllerEvents {
 public:
  // If they are apart, loops of units have memory of their own.
  explicit TestController(const ControllerLoopOptions& options = SmallOptions(),
                          size_t loops = 1, bool apart = false) {
    clock_.Start(Instant{1'000'000'000});
    const std::vector<BufferPool::Options> shares(
        1 + loops, {.small = 64, .medium = 0, .large = 0});
    region_.MakePool(shares);
    pool.emplace(region_.Attach(0));
    ControllerLinks links = {.bell = region_.New<Doorbell>(),
                             .buffers = &*pool,
                             .faults = &faults,
                             .loops = {}};
    for (size_t i = 0; i < loops; ++i) {
      const LinkRing down = region_.Ring(nullptr);
      const LinkRing up = ToController(links.bell);
      progress.push_back(region_.New<LoopProgress>());
      links.loops.push_back({.out = LinkOut(down.producer, 64),
                             .in = LinkIn(up.consumer, kMaxPayloadToController),
                             .progress = progress.back()});
      from_.emplace_back(down.consumer, kMaxPayloadFromController);
      to_.emplace_back(up.producer, 64);
      links.loops.back().bell = links.bell;
      if (apart) {
        regions.push_back(std::make_unique<TestRegion>());
        regions.back()->MakePool(shares);
        links.copies.push_back(regions.back()->Attach(0));
      }
      if (options.fails) links.controllers = &epoch;
      if (options.fails && !options.recovers) {
        const LinkRing of_logger = region_.Ring(links.bell);
        links.loggers.push_back({.in = LinkIn(of_logger.consumer, 0),
                                 .progress = region_.New<LoopProgress>()});
        of_loggers_.emplace_back(of_logger.producer, 64);
      }
      if (!options.recovers) continue;
      const LinkRing of_logger = ToController(links.bell);
      links.loggers.push_back(
          {.in = LinkIn(of_logger.consumer, 0),
           .progress = region_.New<LoopProgress>(),
           .out = LinkOut(region_.Ring(nullptr).producer, 64),
           .control = region_.New<LogControl>(),
           .bell = links.bell});
      of_loggers_.emplace_back(of_logger.producer, 64);
    }
    loop.emplace(options, *FindPlacementPolicy("snf"),
                 TableHomes(ScriptedNf(), 4, TableOptions{}), clock_,
                 std::move(links));
    loop->ReadClock();
  }

  void Arrive(uint16_t flow, bool by_alias = false) {
    const PacketHandle packet = pool->Allocate(100);
    pool->info(packet).length = 100;
    std::ranges::fill(pool->bytes(packet), std::byte{7});
    loop->Arrive(Key(flow), loop->now(), 100, packet, by_alias);
  }
  // Returns what a loop of units has been sent.
  std::vector<ControllerCommand> Commands(size_t of_loop = 0) {
    std::vector<ControllerCommand> commands;
    from_[of_loop].Receive();
    from_[of_loop].Handle(PayloadFromController,
                          [&](const Cell& cell, std::span<const std::byte>) {
                            commands.push_back(cell.As<ControllerCommand>());
                          });
    progress[of_loop]->received.store(from_[of_loop].received());
    return commands;
  }
  // Says something for a unit.
  void Say(UnitCommand command, UnitId unit,
           std::span<const std::byte> payload = {}) {
    command.unit = unit;
    LinkOut& link = to_[value(unit) % to_.size()];
    link.Send(command, payload);
    EXPECT_TRUE(link.Flush());
    progress[value(unit) % to_.size()]->sent.store(link.sent());
  }
  // Says something for the logger of a unit.
  void SayOfLogger(UnitCommand command, UnitId unit) {
    command.unit = unit;
    LinkOut& link = of_loggers_[value(unit) % of_loggers_.size()];
    link.Send(command);
    EXPECT_TRUE(link.Flush());
  }
  // The loggers' process has ended, and another one has begun.
  void RestartLoggers() {
    loop->ReopenLoggers();
    for (size_t i = 0; i < of_loggers_.size(); ++i) {
      of_loggers_[i] = LinkOut(
          *CellRing::Producer::Attach(RingOf(rings[2 * i + 1]), nullptr), 64);
    }
  }
  bool Turn() { return loop->Turn(*this); }
  void HandleBatch() { loop->HandleBatch(*this); }
  RealClock& clock() { return clock_; }

  void on_enqueue(const PacketMeta&) { ++enqueued; }
  void on_packet(Instant, const UnitCommand& command) {
    ++packets;
    loop->FreeSlot(command, *this);
  }
  void on_drop(Instant, PacketHandle, DropReason reason) override {
    drops.push_back(reason);
  }
  void on_unit_up(Instant, UnitId) override { ++units_up; }
  void on_unit_down(Instant, UnitId) override { --units_up; }
  void on_drained(Instant, const DrainReport& report) override {
    drained.push_back(report);
  }
  void on_end_flow(const EndFlow& end) override { ended.push_back(end); }
  void on_alias_granted(const Alias& alias, const FlowKey& inside) override {
    aliases.emplace_back(alias, inside);
  }
  void on_alias_over(FlowId flow, Clock) override { over.push_back(flow); }

  size_t enqueued = 0;
  size_t packets = 0;
  int units_up = 0;
  std::vector<DropReason> drops;
  std::vector<DrainReport> drained;
  std::vector<EndFlow> ended;
  std::vector<std::pair<Alias, FlowKey>> aliases;
  std::vector<FlowId> over;
  std::vector<LoopProgress*> progress;
  WireFaults faults;
  ControllerEpoch epoch;
  std::optional<BufferPool> pool;
  std::optional<ControllerLoop> loop;
  std::vector<RingHeader*> rings;  // of what units say, and of their loggers
                                   // behind each, if loops may end
  std::vector<std::unique_ptr<TestRegion>> regions;  // of loops that are apart

 private:
  struct alignas(128) RingMemory {
    std::array<std::byte, CellRing::BytesFor(kRingCells)> bytes;
  };
  static std::span<std::byte> RingOf(RingHeader* header) {
    return {reinterpret_cast<std::byte*>(header),
            CellRing::BytesFor(kRingCells)};
  }
  LinkRing ToController(Doorbell* bell) {
    const std::span<std::byte> memory = region_.New<RingMemory>()->bytes;
    EXPECT_TRUE(CellRing::Format(memory, kRingCells).ok());
    rings.push_back(reinterpret_cast<RingHeader*>(memory.data()));
    return {*CellRing::Producer::Attach(memory, bell),
            *CellRing::Consumer::Attach(memory)};
  }

  TestRegion region_;
  RealClock clock_;
  std::vector<LinkOut> to_;
  std::vector<LinkOut> of_loggers_;
  std::vector<LinkIn> from_;
};

TEST(ControllerLoop, SendsPacketsToAUnitAndFreesTheirSlots) {
  TestController test;
  for (int i = 0; i < 3; ++i) test.Arrive(1);
  EXPECT_EQ(test.loop->batch_size(), 3u);
  test.HandleBatch();
  EXPECT_EQ(test.loop->batch_size(), 0u);
  const std::vector<ControllerCommand> commands = test.Commands();
  ASSERT_EQ(commands.size(), 4u);
  EXPECT_EQ(commands[0].kind, Kind::kStartUnit);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(commands[i].kind, Kind::kEnqueue);
    EXPECT_EQ(commands[i].meta.clock, Clock{i});
    test.Say(UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                   commands[i].packet, commands[i].meta),
             commands[i].unit);
  }
  EXPECT_EQ(test.enqueued, 3u);
  EXPECT_EQ(test.units_up, 1);
  EXPECT_EQ(test.loop->in_channels(), 3u);
  EXPECT_FALSE(test.loop->IsQuiet());
  EXPECT_TRUE(test.Turn());
  EXPECT_EQ(test.packets, 3u);
  EXPECT_EQ(test.loop->in_channels(), 0u);
  ASSERT_EQ(test.drained.size(), 1u);
  EXPECT_EQ(test.drained[0].unit, commands[0].unit);
  EXPECT_EQ(test.drained[0].packets, 3u);
  EXPECT_EQ(test.drained[0].bytes, 300u);
  EXPECT_EQ(test.loop->controller().counters().flows, 1u);
}

// Timers of the controller may be due meanwhile; they are let run first.
TEST(ControllerLoop, IsQuietOnceUnitsHaveHandledAllThatWasSent) {
  TestController test;
  test.Arrive(1);
  test.HandleBatch();
  EXPECT_FALSE(test.loop->IsQuiet());
  test.Commands();
  while (test.Turn()) test.Commands();
  EXPECT_TRUE(test.loop->IsQuiet());
  test.Say(UnitCommand::Return({.unit = UnitId{0}}), UnitId{0});
  EXPECT_FALSE(test.loop->IsQuiet());
}

TEST(ControllerLoop, StartsAUnitOnceItsDelayIsOver) {
  ControllerLoopOptions options = SmallOptions();
  options.controller.warm_units = 0;
  options.cold_start_delay = Seconds(100);
  TestController test(options);
  test.Arrive(1);
  test.HandleBatch();
  EXPECT_TRUE(test.loop->is_starting());
  EXPECT_EQ(test.units_up, 1);
  std::vector<ControllerCommand> commands = test.Commands();
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kEnqueue);
  test.clock().SkipTo(test.loop->now() + Seconds(101));
  test.Turn();
  EXPECT_FALSE(test.loop->is_starting());
  commands = test.Commands();
  ASSERT_GE(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kStartUnit);
}

TEST(ControllerLoop, DropsWhatAUnitHasNoRoomFor) {
  ControllerLoopOptions options = SmallOptions();
  options.controller.max_units = 1;
  options.controller.unit_queue_packets = 2;
  options.controller.start_buffer_packets = 2;
  TestController test(options);
  for (int i = 0; i < 5; ++i) test.Arrive(1);
  test.HandleBatch();
  EXPECT_EQ(test.loop->in_channels(), 2u);
  EXPECT_EQ(test.drops.size(), 3u);
}

TEST(ControllerLoop, AnswersAnAliasByWhichPacketsAreFound) {
  ControllerLoopOptions options = SmallOptions();
  options.counts_flows = true;
  TestController test(options);
  test.Arrive(1);
  test.HandleBatch();
  const ControllerCommand first = test.Commands().back();
  const Alias alias = {.key = Key(9),
                       .flow = first.meta.flow,
                       .clock = first.meta.clock,
                       .unit = first.unit};
  UnitCommand ask = UnitCommand::OfPacket(UnitCommand::Kind::kSendAlias,
                                          first.packet, first.meta);
  test.Say(ask, first.unit, std::as_bytes(std::span(&alias, 1)));
  test.Turn();
  const std::vector<ControllerCommand> answer = test.Commands();
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].kind, Kind::kAliasAck);
  EXPECT_EQ(answer[0].alias_ack.result, AliasResult::kGranted);
  ASSERT_EQ(test.aliases.size(), 1u);
  EXPECT_EQ(test.aliases[0].first.key, Key(9));
  EXPECT_EQ(test.aliases[0].second, Key(1));
  test.Arrive(9, true);
  test.Arrive(8, true);
  test.HandleBatch();
  EXPECT_EQ(test.Commands().back().meta.flow, first.meta.flow);
  EXPECT_EQ(test.loop->under_way(slot_of(first.meta.flow)), 2u);
  EXPECT_EQ(test.loop->figures().packets_by_alias, 2u);
  EXPECT_EQ(test.loop->figures().aliases_unknown, 1u);
}

// A sweep of flows does without answers of a unit that is slow.
TEST(ControllerLoop, AsksForNoMoreStatesThanTheWayToTheUnitHolds) {
  TestController test;
  test.Arrive(1);
  test.HandleBatch();
  const FlowId flow = test.Commands().back().meta.flow;
  uint32_t asked = 0;
  while (asked <= kRingCells && test.loop->AskState(flow)) ++asked;
  EXPECT_GT(asked, 0u);
  EXPECT_LE(asked, kRingCells);
  test.Turn();
  EXPECT_FALSE(test.loop->AskState(flow));
  uint32_t heard = 0;
  while (const size_t more = test.Commands().size()) {
    heard += static_cast<uint32_t>(more);
  }
  EXPECT_EQ(heard, asked);
  EXPECT_TRUE(test.loop->AskState(flow));
}

TEST(ControllerLoop, ReturnsABufferToTheLoopThatOwnsIt) {
  TestController test(SmallOptions(), 2);
  test.loop->ReturnBuffer(BufferPool::Party{2}, PacketHandle{17});
  test.Turn();
  EXPECT_TRUE(test.Commands(0).empty());
  const std::vector<ControllerCommand> commands = test.Commands(1);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kDrop);
  EXPECT_EQ(commands[0].packet, PacketHandle{17});
}

// What cannot be closes the link, behind what could: nothing more is heard.
TEST(ControllerLoop, HearsNoMoreOfAUnitThatSaysWhatCannotBe) {
  TestController test;
  test.Arrive(1);
  test.Arrive(1);
  test.HandleBatch();
  const std::vector<ControllerCommand> commands = test.Commands();
  const auto release = [&](size_t i) {
    return UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                 commands[i].packet, commands[i].meta);
  };
  test.Say(release(1), UnitId{0});
  UnitCommand bad = release(2);
  bad.packet = kNoPacket;
  test.Say(bad, UnitId{0});
  test.Say(release(2), UnitId{0});
  test.Turn();
  test.Turn();
  EXPECT_EQ(test.packets, 1u);
  EXPECT_EQ(test.loop->in_channels(), 1u);
  ASSERT_EQ(test.faults.count(), 1u);
  EXPECT_EQ(ToString(*test.faults.first()),
            "unit 0 sent a bad word: release with packet 4294967295");
}

TEST(ControllerLoop, RefusesMoreThanAUnitHad) {
  TestController test;
  test.Arrive(1);
  test.HandleBatch();
  const ControllerCommand first = test.Commands().back();
  UnitCommand word = UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                           first.packet, first.meta);
  word.meta.original_length = 1'000'000;
  test.Say(word, first.unit);
  test.Turn();
  ASSERT_EQ(test.faults.count(), 1u);
  EXPECT_EQ(ToString(*test.faults.first()),
            "unit 0 sent a bad word: release with bytes in all 1000000");
  EXPECT_TRUE(test.drained.empty());
}

TEST(ControllerLoop, RefusesAUnitThatStopsUntold) {
  TestController test;
  test.Say(UnitCommand::Stopped(), UnitId{3});
  test.Turn();
  ASSERT_EQ(test.faults.count(), 1u);
  EXPECT_EQ(ToString(*test.faults.first()),
            "unit 3 sent a bad word: stopped with flows 0");
}

ControllerLoopOptions WithRecovery() {
  ControllerLoopOptions options = SmallOptions();
  options.controller.recovery_slots = 4;
  options.controller.max_owner_runs = 64;
  options.recovers = true;
  return options;
}

TEST(ControllerLoop, RefusesTheEndOfAPacketThatTheUnitDoesNotHave) {
  TestController test(WithRecovery());
  test.Arrive(1);
  test.Arrive(1);
  test.HandleBatch();
  const std::vector<ControllerCommand> commands = test.Commands();
  ASSERT_EQ(commands.size(), 3u);
  const auto release = [&](size_t of_packet, size_t of_clock) {
    return UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                 commands[of_packet].packet,
                                 commands[of_clock].meta);
  };
  test.SayOfLogger(release(1, 1), UnitId{0});
  test.SayOfLogger(release(2, 1), UnitId{0});
  test.Turn();
  EXPECT_EQ(test.packets, 1u);
  ASSERT_EQ(test.faults.count(), 1u);
  EXPECT_EQ(test.faults.first()->kind, "end of a packet");
  EXPECT_EQ(test.faults.first()->field, "packet");
  EXPECT_EQ(test.faults.first()->value, value(commands[2].packet));
}

// The end of the process is no end of what others write where it wrote.
TEST(ControllerLoop, HearsOfALoopThatEndsWhatARingHoldsAtMost) {
  TestController test(WithRecovery());
  RingHeader& ring = *test.rings[0];
  UnitCommand word = UnitCommand::Report({.taker = UnitId{0}});
  word.unit = UnitId{0};
  auto* const cells = reinterpret_cast<Cell*>(&ring + 1);
  for (Cell& cell : std::span(cells, kRingCells)) {
    cell = std::bit_cast<Cell>(word);
  }
  std::atomic<bool> stops = false;
  std::thread liar([&] {
    for (int i = 0; i < 50'000'000 && !stops; ++i) {
      ring.pushed.store(ring.released.load() + kRingCells);
    }
  });
  while (ring.pushed.load() == 0) std::this_thread::yield();
  test.loop->EndLoop(0, test);
  stops = true;
  liar.join();
  const uint64_t heard = test.loop->ends(0).in.received();
  EXPECT_GE(heard, kRingCells);
  EXPECT_LE(heard, kRingCells + 64);  // and a burst
}

TEST(ControllerLoop, TellsWhatWasWrongWithTheRingOfALoopThatEnds) {
  TestController test(WithRecovery());
  test.rings[0]->pushed.store(uint64_t{1} << 60);
  test.loop->EndLoop(0, test);
  ASSERT_EQ(test.faults.count(), 1u);
  EXPECT_EQ(ToString(*test.faults.first()),
            "the loop of units 0 sent a bad word: ring with position 0");
}

// A unit whose start failed is not heard of when its delay is over after all.
TEST(ControllerLoop, ForgetsAStartThatFailed) {
  ControllerLoopOptions options = SmallOptions();
  options.controller.max_units = 1;
  options.controller.warm_units = 0;
  options.controller.start_timeout = Seconds(10);
  options.cold_start_delay = Seconds(100);
  TestController test(options);
  test.Arrive(1);
  test.HandleBatch();
  EXPECT_TRUE(test.loop->is_starting());
  test.clock().SkipTo(test.loop->now() + Seconds(11));
  test.Turn();
  EXPECT_FALSE(test.loop->is_starting());
  EXPECT_EQ(test.units_up, 0);
  test.clock().SkipTo(test.loop->now() + Seconds(1));
  test.Turn();
  EXPECT_TRUE(test.loop->is_starting()) << "it is made again";
  EXPECT_EQ(test.units_up, 1);
  EXPECT_EQ(test.loop->controller().units().failed_starts(), 1u);
}

// Two loops of units that have memory of their own, to one of which a packet
// was sent.
class LoopsApart : public testing::Test {
 protected:
  LoopsApart() {
    test_.Arrive(1);
    test_.HandleBatch();
    for (loop_ = 0; loop_ < 2; ++loop_) {
      for (const ControllerCommand& command : test_.Commands(loop_)) {
        if (command.kind == Kind::kEnqueue) sent_ = command;
      }
      if (sent_.packet != kNoPacket) break;
    }
    unit_pool_.emplace(
        test_.regions[loop_]->Attach(static_cast<uint8_t>(loop_ + 1)));
  }
  static ControllerLoopOptions Options() {
    ControllerLoopOptions options = SmallOptions();
    options.nf_reasons = 1;
    return options;
  }
  UnitCommand End(UnitCommand::Kind kind = UnitCommand::Kind::kRelease) const {
    return UnitCommand::OfPacket(kind, sent_.packet, sent_.meta);
  }
  std::span<std::byte> packet() { return test_.pool->bytes(sent_.packet); }

  TestController test_{Options(), 2, /*apart=*/true};
  size_t loop_ = 0;
  ControllerCommand sent_ = ControllerCommand::Drop(kNoPacket, {});
  std::optional<BufferPool> unit_pool_;  // of the loop
};

TEST_F(LoopsApart, GetACopyAndGiveItBackWithTheWordOfItsEnd) {
  ASSERT_NE(sent_.packet, kNoPacket);
  const std::vector<std::byte> before(packet().begin(), packet().end());
  const auto copy = unit_pool_->bytes(sent_.packet);
  EXPECT_TRUE(std::ranges::equal(copy, before));
  copy[0] ^= std::byte{1};
  test_.Turn();
  EXPECT_TRUE(std::ranges::equal(packet(), before)) << "as it came";
  test_.Say(End(), sent_.unit);
  test_.Turn();
  EXPECT_EQ(test_.packets, 1u);
  EXPECT_TRUE(std::ranges::equal(packet(), copy));
  copy[0] ^= std::byte{1};
  EXPECT_EQ(packet()[0], before[0] ^ std::byte{1}) << "nobody changes it now";
}

TEST_F(LoopsApart, EndNoPacketThatAnotherOneWasSent) {
  ASSERT_NE(sent_.packet, kNoPacket);
  const std::vector<std::byte> before(packet().begin(), packet().end());
  const UnitId other{static_cast<uint16_t>(1 - loop_)};
  test_.Say(End(), other);
  test_.Turn();
  EXPECT_EQ(test_.packets, 0u);
  ASSERT_EQ(test_.faults.count(), 1u);
  EXPECT_EQ(test_.faults.first()->unit, other);
  EXPECT_TRUE(std::ranges::equal(packet(), before));
  test_.Say(End(), sent_.unit);
  test_.Turn();
  EXPECT_EQ(test_.packets, 1u);
}

TEST_F(LoopsApart, EndTheirPacketUnderNoOtherFlowsName) {
  UnitCommand other = End();
  other.meta.flow = MakeFlowId(0, 5, 0);
  test_.Say(other, sent_.unit);
  test_.Turn();
  EXPECT_EQ(test_.packets, 0u);
  EXPECT_EQ(test_.faults.count(), 1u);
}

TEST(ControllerLoop, TellsTheUnitsThatAFlowIsOver) {
  ControllerLoopOptions options = SmallOptions();
  options.controller.flow_timeout = Seconds(10);
  TestController test(options);
  test.Arrive(1);
  test.HandleBatch();
  const ControllerCommand first = test.Commands().back();
  test.Say(UnitCommand::OfPacket(UnitCommand::Kind::kRelease, first.packet,
                                 first.meta),
           first.unit);
  test.Turn();
  test.clock().SkipTo(test.loop->now() + Seconds(20));
  for (int i = 0; i < 10 && test.ended.empty(); ++i) test.Turn();
  ASSERT_EQ(test.ended.size(), 1u);
  EXPECT_EQ(test.ended[0].flow, first.meta.flow);
  EXPECT_EQ(test.ended[0].last, Clock{1});
}

ControllerLoopOptions FailingOptions() {
  ControllerLoopOptions options = SmallOptions();
  options.fails = true;
  options.controller.names_flows = options.controller.awaits_ends = true;
  options.controller.recovery_slots = 8;
  return options;
}

// A flow of two packets, of which a unit has run the first, and a controller
// that fails then.
class FailingController : public testing::Test {
 protected:
  FailingController() {
    for (int i = 0; i < 2; ++i) test_.Arrive(1);
    test_.HandleBatch();
    for (const ControllerCommand& command : test_.Commands()) {
      if (command.kind == Kind::kEnqueue) sent_.push_back(command);
    }
    EXPECT_EQ(sent_.size(), 2u);
    Rng rng(1);
    test_.loop->Fail(
        rng, [](Controller&) {}, test_);
  }
  // What the unit has, and what its logger has of it.
  void ReportAll() {
    const UnitId unit = sent_[0].unit;
    const FlowId flow = sent_[0].meta.flow;
    FlowName name = {.flow = flow, .version = 1, .key = Key(1)};
    test_.Say(UnitCommand::OfName(unit), unit,
              std::as_bytes(std::span(&name, 1)));
    test_.Say(UnitCommand::Of(FlowReport{.flow = flow,
                                         .clock = Clock{1},
                                         .unit = unit,
                                         .kind = FlowReport::Kind::kRan}),
              unit);
    test_.Say(UnitCommand::Of(UnitCommand::Kind::kReportPacket,
                              PacketReport{.meta = sent_[1].meta,
                                           .unit = unit,
                                           .packet = sent_[1].packet}),
              unit);
    test_.Say(UnitCommand::Of(UnitReport{.unit = unit,
                                         .state = UnitReport::State::kActive,
                                         .incarnation = 1}),
              unit);
    test_.Say(UnitCommand::Reported(unit, test_.epoch.newest), unit);
    // Behind it: for the next one.
    test_.Say(UnitCommand::Send(
                  TimerDue{.flow = flow, .applied = Clock{2}, .unit = unit}),
              unit);
    test_.SayOfLogger(UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                            sent_[0].packet, sent_[0].meta),
                      unit);
    test_.SayOfLogger(UnitCommand::Of(UnitReport{.unit = unit}), unit);
  }
  TestController test_{FailingOptions()};
  std::vector<ControllerCommand> sent_;
};

TEST_F(FailingController, HasASuccessorThatIsMadeOfWhatUnitsReport) {
  test_.loop->Succeed();
  EXPECT_EQ(test_.epoch.newest, 1u);
  test_.Arrive(1);  // waits
  test_.HandleBatch();
  ReportAll();
  test_.Turn();
  EXPECT_EQ(test_.packets, 1u);  // it goes out all the same
  EXPECT_FALSE(test_.loop->has_controller());
  EXPECT_TRUE(test_.Commands().empty());
  EXPECT_EQ(test_.loop->batch_size(), 1u);
  test_.SayOfLogger(UnitCommand::Reported(sent_[0].unit, 1), sent_[0].unit);
  test_.Turn();
  ASSERT_EQ(test_.faults.count(), 0u) << ToString(*test_.faults.first());
  EXPECT_TRUE(test_.loop->is_led());
  EXPECT_EQ(test_.loop->batch_size(), 0u);
  // The one that waited is the flow's next, and the unit has two now.
  std::vector<ControllerCommand> commands = test_.Commands();
  ASSERT_FALSE(commands.empty());
  EXPECT_EQ(commands.back().kind, Kind::kEnqueue);
  EXPECT_EQ(commands.back().unit, sent_[0].unit);
  EXPECT_EQ(commands.back().meta.flow, sent_[0].meta.flow);
  EXPECT_EQ(commands.back().meta.clock, Clock{3});
  EXPECT_EQ(test_.loop->in_channels(), 2u);
  // What was said behind the report is heard by the next turn, and is late.
  const ControllerCounters& counters = test_.loop->controller().counters();
  EXPECT_EQ(counters.timers_refused_stale, 0u);
  test_.Turn();
  EXPECT_EQ(counters.timers_refused_stale, 1u);
  EXPECT_TRUE(test_.drops.empty());
}

TEST_F(FailingController, LosesWhatComesBeforeItsEndIsSeen) {
  test_.Arrive(1);
  test_.HandleBatch();
  ASSERT_EQ(test_.drops.size(), 1u);
  EXPECT_EQ(test_.drops[0], DropReason::kControllerFailed);
  EXPECT_EQ(test_.loop->succession()->counters().packets_lost, 1u);
}

// One that tells of less packets than it has would never be sent as many as it
// could take.
TEST_F(FailingController, IsNotMadeOfAReportThatCannotBe) {
  test_.loop->Succeed();
  test_.Say(UnitCommand::Reported(sent_[0].unit, 1), sent_[0].unit);
  test_.SayOfLogger(UnitCommand::Reported(sent_[0].unit, 1), sent_[0].unit);
  test_.Turn();
  EXPECT_EQ(test_.faults.count(), 1u);
}

TEST_F(FailingController, HearsNoReportToAnother) {
  test_.loop->Succeed();
  test_.Say(UnitCommand::Reported(sent_[0].unit, 2), sent_[0].unit);
  test_.Turn();
  EXPECT_EQ(test_.faults.count(), 1u);
}

ControllerLoopOptions EndingOptions(bool fails) {
  ControllerLoopOptions options = fails ? FailingOptions() : SmallOptions();
  options.controller.names_flows = options.controller.awaits_ends = true;
  options.controller.recovery_slots = 8;
  options.recovers = true;
  return options;
}

// A unit fails that has run a packet, and its logger has the state.
TEST(ControllerLoop, TellsWhatLoggersAloneHave) {
  TestController test(EndingOptions(false), 2);
  test.Arrive(1);
  test.HandleBatch();
  const ControllerCommand sent = test.Commands().back();
  const size_t loop = value(sent.unit) % 2;
  test.SayOfLogger(UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                         sent.packet, sent.meta),
                   sent.unit);
  test.Turn();
  EXPECT_EQ(test.loop->WhyLoggers(), "");
  EXPECT_FALSE(test.loop->NeedsLoggers());
  test.loop->EndLoop(loop, test);
  EXPECT_EQ(test.loop->WhyLoggers(), "clocks of units that have failed");
  EXPECT_TRUE(test.loop->NeedsLoggers());
  DoneAnswer done = {.flow = sent.meta.flow,
                     .applied = Clock{1},
                     .round = 1,
                     .unit = sent.unit};
  test.SayOfLogger(UnitCommand::Done(done), sent.unit);
  done.flow = kNoFlow;
  test.SayOfLogger(UnitCommand::Done(done), sent.unit);
  for (int i = 0; i < 10; ++i) test.Turn();
  ASSERT_EQ(test.faults.count(), 0u) << ToString(*test.faults.first());
  EXPECT_EQ(test.loop->WhyLoggers(),
            "states of 1 flows, one of failed unit 0 for unit 1");
}

TEST(ControllerLoop, TellsThatTheNextControllerNeedsReportsOfLoggers) {
  TestController test(EndingOptions(true));
  Rng rng(1);
  test.loop->Fail(
      rng, [](Controller&) {}, test);
  EXPECT_EQ(test.loop->WhyLoggers(), "");
  test.loop->Succeed();
  test.loop->EndLoop(0, test);
  EXPECT_EQ(test.loop->WhyLoggers(), "reports for the next controller");
}

// What a unit has made its logger say is the unit's fault, and what the logger
// says behind it is heard.
TEST(ControllerLoop, HearsALoggerBehindABadWordOfItsUnit) {
  TestController test(EndingOptions(false));
  test.faults.BlameLoops(1);
  test.Arrive(1);
  test.HandleBatch();
  const ControllerCommand sent = test.Commands().back();
  UnitCommand end = UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                          sent.packet, sent.meta);
  UnitCommand bad = end;
  bad.packet = PacketHandle{60};  // that nobody has
  test.SayOfLogger(bad, sent.unit);
  test.SayOfLogger(end, sent.unit);
  test.Turn();
  EXPECT_EQ(test.faults.TakeBlame(0),
            "unit 0 sent a bad word: release with packet 60");
  EXPECT_FALSE(test.faults.has_blame());
  EXPECT_EQ(test.packets, 1u);
}

// Its process ends, and the next one goes on in front of the bad word.
TEST(ControllerLoop, HearsTheNextProcessOfLoggersThatSaidABadWord) {
  TestController test(EndingOptions(false));
  test.faults.BlameLoops(1);
  test.Arrive(1);
  test.Arrive(1);
  test.HandleBatch();
  std::vector<UnitCommand> ends;
  for (const ControllerCommand& sent : test.Commands()) {
    if (sent.kind != Kind::kEnqueue) continue;
    ends.push_back(UnitCommand::OfPacket(UnitCommand::Kind::kRelease,
                                         sent.packet, sent.meta));
  }
  ASSERT_EQ(ends.size(), 2u);
  test.SayOfLogger(ends[0], UnitId{0});
  test.SayOfLogger({.kind = UnitCommand::Kind::kWait, .meta = {}}, UnitId{0});
  test.SayOfLogger(ends[1], UnitId{0});
  test.Turn();
  EXPECT_EQ(test.packets, 1u);
  EXPECT_EQ(test.faults.TakeBlame(0), std::nullopt);
  EXPECT_EQ(test.faults.TakeBlame(1),
            "the logger of unit 0 sent a bad word: wait with kind 6");
  test.RestartLoggers();
  test.SayOfLogger(ends[1], UnitId{0});
  test.Turn();
  EXPECT_EQ(test.packets, 2u);
  EXPECT_FALSE(test.faults.has_blame());
}

// A unit that tells of less, or of other packets than it has. No controller is
// made of that: its loop is blamed, and once that has ended, all report anew.
TEST(ControllerLoop, IsNotMadeOfAReportThatALoopIsBlamedFor) {
  for (const bool tells_of_another : {false, true}) {
    SCOPED_TRACE(tells_of_another);
    TestController test(EndingOptions(true));
    test.faults.BlameLoops(1);
    test.Arrive(1);
    test.HandleBatch();
    const ControllerCommand sent = test.Commands().back();
    const UnitId unit = sent.unit;
    Rng rng(1);
    test.loop->Fail(
        rng, [](Controller&) {}, test);
    test.loop->Succeed();
    PacketReport report = {
        .meta = sent.meta, .unit = unit, .packet = sent.packet};
    report.meta.clock = Clock{7};
    if (tells_of_another) {
      test.Say(UnitCommand::Of(UnitCommand::Kind::kReportPacket, report), unit);
    }
    test.Say(UnitCommand::Reported(unit, 1), unit);
    test.SayOfLogger(UnitCommand::Reported(unit, 1), unit);
    for (int i = 0; i < 3; ++i) test.Turn();
    EXPECT_FALSE(test.loop->has_controller());
    EXPECT_EQ(test.faults.TakeBlame(0),
              tells_of_another
                  ? "the loop of units 0 sent a bad word: report with packets 1"
                  : "the loop of units 0 sent a bad word: report with packets "
                    "0");
    test.loop->EndLoop(0, test);
    EXPECT_EQ(test.epoch.newest, 2u);
    test.SayOfLogger(UnitCommand::Reported(unit, 2), unit);
    for (int i = 0; i < 3; ++i) test.Turn();
    EXPECT_TRUE(test.loop->is_led());
    EXPECT_FALSE(test.faults.has_blame());
    EXPECT_EQ(test.faults.count(), 0u);
    EXPECT_EQ(test.drops, std::vector({DropReason::kControllerFailed}));
    EXPECT_EQ(test.loop->in_channels(), 0u);
  }
}

TEST(ControllerLoop, RefusesAReportThatNobodyHasAskedFor) {
  TestController test(FailingOptions());
  test.Say(UnitCommand::Reported(UnitId{0}, 0), UnitId{0});
  test.Turn();
  EXPECT_EQ(test.faults.count(), 1u);
}

}  // namespace
}  // namespace snf
