// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/route_reader.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include "base/packet/ip_address_text.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Part = DumpPart;

constexpr int kLan = 7, kWan = 8;

std::string Padded(std::string bytes) {
  bytes.resize((bytes.size() + 3) & ~size_t{3});
  return bytes;
}

template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string Attribute(uint16_t type, const std::string& value) {
  const rtattr head = {
      .rta_len = static_cast<uint16_t>(sizeof(rtattr) + value.size()),
      .rta_type = type};
  return Padded(BytesOf(head) + value);
}

std::string AddressBytes(const std::string& text) {
  if (const auto ipv4 = ParseIpv4(text); ipv4.has_value()) {
    return BytesOf(ipv4->ipv4());
  }
  return BytesOf(*ParseIpv6(text));
}

std::string Message(int type, const std::string& body, uint16_t flags = 0) {
  nlmsghdr head{};
  head.nlmsg_len = static_cast<uint32_t>(sizeof head + body.size());
  head.nlmsg_type = static_cast<uint16_t>(type);
  head.nlmsg_flags = flags;
  return Padded(BytesOf(head) + body);
}

// A route, as the kernel tells it.
struct Told {
  std::string to = "";  // "": everything
  uint8_t length = 0;
  std::string gateway = "";
  int interface = kLan;
  uint32_t table = RouterConfig::kMainTable;
  uint32_t metric = 0;
  uint8_t type = RTN_UNICAST;
  bool is_ipv4 = true;
  unsigned flags = 0;
  std::string more = "";
  uint8_t tos = 0, source_bits = 0;

  std::string bytes() const {
    rtmsg head{};
    head.rtm_family = is_ipv4 ? AF_INET : AF_INET6;
    head.rtm_dst_len = length;
    head.rtm_src_len = source_bits;
    head.rtm_tos = tos;
    head.rtm_table = table < 256 ? static_cast<uint8_t>(table) : 0;
    head.rtm_type = type;
    head.rtm_flags = flags;
    std::string body = BytesOf(head) + Attribute(RTA_TABLE, BytesOf(table));
    if (!to.empty()) body += Attribute(RTA_DST, AddressBytes(to));
    if (!gateway.empty()) {
      body += Attribute(RTA_GATEWAY, AddressBytes(gateway));
    }
    if (interface != 0) body += Attribute(RTA_OIF, BytesOf(interface));
    if (metric != 0) body += Attribute(RTA_PRIORITY, BytesOf(metric));
    return Message(RTM_NEWROUTE, body + more);
  }
};

// A next hop of several.
std::string Hop(int interface, const std::string& gateway, uint8_t flags = 0) {
  const std::string via = Attribute(RTA_GATEWAY, AddressBytes(gateway));
  rtnexthop head{};
  head.rtnh_len = static_cast<uint16_t>(sizeof head + via.size());
  head.rtnh_flags = flags;
  head.rtnh_ifindex = interface;
  return BytesOf(head) + via;
}

class RouteReaderTest : public testing::Test {
 protected:
  static std::span<const std::byte> Bytes(const std::string& text) {
    return std::as_bytes(std::span(text));
  }
  // Returns "10.8.0.0/16 via 10.1.0.2" for each route.
  static std::vector<std::string> Texts(
      const std::vector<LearnedRoute>& routes) {
    std::vector<std::string> texts;
    for (const LearnedRoute& route : routes) {
      texts.push_back(
          FormatPrefixes({&route.to, 1}) +
          (route.gateway.has_value() ? " via " + TextOf(*route.gateway) : ""));
    }
    return texts;
  }
  std::vector<std::string> Read(const std::string& messages) {
    RouteReader reader(config_, kLan);
    EXPECT_EQ(reader.Take(Bytes(messages)), Part::kMore);
    EXPECT_EQ(reader.Take(Bytes(Message(NLMSG_DONE, BytesOf(0)))), Part::kLast);
    std::vector<std::string> texts = Texts(reader.Finish());
    unused_ = reader.unused();
    return texts;
  }
  void SetTable(uint32_t table) { config_.kernel_table = table; }

  RouterConfig config_ = *RouterConfig::Parse(
      ",address=10.1.0.1/24,address=fd01::1/64,routes=main");
  uint64_t unused_ = 0;
};

TEST_F(RouteReaderTest, TakesRoutesOfTheMainTableThatLeaveByTheInterface) {
  EXPECT_THAT(
      Read(Told{.to = "10.8.0.0", .length = 16, .gateway = "10.1.0.2"}.bytes() +
           Told{.gateway = "10.1.0.3"}.bytes() +
           Told{.to = "10.9.0.0", .length = 16, .interface = kWan}.bytes() +
           Told{.to = "10.7.0.0",
                .length = 16,
                .gateway = "10.1.0.2",
                .interface = kWan}
               .bytes() +
           Told{.to = "10.6.0.0", .length = 16, .table = 100}.bytes() +
           Told{.to = "172.16.0.0", .length = 12}.bytes()),
      ElementsAre("0.0.0.0/0 via 10.1.0.3", "10.8.0.0/16 via 10.1.0.2",
                  "172.16.0.0/12"));
  EXPECT_EQ(unused_, 0u);
}

TEST_F(RouteReaderTest, TakesRoutesOfAnotherTableByTheirGateway) {
  SetTable(100'000);
  EXPECT_THAT(Read(Told{.to = "10.8.0.0",
                        .length = 16,
                        .gateway = "10.1.0.2",
                        .interface = kWan,
                        .table = 100'000}
                       .bytes() +
                   Told{.to = "10.9.0.0",
                        .length = 16,
                        .gateway = "192.0.2.1",
                        .interface = kWan,
                        .table = 100'000}
                       .bytes() +
                   Told{.to = "10.7.0.0",
                        .length = 16,
                        .interface = kWan,
                        .table = 100'000}
                       .bytes() +
                   Told{.to = "10.6.0.0", .length = 16}.bytes()),
              ElementsAre("10.8.0.0/16 via 10.1.0.2"));
}

TEST_F(RouteReaderTest, TakesIpv6AndLinkLocalGateways) {
  EXPECT_THAT(Read(Told{.to = "fd08::",
                        .length = 16,
                        .gateway = "fe80::2",
                        .is_ipv4 = false}
                       .bytes() +
                   Told{.gateway = "fd01::2", .is_ipv4 = false}.bytes()),
              ElementsAre("::/0 via fd01::2", "fd08::/16 via fe80::2"));
}

TEST_F(RouteReaderTest, OfSeveralRoutesTakesThatOfTheLowestMetric) {
  const auto route = [](const std::string& gateway, uint32_t metric) {
    return Told{
        .to = "10.8.0.0", .length = 16, .gateway = gateway, .metric = metric}
        .bytes();
  };
  EXPECT_THAT(Read(route("10.1.0.2", 20) + route("10.1.0.3", 10) +
                   route("10.1.0.4", 30)),
              ElementsAre("10.8.0.0/16 via 10.1.0.3"));
}

TEST_F(RouteReaderTest, OfSeveralHopsTakesTheFirstOfTheInterface) {
  EXPECT_THAT(Read(Told{.to = "10.8.0.0",
                        .length = 16,
                        .interface = 0,
                        .more = Attribute(
                            RTA_MULTIPATH,
                            Hop(kWan, "192.0.2.1") +
                                Hop(kLan, "10.1.0.9", RTNH_F_DEAD) +
                                Hop(kLan, "10.1.0.2") + Hop(kLan, "10.1.0.3"))}
                       .bytes()),
              ElementsAre("10.8.0.0/16 via 10.1.0.2"));
}

TEST_F(RouteReaderTest, CountsRoutesWhoseGatewayIsNoNeighbour) {
  // The port's own address is none, either.
  EXPECT_THAT(
      Read(Told{.to = "10.8.0.0", .length = 16, .gateway = "10.2.0.2"}.bytes() +
           Told{.to = "10.9.0.0", .length = 16, .gateway = "10.1.0.1"}.bytes()),
      IsEmpty());
  EXPECT_EQ(unused_, 2u);
}

TEST_F(RouteReaderTest, LeavesOutWhatNoPacketIsToTake) {
  const Told good = {.to = "10.8.0.0", .length = 16, .gateway = "10.1.0.2"};
  ASSERT_EQ(Read(good.bytes()).size(), 1u);
  for (const uint8_t type : {RTN_LOCAL, RTN_BROADCAST, RTN_BLACKHOLE,
                             RTN_UNREACHABLE, RTN_PROHIBIT}) {
    Told told = good;
    told.type = type;
    EXPECT_THAT(Read(told.bytes()), IsEmpty()) << int{type};
  }
  for (const unsigned flags : {unsigned{RTM_F_CLONED}, unsigned{RTNH_F_DEAD},
                               unsigned{RTNH_F_LINKDOWN}}) {
    Told told = good;
    told.flags = flags;
    EXPECT_THAT(Read(told.bytes()), IsEmpty()) << flags;
  }
  // A gateway of IPv6 for a network of IPv4.
  Told via = good;
  via.gateway = "";
  via.more = Attribute(RTA_VIA, "12" + AddressBytes("fe80::2"));
  EXPECT_THAT(Read(via.bytes()), IsEmpty());
}

TEST_F(RouteReaderTest, SaysThatATableHasChangedMeanwhile) {
  RouteReader reader(config_, kLan);
  EXPECT_EQ(
      reader.Take(Bytes(Message(NLMSG_DONE, BytesOf(0), NLM_F_DUMP_INTR))),
      Part::kInterrupted);
}

TEST_F(RouteReaderTest, SaysThatTheKernelHasFailed) {
  for (const int type : {NLMSG_DONE, NLMSG_ERROR}) {
    RouteReader reader(config_, kLan);
    EXPECT_EQ(reader.Take(Bytes(Message(type, BytesOf(-EPERM)))),
              Part::kRefused);
    EXPECT_EQ(reader.error(), EPERM);
    EXPECT_EQ(reader.Take(Bytes(Message(type, "12"))), Part::kMalformed);
  }
}

TEST_F(RouteReaderTest, CountsRoutesThatItCannotHonour) {
  const Told good = {.to = "10.8.0.0", .length = 16, .gateway = "10.1.0.2"};
  for (const uint16_t type : {RTA_ENCAP, RTA_ENCAP_TYPE}) {
    Told told = good;
    told.more = Attribute(type, BytesOf(5));
    EXPECT_THAT(Read(told.bytes()), IsEmpty()) << type;
    EXPECT_EQ(unused_, 1u) << type;
  }
  // By the number of a next hop alone.
  Told told = good;
  told.interface = 0;
  told.gateway = "";
  told.more = Attribute(RTA_NH_ID, BytesOf(5));
  EXPECT_THAT(Read(told.bytes()), IsEmpty());
  EXPECT_EQ(unused_, 1u);
  // For one type of service, and for some sources.
  told = good;
  told.tos = 8;
  EXPECT_THAT(Read(told.bytes()), IsEmpty());
  EXPECT_EQ(unused_, 1u);
  told = good;
  told.source_bits = 8;
  EXPECT_THAT(Read(told.bytes()), IsEmpty());
  EXPECT_EQ(unused_, 1u);
  told.interface = kWan;
  EXPECT_THAT(Read(told.bytes()), IsEmpty());
  EXPECT_EQ(unused_, 0u);
  // IPv6 networks and gateways that would pass for IPv4.
  EXPECT_THAT(
      Read(
          Told{.to = "::ffff:0.0.0.0", .length = 96, .is_ipv4 = false}.bytes() +
          Told{.to = "fd08::",
               .length = 16,
               .gateway = "::ffff:10.1.0.2",
               .is_ipv4 = false}
              .bytes()),
      IsEmpty());
  EXPECT_EQ(unused_, 2u);
}

// The kernel shows the interface and the gateway beside the number, unless
// nexthop_compat_mode is 0.
TEST_F(RouteReaderTest, TakesRoutesByTheNumberOfANextHopThatIsShown) {
  EXPECT_THAT(Read(Told{.to = "10.8.0.0",
                        .length = 16,
                        .gateway = "10.1.0.2",
                        .more = Attribute(RTA_NH_ID, BytesOf(5))}
                       .bytes()),
              ElementsAre("10.8.0.0/16 via 10.1.0.2"));
  EXPECT_EQ(unused_, 0u);
}

// Reads for a port that follows the kernel's rules.
class RuledRouteReaderTest : public RouteReaderTest {
 protected:
  RuledRouteReaderTest() {
    config_ = *RouterConfig::Parse(
        ",address=10.1.0.1/24,address=fd01::1/64,routes=rules");
  }
  // Returns "100: 10.8.0.0/16 blocked" for each route.
  std::vector<std::string> ReadAll(const std::vector<Told>& all) {
    RouteReader reader(config_, kLan);
    for (const Told& told : all) {
      EXPECT_EQ(reader.Take(Bytes(told.bytes())), Part::kMore);
    }
    const std::vector<LearnedRoute> routes = reader.Finish();
    unused_ = reader.unused();
    std::vector<std::string> texts = Texts(routes);
    for (size_t i = 0; i < texts.size(); ++i) {
      constexpr const char* kKinds[] = {"", " elsewhere", " blocked", " throw"};
      texts[i] = std::to_string(routes[i].table) + ": " + texts[i] +
                 kKinds[static_cast<int>(routes[i].kind)];
    }
    return texts;
  }
};

TEST_F(RuledRouteReaderTest, TakesRoutesOfAllTablesAndTypes) {
  EXPECT_THAT(
      ReadAll({{.gateway = "10.1.0.2"},
               {.gateway = "10.1.0.3", .table = 100},
               {.gateway = "192.0.2.1", .interface = kWan, .table = 300},
               // A neighbour, but by another interface.
               {.gateway = "10.1.0.2", .interface = kWan, .table = 400},
               {.interface = 0, .table = 300, .type = RTN_THROW},
               {.to = "10.7.0.0", .length = 16, .type = RTN_BLACKHOLE},
               {.to = "10.8.0.0", .length = 16, .type = RTN_UNREACHABLE},
               {.to = "10.9.0.0", .length = 16, .type = RTN_PROHIBIT},
               {.to = "10.6.0.0", .length = 16, .type = RTN_LOCAL}}),
      ElementsAre("100: 0.0.0.0/0 via 10.1.0.3", "254: 0.0.0.0/0 via 10.1.0.2",
                  "254: 10.7.0.0/16 blocked", "254: 10.8.0.0/16 blocked",
                  "254: 10.9.0.0/16 blocked", "300: 0.0.0.0/0 elsewhere",
                  "400: 0.0.0.0/0 elsewhere"));
  EXPECT_EQ(unused_, 0u);
  EXPECT_THAT(ReadAll({{.interface = 0, .table = 300, .type = RTN_THROW},
                       {.table = 300, .metric = 5}}),
              ElementsAre("300: 0.0.0.0/0 throw"));
}

TEST_F(RuledRouteReaderTest, LeavesOutRoutesForSomePacketsWhateverTheirType) {
  for (const uint8_t type :
       {RTN_UNICAST, RTN_UNREACHABLE, RTN_PROHIBIT, RTN_THROW}) {
    for (const int interface : {kLan, kWan}) {
      // A mapped prefix would pass for 0.0.0.0/0.
      EXPECT_THAT(ReadAll({{.to = "::ffff:0.0.0.0",
                            .length = 96,
                            .interface = interface,
                            .type = type,
                            .is_ipv4 = false},
                           {.interface = interface, .type = type, .tos = 8},
                           {.interface = interface,
                            .type = type,
                            .is_ipv4 = false,
                            .source_bits = 64}}),
                  IsEmpty())
          << int{type};
      EXPECT_EQ(unused_, 3u) << int{type};
    }
  }
}

// Such a route ends the search in the kernel as well.
TEST_F(RuledRouteReaderTest, TakesRoutesWithoutACarrierUnlessTheyAreDead) {
  const auto read = [this](unsigned flags) {
    return ReadAll(
        {{.to = "10.7.0.0",
          .length = 16,
          .gateway = "10.1.0.2",
          .flags = flags},
         {.to = "10.8.0.0",
          .length = 16,
          .interface = 0,
          .more = Attribute(
              RTA_MULTIPATH,
              Hop(kLan, "10.1.0.3", static_cast<uint8_t>(flags)) +
                  Hop(kLan, "10.1.0.4", static_cast<uint8_t>(flags)))}});
  };
  EXPECT_THAT(read(RTNH_F_LINKDOWN),
              ElementsAre("254: 10.7.0.0/16 via 10.1.0.2",
                          "254: 10.8.0.0/16 via 10.1.0.3"));
  EXPECT_THAT(read(RTNH_F_LINKDOWN | RTNH_F_DEAD), IsEmpty());
}

TEST_F(RouteReaderTest, StandsAnyMessages) {
  const std::string good =
      Told{.to = "10.8.0.0", .length = 16, .gateway = "10.1.0.2"}.bytes() +
      Told{.to = "fd08::",
           .length = 16,
           .gateway = "fe80::2",
           .is_ipv4 = false,
           .more = Attribute(RTA_MULTIPATH, std::string(24, '\x08'))}
          .bytes();
  for (size_t cut = 1; cut < good.size(); ++cut) {
    // A copy of that length, so that a sanitizer sees what is read behind it.
    const std::vector<std::byte> bytes(Bytes(good).begin(),
                                       Bytes(good).begin() + cut);
    RouteReader reader(config_, kLan);
    reader.Take(bytes);
    reader.Finish();
  }
  for (const uint64_t seed : TestSeeds(20).all()) {
    Rng rng(seed);
    for (int i = 0; i < 500; ++i) {
      std::vector<std::byte> bytes(Bytes(good).begin(), Bytes(good).end());
      for (uint64_t n = 1 + rng.Below(6); n > 0; --n) {
        bytes[rng.Below(bytes.size())] = static_cast<std::byte>(rng.Next());
      }
      RouteReader reader(config_, kLan);
      reader.Take(bytes);
      for (const LearnedRoute& route : reader.Finish()) {
        EXPECT_LE(route.to.length, 128) << seed;
        if (route.gateway.has_value()) {
          EXPECT_TRUE(config_.IsNeighbour(*route.gateway)) << seed;
          EXPECT_EQ(IsIpv4(*route.gateway), route.to.is_ipv4()) << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace snf
