// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/unit_sites.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"

namespace snf {
namespace {

UnitHost Host(const std::string& name, uint32_t units) {
  return {.name = name, .address = name + ":7000", .units = units};
}

// The hosts of units 0, 1 …; a withdrawn unit's has a "-" before it.
std::vector<std::string> HostsOf(const UnitSites& sites) {
  std::vector<std::string> hosts;
  for (uint32_t i = 0; i < sites.size(); ++i) {
    const UnitSites::Site* const site = sites.Of(i);
    hosts.push_back(
        site == nullptr ? "" : (sites.is_placed(i) ? "" : "-") + site->host);
  }
  return hosts;
}

using Hosts = std::vector<std::string>;
const auto kAll = [](uint32_t) { return true; };

TEST(UnitSitesTest, FillsHostsInTheirOrderAndKeepsUnitsThere) {
  UnitSites sites(4);
  EXPECT_EQ(HostsOf(sites), (Hosts{"", "", "", ""}));
  sites.Set({Host("c", 2)});
  EXPECT_EQ(HostsOf(sites), (Hosts{"c", "c", "", ""}));
  sites.Set({Host("b", 1), Host("c", 3)});
  EXPECT_EQ(HostsOf(sites), (Hosts{"c", "c", "b", "c"}));
}

TEST(UnitSitesTest, AWithdrawnUnitHasItsHostUntilNobodyUsesIt) {
  UnitSites sites(3);
  sites.Set({Host("b", 2)});
  sites.Set({Host("b", 2), Host("c", 4)});
  sites.Set({Host("c", 4)});
  EXPECT_EQ(HostsOf(sites), (Hosts{"-b", "-b", "c"}));
  EXPECT_FALSE(sites.Free([](uint32_t) { return false; }));
  EXPECT_TRUE(sites.Free([](uint32_t unit) { return unit == 1; }));
  EXPECT_EQ(HostsOf(sites), (Hosts{"-b", "c", "c"}));
  // The unit is left, whether its host comes back or not.
  sites.Set({Host("b", 2), Host("c", 4)});
  EXPECT_EQ(HostsOf(sites), (Hosts{"-b", "c", "c"}));
  EXPECT_TRUE(sites.Free(kAll));
  EXPECT_EQ(HostsOf(sites), (Hosts{"b", "c", "c"}));
}

TEST(UnitSitesTest, AHostWithFewerUnitsLosesTheLastOnes) {
  UnitSites sites(3);
  sites.Set({Host("b", 3)});
  sites.Set({Host("b", 1)});
  EXPECT_EQ(HostsOf(sites), (Hosts{"b", "-b", "-b"}));
  EXPECT_TRUE(sites.Free(kAll));
  EXPECT_EQ(HostsOf(sites), (Hosts{"b", "", ""}));
  // Another address is another host.
  sites.Set({{.name = "b", .address = "other:1", .units = 1}});
  EXPECT_EQ(HostsOf(sites), (Hosts{"-b", "b", ""}));
}

TEST(UnitSitesTest, SitesOfAnEarlierManagerStay) {
  UnitSites sites(2);
  sites.Restore(1, {.host = "b", .address = "b:7000"});
  EXPECT_TRUE(sites.is_placed(1));
  sites.Set({Host("a", 1), Host("b", 1)});
  EXPECT_EQ(HostsOf(sites), (Hosts{"a", "b"}));
}

// At any time, no host has more units than it takes, and no unit that is
// used changes its host.
TEST(UnitSitesTest, RandomHosts) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    UnitSites sites(8);
    std::map<std::string, uint32_t> joined;
    std::set<uint32_t> used;
    for (int step = 0; step < 100; ++step) {
      const std::string name(1, static_cast<char>('a' + rng.Below(4)));
      const Hosts before = HostsOf(sites);
      if (rng.Below(2) == 0) {
        joined[name] = static_cast<uint32_t>(1 + rng.Below(4));
      } else {
        joined.erase(name);
      }
      std::vector<UnitHost> hosts;
      for (const auto& [host, units] : joined)
        hosts.push_back(Host(host, units));
      sites.Set(hosts);
      for (uint32_t u = 0; u < 8; ++u) {
        if (sites.is_placed(u) && rng.Below(2) == 0) used.insert(u);
        if (rng.Below(4) == 0) used.erase(u);
        if (used.contains(u) && before[u] != "") {
          EXPECT_EQ(sites.Of(u)->host, before[u].substr(before[u][0] == '-'));
        }
      }
      sites.Free([&](uint32_t unit) { return !used.contains(unit); });
      std::map<std::string, uint32_t> placed;
      uint32_t without = 0;
      for (uint32_t u = 0; u < 8; ++u) {
        if (sites.is_placed(u)) ++placed[sites.Of(u)->host];
        if (used.contains(u)) {
          ASSERT_NE(sites.Of(u), nullptr);
        }
        without += sites.Of(u) == nullptr;
      }
      uint32_t room = 0;
      for (const auto& [host, units] : joined) {
        ASSERT_LE(placed[host], units) << "seed " << seed;
        uint32_t there = 0;
        for (uint32_t u = 0; u < 8; ++u) {
          there += sites.Of(u) != nullptr && sites.Of(u)->host == host;
        }
        room += units - std::min(units, there);
      }
      // A unit without a host is one for which there is no room.
      ASSERT_TRUE(without == 0 || room == 0) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace snf
