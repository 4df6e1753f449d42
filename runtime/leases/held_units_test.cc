// SPDX-License-Identifier: Apache-2.0
#include "runtime/leases/held_units.h"

#include <set>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr GlobalUnitId kUnit{3};
constexpr UnitLife kLife = {kUnit, 7};
constexpr ControllerLife kHolder = {ControllerId{1}, 40};

class HeldUnitsTest : public testing::Test {
 protected:
  // Sets a lease, and returns what is answered.
  std::vector<ToManager> Set(uint64_t lease, uint64_t sequence, int64_t share,
                             uint64_t epoch = 1, UnitLife life = kLife) {
    units_.on_set_share({.to = life,
                         .manager_epoch = epoch,
                         .lease = LeaseId{lease},
                         .holder = kHolder,
                         .sequence = sequence,
                         .share = share});
    return units_.TakeAnswers();
  }
  static int64_t ShareIn(const std::vector<ToManager>& answers) {
    if (answers.size() != 1) return -1;
    const auto* set = std::get_if<ShareSet>(&answers.front());
    return set == nullptr ? -1 : set->share;
  }
  UnitLeaseReport Report(uint64_t epoch) {
    units_.on_ask_report({kUnit, epoch});
    const auto answers = units_.TakeAnswers();
    if (answers.size() != 1) return {};
    return std::get<UnitLeaseReport>(answers.front());
  }

  std::set<GlobalUnitId> used_;
  HeldUnits units_{8,
                   [this](GlobalUnitId unit) { return used_.contains(unit); }};
};

TEST_F(HeldUnitsTest, ConfirmsAShareAtOnceAndItsEndOnceItIsLeft) {
  EXPECT_EQ(ShareIn(Set(1, 1, 512)), 512);
  EXPECT_EQ(units_.promised(kUnit), 512);
  used_.insert(kUnit);
  EXPECT_TRUE(Set(1, 2, 0).empty());
  units_.on_left();
  EXPECT_TRUE(units_.TakeAnswers().empty());
  EXPECT_EQ(units_.promised(kUnit), 512);
  used_.clear();
  units_.on_left();
  EXPECT_EQ(ShareIn(units_.TakeAnswers()), 0);
  EXPECT_EQ(units_.promised(kUnit), 0);
}

TEST_F(HeldUnitsTest, EndsALeaseThatNobodyUsesAtOnce) {
  EXPECT_EQ(ShareIn(Set(1, 1, 512)), 512);
  EXPECT_EQ(ShareIn(Set(1, 2, 0)), 0);
}

TEST_F(HeldUnitsTest, RefusesEarlierManagersAndUnitsThatAreNotThere) {
  EXPECT_EQ(ShareIn(Set(1, 1, 512, 2)), 512);
  EXPECT_TRUE(Set(2, 1, 100, 1).empty());
  EXPECT_TRUE(Set(2, 1, 100, 2, {GlobalUnitId{8}, 1}).empty());
  EXPECT_EQ(units_.refused(), 2u);
  EXPECT_EQ(units_.promised(kUnit), 512);
}

TEST_F(HeldUnitsTest, PromisesNoMoreThanAUnit) {
  EXPECT_EQ(ShareIn(Set(1, 1, 1'000)), 1'000);
  EXPECT_TRUE(Set(2, 1, 25).empty());
  EXPECT_EQ(ShareIn(Set(3, 1, 24)), 24);
  EXPECT_EQ(units_.promised(kUnit), kWholeUnit);
}

TEST_F(HeldUnitsTest, TellsANewManagerOfItsLeases) {
  EXPECT_TRUE(Report(2).unit.is_dead);
  EXPECT_EQ(ShareIn(Set(1, 5, 300, 2)), 300);
  const UnitLeaseReport report = Report(3);
  EXPECT_FALSE(report.unit.is_dead);
  EXPECT_EQ(report.unit.unit, kLife);
  EXPECT_EQ(report.unit.manager_epoch, 3u);
  ASSERT_EQ(report.leases.size(), 1u);
  EXPECT_EQ(report.leases[0].share, 300);
  EXPECT_EQ(report.leases[0].sequence, 5u);
  // From then on what the one before says is refused.
  EXPECT_TRUE(Set(1, 6, 400, 2).empty());
}

TEST_F(HeldUnitsTest, BeginsAnotherLifeOnceTheOneBeforeIsLeft) {
  EXPECT_EQ(ShareIn(Set(1, 1, 300)), 300);
  used_.insert(kUnit);
  EXPECT_TRUE(Set(2, 1, 300, 1, {kUnit, 8}).empty());
  EXPECT_TRUE(Set(1, 2, 0).empty());
  used_.clear();
  units_.on_left();
  EXPECT_EQ(ShareIn(units_.TakeAnswers()), 0);
  EXPECT_EQ(ShareIn(Set(2, 1, 300, 1, {kUnit, 8})), 300);
}

TEST_F(HeldUnitsTest, StopsWithLeasesThatItsManagerDoesNotKnow) {
  EXPECT_EQ(ShareIn(Set(1, 1, 300)), 300);
  used_.insert(kUnit);
  units_.on_stop_unit({kLife, 2});
  EXPECT_TRUE(units_.TakeAnswers().empty());
  used_.clear();
  units_.on_left();
  const auto answers = units_.TakeAnswers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<UnitStopped>(answers[0]));
  EXPECT_EQ(units_.promised(kUnit), 0);
}

}  // namespace
}  // namespace snf
