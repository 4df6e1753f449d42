// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/place_giving.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/daemon/group/away_flows.h"
#include "platform/daemon/group/flow_messages.h"
#include "platform/daemon/group/host_homes.h"
#include "platform/daemon/group/test_natting.h"
#include "platform/ports/interface/network_interface.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr char kClosed = 'C';
constexpr uint32_t kSelf = 0, kLive = 1, kDead = 2, kCount = 3;
constexpr uint32_t kFlows = 40;

class FakeMember final : public GroupMember {
 public:
  void Begin() override {}
  void Leave() override {}
  View Current() const override { return view; }
  void OnTurn(uint64_t /*epoch*/) override {}
  void OnOut(uint64_t /*epoch*/) override {}
  const std::string& group() const override { return name_; }
  std::optional<GatewayGroup::Place> HandOn(uint64_t epoch) override {
    EXPECT_EQ(epoch, view.table->epoch);
    ++handed_on;
    return GatewayGroup::Place{.table = *view.table,
                               .is_active = true,
                               .joined = view.joined,
                               .vouched_until = {123}};
  }

  View view;
  int handed_on = 0;

 private:
  const std::string name_ = "g";
};

// A process of member kSelf, whose group has the members kSelf and kLive.
struct Process {
  Process()
      : natting(std::in_place, kSelf, kCount),
        heirs(*StateLink::Listen("127.0.0.1:0"), kSelf, {}) {
    GatewayTable table;
    table.epoch = 7;
    table.members = {{.number = kSelf, .incarnation = 1},
                     {.number = kLive, .incarnation = 3}};
    member.view = {.table = std::make_shared<const GatewayTable>(table),
                   .is_in = true,
                   .is_active = true,
                   .joined = 5};
    heirs.Follow(member.view);
    heirs.set_active(true);
    heirs.Turn(&**natting, Natting::Now());
  }
  ~Process() { natting.reset(); }  // its last states go to `heirs`

  void Turn() {
    heirs.Turn(&**natting, Natting::Now());
    (*natting)->Poll();
  }
  void TakeIn() {
    const Instant end = RealClock::Monotonic() + Seconds(20);
    while (heirs.is_continuing() && RealClock::Monotonic() < end) Turn();
    EXPECT_FALSE(heirs.is_continuing());
  }
  uint64_t count(const std::string& name) const {
    for (const NamedCount& one : heirs.named()) {
      if (one.name == "states_" + name) return one.count;
    }
    ADD_FAILURE() << name;
    return 0;
  }
  FakeMember member;
  std::optional<Natting> natting;
  FlowHeirs heirs;
};

class PlaceGivingTest : public testing::Test {
 protected:
  PlaceGivingTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
    old_end_ = Descriptor(ends[0]);
    new_end_ = Descriptor(ends[1]);
    const timeval patience = {.tv_sec = 20, .tv_usec = 0};
    setsockopt(new_end_.number(), SOL_SOCKET, SO_RCVTIMEO, &patience,
               sizeof patience);
    for (uint32_t flow = 0; flow < kFlows; ++flow) {
      ports_.push_back(old_.natting->PortOf(flow));
    }
  }

  void Begin() {
    giving_ = std::make_unique<PlaceGiving>(
        old_end_.number(), old_.member, old_.heirs,
        [this](bool is_gone) { told_ = is_gone; });
  }
  PlaceGiving::State TurnOnce() {
    old_.Turn();
    return giving_->Turn(&**old_.natting);
  }
  PlaceGiving::State TurnUntilOver() {
    const Instant end = RealClock::Monotonic() + Seconds(20);
    while (TurnOnce() == PlaceGiving::State::kGives &&
           RealClock::Monotonic() < end) {
    }
    return giving_->state();
  }
  // Gives the place to a process that reads it meanwhile.
  absl::StatusOr<ReceivedPlace> GivePlace() {
    absl::StatusOr<ReceivedPlace> received;
    std::thread other(
        [&] { received = ReceivePlace(new_end_.number(), kClosed); });
    send(old_end_.number(), &kClosed, 1, 0);
    Begin();
    TurnUntilOver();
    other.join();
    return received;
  }

  Descriptor old_end_;
  Descriptor new_end_;
  Process old_;
  std::vector<uint32_t> ports_;  // by flow
  std::unique_ptr<StateLink> link_ = *StateLink::Listen("127.0.0.1:0");
  std::unique_ptr<PlaceGiving> giving_;
  std::optional<bool> told_;
};

TEST_F(PlaceGivingTest, FlowsGoOnAtTheOtherProcessWithTheirPorts) {
  auto received = GivePlace();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(told_, true);
  EXPECT_EQ(old_.member.handed_on, 1);
  EXPECT_EQ(received->place.table, *old_.member.view.table);
  EXPECT_TRUE(received->place.is_active);
  EXPECT_EQ(received->place.joined, 5u);
  EXPECT_EQ(received->place.vouched_until, Instant{123});
  EXPECT_EQ(received->lost, 0u);
  ASSERT_EQ(received->flows.size(), kFlows);

  Process next;
  next.heirs.Continue(std::move(received->flows), received->lost);
  EXPECT_TRUE(next.heirs.is_continuing());
  next.TakeIn();
  EXPECT_EQ(next.count("moved"), kFlows);
  EXPECT_EQ(next.count("returned"), kFlows);
  EXPECT_EQ(next.count("unreturned"), 0u);
  EXPECT_EQ(next.count("unmoved"), 0u);
  next.natting->Rest();
  // A new flow gets none of their ports.
  const uint32_t port = next.natting->PortOf(kFlows);
  EXPECT_EQ(std::ranges::count(ports_, port), 0);
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    EXPECT_EQ(next.natting->PortOf(flow), ports_[flow]) << flow;
  }
}

TEST_F(PlaceGivingTest, CopiesGoAlongAndGoOnOnceTheirMemberIsDead) {
  // A flow of the dead member, and a flow of the live one.
  Natting dead(kDead, kCount);
  Natting live(kLive, kCount);
  constexpr uint32_t kOfDead = 100, kOfLive = 101;
  const uint32_t port = dead.PortOf(kOfDead);
  live.PortOf(kOfLive);
  std::vector<StateLink::Received> copies;
  const MemberFlows::Give keep = [&](StateLink::Received message) {
    copies.push_back(std::move(message));
  };
  const auto copy_of = [&](Natting& natting, uint32_t home) {
    StandbyFlow copy = natting.Copy(0);
    copy.home = home;
    StandbyFlows standby({});
    standby.Put(home, 0, Natting::Now(), copy);
    AwayFlows away(Seconds(60));
    const HostHomes hosts;
    FlowReturns returns(kSelf, *link_, standby, away, hosts);
    MemberFlows moves(returns, kSelf);
    moves.Begin(natting->controller(), keep);
    moves.GiveCopies(standby, Natting::Now());
  };
  copy_of(dead, kDead);
  copy_of(live, kLive);
  ASSERT_EQ(copies.size(), 2u);
  old_.heirs.Continue(copies, 0);
  old_.Turn();
  ASSERT_EQ(old_.count("kept"), 2u);

  auto received = GivePlace();
  ASSERT_TRUE(received.ok()) << received.status();
  ASSERT_EQ(received->flows.size(), kFlows + 2);
  Process next;
  next.heirs.Continue(std::move(received->flows), 0);
  next.TakeIn();
  EXPECT_EQ(next.count("kept"), 2u);
  EXPECT_EQ(next.natting->PortOf(kOfDead, &next.heirs), port);
  EXPECT_EQ(next.count("taken"), 1u);
  // The flow that continues for the dead member goes along once more.
  std::vector<StateLink::Received> again;
  next.heirs.BeginMove(**next.natting, [&](StateLink::Received message) {
    again.push_back(std::move(message));
  });
  const Instant end = RealClock::Monotonic() + Seconds(20);
  while (!next.heirs.Move(**next.natting, 1'000) &&
         RealClock::Monotonic() < end) {
    next.Turn();
  }
  EXPECT_EQ(again.size(), kFlows + 2);
  EXPECT_EQ(std::ranges::count(again, kDead, &StateLink::Received::from), 1);
}

TEST_F(PlaceGivingTest, KeysOfFlowsElsewhereGoAlong) {
  AwayMessage away;
  away.flow.home = kLive;
  away.flow.key.protocol = IpProtocol::kTcp;
  old_.heirs.Continue({{.from = kSelf, .bytes = BytesOf(away)}}, 0);
  old_.Turn();
  ASSERT_EQ(old_.count("away"), 1u);

  auto received = GivePlace();
  ASSERT_TRUE(received.ok()) << received.status();
  ASSERT_EQ(received->flows.size(), kFlows + 1);
  Process next;
  next.heirs.Continue(std::move(received->flows), 0);
  next.TakeIn();
  EXPECT_EQ(next.count("away"), 1u);
  EXPECT_EQ(next.count("malformed"), 0u);
  EXPECT_EQ(next.count("moved"), kFlows);
}

TEST_F(PlaceGivingTest, TheOldProcessGoesOnIfTheOtherEnds) {
  Begin();
  for (int i = 0; i < 50; ++i) TurnOnce();
  EXPECT_EQ(giving_->state(), PlaceGiving::State::kGives);
  new_end_ = Descriptor();
  EXPECT_EQ(TurnUntilOver(), PlaceGiving::State::kIsOff);
  EXPECT_EQ(told_, false);
  EXPECT_EQ(old_.member.handed_on, 0);
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    EXPECT_EQ(old_.natting->PortOf(flow), ports_[flow]) << flow;
  }
}

TEST_F(PlaceGivingTest, TheOldProcessGoesOnIfTheOtherDoesNotAnswer) {
  const Instant begun = RealClock::Monotonic();
  Begin();
  EXPECT_EQ(TurnUntilOver(), PlaceGiving::State::kIsOff);
  EXPECT_GE(RealClock::Monotonic() - begun, PlaceGiving::kMost);
  EXPECT_EQ(told_, false);
  EXPECT_EQ(old_.member.handed_on, 0);
  // The other process learns that later.
  const auto received = ReceivePlace(new_end_.number(), kClosed);
  EXPECT_EQ(received.status().message(),
            "the predecessor keeps its place: it has ended the connection");
}

TEST_F(PlaceGivingTest, AnAnswerBeforeAllFlowsWereGivenIsNone) {
  const char taken = 'R';
  send(new_end_.number(), &taken, 1, 0);
  Begin();
  EXPECT_EQ(TurnUntilOver(), PlaceGiving::State::kIsOff);
  EXPECT_EQ(old_.member.handed_on, 0);
}

}  // namespace
}  // namespace snf
