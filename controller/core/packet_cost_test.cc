// SPDX-License-Identifier: Apache-2.0
#include "controller/core/packet_cost.h"

#include "controller/core/test_driver.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000};

// One gigabit and a million packets a second, over a window of 1 ms.
ControllerOptions Options(int64_t packets_ps = 1'000'000) {
  ControllerOptions options;
  options.flow_timeout = Nanos::max();
  options.max_flows = 64;
  options.load_signal = LoadSignal::kDemand;
  options.load_buckets = 2;
  options.first_demand_bps = 1'000;
  options.unit_packets_ps = packets_ps;
  return options;
}

TEST(PacketCost, IsThatOfTheLimitThatIsTighter) {
  const PacketCost cost(Options());
  EXPECT_EQ(cost(60), 125u);
  EXPECT_EQ(cost(126), 126u);
  EXPECT_EQ(cost(1'500), 1'500u);
  EXPECT_EQ(cost(0), 0u);
  EXPECT_EQ(PacketCost(Options(0))(60), 60u);
  EXPECT_EQ(PacketCost(Options(3'000'000))(1), 42u);
  ControllerOptions slow = Options(1);
  slow.unit_capacity_bps = 1'000'000'000'000;
  EXPECT_EQ(PacketCost(slow)(60), 1u << 30);
}

// Ten packets of 60 bytes, within a flowlet.
struct Burst {
  explicit Burst(const ControllerOptions& options) : driver(options, policy) {
    for (int i = 0; i < 10; ++i) driver.Packet(kStart, 1, 60);
    driver.ReadyAll(kStart);
    driver.DrainAll(kStart);
  }
  // The demand of the flow's next flowlet, in quanta.
  uint32_t NextDemand() {
    driver.Packet(kStart + Milliseconds(10), 1, 60);
    return policy.last.demand;
  }

  DirectedPolicy policy;
  TestDriver driver;
};

TEST(PacketCost, CountsInLoadAndDemand) {
  // 1,250 bytes in 1 ms are 10 Mbit/s; in 500 us 20, of which the estimate
  // takes half.
  Burst burst(Options());
  EXPECT_EQ(burst.driver.units().load(UnitId{0}), 11u);
  EXPECT_EQ(burst.NextDemand(), 11u);
  // 600 bytes are 4.8 and 9.6 Mbit/s.
  Burst by_bits(Options(0));
  EXPECT_EQ(by_bits.driver.units().load(UnitId{0}), 5u);
  EXPECT_EQ(by_bits.NextDemand(), 5u);
}

TEST(PacketCost, CountsInTheBytesOfAFlowlet) {
  ControllerOptions options = Options();
  options.flowlet_bytes = 1'250;
  TestDriver driver(options);
  for (int i = 0; i < 10; ++i) driver.Packet(kStart, 1, 60);
  EXPECT_EQ(driver.counters().flowlets, 1u);
  driver.Packet(kStart, 1, 60);
  EXPECT_EQ(driver.counters().flowlets_by_bytes, 1u);
}

}  // namespace
}  // namespace snf
