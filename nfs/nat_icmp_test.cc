// SPDX-License-Identifier: Apache-2.0
// Tests of ICMP through the NAT: queries, and errors about translated packets.
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "gtest/gtest.h"
#include "nfs/test_nat.h"

namespace snf {
namespace {

constexpr uint8_t kProtocols[] = {1, 6, 17};
const TestEnd kInside = {V4(10, 0, 0, 1), 5000};
const TestEnd kPeer = {V4(192, 0, 9, 9), 5001};
const TestEnd kExternal = {V4(192, 0, 2, 1), 2000};
const IpAddress kRouter = V4(203, 0, 113, 5);

// A NAT whose only external endpoint is kExternal, and a mapping to it.
struct Mapped {
  explicit Mapped(uint8_t protocol, const std::string& options = "")
      : nat("ports=2000-2000" + options),
        flow(nat.NewFlow()),
        sent(Between(protocol, kInside, kPeer)),
        translated(nat.FromInside(flow, sent).frame) {}
  TestNat nat;
  TestNat::Flow flow;
  Frame sent;
  Frame translated;
};

TEST(NatIcmp, TranslatesQueriesAndTheirAnswersByIdentifier) {
  for (const uint8_t request : {uint8_t{8}, uint8_t{13}}) {
    TestNat nat("ports=2000-2000");
    TestNat::Flow flow = nat.NewFlow();
    const auto out =
        nat.FromInside(flow, Between(1, kInside, kPeer, 0, request));
    EXPECT_EQ(out.frame, Between(1, kExternal, kPeer, 0, request));
    const uint8_t answer = request == 8 ? 0 : 14;
    const auto back =
        nat.FromOutside(flow, Between(1, kPeer, kExternal, 0, answer));
    EXPECT_EQ(back.frame, Between(1, kPeer, kInside, 0, answer));
  }
}

TEST(NatIcmp, FiltersAnswersByAddressWhereFilteringDependsOnIt) {
  for (const char* filtering : {",filtering=address_dependent",
                                ",filtering=address_and_port_dependent"}) {
    Mapped m(1, filtering);
    EXPECT_EQ(
        m.nat.FromOutside(m.flow, Between(1, kPeer, kExternal, 0, 0)).drop, "");
    EXPECT_EQ(
        m.nat.FromOutside(m.flow, Between(1, {kRouter, 0}, kExternal, 0, 0))
            .drop,
        "filtered");
  }
}

TEST(NatIcmp, MakesNoMappingForAnAnswer) {
  TestNat nat;
  TestNat::Flow flow = nat.NewFlow();
  EXPECT_EQ(nat.FromInside(flow, Between(1, kInside, kPeer, 0, 0)).drop,
            "no_mapping");
}

TEST(NatIcmp, DropsSourceQuenchAndInformationMessages) {
  Mapped m(1);
  const auto message = [](uint8_t type, TestEnd from, TestEnd to) {
    return WithChecksum(
        Ipv4({.source = from.address, .destination = to.address, .protocol = 1},
             Icmp(type, 0, from.port, Between(1, kExternal, kPeer))));
  };
  for (const uint8_t type : {uint8_t{4}, uint8_t{15}, uint8_t{16}}) {
    EXPECT_EQ(m.nat.FromInside(m.flow, message(type, kInside, kPeer)).drop,
              "icmp_type");
    EXPECT_EQ(m.nat.FromOutside(m.flow, message(type, kPeer, kExternal)).drop,
              "icmp_type");
  }
}

TEST(NatIcmp, BringsErrorsFromOutsideToTheSenderOfWhatTheyQuote) {
  for (const uint8_t protocol : kProtocols) {
    Mapped m(protocol);
    const auto in = m.nat.FromOutside(
        m.flow, ErrorAbout(m.translated, kRouter, kExternal.address));
    EXPECT_EQ(in.drop, "");
    EXPECT_EQ(in.frame, ErrorAbout(m.sent, kRouter, kInside.address));
    EXPECT_TRUE(HasGoodChecksums(in.frame));
  }
}

TEST(NatIcmp, GivesErrorsFromInsideTheExternalAddressWhoeverSentThem) {
  for (const uint8_t protocol : kProtocols) {
    for (const IpAddress& sender : {kInside.address, V4(10, 9, 9, 9)}) {
      Mapped m(protocol);
      const Frame came = Between(protocol, kPeer, kExternal, 0x10, 0);
      const Frame brought = m.nat.FromOutside(m.flow, came).frame;
      const auto out =
          m.nat.FromInside(m.flow, ErrorAbout(brought, sender, kPeer.address));
      EXPECT_EQ(out.drop, "");
      EXPECT_EQ(out.frame, ErrorAbout(came, kExternal.address, kPeer.address));
      EXPECT_TRUE(HasGoodChecksums(out.frame));
    }
  }
}

TEST(NatIcmp, BringsAHairpinnedErrorBack) {
  TestNat nat;
  const TestEnd a = {V4(10, 0, 0, 1), 5000}, b = {V4(10, 0, 0, 2), 6000};
  TestNat::Flow flow_a = nat.NewFlow(), flow_b = nat.NewFlow();
  const TestEnd external_b =
      SourceOf(nat.FromInside(flow_b, Between(17, b, kPeer)).frame);
  const Frame sent = Between(17, a, external_b);
  const Frame crossing = nat.FromInside(flow_a, sent).frame;
  const Frame brought = nat.FromOutside(flow_b, crossing).frame;
  const Frame error =
      ErrorAbout(brought, b.address, SourceOf(crossing).address);
  const auto back = nat.FromInside(flow_b, error);
  ASSERT_EQ(back.drop, "");
  const auto in = nat.FromOutside(flow_a, back.frame);
  EXPECT_EQ(in.frame, ErrorAbout(sent, external_b.address, a.address));
}

TEST(NatIcmp, ErrorsNeitherRefreshNorEndAMapping) {
  for (const uint8_t protocol : kProtocols) {
    Mapped m(protocol, ",refresh=both");
    const std::vector<std::byte> before = m.flow.record;
    const size_t notes = m.nat.notes.size();
    const Frame error = ErrorAbout(m.translated, kRouter, kExternal.address);
    EXPECT_EQ(m.nat.FromOutside(m.flow, error, Seconds(1)).drop, "");
    EXPECT_EQ(m.nat.FromOutside(m.flow, error, Seconds(8000)).drop,
              "mapping_expired");
    const Frame came = Between(protocol, kPeer, kInside, 0x10, 0);
    EXPECT_EQ(m.nat
                  .FromInside(m.flow,
                              ErrorAbout(came, kInside.address, kPeer.address),
                              Seconds(2))
                  .drop,
              "");
    EXPECT_EQ(m.flow.record, before);
    EXPECT_EQ(m.nat.notes.size(), notes);
  }
}

TEST(NatIcmp, DropsErrorsThatQuoteWhatWasNotSent) {
  for (const uint8_t protocol : kProtocols) {
    Mapped m(protocol);
    const auto in = [&](const Frame& quoted,
                        const IpAddress& to = kExternal.address) {
      return m.nat.FromOutside(m.flow, ErrorAbout(quoted, kRouter, to)).drop;
    };
    const TestEnd other_port = {kExternal.address, 2001};
    EXPECT_EQ(in(Between(protocol, other_port, kPeer)), "quoted_not_ours");
    EXPECT_EQ(in(m.sent), "quoted_not_ours");
    EXPECT_EQ(in(m.translated, V4(192, 0, 2, 77)), "quoted_not_ours");
    EXPECT_EQ(in(Between(protocol == 6 ? 17 : 6, kExternal, kPeer)),
              "quoted_not_ours");
    // The quoted packet is an error, of another protocol, or not IPv4.
    EXPECT_EQ(in(ErrorAbout(m.translated, kExternal.address, kRouter)),
              "quoted_not_ours");
    EXPECT_EQ(
        in(Ipv4({.source = kExternal.address, .protocol = 47}, Frame(30))),
        "quoted_not_ours");
    EXPECT_EQ(in(Frame(40, std::byte{0x60})), "quoted_not_ours");
  }
}

TEST(NatIcmp, DropsErrorsFromInsideThatQuoteWhatDidNotCome) {
  Mapped m(17);
  const auto out = [&](const Frame& quoted) {
    return m.nat
        .FromInside(m.flow, ErrorAbout(quoted, kInside.address, kPeer.address))
        .drop;
  };
  EXPECT_EQ(out(Between(17, kPeer, {kInside.address, 5002})),
            "quoted_not_ours");
  EXPECT_EQ(out(Between(17, kPeer, kExternal)), "quoted_not_ours");
  EXPECT_EQ(out(Between(17, kPeer, kInside)), "");
}

TEST(NatIcmp, DropsErrorsAboutPacketsToPeersThatWereNotSentTo) {
  Mapped m(17, ",filtering=address_dependent");
  const Frame quoted = Between(17, kExternal, {kRouter, 7});
  EXPECT_EQ(
      m.nat.FromOutside(m.flow, ErrorAbout(quoted, kRouter, kExternal.address))
          .drop,
      "filtered");
}

TEST(NatIcmp, DropsErrorsThatQuoteNothing) {
  Mapped m(17);
  const Frame error = WithChecksum(
      Ipv4({.source = kRouter, .destination = kExternal.address, .protocol = 1},
           Icmp(3, 1, 0, {})));
  EXPECT_EQ(m.nat.FromOutside(m.flow, error).drop, "quoted_not_ours");
  Frame cut = ErrorAbout(m.translated, kRouter, kExternal.address);
  cut.resize(28 + 23);  // one port and a half
  EXPECT_EQ(
      m.nat.Send(m.flow, Side::kOutside, cut, {}, LinkType::kRawIp, 60).drop,
      "quoted_not_ours");
}

TEST(NatIcmp, DropsErrorsWithWrongChecksums) {
  Mapped m(17);
  const Frame good = ErrorAbout(m.translated, kRouter, kExternal.address);
  Frame bad = good;
  bad[22] ^= std::byte{1};
  EXPECT_EQ(m.nat.FromOutside(m.flow, bad).drop, "icmp_checksum");
  // The checksum of the quoted IP header is wrong, that of the message right.
  Frame quoted = m.translated;
  quoted[8] ^= std::byte{1};
  EXPECT_EQ(
      m.nat.FromOutside(m.flow, ErrorAbout(quoted, kRouter, kExternal.address))
          .drop,
      "icmp_checksum");
  // The checksum of the quoted layer 4 is wrong, which is ignored.
  quoted = m.translated;
  quoted[26] ^= std::byte{1};
  EXPECT_EQ(
      m.nat.FromOutside(m.flow, ErrorAbout(quoted, kRouter, kExternal.address))
          .drop,
      "");
}

TEST(NatIcmp, FindsWhatIsQuotedBehindIpOptions) {
  Mapped m(17);
  const Frame with_options =
      Ipv4({.source = kExternal.address,
            .destination = kPeer.address,
            .option_words = 3},
           Frame(m.translated.begin() + 20, m.translated.end()));
  Frame quoted = with_options;
  quoted.resize(20 + 12 + 8);
  const Frame error = WithChecksum(
      Ipv4({.source = kRouter, .destination = kExternal.address, .protocol = 1},
           Icmp(11, 0, 0, quoted)));
  const auto in = m.nat.FromOutside(m.flow, error);
  EXPECT_EQ(in.drop, "");
  EXPECT_TRUE(HasGoodChecksums(in.frame));
  const auto inner = Ipv4Header<const std::byte>::At(in.frame, 28);
  EXPECT_EQ(inner.source(), kInside.address.ipv4());
}

TEST(NatIcmp, BringsErrorsAboutLaterFragments) {
  Mapped m(17);
  const auto later = [](const IpAddress& from) {
    return Ipv4({.source = from,
                 .destination = kPeer.address,
                 .id = 9,
                 .fragment_offset_bytes = 24},
                Frame(16, std::byte{0x33}));
  };
  const auto in = m.nat.FromOutside(
      m.flow, ErrorAbout(later(kExternal.address), kRouter, kExternal.address));
  EXPECT_EQ(in.frame,
            ErrorAbout(later(kInside.address), kRouter, kInside.address));
}

}  // namespace
}  // namespace snf
