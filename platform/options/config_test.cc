// SPDX-License-Identifier: Apache-2.0
#include "platform/options/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace snf {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Config Good(const std::string& text) {
  absl::StatusOr<Config> config = ParseConfig(text, "sites.conf");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *std::move(config) : Config{};
}
std::string WhatIsWrong(const std::string& text) {
  const absl::Status status = ParseConfig(text, "sites.conf").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  return std::string(status.message());
}

constexpr char kTwoChains[] = R"(
nf { name: "door" type: "nat" options { key: "ip" value: "192.0.2.7" }
                              options { key: "ports" value: "2000-2999" } }
chain { name: "office" text: "passthrough | door" max_units: 3
        unit_capacity: "50Mbps" }
chain { name: "rest" stage { nf: "passthrough" } }
rule { match: "any from 10.1.0.0/16 to any" chain: "office" }
rule { match: "udp from any to any port 53" chain: "rest" }
default_chain: "rest"
)";

TEST(Config, SaysWhichChainsThereAreAndWhoTakesThem) {
  const Config config = Good(kTwoChains);
  ASSERT_EQ(config.chains.size(), 2u);
  EXPECT_EQ(config.chains[0].name, "office");
  EXPECT_EQ(config.chains[0].nf.text(),
            "passthrough | nat(ip=192.0.2.7,ports=2000-2999)");
  EXPECT_EQ(config.chains[0].max_units, 3u);
  EXPECT_EQ(config.chains[0].unit_capacity_bps, 50'000'000);
  EXPECT_EQ(config.chains[1].nf.text(), "passthrough");
  EXPECT_FALSE(config.chains[1].max_units.has_value());
  EXPECT_EQ(config.rules.size(), 2u);
  EXPECT_EQ(config.rule_chains, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(config.default_chain, 1u);
}

TEST(Config, IsTheSameInJson) {
  const Config config = Good(R"({
    "nf": [{"name": "door", "type": "nat",
            "options": {"ip": "192.0.2.7", "ports": "2000-2999"}}],
    "chain": [{"name": "office", "text": "passthrough | door",
               "max_units": 3, "unitCapacity": "50Mbps"},
              {"name": "rest", "stage": [{"nf": "passthrough"}]}],
    "rule": [{"match": "any from 10.1.0.0/16 to any", "chain": "office"},
             {"match": "udp from any to any port 53", "chain": "rest"}],
    "default_chain": "rest"})");
  const Config text = Good(kTwoChains);
  ASSERT_EQ(config.chains.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(config.chains[i].nf.text(), text.chains[i].nf.text());
    EXPECT_EQ(config.chains[i].max_units, text.chains[i].max_units);
    EXPECT_EQ(config.chains[i].unit_capacity_bps,
              text.chains[i].unit_capacity_bps);
  }
  EXPECT_EQ(config.rules, text.rules);
  EXPECT_EQ(config.rule_chains, text.rule_chains);
  EXPECT_EQ(config.default_chain, text.default_chain);
}

TEST(Config, TakesChainsThatAreMadeOfOthers) {
  const Config config = Good(R"(
chain { name: "all" stage { nf: "half" } stage { nf: "nat" } }
chain { name: "half" text: "passthrough | chronicle" }
nf { name: "nat" type: "nat" options { key: "peers" value: "2" } }
default_chain: "all")");
  EXPECT_EQ(config.chains[0].nf.text(),
            "passthrough | chronicle | nat(peers=2)");
}

TEST(Config, OfOneChainNeedsNoRule) {
  const Config config = Good(R"(chain { name: "a" text: "nat" })");
  EXPECT_EQ(config.default_chain, 0u);
}

TEST(Config, QuotesValuesThatHaveCommas) {
  EXPECT_THAT(WhatIsWrong(R"(
nf { name: "n" type: "nat" options { key: "ip" value: "a,b\"c\\" } }
chain { name: "a" text: "n" })"),
              HasSubstr("ip=a,b\"c\\: must be"));
}

TEST(Config, NamesTheLineOfWhatIsWrong) {
  const auto in = [](const std::string& line) {
    return WhatIsWrong("chain { name: \"a\" text: \"passthrough\" }\n" + line);
  };
  EXPECT_THAT(in("chains {}"), StartsWith("sites.conf:2:"));
  EXPECT_THAT(in("chain { nam: \"b\" }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("nam")));
  EXPECT_THAT(in("chain { name: \"b\" text: \"foo\" }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("\"foo\"")));
  EXPECT_THAT(in("chain { name: \"b\" text: \"nat:peers=0\" }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("peers=0")));
  EXPECT_THAT(in("chain { name: \"a\" text: \"nat\" }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("twice")));
  EXPECT_THAT(in("chain { name: \"b/c\" text: \"nat\" }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("b/c")));
  EXPECT_THAT(in("chain { name: \"b\" }"), StartsWith("sites.conf:2:"));
  EXPECT_THAT(in("chain { name: \"b\" text: \"nat\" stage { nf: \"nat\" } }"),
              StartsWith("sites.conf:2:"));
  EXPECT_THAT(in("chain { name: \"b\" text: \"nat\" unit_capacity: \"fast\" }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("fast")));
  EXPECT_THAT(in("chain { name: \"b\" text: \"nat\" max_units: 70000 }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("70000")));
  EXPECT_THAT(in("nf { name: \"b\" }"), StartsWith("sites.conf:2:"));
  EXPECT_THAT(in("rule { match: \"tpc\" chain: \"a\" }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("tpc")));
  EXPECT_THAT(in("rule { match: \"tcp flags S/SA\" chain: \"a\" }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("flags")));
  EXPECT_THAT(in("rule { match: \"tcp\" chain: \"b\" }"),
              AllOf(StartsWith("sites.conf:2:"), HasSubstr("\"b\"")));
  EXPECT_THAT(in("default_chain: \"b\""),
              AllOf(StartsWith("sites.conf:2"), HasSubstr("\"b\"")));
}

TEST(Config, SaysAtWhichLineAndColumnTextIsWrong) {
  EXPECT_EQ(WhatIsWrong("chain {\n  nam: \"b\" }"),
            "sites.conf:2:6: Message type \"snf.proto.Chain\" has no field "
            "named \"nam\".");
  EXPECT_EQ(WhatIsWrong("chain {\n  name: 3 }"),
            "sites.conf:2:9: Expected string, got: 3");
  EXPECT_EQ(WhatIsWrong("chain { max_units: 5000000000 }"),
            "sites.conf:1:20: Integer out of range (5000000000)");
  EXPECT_EQ(WhatIsWrong("chain"),
            "sites.conf:1:6: Expected \"{\", found \"\".");
}

TEST(Config, SaysWhereInJsonAFieldIsUnknown) {
  EXPECT_EQ(WhatIsWrong("{\"chain\": [{\"name\": \"a\",\n  \"txt\": 1}]}"),
            "sites.conf: (chain[0]) txt: Cannot find field.");
  EXPECT_EQ(WhatIsWrong("{\n\"chains\": []}"),
            "sites.conf: chains: Cannot find field.");
}

TEST(Config, NamesThePlaceInJsonToo) {
  EXPECT_EQ(WhatIsWrong("{\"chain\": [\n}"),
            "sites.conf: Unexpected token.\n}\n^");
  EXPECT_EQ(WhatIsWrong(R"({"chain": [{"name": "a", "text": "nat"},
                                      {"name": "b", "text": 3}]})"),
            "sites.conf: (chain[1].text): invalid value 3 for type "
            "TYPE_STRING");
  EXPECT_EQ(WhatIsWrong(R"({"chain": [{"name": "a", "text": "nat",
  "maxUnits": -3}]})"),
            "sites.conf: (chain[0].max_units): invalid value -3 for type "
            "TYPE_UINT32");
  EXPECT_EQ(WhatIsWrong("{\"chain\":\n [3]}"),
            "sites.conf: (chain[0]): invalid value 3 for type "
            "type.googleapis.com/snf.proto.Chain");
  EXPECT_THAT(
      WhatIsWrong(R"({"chain": [{"name": "a", "text": "nat"},
 {"name": "b", "text": "tan"}]})"),
      StartsWith("sites.conf: chain[1]: chain \"b\": \"tan\" is no NF"));
  EXPECT_THAT(WhatIsWrong(R"({"chain": [{"name": "a", "text": "nat"}],
 "rule": [{"match": "tpc", "chain": "a"}]})"),
              AllOf(StartsWith("sites.conf: rule[0]: "), HasSubstr("tpc")));
  EXPECT_THAT(WhatIsWrong(R"({"chain": [{"name": "a", "text": "nat"}],
 "defaultChain": "b"})"),
              StartsWith("sites.conf: default_chain: "));
}

TEST(Config, NamesThePlaceOfAnNfThatIsWrong) {
  constexpr char kNf[] = R"(chain { name: "a" text: "f" }
   nf { name: "f" type: )";
  EXPECT_EQ(WhatIsWrong(std::string(kNf) + "\"./none.so\" }"),
            "sites.conf:2:4: nf \"f\": ./none.so: No such file or directory");
  EXPECT_EQ(WhatIsWrong(std::string(kNf) + R"("policer"
    options { key: "rat" value: "1" } })"),
            "sites.conf:2:4: nf \"f\": policer: rat=1: there is no option "
            "\"rat\"; there is: action, burst, rate");
}

TEST(Config, NamesLabelsThatAnNfDoesNotFind) {
  EXPECT_EQ(WhatIsWrong(R"(chain { name: "a" text: "policer | {fast: nat}" })"),
            "sites.conf:1:1: chain \"a\": nat: it has two sides: it cannot "
            "be in braces, or before them");
  EXPECT_EQ(WhatIsWrong(R"(chain { name: "a" stage { nf: "policer"
                           arm { label: "fast" stage { nf: "policer" } } } })"),
            "sites.conf:1:1: chain \"a\": policer: it finds conforming, over, "
            "not \"fast\"");
}

TEST(Config, RefusesChainsThatArePartsOfThemselves) {
  EXPECT_EQ(WhatIsWrong(R"(
chain { name: "a" text: "nat | b" }
chain { name: "b" stage { nf: "c" } }
chain { name: "c" text: "b" })"),
            "sites.conf:2:1: chain \"a\": \"b\" needs \"c\" needs \"b\"");
}

TEST(Config, TellsOfAChainThatIsNamedAsItsNf) {
  const std::string what =
      "sites.conf:1:1: chain \"nat\": \"nat\" names itself, not the NF of "
      "this name: give the chain another name";
  EXPECT_EQ(WhatIsWrong(R"C(chain { name: "nat" text: "nat(ip=192.0.2.1)" })C"),
            what);
  EXPECT_EQ(WhatIsWrong(R"(chain { name: "nat" stage { nf: "nat" } })"), what);
}

TEST(Config, HasToSayWhoTakesWhich) {
  EXPECT_THAT(WhatIsWrong(""), HasSubstr("no chain"));
  EXPECT_THAT(WhatIsWrong(R"(chain { name: "a" text: "nat" }
                             chain { name: "b" text: "nat" })"),
              HasSubstr("default_chain"));
}

TEST(Config, ThatCannotBeReadIsNamed) {
  const absl::Status status = ReadConfigFile("/no/such/file").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/file"));
}

}  // namespace
}  // namespace snf
