// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/overlay.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <vector>

#include "base/test_seeds.h"
#include "traces/synthesis/flowlet_figures.h"
#include "traces/synthesis/overlay_tally.h"

namespace snf {
namespace {

// Short, long with pauses, a single packet, a burst of more than B.
Conversations Various() {
  Conversations conversations;
  conversations.Add(std::vector<PacketShape>{
      {{}, 74}, {Microseconds(300), 74}, {Milliseconds(2), 900}});
  conversations.Add(std::vector<PacketShape>{{{}, 100},
                                             {Milliseconds(20), 1'000},
                                             {Milliseconds(21), 500},
                                             {Seconds(40), 60}});
  conversations.Add(std::vector<PacketShape>{{{}, 80}});
  std::vector<PacketShape> burst;
  for (int i = 0; i < 30; ++i) burst.push_back({Microseconds(i * 20), 1'514});
  conversations.Add(burst);
  return conversations;
}

std::vector<Overlay::Packet> All(Overlay& overlay) {
  std::vector<Overlay::Packet> packets;
  for (Overlay::Packet packet; overlay.Next(packet);) packets.push_back(packet);
  return packets;
}

TEST(Overlay, GivesPacketsInTheOrderOfTimeAndComesNearTheRate) {
  const Conversations conversations = Various();
  Overlay overlay(conversations, {.rate_bps = 100'000'000,
                                  .duration = Milliseconds(500),
                                  .seed = TestSeeds::One(1)});
  uint64_t bytes = 0;
  Nanos last{};
  for (const Overlay::Packet& packet : All(overlay)) {
    EXPECT_GE(packet.time, last);
    last = packet.time;
    bytes += conversations.WireBytes(packet.conversation, packet.number);
  }
  EXPECT_LT(last, Milliseconds(500));
  EXPECT_GE(last, Milliseconds(490));
  EXPECT_EQ(bytes, overlay.total_bytes());
  EXPECT_NEAR(static_cast<double>(bytes), 6.25e6, 6.25e4);
}

TEST(Overlay, ShowsOfEachCopyARunOfItsPacketsAtItsOwnPace) {
  const Conversations conversations = Various();
  Overlay overlay(conversations, {.rate_bps = 20'000'000,
                                  .duration = Milliseconds(300),
                                  .seed = TestSeeds::One(1)});
  std::map<uint64_t, Overlay::Packet> before;  // by copy
  std::map<uint32_t, uint64_t> holders;        // of slots
  for (const Overlay::Packet& packet : All(overlay)) {
    const auto [holder, is_free] = holders.emplace(packet.slot, packet.copy);
    EXPECT_EQ(packet.is_first, is_free);
    EXPECT_EQ(holder->second, packet.copy);
    if (packet.is_first) {
      EXPECT_EQ(packet.is_under_way, packet.number > 0);
    } else {
      const Overlay::Packet& last = before.at(packet.copy);
      const auto offsets = conversations.OffsetsOf(packet.conversation);
      EXPECT_EQ(packet.conversation, last.conversation);
      EXPECT_EQ(packet.number, last.number + 1);
      EXPECT_EQ(packet.time.ns - last.time.ns,
                offsets[packet.number] - offsets[last.number]);
    }
    before[packet.copy] = packet;
    if (packet.is_last) holders.erase(packet.slot);
    EXPECT_EQ(packet.is_end,
              packet.number + 1 == conversations.CountOf(packet.conversation));
  }
  EXPECT_TRUE(holders.empty());
  EXPECT_LE(overlay.copies_at_most(), before.size());
}

TEST(Overlay, IsTheSameForTheSameSeedOnly) {
  const Conversations conversations = Various();
  const auto times = [&conversations](uint64_t seed) {
    Overlay overlay(
        conversations,
        {.rate_bps = 10'000'000, .duration = Milliseconds(100), .seed = seed});
    std::vector<std::pair<int64_t, uint64_t>> all;
    for (const Overlay::Packet& packet : All(overlay)) {
      all.emplace_back(packet.time.ns, packet.copy);
    }
    return all;
  };
  EXPECT_EQ(times(7), times(7));
  EXPECT_NE(times(7), times(8));
}

// Bytes per twentieth of the window, over many seeds: the first must be as full
// as the others.
void ExpectStationary(const Conversations& conversations, Nanos period) {
  constexpr size_t kParts = 20;
  std::array<double, kParts> bytes{};
  double all = 0;
  const uint64_t seed = TestSeeds::One(1);
  for (uint64_t i = 0; i < 600; ++i) {
    Overlay overlay(conversations, {.rate_bps = 50'000'000,
                                    .duration = Milliseconds(300),
                                    .seed = seed + i,
                                    .period = period});
    for (const Overlay::Packet& packet : All(overlay)) {
      const double wire = static_cast<double>(
          conversations.WireBytes(packet.conversation, packet.number));
      bytes[static_cast<size_t>(packet.time.ns) * kParts / 300'000'000] += wire;
      all += wire;
    }
  }
  for (const double part : bytes) EXPECT_NEAR(part * kParts / all, 1, 0.06);
}

TEST(Overlay, IsStationaryFromTheFirstMoment) {
  Conversations conversations;
  std::vector<PacketShape> longer_than_a_window;
  for (int i = 0; i < 20; ++i) {
    longer_than_a_window.push_back({Milliseconds(100 * i), 1'000});
  }
  conversations.Add(longer_than_a_window);
  conversations.Add(std::vector<PacketShape>{{{}, 900}, {Seconds(50), 900}});
  ExpectStationary(conversations, Nanos::max());
}

TEST(Overlay, IsStationaryOnACircle) {
  Conversations conversations;
  conversations.Add(std::vector<PacketShape>{
      {{}, 1'000}, {Milliseconds(1), 1'000}, {Milliseconds(390), 1'000}});
  conversations.Add(std::vector<PacketShape>{{{}, 300}});
  ExpectStationary(conversations, Milliseconds(400));
}

// The theory, against copies that are drawn one by one from long ago.
TEST(WindowFigures, AreWhatWindowsShowOfCopiesThatBeganAtAnyTime) {
  const Conversations conversations = Various();
  constexpr int64_t kWindow = 250'000'000;
  Rng rng(TestSeeds::One(1));
  FlowletFigures seen;
  for (int i = 0; i < 2'000'000; ++i) {
    // Of the same rate for all: only starts that can be seen matter, of which
    // the second conversation has more.
    const size_t c = rng.Below(conversations.size());
    const int64_t start = rng.Uniform(-40'300'000'000, kWindow - 1);
    FlowletCut cut;
    bool is_seen = false;
    const auto offsets = conversations.OffsetsOf(c);
    for (size_t k = 0; k < offsets.size(); ++k) {
      const int64_t time = start + offsets[k];
      if (time < 0 || time >= kWindow) continue;
      const uint32_t begun = cut.Take({time}, conversations.WireBytes(c, k));
      for (size_t t = 0; t < kFlowletGaps.size(); ++t) {
        seen.flowlets[t] += begun >> t & 1;
      }
      is_seen = true;
    }
    seen.flows += is_seen ? 1 : 0;
  }
  const FlowletFigures told =
      WindowFigures(conversations, {kWindow}, Nanos::max(), {});
  for (size_t t = 0; t < kFlowletGaps.size(); ++t) {
    EXPECT_NEAR(seen.PerFlow(t) / told.PerFlow(t), 1, 0.02) << t;
  }
}

TEST(WindowFigures, AreWhatAnOverlayShows) {
  const Conversations conversations = Various();
  for (const int64_t ms : {20, 300}) {
    Overlay overlay(conversations, {.rate_bps = 2'000'000'000,
                                    .duration = Milliseconds(ms),
                                    .seed = TestSeeds::One(1)});
    OverlayTally tally;
    double alive_ns = 0;
    for (const Overlay::Packet& packet : All(overlay)) {
      tally.Take(packet,
                 conversations.WireBytes(packet.conversation, packet.number));
      const auto time = static_cast<double>(packet.time.ns);
      alive_ns += (packet.is_last ? time : 0) - (packet.is_first ? time : 0);
    }
    const Nanos time = Milliseconds(ms);
    EXPECT_NEAR(tally.MeanAlive(time), alive_ns / static_cast<double>(time.ns),
                1e-6);
    EXPECT_EQ(tally.flows(), overlay.total_copies());
    EXPECT_EQ(tally.under_way(), overlay.total_under_way());
    const FlowletFigures told =
        WindowFigures(conversations, Milliseconds(ms), Nanos::max(), {});
    for (size_t t = 0; t < kFlowletGaps.size(); ++t) {
      EXPECT_NEAR(tally.figures().PerFlow(t) / told.PerFlow(t), 1, 0.03)
          << ms << " ms, gap " << t;
    }
  }
}

TEST(Overlay, CutsNothingTwiceOnACircleAsLongAsTheWindow) {
  const Conversations conversations = Various();
  Overlay overlay(conversations, {.rate_bps = 1'000'000,
                                  .duration = Seconds(45),
                                  .seed = TestSeeds::One(1),
                                  .period = Seconds(45)});
  std::map<uint64_t, std::set<uint32_t>> shown;  // packets by copy
  std::map<uint64_t, uint32_t> of;
  for (const Overlay::Packet& packet : All(overlay)) {
    EXPECT_TRUE(shown[packet.copy].insert(packet.number).second);
    of[packet.copy] = packet.conversation;
  }
  for (const auto& [copy, numbers] : shown) {
    EXPECT_EQ(numbers.size(), conversations.CountOf(of[copy]));
  }
}

TEST(Overlay, TakesConversationsByTheirWeights) {
  Conversations conversations;
  for (int i = 0; i < 2; ++i) {
    conversations.Add(std::vector<PacketShape>{{{}, 1'000}});
  }
  Overlay overlay(conversations, {.rate_bps = 800'000'000,
                                  .duration = Milliseconds(100),
                                  .seed = TestSeeds::One(1),
                                  .weights = {1, 3}});
  std::array<double, 2> count{};
  for (const Overlay::Packet& packet : All(overlay)) {
    ++count[packet.conversation];
  }
  EXPECT_NEAR(count[1] / count[0], 3, 0.25);
}

TEST(Overlay, GivesEveryNthCopyABurst) {
  const Conversations conversations = Various();
  Overlay overlay(conversations, {.rate_bps = 1'000'000'000,
                                  .duration = Milliseconds(200),
                                  .seed = TestSeeds::One(1),
                                  .bursts = {.every = 10}});
  std::map<uint64_t, uint32_t> bursts;  // packets by copy
  Nanos last{};
  for (const Overlay::Packet& packet : All(overlay)) {
    EXPECT_GE(packet.time, last);
    EXPECT_LT(packet.time, Milliseconds(200));
    last = packet.time;
    if (packet.conversation == Overlay::kBurst) {
      EXPECT_FALSE(packet.is_first);
      EXPECT_EQ(packet.number, bursts[packet.copy]++);
    }
  }
  EXPECT_EQ(bursts.size(), overlay.total_copies() / 10);
  for (const auto& [copy, packets] : bursts) {
    EXPECT_EQ(copy % 10, 9u);
    EXPECT_LE(packets, 20u);
  }
}

}  // namespace
}  // namespace snf
