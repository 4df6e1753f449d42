// SPDX-License-Identifier: Apache-2.0
//
// A day of flows that never come back, in virtual time: nothing may grow with
// it. SNF_LONG_TESTS=1 makes it three days.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <iostream>

#include "base/packet/ip_prefix.h"
#include "platform/system_test/test_run.h"

namespace snf {
namespace {

constexpr uint32_t kMaxFlows = 2'000;
constexpr uint32_t kMaxHosts = 1'000;
constexpr uint32_t kBurst = 50;
constexpr Nanos kBurstGap = Seconds(10);
constexpr int64_t kBurstsPerHour = 360;

// Returns what the process has allocated; 0 where a sanitizer does that.
int64_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

RunOptions Options() {
  RunOptions options;
  options.check = false;
  options.controller.max_flows = kMaxFlows;
  options.controller.max_units = 4;
  options.controller.flow_timeout = Seconds(300);
  options.buffers = {.small = 4'096, .medium = 64, .large = 8};
  options.inside = *ParsePrefixes("10.0.0.0/8");
  return options;
}

// The packets of flows from one inside host each, to one far host each, every
// fifth of which answers.
class Flows {
 public:
  void Burst(VirtualDriver& driver, Instant time) {
    for (uint32_t i = 0; i < kBurst; ++i) {
      ++flow_;
      const IpAddress host = IpAddress::FromIpv4(be32(0x0a00'0000 + flow_));
      const IpAddress peer = IpAddress::FromIpv4(be32(0xcb00'0000 + flow_));
      Offer(driver, time, host, 5'000, peer, 53);
      if (flow_ % 5 == 0) {
        Offer(driver, time + Milliseconds(1), peer, 53, host, 5'000);
      }
    }
  }
  uint32_t flows() const { return flow_; }

 private:
  static void Offer(VirtualDriver& driver, Instant time, IpAddress from,
                    uint16_t from_port, IpAddress to, uint16_t to_port) {
    const Frame frame = Ethernet(
        0x0800, Ipv4({.source = from, .destination = to, .protocol = 17},
                     Udp(from_port, to_port)));
    driver.Offer({.time = time,
                  .bytes = frame,
                  .original_bytes = static_cast<uint32_t>(frame.size())});
  }

  uint32_t flow_ = 0;
};

TEST(Soak, NothingGrowsWithTime) {
  const int64_t hours = std::getenv("SNF_LONG_TESTS") != nullptr ? 72 : 24;
  constexpr int64_t kWarmHours = 4;
  const NfSpec nf = *NfSpec::Parse(
      fmt::format("monitor(max_hosts={}) | nat(udp_timeout=250s)", kMaxHosts));
  VirtualDriver driver(Options(), *FindPlacementPolicy("snf"), nf, {});
  Flows flows;
  Instant now{1'700'000'000'000'000'000};
  int64_t warm_bytes = 0;
  for (int64_t hour = 1; hour <= hours; ++hour) {
    for (int64_t i = 0; i < kBurstsPerHour; ++i) {
      flows.Burst(driver, now);
      now = now + kBurstGap;
    }
    const Controller& controller = driver.controller();
    ASSERT_LE(controller.flows().size(), kMaxFlows);
    ASSERT_LE(controller.aliases().size(), controller.flows().size());
    ASSERT_LE(controller.aliases().groups(), controller.aliases().size());
    ASSERT_LE(driver.flows_at_units(), 2 * kMaxFlows);
    ASSERT_LE(driver.buffers_in_use(), kBurst);
    if (hour == kWarmHours) warm_bytes = BytesInUse();
  }
  const int64_t grown = BytesInUse() - warm_bytes;
  const auto flows_since =
      static_cast<int64_t>(flows.flows()) * (hours - kWarmHours) / hours;
  std::cout << fmt::format("{} flows; {} bytes more after {} of them\n",
                           flows.flows(), grown, flows_since);
  // The time series has 40 bytes for each of some 3 epochs a burst, twice that
  // as it grows. A flow leaves nothing.
  const int64_t series = (hours - kWarmHours) * kBurstsPerHour * 3 * 80;
  EXPECT_LT(grown, series + flows_since * 4);
  const RunResult run = driver.Finish();
  EXPECT_TRUE(run.conserved());
  EXPECT_GE(run.controller.flows, flows.flows());
  EXPECT_EQ(run.controller.flows_evicted, 0u);
  EXPECT_EQ(run.controller.long_probes, 0u);
  ASSERT_EQ(run.tables.size(), 1u);
  EXPECT_LE(run.tables[0].entries, kMaxHosts);
  EXPECT_GT(run.tables[0].forgotten, flows.flows() / 10);
  EXPECT_EQ(driver.flows_at_units(), 0u);
}

// Every fifth second's flows find the table full of silent ones.
TEST(Soak, AFullTableTakesNewFlowsAllDay) {
  RunOptions options = Options();
  options.controller.max_flows = 500;
  const NfSpec nf = *NfSpec::Parse("nat:udp_timeout=250s");
  VirtualDriver driver(options, *FindPlacementPolicy("snf"), nf, {});
  Flows flows;
  Instant now{1'700'000'000'000'000'000};
  for (int64_t i = 0; i < 24 * kBurstsPerHour; ++i) {
    flows.Burst(driver, now);
    now = now + kBurstGap;
    ASSERT_LE(driver.flows_at_units(), 1'000u);
  }
  const RunResult run = driver.Finish();
  EXPECT_TRUE(run.conserved());
  EXPECT_EQ(run.dropped[static_cast<size_t>(DropReason::kFlowTableFull)], 0u);
  EXPECT_EQ(run.controller.flows, flows.flows());
  EXPECT_GT(run.controller.flows_evicted, flows.flows() / 2);
  EXPECT_EQ(run.controller.pieces.pieces_out, 0u);
  EXPECT_EQ(run.controller.pieces.pieces_faulty, 0u);
}

}  // namespace
}  // namespace snf
