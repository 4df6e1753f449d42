// SPDX-License-Identifier: Apache-2.0
#include "base/packet/plain_packet.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/packet/flow_key_text.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;

Frame Plain(uint8_t protocol, const Frame& l4) {
  return Ethernet(0x0800, Ipv4({.protocol = protocol}, l4));
}

// Returns true if the frame is plain. Then Parse and ConnectionKey must give
// the same results.
bool IsPlain(const Frame& frame) {
  ParsedPacket packet;
  FlowKey key;
  const std::optional<bool> is_reverse = PlainConnection(frame, packet, key);
  if (!is_reverse.has_value()) {
    EXPECT_EQ(packet, ParsedPacket());
    EXPECT_EQ(key, FlowKey());
    return false;
  }
  const ParsedPacket parsed = Parse(LinkType::kEthernet, frame);
  FlowKey want;
  const bool want_reverse = ConnectionKey(frame, parsed, true, want);
  EXPECT_EQ(packet, parsed);
  EXPECT_EQ(key, want) << ToString(key) << ", " << ToString(want);
  EXPECT_EQ(*is_reverse, want_reverse);
  return true;
}

TEST(PlainConnection, KnowsTcpAndUdpOverIpv4) {
  EXPECT_TRUE(IsPlain(Plain(kTcp, Tcp(5'000, 80))));
  EXPECT_TRUE(IsPlain(Plain(kTcp, Tcp(80, 5'000, 10, 1'400))));
  EXPECT_TRUE(IsPlain(Plain(kUdp, Udp(5'000, 53))));
  EXPECT_TRUE(IsPlain(Plain(kUdp, Udp(5'000, 53, 0))));
}

TEST(PlainConnection, TellsTheDirectionByAddressThenPort) {
  const IpAddress low = V4(10, 0, 0, 1), high = V4(10, 0, 0, 2);
  for (const auto& [source, destination] :
       {std::pair(low, high), std::pair(high, low), std::pair(low, low)}) {
    for (const uint16_t port : std::to_array<uint16_t>({1, 80, 65'535})) {
      EXPECT_TRUE(IsPlain(Ethernet(
          0x0800,
          Ipv4({.source = source, .destination = destination, .protocol = kTcp},
               Tcp(port, 80)))));
    }
  }
}

TEST(PlainConnection, EndsWhereTheIpPacketDoes) {
  const Frame frame = Plain(kUdp, Udp(5'000, 53, 2));
  EXPECT_TRUE(IsPlain(frame + Frame(16)));  // padded
  Frame cut = Plain(kUdp, Udp(5'000, 53, 100));
  cut.resize(60);
  EXPECT_TRUE(IsPlain(cut));
}

TEST(PlainConnection, LeavesAllOthersToTheParser) {
  for (const Sample& sample : AllSamples()) {
    if (sample.link != LinkType::kEthernet) continue;
    EXPECT_FALSE(IsPlain(sample.frame)) << sample.name;
  }

  EXPECT_FALSE(IsPlain({}));
  EXPECT_FALSE(IsPlain(Plain(1, Icmp(8, 0, 7, {}))));
  EXPECT_FALSE(IsPlain(Ethernet(0x0800, Ipv4({.option_words = 1}, Udp(1, 2)))));
  EXPECT_FALSE(
      IsPlain(Ethernet(0x0800, Ipv4({.more_fragments = true}, Udp(1, 2)))));
  EXPECT_FALSE(
      IsPlain(Ethernet(0x0800, Ipv4({.fragment_offset_bytes = 8}, Udp(1, 2)))));
  EXPECT_FALSE(IsPlain(Ethernet(0x8100, Vlan(7, 0x0800, Ipv4({}, Udp(1, 2))))));
  EXPECT_FALSE(IsPlain(Ethernet(0x86dd, Ipv6({}, Udp(1, 2)))));
  // An IP packet without a total length reaches to the frame's end.
  Frame endless = Plain(kUdp, Udp(1, 2));
  endless[16] = endless[17] = std::byte{0};
  EXPECT_FALSE(IsPlain(endless));
}

TEST(PlainConnection, WantsTheWholeHeader) {
  for (const Frame& whole :
       {Plain(kTcp, Tcp(1, 2, 3)), Plain(kUdp, Udp(1, 2, 0))}) {
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      EXPECT_FALSE(IsPlain(Frame(whole.begin(), whole.begin() + bytes)));
    }
    EXPECT_TRUE(IsPlain(whole));
  }
}

// Frames have random bytes changed and random lengths.
TEST(PlainConnection, SaysWhatTheParserSaysOfAnyFrame) {
  const uint64_t seed = TestSeeds::One(7);
  SCOPED_TRACE("SNF_TEST_SEED=" + std::to_string(seed));
  Rng rng(seed);
  int plain = 0;
  constexpr int kFrames = 200'000;
  for (int i = 0; i < kFrames; ++i) {
    const auto port = static_cast<uint16_t>(rng.Below(65'536));
    Frame frame = rng.Below(2) == 0
                      ? Plain(kTcp, Tcp(port, 80, rng.Below(11), 20))
                      : Plain(kUdp, Udp(port, 80, 20));
    for (uint64_t changes = rng.Below(4); changes > 0; --changes) {
      frame[rng.Below(frame.size())] = static_cast<std::byte>(rng.Below(256));
    }
    frame.resize(frame.size() - rng.Below(30));
    plain += IsPlain(frame) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(plain, kFrames / 4);
  EXPECT_LT(plain, kFrames * 3 / 4);
}

}  // namespace
}  // namespace snf
