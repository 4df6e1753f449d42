// SPDX-License-Identifier: Apache-2.0
#include "controller/leases/lease_user.h"

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ControllerLife kFirst = {ControllerId{5}, 7};
constexpr ControllerLife kSecond = {ControllerId{5}, 9};
constexpr int64_t kMbps = 1'000'000;
constexpr Nanos kEpoch = Milliseconds(100);

constexpr LeaseUserOptions kOptions = {
    .keeper = {.unit_capacity_bps = 1'024 * kMbps,  // a share is 1 Mbit/s
               .max_units = 4,
               .headroom = 0,
               .epoch = kEpoch,
               .term = Seconds(100)}};

constexpr LeaseUserOptions WithGlobalNumbers() {
  LeaseUserOptions options = kOptions;
  options.has_global_numbers = true;
  return options;
}

std::string TextOf(const ToManager& message) {
  if (const auto* ask = std::get_if<Ask>(&message)) {
    return absl::StrCat("ask ", ask->capacity);
  }
  if (const auto* renew = std::get_if<Renew>(&message)) {
    return absl::StrCat("renew ", value(renew->lease));
  }
  if (const auto* back = std::get_if<GiveBack>(&message)) {
    return absl::StrCat("keep ", back->keep, " of ", value(back->lease));
  }
  return std::holds_alternative<AskLife>(message) ? "ask life" : "?";
}

std::string TextOf(const LeaseUserCommand& command) {
  if (const auto* lease = std::get_if<LeaseUnit>(&command)) {
    return absl::StrCat("lease ", value(lease->unit), " = ", lease->share);
  }
  if (const auto* revoke = std::get_if<RevokeUnit>(&command)) {
    return absl::StrCat("revoke ", value(revoke->unit),
                        revoke->at_once ? " at once" : "");
  }
  return TextOf(std::get<ToManager>(command));
}

class LeaseUserTest : public testing::Test {
 protected:
  // Returns what follows from the events until now.
  std::vector<std::string> Settle(LeaseUser& user) const {
    std::vector<std::string> texts;
    for (const LeaseUserCommand& command : user.Settle(now_)) {
      texts.push_back(TextOf(command));
    }
    return texts;
  }
  std::vector<std::string> Settle() { return Settle(user_); }
  void Load(int64_t shares) { user_.on_load(now_, shares * kMbps); }
  void EndEpoch() {
    now_ = now_ + kEpoch;
    EXPECT_LE(user_.next_epoch(), now_);
    user_.on_epoch(now_);
  }
  static Grant GrantOf(uint64_t lease, int64_t share, uint32_t unit,
                       uint64_t incarnation = 1) {
    return {.to = kFirst,
            .lease = LeaseId{lease},
            .unit = {GlobalUnitId{unit}, incarnation},
            .share = share,
            .sequence = 1,
            .manager_epoch = 1};
  }
  void Hear(const ToController& message) { user_.Handle(now_, message); }

  Instant now_ = Instant{} + Seconds(1);
  LeaseUser user_{kOptions, kFirst};
};

TEST_F(LeaseUserTest, MeasuresTheLoadOfTheLastTenSamples) {
  user_.on_packet(1'000);
  EXPECT_EQ(user_.EndSample(), 800'000);
  user_.on_packet(500);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(user_.EndSample(), 1'200'000);
  EXPECT_EQ(user_.EndSample(), 400'000);
  EXPECT_EQ(user_.EndSample(), 0);
}

TEST_F(LeaseUserTest, AsksForItsLoadAndForTheLeastAtLeast) {
  LeaseUserOptions options = kOptions;
  options.least_bps = 100 * kMbps;
  user_ = LeaseUser(options, kFirst);
  Load(0);
  EXPECT_THAT(Settle(), ElementsAre("ask 100"));
  Load(300);
  EXPECT_THAT(Settle(), ElementsAre("ask 300"));
  Load(200);
  EXPECT_THAT(Settle(), IsEmpty());
  options.is_fixed = true;
  user_ = LeaseUser(options, kFirst);
  Load(300);
  EXPECT_THAT(Settle(), ElementsAre("ask 100"));
}

TEST_F(LeaseUserTest, GivesALeaseBackOnceItsUnitIsLeft) {
  Load(768);
  Hear(GrantOf(1, 512, 3));
  Hear(GrantOf(2, 256, 3));
  EXPECT_THAT(Settle(), ElementsAre("ask 768", "lease 0 = 768"));
  EXPECT_EQ(user_.held(), 768);
  EndEpoch();
  EXPECT_THAT(Settle(), ElementsAre("ask 768", "renew 1", "renew 2"));
  // The unit stays with the other lease, so no flow has to move.
  Load(512);
  EndEpoch();
  EXPECT_THAT(Settle(), ElementsAre("ask 512", "lease 0 = 512", "keep 0 of 2"));
  Load(0);
  EndEpoch();
  EXPECT_THAT(Settle(), ElementsAre("ask 0", "revoke 0"));
  EXPECT_TRUE(user_.uses(UnitId{0}));
  EXPECT_FALSE(user_.has_share());
  EXPECT_EQ(user_.newest(UnitId{0}), LeaseId{2});
  user_.on_left(now_, UnitId{0});
  EXPECT_THAT(Settle(), ElementsAre("keep 0 of 1"));
  EXPECT_FALSE(user_.uses_units());
}

TEST_F(LeaseUserTest, GivesALeaseBackAtOnceIfItsUnitHasAnother) {
  Hear(GrantOf(1, 512, 3));
  EXPECT_THAT(Settle(), ElementsAre("lease 0 = 512"));
  Hear(Revoke{kFirst, LeaseId{1}, 0, now_ + kEpoch, 1});
  EXPECT_THAT(Settle(), ElementsAre("revoke 0"));
  Hear(GrantOf(2, 100, 3));
  EXPECT_THAT(Settle(), ElementsAre("lease 0 = 100", "keep 0 of 1"));
}

TEST_F(LeaseUserTest, LeavesAUnitAtOnceIfItsLastLeaseHasEnded) {
  Hear(GrantOf(1, 512, 3));
  Hear(GrantOf(2, 256, 2));
  EXPECT_THAT(Settle(), ElementsAre("lease 0 = 512", "lease 1 = 256"));
  Hear(Revoke{kFirst, LeaseId{1}, 0, now_ + kEpoch, 1});
  EXPECT_THAT(Settle(), ElementsAre("revoke 0"));
  // Unit 0 has time yet: its lease is to be given back.
  Hear(Gone{kFirst, LeaseId{2}, 1});
  EXPECT_THAT(Settle(), ElementsAre("revoke 1 at once"));
  user_.on_left(now_, UnitId{1});
  Hear(Gone{kFirst, LeaseId{1}, 1});
  EXPECT_THAT(Settle(), ElementsAre("revoke 0 at once"));
  user_.on_left(now_, UnitId{0});
  EXPECT_THAT(Settle(), IsEmpty());
}

TEST_F(LeaseUserTest, NumbersEachLifeOfAUnitAsAnother) {
  Hear(GrantOf(1, 512, 3, 1));
  Hear(GrantOf(2, 100, 3, 2));
  EXPECT_THAT(Settle(), ElementsAre("lease 0 = 512", "lease 1 = 100"));
  EXPECT_EQ(user_.life(UnitId{1}), (UnitLife{GlobalUnitId{3}, 2}));
  EXPECT_EQ(user_.Find({GlobalUnitId{3}, 1}), UnitId{0});
  user_.on_left(now_, UnitId{0});
  // Its lease has a unit yet, which gets the free number.
  EXPECT_THAT(Settle(), ElementsAre("lease 0 = 512"));
}

TEST_F(LeaseUserTest, NumbersUnitsGloballyIfItIsToldTo) {
  user_ = LeaseUser(WithGlobalNumbers(), kFirst);
  Hear(GrantOf(1, 512, 3, 1));
  EXPECT_THAT(Settle(), ElementsAre("lease 3 = 512"));
  // Another life of the unit is the same place.
  Hear(Gone{kFirst, LeaseId{1}, 1});
  Hear(GrantOf(2, 100, 3, 2));
  EXPECT_THAT(Settle(), ElementsAre("lease 3 = 100"));
  EXPECT_EQ(user_.life(UnitId{3}), (UnitLife{GlobalUnitId{3}, 2}));
  // There is no unit 4.
  Hear(GrantOf(3, 100, 4));
  EXPECT_THAT(Settle(), ElementsAre("keep 0 of 3"));
  EXPECT_EQ(user_.held(), 100);
}

TEST_F(LeaseUserTest, GivesBackTheLeaseOfAUnitThatHasStopped) {
  Hear(GrantOf(1, 512, 3));
  EXPECT_THAT(Settle(), ElementsAre("lease 0 = 512"));
  user_.on_no_unit(UnitId{0});
  EXPECT_THAT(Settle(), ElementsAre("keep 0 of 1"));
  EXPECT_FALSE(user_.uses_units());
}

TEST_F(LeaseUserTest, LeasesAUnitAgainThatCouldNotBeLeased) {
  Load(512);
  Hear(GrantOf(1, 512, 3));
  EXPECT_THAT(Settle(), ElementsAre("ask 512", "lease 0 = 512"));
  user_.on_not_leased(UnitId{0});
  EXPECT_FALSE(user_.has_share());
  EXPECT_THAT(Settle(), IsEmpty());
  EndEpoch();
  EXPECT_THAT(Settle(), ElementsAre("ask 512", "renew 1", "lease 0 = 512"));
}

TEST_F(LeaseUserTest, ASuccessorHasTheLeasesThatUnitsReport) {
  user_ = LeaseUser(WithGlobalNumbers(), kFirst);
  const HeldLeases held = {
      {{GlobalUnitId{1}, 4}, {LeaseId{8}, kFirst, 2, 512, 512}},
      {{GlobalUnitId{2}, 4}, {LeaseId{9}, kFirst, 2, 100, 0}}};  // ends
  const std::set<UnitId> there = {UnitId{1}, UnitId{2}};
  user_.on_successor(now_, std::nullopt, held,
                     [&](UnitId unit) { return there.contains(unit); });
  EXPECT_TRUE(user_.awaits_life());
  EXPECT_THAT(Settle(), ElementsAre("lease 1 = 512", "lease 2 = 1", "revoke 2",
                                    "ask life"));
  EXPECT_EQ(user_.held(), 512);
  // Nothing but its life is asked for, each epoch.
  Load(512);
  EndEpoch();
  EXPECT_THAT(Settle(), ElementsAre("ask life"));
  Hear(NewLife{kSecond});
  EXPECT_FALSE(user_.awaits_life());
  EXPECT_EQ(user_.life(), kSecond);
  EXPECT_THAT(Settle(), ElementsAre("ask 512", "renew 8"));
  EndEpoch();
  EXPECT_THAT(Settle(), ElementsAre("ask 512"));
  // The lease is that of the new life.
  Hear(Gone{kFirst, LeaseId{8}, 1});
  EXPECT_EQ(user_.refused(), 1u);
  EXPECT_EQ(user_.held(), 512);
}

TEST_F(LeaseUserTest, ASuccessorKeepsTheNumbersOfUnitsAndForgetsThoseOfNoUse) {
  Hear(GrantOf(1, 512, 3));
  Hear(GrantOf(2, 256, 2));
  Settle();
  const HeldLeases held = {
      {{GlobalUnitId{2}, 1}, {LeaseId{2}, kFirst, 1, 256, 256}}};
  user_.on_successor(now_, kSecond, held, [](UnitId) { return false; });
  EXPECT_FALSE(user_.awaits_life());
  EXPECT_THAT(Settle(), ElementsAre("lease 1 = 256"));
  EXPECT_FALSE(user_.uses(UnitId{0}));
}

TEST_F(LeaseUserTest, AControllerThatLeavesGivesAllBack) {
  Load(512);
  Hear(GrantOf(1, 512, 3));
  EXPECT_THAT(Settle(), ElementsAre("ask 512", "lease 0 = 512"));
  EndEpoch();
  Settle();
  user_.LeaveAll(now_);
  Load(300);
  EndEpoch();
  EXPECT_THAT(Settle(), ElementsAre("ask 0", "revoke 0"));
  EXPECT_TRUE(user_.is_leaving());
}

}  // namespace
}  // namespace snf
