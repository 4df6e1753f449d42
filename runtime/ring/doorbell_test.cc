// SPDX-License-Identifier: Apache-2.0
#include "runtime/ring/doorbell.h"

#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/ring/spsc_ring.h"
#include "runtime/ring/test_process.h"

namespace snf {
namespace {

using Ring = SpscRing<uint64_t>;
constexpr Nanos kLong = Seconds(60);
constexpr Nanos kLost = Seconds(30);  // only a lost wake-up takes so long
constexpr Nanos kShort = Milliseconds(1);

Instant Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::nanoseconds(now).count()};
}

// Two rings, there and back, each with a Doorbell.
struct Way {
  Doorbell* bell;
  std::span<std::byte> ring;
};
struct Rig {
  static constexpr uint32_t kCapacity = 4;
  explicit Rig(std::span<std::byte> bytes) {
    RegionCarver carver(bytes);
    for (Way* way : {&there, &back}) {
      way->bell =
          reinterpret_cast<Doorbell*>(carver.Take(sizeof(Doorbell)).data());
      way->ring = carver.Take(Ring::BytesFor(kCapacity));
    }
  }
  void Format() const {
    EXPECT_TRUE(Ring::Format(there.ring, kCapacity).ok());
    EXPECT_TRUE(Ring::Format(back.ring, kCapacity).ok());
  }
  Way there, back;
};

// Waits until ready(), as a Doorbell may also wake without a reason: a producer
// that is interrupted between its look and its call wakes the sleeper of the
// next round. Returns false if no wake-up came within kLost.
template <typename Wait, typename Ready>
bool IsWoken(const Wait& wait, const Ready& ready) {
  const Instant start = Now();
  while (!wait(ready)) {
    if (Now() - start > kLost) return false;
  }
  return Now() - start <= kLost;
}
template <typename Ready>
bool IsWoken(Doorbell& bell, const Ready& ready, uint32_t spins) {
  return IsWoken([&](const Ready& is) { return bell.Wait(is, kLong, spins); },
                 ready);
}

// Waits for `rounds` items and sends each on, increased by 1. Returns how many
// wake-ups were lost, at most 1; or -1 if the rings failed.
int Echo(const Way& from, const Way& to, int rounds, uint32_t spins) {
  auto consumer = *Ring::Consumer::Attach(from.ring);
  auto producer = *Ring::Producer::Attach(to.ring, to.bell);
  for (int round = 0; round < rounds; ++round) {
    uint64_t item = 0;
    if (!IsWoken(
            *from.bell, [&] { return consumer.has_items(); }, spins)) {
      return 1;
    }
    if (consumer.Pop({&item, 1}) != 1) return -1;
    ++item;
    if (producer.Push({&item, 1}) != 1) return -1;
  }
  return 0;
}

TEST(Doorbell, NudgesALightSleeperAlone) {
  for (const auto sleep : {Doorbell::Sleep::kLight, Doorbell::Sleep::kDeep}) {
    Doorbell bell;
    std::atomic<bool> is_told = false, has_looked = false, is_awake = false;
    std::thread sleeper([&] {
      const auto ready = [&] {
        const bool is = is_told;
        has_looked = true;
        return is;
      };
      while (!bell.Wait(ready, Nanos::max(), 0, sleep)) continue;
      is_awake = true;
    });
    // The sleeper looks once it is parked.
    while (!has_looked) std::this_thread::yield();
    is_told = true;
    bell.Nudge();
    if (sleep == Doorbell::Sleep::kDeep) {
      Doorbell{}.Wait([] { return false; }, Milliseconds(50), 0);
      const bool was_awake = is_awake;
      bell.Ring();
      sleeper.join();
      EXPECT_FALSE(was_awake);
    } else {
      sleeper.join();
    }
    EXPECT_TRUE(is_awake);
  }
}

TEST(Doorbell, SaysAtOnceThatThereIsWork) {
  Doorbell bell;
  int asked = 0;
  EXPECT_TRUE(bell.Wait([&] { return ++asked == 3; }, kLong, 10));
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(bell.Wait([] { return true; }, kLong, 0));
}

class DoorbellPolls : public ::testing::Test {
 protected:
  ~DoorbellPolls() override { Doorbell::ResetSpins(); }

  // Returns how long a wait took that nothing ended; looks_ counts its looks.
  std::chrono::nanoseconds WaitFor(Nanos timeout) {
    looks_ = 0;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(bell_.Wait(
        [this] {
          ++looks_;
          return false;
        },
        timeout));
    return std::chrono::steady_clock::now() - begin;
  }

  Doorbell bell_;
  uint32_t looks_ = 0;
};

TEST_F(DoorbellPolls, LookForWorkAsLongAsTheyAreTold) {
  const uint32_t spins = Doorbell::SetBusyPoll(Milliseconds(1));
  EXPECT_GT(spins, 0u);
  EXPECT_EQ(Doorbell::spins(), spins);
  EXPECT_EQ(Doorbell::SpinsOnSpareCpus(), spins);
  EXPECT_GE(WaitFor(Seconds(1)), std::chrono::microseconds(500));
  EXPECT_EQ(looks_, spins + 2);  // before the thread sleeps, and behind that
  EXPECT_EQ(Doorbell::SetBusyPoll(Nanos{0}), 0u);
  EXPECT_EQ(Doorbell::SpinsOnSpareCpus(), 0u);
  WaitFor(Nanos{0});
  EXPECT_EQ(looks_, 2u);
  Doorbell::ResetSpins();
  EXPECT_EQ(Doorbell::spins(), Doorbell::kSpins);
}

TEST_F(DoorbellPolls, LookNoLongerThanTheTimeout) {
  const uint32_t spins = Doorbell::SetBusyPoll(Seconds(1'000));
  WaitFor(Milliseconds(1));
  EXPECT_LT(looks_, spins / 100);
  EXPECT_GT(looks_, 2u);
}

TEST(Doorbell, WaitsNoLongerThanItsTimeout) {
  Doorbell bell;
  for (const Nanos timeout : {kShort, Nanos{0}, Nanos{-5}}) {
    EXPECT_FALSE(bell.Wait([] { return false; }, timeout, 10));
  }
}

TEST(Doorbell, RungWithNobodyThereIsNotRemembered) {
  Doorbell bell;
  bell.Ring();
  EXPECT_FALSE(bell.Wait([] { return false; }, kShort, 0));
}

TEST(Doorbell, IsHeardBetweenTheLastLookAndTheSleep) {
  Doorbell bell;
  int looks = 0;
  const auto work_comes_after_the_first_look = [&] {
    if (++looks == 1) bell.Ring();
    return looks > 1;
  };
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(bell.Wait(work_comes_after_the_first_look, kLong, 0));
  EXPECT_EQ(looks, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::nanoseconds(kLost.ns));
}

TEST(Doorbell, LosesNoWakeUpBetweenThreads) {
  for (const uint32_t spins : {0u, 1u, 200u}) {
    const SharedRegion region = MakeRegion(4'096);
    const Rig rig(region.bytes());
    rig.Format();
    constexpr int kRounds = 3'000;
    int lost = 0;
    std::thread other(
        [&] { lost = Echo(rig.there, rig.back, kRounds, spins); });
    auto producer = *Ring::Producer::Attach(rig.there.ring, rig.there.bell);
    const uint64_t first = 0;
    producer.Push({&first, 1});
    EXPECT_EQ(Echo(rig.back, rig.there, kRounds - 1, spins), 0);
    other.join();
    EXPECT_EQ(lost, 0);
  }
}

TEST(Doorbell, WakesAnotherProcessThatMapsItElsewhere) {
  const SharedRegion region = MakeRegion(4'096);
  const Rig rig(region.bytes());
  rig.Format();
  constexpr int kRounds = 2'000;
  Child child([&] {
    const auto mapped = SharedRegion::Map(region.fd());
    if (!mapped.ok() || mapped->bytes().data() == region.bytes().data()) {
      return 1;
    }
    const Rig elsewhere(mapped->bytes());
    return Echo(elsewhere.there, elsewhere.back, kRounds, 0) == 0 ? 0 : 2;
  });
  auto producer = *Ring::Producer::Attach(rig.there.ring, rig.there.bell);
  auto consumer = *Ring::Consumer::Attach(rig.back.ring);
  for (uint64_t i = 0; i < kRounds; ++i) {
    ASSERT_EQ(producer.Push({&i, 1}), 1u);
    ASSERT_TRUE(IsWoken(
        *rig.back.bell, [&] { return consumer.has_items(); }, 0));
    uint64_t answer = 0;
    ASSERT_EQ(consumer.Pop({&answer, 1}), 1u);
    ASSERT_EQ(answer, i + 1);
  }
  EXPECT_EQ(child.Join(), 0);
}

TEST(Doorbell, OfSeveralAnyWakesWhoSleepsAtAllOfThem) {
  constexpr size_t kBells = 5;
  std::array<Doorbell, kBells> bells;
  std::vector<Doorbell*> all;
  for (Doorbell& bell : bells) all.push_back(&bell);
  constexpr uint32_t kRounds = 1'000;
  std::atomic<uint32_t> round{0};
  std::atomic<uint32_t> heard{0};
  int lost = 0;
  std::thread sleeper([&] {
    for (uint32_t i = 1; i <= kRounds; ++i) {
      const auto has_come = [&] { return round.load() >= i; };
      const auto wait = [&](const auto& is) {
        return Doorbell::WaitAtAll(all, is, kLong, Now(), 0);
      };
      if (!IsWoken(wait, has_come)) ++lost;
      heard = i;
    }
  });
  for (uint32_t i = 1; i <= kRounds; ++i) {
    round = i;
    bells[i % kBells].Ring();
    while (heard.load() < i) std::this_thread::yield();
  }
  sleeper.join();
  EXPECT_EQ(lost, 0);
}

TEST(Doorbell, AtSeveralWaitsNoLongerThanTheTimeout) {
  std::array<Doorbell, 2> bells;
  const std::array<Doorbell*, 2> all = {&bells[0], &bells[1]};
  for (const Nanos timeout : {kShort, Nanos{0}, Nanos{-5}}) {
    EXPECT_FALSE(Doorbell::WaitAtAll(
        all, [] { return false; }, timeout, Now(), 10));
  }
}

// A sleeper that was killed leaves its mark; the next is woken all the same.
TEST(Doorbell, ServesTheNextSleeperAfterOneWasKilled) {
  const SharedRegion region = MakeRegion(4'096);
  const Rig rig(region.bytes());
  rig.Format();
  for (int round = 0; round < 10; ++round) {
    Child child([&] {
      uint64_t ready = 1;
      auto ring = *Ring::Producer::Attach(rig.back.ring, nullptr);
      ring.Push({&ready, 1});
      return rig.there.bell->Wait([] { return false; }, kLong, 0) ? 1 : 0;
    });
    auto ready = *Ring::Consumer::Attach(rig.back.ring);
    while (!ready.has_items()) std::this_thread::yield();
    uint64_t item = 0;
    ready.Pop({&item, 1});
    child.Kill();
    rig.there.bell->Ring();
    std::atomic<bool> is_ready = false;
    std::thread sleeper([&] {
      EXPECT_TRUE(IsWoken(
          *rig.there.bell, [&] { return is_ready.load(); },
          round % 2 == 0 ? 0u : 100u));
    });
    is_ready = true;
    rig.there.bell->Ring();
    sleeper.join();
  }
}

}  // namespace
}  // namespace snf
