// SPDX-License-Identifier: Apache-2.0
#include "controller/units/host_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace snf {
namespace {

UnitId Unit(uint32_t i) { return UnitId{static_cast<uint16_t>(i)}; }

HostMap MapOf(uint32_t units, uint32_t per_host, uint32_t spare) {
  UnitPoolOptions options;
  options.max_units = units;
  options.units_per_host = per_host;
  options.spare_units = spare;
  return HostMap(options);
}

std::vector<uint32_t> OnHostOf(const HostMap& hosts, uint32_t unit) {
  std::vector<uint32_t> units;
  hosts.ForEachOnHost(Unit(unit),
                      [&](UnitId each) { units.push_back(value(each)); });
  return units;
}

// The worked example.
TEST(HostMap, FillsHostsInTheOrderOfUnits) {
  const HostMap hosts = MapOf(10, 4, 1);
  EXPECT_EQ(hosts.hosts(), 3u);
  EXPECT_EQ(hosts.host_of(Unit(3)), 0u);
  EXPECT_EQ(hosts.host_of(Unit(4)), 1u);
  EXPECT_EQ(hosts.host_of(Unit(8)), 2u);
  EXPECT_EQ(hosts.host_of(Unit(9)), 3u);
  EXPECT_EQ(OnHostOf(hosts, 5), (std::vector<uint32_t>{4, 5, 6, 7}));
  EXPECT_EQ(OnHostOf(hosts, 8), std::vector<uint32_t>{8});
  EXPECT_EQ(OnHostOf(hosts, 9), std::vector<uint32_t>{9});
}

TEST(HostMap, KeepsALoggerOnAnotherHostThanItsUnit) {
  const HostMap hosts = MapOf(10, 4, 1);
  EXPECT_EQ(hosts.host_of_logger(Unit(0)), 1u);
  EXPECT_EQ(hosts.host_of_logger(Unit(8)), 0u);
  EXPECT_EQ(hosts.host_of_logger(Unit(9)), HostMap::kNoHost);
  EXPECT_EQ(MapOf(4, 4, 0).host_of_logger(Unit(1)), HostMap::kNoHost);
  const HostMap single = MapOf(3, 1, 0);
  EXPECT_EQ(single.host_of_logger(Unit(2)), 0u);
}

TEST(HostMap, SaysWhichUnitsShareAHost) {
  for (const uint32_t per_host : {1u, 2u, 3u, 128u}) {
    for (const uint32_t spare : {0u, 1u, 2u}) {
      const HostMap hosts = MapOf(11, per_host, spare);
      for (uint32_t a = 0; a < 11; ++a) {
        for (uint32_t b = 0; b < 11; ++b) {
          EXPECT_EQ(hosts.Share(Unit(a), Unit(b)),
                    hosts.host_of(Unit(a)) == hosts.host_of(Unit(b)));
        }
        EXPECT_FALSE(hosts.Share(Unit(a), kNoUnit));
        EXPECT_NE(hosts.host_of_logger(Unit(a)), hosts.host_of(Unit(a)));
      }
    }
  }
}

}  // namespace
}  // namespace snf
