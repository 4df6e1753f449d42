// SPDX-License-Identifier: Apache-2.0
#include "base/packet/rewrite.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/ip_address_text.h"
#include "base/packet/test_packet_text.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using Bytes = std::span<std::byte>;

constexpr uint8_t kProtocols[] = {1, 6, 17};
const IpAddress kInside = V4(10, 0, 0, 1);
const IpAddress kPeer = V4(192, 0, 2, 9);
const IpAddress kExternal = V4(198, 51, 100, 7);

// Sets the checksum of a packet that lies in `frame` to the right value.
void FillL4(Frame& frame, const ParsedPacket& headers) {
  const auto ip = Ipv4Header<std::byte>::At(frame, headers.l3_offset);
  const Bytes l4 = Bytes(frame).subspan(headers.l4_offset, headers.l4_bytes());
  const size_t offset = headers.l4_protocol == IpProtocol::kTcp   ? 16
                        : headers.l4_protocol == IpProtocol::kUdp ? 6
                                                                  : 2;
  Store(&l4[offset], be16(0));
  be16 sum = InternetChecksum(l4);
  if (headers.l4_protocol != IpProtocol::kIcmp) {
    sum = L4Checksum(IpAddress::FromIpv4(ip.source()),
                     IpAddress::FromIpv4(ip.destination()), headers.l4_protocol,
                     l4);
  }
  if (headers.l4_protocol == IpProtocol::kUdp) sum = UdpChecksumToSend(sum);
  Store(&l4[offset], sum);
}

Frame Filled(Frame frame, LinkType link = LinkType::kRawIp) {
  FillL4(frame, Parse(link, frame));
  return frame;
}

// A packet of a connection, as each side of a translator sees it.
Frame Packet(uint8_t protocol, const IpAddress& source, uint16_t source_port,
             const IpAddress& destination, uint16_t destination_port) {
  const Ipv4Fields fields = {
      .source = source, .destination = destination, .protocol = protocol};
  switch (protocol) {
    case 6:
      return Filled(Ipv4(fields, Tcp(source_port, destination_port, 3, 11)));
    case 17:
      return Filled(Ipv4(fields, Udp(source_port, destination_port, 13)));
    default:  // ICMP has one identifier: of whichever side is not the peer's
      return Filled(Ipv4(
          fields, Icmp(8, 0, source == kPeer ? destination_port : source_port,
                       Frame(7, std::byte{0x11}))));
  }
}

Frame WithSource(Frame frame, const IpAddress& address, uint16_t port,
                 LinkType link = LinkType::kRawIp) {
  RewriteSource(frame, Parse(link, frame), address.ipv4(), be16(port));
  return frame;
}
Frame WithDestination(Frame frame, const IpAddress& address, uint16_t port) {
  RewriteDestination(frame, Parse(LinkType::kRawIp, frame), address.ipv4(),
                     be16(port));
  return frame;
}

TEST(Rewrite, MakesThePacketThatTheOtherEndpointWouldHaveSent) {
  for (const uint8_t protocol : kProtocols) {
    EXPECT_EQ(
        WithSource(Packet(protocol, kInside, 5000, kPeer, 53), kExternal, 1024),
        Packet(protocol, kExternal, 1024, kPeer, 53))
        << int{protocol};
  }
}

TEST(Rewrite, MakesThePacketThatTheOtherEndpointWouldReceive) {
  for (const uint8_t protocol : kProtocols) {
    EXPECT_EQ(WithDestination(Packet(protocol, kPeer, 53, kExternal, 1024),
                              kInside, 5000),
              Packet(protocol, kPeer, 53, kInside, 5000))
        << int{protocol};
  }
}

TEST(Rewrite, KeepsAUdpPacketWithoutChecksumWithoutOne) {
  const Frame before = Ipv4({}, Udp(5000, 53));
  const Frame after = WithSource(before, kExternal, 1024);
  EXPECT_EQ(after, Ipv4({.source = kExternal}, Udp(1024, 53)));
}

TEST(Rewrite, NeverMakesAUdpChecksumZero) {
  int sent_as_ones = 0;
  for (uint32_t port = 1; port < 0x1'0000; ++port) {
    const Frame after = WithSource(Packet(17, kInside, 5000, kPeer, 53),
                                   kExternal, static_cast<uint16_t>(port));
    const be16 sum = LoadBe16(&after[26]);
    ASSERT_NE(sum, be16(0)) << port;
    sent_as_ones += sum == be16(0xffff) ? 1 : 0;
  }
  EXPECT_EQ(sent_as_ones, 1);
}

TEST(Rewrite, LeavesAWrongChecksumWrong) {
  Frame frame = Packet(6, kInside, 5000, kPeer, 80);
  Store(&frame[36], be16(LoadBe16(&frame[36]).host() ^ 0x0100u));
  Store(&frame[10], be16(LoadBe16(&frame[10]).host() ^ 0x0100u));
  const Frame after = WithSource(frame, kExternal, 1024);
  const ParsedPacket headers = Parse(LinkType::kRawIp, after);
  EXPECT_NE(
      InternetChecksum(Ipv4Header<const std::byte>::At(after, 0).header()),
      be16(0));
  EXPECT_NE(L4Checksum(kExternal, kPeer, IpProtocol::kTcp,
                       std::span(after).subspan(headers.l4_offset)),
            be16(0));
}

TEST(Rewrite, OfALaterFragmentChangesTheAddressAlone) {
  const Ipv4Fields fields = {.fragment_offset_bytes = 24};
  Ipv4Fields external = fields;
  external.source = kExternal;
  const Frame payload(16, std::byte{0x77});
  EXPECT_EQ(WithSource(Ipv4(fields, payload), kExternal, 1024),
            Ipv4(external, payload));
}

// The first fragment has the checksum, and that covers the second.
TEST(Rewrite, KeepsTheChecksumOfAFragmentedPacketRight) {
  const Frame whole = Packet(17, kInside, 5000, kPeer, 53);
  const Frame l4(whole.begin() + 20, whole.end());
  const Frame first = Ipv4({.id = 9, .more_fragments = true},
                           Frame(l4.begin(), l4.begin() + 16));
  const Frame after = WithSource(first, kExternal, 1024);
  const Frame wanted = Packet(17, kExternal, 1024, kPeer, 53);
  EXPECT_EQ(Frame(after.begin() + 20, after.end()),
            Frame(wanted.begin() + 20, wanted.begin() + 36));
}

TEST(Rewrite, LeavesWhatIsNoIpv4) {
  for (const Sample& sample : AllSamples()) {
    const ParsedPacket headers = Parse(sample.link, sample.frame);
    if (headers.l3 == L3::kIpv4) continue;
    EXPECT_EQ(WithSource(sample.frame, kExternal, 1024, sample.link),
              sample.frame)
        << sample.name;
  }
}

TEST(Rewrite, FindsThePacketBehindAnyLinkHeader) {
  const Frame inside = Packet(17, kInside, 5000, kPeer, 53);
  const Frame external = Packet(17, kExternal, 1024, kPeer, 53);
  EXPECT_EQ(WithSource(Ethernet(0x8100, Vlan(7, 0x0800, inside)), kExternal,
                       1024, LinkType::kEthernet),
            Ethernet(0x8100, Vlan(7, 0x0800, external)));
  EXPECT_EQ(WithSource(Ethernet(0x8864, Pppoe(0x21, inside)), kExternal, 1024,
                       LinkType::kEthernet),
            Ethernet(0x8864, Pppoe(0x21, external)));
}

// Trailing bytes of the link are not covered by any checksum.
TEST(Rewrite, LeavesPaddingBehindThePacket) {
  const Frame padding(9, std::byte{0xee});
  EXPECT_EQ(WithSource(Packet(17, kInside, 5000, kPeer, 53) + padding,
                       kExternal, 1024),
            Packet(17, kExternal, 1024, kPeer, 53) + padding);
}

// An error that quotes the first `quoted` bytes of a packet.
Frame Error(const IpAddress& source, const IpAddress& destination, Frame quoted,
            size_t bytes) {
  quoted.resize(std::min(bytes, quoted.size()));
  return Filled(
      Ipv4({.source = source, .destination = destination, .protocol = 1},
           Icmp(3, 3, 0, quoted)));
}

TEST(Rewrite, OfAnErrorFromOutsideChangesTheQuotedSourceToo) {
  const IpAddress router = V4(203, 0, 113, 5);
  for (const uint8_t protocol : kProtocols) {
    for (const size_t quoted : {28, 36, 40, 200}) {
      const Frame sent = Packet(protocol, kInside, 5000, kPeer, 53);
      const Frame translated = Packet(protocol, kExternal, 1024, kPeer, 53);
      EXPECT_EQ(WithDestination(Error(router, kExternal, translated, quoted),
                                kInside, 5000),
                Error(router, kInside, sent, quoted))
          << int{protocol} << ' ' << quoted;
    }
  }
}

TEST(Rewrite, OfAnErrorFromInsideChangesTheQuotedDestinationToo) {
  for (const uint8_t protocol : kProtocols) {
    for (const size_t quoted : {28, 36, 40, 200}) {
      const Frame sent = Packet(protocol, kPeer, 53, kExternal, 1024);
      const Frame translated = Packet(protocol, kPeer, 53, kInside, 5000);
      EXPECT_EQ(WithSource(Error(kInside, kPeer, translated, quoted), kExternal,
                           1024),
                Error(kExternal, kPeer, sent, quoted))
          << int{protocol} << ' ' << quoted;
    }
  }
}

TEST(Rewrite, OfAnErrorAboutALaterFragmentChangesAddressesAlone) {
  const Frame payload(16, std::byte{0x77});
  const Frame inside = Ipv4({.fragment_offset_bytes = 24}, payload);
  const Frame external =
      Ipv4({.source = kExternal, .fragment_offset_bytes = 24}, payload);
  EXPECT_EQ(
      WithDestination(Error(kPeer, kExternal, external, 28), kInside, 5000),
      Error(kPeer, kInside, inside, 28));
}

// The captured part of a packet changes as in the packet captured whole, except
// for a checksum that covers bytes that were cut off.
TEST(Rewrite, OfAPacketCutShortChangesWhatIsThere) {
  for (const uint8_t protocol : kProtocols) {
    const Frame whole = Packet(protocol, kInside, 5000, kPeer, 53);
    const Frame after = WithSource(whole, kExternal, 1024);
    const size_t l4_bytes = protocol == 1 ? 8 : 0;  // of a query, all or none
    for (size_t size = 20 + l4_bytes; size <= whole.size(); ++size) {
      const Frame cut(whole.begin(),
                      whole.begin() + static_cast<ptrdiff_t>(size));
      Frame wanted(after.begin(), after.begin() + static_cast<ptrdiff_t>(size));
      // A field that is half cut off is not changed.
      const size_t checksum = protocol == 6 ? 36 : 26;
      if (size == 21) wanted[20] = whole[20];
      if (protocol != 1 && size == checksum + 1) {
        wanted[checksum] = whole[checksum];
      }
      EXPECT_EQ(WithSource(cut, kExternal, 1024), wanted)
          << int{protocol} << ' ' << size;
    }
  }
}

// Any bytes parse as something; sanitizer builds see an access beyond the
// frame.
TEST(Rewrite, OfAnyBytesChangesNothingOutsideOfTheIpPacket) {
  Rng rng(TestSeeds::One(7));
  const std::vector<Sample> samples = AllSamples();
  size_t rewritten = 0;
  for (int round = 0; round < 50'000; ++round) {
    const Sample& sample = samples[rng.Below(samples.size())];
    Frame frame = sample.frame;
    frame.resize(rng.Below(frame.size() + 1));
    for (size_t i = rng.Below(4); i-- > 0 && !frame.empty();) {
      frame[rng.Below(frame.size())] = static_cast<std::byte>(rng.Next());
    }
    frame.shrink_to_fit();
    const ParsedPacket headers = Parse(sample.link, frame);
    Frame after = frame;
    RewriteSource(after, headers, kExternal.ipv4(), be16(1024));
    // It is still the same packet at another address.
    EXPECT_EQ(Parse(sample.link, after), headers);
    RewriteDestination(after, headers, kExternal.ipv4(), be16(1024));
    EXPECT_EQ(Parse(sample.link, after), headers);
    if (headers.l3 != L3::kIpv4) {
      EXPECT_EQ(after, frame);
      continue;
    }
    ++rewritten;
    const auto ip = Ipv4Header<const std::byte>::At(after, headers.l3_offset);
    EXPECT_EQ(ip.source(), kExternal.ipv4());
    EXPECT_EQ(ip.destination(), kExternal.ipv4());
    // Nothing moved outside of the packet.
    for (size_t i = 0; i < frame.size(); ++i) {
      if (i >= headers.l3_offset && i < headers.end_offset) continue;
      ASSERT_EQ(after[i], frame[i]) << sample.name << ' ' << i;
    }
  }
  std::printf("%zu rewritten\n", rewritten);
  EXPECT_GT(rewritten, 5'000u);
}

// Each pair: a packet, and what the other end sends or gets.
TEST(Rewrite, OfIpv6ChangesTheSameFieldsAndKeepsChecksumsRight) {
  constexpr char kVirtual[] = "[2001:db8::10]:80", kServer[] = "[fd00::1]:8080";
  const std::string client = "[2001:db8:1::9]:5000";
  const IpAddress server = *ParseIpv6("fd00::1");
  for (const auto& [there, back] :
       {std::pair("udp " + client + " > {} \"odd\"", "udp {} > " + client),
        std::pair("tcp " + client + " > {} SYN",
                  "tcp {} > " + client + " SYN ACK \"abc\""),
        std::pair(std::string("icmp6 [2001:db8::7] > [{a}] too_big "
                              "about {udp {} > ") +
                      client + "}",
                  "icmp6 [{a}] > [2001:db8::7] unreachable code=4 about {tcp " +
                      client + " > {}}")}) {
    const auto with = [](std::string text, const std::string& end) {
      const std::string address = end.substr(1, end.find(']') - 1);
      for (const auto& [what, by] :
           {std::pair("{a}", address), std::pair("{}", end)}) {
        const size_t at = text.find(what);
        if (at != std::string::npos) {
          text.replace(at, std::strlen(what), by);
        }
      }
      auto packet = ParsePacket(text);
      EXPECT_TRUE(packet.ok()) << packet.status();
      return packet.ok() ? *packet : TestPacket{};
    };
    TestPacket packet = with(there, kVirtual);
    RewriteDestination(packet.bytes, Parse(packet.link, packet.bytes), server,
                       be16(8080));
    EXPECT_EQ(ToText(packet), ToText(with(there, kServer)));
    packet = with(back, kVirtual);
    RewriteSource(packet.bytes, Parse(packet.link, packet.bytes), server,
                  be16(8080));
    EXPECT_EQ(ToText(packet), ToText(with(back, kServer)));
  }
}

TEST(Rewrite, TakesAMappedAddressForIpv4) {
  Frame frame = Packet(17, kInside, 5000, kPeer, 53);
  RewriteSource(frame, Parse(LinkType::kRawIp, frame), kExternal, be16(1024));
  EXPECT_EQ(frame, Packet(17, kExternal, 1024, kPeer, 53));
}

}  // namespace
}  // namespace snf
