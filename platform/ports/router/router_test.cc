// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/router.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/test_packet_text.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Instant kStart = {1'000'000'000'000};
constexpr MacAddress kOwnMac = {std::byte{2}, {}, {}, {}, {}, std::byte{0xaa}};
constexpr MacAddress kHostMac = {std::byte{2}, {}, {}, {}, {}, std::byte{9}};
constexpr const char* kToRouter =
    " src=02:00:00:00:00:09 dst=02:00:00:00:00:aa";

Frame BytesOf(const std::string& text) {
  const auto packet = ParsePacket(text);
  EXPECT_TRUE(packet.ok()) << packet.status().message();
  return packet.ok() ? packet->bytes : Frame();
}
std::string TextOfFrame(std::span<const std::byte> frame) {
  const auto size = static_cast<uint32_t>(frame.size());
  return ToText(
      {.bytes = {frame.begin(), frame.end()}, .original_length = size});
}

constexpr uint16_t kSegment = 1'400;  // of frames of several packets

// Keeps the frames that a router sends.
struct Wire final : RouterWire {
  void SendRouted(std::span<const std::byte> frame) override {
    routed.emplace_back(frame.begin(), frame.end());
  }
  void SendRoutedMerged(std::span<const std::byte> frame,
                        uint16_t segment_bytes) override {
    merged.emplace_back(frame.begin(), frame.end());
    EXPECT_EQ(segment_bytes, kSegment);
  }
  void SendOwn(std::span<const std::byte> frame) override {
    own.emplace_back(frame.begin(), frame.end());
  }
  bool ReturnToChain(std::span<const std::byte> frame) override {
    returned.emplace_back(frame.begin(), frame.end());
    return !is_full;
  }
  bool IsToAnswer(std::span<const std::byte> /*frame*/) const override {
    return answers;
  }
  std::vector<Frame> routed, merged, own, returned;
  bool is_full = false;
  bool answers = true;
};

constexpr const char* kOptions =
    ",address=10.1.0.1/24,address=fd01::1/64,gateway=10.1.0.254"
    ",route=10.8.0.0/16@10.1.0.253,proxy=10.1.0.5";

struct Fixture : testing::Test {
  explicit Fixture(const char* options = kOptions)
      : router(*RouterConfig::Parse(options), kOwnMac, wire) {
    router.set_mtu(1'500);
  }
  std::span<const std::byte> Take(const std::string& text) {
    const Frame frame = BytesOf(text);
    return router.Take(now, frame);
  }
  void Send(const std::string& text) { router.Send(now, BytesOf(text)); }
  // Sends ARP or discovery from a host with kHostMac.
  void Say(const IpAddress& host, const IpAddress& target, bool is_question) {
    const NeighbourFrame::End own = {.address = host, .mac = kHostMac};
    router.Take(
        now, is_question
                 ? NeighbourFrame::Question(own, target, std::nullopt).bytes()
                 : NeighbourFrame::Answer(
                       own, {.address = target, .mac = kOwnMac}, false)
                       .bytes());
  }
  uint64_t count(RouterCount what) const { return router.counts()[what]; }

  Wire wire;
  Router router;
  Instant now = kStart;
};
using RouterTest = Fixture;

IpAddress Ip6(const char* text) { return Ipv6Fields::Address(text); }

// --- Frames that come in

TEST_F(RouterTest, PassesAPacketForAnotherNetworkWithTheTtlLessOne) {
  const auto passed =
      Take(std::string("udp 10.1.0.9:5000 > 192.0.2.9:53 ttl=64 \"hi\"") +
           kToRouter);
  EXPECT_EQ(TextOfFrame(passed),
            TextOfFrame(BytesOf(
                std::string("udp 10.1.0.9:5000 > 192.0.2.9:53 ttl=63 \"hi\"") +
                kToRouter)));
  const auto passed6 = Take(
      std::string("tcp [fd01::9]:5000 > [fd02::9]:80 SYN ttl=2") + kToRouter);
  EXPECT_THAT(TextOfFrame(passed6), HasSubstr("ttl=1"));
  EXPECT_EQ(router.counts().kept(), 0u);
  EXPECT_TRUE(wire.own.empty());
}

TEST_F(RouterTest, TheChecksumIsRightForEachTtl) {
  for (int ttl = 2; ttl < 256; ++ttl) {
    for (const char* const protocol : {"udp", "tcp"}) {
      const auto passed =
          Take(std::string(protocol) + " 10.1.0.9:5000 > 192.0.2.9:53 ttl=" +
               std::to_string(ttl) + kToRouter);
      ASSERT_EQ(InternetChecksum(passed.subspan(14, 20)), be16(0)) << ttl;
    }
  }
}

// The chain may send packets before it has copied the frame.
TEST_F(RouterTest, KeepsTheFrameForTheChainWhileOthersLeave) {
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), true);
  Send("udp 192.0.2.9:1 > 10.1.0.9:2");
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), false);
  wire = {};
  const auto passed =
      Take(std::string("udp 10.1.0.9:5000 > 192.0.2.9:53 ttl=64 \"query\"") +
           kToRouter);
  const std::string before = TextOfFrame(passed);
  Send("udp 192.0.2.9:53 > 10.1.0.9:5000 len=1000");
  EXPECT_EQ(wire.routed.size(), 1u);
  EXPECT_EQ(TextOfFrame(passed), before);
  Send("udp 192.0.2.9:53 > 10.1.0.9:5000 len=4000");  // in fragments
  EXPECT_EQ(wire.routed.size(), 4u);
  EXPECT_EQ(TextOfFrame(passed), before);
  EXPECT_TRUE(router.SendMerged(
      now, BytesOf("tcp 192.0.2.9:80 > 10.1.0.9:5000 ACK df len=4200"),
      kSegment));
  EXPECT_EQ(TextOfFrame(passed), before);
  Send("udp [fd02::9]:1 > [fd03::9]:2");              // an error
  Send("icmp 192.0.2.9 > 10.1.0.1 echo id=7 seq=1");  // an answer
  EXPECT_EQ(wire.returned.size(), 2u);
  EXPECT_EQ(TextOfFrame(passed), before);
}

TEST_F(RouterTest, CutsOffWhatPadsAFrame) {
  Frame frame =
      BytesOf(std::string("udp 10.1.0.9:5000 > 192.0.2.9:53") + kToRouter);
  const size_t bytes = frame.size();
  frame.resize(60);
  EXPECT_EQ(router.Take(now, frame).size(), bytes);
}

TEST_F(RouterTest, AnswersAPacketThatHasComeTooFar) {
  EXPECT_THAT(
      Take(std::string("udp 10.1.0.9:5000 > 192.0.2.9:53 ttl=1") + kToRouter),
      IsEmpty());
  EXPECT_THAT(
      Take(std::string("udp [fd01::9]:5000 > [fd02::9]:53 ttl=1") + kToRouter),
      IsEmpty());
  ASSERT_EQ(wire.own.size(), 2u);
  EXPECT_THAT(
      TextOfFrame(wire.own[0]),
      testing::AllOf(HasSubstr("icmp 10.1.0.1 > 10.1.0.9 time_exceeded"),
                     HasSubstr("dst=02:00:00:00:00:09")));
  EXPECT_THAT(TextOfFrame(wire.own[1]), HasSubstr("fd01::1"));
  EXPECT_THAT(TextOfFrame(wire.own[1]), HasSubstr("time_exceeded"));
  EXPECT_EQ(count(RouterCount::kTtlExceeded), 2u);
}

TEST_F(RouterTest, CountsByNameWhatItDoesNotForward) {
  struct Case {
    const char* text;
    RouterCount why;
  };
  using enum RouterCount;
  for (const auto& [text, why] :
       {Case{"udp 10.1.0.9:1 > 192.0.2.9:2 dst=02:00:00:00:00:bb", kOtherMac},
        Case{"udp 10.1.0.9:1 > 192.0.2.9:2 src=02:00:00:00:00:aa "
             "dst=02:00:00:00:00:aa",
             kOwnSource},
        Case{"udp 10.1.0.9:1 > 224.0.0.5:2 dst=01:00:5e:00:00:05", kGroup},
        Case{"udp 10.1.0.9:1 > 192.0.2.9:2 dst=ff:ff:ff:ff:ff:ff", kGroup},
        Case{"udp 10.1.0.9:1 > 224.0.0.5:2 dst=02:00:00:00:00:aa", kGroup},
        Case{"udp 10.1.0.9:1 > 10.1.0.255:2 dst=02:00:00:00:00:aa", kGroup},
        Case{"udp [fd01::9]:1 > [ff02::5]:2 dst=33:33:00:00:00:05", kGroup},
        Case{"udp 10.1.0.9:1 > 192.0.2.9:2 vlan=7 dst=02:00:00:00:00:aa",
             kVlanTag},
        Case{"frame x'0200000000aa 020000000009 88b5 0000'", kOtherType},
        Case{"udp 10.1.0.9:1 > 192.0.2.9:2 bad_ip_checksum=1 "
             "dst=02:00:00:00:00:aa",
             kMalformed},
        Case{"frame x'0200000000aa 020000000009 0800 4500 0064 0000 0000 "
             "4011 0000 0a010009 c0000209'",
             kMalformed},
        Case{"udp 127.0.0.1:1 > 192.0.2.9:2 dst=02:00:00:00:00:aa", kBadSource},
        Case{"udp 224.0.0.1:1 > 192.0.2.9:2 dst=02:00:00:00:00:aa", kBadSource},
        Case{"udp 10.1.0.1:1 > 192.0.2.9:2 dst=02:00:00:00:00:aa", kBadSource},
        Case{"udp [ff02::1]:1 > [fd02::9]:2 dst=02:00:00:00:00:aa", kBadSource},
        Case{"udp 10.1.0.9:1 > 127.0.0.1:2 dst=02:00:00:00:00:aa",
             kBadDestination},
        Case{"udp [fe80::9]:1 > [fd02::9]:2 dst=02:00:00:00:00:aa", kLinkLocal},
        Case{"udp 10.1.0.9:1 > 169.254.0.9:2 dst=02:00:00:00:00:aa",
             kLinkLocal},
        Case{"udp 10.1.0.9:1 > 10.1.0.8:2 dst=02:00:00:00:00:aa", kSameSide},
        Case{"udp 10.1.0.9:1 > 10.8.3.4:2 dst=02:00:00:00:00:aa", kSameSide},
        Case{"udp 10.1.0.9:1 > 10.1.0.1:2 dst=02:00:00:00:00:aa",
             kForRouter}}) {
    Frame frame = BytesOf(text);
    const uint64_t before = count(why);
    EXPECT_TRUE(router.Take(now, frame).empty()) << text;
    EXPECT_EQ(count(why), before + 1) << text;
  }
  EXPECT_EQ(router.counts().kept(), 21u);
}

TEST_F(RouterTest, AnswersPingsToItsOwnAddresses) {
  EXPECT_THAT(Take(std::string("icmp 10.1.0.9 > 10.1.0.1 echo id=7 seq=1 "
                               "\"abc\"") +
                   kToRouter),
              IsEmpty());
  EXPECT_THAT(Take(std::string("icmp6 [fd01::9] > [fd01::1] echo id=7 seq=2") +
                   kToRouter),
              IsEmpty());
  ASSERT_EQ(wire.own.size(), 2u);
  EXPECT_EQ(TextOfFrame(wire.own[0]),
            TextOfFrame(BytesOf("icmp 10.1.0.1 > 10.1.0.9 echo_reply id=7 "
                                "seq=1 \"abc\" src=02:00:00:00:00:aa "
                                "dst=02:00:00:00:00:09")));
  EXPECT_EQ(
      TextOfFrame(wire.own[1]),
      TextOfFrame(BytesOf("icmp6 [fd01::1] > [fd01::9] echo_reply id=7 seq=2 "
                          "src=02:00:00:00:00:aa "
                          "dst=02:00:00:00:00:09")));
  // But not to an address that it only answers for.
  EXPECT_FALSE(
      Take(std::string("icmp 10.1.0.9 > 10.1.0.5 echo id=7") + kToRouter)
          .empty());
}

TEST_F(RouterTest, LimitsItsAnswers) {
  for (int i = 0; i < 5'000; ++i) {
    Take(std::string("icmp 10.1.0.9 > 10.1.0.1 echo id=7") + kToRouter);
    Take(std::string("udp 10.1.0.9:1 > 192.0.2.9:2 ttl=1") + kToRouter);
  }
  EXPECT_EQ(count(RouterCount::kEchoAnswered), Router::kEchoBurst);
  EXPECT_EQ(count(RouterCount::kErrors), Router::kErrorBurst);
  EXPECT_EQ(count(RouterCount::kLimited), 5'000u - Router::kEchoBurst);
  now = now + Seconds(1);
  Take(std::string("icmp 10.1.0.9 > 10.1.0.1 echo id=7") + kToRouter);
  EXPECT_EQ(count(RouterCount::kEchoAnswered), Router::kEchoBurst + 1);
}

TEST_F(RouterTest, AnswersQuestionsForItsAddressesAndThoseItAnswersFor) {
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), true);
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 5), true);
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 8), true);
  Say(Ip6("fd01::9"), Ip6("fd01::1"), true);
  Say(Ip6("fd01::9"), Ip6("fd01::8"), true);
  ASSERT_EQ(wire.own.size(), 3u);
  const auto arp = ReadArp(wire.own[1]);
  ASSERT_TRUE(arp.has_value());
  EXPECT_EQ(arp->sender, V4(10, 1, 0, 5));
  EXPECT_EQ(arp->target, V4(10, 1, 0, 9));
  EXPECT_EQ(*arp->mac, kOwnMac);
  const auto nd = ReadDiscovery(wire.own[2]);
  ASSERT_TRUE(nd.has_value());
  EXPECT_TRUE(nd->is_solicited);
  EXPECT_EQ(nd->target, Ip6("fd01::1"));
  EXPECT_EQ(*nd->mac, kOwnMac);
  EXPECT_EQ(count(RouterCount::kArpIgnored), 1u);
  EXPECT_EQ(count(RouterCount::kNdIgnored), 1u);
}

TEST_F(RouterTest, SaysThatItIsThereAndSeesWhoElseSaysSo) {
  router.Announce();
  EXPECT_EQ(wire.own.size(), 3u);  // two addresses and the proxied one
  for (const Frame& frame : wire.own) {
    EXPECT_EQ(frame[0] & std::byte{1}, std::byte{1});
  }
  Say(V4(10, 1, 0, 1), V4(10, 1, 0, 9), true);
  Say(Ip6("fd01::1"), Ip6("fd01::9"), false);
  EXPECT_EQ(count(RouterCount::kAddressConflict), 2u);
}

// --- Packets that leave

TEST_F(RouterTest, AsksForTheNextHopAndThenSends) {
  Send("udp 192.0.2.9:53 > 10.1.0.9:5000 ttl=9");
  EXPECT_TRUE(wire.routed.empty());
  ASSERT_EQ(wire.own.size(), 1u);
  const auto asked = ReadArp(wire.own[0]);
  EXPECT_TRUE(asked->is_question);
  EXPECT_EQ(asked->sender, V4(10, 1, 0, 1));
  EXPECT_EQ(asked->target, V4(10, 1, 0, 9));
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), false);
  ASSERT_EQ(wire.routed.size(), 1u);
  EXPECT_EQ(TextOfFrame(wire.routed[0]),
            TextOfFrame(BytesOf("udp 192.0.2.9:53 > 10.1.0.9:5000 ttl=9 "
                                "src=02:00:00:00:00:aa "
                                "dst=02:00:00:00:00:09")));
  Send("udp 192.0.2.9:53 > 10.1.0.9:5000");
  EXPECT_EQ(wire.routed.size(), 2u);
  EXPECT_EQ(count(RouterCount::kRouted), 2u);
  EXPECT_EQ(count(RouterCount::kQuestions), 1u);
}

TEST_F(RouterTest, SendsToTheGatewayOfTheLongestPrefix) {
  for (const auto& [to, hop] : {std::pair{"192.0.2.9", V4(10, 1, 0, 254)},
                                std::pair{"10.8.3.4", V4(10, 1, 0, 253)},
                                std::pair{"10.1.0.77", V4(10, 1, 0, 77)}}) {
    wire.own.clear();
    Send(std::string("udp 203.0.113.1:1 > ") + to + ":2");
    ASSERT_EQ(wire.own.size(), 1u) << to;
    EXPECT_EQ(ReadArp(wire.own[0])->target, hop) << to;
  }
  wire.own.clear();
  Send("udp [fd02::9]:1 > [fd01::77]:2");
  EXPECT_EQ(ReadDiscovery(wire.own[0])->target, Ip6("fd01::77"));
}

TEST_F(RouterTest, ErrorsOfTheWayOutGoIntoTheChain) {
  Send("udp [fd02::9]:1 > [fd03::9]:2");  // no route
  ASSERT_EQ(wire.returned.size(), 1u);
  EXPECT_THAT(TextOfFrame(wire.returned[0]), HasSubstr("unreachable"));
  EXPECT_THAT(TextOfFrame(wire.returned[0]), HasSubstr("fd02::9"));
  EXPECT_THAT(TextOfFrame(wire.returned[0]),
              HasSubstr("src=00:00:00:00:00:00 dst=02:00:00:00:00:aa"));
  Send("udp 192.0.2.9:1 > 10.1.0.9:2 len=1473 df");
  ASSERT_EQ(wire.returned.size(), 2u);
  EXPECT_THAT(TextOfFrame(wire.returned[1]),
              HasSubstr("icmp 10.1.0.1 > 192.0.2.9 unreachable code=4"));
  Send("udp [fd02::9]:1 > [fd01::9]:2 len=1453");
  ASSERT_EQ(wire.returned.size(), 3u);
  EXPECT_THAT(TextOfFrame(wire.returned[2]), HasSubstr("too_big"));
  // No host answers for three seconds.
  Send("udp 192.0.2.9:1 > 10.1.0.9:2 len=1472 df");
  for (int i = 1; i <= 3; ++i) router.Tick(now + Seconds(i));
  ASSERT_EQ(wire.returned.size(), 4u);
  EXPECT_THAT(TextOfFrame(wire.returned[3]), HasSubstr("unreachable code=1"));
  EXPECT_EQ(count(RouterCount::kQuestions), 3u);
  EXPECT_EQ(router.counts().not_routed(), 4u);
  EXPECT_EQ(router.given(), 4u);
}

TEST_F(RouterTest, DropsWhatMustNotLeave) {
  using enum RouterCount;
  for (const auto& [text, why] :
       {std::pair{"udp 192.0.2.9:1 > 224.0.0.5:2", kOutGroup},
        std::pair{"udp 192.0.2.9:1 > 10.1.0.255:2", kOutGroup},
        std::pair{"udp 192.0.2.9:1 > 10.1.0.1:2", kOutForRouter},
        std::pair{"udp 192.0.2.9:1 > 10.1.0.5:2", kOutForRouter},
        std::pair{"frame x'020000000001 020000000002 0806 00'",
                  kOutMalformed}}) {
    const uint64_t before = count(why);
    Send(text);
    EXPECT_EQ(count(why), before + 1) << text;
  }
  EXPECT_TRUE(wire.own.empty() && wire.routed.empty() && wire.returned.empty());
  // A ping through the chain is answered through the chain.
  Send("icmp 192.0.2.9 > 10.1.0.1 echo id=7 seq=1");
  ASSERT_EQ(wire.returned.size(), 1u);
  EXPECT_THAT(TextOfFrame(wire.returned[0]),
              HasSubstr("icmp 10.1.0.1 > 192.0.2.9 echo_reply id=7 seq=1"));
}

TEST_F(RouterTest, CutsALongPacketWithoutDf) {
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), true);  // says who it is; too early
  Send("udp 192.0.2.9:1 > 10.1.0.9:2 len=4000 ip_id=5");
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), false);
  ASSERT_EQ(wire.routed.size(), 3u);
  size_t bytes = 0;
  for (const Frame& frame : wire.routed) {
    EXPECT_LE(frame.size(), 1'514u);
    EXPECT_EQ(InternetChecksum(std::span(frame).subspan(14, 20)), be16(0));
    const auto ip = Ipv4Header<const std::byte>::At(frame, 14);
    EXPECT_EQ(ip.id(), 5);
    EXPECT_EQ(ip.fragment_offset_bytes(), bytes);
    bytes += ip.total_bytes() - 20u;
    EXPECT_EQ(ip.more_fragments(), bytes < 4'008);
  }
  EXPECT_EQ(bytes, 4'008u);
  EXPECT_EQ(count(RouterCount::kRouted), 1u);
  EXPECT_EQ(count(RouterCount::kFragmented), 1u);
}

// Else its packets are sent one by one.
TEST_F(RouterTest, SendsAFrameOfSeveralPacketsWholeWhereItCan) {
  const auto send = [&](const std::string& text) {
    return router.SendMerged(now, BytesOf(text), kSegment);
  };
  const std::string far = "tcp 192.0.2.9:80 > 10.1.0.9:5000 ACK df len=4200";
  EXPECT_FALSE(send(far));  // the next hop is not known
  Send("udp 192.0.2.9:1 > 10.1.0.9:2");
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), false);
  const uint64_t routed = count(RouterCount::kRouted);
  EXPECT_TRUE(send(far));
  ASSERT_EQ(wire.merged.size(), 1u);
  EXPECT_EQ(TextOfFrame(wire.merged[0]),
            TextOfFrame(
                BytesOf(far + " src=02:00:00:00:00:aa dst=02:00:00:00:00:09")));
  EXPECT_EQ(count(RouterCount::kRouted), routed + 1);
  for (const char* const other :
       {"tcp [fd02::9]:80 > [fd03::9]:5000 ACK len=4200",  // no route
        "tcp 192.0.2.9:80 > 10.1.0.1:5000 ACK len=4200",   // our own
        "tcp 192.0.2.9:80 > 10.1.0.5:5000 ACK len=4200",   // proxied
        "udp 192.0.2.9:80 > 10.1.0.255:5000 len=4200",
        "udp 192.0.2.9:80 > 224.0.0.5:5000 len=4200"}) {
    EXPECT_FALSE(send(other)) << other;
  }
  router.set_mtu(kSegment + 39);
  EXPECT_FALSE(send(far));
  router.set_mtu(kSegment + 40);
  EXPECT_TRUE(send(far));
  EXPECT_EQ(wire.merged.size(), 2u);
  EXPECT_EQ(router.given(), 3u);
  EXPECT_TRUE(wire.returned.empty());
  EXPECT_EQ(router.counts().not_routed(), 0u);
}

TEST_F(RouterTest, AFloodOfAbsentHostsStaysBounded) {
  Send("udp 192.0.2.9:1 > 10.1.0.9:2");
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), false);
  for (int i = 0; i < 100'000; ++i) {
    const int host = i % 200 + 20;
    Send("udp 192.0.2.9:1 > 10.1.0." + std::to_string(host) + ":2");
    // A flood of claims changes nothing either.
    if (i % 100 == 0) Say(V4(10, 1, 0, 100), V4(10, 1, 0, 1), true);
    if (i % 1'000 == 0) now = now + Milliseconds(10);
  }
  EXPECT_LE(count(RouterCount::kQuestions), 256u + 1'000 + 1);
  EXPECT_LE(count(RouterCount::kErrors), 1'100u);
  const size_t routed = wire.routed.size();
  Send("udp 192.0.2.9:1 > 10.1.0.9:2");
  EXPECT_EQ(wire.routed.size(), routed + 1);
  router.GiveUp();
  EXPECT_EQ(router.given(),
            count(RouterCount::kRouted) + router.counts().not_routed());
}

// --- Bad input

// Random changes of frames that a router answers, and of a question for
// routers.
void CheckThatItStandsAnyBytes(Router& router, Instant now) {
  std::vector<Frame> samples = {
      BytesOf(std::string("udp 10.1.0.9:1 > 192.0.2.9:2") + kToRouter),
      BytesOf(std::string("icmp 10.1.0.9 > 10.1.0.1 echo id=7") + kToRouter),
      BytesOf(std::string("icmp6 [fd01::9] > [fd01::1] echo id=7") + kToRouter),
      BytesOf(std::string("tcp [fd01::9]:1 > [fd02::9]:2 ttl=1") + kToRouter)};
  const NeighbourFrame::End host = {.address = V4(10, 1, 0, 9),
                                    .mac = kHostMac};
  const NeighbourFrame::End host6 = {.address = Ip6("fd01::9"),
                                     .mac = kHostMac};
  for (const NeighbourFrame& frame :
       {NeighbourFrame::Question(host, V4(10, 1, 0, 1), std::nullopt),
        NeighbourFrame::Answer(host, {V4(10, 1, 0, 1), kOwnMac}, false),
        NeighbourFrame::Question(host6, Ip6("fd01::1"), std::nullopt),
        NeighbourFrame::Answer(host6, {Ip6("fd01::1"), kOwnMac}, false)}) {
    samples.emplace_back(frame.bytes().begin(), frame.bytes().end());
  }
  samples.push_back(BytesOf(
      "frame x'333300000002 020000000009 86dd 60000000 0010 3aff "
      "fe800000000000000000000000000009 ff020000000000000000000000000002 "
      "8500 7a1c 00000000 0101 020000000009'"));
  for (const uint64_t seed : TestSeeds(20).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    uint64_t given = 0, passed = 0;
    const uint64_t kept = router.counts().kept();
    const uint64_t sent = router.given();
    for (int i = 0; i < 2'000; ++i) {
      Frame frame = samples[rng.Below(samples.size())];
      if (rng.Chance(20'000)) frame.resize(rng.Below(frame.size() + 1));
      for (uint64_t flips = rng.Below(4); flips > 0 && !frame.empty();
           --flips) {
        frame[rng.Below(frame.size())] ^= static_cast<std::byte>(rng.Next());
      }
      // A copy of its own size: AddressSanitizer sees reads behind it.
      const std::vector<std::byte> exact(frame);
      ++given;
      passed += router.Take(now, exact).empty() ? 0 : 1;
      router.Send(now, exact);
      now = now + Milliseconds(static_cast<int64_t>(rng.Below(20)));
      if (i % 16 == 0) router.Tick(now);
    }
    EXPECT_EQ(given, passed + router.counts().kept() - kept);
    router.GiveUp();
    EXPECT_EQ(router.given() - sent, 2'000u);
    EXPECT_EQ(router.given(), router.counts()[RouterCount::kRouted] +
                                  router.counts().not_routed());
    EXPECT_GT(passed, 20u);
  }
}

TEST_F(RouterTest, StandsAnyBytesAndAccountsForEachFrame) {
  CheckThatItStandsAnyBytes(router, now);
  Router advertising(*RouterConfig::Parse(std::string(kOptions) + ",ra=on"),
                     kOwnMac, wire);
  CheckThatItStandsAnyBytes(advertising, now);
  EXPECT_GT(advertising.counts()[RouterCount::kAdvertisements], 3u);
  EXPECT_GT(advertising.counts()[RouterCount::kNdAnswered],
            count(RouterCount::kNdAnswered));
}

TEST_F(RouterTest, EachTruncatedMessageIsCountedAsMalformed) {
  const NeighbourFrame::End host = {.address = V4(10, 1, 0, 9),
                                    .mac = kHostMac};
  const NeighbourFrame arp =
      NeighbourFrame::Question(host, V4(10, 1, 0, 1), std::nullopt);
  for (size_t size = 14; size < arp.bytes().size(); ++size) {
    router.Take(now, arp.bytes().first(size));
  }
  EXPECT_EQ(count(RouterCount::kArpMalformed), arp.bytes().size() - 14);
  const NeighbourFrame nd =
      NeighbourFrame::Question({.address = Ip6("fd01::9"), .mac = kHostMac},
                               Ip6("fd01::1"), std::nullopt);
  for (size_t size = 55; size < nd.bytes().size(); ++size) {
    router.Take(now, nd.bytes().first(size));
  }
  EXPECT_EQ(count(RouterCount::kNdMalformed), nd.bytes().size() - 55);
  EXPECT_TRUE(wire.own.empty());
}

// --- Several ports of a side

// The config of kOptions beside a port of two more networks.
RouterConfig WithAPortBeside() {
  RouterConfig config = *RouterConfig::Parse(kOptions);
  config.AddBeside(
      *RouterConfig::Parse(
          ",address=10.2.0.1/24,address=fd03::1/64,route=10.9.0.0/16@10.2.0.7"
          ",gateway=10.2.0.8,address=fe80::7/64,mac=02:00:00:00:00:bb"),
      "lan1");
  return config;
}

TEST(RouterBeside, LeavesNetworksOfTheSameSideAloneAndAnswersForTheRouter) {
  Wire wire;
  Router router(WithAPortBeside(), kOwnMac, wire);
  const auto take = [&](const std::string& text) {
    return !router.Take(kStart, BytesOf(text + kToRouter)).empty();
  };
  EXPECT_FALSE(take("udp 10.1.0.9:1 > 10.2.0.9:2"));
  EXPECT_FALSE(take("udp 10.1.0.9:1 > 10.9.3.4:2"));
  EXPECT_FALSE(take("udp [fd01::9]:1 > [fd03::9]:2"));
  EXPECT_EQ(router.counts()[RouterCount::kSameSide], 3u);
  EXPECT_EQ(wire.own.size(), 3u);
  EXPECT_FALSE(take("icmp 10.1.0.9 > 10.2.0.1 echo id=7 seq=1 \"abc\""));
  EXPECT_EQ(router.counts()[RouterCount::kEchoAnswered], 1u);
  // The link-local addresses are of another link.
  EXPECT_FALSE(take("icmp [fe80::9] > [fe80::7] echo id=7 seq=1 \"abc\""));
  EXPECT_EQ(router.counts()[RouterCount::kEchoAnswered], 1u);
  EXPECT_EQ(router.counts()[RouterCount::kLinkLocal], 1u);
  // A gateway to everything is no network.
  EXPECT_TRUE(take("udp 10.1.0.9:1 > 192.0.2.9:2"));
}

TEST(RouterBeside, TakesNothingFromTheLinkAddressOfAPortBeside) {
  Wire wire;
  Router router(WithAPortBeside(), kOwnMac, wire);
  const Frame forged = BytesOf(
      "udp 10.1.0.9:1 > 192.0.2.9:2 src=02:00:00:00:00:bb "
      "dst=02:00:00:00:00:aa");
  EXPECT_THAT(router.Take(kStart, forged), IsEmpty());
  EXPECT_EQ(router.counts()[RouterCount::kOwnSource], 1u);
}

TEST(RouterBeside, TellsHowWellItsRoutesFit) {
  Wire wire;
  Router router(*RouterConfig::Parse(kOptions), kOwnMac, wire);
  const auto length = [&](const std::string& text) {
    const auto found = router.RouteLength(BytesOf(text));
    return found.has_value() ? int{*found} : -1;
  };
  EXPECT_EQ(length("udp 9.9.9.9:1 > 10.1.0.9:2"), 96 + 24);
  EXPECT_EQ(length("udp 9.9.9.9:1 > 10.8.1.2:2"), 96 + 16);
  EXPECT_EQ(length("udp 9.9.9.9:1 > 192.0.2.9:2"), 96);
  EXPECT_EQ(length("udp 9.9.9.9:1 > 10.1.0.1:2"), 128);  // its own
  EXPECT_EQ(length("udp 9.9.9.9:1 > 10.1.0.5:2"), 128);  // answered for
  EXPECT_EQ(length("udp [fd02::9]:1 > [fd01::9]:2"), 64);
  EXPECT_EQ(length("udp [fd01::9]:1 > [fd02::9]:2"), -1);
  EXPECT_EQ(length("frame x'0200000000aa 020000000009 88b5 0000'"), -1);
}

// --- Several processes with the same addresses

TEST_F(RouterTest, HearsQuestionsThatAnotherProcessAnswers) {
  const IpAddress host = V4(10, 1, 0, 9);
  Send("udp 192.0.2.9:53 > 10.1.0.9:5000");  // waits, and is asked for
  wire.own.clear();
  wire.answers = false;
  Say(host, V4(10, 1, 0, 1), true);
  Say(Ip6("fd01::9"), Ip6("fd01::1"), true);
  EXPECT_TRUE(wire.own.empty());
  EXPECT_EQ(wire.routed.size(), 1u);
  EXPECT_EQ(count(RouterCount::kArpLearned), 1u);
  EXPECT_EQ(count(RouterCount::kArpAnswered), 0u);
  EXPECT_EQ(count(RouterCount::kNdIgnored), 1u);
  wire.answers = true;
  Say(host, V4(10, 1, 0, 1), true);
  EXPECT_EQ(wire.own.size(), 1u);
}

TEST_F(RouterTest, AsksForNoneThatItsPredecessorKnows) {
  for (const char* const packet : {"udp 192.0.2.9:53 > 10.1.0.9:5000",
                                   "udp [fd02::9]:53 > [fd01::9]:5000"}) {
    Send(packet);
  }
  Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), false);
  EXPECT_EQ(router.TakeNews(now), NeighbourNews::kKnown);
  Say(Ip6("fd01::9"), Ip6("fd01::1"), false);
  EXPECT_EQ(wire.routed.size(), 2u);
  Wire other_wire;
  Router other(*RouterConfig::Parse(kOptions), kOwnMac, other_wire);
  now = now + Seconds(10);
  router.TellKnown(now, [&](std::span<const std::byte> frame, Nanos age) {
    EXPECT_EQ(age, Seconds(10));
    other.Overhear(now + Nanos{-age.ns}, frame, NeighbourNews::kKnown);
  });
  other.Send(now, BytesOf("udp 192.0.2.9:53 > 10.1.0.9:5001"));
  other.Send(now, BytesOf("udp [fd02::9]:53 > [fd01::9]:5001"));
  EXPECT_EQ(other_wire.routed.size(), 2u);
  EXPECT_TRUE(other_wire.own.empty());
  // After half a minute without news, it asks, at the known address.
  other.Send(now + Seconds(20), BytesOf("udp 192.0.2.9:53 > 10.1.0.9:5001"));
  EXPECT_EQ(other_wire.routed.size(), 3u);
  ASSERT_EQ(other_wire.own.size(), 1u);
  EXPECT_TRUE(
      std::ranges::equal(std::span(other_wire.own[0]).first(6), kHostMac));
}

TEST_F(RouterTest, LearnsFromAnswersThatItsPredecessorGets) {
  Wire other_wire;
  Router other(*RouterConfig::Parse(kOptions), kOwnMac, other_wire);
  other.Send(now, BytesOf("udp 192.0.2.9:53 > 10.1.0.9:5001"));
  EXPECT_TRUE(other_wire.routed.empty() && other.has_waiting());
  const NeighbourFrame answer = NeighbourFrame::Answer(
      {.address = V4(10, 1, 0, 9), .mac = kHostMac},
      {.address = V4(10, 1, 0, 1), .mac = kOwnMac}, false);
  router.Take(now, answer.bytes());
  EXPECT_EQ(router.TakeNews(now), NeighbourNews::kHeard);
  EXPECT_EQ(router.TakeNews(now), NeighbourNews::kNone);
  other_wire.own.clear();
  other.Overhear(now, answer.bytes(), NeighbourNews::kHeard);
  EXPECT_EQ(other_wire.routed.size(), 1u);
  EXPECT_FALSE(other.has_waiting());
  // Claims of hosts that get no packets make no entry.
  Wire third_wire;
  Router third(*RouterConfig::Parse(kOptions), kOwnMac, third_wire);
  third.Overhear(now, answer.bytes(), NeighbourNews::kHeard);
  third.Send(now, BytesOf("udp 192.0.2.9:53 > 10.1.0.9:5001"));
  EXPECT_TRUE(third_wire.routed.empty());
  // Packets are no news, and questions that are overheard are not answered.
  Take(std::string("udp 10.1.0.9:5000 > 192.0.2.9:53") + kToRouter);
  EXPECT_EQ(router.TakeNews(now), NeighbourNews::kNone);
  other.Overhear(
      now,
      NeighbourFrame::Question({.address = V4(10, 1, 0, 9), .mac = kHostMac},
                               V4(10, 1, 0, 1), std::nullopt)
          .bytes(),
      NeighbourNews::kHeard);
  EXPECT_TRUE(other_wire.own.empty());
}

TEST_F(RouterTest, LimitsItsNewsOfNeighboursAndCountsOthers) {
  constexpr int kStorm = 2'500;
  const auto told = [this] {
    int news = 0;
    for (int i = 0; i < kStorm; ++i) {
      Say(V4(10, 1, 0, 9), V4(10, 1, 0, 1), i % 2 == 0);
      news += router.TakeNews(now) != NeighbourNews::kNone ? 1 : 0;
    }
    return news;
  };
  EXPECT_EQ(told(), Router::kNewsPerSecond);
  EXPECT_EQ(count(RouterCount::kNewsLimited), 500u);
  // Packets are no news, and take nothing of the limit.
  for (int i = 0; i < kStorm; ++i) {
    Take(std::string("udp 10.1.0.9:5000 > 192.0.2.9:53") + kToRouter);
    EXPECT_EQ(router.TakeNews(now), NeighbourNews::kNone);
  }
  now = now + Seconds(1);
  EXPECT_EQ(told(), Router::kNewsPerSecond);
  EXPECT_EQ(count(RouterCount::kNewsLimited), 1'000u);
}

struct AdvertisingFixture : Fixture {
  AdvertisingFixture() : Fixture(",address=fd01::1/64,ra=on") {}
  uint64_t sent() const { return count(RouterCount::kAdvertisements); }
};
using AdvertisingRouterTest = AdvertisingFixture;

TEST_F(AdvertisingRouterTest, IsSilentWhileAnotherProcessAdvertises) {
  router.LeaveAdvertising();
  for (int i = 0; i < 30; ++i) router.Tick(now = now + Seconds(1));
  router.TakeLeave();
  EXPECT_EQ(sent(), 0u);
  router.TakeOverAdvertising(now);
  router.Tick(now + Seconds(2));
  EXPECT_EQ(sent(), 0u);
  router.Tick(now + Seconds(3));
  EXPECT_EQ(sent(), 1u);
  router.TakeLeave();
  EXPECT_EQ(sent(), 2u);
}

TEST_F(AdvertisingRouterTest, TakesLeaveForTheProcessBefore) {
  router.LeaveAdvertising();
  router.TakeOverAdvertising(now);
  router.TakeLeave();
  EXPECT_EQ(sent(), 1u);
}

}  // namespace
}  // namespace snf
