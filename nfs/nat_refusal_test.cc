// SPDX-License-Identifier: Apache-2.0
// Tests of the NAT's answer to the inside when it can make no mapping.
#include <algorithm>
#include <string>

#include "gtest/gtest.h"
#include "nfs/test_nat.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

const TestEnd kInside = {V4(10, 0, 0, 1), 5000};
const TestEnd kPeer = {V4(192, 0, 9, 9), 53};
const IpAddress kExternal = V4(192, 0, 2, 1);

Frame Udp(const TestEnd& from, const TestEnd& to) {
  return Between(17, from, to);
}

TEST(NatRefusal, TellsTheInsideWhenPortsAreExhaustedOnceASecond) {
  TestNat nat("ports=2000-2000");
  TestNat::Flow one = nat.NewFlow(), two = nat.NewFlow();
  nat.FromInside(one, Udp(kInside, kPeer));
  for (size_t pool = 0; pool < nat.pools().size(); ++pool) {
    nat.exhausted.insert(static_cast<uint16_t>(pool));
  }
  const Frame packet = Udp({V4(10, 0, 0, 2), 5000}, kPeer);
  EXPECT_EQ(nat.FromInside(two, packet).drop, "ports_exhausted");
  ASSERT_EQ(nat.emitted.size(), 1u);
  const Frame& refusal = nat.emitted[0];
  EXPECT_TRUE(HasGoodChecksums(refusal));
  EXPECT_EQ(DestinationOf(refusal).address, V4(10, 0, 0, 2));
  EXPECT_EQ(SourceOf(refusal).address, kExternal);
  EXPECT_EQ(refusal[20], std::byte{3});
  EXPECT_EQ(refusal[21], std::byte{13});
  EXPECT_EQ(Frame(refusal.begin() + 28, refusal.end()), packet);

  nat.FromInside(two, packet, Milliseconds(999));
  EXPECT_EQ(nat.emitted.size(), 1u);
  nat.FromInside(two, packet, Milliseconds(1000));
  EXPECT_EQ(nat.emitted.size(), 2u);
}

// The host's external address has no port left, but another address has.
TEST(NatRefusal, RefusesRatherThanGiveAHostASecondExternalAddress) {
  TestNat nat("ip=192.0.2.1-192.0.2.2,ports=2000-2000");
  nat.exhausted = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  for (const uint8_t protocol : {uint8_t{6}, uint8_t{17}}) {
    const size_t pieces = nat.pieces();
    TestNat::Flow one = nat.NewFlow(), two = nat.NewFlow();
    EXPECT_EQ(nat.FromInside(one, Between(protocol, kInside, kPeer)).drop, "");
    EXPECT_EQ(
        nat.FromInside(two, Between(protocol, {kInside.address, 5001}, kPeer))
            .drop,
        "ports_exhausted");
    EXPECT_EQ(nat.pieces(), pieces - 1);
  }
}

TEST(NatRefusal, IsOfTheDiffservClassOfThePacket) {
  TestNat nat("ports=2000-2000");
  nat.exhausted = {0, 1, 2, 3, 4, 5};
  TestNat::Flow first = nat.NewFlow(), flow = nat.NewFlow();
  nat.FromInside(first, Udp(kInside, kPeer));
  Frame packet = Udp({kInside.address, 5001}, kPeer);
  packet[1] = std::byte{0xbb};  // expedited forwarding, congestion experienced
  nat.FromInside(flow, packet);
  ASSERT_EQ(nat.emitted.size(), 1u);
  EXPECT_EQ(nat.emitted[0][1], std::byte{0xb8});
  EXPECT_EQ(nat.emitted[0][29], std::byte{0xbb});
}

TEST(NatRefusal, FramesARefusalAsThePacketWas) {
  TestNat nat("ports=2000-2000");
  nat.exhausted = {0, 1, 2, 3, 4, 5};
  TestNat::Flow first = nat.NewFlow();
  nat.FromInside(first, Udp(kInside, kPeer));
  const Frame packet = Udp(kInside, kPeer);
  const auto refusal = [&](const Frame& frame,
                           const std::string& drop = "ports_exhausted") {
    nat.emitted.clear();
    TestNat::Flow flow = nat.NewFlow();
    EXPECT_EQ(
        nat.Send(flow, Side::kInside, frame, {}, LinkType::kEthernet).drop,
        drop);
    return nat.emitted.empty() ? Frame() : nat.emitted[0];
  };
  const Frame vlan = refusal(Ethernet(0x8100, Vlan(7, 0x0800, packet)));
  ASSERT_GT(vlan.size(), 18u);
  EXPECT_EQ(Frame(vlan.begin(), vlan.begin() + 18),
            Hex("02 00 00 00 00 01  02 00 00 00 00 02  81 00 00 07 08 00"));
  EXPECT_TRUE(HasGoodChecksums(Frame(vlan.begin() + 18, vlan.end())));
  // A packet whose link header contains a length is not answered.
  EXPECT_TRUE(refusal(Ethernet(0x8864, Pppoe(0x21, packet))).empty());
  EXPECT_TRUE(refusal(Snap(0x0800, packet)).empty());
  // A broadcast is not answered either.
  Frame broadcast = Ethernet(0x0800, packet);
  std::fill_n(broadcast.begin(), 6, std::byte{0xff});
  EXPECT_TRUE(refusal(broadcast, "not_unicast").empty());
  EXPECT_TRUE(refusal(Ethernet(0x0800, Udp(kInside, {V4(224, 0, 0, 251), 53})),
                      "not_unicast")
                  .empty());
  EXPECT_TRUE(refusal(Ethernet(0x0800, Udp({V4(0, 0, 0, 0), 68}, kPeer)),
                      "martian_address")
                  .empty());
}

TEST(NatRefusal, QuotesNoMoreInARefusalThan576BytesHold) {
  TestNat nat("ports=2000-2000");
  nat.exhausted = {0, 1, 2, 3, 4, 5};
  TestNat::Flow first = nat.NewFlow(), flow = nat.NewFlow();
  nat.FromInside(first, Udp(kInside, kPeer));
  nat.FromInside(flow, Ipv4({}, snf::Udp(5000, 53, 1400)));
  ASSERT_EQ(nat.emitted.size(), 1u);
  EXPECT_EQ(nat.emitted[0].size(), 576u);
}

TEST(NatRefusal, GivesThePortBackAndTellsTheInsideWhenTheHostHasTooMany) {
  TestNat nat("host_ports=2");
  const size_t before = nat.pieces();
  TestNat::Flow flow = nat.NewFlow();
  const Frame packet = Udp(kInside, kPeer);
  nat.FromInside(flow, packet);
  EXPECT_EQ(nat.pieces(), before - 1);
  nat.RefuseAlias(flow, AliasResult::kGroupFull);
  EXPECT_EQ(nat.pieces(), before);
  ASSERT_EQ(nat.emitted.size(), 1u);
  EXPECT_TRUE(HasGoodChecksums(nat.emitted[0]));
  EXPECT_EQ(DestinationOf(nat.emitted[0]).address, kInside.address);
  // The answer quotes the packet as it came.
  EXPECT_EQ(Frame(nat.emitted[0].begin() + 28, nat.emitted[0].end()), packet);

  // There is one answer a second, and the flow gets a mapping once there is
  // room.
  nat.FromInside(flow, packet, Milliseconds(500));
  nat.RefuseAlias(flow, AliasResult::kGroupFull);
  EXPECT_EQ(nat.emitted.size(), 1u);
  EXPECT_EQ(nat.FromInside(flow, packet, Seconds(2)).drop, "");
  EXPECT_EQ(nat.FromOutside(flow, Udp(kPeer, {kExternal, 5000})).drop, "");
}

TEST(NatRefusal, LeavesPortsToOtherHostsByDefault) {
  NfTest nf("nat:ip=192.0.2.1,ports=1024-9999");
  const auto send = [&nf](int host, int port) {
    return nf
        .Send("udp 10.0.0." + std::to_string(host) + ":" +
              std::to_string(port) + " > 192.0.9.9:53")
        .text;
  };
  int mapped = 0;
  for (int port = 1; port <= 8'000; ++port) {
    if (send(1, port) != "drop mapping_limit") ++mapped;
  }
  EXPECT_EQ(mapped, 4'096);
  EXPECT_EQ(nf.count("over_host_ports"), 8'000u - 4'096);
  EXPECT_EQ(send(2, 1), "udp 192.0.2.1:5121 > 192.0.9.9:53");
  // Without a limit it takes them all.
  NfTest all("nat:ip=192.0.2.1,ports=1024-9999,host_ports=0");
  for (int port = 1; port <= 8'000; ++port) {
    EXPECT_NE(
        all.Send("udp 10.0.0.1:" + std::to_string(port) + " > 192.0.9.9:53")
            .text,
        "drop mapping_limit");
  }
  EXPECT_EQ(all.count("over_host_ports"), 0u);
}

}  // namespace
}  // namespace snf
