// SPDX-License-Identifier: Apache-2.0
#include "base/packet/endpoint.h"

#include "base/packet/flow_key_text.h"
#include "base/packet/test_packets.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

const IpAddress kInside = V4(10, 0, 0, 1);
const IpAddress kOutside = V4(192, 0, 2, 9);

class EndpointTest : public testing::Test {
 protected:
  // Returns "FROM to TO" of a packet, as the classifier sees it.
  std::string Ends(const Frame& packet) {
    ParsedPacket parsed;
    FlowKey key;
    const Direction direction = classifier_.Classify(
        Instant{}, LinkType::kEthernet, packet, parsed, key);
    EXPECT_NE(direction, Direction::kNone);
    const Endpoints ends = EndpointsOf(key, direction);
    return ToString(ends.from) + " to " + ToString(ends.to);
  }

  static Frame Out(uint8_t protocol, const Frame& payload) {
    return Ethernet(
        0x0800,
        Ipv4({.source = kInside, .destination = kOutside, .protocol = protocol},
             payload));
  }
  static Frame Back(uint8_t protocol, const Frame& payload) {
    return Ethernet(
        0x0800,
        Ipv4({.source = kOutside, .destination = kInside, .protocol = protocol},
             payload));
  }

  FlowClassifier classifier_{{.vlan = true}};
};

TEST_F(EndpointTest, AreThoseOfThePacketWhicheverEndIsTheSmaller) {
  EXPECT_EQ(Ends(Out(17, Udp(5000, 53))),
            "udp 10.0.0.1:5000 to udp 192.0.2.9:53");
  EXPECT_EQ(Ends(Back(17, Udp(53, 5000))),
            "udp 192.0.2.9:53 to udp 10.0.0.1:5000");
  EXPECT_EQ(Ends(Out(6, Tcp(5000, 80))),
            "tcp 10.0.0.1:5000 to tcp 192.0.2.9:80");
}

TEST_F(EndpointTest, OfAnIcmpQueryHaveItsIdentifier) {
  EXPECT_EQ(Ends(Out(1, Icmp(8, 0, 77, {}))),
            "icmp 10.0.0.1:77 to icmp 192.0.2.9:77");
  EXPECT_EQ(Ends(Back(1, Icmp(0, 0, 77, {}))),
            "icmp 192.0.2.9:77 to icmp 10.0.0.1:77");
}

// A router on the way answers in its own name, but the error belongs to the
// ends of the packet that it quotes.
TEST_F(EndpointTest, OfAnIcmpErrorAreThoseOfThePacketQuotedExchanged) {
  const Frame quoted =
      Ipv4({.source = kInside, .destination = kOutside}, Udp(5000, 53));
  const Frame error = Ethernet(0x0800, Ipv4({.source = V4(203, 0, 113, 1),
                                             .destination = kInside,
                                             .protocol = 1},
                                            Icmp(11, 0, 0, quoted)));
  EXPECT_EQ(Ends(error), "udp 192.0.2.9:53 to udp 10.0.0.1:5000");
}

TEST_F(EndpointTest, OfALaterFragmentAreThoseOfTheFirst) {
  Ipv4Fields fields = {.source = kInside,
                       .destination = kOutside,
                       .id = 7,
                       .more_fragments = true};
  EXPECT_EQ(Ends(Ethernet(0x0800, Ipv4(fields, Udp(5000, 53, 16)))),
            "udp 10.0.0.1:5000 to udp 192.0.2.9:53");
  fields.fragment_offset_bytes = 24;
  fields.more_fragments = false;
  EXPECT_EQ(Ends(Ethernet(0x0800, Ipv4(fields, Frame(16)))),
            "udp 10.0.0.1:5000 to udp 192.0.2.9:53");
}

TEST_F(EndpointTest, AreNotKnownOfAFragmentWhoseFirstWasNotSeen) {
  const Frame later =
      Ethernet(0x0800, Ipv4({.id = 7, .fragment_offset_bytes = 24}, Frame(16)));
  ParsedPacket parsed;
  FlowKey key;
  classifier_.Classify(Instant{}, LinkType::kEthernet, later, parsed, key);
  EXPECT_FALSE(HasEnds(key));
  key.form = FlowKeyForm::kIpv6;
  EXPECT_TRUE(HasEnds(key));
}

TEST_F(EndpointTest, KeepsVlanAndVersionAndHasNoPortWhereThereIsNone) {
  EXPECT_EQ(Ends(Ethernet(0x8100, Vlan(7, 0x86dd, Ipv6({}, Udp(1, 2))))),
            "vlan 7 udp [2001:db8::1]:1 to vlan 7 udp [2001:db8::9]:2");
  EXPECT_EQ(Ends(Out(47, Frame(8))), "gre 10.0.0.1 to gre 192.0.2.9");
}

TEST_F(EndpointTest, IsNoConnectionAndNoOtherProtocolsEndpoint) {
  const FlowKey udp = EndpointKey(kInside, be16(5000), IpProtocol::kUdp,
                                  FlowKeyForm::kIpv4Endpoint);
  EXPECT_EQ(udp.destination, IpAddress{});
  EXPECT_EQ(udp.destination_port, be16(0));
  FlowKey other = udp;
  other.form = FlowKeyForm::kIpv4;
  EXPECT_NE(udp, other);
  EXPECT_NE(udp, EndpointKey(kInside, be16(5000), IpProtocol::kTcp,
                             FlowKeyForm::kIpv4Endpoint));
  EXPECT_NE(udp, EndpointKey(kInside, be16(5000), IpProtocol::kUdp,
                             FlowKeyForm::kIpv6Endpoint));
}

}  // namespace
}  // namespace snf
