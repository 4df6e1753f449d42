// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/spsc_ring.h"

#include <cstring>
#include <deque>
#include <iostream>
#include <numeric>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/ring/test_packet_descriptor.h"
#include "runtime/ring/test_process.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ring = SpscRing<uint64_t>;

// A ring in private memory, and an end of each kind.
struct Rig {
  explicit Rig(uint32_t capacity)
      : size(Ring::BytesFor(capacity)), memory(size + 128) {
    EXPECT_TRUE(Ring::Format(bytes(), capacity).ok());
  }
  std::span<std::byte> bytes() {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return std::span(memory).subspan((0 - address) % 128, size);
  }
  RingHeader& header() {
    return *reinterpret_cast<RingHeader*>(bytes().data());
  }
  Ring::Producer MakeProducer(Doorbell* bell = nullptr) {
    return *Ring::Producer::Attach(bytes(), bell);
  }
  Ring::Consumer MakeConsumer() { return *Ring::Consumer::Attach(bytes()); }

  size_t size;
  std::vector<std::byte> memory;
};

size_t Push(Ring::Producer& producer, std::vector<uint64_t> items) {
  return producer.Push(items);
}

std::vector<uint64_t> Read(Ring::Consumer& consumer, size_t count) {
  std::vector<uint64_t> items(count);
  items.resize(consumer.Read(items));
  return items;
}

TEST(SpscRing, GivesItemsInOrderAndAcrossItsEnd) {
  Rig rig(4);
  auto producer = rig.MakeProducer();
  auto consumer = rig.MakeConsumer();
  EXPECT_THAT(Read(consumer, 4), IsEmpty());
  EXPECT_EQ(Push(producer, {1, 2, 3}), 3u);
  EXPECT_THAT(Read(consumer, 8), ElementsAre(1, 2, 3));
  consumer.Release(3);
  EXPECT_EQ(Push(producer, {4, 5, 6, 7}), 4u);
  EXPECT_THAT(Read(consumer, 3), ElementsAre(4, 5, 6));
  EXPECT_THAT(Read(consumer, 3), ElementsAre(7));
}

TEST(SpscRing, TakesAsManyAsThereIsRoomFor) {
  Rig rig(4);
  auto producer = rig.MakeProducer();
  auto consumer = rig.MakeConsumer();
  EXPECT_EQ(Push(producer, {1, 2, 3, 4, 5}), 4u);
  EXPECT_EQ(producer.room(), 0u);
  EXPECT_EQ(Push(producer, {5}), 0u);
  EXPECT_THAT(Read(consumer, 2), ElementsAre(1, 2));
  EXPECT_EQ(Push(producer, {5}), 0u);
  consumer.Release(1);
  EXPECT_EQ(producer.room(), 1u);
  EXPECT_EQ(Push(producer, {5, 6}), 1u);
  EXPECT_EQ(producer.released(), 1u);
  EXPECT_EQ(producer.pushed(), 5u);
  EXPECT_EQ(Push(producer, {}), 0u);
}

TEST(SpscRing, GivesTheNextConsumerWhatWasReadButNotReleased) {
  Rig rig(4);
  auto producer = rig.MakeProducer();
  auto first = rig.MakeConsumer();
  Push(producer, {1, 2, 3, 4});
  EXPECT_THAT(Read(first, 3), ElementsAre(1, 2, 3));
  first.Release(1);
  auto second = rig.MakeConsumer();
  EXPECT_EQ(second.released(), 1u);
  EXPECT_THAT(Read(second, 4), ElementsAre(2, 3, 4));
}

TEST(SpscRing, GoesOnWhereTheLastProducerStopped) {
  Rig rig(4);
  auto consumer = rig.MakeConsumer();
  auto first = rig.MakeProducer();
  Push(first, {1, 2, 3});
  auto second = rig.MakeProducer();
  EXPECT_EQ(Push(second, {4, 5}), 1u);
  EXPECT_THAT(Read(consumer, 8), ElementsAre(1, 2, 3, 4));
}

TEST(SpscRing, HoldsDescriptorsOfPackets) {
  using Packets = SpscRing<PacketDescriptor>;
  const SharedRegion region = MakeRegion(Packets::BytesFor(8));
  ASSERT_TRUE(Packets::Format(region.bytes(), 8).ok());
  auto producer = *Packets::Producer::Attach(region.bytes(), nullptr);
  auto consumer = *Packets::Consumer::Attach(region.bytes());
  PacketDescriptor sent;
  sent.meta.clock = Clock{7};
  sent.packet = PacketHandle{3};
  EXPECT_EQ(producer.Push({&sent, 1}), 1u);
  PacketDescriptor got;
  EXPECT_EQ(consumer.Pop({&got, 1}), 1u);
  EXPECT_EQ(std::memcmp(&got, &sent, sizeof(got)), 0);
}

TEST(SpscRing, IsNotMadeOrFoundWhereItDoesNotFit) {
  Rig rig(4);
  const std::span<std::byte> bytes = rig.bytes();
  EXPECT_FALSE(Ring::Format(bytes, 0).ok());
  EXPECT_FALSE(Ring::Format(bytes, 3).ok());
  EXPECT_FALSE(Ring::Format(bytes, uint32_t{1} << 31).ok());
  EXPECT_FALSE(Ring::Format(bytes.first(Ring::BytesFor(4) - 1), 4).ok());
  EXPECT_FALSE(Ring::Format(bytes.subspan(8), 4).ok());
  EXPECT_FALSE(Ring::Format({}, 1).ok());
  EXPECT_FALSE(SpscRing<uint32_t>::Consumer::Attach(bytes).ok());
  EXPECT_FALSE(Ring::Consumer::Attach(bytes.first(100)).ok());
  EXPECT_FALSE(Ring::Consumer::Attach(bytes.first(Ring::BytesFor(3))).ok());
  EXPECT_TRUE(Ring::Consumer::Attach(bytes.first(Ring::BytesFor(4))).ok());
  rig.header().pushed = 5;
  const auto status = Ring::Producer::Attach(bytes, nullptr).status();
  EXPECT_THAT(status.ToString(),
              HasSubstr("capacity 4 with 5 items pushed and 0 released"));
}

// Ends that go on meanwhile, or write nonsense, do not matter.
TEST(SpscRing, TellsWhoHasNoEndWhetherItHasItems) {
  Rig rig(4);
  auto producer = rig.MakeProducer();
  auto consumer = rig.MakeConsumer();
  EXPECT_FALSE(RingHasItems(rig.bytes()));
  Push(producer, {1, 2});
  EXPECT_TRUE(RingHasItems(rig.bytes()));
  Read(consumer, 2);
  EXPECT_TRUE(RingHasItems(rig.bytes()));
  consumer.Release(2);
  EXPECT_FALSE(RingHasItems(rig.bytes()));
  rig.header().released = 7;
  EXPECT_TRUE(RingHasItems(rig.bytes()));
}

TEST(SpscRing, AbortsOnReleasingWhatWasNotRead) {
  Rig rig(4);
  auto producer = rig.MakeProducer();
  auto consumer = rig.MakeConsumer();
  Push(producer, {1, 2});
  Read(consumer, 1);
  EXPECT_DEATH(consumer.Release(2), "check failed");
}

TEST(SpscRing, CountsPositionsThatCannotBe) {
  Rig rig(4);
  auto producer = rig.MakeProducer();
  auto consumer = rig.MakeConsumer();
  Push(producer, {1, 2});
  EXPECT_THAT(Read(consumer, 1), ElementsAre(1));
  for (const uint64_t nonsense : {uint64_t{1}, uint64_t{5}, ~uint64_t{0}}) {
    rig.header().pushed = nonsense;
    EXPECT_THAT(Read(consumer, 4).size(), nonsense == 1 ? 1u : 0u);
  }
  EXPECT_EQ(consumer.faults(), 3u);
  for (const uint64_t nonsense : {uint64_t{3}, ~uint64_t{0}}) {
    rig.header().released = nonsense;
    EXPECT_EQ(producer.room(), 2u);
  }
  EXPECT_EQ(producer.faults(), 2u);
  rig.header().released = 1;
  EXPECT_EQ(producer.room(), 3u);
  rig.header().released = 0;  // backwards
  EXPECT_EQ(producer.room(), 3u);
  EXPECT_EQ(producer.faults(), 3u);
}

// An end that has died may have written anything anywhere; the next one finds
// a ring, and what the other end knows to be in it.
TEST(SpscRing, IsPutRightByTheEndThatGoesOn) {
  const TestSeeds seeds(300, 6'000);
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    Rig rig(8);
    auto producer = rig.MakeProducer();
    auto consumer = rig.MakeConsumer();
    std::vector<uint64_t> items(5);
    producer.Push(items);
    consumer.Read(std::span(items).first(3));
    consumer.Release(rng.Below(4));
    const bool producer_dies = rng.Chance(32'768);
    for (int i = 0; i < 20; ++i) {
      rig.bytes()[rng.Below(sizeof(RingHeader))] =
          static_cast<std::byte>(rng.Next());
    }
    const bool is_dropped = rng.Chance(32'768);
    if (producer_dies) {
      is_dropped ? consumer.SkipAll() : consumer.Restore();
      EXPECT_EQ(consumer.faults(), 0u);
      auto next = Ring::Producer::Attach(rig.bytes(), nullptr);
      ASSERT_TRUE(next.ok()) << next.status();
      if (!is_dropped) continue;
      EXPECT_EQ(next->room(), 8u);
      EXPECT_EQ(next->Push(std::vector<uint64_t>{7, 8}), 2u);
      EXPECT_EQ(consumer.Read(items), 2u);
      EXPECT_EQ(items[0], 7u);
    } else {
      is_dropped ? producer.SkipAll() : producer.Restore();
      EXPECT_EQ(producer.faults(), 0u);
      auto next = Ring::Consumer::Attach(rig.bytes());
      ASSERT_TRUE(next.ok()) << next.status();
      if (!is_dropped) continue;
      EXPECT_FALSE(next->has_items());
      EXPECT_EQ(producer.Push(std::vector<uint64_t>{7, 8}), 2u);
      EXPECT_EQ(next->Read(items), 2u);
      EXPECT_EQ(items[0], 7u);
    }
  }
}

// What came from there on is read no more: the next producer goes on there.
TEST(SpscRing, ForgetsWhatCameBehindAPosition) {
  Rig rig(8);
  auto producer = rig.MakeProducer();
  auto consumer = rig.MakeConsumer();
  producer.Push(std::vector<uint64_t>{1, 2, 3, 4, 5});
  std::vector<uint64_t> items(4);
  EXPECT_EQ(consumer.Pop(items), 4u);
  consumer.SkipFrom(2);
  auto next = rig.MakeProducer();
  EXPECT_EQ(next.pushed(), 2u);
  EXPECT_FALSE(consumer.has_items());
  next.Push(std::vector<uint64_t>{30});
  EXPECT_EQ(consumer.Pop(items), 1u);
  EXPECT_EQ(items[0], 30u);
  EXPECT_EQ(consumer.read(), 3u);
}

// Whatever the other end writes anywhere in the ring, each end stays within it
// and within its capacity.
TEST(SpscRing, OutlivesAPeerThatWritesNonsense) {
  const TestSeeds seeds(300, 6'000);
  uint64_t faults = 0;
  uint64_t refused = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    Rig rig(8);
    auto producer = rig.MakeProducer();
    auto consumer = rig.MakeConsumer();
    for (int step = 0; step < 200; ++step) {
      auto& word =
          rng.Chance(32'768) ? rig.header().pushed : rig.header().released;
      if (rng.Chance(8'192)) {
        word = rng.Chance(32'768) ? rng.Next() : word + rng.Below(20) - 10;
      }
      std::vector<uint64_t> items(rng.Below(12));
      ASSERT_LE(producer.Push(items), items.size());
      ASSERT_LE(producer.room(), 8u);
      const size_t count = consumer.Read(items);
      ASSERT_LE(count, std::min<size_t>(items.size(), 8));
      ASSERT_LE(consumer.read() - consumer.released(), 8u);
      consumer.Release(rng.Below(count + 1));
    }
    faults += producer.faults() + consumer.faults();
    for (int attempt = 0; attempt < 50; ++attempt) {
      Rig other(8);
      other.bytes()[rng.Below(sizeof(RingHeader))] =
          static_cast<std::byte>(1 << rng.Below(8));
      auto to = Ring::Producer::Attach(other.bytes(), nullptr);
      auto from = Ring::Consumer::Attach(other.bytes());
      refused += !to.ok() + !from.ok();
      std::vector<uint64_t> items(20);
      ASSERT_LE(to.ok() ? to->Push(items) : 0, 8u);
      ASSERT_LE(from.ok() ? from->Read(items) : 0, 8u);
    }
  }
  std::cout << "seeds " << seeds.first << "-" << seeds.last << ": " << faults
            << " faults, " << refused << " rings refused\n";
  if (seeds.is_part) return;
  EXPECT_GT(faults, 3'000u);
  EXPECT_GT(refused, 1'000u);
}

// Compares the ring with a std::deque while ends are replaced.
TEST(SpscRing, IsAQueueInAnyOrderOfCalls) {
  struct {
    uint64_t pushed = 0, full = 0, wrapped = 0, replaced = 0, again = 0;
  } totals;
  const TestSeeds seeds(500, 10'000);
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const auto capacity = uint32_t{1} << rng.Below(6);
    Rig rig(capacity);
    auto producer = rig.MakeProducer();
    auto consumer = rig.MakeConsumer();
    std::deque<uint64_t> queue;  // from the first that is not released
    size_t read = 0;             // of them
    uint64_t next = 0;
    for (int step = 0; step < 500; ++step) {
      switch (rng.Below(8)) {
        case 0:
          if (rng.Chance(32'768)) {
            producer = rig.MakeProducer();
          } else {
            consumer = rig.MakeConsumer();
            totals.again += read;
            read = 0;
          }
          ++totals.replaced;
          break;
        case 1:
        case 2:
        case 3: {
          std::vector<uint64_t> items(rng.Below(capacity + 2));
          std::iota(items.begin(), items.end(), next);
          const size_t room = capacity - queue.size();
          const size_t count = producer.Push(items);
          ASSERT_EQ(count, std::min(items.size(), room));
          totals.full += count < items.size();
          totals.wrapped += next % capacity + count > capacity;
          next += count;
          queue.insert(queue.end(), items.begin(),
                       items.begin() + static_cast<ptrdiff_t>(count));
          break;
        }
        case 4:
        case 5:
        case 6: {
          const size_t wanted = rng.Below(capacity + 2);
          const std::vector<uint64_t> items = Read(consumer, wanted);
          ASSERT_EQ(items.size(), std::min(wanted, queue.size() - read));
          for (const uint64_t item : items) ASSERT_EQ(item, queue[read++]);
          break;
        }
        default: {
          const size_t count = rng.Below(read + 1);
          consumer.Release(count);
          queue.erase(queue.begin(),
                      queue.begin() + static_cast<ptrdiff_t>(count));
          read -= count;
        }
      }
      ASSERT_EQ(consumer.has_items(), queue.size() > read);
      ASSERT_EQ(producer.room(), capacity - queue.size());
      ASSERT_EQ(producer.released(), consumer.released());
      ASSERT_EQ(producer.faults() + consumer.faults(), 0u);
    }
    totals.pushed += next;
  }
  std::cout << "seeds " << seeds.first << "-" << seeds.last << ": "
            << totals.pushed << " pushed, " << totals.full << " times full, "
            << totals.wrapped << " bursts in two pieces, " << totals.replaced
            << " ends replaced, " << totals.again << " read again\n";
  if (seeds.is_part) return;
  EXPECT_GT(totals.pushed, 50'000u);
  EXPECT_GT(totals.full, 10'000u);
  EXPECT_GT(totals.wrapped, 2'000u);
  EXPECT_GT(totals.again, 10'000u);
}

// Bursts of random size, each item with its number in every word.
TEST(SpscRing, CarriesEachItemOnceBetweenTwoThreads) {
  using Items = std::array<uint64_t, 8>;
  using Wide = SpscRing<Items>;
  constexpr uint64_t kItems = 200'000;
  const SharedRegion region = MakeRegion(Wide::BytesFor(64));
  ASSERT_TRUE(Wide::Format(region.bytes(), 64).ok());
  std::thread producing([&] {
    auto producer = *Wide::Producer::Attach(region.bytes(), nullptr);
    Rng rng(1);
    std::vector<Items> burst;
    for (uint64_t sent = 0; sent < kItems;) {
      burst.resize(std::min(rng.Below(100), kItems - sent));
      for (size_t i = 0; i < burst.size(); ++i) burst[i].fill(sent + i);
      const size_t count = producer.Push(burst);
      sent += count;
      if (count == 0) std::this_thread::yield();
    }
  });
  auto consumer = *Wide::Consumer::Attach(region.bytes());
  Rng rng(2);
  std::vector<Items> burst;
  uint64_t wrong = 0;
  for (uint64_t got = 0; got < kItems;) {
    burst.resize(1 + rng.Below(100));
    const size_t count = consumer.Read(burst);
    for (size_t i = 0; i < count; ++i) {
      Items expected;
      expected.fill(got + i);
      wrong += burst[i] != expected;
    }
    consumer.Release(count);
    got += count;
    if (count == 0) std::this_thread::yield();
  }
  producing.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_FALSE(consumer.has_items());
  EXPECT_EQ(consumer.faults(), 0u);
}

}  // namespace
}  // namespace snf
