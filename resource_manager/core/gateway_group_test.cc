// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/gateway_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snf {
namespace {

using testing::HasSubstr;

constexpr Instant At(int64_t ms) { return {Milliseconds(ms).ns}; }

Gateway Member(uint32_t number, uint64_t incarnation = 0) {
  return {.number = number,
          .name = "d",
          .incarnation = incarnation == 0 ? number + 10 : incarnation};
}

GroupShape Shape() {
  return {.controllers = 3, .program = "nat", .version = "1", .machine = "m"};
}

// A member 0 of a group with 1 and 2, and what etcd has.
class GatewayGroupTest : public testing::Test {
 protected:
  GatewayGroupTest() : group_({.self = Member(0), .shape = Shape()}) {
    look_.table = GatewayTable{
        .epoch = 5, .shape = Shape(), .members = {Member(1), Member(2)}};
    look_.revision = 50;
    Beat(1, 5);
    Beat(2, 5);
  }

  void Beat(uint32_t number, uint64_t epoch) {
    look_.beats[number] = {.beat = {.incarnation = number + 10,
                                    .epoch = epoch,
                                    .mark = look_.table->mark,
                                    .is_active = true},
                           .revision = ++revision_};
  }
  void Look(int64_t ms) {
    group_.OnLook(look_, At(ms - 5), At(ms), group_.beats());
  }
  // Has etcd take what is wanted.
  void Put() {
    const auto swap = group_.Wanted();
    ASSERT_TRUE(swap.has_value());
    ASSERT_EQ(swap->revision, look_.revision);
    look_.table = swap->table;
    look_.revision = ++revision_;
  }
  void Join(int64_t ms) {
    group_.set_ready();
    Look(ms);
    Put();
    Look(ms + 10);
  }
  std::string WhyNot() { return std::string(group_.CheckJoin().message()); }

  GatewayGroup group_;
  GatewayGroup::Look look_;
  int64_t revision_ = 100;
};

TEST_F(GatewayGroupTest, JoinsAndHandlesOnceOthersHaveTheTable) {
  Look(1'000);
  EXPECT_FALSE(group_.Wanted().has_value());  // not ready
  Join(1'100);
  EXPECT_EQ(group_.table().epoch, 6u);
  EXPECT_EQ(group_.table().live(), 0b111u);
  EXPECT_TRUE(group_.is_in());
  EXPECT_FALSE(group_.is_active());
  EXPECT_FALSE(group_.Wanted().has_value());
  Beat(1, 6);
  Look(1'200);
  EXPECT_FALSE(group_.is_active());
  Beat(2, 6);
  Look(1'300);
  EXPECT_TRUE(group_.is_active());
  EXPECT_EQ(group_.vouched_until(), At(1'295) + group_.hold());
}

TEST_F(GatewayGroupTest, TheFirstMemberMakesTheTable) {
  look_ = {};
  Join(1'000);
  EXPECT_EQ(group_.table().epoch, 1u);
  EXPECT_EQ(group_.table().live(), 0b001u);
  // Etcd may have lost a table, whose members are still vouched for.
  for (int64_t ms = 1'200; ms <= 2'000; ms += 200) {
    Look(ms);
    EXPECT_FALSE(group_.is_active()) << ms;
  }
  Look(2'010);
  EXPECT_TRUE(group_.is_active());
}

TEST_F(GatewayGroupTest, TakesASilentMemberOut) {
  Join(1'000);
  for (int64_t ms = 1'200; ms < 2'000; ms += 200) {
    Beat(1, 6);
    Look(ms);
    EXPECT_FALSE(group_.Wanted().has_value()) << ms;
  }
  Beat(1, 6);
  Look(2'000);
  EXPECT_EQ(group_.Wanted()->beats,
            (std::map<uint32_t, int64_t>{{2, look_.beats[2].revision}}));
  Put();
  Look(2'010);
  EXPECT_EQ(group_.table().epoch, 7u);
  EXPECT_EQ(group_.table().live(), 0b011u);
  Beat(1, 7);
  Look(2'200);
  EXPECT_TRUE(group_.is_active());  // 2, which had not applied 6, is gone
}

TEST_F(GatewayGroupTest, AnOwnPauseOrEtcdsMakesNobodySilent) {
  Join(1'000);
  Look(1'200);
  Look(1'900);  // it had not looked for 0.7 s
  EXPECT_FALSE(group_.Wanted().has_value());
  Look(2'300);
  EXPECT_FALSE(group_.Wanted().has_value());
  Look(2'700);
  EXPECT_FALSE(group_.Wanted().has_value());
  Look(2'900);
  EXPECT_EQ(group_.Wanted()->table.live(), 0b001u);
}

TEST_F(GatewayGroupTest, AMemberThatFindsItselfOutHandlesNothingAndJoinsAgain) {
  Join(1'000);
  Beat(1, 6);
  Beat(2, 6);
  Look(1'200);
  ASSERT_TRUE(group_.is_active());
  look_.table->epoch = 7;
  look_.table->members = {Member(1), Member(2)};
  look_.revision = ++revision_;
  Look(9'000);
  EXPECT_FALSE(group_.is_in());
  EXPECT_LT(group_.vouched_until(), At(0));
  Put();
  Look(9'010);
  EXPECT_EQ(group_.table().epoch, 8u);
  EXPECT_TRUE(group_.is_in());
  EXPECT_FALSE(group_.is_active());  // they have applied 6
}

TEST_F(GatewayGroupTest, TheTableStaysWhileEtcdIsAway) {
  Join(1'000);
  Beat(1, 6);
  Beat(2, 6);
  Look(1'200);
  group_.OnNoAnswer(At(1'400));
  EXPECT_EQ(group_.vouched_until(), At(1'400) + group_.hold());
  EXPECT_TRUE(group_.is_active());
  EXPECT_EQ(group_.table().live(), 0b111u);
  // Frozen until 5 s.
  group_.OnNoAnswer(At(5'000));
  EXPECT_LT(group_.vouched_until(), At(5'000));
  Beat(1, 6);
  Look(5'200);
  EXPECT_GT(group_.vouched_until(), At(5'200));
}

TEST_F(GatewayGroupTest, WhoAloneIsWithoutEtcdStopsOnceAMemberTells) {
  Join(1'000);
  Beat(1, 6);
  Beat(2, 6);
  Look(1'200);
  group_.OnNoAnswer(At(1'400));
  group_.OnOut(6);  // of before it joined
  group_.OnNoAnswer(At(1'600));
  EXPECT_EQ(group_.vouched_until(), At(1'600) + group_.hold());
  group_.OnOut(7);
  group_.OnNoAnswer(At(1'800));
  EXPECT_EQ(group_.vouched_until(), At(1'600) + group_.hold());
}

TEST_F(GatewayGroupTest, AnOldTableIsPutAgainWithAHigherEpoch) {
  Join(1'000);
  Beat(1, 6);
  Beat(2, 6);
  Look(1'200);
  // As of a restored backup.
  look_.table->epoch = 2;
  look_.table->members = {Member(0), Member(1)};
  look_.revision = 7;
  Look(1'400);
  EXPECT_EQ(group_.table().epoch, 6u);  // it acts by the newer one
  Put();
  EXPECT_EQ(look_.table->epoch, 7u);
  EXPECT_EQ(look_.table->live(), 0b011u);
  look_.table.reset();  // all is lost
  look_.revision = 0;
  Look(1'600);
  EXPECT_EQ(group_.Wanted()->table.epoch, 7u);
  EXPECT_EQ(group_.Wanted()->table.live(), 0b111u);
}

TEST_F(GatewayGroupTest, LeavesTheTableThatItIsIn) {
  Join(1'000);
  group_.set_leaves();
  Put();
  Look(1'100);
  EXPECT_EQ(look_.table->live(), 0b110u);
  EXPECT_FALSE(group_.is_in());
  EXPECT_FALSE(group_.Wanted().has_value());
}

TEST_F(GatewayGroupTest, AMemberOfItsNumberIsReplacedOnceItIsSilent) {
  Gateway other = Member(0, 99);
  other.name = "e";
  look_.table->members = {other, Member(1), Member(2)};
  group_.set_ready();
  Look(1'000);
  EXPECT_THAT(WhyNot(), HasSubstr("controller 0 (\"e\") is a member already"));
  EXPECT_FALSE(group_.Wanted().has_value());
  for (int64_t ms = 1'200; ms <= 2'000; ms += 200) {
    Beat(1, 5);
    Beat(2, 5);
    Look(ms);
  }
  EXPECT_EQ(WhyNot(), "");
  EXPECT_EQ(*group_.Wanted()->table.Find(0), Member(0));
}

TEST_F(GatewayGroupTest, AProcessThatHasEndedIsReplacedAtOnce) {
  look_.table->members = {Member(0, 99), Member(1), Member(2)};
  Look(1'000);
  EXPECT_FALSE(group_.Wanted().has_value());  // not ready
  group_.set_ready();
  EXPECT_EQ(WhyNot(), "");
  EXPECT_EQ(*group_.Wanted()->table.Find(0), Member(0));
  EXPECT_EQ(group_.Wanted()->table.live(), 0b111u);
}

// The process before is member 0 in epoch 5, and is active.
class ContinuedGroupTest : public GatewayGroupTest {
 protected:
  ContinuedGroupTest() {
    look_.table->members = {Member(0), Member(1), Member(2)};
    Beat(0, 5);
  }
  GatewayGroup::Place PlaceOfBefore() const {
    return {.table = *look_.table,
            .is_active = true,
            .joined = 4,
            .vouched_until = At(1'500)};
  }
  // A process of another SNF, which continues.
  static GatewayGroup Next(const std::string& version) {
    GroupShape shape = Shape();
    shape.version = version;
    return GatewayGroup(
        {.self = Member(0, 99), .shape = shape, .continues = true});
  }
};

TEST_F(ContinuedGroupTest, IsTheSameMemberAndActiveAtOnce) {
  GatewayGroup next = Next("1");
  next.OnLook(look_, At(900), At(905), false);
  EXPECT_TRUE(next.CheckJoin().ok());
  EXPECT_FALSE(next.is_in());
  next.Continue(PlaceOfBefore());
  next.set_ready();
  EXPECT_TRUE(next.is_in());
  EXPECT_TRUE(next.is_active());
  EXPECT_EQ(next.vouched_until(), At(1'500));
  EXPECT_EQ(next.joined(), 4u);
  EXPECT_EQ(next.beat().incarnation, 10u);
  next.OnLook(look_, At(1'000), At(1'005), true);
  EXPECT_TRUE(next.is_active());
  EXPECT_EQ(next.vouched_until(), At(1'000) + next.hold());
  EXPECT_FALSE(next.Wanted().has_value());  // so no member sees a change
}

TEST_F(ContinuedGroupTest, GoesOnWhileEtcdDoesNotAnswer) {
  GatewayGroup next = Next("1");
  next.Continue(PlaceOfBefore());
  next.set_ready();
  next.OnNoAnswer(At(1'400));
  EXPECT_EQ(next.vouched_until(), At(1'400) + next.hold());
}

TEST_F(ContinuedGroupTest, TheTableGetsTheVersionOfWhoContinues) {
  GatewayGroup next = Next("2");
  next.OnLook(look_, At(900), At(905), false);
  EXPECT_TRUE(next.CheckJoin().ok()) << next.CheckJoin();
  next.Continue(PlaceOfBefore());
  next.set_ready();
  next.OnLook(look_, At(1'000), At(1'005), true);
  const auto swap = next.Wanted();
  ASSERT_TRUE(swap.has_value());
  EXPECT_EQ(swap->table.shape.version, "2");
  EXPECT_EQ(swap->table.members, look_.table->members);
  // A member of the earlier version stays, and leaves the table as it is.
  GatewayGroup stays({.self = Member(1), .shape = Shape()});
  stays.set_ready();
  stays.OnLook(look_, At(995), At(1'000), true);
  ASSERT_TRUE(stays.is_in());
  look_.table = swap->table;
  look_.revision = ++revision_;
  stays.OnLook(look_, At(1'100), At(1'105), true);
  EXPECT_TRUE(stays.is_in());
  EXPECT_FALSE(stays.Wanted().has_value());
  next.OnLook(look_, At(1'100), At(1'105), true);
  EXPECT_TRUE(next.is_active());
  EXPECT_FALSE(next.Wanted().has_value());
  // A process of the earlier version cannot join any more.
  GatewayGroup joins({.self = Member(2, 98), .shape = Shape()});
  joins.OnLook(look_, At(1'200), At(1'205), false);
  EXPECT_THAT(std::string(joins.CheckJoin().message()),
              HasSubstr("this one has version 1, and the group 2"));
}

TEST_F(ContinuedGroupTest, AnotherChainIsRefused) {
  GroupShape shape = Shape();
  shape.program = "monitor";
  GatewayGroup next({.self = Member(0, 99), .shape = shape, .continues = true});
  next.OnLook(look_, At(900), At(905), false);
  EXPECT_THAT(std::string(next.CheckJoin().message()),
              HasSubstr("this one runs monitor, and the group nat"));
}

TEST_F(ContinuedGroupTest, AnotherAddressIsRefusedByName) {
  look_.table->members.front().address = "10.0.0.1:6083";
  Gateway self = Member(0, 99);
  self.address = "10.0.0.9:6083";
  GatewayGroup next({.self = self, .shape = Shape(), .continues = true});
  next.OnLook(look_, At(900), At(905), false);
  EXPECT_EQ(std::string(next.CheckJoin().message()),
            "with --upgrade both processes want the same --group_address, and "
            "this one has 10.0.0.9:6083, and the earlier one 10.0.0.1:6083");
}

TEST_F(GatewayGroupTest, AGroupOfAnotherShapeIsRefusedByName) {
  group_.set_ready();
  const auto why = [this](GroupShape shape) {
    look_.table->shape = std::move(shape);
    Look(1'000);
    EXPECT_FALSE(group_.Wanted().has_value());
    return WhyNot();
  };
  GroupShape shape = Shape();
  shape.version = "2";
  EXPECT_THAT(why(shape), HasSubstr("has version 1, and the group 2"));
  shape = Shape();
  shape.controllers = 4;
  EXPECT_THAT(why(shape),
              HasSubstr("is of 3 controllers, and the group has 4"));
  shape = Shape();
  shape.program = "lb";
  EXPECT_THAT(why(shape), HasSubstr("runs nat, and the group lb"));
  shape = Shape();
  shape.silence = Seconds(10);
  EXPECT_THAT(why(shape), HasSubstr("has --takeover=1s, and the group 10s"));
  shape = Shape();
  shape.machine = "";
  EXPECT_THAT(why(shape), HasSubstr("has no --group_address"));
  shape = Shape();
  shape.machine = "n";
  EXPECT_THAT(why(shape), HasSubstr("the ports of another machine"));
  // All members are silent.
  for (int64_t ms = 1'200; ms <= 2'000; ms += 200) Look(ms);
  EXPECT_EQ(WhyNot(), "");
  EXPECT_EQ(group_.Wanted()->table.shape, Shape());
  EXPECT_EQ(group_.Wanted()->table.epoch, 6u);
}

TEST_F(GatewayGroupTest, MembersWithALongerTakeoverAreSilentAfterThatTime) {
  group_.set_ready();
  look_.table->shape.silence = Seconds(3);
  for (int64_t ms = 1'000; ms < 4'000; ms += 200) {
    Look(ms);
    EXPECT_THAT(WhyNot(), HasSubstr("--takeover")) << ms;
    EXPECT_FALSE(group_.Wanted().has_value()) << ms;
  }
  Look(4'000);
  EXPECT_EQ(group_.Wanted()->table.shape, Shape());
}

TEST_F(GatewayGroupTest, WhatOthersWroteIsPrintable) {
  Gateway other = Member(0, 99);
  other.name = "e\x1b[2J";
  other.address = "\n";
  look_.table->members = {other};
  group_.set_ready();
  Look(1'000);
  EXPECT_EQ(WhyNot(), "controller 0 (\"e?[2J\") at ? is a member already");
  look_.table->shape.program = "\a";
  Look(1'100);
  EXPECT_THAT(WhyNot(), HasSubstr("and the group ?"));
  look_.table->shape.version = "\t";
  Look(1'200);
  EXPECT_THAT(WhyNot(), HasSubstr("has version 1, and the group ?"));
}

TEST_F(GatewayGroupTest, BeatsOfAnotherTableOfThisEpochAreNoLicence) {
  Join(1'000);
  Beat(1, 6);
  // Another process put it, before etcd's data was that of earlier again.
  Beat(2, 6);
  look_.beats[2].beat.mark = 7;
  Look(1'300);
  EXPECT_FALSE(group_.is_active());
  Beat(2, 6);
  Look(1'400);
  EXPECT_TRUE(group_.is_active());
  EXPECT_EQ(group_.joined(), 6u);
}

TEST_F(GatewayGroupTest, EachMemberBeginsAnewInAnotherHistory) {
  Join(1'000);
  Beat(1, 6);
  Beat(2, 6);
  Look(1'200);
  group_.OnApplied(6);
  ASSERT_TRUE(group_.is_active());
  // Another member put the table again, once etcd had lost it.
  look_.table->epoch = 8;
  look_.table->history = 7;
  look_.table->mark = 9;
  Look(1'300);
  EXPECT_TRUE(group_.is_in());
  EXPECT_FALSE(group_.is_active());
  EXPECT_EQ(group_.joined(), 8u);
  EXPECT_EQ(group_.beat().mark, 0u);  // its packets go by epoch 6
  group_.OnApplied(8);
  EXPECT_EQ(group_.beat().mark, 9u);
  // No other member is active, so it waits.
  for (int64_t ms = 1'400; ms <= 2'400; ms += 200) {
    for (const uint32_t number : {1, 2}) {
      Beat(number, 8);
      look_.beats[number].beat.is_active = false;
    }
    Look(ms);
    EXPECT_EQ(group_.is_active(), ms >= 2'300) << ms;
  }
}

TEST_F(GatewayGroupTest, ATableWithoutTheMemberVouchesForNobody) {
  Join(1'000);
  Beat(1, 6);
  Beat(2, 6);
  Look(1'200);
  const Instant until = group_.vouched_until();
  const GatewayGroup::Look whole = look_;
  look_.table.reset();
  look_.revision = 0;
  Look(1'300);
  EXPECT_EQ(group_.vouched_until(), until);
  EXPECT_NE(group_.Wanted()->table.history, whole.table->history);
  look_ = whole;
  look_.table->epoch = 5;
  look_.table->members = {Member(1), Member(2)};
  Look(1'400);
  EXPECT_TRUE(group_.is_in());  // by the newer one
  EXPECT_EQ(group_.vouched_until(), until);
}

TEST_F(GatewayGroupTest, WhoSeesRevisionsGoBackDrawsAnotherHistory) {
  Join(1'000);
  Beat(1, 6);
  Beat(2, 6);
  Look(1'200);
  ASSERT_TRUE(group_.is_active());
  // Others continued from a backup, and passed the epoch.
  look_.table->epoch = 7;
  look_.revision = 20;
  look_.beats[1].revision = 21;
  look_.beats[2].revision = 22;
  Look(1'300);
  EXPECT_EQ(group_.table().epoch, 6u);
  Put();
  Look(1'400);
  EXPECT_EQ(group_.table().epoch, 8u);
  EXPECT_NE(group_.table().history, 0u);
  EXPECT_FALSE(group_.is_active());
  EXPECT_FALSE(group_.Wanted().has_value());
}

TEST_F(GatewayGroupTest, AMemberThatWasFrozenNeedsBeatsOfNow) {
  Join(1'000);
  Beat(1, 6);
  Beat(2, 6);
  Look(1'200);
  Beat(1, 6);  // a backup may have them as well
  Beat(2, 6);
  Look(5'000);
  EXPECT_FALSE(group_.is_active());
  Beat(1, 6);
  Look(5'100);
  EXPECT_FALSE(group_.is_active());
  Beat(2, 6);
  Look(5'200);
  EXPECT_TRUE(group_.is_active());
}

TEST_F(GatewayGroupTest, TheSlowestAnswersStillTellWhoIsSilent) {
  for (const Nanos silence : {Milliseconds(200), Seconds(1), Seconds(60)}) {
    GroupShape shape = Shape();
    shape.silence = silence;
    const GatewayGroup group({.self = Member(0), .shape = shape});
    const Nanos gap{group.period().ns + 2 * group.patience().ns};
    EXPECT_LT(gap, group.pause());
  }
  Join(1'000);
  for (int64_t ms = 1'375; ms < 2'000; ms += 375) Look(ms);
  Look(2'125);
  EXPECT_EQ(group_.Wanted()->table.live(), 0b001u);
}

TEST_F(GatewayGroupTest, SlowerAnswersTellNothing) {
  Join(1'000);
  for (int64_t ms = 1'450; ms < 9'000; ms += 450) {
    Look(ms);
    EXPECT_FALSE(group_.Wanted().has_value()) << ms;
  }
}

TEST_F(GatewayGroupTest, TwoMembersOfOneAddressAreRefused) {
  Gateway self = Member(0);
  self.address = "10.0.0.1:6081";
  GroupShape shape = Shape();
  shape.machine = "";
  GatewayGroup other({.self = self, .shape = shape});
  look_.table->shape = shape;
  look_.table->members[0].address = self.address;
  other.OnLook(look_, At(0), At(1), false);
  EXPECT_THAT(
      std::string(other.CheckJoin().message()),
      HasSubstr("controller 1 (\"d\") at 10.0.0.1:6081 has this address"));
}

}  // namespace
}  // namespace snf
