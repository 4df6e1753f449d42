// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/group_traffic.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/test_packets.h"
#include "platform/daemon/group/group_membership.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

constexpr uint32_t kCount = 3;
constexpr Instant kNow = {Seconds(1).ns};
constexpr size_t kInside = 0, kOutside = 1;  // ports
const IpAddress kExternal = V4(198, 51, 100, 1), kPeer = V4(192, 0, 2, 9);

// A member without etcd.
class FakeMember final : public GroupMember {
 public:
  FakeMember() { view.table = std::make_shared<const GatewayTable>(); }
  void Begin() override {}
  void Leave() override {}
  View Current() const override { return view; }
  void OnTurn(uint64_t epoch) override { applied = epoch; }
  void OnOut(uint64_t /*epoch*/) override {}
  const std::string& group() const override { return name; }

  void Vouch(bool is_vouched) {
    view.vouched_until = is_vouched ? Instant::max() : Instant::min();
  }
  // A member that may handle its hosts.
  void BeActive(const GatewayTable& table) {
    view = {.table = std::make_shared<const GatewayTable>(table),
            .is_in = true,
            .is_active = true,
            .joined = view.joined,
            .vouched_until = Instant::max()};
  }

  View view;
  uint64_t applied = 0;
  std::string name = "edge";
};

std::shared_ptr<const Steering> SteeringOf(uint32_t number) {
  const auto spec = NfSpec::Parse("nat(ip=198.51.100.1)");
  const auto example = spec->create();
  const auto steering = Steering::Of(*example, {.id = number, .count = kCount});
  EXPECT_TRUE(steering.ok()) << steering.status();
  return *steering;
}

const std::vector<PortSpec>& Ports() {
  static const std::vector<PortSpec> ports = {
      {.side = Side::kInside, .interface = ""},
      {.side = Side::kOutside, .interface = ""}};
  return ports;
}

GatewayTable TableOf(uint64_t epoch, const std::vector<uint32_t>& live,
                     const std::vector<std::string>& addresses = {}) {
  GatewayTable table = {.epoch = epoch, .key = 77};
  for (const uint32_t number : live) {
    table.members.push_back({.number = number});
    if (!addresses.empty()) table.members.back().address = addresses[number];
  }
  return table;
}

// A frame from a host inside.
Frame From(uint8_t host) {
  return Ethernet(0x0800, Ipv4({.source = V4(10, 0, 0, host)}, Udp(5'000, 53)));
}

// Returns a frame of a host that is `owner`'s among these live ones and
// `then`'s among those.
Frame FrameThatMoves(MemberSet before, uint32_t owner, MemberSet after,
                     uint32_t then) {
  const auto places = SteeringOf(0)->PlaceProgram(Side::kInside);
  const auto owners = Steering::OwnersAmong(before, kCount);
  const auto later = Steering::OwnersAmong(after, kCount);
  for (uint8_t host = 1; host < 255; ++host) {
    const uint32_t place = ResultOf(places, From(host)) - 1;
    if (owners[place] == owner && later[place] == then) return From(host);
  }
  ADD_FAILURE() << "no host";
  return {};
}
Frame FrameOf(MemberSet live, uint32_t owner) {
  return FrameThatMoves(live, owner, live, owner);
}

class SharedPorts : public testing::Test {
 protected:
  SharedPorts() : traffic_(member_, SteeringOf(0), nullptr, Ports()) {}
  bool Admits(const Frame& frame) {
    return traffic_.Admits(kInside, {.bytes = frame}, kNow);
  }
  uint64_t count(GroupCount count) const { return traffic_.counts().of(count); }
  void SeeEmpty() {
    traffic_.OnReceived(kInside, false);
    traffic_.OnReceived(kOutside, false);
  }
  // Until the ports filter by the table.
  void Join(const GatewayTable& table) {
    member_.BeActive(table);
    member_.view.joined = table.epoch;
    traffic_.Turn();
    SeeEmpty();
    traffic_.Turn();
    SeeEmpty();
  }

  FakeMember member_;
  GroupTraffic traffic_;
};

TEST_F(SharedPorts, WhoHasJoinedDrainsAndThenSteers) {
  const Frame own = FrameOf(0b111, 0);
  const auto nobody = SteeringOf(0)->Among(0);
  ASSERT_NE(traffic_.Turn(), nullptr);  // the ports' own filter is older
  EXPECT_TRUE(traffic_.may_receive());
  EXPECT_FALSE(Admits(own));
  EXPECT_EQ(count(GroupCount::kOut), 1u);
  for (const uint64_t epoch : {5u, 9u}) {
    member_.BeActive(TableOf(epoch, {0, 1, 2}));
    member_.view.joined = epoch;
    const auto first = traffic_.Turn();
    if (epoch == 9u) {  // from the filter by the table before
      ASSERT_NE(first, nullptr);
      EXPECT_TRUE(*first == *nobody);
    }
    const uint64_t out = count(GroupCount::kOut);
    EXPECT_FALSE(Admits(own));
    traffic_.OnReceived(kInside, true);
    traffic_.OnReceived(kOutside, false);
    EXPECT_EQ(traffic_.Turn(), nullptr);
    EXPECT_FALSE(Admits(own));
    EXPECT_EQ(count(GroupCount::kOut), out + 2);
    traffic_.OnReceived(kInside, false);
    const auto steering = traffic_.Turn();
    ASSERT_NE(steering, nullptr);
    EXPECT_TRUE(*steering == *SteeringOf(0)->Among(0b111));
    EXPECT_TRUE(Admits(own));
    EXPECT_EQ(traffic_.Turn(), nullptr);
  }
}

TEST_F(SharedPorts, WhoIsNotVouchedForHasFramesWait) {
  Join(TableOf(5, {0, 1, 2}));
  EXPECT_TRUE(traffic_.may_receive());
  member_.Vouch(false);
  EXPECT_EQ(traffic_.Turn(), nullptr);
  EXPECT_FALSE(traffic_.may_receive());
  EXPECT_EQ(traffic_.figures().state, "waiting");
  // As at the end, when all is read.
  EXPECT_FALSE(Admits(FrameOf(0b111, 0)));
  EXPECT_EQ(count(GroupCount::kNotYetOwn), 1u);
  member_.Vouch(true);
  traffic_.Turn();
  EXPECT_TRUE(traffic_.may_receive());
  EXPECT_TRUE(Admits(FrameOf(0b111, 0)));
}

TEST_F(SharedPorts, WhatWaitsAndHasBecomeAnothersIsDropped) {
  const Frame moves = FrameThatMoves(0b011, 0, 0b111, 2);
  const Frame stays = FrameThatMoves(0b011, 0, 0b111, 0);
  Join(TableOf(5, {0, 1}));
  EXPECT_TRUE(Admits(moves));
  member_.BeActive(TableOf(6, {0, 1, 2}));
  EXPECT_NE(traffic_.Turn(), nullptr);
  traffic_.OnTurned();
  EXPECT_EQ(member_.applied, 6u);
  EXPECT_FALSE(Admits(moves));
  EXPECT_TRUE(Admits(stays));
  EXPECT_EQ(count(GroupCount::kMoved), 1u);
  traffic_.OnReceived(kInside, true);
  EXPECT_FALSE(Admits(moves));
  // The filter alone says it from now on.
  traffic_.OnReceived(kInside, false);
  EXPECT_TRUE(Admits(moves));
  EXPECT_EQ(count(GroupCount::kMoved), 2u);
}

TEST_F(SharedPorts, SharesAreAHundredPercent) {
  for (const std::vector<uint32_t>& live :
       std::vector<std::vector<uint32_t>>{{0}, {0, 1}, {0, 1, 2}, {0, 2}}) {
    member_.BeActive(TableOf(live.size() + 10, live));
    traffic_.Turn();
    uint32_t sum = 0;
    for (const auto& one : traffic_.figures().members) sum += one.hosts_1000;
    EXPECT_EQ(sum, 1'000u) << live.size();
  }
}

// At a free port, which the address then names.
std::unique_ptr<GroupLink> OpenOn(const std::string& host,
                                  std::string& address) {
  auto link = GroupLink::Open(host + ":0");
  EXPECT_TRUE(link.ok()) << link.status();
  sockaddr_in end = {};
  socklen_t bytes = sizeof end;
  getsockname((*link)->descriptor(), reinterpret_cast<sockaddr*>(&end), &bytes);
  address = fmt::format("{}:{}", host, ntohs(end.sin_port));
  return *std::move(link);
}

// All members, as on machines of their own.
class OwnPorts : public testing::Test {
 protected:
  OwnPorts() {
    for (uint32_t number = 0; number < kCount; ++number) {
      const std::string host = fmt::format("127.0.0.{}", number + 1);
      auto link = OpenOn(host, addresses_.emplace_back());
      traffics_.push_back(std::make_unique<GroupTraffic>(
          members_[number], SteeringOf(number), std::move(link), Ports()));
    }
  }
  void Follow(uint64_t epoch, const std::vector<uint32_t>& live) {
    for (FakeMember& member : members_) {
      member.BeActive(TableOf(epoch, live, addresses_));
    }
    for (auto& traffic : traffics_) traffic->Turn();
  }
  bool Admits(size_t port, const Frame& frame) {
    return traffics_[0]->Admits(port, {.bytes = frame}, kNow);
  }
  uint64_t count(uint32_t number, GroupCount count) const {
    return traffics_[number]->counts().of(count);
  }
  // Returns how many frames the member takes in one call.
  size_t Take(uint32_t number) {
    size_t taken = 0;
    traffics_[number]->Receive(
        [&](size_t, const PortFrame& frame, const FlowHeirs::Way& way) {
          ++taken;
          last_way_ = way;
          last_segment_bytes_ = frame.segment_bytes;
        });
    return taken;
  }
  // Sends what is queued, and returns how many frames the member takes.
  size_t Pass(uint32_t to) {
    traffics_[0]->Flush();
    pollfd wanted = {
        .fd = traffics_[to]->descriptor(), .events = POLLIN, .revents = 0};
    size_t taken = 0;
    // The kernel may be late with some.
    for (int patience = 10'000; poll(&wanted, 1, patience) > 0; patience = 50) {
      taken += Take(to);
    }
    return taken;
  }
  // Takes greetings, so that frames come next.
  void Hear() {
    for (auto& traffic : traffics_) traffic->Flush();
    for (auto& traffic : traffics_) {
      while (traffic->Receive(
          [](size_t, const PortFrame&, const FlowHeirs::Way&) {})) {
      }
    }
  }

  std::array<FakeMember, kCount> members_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<GroupTraffic>> traffics_;
  FlowHeirs::Way last_way_{};  // of the last frame that was taken
  uint16_t last_segment_bytes_ = 0;
};

Frame PartOf(uint16_t id, uint16_t offset) {
  return Ethernet(0x0800, Ipv4({.source = kPeer,
                                .destination = kExternal,
                                .id = id,
                                .fragment_offset_bytes = offset,
                                .more_fragments = offset == 0},
                               Udp(53, 60'000)));  // in the block of 2
}

TEST_F(OwnPorts, FramesGoToTheirMember) {
  EXPECT_FALSE(Admits(kInside, From(1)));
  EXPECT_EQ(count(0, GroupCount::kOut), 1u);
  Follow(1, {0, 1, 2});
  Hear();
  EXPECT_TRUE(Admits(kInside, FrameOf(0b111, 0)));
  EXPECT_FALSE(Admits(kInside, FrameOf(0b111, 1)));
  EXPECT_EQ(count(0, GroupCount::kForwarded), 1u);
  EXPECT_EQ(Pass(1), 1u);
  EXPECT_EQ(count(1, GroupCount::kTaken), 1u);
  // By its own table the receiver does not have the host.
  const Frame moves = FrameThatMoves(0b111, 1, 0b011, 1);
  members_[1].BeActive(TableOf(2, {0, 2}, addresses_));
  traffics_[1]->Turn();
  EXPECT_FALSE(Admits(kInside, moves));
  EXPECT_EQ(Pass(1), 0u);
  EXPECT_EQ(count(1, GroupCount::kNotOwn), 1u);
  Follow(3, {});
  EXPECT_FALSE(Admits(kInside, From(1)));
  EXPECT_EQ(count(0, GroupCount::kNoOwner), 1u);
  EXPECT_EQ(count(0, GroupCount::kUnsendable), 0u);
}

TEST_F(OwnPorts, WhoIsNotVouchedForStillSendsOn) {
  Follow(1, {0, 1, 2});
  Hear();
  members_[0].Vouch(false);
  traffics_[0]->Turn();
  EXPECT_TRUE(traffics_[0]->may_receive());
  EXPECT_FALSE(Admits(kInside, FrameOf(0b111, 0)));
  EXPECT_EQ(count(0, GroupCount::kNotYetOwn), 1u);
  EXPECT_FALSE(Admits(kInside, FrameOf(0b111, 1)));
  EXPECT_EQ(count(0, GroupCount::kForwarded), 1u);
  // The other one may not handle them, and takes none either.
  members_[1].Vouch(false);
  traffics_[1]->Turn();
  EXPECT_EQ(Pass(1), 0u);
  EXPECT_EQ(count(1, GroupCount::kNotOwn), 1u);
}

TEST_F(OwnPorts, LaterFragmentsGoWhereTheFirstWent) {
  Follow(1, {0, 1, 2});
  Hear();
  EXPECT_FALSE(Admits(kOutside, PartOf(1, 1'480)));
  EXPECT_EQ(count(0, GroupCount::kNoFirst), 1u);
  EXPECT_FALSE(Admits(kOutside, PartOf(1, 0)));
  EXPECT_FALSE(Admits(kOutside, PartOf(1, 1'480)));
  EXPECT_EQ(count(0, GroupCount::kForwarded), 2u);
  EXPECT_EQ(Pass(2), 2u);
  // The owner is dead.
  Follow(2, {0});
  EXPECT_FALSE(Admits(kOutside, PartOf(1, 1'480)));
  EXPECT_EQ(count(0, GroupCount::kNoOwner), 1u);
  EXPECT_EQ(count(0, GroupCount::kUnsendable), 0u);
  // The identifier is used again: the newest first fragment counts.
  EXPECT_TRUE(Admits(kOutside, PartOf(1, 0)));
  EXPECT_TRUE(Admits(kOutside, PartOf(1, 1'480)));
  Follow(3, {0, 1, 2});
  EXPECT_TRUE(Admits(kOutside, PartOf(1, 1'480)));
  EXPECT_FALSE(Admits(kOutside, PartOf(1, 0)));
  EXPECT_FALSE(Admits(kOutside, PartOf(1, 1'480)));
  EXPECT_EQ(count(0, GroupCount::kForwarded), 4u);
}

TEST_F(OwnPorts, AFrameOfSeveralPacketsIsSentOnAsThese) {
  Follow(1, {0, 1, 2});
  Hear();
  constexpr size_t kSource = 14 + 15;  // its last byte
  const auto host = std::to_integer<uint8_t>(FrameOf(0b111, 1)[kSource]);
  const Frame frame = Ethernet(
      0x0800, Ipv4({.source = V4(10, 0, 0, host)}, Udp(5'000, 53, 4'000)));
  EXPECT_FALSE(traffics_[0]->Admits(
      kInside, {.bytes = frame, .segment_bytes = 1'400}, kNow));
  EXPECT_EQ(Pass(1), 3u);
  EXPECT_EQ(last_segment_bytes_, 0);
  EXPECT_EQ(count(0, GroupCount::kForwarded), 1u);
  EXPECT_EQ(count(0, GroupCount::kCut), 2u);
  EXPECT_EQ(count(1, GroupCount::kTaken), 3u);
}

TEST_F(OwnPorts, FramesOfPortsThatAreNotThereAreCounted) {
  std::vector<PortSpec> ports = Ports();
  ports.push_back({.side = Side::kInside, .interface = "", .number = 2});
  auto link = OpenOn("127.0.0.4", addresses_[0]);
  traffics_[0] = std::make_unique<GroupTraffic>(members_[0], SteeringOf(0),
                                                std::move(link), ports);
  Follow(1, {0, 1, 2});
  Hear();
  EXPECT_FALSE(Admits(2, FrameOf(0b111, 1)));
  EXPECT_EQ(Pass(1), 0u);
  EXPECT_EQ(count(1, GroupCount::kNoPort), 1u);
}

TEST_F(OwnPorts, TakesAsManyFramesOfOthersAsOfAPort) {
  constexpr size_t kFrames = 64;
  Follow(1, {0, 1, 2});
  Hear();
  const Frame frame = FrameOf(0b111, 1);
  size_t most = 0;
  // The kernel may be late with some.
  for (int i = 0; i < 100 && most <= GroupLink::kBatch; ++i) {
    for (size_t k = 0; k < kFrames; ++k) Admits(kInside, frame);
    traffics_[0]->Flush();
    poll(nullptr, 0, 10);
    most = std::max(most, Take(1));
    EXPECT_LE(most, 2 * kFrames);
  }
  EXPECT_GT(most, GroupLink::kBatch);
}

TEST_F(OwnPorts, AFrameThatIsSetAsideGoesToWhoHasItsFlow) {
  using Kind = FlowHeirs::Way::Kind;
  Follow(5, {0, 1, 2});
  const Frame own = FrameOf(0b111, 0), other = FrameOf(0b111, 2);
  const auto set_aside = [this](const Frame& frame,
                                const FlowHeirs::Aside& aside) {
    traffics_[0]->SetAside(kInside, {.bytes = frame, .segment_bytes = 1'400},
                           aside);
    return Pass(aside.to);
  };
  EXPECT_EQ(set_aside(own, {.to = 2, .home = 2}), 1u);
  EXPECT_EQ(last_way_.kind, Kind::kHolder);
  EXPECT_EQ(last_way_.from, 0u);
  EXPECT_EQ(last_segment_bytes_, 0);  // cut, for a network is between them
  EXPECT_EQ(count(0, GroupCount::kAside), 1u);
  EXPECT_EQ(count(2, GroupCount::kTaken), 1u);
  // A member that lives has its pieces itself.
  EXPECT_EQ(set_aside(own, {.to = 2, .home = 1}), 0u);
  EXPECT_EQ(count(2, GroupCount::kNotOwn), 1u);
  EXPECT_EQ(set_aside(own, {.to = 2, .home = 200}), 0u);
  // A frame that comes back has hosts of who gets it.
  EXPECT_EQ(set_aside(own, {.to = 2, .home = 0, .is_back = true}), 0u);
  EXPECT_EQ(set_aside(other, {.to = 2, .home = 0, .is_back = true}), 1u);
  EXPECT_EQ(last_way_.kind, Kind::kBack);
  Follow(6, {0, 2});
  EXPECT_EQ(set_aside(own, {.to = 2, .home = 1}), 1u);
}

}  // namespace
}  // namespace snf
