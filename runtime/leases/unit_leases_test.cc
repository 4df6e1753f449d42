// SPDX-License-Identifier: Apache-2.0
#include "runtime/leases/unit_leases.h"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using Refusal = UnitLeases::Refusal;

constexpr UnitLife kUnit{GlobalUnitId{7}, 3};
constexpr ControllerId kA{1}, kB{2};

class UnitLeasesTest : public testing::Test {
 protected:
  Refusal Set(uint64_t lease, ControllerId holder, int64_t share,
              uint64_t manager_epoch = 1) {
    return unit_.on_set_share({.to = kUnit,
                               .manager_epoch = manager_epoch,
                               .lease = LeaseId{lease},
                               .holder = {holder, 1},
                               .sequence = ++sequence_,
                               .share = share},
                              answers_);
  }
  // Returns the bytes that each got in the service of `bytes` in all, where A
  // and B always have packets of these lengths; 0: none.
  std::array<uint64_t, 2> Serve(uint64_t bytes, uint32_t of_a, uint32_t of_b) {
    std::array<uint64_t, 2> got{};
    const std::array<uint32_t, 2> cost = {of_a, of_b};
    while (got[0] + got[1] < bytes) {
      for (const ControllerId c : {kA, kB}) {
        const uint32_t length = cost[value(c) - 1];
        length > 0 ? unit_.on_next(c, length) : unit_.on_empty(c);
      }
      const auto next = unit_.Next();
      if (!next.has_value()) break;
      got[value(*next) - 1] += cost[value(*next) - 1];
    }
    return got;
  }

  UnitLeases unit_{kUnit};
  std::vector<ShareSet> answers_;
  uint64_t sequence_ = 0;
};

TEST_F(UnitLeasesTest, AShareIsSetAndConfirmed) {
  EXPECT_EQ(Set(10, kA, 768), Refusal::kNone);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].from, kUnit);
  EXPECT_EQ(answers_[0].lease, LeaseId{10});
  EXPECT_EQ(answers_[0].sequence, 1u);
  EXPECT_EQ(answers_[0].share, 768);
  EXPECT_EQ(Set(10, kA, 512), Refusal::kNone);
  EXPECT_EQ(answers_[1].share, 512);
  EXPECT_EQ(unit_.promised(), 512);
}

TEST_F(UnitLeasesTest, MoreThanTheUnitIsNotPromised) {
  ASSERT_EQ(Set(10, kA, 768), Refusal::kNone);
  EXPECT_EQ(Set(11, kB, 257), Refusal::kTooMuch);
  EXPECT_EQ(Set(11, kB, 256), Refusal::kNone);
  EXPECT_EQ(Set(10, kA, 769), Refusal::kTooMuch);
  EXPECT_EQ(unit_.promised(), kWholeUnit);
  // What drains is still promised.
  EXPECT_EQ(Set(10, kA, 0), Refusal::kNone);
  EXPECT_EQ(Set(12, kB, 1), Refusal::kTooMuch);
  EXPECT_EQ(unit_.refused(Refusal::kTooMuch), 3u);
}

TEST_F(UnitLeasesTest, WhatCannotBeIsRefused) {
  EXPECT_EQ(Set(10, kA, -1), Refusal::kBadShare);
  EXPECT_EQ(Set(10, kA, 1'025), Refusal::kBadShare);
  ASSERT_EQ(Set(10, kA, 100, 5), Refusal::kNone);
  EXPECT_EQ(Set(10, kA, 200, 4), Refusal::kStaleEpoch);
  EXPECT_EQ(Set(10, kB, 200, 5), Refusal::kNotHolder);
  sequence_ = 0;
  EXPECT_EQ(Set(10, kA, 200, 5), Refusal::kStaleNumber);
  SetShare set;
  set.to = {kUnit.unit, 4};
  set.manager_epoch = 5;
  EXPECT_EQ(unit_.on_set_share(set, answers_), Refusal::kStaleIncarnation);
  EXPECT_EQ(unit_.promised(), 100);
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(UnitLeasesTest, ALaterLifeOfTheHolderGoesOnWithALease) {
  SetShare set = {.to = kUnit,
                  .manager_epoch = 1,
                  .lease = LeaseId{10},
                  .holder = {kA, 3},
                  .sequence = 1,
                  .share = 500};
  ASSERT_EQ(unit_.on_set_share(set, answers_), Refusal::kNone);
  set.holder.epoch = 4;
  set.sequence = 2;
  EXPECT_EQ(unit_.on_set_share(set, answers_), Refusal::kNone);
  EXPECT_EQ(unit_.Report().at(0).holder.epoch, 4u);
  set.holder.epoch = 3;
  set.sequence = 3;
  EXPECT_EQ(unit_.on_set_share(set, answers_), Refusal::kNotHolder);
}

TEST_F(UnitLeasesTest, ALeaseEndsOnceItsHolderHasLeft) {
  Set(10, kA, 600);
  answers_.clear();
  Set(10, kA, 0);
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(unit_.share(kA), 0);
  EXPECT_EQ(unit_.promised(), 600);
  unit_.on_left(kB, LeaseId{10}, answers_);
  EXPECT_TRUE(answers_.empty());
  unit_.on_left(kA, LeaseId{10}, answers_);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].share, 0);
  EXPECT_EQ(answers_[0].sequence, 2u);
  EXPECT_EQ(unit_.promised(), 0);
  EXPECT_EQ(unit_.leases(), 0u);
}

TEST_F(UnitLeasesTest, AHolderMayHaveLeftBefore) {
  Set(10, kA, 600);
  unit_.on_left(kA, LeaseId{10}, answers_);
  EXPECT_EQ(unit_.promised(), 600);
  Set(10, kA, 0);
  EXPECT_EQ(unit_.promised(), 0);
}

TEST_F(UnitLeasesTest, WhoLeftDidNotKnowOfANewerLease) {
  Set(10, kA, 300);
  Set(11, kA, 300);
  unit_.on_left(kA, LeaseId{10}, answers_);
  answers_.clear();
  Set(11, kA, 0);
  Set(10, kA, 0);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].lease, LeaseId{10});
  EXPECT_EQ(unit_.promised(), 300);
}

TEST_F(UnitLeasesTest, UnderAnotherLeaseTheInboxGoesOn) {
  Set(10, kA, 300);
  Set(10, kA, 0);
  answers_.clear();
  Set(11, kA, 200);
  EXPECT_EQ(answers_.size(), 2u);
  EXPECT_EQ(unit_.promised(), 200);
  Set(12, kA, 100);
  Set(12, kA, 0);
  EXPECT_EQ(unit_.promised(), 200);
}

TEST_F(UnitLeasesTest, AnUnknownLeaseThatEndsIsAnswered) {
  EXPECT_EQ(Set(10, kA, 0), Refusal::kNone);
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].share, 0);
  EXPECT_EQ(unit_.leases(), 0u);
}

TEST_F(UnitLeasesTest, WhatIsSaidTwiceIsAnsweredTwiceAndDoneOnce) {
  Set(10, kA, 300);
  sequence_ = 0;
  EXPECT_EQ(Set(10, kA, 300), Refusal::kStaleNumber);
  ASSERT_EQ(answers_.size(), 2u);
  EXPECT_EQ(answers_[1].share, 300);
  EXPECT_EQ(unit_.promised(), 300);
  // What drains is not over yet.
  Set(10, kA, 0);
  sequence_ = 1;
  EXPECT_EQ(Set(10, kA, 0), Refusal::kStaleNumber);
  EXPECT_EQ(answers_.size(), 2u);
  unit_.on_left(kA, LeaseId{10}, answers_);
  EXPECT_EQ(answers_.size(), 3u);
  sequence_ = 1;
  EXPECT_EQ(Set(10, kA, 0), Refusal::kNone);
  EXPECT_EQ(answers_.size(), 4u);
}

TEST_F(UnitLeasesTest, ALeaseThatIsOverDoesNotComeBack) {
  Set(10, kA, 300);
  Set(10, kA, 0);
  unit_.on_left(kA, LeaseId{10}, answers_);
  EXPECT_EQ(Set(10, kA, 300), Refusal::kStaleNumber);
  EXPECT_EQ(unit_.promised(), 0);
  // Nor does one before, when it is forgotten.
  for (uint64_t lease = 20; lease < 20 + UnitLeases::kMostLeases; ++lease) {
    Set(lease, kB, 0);
  }
  EXPECT_EQ(Set(10, kA, 300), Refusal::kStaleNumber);
  EXPECT_EQ(Set(9, kA, 300), Refusal::kStaleNumber);
  EXPECT_EQ(Set(15, kA, 300), Refusal::kNone);
}

TEST_F(UnitLeasesTest, OneThatItsHolderNeverUsedEndsAtOnce) {
  Set(10, kA, 300);
  Set(11, kA, 200);
  unit_.on_unused(LeaseId{10}, answers_);
  EXPECT_EQ(unit_.promised(), 500);
  Set(11, kA, 0);  // its inbox goes on under the other
  Set(10, kA, 0);
  EXPECT_EQ(unit_.promised(), 300);
  unit_.on_unused(LeaseId{10}, answers_);
  EXPECT_EQ(unit_.promised(), 0);
}

TEST_F(UnitLeasesTest, ALeaseThatIsSetToNothingEndsAtOnceIfItsHolderIsNotHere) {
  for (const bool is_used : {true, false}) {
    const LeaseId lease{is_used ? 10u : 11u};
    ASSERT_EQ(Set(value(lease), kA, 100), Refusal::kNone);
    answers_.clear();
    const SetShare end = {.to = kUnit,
                          .manager_epoch = 1,
                          .lease = lease,
                          .holder = {kA, 1},
                          .sequence = ++sequence_,
                          .share = 0};
    EXPECT_EQ(unit_.on_set_share(end, is_used, answers_), Refusal::kNone);
    EXPECT_EQ(answers_.size(), is_used ? 0u : 1u);
    unit_.on_unused(kA, answers_);
    EXPECT_EQ(unit_.promised(), 0);
  }
}

TEST_F(UnitLeasesTest, ANewManagerIsTold) {
  Set(10, kA, 300, 1);
  Set(11, kB, 200, 1);
  Set(11, kB, 0, 1);
  const auto report = unit_.on_ask_report(2);
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->size(), 2u);
  EXPECT_EQ((*report)[0].share, 300);
  EXPECT_EQ((*report)[0].target, 300);
  EXPECT_EQ((*report)[1].share, 200);
  EXPECT_EQ((*report)[1].target, 0);
  EXPECT_EQ(Set(10, kA, 100, 1), Refusal::kStaleEpoch);
  EXPECT_FALSE(unit_.on_ask_report(1).has_value());
}

TEST_F(UnitLeasesTest, ServesByShares) {
  Set(10, kA, 256);
  Set(11, kB, 768);
  const auto got = Serve(10'000'000, 1'500, 60);
  EXPECT_NEAR(static_cast<double>(got[1]), 3.0 * static_cast<double>(got[0]),
              0.01 * static_cast<double>(got[1]));
}

TEST_F(UnitLeasesTest, SeveralLeasesOfAControllerAreOneShare) {
  Set(10, kA, 256);
  Set(11, kB, 256);
  Set(12, kB, 512);
  const auto got = Serve(10'000'000, 1'000, 1'000);
  EXPECT_NEAR(static_cast<double>(got[1]), 3.0 * static_cast<double>(got[0]),
              0.01 * static_cast<double>(got[1]));
}

TEST_F(UnitLeasesTest, AnIdleShareIsLent) {
  Set(10, kA, 100);
  Set(11, kB, 900);
  EXPECT_EQ(Serve(1'000'000, 1'000, 0)[0], 1'000'000u);
  EXPECT_EQ(Serve(1'000'000, 0, 0)[0], 0u);
}

TEST_F(UnitLeasesTest, WhatDrainsIsServedAndTheOtherHasTheRest) {
  Set(10, kA, 512);
  Set(11, kB, 512);
  Set(10, kA, 0);
  const auto got = Serve(10'000'000, 100, 100);
  EXPECT_GT(got[0], 0u);
  EXPECT_LT(got[0], 10'000'000 / 200);
}

// A manager that sets shares at random, repeats and reorders, and holders that
// leave at random: no more than the unit is promised, and each end is answered
// once.
TEST(UnitLeasesSchedules, KeepTheSumAndAnswerEachEndOnce) {
  uint64_t ends = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    UnitLeases unit(kUnit);
    std::vector<ShareSet> answers;
    std::vector<SetShare> sent;
    std::map<uint64_t, ControllerId> holders;
    std::map<uint64_t, int> ended;
    uint64_t sequence = 0;
    for (int step = 0; step < 400; ++step) {
      answers.clear();
      const uint64_t lease = 1 + rng.Below(uint64_t(1 + step / 8));
      if (rng.Chance(20'000)) {
        const ControllerId c{static_cast<uint8_t>(rng.Below(3))};
        unit.on_left(c, LeaseId{lease}, answers);
      } else {
        const auto [at, is_new] = holders.try_emplace(
            lease, ControllerId{static_cast<uint8_t>(rng.Below(3))});
        SetShare set{.to = kUnit,
                     .manager_epoch = 1,
                     .lease = LeaseId{lease},
                     .holder = {at->second, 1},
                     .sequence = ++sequence,
                     .share = rng.Chance(20'000) ? 0 : rng.Uniform(-9, 700)};
        // Numbers of leases are not used twice.
        if (ended.contains(lease)) continue;
        if (!sent.empty() && rng.Chance(8'000)) {
          set = sent[rng.Below(sent.size())];
          if (ended.contains(value(set.lease))) continue;
        }
        sent.push_back(set);
        unit.on_set_share(set, answers);
      }
      for (const ShareSet& answer : answers) {
        if (answer.share > 0) continue;
        ++ends;
        EXPECT_EQ(++ended[value(answer.lease)], 1);
      }
      int64_t sum = 0, open = 0;
      const auto report = unit.on_ask_report(1);
      ASSERT_TRUE(report.has_value());
      for (const ReportedLease& told : *report) {
        sum += told.share;
        open += told.target;
        EXPECT_FALSE(ended.contains(value(told.lease)));
      }
      EXPECT_EQ(sum, unit.promised());
      EXPECT_LE(sum, kWholeUnit);
      EXPECT_EQ(open, unit.share(ControllerId{0}) +
                          unit.share(ControllerId{1}) +
                          unit.share(ControllerId{2}));
    }
  }
  EXPECT_GT(ends, 4'000u);
}

}  // namespace
}  // namespace snf
