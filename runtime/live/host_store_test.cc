// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/host_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/packet/packet_info.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "runtime/ring/test_process.h"
#include "runtime/ring/test_region.h"

namespace snf {
namespace {

constexpr uint32_t kRecordBytes = 72;
constexpr UnitId kA{0};
constexpr UnitId kB{1};

// A record each of whose words says its flow and clock.
struct TestRecord {
  explicit TestRecord(uint64_t flow, uint64_t clock,
                      uint32_t bytes = kRecordBytes)
      : state{.flow = FlowId{flow},
              .applied = Clock{clock},
              .timer = Instant{static_cast<int64_t>(flow ^ clock)},
              .schema = 5,
              .bytes = bytes},
        words(bytes / 8, flow << 32 | clock) {}
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(words));
  }
  bool Is(const HostRecord& record) const {
    return record.state.flow == state.flow &&
           record.state.applied == state.applied &&
           record.state.timer == state.timer &&
           record.state.schema == state.schema &&
           std::ranges::equal(record.bytes, bytes());
  }
  State state;
  std::vector<uint64_t> words;
};

// Loop 0 with units 0 and 2, and loop 1 with unit 1.
class HostStoreTest : public ::testing::Test {
 protected:
  static constexpr HostStore::Options kOptions = {
      .max_units = 3, .loops = 2, .slots = 64, .record_bytes = kRecordBytes};

  HostStore StoreOf(uint32_t loop) {
    const size_t part = HostStore::PartBytes(kOptions);
    return {kOptions, loop, memory().subspan(loop * part, part), memory()};
  }
  std::span<std::byte> memory() { return region_.bytes(); }
  static bool Show(HostStore& store, UnitId unit, uint32_t slot,
                   const TestRecord& record) {
    return store.Show(unit, slot, record.state, record.bytes());
  }
  static void ExpectRecord(HostStore& store, UnitId unit,
                           const TestRecord& record) {
    const auto read = store.Read(unit, record.state.flow, record.state.applied);
    ASSERT_TRUE(read.has_value()) << ToString(store.miss());
    EXPECT_TRUE(record.Is(*read));
  }
  static void ExpectMiss(HostStore& store, UnitId unit, uint64_t flow,
                         uint64_t clock, HostMiss miss) {
    EXPECT_FALSE(store.Read(unit, FlowId{flow}, Clock{clock}).has_value());
    EXPECT_EQ(ToString(store.miss()), ToString(miss));
  }

  SharedRegion region_ = MakeRegion(HostStore::BytesFor(kOptions));
};

TEST_F(HostStoreTest, ShowsTheRecordOfAFlowToAllLoops) {
  HostStore own = StoreOf(0);
  HostStore other = StoreOf(1);
  EXPECT_TRUE(Show(own, kA, 3, TestRecord(7, 4)));
  EXPECT_TRUE(Show(own, UnitId{2}, 3, TestRecord(8, 1, 8)));
  EXPECT_TRUE(Show(other, kB, 3, TestRecord(7, 2, 0)));
  for (HostStore* store : {&own, &other}) {
    ExpectRecord(*store, kA, TestRecord(7, 4));
    ExpectRecord(*store, UnitId{2}, TestRecord(8, 1, 8));
    ExpectRecord(*store, kB, TestRecord(7, 2, 0));
  }
}

TEST_F(HostStoreTest, NamesTheReasonIfThereIsNoSuchRecord) {
  HostStore own = StoreOf(0);
  HostStore other = StoreOf(1);
  ExpectMiss(other, kA, 7, 4, HostMiss::kUnknown);
  Show(own, kA, 3, TestRecord(7, 4));
  ExpectMiss(other, kA, 7, 3, HostMiss::kStale);
  ExpectMiss(other, kA, 7, 5, HostMiss::kStale);
  ExpectMiss(other, kA, 8, 4, HostMiss::kUnknown);
  ExpectMiss(other, kB, 7, 4, HostMiss::kUnknown);
  EXPECT_FALSE(other.has(UnitId{3}));
  ExpectMiss(other, UnitId{3}, 7, 4, HostMiss::kUnknown);
}

TEST_F(HostStoreTest, APlaceGoesToAnotherFlow) {
  HostStore own = StoreOf(0);
  Show(own, kA, 3, TestRecord(7, 4));
  Show(own, kA, 3, TestRecord(8, 1));
  ExpectMiss(own, kA, 7, 4, HostMiss::kUnknown);
  ExpectRecord(own, kA, TestRecord(8, 1));
  Show(own, kA, 4, TestRecord(7, 5));
  ExpectRecord(own, kA, TestRecord(7, 5));
}

TEST_F(HostStoreTest, SaysWhichLoopsAreOnTheHostIfTheyMayBeElsewhere) {
  HostStore::Options spread = kOptions;
  spread.spread = true;
  const size_t part = HostStore::PartBytes(spread);
  HostStore own(spread, 0, memory().first(part), memory());
  EXPECT_FALSE(own.has(kA));
  EXPECT_FALSE(own.has(kB));
  memory()[HostStore::PresenceAt(spread, 0)] = std::byte{1};
  EXPECT_TRUE(own.has(kA));
  EXPECT_TRUE(own.has(UnitId{2}));
  EXPECT_FALSE(own.has(kB));
  EXPECT_FALSE(own.has(UnitId{4}));
  // Records stay when their process has gone.
  Show(own, kA, 3, TestRecord(7, 4));
  memory()[HostStore::PresenceAt(spread, 0)] = std::byte{0};
  EXPECT_FALSE(own.has(kA));
  ExpectRecord(own, kA, TestRecord(7, 4));
  ExpectMiss(own, kA, 8, 4, HostMiss::kAway);
}

TEST_F(HostStoreTest, SpreadPartsAreBounded) {
  HostStore::Options large = {
      .max_units = 4, .loops = 4, .record_bytes = 1 << 20, .spread = true};
  large.slots = HostStore::SlotsFor(~uint32_t{0}, large);
  EXPECT_GT(large.slots, 1'000u);
  EXPECT_LE(HostStore::PartBytes(large), HostStore::kMostSpreadBytes);
}

TEST_F(HostStoreTest, ASlotWithoutAPlaceIsNotShown) {
  HostStore own = StoreOf(0);
  EXPECT_TRUE(Show(own, kA, 63, TestRecord(7, 4)));
  EXPECT_FALSE(Show(own, kA, 64, TestRecord(8, 4)));
  ExpectMiss(own, kA, 8, 4, HostMiss::kUnknown);
}

TEST_F(HostStoreTest, AllPlacesAreFoundAgainOrUnknown) {
  HostStore own = StoreOf(0);
  uint32_t found = 0;
  for (uint64_t round = 1; round <= 40; ++round) {
    for (uint32_t slot = 0; slot < 64; ++slot) {
      Show(own, kA, slot, TestRecord(1'000 * round + slot, round));
    }
    for (uint32_t slot = 0; slot < 64; ++slot) {
      const TestRecord record(1'000 * round + slot, round);
      const auto read = own.Read(kA, record.state.flow, record.state.applied);
      if (read.has_value()) {
        ++found;
        EXPECT_TRUE(record.Is(*read));
      } else {
        EXPECT_EQ(own.miss(), HostMiss::kUnknown);
      }
    }
  }
  EXPECT_GT(found, 40u * 64 * 95 / 100);
}

// ThreadSanitizer sees no race between two processes.
#if !defined(__SANITIZE_THREAD__)
TEST_F(HostStoreTest, AWriterThatDiesLeavesAWholeRecordOrNone) {
  if (!CanTrace()) GTEST_SKIP() << "this machine lets no process trace another";
  const TestRecord before(7, 4);
  const TestRecord after(7, 5);
  int torn = 0;
  KillAtEveryInstruction(
      kStride,
      [&] {
        std::ranges::fill(memory(), std::byte{0});
        HostStore own = StoreOf(0);
        Show(own, kA, 3, before);
      },
      [&] {
        HostStore own = StoreOf(0);
        Show(own, kA, 3, after);
      },
      [&](int) {
        HostStore other = StoreOf(1);
        int whole = 0;
        for (const TestRecord* record : {&before, &after}) {
          const auto read = other.Read(kA, FlowId{7}, record->state.applied);
          torn += other.miss() == HostMiss::kTorn ? 1 : 0;
          if (!read.has_value()) continue;
          EXPECT_TRUE(record->Is(*read));
          ++whole;
        }
        EXPECT_LE(whole, 1);
        // The next process of the unit repairs the place.
        HostStore next = StoreOf(0);
        Show(next, kA, 3, TestRecord(7, 6));
        ExpectRecord(other, kA, TestRecord(7, 6));
      });
  EXPECT_TRUE(torn > 0 || kStride > 1);
}
#endif

TEST_F(HostStoreTest, TheNextProcessOfAUnitTakesPlacesOfTheFailedOne) {
  HostStore failed = StoreOf(0);
  Show(failed, kA, 3, TestRecord(7, 4));
  Show(failed, kA, 4, TestRecord(8, 2));
  HostStore next = StoreOf(0);
  HostStore other = StoreOf(1);
  ExpectRecord(other, kA, TestRecord(7, 4));
  Show(next, kA, 3, TestRecord(9, 1));
  ExpectMiss(other, kA, 7, 4, HostMiss::kUnknown);
  ExpectRecord(other, kA, TestRecord(9, 1));
  // A flow that comes again is there with both clocks.
  Show(next, kA, 5, TestRecord(8, 6));
  ExpectRecord(other, kA, TestRecord(8, 2));
  ExpectRecord(other, kA, TestRecord(8, 6));
}

TEST_F(HostStoreTest, AUnitThatHasReportedIsAheadOfOneThatHasNot) {
  HostStore own = StoreOf(0);
  HostStore other = StoreOf(1);
  Show(own, kA, 3, TestRecord(7, 4));
  own.on_report(2);
  // A record of before is as good as a message that was under way.
  ExpectRecord(other, kA, TestRecord(7, 4));
  Show(own, kA, 3, TestRecord(7, 5));
  ExpectMiss(other, kA, 7, 5, HostMiss::kAhead);
  ExpectMiss(other, kA, 7, 4, HostMiss::kStale);
  other.on_report(1);
  ExpectMiss(other, kA, 7, 5, HostMiss::kAhead);
  other.on_report(2);
  ExpectRecord(other, kA, TestRecord(7, 5));
  other.on_report(3);
  ExpectRecord(other, kA, TestRecord(7, 5));
}

TEST_F(HostStoreTest, AnyContentOfAnotherPartIsHarmless) {
  const TestSeeds seeds(2'000, 100'000);
  HostStore own = StoreOf(0);
  HostStore other = StoreOf(1);
  uint64_t found = 0;
  std::array<uint64_t, kHostMisses> misses{};
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    Show(own, kA, 3, TestRecord(7, 4));
    // Most of it is as it was, so that readers come far.
    const auto part = memory().first(HostStore::PartBytes(kOptions));
    for (int i = 0; i < 200; ++i) {
      part[rng.Below(part.size())] = std::byte(rng.Below(256));
    }
    const auto place = part.subspan(64 * 4 * 4 + 3 * 192, 64 + kRecordBytes);
    for (int i = 0; i < 2; ++i) {
      place[rng.Below(64)] = std::byte(rng.Below(256));
    }
    const auto read = other.Read(kA, FlowId{7}, Clock{4});
    if (read.has_value()) {
      ++found;
      EXPECT_LE(read->bytes.size(), kRecordBytes);
      EXPECT_EQ(read->bytes.size(), read->state.bytes);
      EXPECT_TRUE(IsLinkType(read->state.link));
    } else {
      ++misses[static_cast<size_t>(other.miss())];
    }
  }
  if (seeds.count() < 2'000) return;
  EXPECT_GT(found, 100u);
  EXPECT_GT(misses[static_cast<size_t>(HostMiss::kMalformed)], 10u);
  EXPECT_GT(misses[static_cast<size_t>(HostMiss::kTorn)], 10u);
}

TEST_F(HostStoreTest, AReaderBesideAWriterReadsWholeRecords) {
  constexpr uint64_t kClocks = 20'000;
  constexpr uint64_t kMostClocks = 50'000'000;
  constexpr uint64_t kWanted = 100;
  std::atomic<bool> stops = false;
  std::atomic<uint64_t> newest = 1;
  std::atomic<uint64_t> found = 0;
  HostStore own = StoreOf(0);
  Show(own, kA, 3, TestRecord(7, 1));
  std::thread writer([&] {
    uint64_t clock = 1;
    while (clock < kClocks || (found < kWanted && clock < kMostClocks)) {
      Show(own, kA, 3, TestRecord(7, ++clock));
      newest.store(clock, std::memory_order_release);
      if (clock % 64 == 0) std::this_thread::yield();
    }
    stops = true;
  });
  HostStore other = StoreOf(1);
  while (!stops) {
    const TestRecord record(7, newest.load(std::memory_order_acquire));
    const auto read = other.Read(kA, FlowId{7}, record.state.applied);
    found += read.has_value() ? 1 : 0;
    EXPECT_TRUE(!read.has_value() || record.Is(*read));
  }
  writer.join();
  ExpectRecord(other, kA, TestRecord(7, newest));
  EXPECT_GE(found, kWanted);
}

TEST_F(HostStoreTest, AFlowThatWasReplacedInTheIndexIsListedWithItsNextState) {
  HostStore own = StoreOf(0);
  HostStore other = StoreOf(1);
  // The upper bits of an id do not choose the bucket.
  const auto flow = [](uint64_t slot) { return 1 + (slot << 40); };
  for (uint32_t slot = 0; slot <= HostStore::kWays; ++slot) {
    Show(own, kA, slot, TestRecord(flow(slot), 1));
  }
  const auto unknown = [&] {
    std::vector<uint32_t> slots;
    for (uint32_t slot = 0; slot <= HostStore::kWays; ++slot) {
      if (!other.Read(kA, FlowId{flow(slot)}, Clock{1})) slots.push_back(slot);
    }
    return slots;
  };
  const std::vector<uint32_t> replaced = unknown();
  ASSERT_EQ(replaced.size(), 1u);
  Show(own, kA, replaced[0], TestRecord(flow(replaced[0]), 2));
  ExpectRecord(other, kA, TestRecord(flow(replaced[0]), 2));
}

TEST_F(HostStoreTest, ARecordIsStaleAfterItsLifetime) {
  static Instant now;
  now = Instant{5'000'000'000};
  const size_t part = HostStore::PartBytes(kOptions);
  const auto time = [] { return now; };
  HostStore own(kOptions, 0, memory().first(part), memory(), time);
  HostStore other(kOptions, 1, memory().subspan(part, part), memory(), time);
  Show(own, kA, 3, TestRecord(7, 4));
  now = now + HostStore::kLifetime;
  ExpectRecord(other, kA, TestRecord(7, 4));
  now = now + Nanos{1};
  ExpectMiss(other, kA, 7, 4, HostMiss::kStale);
  Show(own, kA, 3, TestRecord(7, 4));
  ExpectRecord(other, kA, TestRecord(7, 4));
}

TEST(HostStorePlaces, AreFewerWhereRecordsAreLarge) {
  HostStore::Options options = {
      .max_units = 64, .loops = 4, .record_bytes = 64};
  EXPECT_EQ(HostStore::SlotsFor(65'536, options), 65'536u);
  options.record_bytes = 1 << 24;
  options.slots = HostStore::SlotsFor(65'536, options);
  EXPECT_LT(options.slots, 65'536u);
  EXPECT_LE(HostStore::BytesFor(options), HostStore::kMostBytes);
}

}  // namespace
}  // namespace snf
