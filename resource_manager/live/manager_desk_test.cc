// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/manager_desk.h"

#include <poll.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/version.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "resource_manager/live/test_child.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

using ::testing::HasSubstr;
using What = proto::ToMember::WhatCase;

constexpr int64_t kCapacity = 1'000'000;

// Keeps what a member is told.
class FakeStream final : public MemberStream {
 public:
  void Send(proto::ToMember message) override {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
  }
  void End() override {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  bool has_ended() {
    const std::lock_guard lock(mutex_);
    return has_ended_;
  }
  // Waits for the next message of that kind, and drops those before it.
  std::optional<proto::ToMember> Await(What what) {
    const Instant end = RealClock::Monotonic() + Seconds(30);
    while (RealClock::Monotonic() < end) {
      {
        const std::lock_guard lock(mutex_);
        while (!messages_.empty()) {
          proto::ToMember message = std::move(messages_.front());
          messages_.pop_front();
          if (message.what_case() == what) return message;
        }
      }
      poll(nullptr, 0, 1);
    }
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::deque<proto::ToMember> messages_;
  bool has_ended_ = false;
};

class ManagerDeskTest : public testing::Test {
 protected:
  ManagerDeskTest()
      : file_(fmt::format("{}/snf-desk-{}",
                          std::filesystem::temp_directory_path().string(),
                          getpid())),
        notes_(file_) {
    unlink(file_.c_str());
    Start();
  }
  ~ManagerDeskTest() override {
    desk_.reset();
    unlink(file_.c_str());
  }
  // `notes` are shared by several managers; null: this one is alone.
  void Start(uint32_t units = 2, bool follows_hosts = false,
             Nanos member_term = Seconds(1), MemberNotes* notes = nullptr) {
    desk_.reset();
    auto desk = ManagerDesk::Start({.name = "test",
                                    .units = units,
                                    .unit_capacity_bps = kCapacity,
                                    .machine = "here",
                                    .member_term = member_term,
                                    .follows_hosts = follows_hosts,
                                    .file = file_,
                                    .notes = notes});
    ASSERT_TRUE(desk.ok()) << desk.status();
    desk_ = *std::move(desk);
  }
  static proto::ToManager HelloOf(const TestChild& child,
                                  const std::string& name) {
    proto::ToManager word;
    proto::Hello& hello = *word.mutable_hello();
    hello.set_pid(child.id().pid);
    hello.set_start_time(child.id().start_time);
    hello.set_name(name);
    hello.set_version(kVersion);
    hello.set_units(2);
    hello.set_unit_capacity_bps(kCapacity);
    return word;
  }
  std::shared_ptr<FakeStream> Say(const proto::ToManager& hello) {
    auto stream = std::make_shared<FakeStream>();
    desk_->on_message(stream, hello);
    return stream;
  }
  // Returns why it is refused.
  std::string WhyNot(const proto::ToManager& hello) {
    const auto stream = Say(hello);
    const auto refused = stream->Await(What::kRefused);
    if (!refused.has_value() || !stream->has_ended()) return "";
    return refused->refused().why();
  }
  // Returns true if it is refused as a member whose leases have ended.
  bool AreEnded(const proto::ToManager& hello) {
    const auto refused = Say(hello)->Await(What::kRefused);
    return refused.has_value() && refused->refused().code() == 10;  // ABORTED
  }
  // Asks for so much, and confirms what is set; returns the grant.
  std::optional<proto::Grant> Lease(const std::shared_ptr<FakeStream>& stream,
                                    uint64_t life, int64_t share) {
    proto::ToManager ask;
    ask.mutable_ask()->set_life(life);
    ask.mutable_ask()->set_number(1);
    ask.mutable_ask()->set_capacity(share);
    desk_->on_message(stream, ask);
    const auto set = stream->Await(What::kSetShare);
    if (!set.has_value()) return std::nullopt;
    desk_->on_message(stream, Confirming(set->set_share()));
    const auto grant = stream->Await(What::kGrant);
    if (!grant.has_value()) return std::nullopt;
    return grant->grant();
  }
  static proto::ToManager Confirming(const proto::SetShare& set) {
    proto::ToManager word;
    proto::ShareSet& answer = *word.mutable_share_set();
    *answer.mutable_from() = set.to();
    answer.set_manager_epoch(set.manager_epoch());
    answer.set_lease(set.lease());
    answer.set_sequence(set.sequence());
    answer.set_share(set.share());
    return word;
  }
  proto::LookReply Look() {
    proto::LookReply reply;
    EXPECT_TRUE(
        desk_
            ->Look(std::chrono::steady_clock::now() + std::chrono::seconds(30),
                   reply)
            .ok());
    return reply;
  }

  const std::string file_;
  FileNotes notes_;
  std::unique_ptr<ManagerDesk> desk_;
  TestChild a_;
  TestChild b_;
};

TEST_F(ManagerDeskTest, RefusesByNameWhoCannotBeAMember) {
  proto::ToManager hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_version("0.0.1-other");
  EXPECT_THAT(WhyNot(hello), HasSubstr("0.0.1-other"));
  EXPECT_THAT(WhyNot(HelloOf(a_, "two words")), HasSubstr("two words"));
  hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_units(9);
  EXPECT_THAT(WhyNot(hello), HasSubstr("9 units"));
  hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_controller(64);
  EXPECT_THAT(WhyNot(hello), HasSubstr("controller 64"));
  hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_manager_epoch(~uint64_t{0});
  EXPECT_THAT(WhyNot(hello), HasSubstr("epoch"));
  hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_start_time(a_.id().start_time + 1);
  EXPECT_THAT(WhyNot(hello), HasSubstr("no process"));
  EXPECT_EQ(Look().count().at("refused"), 6u);
}

TEST_F(ManagerDeskTest, GivesAnIdThatALivingProcessHasToNoOther) {
  proto::ToManager first = HelloOf(a_, "a");
  first.mutable_hello()->set_controller(5);
  ASSERT_TRUE(Say(first)->Await(What::kWelcome).has_value());
  proto::ToManager second = HelloOf(b_, "b");
  second.mutable_hello()->set_controller(5);
  EXPECT_THAT(WhyNot(second), HasSubstr("controller 5 is \"a\""));
  a_.Kill();
  const auto welcome = Say(second)->Await(What::kWelcome);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->welcome().controller(), 5u);
}

TEST_F(ManagerDeskTest, KeepsWhatALivingProcessHasUntilItsEnd) {
  const auto stream = Say(HelloOf(a_, "a"));
  const auto welcome = stream->Await(What::kWelcome);
  ASSERT_TRUE(welcome.has_value());
  ASSERT_TRUE(Lease(stream, welcome->welcome().life(), 700).has_value());
  desk_->on_end(stream);
  // Its term goes by without a word: it stays promised.
  const Instant end = RealClock::Monotonic() + Seconds(6);
  while (RealClock::Monotonic() < end) poll(nullptr, 0, 50);
  proto::LookReply reply = Look();
  ASSERT_EQ(reply.unit_size(), 1);
  EXPECT_EQ(reply.unit(0).free(), kWholeUnit - 700);
  EXPECT_EQ(reply.unit(0).lease(0).state(), "ending");
  EXPECT_FALSE(reply.member(0).is_connected());
  a_.Kill();
  const Instant late = RealClock::Monotonic() + Seconds(30);
  do {
    reply = Look();
  } while (reply.unit_size() > 0 && RealClock::Monotonic() < late);
  EXPECT_EQ(reply.unit_size(), 0);
  EXPECT_EQ(reply.member_size(), 0);
}

TEST_F(ManagerDeskTest, ConfirmsOnlyByTheHolder) {
  const auto a = Say(HelloOf(a_, "a"));
  const auto b = Say(HelloOf(b_, "b"));
  const auto welcome = a->Await(What::kWelcome);
  ASSERT_TRUE(welcome.has_value() && b->Await(What::kWelcome).has_value());
  proto::ToManager ask;
  ask.mutable_ask()->set_life(welcome->welcome().life());
  ask.mutable_ask()->set_number(1);
  ask.mutable_ask()->set_capacity(500);
  desk_->on_message(a, ask);
  const auto set = a->Await(What::kSetShare);
  ASSERT_TRUE(set.has_value());
  desk_->on_message(b, Confirming(set->set_share()));
  EXPECT_EQ(Look().unit(0).lease(0).state(), "setting");
  EXPECT_EQ(Look().count().at("refused"), 1u);
  desk_->on_message(a, Confirming(set->set_share()));
  EXPECT_EQ(Look().unit(0).lease(0).state(), "held");
}

TEST_F(ManagerDeskTest, GivesNothingBeforeAllThatLiveHaveReported) {
  const auto a = Say(HelloOf(a_, "a"));
  const auto b = Say(HelloOf(b_, "b"));
  const auto of_a = a->Await(What::kWelcome);
  const auto of_b = b->Await(What::kWelcome);
  ASSERT_TRUE(of_a.has_value() && of_b.has_value());
  const auto grant = Lease(a, of_a->welcome().life(), 600);
  ASSERT_TRUE(grant.has_value());
  Start();
  EXPECT_EQ(Look().manager_epoch(), 2u);
  EXPECT_TRUE(Look().is_recovering());
  EXPECT_EQ(Look().awaited_size(), 2);
  // One comes again, and reports what it has.
  proto::ToManager hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_controller(of_a->welcome().controller());
  hello.mutable_hello()->set_life(of_a->welcome().life());
  hello.mutable_hello()->set_manager_epoch(1);
  const auto again = Say(hello);
  for (int unit = 0; unit < 2; ++unit) {
    const auto asked = again->Await(What::kAskReport);
    ASSERT_TRUE(asked.has_value());
    proto::ToManager word;
    proto::UnitReport& report = *word.mutable_report();
    report.mutable_unit()->set_unit(asked->ask_report().unit());
    report.set_manager_epoch(2);
    report.set_is_dead(asked->ask_report().unit() != grant->unit().unit());
    if (!report.is_dead()) {
      *report.mutable_unit() = grant->unit();
      proto::HeldLease& held = *report.add_lease();
      held.set_lease(grant->lease());
      held.set_life(of_a->welcome().life());
      held.set_sequence(grant->sequence());
      held.set_share(600);
      held.set_target(600);
    }
    desk_->on_message(again, word);
  }
  EXPECT_TRUE(Look().is_recovering());
  // The other one is not to be waited for any more.
  b_.Kill();
  const auto welcome = again->Await(What::kWelcome);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->welcome().manager_epoch(), 2u);
  const proto::LookReply reply = Look();
  ASSERT_EQ(reply.unit_size(), 1);
  EXPECT_EQ(reply.unit(0).free(), kWholeUnit - 600);
}

TEST_F(ManagerDeskTest, AsksAllAgainIfItsFileWasLost) {
  const auto a = Say(HelloOf(a_, "a"));
  ASSERT_TRUE(a->Await(What::kWelcome).has_value());
  // One comes that has leases of a manager which nobody here knows.
  proto::ToManager hello = HelloOf(b_, "b");
  hello.mutable_hello()->set_controller(7);
  hello.mutable_hello()->set_life(uint64_t{9} << 32 | 1);
  hello.mutable_hello()->set_manager_epoch(9);
  const auto b = Say(hello);
  EXPECT_TRUE(a->Await(What::kAskReport).has_value());
  EXPECT_TRUE(b->Await(What::kAskReport).has_value());
  EXPECT_EQ(Look().manager_epoch(), 10u);
  EXPECT_TRUE(Look().is_recovering());
}

TEST_F(ManagerDeskTest, HasNoOtherUnitsWhileMembersLive) {
  ASSERT_TRUE(Say(HelloOf(a_, "a"))->Await(What::kWelcome).has_value());
  desk_.reset();
  const auto other = ManagerDesk::Start({.name = "test",
                                         .units = 3,
                                         .unit_capacity_bps = kCapacity,
                                         .file = file_});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  a_.Kill();
  Start(3);
}

TEST_F(ManagerDeskTest, AMemberOfAnotherMachineLivesAsLongAsItIsHeardOf) {
  constexpr Nanos kTerm = Seconds(3);
  Start(2, false, kTerm);
  proto::ToManager hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_machine("elsewhere");
  // The process cannot be seen here.
  hello.mutable_hello()->set_start_time(1);
  const auto stream = Say(hello);
  const auto welcome = stream->Await(What::kWelcome);
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(welcome->welcome().member_term_ns(), kTerm.ns);
  const uint64_t epoch = welcome->welcome().manager_epoch();
  ASSERT_TRUE(Lease(stream, welcome->welcome().life(), 700).has_value());
  proto::ToManager alive;
  alive.mutable_alive();
  const Instant silent = RealClock::Monotonic() + kTerm + Milliseconds(500);
  Instant last;
  while (RealClock::Monotonic() < silent) {
    last = RealClock::Monotonic();
    desk_->on_message(stream, alive);
    poll(nullptr, 0, 50);
  }
  ASSERT_EQ(Look().member_size(), 1);
  EXPECT_TRUE(Look().member(0).is_away());
  EXPECT_EQ(Look().unit(0).free(), kWholeUnit - 700);
  const Instant end = RealClock::Monotonic() + Seconds(30);
  while (Look().member_size() > 0 && RealClock::Monotonic() < end) {
    poll(nullptr, 0, 20);
  }
  EXPECT_GE(RealClock::Monotonic(), last + Milliseconds(2'900));
  EXPECT_EQ(Look().unit_size(), 0);
  EXPECT_TRUE(stream->has_ended());
  // The member comes again, and has no parts.
  hello.mutable_hello()->set_life(welcome->welcome().life());
  hello.mutable_hello()->set_manager_epoch(epoch);
  EXPECT_TRUE(AreEnded(hello));
  // Another member has its number meanwhile.
  ASSERT_TRUE(Say(HelloOf(b_, "b"))->Await(What::kWelcome).has_value());
  ASSERT_EQ(Look().member(0).controller(), welcome->welcome().controller());
  hello.mutable_hello()->set_controller(welcome->welcome().controller());
  EXPECT_TRUE(AreEnded(hello));
  EXPECT_EQ(Look().manager_epoch(), epoch);
  hello.mutable_hello()->clear_controller();
  hello.mutable_hello()->set_life(0);
  EXPECT_TRUE(Say(hello)->Await(What::kWelcome).has_value());
}

TEST_F(ManagerDeskTest, ALeaderOfTheMembersMachineKnowsWhomAnotherBuried) {
  const MemberFile before = {
      .epoch = 3, .units = 2, .unit_capacity_bps = kCapacity};
  desk_.reset();
  ASSERT_TRUE(before.Write(file_).ok());
  Start(2, false, Seconds(60), &notes_);
  const auto healthy = Say(HelloOf(b_, "b"));
  const auto welcome = healthy->Await(What::kWelcome);
  ASSERT_TRUE(welcome.has_value());
  ASSERT_TRUE(Lease(healthy, welcome->welcome().life(), 700).has_value());
  const uint64_t epoch = Look().manager_epoch();
  // The notes do not name this member any more.
  proto::ToManager hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_machine("here");
  hello.mutable_hello()->set_controller(7);
  hello.mutable_hello()->set_life(9);
  hello.mutable_hello()->set_manager_epoch(3);
  EXPECT_TRUE(AreEnded(hello));
  EXPECT_EQ(Look().manager_epoch(), epoch);
  ASSERT_EQ(Look().unit_size(), 1);
  EXPECT_EQ(Look().unit(0).lease(0).state(), "held");
}

TEST_F(ManagerDeskTest, AsksTheMembersOfALeaderWhoseNotesAreLost) {
  Start(2, false, Seconds(60), &notes_);
  proto::ToManager hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_controller(7);
  hello.mutable_hello()->set_life(uint64_t{1} << 32 | 1);
  hello.mutable_hello()->set_manager_epoch(1);
  EXPECT_TRUE(Say(hello)->Await(What::kAskReport).has_value());
  EXPECT_EQ(Look().manager_epoch(), 2u);
}

TEST_F(ManagerDeskTest, AsksEachMemberOfALostManagerAgain) {
  Start(2, false, Seconds(60));
  proto::ToManager hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_machine("elsewhere");
  hello.mutable_hello()->set_controller(7);
  hello.mutable_hello()->set_life(uint64_t{9} << 32 | 1);
  hello.mutable_hello()->set_manager_epoch(9);
  EXPECT_TRUE(Say(hello)->Await(What::kAskReport).has_value());
  EXPECT_EQ(Look().manager_epoch(), 10u);
  proto::ToManager second = hello;
  second.mutable_hello()->set_name("b");
  second.mutable_hello()->set_controller(8);
  EXPECT_TRUE(Say(second)->Await(What::kAskReport).has_value());
  EXPECT_EQ(Look().manager_epoch(), 11u);
  // No manager of these notes had such an epoch.
  second.mutable_hello()->set_name("c");
  second.mutable_hello()->set_controller(9);
  second.mutable_hello()->set_manager_epoch(uint64_t{1} << 21);
  EXPECT_THAT(WhyNot(second), HasSubstr("epoch 2097152"));
  EXPECT_EQ(Look().manager_epoch(), 11u);
}

TEST_F(ManagerDeskTest, TheNextManagerWaitsATermForMembersOfOtherMachines) {
  proto::ToManager hello = HelloOf(a_, "a");
  hello.mutable_hello()->set_machine("elsewhere");
  ASSERT_TRUE(Say(hello)->Await(What::kWelcome).has_value());
  hello.mutable_hello()->set_machine("here");
  ASSERT_TRUE(Say(hello)->Await(What::kWelcome).has_value());
  a_.Kill();
  const Instant began = RealClock::Monotonic();
  Start();
  EXPECT_TRUE(Look().is_recovering());
  ASSERT_EQ(Look().member_size(), 1);
  EXPECT_TRUE(Look().member(0).is_away());
  while (Look().is_recovering() &&
         RealClock::Monotonic() < began + Seconds(30)) {
    poll(nullptr, 0, 20);
  }
  EXPECT_GE(RealClock::Monotonic(), began + Milliseconds(900));
  EXPECT_EQ(Look().member_size(), 0);
}

TEST_F(ManagerDeskTest, UnitsAreOnHostsThatHaveJoined) {
  const auto host = [](const std::string& name) {
    return UnitHost{.name = name, .address = name + ":7000", .units = 1};
  };
  Start(2, true);
  proto::ToManager hello = HelloOf(a_, "a");
  EXPECT_THAT(WhyNot(hello), HasSubstr("without --etcd"));
  hello.mutable_hello()->set_follows_hosts(true);
  const auto stream = Say(hello);
  const auto welcome = stream->Await(What::kWelcome);
  ASSERT_TRUE(welcome.has_value());
  const uint64_t life = welcome->welcome().life();
  proto::ToManager ask;
  ask.mutable_ask()->set_life(life);
  ask.mutable_ask()->set_number(1);
  ask.mutable_ask()->set_capacity(2 * kWholeUnit);
  desk_->on_message(stream, ask);
  EXPECT_EQ(Look().unit_size(), 0);
  EXPECT_EQ(Look().units_placed(), 0u);
  desk_->SetHosts({host("b")});
  // The member is told the host before a share.
  const auto hosts = stream->Await(What::kUnitHosts);
  ASSERT_TRUE(hosts.has_value());
  ASSERT_EQ(hosts->unit_hosts().unit_size(), 1);
  EXPECT_EQ(hosts->unit_hosts().unit(0).host(), "b");
  EXPECT_EQ(hosts->unit_hosts().unit(0).address(), "b:7000");
  const auto set = stream->Await(What::kSetShare);
  ASSERT_TRUE(set.has_value());
  desk_->on_message(stream, Confirming(set->set_share()));
  const auto grant = stream->Await(What::kGrant);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(Look().unit(0).host(), "b");
  EXPECT_EQ((*MemberFile::Read(file_))->sites.size(), 1u);

  // The host leaves, and another one joins: the unit is left first.
  desk_->SetHosts({host("c")});
  ASSERT_TRUE(stream->Await(What::kRevoke).has_value());
  ASSERT_TRUE(stream->Await(What::kUnitHosts).has_value());
  EXPECT_EQ((*MemberFile::Read(file_))->sites.size(), 2u);
  proto::ToManager back;
  back.mutable_give_back()->set_life(life);
  back.mutable_give_back()->set_lease(grant->grant().lease());
  desk_->on_message(stream, back);
  std::optional<proto::ToMember> next;
  do {
    next = stream->Await(What::kSetShare);
    ASSERT_TRUE(next.has_value());
    desk_->on_message(stream, Confirming(next->set_share()));
  } while (next->set_share().share() > 0);
  const auto stop = stream->Await(What::kStopUnit);
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->stop_unit().unit().unit(), grant->grant().unit().unit());
  proto::ToManager stopped;
  *stopped.mutable_unit_stopped() = stop->stop_unit().unit();
  desk_->on_message(stream, stopped);
  const Instant end = RealClock::Monotonic() + Seconds(30);
  while ((*MemberFile::Read(file_))->sites.size() > 1 &&
         RealClock::Monotonic() < end) {
    poll(nullptr, 0, 5);
  }
  const auto noted = *MemberFile::Read(file_);
  ASSERT_EQ(noted->sites.size(), 1u);
  EXPECT_EQ(noted->sites[0].of.host, "c");
  EXPECT_EQ(Look().units_placed(), 1u);
}

}  // namespace
}  // namespace snf
