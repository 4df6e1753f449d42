// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/routes.h"

#include <linux/fib_rules.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/packet/ip_address_text.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using testing::SizeIs;

template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string Padded(std::string bytes) {
  bytes.resize((bytes.size() + 3) & ~size_t{3});
  return bytes;
}

std::string Attribute(uint16_t type, const std::string& value) {
  const rtattr head = {
      .rta_len = static_cast<uint16_t>(sizeof(rtattr) + value.size()),
      .rta_type = type};
  return Padded(BytesOf(head) + value);
}

IpAddress Address(const std::string& text) {
  const auto ipv4 = ParseIpv4(text);
  return ipv4.has_value() ? *ipv4 : *ParseIpv6(text);
}

std::string AddressBytes(const std::string& text) {
  const IpAddress address = Address(text);
  return IsIpv4(address) ? BytesOf(address.ipv4()) : BytesOf(address);
}

// A rule, as the kernel tells it.
struct Told {
  uint32_t priority = 1'000;
  std::string from = "", to = "";  // "": any
  uint8_t from_bits = 32, to_bits = 32;
  uint32_t table = 100;
  uint8_t action = FR_ACT_TO_TBL;
  uint32_t flags = 0;
  std::string more = "";
  bool is_ipv4 = true;

  std::string bytes() const {
    fib_rule_hdr head{};
    head.family = is_ipv4 ? AF_INET : AF_INET6;
    head.src_len = from.empty() ? 0 : from_bits;
    head.dst_len = to.empty() ? 0 : to_bits;
    head.table = table < 256 ? static_cast<uint8_t>(table) : 252;
    head.action = action;
    head.flags = flags;
    std::string body = BytesOf(head) +
                       Attribute(FRA_PRIORITY, BytesOf(priority)) +
                       Attribute(FRA_TABLE, BytesOf(table)) +
                       Attribute(FRA_SUPPRESS_PREFIXLEN, BytesOf(~0u)) + more;
    if (!from.empty()) body += Attribute(FRA_SRC, AddressBytes(from));
    if (!to.empty()) body += Attribute(FRA_DST, AddressBytes(to));
    nlmsghdr message{};
    message.nlmsg_len = static_cast<uint32_t>(sizeof message + body.size());
    message.nlmsg_type = RTM_NEWRULE;
    return Padded(BytesOf(message) + body);
  }
};

class RoutesTest : public testing::Test {
 protected:
  RoutesTest() { config_.interfaces_across = {"lan0"}; }

  std::vector<RoutingRule> Read(const std::vector<Told>& rules) {
    RuleReader reader(config_, "wan0");
    for (const Told& rule : rules) {
      const std::string bytes = rule.bytes();
      EXPECT_EQ(reader.Take(std::as_bytes(std::span(bytes))), DumpPart::kMore);
    }
    not_followed_ = reader.not_followed();
    return reader.rules();
  }
  void Learn(uint32_t table, const std::string& to, const std::string& gateway,
             RouteKind kind = RouteKind::kHere) {
    LearnedRoute route = {.to = ParsePrefixes(to)->front(),
                          .gateway = std::nullopt,
                          .kind = kind,
                          .table = table};
    if (!gateway.empty()) route.gateway = Address(gateway);
    learned_.push_back(route);
    std::ranges::stable_sort(learned_, {}, &LearnedRoute::table);
  }
  // The next hop of a packet that is to leave, or comes in; "": none.
  std::string Hop(const std::vector<Told>& rules, const std::string& from,
                  const std::string& to, RouteSide side = RouteSide::kOut) {
    const auto found = Routes(config_, learned_, Read(rules))
                           .Find(Address(from), Address(to), side);
    return found.has_value() ? TextOf(found->hop) : "";
  }

  RouterConfig config_ = *RouterConfig::Parse(
      ",address=192.0.2.2/24,address=fd02::2/64,gateway=192.0.2.1,"
      "routes=rules");
  std::vector<LearnedRoute> learned_;
  std::string not_followed_;
};

const Told kMain = {.priority = 32'766, .table = RouterConfig::kMainTable};

TEST_F(RoutesTest, WithoutRulesAreThoseOfTheMainTable) {
  EXPECT_EQ(Hop({}, "10.1.0.9", "198.51.100.7"), "192.0.2.1");
  EXPECT_EQ(Hop({}, "10.1.0.9", "192.0.2.77"), "192.0.2.77");
  EXPECT_EQ(Hop({}, "fd01::9", "fd02::77"), "fd02::77");
}

TEST_F(RoutesTest, ChooseATableBySourceAndDestination) {
  Learn(100, "0.0.0.0/0", "192.0.2.100");
  Learn(200, "0.0.0.0/0", "192.0.2.200");
  const std::vector<Told> rules = {
      {.priority = 10, .from = "10.1.0.0", .from_bits = 24},
      {.priority = 20, .to = "198.51.100.0", .to_bits = 24, .table = 200},
      kMain};
  EXPECT_EQ(Hop(rules, "10.1.0.9", "198.51.100.7"), "192.0.2.100");
  EXPECT_EQ(Hop(rules, "10.2.0.9", "198.51.100.7"), "192.0.2.200");
  EXPECT_EQ(Hop(rules, "10.2.0.9", "203.0.113.1"), "192.0.2.1");
  // As in the kernel, a rule comes before the port's own network.
  EXPECT_EQ(Hop(rules, "10.1.0.9", "192.0.2.77"), "192.0.2.100");
}

TEST_F(RoutesTest, GoOnWhereATableHasNoRoute) {
  Learn(100, "198.51.100.0/24", "192.0.2.100");
  Learn(100, "203.0.113.0/24", "", RouteKind::kThrow);
  const std::vector<Told> rules = {{}, kMain};
  EXPECT_EQ(Hop(rules, "10.1.0.9", "198.51.100.7"), "192.0.2.100");
  EXPECT_EQ(Hop(rules, "10.1.0.9", "203.0.113.7"), "192.0.2.1");
  EXPECT_EQ(Hop(rules, "10.1.0.9", "8.8.8.8"), "192.0.2.1");
  // No rule names the main table.
  EXPECT_EQ(Hop({Told{}}, "10.1.0.9", "8.8.8.8"), "");
}

TEST_F(RoutesTest, EndAtARouteThatIsNotByThePort) {
  Learn(100, "0.0.0.0/0", "", RouteKind::kElsewhere);
  Learn(200, "0.0.0.0/0", "", RouteKind::kBlocked);
  EXPECT_EQ(Hop({Told{}, kMain}, "10.1.0.9", "8.8.8.8"), "");
  EXPECT_EQ(Hop({Told{.table = 200}, kMain}, "10.1.0.9", "8.8.8.8"), "");
  for (const uint8_t action :
       {FR_ACT_BLACKHOLE, FR_ACT_UNREACHABLE, FR_ACT_PROHIBIT}) {
    EXPECT_EQ(Hop({Told{.action = action}, kMain}, "10.1.0.9", "8.8.8.8"), "");
  }
}

TEST_F(RoutesTest, SuppressShortPrefixesInvertAndJump) {
  Learn(100, "0.0.0.0/0", "192.0.2.100");
  Learn(RouterConfig::kMainTable, "198.51.100.0/24", "192.0.2.50");
  Told suppressed = kMain;
  suppressed.priority = 5;
  suppressed.more = Attribute(FRA_SUPPRESS_PREFIXLEN, BytesOf(0));
  const std::vector<Told> vpn = {suppressed, Told{}, kMain};
  EXPECT_EQ(Hop(vpn, "10.1.0.9", "198.51.100.7"), "192.0.2.50");
  EXPECT_EQ(Hop(vpn, "10.1.0.9", "8.8.8.8"), "192.0.2.100");
  // A route that blocks has no length that is too short.
  Learn(300, "0.0.0.0/0", "", RouteKind::kBlocked);
  suppressed.table = 300;
  EXPECT_EQ(Hop({suppressed, Told{}, kMain}, "10.1.0.9", "8.8.8.8"), "");
  const std::vector<Told> inverted = {
      {.from = "10.1.0.9", .flags = FIB_RULE_INVERT}, kMain};
  EXPECT_EQ(Hop(inverted, "10.1.0.9", "8.8.8.8"), "192.0.2.1");
  EXPECT_EQ(Hop(inverted, "10.1.0.8", "8.8.8.8"), "192.0.2.100");
  const auto jump = [](uint32_t flags) {
    return Told{.priority = 1,
                .from = "10.1.0.9",
                .action = FR_ACT_GOTO,
                .flags = flags,
                .more = Attribute(FRA_GOTO, BytesOf(32'766))};
  };
  EXPECT_EQ(Hop({jump(0), Told{}, kMain}, "10.1.0.9", "8.8.8.8"), "192.0.2.1");
  EXPECT_EQ(Hop({jump(FIB_RULE_UNRESOLVED), Told{}}, "10.1.0.9", "8.8.8.8"),
            "192.0.2.100");
  EXPECT_EQ(Hop({jump(0), Told{}, kMain}, "10.1.0.8", "8.8.8.8"),
            "192.0.2.100");
  EXPECT_EQ(Hop({{.priority = 1, .action = FR_ACT_NOP}, kMain}, "10.1.0.9",
                "8.8.8.8"),
            "192.0.2.1");
}

// Packets have no mark, no bound socket and no tunnel.
TEST_F(RoutesTest, LeaveOutRulesThatMatchNoPacketOfAPort) {
  const std::string mark = Attribute(FRA_FWMARK, BytesOf(0x80000)) +
                           Attribute(FRA_FWMASK, BytesOf(0xff0000));
  const std::string tunnel = Attribute(FRA_TUN_ID, BytesOf(uint64_t{5}));
  const std::string bound = Attribute(FRA_OIFNAME, std::string("wan0\0", 5));
  const std::string ports = Attribute(FRA_IP_PROTO, std::string(1, '\6'));
  const std::vector<Told> rules = {
      {.more = mark + ports}, {.more = tunnel}, {.more = bound}};
  const std::vector<RoutingRule> read = Read(rules);
  EXPECT_EQ(read.size(), 3u);
  for (const RoutingRule& rule : read) EXPECT_TRUE(rule.holds_never());
  EXPECT_EQ(not_followed_, "");
  // The kernel has rules, none of which is for such packets.
  EXPECT_EQ(Hop(rules, "10.1.0.9", "8.8.8.8"), "");
  // "not fwmark" matches all.
  EXPECT_THAT(Read({{.flags = FIB_RULE_INVERT, .more = mark}}), SizeIs(1));
  EXPECT_TRUE(Read({{.flags = FIB_RULE_INVERT, .more = mark}})[0].Matches(
      Address("10.1.0.9"), Address("8.8.8.8"), RouteSide::kOut));
}

TEST_F(RoutesTest, FollowAnInputInterface) {
  Learn(100, "0.0.0.0/0", "192.0.2.100");
  const auto iif = [](const std::string& name) {
    return std::vector<Told>{
        {.more = Attribute(FRA_IIFNAME, name + std::string(1, '\0'))}, kMain};
  };
  EXPECT_EQ(Hop(iif("lan0"), "10.1.0.9", "8.8.8.8"), "192.0.2.100");
  EXPECT_EQ(Hop(iif("lan0"), "8.8.8.8", "10.1.0.9", RouteSide::kIn),
            "192.0.2.1");
  EXPECT_EQ(Hop(iif("wan0"), "10.1.0.9", "8.8.8.8"), "192.0.2.1");
  EXPECT_EQ(Hop(iif("wan0"), "8.8.8.8", "10.1.0.9", RouteSide::kIn),
            "192.0.2.100");
  EXPECT_EQ(Hop(iif("eth9"), "10.1.0.9", "8.8.8.8"), "192.0.2.1");
  config_.interfaces_across = {"lan0", "lan1"};
  EXPECT_EQ(Hop(iif("eth9"), "10.1.0.9", "8.8.8.8"), "192.0.2.1");
  Read(iif("lan1"));
  EXPECT_EQ(not_followed_,
            "rule 1000: iif lan1, one of several ports of its side");
}

TEST_F(RoutesTest, NameWhatPortsDoNotFollow) {
  const auto why = [&](uint16_t type) {
    Read({{.priority = 7, .more = Attribute(type, BytesOf(uint64_t{1}))}});
    return not_followed_;
  };
  EXPECT_EQ(why(FRA_UID_RANGE), "rule 7: uidrange");
  EXPECT_EQ(why(FRA_IP_PROTO), "rule 7: ipproto");
  EXPECT_EQ(why(FRA_SPORT_RANGE), "rule 7: sport");
  EXPECT_EQ(why(FRA_DPORT_RANGE), "rule 7: dport");
  EXPECT_EQ(why(FRA_L3MDEV), "rule 7: l3mdev");
  EXPECT_EQ(why(FRA_SUPPRESS_IFGROUP), "rule 7: suppress_ifgroup");
  EXPECT_EQ(why(25), "rule 7: dscp");
  EXPECT_EQ(why(99), "rule 7: attribute 99");
  EXPECT_EQ(why(FRA_PROTOCOL), "");
  Read({{.priority = 8, .action = 99}});
  EXPECT_EQ(not_followed_, "rule 8: action 99");
  std::string bytes = Told{.priority = 9}.bytes();
  bytes[sizeof(nlmsghdr) + offsetof(fib_rule_hdr, tos)] = 8;
  RuleReader reader(config_, "wan0");
  reader.Take(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(reader.not_followed(), "rule 9: tos");
}

TEST_F(RoutesTest, KeepVersionsOfIpApart) {
  Learn(100, "::/0", "fd02::100");
  Learn(100, "0.0.0.0/0", "192.0.2.100");
  const std::vector<Told> rules = {
      {.from = "fd01::", .from_bits = 64, .is_ipv4 = false}, kMain};
  EXPECT_EQ(Hop(rules, "fd01::9", "fd09::1"), "fd02::100");
  EXPECT_EQ(Hop(rules, "fd03::9", "fd09::1"), "");
  EXPECT_EQ(Hop(rules, "10.1.0.9", "8.8.8.8"), "192.0.2.1");
}

TEST_F(RoutesTest, StandAnyMessages) {
  const std::string good =
      Told{.from = "10.1.0.0", .to = "8.8.8.8", .from_bits = 24}.bytes() +
      Told{.from = "fd01::",
           .from_bits = 64,
           .more = Attribute(FRA_IIFNAME, "lan0"),
           .is_ipv4 = false}
          .bytes();
  for (size_t cut = 1; cut < good.size(); ++cut) {
    const std::vector<std::byte> bytes(
        std::as_bytes(std::span(good)).begin(),
        std::as_bytes(std::span(good)).begin() + static_cast<ptrdiff_t>(cut));
    RuleReader(config_, "wan0").Take(bytes);
  }
  for (const uint64_t seed : TestSeeds(20).all()) {
    Rng rng(seed);
    for (int i = 0; i < 500; ++i) {
      std::string bytes = good;
      for (uint64_t n = 1 + rng.Below(6); n > 0; --n) {
        bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Next());
      }
      RuleReader reader(config_, "wan0");
      reader.Take(std::as_bytes(std::span(bytes)));
      const Routes routes(config_, {}, reader.rules());
      routes.Find(Address("10.1.0.9"), Address("8.8.8.8"), RouteSide::kOut);
      for (const RoutingRule& rule : reader.rules()) {
        EXPECT_LE(rule.from.length, 128) << seed;
        EXPECT_LE(rule.to.length, 128) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace snf
