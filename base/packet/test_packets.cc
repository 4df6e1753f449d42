// SPDX-License-Identifier: Apache-2.0
#include "base/packet/test_packets.h"

#include <arpa/inet.h>

#include <cctype>

#include "base/check.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"

namespace snf {
namespace {

void Append(Frame& packet, uint64_t value, size_t bytes) {
  for (size_t i = bytes; i-- > 0;) {
    packet.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

void Append(Frame& packet, const IpAddress& address) {
  packet.insert(packet.end(), address.bytes.begin(), address.bytes.end());
}

Frame Filled(size_t bytes) { return Frame(bytes, std::byte{0x5a}); }

}  // namespace

Frame Hex(const std::string& digits) {
  Frame packet;
  std::string pair;
  for (const char digit : digits) {
    if (std::isspace(static_cast<unsigned char>(digit)) != 0) continue;
    pair += digit;
    if (pair.size() < 2) continue;
    packet.push_back(static_cast<std::byte>(std::stoul(pair, nullptr, 16)));
    pair.clear();
  }
  SNF_CHECK(pair.empty());
  return packet;
}

Frame operator+(Frame front, const Frame& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

Frame Ethernet(uint16_t type, const Frame& payload) {
  Frame packet = Hex("02 00 00 00 00 02  02 00 00 00 00 01");
  Append(packet, type, 2);
  return packet + payload;
}

Frame Vlan(uint16_t id, uint16_t type, const Frame& payload) {
  Frame packet;
  Append(packet, id, 2);
  Append(packet, type, 2);
  return packet + payload;
}

Frame Snap(uint16_t type, const Frame& payload) {
  Frame packet = Hex("aa aa 03 00 00 00");
  Append(packet, type, 2);
  packet = packet + payload;
  return Ethernet(static_cast<uint16_t>(packet.size()), packet);
}

Frame Pppoe(uint16_t ppp_protocol, const Frame& payload) {
  Frame packet = Hex("11 00 00 2a");
  Append(packet, payload.size() + 2, 2);
  Append(packet, ppp_protocol, 2);
  return packet + payload;
}

Frame Mpls(uint32_t label, bool is_bottom, const Frame& payload) {
  Frame packet;
  Append(packet, label << 12 | (is_bottom ? 0x100u : 0u) | 64, 4);
  return packet + payload;
}

Frame LinuxSll(uint16_t type, const Frame& payload) {
  Frame packet = Hex("00 00 00 01 00 06 02 00 00 00 00 01 00 00");
  Append(packet, type, 2);
  return packet + payload;
}

Frame LinuxSll2(uint16_t type, const Frame& payload) {
  Frame packet;
  Append(packet, type, 2);
  return packet + Hex("00 00 00 00 00 03 00 01 04 06 02 00 00 00 00 01 00 00") +
         payload;
}

Frame Ipv4(const Ipv4Fields& fields, const Frame& payload) {
  const size_t header_bytes = 20 + 4 * fields.option_words;
  Frame packet;
  Append(packet, 0x40 | header_bytes / 4, 1);
  Append(packet, 0, 1);
  Append(packet, header_bytes + payload.size(), 2);
  Append(packet, fields.id, 2);
  Append(
      packet,
      fields.fragment_offset_bytes / 8 | (fields.more_fragments ? 0x2000u : 0u),
      2);
  Append(packet, 64, 1);
  Append(packet, fields.protocol, 1);
  Append(packet, 0, 2);
  Append(packet, fields.source.ipv4().host(), 4);
  Append(packet, fields.destination.ipv4().host(), 4);
  packet.resize(header_bytes, std::byte{1});  // "no operation" options
  FillIpv4Checksum(Ipv4Header<std::byte>::At(packet, 0));
  return packet + payload;
}

IpAddress Ipv6Fields::Address(const char* text) {
  IpAddress address;
  SNF_CHECK(inet_pton(AF_INET6, text, address.bytes.data()) == 1);
  return address;
}

Frame Ipv6(const Ipv6Fields& fields, const Frame& payload) {
  Frame packet = Hex("60 00 00 00");
  Append(packet, payload.size(), 2);
  Append(packet, fields.next_header, 1);
  Append(packet, 64, 1);
  Append(packet, fields.source);
  Append(packet, fields.destination);
  return packet + payload;
}

Frame Ipv6Extension(uint8_t next_header, size_t words, const Frame& payload) {
  Frame packet;
  Append(packet, next_header, 1);
  Append(packet, words - 1, 1);
  packet.resize(8 * words);
  return packet + payload;
}

Frame Ipv6Authentication(uint8_t next_header, const Frame& payload) {
  Frame packet;
  Append(packet, next_header, 1);
  Append(packet, 4, 1);  // 24 bytes: (4 + 2) × 4
  packet.resize(24);
  return packet + payload;
}

Frame Ipv6Fragment(uint8_t next_header, uint16_t offset_bytes, bool more,
                   uint32_t id, const Frame& payload) {
  Frame packet;
  Append(packet, next_header, 1);
  Append(packet, 0, 1);
  Append(packet, offset_bytes | (more ? 1u : 0u), 2);
  Append(packet, id, 4);
  return packet + payload;
}

Frame Tcp(uint16_t source_port, uint16_t destination_port, size_t option_words,
          size_t payload_bytes) {
  Frame packet;
  Append(packet, source_port, 2);
  Append(packet, destination_port, 2);
  Append(packet, 1000, 4);
  Append(packet, 2000, 4);
  Append(packet, (5 + option_words) << 4, 1);
  Append(packet, TcpHeader<const std::byte>::kAck, 1);
  Append(packet, 0xffff, 2);
  Append(packet, 0, 4);
  packet.resize(20 + 4 * option_words, std::byte{1});
  return packet + Filled(payload_bytes);
}

Frame Udp(uint16_t source_port, uint16_t destination_port,
          size_t payload_bytes) {
  Frame packet;
  Append(packet, source_port, 2);
  Append(packet, destination_port, 2);
  Append(packet, 8 + payload_bytes, 2);
  Append(packet, 0, 2);
  return packet + Filled(payload_bytes);
}

Frame Icmp(uint8_t type, uint8_t code, uint16_t identifier,
           const Frame& payload) {
  Frame packet;
  Append(packet, type, 1);
  Append(packet, code, 1);
  Append(packet, 0, 2);
  Append(packet, identifier, 2);
  Append(packet, 1, 2);
  return packet + payload;
}

IpAddress V4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  return IpAddress::FromIpv4(
      be32(uint32_t{a} << 24 | uint32_t{b} << 16 | uint32_t{c} << 8 | d));
}

std::vector<Sample> AllSamples() {
  const Frame udp = Ipv4({}, Udp(5000, 53));
  const Frame tcp = Ipv4({.protocol = 6, .option_words = 2}, Tcp(5000, 80, 3));
  const Frame udp6 = Ipv6({}, Udp(5000, 53));
  const Frame chain = Ipv6(
      {.next_header = 0},
      Ipv6Extension(
          43, 1,
          Ipv6Extension(51, 2, Ipv6Authentication(6, Tcp(5000, 80, 1, 4)))));
  const Frame error = Ipv4({.protocol = 1}, Icmp(3, 3, 0, udp));
  const Frame error6 = Ipv6({.next_header = 58}, Icmp(1, 4, 0, udp6));
  return {
      {"ipv4 tcp with options", LinkType::kEthernet, Ethernet(0x0800, tcp)},
      {"ipv6 udp", LinkType::kEthernet, Ethernet(0x86dd, udp6)},
      {"ipv6 chain", LinkType::kEthernet, Ethernet(0x86dd, chain)},
      {"vlan", LinkType::kEthernet, Ethernet(0x8100, Vlan(7, 0x0800, udp))},
      {"two vlans", LinkType::kEthernet,
       Ethernet(0x88a8, Vlan(100, 0x8100, Vlan(7, 0x86dd, udp6)))},
      {"snap", LinkType::kEthernet, Snap(0x0800, udp)},
      {"pppoe", LinkType::kEthernet, Ethernet(0x8864, Pppoe(0x21, udp))},
      {"pppoe ipv6", LinkType::kEthernet, Ethernet(0x8864, Pppoe(0x57, udp6))},
      {"mpls", LinkType::kEthernet,
       Ethernet(0x8847, Mpls(16, false, Mpls(17, true, tcp)))},
      {"raw ipv4", LinkType::kRawIp, tcp},
      {"raw ipv6", LinkType::kRawIp, chain},
      {"sll", LinkType::kLinuxSll, LinuxSll(0x0800, udp)},
      {"sll2", LinkType::kLinuxSll2, LinuxSll2(0x86dd, udp6)},
      {"null", LinkType::kNull, Hex("02 00 00 00") + udp},
      {"loop ipv6", LinkType::kLoop, Hex("00 00 00 18") + udp6},
      {"ppp", LinkType::kPpp, Hex("ff 03 00 21") + udp},
      {"nflog", LinkType::kNflog,
       Hex("02 00 00 2a 0800 0100 00000000 2800 0900") + udp},
      {"nsh", LinkType::kEthernet,
       Ethernet(0x894f, Hex("0f c6 01 01 00 00 01 ff") + udp)},
      {"ipv6 shim6", LinkType::kRawIp,
       Ipv6({.next_header = 140}, Ipv6Extension(17, 1, Udp(1, 53)))},
      {"echo", LinkType::kRawIp, Ipv4({.protocol = 1}, Icmp(8, 0, 77, {}))},
      {"error", LinkType::kRawIp, error},
      {"error ipv6", LinkType::kRawIp, error6},
      {"first fragment", LinkType::kRawIp,
       Ipv4({.id = 9, .more_fragments = true}, Udp(5000, 53, 16))},
      {"later fragment", LinkType::kRawIp,
       Ipv4({.id = 9, .fragment_offset_bytes = 24}, Frame(16))},
      {"first fragment ipv6", LinkType::kRawIp,
       Ipv6({.next_header = 44},
            Ipv6Fragment(17, 0, true, 0xdead'beef, Udp(5000, 53, 16)))},
      {"later fragment ipv6", LinkType::kRawIp,
       Ipv6({.next_header = 44},
            Ipv6Fragment(17, 24, false, 0xdead'beef, Frame(16)))},
      {"arp", LinkType::kEthernet, Ethernet(0x0806, Frame(28))},
  };
}

}  // namespace snf
