// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/neighbour_table.h"

#include <functional>
#include <vector>

#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_allocations.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr Instant kBegin = {1'000'000'000};

IpAddress Host(uint32_t number) {
  return IpAddress::FromIpv4(be32(0x0a010000 + number));
}
MacAddress MacOf(uint32_t number) {
  MacAddress mac = {std::byte{2}};
  Store(&mac[2], be32(number));
  return mac;
}
Frame FrameOf(uint8_t number) { return Frame(60, std::byte{number}); }

// Collects frames by their first bytes.
struct Frames {
  void operator()(std::span<const std::byte> frame) {
    numbers.push_back(std::to_integer<int>(frame[0]));
  }
  std::vector<int> numbers;
};

bool Learn(NeighbourTable& table, Instant now, uint32_t host, Frames& ready) {
  return table.Learn(now, Host(host), MacOf(host), true, std::ref(ready));
}
void Tick(NeighbourTable& table, Instant now, std::vector<IpAddress>& asked,
          Frames& lost) {
  table.Tick(
      now, [&](const IpAddress& hop) { asked.push_back(hop); }, std::ref(lost));
}

TEST(NeighbourTable, KnowsWhatAnotherProcessKnows) {
  NeighbourTable before(4, 4, 1), after(4, 4, 2);
  Frames lost, ready;
  for (const uint32_t host : {1u, 2u}) {
    before.Ask(kBegin, Host(host), std::ref(lost));
    Learn(before, kBegin, host, ready);
  }
  // The other one waits for a neighbour that the first one knows.
  after.Ask(kBegin + Seconds(20), Host(2), std::ref(lost));
  EXPECT_TRUE(after.Keep(Host(2), FrameOf(7)));
  before.ForEachKnown([&](const IpAddress& address, const MacAddress& mac,
                          Instant confirmed) {
    after.Know(confirmed, address, mac, std::ref(ready));
  });
  EXPECT_EQ(ready.numbers, (std::vector<int>{7}));
  EXPECT_EQ(after.known(), 2u);
  EXPECT_EQ(after.asked(), 0u);
  // As fresh as in the first one.
  const Instant fresh = kBegin + NeighbourTable::kFresh;
  for (const uint32_t host : {1u, 2u}) {
    EXPECT_FALSE(after.Find(fresh + Nanos{-1}, Host(host))->ask);
    EXPECT_TRUE(after.Find(fresh, Host(host))->ask);
    EXPECT_EQ(after.Find(fresh, Host(host))->mac, MacOf(host));
  }
  // Older news do not overrule newer ones.
  after.Know(fresh, Host(1), MacOf(9), std::ref(ready));
  after.Know(kBegin, Host(1), MacOf(1), std::ref(ready));
  EXPECT_EQ(after.Find(fresh, Host(1))->mac, MacOf(9));
  EXPECT_FALSE(after.Find(fresh, Host(1))->ask);
}

TEST(NeighbourTable, KeepsFramesUntilTheNeighbourAnswers) {
  NeighbourTable table(4, 4, 1);
  Frames lost, ready;
  EXPECT_FALSE(table.Find(kBegin, Host(1)).has_value());
  EXPECT_FALSE(table.Keep(Host(1), FrameOf(0)));
  table.Ask(kBegin, Host(1), std::ref(lost));
  EXPECT_TRUE(table.IsAsked(Host(1)));
  for (uint8_t i = 0; i < NeighbourTable::kMostFrames; ++i) {
    EXPECT_TRUE(table.Keep(Host(1), FrameOf(i)));
  }
  EXPECT_FALSE(table.Keep(Host(1), FrameOf(9)));
  EXPECT_TRUE(Learn(table, kBegin, 1, ready));
  EXPECT_EQ(ready.numbers, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(table.Find(kBegin, Host(1))->mac, MacOf(1));
  EXPECT_FALSE(table.IsAsked(Host(1)));
  EXPECT_TRUE(lost.numbers.empty());
}

TEST(NeighbourTable, GivesUpWhoDoesNotAnswerThreeRequests) {
  NeighbourTable table(4, 4, 1);
  Frames lost;
  std::vector<IpAddress> asked;
  table.Ask(kBegin, Host(1), std::ref(lost));
  table.Keep(Host(1), FrameOf(7));
  for (int ms = 0; ms < 2'900; ms += 100) {
    Tick(table, kBegin + Milliseconds(ms), asked, lost);
  }
  EXPECT_EQ(asked, (std::vector<IpAddress>{Host(1), Host(1)}));
  EXPECT_TRUE(lost.numbers.empty());
  Tick(table, kBegin + Milliseconds(3'000), asked, lost);
  EXPECT_EQ(lost.numbers, std::vector<int>{7});
  EXPECT_EQ(table.asked(), 0u);
}

TEST(NeighbourTable, ClaimsMakeNoEntry) {
  NeighbourTable table(4, 4, 1);
  Frames ready;
  for (uint32_t host = 0; host < 1'000; ++host) {
    EXPECT_FALSE(Learn(table, kBegin, host, ready));
  }
  EXPECT_EQ(table.known(), 0u);
  EXPECT_EQ(table.asked(), 0u);
}

TEST(NeighbourTable, TheOldestRequestMakesWayForANewOne) {
  NeighbourTable table(4, 2, 1);
  Frames lost;
  for (uint8_t host = 1; host <= 3; ++host) {
    table.Ask(kBegin, Host(host), std::ref(lost));
    table.Keep(Host(host), FrameOf(host));
  }
  EXPECT_EQ(lost.numbers, std::vector<int>{1});
  EXPECT_EQ(table.asked(), 2u);
  table.Clear(std::ref(lost));
  EXPECT_EQ(lost.numbers.size(), 3u);
  EXPECT_EQ(table.asked(), 0u);
}

TEST(NeighbourTable, AFullTableEvictsWhoGotNothingLately) {
  NeighbourTable table(3, 4, 1);
  Frames frames;
  for (uint32_t host = 1; host <= 4; ++host) {
    table.Ask(kBegin, Host(host), std::ref(frames));
    Learn(table, kBegin, host, frames);
  }
  EXPECT_FALSE(table.Find(kBegin, Host(1)).has_value());
  EXPECT_TRUE(table.Find(kBegin, Host(2)).has_value());
  table.Ask(kBegin, Host(5), std::ref(frames));
  Learn(table, kBegin, 5, frames);
  // 2 was used since, 3 was not.
  EXPECT_TRUE(table.Find(kBegin, Host(2)).has_value());
  EXPECT_FALSE(table.Find(kBegin, Host(3)).has_value());
  EXPECT_EQ(table.known(), 3u);
}

TEST(NeighbourTable, AsksAgainWhoHasSaidNothingForLong) {
  NeighbourTable table(4, 4, 1);
  Frames frames;
  table.Ask(kBegin, Host(1), std::ref(frames));
  Learn(table, kBegin, 1, frames);
  const Instant later = kBegin + NeighbourTable::kFresh;
  EXPECT_FALSE(table.Find(later + Nanos{-1}, Host(1))->ask);
  EXPECT_TRUE(table.Find(later, Host(1))->ask);
  EXPECT_FALSE(table.Find(later, Host(1))->ask);  // once a second
  Learn(table, later, 1, frames);
  EXPECT_FALSE(table.Find(later + Seconds(1), Host(1))->ask);
  const Instant last = later + NeighbourTable::kFresh;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(table.Find(last + Seconds(i), Host(1))->ask) << i;
  }
  EXPECT_FALSE(table.Find(last + Seconds(3), Host(1)).has_value());
  EXPECT_EQ(table.known(), 0u);
}

TEST(NeighbourTable, AClaimOfAnotherAddressCountsOnceASecond) {
  NeighbourTable table(4, 4, 1);
  Frames frames;
  table.Ask(kBegin, Host(1), std::ref(frames));
  Learn(table, kBegin, 1, frames);
  const auto claim = [&](Instant now, uint32_t mac) {
    return table.Learn(now, Host(1), MacOf(mac), false, std::ref(frames));
  };
  EXPECT_FALSE(claim(kBegin + Milliseconds(999), 2));
  EXPECT_EQ(table.Find(kBegin, Host(1))->mac, MacOf(1));
  EXPECT_TRUE(claim(kBegin + Seconds(1), 2));
  EXPECT_EQ(table.Find(kBegin, Host(1))->mac, MacOf(2));
  EXPECT_FALSE(claim(kBegin + Milliseconds(1'500), 3));
}

TEST(NeighbourTable, KeepsItsSizesUnderAnyOrderOfCalls) {
  for (const uint64_t seed : TestSeeds(20).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    NeighbourTable table(16, 8, seed);
    Instant now = kBegin;
    uint64_t kept = 0, gone = 0;
    const auto count = [&](std::span<const std::byte> frame) {
      EXPECT_EQ(frame.size(), 60u);
      ++gone;
    };
    const Frame frame = FrameOf(1);
    const uint64_t before = Allocations();
    for (int step = 0; step < 5'000; ++step) {
      const uint32_t host = static_cast<uint32_t>(rng.Below(64));
      now = now + Milliseconds(static_cast<int64_t>(rng.Below(300)));
      switch (rng.Below(5)) {
        case 0:
        case 1:
          if (!table.Find(now, Host(host)).has_value() &&
              !table.IsAsked(Host(host))) {
            table.Ask(now, Host(host), count);
          }
          kept += table.Keep(Host(host), frame) ? 1 : 0;
          break;
        case 2:
          table.Learn(now, Host(host), MacOf(host), true, count);
          break;
        case 3:
          table.Tick(
              now, [](const IpAddress&) {}, count);
          break;
        default:
          if (const auto found = table.Find(now, Host(host))) {
            EXPECT_EQ(found->mac, MacOf(host));
          }
      }
      EXPECT_LE(table.known(), 16u);
      EXPECT_LE(table.asked(), 8u);
    }
    EXPECT_EQ(Allocations(), before);
    table.Clear(count);
    EXPECT_EQ(kept, gone);
    EXPECT_GT(kept, 100u);
  }
}

}  // namespace
}  // namespace snf
