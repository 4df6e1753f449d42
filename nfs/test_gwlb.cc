// SPDX-License-Identifier: Apache-2.0
#include "nfs/test_gwlb.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/ip_address_text.h"
#include "base/packet/l4_headers.h"
#include "base/packet/packet_parser.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const Byte>;

constexpr size_t kLink = EthernetHeader<Byte>::kBytes;
constexpr size_t kIp = Ipv4Header<Byte>::kMinBytes;
constexpr size_t kUdp = UdpHeader<Byte>::kBytes;

std::string TextOfInner(const TestPacket& outer, Bytes inner,
                        EtherType protocol) {
  TestPacket packet;
  packet.bytes.assign(outer.bytes.begin(),
                      outer.bytes.begin() + static_cast<ptrdiff_t>(kLink));
  Store(&packet.bytes[kLink - 2], be16(static_cast<uint16_t>(protocol)));
  packet.bytes.insert(packet.bytes.end(), inner.begin(), inner.end());
  packet.original_length = static_cast<uint32_t>(packet.bytes.size());
  return ToText(packet);
}

}  // namespace

std::string Balancer(int appliances, const std::string& more) {
  std::string text =
      "gwlb:address=" + std::string(kBalancerAddress) + ",appliances=";
  for (int i = 0; i < appliances; ++i) {
    text += (i == 0 ? "10.0.2." : "+10.0.2.") + std::to_string(11 + i);
  }
  return text + (more.empty() ? "" : "," + more);
}

ToAppliance ReadToAppliance(const TestPacket& packet) {
  ToAppliance read;
  read.packet = packet;
  const Bytes frame = packet.bytes;
  const ParsedPacket headers = Parse(packet.link, frame);
  const auto ip = Ipv4Header<const Byte>::At(frame, kLink);
  const auto udp = UdpHeader<const Byte>::At(frame, kLink + kIp);
  read.outer = "no GENEVE: " + ToText(packet);
  if (headers.l3 != L3::kIpv4 || !ip || !udp ||
      udp.destination_port().host() != kGenevePort) {
    return read;
  }
  EXPECT_EQ(InternetChecksum(ip.header()), be16(0));
  EXPECT_TRUE(ip.dont_fragment());
  EXPECT_EQ(ip.ttl(), 64);
  EXPECT_EQ(ip.total_bytes(), frame.size() - kLink);
  EXPECT_EQ(udp.length_bytes(), frame.size() - kLink - kIp);
  EXPECT_EQ(udp.checksum(), be16(0));
  EXPECT_GE(udp.source_port().host(), 49'152);
  const Bytes payload = frame.subspan(kLink + kIp + kUdp);
  GeneveHeader header;
  const GwlbRefusal refusal = ParseGwlb(payload, header);
  read.outer = "refused: " + std::string(Name(refusal));
  if (refusal != GwlbRefusal::kNone) return read;
  EXPECT_EQ(header.bytes(), kGwlbHeaderBytes);
  read.metadata = ReadGwlbMetadata(header);
  read.appliance = Ipv4Text(IpAddress::FromIpv4(ip.destination()));
  read.outer = Ipv4Text(IpAddress::FromIpv4(ip.source())) + " > " +
               read.appliance + ":6081";
  read.inner =
      TextOfInner(packet, payload.subspan(header.bytes()), header.protocol);
  return read;
}

ToAppliance ReadToAppliance(const NfResult& result) {
  if (result.text.starts_with("drop") || result.text == "consume") {
    ToAppliance read;
    read.outer = result.text;
    return read;
  }
  return ReadToAppliance(result.packet);
}

TestPacket SentBack(const TestPacket& sent) {
  TestPacket back = sent;
  back.gap = Microseconds(10);
  // The checksum stays right.
  std::swap_ranges(&back.bytes[kLink + 12], &back.bytes[kLink + 16],
                   &back.bytes[kLink + 16]);
  return back;
}

TestPacket SentBack(const TestPacket& sent, const std::string& inner) {
  const TestPacket packet = Packets({inner})[0];
  std::vector<Byte> payload = PayloadOf(sent);
  payload.resize(kGwlbHeaderBytes);
  std::copy_n(&packet.bytes[kLink - 2], 2, &payload[2]);
  payload.insert(payload.end(),
                 packet.bytes.begin() + static_cast<ptrdiff_t>(kLink),
                 packet.bytes.end());
  return WithPayload(SentBack(sent), payload);
}

std::vector<Byte> PayloadOf(const TestPacket& packet) {
  return {packet.bytes.begin() + static_cast<ptrdiff_t>(kLink + kIp + kUdp),
          packet.bytes.end()};
}

TestPacket WithPayload(const TestPacket& packet,
                       const std::vector<Byte>& payload) {
  TestPacket changed = packet;
  changed.bytes.resize(kLink + kIp + kUdp);
  changed.bytes.insert(changed.bytes.end(), payload.begin(), payload.end());
  changed.original_length = static_cast<uint32_t>(changed.bytes.size());
  const auto ip = Ipv4Header<Byte>::At(changed.bytes, kLink);
  ip.set_total_bytes(static_cast<uint16_t>(changed.bytes.size() - kLink));
  FillIpv4Checksum(ip);
  Store(&changed.bytes[kLink + kIp + 4],
        be16(static_cast<uint16_t>(kUdp + payload.size())));
  return changed;
}

TestPacket From(Side side, TestPacket packet) {
  packet.side = side;
  return packet;
}

TestPacket From(Side side, const std::string& text) {
  return From(side, Packets({text})[0]);
}

}  // namespace snf
