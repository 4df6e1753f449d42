// SPDX-License-Identifier: Apache-2.0
//
// A unit's capacity is 1 Gbit/s, and its latency target 350 µs.
#include "controller/units/unit_loads.h"

#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr Instant kNow{1'000'000'000};
constexpr UnitId kU0{0}, kU1{1}, kU2{2};

UnitPoolOptions Options(LoadSignal signal) {
  UnitPoolOptions options;
  options.load_signal = signal;
  options.max_units = 4;
  options.unit_queue_packets = 10;
  options.start_buffer_packets = 2;
  options.recovery_slots = 3;
  return options;
}

// Loads whose units live as the test says.
class Loads : public UnitLoads {
 public:
  explicit Loads(const UnitPoolOptions& options) : UnitLoads(options) {}
  using UnitLoads::channel;
  using UnitLoads::Erase;
  using UnitLoads::Insert;
  using UnitLoads::RefreshFading;
  using UnitLoads::set_share;
};

std::vector<uint32_t> PartsOf(const Loads& loads) {
  std::vector<uint32_t> parts;
  loads.ForEachPart([&](UnitId unit) { parts.push_back(value(unit)); });
  return parts;
}

TEST(UnitLoads, KnowThePlaceableUnitsByRank) {
  Loads loads(Options(LoadSignal::kWait));
  EXPECT_EQ(loads.LeastLoaded(), kNoUnit);
  loads.Insert(kNow, kU2);
  loads.Insert(kNow, kU0);
  EXPECT_EQ(loads.placeable_units(), 2u);
  EXPECT_EQ(loads.Ranked(0), kU0);
  EXPECT_EQ(loads.Ranked(1), kU2);
  EXPECT_FALSE(loads.placeable(kU1));
  loads.Erase(kU0);
  loads.Erase(kU1);
  EXPECT_EQ(loads.placeable_units(), 1u);
  EXPECT_EQ(loads.Ranked(0), kU2);
}

TEST(UnitLoads, CountBytesThatWaitOnceSomethingChangesThere) {
  Loads loads(Options(LoadSignal::kWait));
  loads.Insert(kNow, kU0);
  loads.Insert(kNow, kU1);
  EXPECT_EQ(loads.TakeSlot(kNow, kU0, 17'500), 1u);
  EXPECT_EQ(loads.load(kU0), 0u) << "the index does not follow every packet";
  loads.OpenFlowlet(kU0, 1'000);
  EXPECT_EQ(loads.load(kU0), 410u);
  EXPECT_EQ(loads.LeastLoaded(), kU1);
  EXPECT_EQ(loads.FullestAtMost(1'000), kU0);
  EXPECT_EQ(loads.FullestAtMost(409), kU1);
  EXPECT_TRUE(
      loads.on_drained(kNow, {.unit = kU0, .packets = 1, .bytes = 17'500}));
  EXPECT_EQ(loads.load(kU0), 0u);
  EXPECT_FALSE(loads.on_drained(kNow, {.unit = kU0, .packets = 1}));
}

TEST(UnitLoads, MeasureAPartByItsShare) {
  Loads loads(Options(LoadSignal::kWait));
  loads.set_share(kU0, kFullLoad);
  loads.set_share(kU1, kFullLoad / 2);
  loads.Insert(kNow, kU0);
  loads.Insert(kNow, kU1);
  EXPECT_FALSE(loads.is_part(kU0));
  EXPECT_TRUE(loads.is_part(kU1));
  EXPECT_EQ(PartsOf(loads), std::vector<uint32_t>{1});
  loads.TakeSlot(kNow, kU1, 8'750);
  EXPECT_EQ(loads.load(kU1), 410u);
  EXPECT_EQ(loads.QuantaAt(kU0, 100), 100u);
  EXPECT_EQ(loads.QuantaAt(kU1, 100), 200u);
  EXPECT_EQ(loads.LeastLoaded(), kU0);
  loads.TakeSlot(kNow, kU0, 35'000);
  loads.OpenFlowlet(kU0, 1'000);
  EXPECT_EQ(loads.LeastLoaded(), kU1) << "parts count as well";
  loads.Erase(kU1);
  EXPECT_TRUE(PartsOf(loads).empty());
  EXPECT_FALSE(loads.placeable(kU1));
}

TEST(UnitLoads, TakeSlotsUpToTheLimitOfTheChannel) {
  Loads loads(Options(LoadSignal::kWait));
  loads.channel(kU0).set_is_buffer(true);
  EXPECT_EQ(loads.TakeSlot(kNow, kU0, 1), 1u);
  EXPECT_EQ(loads.TakeSlot(kNow, kU0, 1), 2u);
  EXPECT_EQ(loads.TakeSlot(kNow, kU0, 1), 0u) << "the start buffer is full";
  loads.channel(kU0).set_is_buffer(false);
  for (uint64_t number = 3; number <= 10; ++number) {
    EXPECT_EQ(loads.TakeSlot(kNow, kU0, 1), number);
  }
  EXPECT_EQ(loads.TakeSlot(kNow, kU0, 1), 0u);
  for (uint64_t number = 11; number <= 13; ++number) {
    EXPECT_EQ(loads.TakeRecoverySlot(kNow, kU0, 1), number);
  }
  EXPECT_EQ(loads.TakeRecoverySlot(kNow, kU0, 1), 0u);
  EXPECT_EQ(loads.channel_number(kU0), 13u);
}

TEST(UnitLoads, FadeOnceTheyAreRefreshed) {
  Loads loads(Options(LoadSignal::kDemand));
  loads.Insert(kNow, kU0);
  loads.TakeSlot(kNow, kU0, 1'250'000);
  loads.on_drained(kNow, {.unit = kU0, .packets = 1, .bytes = 1'250'000});
  const uint32_t load = loads.load(kU0);
  EXPECT_GT(load, 0u);
  const Instant later = kNow + Seconds(1);
  EXPECT_EQ(loads.load(kU0), load);
  loads.RefreshFading(later, 1);
  EXPECT_EQ(loads.load(kU0), 0u);
}

TEST(UnitLoads, NumberPacketsAboveAllOfEarlierControllers) {
  UnitPoolOptions options = Options(LoadSignal::kWait);
  options.epoch = 2;
  Loads loads(options);
  EXPECT_EQ(loads.TakeSlot(kNow, kU0, 1), (uint64_t{2} << 40) + 1);
}

}  // namespace
}  // namespace snf
