// SPDX-License-Identifier: Apache-2.0
#include "base/packet/classifier.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/packet/flow_key_text.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

const IpAddress kClient = V4(10, 0, 0, 1);
const IpAddress kServer = V4(192, 0, 2, 9);
const IpAddress kRouter = V4(198, 51, 100, 1);

// Shows a packet's key and direction as text: "reverse udp …".
class Shown {
 public:
  explicit Shown(const FlowClassifier::Options& options)
      : classifier_(options) {}

  std::string operator()(const Frame& frame, LinkType link = LinkType::kRawIp,
                         Instant now = {}) {
    ParsedPacket packet;
    FlowKey key;
    switch (classifier_.Classify(now, link, frame, packet, key)) {
      case Direction::kNone:
        return "none";
      case Direction::kForward:
        return ToString(key);
      case Direction::kReverse:
        return "reverse " + ToString(key);
    }
    return "?";
  }

  const ClassifierCounters& counters() const { return classifier_.counters(); }
  const FragmentTable& fragments() const { return classifier_.fragments(); }

 private:
  FlowClassifier classifier_;
};

Frame Request() { return Ipv4({}, Udp(5000, 53)); }
Frame Answer() {
  return Ipv4({.source = kServer, .destination = kClient}, Udp(53, 5000));
}

TEST(FlowClassifier, GivesBothDirectionsOfAConnectionOneKey) {
  Shown shown({});
  EXPECT_EQ(shown(Request()), "udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(shown(Answer()), "reverse udp 10.0.0.1:5000 > 192.0.2.9:53");
}

TEST(FlowClassifier, GivesEachDirectionItsFiveTuple) {
  Shown shown({.kind = FlowKeyKind::k5Tuple});
  EXPECT_EQ(shown(Request()), "udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(shown(Answer()), "udp 192.0.2.9:53 > 10.0.0.1:5000");
  EXPECT_EQ(shown(Ipv4({.protocol = 1}, Icmp(8, 0, 77, {}))),
            "icmp 10.0.0.1 > 192.0.2.9");
}

TEST(FlowClassifier, GivesTwoHostsOneThreeTuple) {
  Shown shown({.kind = FlowKeyKind::k3Tuple});
  EXPECT_EQ(shown(Request()), "udp 10.0.0.1 > 192.0.2.9");
  EXPECT_EQ(shown(Answer()), "reverse udp 10.0.0.1 > 192.0.2.9");
  EXPECT_EQ(shown(Ipv4({.fragment_offset_bytes = 8}, Frame(8))),
            "udp 10.0.0.1 > 192.0.2.9");
  EXPECT_EQ(
      shown(Ipv4({.source = kRouter, .destination = kClient, .protocol = 1},
                 Icmp(11, 0, 0, Request()))),
      "reverse udp 10.0.0.1 > 192.0.2.9");
  EXPECT_EQ(shown.counters().fragments_unmatched, 0u);
}

TEST(FlowClassifier, GivesQueriesTheirIdentifier) {
  Shown shown({});
  EXPECT_EQ(shown(Ipv4({.protocol = 1}, Icmp(8, 0, 77, {}))),
            "icmp 10.0.0.1:77 > 192.0.2.9:77");
  EXPECT_EQ(
      shown(Ipv4({.source = kServer, .destination = kClient, .protocol = 1},
                 Icmp(0, 0, 77, {}))),
      "reverse icmp 10.0.0.1:77 > 192.0.2.9:77");
  EXPECT_EQ(shown(Ipv6({.next_header = 58}, Icmp(128, 0, 78, {}))),
            "icmp6 [2001:db8::1]:78 > [2001:db8::9]:78");
}

TEST(FlowClassifier, TellsVlansApartOnlyIfAsked) {
  const auto tagged = [](uint16_t id) {
    return Ethernet(0x8100, Vlan(id, 0x0800, Request()));
  };
  Shown apart({.vlan = true}), together({});
  EXPECT_EQ(apart(tagged(7), LinkType::kEthernet),
            "vlan 7 udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(apart(tagged(8), LinkType::kEthernet),
            "vlan 8 udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(together(tagged(7), LinkType::kEthernet),
            together(tagged(8), LinkType::kEthernet));
}

TEST(FlowClassifier, GivesAnErrorToTheConnectionItQuotes) {
  Shown shown({});
  const auto error = [](const Frame& quoted) {
    return Ipv4({.source = kRouter, .destination = kClient, .protocol = 1},
                Icmp(11, 0, 0, quoted));
  };
  Frame cut = Request();
  cut.resize(28);
  EXPECT_EQ(shown(error(cut)), "reverse udp 10.0.0.1:5000 > 192.0.2.9:53");
  // An error about the answer goes to the server.
  EXPECT_EQ(shown(error(Answer())), "udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(shown(error(Ipv4({.protocol = 1}, Icmp(8, 0, 77, {})))),
            "reverse icmp 10.0.0.1:77 > 192.0.2.9:77");
  EXPECT_EQ(shown.counters().icmp_errors_matched, 3u);
}

TEST(FlowClassifier, GivesAnIpv6ErrorToTheConnectionItQuotes) {
  Shown shown({});
  EXPECT_EQ(shown(Ipv6({.source = Ipv6Fields::Address("fe80::1"),
                        .destination = Ipv6Fields::Address("2001:db8::1"),
                        .next_header = 58},
                       Icmp(2, 0, 0, Ipv6({.next_header = 6}, Tcp(5000, 80))))),
            "reverse tcp [2001:db8::1]:5000 > [2001:db8::9]:80");
}

TEST(FlowClassifier, LooksNoDeeperThanTheQuotedPacket) {
  Shown shown({});
  const Frame inner_error = Ipv4({.protocol = 1}, Icmp(3, 0, 0, Request()));
  EXPECT_EQ(shown(Ipv4({.source = kRouter, .protocol = 1},
                       Icmp(3, 0, 0, inner_error))),
            "reverse icmp 10.0.0.1 > 192.0.2.9");
}

TEST(FlowClassifier, GivesAnErrorWithoutReadableQuoteItsOwnKey) {
  Shown shown({});
  for (const Frame& quote : {Frame{}, Frame(8), Hex("45 00 00 1c")}) {
    EXPECT_EQ(shown(Ipv4({.protocol = 1}, Icmp(3, 3, 0, quote))),
              "icmp 10.0.0.1 > 192.0.2.9");
  }
  EXPECT_EQ(shown.counters().icmp_errors_matched, 0u);
}

// Returns the three fragments of one datagram, in IPv4 or in IPv6.
std::vector<Frame> Fragments(bool is_ipv6, uint16_t id) {
  const Frame first = Udp(5000, 53, 16), rest(24);
  if (!is_ipv6) {
    return {
        Ipv4({.id = id, .more_fragments = true}, first),
        Ipv4({.id = id, .fragment_offset_bytes = 24, .more_fragments = true},
             rest),
        Ipv4({.id = id, .fragment_offset_bytes = 48}, rest)};
  }
  const auto fragment = [&](uint16_t offset, bool more, const Frame& data) {
    return Ipv6({.next_header = 44}, Ipv6Fragment(17, offset, more, id, data));
  };
  return {fragment(0, true, first), fragment(24, true, rest),
          fragment(48, false, rest)};
}

TEST(FlowClassifier, GivesFragmentsBehindTheirFirstItsConnection) {
  Shown shown({});
  for (const Frame& fragment : Fragments(false, 7)) {
    EXPECT_EQ(shown(fragment), "udp 10.0.0.1:5000 > 192.0.2.9:53");
  }
  for (const Frame& fragment : Fragments(true, 7)) {
    EXPECT_EQ(shown(fragment), "udp [2001:db8::1]:5000 > [2001:db8::9]:53");
  }
  EXPECT_EQ(shown.counters().fragments_first, 2u);
  EXPECT_EQ(shown.counters().fragments_matched, 4u);
  EXPECT_EQ(shown.counters().fragments_unmatched, 0u);
}

TEST(FlowClassifier, KeepsTheDirectionOfFragments) {
  Shown shown({});
  const Ipv4Fields back{.source = kServer, .destination = kClient};
  Ipv4Fields first = back, later = back;
  first.more_fragments = true;
  later.fragment_offset_bytes = 16;
  EXPECT_EQ(shown(Ipv4(first, Udp(53, 5000))),
            "reverse udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(shown(Ipv4(later, Frame(8))),
            "reverse udp 10.0.0.1:5000 > 192.0.2.9:53");
}

TEST(FlowClassifier, HandlesFragmentsInEveryOrder) {
  for (const bool is_ipv6 : {false, true}) {
    const std::vector<Frame> fragments = Fragments(is_ipv6, 9);
    const std::string own = is_ipv6
                                ? "fragment 9 0 [2001:db8::1] > [2001:db8::9]"
                                : "fragment 9 udp 10.0.0.1 > 192.0.2.9";
    const std::string connection =
        is_ipv6 ? "udp [2001:db8::1]:5000 > [2001:db8::9]:53"
                : "udp 10.0.0.1:5000 > 192.0.2.9:53";
    std::vector<size_t> order = {0, 1, 2};
    do {
      Shown shown({});
      bool first_was_seen = false;
      for (const size_t i : order) {
        first_was_seen |= i == 0;
        EXPECT_EQ(shown(fragments[i]), first_was_seen ? connection : own);
      }
      const auto early = static_cast<uint64_t>(
          std::find(order.begin(), order.end(), size_t{0}) - order.begin());
      EXPECT_EQ(shown.counters().fragments_unmatched, early);
      EXPECT_EQ(shown.counters().fragments_matched, 2 - early);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(FlowClassifier, ForgetsFirstFragmentsAfterTheTimeout) {
  Shown shown({});
  const std::vector<Frame> fragments = Fragments(false, 7);
  shown(fragments[0]);
  EXPECT_EQ(shown(fragments[1], LinkType::kRawIp, Instant{} + Seconds(30)),
            "udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(shown(fragments[2], LinkType::kRawIp, Instant{} + Seconds(31)),
            "fragment 7 udp 10.0.0.1 > 192.0.2.9");
}

TEST(FlowClassifier, FollowsAnErrorAboutALaterFragment) {
  Shown shown({});
  const std::vector<Frame> fragments = Fragments(false, 7);
  shown(fragments[0]);
  EXPECT_EQ(
      shown(Ipv4({.source = kRouter, .destination = kClient, .protocol = 1},
                 Icmp(11, 1, 0, fragments[2]))),
      "reverse udp 10.0.0.1:5000 > 192.0.2.9:53");
}

TEST(FlowClassifier, FollowsTheFragmentsOfAnError) {
  Shown shown({});
  const Ipv4Fields error{
      .source = kRouter, .destination = kClient, .protocol = 1, .id = 3};
  Ipv4Fields first = error, later = error;
  first.more_fragments = true;
  later.fragment_offset_bytes = 40;
  EXPECT_EQ(shown(Ipv4(first, Icmp(3, 3, 0, Request()))),
            "reverse udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(shown(Ipv4(later, Frame(8))),
            "reverse udp 10.0.0.1:5000 > 192.0.2.9:53");
}

TEST(FlowClassifier, GivesPortsOfZeroWhereTheyWereCutOff) {
  Shown shown({});
  Frame cut = Request();
  cut.resize(23);
  EXPECT_EQ(shown(cut), "udp 10.0.0.1 > 192.0.2.9");
  EXPECT_EQ(shown.counters().count(ParseResult::kL4Truncated), 1u);
}

TEST(FlowClassifier, LetsWhatIsNotIpPassAndCountsIt) {
  Shown shown({});
  EXPECT_EQ(shown(Ethernet(0x0806, Frame(28)), LinkType::kEthernet), "none");
  EXPECT_EQ(shown(Hex("45 00")), "none");
  EXPECT_EQ(shown(Request()), "udp 10.0.0.1:5000 > 192.0.2.9:53");
  EXPECT_EQ(shown.counters().packets(), 3u);
  EXPECT_EQ(shown.counters().not_ip(), 2u);
  EXPECT_EQ(shown.counters().count(ParseResult::kIpTruncated), 1u);
}

TEST(FlowClassifier, SurvivesMutatedSamplesAndCountsThemAll) {
  const uint64_t seed = TestSeeds::One(42);
  Rng rng(seed);
  const std::vector<Sample> samples = AllSamples();
  FlowClassifier first({.fragments = {.capacity = 16}}), second = first;
  uint64_t keyed = 0;
  constexpr uint64_t kRounds = 100'000;
  for (uint64_t round = 0; round < kRounds; ++round) {
    Sample sample = samples[rng.Below(samples.size())];
    for (uint64_t edits = rng.Below(4); edits > 0; --edits) {
      const size_t at = rng.Below(std::min<size_t>(sample.frame.size(), 80));
      sample.frame[at] = static_cast<std::byte>(rng.Next());
    }
    const size_t size =
        sample.frame.size() -
        (rng.Chance(16'384) ? rng.Below(sample.frame.size()) : 0);
    const Frame frame(sample.frame.begin(),
                      sample.frame.begin() + static_cast<ptrdiff_t>(size));
    const Instant now{static_cast<int64_t>(round) * 100'000'000};
    ParsedPacket packet, again;
    FlowKey key, same;
    const Direction direction =
        first.Classify(now, sample.link, frame, packet, key);
    ASSERT_EQ(second.Classify(now, sample.link, frame, again, same), direction);
    ASSERT_EQ(packet, again);
    ASSERT_EQ(key, same);
    ASSERT_EQ(direction != Direction::kNone, packet.has_ip());
    keyed += packet.has_ip();
  }
  const ClassifierCounters& counters = first.counters();
  EXPECT_EQ(counters.packets(), kRounds);
  EXPECT_EQ(counters.packets() - counters.not_ip(), keyed);
  EXPECT_GT(counters.fragments_matched, 1'000u);
  EXPECT_GT(counters.fragments_unmatched, 1'000u);
  EXPECT_GT(counters.icmp_errors_matched, 1'000u);
  EXPECT_GT(first.fragments().evicted(), 10u);
}

}  // namespace
}  // namespace snf
