// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/away_flows.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/packet/endpoint.h"
#include "base/packet/test_packets.h"
#include "platform/daemon/group/host_homes.h"

namespace snf {
namespace {

constexpr Instant kNow{1'000'000'000};

FlowKey KeyOf(uint16_t port) {
  return EndpointKey(V4(10, 0, 0, 1), be16(port), IpProtocol::kUdp,
                     FlowKeyForm::kIpv4Endpoint);
}

class AwayFlowsTest : public testing::Test {
 protected:
  void Put(uint16_t port, uint32_t home, uint32_t owner = 1,
           Nanos timeout = Nanos{0}) {
    flows_.Put(kNow, owner,
               {.key = KeyOf(port), .home = home, .idle_timeout = timeout});
  }
  std::optional<uint32_t> Find(uint16_t port, Instant now = kNow) {
    return flows_.Find(now, KeyOf(port));
  }
  // Returns the home of the next flow that is told; nothing if all were.
  std::optional<uint32_t> Next() {
    const auto flow = flows_.Next();
    if (!flow.has_value()) return std::nullopt;
    return flow->home;
  }

  AwayFlows flows_{Seconds(100)};
};

TEST_F(AwayFlowsTest, FindsWhoHasAFlow) {
  Put(1, 2);
  Put(2, 3, 0);
  EXPECT_EQ(Find(1), 2u);
  EXPECT_EQ(Find(2), 3u);
  EXPECT_EQ(Find(3), std::nullopt);
  Put(1, 3);
  EXPECT_EQ(Find(1), 3u);
  EXPECT_EQ(flows_.size(), 2u);
  EXPECT_EQ(flows_.size_of(0), 1u);
  EXPECT_EQ(flows_.size_of(1), 1u);
  flows_.Erase(KeyOf(1));
  flows_.Erase(KeyOf(1));
  EXPECT_EQ(Find(1), std::nullopt);
  EXPECT_EQ(flows_.size_of(1), 0u);
}

TEST_F(AwayFlowsTest, AnEntryExpiresWithoutPackets) {
  Put(1, 2);
  Put(2, 2);
  Put(3, 2, 1, Seconds(10));
  Find(1, kNow + Seconds(50));
  flows_.DropExpired(kNow + Seconds(101), 10);
  EXPECT_EQ(flows_.size(), 1u);
  EXPECT_EQ(Find(1), 2u);
}

TEST_F(AwayFlowsTest, TheOldestMakeRoom) {
  for (size_t i = 0; i < AwayFlows::kMost; ++i) {
    Put(static_cast<uint16_t>(i), 2);
  }
  EXPECT_EQ(flows_.evicted(), 0u);
  flows_.Put(kNow, 1,
             {.key = EndpointKey(V4(10, 0, 0, 2), be16(0), IpProtocol::kUdp,
                                 FlowKeyForm::kIpv4Endpoint)});
  EXPECT_EQ(flows_.evicted(), 1u);
  EXPECT_EQ(Find(0), std::nullopt);
  EXPECT_EQ(Find(1), 2u);
}

TEST_F(AwayFlowsTest, TellsEachOnceAndAllAnew) {
  Put(1, 2);
  Put(2, 3);
  flows_.TellAll();
  EXPECT_EQ(flows_.untold(), 2u);
  EXPECT_EQ(Next(), 2u);
  Put(3, 4);
  flows_.Erase(KeyOf(2));
  EXPECT_EQ(Next(), 4u);
  EXPECT_EQ(Next(), std::nullopt);
  flows_.TellAll();
  EXPECT_EQ(flows_.untold(), 2u);
}

TEST(HostHomes, KeysTellWhoseHostsFlowsHave) {
  const HostHomes hosts([](const IpAddress& host, bool is_v6) -> uint32_t {
    return is_v6 ? 9 : host.ipv4().host() & 7;
  });
  EXPECT_EQ(hosts.OfFlow(KeyOf(5), 8), 1u);
  EXPECT_TRUE(hosts.MayBe(SetOf(1), KeyOf(5)));
  EXPECT_FALSE(hosts.MayBe(~SetOf(1), KeyOf(5)));
  FlowKey connection;
  connection.source = V4(10, 0, 0, 2);
  connection.destination = V4(10, 0, 0, 3);
  connection.form = FlowKeyForm::kIpv4;
  EXPECT_EQ(hosts.OfFlow(connection, 8), 8u);
  EXPECT_TRUE(hosts.MayBe(SetOf(2), connection));
  EXPECT_TRUE(hosts.MayBe(SetOf(3), connection));
  EXPECT_FALSE(hosts.MayBe(SetOf(0), connection));
  EXPECT_EQ(hosts.OfHost(V4(10, 0, 0, 2), FlowKeyForm::kIpv6Endpoint), 9u);
}

}  // namespace
}  // namespace snf
