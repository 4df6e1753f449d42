// SPDX-License-Identifier: Apache-2.0
#include "base/rules/shadowed_rules.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace snf {
namespace {

std::vector<ShadowedRule> ShadowedIn(const std::vector<std::string>& rules,
                                     const std::string& sets = "") {
  RuleList list;
  list.sets = *ParseRuleSets(sets);
  for (const std::string& text : rules) {
    const auto rule = ParsePacketRule(text);
    EXPECT_TRUE(rule.ok()) << rule.status();
    list.rules.push_back(*rule);
  }
  const auto table = RuleTable::Build(list);
  EXPECT_TRUE(table.ok()) << table.status();
  return FindShadowedRules(list, *table);
}

using Found = std::vector<ShadowedRule>;

TEST(ShadowedRule, IsFoundInTheWorkedExample) {
  EXPECT_EQ(
      ShadowedIn({"tcp to 10.0.0.0/8", "tcp to 10.1.0.0/16 port 22", "udp"}),
      (Found{{1, 0}}));
}

// Each pair of rules, and whether the first covers the second.
TEST(ShadowedRule, IsCoveredInEachPart) {
  const std::string sets =
      "in:10.0.0.0/9,10.128.0.0/9,2001:db8::/32;some:10.3.0.0/16,10.9.9.9;"
      "six:2001:db8:1::/48;web:80,443;one:443;none:";
  for (const auto& [first, second, covers] : {
           std::tuple{"any", "tcp from 10.0.0.1 to any port 80", true},
           std::tuple{"tcp", "any", false},
           std::tuple{"tcp", "tcp", true},
           std::tuple{"ip", "any", false},
           std::tuple{"ip", "tcp to 10.0.0.1", true},
           std::tuple{"ip", "tcp to 10.0.0.1,2001:db8::1", false},
           std::tuple{"ip6", "icmp6 from fe80::1", true},
           std::tuple{"any from 10.0.0.0/8", "any from 10.0.0.0/7", false},
           std::tuple{"any from 10.0.0.0/9,10.128.0.0/9", "any from 10.0.0.0/8",
                      true},
           std::tuple{"any from 10.0.0.0/8", "any to 10.0.0.0/8", false},
           std::tuple{"any to any port 0-65535", "tcp", false},
           std::tuple{"any to any port 0-65535", "tcp from any port 7", true},
           std::tuple{"tcp to any port 1-9,10-20", "tcp to any port 5-15",
                      true},
           std::tuple{"tcp to any port 1-9,11-20", "tcp to any port 5-15",
                      false},
           std::tuple{"any vlan 3", "any", false},
           std::tuple{"any vlan 3", "tcp vlan 3", true},
           std::tuple{"any vlan 3", "tcp vlan 4", false},
           std::tuple{"tcp flags S/S", "tcp flags S/SA", true},
           std::tuple{"tcp flags S/SA", "tcp flags S/S", false},
           std::tuple{"tcp flags /S", "tcp flags S/SA", false},
           std::tuple{"tcp flags S/S", "tcp", false},
           std::tuple{"any from $in", "any from 10.3.0.0/16", true},
           std::tuple{"any from $in", "any from 10.0.0.0/8", true},
           std::tuple{"any from $in", "any from $some", true},
           std::tuple{"any from $in", "any from $in", true},
           std::tuple{"any from $in", "any from $six", true},
           std::tuple{"ip from $in", "any from $in", false},
           std::tuple{"ip from $in", "any from $some", true},
           std::tuple{"any from $in", "ip from $in", true},
           std::tuple{"any from $some", "any from $in", false},
           std::tuple{"any from $some", "any from 10.9.9.9", true},
           std::tuple{"tcp to any port $web", "tcp to any port $one", true},
           std::tuple{"tcp to any port $one", "tcp to any port $web", false},
           std::tuple{"tcp to any port $web", "tcp to any port 80", true},
           std::tuple{"any from $none", "any from $none", false},
           std::tuple{"any", "any from $none", false},
       }) {
    const Found expected = covers ? Found{{1, 0}} : Found{};
    EXPECT_EQ(ShadowedIn({first, second}, sets), expected)
        << first << "; " << second;
  }
}

// The rule that covers need not be the first that matches.
TEST(ShadowedRule, IsFoundBehindRulesThatCoverAPart) {
  EXPECT_EQ(ShadowedIn({"tcp to 10.0.0.0 port 22", "tcp from 0.0.0.0",
                        "tcp to 10.0.0.0/8", "tcp to 10.0.0.0/16"}),
            (Found{{3, 2}}));
}

TEST(ShadowedRule, IsFoundInAHundredThousandRulesInSeconds) {
  RuleList list;
  for (uint32_t i = 0; i < kMaxRules; ++i) {
    PacketRule& rule = list.rules.emplace_back();
    rule.to = {{.address = IpAddress::FromIpv4(be32(0x0a00'0000 + 2 * i)),
                .length = 128}};
  }
  list.rules.back().to = list.rules[7].to;
  const auto table = RuleTable::Build(list);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(FindShadowedRules(list, *table), (Found{{kMaxRules - 1, 7}}));
}

}  // namespace
}  // namespace snf
