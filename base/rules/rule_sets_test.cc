// SPDX-License-Identifier: Apache-2.0
#include "base/rules/rule_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <tuple>

#include "base/packet/ip_address_text.h"
#include "base/packet/test_packets.h"
#include "base/rules/rule_table.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PacketFields FieldsTo(const IpAddress& from, uint16_t port) {
  return {.source = from,
          .destination = V4(192, 0, 2, 9),
          .source_port = 5000,
          .destination_port = port,
          .protocol = IpProtocol::kTcp,
          .l3 = L3::kIpv4,
          .has_ports = true};
}

RuleTable TableOf(const std::vector<std::string>& rules,
                  const std::string& sets) {
  RuleList list;
  list.sets = *ParseRuleSets(sets);
  for (const std::string& rule : rules) {
    list.rules.push_back(*ParsePacketRule(rule));
  }
  auto table = RuleTable::Build(list);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

std::string ErrorOf(const std::string& rule, const std::string& sets) {
  RuleList list;
  list.sets = *ParseRuleSets(sets);
  list.rules.push_back(*ParsePacketRule(rule));
  return std::string(RuleTable::Build(list).status().message());
}

TEST(RuleSet, IsReadInLinesAndLists) {
  const auto set = ParseRuleSet(
      "bad",
      "# from a feed\r\n10.0.0.0/8, 192.0.2.1\t192.0.2.1\n\n2001:db8::/32 # v6",
      "bad.txt");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->name, "bad");
  EXPECT_EQ(FormatPrefixes(set->prefixes),
            "10.0.0.0/8,192.0.2.1,192.0.2.1,2001:db8::/32");
  EXPECT_TRUE(set->ports.empty());
  const auto sets = ParseRuleSets("web:80,443,8000-8999;none:;one:10.0.0.1");
  ASSERT_TRUE(sets.ok()) << sets.status();
  ASSERT_EQ(sets->size(), 3u);
  EXPECT_THAT((*sets)[0].ports,
              ElementsAre(PortRange{80, 80}, PortRange{443, 443},
                          PortRange{8000, 8999}));
  EXPECT_TRUE((*sets)[1].prefixes.empty() && (*sets)[1].ports.empty());
  EXPECT_EQ((*sets)[2].prefixes.size(), 1u);
}

TEST(RuleSet, IsReadFromAFile) {
  const std::string file = testing::TempDir() + "/rule_sets_test.set";
  std::ofstream(file) << "10.0.0.1\n10.0.0.2\n";
  const auto sets = ParseRuleSets("bad:@" + file);
  ASSERT_TRUE(sets.ok()) << sets.status();
  EXPECT_EQ((*sets)[0].prefixes.size(), 2u);
  std::ofstream(file) << "10.0.0.1\n#\n10.0.0.300\n";
  EXPECT_THAT(std::string(ParseRuleSets("bad:@" + file).status().message()),
              HasSubstr("rule_sets_test.set:3: \"10.0.0.300\""));
  std::remove(file.c_str());
  EXPECT_THAT(std::string(ParseRuleSets("bad:@" + file).status().message()),
              HasSubstr("rule_sets_test.set"));
}

TEST(RuleSet, TellsWhatIsWrong) {
  for (const auto& [text, wrong] : {
           std::tuple{"bad:10.0.0.1/8", "set bad:1: \"10.0.0.1/8\" has bits"},
           std::tuple{"bad:10.0.0.1,80", "\"80\": want a set of addresses or"},
           std::tuple{"bad:80,::1", "\"::1\": want a set of addresses or"},
           std::tuple{"bad:http",
                      "\"http\": want an address, a prefix, a port"},
           std::tuple{"bad:65536", "\"65536\": want a port from 0 to 65535"},
           std::tuple{"bad:9-8", "\"9-8\": the range ends before it begins"},
           std::tuple{"bad", "\"bad\": want a set as"},
           std::tuple{":80", "\":80\": want a set as"},
           std::tuple{"a b:80", "\"a b:80\": want a set as"},
           std::tuple{"a:80;a:81", "\"a\": there are two sets of this name"},
       }) {
    EXPECT_THAT(std::string(ParseRuleSets(text).status().message()),
                HasSubstr(wrong));
  }
  std::string many;
  for (size_t i = 0; i <= kMaxSets; ++i) many += "s" + std::to_string(i) + ":;";
  EXPECT_THAT(std::string(ParseRuleSets(many).status().message()),
              HasSubstr("\"s256\": more than 256 sets"));
  std::string ports;
  for (size_t i = 0; i <= kMaxSetEntries; ++i) ports += "1 ";
  EXPECT_THAT(std::string(ParseRuleSets("a:" + ports).status().message()),
              HasSubstr("more than 500000 entries"));
  ports.resize(ports.size() / 2 + 2);
  EXPECT_THAT(
      std::string(
          ParseRuleSets("a:" + ports + ";b:" + ports).status().message()),
      HasSubstr("\"b\": more than 500000 entries of all sets together"));
}

TEST(RuleSet, IsNamedInARule) {
  for (const char* text :
       {"any from $bad to any", "tcp from $bad port $high to $good port 80",
        "tcp from any to any port $web.1", "ip from $bad to any",
        "ip6 from $a-b to 2001:db8::/32", "tcp from $bad to any flags S/SA"}) {
    const auto rule = ParsePacketRule(text);
    ASSERT_TRUE(rule.ok()) << rule.status();
    EXPECT_EQ(ToString(*rule), text);
    EXPECT_EQ(*ParsePacketRule(ToString(*rule)), *rule);
  }
  for (const auto& [text, wrong] :
       {std::tuple{"tcp from $", "\"$\": want one set"},
        std::tuple{"tcp from $bad,10.0.0.0/8", "\"$bad,10.0.0.0/8\": want one"},
        std::tuple{"tcp from 10.0.0.0/8,$bad", "no prefix"},
        std::tuple{"icmp to any port $web", "\"icmp\": has no ports"}}) {
    EXPECT_THAT(std::string(ParsePacketRule(text).status().message()),
                HasSubstr(wrong));
  }
  const std::string sets = "web:80;bad:10.0.0.1;none:";
  EXPECT_EQ(ErrorOf("tcp from $bed", sets),
            "rule 1: \"$bed\": there is no set of this name");
  EXPECT_EQ(ErrorOf("tcp from $web", sets),
            "rule 1: \"$web\": a set of ports; want one of addresses");
  EXPECT_EQ(ErrorOf("tcp to any port $bad", sets),
            "rule 1: \"$bad\": a set of addresses; want one of ports");
  EXPECT_EQ(ErrorOf("tcp from $none to any port $none", sets), "");
}

TEST(RuleSet, DecidesWithTheOtherPartsOfARule) {
  const RuleTable table = TableOf(
      {"tcp from $none", "tcp from $bad to any port $web", "ip6 from $bad",
       "tcp from $bad", "any to any port $none"},
      "bad:10.0.0.0/8,10.1.0.0/16,10.1.0.0/16,192.0.2.1;web:80,443;none:");
  EXPECT_EQ(table.Find(FieldsTo(V4(10, 1, 2, 3), 443)), 1u);
  EXPECT_EQ(table.Find(FieldsTo(V4(10, 1, 2, 3), 22)), 3u);
  EXPECT_EQ(table.Find(FieldsTo(V4(10, 255, 255, 255), 80)), 1u);
  EXPECT_EQ(table.Find(FieldsTo(V4(11, 0, 0, 0), 80)), RuleTable::kNoRule);
  EXPECT_EQ(table.Find(FieldsTo(V4(192, 0, 2, 1), 80), 2), 3u);
  EXPECT_EQ(table.Find(FieldsTo(V4(192, 0, 2, 1), 80), 4), RuleTable::kNoRule);
  // Ports that cannot be read are in no set.
  PacketFields fragment = FieldsTo(V4(10, 0, 0, 1), 80);
  fragment.has_ports = false;
  EXPECT_EQ(table.Find(fragment), 3u);
  // A pattern a version of IP, however many entries a set has.
  EXPECT_EQ(table.patterns(), 9u);
}

TEST(RuleSet, HoldsAHundredThousandEntries) {
  std::string text;
  for (uint32_t i = 0; i < 100'000; ++i) {
    text += Ipv4Text(IpAddress::FromIpv4(be32(0x0a00'0000 + 2 * i))) + "\n";
  }
  const RuleTable table = TableOf({"any from $bad"}, "bad:" + text);
  for (uint32_t i = 0; i < 200'000; i += 37) {
    const IpAddress from = IpAddress::FromIpv4(be32(0x0a00'0000 + i));
    ASSERT_EQ(table.Find(FieldsTo(from, 80)),
              i % 2 == 0 ? 0 : RuleTable::kNoRule)
        << i;
  }
}

}  // namespace
}  // namespace snf
