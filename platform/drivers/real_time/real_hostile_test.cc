// SPDX-License-Identifier: Apache-2.0
//
// Bad words between the threads of a run, and an NF that does not return. The
// memory that the threads share is written to while they run, which is a race:
// so ThreadSanitizer has no part in this.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/packet/ip_prefix.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "controller/core/placement.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/system_test/test_run.h"
#include "runtime/ring/spsc_ring.h"
#include "runtime/ring/thread_link.h"
#include "runtime/wire/log_word.h"

namespace snf {
namespace {

using testing::HasSubstr;

constexpr uint32_t kFlows = 40;
constexpr size_t kUnitFailed = static_cast<size_t>(DropReason::kUnitFailed);
constexpr BufferPool::Options kBuffers = {
    .small = 1'024, .medium = 8, .large = 2};

// A ring of cells in the memory of a run, as somebody sees it who writes
// whatever he likes.
class SpoiledRing {
 public:
  explicit SpoiledRing(RingHeader* header)
      : header_(header), cells_(reinterpret_cast<Cell*>(header + 1)) {}
  // Returns the rings of a run with one loop of units: from the controller, to
  // it, from the loop to itself, and to its loggers; with more loops, the first
  // two of each one first. In the memory that units do not map: from its
  // loggers to the controller.
  static std::vector<SpoiledRing> In(std::span<std::byte> memory) {
    constexpr uint64_t kMagic = 0x534e'4672'696e'6731;
    std::vector<SpoiledRing> rings;
    for (size_t at = 0; at + sizeof(RingHeader) <= memory.size(); at += 128) {
      auto* const header = reinterpret_cast<RingHeader*>(&memory[at]);
      if (header->magic == kMagic && header->item_bytes == sizeof(Cell)) {
        rings.emplace_back(header);
      }
    }
    return rings;
  }

  Cell& cell(uint64_t position) {
    return cells_[position & (header_->capacity - 1)];
  }
  std::atomic<uint64_t>& pushed() { return header_->pushed; }
  std::atomic<uint64_t>& released() { return header_->released; }
  uint32_t capacity() const { return header_->capacity; }
  template <typename Word>
  void Push(const Word& word) {
    const uint64_t at = pushed().load();
    cell(at) = std::bit_cast<Cell>(word);
    pushed().store(at + 1);
  }

 private:
  RingHeader* header_;
  Cell* cells_;
};

struct Runs {
  uint32_t threads = 2;
  std::string_view policy = "rotate";
  Nanos patience = Milliseconds(300);
  bool loggers = false;
};

std::unique_ptr<RealDriver> Start(const NfSpec& nf, const Runs& runs) {
  RunOptions options = SmallTables();
  options.controller.max_units = 8;
  options.inside = *ParsePrefixes("10.0.0.0/8");
  options.loggers = runs.loggers;
  auto driver =
      RealDriver::Start(options,
                        {.speed = {.kind = Speed::Kind::kMax, .value = 0},
                         .threads = runs.threads,
                         .buffers = kBuffers,
                         .unpaced = true,
                         .wait_for_room = true,
                         .patience = runs.patience,
                         // It would blame the NF for what these tests write.
                         .guard_every = UINT32_MAX},
                        *FindPlacementPolicy(runs.policy), nf, {});
  EXPECT_TRUE(driver.ok()) << driver.status();
  return *std::move(driver);
}

void Offer(RealDriver& driver, uint32_t number) {
  const Frame frame = UdpFrame({.flow = number % kFlows, .sequence = number});
  driver.Offer({.time = Instant{1'000},
                .bytes = frame,
                .original_bytes = static_cast<uint32_t>(frame.size())});
}

UnitCommand Release(UnitId unit, PacketHandle packet, FlowId flow = FlowId{0},
                    uint64_t clock = 1) {
  PacketMeta meta;
  meta.flow = flow;
  meta.clock = Clock{clock};
  UnitCommand word =
      UnitCommand::OfPacket(UnitCommand::Kind::kRelease, packet, meta);
  word.unit = unit;
  return word;
}

constexpr size_t kFromController = 0;
constexpr size_t kToController = 1;
constexpr size_t kBetweenUnits = 2;
constexpr size_t kToLoggers = 3;
constexpr size_t kFromLoggers = 4;

// Waits until the loop of units has done what it was told, and writes no more.
void AwaitRest(std::vector<SpoiledRing>& rings) {
  const auto positions = [&rings] {
    std::vector<uint64_t> all;
    for (SpoiledRing& ring : rings) {
      all.push_back(ring.pushed());
      all.push_back(ring.released());
    }
    return all;
  };
  std::vector<uint64_t> before;
  for (int unchanged = 0; unchanged < 20'000; ++unchanged) {
    std::this_thread::yield();
    const auto now = positions();
    const bool is_read =
        rings[kFromController].pushed() == rings[kFromController].released();
    if (now != before || !is_read) unchanged = -1;
    before = now;
  }
}

// Spoils a run in which nothing is under way to or in a unit; its results are
// still to be read. Returns the result.
template <typename Spoil>
RunResult RunSpoiled(const Spoil& spoil, const Runs& runs = {}) {
  const auto driver = Start(TimelessChronicleNf(), runs);
  constexpr uint32_t kOffered = 3 * ControllerLoop::kBatch;
  for (uint32_t i = 0; i < kOffered; ++i) Offer(*driver, i);
  auto rings = SpoiledRing::In(driver->shared_memory());
  EXPECT_EQ(rings.size(), runs.loggers ? kFromLoggers : kToLoggers)
      << "what no unit has to do with is in memory that it may map";
  for (SpoiledRing ring : SpoiledRing::In(driver->own_memory())) {
    rings.push_back(ring);
  }
  AwaitRest(rings);
  spoil(rings);
  RunResult result = driver->Finish();
  EXPECT_EQ(result.packets_in, kOffered);
  EXPECT_TRUE(result.conserved());
  EXPECT_GE(result.violations, 1u);
  EXPECT_NE(result.failure, "");
  return result;
}
template <typename Word>
RunResult RunWith(size_t ring, const Word& word) {
  return RunSpoiled(
      [&](std::vector<SpoiledRing>& rings) { rings[ring].Push(word); });
}

// With loggers, which have a thread of their own.
template <typename Word>
RunResult RunLoggedWith(size_t ring, const Word& word) {
  return RunSpoiled(
      [&](std::vector<SpoiledRing>& rings) { rings[ring].Push(word); },
      {.threads = 3, .loggers = true});
}

TEST(BadWord, OfAUnitThatReleasesPastItsLoggerEndsTheRun) {
  EXPECT_THAT(
      RunLoggedWith(kToController, Release(UnitId{3}, PacketHandle{0})).failure,
      HasSubstr("unit 3 sent a bad word: release with kind 0"));
}

TEST(BadWord, OfALoggerEndsTheRun) {
  EXPECT_THAT(
      RunLoggedWith(kFromLoggers, Release(UnitId{3}, kNoPacket)).failure,
      HasSubstr("the logger of unit 3 sent a bad word: release with packet "
                "4294967295"));
}

TEST(BadWord, OfALoggerAboutAClockThatHasEndedEndsTheRun) {
  const RunResult result = RunLoggedWith(
      kFromLoggers, Release(UnitId{3}, PacketHandle{0}, MakeFlowId(0, 0, 0)));
  // A handle in use passes; else it is told of that.
  EXPECT_THAT(result.failure,
              testing::AnyOf(HasSubstr("the logger of unit 3 sent a bad word: "
                                       "end of a packet with clock 1"),
                             HasSubstr("release with packet 0")));
}

TEST(BadWord, ToALoggerEndsTheRun) {
  Cell cell{};
  const LogWord word = {
      .kind = LogWord::Kind::kEntry, .unit = UnitId{3}, .bytes = 40};
  std::memcpy(cell.bytes.data(), &word, sizeof word);
  const auto driver =
      Start(TimelessChronicleNf(), {.threads = 3, .loggers = true});
  auto rings = SpoiledRing::In(driver->shared_memory());
  rings[kToLoggers].Push(cell);
  while (!driver->has_failed()) std::this_thread::yield();
  EXPECT_THAT(driver->Finish().failure,
              HasSubstr("unit 3 sent a bad word: log entry with impossible "
                        "contents, number 1"));
}

TEST(BadWord, OfALoggerAboutWhatIsReleasedEndsTheRun) {
  const RunResult result = RunSpoiled(
      [](std::vector<SpoiledRing>& rings) {
        rings[kToLoggers].released() = uint64_t{1} << 60;
        // Something for the units to do.
        rings[kFromController].Push(ControllerCommand::OfUnit(
            ControllerCommand::Kind::kParkUnit, UnitId{7}, false));
      },
      {.threads = 3, .loggers = true});
  EXPECT_THAT(result.failure, HasSubstr("ring with position"));
}

TEST(BadWord, OfAUnitThatDoesNotExistEndsTheRun) {
  EXPECT_THAT(
      RunWith(kToController, Release(UnitId{60'000}, PacketHandle{0})).failure,
      HasSubstr("the loop of units 0 sent a bad word: release with unit "
                "60000"));
}

TEST(BadWord, OfABufferThatDoesNotExistEndsTheRun) {
  EXPECT_THAT(RunWith(kToController, Release(UnitId{3}, kNoPacket)).failure,
              HasSubstr("unit 3 sent a bad word: release with packet "
                        "4294967295"));
}

TEST(BadWord, OfATakeoverByAUnitThatDoesNotExistEndsTheRun) {
  EXPECT_THAT(
      RunWith(kBetweenUnits,
              UnitCommand::Send(UnitId{1}, Takeover{.taker = UnitId{60'000}}))
          .failure,
      HasSubstr("the loop of units 0 sent a bad word: takeover with taker "
                "60000"));
}

TEST(BadWord, OfALengthThatNoRecordHasEndsTheRun) {
  EXPECT_THAT(RunWith(kBetweenUnits,
                      UnitCommand::Send(UnitId{1}, State{.bytes = 1 << 30}))
                  .failure,
              HasSubstr("state with bytes 1073741824"));
}

TEST(BadWord, ThatAUnitHasStoppedEndsTheRun) {
  UnitCommand stopped = UnitCommand::Stopped();
  stopped.unit = UnitId{2};
  EXPECT_THAT(RunWith(kToController, stopped).failure,
              HasSubstr("unit 2 sent a bad word: stopped with flows"));
}

TEST(BadWord, OfAReasonThatTheNfDoesNotHaveEndsTheRun) {
  UnitCommand word = Release(UnitId{2}, PacketHandle{0});
  word.kind = UnitCommand::Kind::kNfDrop;
  word.nf_reason = 255;
  // A handle in use passes; else it is told of that.
  EXPECT_THAT(RunWith(kToController, word).failure,
              testing::AnyOf(HasSubstr("nf_drop with nf_reason 255"),
                             HasSubstr("nf_drop with packet 0")));
}

TEST(BadWord, AboutAPositionEndsTheRun) {
  const RunResult result = RunSpoiled([](std::vector<SpoiledRing>& rings) {
    rings[kToController].pushed() = uint64_t{1} << 60;
  });
  EXPECT_THAT(result.failure, HasSubstr("the loop of units 0 sent a bad word: "
                                        "ring with position"));
  EXPECT_GT(result.dropped[kUnitFailed], 0u);
}

TEST(BadWord, OfTheControllerEndsTheRunAndDropsWhatIsOfferedAfterIt) {
  const auto driver = Start(TimelessChronicleNf(), {});
  auto rings = SpoiledRing::In(driver->shared_memory());
  rings[kFromController].Push(ControllerCommand::OfUnit(
      static_cast<ControllerCommand::Kind>(99), UnitId{0}, false));
  while (!driver->has_failed()) std::this_thread::yield();
  for (uint32_t i = 0; i < 5; ++i) Offer(*driver, i);
  const RunResult result = driver->Finish();
  EXPECT_EQ(result.packets_in, 5u);
  EXPECT_EQ(result.dropped[kUnitFailed], 5u);
  EXPECT_THAT(
      result.failure,
      HasSubstr("the controller sent a bad word: message with kind 99"));
  EXPECT_TRUE(result.conserved());
}

// Where the headers are is written over before the NF looks.
TEST(BadDescription, DropsThePacketBeforeTheNf) {
  const auto driver = Start(TimelessChronicleNf(), {.policy = "snf"});
  auto other =
      BufferPool::Attach(driver->shared_memory(), BufferPool::Party{60});
  ASSERT_TRUE(other.ok());
  std::atomic<bool> over = false;
  std::thread writer([&] {
    while (!over) {
      for (uint32_t i = 0; i < 64; ++i) {
        other->info(PacketHandle{i}).headers.l4_offset = 60'000;
      }
    }
  });
  uint64_t dropped = 0;
  uint32_t offered = 0;
  for (int tries = 0; tries < 50; ++tries) {
    for (int i = 0; i < 1'000; ++i) Offer(*driver, offered++);
  }
  over = true;
  writer.join();
  const RunResult result = driver->Finish();
  dropped = result.dropped[static_cast<size_t>(DropReason::kPacketCorrupt)];
  EXPECT_TRUE(result.conserved());
  EXPECT_EQ(result.packets_released + dropped, offered);
  EXPECT_GT(dropped, 0u);
}

// Writes garbage into the memory of a run, from a thread of its own.
class Spoiler {
 public:
  Spoiler(std::span<std::byte> memory, uint64_t seed)
      : rng_(seed),
        memory_(memory),
        rings_(SpoiledRing::In(memory)),
        pool_(*BufferPool::Attach(memory, BufferPool::Party{60})),
        kind_(rng_.Below(kKinds)),
        writes_(1 + rng_.Below(rng_.Chance(32'768) ? 4 : 2'000)) {}

  void Start() {
    thread_ = std::thread([this] {
      for (uint64_t i = 0; i < writes_ && !over_; ++i) {
        Write(kind_ == kKinds - 1 ? rng_.Below(kKinds - 1) : kind_);
        if (rng_.Chance(8'192)) std::this_thread::yield();
      }
    });
  }
  void Stop() {
    over_ = true;
    thread_.join();
  }
  std::string Name() const { return fmt::format("{} × {}", kind_, writes_); }

 private:
  static constexpr uint64_t kKinds = 8;

  static Cell Garbage(Rng& rng) {
    Cell cell;
    for (std::byte& byte : cell.bytes) {
      byte = static_cast<std::byte>(rng.Below(256));
    }
    return cell;
  }
  // A word that is nearly right.
  Cell NearlyWord() {
    UnitCommand word =
        Release(UnitId{static_cast<uint16_t>(rng_.Below(9))},
                PacketHandle{static_cast<uint32_t>(rng_.Below(64))},
                MakeFlowId(0, static_cast<uint32_t>(rng_.Below(kFlows + 2)), 0),
                rng_.Below(300));
    word.kind = static_cast<UnitCommand::Kind>(rng_.Below(19));
    word.nf_reason = static_cast<uint8_t>(rng_.Below(4));
    if (rng_.Chance(16'384)) {
      word.meta.flags = static_cast<uint8_t>(rng_.Below(32));
    }
    Cell cell = std::bit_cast<Cell>(word);
    if (rng_.Chance(16'384)) {
      cell.bytes[rng_.Below(64)] = static_cast<std::byte>(rng_.Below(256));
    }
    return cell;
  }

  void Write(uint64_t kind) {
    SpoiledRing& ring = rings_[rng_.Below(rings_.size())];
    const uint64_t at = ring.pushed().load() + rng_.Below(16) - 8;
    switch (kind) {
      case 0:
        ring.cell(at) = Garbage(rng_);
        break;
      case 1:
        ring.cell(at) = NearlyWord();
        break;
      case 2:
        ring.Push(NearlyWord());
        break;
      case 3:
        (rng_.Chance(32'768) ? ring.pushed() : ring.released())
            .store(rng_.Chance(32'768) ? at : rng_.Next());
        break;
      case 4:
        SpoilBuffer();
        break;
      case 5:  // anywhere behind the buffers: bells, progress, rings
        SpoilByte(BehindBuffers());
        break;
      default:
        SpoilByte(0);
        break;
    }
  }
  size_t BehindBuffers() const {
    const std::array<BufferPool::Options, 1> shares = {kBuffers};
    return BufferPool::BytesFor(shares);
  }
  void SpoilByte(size_t from) {
    memory_[from + rng_.Below(memory_.size() - from)] =
        static_cast<std::byte>(rng_.Below(256));
  }
  void SpoilBuffer() {
    const PacketHandle packet{static_cast<uint32_t>(rng_.Below(64))};
    const auto& [info, room] = pool_.whole(packet);
    const auto bytes = std::as_writable_bytes(std::span(&info, 1));
    if (rng_.Chance(32'768)) {
      bytes[rng_.Below(bytes.size())] = static_cast<std::byte>(rng_.Below(256));
    } else {
      room[rng_.Below(100)] = static_cast<std::byte>(rng_.Below(256));
    }
  }

  Rng rng_;
  std::span<std::byte> memory_;
  std::vector<SpoiledRing> rings_;
  BufferPool pool_;
  uint64_t kind_;
  uint64_t writes_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

// Whatever is written, the run comes to an end, and says what was wrong if it
// did not come to that of its packets.
TEST(SpoiledMemory, EndsNoProcess) {
  const TestSeeds seeds(24, 2'000);
  uint64_t named = 0, stuck = 0, sound = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const bool translates = rng.Chance(32'768);
    const auto driver =
        Start(translates ? *NfSpec::Parse("monitor | nat(ip=203.0.113.1)")
                         : NfSpec(TimelessChronicleNf()),
              {.threads = 2 + static_cast<uint32_t>(rng.Below(3)),
               .patience = Milliseconds(100),
               .loggers = rng.Chance(32'768)});
    Spoiler spoiler(driver->shared_memory(), seed);
    uint32_t offered = 0;
    while (offered < 200) Offer(*driver, offered++);
    spoiler.Start();
    while (offered < 1'500 && !driver->has_failed()) Offer(*driver, offered++);
    spoiler.Stop();
    const RunResult result = driver->Finish();
    EXPECT_EQ(result.packets_in, offered);
    const bool was_named = !result.failure.empty();
    if (was_named) {
      EXPECT_TRUE(result.conserved()) << result.failure;
    }
    named += was_named ? 1 : 0;
    sound += result.conserved() && result.violations == 0 ? 1 : 0;
    stuck += !was_named && result.violations > 0 ? 1 : 0;
    // What is lost without a name is told of as well.
    EXPECT_TRUE(result.conserved() || result.violations > 0)
        << spoiler.Name() << ", of " << offered;
  }
  std::cout << seeds.count() << " runs: " << named << " ended by a bad word, "
            << stuck << " with violations, " << sound << " unharmed\n";
  if (!seeds.is_part) {
    EXPECT_GT(named, seeds.count() / 4);
    EXPECT_GT(sound, seeds.count() / 20);
  }
}

// --- An NF that does not return ---------------------------------------------

class Hanging final : public NetworkFunction {
 public:
  Verdict process_packet(Packet& packet, FlowState&) override {
    const volatile bool hangs = SequenceOf(packet.bytes()) == 7;
    while (hangs) std::this_thread::yield();
    return Verdict::forward();
  }
};
SNF_REGISTER_NF(Hanging, "test_hanging", "does not return from packet 7");

class NfThatHangs : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  static RunOptions Options() {
    RunOptions options = SmallTables();
    options.controller.max_units = 2;
    options.nf_patience = Milliseconds(200);
    return options;
  }
  static constexpr const char* kLine =
      "snf: the NF 'test_hanging' did not return within 200 ms "
      "\\(--nf_patience, proto/protocol.md F12\\): unit 0, packet 8 of its "
      "channel: clock 8 of flow 0, .*10.0.0.0";
};

TEST_P(NfThatHangs, EndsTheProcessAndIsNamedInRealTime) {
  const auto run = [] {
    auto driver = RealDriver::Start(
        Options(),
        {.speed = {.kind = Speed::Kind::kMax, .value = 0},
         .threads = GetParam(),
         .buffers = kBuffers,
         .unpaced = true,
         .wait_for_room = true},
        *FindPlacementPolicy("snf"), registration_of_Hanging, {});
    for (uint32_t i = 0; i < 20; ++i) {
      const Frame frame = UdpFrame({.flow = 0, .sequence = i});
      (*driver)->Offer({.time = Instant{1'000},
                        .bytes = frame,
                        .original_bytes = static_cast<uint32_t>(frame.size())});
    }
    (*driver)->Finish();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(70), kLine);
}
INSTANTIATE_TEST_SUITE_P(Threads, NfThatHangs, testing::Values(1, 2));

TEST_F(NfThatHangs, EndsTheProcessAndIsNamedInVirtualTime) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < 20; ++i) {
    frames.push_back({.time = Instant{1'000 + i},
                      .bytes = UdpFrame({.flow = 0, .sequence = i})});
  }
  EXPECT_EXIT(RunFrames(Options(), registration_of_Hanging, frames),
              testing::ExitedWithCode(70), kLine);
}

}  // namespace
}  // namespace snf
