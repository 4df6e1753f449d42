// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/readdress.h"

#include <gtest/gtest.h>

#include "base/byte_order.h"
#include "base/packet/headers.h"
#include "base/packet/test_packets.h"

namespace snf {
namespace {

const AddressMap kIpv4Map = {.from = {V4(10, 0, 0, 1), V4(192, 0, 2, 9)},
                             .to = {V4(10, 7, 8, 9), V4(198, 18, 255, 254)}};
const AddressMap kIpv6Map = {.from = {Ipv6Fields::Address("2001:db8::1"),
                                      Ipv6Fields::Address("2001:db8::9")},
                             .to = {Ipv6Fields::Address("2001:2::ffff:1"),
                                    Ipv6Fields::Address("2001:2:1::2")}};

Frame Filled(Frame frame) {
  FillChecksums(frame, Parse(LinkType::kRawIp, frame));
  return frame;
}

Frame Readdressed(Frame frame, const AddressMap& map) {
  Readdress(frame, Parse(LinkType::kRawIp, frame), map);
  return frame;
}

// Bytes of layer 4 up to the first byte of its checksum.
uint32_t HalfAChecksum(IpProtocol protocol) {
  switch (protocol) {
    case IpProtocol::kTcp:
      return 17;
    case IpProtocol::kUdp:
      return 7;
    default:
      return 3;
  }
}

// The packet with the addresses before and after, of each kind.
struct Case {
  std::string name;
  Frame before;
  Frame after;
  AddressMap map;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add4 = [&cases](const std::string& name, uint8_t protocol,
                             const Frame& l4) {
    const auto make = [&](const std::array<IpAddress, 2>& ends) {
      return Ipv4(
          {.source = ends[1], .destination = ends[0], .protocol = protocol},
          l4);
    };
    cases.push_back({name, make(kIpv4Map.from), make(kIpv4Map.to), kIpv4Map});
  };
  const auto add6 = [&cases](const std::string& name, uint8_t protocol,
                             const Frame& l4) {
    const auto make = [&](const std::array<IpAddress, 2>& ends) {
      return Ipv6(
          {.source = ends[0], .destination = ends[1], .next_header = protocol},
          l4);
    };
    cases.push_back({name, make(kIpv6Map.from), make(kIpv6Map.to), kIpv6Map});
  };
  add4("TCP", 6, Tcp(5'000, 80, 3, 101));
  add4("UDP", 17, Udp(5'000, 53, 33));
  add4("ICMP", 1, Icmp(8, 0, 7, Hex("01 02 03 04")));
  add4("GRE", 47, Hex("00 00 08 00"));
  add6("TCP over IPv6", 6, Tcp(5'000, 80, 0, 20));
  add6("UDP over IPv6", 17, Udp(5'000, 53, 5));
  add6("ICMPv6", 58, Icmp(128, 0, 7, Hex("01 02 03 04")));
  return cases;
}

TEST(Readdress, GivesThePacketThatHasTheNewAddressesAndRightChecksums) {
  for (const Case& each : Cases()) {
    SCOPED_TRACE(each.name);
    // UDP has no checksum unless it has one: any but 0 is replaced.
    Frame before = each.before;
    Frame after = each.after;
    for (Frame* frame : {&before, &after}) {
      const ParsedPacket headers = Parse(LinkType::kRawIp, *frame);
      if (headers.l4_protocol == IpProtocol::kUdp) {
        Store(&(*frame)[headers.l4_offset + 6u], be16(1));
      }
    }
    EXPECT_EQ(Readdressed(Filled(before), each.map), Filled(after));
    EXPECT_NE(Filled(before), Filled(after));
  }
}

TEST(Readdress, GivesOfACutPacketTheFrontOfTheWholeOne) {
  for (const Case& each : Cases()) {
    const Frame before = Filled(each.before);
    const Frame after = Readdressed(before, each.map);
    for (size_t bytes = before.size(); bytes-- > 0;) {
      const Frame cut(before.begin(),
                      before.begin() + static_cast<ptrdiff_t>(bytes));
      const ParsedPacket headers = Parse(LinkType::kRawIp, cut);
      if (!headers.has_ip()) break;
      // Half a checksum cannot be kept right, but then it cannot be seen.
      if (headers.l4_bytes() == HalfAChecksum(headers.l4_protocol)) continue;
      EXPECT_EQ(
          Readdressed(cut, each.map),
          Frame(after.begin(), after.begin() + static_cast<ptrdiff_t>(bytes)))
          << each.name << " of " << bytes << " bytes";
    }
  }
}

TEST(Readdress, LeavesAUdpPacketWithoutChecksumWithoutOne) {
  const Frame frame = Ipv4({}, Udp(5'000, 53));
  const Frame after = Readdressed(Filled(frame), kIpv4Map);
  EXPECT_EQ(
      after,
      Filled(Ipv4({.source = kIpv4Map.to[0], .destination = kIpv4Map.to[1]},
                  Udp(5'000, 53))));
}

TEST(Readdress, LeavesAddressesThatTheMapHasNot) {
  const Frame frame = Filled(Ipv4(
      {.source = V4(9, 9, 9, 9), .destination = V4(8, 8, 8, 8), .protocol = 6},
      Tcp(1, 2, 0, 10)));
  EXPECT_EQ(Readdressed(frame, kIpv4Map), frame);
}

TEST(Readdress, AlsoReplacesInThePacketThatAnErrorQuotes) {
  // A router tells the client that the server cannot be reached.
  const auto error = [](const std::array<IpAddress, 2>& ends) {
    return Filled(Ipv4(
        {.source = V4(203, 0, 113, 1), .destination = ends[0], .protocol = 1},
        Icmp(3, 1, 0,
             Filled(Ipv4(
                 {.source = ends[0], .destination = ends[1], .protocol = 6},
                 Tcp(5'000, 80, 0, 20))))));
  };
  EXPECT_EQ(Readdressed(error(kIpv4Map.from), kIpv4Map), error(kIpv4Map.to));
  const auto error6 = [](const std::array<IpAddress, 2>& ends) {
    return Filled(Ipv6(
        {.source = Ipv6Fields::Address("2001:db8:f::1"),
         .destination = ends[0],
         .next_header = 58},
        Icmp(1, 3, 0,
             Filled(Ipv6(
                 {.source = ends[0], .destination = ends[1], .next_header = 6},
                 Tcp(5'000, 80, 0, 20))))));
  };
  EXPECT_EQ(Readdressed(error6(kIpv6Map.from), kIpv6Map), error6(kIpv6Map.to));
}

TEST(Readdress, UpdatesTheFirstOfTheFragmentsOnly) {
  // The checksum over both fragments is known from the whole packet.
  const Frame l4 = Tcp(5'000, 80, 0, 60);
  const auto whole = [&l4](const std::array<IpAddress, 2>& ends) {
    return Filled(
        Ipv4({.source = ends[0], .destination = ends[1], .protocol = 6}, l4));
  };
  const auto fragment = [&](const std::array<IpAddress, 2>& ends,
                            bool is_first) {
    constexpr size_t kIp = 20;
    constexpr ptrdiff_t kBreak = 40;
    const Frame all = whole(ends);
    const auto payload = all.begin() + kIp;
    return Ipv4(
        {.source = ends[0],
         .destination = ends[1],
         .protocol = 6,
         .fragment_offset_bytes = static_cast<uint16_t>(is_first ? 0 : kBreak),
         .more_fragments = is_first},
        is_first ? Frame(payload, payload + kBreak)
                 : Frame(payload + kBreak, all.end()));
  };
  for (const bool is_first : {true, false}) {
    EXPECT_EQ(Readdressed(Filled(fragment(kIpv4Map.from, is_first)), kIpv4Map),
              fragment(kIpv4Map.to, is_first));
  }
}

TEST(FillChecksums, LeavesWhatItCannotKnow) {
  // A length beyond what was captured, and a UDP length that lies.
  Frame cut = Ipv4({.protocol = 6}, Tcp(1, 2, 0, 100));
  cut.resize(60);
  EXPECT_EQ(Filled(cut), cut);
  Frame lying = Ipv4({}, Udp(1, 2, 20));
  Store(&lying[20 + 4], be16(500));
  Store(&lying[20 + 6], be16(0x1234));
  EXPECT_EQ(Filled(lying), lying);
}

}  // namespace
}  // namespace snf
