// SPDX-License-Identifier: Apache-2.0
#include "controller/core/placement.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iostream>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr Instant kNow{1'000'000'000};
constexpr int64_t kQuantumBps = 1'000'000;  // of a unit of 1.024 Gbit/s
constexpr UnitId kU0{0}, kU1{1}, kU2{2}, kU3{3};

ControllerOptions OptionsOf(uint32_t units, uint32_t warm,
                            uint32_t units_per_host = 1) {
  ControllerOptions options;
  options.units_per_host = units_per_host;
  options.load_signal = LoadSignal::kDemand;
  options.max_units = units;
  options.warm_units = warm;
  options.unit_capacity_bps = kFullLoad * kQuantumBps;
  return options;
}

// A pool of active units with these loads, then `warm` warm and `stopped`
// stopped ones.
class Units {
 public:
  explicit Units(const std::vector<uint32_t>& loads, uint32_t warm = 0,
                 uint32_t stopped = 0, uint32_t units_per_host = 1)
      : pool_(OptionsOf(static_cast<uint32_t>(loads.size()) + warm + stopped,
                        static_cast<uint32_t>(loads.size()) + warm,
                        units_per_host)) {
    for (const uint32_t load : loads) {
      const UnitId unit = pool_.TakeWarm(kNow, out_);
      pool_.on_ready(kNow, unit);
      pool_.OpenFlowlet(unit, load * kQuantumBps);
      EXPECT_EQ(pool_.load(unit), load);
    }
    out_.clear();
  }

  Placement Place(const PlacementRequest& request,
                  std::string_view policy = "snf") {
    out_.clear();
    const Placement placement =
        FindPlacementPolicy(policy)->Place(kNow, request, pool_, out_);
    EXPECT_LE(out_.commands().size(), 1u);
    return placement;
  }
  Placement Place(uint32_t demand, UnitId owner = kNoUnit,
                  uint32_t alpha = 256) {
    return Place({.demand = demand, .owner = owner, .alpha = alpha});
  }
  // Places a flowlet and counts its demand.
  UnitId Open(uint32_t demand) {
    const UnitId unit = Place(demand).unit;
    pool_.OpenFlowlet(unit, demand * kQuantumBps);
    return unit;
  }
  // The unit that the last Place started, or -1 for none.
  int started() const {
    return out_.empty() ? -1 : value(out_.commands()[0].unit);
  }
  bool started_warm() const { return out_.commands()[0].warm; }
  // Lets time pass until a unit on which nothing is open is in that state.
  void LeaveIdle(UnitId unit, uint32_t load, UnitPool::State state) {
    ControllerOut out;
    pool_.CloseFlowlet(unit, load * kQuantumBps);
    while (pool_.state(unit) != state) {
      ASSERT_TRUE(pool_.on_timer(pool_.next_wakeup(), out) ||
                  pool_.next_wakeup() < Instant::max());
    }
  }
  UnitPool& pool() { return pool_; }

 private:
  UnitPool pool_;
  ControllerOut out_;
};

ReplicaSet Replicas(std::initializer_list<UnitId> units) {
  ReplicaSet set;
  for (const UnitId unit : units) set.units[set.count++] = unit;
  return set;
}

TEST(PlacementPolicies, AreFoundByName) {
  std::vector<std::string_view> names;
  for (const PlacementPolicy* policy : PlacementPolicies()) {
    names.push_back(policy->name());
    EXPECT_EQ(FindPlacementPolicy(policy->name()), policy);
    EXPECT_FALSE(policy->help().empty()) << policy->name();
    EXPECT_EQ(policy->per_packet(),
              policy->name() == "per_packet" || policy->name() == "rotate");
    EXPECT_EQ(policy->moves_flows(),
              policy->name() != "vanilla_flow" && policy->name() != "hash");
  }
  EXPECT_EQ(names,
            (std::vector<std::string_view>{"snf", "vanilla_flow", "smart_flow",
                                           "per_packet", "hash", "rotate"}));
  EXPECT_EQ(FindPlacementPolicy("best"), nullptr);
}

TEST(SnfPolicy, TakesTheFullestUnitWithRoom) {
  Units units({100, 900, 700, 950});
  EXPECT_EQ(units.Place(100).unit, kU1);
  EXPECT_EQ(units.Place(74).unit, kU3);
  EXPECT_EQ(units.Place(75).unit, kU1);
  EXPECT_EQ(units.Place(125).unit, kU2);
  EXPECT_EQ(units.Place(924).unit, kU0);
  EXPECT_EQ(units.started(), -1);
}

TEST(SnfPolicy, BreaksTiesByTheLowestId) {
  Units units({300, 500, 500, 500});
  EXPECT_EQ(units.Place(10).unit, kU1);
  EXPECT_EQ(units.Place(10, kU3, 0).unit, kU1);
  EXPECT_EQ(units.Place(10, kU0, 200).unit, kU0);  // 300 + 200 = 500
  EXPECT_EQ(units.Place(10, kU0, 199).unit, kU1);
  Units reversed({500, 300});
  EXPECT_EQ(reversed.Place(10, kU1, 200).unit, kU0);
  EXPECT_EQ(reversed.Place(10, kU1, 201).unit, kU1);
}

// Units 0 to 2 are on host 0, 3 to 5 on host 1.
TEST(SnfPolicy, PrefersTheHostThatHasTheState) {
  Units units({1000, 300, 200, 900, 600, 500}, 0, 0, 3);
  PlacementRequest request = {.demand = 100, .owner = kU0, .alpha = 700};
  EXPECT_EQ(units.Place(request).unit, kU1);  // 300 + 700 = 1,000 > 900
  request.alpha = 599;
  EXPECT_EQ(units.Place(request).unit, kU3);  // 300 + 599 < 900
  // A replica is for all units of its host.
  request.alpha = 700;
  request.demand = 500;
  request.replicas = Replicas({kU3});
  EXPECT_EQ(units.Place(request).unit, UnitId{5});  // 500 + 700
  EXPECT_TRUE(HasState(request, UnitId{4}, units.pool()));
  request.replicas = {};
  EXPECT_EQ(units.Place(request).unit, kU1);
  EXPECT_TRUE(HasState(request, kU2, units.pool()));
  EXPECT_FALSE(HasState(request, UnitId{4}, units.pool()));
  // If each host has one unit, the fullest with room is taken.
  Units apart({1000, 300, 200, 900, 600, 500});
  EXPECT_EQ(apart.Place({.demand = 100, .owner = kU0, .alpha = 700}).unit, kU3);
}

TEST(SnfPolicy, WeighsStateByAlpha) {
  Units units({800, 600});
  EXPECT_EQ(units.Place(10, kU1, 256).unit, kU1);
  EXPECT_EQ(units.Place(10, kU1, 0).unit, kU0);
  Units idle_owner({0, 1'000});
  EXPECT_EQ(idle_owner.Place(24, kU0, 1'024).unit, kU0);
  EXPECT_EQ(idle_owner.Place(24, kU0, 999).unit, kU1);
}

TEST(SnfPolicy, WeighsAReplicaAsItDoesTheOwner) {
  Units units({800, 600, 700, 500});
  PlacementRequest request = {.demand = 10, .owner = kU3, .alpha = 256};
  EXPECT_EQ(units.Place(request).unit, kU0);  // 800 against 500 + 256
  request.replicas = Replicas({kU1});
  EXPECT_EQ(units.Place(request).unit, kU1);
  request.replicas = Replicas({kU1, kU2});
  EXPECT_EQ(units.Place(request).unit, kU2);
  request.replicas = Replicas({kU2, kU0});
  EXPECT_EQ(units.Place(request).unit, kU0);
  request.demand = 300;  // no room at 0; 700 + 256 at 2 is the most
  EXPECT_EQ(units.Place(request).unit, kU2);
  EXPECT_EQ(PlacementScore(request, kU0, units.pool()), -1);
  EXPECT_EQ(PlacementScore(request, kU1, units.pool()), 600);
  EXPECT_EQ(PlacementScore(request, kU2, units.pool()), 956);
  EXPECT_EQ(PlacementScore(request, kU3, units.pool()), 756);
}

TEST(SnfPolicy, BreaksTiesOfReplicasByTheLowestId) {
  Units units({500, 300, 300, 300});
  PlacementRequest request = {.demand = 10, .owner = kU3, .alpha = 250};
  request.replicas = Replicas({kU2, kU1});
  EXPECT_EQ(units.Place(request).unit, kU1);
  request.alpha = 200;  // 300 + 200 = 500
  EXPECT_EQ(units.Place(request).unit, kU0);
  Units fullest_last({300, 300, 500});
  request = {.demand = 10, .owner = kU2, .alpha = 200};
  request.replicas = Replicas({kU1, kU0});
  EXPECT_EQ(fullest_last.Place(request).unit, kU2);  // it has state as well
  request.owner = kNoUnit;
  EXPECT_EQ(fullest_last.Place(request).unit, kU0);
}

TEST(SnfPolicy, IgnoresReplicasThatAreNotPlaceable) {
  Units units({100}, /*warm=*/1, /*stopped=*/1);
  PlacementRequest request = {.demand = 10, .alpha = 1'024};
  request.replicas = Replicas({kU2, kU1});
  EXPECT_EQ(units.Place(request).unit, kU0);
  EXPECT_EQ(units.started(), -1);
}

TEST(SnfPolicy, LeavesAnOwnerWithoutRoom) {
  Units units({1'000, 200});
  EXPECT_EQ(units.Place(24, kU0, 1'024).unit, kU0);
  EXPECT_EQ(units.Place(25, kU0, 1'024).unit, kU1);
  EXPECT_FALSE(units.Place(25, kU0, 1'024).overcommitted);
}

TEST(SnfPolicy, IgnoresAnOwnerThatIsNotPlaceable) {
  Units units({100}, /*warm=*/1, /*stopped=*/1);
  EXPECT_EQ(units.Place(10, kU1, 1'024).unit, kU0);
  EXPECT_EQ(units.Place(10, kU2, 1'024).unit, kU0);
  EXPECT_EQ(units.started(), -1);
}

TEST(SnfPolicy, TakesAWarmUnitBeforeACold) {
  Units units({1'000}, /*warm=*/1, /*stopped=*/1);
  const Placement placement = units.Place(25);
  EXPECT_EQ(placement.unit, kU1);
  EXPECT_FALSE(placement.overcommitted);
  EXPECT_EQ(units.started(), 1);
  EXPECT_TRUE(units.started_warm());
}

TEST(SnfPolicy, StartsAColdUnitAndOvercommitsTheLeastLoadedMeanwhile) {
  Units units({1'010, 1'000}, /*warm=*/0, /*stopped=*/1);
  const Placement placement = units.Place(25);
  EXPECT_EQ(placement.unit, kU1);
  EXPECT_TRUE(placement.overcommitted);
  EXPECT_EQ(units.started(), 2);
  EXPECT_FALSE(units.started_warm());
  EXPECT_EQ(units.pool().cold_starts(), 1u);
}

TEST(SnfPolicy, LetsTheFirstFlowletsWaitWhereNoUnitIsReady) {
  Units units({}, /*warm=*/0, /*stopped=*/3);
  EXPECT_EQ(units.Open(100), kU0);
  EXPECT_EQ(units.started(), 0);
  EXPECT_EQ(units.Open(100), kU0);
  EXPECT_EQ(units.started(), -1);
  EXPECT_EQ(units.pool().placeable_units(), 1u);
  EXPECT_EQ(units.pool().starting_units(), 0u);
}

TEST(SnfPolicy, DoesNotStampede) {
  // There is one full unit; then flowlets of half a unit come while others
  // start.
  Units units({1'024}, /*warm=*/0, /*stopped=*/50);
  for (int i = 0; i < 20; ++i) units.Open(512);
  // The load of 11 units is asked for, so 10 are started besides the first.
  EXPECT_EQ(units.pool().cold_starts(), 10u);
}

TEST(SnfPolicy, OvercommitsWhereNoUnitIsLeft) {
  Units units({900, 1'000, 800});
  const Placement placement = units.Place(300);
  EXPECT_EQ(placement.unit, kU2);
  EXPECT_TRUE(placement.overcommitted);
  EXPECT_EQ(units.started(), -1);
}

TEST(SnfPolicy, PlacesADemandLargerThanAnyUnit) {
  Units units({5, 3, 4});
  const Placement placement = units.Place(2'000, kU0, 1'024);
  EXPECT_EQ(placement.unit, kU1);
  EXPECT_TRUE(placement.overcommitted);
  Units idle({0});
  EXPECT_FALSE(idle.Place(kFullLoad).overcommitted);
  EXPECT_TRUE(idle.Place(kFullLoad + 1).overcommitted);
}

TEST(SnfPolicy, UsesAStartingUnitWhenAllOthersAreGone) {
  Units units({1'000}, /*warm=*/0, /*stopped=*/1);
  EXPECT_TRUE(units.Place(25).overcommitted);  // starts unit 1
  units.LeaveIdle(kU0, 1'000, UnitPool::State::kStopping);
  EXPECT_EQ(units.pool().placeable_units(), 0u);
  const Placement placement = units.Place(25);
  EXPECT_EQ(placement.unit, kU1);
  EXPECT_FALSE(placement.overcommitted);
  EXPECT_EQ(units.started(), -1);
  EXPECT_EQ(units.pool().starting_units(), 0u);
}

TEST(SnfPolicy, HasNoAnswerWhileAllUnitsAreStopping) {
  Units units({0});
  units.LeaveIdle(kU0, 0, UnitPool::State::kStopping);
  EXPECT_EQ(units.Place(25).unit, kNoUnit);
  units.pool().on_stopped(kU0);
  EXPECT_EQ(units.Place(25).unit, kU0);
}

// --- The policies to compare with

TEST(VanillaFlowPolicy, KeepsAFlowWhereItIs) {
  Units units({800, 600, 1'010});
  PlacementRequest request = {.demand = 100, .alpha = 256};
  Placement placement = units.Place(request, "vanilla_flow");
  EXPECT_EQ(placement.unit, kU0);  // a new flow
  EXPECT_FALSE(placement.kept);
  request.owner = kU1;
  placement = units.Place(request, "vanilla_flow");
  EXPECT_EQ(placement.unit, kU1);
  EXPECT_TRUE(placement.kept);
  EXPECT_FALSE(placement.overcommitted);
  request.owner = kU2;  // though it has no room
  placement = units.Place(request, "vanilla_flow");
  EXPECT_EQ(placement.unit, kU2);
  EXPECT_TRUE(placement.overcommitted);
  EXPECT_EQ(units.started(), -1);
}

TEST(VanillaFlowPolicy, TakesItsUnitIntoUseAgain) {
  Units units({800}, /*warm=*/2, /*stopped=*/1);
  const Placement warm =
      units.Place({.demand = 100, .owner = kU2}, "vanilla_flow");
  EXPECT_EQ(warm.unit, kU2);
  EXPECT_FALSE(warm.overcommitted);
  EXPECT_EQ(units.started(), 2);
  EXPECT_TRUE(units.started_warm());
  const Placement cold =
      units.Place({.demand = 100, .owner = kU3}, "vanilla_flow");
  EXPECT_EQ(cold.unit, kU3);
  EXPECT_EQ(units.started(), 3);
  EXPECT_FALSE(units.started_warm());
  EXPECT_TRUE(units.pool().placeable(kU3));
}

TEST(VanillaFlowPolicy, PlacesAFlowAnewWhoseUnitIsStopping) {
  Units units({500, 0, 700});
  units.LeaveIdle(kU1, 0, UnitPool::State::kStopping);
  PlacementRequest request = {.demand = 100, .owner = kU1, .alpha = 1'024};
  request.replicas = Replicas({kU0});  // a new flow has no state anywhere
  const Placement placement = units.Place(request, "vanilla_flow");
  EXPECT_EQ(placement.unit, kU2);
  EXPECT_FALSE(placement.kept);
  EXPECT_EQ(units.started(), -1);
}

TEST(SmartFlowPolicy, PlacesAFlowAnewOnceAPeriod) {
  Units units({900, 600, 800, 100});
  PlacementRequest request = {
      .demand = 10, .owner = kU1, .alpha = 256, .new_period = false};
  request.replicas = Replicas({kU2});
  EXPECT_EQ(units.Place(request, "smart_flow").unit, kU1);
  request.new_period = true;
  // State counts at the owner, 600 + 256, and not at a replica, 800 + 256.
  EXPECT_EQ(units.Place(request, "smart_flow").unit, kU0);
  request.alpha = 301;
  EXPECT_EQ(units.Place(request, "smart_flow").unit, kU1);
  request = {.demand = 10, .new_period = false};  // a new flow
  EXPECT_EQ(units.Place(request, "smart_flow").unit, kU0);
}

TEST(SmartFlowPolicy, OvercommitsWithinAPeriod) {
  Units units({1'000, 200});
  PlacementRequest request = {
      .demand = 25, .owner = kU0, .alpha = 1'024, .new_period = false};
  const Placement placement = units.Place(request, "smart_flow");
  EXPECT_EQ(placement.unit, kU0);
  EXPECT_TRUE(placement.overcommitted);
  request.new_period = true;
  EXPECT_EQ(units.Place(request, "smart_flow").unit, kU1);
}

TEST(PerPacketPolicy, PacksAsSnfDoes) {
  Units units({800, 600, 700});
  PlacementRequest request = {.demand = 10, .owner = kU1, .alpha = 100};
  EXPECT_EQ(units.Place(request, "per_packet").unit, kU0);
  request.replicas = Replicas({kU2});
  request.alpha = 101;
  EXPECT_EQ(units.Place(request, "per_packet").unit, kU2);
}

TEST(HashPolicy, SpreadsFlowsOverAllUnits) {
  Units units({1'024, 0}, /*warm=*/1, /*stopped=*/1);
  constexpr uint64_t kQuarter = uint64_t{1} << 62;
  struct Case {
    uint64_t key_hash;
    UnitId unit;
    bool overcommitted;
    int started;
  };
  for (const Case& c :
       {Case{0, kU0, true, -1}, Case{kQuarter - 1, kU0, true, -1},
        Case{kQuarter, kU1, false, -1}, Case{2 * kQuarter, kU2, false, 2},
        Case{2 * kQuarter, kU2, false, -1}, Case{3 * kQuarter, kU3, false, 3},
        Case{4 * kQuarter - 1, kU3, false, -1}}) {
    // Neither the owner nor a replica counts.
    PlacementRequest request = {
        .demand = 1, .owner = kU1, .alpha = 1'024, .key_hash = c.key_hash};
    request.replicas = Replicas({kU1});
    const Placement placement = units.Place(request, "hash");
    EXPECT_EQ(placement.unit, c.unit) << c.key_hash;
    EXPECT_EQ(placement.kept, c.unit == kU1) << c.key_hash;
    EXPECT_EQ(placement.overcommitted, c.overcommitted) << c.key_hash;
    EXPECT_EQ(units.started(), c.started) << c.key_hash;
  }
}

TEST(RotatePolicy, TakesTheUnitAfterTheOwnerWhateverItsLoad) {
  Units units({0, kFullLoad, 0});
  PlacementRequest request = {.demand = 1, .key_hash = uint64_t{1} << 63};
  EXPECT_EQ(units.Place(request, "rotate").unit, kU1);
  request.owner = kU1;
  EXPECT_EQ(units.Place(request, "rotate").unit, kU2);
  request.owner = kU2;
  const Placement placement = units.Place(request, "rotate");
  EXPECT_EQ(placement.unit, kU0);
  EXPECT_FALSE(placement.kept);
  request.owner = kU0;
  EXPECT_EQ(units.Place(request, "rotate").unit, kU1);
  units.LeaveIdle(kU2, 0, UnitPool::State::kStopping);
  request.owner = kU1;
  EXPECT_EQ(units.Place(request, "rotate").unit, kU0);
  EXPECT_TRUE(Units({0}).Place({.owner = kU0}, "rotate").kept);
}

TEST(HashPolicy, GoesOnToTheNextUnitWhereOneIsStopping) {
  Units units({0, 0, 0});
  const PlacementRequest last = {.demand = 1, .key_hash = ~uint64_t{0}};
  EXPECT_EQ(units.Place(last, "hash").unit, kU2);
  units.LeaveIdle(kU2, 0, UnitPool::State::kStopping);
  EXPECT_EQ(units.Place(last, "hash").unit, kU0);
  units.LeaveIdle(kU0, 0, UnitPool::State::kStopping);
  EXPECT_EQ(units.Place(last, "hash").unit, kU1);
  units.LeaveIdle(kU1, 0, UnitPool::State::kStopping);
  for (const PlacementPolicy* policy : PlacementPolicies()) {
    EXPECT_EQ(units.Place(last, policy->name()).unit, kNoUnit);
    EXPECT_EQ(units.started(), -1);
  }
}

// --- Against an O(n) reading of proto/protocol.md §2

struct NaivePlacement {
  Placement placement;
  bool warm = false;
  bool cold = false;
};

NaivePlacement NaivePlace(const UnitPool& pool, const PlacementRequest& request,
                          uint32_t warm, uint32_t stopped) {
  UnitId best = kNoUnit, least = kNoUnit;
  int64_t best_score = -1;
  for (uint32_t i = 0; i < pool.max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (pool.state(unit) != UnitPool::State::kActive) continue;
    const int64_t load = pool.load(unit);
    if (least == kNoUnit || load < pool.load(least)) least = unit;
    if (load + request.demand > kFullLoad) continue;
    const bool has_state = HasState(request, unit, pool);
    const int64_t score = load + (has_state ? request.alpha : 0);
    if (score > best_score) {
      best = unit;
      best_score = score;
    }
  }
  if (best != kNoUnit) return {{.unit = best}};
  if (warm > 0) {
    const auto first_warm = static_cast<uint16_t>(pool.placeable_units());
    return {{.unit = UnitId{first_warm}}, true};
  }
  return {{.unit = least, .overcommitted = true}, false, stopped > 0};
}

UnitId RandomUnit(Rng& rng, size_t units) {
  return UnitId{static_cast<uint16_t>(rng.Below(units))};
}

TEST(SnfPolicy, EqualsANaiveScanOfAllUnits) {
  constexpr uint64_t kSeed = 11;
  Rng rng(kSeed);
  // Owner, replica, other; warm, cold, overcommitted.
  std::array<uint64_t, 6> totals{};
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint32_t> loads(1 + rng.Below(rng.Chance(3'000) ? 200 : 6));
    const uint64_t low = rng.Below(kFullLoad + 1);
    for (uint32_t& load : loads) {
      load = static_cast<uint32_t>(low + rng.Below(kFullLoad + 1 - low));
      if (rng.Chance(20'000)) load = loads[0];
    }
    const auto warm = static_cast<uint32_t>(rng.Below(2));
    const auto stopped = static_cast<uint32_t>(rng.Below(2));
    const auto per_host =
        rng.Chance(50'000)
            ? 1
            : static_cast<uint32_t>(1 + rng.Below(HostMap::kMaxUnitsPerHost));
    Units units(loads, warm, stopped, per_host);
    const size_t all = loads.size() + warm + stopped;
    PlacementRequest request = {
        .demand =
            static_cast<uint32_t>(rng.Below(rng.Chance(20'000) ? 1'100 : 99)),
        .owner = rng.Chance(20'000) ? kNoUnit : RandomUnit(rng, all),
        .alpha = static_cast<uint32_t>(rng.Below(4) * 256)};
    request.replicas.count =
        rng.Chance(30'000) ? 0 : static_cast<uint8_t>(rng.Below(17));
    for (uint8_t i = 0; i < request.replicas.count; ++i) {
      request.replicas.units[i] = RandomUnit(rng, all);
    }
    const NaivePlacement naive =
        NaivePlace(units.pool(), request, warm, stopped);
    const Placement got = units.Place(request);
    ASSERT_EQ(got.unit, naive.placement.unit) << "round " << round;
    ASSERT_EQ(got.overcommitted, naive.placement.overcommitted);
    ASSERT_EQ(units.started() >= 0, naive.warm || naive.cold);
    const auto replicas = request.replicas.span();
    if (got.unit == request.owner) {
      ++totals[0];
    } else if (std::ranges::find(replicas, got.unit) != replicas.end()) {
      ++totals[1];
    } else {
      ++totals[2];
    }
    totals[3] += naive.warm ? 1 : 0;
    totals[4] += naive.cold ? 1 : 0;
    totals[5] += got.overcommitted ? 1 : 0;
  }
  std::cout << "seed " << kSeed << ": " << totals[0] << " to the owner, "
            << totals[1] << " to a replica, " << totals[2] << " elsewhere, "
            << totals[3] << " warm, " << totals[4] << " cold, " << totals[5]
            << " overcommitted\n";
  for (const uint64_t total : totals) EXPECT_GT(total, 500u);
}

}  // namespace
}  // namespace snf
