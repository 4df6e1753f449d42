// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/shared_units.h"

#include <array>
#include <cstdint>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr ControllerId kA{0};
constexpr ControllerId kB{1};
constexpr UnitId kUnit{3};
constexpr uint64_t kEpoch = uint64_t{1} << 32;
constexpr UnitLife kLife = {GlobalUnitId{3}, kEpoch | 1};

class SharedUnitsTest : public testing::Test {
 protected:
  SharedUnitsTest() {
    units_.Handle(StartUnit{kLife});
    EXPECT_NE(std::get_if<UnitReady>(&Answers().at(0)), nullptr);
  }

  void Set(uint64_t lease, ControllerId holder, int64_t share) {
    units_.Handle(SetShare{.to = kLife,
                           .manager_epoch = 1,
                           .lease = LeaseId{kEpoch | lease},
                           .holder = {holder, kEpoch | 7},
                           .sequence = ++sequence_,
                           .share = share});
  }
  std::vector<ToManager> Answers() { return units_.TakeAnswers(); }
  // Returns the shares that were confirmed.
  std::vector<int64_t> Confirmed() {
    std::vector<int64_t> shares;
    for (const ToManager& answer : Answers()) {
      if (const auto* set = std::get_if<ShareSet>(&answer)) {
        shares.push_back(set->share);
      }
    }
    return shares;
  }
  UnitTurns& Of(ControllerId controller) { return units_.TurnsOf(controller); }

  // Both have packets of 1,000 bytes all along; their loops take turns. Returns
  // how many of each were served.
  std::array<int, 2> ServeBoth(int turns) {
    std::array<int, 2> served{};
    for (const ControllerId c : {kA, kB}) Of(c).on_next(kUnit, 1'000);
    for (int i = 0; i < turns; ++i) {
      for (const ControllerId c : {kA, kB}) {
        Of(c).on_next(kUnit, 1'000);
        for (int burst = 0; burst < 32 && Of(c).Begin(kUnit); ++burst) {
          ++served[value(c)];
          Of(c).on_served(kUnit, Instant{++time_});
          Of(c).on_next(kUnit, 1'000);
        }
      }
    }
    return served;
  }

  SharedUnits units_;
  uint64_t sequence_ = 0;
  int64_t time_ = 0;
};

TEST_F(SharedUnitsTest, LoopsBeginPacketsByTheirShares) {
  Set(1, kA, 768);
  Set(2, kB, 256);
  Of(kA).on_start(kUnit);
  Of(kB).on_start(kUnit);
  const auto served = ServeBoth(1'000);
  EXPECT_GT(served[1], 500);
  EXPECT_NEAR(served[0], 3 * served[1], 4);
}

TEST_F(SharedUnitsTest, AnIdleShareIsUsedByTheOther) {
  Set(1, kA, 100);
  Set(2, kB, 900);
  Of(kA).on_start(kUnit);
  Of(kB).on_start(kUnit);
  Of(kB).on_next(kUnit, 1'000);
  Of(kA).on_next(kUnit, 1'000);
  EXPECT_EQ(Of(kA).Begin(kUnit), false);
  EXPECT_EQ(Of(kB).Begin(kUnit), true);
  // A unit serves one packet at a time.
  EXPECT_EQ(Of(kA).Begin(kUnit), false);
  Of(kB).on_served(kUnit, Instant{5});
  Of(kB).on_empty(kUnit);
  EXPECT_EQ(Of(kA).Begin(kUnit), true);
  EXPECT_EQ(Of(kA).last_end(kUnit), Instant{5});
}

// Whose turn it was, and who then has nothing, does not hold the unit.
TEST_F(SharedUnitsTest, OneThatLeavesGivesItsTurnAway) {
  Set(1, kA, 512);
  Set(2, kB, 512);
  Of(kA).on_start(kUnit);
  Of(kB).on_start(kUnit);
  Of(kA).on_next(kUnit, 1'000);
  ASSERT_TRUE(Of(kA).Begin(kUnit));
  Of(kB).on_next(kUnit, 1'000);
  EXPECT_FALSE(Of(kB).Begin(kUnit));
  units_.Leave(kA);
  EXPECT_TRUE(Of(kB).Begin(kUnit));
}

TEST_F(SharedUnitsTest, ALeaseEndsOnceItsControllerHasLeft) {
  Set(1, kA, 512);
  Of(kA).on_start(kUnit);
  EXPECT_EQ(Confirmed(), std::vector<int64_t>{512});
  Set(1, kA, 0);
  EXPECT_TRUE(Confirmed().empty());
  Of(kA).on_drained(kUnit);
  EXPECT_EQ(Confirmed(), std::vector<int64_t>{0});
  // State of its flows may still be there.
  units_.Handle(StopUnit{kLife, 1});
  EXPECT_TRUE(Answers().empty());
  Of(kA).on_stopped(kUnit);
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(std::get<UnitStopped>(answers[0]).unit, kLife);
}

TEST_F(SharedUnitsTest, OneThatHasLeftBeforeEndsAtOnce) {
  Set(1, kA, 512);
  Of(kA).on_start(kUnit);
  Of(kA).on_drained(kUnit);
  EXPECT_EQ(Confirmed(), std::vector<int64_t>{512});
  Set(1, kA, 0);
  EXPECT_EQ(Confirmed(), std::vector<int64_t>{0});
  // It comes again under another lease.
  Set(2, kA, 300);
  Of(kA).on_start(kUnit);
  Set(2, kA, 0);
  EXPECT_EQ(Confirmed(), std::vector<int64_t>{300});
}

TEST_F(SharedUnitsTest, RefusesAndCountsMoreThanAWholeUnit) {
  Set(1, kA, 600);
  Set(2, kB, 600);
  EXPECT_EQ(Confirmed(), std::vector<int64_t>{600});
  EXPECT_EQ(units_.refused(), 1u);
  EXPECT_EQ(units_.overpromised(), 1u);
}

TEST_F(SharedUnitsTest, ASuccessorIsToldOfItsLeases) {
  Set(1, kA, 512);
  Set(2, kB, 300);
  Of(kA).on_start(kUnit);
  Set(3, kA, 100);
  Set(1, kA, 0);  // which is not over yet
  ControllerMail mail;
  units_.Handle(AskLeases{kA, &mail});
  const std::vector<ToController> answers = mail.Take();
  ASSERT_EQ(answers.size(), 1u);
  const auto& held = std::get<HeldLeases>(answers[0]);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].unit, kLife);
  EXPECT_EQ(held[0].lease.lease, LeaseId{kEpoch | 3});
  EXPECT_EQ(held[0].lease.target, 100);
  units_.Handle(AskLeases{ControllerId{2}, &mail});
  EXPECT_TRUE(std::get<HeldLeases>(mail.Take().at(0)).empty());
}

TEST_F(SharedUnitsTest, RefusesWhatIsForAnotherLife) {
  units_.Handle(StartUnit{{kLife.unit, kEpoch | 1}});
  units_.Handle(SetShare{.to = {kLife.unit, kEpoch | 9},
                         .manager_epoch = 1,
                         .lease = LeaseId{kEpoch | 1},
                         .holder = {kA, kEpoch | 7},
                         .sequence = 1,
                         .share = 10});
  EXPECT_EQ(units_.refused(), 2u);
  EXPECT_TRUE(Answers().empty());
}

}  // namespace
}  // namespace snf
