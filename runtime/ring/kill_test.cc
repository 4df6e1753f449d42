// SPDX-License-Identifier: Apache-2.0
// Kills peers, at every instruction or at random times, and tests what the
// survivor finds.
#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <new>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/spsc_ring.h"
#include "runtime/ring/test_packet_descriptor.h"
#include "runtime/ring/test_process.h"

namespace snf {
namespace {

using ::testing::AnyOf;
using Item = std::array<uint64_t, 8>;
using Ring = SpscRing<Item>;

Item MakeItem(uint64_t i) {
  Item item;
  item.fill(i);
  return item;
}

std::vector<Item> MakeItems(uint64_t first, uint64_t count) {
  std::vector<Item> items;
  for (uint64_t i = 0; i < count; ++i) items.push_back(MakeItem(first + i));
  return items;
}

// A ring of eight; twelve items have gone through, two are in it.
class KilledAtARing : public ::testing::Test {
 protected:
  static constexpr uint32_t kCapacity = 8;
  static constexpr uint64_t kDone = 12;
  static constexpr uint64_t kWaiting = 2;
  static constexpr uint64_t kBurst = 5;  // of the child

  void SetUp() override {
    if (!CanTrace()) GTEST_SKIP() << "this machine allows no ptrace";
    RegionCarver carver(region_.bytes());
    bell_ = new (carver.Take(sizeof(Doorbell)).data()) Doorbell;
    memory_ = carver.Take(Ring::BytesFor(kCapacity));
  }

  void Prepare(uint64_t waiting) {
    ASSERT_TRUE(Ring::Format(memory_, kCapacity).ok());
    producer_ = *Ring::Producer::Attach(memory_, bell_);
    consumer_ = *Ring::Consumer::Attach(memory_);
    for (uint64_t i = 0; i < kDone + waiting; ++i) {
      const Item item = MakeItem(i);
      ASSERT_EQ(producer_->Push({&item, 1}), 1u);
      if (i >= kDone) continue;
      Item popped;
      ASSERT_EQ(consumer_->Pop({&popped, 1}), 1u);
    }
  }

  // Reads all there is, which must be the items from `first` on, whole.
  static uint64_t Drain(Ring::Consumer& consumer, uint64_t first) {
    std::vector<Item> items(2 * kCapacity);
    items.resize(consumer.Pop(items));
    EXPECT_EQ(items, MakeItems(first, items.size()));
    return items.size();
  }

  SharedRegion region_ = MakeRegion(8'192);
  Doorbell* bell_ = nullptr;
  std::span<std::byte> memory_;
  std::optional<Ring::Producer> producer_;
  std::optional<Ring::Consumer> consumer_;
};

TEST_F(KilledAtARing, WhilePushingABurstPublishesAllOfItOrNothing) {
  const std::vector<Item> burst = MakeItems(kDone + kWaiting, kBurst);
  uint64_t published = 0;
  uint64_t not_published = 0;
  const int instructions = KillAtEveryInstruction(
      kStride, [&] { Prepare(kWaiting); }, [&] { producer_->Push(burst); },
      [&](int k) {
        SCOPED_TRACE(k);
        const uint64_t found = Drain(*consumer_, kDone);
        ASSERT_THAT(found, AnyOf(kWaiting, kWaiting + kBurst));
        ++(found == kWaiting ? not_published : published);
        // The next producer goes on, through all slots.
        auto next = *Ring::Producer::Attach(memory_, bell_);
        ASSERT_EQ(next.pushed(), kDone + found);
        ASSERT_EQ(next.Push(MakeItems(next.pushed(), 20)), kCapacity);
        ASSERT_EQ(Drain(*consumer_, kDone + found), kCapacity);
        ASSERT_EQ(consumer_->faults() + next.faults(), 0u);
      });
  std::cout << instructions << " instructions: " << not_published
            << " kills before, " << published << " after the burst was out\n";
  EXPECT_GT(published, 0u);
  EXPECT_GT(not_published, 5u);
}

TEST_F(KilledAtARing, WhilePoppingABurstReleasesAllOfItOrNothing) {
  uint64_t released = 0;
  uint64_t not_released = 0;
  const int instructions = KillAtEveryInstruction(
      kStride, [&] { Prepare(kCapacity); },
      [&] {
        std::array<Item, kBurst> items;
        consumer_->Pop(items);
      },
      [&](int k) {
        SCOPED_TRACE(k);
        const uint64_t room = producer_->room();
        ASSERT_THAT(room, AnyOf(0, kBurst));
        ++(room == 0 ? not_released : released);
        const uint64_t next = producer_->pushed();
        ASSERT_EQ(producer_->Push(MakeItems(next, 20)), room);
        auto after = *Ring::Consumer::Attach(memory_);
        ASSERT_EQ(Drain(after, kDone + room), kCapacity);
        ASSERT_EQ(producer_->Push(MakeItems(next + room, 20)), kCapacity);
        ASSERT_EQ(Drain(after, next + room), kCapacity);
        ASSERT_EQ(producer_->faults() + after.faults(), 0u);
      });
  std::cout << instructions << " instructions: " << not_released
            << " kills before, " << released << " after the release\n";
  EXPECT_GT(released, 0u);
  EXPECT_GT(not_released, 5u);
}

// The consumer sleeps meanwhile. It wakes up for everything that was published,
// once the survivor has rung for the dead producer.
TEST_F(KilledAtARing, WhileWakingTheConsumerLeavesNobodyAsleep) {
  const std::vector<Item> burst = MakeItems(kDone, kBurst);
  std::thread sleeper;
  bool is_woken = false;
  uint64_t published = 0;
  const int instructions = KillAtEveryInstruction(
      3 * kStride,
      [&] {
        Prepare(0);
        sleeper = std::thread([&] {
          const auto ready = [&] { return consumer_->has_items(); };
          const auto start = std::chrono::steady_clock::now();
          is_woken = bell_->Wait(ready, Seconds(60), 0) &&
                     std::chrono::steady_clock::now() - start <
                         std::chrono::seconds(30);
        });
      },
      [&] { producer_->Push(burst); },
      [&](int k) {
        SCOPED_TRACE(k);
        auto next = *Ring::Producer::Attach(memory_, bell_);
        published += next.pushed() > kDone;
        if (next.pushed() == kDone) next.Push(MakeItems(kDone, kBurst));
        bell_->Ring();
        sleeper.join();
        ASSERT_TRUE(is_woken);
        ASSERT_EQ(Drain(*consumer_, kDone), kBurst);
      });
  std::cout << instructions << " instructions, " << published
            << " kills after the burst was out\n";
  EXPECT_GT(published, 0u);
}

constexpr BufferPool::Party kController{0};
constexpr BufferPool::Party kUnit{1};
constexpr BufferPool::Party kLogger{2};

// A controller sends packets to a unit, which sends some on to its logger and
// others back. Controller and logger survive.
class KilledUnit : public ::testing::Test {
 protected:
  using Descriptors = SpscRing<PacketDescriptor>;
  using Handles = SpscRing<PacketHandle>;
  static constexpr uint32_t kPackets = 16;
  static constexpr size_t kBurst = 3;

  KilledUnit() {
    RegionCarver carver(region_.bytes());
    pool_ = carver.Take(BufferPool::BytesFor(kShares));
    input_ = carver.Take(Descriptors::BytesFor(kPackets));
    output_ = carver.Take(Descriptors::BytesFor(kPackets));
    returns_ = carver.Take(Handles::BytesFor(kPackets));
    log_returns_ = carver.Take(Handles::BytesFor(kPackets));
  }

  void Prepare() {
    std::ranges::fill(region_.bytes(), std::byte{0});
    ASSERT_TRUE(BufferPool::Format(pool_, kShares).ok());
    ASSERT_TRUE(Descriptors::Format(input_, kPackets).ok());
    ASSERT_TRUE(Descriptors::Format(output_, kPackets).ok());
    ASSERT_TRUE(Handles::Format(returns_, kPackets).ok());
    ASSERT_TRUE(Handles::Format(log_returns_, kPackets).ok());
    controller_.emplace(*BufferPool::Attach(pool_, kController));
    logger_.emplace(*BufferPool::Attach(pool_, kLogger));
  }

  bool Send(Descriptors::Producer& to, uint64_t clock) {
    PacketDescriptor item;
    item.packet = controller_->Allocate(60);
    if (item.packet == kNoPacket) return false;
    item.meta.clock = Clock{clock};
    controller_->info(item.packet).arrival.ns = static_cast<int64_t>(clock);
    EXPECT_EQ(to.Push({&item, 1}), 1u);
    return true;
  }

  // The unit: takes bursts, and sends every third packet back, the others to
  // the logger.
  struct Ends {
    BufferPool pool;
    Descriptors::Consumer from;
    Descriptors::Producer to;
    Handles::Producer back;
  };
  Ends AttachUnit() {
    return {*BufferPool::Attach(pool_, kUnit),
            *Descriptors::Consumer::Attach(input_),
            *Descriptors::Producer::Attach(output_, nullptr),
            *Handles::Producer::Attach(returns_, nullptr)};
  }
  static size_t Take(Ends& unit, std::span<PacketDescriptor> burst) {
    const size_t count = unit.from.Read(burst);
    for (size_t i = 0; i < count; ++i) unit.pool.Claim(burst[i].packet);
    unit.from.Release(count);
    return count;
  }
  static void SendOn(Ends& unit, const PacketDescriptor& item) {
    if (value(item.meta.clock) % 3 == 0) {
      unit.back.Push({&item.packet, 1});
    } else {
      unit.to.Push({&item, 1});
    }
  }
  // Runs forever: holds some packets, and sends others on in any order.
  static int RunUnit(Ends unit, Rng rng) {
    constexpr size_t kHeldWhenIdle = 4;
    std::vector<PacketDescriptor> held;
    for (;;) {
      std::array<PacketDescriptor, kBurst> burst;
      const size_t count = Take(unit, burst);
      held.insert(held.end(), burst.begin(), burst.begin() + count);
      rng.Shuffle(std::span(held));
      const size_t kept = std::min(held.size(), kHeldWhenIdle);
      for (size_t left = rng.Below(held.size() - kept + 1); left > 0; --left) {
        SendOn(unit, held.back());
        held.pop_back();
      }
      if (count == 0) std::this_thread::yield();
    }
  }

  template <typename Found>
  void Drain(std::span<std::byte> ring, BufferPool& pool, const Found& found) {
    auto from = *Descriptors::Consumer::Attach(ring);
    PacketDescriptor item;
    while (from.Read({&item, 1}) == 1) {
      EXPECT_TRUE(pool.Claim(item.packet));
      found(item.packet);
      from.Release(1);
    }
  }
  template <typename Found>
  void DrainReturns(std::span<std::byte> ring, const Found& found) {
    auto from = *Handles::Consumer::Attach(ring);
    PacketHandle packet;
    while (from.Pop({&packet, 1}) == 1) {
      found(packet);
      EXPECT_TRUE(controller_->Return(packet));
    }
  }
  uint64_t ClockOf(PacketHandle packet) {
    return static_cast<uint64_t>(controller_->info(packet).arrival.ns);
  }

  inline static const std::array<BufferPool::Options, 3> kShares = {
      {{.small = kPackets, .medium = 0, .large = 0},
       {.small = 4, .medium = 0, .large = 0},
       {.small = 0, .medium = 0, .large = 0}}};
  SharedRegion region_ = MakeRegion(65'536);
  std::span<std::byte> pool_, input_, output_, returns_, log_returns_;
  std::optional<BufferPool> controller_;
  std::optional<BufferPool> logger_;
};

TEST_F(KilledUnit, AtAnyInstructionHasEachPacketAtOnePlace) {
  if (!CanTrace()) GTEST_SKIP() << "this machine allows no ptrace";
  std::optional<Ends> unit;
  std::set<std::array<size_t, 4>> outcomes;
  const int instructions = KillAtEveryInstruction(
      kStride,
      [&] {
        Prepare();
        unit.emplace(AttachUnit());
        auto to = *Descriptors::Producer::Attach(input_, nullptr);
        for (uint64_t clock = 1; clock <= 4; ++clock) Send(to, clock);
      },
      [&] {
        std::array<PacketDescriptor, kBurst> burst;
        const size_t count = Take(*unit, burst);
        for (size_t i = 0; i < count; ++i) SendOn(*unit, burst[i]);
      },
      [&](int k) {
        SCOPED_TRACE(k);
        std::vector<uint64_t> clocks;
        std::array<size_t, 4> found{};
        const auto count_at = [&](size_t place) {
          return [&, place](PacketHandle packet) {
            clocks.push_back(ClockOf(packet));
            ++found[place];
          };
        };
        Drain(output_, *logger_, count_at(0));
        DrainReturns(returns_, count_at(1));
        Drain(input_, *controller_, count_at(2));
        controller_->ForEachHeld(kUnit, count_at(3));
        EXPECT_THAT(clocks, ::testing::UnorderedElementsAre(1, 2, 3, 4));
        EXPECT_EQ(controller_->in_use(), 4 - found[1]);
        outcomes.insert(found);
      });
  std::cout << instructions << " instructions, " << outcomes.size()
            << " outcomes (at the logger, returned, in the ring, held)\n";
  EXPECT_TRUE(outcomes.contains({0, 0, 4, 0}));
  EXPECT_TRUE(outcomes.contains({2, 1, 1, 0}));
  EXPECT_TRUE(kStride > 1 || outcomes.contains({0, 0, 1, 3}));
}

// Units die at random times, one after the other; the next unit gets the
// packets that the dead one held.
TEST_F(KilledUnit, AtAnyTimeLosesNoPacketAndDoublesNone) {
  struct {
    uint64_t packets = 0, kills = 0, held = 0, in_ring = 0;
  } totals;
  const TestSeeds seeds(20, 400);
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    Prepare();
    uint64_t sent = 0;
    std::vector<uint64_t> done;
    const auto finish = [&](PacketHandle packet) {
      done.push_back(ClockOf(packet));
    };
    std::vector<PacketHandle> again;
    for (int unit = 0; unit < 10; ++unit) {
      auto to = *Descriptors::Producer::Attach(input_, nullptr);
      for (const PacketHandle packet : again) {
        PacketDescriptor item;
        item.packet = packet;
        item.meta.clock = Clock{ClockOf(packet)};
        ASSERT_EQ(to.Push({&item, 1}), 1u);
      }
      const Rng of_unit = rng.Fork(static_cast<uint64_t>(unit));
      Child child([&] { return RunUnit(AttachUnit(), of_unit); });
      const auto pump = [&] {
        auto log_returns = *Handles::Producer::Attach(log_returns_, nullptr);
        Drain(output_, *logger_, [&](PacketHandle packet) {
          EXPECT_EQ(log_returns.Push({&packet, 1}), 1u);
        });
        DrainReturns(log_returns_, finish);
        DrainReturns(returns_, finish);
      };
      const uint64_t until = done.size() + rng.Below(200);
      while (done.size() < until) {
        while (rng.Chance(60'000) && Send(to, sent + 1)) ++sent;
        pump();
        if (rng.Chance(32'768)) std::this_thread::yield();
      }
      while (Send(to, sent + 1)) ++sent;
      child.Kill();
      pump();
      again.clear();
      Drain(input_, *controller_,
            [&](PacketHandle packet) { again.push_back(packet); });
      totals.in_ring += again.size();
      controller_->ForEachHeld(kUnit, [&](PacketHandle packet) {
        ++totals.held;
        again.push_back(packet);
      });
      for (const PacketHandle packet : again) controller_->Claim(packet);
      ASSERT_EQ(controller_->in_use(), again.size());
      ++totals.kills;
    }
    for (const PacketHandle packet : again) {
      finish(packet);
      controller_->Free(packet);
    }
    std::ranges::sort(done);
    std::vector<uint64_t> all(sent);
    std::iota(all.begin(), all.end(), 1);
    ASSERT_EQ(done, all);
    totals.packets += sent;
  }
  std::cout << "seeds " << seeds.first << "-" << seeds.last << ": "
            << totals.packets << " packets, " << totals.kills << " kills, "
            << totals.held << " held by the dead, " << totals.in_ring
            << " in their rings\n";
  if (!seeds.is_part) {
    EXPECT_GT(totals.packets, 5'000u);
    EXPECT_GT(totals.held, 100u);
    EXPECT_GT(totals.in_ring, 20u);
  }
}

}  // namespace
}  // namespace snf
