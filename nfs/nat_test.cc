// SPDX-License-Identifier: Apache-2.0
// Tests of mappings, their ports, filters and ends, mostly with UDP;
// nfs/nat.md names these tests requirement by requirement.
#include "base/packet/endpoint.h"
#include "gtest/gtest.h"
#include "nfs/test_nat.h"

namespace snf {
namespace {

constexpr uint8_t kUdp = 17, kTcp = 6, kIcmp = 1;
constexpr uint8_t kProtocols[] = {kUdp, kTcp, kIcmp};

const TestEnd kInside = {V4(10, 0, 0, 1), 5000};
const TestEnd kPeer = {V4(192, 0, 9, 9), 53};
const TestEnd kOther = {V4(203, 0, 113, 7), 4242};
const IpAddress kExternal = V4(192, 0, 2, 1);

bool operator==(const TestEnd& a, const TestEnd& b) {
  return a.address == b.address && a.port == b.port;
}

Frame Udp(const TestEnd& from, const TestEnd& to) {
  return Between(kUdp, from, to);
}

TEST(Nat, RewritesTheSourceOnTheWayOutAndTheDestinationOnTheWayBack) {
  for (const uint8_t protocol : kProtocols) {
    TestNat nat;
    TestNat::Flow flow = nat.NewFlow();
    const auto out = nat.FromInside(flow, Between(protocol, kInside, kPeer));
    ASSERT_EQ(out.drop, "");
    const TestEnd external = SourceOf(out.frame);
    EXPECT_EQ(external.address, kExternal);
    EXPECT_EQ(out.frame, Between(protocol, external, kPeer));

    const auto back = nat.FromOutside(
        flow, Between(protocol, kPeer, external, 0x10, 0), Seconds(1));
    EXPECT_EQ(back.drop, "");
    EXPECT_EQ(back.frame, Between(protocol, kPeer, kInside, 0x10, 0));
  }
}

TEST(Nat, AnnouncesTheExternalEndpointAsTheFlowsAlias) {
  for (const uint8_t protocol : kProtocols) {
    TestNat nat("host_ports=7");
    TestNat::Flow flow = nat.NewFlow();
    const auto out = nat.FromInside(flow, Between(protocol, kInside, kPeer));
    const TestEnd external = SourceOf(out.frame);
    ASSERT_EQ(nat.aliases.size(), 1u);
    EXPECT_EQ(nat.aliases[0].key,
              EndpointKey(external.address, be16(external.port),
                          IpProtocol{protocol}, FlowKeyForm::kIpv4Endpoint));
    EXPECT_EQ(nat.aliases[0].group, 0x0a00'0001u);
    EXPECT_EQ(nat.aliases[0].limit, 7u);
    // The second packet needs no other alias.
    nat.FromInside(flow, Between(protocol, kInside, kPeer), Seconds(1));
    EXPECT_EQ(nat.aliases.size(), 1u);
  }
}

TEST(Nat, MapsAnEndpointToTheSameExternalOneWhoeverThePeer) {
  for (const uint8_t protocol : kProtocols) {
    TestNat nat;
    TestNat::Flow flow = nat.NewFlow();
    const auto one = nat.FromInside(flow, Between(protocol, kInside, kPeer));
    const auto two = nat.FromInside(flow, Between(protocol, kInside, kOther));
    EXPECT_TRUE(SourceOf(one.frame) == SourceOf(two.frame));
    EXPECT_EQ(two.frame, Between(protocol, SourceOf(one.frame), kOther));
  }
}

TEST(Nat, TakesExternalAddressesFromThePoolOfTheSource) {
  const auto used = [](TestNat& nat, uint8_t b, uint8_t c) {
    std::set<IpAddress> addresses;
    for (uint8_t host = 1; host <= 20; ++host) {
      for (const uint8_t protocol : kProtocols) {
        TestNat::Flow flow = nat.NewFlow();
        const auto sent = nat.FromInside(
            flow, Between(protocol, {V4(10, b, c, host), 5000}, kPeer));
        EXPECT_EQ(sent.drop, "");
        addresses.insert(SourceOf(sent.frame).address);
      }
    }
    return addresses;
  };
  using Addresses = std::set<IpAddress>;
  TestNat nat(
      "ip=192.0.2.1,pool=10.1.0.0/16:192.0.2.5-192.0.2.6+"
      "10.1.2.0/24:192.0.2.3+10.3.0.0/16:192.0.2.5");
  EXPECT_EQ(used(nat, 0, 0), Addresses({V4(192, 0, 2, 1)}));
  EXPECT_EQ(used(nat, 1, 0), Addresses({V4(192, 0, 2, 5), V4(192, 0, 2, 6)}));
  EXPECT_EQ(used(nat, 1, 2), Addresses({V4(192, 0, 2, 3)}));
  EXPECT_EQ(used(nat, 3, 0), Addresses({V4(192, 0, 2, 5)}));
}

TEST(Nat, TakesNoPortOfAnotherSourcesPool) {
  TestNat nat("ip=192.0.2.1,ports=2000-2000,pool=10.1.0.0/16:192.0.2.5");
  nat.exhausted = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  TestNat::Flow one = nat.NewFlow(), two = nat.NewFlow(), three = nat.NewFlow();
  EXPECT_EQ(nat.FromInside(one, Udp({V4(10, 1, 0, 1), 5000}, kPeer)).drop, "");
  EXPECT_EQ(nat.FromInside(two, Udp({V4(10, 1, 0, 2), 5000}, kPeer)).drop,
            "ports_exhausted");
  EXPECT_EQ(nat.FromInside(three, Udp(kInside, kPeer)).drop, "");
  // A packet from the inside must not claim any of the addresses.
  TestNat::Flow four = nat.NewFlow();
  EXPECT_EQ(nat.FromInside(four, Udp({V4(192, 0, 2, 5), 5000}, kPeer)).drop,
            "source_is_external");
}

TEST(Nat, PairsAnInsideAddressWithOneExternalAddress) {
  TestNat nat("ip=192.0.2.1-192.0.2.4");
  std::set<IpAddress> used;
  for (uint8_t host = 1; host <= 20; ++host) {
    std::set<IpAddress> of_host;
    for (const uint8_t protocol : kProtocols) {
      for (uint16_t port = 6000; port < 6010; ++port) {
        TestNat::Flow flow = nat.NewFlow();
        const auto out = nat.FromInside(
            flow, Between(protocol, {V4(10, 0, 0, host), port}, kPeer));
        of_host.insert(SourceOf(out.frame).address);
      }
    }
    EXPECT_EQ(of_host.size(), 1u) << int{host};
    used.merge(of_host);
  }
  EXPECT_EQ(used.size(), 4u);
}

TEST(Nat, SpreadsEndpointsWherePoolingIsArbitrary) {
  TestNat nat("ip=192.0.2.1-192.0.2.4,pooling=arbitrary");
  std::set<IpAddress> used;
  for (uint16_t port = 6000; port < 6050; ++port) {
    TestNat::Flow flow = nat.NewFlow();
    const auto out = nat.FromInside(flow, Udp({kInside.address, port}, kPeer));
    used.insert(SourceOf(out.frame).address);
  }
  EXPECT_EQ(used.size(), 4u);
}

TEST(Nat, NeverGivesTwoEndpointsOfAProtocolTheSamePort) {
  TestNat nat("ports=2000-2999");
  for (const uint8_t protocol : kProtocols) {
    std::set<uint16_t> used;
    for (uint16_t i = 0; i < 1000; ++i) {
      TestNat::Flow flow = nat.NewFlow();
      const auto out =
          nat.FromInside(flow, Between(protocol,
                                       {V4(10, 0, static_cast<uint8_t>(i / 250),
                                           static_cast<uint8_t>(1 + i % 250)),
                                        5000},
                                       kPeer));
      ASSERT_EQ(out.drop, "");
      const uint16_t port = SourceOf(out.frame).port;
      EXPECT_TRUE(port >= 2000 && port <= 2999);
      EXPECT_TRUE(used.insert(port).second) << port;
    }
  }
}

TEST(Nat, KeepsTheInsidePortWhereItIsFree) {
  for (const uint8_t protocol : kProtocols) {
    TestNat nat;
    TestNat::Flow flow = nat.NewFlow();
    const auto out = nat.FromInside(flow, Between(protocol, kInside, kPeer));
    EXPECT_EQ(SourceOf(out.frame).port, 5000);
  }
}

TEST(Nat, KeepsAPortsParityAndHalf) {
  TestNat nat("ports=1-65535");
  constexpr uint16_t kPorts[] = {53, 54, 5000, 5001};
  for (const uint16_t port : kPorts) {
    for (uint8_t host = 1; host <= 40; ++host) {
      TestNat::Flow flow = nat.NewFlow();
      const auto out =
          nat.FromInside(flow, Udp({V4(10, 0, 0, host), port}, kPeer));
      const uint16_t external = SourceOf(out.frame).port;
      EXPECT_EQ(external % 2, port % 2);
      EXPECT_EQ(external < 1024, port < 1024);
    }
  }
}

TEST(Nat, GivesAPortOfTheOtherParityBeforeNone) {
  TestNat nat("ports=2000-2003");
  for (uint8_t host = 1; host <= 4; ++host) {
    TestNat::Flow flow = nat.NewFlow();
    const Frame packet = Udp({V4(10, 0, 0, host), 5000}, kPeer);
    EXPECT_EQ(nat.FromInside(flow, packet).drop, "") << int{host};
  }
}

TEST(Nat, GivesAPortOfTheOtherHalfOnlyWhereThereIsNoneOfItsOwn) {
  TestNat nat("ports=1023-1024");
  TestNat::Flow low = nat.NewFlow(), low_too = nat.NewFlow();
  EXPECT_EQ(
      SourceOf(nat.FromInside(low, Udp({kInside.address, 53}, kPeer)).frame)
          .port,
      1023);
  const Frame packet = Udp({kInside.address, 55}, kPeer);
  EXPECT_EQ(nat.FromInside(low_too, packet).verdict.kind(),
            Verdict::Kind::kWait);
  nat.exhausted.insert(2);  // low ports of UDP
  EXPECT_EQ(SourceOf(nat.FromInside(low_too, packet).frame).port, 1024);
}

TEST(Nat, WaitsForPortsAndChangesNothingMeanwhile) {
  TestNat nat("ports=2000-2000");
  TestNat::Flow one = nat.NewFlow(), two = nat.NewFlow();
  nat.FromInside(one, Udp(kInside, kPeer));
  const TestNat::Flow before = two;
  const Frame packet = Udp({V4(10, 0, 0, 2), 5000}, kPeer);
  const auto waits = nat.FromInside(two, packet);
  EXPECT_EQ(waits.verdict.kind(), Verdict::Kind::kWait);
  EXPECT_EQ(nat.nf().pools()[static_cast<size_t>(waits.verdict.pool())].name,
            "udp 192.0.2.1 2000-2000");
  EXPECT_EQ(two.record, before.record);
  nat.End(one);
  EXPECT_EQ(nat.FromInside(two, packet).drop, "");
}

TEST(Nat, GivesThePortBackWhenTheAliasIsAnotherFlows) {
  for (const char* options : {"", "host_ports=3"}) {
    TestNat nat(options);
    const size_t before = nat.pieces();
    TestNat::Flow flow = nat.NewFlow();
    nat.FromInside(flow, Udp(kInside, kPeer));
    nat.RefuseAlias(flow, AliasResult::kConflict);
    EXPECT_EQ(nat.pieces(), before);
    EXPECT_TRUE(nat.emitted.empty());
    EXPECT_EQ(nat.FromOutside(flow, Udp(kPeer, {kExternal, 5000})).drop,
              "no_mapping");
  }
}

TEST(Nat, ForgetsWhoMightAnswerAMappingThatDidNotCome) {
  TestNat nat("filtering=address_dependent");
  TestNat::Flow flow = nat.NewFlow();
  nat.FromInside(flow, Udp(kInside, kOther));
  nat.RefuseAlias(flow, AliasResult::kConflict);
  nat.FromInside(flow, Udp(kInside, kPeer));
  EXPECT_EQ(nat.FromOutside(flow, Udp(kOther, {kExternal, 5000})).drop,
            "filtered");
}

TEST(Nat, GivesThePortBackWhenTheFlowEnds) {
  TestNat nat;
  const size_t before = nat.pieces();
  TestNat::Flow flow = nat.NewFlow(), empty = nat.NewFlow();
  nat.FromInside(flow, Udp(kInside, kPeer));
  nat.End(flow);
  nat.End(empty);
  EXPECT_EQ(nat.pieces(), before);
}

TEST(Nat, AdmitsAnybodyWhereFilteringIsEndpointIndependent) {
  for (const uint8_t protocol : {kUdp, kTcp}) {
    TestNat nat;
    TestNat::Flow flow = nat.NewFlow();
    nat.FromInside(flow, Between(protocol, kInside, kPeer));
    EXPECT_EQ(
        nat.FromOutside(flow, Between(protocol, kOther, {kExternal, 5000}))
            .drop,
        "");
  }
}

TEST(Nat, AdmitsOnlyAddressesSentToWhereFilteringIsAddressDependent) {
  for (const uint8_t protocol : {kUdp, kTcp}) {
    TestNat nat("filtering=address_dependent");
    TestNat::Flow flow = nat.NewFlow();
    nat.FromInside(flow, Between(protocol, kInside, kPeer));
    const auto drop = [&](const TestEnd& from) {
      return nat.FromOutside(flow, Between(protocol, from, {kExternal, 5000}))
          .drop;
    };
    EXPECT_EQ(drop(kPeer), "");
    EXPECT_EQ(drop({kPeer.address, 9999}), "");
    EXPECT_EQ(drop(kOther), "filtered");
  }
}

TEST(Nat, AdmitsOnlyEndpointsSentToWhereFilteringIsAddressAndPortDependent) {
  for (const uint8_t protocol : {kUdp, kTcp}) {
    TestNat nat("filtering=address_and_port_dependent");
    TestNat::Flow flow = nat.NewFlow();
    nat.FromInside(flow, Between(protocol, kInside, kPeer));
    const auto drop = [&](const TestEnd& from) {
      return nat.FromOutside(flow, Between(protocol, from, {kExternal, 5000}))
          .drop;
    };
    EXPECT_EQ(drop(kPeer), "");
    EXPECT_EQ(drop({kPeer.address, 9999}), "filtered");
    EXPECT_EQ(drop(kOther), "filtered");
  }
}

TEST(Nat, FiltersPeersLongSilentAndTheOldestOfTooMany) {
  for (const char* options : {"filtering=address_dependent,peers=2",
                              "filtering=address_and_port_dependent,peers=2"}) {
    TestNat nat(options);
    TestNat::Flow flow = nat.NewFlow();
    const TestEnd peers[] = {
        {V4(192, 0, 9, 1), 1}, {V4(192, 0, 9, 2), 2}, {V4(192, 0, 9, 3), 3}};
    const auto drop = [&](const TestEnd& from, Nanos at) {
      return nat.FromOutside(flow, Udp(from, {kExternal, 5000}), at).drop;
    };
    nat.FromInside(flow, Udp(kInside, peers[0]), Seconds(0));
    nat.FromInside(flow, Udp(kInside, peers[1]), Seconds(10));
    nat.FromInside(flow, Udp(kInside, peers[0]), Seconds(20));
    EXPECT_EQ(drop(peers[1], Seconds(21)), "");
    nat.FromInside(flow, Udp(kInside, peers[2]), Seconds(30));
    EXPECT_EQ(drop(peers[1], Seconds(31)), "filtered");
    EXPECT_EQ(drop(peers[0], Seconds(31)), "");
    nat.FromInside(flow, Udp(kInside, peers[2]), Seconds(310));
    EXPECT_EQ(drop(peers[0], Seconds(319)), "");
    EXPECT_EQ(drop(peers[0], Seconds(324)), "filtered");
    EXPECT_EQ(drop(peers[2], Seconds(324)), "");
  }
}

TEST(Nat, DropsInboundPacketsWhenTheTimeSinceTheLastOutboundOneIsOver) {
  struct Case {
    uint8_t protocol;
    int64_t seconds;
  };
  for (const Case& c : {Case{kUdp, 300}, Case{kIcmp, 60}, Case{kTcp, 240}}) {
    for (const bool is_late : {false, true}) {
      TestNat nat;
      const size_t before = nat.pieces();
      TestNat::Flow flow = nat.NewFlow();
      const Frame out = Between(c.protocol, kInside, kPeer, 2);
      nat.FromInside(flow, out);
      nat.FromInside(flow, out, Seconds(40));
      // Another endpoint sends: a TCP peer's answer would establish the
      // connection.
      const Frame back =
          Between(c.protocol, kOther, {kExternal, 5000}, 0x10, 0);
      const int64_t end = 40 + c.seconds;
      EXPECT_EQ(nat.FromOutside(flow, back, Seconds(end / 2)).drop, "");
      EXPECT_EQ(nat.FromOutside(flow, back,
                                Nanos{Seconds(end).ns + (is_late ? 1 : 0)})
                    .drop,
                is_late ? "mapping_expired" : "");
      // When the mapping is over, its port and its flow are given up at once.
      EXPECT_EQ(nat.pieces(), before - (is_late ? 0 : 1));
      EXPECT_EQ(nat.notes.back().over, is_late);
    }
  }
}

TEST(Nat, IsRefreshedByInboundPacketsWhereAsked) {
  TestNat nat("refresh=both,filtering=address_dependent");
  TestNat::Flow flow = nat.NewFlow();
  nat.FromInside(flow, Udp(kInside, kPeer));
  const Frame back = Udp(kPeer, {kExternal, 5000});
  for (int64_t at = 200; at < 2000; at += 200) {
    EXPECT_EQ(nat.FromOutside(flow, back, Seconds(at)).drop, "") << at;
  }
  // Packets that the filter does not admit do not refresh the mapping.
  const Frame other = Udp(kOther, {kExternal, 5000});
  EXPECT_EQ(nat.FromOutside(flow, other, Seconds(2000)).drop, "filtered");
  EXPECT_EQ(nat.FromOutside(flow, back, Seconds(2101)).drop, "mapping_expired");
}

TEST(Nat, MapsAgainAfterAMappingHasExpired) {
  TestNat nat;
  TestNat::Flow flow = nat.NewFlow();
  nat.FromInside(flow, Udp(kInside, kPeer));
  nat.FromOutside(flow, Udp(kPeer, {kExternal, 5000}), Seconds(301));
  EXPECT_EQ(
      nat.FromOutside(flow, Udp(kPeer, {kExternal, 5000}), Seconds(302)).drop,
      "no_mapping");
  EXPECT_EQ(nat.FromInside(flow, Udp(kInside, kPeer), Seconds(303)).drop, "");
  EXPECT_EQ(nat.aliases.size(), 2u);
  EXPECT_EQ(
      nat.FromOutside(flow, Udp(kPeer, {kExternal, 5000}), Seconds(304)).drop,
      "");
}

TEST(Nat, SaysHowLongTheFlowMayBeIdleOnceForAllOfAKind) {
  TestNat nat("udp_timeout=7s,icmp_timeout=8s");
  TestNat::Flow udp = nat.NewFlow(), icmp = nat.NewFlow();
  for (int i = 0; i < 3; ++i) {
    nat.FromInside(udp, Between(kUdp, kInside, kPeer), Seconds(i));
    nat.FromInside(icmp, Between(kIcmp, kInside, kPeer), Seconds(i));
  }
  ASSERT_EQ(nat.notes.size(), 2u);
  EXPECT_EQ(nat.notes[0].idle_timeout, Seconds(7));
  EXPECT_EQ(nat.notes[1].idle_timeout, Seconds(8));
}

// The platform brings a packet to an external endpoint back, from the outside.
TEST(Nat, HairpinsWithTheExternalSourceAddressAndPort) {
  for (const uint8_t protocol : {kUdp, kTcp}) {
    TestNat nat("filtering=address_and_port_dependent");
    const TestEnd a = {V4(10, 0, 0, 1), 5000}, b = {V4(10, 0, 0, 2), 6000};
    TestNat::Flow flow_a = nat.NewFlow(), flow_b = nat.NewFlow();
    const TestEnd external_a =
        SourceOf(nat.FromInside(flow_a, Between(protocol, a, kPeer)).frame);
    const TestEnd external_b = SourceOf(
        nat.FromInside(flow_b, Between(protocol, b, external_a)).frame);
    const auto out = nat.FromInside(flow_a, Between(protocol, a, external_b));
    EXPECT_EQ(out.frame, Between(protocol, external_a, external_b));
    const auto in = nat.FromOutside(flow_b, out.frame);
    EXPECT_EQ(in.frame, Between(protocol, external_a, b));
  }
}

TEST(Nat, RewritesTheAddressOfLaterFragments) {
  TestNat nat("filtering=address_and_port_dependent");
  TestNat::Flow flow = nat.NewFlow();
  const Frame first =
      Ipv4({.destination = kPeer.address, .id = 9, .more_fragments = true},
           snf::Udp(5000, 53, 16));
  const auto later = [](const IpAddress& from, const IpAddress& to) {
    return Ipv4({.source = from,
                 .destination = to,
                 .id = 9,
                 .fragment_offset_bytes = 24},
                Frame(16, std::byte{0x33}));
  };
  EXPECT_EQ(nat.FromInside(flow, first).drop, "");
  EXPECT_EQ(nat.FromInside(flow, later(kInside.address, kPeer.address)).frame,
            later(kExternal, kPeer.address));
  EXPECT_EQ(nat.FromOutside(flow, later(kPeer.address, kExternal)).frame,
            later(kPeer.address, kInside.address));
  EXPECT_EQ(nat.FromOutside(flow, later(kOther.address, kExternal)).drop,
            "filtered");
}

TEST(Nat, MakesNoMappingForALaterFragment) {
  TestNat nat;
  TestNat::Flow flow = nat.NewFlow();
  EXPECT_EQ(
      nat.FromInside(flow, Ipv4({.fragment_offset_bytes = 24}, Frame(16))).drop,
      "no_mapping");
  EXPECT_TRUE(nat.aliases.empty());
}

// Many peers and ports change neither the mapping nor the filter.
TEST(Nat, BehavesTheSameAfterManyPeersAndPorts) {
  TestNat nat("filtering=address_and_port_dependent");
  TestNat::Flow flow = nat.NewFlow();
  for (uint16_t i = 1; i < 2000; ++i) {
    const TestEnd peer = {
        V4(198, 18, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)), i};
    const auto out = nat.FromInside(flow, Udp(kInside, peer));
    ASSERT_EQ(SourceOf(out.frame).port, 5000);
    ASSERT_EQ(nat.FromOutside(flow, Udp(peer, {kExternal, 5000})).drop, "");
    ASSERT_EQ(nat.FromOutside(flow, Udp(kOther, {kExternal, 5000})).drop,
              "filtered");
  }
}

}  // namespace
}  // namespace snf
