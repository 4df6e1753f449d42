// SPDX-License-Identifier: Apache-2.0
#include "nfs/gwlb_packet.h"

#include "base/answers/ip_writing.h"
#include "base/packet/headers.h"
#include "base/packet/l4_headers.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const std::byte>;
using Ip4 = Ipv4Header<const Byte>;
using Ip6 = Ipv6Header<const Byte>;
using Tcp = TcpHeader<const Byte>;
using Udp = UdpHeader<const Byte>;

constexpr size_t kIpBytes = Ipv4Header<Byte>::kMinBytes;
constexpr size_t kUdpBytes = UdpHeader<Byte>::kBytes;
static_assert(GwlbOptions::kOuterBytes ==
              kIpBytes + kUdpBytes + kGwlbHeaderBytes);

}  // namespace

IpAddress Ipv4SourceOf(Bytes frame, const ParsedPacket& headers) {
  if (headers.l3 != L3::kIpv4) return {};
  return IpAddress::FromIpv4(Ip4::At(frame, headers.l3_offset).source());
}

IpAddress Ipv4DestinationOf(Bytes frame, const ParsedPacket& headers) {
  if (headers.l3 != L3::kIpv4) return {};
  return IpAddress::FromIpv4(Ip4::At(frame, headers.l3_offset).destination());
}

bool IsForGroup(Bytes frame, const ParsedPacket& headers) {
  if (headers.l3 == L3::kIpv6) {
    const auto ip = Ip6::At(frame, headers.l3_offset);
    return ip.destination().bytes[0] == Byte{0xff};
  }
  const be32 to = Ip4::At(frame, headers.l3_offset).destination();
  constexpr uint32_t kFirstGroup = 0xe000'0000;
  return to.host() >= kFirstGroup;
}

bool IsGeneve(Bytes frame, const ParsedPacket& headers) {
  if (headers.l4_protocol != IpProtocol::kUdp ||
      headers.fragment == Fragment::kLater) {
    return false;
  }
  const auto udp = Udp::At(frame.first(headers.end_offset), headers.l4_offset);
  return udp && udp.destination_port().host() == kGenevePort;
}

GwlbTcp TcpOf(Bytes frame, const ParsedPacket& headers) {
  if (headers.l4_protocol != IpProtocol::kTcp ||
      headers.fragment == Fragment::kLater) {
    return {};
  }
  const auto tcp = Tcp::At(frame.first(headers.end_offset), headers.l4_offset);
  if (!tcp) return {};
  constexpr uint8_t kAll = Tcp::kSyn | Tcp::kAck | Tcp::kFin | Tcp::kRst;
  return {.is_tcp = true, .is_syn = (tcp.flags() & kAll) == Tcp::kSyn};
}

GwlbReturned ReadReturned(Bytes frame, const ParsedPacket& headers) {
  GwlbReturned returned;
  const Bytes payload =
      frame.subspan(headers.payload_offset, headers.payload_bytes());
  GeneveHeader header;
  returned.refusal = ParseGwlb(payload, header);
  if (returned.refusal != GwlbRefusal::kNone) return returned;
  returned.metadata = ReadGwlbMetadata(header);
  returned.protocol = header.protocol;
  returned.outer_bytes = static_cast<uint32_t>(
      headers.payload_offset - headers.l3_offset + header.bytes());
  returned.inner = payload.subspan(header.bytes());
  return returned;
}

bool IsInner(Bytes inner, const ParsedPacket& headers, EtherType protocol,
             bool is_whole) {
  const bool is_ipv4 = protocol == EtherType::kIpv4;
  if (headers.l3 != (is_ipv4 ? L3::kIpv4 : L3::kIpv6)) return false;
  if (!is_whole) return true;
  const size_t bytes =
      is_ipv4 ? size_t{Ip4::At(inner, 0).total_bytes()}
              : Ip6::kBytes + size_t{Ip6::At(inner, 0).payload_bytes()};
  return bytes > 0 && bytes <= inner.size();
}

GwlbOuterHeaders::GwlbOuterHeaders(const IpAddress& balancer,
                                   const IpAddress& appliance,
                                   const GwlbMetadata& metadata,
                                   const Packet& packet) {
  const size_t l3 = packet.headers().l3_offset;
  const bool is_ipv4 = packet.headers().l3 == L3::kIpv4;
  const uint8_t traffic_class =
      is_ipv4 ? Ip4::At(packet.bytes(), l3).traffic_class()
              : Ip6::At(packet.bytes(), l3).traffic_class();
  const std::span<Byte> all(bytes_);
  WriteIpv4Header(all, traffic_class, IpProtocol::kUdp, balancer, appliance);
  constexpr uint16_t kEphemeral = 0xc000;
  const auto port =
      static_cast<uint16_t>(kEphemeral | (metadata.cookie & 0x3fff));
  Store(&all[kIpBytes], be16(port));
  Store(&all[kIpBytes + 2], be16(kGenevePort));
  BuildGwlb(metadata, is_ipv4 ? EtherType::kIpv4 : EtherType::kIpv6,
            all.last<kGwlbHeaderBytes>());
}

}  // namespace snf
