// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/buffer_pool.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <span>
#include <vector>

#include "base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/ring/shared_region.h"

namespace snf {
namespace {

using ::testing::Each;
using ::testing::Ne;

constexpr uint32_t kSmall = BufferPool::kBufferBytes[0];
constexpr uint32_t kMedium = BufferPool::kBufferBytes[1];
constexpr uint32_t kLarge = BufferPool::kBufferBytes[2];

std::vector<PacketHandle> Take(BufferPool& pool, int n, uint32_t bytes) {
  std::vector<PacketHandle> taken;
  for (int i = 0; i < n; ++i) taken.push_back(pool.Allocate(bytes));
  return taken;
}

TEST(BufferPool, GivesTheSmallestBufferThatFitsWithRoomToGrow) {
  BufferPool pool({.small = 4, .medium = 4, .large = 4});
  const auto room = [&](uint32_t bytes) {
    return pool.room(pool.Allocate(bytes)).size();
  };
  EXPECT_EQ(room(0), kSmall);
  EXPECT_EQ(room(kSmall - kMaxPacketGrowth), kSmall);
  EXPECT_EQ(room(kSmall - kMaxPacketGrowth + 1), kMedium);
  EXPECT_EQ(room(kMedium - kMaxPacketGrowth), kMedium);
  EXPECT_EQ(room(kMedium - kMaxPacketGrowth + 1), kLarge);
  EXPECT_EQ(room(kLarge), kLarge);
  EXPECT_EQ(pool.in_use(), 6u);
}

TEST(BufferPool, HasNoBufferForWhatIsTooLarge) {
  BufferPool pool({.small = 1, .medium = 1, .large = 1});
  EXPECT_EQ(pool.Allocate(BufferPool::kMaxPacketBytes + 1), kNoPacket);
  EXPECT_EQ(pool.Allocate(~uint32_t{0}), kNoPacket);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(BufferPool, FallsBackToLargerBuffersUntilAllAreTaken) {
  BufferPool pool({.small = 2, .medium = 1, .large = 1});
  const std::vector<PacketHandle> taken = Take(pool, 4, 60);
  EXPECT_THAT(taken, Each(Ne(kNoPacket)));
  EXPECT_EQ(pool.room(taken[1]).size(), kSmall);
  EXPECT_EQ(pool.room(taken[2]).size(), kMedium);
  EXPECT_EQ(pool.room(taken[3]).size(), kLarge);
  EXPECT_EQ(pool.Allocate(60), kNoPacket);
  EXPECT_EQ(pool.in_use(), 4u);
  pool.Free(taken[0]);
  EXPECT_EQ(pool.Allocate(kSmall + 1), kNoPacket);
  EXPECT_EQ(pool.Allocate(60), taken[0]);
}

TEST(BufferPool, GivesTheLastOneFreedFirst) {
  BufferPool pool({.small = 8, .medium = 1, .large = 1});
  const std::vector<PacketHandle> taken = Take(pool, 4, 60);
  pool.Free(taken[1]);
  pool.Free(taken[3]);
  pool.Free(taken[0]);
  EXPECT_EQ(pool.Allocate(60), taken[0]);
  EXPECT_EQ(pool.Allocate(60), taken[3]);
  EXPECT_EQ(pool.Allocate(60), taken[1]);
}

TEST(BufferPool, WorksWithoutBuffersOfASize) {
  BufferPool pool({.small = 0, .medium = 0, .large = 1});
  const PacketHandle packet = pool.Allocate(60);
  ASSERT_NE(packet, kNoPacket);
  EXPECT_EQ(pool.room(packet).size(), kLarge);
  EXPECT_EQ(pool.Allocate(60), kNoPacket);
  BufferPool none({.small = 0, .medium = 0, .large = 0});
  EXPECT_EQ(none.Allocate(1), kNoPacket);
}

TEST(BufferPool, AbortsOnFreeingWhatIsNoBuffer) {
  BufferPool pool({.small = 2, .medium = 2, .large = 2});
  const PacketHandle packet = pool.Allocate(60);
  EXPECT_DEATH(pool.Free(kNoPacket), "check failed");
  EXPECT_DEATH(pool.Free(PacketHandle{value(packet) + 1}), "check failed");
  pool.Free(packet);
  EXPECT_DEATH(pool.Free(packet), "check failed");
}

TEST(BufferPool, AbortsOnMoreBuffersThanAHandleCanName) {
  EXPECT_DEATH(BufferPool({.small = uint32_t{1} << 30}), "check failed");
}

TEST(BufferPool, IsAValue) {
  BufferPool pool({.small = 2, .medium = 1, .large = 1});
  const PacketHandle packet = pool.Allocate(4);
  std::memset(pool.room(packet).data(), 'a', 4);
  BufferPool copy = pool;
  std::memset(copy.room(packet).data(), 'b', 4);
  EXPECT_EQ(pool.room(packet)[3], std::byte{'a'});
  copy.Free(packet);
  EXPECT_EQ(pool.in_use(), 1u);
  EXPECT_EQ(copy.in_use(), 0u);
}

// Every buffer has a mark of its own at both ends; nobody else may change it,
// in whatever order buffers are freed.
TEST(BufferPool, KeepsPacketsApartInAnyOrderOfFreeing) {
  struct Held {
    PacketHandle packet;
    std::byte mark;
  };
  uint64_t allocated = 0;
  uint64_t refused = 0;
  uint64_t fell_back = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    BufferPool pool({.small = 6, .medium = 3, .large = 2});
    std::vector<Held> held;
    for (int step = 0; step < 400; ++step) {
      if (rng.Chance(step % 100 < 60 ? 45'000 : 20'000)) {
        const auto bytes = static_cast<uint32_t>(
            rng.Below(uint64_t{BufferPool::kBufferBytes[rng.Below(3)]} + 1));
        const PacketHandle packet = pool.Allocate(bytes);
        if (packet == kNoPacket) {
          ++refused;
          continue;
        }
        ASSERT_GE(pool.room(packet).size(), bytes);
        fell_back += bytes <= kSmall && pool.room(packet).size() > kSmall;
        const auto mark = static_cast<std::byte>(rng.Next());
        std::ranges::fill(pool.room(packet).first(64), mark);
        std::ranges::fill(pool.room(packet).last(64), mark);
        held.push_back({packet, mark});
        ++allocated;
      } else if (!held.empty()) {
        std::swap(held[rng.Below(held.size())], held.back());
        const Held& last = held.back();
        const std::span<std::byte> room = pool.room(last.packet);
        const auto is_ours = [&](std::byte b) { return b == last.mark; };
        ASSERT_TRUE(std::ranges::all_of(room.first(64), is_ours)) << seed;
        ASSERT_TRUE(std::ranges::all_of(room.last(64), is_ours)) << seed;
        pool.Free(last.packet);
        held.pop_back();
      }
      ASSERT_EQ(pool.in_use(), held.size());
    }
  }
  std::cout << "seeds 1-200: " << allocated << " allocated, " << fell_back
            << " in a larger buffer, " << refused << " refused\n";
  EXPECT_GT(allocated, 10'000u);
  EXPECT_GT(fell_back, 300u);
  EXPECT_GT(refused, 300u);
}

// A party dies; others tell which of its buffers they have.
TEST(BufferPool, LeavesToASuccessorWhatOthersHave) {
  const std::vector<BufferPool::Options> shares(
      2, {.small = 4, .medium = 1, .large = 1});
  const auto memory =
      SharedRegion::Create({.bytes = BufferPool::BytesFor(shares)});
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_TRUE(BufferPool::Format(memory->bytes(), shares).ok());
  auto other = BufferPool::Attach(memory->bytes(), BufferPool::Party{1});
  const PacketHandle made = other->Allocate(60);
  const PacketHandle kept = other->Allocate(60);
  PacketHandle given = kNoPacket;
  {
    auto dead = BufferPool::Attach(memory->bytes(), BufferPool::Party{0});
    given = Take(*dead, 3, 60)[1];
    ASSERT_TRUE(dead->Claim(made));
  }
  auto next = BufferPool::Attach(memory->bytes(), BufferPool::Party{0});
  next->TakeAll();
  EXPECT_EQ(next->in_use(), 6u);
  EXPECT_EQ(next->Allocate(60), kNoPacket);
  EXPECT_TRUE(next->IsInUse(given));
  std::vector<PacketHandle> claimed;
  next->ForEachClaimed(BufferPool::Party{1},
                       [&](PacketHandle packet) { claimed.push_back(packet); });
  EXPECT_THAT(claimed, testing::ElementsAre(made));
  EXPECT_TRUE(other->IsInUse(kept));
  next->FreeOthers([&](PacketHandle packet) { return packet == given; });
  EXPECT_EQ(next->in_use(), 1u);
  const std::vector<PacketHandle> rest = Take(*next, 3, 60);
  EXPECT_THAT(rest, testing::Not(testing::Contains(given)));
}

}  // namespace
}  // namespace snf
