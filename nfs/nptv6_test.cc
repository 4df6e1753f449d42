// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/byte_order.h"
#include "base/packet/checksum.h"
#include "base/packet/ip_prefix.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "nfs/nptv6_map.h"
#include "runtime/sdk/nf_registry.h"
#include "runtime/sdk/nf_spec.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

IpPrefix Prefix(const std::string& text) { return ParsePrefixes(text)->at(0); }
IpAddress Ip(const std::string& text) { return Prefix(text).address; }
Nptv6Map MapOf(const std::string& inside, const std::string& outside) {
  return *Nptv6Map::Of(Prefix(inside), Prefix(outside));
}

// The example of RFC 6296 §3.4, and others with prefixes of other lengths.
TEST(Nptv6Map, MapsBothWays) {
  struct Case {
    std::string inside, outside, address, mapped;
  };
  const std::vector<Case> cases = {
      {"fd01:203:405::/48", "2001:db8:1::/48", "fd01:203:405:1::1234",
       "2001:db8:1:d550::1234"},
      // The shorter prefix is extended by zeros.
      {"fd01:203:405::/48", "2001:db8::/32", "fd01:203:405:1::1234",
       "2001:db8:0:d551::1234"},
      {"fd00:0:0:1::/64", "2001:db8:0:2::/64", "fd00:0:0:1::99",
       "2001:db8:0:2:cf46::99"},
      // Words of ffff in the interface identifier are passed over.
      {"fd00:0:0:1::/64", "2001:db8:0:2::/64", "fd00:0:0:1:ffff::99",
       "2001:db8:0:2:ffff:cf46:0:99"},
      // The bits of a prefix that ends within a byte.
      {"fd00:0:0:20::/60", "2001:db8:0:30::/60", "fd00:0:0:2f::99",
       "2001:db8:0:3f:cf37::99"}};
  for (const Case& c : cases) {
    const Nptv6Map map = MapOf(c.inside, c.outside);
    EXPECT_EQ(map.ToOutside(Ip(c.address)), Ip(c.mapped)) << c.address;
    EXPECT_EQ(map.ToInside(Ip(c.mapped)), Ip(c.address)) << c.mapped;
  }
}

TEST(Nptv6Map, HasNoCounterpartOfOnes) {
  const Nptv6Map subnet = MapOf("fd01:203:405::/48", "2001:db8:1::/48");
  EXPECT_EQ(subnet.ToOutside(Ip("fd01:203:405:ffff::1")), std::nullopt);
  const Nptv6Map id = MapOf("fd00:0:0:1::/64", "2001:db8:0:2::/64");
  EXPECT_EQ(id.ToOutside(Ip("fd00:0:0:1:ffff:ffff:ffff:ffff")), std::nullopt);
}

TEST(Nptv6Map, RefusesPrefixesThatCannotBeMapped) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"fd00::/65", "2001:db8::/48"},
      {"fd00::/48", "2001:db8::/96"},
      {"::/0", "2001:db8::/48"},
      {"fd00::/48", "fd00::/48"}};
  for (const auto& [inside, outside] : cases) {
    EXPECT_FALSE(Nptv6Map::Of(Prefix(inside), Prefix(outside)).has_value());
  }
}

// Every address comes back, and the sum of its words stays.
TEST(Nptv6Map, IsOneToOneAndKeepsChecksums) {
  for (const uint64_t seed : TestSeeds(200).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    const auto prefix = [&rng](uint8_t bits, std::byte first) {
      IpPrefix random;
      random.length = bits;
      for (size_t i = 0; i < bits / 8u; ++i) {
        random.address.bytes[i] = static_cast<std::byte>(rng.Below(256));
      }
      random.address.bytes[0] = first;
      return random;
    };
    const auto bits = static_cast<uint8_t>(8 * (1 + rng.Below(8)));
    const IpPrefix inside = prefix(bits, std::byte{0xfd});
    const Nptv6Map map = *Nptv6Map::Of(inside, prefix(bits, std::byte{0x20}));
    for (int i = 0; i < 50; ++i) {
      IpAddress address = inside.address;
      for (size_t at = bits / 8u; at < 16; ++at) {
        address.bytes[at] = static_cast<std::byte>(rng.Below(256));
      }
      const std::optional<IpAddress> mapped = map.ToOutside(address);
      if (!mapped.has_value()) continue;
      EXPECT_TRUE(map.IsOutside(*mapped));
      EXPECT_EQ(map.ToInside(*mapped), address);
      const auto checksum = [](const IpAddress& of) {
        const be16 sum = InternetChecksum(of.bytes);
        return sum == be16(0xffff) ? be16(0) : sum;
      };
      EXPECT_EQ(checksum(*mapped), checksum(address));
    }
  }
}

const char kNptv6[] = "nptv6(inside=fd01:203:405::/48,outside=2001:db8:1::/48)";

TEST(Nptv6, TranslatesWhatCrossesTheBorderEitherSideFirst) {
  NfTest nf(kNptv6);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"tcp [fd01:203:405:1::1234]:5000 > [2001:db9::9]:80 SYN",
       "tcp [2001:db8:1:d550::1234]:5000 > [2001:db9::9]:80 SYN"},
      {"tcp [2001:db9::9]:80 > [2001:db8:1:d550::1234]:5000 SYN ACK",
       "tcp [2001:db9::9]:80 > [fd01:203:405:1::1234]:5000 SYN ACK"},
      {"udp [2001:db9::7]:4000 > [2001:db8:1:d550::99]:53 \"q\"",
       "udp [2001:db9::7]:4000 > [fd01:203:405:1::99]:53 \"q\""},
      {"icmp6 [fd01:203:405:1::1234] > [2001:db9::9] echo id=7 seq=1",
       "icmp6 [2001:db8:1:d550::1234] > [2001:db9::9] echo id=7 seq=1"},
      {"esp [fd01:203:405:1::1234] > [2001:db9::9] x'0011223344'",
       "esp [2001:db8:1:d550::1234] > [2001:db9::9] x'0011223344'"},
      // From the inside to an outside address of the inside.
      {"udp [fd01:203:405:1::1]:1 > [2001:db8:1:d550::2]:2",
       "udp [2001:db8:1:d550::1]:1 > [fd01:203:405:1::2]:2"}};
  for (const auto& [in, out] : cases) {
    EXPECT_EQ(nf.Send(in), ToText(*ParsePacket(out)));
  }
  EXPECT_EQ(nf.count("translated"), 6u);
  // A connection is one flow, in both directions.
  EXPECT_EQ(nf.flows(), 5u);
}

TEST(Nptv6, LeavesOtherPacketsAlone) {
  NfTest nf(kNptv6);
  const std::string cases[] = {
      "udp 10.0.0.1:5000 > 192.0.2.9:53",
      "udp [fd01:203:405:1::1]:1 > [fd01:203:405:2::1]:2",
      "udp [2001:db9::9]:1 > [fd01:203:405:2::1]:2"};
  for (const std::string& packet : cases) EXPECT_EQ(nf.Send(packet), packet);
  EXPECT_EQ(nf.count("passed_by"), 3u);
  EXPECT_EQ(nf.Send("udp [fd01:203:405:ffff::1]:1 > [2001:db9::9]:2"),
            "drop no_counterpart");
}

TEST(Nptv6, TranslatesWhatErrorsQuote) {
  NfTest nf(kNptv6);
  EXPECT_EQ(nf.Send("icmp6 [2001:db9::1] > [2001:db8:1:d550::1234] too_big "
                    "seq=1280 about {udp [2001:db8:1:d550::1234]:5000 > "
                    "[2001:db9::9]:53}"),
            ToText(*ParsePacket(
                "icmp6 [2001:db9::1] > [fd01:203:405:1::1234] too_big seq=1280 "
                "about {udp [fd01:203:405:1::1234]:5000 > "
                "[2001:db9::9]:53}")));
  EXPECT_EQ(nf.Send("icmp6 [fd01:203:405:1::1234] > [2001:db9::9] unreachable "
                    "code=4 about {udp [2001:db9::9]:53 > "
                    "[fd01:203:405:1::1234]:5000}"),
            ToText(*ParsePacket(
                "icmp6 [2001:db8:1:d550::1234] > [2001:db9::9] unreachable "
                "code=4 about {udp [2001:db9::9]:53 > "
                "[2001:db8:1:d550::1234]:5000}")));
}

// A firewall before it sees one connection, with the inside address.
TEST(Nptv6, RunsInAChain) {
  NfTest nf(
      absl::StrCat("firewall(deny=udp to fd01:203:405:1::5/128) | ", kNptv6));
  EXPECT_EQ(nf.Send("udp [2001:db9::9]:1 > [2001:db8:1:d550::5]:2"),
            "drop firewall.denied");
  EXPECT_EQ(nf.Send("udp [2001:db9::9]:1 > [2001:db8:1:d550::6]:2"),
            "udp [2001:db9::9]:1 > [fd01:203:405:1::6]:2");
}

TEST(Nptv6, NeedsNoFirstFragmentButAFirewallBesideItDoes) {
  EXPECT_FALSE(NfSpec::Parse(kNptv6)->create()->needs_first_fragment());
  EXPECT_TRUE(NfSpec::Parse(absl::StrCat(kNptv6, " | firewall"))
                  ->create()
                  ->needs_first_fragment());
}

TEST(Nptv6, RunsEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 60; ++i) {
    const std::string port = std::to_string(4000 + i % 7);
    packets.push_back("udp [fd01:203:405:1::1]:" + port +
                      " > [2001:db9::9]:53 \"q\"");
    packets.push_back("udp [2001:db9::9]:53 > [2001:db8:1:d550::1]:" + port +
                      " \"a\"");
  }
  EXPECT_TRUE(RunEverywhere(kNptv6, Packets(packets)));
}

TEST(Nptv6, NamesOptionsThatAreWrong) {
  const auto error_of = [](const std::string& options) {
    const absl::StatusOr<NfOptions> parsed = NfOptions::Parse(options);
    EXPECT_TRUE(parsed.ok());
    return std::string(FindNf("nptv6")->check(*parsed).message());
  };
  EXPECT_NE(error_of("inside=10.0.0.0/8").find("inside=10.0.0.0/8"),
            std::string::npos);
  EXPECT_NE(error_of("inside=fd00::/48,outside=fd00::/48")
                .find("another IPv6 prefix than inside"),
            std::string::npos);
  EXPECT_NE(
      error_of("inside=fd00::/96,outside=2001:db8::/48").find("1 to 64 bits"),
      std::string::npos);
}

}  // namespace
}  // namespace snf
