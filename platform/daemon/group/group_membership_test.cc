// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/group_membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>
#include <thread>

#include "resource_manager/etcd/test_etcd_fixture.h"

namespace snf {
namespace {

using testing::HasSubstr;

// A member, and a path of packets that applies each table at once.
class Member {
 public:
  explicit Member(std::unique_ptr<GroupMembership> membership)
      : membership_(std::move(membership)), path_([this] { Turn(); }) {
    membership_->Begin();
  }
  ~Member() { End(); }

  void StandStill() { stands_still_ = true; }
  void GoOn() { stands_still_ = false; }
  // Ends without leaving first, if the etcd is stopped.
  void End() {
    ends_ = true;
    if (path_.joinable()) path_.join();
    membership_.reset();
  }
  std::optional<GatewayGroup::Place> HandOn() {
    return membership_->HandOn(membership_->Current().table->epoch);
  }
  GroupMembership::View view() const { return membership_->Current(); }
  Outage::State etcd() const { return membership_->etcd(); }
  bool handles() const {
    const auto now = view();
    return now.is_active && GroupMembership::Now() < now.vouched_until;
  }

 private:
  void Turn() {
    while (!ends_) {
      if (!stands_still_) {
        membership_->OnTurn(membership_->Current().table->epoch);
      }
      Pause(Milliseconds(1));
    }
  }

  std::atomic<bool> ends_ = false;
  std::atomic<bool> stands_still_ = false;
  std::unique_ptr<GroupMembership> membership_;
  std::thread path_;
};

class GroupMembershipTest : public EtcdTest {
 protected:
  absl::StatusOr<std::unique_ptr<GroupMembership>> Start(
      uint32_t number, const std::string& version = "1",
      bool continues = false) {
    GatewayGroup::Options member = {
        .self = {.number = number,
                 .name = name_,
                 .incarnation = ++incarnations_},
        .shape = {.controllers = 3, .version = version, .silence = silence_},
        .continues = continues};
    const Nanos patience = GatewayGroup(member).patience();
    return GroupMembership::Start(
        *EtcdClient::Create({.endpoints = etcd_->endpoints(),
                             .attempt = patience,
                             .patience = patience,
                             .user = user_,
                             .password = user_.empty() ? "" : "word"}),
        {.cluster = "test",
         .group = "edge",
         .member = member,
         .notice = [this](bool, const std::string& line) {
           const std::scoped_lock lock(mutex_);
           told_ += line + "\n";
         }});
  }
  std::unique_ptr<Member> Join(uint32_t number) {
    return std::make_unique<Member>(*Start(number));
  }
  std::string told() {
    const std::scoped_lock lock(mutex_);
    return told_;
  }

  std::mutex mutex_;
  std::string told_;
  std::string user_;
  Nanos silence_ = Seconds(2);
  uint64_t incarnations_ = 0;
  std::string name_ = "d";
};

TEST_F(GroupMembershipTest, MembersAgreeOnATableThatEachLeaves) {
  auto zero = Join(0);
  auto two = Join(2);
  ASSERT_TRUE(WaitFor([&] { return zero->handles() && two->handles(); }));
  ASSERT_TRUE(WaitFor([&] { return zero->view().table->live() == 0b101; }));
  EXPECT_EQ(*zero->view().table, *two->view().table);
  const uint64_t epoch = zero->view().table->epoch;
  two->End();
  ASSERT_TRUE(WaitFor([&] { return zero->view().table->live() == 0b001; }));
  EXPECT_EQ(zero->view().table->epoch, epoch + 1);
  EXPECT_TRUE(zero->view().is_active);
}

TEST_F(GroupMembershipTest, AnotherProcessContinuesWithoutAChange) {
  auto zero = Join(0);
  auto old = Join(1);
  ASSERT_TRUE(WaitFor([&] { return zero->handles() && old->handles(); }));
  ASSERT_TRUE(WaitFor([&] { return zero->view().table->live() == 0b011; }));
  const uint64_t epoch = zero->view().table->epoch;
  auto membership = *Start(1, "1", true);
  EXPECT_FALSE(membership->Current().is_in);
  const auto place = old->HandOn();
  ASSERT_TRUE(place.has_value());
  ASSERT_TRUE(membership->Continue(*place).ok());
  EXPECT_TRUE(membership->Current().is_active);
  Member next(std::move(membership));
  EXPECT_TRUE(next.handles());
  old->End();
  Pause(Nanos{2 * silence_.ns});
  EXPECT_TRUE(next.handles());
  EXPECT_EQ(next.view().table->epoch, epoch);
  EXPECT_EQ(zero->view().table->epoch, epoch);
}

TEST_F(GroupMembershipTest, AMemberWhosePathStandsStillLosesItsHosts) {
  auto zero = Join(0);
  auto one = Join(1);
  ASSERT_TRUE(WaitFor([&] { return zero->handles() && one->handles(); }));
  one->StandStill();
  ASSERT_TRUE(WaitFor([&] { return !one->view().is_in; }));
  EXPECT_FALSE(one->handles());
  ASSERT_TRUE(WaitFor([&] { return zero->view().table->live() == 0b001; }));
  // The member does not join again, while its path stands still.
  const uint64_t epoch = zero->view().table->epoch;
  Pause(Seconds(6));
  EXPECT_EQ(zero->view().table->epoch, epoch);
  EXPECT_EQ(zero->view().table->live(), 0b001u);
  one->GoOn();
  ASSERT_TRUE(WaitFor([&] { return one->handles(); }));
}

TEST_F(GroupMembershipTest, AMemberThatEtcdRefusesStops) {
  etcd_->Control("user add root:secret");
  etcd_->Control("user grant-role root root");
  etcd_->Control("role add group");
  etcd_->Control("role grant-permission group readwrite --prefix=true /snf/");
  etcd_->Control("user add member:word");
  etcd_->Control("user grant-role member group");
  etcd_->Control("auth enable");
  user_ = "member";
  auto zero = Join(0);
  ASSERT_TRUE(WaitFor([&] { return zero->handles(); }));
  etcd_->Control(
      "--user=root:secret role revoke-permission group --prefix=true /snf/");
  ASSERT_TRUE(WaitFor([&] { return !zero->handles(); }));
  EXPECT_THAT(told(), HasSubstr("takes no packets while etcd refuses"));
  etcd_->Control(
      "--user=root:secret role grant-permission group readwrite --prefix=true "
      "/snf/");
  ASSERT_TRUE(WaitFor([&] { return zero->handles(); }));
  EXPECT_THAT(told(), HasSubstr("etcd answers again"));
}

TEST_F(GroupMembershipTest, LeavesInAFewSecondsWhileEtcdIsAway) {
  silence_ = Seconds(60);
  auto zero = Join(0);
  ASSERT_TRUE(WaitFor([&] { return zero->view().is_in; }));
  etcd_->Kill(0);
  const Instant begun = GroupMembership::Now();
  zero->End();
  EXPECT_LT(GroupMembership::Now() - begun, Seconds(30));
}

TEST_F(GroupMembershipTest, ATableStaysWhileEtcdIsAway) {
  auto zero = Join(0);
  auto one = Join(1);
  ASSERT_TRUE(WaitFor([&] { return zero->handles() && one->handles(); }));
  const uint64_t epoch = zero->view().table->epoch;
  ASSERT_TRUE(WaitFor([&] { return !zero->etcd().is_away(); }));
  etcd_->Kill(0);
  const Instant killed = GroupMembership::Now();
  const Instant end = killed + Seconds(5);
  while (GroupMembership::Now() < end) {
    EXPECT_TRUE(zero->view().is_active);
    EXPECT_EQ(zero->view().table->epoch, epoch);
    Pause(Milliseconds(50));
  }
  EXPECT_THAT(zero->etcd().why, HasSubstr("no endpoint of etcd answers"));
  EXPECT_GT(zero->etcd().away, Seconds(1));
  etcd_->Start(0);
  ASSERT_TRUE(WaitFor([&] { return !zero->etcd().is_away(); }));
  ASSERT_TRUE(WaitFor([&] { return zero->handles() && one->handles(); }));
  ASSERT_TRUE(WaitFor([&] { return zero->view().table->live() == 0b011; }));
}

TEST_F(GroupMembershipTest, RefusesWhatCannotJoinByName) {
  auto zero = Join(0);
  ASSERT_TRUE(WaitFor([&] { return zero->handles(); }));
  name_ = "e";  // else it would be a successor
  const auto why = [this](uint32_t number, const std::string& version) {
    return std::string(Start(number, version).status().message());
  };
  EXPECT_THAT(
      why(0, "1"),
      HasSubstr("group \"edge\": controller 0 (\"d\") is a member already"));
  EXPECT_THAT(why(1, "2"),
              HasSubstr("this one has version 2, and the group 1"));
  etcd_->Kill(0);
  EXPECT_THAT(why(1, "1"), HasSubstr("no endpoint of etcd answers"));
}

}  // namespace
}  // namespace snf
