// SPDX-License-Identifier: Apache-2.0
#include "base/rules/rule_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

constexpr uint32_t kNoRule = RuleTable::kNoRule;

RuleTable TableOf(const std::vector<std::string>& texts) {
  std::vector<PacketRule> rules;
  for (const std::string& text : texts) {
    auto rule = ParsePacketRule(text);
    EXPECT_TRUE(rule.ok()) << rule.status();
    rules.push_back(*std::move(rule));
  }
  auto table = RuleTable::Build(rules);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

uint32_t Find(const RuleTable& table, const Frame& frame,
              LinkType link = LinkType::kRawIp) {
  return table.Find(frame, Parse(link, frame));
}

Frame TcpTo(const IpAddress& to, uint16_t port) {
  return Ipv4({.destination = to, .protocol = 6}, Tcp(5000, port));
}

TEST(RuleTable, FindsWhatTheWorkedExampleSays) {
  const RuleTable table =
      TableOf({"tcp from any to 10.0.0.0/8 port 22",
               "tcp from any to 10.1.0.0/16 port 80",
               "tcp from any to 10.2.0.0/18 port 80", "any"});
  EXPECT_EQ(Find(table, TcpTo(V4(10, 9, 0, 1), 80)), 3u);
  EXPECT_EQ(Find(table, TcpTo(V4(10, 2, 0, 1), 80)), 2u);
  EXPECT_EQ(Find(table, TcpTo(V4(10, 1, 0, 1), 22)), 0u);
  EXPECT_EQ(table.patterns(), 3u + 2u);  // "any" in IPv6 too
  EXPECT_EQ(table.tuples(), 3u + 1u);
}

TEST(RuleTable, FindsTheFirstOfThoseThatMatch) {
  const RuleTable table =
      TableOf({"tcp to 10.1.2.3", "any to 10.1.0.0/16", "tcp to 10.1.2.0/24",
               "tcp to 10.1.2.3", "tcp to 10.0.0.0/8", "udp to 10.0.0.0/8"});
  EXPECT_EQ(Find(table, TcpTo(V4(10, 1, 2, 3), 80)), 0u);
  EXPECT_EQ(Find(table, TcpTo(V4(10, 1, 2, 4), 80)), 1u);
  EXPECT_EQ(Find(table, TcpTo(V4(10, 2, 2, 3), 80)), 4u);
  EXPECT_EQ(Find(table, TcpTo(V4(11, 1, 2, 3), 80)), kNoRule);
}

TEST(RuleTable, WithoutRulesFindsNone) {
  EXPECT_EQ(Find(RuleTable(), TcpTo(V4(10, 0, 0, 1), 80)), kNoRule);
  EXPECT_EQ(Find(TableOf({}), TcpTo(V4(10, 0, 0, 1), 80)), kNoRule);
  EXPECT_EQ(
      Find(TableOf({"any"}), Ethernet(0x0806, Frame(28)), LinkType::kEthernet),
      kNoRule);
}

TEST(RuleTable, KeepsVersionsOfIpApart) {
  const RuleTable table = TableOf({"udp from 0.0.0.0/0", "udp from ::/0"});
  EXPECT_EQ(Find(table, Ipv4({}, Udp(1, 2))), 0u);
  EXPECT_EQ(Find(table, Ipv6({}, Udp(1, 2))), 1u);
  const Ipv6Fields mapped = {.source = V4(10, 0, 0, 1)};
  EXPECT_EQ(Find(table, Ipv6(mapped, Udp(1, 2))), 1u);
  EXPECT_EQ(Find(TableOf({"any"}), Ipv6(mapped, Udp(1, 2))), 0u);
  EXPECT_EQ(Find(TableOf({"any from 10.0.0.1,2001:db8::/32 to 0.0.0.0/0,::2"}),
                 Ipv6({.destination = Ipv6Fields::Address("::2")}, Udp(1, 2))),
            0u);
}

TEST(RuleTable, FindsPortsInRangesOfAnySize) {
  for (const auto& [first, last, patterns] :
       {std::tuple{80, 80, 1}, std::tuple{80, 81, 1}, std::tuple{255, 256, 2},
        std::tuple{1000, 2815, 8}, std::tuple{1000, 2816, 1},
        std::tuple{1, 65534, 1}}) {
    const std::string range =
        std::to_string(first) + "-" + std::to_string(last);
    const RuleTable table = TableOf({"udp from 10.0.0.1 to any port " + range});
    EXPECT_EQ(table.patterns(), static_cast<size_t>(patterns)) << range;
    for (const auto& [port, rule] :
         {std::pair{first - 1, kNoRule}, std::pair{first, 0u},
          std::pair{last, 0u}, std::pair{last + 1, kNoRule}}) {
      EXPECT_EQ(Find(table, Ipv4({}, Udp(7, static_cast<uint16_t>(port)))),
                rule)
          << port;
    }
  }
}

// There are more tuples than a row has bits. The packet of each rule matches no
// earlier rule: its addresses have a bit right behind the rule's prefixes.
TEST(RuleTable, FindsEachOfManyTuples) {
  std::vector<std::string> rules;
  std::vector<Frame> frames;
  const auto add = [&](int from, int to, uint16_t port, bool vlan, bool tcp) {
    std::string rule = tcp ? "tcp" : "any";
    rule += " from 0.0.0.0/" + std::to_string(from);
    rule += " to 0.0.0.0/" + std::to_string(to);
    if (port == 22) rule += " port 22";
    if (port == 23) rule += " port 23-24";
    if (vlan) rule += " vlan 12";
    rules.push_back(rule);
    const auto beside = [](int length) {
      return IpAddress::FromIpv4(be32(length == 32 ? 0 : 1u << (31 - length)));
    };
    const Frame ip = Ipv4({.source = beside(from),
                           .destination = beside(to),
                           .protocol = static_cast<uint8_t>(tcp ? 6 : 17)},
                          tcp ? Tcp(5000, port) : Udp(5000, port));
    frames.push_back(Ethernet(
        0x8100, Vlan(static_cast<uint16_t>(vlan ? 12 : 13), 0x0800, ip)));
  };
  for (int from = 32; from >= 4; from -= 4) {
    for (int to = 32; to >= 4; to -= 4) {
      for (const int port : {22, 23, 99}) {
        for (const bool vlan : {true, false}) {
          for (const bool tcp : {true, false}) {
            add(from, to, static_cast<uint16_t>(port), vlan, tcp);
          }
        }
      }
    }
  }
  const RuleTable table = TableOf(rules);
  EXPECT_EQ(table.tuples(), 768u);
  for (uint32_t i = 0; i < rules.size(); ++i) {
    EXPECT_EQ(Find(table, frames[i], LinkType::kEthernet), i) << rules[i];
  }
}

TEST(RuleTable, MatchesPortsOnlyWhereTheyShow) {
  const RuleTable table = TableOf(
      {"any from any port 0-65535 to any", "any to any port 0-65535", "udp"});
  const Frame first = Ipv4({.more_fragments = true}, Udp(0, 0));
  EXPECT_EQ(Find(table, first), 0u);
  const Frame later = Ipv4({.fragment_offset_bytes = 8}, Udp(0, 0));
  EXPECT_EQ(Find(table, later), 2u);
  Frame cut = Ipv4({}, Udp(0, 0));
  cut.resize(20 + 4);
  EXPECT_EQ(Find(table, cut), 0u);
  cut.resize(20 + 3);
  EXPECT_EQ(Find(table, cut), 2u);
  EXPECT_EQ(Find(table, Ipv4({.protocol = 1}, Icmp(8, 0, 7, {}))), kNoRule);
  EXPECT_EQ(Find(table, Ipv4({.protocol = 132}, Udp(1, 2))), 0u);
}

TEST(RuleTable, MatchesFlagsByTheirMask) {
  const auto with = [](uint8_t flags) {
    Frame frame = TcpTo(V4(10, 0, 0, 1), 80);
    frame[20 + 13] = std::byte{flags};
    return frame;
  };
  const RuleTable table =
      TableOf({"tcp flags S/SA", "tcp flags /FSRPAU", "tcp"});
  EXPECT_EQ(Find(table, with(0x02)), 0u);
  EXPECT_EQ(Find(table, with(0xc2)), 0u);
  EXPECT_EQ(Find(table, with(0x12)), 2u);
  EXPECT_EQ(Find(table, with(0xc0)), 1u);
  Frame cut = with(0x02);
  cut.resize(20 + 19);
  EXPECT_EQ(Find(table, cut), 2u);
}

TEST(RuleTable, MatchesTheOuterVlan) {
  const RuleTable table = TableOf({"any vlan 12", "any vlan 0", "any"});
  const Frame udp = Ipv4({}, Udp(1, 2));
  EXPECT_EQ(Find(table, udp), 1u);
  const auto tagged = [&udp](uint16_t id) {
    return Ethernet(0x88a8, Vlan(id, 0x8100, Vlan(12, 0x0800, udp)));
  };
  EXPECT_EQ(Find(table, tagged(12), LinkType::kEthernet), 0u);
  EXPECT_EQ(Find(table, tagged(13), LinkType::kEthernet), 2u);
}

TEST(RuleTable, TakesTheProtocolBehindIpv6Extensions) {
  const RuleTable table = TableOf({"tcp to any port 80", "60"});
  const Frame hidden =
      Ipv6({.next_header = 60},
           Ipv6Extension(43, 1, Ipv6Extension(6, 1, Tcp(5000, 80))));
  EXPECT_EQ(Find(table, hidden), 0u);
  // The protocol of a later fragment is the one that its fragment header names.
  EXPECT_EQ(Find(table, Ipv6({.next_header = 44},
                             Ipv6Fragment(60, 8, false, 1, Frame(16)))),
            1u);
}

TEST(RuleTable, SaysWhichRuleNeedsTooManyPatterns) {
  const PacketRule small = *ParsePacketRule("udp to 10.0.0.1");
  const PacketRule large =
      *ParsePacketRule("udp from any port 1,2,3 to any port 0-1000,1001");
  const auto table =
      RuleTable::Build(std::vector{small, large}, {.max_patterns = 30});
  EXPECT_EQ(table.status().message(),
            "rule 2: \"udp from any port 1,2,3 to any port 0-1000,1001\" needs "
            "30 patterns, and 29 of 30 are left; want shorter lists");
  EXPECT_TRUE(RuleTable::Build(std::vector{large}, {.max_patterns = 30}).ok());
  constexpr std::array<std::string_view, 1> kActions = {"deny"};
  const auto list = ParseRules("deny any\n#\ndeny udp from any port 1,2\n",
                               "fw.rules", kActions);
  const auto of_list = RuleTable::Build(*list, {.max_patterns = 5});
  EXPECT_EQ(of_list.status().message(),
            "fw.rules:3: \"udp from any port 1,2 to any\" needs 4 patterns, "
            "and 3 of 5 are left; want shorter lists");
}

// Lists of 100,000 in each of four places: 10^20 patterns, more than 64 bits.
TEST(RuleTable, CountsPatternsWithoutOverflow) {
  PacketRule rule;
  rule.from.resize(100'000, {.address = V4(10, 0, 0, 1), .length = 128});
  rule.to = rule.from;
  rule.from_ports.resize(100'000, {.first = 1, .last = 1});
  rule.to_ports = rule.from_ports;
  EXPECT_FALSE(RuleTable::Build(std::vector{rule}).ok());
}

TEST(RuleTable, HoldsAsManyRulesAsAFileMay) {
  std::vector<PacketRule> rules(kMaxRules);
  for (uint32_t i = 0; i < kMaxRules; ++i) {
    rules[i].to = {{.address = IpAddress::FromIpv4(be32(0x0a00'0000 + 2 * i)),
                    .length = 128}};
  }
  const auto table = RuleTable::Build(rules);
  ASSERT_TRUE(table.ok()) << table.status();
  for (uint32_t i = 0; i < kMaxRules; i += 997) {
    const auto to = [i](uint32_t more) {
      return TcpTo(IpAddress::FromIpv4(be32(0x0a00'0000 + 2 * i + more)), 80);
    };
    ASSERT_EQ(Find(*table, to(0)), i);
    ASSERT_EQ(Find(*table, to(1)), kNoRule);
  }
  rules.emplace_back();
  EXPECT_EQ(RuleTable::Build(rules).status().message(),
            "100001 rules: there may be at most 100000");
}

}  // namespace
}  // namespace snf
