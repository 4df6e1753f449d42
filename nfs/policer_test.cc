// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "runtime/sdk/nf_test.h"

namespace snf {
namespace {

// Packets of 1,000 bytes on the wire.
const std::string kPacket = "udp 10.0.0.1:5000 > 192.0.2.9:53 len=10 wire=1000";
const std::string kBack = "udp 192.0.2.9:53 > 10.0.0.1:5000 len=10 wire=1000";
const std::string kOver = "drop over_rate";

TEST(Policer, LetsABurstThroughAndThenAsMuchAsTheRateAllows) {
  NfTest nf("policer:rate=8Mbps,burst=3KB");  // 1,000 bytes a millisecond
  EXPECT_EQ(nf.Send("+0 " + kPacket), kPacket);
  EXPECT_EQ(nf.Send("+0 " + kPacket), kPacket);
  EXPECT_EQ(nf.Send("+0 " + kPacket), kPacket);
  EXPECT_EQ(nf.Send("+0 " + kPacket), kOver);
  EXPECT_EQ(nf.Send("+999999ns " + kPacket), kOver);
  EXPECT_EQ(nf.Send("+1ns " + kPacket), kPacket);
  EXPECT_EQ(nf.Send("+999999ns " + kPacket), kOver);
  EXPECT_EQ(nf.Send("+1ns " + kPacket), kPacket);
  EXPECT_EQ(nf.count("over"), 3u);
  EXPECT_EQ(nf.count("over_bytes"), 3'000u);
  EXPECT_EQ(nf.count("conforming_bytes"), 5'000u);
}

TEST(Policer, SharesABucketBetweenDirectionsButNotBetweenConnections) {
  NfTest nf("policer:rate=1kbps,burst=1KB");
  EXPECT_EQ(nf.Send(kPacket), kPacket);
  EXPECT_EQ(nf.Send(kBack), kOver);
  EXPECT_EQ(nf.Send("udp 10.0.0.1:5001 > 192.0.2.9:53 len=10 wire=1000"),
            "udp 10.0.0.1:5001 > 192.0.2.9:53 len=10 wire=1000");
}

TEST(Policer, NeverHoldsMoreThanABurst) {
  NfTest nf("policer:rate=1Tbps,burst=1KB");
  EXPECT_EQ(nf.Send(kPacket), kPacket);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(nf.Send("+299s " + kPacket), kPacket);
    EXPECT_EQ(nf.Send("+0 " + kPacket), kOver);
  }
}

TEST(Policer, TakesNoOverflowForTokens) {
  // The longest time, the highest rate, the largest bucket and packet.
  NfTest nf("policer:rate=1Tbps,burst=1GB");
  // Its tokens are a little above 2⁶⁴.
  const std::string most = "udp 10.0.0.1:5000 > 192.0.2.9:53 wire=2305843010";
  EXPECT_EQ(nf.Send(most), kOver);
  EXPECT_EQ(nf.Send(kPacket), kPacket);
  EXPECT_EQ(nf.Send("+290s " + most), kOver);
  const std::string all = "udp 10.0.0.1:5000 > 192.0.2.9:53 wire=1000000000";
  EXPECT_EQ(nf.Send("+0 " + all), all);
  EXPECT_EQ(nf.Send("+0 " + kPacket), kOver);
}

TEST(Policer, FillsNothingWhileTimeGoesBack) {
  NfTest nf("policer:rate=8Mbps,burst=1KB");
  EXPECT_EQ(nf.Send(kPacket), kPacket);
  TestPacket late = *ParsePacket(kPacket);
  late.gap = Nanos{-10'000'000};
  EXPECT_EQ(nf.Send(late), kOver);
  EXPECT_EQ(nf.Send("+10ms " + kPacket), kOver);
  EXPECT_EQ(nf.Send("+1ms " + kPacket), kPacket);
}

TEST(Policer, HasABurstOfATenthOfASecondByDefault) {
  struct Case {
    const char* options;
    int packets;  // of 1,000 bytes
  };
  for (const auto& [options, packets] :
       {Case{"", 15}, Case{"rate=1kbps", 15}, Case{"rate=1200kbps", 15},
        Case{"rate=8Mbps", 100}, Case{"rate=80Mbps", 1'000},
        Case{"rate=8Mbps,burst=15KB", 15}}) {
    NfTest nf(std::string("policer:") + options);
    for (int i = 0; i < packets; ++i) {
      ASSERT_EQ(nf.Send("+0 " + kPacket), kPacket) << options << " " << i;
    }
    EXPECT_EQ(nf.Send("+0 " + kPacket), kOver) << options;
  }
  NfTest most("policer:rate=1Tbps");
  EXPECT_EQ(most.Send("udp 10.0.0.1:1 > 192.0.2.9:53 wire=1000000001"), kOver);
}

TEST(Policer, NeverLetsThroughAPacketLongerThanTheBurst) {
  NfTest nf("policer:rate=1Gbps,burst=999B");
  EXPECT_EQ(nf.Send(kPacket), kOver);
  EXPECT_EQ(nf.Send("+10s " + kPacket), kOver);
}

TEST(Policer, MarksInsteadOfDropping) {
  NfTest nf("policer:rate=1kbps,burst=1KB,action=mark");
  EXPECT_EQ(nf.Send(kPacket), kPacket);
  EXPECT_EQ(nf.Send(kPacket), "over: " + kPacket);
  EXPECT_EQ(nf.count("over"), 1u);
}

TEST(Policer, RunsEverywhere) {
  std::vector<std::string> packets;
  for (int i = 0; i < 40; ++i) {
    packets.push_back("+300us " + (i % 3 == 0 ? kBack : kPacket));
    packets.push_back("+0 udp 10.0.0.2:1 > 192.0.2.9:53 wire=400");
  }
  const std::vector<TestPacket> list = Packets(packets);
  EXPECT_TRUE(RunEverywhere("policer:rate=8Mbps,burst=3KB", list));
  EXPECT_TRUE(RunEverywhere("policer:rate=1Mbps,action=mark", list));
}

struct Sent {
  int64_t at_ns;
  int64_t bytes;
};

// Expects that in every span of time at most burst + rate × time bytes conform.
void ExpectWithinRate(const std::vector<Sent>& conforming, int64_t rate_bps,
                      int64_t burst_bytes) {
  __extension__ using Wide = __int128;
  // The least of (rate × time − bytes sent) before any packet so far.
  Wide least = 0;
  Wide sent = 0;
  for (const Sent& packet : conforming) {
    const Wide fluid = Wide{rate_bps} * packet.at_ns;
    least = std::min(least, fluid - sent * 8'000'000'000);
    sent += packet.bytes;
    ASSERT_LE(sent * 8'000'000'000 - fluid + least,
              Wide{burst_bytes} * 8'000'000'000)
        << "at " << packet.at_ns << " ns";
  }
}

// Random traffic never gets more than is allowed. If more is offered, it gets
// all of that, except for a rest too small for one more packet.
TEST(Policer, HoldsRandomTrafficToTheRateAndLetsItHaveThat) {
  const TestSeeds seeds(100, 2'000);
  for (const uint64_t seed : seeds.all()) {
    Rng rng(seed);
    const int64_t rate_bps = int64_t{1'000} << rng.Below(30);
    const int64_t burst = rng.Uniform(1'600, 100'000);
    NfTest nf("policer:rate=" + std::to_string(rate_bps) +
              "bps,burst=" + std::to_string(burst) + "B");
    const bool is_flood = seed % 2 == 0;
    TestPacket packet = *ParsePacket(kPacket);
    std::vector<Sent> conforming;
    int64_t at_ns = 0;
    int64_t offered = 0;
    int64_t passed = 0;
    for (int i = 0; i < 400; ++i) {
      // The gap is twice to 1/10 of the packet's time at the rate.
      const int64_t bytes = rng.Uniform(60, 1'500);
      const int64_t fair_ns = bytes * 8'000'000'000 / rate_bps;
      packet.gap.ns = is_flood ? fair_ns / rng.Uniform(2, 10)
                               : rng.Exponential(2 * fair_ns + 1);
      if (packet.gap > Seconds(299)) packet.gap = Seconds(299);
      if (i == 0) packet.gap = {};
      packet.original_length = static_cast<uint32_t>(bytes);
      at_ns += packet.gap.ns;
      offered += bytes;
      if (nf.Send(packet).text == kOver) continue;
      passed += bytes;
      conforming.push_back({at_ns, bytes});
    }
    ExpectWithinRate(conforming, rate_bps, burst);
    if (!is_flood) continue;
    __extension__ using Wide = __int128;
    const auto allowed =
        static_cast<int64_t>(burst + Wide{rate_bps} * at_ns / 8'000'000'000);
    EXPECT_GE(passed, std::min(offered, allowed) - 1'500)
        << TestSeeds::Name(seed);
  }
}

}  // namespace
}  // namespace snf
