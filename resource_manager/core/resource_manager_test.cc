// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/resource_manager.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

using State = ResourceManager::State;

// A manager whose units start and confirm at once, unless told otherwise.
struct Bench {
  explicit Bench(const ManagerOptions& options)
      : manager(options, 1, false, out) {}

  ControllerLife Join(uint8_t c) {
    return *manager.on_join(now, ControllerId{c}, out);
  }
  LeaseRefusal AskFor(ControllerLife from, int64_t capacity) {
    return manager.on_ask(now, {from, ++asks, capacity}, out);
  }
  void Run() {
    for (size_t i = 0; i < out.size(); ++i) {
      const ManagerCommand command = out[i];
      if (const auto* start = std::get_if<StartUnit>(&command)) {
        (start->is_repeated ? starts_again : starts).push_back(start->unit);
        if (ready) manager.on_ready(now, start->unit, out);
      } else if (const auto* set = std::get_if<SetShare>(&command)) {
        sets.push_back(*set);
        if (confirm) manager.on_share_set(now, Answer(*set), out);
      } else if (const auto* grant = std::get_if<Grant>(&command)) {
        grants[grant->lease] = *grant;
      } else if (const auto* lost = std::get_if<Gone>(&command)) {
        gone.push_back(lost->lease);
      } else if (const auto* stop = std::get_if<StopUnit>(&command)) {
        stops.push_back(stop->unit);
      } else if (const auto* revoke = std::get_if<Revoke>(&command)) {
        revoked.push_back(revoke->lease);
      }
    }
    out.clear();
  }
  // As time passes, so much later.
  void Tick(Nanos later) {
    now = now + later;
    manager.on_tick(now, out);
    Run();
  }
  static ShareSet Answer(const SetShare& set) {
    return {set.to, 1, set.lease, set.sequence, set.share};
  }

  ManagerOut out;
  Instant now{0};
  bool ready = true;
  bool confirm = true;
  uint64_t asks = 0;
  std::vector<UnitLife> starts;
  std::vector<UnitLife> starts_again;
  std::vector<SetShare> sets;
  std::map<LeaseId, Grant> grants;
  std::vector<LeaseId> gone;
  std::vector<LeaseId> revoked;
  std::vector<UnitLife> stops;
  ResourceManager manager;
};

TEST(ResourceManager, PacksHalvesOfTwoControllersIntoOneUnit) {
  Bench b({});
  const auto first = b.Join(1);
  const auto second = b.Join(2);
  b.AskFor(first, 2 * kWholeUnit + kWholeUnit / 2);
  b.Run();
  b.AskFor(second, 2 * kWholeUnit + kWholeUnit / 4);
  b.Run();
  EXPECT_EQ(b.manager.units_up(), 5u);
  // More of the first goes into the unit of which it has a part.
  b.AskFor(first, 2 * kWholeUnit + 3 * kWholeUnit / 4);
  b.Run();
  EXPECT_EQ(b.manager.units_up(), 5u);
  EXPECT_EQ(b.grants.size(), 6u);
  EXPECT_EQ(b.manager.held(ControllerId{1}), 2'816);
}

TEST(ResourceManager, EndsALeaseThatIsNotRenewedWithinItsTerm) {
  Bench b({});
  const auto c = b.Join(1);
  b.AskFor(c, kWholeUnit);
  b.Run();
  const LeaseId lease = b.grants.begin()->first;
  b.now = b.now + Milliseconds(900);
  EXPECT_EQ(b.manager.on_renew(b.now, {c, lease}, b.out), LeaseRefusal::kNone);
  b.now = b.now + Milliseconds(999);
  b.manager.on_tick(b.now, b.out);
  b.Run();
  EXPECT_EQ(b.manager.held(c.controller), kWholeUnit);
  b.now = b.now + Milliseconds(1);
  b.manager.on_tick(b.now, b.out);
  b.Run();
  EXPECT_EQ(b.manager.held(c.controller), 0);
  EXPECT_EQ(b.gone, std::vector{lease});
  EXPECT_EQ(b.manager.on_renew(b.now, {c, lease}, b.out),
            LeaseRefusal::kUnknownLease);
}

TEST(ResourceManager, ASuccessorGoesOnWithTheLeases) {
  Bench b({});
  const auto first = b.Join(1);
  b.AskFor(first, 2 * kWholeUnit + 100);
  b.Run();
  ASSERT_EQ(b.grants.size(), 3u);
  const auto before = std::exchange(b.grants, {});
  const auto next = b.manager.on_succeed(b.now, first.controller, b.out);
  ASSERT_TRUE(next.has_value());
  EXPECT_GT(next->epoch, first.epoch);
  b.Run();
  ASSERT_EQ(b.grants.size(), 3u);
  for (const auto& [lease, grant] : b.grants) {
    EXPECT_EQ(grant.to, *next);
    EXPECT_EQ(grant.unit, before.at(lease).unit);
    EXPECT_EQ(grant.share, before.at(lease).share);
  }
  EXPECT_EQ(b.manager.held(first.controller), 2 * kWholeUnit + 100);
  EXPECT_EQ(b.manager.units_up(), 3u);
  const LeaseId lease = b.grants.begin()->first;
  EXPECT_EQ(b.manager.on_renew(b.now, {first, lease}, b.out),
            LeaseRefusal::kStaleEpoch);
  EXPECT_EQ(b.manager.on_renew(b.now, {*next, lease}, b.out),
            LeaseRefusal::kNone);
  EXPECT_FALSE(b.manager.on_succeed(b.now, ControllerId{9}, b.out));
  EXPECT_EQ(b.manager.refused(LeaseRefusal::kUnknownController), 1u);
}

TEST(ResourceManager, KeepsAReservationUntilTheLastSetIsConfirmed) {
  Bench b({.max_units = 1});
  const auto c = b.Join(1);
  b.AskFor(c, kWholeUnit);
  b.Run();
  const LeaseId lease = b.grants.begin()->first;
  b.confirm = false;
  b.manager.on_give_back(b.now, {c, lease, 100}, b.out);
  b.Run();
  ASSERT_EQ(b.sets.size(), 2u);
  EXPECT_EQ(b.manager.free(GlobalUnitId{0}), 0);
  ShareSet old = Bench::Answer(b.sets[1]);
  old.sequence = b.sets[0].sequence;
  EXPECT_EQ(b.manager.on_share_set(b.now, old, b.out),
            LeaseRefusal::kStaleNumber);
  EXPECT_EQ(b.manager.free(GlobalUnitId{0}), 0);
  EXPECT_EQ(b.manager.on_share_set(b.now, Bench::Answer(b.sets[1]), b.out),
            LeaseRefusal::kNone);
  EXPECT_EQ(b.manager.free(GlobalUnitId{0}), kWholeUnit - 100);
}

TEST(ResourceManager, GivesAnotherUnitForOneThatDied) {
  Bench b({.max_units = 2});
  const auto c = b.Join(1);
  b.AskFor(c, kWholeUnit);
  b.Run();
  const UnitLife unit = b.grants.begin()->second.unit;
  b.manager.on_unit_dead(b.now, unit, b.out);
  b.Run();
  EXPECT_EQ(b.manager.state(unit.unit), State::kFailed);
  EXPECT_EQ(b.gone.size(), 1u);
  EXPECT_EQ(b.manager.held(c.controller), kWholeUnit);
  EXPECT_EQ(b.manager.on_unit_dead(b.now, unit, b.out),
            LeaseRefusal::kWrongState);
}

TEST(ResourceManager, BoundsStartsAndBacksOffAfterAFailure) {
  Bench b({.max_units = 8, .max_starts = 2});
  b.ready = false;
  const auto c = b.Join(1);
  b.AskFor(c, 5 * kWholeUnit);
  b.Run();
  ASSERT_EQ(b.starts.size(), 2u);
  b.manager.on_unit_dead(b.now, b.starts[0], b.out);
  b.Run();
  EXPECT_EQ(b.starts.size(), 2u);
  b.now = b.now + Milliseconds(99);
  b.manager.on_tick(b.now, b.out);
  b.Run();
  EXPECT_EQ(b.starts.size(), 2u);
  b.now = b.now + Milliseconds(1);
  b.manager.on_tick(b.now, b.out);
  b.Run();
  EXPECT_EQ(b.starts.size(), 3u);
}

TEST(ResourceManager, RefusesBadInputByNameAndGoesOn) {
  Bench b({.max_units = 2});
  const auto c = b.Join(1);
  const auto other = b.Join(2);
  b.AskFor(c, kWholeUnit);
  b.Run();
  const LeaseId lease = b.grants.begin()->first;
  auto& m = b.manager;
  EXPECT_EQ(b.AskFor(c, -1), LeaseRefusal::kNegative);
  EXPECT_EQ(b.AskFor(c, 2 * kWholeUnit + 1), LeaseRefusal::kTooMuch);
  EXPECT_EQ(m.on_ask(b.now, {c, 1, 1}, b.out), LeaseRefusal::kStaleNumber);
  EXPECT_EQ(m.on_renew(b.now, {other, lease}, b.out), LeaseRefusal::kNotHolder);
  EXPECT_EQ(m.on_give_back(b.now, {c, lease, -1}, b.out),
            LeaseRefusal::kNegative);
  EXPECT_EQ(m.on_give_back(b.now, {c, lease, kWholeUnit + 1}, b.out),
            LeaseRefusal::kTooMuch);
  EXPECT_EQ(m.on_give_back(b.now, {c, lease, kWholeUnit}, b.out),
            LeaseRefusal::kStaleNumber);
  EXPECT_EQ(m.on_ready(b.now, {GlobalUnitId{9}, 1}, b.out),
            LeaseRefusal::kUnknownUnit);
  EXPECT_EQ(m.on_ready(b.now, {GlobalUnitId{0}, 1}, b.out),
            LeaseRefusal::kStaleIncarnation);
  EXPECT_EQ(m.on_controller_dead(b.now, c, b.out), LeaseRefusal::kNone);
  EXPECT_EQ(b.AskFor(c, 1), LeaseRefusal::kUnknownController);
  const auto again = b.Join(1);
  EXPECT_EQ(b.AskFor(c, 1), LeaseRefusal::kStaleEpoch);
  EXPECT_EQ(m.refused(LeaseRefusal::kNegative), 2u);
  EXPECT_EQ(b.AskFor(again, kWholeUnit), LeaseRefusal::kNone);
  b.Run();
  EXPECT_EQ(m.held(again.controller), kWholeUnit);
}

TEST(ResourceManager, StopsAUnitThatWasWarmForTooLong) {
  Bench b({.max_units = 2, .keep_warm = Seconds(3)});
  const auto c = b.Join(1);
  b.AskFor(c, kWholeUnit);
  b.Run();
  const auto [lease, grant] = *b.grants.begin();
  b.manager.on_give_back(b.now, {c, lease, 0}, b.out);
  b.Run();
  EXPECT_EQ(b.manager.state(grant.unit.unit), State::kWarm);
  b.Tick(Milliseconds(2'999));
  EXPECT_EQ(b.manager.state(grant.unit.unit), State::kWarm);
  EXPECT_TRUE(b.stops.empty());
  b.Tick(Milliseconds(1));
  EXPECT_EQ(b.manager.state(grant.unit.unit), State::kDraining);
  EXPECT_EQ(b.stops, std::vector{grant.unit});
  EXPECT_EQ(b.manager.units_up(), 1u);
  EXPECT_EQ(b.manager.on_stopped(b.now, grant.unit, b.out),
            LeaseRefusal::kNone);
  EXPECT_EQ(b.manager.state(grant.unit.unit), State::kCold);
  EXPECT_EQ(b.manager.units_up(), 0u);
}

TEST(ResourceManager, GivesUpAStartThatTakesTooLong) {
  Bench b({.max_units = 2, .max_starts = 1, .start_timeout = Seconds(1)});
  b.ready = false;
  const auto c = b.Join(1);
  b.AskFor(c, kWholeUnit);
  b.Run();
  ASSERT_EQ(b.starts.size(), 1u);
  b.Tick(Milliseconds(999));
  EXPECT_EQ(b.manager.state(b.starts[0].unit), State::kStarting);
  b.Tick(Milliseconds(1));
  EXPECT_EQ(b.manager.state(b.starts[0].unit), State::kFailed);
  EXPECT_EQ(b.stops, std::vector{b.starts[0]});
  // Too late. After the back-off the other unit is started.
  EXPECT_EQ(b.manager.on_ready(b.now, b.starts[0], b.out),
            LeaseRefusal::kWrongState);
  b.ready = true;
  b.Tick(Milliseconds(100));
  EXPECT_EQ(b.manager.held(c.controller), kWholeUnit);
  EXPECT_NE(b.starts[1].unit, b.starts[0].unit);
}

TEST(ResourceManager, ClosesAUnitOnceItsLeasesAreGivenBackOrOver) {
  Bench b({.max_units = 2});
  const auto c = b.Join(1);
  const auto late = b.Join(2);
  b.AskFor(c, kWholeUnit / 2);
  b.AskFor(late, kWholeUnit / 2);
  b.Run();
  const UnitLife unit = b.grants.begin()->second.unit;
  EXPECT_EQ(b.manager.free(unit.unit), 0);
  EXPECT_EQ(b.manager.Close(b.now, unit, b.out), LeaseRefusal::kNone);
  b.Run();
  ASSERT_EQ(b.revoked.size(), 2u);
  EXPECT_EQ(b.manager.Close(b.now, unit, b.out), LeaseRefusal::kWrongState);
  const LeaseId first = b.revoked[0];
  const ControllerLife holder = b.grants.at(first).to;
  b.manager.on_give_back(b.now, {holder, first, 0}, b.out);
  b.Run();
  EXPECT_TRUE(b.stops.empty());
  b.Tick(Milliseconds(100));  // the grace
  EXPECT_EQ(b.gone, std::vector{b.revoked[1]});
  EXPECT_EQ(b.stops, std::vector{unit});
  // Both have what they asked for, at the other unit.
  EXPECT_EQ(b.manager.held(c.controller), kWholeUnit / 2);
  EXPECT_EQ(b.manager.held(late.controller), kWholeUnit / 2);
  EXPECT_NE(b.starts.back().unit, unit.unit);
}

TEST(ResourceManager, SplitsAUnitAmongSoManyLeasesOnly) {
  Bench b({.max_units = 1});
  std::vector<ControllerLife> lives;
  for (uint8_t c = 0; c < 9; ++c) {
    lives.push_back(b.Join(c));
    b.AskFor(lives[c], 100);
    b.Run();
  }
  EXPECT_EQ(b.grants.size(), 8u);
  EXPECT_EQ(b.manager.held(ControllerId{8}), 0);
  const auto [lease, grant] = *b.grants.begin();
  b.manager.on_give_back(b.now, {grant.to, lease, 0}, b.out);
  b.Run();
  EXPECT_EQ(b.grants.size(), 9u);
  EXPECT_EQ(b.manager.held(ControllerId{8}), 100);
}

// Where flows cannot move to another unit, a lease that is over is drained only
// once its holder has another one.
TEST(ResourceManager, LeasesThatAreDrainedKeepNobodyFromANewOne) {
  Bench b({.max_units = 1});
  std::vector<ControllerLife> lives;
  for (uint8_t c = 0; c < 8; ++c) {
    lives.push_back(b.Join(c));
    b.AskFor(lives[c], 50);
    b.Run();
  }
  EXPECT_EQ(b.grants.size(), 8u);
  b.confirm = false;
  b.Tick(Seconds(1));
  EXPECT_EQ(b.gone.size(), 8u);
  b.sets.clear();
  for (const ControllerLife& life : lives) b.AskFor(life, 50);
  b.Run();
  EXPECT_EQ(b.sets.size(), 8u);
  for (const ControllerLife& life : lives) {
    EXPECT_EQ(b.manager.held(life.controller), 50);
  }
  // Twice as many as there can be in use.
  b.Tick(Seconds(1));
  EXPECT_EQ(b.gone.size(), 16u);
  for (const ControllerLife& life : lives) b.AskFor(life, 50);
  EXPECT_EQ(b.manager.held(ControllerId{0}), 0);
}

TEST(ResourceManager, GrantsNothingBeforeAllUnitsHaveReportedRightly) {
  ManagerOut out;
  ResourceManager m({.max_units = 2}, 3, true, out);
  ASSERT_EQ(out.size(), 2u);
  out.clear();
  const Instant now{};
  const uint64_t earlier = uint64_t{2} << 32;  // of the manager before
  const ControllerLife c = {ControllerId{1}, earlier | 1};
  const UnitLife unit = {GlobalUnitId{0}, earlier | 2};
  EXPECT_EQ(m.on_join(now, ControllerId{2}, out), std::nullopt);
  const auto report = [&](std::vector<ReportedLease> leases) {
    return m.on_report(now, {unit, 3}, leases, out);
  };
  const auto told = [&](uint64_t number, int64_t share, int64_t target) {
    return ReportedLease{LeaseId{earlier | number}, c, 1, share, target};
  };
  EXPECT_EQ(m.on_report(now, {{unit.unit, uint64_t{3} << 32}, 3}, {}, out),
            LeaseRefusal::kStaleIncarnation);
  // What it has told an earlier manager may have changed since.
  EXPECT_EQ(m.on_report(now, {unit, 2}, {}, out), LeaseRefusal::kStaleEpoch);
  EXPECT_EQ(m.state(unit.unit), State::kUnknown);
  EXPECT_EQ(report({told(3, 600, 600), told(4, 400, 0)}), LeaseRefusal::kNone);
  EXPECT_EQ(report({}), LeaseRefusal::kWrongState);
  EXPECT_TRUE(m.recovering());
  EXPECT_EQ(m.held(c.controller), 600);
  EXPECT_EQ(m.free(unit.unit), 24);
  const LeaseId lease{earlier | 3};
  EXPECT_EQ(m.on_renew(now, {c, lease}, out), LeaseRefusal::kRecovering);
  EXPECT_EQ(m.on_give_back(now, {c, lease, 0}, out), LeaseRefusal::kRecovering);
  EXPECT_EQ(m.Close(now, unit, out), LeaseRefusal::kRecovering);
  out.clear();
  EXPECT_EQ(m.on_ask(now, {c, 1, 2 * kWholeUnit}, out), LeaseRefusal::kNone);
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(m.on_report(now, {{GlobalUnitId{1}, 0}, 3, true}, {}, out),
            LeaseRefusal::kNone);
  EXPECT_FALSE(m.recovering());
  ASSERT_FALSE(out.empty());  // now it is
  const auto* const told_all = std::get_if<NewManager>(out.data());
  ASSERT_NE(told_all, nullptr);
  EXPECT_EQ(told_all->manager_epoch, 3u);
  EXPECT_EQ(m.on_renew(now, {c, lease}, out), LeaseRefusal::kNone);
}

// Its leases are unknown, so they end; nobody waits for it.
TEST(ResourceManager, AUnitWhoseReportCannotBeDrains) {
  const Instant now{};
  const uint64_t earlier = uint64_t{2} << 32;
  const ControllerLife c = {ControllerId{1}, earlier | 1};
  const UnitLife unit = {GlobalUnitId{0}, earlier | 2};
  const auto told = [&](uint64_t number, int64_t share, int64_t target) {
    return ReportedLease{LeaseId{earlier | number}, c, 1, share, target};
  };
  for (const auto& bad : std::vector<std::vector<ReportedLease>>{
           {told(3, 600, 600), told(4, 500, 0)},
           {told(3, 100, 600), told(4, 500, 500)},
           {told(3, 100, 100), told(3, 100, 100)},
           {told(3, -1, 0)},
           {told(3, 0, -1)},
           {told(3, kWholeUnit + 1, 0)},
           {told(uint64_t{1} << 32, 100, 100)}}) {  // of this manager or later
    ManagerOut out;
    ResourceManager m({.max_units = 1}, 3, true, out);
    out.clear();
    EXPECT_EQ(m.on_report(now, {unit, 3}, bad, out), LeaseRefusal::kBadReport);
    EXPECT_EQ(m.refused(LeaseRefusal::kBadReport), 1u);
    EXPECT_FALSE(m.recovering());
    EXPECT_EQ(m.state(unit.unit), State::kDraining);
    const auto* const stop = std::get_if<StopUnit>(out.data());
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->unit, unit);
    // Whoever has a lease of it hears that it is over.
    out.clear();
    EXPECT_EQ(m.on_renew(now, {c, LeaseId{earlier | 3}}, out),
              LeaseRefusal::kUnknownLease);
    EXPECT_NE(std::get_if<Gone>(out.data()), nullptr);
    EXPECT_EQ(m.on_stopped(now, unit, out), LeaseRefusal::kNone);
    EXPECT_EQ(m.on_ask(now, {c, 1, 100}, out), LeaseRefusal::kNone);
    EXPECT_EQ(m.state(unit.unit), State::kStarting);
  }
}

// A manager that has room for less than the units have: what does not fit ends,
// and the rest goes on.
TEST(ResourceManager, WhatThereIsNoRoomForEnds) {
  ManagerOut out;
  ResourceManager m({.max_units = 2}, 3, true, out);
  const Instant now{};
  const uint64_t earlier = uint64_t{2} << 32;
  const ControllerLife c = {ControllerId{1}, earlier | 1};
  const auto report = [&](uint32_t unit, uint64_t first, uint64_t count) {
    std::vector<ReportedLease> leases;
    for (uint64_t i = 0; i < count; ++i) {
      leases.push_back({LeaseId{earlier | (first + i)}, c, 1, 10, 10});
    }
    return m.on_report(now, {{GlobalUnitId{unit}, earlier | (100 + unit)}, 3},
                       leases, out);
  };
  out.clear();
  EXPECT_EQ(report(2, 1, 1), LeaseRefusal::kUnknownUnit);
  const auto* const stop = std::get_if<StopUnit>(out.data());
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->unit.unit, GlobalUnitId{2});
  EXPECT_EQ(report(0, 10, 20), LeaseRefusal::kNone);
  EXPECT_EQ(report(1, 30, 20), LeaseRefusal::kTooMuch);  // 32 in all
  EXPECT_FALSE(m.recovering());
  EXPECT_EQ(m.held(c.controller), 200);
  EXPECT_EQ(m.state(GlobalUnitId{1}), State::kDraining);
  EXPECT_EQ(m.on_renew(now, {c, LeaseId{earlier | 10}}, out),
            LeaseRefusal::kNone);
  EXPECT_EQ(m.on_renew(now, {c, LeaseId{earlier | 30}}, out),
            LeaseRefusal::kUnknownLease);
}

TEST(ResourceManager, SaysAgainWhatIsNotAnswered) {
  Bench b({.max_units = 1, .keep_warm = Seconds(1)});
  b.confirm = false;
  const auto c = b.Join(1);
  b.AskFor(c, 500);
  b.Run();
  ASSERT_EQ(b.sets.size(), 1u);
  b.Tick(Milliseconds(10));
  EXPECT_EQ(b.sets.size(), 1u);
  b.confirm = true;
  b.Tick(Milliseconds(10));
  ASSERT_EQ(b.sets.size(), 2u);
  EXPECT_EQ(b.sets[1].sequence, b.sets[0].sequence);
  EXPECT_EQ(b.grants.size(), 1u);
  b.Tick(Milliseconds(10));
  b.Tick(Milliseconds(10));
  EXPECT_EQ(b.sets.size(), 2u);
  // A grant that was lost comes with a renewal.
  const auto [lease, grant] = *b.grants.begin();
  b.grants.clear();
  EXPECT_EQ(b.manager.on_renew(b.now, {c, lease, grant.sequence}, b.out),
            LeaseRefusal::kNone);
  b.Run();
  EXPECT_TRUE(b.grants.empty());
  EXPECT_EQ(b.manager.on_renew(b.now, {c, lease, 0}, b.out),
            LeaseRefusal::kNone);
  b.Run();
  EXPECT_EQ(b.grants.at(lease).share, 500);
  // So does one that confirms a cut.
  b.manager.on_give_back(b.now, {c, lease, 100}, b.out);
  b.Run();
  b.grants.clear();
  EXPECT_EQ(b.manager.on_give_back(b.now, {c, lease, 100}, b.out),
            LeaseRefusal::kStaleNumber);
  b.Run();
  EXPECT_EQ(b.grants.at(lease).share, 100);
  // And a stop is said until the unit is gone.
  b.manager.on_give_back(b.now, {c, lease, 0}, b.out);
  b.Run();
  b.Tick(Seconds(1));
  ASSERT_EQ(b.stops.size(), 1u);
  b.Tick(Milliseconds(101));
  EXPECT_EQ(b.stops.size(), 2u);
  EXPECT_EQ(b.manager.on_stopped(b.now, b.stops[0], b.out),
            LeaseRefusal::kNone);
  b.Tick(Milliseconds(101));
  EXPECT_EQ(b.stops.size(), 2u);
}

TEST(ResourceManager, SaysAStartAgainUntilTheUnitIsReady) {
  Bench b({.max_units = 1});
  b.ready = false;
  const auto c = b.Join(1);
  b.AskFor(c, 100);
  b.Run();
  b.Tick(Milliseconds(10));
  EXPECT_TRUE(b.starts_again.empty());
  b.Tick(Milliseconds(10));
  EXPECT_EQ(b.starts_again, b.starts);
  b.ready = true;
  b.Tick(Milliseconds(10));
  b.Tick(Milliseconds(10));
  EXPECT_EQ(b.starts_again.size(), 2u);
  EXPECT_EQ(b.manager.held(c.controller), 100);
  b.Tick(Milliseconds(10));
  b.Tick(Milliseconds(10));
  EXPECT_EQ(b.starts_again.size(), 2u);
}

// One that never heard of its lease asks, and does not renew it.
TEST(ResourceManager, SaysAGrantAgainWithEachAskUntilItIsRenewed) {
  Bench b({.max_units = 1});
  const auto c = b.Join(1);
  b.AskFor(c, 100);
  b.Run();
  const auto [lease, grant] = *b.grants.begin();
  b.grants.clear();
  b.AskFor(c, 100);
  b.Run();
  EXPECT_EQ(b.grants.at(lease).sequence, grant.sequence);
  EXPECT_EQ(b.manager.on_renew(b.now, {c, lease, grant.sequence}, b.out),
            LeaseRefusal::kNone);
  b.grants.clear();
  b.AskFor(c, 100);
  b.Run();
  EXPECT_TRUE(b.grants.empty());
}

// A lease that ends may be drained for long; that of the rich is what the poor
// waits for.
TEST(ResourceManager, OneWhoWaitsDoesNotWaitForDrainsOfOthers) {
  Bench b({.max_units = 2, .max_starts = 2});
  const auto rich = b.Join(1);
  const auto drains = b.Join(2);
  b.AskFor(rich, kWholeUnit);
  b.AskFor(drains, kWholeUnit);
  b.Run();
  b.confirm = false;
  b.manager.on_controller_dead(b.now, drains, b.out);
  const auto poor = b.Join(3);
  EXPECT_TRUE(b.manager.can_give(b.now));
  b.AskFor(poor, 100);
  b.Tick(Milliseconds(10));
  EXPECT_EQ(b.revoked.size(), 1u);
  b.Tick(Milliseconds(100));
  b.confirm = true;
  b.Tick(Milliseconds(10));
  b.Tick(Milliseconds(10));
  EXPECT_EQ(b.manager.held(ControllerId{3}), 100);
}

// The rich one gives up one share for one who waits, and not another with each
// tick until the first is drained.
TEST(ResourceManager, OneWhoWaitsGetsTheShareThatIsBeingDrained) {
  for (const bool is_closed : {false, true}) {
    SCOPED_TRACE(is_closed);
    Bench b({.max_units = 2, .max_starts = 2});
    const auto rich = b.Join(1);
    const auto other = b.Join(2);
    b.AskFor(rich, kWholeUnit + 300);
    b.Run();
    b.AskFor(other, kWholeUnit - 300);
    b.Run();
    ASSERT_EQ(b.grants.size(), 3u);
    const auto poor = b.Join(3);
    b.AskFor(poor, 300);
    b.confirm = false;
    if (is_closed) {
      // What is drained there is for nobody.
      ASSERT_EQ(b.manager.Close(b.now, b.starts[1], b.out),
                LeaseRefusal::kNone);
      b.Run();
      EXPECT_EQ(b.revoked.size(), 2u);
      b.Tick(Milliseconds(100));
      EXPECT_EQ(b.revoked.size(), 3u);
      continue;
    }
    b.Tick(Milliseconds(10));
    EXPECT_EQ(b.revoked.size(), 1u);
    b.sets.clear();
    for (int i = 0; i < 3; ++i) b.Tick(Milliseconds(100));
    EXPECT_EQ(b.revoked.size(), 1u);
    ASSERT_FALSE(b.sets.empty());
    EXPECT_EQ(b.sets[0].share, 0);
    b.confirm = true;
    b.manager.on_share_set(b.now, Bench::Answer(b.sets[0]), b.out);
    b.Run();
    EXPECT_EQ(b.manager.held(poor.controller), 300);
    EXPECT_EQ(b.manager.held(rich.controller), kWholeUnit);
  }
}

// Until all units have reported nobody gives up anything for growth, and no
// unit stops.
TEST(ResourceManager, LeasesAndUnitsStayWhileItRecovers) {
  ManagerOut out;
  ResourceManager m({.max_units = 3, .keep_warm = Milliseconds(20)}, 3, true,
                    out);
  const uint64_t earlier = uint64_t{2} << 32;
  const ControllerLife rich = {ControllerId{1}, earlier | 1};
  const ControllerLife poor = {ControllerId{2}, earlier | 2};
  const auto life = [&](uint32_t unit) {
    return UnitLife{GlobalUnitId{unit}, earlier | (10 + unit)};
  };
  const auto is_cut = [](const ManagerCommand& command) {
    return std::holds_alternative<Revoke>(command) ||
           std::holds_alternative<StopUnit>(command);
  };
  Instant now{0};
  out.clear();
  const std::vector<ReportedLease> whole = {
      {LeaseId{earlier | 3}, rich, 1, kWholeUnit, kWholeUnit}};
  EXPECT_EQ(m.on_report(now, {life(0), 3}, whole, out), LeaseRefusal::kNone);
  EXPECT_EQ(m.on_report(now, {life(1), 3}, {}, out), LeaseRefusal::kNone);
  ASSERT_EQ(out.size(), 1u);
  const SetShare set = std::get<SetShare>(out[0]);
  const ShareSet confirmed = {set.to, 3, set.lease, set.sequence, set.share};
  EXPECT_EQ(m.on_share_set(now, confirmed, out), LeaseRefusal::kNone);
  EXPECT_EQ(m.on_ask(now, {poor, 1, 2 * kWholeUnit}, out), LeaseRefusal::kNone);
  for (int i = 0; i < 4; ++i) {
    now = now + Milliseconds(10);
    m.on_tick(now, out);
  }
  EXPECT_EQ(std::ranges::count_if(out, is_cut), 0);
  EXPECT_EQ(m.state(GlobalUnitId{1}), State::kWarm);
  EXPECT_EQ(m.held(rich.controller), kWholeUnit);
  EXPECT_EQ(m.held(poor.controller), 0);
  // Then the one who waits has what is free.
  EXPECT_EQ(m.on_report(now, {{GlobalUnitId{2}, 0}, 3, true}, {}, out),
            LeaseRefusal::kNone);
  EXPECT_FALSE(m.recovering());
  EXPECT_EQ(m.held(poor.controller), kWholeUnit);
}

TEST(ResourceManager, AsksAgainForReportsThatDoNotCome) {
  ManagerOut out;
  ResourceManager m({.max_units = 3}, 3, true, out);
  EXPECT_EQ(m.on_report({}, {{GlobalUnitId{1}, 0}, 3, true}, {}, out),
            LeaseRefusal::kNone);
  out.clear();
  m.on_tick({}, out);
  EXPECT_TRUE(out.empty());
  m.on_tick({}, out);
  EXPECT_EQ(out.size(), 2u);
  EXPECT_NE(std::get_if<AskReport>(out.data()), nullptr);
}

TEST(ResourceManager, GivesNothingOfAUnitWithoutAPlace) {
  Bench b({.max_units = 2});
  const auto place = [&b](uint32_t unit, bool is_placed) {
    b.manager.SetPlaced(b.now, GlobalUnitId{unit}, is_placed, b.out);
    b.Run();
  };
  place(0, false);
  place(1, false);
  const auto c = b.Join(1);
  b.AskFor(c, kWholeUnit / 2);
  b.Tick(Milliseconds(100));
  EXPECT_TRUE(b.starts.empty());
  EXPECT_EQ(b.manager.state(GlobalUnitId{1}), State::kAbsent);
  place(1, true);
  ASSERT_EQ(b.starts.size(), 1u);
  EXPECT_EQ(b.starts[0].unit, GlobalUnitId{1});
  EXPECT_EQ(b.manager.held(c.controller), kWholeUnit / 2);
  // The place goes: the unit is left, and does not start again.
  place(1, false);
  place(1, false);
  EXPECT_EQ(b.revoked.size(), 1u);
  EXPECT_EQ(b.manager.on_give_back(b.now, {c, b.revoked[0], 0}, b.out),
            LeaseRefusal::kNone);
  b.Run();
  ASSERT_EQ(b.stops, b.starts);
  EXPECT_EQ(b.manager.on_stopped(b.now, b.stops[0], b.out),
            LeaseRefusal::kNone);
  b.Run();
  EXPECT_EQ(b.manager.state(GlobalUnitId{1}), State::kAbsent);
  EXPECT_EQ(b.manager.held(c.controller), 0);
  place(0, true);
  EXPECT_EQ(b.manager.held(c.controller), kWholeUnit / 2);
  EXPECT_EQ(b.starts.back().unit, GlobalUnitId{0});
}

TEST(ResourceManager, AUnitWithoutAPlaceIsAbsentAfterARecovery) {
  ManagerOut out;
  ResourceManager m({.max_units = 2}, 3, true, out);
  for (uint32_t u = 0; u < 2; ++u) {
    m.SetPlaced({}, GlobalUnitId{u}, false, out);
  }
  EXPECT_EQ(m.on_report({}, {{GlobalUnitId{0}, 0}, 3, true}, {}, out),
            LeaseRefusal::kNone);
  const UnitLife used = {GlobalUnitId{1}, 7};
  const std::vector<ReportedLease> leases = {
      {LeaseId{9}, {ControllerId{1}, 8}, 1, 100, 100}};
  EXPECT_EQ(m.on_report({}, {used, 3}, leases, out), LeaseRefusal::kNone);
  EXPECT_EQ(m.state(GlobalUnitId{0}), State::kAbsent);
  EXPECT_EQ(m.state(GlobalUnitId{1}), State::kActive);
  m.SetPlaced({}, GlobalUnitId{1}, false, out);
  EXPECT_EQ(m.state(GlobalUnitId{1}), State::kDraining);
}

TEST(ResourceManager, GivesNoMoreOfAUsedUnitBeforeItsPlaceIsKnown) {
  ManagerOut out;
  ResourceManager m({.max_units = 1}, 3, true, out);
  m.SetPlaced({}, GlobalUnitId{0}, false, out);
  const ControllerLife holder = {ControllerId{1}, 8};
  const std::vector<ReportedLease> leases = {{LeaseId{9}, holder, 1, 100, 100}};
  EXPECT_EQ(m.on_report({}, {{GlobalUnitId{0}, 7}, 3}, leases, out),
            LeaseRefusal::kNone);
  ASSERT_FALSE(m.recovering());
  const auto other = m.on_join({}, ControllerId{2}, out);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(m.on_ask({}, {*other, 1, 200}, out), LeaseRefusal::kNone);
  EXPECT_EQ(m.on_ask({}, {holder, 1, 300}, out), LeaseRefusal::kNone);
  m.on_tick({}, out);
  EXPECT_EQ(m.free(GlobalUnitId{0}), kWholeUnit - 100);
  m.SetPlaced({}, GlobalUnitId{0}, true, out);
  EXPECT_EQ(m.free(GlobalUnitId{0}), kWholeUnit - 500);
}

}  // namespace
}  // namespace snf
