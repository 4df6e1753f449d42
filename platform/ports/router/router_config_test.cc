// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/router_config.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/packet/ip_address_text.h"
#include "base/packet/ip_prefix.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/ports/router/route_table.h"

namespace snf {
namespace {

std::optional<IpAddress> HopOf(const RouteTable& table, const IpAddress& to) {
  const auto found = table.Find(to);
  if (!found.has_value()) return std::nullopt;
  return found->hop;
}

using testing::HasSubstr;

std::string ErrorOf(const std::string& options) {
  return std::string(RouterConfig::Parse(options).status().message());
}

TEST(RouterConfig, ReadsWhatItWrites) {
  for (const char* const text :
       {",address=10.1.0.1/24", ",address=fd00::1/64",
        ",address=10.1.0.1/24,routes=4294967295",
        ",address=10.1.0.1/24,routes=rules",
        ",address=fd01::1/64,ra=on,dns=fd01::53,dns=2001:db8::1",
        ",address=10.1.0.1/24,address=10.2.0.1/31,address=fd00:1::1/64"
        ",gateway=10.1.0.254,gateway=fe80::1,route=10.8.0.0/16@10.1.0.253"
        ",routes=main"
        ",proxy=192.0.2.5,proxy=192.0.2.8/30,mac=02:00:00:00:00:01",
        ",address=fd00::1/64,mac=02:00:00:00:00:01,ra=on"}) {
    const auto config = RouterConfig::Parse(text);
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->text(), text);
    EXPECT_TRUE(config->is_routed());
    EXPECT_EQ(*RouterConfig::Parse(config->text()), *config);
  }
  EXPECT_EQ(RouterConfig().text(), "");
}

TEST(RouterConfig, RefusesWhatIsWrongByName) {
  const std::string good = ",address=10.1.0.1/24";
  for (const auto& [options, words] :
       {std::pair{std::string(",x=1"), "want address=IP/LENGTH"},
        {",", "\"\": want"},
        {",proxy=10.1.0.5", "want an address for a port that routes"},
        {",address=10.1.0.1", "address=10.1.0.1: want an address and the"},
        {",address=10.1.0.1/33", "10.1.0.1/33"},
        {",address=10.1.0.1/0", "10.1.0.1/0"},
        {",address=10.1.0.1/x", "10.1.0.1/x"},
        {",address=10.1.0.0/24", "no host can have that"},
        {",address=10.1.0.255/24", "no host can have that"},
        {",address=127.0.0.1/8", "no host can have that"},
        {",address=ff02::1/64", "no host can have that"},
        {good + good, "given twice"},
        {good + ",ra=on", "ra=on: want an IPv6 network"},
        {",address=fe80::1/64,ra=on", "ra=on: want an IPv6 network"},
        {",address=fd01::1/64,ra=yes", "ra=yes: want on or off"},
        {good + ",gateway=10.2.0.1", "in no network of this port"},
        {good + ",gateway=fe80::1", "in no network of this port"},
        {good + ",gateway=10.1.0.1", "own address"},
        {good + ",gateway=", "not the address of a gateway"},
        {good + ",gateway=10.1.0.2,gateway=10.1.0.3", "two gateways to"},
        {good + ",route=10.8.0.0/16", "not the address of a gateway"},
        {good + ",route=fd00::/16@10.1.0.2", "one is IPv4"},
        {good + ",route=10.8.0.1/16@10.1.0.2", "has bits behind its length"},
        {good + ",routes=", "routes=: want main, rules, or the number"},
        {good + ",routes=0", "routes=0: want main"},
        {good + ",routes=local", "routes=local: want main"},
        {good + ",routes=4294967296", "routes=4294967296: want main"},
        {good + ",routes=main,routes=main", "given twice"},
        {good + ",dns=fd01::53", "dns=fd01::53: only with ra=on"},
        {good + ",ra=on,dns=10.1.0.5", "dns=10.1.0.5: want the IPv6 address"},
        {good + ",ra=on,dns=ff02::1", "dns=ff02::1: want the IPv6 address"},
        {good + ",ra=on,dns=", "dns=: want the IPv6 address"},
        {",address=fd01::1/64,ra=on,dns=fd01::5,dns=fd01::5", "given twice"},
        {good + ",proxy=x", "proxy=x"},
        {good + ",mac=01:00:00:00:00:01", "address of one host"},
        {good + ",mac=02:00:00:00:00", "address of one host"},
        {good + ",mac=02:00:00:00:00:0g", "address of one host"},
        {good + ",mac=02:00:00:00:00:01,mac=02:00:00:00:00:02", "twice"}}) {
    EXPECT_THAT(ErrorOf(options), HasSubstr(words)) << options;
  }
}

TEST(RouterConfig, PortsHaveNoNetworkInCommon) {
  const auto parse = [](const char* text) {
    return *RouterConfig::Parse(text);
  };
  const RouterConfig lan = parse(",address=10.1.0.1/24,address=fe80::1/64");
  EXPECT_TRUE(CheckApart(lan, parse(",address=10.2.0.1/24")).ok());
  EXPECT_TRUE(CheckApart(lan, parse(",address=fe80::1/64")).ok());
  EXPECT_FALSE(CheckApart(lan, parse(",address=10.1.0.2/24")).ok());
  EXPECT_FALSE(CheckApart(lan, parse(",address=10.9.0.1/8")).ok());
  EXPECT_FALSE(CheckApart(parse(",address=10.9.0.1/8"), lan).ok());
}

TEST(RouterConfig, KnowsWhatIsBesideIt) {
  RouterConfig config = *RouterConfig::Parse(",address=10.1.0.1/24");
  const RouterConfig other = *RouterConfig::Parse(
      ",address=fe80::1/64,address=10.2.0.1/24,gateway=10.2.0.9");
  config.AddBeside(other, "lan1");
  config.AddBeside(
      *RouterConfig::Parse(",address=fd03::1/64,mac=02:00:00:00:00:01"),
      "lan2");
  ASSERT_EQ(config.addresses_beside.size(), 2u);  // none of fe80::/10
  EXPECT_EQ(TextOf(config.addresses_beside[0]), "10.2.0.1");
  EXPECT_EQ(TextOf(config.addresses_beside[1]), "fd03::1");
  EXPECT_EQ(config.networks_beside.size(), 2u);
  ASSERT_EQ(config.macs_beside.size(), 1u);
  EXPECT_EQ(TextOf(config.macs_beside[0]), "02:00:00:00:00:01");
  EXPECT_EQ(config.interfaces_beside, std::vector<std::string>{"lan1"});
}

TEST(RouterConfig, StandsAnyText) {
  const std::string good =
      ",address=10.1.0.1/24,gateway=10.1.0.254,route=10.8.0.0/16@10.1.0.253"
      ",proxy=192.0.2.8/30,mac=02:00:00:00:00:01";
  for (const uint64_t seed : TestSeeds(20).all()) {
    Rng rng(seed);
    for (int i = 0; i < 500; ++i) {
      std::string text = good.substr(0, 1 + rng.Below(good.size()));
      for (uint64_t n = rng.Below(4); n > 0; --n) {
        text[rng.Below(text.size())] = static_cast<char>(rng.Next());
      }
      const auto config = RouterConfig::Parse(text);
      if (config.ok()) {
        EXPECT_EQ(*RouterConfig::Parse(config->text()), *config) << text;
      }
    }
  }
}

TEST(RouteTable, TheLongestPrefixDecidesWithinAVersionOfIp) {
  const RouteTable table(*RouterConfig::Parse(
      ",address=10.1.0.1/24,address=fd01::1/64,gateway=10.1.0.254"
      ",route=10.8.0.0/16@10.1.0.2,route=10.8.1.0/24@10.1.0.3"
      ",route=fd08::/16@fe80::2"));
  const auto hop = [&](const IpAddress& to) { return HopOf(table, to); };
  const auto v4 = [](uint32_t number) {
    return IpAddress::FromIpv4(be32(number));
  };
  EXPECT_EQ(hop(v4(0x0a010009)), v4(0x0a010009));
  EXPECT_EQ(hop(v4(0x0a080009)), v4(0x0a010002));
  EXPECT_EQ(hop(v4(0x0a080109)), v4(0x0a010003));
  EXPECT_EQ(hop(v4(0xc0000209)), v4(0x0a0100fe));
  EXPECT_FALSE(table.Find(v4(0xc0000209))->is_near());
  EXPECT_TRUE(table.Find(v4(0x0a080109))->is_near());
  EXPECT_TRUE(table.IsBroadcast(v4(0x0a0100ff)));
  IpAddress far;
  far.bytes[0] = std::byte{0xfd};
  far.bytes[1] = std::byte{0x08};
  EXPECT_TRUE(IsLinkLocal(*hop(far)));
  far.bytes[1] = std::byte{0x09};
  EXPECT_FALSE(hop(far).has_value());
}

TEST(RouterConfig, KnowsNeighbours) {
  const RouterConfig config =
      *RouterConfig::Parse(",address=10.1.0.1/24,address=fd01::1/64");
  const RouterConfig of_ipv4 = *RouterConfig::Parse(",address=10.1.0.1/24");
  for (const auto& [text, is_near] : {std::pair{"10.1.0.2", true},
                                      {"10.1.0.1", false},
                                      {"10.2.0.2", false},
                                      {"fd01::2", true},
                                      {"fd01::1", false},
                                      {"fd02::2", false},
                                      {"fe80::2", true}}) {
    const auto ipv4 = ParseIpv4(text);
    const IpAddress address = ipv4.has_value() ? *ipv4 : *ParseIpv6(text);
    EXPECT_EQ(config.IsNeighbour(address), is_near) << text;
    EXPECT_EQ(of_ipv4.IsNeighbour(address), is_near && ipv4.has_value())
        << text;
  }
}

TEST(RouteTable, OwnNetworksAndGivenRoutesComeBeforeLearnedOnes) {
  const auto v4 = [](const char* text) { return *ParseIpv4(text); };
  const auto to = [](const char* text) { return ParsePrefixes(text)->front(); };
  const std::vector<LearnedRoute> learned = {
      {.to = to("10.1.0.0/24"), .gateway = v4("10.1.0.9")},
      {.to = to("10.8.0.0/16"), .gateway = v4("10.1.0.9")},
      {.to = to("10.8.4.0/24"), .gateway = v4("10.1.0.8")},
      {.to = to("10.8.4.0/24"), .gateway = v4("10.1.0.7")},
      {.to = to("10.8.4.5"), .gateway = std::nullopt}};
  const RouteTable table(
      *RouterConfig::Parse(",address=10.1.0.1/24,route=10.8.0.0/16@10.1.0.2"),
      learned);
  EXPECT_EQ(HopOf(table, v4("10.1.0.5")), v4("10.1.0.5"));
  EXPECT_EQ(HopOf(table, v4("10.8.0.1")), v4("10.1.0.2"));
  EXPECT_EQ(HopOf(table, v4("10.8.4.1")), v4("10.1.0.8"));
  EXPECT_EQ(HopOf(table, v4("10.8.4.5")), v4("10.8.4.5"));
  EXPECT_FALSE(table.Find(v4("192.0.2.1")).has_value());
  EXPECT_TRUE(table.Find(v4("10.8.4.5"))->is_near());
}

// Held against a search through all routes.
TEST(RouteTable, FindsTheLongestPrefixAmongAnyRoutes) {
  for (const uint64_t seed : TestSeeds(20).all()) {
    Rng rng(seed);
    const auto address = [&rng] {
      // Few bits, so that prefixes contain each other.
      return IpAddress::FromIpv4(
          be32(static_cast<uint32_t>(0x0a000000 | rng.Below(4) << 20 |
                                     rng.Below(4) << 12 | rng.Below(4) << 4)));
    };
    std::vector<LearnedRoute> routes;
    for (uint64_t n = rng.Below(60); n > 0; --n) {
      routes.push_back({.to = IpPrefix::Of(address(), static_cast<uint8_t>(
                                                          96 + rng.Below(33))),
                        .gateway = address()});
    }
    const RouteTable table(RouterConfig{}, routes);
    for (int i = 0; i < 200; ++i) {
      const IpAddress to = address();
      const LearnedRoute* best = nullptr;
      for (const LearnedRoute& route : routes) {
        if (!route.to.Contains(to)) continue;
        if (best == nullptr || route.to.length > best->to.length) {
          best = &route;
        }
      }
      const auto hop = HopOf(table, to);
      ASSERT_EQ(hop.has_value(), best != nullptr) << "seed " << seed;
      if (best != nullptr) {
        ASSERT_EQ(*hop, *best->gateway) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace snf
