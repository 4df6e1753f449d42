// SPDX-License-Identifier: Apache-2.0
// A buffer pool that several parties share.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/spsc_ring.h"
#include "runtime/ring/test_process.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Party = BufferPool::Party;
using Options = BufferPool::Options;

constexpr Party kController{0};
constexpr Party kUnit{1};
constexpr Party kLogger{2};
constexpr Options kNone = {.small = 0, .medium = 0, .large = 0};

struct Rig {
  explicit Rig(std::vector<Options> shares)
      : region(MakeRegion(BufferPool::BytesFor(shares))) {
    EXPECT_TRUE(BufferPool::Format(region.bytes(), shares).ok());
  }
  BufferPool Attach(Party party) const {
    return *BufferPool::Attach(region.bytes(), party);
  }
  SharedRegion region;
};

std::vector<PacketHandle> HeldBy(BufferPool& pool, Party party) {
  std::vector<PacketHandle> held;
  pool.ForEachHeld(party, [&](PacketHandle handle) { held.push_back(handle); });
  return held;
}

TEST(BufferPoolInARegion, ShowsEachPartyTheSamePacket) {
  const Rig rig({{.small = 4, .medium = 2, .large = 1}, kNone});
  const auto elsewhere = SharedRegion::Map(rig.region.fd());
  ASSERT_TRUE(elsewhere.ok());
  BufferPool controller = rig.Attach(kController);
  BufferPool unit = *BufferPool::Attach(elsewhere->bytes(), kUnit);
  for (const uint32_t bytes : {60u, 3'000u, 100'000u}) {
    const PacketHandle packet = controller.Allocate(bytes);
    controller.info(packet).length = bytes;
    controller.bytes(packet).back() = std::byte{7};
    EXPECT_TRUE(unit.Claim(packet));
    EXPECT_EQ(unit.bytes(packet).size(), bytes);
    EXPECT_EQ(unit.bytes(packet).back(), std::byte{7});
    EXPECT_NE(unit.bytes(packet).data(), controller.bytes(packet).data());
  }
  EXPECT_EQ(controller.in_use(), 3u);
  EXPECT_EQ(unit.in_use(), 0u);
}

TEST(BufferPoolInARegion, CopiesAPacketToItsPlaceInAnotherRegion) {
  const std::vector<Options> shares = {{.small = 4, .medium = 2, .large = 1},
                                       kNone};
  const Rig rig(shares);
  const Rig other_rig(shares);
  BufferPool from = rig.Attach(kController);
  BufferPool to = other_rig.Attach(kController);
  for (const uint32_t bytes : {0u, 60u, 2'048u, 3'000u, 262'144u}) {
    const PacketHandle packet = from.Allocate(bytes);
    from.info(packet) = {};
    from.info(packet).length = bytes;
    from.info(packet).original_length = 7;
    std::ranges::fill(from.bytes(packet), std::byte{9});
    std::ranges::fill(to.room(packet), std::byte{1});
    from.CopyTo(to, packet);
    EXPECT_EQ(to.info(packet).original_length, 7u);
    ASSERT_EQ(to.bytes(packet).size(), bytes);
    EXPECT_TRUE(std::ranges::equal(to.bytes(packet), from.bytes(packet)));
    if (bytes < to.room(packet).size()) {
      EXPECT_EQ(to.room(packet)[bytes], std::byte{1});
    }
  }
  // Whoever writes the other region cannot make it more than there is room for.
  const PacketHandle packet = from.Allocate(60);
  from.info(packet).length = ~uint32_t{0};
  from.CopyTo(to, packet);
  EXPECT_EQ(to.info(packet).length, 2'048u);
}

TEST(BufferPoolInARegion, GivesEachPartyItsOwnShare) {
  const Rig rig({{.small = 2, .medium = 0, .large = 0},
                 {.small = 1, .medium = 0, .large = 1},
                 kNone});
  BufferPool controller = rig.Attach(kController);
  BufferPool unit = rig.Attach(kUnit);
  BufferPool logger = rig.Attach(kLogger);
  const PacketHandle a = controller.Allocate(60);
  const PacketHandle b = controller.Allocate(60);
  EXPECT_EQ(controller.Allocate(60), kNoPacket);
  const PacketHandle c = unit.Allocate(60);
  const PacketHandle d = unit.Allocate(60);
  EXPECT_EQ(unit.Allocate(60), kNoPacket);
  EXPECT_EQ(logger.Allocate(60), kNoPacket);
  for (const PacketHandle packet : {a, b, c, d}) {
    std::memset(controller.room(packet).data(), static_cast<int>(value(packet)),
                controller.room(packet).size());
  }
  for (const PacketHandle packet : {a, b, c, d}) {
    EXPECT_EQ(logger.room(packet).front(), std::byte(value(packet)));
    EXPECT_EQ(logger.room(packet).back(), std::byte(value(packet)));
    EXPECT_EQ(logger.owner(packet),
              packet == a || packet == b ? kController : kUnit);
  }
  EXPECT_DEATH(unit.Free(a), "check failed");
  EXPECT_FALSE(unit.FreeIfOwn(a));
  EXPECT_DEATH(controller.Free(d), "check failed");
}

TEST(BufferPoolInARegion, RefusesWhatIsNoPacketOfItsOwn) {
  const Rig rig({{.small = 2, .medium = 0, .large = 0},
                 {.small = 2, .medium = 0, .large = 0}});
  BufferPool controller = rig.Attach(kController);
  BufferPool unit = rig.Attach(kUnit);
  const PacketHandle packet = controller.Allocate(60);
  const PacketHandle of_unit = unit.Allocate(60);
  EXPECT_FALSE(controller.FreeIfOwn(of_unit));
  EXPECT_TRUE(controller.FreeIfOwn(packet));
  EXPECT_FALSE(controller.FreeIfOwn(packet));
  uint64_t refused = 0;
  for (const PacketHandle bad :
       {packet, of_unit, kNoPacket, PacketHandle{1}, PacketHandle{4},
        PacketHandle{1u << 30}, PacketHandle{3u << 30}}) {
    EXPECT_FALSE(controller.Return(bad)) << value(bad);
    EXPECT_EQ(controller.refused_returns(), ++refused);
  }
  EXPECT_TRUE(unit.Claim(packet));
  EXPECT_FALSE(unit.Claim(PacketHandle{4}));
  EXPECT_FALSE(unit.Claim(PacketHandle{1u << 30}));
  EXPECT_FALSE(unit.Claim(kNoPacket));
}

TEST(BufferPoolInARegion, GivesNoMoreBytesThanABufferHas) {
  const Rig rig({{.small = 2, .medium = 0, .large = 0}, kNone});
  BufferPool controller = rig.Attach(kController);
  const PacketHandle packet = controller.Allocate(60);
  rig.Attach(kUnit).info(packet).length = ~uint32_t{0};
  EXPECT_EQ(controller.bytes(packet).size(), BufferPool::kBufferBytes[0]);
}

TEST(BufferPoolInARegion, FindsWhatAPartyHolds) {
  const Rig rig({{.small = 4, .medium = 4, .large = 0}, kNone, kNone});
  BufferPool controller = rig.Attach(kController);
  BufferPool unit = rig.Attach(kUnit);
  BufferPool logger = rig.Attach(kLogger);
  const PacketHandle a = controller.Allocate(60);
  const PacketHandle b = controller.Allocate(5'000);
  const PacketHandle c = controller.Allocate(60);
  const PacketHandle d = controller.Allocate(60);
  for (const PacketHandle packet : {a, b, c}) unit.Claim(packet);
  logger.Claim(a);
  EXPECT_THAT(HeldBy(controller, kUnit), UnorderedElementsAre(b, c));
  EXPECT_THAT(HeldBy(controller, kLogger), ElementsAre(a));
  EXPECT_THAT(HeldBy(controller, kController), ElementsAre(d));
  controller.ForEachHeld(kUnit,
                         [&](PacketHandle held) { controller.Free(held); });
  EXPECT_THAT(HeldBy(controller, kUnit), IsEmpty());
  EXPECT_EQ(controller.in_use(), 2u);
  unit.Claim(b);  // it is free: no mark makes it used
  EXPECT_THAT(HeldBy(controller, kUnit), IsEmpty());
}

// The buffers that the dead unit held are free again; those that others hold
// are not.
TEST(BufferPoolInARegion, LetsANewUnitHaveTheShareOfADeadOne) {
  const Rig rig({kNone, {.small = 3, .medium = 0, .large = 0}, kNone});
  BufferPool logger = rig.Attach(kLogger);
  PacketHandle at_logger;
  {
    BufferPool dead = rig.Attach(kUnit);
    dead.Allocate(60);
    at_logger = dead.Allocate(60);
    dead.Allocate(60);
    logger.Claim(at_logger);
  }
  BufferPool unit = rig.Attach(kUnit);
  EXPECT_EQ(unit.in_use(), 1u);
  const PacketHandle a = unit.Allocate(60);
  const PacketHandle b = unit.Allocate(60);
  EXPECT_EQ(unit.Allocate(60), kNoPacket);
  EXPECT_NE(a, b);
  EXPECT_NE(a, at_logger);
  EXPECT_NE(b, at_logger);
  EXPECT_TRUE(unit.Return(at_logger));
  EXPECT_EQ(unit.Allocate(60), at_logger);
}

TEST(BufferPoolInARegion, IsNotMadeOrFoundWhereItDoesNotFit) {
  const std::vector<Options> shares = {{.small = 1, .medium = 0, .large = 0}};
  const Rig rig(shares);
  const std::span<std::byte> bytes = rig.region.bytes();
  const size_t size = BufferPool::BytesFor(shares);
  EXPECT_FALSE(BufferPool::Format(bytes.first(size - 1), shares).ok());
  EXPECT_FALSE(BufferPool::Format(bytes.subspan(8), shares).ok());
  const std::vector<Options> many(BufferPool::kMaxParties + 1, kNone);
  EXPECT_FALSE(BufferPool::Format(bytes, many).ok());
  const std::vector<Options> large(3, {.small = 1u << 29});
  EXPECT_FALSE(BufferPool::Format(bytes, large).ok());
  EXPECT_FALSE(BufferPool::Attach(bytes.first(size - 1), kController).ok());
  EXPECT_FALSE(BufferPool::Attach(bytes.first(8), kController).ok());
  EXPECT_FALSE(BufferPool::Attach(bytes, Party{64}).ok());
  EXPECT_TRUE(BufferPool::Attach(bytes.first(size), kController).ok());
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(BufferPool::Attach(bytes, kController).ok());
}

TEST(BufferPoolInARegion, AbortsOnASecondBookForOneShare) {
  const Rig rig({{.small = 1, .medium = 0, .large = 0}});
  BufferPool pool = rig.Attach(kController);
  BufferPool moved = std::move(pool);
  EXPECT_NE(moved.Allocate(60), kNoPacket);
  EXPECT_DEATH(BufferPool copy = moved, "check failed");
}

// A unit that writes anything anywhere spoils packets, but not the records of
// free buffers.
TEST(BufferPoolInARegion, KeepsItsBooksWhateverIsWrittenIntoTheRegion) {
  const TestSeeds seeds(100, 2'000);
  uint64_t returned = 0;
  uint64_t refused = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const Rig rig({{.small = 8, .medium = 2, .large = 0}, kNone});
    BufferPool pool = rig.Attach(kController);
    std::vector<PacketHandle> out;
    for (int step = 0; step < 200; ++step) {
      for (int i = 0; i < 8; ++i) {
        rig.region.bytes()[rng.Below(2'048)] =
            static_cast<std::byte>(rng.Next());
      }
      const PacketHandle packet = pool.Allocate(
          static_cast<uint32_t>(rng.Below(BufferPool::kBufferBytes[1])));
      if (packet != kNoPacket) {
        ASSERT_EQ(std::ranges::count(out, packet), 0);
        out.push_back(packet);
      }
      const PacketHandle any{static_cast<uint32_t>(
          rng.Below(12) | rng.Below(4) << (rng.Chance(32'768) ? 30 : 29))};
      const bool is_out = std::ranges::count(out, any) > 0;
      ASSERT_EQ(pool.Return(any), is_out);
      returned += is_out;
      std::erase(out, any);
      ASSERT_EQ(pool.in_use(), out.size());
      pool.ForEachHeld(kUnit, [&](PacketHandle held) {
        EXPECT_EQ(std::ranges::count(out, held), 1);
        EXPECT_LE(pool.bytes(held).size(), pool.room(held).size());
      });
    }
    refused += pool.refused_returns();
  }
  std::cout << "seeds " << seeds.first << "-" << seeds.last << ": " << returned
            << " returned, " << refused << " refused\n";
  if (seeds.is_part) return;
  EXPECT_GT(returned, 2'000u);
  EXPECT_GT(refused, 2'000u);
}

// The packets of a controller go through a unit, which writes to them, and come
// back out of order. The unit emits packets of its own, which come back to it.
TEST(BufferPoolInARegion, ServesTwoThreadsThroughRings) {
  using Ring = SpscRing<PacketHandle>;
  constexpr uint64_t kPackets = 50'000;
  const Rig rig({{.small = 64, .medium = 0, .large = 0},
                 {.small = 16, .medium = 0, .large = 0}});
  const SharedRegion rings = MakeRegion(2 * 4'096);
  const std::span<std::byte> there = rings.bytes().first(4'096);
  const std::span<std::byte> back = rings.bytes().subspan(4'096);
  ASSERT_TRUE(Ring::Format(there, 128).ok());
  ASSERT_TRUE(Ring::Format(back, 128).ok());
  uint64_t wrong = 0;  // in the unit
  uint64_t wrong_back = 0;
  std::thread unit_thread([&] {
    BufferPool unit = rig.Attach(kUnit);
    auto from = *Ring::Consumer::Attach(there);
    auto to = *Ring::Producer::Attach(back, nullptr);
    Rng rng(1);
    std::vector<PacketHandle> held;
    for (uint64_t got = 0; got < kPackets || !held.empty();) {
      std::vector<PacketHandle> burst(rng.Below(32));
      burst.resize(from.Read(burst));
      for (const PacketHandle packet : burst) {
        wrong += !unit.Claim(packet);
        if (unit.owner(packet) == kUnit) {
          unit.Free(packet);
          continue;
        }
        wrong += unit.info(packet).length != 60 + got % 64;
        wrong += unit.bytes(packet)[59] != std::byte(got);
        unit.bytes(packet)[0] = std::byte(~got);
        held.push_back(packet);
        ++got;
      }
      from.Release(burst.size());
      if (rng.Chance(20'000)) {
        const PacketHandle made = unit.Allocate(60);
        if (made != kNoPacket) held.push_back(made);
      }
      rng.Shuffle(std::span(held));
      held.resize(held.size() -
                  to.Push(std::span(held).last(rng.Below(held.size() + 1))));
      if (burst.empty()) std::this_thread::yield();
    }
  });
  BufferPool pool = rig.Attach(kController);
  auto to = *Ring::Producer::Attach(there, nullptr);
  auto from = *Ring::Consumer::Attach(back);
  uint64_t returned = 0;
  uint64_t emitted = 0;
  for (uint64_t sent = 0; returned < kPackets;) {
    const PacketHandle packet =
        sent < kPackets ? pool.Allocate(124) : kNoPacket;
    if (packet != kNoPacket) {
      pool.info(packet).length = static_cast<uint32_t>(60 + sent % 64);
      pool.bytes(packet)[0] = std::byte(sent);
      pool.bytes(packet)[59] = std::byte(sent);
      ASSERT_EQ(to.Push({&packet, 1}), 1u);
      ++sent;
    }
    std::array<PacketHandle, 32> burst;
    const size_t count = from.Pop(burst);
    for (const PacketHandle done : std::span(burst).first(count)) {
      if (pool.owner(done) == kUnit) {
        ++emitted;
        pool.Claim(done);
        ASSERT_EQ(to.Push({&done, 1}), 1u);
        continue;
      }
      wrong_back += pool.bytes(done)[0] != ~pool.bytes(done)[59];
      ASSERT_TRUE(pool.Return(done));
      ++returned;
    }
    if (packet == kNoPacket && count == 0) std::this_thread::yield();
  }
  unit_thread.join();
  EXPECT_EQ(wrong + wrong_back, 0u);
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_GT(emitted, 1'000u);
}

}  // namespace
}  // namespace snf
