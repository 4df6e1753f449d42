// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/router_advertisement.h"

#include <set>
#include <vector>

#include "base/byte_order.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/test_packet_text.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/ports/router/neighbour_messages.h"
#include "platform/ports/router/router.h"

namespace snf {
namespace {

using Frame = std::vector<std::byte>;

constexpr Instant kBegin = {1'000'000'000'000};
constexpr MacAddress kRouterMac = {std::byte{2}, {}, {},
                                   {},           {}, std::byte{0xaa}};
constexpr MacAddress kAskerMac = {std::byte{2}, {}, {}, {}, {}, std::byte{9}};
constexpr size_t kIcmpAt = 14 + 40;
constexpr Nanos kTick = Milliseconds(100);
constexpr const char* kAdvertising =
    ",address=10.1.0.1/24,address=fd01::1/64,address=fd01::2/64"
    ",address=fd02::1/56,ra=on";

Nanos AndATick(Nanos time) { return {time.ns + kTick.ns}; }

// Returns the times at which it advertises by itself, as from ticks.
std::vector<Instant> TimesOf(AdvertisementTimes& times, Instant begin,
                             Nanos span) {
  std::vector<Instant> sent;
  for (Instant now = begin; now < begin + span; now = now + kTick) {
    if (times.IsDue(now)) sent.push_back(now);
  }
  return sent;
}

TEST(AdvertisementTimes, GoOnAfterAnotherProcessAsAtTheBeginning) {
  AdvertisementTimes times{Rng(1)};
  times.TakeOver(kBegin);
  times.on_question(kBegin);
  const std::vector<Instant> sent = TimesOf(times, kBegin, Seconds(40));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0], kBegin + AdvertisementTimes::kLeastBetween);
}

TEST(AdvertisementTimes, AreThreeSoonAndThenEachSomeMinutes) {
  std::set<int64_t> initial;
  for (const uint64_t seed : TestSeeds(20).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    AdvertisementTimes times{Rng(seed)};
    const std::vector<Instant> sent = TimesOf(times, kBegin, Seconds(3'000));
    ASSERT_GE(sent.size(), 3u + 4u);
    EXPECT_EQ(sent[0], kBegin);
    for (size_t i = 1; i < sent.size(); ++i) {
      const Nanos between = sent[i] - sent[i - 1];
      if (i < AdvertisementTimes::kInitial) {
        EXPECT_LE(between, AndATick(AdvertisementTimes::kMostInitial)) << i;
        initial.insert(between.ns);
      } else {
        EXPECT_GE(between, AdvertisementTimes::kLeast) << i;
        EXPECT_LE(between, AndATick(AdvertisementTimes::kMost)) << i;
      }
    }
  }
  EXPECT_GT(initial.size(), 1u);  // routers of one link do not keep step
}

TEST(AdvertisementTimes, AnswerSoonButNotTwiceWithinThreeSeconds) {
  for (const uint64_t seed : TestSeeds(20).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    AdvertisementTimes times{Rng(seed)};
    Instant now = kBegin;
    TimesOf(times, now, Seconds(60));
    now = kBegin + Seconds(60);
    times.on_question(now);
    times.on_question(now);
    const std::vector<Instant> first = TimesOf(times, now, Seconds(1));
    ASSERT_EQ(first.size(), 1u);
    EXPECT_LE(first[0] - now, AndATick(AdvertisementTimes::kMostDelay));
    // A flood of questions.
    std::vector<Instant> sent = first;
    for (now = now + Seconds(1); now < kBegin + Seconds(90);
         now = now + Milliseconds(10)) {
      times.on_question(now);
      if (times.IsDue(now)) sent.push_back(now);
    }
    ASSERT_GE(sent.size(), 8u);
    EXPECT_LE(sent.size(), 11u);
    for (size_t i = 1; i < sent.size(); ++i) {
      EXPECT_GE(sent[i] - sent[i - 1], AdvertisementTimes::kLeastBetween);
    }
  }
}

be16 SumOf(std::span<const std::byte> frame) {
  const auto ip = Ipv6Header<const std::byte>::At(frame, 14);
  return L4Checksum(ip.source(), ip.destination(), IpProtocol::kIcmpv6,
                    frame.subspan(kIcmpAt));
}

TEST(AdvertisementFrame, TellsDnsServersAndThatTheyEnd) {
  const RouterConfig config =
      RouterConfig::Parse(
          ",address=fd01::1/64,ra=on,dns=fd01::53,dns=2001:db8::1")
          ->Completed(kRouterMac);
  for (const bool ends : {false, true}) {
    const AdvertisementFrame frame(config, kRouterMac, 0, ends);
    EXPECT_EQ(SumOf(frame.bytes()), be16(0));
    const auto option = frame.bytes().last(8 + 2 * 16);
    EXPECT_EQ(option[0], std::byte{25});
    EXPECT_EQ(option[1], std::byte{5});
    EXPECT_EQ(LoadBe32(&option[4]), be32(ends ? 0 : 1'800));
    EXPECT_EQ(TextOf(LoadAs<IpAddress>(&option[8])), "fd01::53");
    EXPECT_EQ(TextOf(LoadAs<IpAddress>(&option[24])), "2001:db8::1");
  }
}

TEST(AdvertisementFrame, TellsLinkAddressMtuAndNetworks) {
  const RouterConfig config =
      RouterConfig::Parse(kAdvertising)->Completed(kRouterMac);
  const AdvertisementFrame frame(config, kRouterMac, 1'400, false);
  const auto bytes = frame.bytes();
  const auto ip = Ipv6Header<const std::byte>::At(bytes, 14);
  EXPECT_EQ(ip.hop_limit(), 255);
  EXPECT_EQ(TextOf(ip.source()), "fe80::ff:fe00:aa");
  EXPECT_EQ(TextOf(ip.destination()), "ff02::1");
  EXPECT_EQ(ip.payload_bytes(), bytes.size() - kIcmpAt);
  EXPECT_EQ(SumOf(bytes), be16(0));
  const auto icmp = bytes.subspan(kIcmpAt);
  EXPECT_EQ(icmp[0], std::byte{134});
  EXPECT_EQ(LoadBe16(&icmp[6]), be16(1'800));
  // The own link address, the MTU, and each network once.
  ASSERT_EQ(icmp.size(), 16u + 8 + 8 + 2 * 32);
  EXPECT_EQ(LoadBe16(&icmp[16]), be16(0x0101));
  EXPECT_EQ(icmp[23], std::byte{0xaa});
  EXPECT_EQ(LoadBe16(&icmp[24]), be16(0x0501));
  EXPECT_EQ(LoadBe32(&icmp[28]), be32(1'400));
  // fd01::/64, from which hosts take addresses, and fd02::/56, from which not.
  EXPECT_EQ(LoadBe32(&icmp[32]), be32(0x0304'40c0));
  EXPECT_EQ(LoadBe32(&icmp[36]), be32(2'592'000));
  EXPECT_EQ(LoadBe32(&icmp[40]), be32(604'800));
  EXPECT_EQ(TextOf(LoadAs<IpAddress>(&icmp[48])), "fd01::");
  EXPECT_EQ(LoadBe32(&icmp[64]), be32(0x0304'3880));
  EXPECT_EQ(TextOf(LoadAs<IpAddress>(&icmp[80])), "fd02::");
}

TEST(AdvertisementFrame, TellsNoMtuThatIpv6LacksAndItsEnd) {
  const RouterConfig config =
      RouterConfig::Parse(",address=fe80::7/64,address=fd01::1/64,ra=on")
          ->Completed(kRouterMac);
  EXPECT_EQ(config.addresses.size(), 2u);
  const AdvertisementFrame frame(config, kRouterMac, 1'279, true);
  const auto icmp = frame.bytes().subspan(kIcmpAt);
  EXPECT_EQ(icmp.size(), 16u + 8 + 32);
  EXPECT_EQ(LoadBe16(&icmp[6]), be16(0));
  EXPECT_EQ(SumOf(frame.bytes()), be16(0));
  EXPECT_EQ(TextOf(Ipv6Header<const std::byte>::At(frame.bytes(), 14).source()),
            "fe80::7");
}

// A solicitation of a host, with its link address as an option or not.
Frame Question(const IpAddress& from, bool with_mac) {
  const size_t icmp_bytes = with_mac ? 16 : 8;
  Frame frame(kIcmpAt + icmp_bytes);
  IpAddress routers = AllNodes();
  routers.bytes[15] = std::byte{2};
  std::ranges::copy(MacOfGroup(routers), frame.begin());
  std::ranges::copy(kAskerMac, frame.begin() + 6);
  Store(&frame[12], be16(0x86dd));
  frame[14] = std::byte{0x60};
  const auto ip = Ipv6Header<std::byte>::At(std::span(frame), 14);
  ip.set_payload_bytes(static_cast<uint16_t>(icmp_bytes));
  frame[14 + 6] = std::byte{58};
  ip.set_hop_limit(255);
  ip.set_source(from);
  ip.set_destination(routers);
  frame[kIcmpAt] = std::byte{133};
  if (with_mac) {
    Store(&frame[kIcmpAt + 8], be16(0x0101));
    std::ranges::copy(kAskerMac, &frame[kIcmpAt + 10]);
  }
  Store(&frame[kIcmpAt + 2], SumOf(frame));
  return frame;
}

IpAddress HostAddress() {
  return RouterConfig::Parse(",address=fe80::9/64")->addresses[0].address;
}

TEST(RouterQuestion, IsReadOrRefused) {
  const auto question = ReadRouterQuestion(Question(HostAddress(), true));
  ASSERT_TRUE(question.has_value());
  EXPECT_EQ(question->sender, HostAddress());
  EXPECT_EQ(question->mac, kAskerMac);
  EXPECT_TRUE(ReadRouterQuestion(Question({}, false)).has_value());
  // A host without an address has said a link address.
  EXPECT_FALSE(ReadRouterQuestion(Question({}, true)).has_value());
  EXPECT_FALSE(ReadRouterQuestion(Question(AllNodes(), false)).has_value());
  const Frame right = Question(HostAddress(), true);
  for (const size_t at : {size_t{21}, kIcmpAt + 1, kIcmpAt + 2, kIcmpAt + 9}) {
    Frame wrong = right;
    wrong[at] ^= std::byte{1};
    EXPECT_FALSE(ReadRouterQuestion(wrong).has_value()) << at;
  }
  for (size_t size = 0; size < right.size(); ++size) {
    EXPECT_FALSE(ReadRouterQuestion(std::span(right).first(size)).has_value())
        << size;
  }
}

// Keeps the frames of the router's own.
struct OwnFrames final : RouterWire {
  void SendRouted(std::span<const std::byte> /*frame*/) override { ++routed; }
  void SendRoutedMerged(std::span<const std::byte> /*frame*/,
                        uint16_t /*segment_bytes*/) override {}
  void SendOwn(std::span<const std::byte> frame) override {
    if (frame.size() > kIcmpAt && frame[kIcmpAt] == std::byte{134}) {
      advertised.emplace_back(frame.begin(), frame.end());
    }
  }
  bool ReturnToChain(std::span<const std::byte> /*frame*/) override {
    return true;
  }
  std::vector<Frame> advertised;
  int routed = 0;
};

TEST(RouterAdvertisement, IsSentAtTheBeginningAfterAQuestionAndAtTheEnd) {
  OwnFrames wire;
  Router router(*RouterConfig::Parse(kAdvertising), kRouterMac, wire);
  router.set_mtu(1'500);
  Instant now = kBegin;
  router.Tick(now);
  ASSERT_EQ(wire.advertised.size(), 1u);
  now = now + Seconds(3);
  router.Tick(now);
  const size_t before = wire.advertised.size();
  router.Take(now, Question(HostAddress(), true));
  router.Take(now, Question({}, true));
  for (int i = 0; i < 50; ++i) router.Tick(now = now + Milliseconds(100));
  EXPECT_GT(wire.advertised.size(), before);
  EXPECT_EQ(router.counts()[RouterCount::kNdAnswered], 1u);
  EXPECT_EQ(router.counts()[RouterCount::kNdMalformed], 1u);
  router.TakeLeave();
  EXPECT_EQ(LoadBe16(&wire.advertised.front()[kIcmpAt + 6]), be16(1'800));
  EXPECT_EQ(LoadBe16(&wire.advertised.back()[kIcmpAt + 6]), be16(0));
  EXPECT_EQ(router.counts()[RouterCount::kAdvertisements],
            wire.advertised.size());
}

// A packet waits for a host that only the other process hears.
TEST(RouterQuestion, TeachesTheProcessThatDoesNotAdvertise) {
  const IpAddress host =
      RouterConfig::Parse(",address=fd01::9/64")->addresses[0].address;
  const auto packet = ParsePacket("udp [fd02::9]:53 > [fd01::9]:5001");
  ASSERT_TRUE(packet.ok());
  OwnFrames wire, next_wire;
  Router router(*RouterConfig::Parse(kAdvertising), kRouterMac, wire);
  Router next(*RouterConfig::Parse(kAdvertising), kRouterMac, next_wire);
  next.LeaveAdvertising();
  next.Send(kBegin, packet->bytes);
  EXPECT_EQ(next_wire.routed, 0);
  router.Take(kBegin, Question(host, true));
  const NeighbourNews news = router.TakeNews(kBegin);
  EXPECT_EQ(news, NeighbourNews::kHeard);
  next.Overhear(kBegin, Question(host, true), news);
  EXPECT_EQ(next_wire.routed, 1);
  EXPECT_TRUE(next_wire.advertised.empty());
  // Each process at a shared interface learns, and one answers.
  OwnFrames beside_wire;
  Router beside(*RouterConfig::Parse(kAdvertising), kRouterMac, beside_wire);
  beside.LeaveAdvertising();
  beside.Send(kBegin, packet->bytes);
  beside.Take(kBegin, Question(host, true));
  EXPECT_EQ(beside_wire.routed, 1);
  beside.Take(kBegin, Question(host, false));
  EXPECT_EQ(beside.counts()[RouterCount::kNdLearned], 1u);
  EXPECT_EQ(beside.counts()[RouterCount::kNdIgnored], 1u);
  EXPECT_EQ(beside.counts()[RouterCount::kNdAnswered], 0u);
}

TEST(RouterAdvertisement, IsNotSentUnlessTheConfigSaysSo) {
  OwnFrames wire;
  Router router(*RouterConfig::Parse(",address=fd01::1/64"), kRouterMac, wire);
  router.Take(kBegin, Question(HostAddress(), true));
  for (int i = 0; i < 50; ++i) router.Tick(kBegin + Seconds(i));
  router.TakeLeave();
  EXPECT_TRUE(wire.advertised.empty());
  EXPECT_EQ(router.counts()[RouterCount::kNdIgnored], 1u);
}

}  // namespace
}  // namespace snf
