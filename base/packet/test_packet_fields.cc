// SPDX-License-Identifier: Apache-2.0
#include "base/packet/test_packet_fields.h"

#include <algorithm>
#include <cstdio>

#include "base/packet/checksum.h"
#include "base/packet/flow_key_text.h"
#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"

namespace snf {
namespace {

using ConstBytes = std::span<const std::byte>;

// Returns the place of the checksum, or null if the header has none.
std::byte* ChecksumIn(Frame& l4, IpProtocol protocol) {
  const size_t offset = protocol == IpProtocol::kTcp   ? 16
                        : protocol == IpProtocol::kUdp ? 6
                                                       : 2;
  const bool has_one = protocol == IpProtocol::kTcp ||
                       protocol == IpProtocol::kUdp || IsIcmp(protocol);
  return has_one && l4.size() >= offset + 2 ? &l4[offset] : nullptr;
}

// Computes the correct checksum of these bytes, in which the checksum field is
// 0.
be16 ChecksumOf(const Frame& l4, const FlowKey& flow) {
  if (flow.protocol == IpProtocol::kIcmp) return InternetChecksum(l4);
  const be16 sum = L4Checksum(flow.source, flow.destination, flow.protocol, l4);
  return flow.protocol == IpProtocol::kUdp ? UdpChecksumToSend(sum) : sum;
}

Frame L4Of(const TestPacketFields& fields) {
  const FlowKey& flow = fields.flow;
  const uint16_t from = flow.source_port.host();
  const uint16_t to = flow.destination_port.host();
  Frame l4;
  if (fields.fragment_offset_bytes > 0) return fields.payload;
  if (flow.protocol == IpProtocol::kTcp) {
    l4 = Tcp(from, to, fields.tcp_options.size() / 4);
    std::ranges::copy(fields.tcp_options, l4.begin() + 20);
    Store(&l4[4], be32(fields.seq));
    Store(&l4[8], be32(fields.ack));
    l4[13] = std::byte{fields.tcp_flags};
    Store(&l4[14], be16(fields.window));
    l4 = l4 + fields.payload;
  } else if (flow.protocol == IpProtocol::kUdp) {
    l4 = Udp(from, to, fields.payload.size());
    std::ranges::copy(fields.payload, l4.begin() + 8);
  } else if (IsIcmp(flow.protocol)) {
    l4 = Icmp(fields.icmp_type, fields.icmp_code, fields.icmp_id,
              fields.payload);
    Store(&l4[6], be16(static_cast<uint16_t>(fields.seq)));
  } else if (HasPorts(flow.protocol)) {
    l4.resize(4);
    Store(&l4[0], flow.source_port);
    Store(&l4[2], flow.destination_port);
    l4 = l4 + fields.payload;
  } else {
    l4 = fields.payload;
  }
  if (std::byte* const at = ChecksumIn(l4, flow.protocol); at != nullptr) {
    Store(at, fields.bad_checksum.has_value() ? be16(*fields.bad_checksum)
              : fields.no_checksum            ? be16(0)
                                              : ChecksumOf(l4, flow));
  }
  return l4;
}

Frame IpOf(const TestPacketFields& fields) {
  const FlowKey& flow = fields.flow;
  if (!fields.is_ipv4()) {
    Frame packet = Ipv6({.source = flow.source,
                         .destination = flow.destination,
                         .next_header = static_cast<uint8_t>(flow.protocol)},
                        L4Of(fields));
    Store(&packet[0], be16(static_cast<uint16_t>(0x6000 | fields.tos << 4)));
    packet[7] = std::byte{fields.ttl};
    return packet;
  }
  Frame packet = Ipv4({.source = flow.source,
                       .destination = flow.destination,
                       .protocol = static_cast<uint8_t>(flow.protocol),
                       .id = fields.ip_id,
                       .fragment_offset_bytes = fields.fragment_offset_bytes,
                       .more_fragments = fields.more_fragments},
                      L4Of(fields));
  packet[1] = std::byte{fields.tos};
  if (fields.dont_fragment) packet[6] |= std::byte{0x40};
  packet[8] = std::byte{fields.ttl};
  const auto ip = Ipv4Header<std::byte>::At(packet, 0);
  FillIpv4Checksum(ip);
  if (fields.bad_ip_checksum.has_value()) {
    ip.set_checksum(be16(*fields.bad_ip_checksum));
  }
  return packet;
}

void ReadIp(const Frame& frame, const ParsedPacket& headers,
            TestPacketFields& fields) {
  if (!fields.is_ipv4()) {
    const auto ip = Ipv6Header<const std::byte>::At(frame, headers.l3_offset);
    fields.ttl = ip.hop_limit();
    fields.tos = ip.traffic_class();
    return;
  }
  const auto ip = Ipv4Header<const std::byte>::At(frame, headers.l3_offset);
  fields.ttl = ip.ttl();
  fields.tos = ip.traffic_class();
  fields.ip_id = ip.id();
  fields.fragment_offset_bytes = ip.fragment_offset_bytes();
  fields.more_fragments = ip.more_fragments();
  fields.dont_fragment = ip.dont_fragment();
  if (InternetChecksum(ip.header()) != be16(0)) {
    fields.bad_ip_checksum = ip.checksum().host();
  }
}

void ReadL4(const Frame& frame, const ParsedPacket& headers,
            TestPacketFields& fields) {
  const IpProtocol protocol = headers.l4_protocol;
  if (protocol == IpProtocol::kTcp) {
    const auto tcp = TcpHeader<const std::byte>::At(frame, headers.l4_offset);
    fields.tcp_flags = tcp.flags();
    fields.seq = tcp.sequence();
    fields.ack = tcp.acknowledgement();
    fields.window = tcp.window();
    fields.tcp_options = {tcp.options().begin(), tcp.options().end()};
  } else if (IsIcmp(protocol)) {
    const auto icmp =
        IcmpHeader<const std::byte>::At(frame, headers.l4_offset, protocol);
    fields.icmp_type = icmp.type();
    fields.icmp_code = icmp.code();
    fields.icmp_id = icmp.identifier().host();
    fields.seq = icmp.sequence().host();
    fields.is_icmp_error = icmp.is_error();
  }
  Frame l4(frame.begin() + headers.l4_offset,
           frame.begin() + headers.end_offset);
  std::byte* const at = ChecksumIn(l4, protocol);
  if (at == nullptr) return;
  const be16 found = LoadBe16(at);
  fields.no_checksum = found == be16(0) && protocol == IpProtocol::kUdp;
  Store(at, be16(0));
  if (!fields.no_checksum && found != ChecksumOf(l4, fields.flow)) {
    fields.bad_checksum = found.host();
  }
}

// The longest payloads that are written out, as text and in hexadecimal.
constexpr size_t kMostText = 256;
constexpr size_t kMostHex = 32;

std::string MacText(const Frame& mac) {
  const std::string digits = HexText(mac);
  std::string text;
  for (size_t i = 2; i < 14; i += 2) {
    text += (i > 2 ? ":" : "") + digits.substr(i, 2);
  }
  return text;
}

std::string PayloadText(const Frame& payload) {
  if (payload.empty()) return "";
  constexpr std::string_view kEscaped = "\"\\\n\r\t", kEscapes = "\"\\nrt";
  const auto is_text = [&](std::byte byte) {
    const char c = static_cast<char>(byte);
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
  };
  if (payload.size() <= kMostText && std::ranges::all_of(payload, is_text)) {
    std::string text = " \"";
    for (const std::byte byte : payload) {
      const char c = static_cast<char>(byte);
      const size_t escaped = kEscaped.find(c);
      text += escaped == std::string_view::npos
                  ? std::string(1, c)
                  : std::string("\\") + kEscapes[escaped];
    }
    return text + "\"";
  }
  const std::string length = " len=" + std::to_string(payload.size());
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (std::ranges::all_of(payload, is_zero)) return length;
  const std::span<const std::byte> bytes = payload;
  if (bytes.size() <= kMostHex) return " " + HexText(bytes);
  return " " + HexText(bytes.first(kMostHex)) + length;
}

std::string IcmpText(const TestPacketFields& fields) {
  std::string type = "type=" + std::to_string(fields.icmp_type);
  for (const TestIcmpName& name : kTestIcmpNames) {
    if (IcmpTypeOf(name, fields.flow) == fields.icmp_type) type = name.name;
  }
  return " " + type;
}

std::string FlagsText(const TestPacketFields& fields) {
  if (fields.tcp_flags == TcpHeader<std::byte>::kAck) return "";
  if (fields.tcp_flags == 0) return " no_flags";
  std::string text;
  for (const size_t bit : {1, 0, 2, 3, 4, 5, 6, 7}) {
    if ((fields.tcp_flags >> bit & 1) != 0) {
      text += " " + std::string(kTcpFlagNames[bit]);
    }
  }
  return text;
}

// Writes the packet that an ICMP error quotes, as far as `about` can express
// it.
std::string AboutText(const TestPacketFields& fields) {
  Frame quoted = Ethernet(fields.is_ipv4() ? 0x0800 : 0x86dd, fields.payload);
  const ParsedPacket headers = Parse(LinkType::kEthernet, quoted);
  if (!headers.has_ip()) return PayloadText(fields.payload);
  return " about {" + ToString(FiveTuple(quoted, headers, false)) + "}";
}

}  // namespace

Frame FrameOf(const TestPacketFields& fields) {
  uint16_t type = fields.is_ipv4() ? 0x0800 : 0x86dd;
  Frame packet = IpOf(fields);
  for (size_t i = fields.vlans.size(); i-- > 0;) {
    packet = Vlan(fields.vlans[i], type, packet);
    type = 0x8100;
  }
  packet = Ethernet(type, packet);
  std::ranges::copy(fields.destination_mac, packet.begin());
  std::ranges::copy(fields.source_mac, packet.begin() + 6);
  return packet;
}

std::optional<TestPacketFields> FieldsOf(const Frame& frame) {
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
  if (!headers.has_ip()) return std::nullopt;
  TestPacketFields fields;
  fields.flow = FiveTuple(frame, headers, false);
  fields.destination_mac = {frame.begin(), frame.begin() + 6};
  fields.source_mac = {frame.begin() + 6, frame.begin() + 12};
  if (headers.vlan_tags > 0) fields.vlans.push_back(headers.outer_vlan);
  if (headers.vlan_tags > 1) fields.vlans.push_back(headers.inner_vlan);
  ReadIp(frame, headers, fields);
  if (headers.result == ParseResult::kComplete) {
    ReadL4(frame, headers, fields);
  }
  size_t begin = headers.payload_offset;
  if (HasPorts(headers.l4_protocol) && begin == headers.l4_offset &&
      headers.fragment != Fragment::kLater) {
    begin += 4;
  }
  if (begin < headers.end_offset) {
    fields.payload = {frame.begin() + static_cast<ptrdiff_t>(begin),
                      frame.begin() + headers.end_offset};
  }
  return fields;
}

std::string HexText(std::span<const std::byte> bytes) {
  std::string text = "x'";
  for (const std::byte byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  std::to_integer<unsigned>(byte));
    text += digits;
  }
  return text + "'";
}

std::string TextOf(const TestPacketFields& fields) {
  const TestPacketFields unsaid;
  std::string text = ToString(fields.flow);
  const auto number = [&text](std::string_view key, uint64_t value,
                              uint64_t otherwise) {
    if (value == otherwise) return;
    text += " " + std::string(key) + "=" + std::to_string(value);
  };
  const bool is_icmp = IsIcmp(fields.flow.protocol);
  if (is_icmp) text += IcmpText(fields);
  if (fields.flow.protocol == IpProtocol::kTcp) text += FlagsText(fields);
  if (is_icmp) number("code", fields.icmp_code, 0);
  if (is_icmp) number("id", fields.icmp_id, 0);
  number("seq", fields.seq, 0);
  number("ack", fields.ack, 0);
  number("win", fields.window, unsaid.window);
  if (!fields.tcp_options.empty()) {
    text += " options=" + HexText(fields.tcp_options);
  }
  for (const uint16_t vlan : fields.vlans) number("vlan", vlan, 4'096);
  if (fields.source_mac != unsaid.source_mac) {
    text += " src=" + MacText(fields.source_mac);
  }
  if (fields.destination_mac != unsaid.destination_mac) {
    text += " dst=" + MacText(fields.destination_mac);
  }
  number("ttl", fields.ttl, unsaid.ttl);
  number("tos", fields.tos, 0);
  number("ip_id", fields.ip_id, 0);
  number("offset", fields.fragment_offset_bytes, 0);
  if (fields.more_fragments) text += " more";
  if (fields.dont_fragment) text += " df";
  text +=
      fields.is_icmp_error ? AboutText(fields) : PayloadText(fields.payload);
  if (fields.no_checksum) text += " no_checksum";
  if (fields.bad_checksum)
    number("bad_checksum", *fields.bad_checksum, 1 << 16);
  if (fields.bad_ip_checksum) {
    number("bad_ip_checksum", *fields.bad_ip_checksum, 1 << 16);
  }
  return text;
}

}  // namespace snf
