// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/steering.h"

#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/packet/classifier.h"
#include "base/packet/headers.h"
#include "base/packet/test_packets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/ports/host_bucket.h"
#include "runtime/sdk/nf_spec.h"
#include "traces/capture_reader.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

constexpr uint8_t kTcp = 6, kUdp = 17, kIcmp = 1, kIcmpv6 = 58;
constexpr char kNat[] = "nat(ip=198.51.100.1)";
const IpAddress kHost = V4(10, 0, 0, 1), kPeer = V4(192, 0, 2, 9),
                kExternal = V4(198, 51, 100, 1);

// The programs of all of some controllers.
class All {
 public:
  explicit All(uint32_t count, const std::string& nf = "passthrough") {
    const auto spec = NfSpec::Parse(nf);
    const auto example = spec->create();
    for (uint32_t id = 0; id < count; ++id) {
      const auto steering = Steering::Of(*example, {.id = id, .count = count});
      EXPECT_TRUE(steering.ok()) << steering.status();
      steerings_.push_back(*steering);
      for (const Side side : {Side::kInside, Side::kOutside}) {
        ProgramsOf(side).push_back(steerings_.back()->Program(side));
      }
    }
  }

  std::vector<uint32_t> Takers(Side side, const Frame& frame) {
    std::vector<uint32_t> takers;
    const auto& programs = ProgramsOf(side);
    for (uint32_t c = 0; c < programs.size(); ++c) {
      if (Takes(programs[c], frame)) takers.push_back(c);
    }
    return takers;
  }
  // Fails unless it is one.
  uint32_t Of(Side side, const Frame& frame) {
    const std::vector<uint32_t> takers = Takers(side, frame);
    EXPECT_EQ(takers.size(), 1u);
    return takers.empty() ? ~0u : takers.front();
  }
  uint32_t Inside(const Frame& frame) { return Of(Side::kInside, frame); }
  uint32_t Outside(const Frame& frame) { return Of(Side::kOutside, frame); }

  const std::shared_ptr<const Steering>& steering(uint32_t c) const {
    return steerings_[c];
  }
  const std::vector<FilterStep>& program(Side side, uint32_t c) {
    return ProgramsOf(side)[c];
  }

 private:
  std::vector<std::vector<FilterStep>>& ProgramsOf(Side side) {
    return programs_[side == Side::kInside ? 0 : 1];
  }
  std::vector<std::shared_ptr<const Steering>> steerings_;
  std::array<std::vector<std::vector<FilterStep>>, 2> programs_;
};

Frame Between(const IpAddress& source, const IpAddress& destination,
              uint8_t protocol, const Frame& payload) {
  return Ethernet(
      0x0800,
      Ipv4({.source = source, .destination = destination, .protocol = protocol},
           payload));
}

// An ICMP error from somewhere about a packet.
Frame ErrorAbout(const Ipv4Fields& quoted, const Frame& payload,
                 const IpAddress& to) {
  Frame packet = Ipv4(quoted, payload);
  packet.resize(std::min<size_t>(packet.size(), 28));
  return Between(V4(203, 0, 113, 77), to, kIcmp, Icmp(3, 1, 0, packet));
}

Frame Arp(const IpAddress& sender, const IpAddress& target) {
  Frame arp = Hex("0001 0800 0604 0001");
  const auto add = [&arp](const IpAddress& address) {
    const Frame mac = Hex("020000000001");
    arp.insert(arp.end(), mac.begin(), mac.end());
    arp.insert(arp.end(), address.bytes.end() - 4, address.bytes.end());
  };
  add(sender);
  add(target);
  return Ethernet(0x0806, arp);
}

std::string ErrorOf(const std::string& text) {
  return std::string(ControllerOf::Parse(text).status().message());
}

TEST(ControllerOf, IsIOfN) {
  EXPECT_EQ(*ControllerOf::Parse("1/2"), (ControllerOf{.id = 1, .count = 2}));
  EXPECT_EQ(ControllerOf::Parse("15/16")->text(), "15/16");
  for (const char* text : {"", "1", "/", "1/", "/2", "a/2", "1/2x", "-1/2"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("is not of the form I/N")) << text;
  }
  EXPECT_THAT(ErrorOf("2/2"), HasSubstr("the last of 2 is controller 1"));
  EXPECT_THAT(ErrorOf("0/0"), HasSubstr("1 to 16 controllers"));
  EXPECT_THAT(ErrorOf("0/17"), HasSubstr("1 to 16 controllers"));
}

TEST(Steering, GivesEachHostToOneControllerByBothDirections) {
  for (uint32_t count = 1; count <= 16; ++count) {
    All all(count);
    std::vector<int> hosts(count);
    for (int i = 0; i < 2'000; ++i) {
      const IpAddress host = V4(10, 0, static_cast<uint8_t>(i / 250),
                                static_cast<uint8_t>(i % 250 + 1));
      const uint32_t owner =
          all.Inside(Between(host, kPeer, kTcp, Tcp(5'000, 80)));
      EXPECT_EQ(all.Outside(Between(kPeer, host, kTcp, Tcp(80, 5'000))), owner);
      EXPECT_EQ(all.Inside(Arp(host, kPeer)), owner);
      EXPECT_EQ(all.Outside(Arp(kPeer, host)), owner);
      ++hosts.at(owner);
    }
    // 256 buckets by chance: far from empty, and none has it all.
    EXPECT_GT(std::ranges::min(hosts), 2'000 / static_cast<int>(count) / 4);
    EXPECT_LT(std::ranges::max(hosts), 2'000 / static_cast<int>(count) * 2 + 1);
  }
}

TEST(Steering, MovesHostsOnlyToAControllerThatIsNew) {
  for (uint32_t count = 1; count < 16; ++count) {
    All before(count), after(count + 1);
    for (uint8_t i = 1; i < 250; ++i) {
      const Frame frame = Between(V4(10, 9, 8, i), kPeer, kUdp, Udp(5'000, 53));
      const uint32_t owner = after.Inside(frame);
      if (owner == count) continue;
      EXPECT_EQ(owner, before.Inside(frame));
    }
  }
}

// A frame from each of some hosts, to the outside.
std::vector<Frame> FramesOfHosts() {
  std::vector<Frame> frames;
  for (uint8_t i = 1; i < 250; ++i) {
    frames.push_back(Between(V4(10, 9, 8, i), kPeer, kUdp, Udp(5'000, 53)));
  }
  return frames;
}

// The controllers that take the frame while only some live.
std::vector<uint32_t> TakersAmong(All& all, MemberSet live, Side side,
                                  const Frame& frame) {
  std::vector<uint32_t> takers;
  for (uint32_t c = 0; c < 3; ++c) {
    const auto steering = all.steering(c)->Among(live);
    if (Takes(steering->Program(side), frame)) takers.push_back(c);
  }
  return takers;
}

TEST(Steering, OfADeadControllerHostsAndPortsBelongToALiveOne) {
  All all(3, kNat);
  std::vector<Frame> outside;
  for (uint16_t port = 1'024; port < 65'000; port += 500) {
    outside.push_back(Between(kPeer, kExternal, kUdp, Udp(53, port)));
  }
  outside.push_back(Ethernet(0x88cc, Hex("0102")));  // the rest
  for (MemberSet live = 0; live < 8; ++live) {
    const auto check = [&](Side side, const Frame& frame) {
      const auto takers = TakersAmong(all, live, side, frame);
      const uint32_t usual = all.Of(side, frame);
      if (live == 0) {
        EXPECT_TRUE(takers.empty());
      } else if (Has(live, usual)) {
        EXPECT_THAT(takers, testing::ElementsAre(usual));
      } else {
        ASSERT_EQ(takers.size(), 1u);
        EXPECT_TRUE(Has(live, takers.front()));
      }
    };
    for (const Frame& frame : FramesOfHosts()) check(Side::kInside, frame);
    for (const Frame& frame : outside) check(Side::kOutside, frame);
  }
}

TEST(Steering, LetsInNothingForWhoOwnsNothing) {
  All all(3, kNat);
  const Frame later = Ethernet(0x0800, Ipv4({.source = kPeer,
                                             .destination = kExternal,
                                             .fragment_offset_bytes = 1'480},
                                            Udp(53, 60'000)));
  EXPECT_TRUE(TakersAmong(all, 0, Side::kOutside, later).empty());
  EXPECT_EQ(TakersAmong(all, 0b101, Side::kOutside, later),
            (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(all.steering(1)->Among(0)->Program(Side::kOutside).size(), 1u);
}

TEST(Steering, ThePlaceOfAFrameSaysWhoTakesIt) {
  All all(3, kNat);
  const auto owners = Steering::OwnersAmong(0b101, 3);
  const Ipv4Fields later = {.source = kPeer,
                            .destination = kExternal,
                            .fragment_offset_bytes = 1'480};
  std::vector<Frame> frames = FramesOfHosts();
  for (uint16_t port = 1; port < 65'000; port += 500) {
    frames.push_back(Between(kPeer, kExternal, kTcp, Tcp(80, port)));
    frames.push_back(ErrorAbout({.source = kExternal, .destination = kPeer},
                                Udp(port, 53), kExternal));
  }
  frames.push_back(Arp(kHost, kPeer));
  frames.push_back(Ethernet(0x88cc, Hex("0102")));
  frames.push_back({});
  for (const Side side : {Side::kInside, Side::kOutside}) {
    const auto places = all.steering(0)->PlaceProgram(side);
    for (const Frame& frame : frames) {
      const uint32_t place = ResultOf(places, frame) - 1;
      ASSERT_LT(place, Steering::kPlaces);
      EXPECT_THAT(TakersAmong(all, 0b101, side, frame),
                  testing::ElementsAre(owners[place]));
    }
    const Frame fragment = Ethernet(0x0800, Ipv4(later, Udp(5'000, 53)));
    EXPECT_EQ(ResultOf(places, fragment) - 1 == Steering::kLaterFragment,
              side == Side::kOutside);
  }
}

TEST(Steering, ABucketIsKnownWithoutAFrame) {
  All all(3, kNat);
  const auto places = all.steering(0)->PlaceProgram(Side::kInside);
  for (uint8_t i = 1; i < 200; ++i) {
    const IpAddress host = V4(10, i, 1, i);
    const Frame frame = Between(host, kPeer, kUdp, Udp(5'000, 53));
    EXPECT_EQ(BucketOf(host, false), ResultOf(places, frame) - 1);
    Ipv6Fields fields = {.next_header = kUdp};
    fields.source.bytes[3] = fields.source.bytes[15] = std::byte{i};
    const Frame v6 = Ethernet(0x86dd, Ipv6(fields, Udp(1, 2)));
    EXPECT_EQ(BucketOf(fields.source, true), ResultOf(places, v6) - 1);
  }
}

// As hosts and routers say who they are, and ask.
std::vector<Frame> Discovery() {
  std::vector<Frame> frames = {Arp(kHost, kPeer), Arp(kPeer, kHost)};
  for (uint8_t type = 133; type <= 137; ++type) {
    for (uint8_t i = 1; i < 20; ++i) {
      Ipv6Fields fields = {.next_header = kIcmpv6};
      fields.source.bytes[15] = std::byte{i};
      const Frame body(i % 2 == 0 ? 0 : 16);
      frames.push_back(Ethernet(0x86dd, Ipv6(fields, Icmp(type, 0, 0, body))));
    }
  }
  return frames;
}

TEST(Steering, GivesAllRoutersDiscoveryAndOneOfThemTheRest) {
  All all(3, kNat);
  const auto takers = [&](Side side, const Frame& frame) {
    std::vector<uint32_t> found;
    for (uint32_t c = 0; c < 3; ++c) {
      if (Takes(all.steering(c)->Program(side, true), frame)) {
        found.push_back(c);
      }
    }
    return found;
  };
  std::vector<Frame> others = FramesOfHosts();
  others.push_back(Ethernet(0x88cc, Hex("0102")));
  others.push_back(Ethernet(0x0806, Hex("0001 0800 0604")));
  for (const int type : {2, 128, 129, 132, 138}) {
    others.push_back(Ethernet(
        0x86dd, Ipv6({.next_header = kIcmpv6},
                     Icmp(static_cast<uint8_t>(type), 0, 0, Frame(4)))));
  }
  for (const Side side : {Side::kInside, Side::kOutside}) {
    const auto places = all.steering(0)->PlaceProgram(side);
    for (const Frame& frame : Discovery()) {
      EXPECT_EQ(takers(side, frame), (std::vector<uint32_t>{0, 1, 2}));
      // The controller of the place answers.
      const uint32_t place = ResultOf(places, frame) - 1;
      ASSERT_LT(place, Steering::kPlaces);
      EXPECT_TRUE(all.steering(all.Of(side, frame))->Owns(place));
    }
    for (const Frame& frame : others) {
      EXPECT_EQ(takers(side, frame), all.Takers(side, frame));
    }
  }
}

TEST(Steering, KeepsFragmentsAndErrorsWithTheirHost) {
  All all(5);
  for (uint8_t i = 1; i < 100; ++i) {
    const IpAddress host = V4(10, 0, 1, i);
    const uint32_t owner =
        all.Inside(Between(host, kPeer, kUdp, Udp(5'000, 53)));
    for (const uint16_t offset : {uint16_t{0}, uint16_t{1'480}}) {
      const Ipv4Fields out = {.source = host,
                              .destination = kPeer,
                              .fragment_offset_bytes = offset,
                              .more_fragments = true};
      const Ipv4Fields back = {.source = kPeer,
                               .destination = host,
                               .fragment_offset_bytes = offset,
                               .more_fragments = true};
      EXPECT_EQ(all.Inside(Ethernet(0x0800, Ipv4(out, Udp(5'000, 53)))), owner);
      EXPECT_EQ(all.Outside(Ethernet(0x0800, Ipv4(back, Udp(53, 5'000)))),
                owner);
    }
    // A router outside quotes a packet of the host, a router inside a packet to
    // the host.
    EXPECT_EQ(all.Outside(ErrorAbout({.source = host, .destination = kPeer},
                                     Udp(5'000, 53), host)),
              owner);
    EXPECT_EQ(all.Inside(ErrorAbout({.source = kPeer, .destination = host},
                                    Udp(53, 5'000), kPeer)),
              owner);
  }
}

TEST(Steering, SeesIpv6AndBehindTags) {
  All all(7);
  for (uint8_t i = 1; i < 100; ++i) {
    Ipv6Fields out, back;
    out.source.bytes[15] = std::byte{i};
    back = {.source = out.destination, .destination = out.source};
    const uint32_t owner = all.Inside(Ethernet(0x86dd, Ipv6(out, Udp(1, 2))));
    EXPECT_EQ(all.Outside(Ethernet(0x86dd, Ipv6(back, Udp(2, 1)))), owner);
    EXPECT_EQ(
        all.Outside(Ethernet(
            0x86dd, Ipv6({.source = back.source,
                          .destination = back.destination,
                          .next_header = 44},
                         Ipv6Fragment(kUdp, 1'480, false, 7, Udp(2, 1))))),
        owner);
    // From a router, about a packet of either end.
    Ipv6Fields of_router = {.source = Ipv6Fields::Address("2001:db8::77"),
                            .destination = out.source,
                            .next_header = kIcmpv6};
    EXPECT_EQ(
        all.Outside(Ethernet(
            0x86dd, Ipv6(of_router, Icmp(2, 0, 0, Ipv6(out, Udp(1, 2)))))),
        owner);
    of_router.destination = out.destination;
    EXPECT_EQ(
        all.Inside(Ethernet(
            0x86dd, Ipv6(of_router, Icmp(2, 0, 0, Ipv6(back, Udp(2, 1)))))),
        owner);
    Frame tagged = Ipv6(out, Udp(1, 2));
    uint16_t type = 0x86dd;
    for (int tags = 0; tags < kMaxVlanTags; ++tags) {
      tagged = Vlan(7, type, tagged);
      type = tags % 2 == 0 ? 0x8100 : 0x88a8;
      EXPECT_EQ(all.Inside(Ethernet(type, tagged)), owner) << tags;
    }
    EXPECT_EQ(all.Inside(Ethernet(0x8100, Vlan(7, type, tagged))), 0u);
  }
}

TEST(Steering, GivesTheFirstOneWhatItCannotSee) {
  All all(3);
  const Frame ip = Ipv4({}, Udp(5'000, 53));
  for (const Side side : {Side::kInside, Side::kOutside}) {
    EXPECT_EQ(all.Of(side, Ethernet(0x88cc, Frame(50))), 0u);
    EXPECT_EQ(all.Of(side, Pppoe(0x0021, ip)), 0u);
    EXPECT_EQ(all.Of(side, Ethernet(0x8847, Mpls(1, true, ip))), 0u);
    EXPECT_EQ(all.Of(side, Ethernet(0x0800, Hex("6500"))), 0u);
    EXPECT_EQ(all.Of(side, Frame(3)), 0u);
  }
}

TEST(Steering, GoesByTheBlocksOfExternalAddresses) {
  All all(2, std::string("firewall | ") + kNat);
  for (const uint8_t protocol : {kTcp, kUdp}) {
    for (uint32_t port = 1'024; port < 65'536; port += 61) {
      const auto at = static_cast<uint16_t>(port);
      const uint32_t owner = port < 33'280 ? 0 : 1;
      const Frame to = protocol == kTcp ? Tcp(80, at) : Udp(53, at);
      EXPECT_EQ(all.Outside(Between(kPeer, kExternal, protocol, to)), owner)
          << port;
      EXPECT_EQ(
          all.Outside(ErrorAbout(
              {.source = kExternal, .destination = kPeer, .protocol = protocol},
              protocol == kTcp ? Tcp(at, 80) : Udp(at, 53), kExternal)),
          owner);
    }
  }
  for (const uint16_t id : {uint16_t{2'000}, uint16_t{60'000}}) {
    const uint32_t owner = id == 2'000 ? 0 : 1;
    EXPECT_EQ(
        all.Outside(Between(kPeer, kExternal, kIcmp, Icmp(0, 0, id, Frame(8)))),
        owner);
    EXPECT_EQ(
        all.Outside(ErrorAbout(
            {.source = kExternal, .destination = kPeer, .protocol = kIcmp},
            Icmp(8, 0, id, Frame(8)), kExternal)),
        owner);
  }
  // What no block has is one controller's to drop, whichever.
  const uint32_t other =
      all.Outside(Between(kPeer, kExternal, kTcp, Tcp(80, 80)));
  EXPECT_EQ(all.Outside(Between(kPeer, kExternal, 47, Frame(20))), other);
  // From the inside the host tells.
  EXPECT_EQ(all.Inside(Between(kHost, kExternal, kUdp, Udp(1, 60'000))),
            all.Inside(Between(kHost, kPeer, kUdp, Udp(1, 53))));
}

TEST(Steering, FindsPortsBehindOptions) {
  All all(2, kNat);
  for (size_t words = 0; words <= 10; ++words) {
    EXPECT_EQ(all.Outside(Ethernet(0x0800, Ipv4({.source = kPeer,
                                                 .destination = kExternal,
                                                 .option_words = words},
                                                Udp(53, 60'000)))),
              1u);
  }
}

TEST(Steering, LetsInLaterFragmentsWhereTheFirstIs) {
  All all(2, kNat);
  const auto fragment = [](uint16_t id, uint16_t offset) {
    return Ethernet(0x0800, Ipv4({.source = kPeer,
                                  .destination = kExternal,
                                  .id = id,
                                  .fragment_offset_bytes = offset,
                                  .more_fragments = offset == 0},
                                 Udp(53, 60'000)));
  };
  EXPECT_EQ(all.Outside(fragment(1, 0)), 1u);
  EXPECT_EQ(all.Takers(Side::kOutside, fragment(1, 1'480)).size(), 2u);
  FragmentGate first(all.steering(0), Side::kOutside);
  FragmentGate second(all.steering(1), Side::kOutside);
  const Instant now = {Seconds(1).ns};
  EXPECT_TRUE(second.LetsIn(fragment(1, 0), now));
  EXPECT_TRUE(second.LetsIn(fragment(1, 1'480), now));
  EXPECT_FALSE(first.LetsIn(fragment(1, 1'480), now));
  EXPECT_FALSE(second.LetsIn(fragment(2, 1'480), now));
  EXPECT_FALSE(second.LetsIn(fragment(1, 1'480), now + Seconds(31)));
  // What is not for the external address is whole, or its host's.
  FragmentGate inside(all.steering(0), Side::kInside);
  EXPECT_TRUE(inside.LetsIn(fragment(1, 1'480), now));
  EXPECT_TRUE(first.LetsIn(Between(kPeer, kExternal, kUdp, Udp(1, 2)), now));
  EXPECT_TRUE(
      FragmentGate(nullptr, Side::kOutside).LetsIn(fragment(1, 1'480), now));
}

TEST(Steering, RefusesWhatCannotBeSplit) {
  const auto spec = NfSpec::Parse("nat(ip=198.51.100.1,ports=1024-1100)");
  const auto refused =
      Steering::Of(*spec->create(), {.id = 0, .count = 8}).status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("8 controllers need at least 64 pieces"));
}

class Reader final : public NetworkFunction {
 public:
  explicit Reader(TableReader reader)
      : table_(declare_shared<uint64_t, uint64_t>("seen", 10, SumOfWords{},
                                                  reader)) {}
  Verdict process_packet(Packet& /*packet*/, FlowState& /*flow*/) override {
    return Verdict::forward();
  }

 private:
  SharedTable<uint64_t, uint64_t> table_;
};

TEST(Steering, RefusesTablesThatPacketsReadAndNoOthers) {
  const ControllerOf one = {.id = 0, .count = 2};
  EXPECT_TRUE(Steering::Of(Reader(TableReader::kReport), one).ok());
  EXPECT_THAT(
      std::string(
          Steering::Of(Reader(TableReader::kPacket), one).status().message()),
      HasSubstr("cannot run an NF whose packets read shared tables"));
}

TEST(Steering, IsTheSameForTheSameAddressesAndPorts) {
  const auto of = [](const std::string& nf) {
    return **Steering::Of(*NfSpec::Parse(nf)->create(), {.id = 1, .count = 2});
  };
  EXPECT_EQ(of(kNat), of(std::string("firewall | monitor | ") + kNat));
  EXPECT_NE(of(kNat), of("firewall"));
  EXPECT_NE(of(kNat), of("nat(ip=198.51.100.2)"));
  EXPECT_NE(of(kNat), of("nat(ip=198.51.100.1,ports=2048-65535)"));
}

// Frames as hostile hosts send them.
class Hostile {
 public:
  explicit Hostile(uint64_t seed) : random_(seed) {
    for (const Sample& sample : AllSamples()) {
      if (sample.link == LinkType::kEthernet) frames_.push_back(sample.frame);
    }
    for (const uint16_t port : {uint16_t{5'000}, uint16_t{40'000}}) {
      frames_.push_back(Between(kPeer, kExternal, kTcp, Tcp(80, port)));
      frames_.push_back(
          Between(kPeer, kExternal, kIcmp, Icmp(0, 0, port, Frame(8))));
      frames_.push_back(
          ErrorAbout({.source = kExternal}, Udp(port, 53), kExternal));
    }
  }
  Frame Next() {
    Frame frame = frames_[random_() % frames_.size()];
    for (uint64_t i = random_() % 4; i > 0 && !frame.empty(); --i) {
      frame[random_() % frame.size()] = static_cast<std::byte>(random_());
    }
    if (random_() % 4 == 0) frame.resize(random_() % (frame.size() + 1));
    return frame;
  }

 private:
  std::mt19937_64 random_;
  std::vector<Frame> frames_;
};

uint64_t SeedOfTest() {
  const uint64_t seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  return seed;
}

bool IsLaterFragmentToExternal(const Frame& frame) {
  const ParsedPacket packet = Parse(LinkType::kEthernet, frame);
  const auto ip = Ipv4Header<const std::byte>::At(frame, packet.l3_offset);
  return packet.l3 == L3::kIpv4 && ip.destination() == kExternal.ipv4() &&
         packet.fragment == Fragment::kLater;
}

TEST(Steering, GivesEachFrameToOneWhateverIsInIt) {
  Hostile hostile(SeedOfTest());
  All all(3, kNat);
  for (int i = 0; i < 200'000; ++i) {
    const Frame frame = hostile.Next();
    ASSERT_EQ(all.Takers(Side::kInside, frame).size(), 1u);
    const size_t takers = all.Takers(Side::kOutside, frame).size();
    if (takers != 1) {
      ASSERT_EQ(takers, 3u);
      ASSERT_FALSE(Parse(LinkType::kEthernet, frame).has_ip() &&
                   !IsLaterFragmentToExternal(frame));
    }
  }
}

// A pair of sockets, of which one has the program in front of it.
class Kernel {
 public:
  explicit Kernel(const std::vector<FilterStep>& program) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends_.data()),
              0);
    std::vector<sock_filter> steps;
    for (const FilterStep& step : program) {
      steps.push_back({step.code, step.if_true, step.if_false, step.value});
    }
    const sock_fprog attached = {static_cast<uint16_t>(steps.size()),
                                 steps.data()};
    EXPECT_EQ(setsockopt(ends_[0], SOL_SOCKET, SO_ATTACH_FILTER, &attached,
                         sizeof attached),
              0);
  }
  ~Kernel() {
    for (const int end : ends_) close(end);
  }
  bool Takes(const Frame& frame) {
    send(ends_[1], frame.data(), frame.size(), 0);
    std::array<char, 16> room{};
    return recv(ends_[0], room.data(), room.size(), 0) >= 0;
  }

 private:
  std::array<int, 2> ends_{};
};

TEST(Steering, TheKernelTakesTheSameFrames) {
  Hostile hostile(SeedOfTest());
  All all(2, kNat);
  for (const Side side : {Side::kInside, Side::kOutside}) {
    for (const uint32_t c : {0, 1}) {
      Kernel kernel(all.program(side, c));
      int taken = 0;
      for (int i = 0; i < 5'000; ++i) {
        const Frame frame = hostile.Next();
        const bool takes = Takes(all.program(side, c), frame);
        ASSERT_EQ(kernel.Takes(frame), takes);
        taken += takes ? 1 : 0;
      }
      EXPECT_GT(taken, 100);
    }
  }
}

// 256 addresses with gaps are the longest program that there is.
TEST(Steering, FitsIntoTheKernelWithMostAddressesAndControllers) {
  std::string addresses;
  for (int i = 0; i < 256; ++i) {
    addresses += (i == 0 ? "" : "+") + std::string("198.51.") +
                 std::to_string(i / 100) + "." + std::to_string(i % 100 * 2);
  }
  All all(16, "nat(ip=" + addresses + ")");
  const std::vector<FilterStep>& program = all.program(Side::kOutside, 15);
  EXPECT_LE(program.size(), 4'096u);
  Kernel kernel(program);
  EXPECT_TRUE(
      kernel.Takes(Between(kPeer, V4(198, 51, 2, 100), kTcp, Tcp(80, 65'000))));
  EXPECT_FALSE(
      kernel.Takes(Between(kPeer, V4(198, 51, 2, 100), kTcp, Tcp(80, 1'024))));
}

// Counts what it looked at.
int CheckCapture(const std::string& file, All& all) {
  auto reader = CaptureReader::Open(file);
  EXPECT_TRUE(reader.ok()) << reader.status();
  FlowClassifier classifier({});
  std::map<FlowKey, uint32_t> owners;
  int connections = 0;
  CapturedPacket packet;
  while ((*reader)->Next(packet) == ReadResult::kPacket) {
    if (packet.link != LinkType::kEthernet) continue;
    ParsedPacket parsed;
    FlowKey key;
    const Direction direction = classifier.Classify(packet.time, packet.link,
                                                    packet.bytes, parsed, key);
    const Frame frame(packet.bytes.begin(), packet.bytes.end());
    // The end that comes first in the key is inside.
    const Side side =
        direction == Direction::kReverse ? Side::kOutside : Side::kInside;
    const uint32_t owner = all.Of(side, frame);
    if (direction == Direction::kNone || !HasPorts(key.protocol)) continue;
    const auto [at, is_new] = owners.try_emplace(key, owner);
    connections += is_new ? 1 : 0;
    EXPECT_EQ(at->second, owner) << file;
  }
  return connections;
}

TEST(Steering, KeepsConnectionsOfRealCapturesTogether) {
  All all(4);
  int connections = CheckCapture("traces/small.pcap.zst", all);
  EXPECT_GT(connections, 100);
  const char* const named = std::getenv("SNF_TRACES");
  const std::string folder = named != nullptr ? named : "../shared/traces";
  std::error_code ignored;
  for (const auto& file :
       std::filesystem::directory_iterator(folder, ignored)) {
    const std::string path = file.path();
    if (path.find(".pcap") == path.npos) continue;
    connections += CheckCapture(path, all);
  }
  std::cout << connections << " connections\n";
}

}  // namespace
}  // namespace snf
