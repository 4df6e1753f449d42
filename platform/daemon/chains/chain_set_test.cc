// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/chains/chain_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rules/packet_rules.h"
#include "controller/core/placement.h"
#include "platform/system_test/test_run.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr Instant kBegin{1'700'000'000'000'000'000};

std::unique_ptr<RealDriver> DriverOf(const std::string& nf) {
  auto driver =
      RealDriver::Start(SmallTables(),
                        {.speed = {},
                         .threads = 1,
                         .buffers = {.small = 4'096, .medium = 16, .large = 4}},
                        *FindPlacementPolicy("snf"), *NfSpec::Parse(nf), {});
  EXPECT_TRUE(driver.ok()) << driver.status();
  return *std::move(driver);
}

// UDP is for the second of two chains, and all else for the first.
std::unique_ptr<ChainSet> TwoChains() {
  const std::vector<PacketRule> rules = {*ParsePacketRule("udp")};
  std::vector<ChainSet::Member> members;
  for (const char* const name : {"rest", "udp"}) {
    members.push_back({.name = name,
                       .chains = std::make_unique<LiveChains>(
                           DriverOf("monitor"), "monitor")});
  }
  return std::make_unique<ChainSet>(*ChainRules::Make(rules, {1}, 0, {}),
                                    std::move(members));
}

// A chain that waits holds up all others, and has the packet in the memory of
// its port.
TEST(ChainSet, NoChainWaitsForAPacketThatHasCome) {
  constexpr Nanos kBehind = Seconds(20);
  const auto set = TwoChains();
  LiveChains& first = *set->members()[0].chains;
  LiveChains& behind = *set->members()[1].chains;
  first.Begin(kBegin);
  behind.Begin(kBegin + Nanos{-kBehind.ns});
  const Instant before = RealClock::Monotonic();
  for (uint32_t i = 0; i < 3; ++i) {
    const Frame frame = UdpFrame({.flow = 1, .sequence = i});
    set->Offer({.time = set->Now(),
                .bytes = frame,
                .original_bytes = static_cast<uint32_t>(frame.size()),
                .side = Side::kInside});
  }
  EXPECT_LT((RealClock::Monotonic() - before).ns, kBehind.ns / 2);
  EXPECT_EQ(first.newest().packets_in(), 0u);
  EXPECT_EQ(behind.newest().packets_in(), 3u);
  // Its latency is by its own clock.
  while (!behind.newest().is_idle()) behind.Poll();
  EXPECT_LT(behind.newest().latency().max(), kBehind.ns / 2);
  EXPECT_THAT(set->Finish().violation_messages, testing::IsEmpty());
}

}  // namespace
}  // namespace snf
