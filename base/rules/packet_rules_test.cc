// SPDX-License-Identifier: Apache-2.0
#include "base/rules/packet_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <tuple>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::array<std::string_view, 2> kActions = {"allow", "deny"};

TEST(PacketRule, ComesBackAsItWentIn) {
  for (const char* text :
       {"any from any to any", "tcp from any to any port 80",
        "udp from 10.0.0.0/8,192.168.0.1 port 53 to any",
        "icmp6 from 2001:db8::/32 to any", "89 from any to any",
        "any from any to any port 0-65535",
        "tcp from 10.0.0.0/8,2001:db8::/32 port 1-2,7 to any port "
        "80,443,8000-8999 vlan 12 flags S/SA",
        "tcp from any to any flags /FSRPAUEW", "sctp from any to any vlan 0"}) {
    const auto rule = ParsePacketRule(text);
    ASSERT_TRUE(rule.ok()) << rule.status();
    EXPECT_EQ(ToString(*rule), text);
    EXPECT_EQ(*ParsePacketRule(ToString(*rule)), *rule);
  }
}

TEST(PacketRule, IsReadPartByPart) {
  const PacketRule rule = *ParsePacketRule(
      "\ttcp vlan 12 from 10.0.0.0/8 to any  port 80,8000-8999 flags S/SA\r");
  EXPECT_EQ(rule.protocol, IpProtocol::kTcp);
  EXPECT_THAT(rule.from,
              ElementsAre(IpPrefix{.address = V4(10, 0, 0, 0), .length = 104}));
  EXPECT_TRUE(rule.from_ports.empty());
  EXPECT_TRUE(rule.to.empty());
  EXPECT_THAT(rule.to_ports,
              ElementsAre(PortRange{80, 80}, PortRange{8000, 8999}));
  EXPECT_EQ(rule.vlan, 12);
  EXPECT_EQ(rule.flags, (PacketRule::TcpFlags{.set = 0x02, .mask = 0x12}));

  EXPECT_EQ(*ParsePacketRule("any"), PacketRule());
  EXPECT_EQ(ParsePacketRule("UDP")->protocol, IpProtocol::kUdp);
  EXPECT_EQ(ParsePacketRule("6")->protocol, IpProtocol::kTcp);
}

TEST(PacketRule, OfIpIsOfOneVersionAndAnyProtocol) {
  const auto same = [](const char* text, const char* as) {
    const auto rule = ParsePacketRule(text);
    ASSERT_TRUE(rule.ok()) << rule.status();
    EXPECT_EQ(*rule, *ParsePacketRule(as)) << text;
    EXPECT_EQ(*ParsePacketRule(ToString(*rule)), *rule) << text;
  };
  same("ip", "any from 0.0.0.0/0");
  same("ip6", "any from ::/0");
  same("IP from any to 10.0.0.0/8 port 53",
       "any from 0.0.0.0/0 to 10.0.0.0/8 port 53");
  same("ip from 10.0.0.0/8,2001:db8::/32", "any from 10.0.0.0/8");
  same("ip6 from 10.0.0.0/8,2001:db8::/32", "any from 2001:db8::/32");
}

TEST(PacketRule, QuotesTheWordThatIsWrongAndSaysWhatIsRight) {
  for (const auto& [text, quoted, right] : {
           std::tuple{"", "\"\"", "begins with its protocol"},
           std::tuple{"tpc from any", "\"tpc\"",
                      "any, ip, ip6, tcp, udp, icmp, icmp6"},
           std::tuple{"ip from 2001:db8::/32", "\"ip\"", "want ip6"},
           std::tuple{"ip6 to 10.0.0.0/8", "\"ip6\"", "want ip with"},
           std::tuple{"ip flags S/SA", "\"any\"", "want tcp"},
           std::tuple{"256", "\"256\"", "0 to 255"},
           std::tuple{"from any", "\"from\"", "begins with its protocol"},
           std::tuple{"tcp form any", "\"form\"", "want from, to, port"},
           std::tuple{"tcp from", "\"from\"", "want addresses"},
           std::tuple{"tcp from any to", "\"to\"", "want addresses"},
           std::tuple{"tcp from 10.0.0/8", "\"10.0.0/8\"", "no prefix"},
           std::tuple{"tcp from any,10.0.0.0/8", "\"any\"", "no prefix"},
           std::tuple{"tcp from 10.0.0.0/8,", "\"\"", "no prefix"},
           std::tuple{"tcp to 10.0.0.0/33", "\"10.0.0.0/33\"", "0 to 32"},
           std::tuple{"tcp to 10.0.0.1/8", "\"10.0.0.1/8\"", "10.0.0.0/8"},
           std::tuple{"tcp to example.org", "\"example.org\"", "no prefix"},
           std::tuple{"tcp to any from any to any", "\"to\"", "twice"},
           std::tuple{"tcp flags S/S flags S/S", "\"flags\"", "twice"},
           std::tuple{"tcp port 80", "\"port\"", "behind the addresses"},
           std::tuple{"tcp to any port 80 port 81", "\"port\"", "behind the"},
           std::tuple{"tcp vlan 3 port 80", "\"port\"", "behind the"},
           std::tuple{"tcp to any port", "\"\"", "a port from 0 to 65535"},
           std::tuple{"tcp to any port http", "\"http\"", "8000-8999"},
           std::tuple{"tcp to any port 65536", "\"65536\"", "0 to 65535"},
           std::tuple{"tcp to any port -1", "\"-1\"", "0 to 65535"},
           std::tuple{"tcp to any port 80-", "\"80-\"", "0 to 65535"},
           std::tuple{"tcp to any port 80,,81", "\"\"", "0 to 65535"},
           std::tuple{"tcp to any port 80, 81", "\"\"", "0 to 65535"},
           std::tuple{"tcp to any port 80 , 81", "\",\"", "no blanks in lists"},
           std::tuple{"tcp to any port 90-80", "\"90-80\"", "before it begins"},
           std::tuple{"tcp vlan", "\"\"", "0 to 4095"},
           std::tuple{"tcp vlan 4096", "\"4096\"", "0 to 4095"},
           std::tuple{"tcp flags", "\"\"", "SET/MASK"},
           std::tuple{"tcp flags S", "\"S\"", "SET/MASK"},
           std::tuple{"tcp flags S/", "\"S/\"", "SET/MASK"},
           std::tuple{"tcp flags s/sa", "\"s/sa\"", "FSRPAUEW"},
           std::tuple{"tcp flags S/A/F", "\"S/A/F\"", "SET/MASK"},
           std::tuple{"tcp flags SF/SA", "\"SF/SA\"", "never match"},
           std::tuple{"udp flags S/SA", "\"udp\"", "want tcp"},
           std::tuple{"any flags S/SA", "\"any\"", "want tcp"},
           std::tuple{"icmp to any port 80", "\"icmp\"", "no ports"},
           std::tuple{"47 from any port 80", "\"gre\"", "no ports"},
           std::tuple{"icmp to ::1", "\"icmp\"", "icmp6"},
           std::tuple{"icmp6 to 10.0.0.1", "\"icmp6\"", "want icmp "},
           std::tuple{"tcp from ::1 to 10.0.0.1", "\"10.0.0.1\"", "version"},
       }) {
    const auto rule = ParsePacketRule(text);
    ASSERT_FALSE(rule.ok()) << text;
    EXPECT_EQ(rule.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(rule.status().message());
    EXPECT_THAT(message, StartsWith(quoted)) << text;
    EXPECT_THAT(message, HasSubstr(right)) << text;
  }
}

TEST(PacketRule, QuotesNoMoreThanIsReadable) {
  const std::string message(
      ParsePacketRule("tcp \x1b[31m" + std::string(5000, 'x'))
          .status()
          .message());
  EXPECT_THAT(message, StartsWith("\"\\033[31mxxx"));
  EXPECT_LT(message.size(), 200u);
}

TEST(RuleFile, KeepsOrderActionsAndLines) {
  const auto list = ParseRules(
      "# the gate\n"
      "allow tcp to any port 80   # web\r\n"
      "\n"
      "   \t# nothing\n"
      "deny any from 10.0.0.0/8\n"
      "deny any",
      "fw", kActions);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->actions, ElementsAre(0, 1, 1));
  EXPECT_THAT(list->lines, ElementsAre(2, 5, 6));
  EXPECT_EQ(ToString(list->rules[1]), "any from 10.0.0.0/8 to any");
  EXPECT_TRUE(ParseRules("", "fw", kActions)->rules.empty());
}

TEST(RuleFile, NamesFileLineAndWord) {
  for (const auto& [text, message] : {
           std::tuple{"allow any\npermit any\n",
                      "fw.rules:2: \"permit\": a line begins with what to do: "
                      "allow, deny"},
           std::tuple{"\n\nallow\n", "fw.rules:3: \"\": a rule begins with"},
           std::tuple{"allow tcp to 10.0.0.300 # x",
                      "fw.rules:1: \"10.0.0.300\" is no prefix"},
           std::tuple{"# x\nallow # any\n", "fw.rules:2: \"\": a rule begins"},
       }) {
    const auto list = ParseRules(text, "fw.rules", kActions);
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_THAT(std::string(list.status().message()), StartsWith(message));
  }
}

TEST(RuleFile, HasAtMostSoManyRules) {
  std::string text;
  for (size_t i = 0; i < kMaxRules; ++i) text += "deny any\n";
  EXPECT_EQ(ParseRules(text, "fw", kActions)->rules.size(), kMaxRules);
  const auto list = ParseRules(text + "\ndeny any\n", "fw", kActions);
  EXPECT_EQ(list.status().message(),
            "fw:100002: \"deny\": more than 100000 rules");
}

TEST(RuleFile, IsReadFromDisk) {
  const std::string file = testing::TempDir() + "/packet_rules_test.rules";
  std::ofstream(file) << "deny any\nallow udp\n";
  const auto list = LoadRules(file, kActions);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->actions, ElementsAre(1, 0));
  std::ofstream(file) << "deny any\nallow udpx\n";
  EXPECT_THAT(std::string(LoadRules(file, kActions).status().message()),
              StartsWith(file + ":2: \"udpx\": "));
  std::ofstream(file) << std::string(kMaxRuleFileBytes + 1, ' ');
  EXPECT_EQ(LoadRules(file, kActions).status().code(),
            absl::StatusCode::kOutOfRange);
  std::remove(file.c_str());
  const auto missing = LoadRules(file, kActions);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), StartsWith(file));
  EXPECT_FALSE(LoadRules(testing::TempDir(), kActions).ok());
}

// Returns the fields as "tcp 10.0.0.1:5000 > 192.0.2.9:80 flags 10 vlan 7",
// without those that the packet does not show.
std::string Shown(const Frame& frame, LinkType link = LinkType::kRawIp) {
  const PacketFields f = FieldsOf(frame, Parse(link, frame));
  if (f.l3 == L3::kNone) return "none";
  std::string text = std::to_string(static_cast<int>(f.protocol));
  text += f.l3 == L3::kIpv4 ? " v4" : " v6";
  if (f.has_ports) {
    text += " " + std::to_string(f.source_port) + ">" +
            std::to_string(f.destination_port);
  }
  if (f.has_tcp_flags) text += " flags " + std::to_string(f.tcp_flags);
  if (f.vlan != 0) text += " vlan " + std::to_string(f.vlan);
  return text;
}

TEST(PacketFields, AreThoseThatThePacketShows) {
  const Frame tcp = Ipv4({.protocol = 6}, Tcp(5000, 80));
  EXPECT_EQ(Shown(tcp), "6 v4 5000>80 flags 16");
  EXPECT_EQ(Shown(Ethernet(0x8100, Vlan(7, 0x0800, tcp)), LinkType::kEthernet),
            "6 v4 5000>80 flags 16 vlan 7");
  EXPECT_EQ(Shown(Ipv4({}, Udp(5000, 53))), "17 v4 5000>53");
  EXPECT_EQ(Shown(Ipv4({.protocol = 1}, Icmp(8, 0, 7, {}))), "1 v4");
  EXPECT_EQ(Shown(Ipv6({.next_header = 0},
                       Ipv6Extension(60, 1, Ipv6Extension(6, 2, Tcp(1, 2))))),
            "6 v6 1>2 flags 16");
  EXPECT_EQ(Shown(Ethernet(0x0806, Frame(28)), LinkType::kEthernet), "none");
  const PacketFields fields = FieldsOf(tcp, Parse(LinkType::kRawIp, tcp));
  EXPECT_EQ(fields.source, V4(10, 0, 0, 1));
  EXPECT_EQ(fields.destination, V4(192, 0, 2, 9));
}

TEST(PacketFields, HaveNoPortsWhereNoneShow) {
  EXPECT_EQ(Shown(Ipv4({.fragment_offset_bytes = 24}, Udp(5000, 53))), "17 v4");
  EXPECT_EQ(Shown(Ipv4({.more_fragments = true}, Udp(5000, 53))),
            "17 v4 5000>53");
  EXPECT_EQ(Shown(Ipv6({.next_header = 44},
                       Ipv6Fragment(6, 24, false, 1, Tcp(5000, 80)))),
            "6 v6");
  Frame cut = Ipv4({.protocol = 6}, Tcp(5000, 80));
  cut.resize(20 + 19);
  EXPECT_EQ(Shown(cut), "6 v4 5000>80");
  cut.resize(20 + 3);
  EXPECT_EQ(Shown(cut), "6 v4");
  // A data offset of 4 words: no header of TCP.
  Frame malformed = Ipv4({.protocol = 6}, Tcp(5000, 80));
  malformed[20 + 12] = std::byte{0x40};
  EXPECT_EQ(Shown(malformed), "6 v4 5000>80");
}

}  // namespace
}  // namespace snf
