// SPDX-License-Identifier: Apache-2.0
#include "base/packet/flow_key_text.h"

#include <iterator>
#include <string>

#include "base/packet/endpoint.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

FlowKey Key(const std::string& text) {
  const absl::StatusOr<FlowKey> key = ParseFlowKey(text);
  EXPECT_TRUE(key.ok()) << key.status();
  return key.value_or(FlowKey{});
}

TEST(FlowKeyText, ComesBackAsItWentIn) {
  for (const char* text : {
           "tcp 10.0.0.1:5000 > 192.0.2.9:53",
           "udp [2001:db8::1]:5000 > [2001:db8::9]:53",
           "vlan 100 udp 10.0.0.1:5000 > 192.0.2.9:53",
           "icmp 10.0.0.1:77 > 192.0.2.9:77",
           "icmp6 [fe80::1]:77 > [ff02::1]:77",
           "gre 10.0.0.1 > 192.0.2.9",
           "89 10.0.0.1 > 224.0.0.5",
           "tcp 10.0.0.1:0 > 192.0.2.9:53",
           "fragment 4711 udp 10.0.0.1 > 192.0.2.9",
           "vlan 7 fragment 3735928559 0 [2001:db8::1] > [::1]",
           "tcp [::ffff:10.0.0.1]:1 > [::]:2",
           "udp 10.0.0.1:5000",
           "vlan 7 tcp [2001:db8::1]:5000",
           "gre 10.0.0.1",
       }) {
    EXPECT_EQ(ToString(Key(text)), text);
  }
}

TEST(FlowKeyText, IsThatOfThePacket) {
  const Frame packet = Ipv4({}, Udp(5000, 53));
  const ParsedPacket parsed = Parse(LinkType::kRawIp, packet);
  EXPECT_EQ(FiveTuple(packet, parsed, false),
            Key("udp 10.0.0.1:5000 > 192.0.2.9:53"));
}

// RFC 5952 §4: the longest run, the first of equals, never a single group,
// no leading zeros, lower case.
TEST(FlowKeyText, CompressesIpv6AsRfc5952Wants) {
  const auto shown = [](const std::string& address) {
    const std::string text = ToString(Key("tcp [" + address + "]:1 > [::]:2"));
    return text.substr(5, text.find(']') - 5);
  };
  EXPECT_EQ(shown("2001:0db8:0:0:0:0:2:1"), "2001:db8::2:1");
  EXPECT_EQ(shown("2001:db8:0:1:1:1:1:1"), "2001:db8:0:1:1:1:1:1");
  EXPECT_EQ(shown("2001:0:0:1:0:0:0:1"), "2001:0:0:1::1");
  EXPECT_EQ(shown("2001:db8:0:0:1:0:0:1"), "2001:db8::1:0:0:1");
  EXPECT_EQ(shown("2001:DB8::ABCD"), "2001:db8::abcd");
  EXPECT_EQ(shown("::"), "::");
  EXPECT_EQ(shown("::1"), "::1");
  EXPECT_EQ(shown("1::"), "1::");
  EXPECT_EQ(shown("0:1::"), "0:1::");
  EXPECT_EQ(shown("::1:2:3:4:5:6:7"), "0:1:2:3:4:5:6:7");
  EXPECT_EQ(shown("::102:304"), "::102:304");
  EXPECT_EQ(shown("::ffff:a00:1"), "::ffff:10.0.0.1");
}

TEST(FlowKeyText, OfAConnectionMayNameItsEndsInAnyOrder) {
  EXPECT_EQ(Key("tcp 192.0.2.9:53 <> 10.0.0.1:5000"),
            Key("tcp 10.0.0.1:5000 <> 192.0.2.9:53"));
  EXPECT_EQ(Key("tcp 192.0.2.9:53 <> 10.0.0.1:5000"),
            Key("tcp 10.0.0.1:5000 > 192.0.2.9:53"));
  EXPECT_NE(Key("tcp 192.0.2.9:53 > 10.0.0.1:5000"),
            Key("tcp 10.0.0.1:5000 > 192.0.2.9:53"));
}

TEST(FlowKeyText, OfOneEndIsAnEndpoint) {
  EXPECT_EQ(Key("udp 10.0.0.1:5000"),
            EndpointKey(V4(10, 0, 0, 1), be16(5000), IpProtocol::kUdp,
                        FlowKeyForm::kIpv4Endpoint));
  EXPECT_NE(Key("udp 10.0.0.1:5000"), Key("udp 10.0.0.1:5000 > 0.0.0.0"));
}

TEST(FlowKeyText, ReadsNumbersForNamesAndAnyBlanks) {
  EXPECT_EQ(Key("  6\t10.0.0.1:5000  >  192.0.2.9:53 "),
            Key("tcp 10.0.0.1:5000 > 192.0.2.9:53"));
}

TEST(FlowKeyText, TakesProtocolsInCapitals) {
  EXPECT_EQ(ToString(Key("TCP 10.0.0.1:1 > 10.0.0.2:2")),
            "tcp 10.0.0.1:1 > 10.0.0.2:2");
  EXPECT_EQ(ToString(Key("Icmp6 [::1]:7 > [::2]:7")),
            "icmp6 [::1]:7 > [::2]:7");
}

TEST(FlowKeyText, TellsAPortThatIsNone) {
  EXPECT_EQ(ParseFlowKey("tcp 10.0.0.1:1 > 10.0.0.2:70000").status().message(),
            "flow \"tcp 10.0.0.1:1 > 10.0.0.2:70000\": port \"70000\" is not 0 "
            "to 65535; want for example \"tcp 10.0.0.1:5000 > 192.0.2.9:53\"");
}

TEST(FlowKeyText, QuotesWhatItCannotRead) {
  for (const char* text : {
           "",
           "tcp",
           "tcp 10.0.0.1:1 >",
           "tcp 10.0.0.1:1 10.0.0.2:2",
           "fragment 1 udp 10.0.0.1",
           "foo 10.0.0.1:1 > 10.0.0.2:2",
           "256 10.0.0.1:1 > 10.0.0.2:2",
           "tcp 10.0.0:1 > 10.0.0.2:2",
           "tcp 10.0.0.256:1 > 10.0.0.2:2",
           "tcp 10.0.0.1:65536 > 10.0.0.2:2",
           "tcp 10.0.0.1: > 10.0.0.2:2",
           "tcp 10.0.0.1:-1 > 10.0.0.2:2",
           "tcp 10.0.0.1:1 - 10.0.0.2:2",
           "tcp 10.0.0.1:1 > 10.0.0.2:2 3",
           "tcp 10.0.0.1:1 > [::1]:2",
           "tcp [::1:1 > [::1]:2",
           "tcp [::1]1 > [::1]:2",
           "tcp ::1 > ::2",
           "vlan 4096 tcp 10.0.0.1:1 > 10.0.0.2:2",
           "vlan tcp 10.0.0.1:1 > 10.0.0.2:2",
           "fragment x udp 10.0.0.1 > 10.0.0.2",
           "fragment 1 udp 10.0.0.1:1 > 10.0.0.2:2",
           "fragment 1 udp 10.0.0.1 <> 10.0.0.2",
       }) {
    const absl::StatusOr<FlowKey> key = ParseFlowKey(text);
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_TRUE(absl::IsInvalidArgument(key.status()));
    EXPECT_NE(key.status().ToString().find("\"" + std::string(text) + "\""),
              std::string::npos);
  }
}

TEST(FlowKeyText, OfRandomKeysComesBack) {
  Rng rng(3);
  constexpr FlowKeyForm kForms[] = {
      FlowKeyForm::kIpv4,         FlowKeyForm::kIpv6,
      FlowKeyForm::kIpv4Fragment, FlowKeyForm::kIpv6Fragment,
      FlowKeyForm::kIpv4Endpoint, FlowKeyForm::kIpv6Endpoint};
  for (int round = 0; round < 10'000; ++round) {
    FlowKey key;
    key.form = kForms[rng.Below(std::size(kForms))];
    const bool is_ipv4 = (static_cast<unsigned>(key.form) & 0xf) == 4;
    for (IpAddress* address : {&key.source, &key.destination}) {
      if (is_ipv4) {
        *address = IpAddress::FromIpv4(be32(static_cast<uint32_t>(rng.Next())));
        continue;
      }
      for (std::byte& byte : address->bytes) {
        byte = rng.Chance(32'768) ? std::byte{0}
                                  : static_cast<std::byte>(rng.Next());
      }
    }
    key.source_port = be16(static_cast<uint16_t>(rng.Next()));
    key.destination_port = be16(static_cast<uint16_t>(rng.Next()));
    key.vlan = be16(static_cast<uint16_t>(rng.Below(4096)));
    key.protocol = IpProtocol{static_cast<uint8_t>(rng.Next())};
    if (static_cast<unsigned>(key.form) >> 4 == 2) {
      key.destination = {};
      key.destination_port = {};
    }
    ASSERT_EQ(Key(ToString(key)), key) << ToString(key);
  }
}

}  // namespace
}  // namespace snf
