// SPDX-License-Identifier: Apache-2.0
#include "controller/leases/lease_keeper.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr int64_t kMbps = 1'000'000;
constexpr ControllerLife kLife = {ControllerId{3}, 7};
constexpr Nanos kEpoch = Milliseconds(100);

using Shares = std::vector<std::pair<uint64_t, int64_t>>;  // by LeaseId

// Units of 1,024 Mbit/s: a share is 1 Mbit/s. Flows leave at once.
struct Asker {
  explicit Asker(bool shared)
      : keeper({.unit_capacity_bps = 1'024 * kMbps,
                .max_units = 4,
                .headroom = kWholeUnit / 4,
                .whole_units = !shared,
                .epoch = kEpoch},
               kLife) {}

  // The capacity of the one ask that came; -1 if none did.
  int64_t Asked() {
    int64_t asked = -1;
    for (const LeaseCommand& command : out) {
      const auto* ask = std::get_if<Ask>(&command);
      if (ask == nullptr) continue;
      EXPECT_EQ(ask->number, ++asks);
      EXPECT_EQ(ask->from, kLife);
      asked = ask->capacity;
    }
    return asked;
  }
  // Shares that were given back or are kept.
  Shares Kept() {
    Shares kept;
    for (size_t i = 0; i < out.size(); ++i) {
      const LeaseCommand command = out[i];
      if (const auto* vacate = std::get_if<VacateLease>(&command)) {
        keeper.on_vacated(now, vacate->lease, out);
      } else if (const auto* back = std::get_if<GiveBack>(&command)) {
        kept.emplace_back(value(back->lease), back->keep);
      }
    }
    return kept;
  }
  int64_t Load(int64_t change_mbps) {
    out.clear();
    keeper.on_load(now, keeper.load_bps() + change_mbps * kMbps, out);
    return Asked();
  }
  int64_t EndEpoch() {
    out.clear();
    now = now + kEpoch;
    EXPECT_EQ(keeper.next_wakeup(), now);
    keeper.on_epoch(now, out);
    return Asked();
  }
  void GrantOf(uint64_t lease, int64_t share, uint32_t unit = 0,
               uint64_t incarnation = 1) {
    keeper.on_grant(
        {kLife, LeaseId{lease}, {GlobalUnitId{unit}, incarnation}, share}, out);
  }
  void Revoke(uint64_t lease, int64_t keep) {
    out.clear();
    keeper.on_revoke({kLife, LeaseId{lease}, keep, {}}, out);
  }

  LeaseKeeper keeper;
  Instant now{};
  uint64_t asks = 0;
  LeaseCommands out;
};

TEST(LeaseKeeper, AsksAtOnceWhenHalfOfTheHeadroomIsUsedUp) {
  Asker a(true);
  EXPECT_EQ(a.Load(400), 500);
  EXPECT_EQ(a.Load(44), -1);
  EXPECT_EQ(a.Load(1), 557);  // 445 and an eighth are above 500
  EXPECT_EQ(a.Load(-445), -1);
}

TEST(LeaseKeeper, AsksEachEpochForTheGreaterOfMeanAndPresentLoad) {
  Asker a(true);
  a.Load(800);
  a.now = a.now + Nanos{kEpoch.ns / 2};
  a.Load(-400);
  a.now = a.now + Nanos{-kEpoch.ns / 2};
  EXPECT_EQ(a.EndEpoch(), 750);  // the mean is 600
  EXPECT_EQ(a.EndEpoch(), 500);
  a.Load(-400);
  a.now = a.now + Nanos{kEpoch.ns / 2};
  EXPECT_EQ(a.Load(400), -1);
  a.now = a.now + Nanos{-kEpoch.ns / 2};
  EXPECT_EQ(a.EndEpoch(), 500);  // the mean is 200
}

TEST(LeaseKeeper, AsksForWholeUnitsOfItsOwnAndNoMoreThanThereAre) {
  Asker own(false);
  EXPECT_EQ(own.Load(400), 1'024);
  EXPECT_EQ(own.Load(450), -1);
  EXPECT_EQ(own.Load(100), 2'048);
  EXPECT_EQ(own.Load(5'000), 4'096);
  Asker shared(true);
  EXPECT_EQ(shared.Load(5'000), 4'096);
}

TEST(LeaseKeeper, GivesBackTheSmallestLeasesFirst) {
  Asker a(true);
  a.Load(1'400);
  a.GrantOf(1, 1'024);
  a.GrantOf(2, 500);
  a.GrantOf(3, 226);
  a.Load(-600);
  a.EndEpoch();
  EXPECT_EQ(a.Kept(), (Shares{{3, 0}, {2, 0}, {1, 1'000}}));
  EXPECT_EQ(a.keeper.held(), 1'000);
}

TEST(LeaseKeeper, TakesNoLateGrantOfALeaseThatItGaveBack) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  a.Load(-400);
  a.EndEpoch();
  EXPECT_EQ(a.Kept(), (Shares{{1, 0}}));
  EXPECT_EQ(a.keeper.held(), 0);
  a.GrantOf(1, 600);
  EXPECT_EQ(a.keeper.held(), 0);
  a.GrantOf(2, 100);
  EXPECT_EQ(a.keeper.held(), 100);
}

TEST(LeaseKeeper, GivesBackAtOnceWhatIsRevoked) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  a.Revoke(1, 200);
  EXPECT_EQ(a.Kept(), (Shares{{1, 200}}));
  EXPECT_EQ(a.keeper.held(), 200);
  // What is gone already is not given back once more.
  a.keeper.on_gone({kLife, LeaseId{1}});
  EXPECT_EQ(a.keeper.held(), 0);
  a.Revoke(1, 100);
  EXPECT_TRUE(a.out.empty());
  EXPECT_EQ(a.keeper.refused(), 1u);
}

TEST(LeaseKeeper, RenewsWhatItHoldsTwiceATerm) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  int renewals = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    a.EndEpoch();
    for (const LeaseCommand& request : a.out) {
      const auto* renew = std::get_if<Renew>(&request);
      if (renew == nullptr) continue;
      EXPECT_EQ(renew->lease, LeaseId{1});
      ++renewals;
    }
  }
  EXPECT_EQ(renewals, 4);  // in 2 s
}

TEST(LeaseKeeper, CountsALeaseLessBeforeItsFlowsHaveLeft) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  a.Revoke(1, 200);
  ASSERT_EQ(a.out.size(), 1u);
  const auto* vacate = std::get_if<VacateLease>(a.out.data());
  ASSERT_NE(vacate, nullptr);
  EXPECT_EQ(vacate->unit, UnitId{0});
  EXPECT_EQ(vacate->keep, 200);
  EXPECT_EQ(a.keeper.held(), 200);
  // It grows meanwhile, but what was promised holds.
  a.GrantOf(1, 600);
  EXPECT_EQ(a.keeper.held(), 200);
  EXPECT_EQ(a.Kept(), (Shares{{1, 200}}));
  // A second answer gives nothing back once more.
  a.out.clear();
  a.keeper.on_vacated(a.now, LeaseId{1}, a.out);
  EXPECT_TRUE(a.out.empty());
  a.GrantOf(1, 200);
  a.GrantOf(1, 250);
  EXPECT_EQ(a.keeper.held(), 250);
}

TEST(LeaseKeeper, KeepsWhatItNeedsAgainBeforeItIsGivenBack) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  a.GrantOf(2, 300, 1);
  a.Load(-200);
  a.EndEpoch();  // in which the mean was no less
  a.EndEpoch();
  EXPECT_EQ(a.keeper.held(), 250);
  EXPECT_EQ(a.keeper.share(UnitId{1}), 0);
  // Its flows have not left unit 1 when the other lease is over.
  a.keeper.on_gone({kLife, LeaseId{1}});
  EXPECT_EQ(a.keeper.share(UnitId{1}), 250);
  a.Load(40);
  EXPECT_EQ(a.keeper.held(), 300);
  EXPECT_EQ(a.Kept(), Shares{});
}

// Only the one that revoked it waits for it.
TEST(LeaseKeeper, TheGrantOfANewManagerEndsWhatTheOneBeforeRevoked) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  a.Revoke(1, 0);
  EXPECT_EQ(a.keeper.held(), 0);
  a.GrantOf(1, 500);
  EXPECT_EQ(a.keeper.held(), 0);
  a.keeper.on_grant({.to = kLife,
                     .lease = LeaseId{1},
                     .unit = {GlobalUnitId{0}, 1},
                     .share = 500,
                     .sequence = 1,
                     .manager_epoch = 1},
                    a.out);
  EXPECT_EQ(a.keeper.held(), 500);
}

// Even of as many units as it can have at most.
TEST(LeaseKeeper, TakesAUnitThatHasStartedAgainOnceItGaveBackTheLifeBefore) {
  Asker a(true);
  a.Load(400);
  for (uint64_t life = 1; life < 10; ++life) {
    for (uint32_t unit = 0; unit < 4; ++unit) {
      const uint64_t lease = 4 * life + unit;
      a.GrantOf(lease, 100, unit, life);
      EXPECT_EQ(a.keeper.held(), 100);
      a.Revoke(lease, 0);
      EXPECT_EQ(a.Kept(), (Shares{{lease, 0}}));
    }
  }
  EXPECT_EQ(a.keeper.refused(), 0u);
}

// The time of a capture may be before 1970.
TEST(LeaseKeeper, RenewsLeasesWhateverTheTime) {
  Asker a(true);
  a.now = Instant{-1'000'000'000'000};
  a.keeper.on_epoch(a.now, a.out);
  a.asks = 1;
  a.Load(400);
  a.GrantOf(1, 500);
  for (int epoch = 0; epoch < 10; ++epoch) {
    a.EndEpoch();
    for (const LeaseCommand& request : a.out) {
      if (std::holds_alternative<Renew>(request)) return;
    }
  }
  FAIL() << "not within a term";
}

TEST(LeaseKeeper, NumbersUnitsDenselyByTheirLives) {
  Asker a(true);
  a.Load(4'000);
  a.GrantOf(1, 100, 70'000);
  a.GrantOf(2, 200, 5);
  a.GrantOf(3, 300, 70'000);
  EXPECT_EQ(a.keeper.share(UnitId{0}), 400);
  EXPECT_EQ(a.keeper.share(UnitId{1}), 200);
  EXPECT_EQ(a.keeper.life(UnitId{0}), (UnitLife{GlobalUnitId{70'000}, 1}));
  // Started again, it is another unit, until the leases of the first are gone.
  a.GrantOf(4, 400, 70'000, 2);
  EXPECT_EQ(a.keeper.share(UnitId{2}), 400);
  a.keeper.on_gone({kLife, LeaseId{1}});
  EXPECT_EQ(a.keeper.share(UnitId{0}), 300);
  a.keeper.on_gone({kLife, LeaseId{3}});
  EXPECT_EQ(a.keeper.share(UnitId{0}), 0);
  a.GrantOf(5, 500, 6);
  EXPECT_EQ(a.keeper.share(UnitId{0}), 500);
  a.GrantOf(6, 600, 7);
  a.out.clear();
  a.GrantOf(7, 700, 8);  // a fifth unit
  EXPECT_EQ(a.Kept(), (Shares{{7, 0}}));
  EXPECT_EQ(a.keeper.refused(), 1u);
  EXPECT_EQ(a.keeper.held(), 200 + 400 + 500 + 600);
}

TEST(LeaseKeeper, RefusesWhatIsNotForIt) {
  Asker a(true);
  a.GrantOf(1, 500);
  const ControllerLife other = {kLife.controller, kLife.epoch - 1};
  a.keeper.on_grant({other, LeaseId{2}, {}, 100}, a.out);
  a.GrantOf(3, 0);
  a.GrantOf(4, kWholeUnit + 1);
  a.keeper.on_revoke({other, LeaseId{1}, 0, {}}, a.out);
  a.keeper.on_revoke({kLife, LeaseId{1}, -1, {}}, a.out);
  a.keeper.on_revoke({kLife, LeaseId{9}, 0, {}}, a.out);
  a.keeper.on_gone({other, LeaseId{1}});
  a.keeper.on_gone({kLife, LeaseId{9}});
  EXPECT_EQ(a.keeper.refused(), 8u);
  EXPECT_EQ(a.keeper.held(), 500);
  EXPECT_TRUE(a.out.empty());
}

// What the resource manager has promised is never exceeded by what is used,
// and what is used is the sum over units.
TEST(LeaseKeeper, RandomGrantsAndRevocationsAddUp) {
  uint64_t kept = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Asker a(true);
    std::map<uint64_t, int64_t> promised;  // by lease
    uint64_t leases = 0;
    for (int step = 0; step < 300; ++step) {
      const uint64_t lease = leases == 0 ? 0 : 1 + rng.Below(leases);
      switch (rng.Below(7)) {
        case 0:
          promised[++leases] = rng.Uniform(1, kWholeUnit);
          a.GrantOf(leases, promised[leases],
                    static_cast<uint32_t>(leases % 4));
          break;
        case 1:
          if (!promised.contains(lease)) break;
          promised[lease] = rng.Uniform(promised[lease], kWholeUnit);
          a.GrantOf(lease, promised[lease], static_cast<uint32_t>(lease % 4));
          break;
        case 2:
          a.Revoke(lease, rng.Uniform(0, 500));
          break;
        case 3:
          if (promised.erase(lease) > 0) {
            a.keeper.on_gone({kLife, LeaseId{lease}});
          }
          break;
        case 4:
          a.Load(rng.Uniform(-500, 500));
          break;
        default:
          a.EndEpoch();
          EXPECT_LE(a.keeper.held(), a.keeper.wanted());
      }
      for (const auto& [back, keep] : a.Kept()) {
        ++kept;
        // It may be said again with a renewal.
        if (!promised.contains(back)) continue;
        ASSERT_LE(keep, promised.at(back));
        promised[back] = keep;
        if (keep == 0) promised.erase(back);
        if (keep > 0) a.GrantOf(back, keep, static_cast<uint32_t>(back % 4));
      }
      a.out.clear();
      int64_t sum = 0;
      for (const auto& [id, share] : promised) sum += share;
      ASSERT_EQ(a.keeper.held(), sum);
      int64_t of_units = 0;
      for (uint16_t u = 0; u < 4; ++u) of_units += a.keeper.share(UnitId{u});
      ASSERT_EQ(of_units, sum);
      ASSERT_EQ(a.keeper.share(UnitId{4}), 0);
    }
  }
  EXPECT_GT(kept, 1'000u);
}

// A grant that was overtaken, and one that was sent before a cut was heard of.
TEST(LeaseKeeper, TakesNoGrantThatIsLate) {
  Asker a(true);
  a.Load(400);
  const auto grant = [&](uint64_t sequence, int64_t share) {
    a.keeper.on_grant({.to = kLife,
                       .lease = LeaseId{1},
                       .unit = {GlobalUnitId{0}, 1},
                       .share = share,
                       .sequence = sequence},
                      a.out);
  };
  grant(2, 500);
  grant(1, 900);
  EXPECT_EQ(a.keeper.held(), 500);
  EXPECT_EQ(a.keeper.refused(), 1u);
  a.Revoke(1, 200);
  EXPECT_EQ(a.Kept(), (Shares{{1, 200}}));
  grant(3, 600);
  EXPECT_EQ(a.keeper.held(), 200);
  grant(4, 200);
  grant(5, 300);
  EXPECT_EQ(a.keeper.held(), 300);
}

// What was given back in part is said again until a grant confirms it.
TEST(LeaseKeeper, SaysACutAgainWithEachRenewal) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  a.Revoke(1, 200);
  a.Kept();
  int cuts = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    a.EndEpoch();
    for (const LeaseCommand& request : a.out) {
      const auto* back = std::get_if<GiveBack>(&request);
      if (back == nullptr) continue;
      EXPECT_EQ(back->keep, 200);
      ++cuts;
    }
    if (epoch == 5) a.GrantOf(1, 200);
  }
  EXPECT_EQ(cuts, 2);  // of twice a second
}

TEST(LeaseKeeper, TellsANewManagerAllThatIsOpenAndRefusesOlderOnes) {
  Asker a(true);
  a.keeper.on_new_manager(a.now, {7}, a.out);
  EXPECT_EQ(a.Asked(), -1);  // the first one
  a.Load(400);
  a.GrantOf(1, 500);
  EXPECT_EQ(a.keeper.refused(), 1u);  // of no manager that there is
  a.keeper.on_grant({.to = kLife,
                     .lease = LeaseId{1},
                     .unit = {GlobalUnitId{0}, 1},
                     .share = 500,
                     .sequence = 3,
                     .manager_epoch = 7},
                    a.out);
  a.out.clear();
  a.keeper.on_new_manager(a.now, {9}, a.out);
  EXPECT_EQ(a.Asked(), 500);
  const auto* const renew = std::get_if<Renew>(&a.out.back());
  ASSERT_NE(renew, nullptr);
  EXPECT_EQ(renew->lease, LeaseId{1});
  EXPECT_EQ(renew->sequence, 3u);
  a.out.clear();
  a.keeper.on_new_manager(a.now, {9}, a.out);
  EXPECT_TRUE(a.out.empty());
  a.keeper.on_gone({kLife, LeaseId{1}, 7});
  a.keeper.on_revoke({kLife, LeaseId{1}, 0, {}, 7}, a.out);
  a.keeper.on_new_manager(a.now, {8}, a.out);
  EXPECT_EQ(a.keeper.refused(), 4u);
  EXPECT_EQ(a.keeper.held(), 500);
  EXPECT_TRUE(a.out.empty());
}

TEST(LeaseKeeper, ASuccessorSaysAllUnderItsOwnLife) {
  Asker a(true);
  a.Load(400);
  a.GrantOf(1, 500);
  a.out.clear();
  const ControllerLife next = {kLife.controller, kLife.epoch + 1};
  a.keeper.Succeed(a.now, next, a.out);
  ASSERT_EQ(a.out.size(), 2u);
  const auto* const ask = std::get_if<Ask>(&a.out[0]);
  ASSERT_NE(ask, nullptr);
  EXPECT_EQ(ask->from, next);
  EXPECT_EQ(ask->number, 1u);
  EXPECT_EQ(std::get_if<Renew>(&a.out[1])->from, next);
  a.GrantOf(2, 100);  // to the former one
  EXPECT_EQ(a.keeper.held(), 500);
}

TEST(LeaseKeeper, GivesUpAUnitThatIsNotThere) {
  Asker a(true);
  a.Load(1'400);
  a.GrantOf(1, 500, 3);
  a.GrantOf(2, 400, 4);
  a.out.clear();
  a.keeper.GiveUp(UnitId{0}, a.out);
  EXPECT_EQ(a.Kept(), (Shares{{1, 0}}));
  EXPECT_EQ(a.keeper.held(), 400);
}

}  // namespace
}  // namespace snf
