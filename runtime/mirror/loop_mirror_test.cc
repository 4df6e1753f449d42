// SPDX-License-Identifier: Apache-2.0
#include "runtime/mirror/loop_mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/messages/unit_commands.h"
#include "base/rng.h"
#include "runtime/logger/log_entry.h"
#include "runtime/mirror/test_mirror_pair.h"
#include "runtime/wire/log_word.h"

namespace snf {
namespace {

using Ring = MirroredRing;
using testing::Each;
using testing::HasSubstr;

PacketHandle NewPacket(BufferPool& pool, size_t bytes, int fill) {
  const PacketHandle packet = pool.Allocate(static_cast<uint32_t>(bytes));
  pool.info(packet) = {};
  pool.info(packet).length = static_cast<uint32_t>(bytes);
  std::memset(pool.room(packet).data(), fill, bytes);
  return packet;
}

Cell Enqueue(PacketHandle packet) {
  return std::bit_cast<Cell>(
      ControllerCommand::Enqueue(UnitId{0}, packet, PacketMeta{}));
}

size_t Push(CellRing::Producer& ring, const Cell& cell) {
  return ring.Push(std::span(&cell, 1));
}

// --- Packets. ---

TEST(LoopMirror, BringsAPacketWithTheMessageThatNamesIt) {
  TestMirrorPair pair;
  BufferPool pool = pair.home.Pool(0);
  auto down = pair.home.Producer(Ring::kDown);
  auto units = pair.away->Consumer(Ring::kDown);
  const PacketHandle packet = NewPacket(pool, 700, 0x5a);
  ASSERT_EQ(Push(down, Enqueue(packet)), 1u);
  pair.Down();
  Cell cell;
  ASSERT_EQ(units.Read(std::span(&cell, 1)), 1u);
  EXPECT_EQ(cell.As<ControllerCommand>().packet, packet);
  BufferPool theirs = pair.away->Pool(1);
  EXPECT_EQ(theirs.bytes(packet).size(), 700u);
  EXPECT_THAT(theirs.bytes(packet), Each(std::byte{0x5a}));
  EXPECT_EQ(down.released(), 0u);
  units.Release(1);
  pair.Up();
  EXPECT_EQ(down.released(), 1u);
}

TEST(LoopMirror, BringsWhatTheNfMadeOfAPacketHomeWithItsEntry) {
  TestMirrorPair pair;
  auto log = pair.away->Producer(Ring::kLog);
  auto loggers = pair.home.Consumer(Ring::kLog);
  BufferPool units = pair.away->Pool(1);
  const PacketHandle released = NewPacket(units, 100, 1);
  const PacketHandle emitted = NewPacket(units, 9'000, 2);
  LogEntry entry;
  entry.outcome = LogEntry::Outcome::kRelease;
  entry.packet = released;
  entry.emitted = 1;
  std::array<std::byte, sizeof(LogWord) + sizeof(LogEntry) + 200> bytes{};
  const uint32_t size =
      WriteLogEntry(entry, {}, std::span(&emitted, 1), nullptr, {},
                    std::span(bytes).subspan(sizeof(LogWord)));
  const LogWord word = {
      .kind = LogWord::Kind::kEntry, .unit = UnitId{0}, .bytes = size};
  std::memcpy(bytes.data(), &word, sizeof(word));
  std::array<Cell, 3> cells;
  std::memcpy(cells.data(), bytes.data(), sizeof(cells));
  // A part of a message stays until there is all of it.
  ASSERT_EQ(log.Push(std::span(cells).first(2)), 2u);
  pair.Up();
  EXPECT_FALSE(loggers.has_items());
  ASSERT_EQ(log.Push(std::span(cells).last(1)), 1u);
  pair.Up();
  std::array<Cell, 3> got;
  ASSERT_EQ(loggers.Read(got), 3u);
  EXPECT_EQ(std::memcmp(got.data(), cells.data(), sizeof(got)), 0);
  BufferPool home = pair.home.Pool(0);
  EXPECT_THAT(home.bytes(released), Each(std::byte{1}));
  EXPECT_EQ(home.bytes(emitted).size(), 9'000u);
  EXPECT_THAT(home.bytes(emitted), Each(std::byte{2}));
}

// A message with a record, and a message behind it that names a packet: the
// record's bytes are taken for no message.
std::vector<Cell> WithRecord(const Cell& first, size_t bytes,
                             const Cell& behind) {
  Cell part;
  part.bytes.fill(std::byte{0xff});
  std::vector<Cell> cells = {first};
  cells.insert(cells.end(), Cell::CountFor(bytes), part);
  cells.push_back(behind);
  return cells;
}

// Expects that the ring's cells come over whole, and the packet with them.
void ExpectWholeWithPacket(std::span<const Cell> cells, PacketHandle packet,
                           CellRing::Producer& from, CellRing::Consumer& to,
                           const std::function<void()>& carry,
                           BufferPool& receiver) {
  ASSERT_EQ(from.Push(cells.first(cells.size() - 2)), cells.size() - 2);
  carry();
  EXPECT_FALSE(to.has_items()) << "a part of a record";
  ASSERT_EQ(from.Push(cells.last(2)), 2u);
  carry();
  std::vector<Cell> got(cells.size());
  ASSERT_EQ(to.Read(got), cells.size());
  EXPECT_EQ(std::memcmp(got.data(), cells.data(), cells.size_bytes()), 0);
  EXPECT_THAT(receiver.bytes(packet), Each(std::byte{7}));
}

TEST(LoopMirror, BringsStatesOfFlowsThatChangeTheirController) {
  for (const uint32_t bytes : {uint32_t{8}, uint32_t{1'024}}) {
    SCOPED_TRACE(bytes);
    TestMirrorPair pair;
    const State state = {.bytes = bytes, .pushed = true};
    BufferPool home = pair.home.Pool(0);
    BufferPool away = pair.away->Pool(1);
    auto down = pair.home.Producer(Ring::kDown);
    auto units = pair.away->Consumer(Ring::kDown);
    const PacketHandle packet = NewPacket(home, 100, 7);
    const Cell take =
        std::bit_cast<Cell>(ControllerCommand::Take(UnitId{0}, state));
    ExpectWholeWithPacket(
        WithRecord(take, bytes, Enqueue(packet)), packet, down, units,
        [&] { pair.Down(); }, away);
    auto up = pair.away->Producer(Ring::kUp);
    auto controller = pair.home.Consumer(Ring::kUp);
    const PacketHandle made = NewPacket(away, 100, 7);
    const Cell show = std::bit_cast<Cell>(UnitCommand::Show(UnitId{0}, state));
    const Cell emit = std::bit_cast<Cell>(
        UnitCommand::OfPacket(UnitCommand::Kind::kEmit, made, {}));
    ExpectWholeWithPacket(
        WithRecord(show, bytes, emit), made, up, controller, [&] { pair.Up(); },
        home);
  }
}

// A unit's process may have ended with packets of its own at the controller.
TEST(LoopMirror, KeepsBuffersThatTheControllerHasFromANewProcess) {
  TestMirrorPair pair;
  BufferPool of_units = pair.home.Pool(1);
  const PacketHandle emitted = NewPacket(of_units, 10, 3);
  EXPECT_TRUE(pair.home.Pool(0).Claim(emitted));
  pair.Begin();
  BufferPool next = pair.away->Pool(1);
  for (int i = 0; i < 15; ++i) EXPECT_NE(NewPacket(next, 10, 4), emitted);
  EXPECT_NE(NewPacket(next, 10, 4), emitted);
  EXPECT_TRUE(next.Return(emitted));
}

// --- Shared words. ---

TEST(LoopMirror, TellsUnitsWhatTheDaemonSays) {
  TestMirrorPair pair(Seconds(-3'600));
  pair.home.clock->Start(Instant{1'000});
  pair.home.control->logger_process = 3;
  pair.home.control->stops_timers = true;
  pair.home.controllers->newest = 7;
  EXPECT_TRUE(pair.at_home->has_news());
  pair.Down();
  EXPECT_FALSE(pair.at_home->has_news());
  EXPECT_EQ(pair.away->control->logger_process, 3u);
  EXPECT_TRUE(pair.away->control->stops_timers);
  EXPECT_FALSE(pair.away->control->stops);
  EXPECT_EQ(pair.away->controllers->newest, 7u);
  EXPECT_EQ(pair.away->clock->offset().ns,
            pair.home.clock->offset().ns + Seconds(-3'600).ns);
}

TEST(LoopMirror, TellsTheDaemonHowFarUnitsCame) {
  TestMirrorPair pair(Seconds(60));
  EXPECT_FALSE(pair.at_away->has_news());
  pair.away->progress->received = 5;
  pair.away->progress->sent = 6;
  pair.away->progress->started = Seconds(1).ns;
  pair.away->progress->in_call = PacketHandle{9};
  pair.Up();
  EXPECT_EQ(pair.home.progress->received, 5u);
  EXPECT_EQ(pair.home.progress->sent, 6u);
  EXPECT_EQ(pair.home.progress->started, Seconds(61).ns);
  // Only an end says that: a host that is lost blames no packet.
  EXPECT_EQ(pair.home.progress->in_call, kNoPacket);
}

TEST(LoopMirror, BeginsWhereTheLastProcessEnded) {
  TestMirrorPair pair;
  auto down = pair.home.Producer(Ring::kDown);
  for (uint64_t i = 0; i < 5; ++i) Push(down, TestCell(i));
  pair.Down();
  auto first = pair.away->Consumer(Ring::kDown);
  std::array<Cell, 3> cells;
  EXPECT_EQ(first.Pop(cells), 3u);
  auto up = pair.away->Producer(Ring::kUp);
  Push(up, TestCell(0));
  pair.Up();
  // Its host is lost; the controller has not read the cell yet.
  pair.Begin();
  pair.Down();
  auto next = pair.away->Consumer(Ring::kDown);
  EXPECT_EQ(next.Pop(cells), 2u);
  EXPECT_EQ(NumberOf(cells[0]), 3u);
  auto next_up = pair.away->Producer(Ring::kUp);
  EXPECT_EQ(next_up.pushed(), 1u);
  Push(next_up, TestCell(1));
  pair.Up();
  auto controller = pair.home.Consumer(Ring::kUp);
  EXPECT_EQ(controller.Pop(cells), 2u);
  EXPECT_EQ(NumberOf(cells[1]), 1u);
}

// --- Schedules. ---

// Producers and consumers of all rings, and frames that come late.
class Schedule {
 public:
  explicit Schedule(uint64_t seed) : rng_(seed) {
    for (size_t i = 0; i < TestMirrorSide::kRings; ++i) {
      const auto ring = static_cast<Ring>(i);
      const bool down = ring <= Ring::kAnswers;
      TestMirrorSide& from = down ? pair_.home : *pair_.away;
      TestMirrorSide& to = down ? *pair_.away : pair_.home;
      ends_.push_back({from.Producer(ring), to.Consumer(ring)});
    }
  }

  void Step() {
    End& end = ends_[rng_.Below(ends_.size())];
    switch (rng_.Below(6)) {
      case 0:
      case 1:
        for (uint64_t i = rng_.Below(40); i > 0; --i) {
          end.pushed += Push(end.producer, TestCell(end.pushed));
        }
        break;
      case 2:
        Read(end);
        break;
      case 3:
        end.consumer.Release(
            rng_.Below(end.read - end.consumer.released() + 1));
        break;
      case 4:
        late_[0].push_back(TestMirrorPair::Collect(*pair_.at_home));
        late_[1].push_back(TestMirrorPair::Collect(*pair_.at_away));
        break;
      default:
        Deliver(rng_.Below(2));
        break;
    }
  }
  // Returns the cells that came, in all rings.
  uint64_t Settle() {
    uint64_t read = 0;
    for (int i = 0; i < 8; ++i) {
      late_[0].push_back(TestMirrorPair::Collect(*pair_.at_home));
      late_[1].push_back(TestMirrorPair::Collect(*pair_.at_away));
      for (const uint64_t side : {0, 1}) {
        while (!late_[side].empty()) Deliver(side);
      }
      for (End& end : ends_) {
        Read(end);
        end.consumer.Release(end.read - end.consumer.released());
      }
    }
    for (End& end : ends_) {
      EXPECT_EQ(end.read, end.pushed);
      EXPECT_EQ(end.producer.released(), end.pushed);
      EXPECT_EQ(end.producer.faults() + end.consumer.faults(), 0u);
      read += end.read;
    }
    return read;
  }

 private:
  struct End {
    CellRing::Producer producer;
    CellRing::Consumer consumer;
    uint64_t pushed = 0;
    uint64_t read = 0;
  };
  void Read(End& end) {
    std::array<Cell, 50> cells;
    while (const size_t count = end.consumer.Read(cells)) {
      for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ(NumberOf(cells[i]), end.read++);
      }
    }
  }
  void Deliver(uint64_t side) {
    if (late_[side].empty()) return;
    LoopMirror& to = side == 0 ? *pair_.at_away : *pair_.at_home;
    const absl::Status status = to.Apply(late_[side].front());
    EXPECT_TRUE(status.ok()) << status;
    late_[side].pop_front();
  }

  TestMirrorPair pair_;
  Rng rng_;
  std::vector<End> ends_;
  std::array<std::deque<std::vector<std::byte>>, 2> late_;
};

TEST(LoopMirror, CarriesAllRingsInAnyScheduleOfFrames) {
  uint64_t read = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Schedule schedule(seed);
    for (int i = 0; i < 2'000; ++i) schedule.Step();
    read += schedule.Settle();
    if (testing::Test::HasFailure()) return;
  }
  printf("%llu cells\n", static_cast<unsigned long long>(read));
  EXPECT_GT(read, 60u * 2'000u);
}

// The units put an entry into the log before they tell the controller.
TEST(LoopMirror, SendsNoMessageWithoutAnEarlierOneOfAnotherRing) {
  TestMirrorPair pair;
  constexpr uint64_t kMessages = 60'000;
  std::atomic<bool> ends = false;
  std::atomic<bool> stops = false;
  std::thread units([&] {
    auto log = pair.away->Producer(Ring::kToRelay);
    auto up = pair.away->Producer(Ring::kUp);
    for (uint64_t i = 0; i < kMessages; ++i) {
      while (!stops && Push(log, TestCell(i)) == 0) std::this_thread::yield();
      while (!stops && Push(up, TestCell(i)) == 0) std::this_thread::yield();
    }
    ends = true;
  });
  auto relay = pair.home.Consumer(Ring::kToRelay);
  auto controller = pair.home.Consumer(Ring::kUp);
  uint64_t frames = 0;
  uint64_t earlier = 0;
  uint64_t later = 0;
  std::array<Cell, 64> cells;
  while (!stops && (!ends || later < kMessages)) {
    const auto frame = TestMirrorPair::Collect(*pair.at_away);
    frames += frame.empty() ? 0 : 1;
    stops = !pair.at_home->Apply(frame).ok();
    while (const size_t count = controller.Pop(cells)) later += count;
    while (const size_t count = relay.Pop(cells)) earlier += count;
    stops = stops || earlier < later;
    EXPECT_TRUE(
        pair.at_away->Apply(TestMirrorPair::Collect(*pair.at_home)).ok());
  }
  units.join();
  EXPECT_FALSE(stops) << earlier << " before " << later;
  printf("%llu frames\n", static_cast<unsigned long long>(frames));
  EXPECT_GT(frames, 100u);
}

// --- Bad input. ---

std::vector<std::byte> Item(const MirrorItem& item, size_t bytes) {
  std::vector<std::byte> frame;
  MirrorWriter writer(frame);
  writer.Add(item);
  frame.resize(frame.size() + bytes);
  return frame;
}

TEST(LoopMirror, RefusesFramesThatCannotBeByName) {
  using Kind = MirrorItem::Kind;
  const auto ring = [](Ring name) { return static_cast<uint8_t>(name); };
  const struct {
    MirrorItem item;
    size_t bytes;
    const char* why;
  } cases[] = {
      {{.kind = Kind::kCells, .ring = 99}, 0, "no ring 99"},
      {{.kind = Kind::kCells, .ring = ring(Ring::kDown)}, 0, "cells at 0"},
      {{.kind = Kind::kCells, .ring = ring(Ring::kUp), .position = 1},
       0,
       "position 1"},
      {{.kind = Kind::kCells, .ring = ring(Ring::kUp), .bytes = 65},
       65,
       "bytes 65"},
      {{.kind = Kind::kCells, .ring = ring(Ring::kUp), .bytes = 257 * 64},
       257 * 64,
       "cells 257"},
      {{.kind = Kind::kReleased, .ring = ring(Ring::kDown), .position = 1},
       0,
       "released 1"},
      {{.kind = Kind::kReleased, .ring = ring(Ring::kUp)}, 0, "released 0"},
      {{.kind = Kind::kPacket, .bytes = 64, .position = 1'000'000},
       64,
       "packet 1000000"},
      {{.kind = Kind::kPacket, .bytes = 63}, 63, "packet of bytes 63"},
      {{.kind = Kind::kPacket, .bytes = 3'000}, 3'000, "packet of bytes 3000"},
      {{.kind = Kind::kTold, .bytes = 32}, 32, "item of kind 0"},
      {{.kind = Kind::kProgress, .bytes = 8}, 8, "item of kind 1"},
      {{.kind = Kind::kRing}, 0, "item of kind 5"},
      {{.kind = Kind::kCount}, 0, "no item"},
      {{.kind = Kind::kCells, .bytes = 64}, 0, "no item"},
  };
  for (const auto& c : cases) {
    TestMirrorPair pair;
    const absl::Status status = pair.at_home->Apply(Item(c.item, c.bytes));
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.why));
  }
}

TEST(LoopMirror, SurvivesFramesOfAnyBytes) {
  uint64_t refused = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    TestMirrorPair pair;
    BufferPool units = pair.away->Pool(1);
    auto up = pair.away->Producer(Ring::kUp);
    Push(up, std::bit_cast<Cell>(UnitCommand::OfPacket(
                 UnitCommand::Kind::kRelease, NewPacket(units, 200, 1), {})));
    pair.away->progress->sent = 1;
    std::vector<std::byte> frame = TestMirrorPair::Collect(*pair.at_away);
    if (seed % 2 == 0) {
      frame.resize(rng.Below(frame.size()));
    }
    for (uint64_t i = rng.Below(4); i > 0 && !frame.empty(); --i) {
      frame[rng.Below(frame.size())] = static_cast<std::byte>(rng.Below(256));
    }
    refused += pair.at_home->Apply(frame).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 30u);
}

// Units write nonsense into their rings: their own side sends none of it.
TEST(LoopMirror, StopsARingWhosePositionCannotBe) {
  TestMirrorPair pair;
  auto* const up = reinterpret_cast<RingHeader*>(
      pair.away->rings[static_cast<size_t>(Ring::kUp)].data());
  auto* const down = reinterpret_cast<RingHeader*>(
      pair.away->rings[static_cast<size_t>(Ring::kDown)].data());
  up->pushed = 1'000'000;
  down->released = 77;
  pair.Up();
  EXPECT_FALSE(pair.home.Consumer(Ring::kUp).has_items());
  auto controller = pair.home.Producer(Ring::kDown);
  EXPECT_EQ(controller.released(), 0u);
}

}  // namespace
}  // namespace snf
