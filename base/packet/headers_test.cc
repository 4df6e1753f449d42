// SPDX-License-Identifier: Apache-2.0
#include "base/packet/headers.h"

#include "base/packet/test_packets.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using Byte = const std::byte;

std::span<Byte> Read(const Frame& packet) { return packet; }

TEST(EthernetHeader, ReadsAddressesAndType) {
  const Frame frame = Ethernet(0x86dd, {});
  const auto header = EthernetHeader<Byte>::At(frame, 0);
  ASSERT_TRUE(header);
  EXPECT_EQ(header.type(), EtherType::kIpv6);
  EXPECT_EQ(header.destination()[5], std::byte{2});
  EXPECT_EQ(header.source()[5], std::byte{1});
}

TEST(VlanTag, ReadsIdPriorityAndType) {
  const Frame tag = Hex("a0 64 08 00");
  const auto header = VlanTag<Byte>::At(tag, 0);
  EXPECT_EQ(header.id(), 100);
  EXPECT_EQ(header.priority(), 5);
  EXPECT_EQ(header.type(), EtherType::kIpv4);
}

TEST(PppoeHeader, ReadsSessionAndProtocol) {
  const Frame packet = Pppoe(0x57, Frame(4));
  const auto header = PppoeHeader<Byte>::At(packet, 0);
  EXPECT_TRUE(header.is_session_data());
  EXPECT_EQ(header.session(), 42);
  EXPECT_EQ(header.protocol(), PppProtocol::kIpv6);
}

TEST(MplsEntry, ReadsLabelBottomAndTtl) {
  const Frame packet = Mpls(0xabcde, true, {});
  const auto entry = MplsEntry<Byte>::At(packet, 0);
  EXPECT_EQ(entry.label(), 0xabcdeu);
  EXPECT_TRUE(entry.is_bottom());
  EXPECT_EQ(entry.ttl(), 64);
}

TEST(LinuxSllHeader, ReadsBothVersions) {
  const Frame first = LinuxSll(0x0800, {}), second = LinuxSll2(0x86dd, {});
  EXPECT_EQ(LinuxSllHeader<Byte>::At(first, 0).type(), EtherType::kIpv4);
  EXPECT_EQ(LinuxSll2Header<Byte>::At(second, 0).type(), EtherType::kIpv6);
  EXPECT_EQ(LinuxSll2Header<Byte>::At(second, 0).interface_index(), 3u);
  EXPECT_EQ(LinuxSll2Header<Byte>::At(second, 0).packet_type(), 4);
}

TEST(Ipv4Header, ReadsEveryField) {
  const Frame packet =
      Hex("46 b8 00 1c 12 34 60 b9  40 11 ab cd 0a 00 00 01 c0 00 02 09"
          "94 04 00 00  11 22 33 44");
  const auto ip = Ipv4Header<Byte>::At(packet, 0);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip.header_bytes(), 24u);
  EXPECT_EQ(ip.traffic_class(), 0xb8);
  EXPECT_EQ(ip.total_bytes(), 28);
  EXPECT_EQ(ip.id(), 0x1234);
  EXPECT_TRUE(ip.dont_fragment());
  EXPECT_TRUE(ip.more_fragments());
  EXPECT_EQ(ip.fragment_offset_bytes(), 0xb9 * 8);
  EXPECT_EQ(ip.ttl(), 64);
  EXPECT_EQ(ip.protocol(), IpProtocol::kUdp);
  EXPECT_EQ(ip.checksum(), be16(0xabcd));
  EXPECT_EQ(ip.source(), be32(0x0a00'0001));
  EXPECT_EQ(ip.destination(), be32(0xc000'0209));
  EXPECT_EQ(ip.options().size(), 4u);
  EXPECT_EQ(ip.options()[0], std::byte{0x94});
}

TEST(Ipv4Header, WritesNoByteButItsFields) {
  Frame packet = Frame(3) + Ipv4({}, {});
  Frame expected = packet;
  const auto ip = Ipv4Header<std::byte>::At(packet, 3);
  ip.set_source(be32(0x0102'0304));
  ip.set_destination(be32(0x0506'0708));
  ip.set_ttl(9);
  ip.set_checksum(be16(0x0a0b));
  ip.set_total_bytes(0x0c0d);
  const Frame changed = Hex("01 02 03 04 05 06 07 08");
  std::copy(changed.begin(), changed.end(), expected.begin() + 15);
  expected[11] = std::byte{9};
  expected[13] = std::byte{0x0a};
  expected[14] = std::byte{0x0b};
  expected[5] = std::byte{0x0c};
  expected[6] = std::byte{0x0d};
  EXPECT_EQ(packet, expected);
}

TEST(Ipv6Header, ReadsAndWritesItsFields) {
  Frame packet = Ipv6({.next_header = 6}, Frame(5));
  packet[0] = std::byte{0x6a};
  packet[1] = std::byte{0xbc};
  packet[2] = std::byte{0xde};
  packet[3] = std::byte{0xf0};
  const auto ip = Ipv6Header<std::byte>::At(packet, 0);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip.traffic_class(), 0xab);
  EXPECT_EQ(ip.flow_label(), 0xcdef0u);
  EXPECT_EQ(ip.payload_bytes(), 5);
  EXPECT_EQ(ip.next_header(), IpProtocol::kTcp);
  EXPECT_EQ(ip.hop_limit(), 64);
  const IpAddress address = Ipv6Fields::Address("2001:db8::77");
  ip.set_source(address);
  ip.set_destination(Ipv6Fields::Address("::1"));
  ip.set_hop_limit(7);
  ip.set_payload_bytes(4);
  EXPECT_EQ(ip.source(), address);
  EXPECT_EQ(ip.destination(), Ipv6Fields::Address("::1"));
  EXPECT_EQ(ip.hop_limit(), 7);
  EXPECT_EQ(ip.payload_bytes(), 4);
}

TEST(Ipv6ExtensionHeader, CountsTheAuthenticationHeaderInFourBytes) {
  const Frame packet = Hex("06 04") + Frame(50);
  EXPECT_EQ(Ipv6ExtensionHeader<Byte>::At(packet, 0, IpProtocol::kHopByHop)
                .header_bytes(),
            40u);
  EXPECT_EQ(
      Ipv6ExtensionHeader<Byte>::At(packet, 0, IpProtocol::kAuthentication)
          .header_bytes(),
      24u);
}

TEST(TcpHeader, ReadsAndWritesItsFields) {
  Frame packet = Tcp(5000, 80, 2, 3);
  const auto tcp = TcpHeader<std::byte>::At(packet, 0);
  ASSERT_TRUE(tcp);
  EXPECT_EQ(tcp.source_port(), be16(5000));
  EXPECT_EQ(tcp.destination_port(), be16(80));
  EXPECT_EQ(tcp.sequence(), 1000u);
  EXPECT_EQ(tcp.acknowledgement(), 2000u);
  EXPECT_EQ(tcp.header_bytes(), 28u);
  EXPECT_EQ(tcp.options().size(), 8u);
  EXPECT_EQ(tcp.flags(), TcpHeader<std::byte>::kAck);
  EXPECT_EQ(tcp.window(), 0xffff);
  tcp.set_source_port(be16(1));
  tcp.set_destination_port(be16(2));
  tcp.set_checksum(be16(3));
  EXPECT_EQ(tcp.source_port(), be16(1));
  EXPECT_EQ(tcp.destination_port(), be16(2));
  EXPECT_EQ(tcp.checksum(), be16(3));
}

TEST(UdpHeader, ReadsAndWritesItsFields) {
  Frame packet = Udp(5000, 53, 4);
  const auto udp = UdpHeader<std::byte>::At(packet, 0);
  EXPECT_EQ(udp.length_bytes(), 12);
  udp.set_source_port(be16(1));
  udp.set_destination_port(be16(2));
  udp.set_length_bytes(8);
  udp.set_checksum(be16(0xffff));
  EXPECT_EQ(packet, Hex("00 01 00 02 00 08 ff ff") + Frame(4, std::byte{0x5a}));
}

TEST(PortsView, NeedsOnlyFourBytes) {
  Frame packet = Hex("13 88 00 35");
  const auto ports = PortsView<std::byte>::At(packet, 0);
  ASSERT_TRUE(ports);
  EXPECT_EQ(ports.source_port(), be16(5000));
  ports.set_destination_port(be16(80));
  EXPECT_EQ(ports.destination_port(), be16(80));
  EXPECT_FALSE(PortsView<std::byte>::At(packet, 1));
}

TEST(IcmpHeader, TellsQueriesAndErrorsOfBothVersionsApart) {
  const auto icmp = [](uint8_t type, IpProtocol protocol) {
    static Frame packet;
    packet = Icmp(type, 0, 77, {});
    return IcmpHeader<std::byte>::At(packet, 0, protocol);
  };
  EXPECT_TRUE(icmp(8, IpProtocol::kIcmp).is_query());
  EXPECT_TRUE(icmp(11, IpProtocol::kIcmp).is_error());
  EXPECT_FALSE(icmp(9, IpProtocol::kIcmp).is_error());
  EXPECT_TRUE(icmp(129, IpProtocol::kIcmpv6).is_query());
  EXPECT_TRUE(icmp(3, IpProtocol::kIcmpv6).is_error());
  EXPECT_FALSE(icmp(8, IpProtocol::kIcmpv6).is_query());
  const auto echo = icmp(8, IpProtocol::kIcmp);
  EXPECT_EQ(echo.identifier(), be16(77));
  echo.set_identifier(be16(78));
  echo.set_checksum(be16(5));
  EXPECT_EQ(echo.identifier(), be16(78));
  EXPECT_EQ(echo.checksum(), be16(5));
  EXPECT_EQ(echo.sequence(), be16(1));
}

TEST(HeaderViews, AreRefusedWhereTheBytesEndTooEarly) {
  const Frame bytes(64, std::byte{0x45});
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = Read(bytes).first(size);
    EXPECT_EQ(bool{EthernetHeader<Byte>::At(cut, 0)}, size >= 14);
    EXPECT_EQ(bool{VlanTag<Byte>::At(cut, 0)}, size >= 4);
    EXPECT_EQ(bool{SnapHeader<Byte>::At(cut, 0)}, size >= 8);
    EXPECT_EQ(bool{PppoeHeader<Byte>::At(cut, 0)}, size >= 8);
    EXPECT_EQ(bool{MplsEntry<Byte>::At(cut, 0)}, size >= 4);
    EXPECT_EQ(bool{LinuxSllHeader<Byte>::At(cut, 0)}, size >= 16);
    EXPECT_EQ(bool{LinuxSll2Header<Byte>::At(cut, 0)}, size >= 20);
    EXPECT_EQ(bool{LoopbackHeader<Byte>::At(cut, 0)}, size >= 4);
    EXPECT_EQ(bool{Ipv4Header<Byte>::At(cut, 0)}, size >= 20);
    EXPECT_EQ(bool{Ipv6FragmentHeader<Byte>::At(cut, 0)}, size >= 8);
    EXPECT_EQ(bool{UdpHeader<Byte>::At(cut, 0)}, size >= 8);
    EXPECT_FALSE(UdpHeader<Byte>::At(cut, size + 1));
  }
}

}  // namespace
}  // namespace snf
