// SPDX-License-Identifier: Apache-2.0
#include "nfs/monitor_record.h"

#include <span>

#include "base/packet/headers.h"

namespace snf {
namespace {

using Byte = const std::byte;

// Returns the length that the IP header says. Where it says none, as in
// segments that the card is to cut, the packet reaches to the end of the frame.
uint64_t OctetsOf(const Packet& packet) {
  const ParsedPacket& headers = packet.headers();
  const std::span<Byte> bytes = packet.bytes();
  if (headers.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<Byte>::At(bytes, headers.l3_offset);
    if (ip && ip.total_bytes() != 0) return ip.total_bytes();
  } else {
    const auto ip = Ipv6Header<Byte>::At(bytes, headers.l3_offset);
    if (ip && ip.payload_bytes() != 0) {
      return ip.payload_bytes() + Ipv6Header<Byte>::kBytes;
    }
  }
  return packet.original_length() - headers.l3_offset;
}

uint16_t AddRecordTemplate(bool ipv4, bool icmp, IpfixWriter& writer) {
  const IpfixField source = ipv4 ? kIpfixSource4 : kIpfixSource6;
  const IpfixField destination = ipv4 ? kIpfixDestination4 : kIpfixDestination6;
  if (icmp) {
    return writer.AddTemplate({kIpfixStart, kIpfixEnd, source, destination,
                               kIpfixProtocol, kIpfixVlan, kIpfixEndReason,
                               kIpfixPackets, kIpfixOctets, kIpfixLinkOctets,
                               ipv4 ? kIpfixIcmp4 : kIpfixIcmp6});
  }
  return writer.AddTemplate(
      {kIpfixStart, kIpfixEnd, source, destination, kIpfixProtocol, kIpfixVlan,
       kIpfixEndReason, kIpfixPackets, kIpfixOctets, kIpfixLinkOctets,
       kIpfixSourcePort, kIpfixDestinationPort, kIpfixTcpFlags});
}

void AddRecord(const FlowKey& ends, const MonitorRecord& record, bool ipv4,
               IpfixWriter& writer) {
  constexpr uint64_t kMillisecond = 1'000'000;
  writer.Put(record.first_ns / kMillisecond, 8);
  writer.Put(record.last_ns / kMillisecond, 8);
  writer.Put(ends.source, ipv4);
  writer.Put(ends.destination, ipv4);
  writer.Put(static_cast<uint64_t>(ends.protocol), 1);
  writer.Put(record.vlan, 2);
  writer.Put(static_cast<uint64_t>(record.end), 1);
  writer.Put(record.packets, 8);
  writer.Put(record.octets, 8);
  writer.Put(record.link_octets, 8);
  if (IsIcmp(ends.protocol)) return writer.Put(record.icmp, 2);
  writer.Put(ends.source_port.host(), 2);
  writer.Put(ends.destination_port.host(), 2);
  writer.Put(record.tcp_flags, 2);
}

}  // namespace

MonitorRecord MonitorRecord::Of(const Packet& packet) {
  const ParsedPacket& headers = packet.headers();
  const auto now_ns = static_cast<uint64_t>(packet.arrival().ns);
  // All packets of a frame have its link header.
  const uint64_t link_octets = packet.wire_bytes() - packet.original_length();
  const uint64_t more = packet.wire_packets() - 1;
  MonitorRecord record = {
      .packets = packet.wire_packets(),
      .octets = OctetsOf(packet) + link_octets - more * headers.l3_offset,
      .link_octets = packet.wire_bytes(),
      .first_ns = now_ns,
      .last_ns = now_ns,
      .vlan = headers.outer_vlan};
  if (headers.fragment == Fragment::kLater) return record;
  const std::span<Byte> bytes =
      std::span<Byte>(packet.bytes()).first(headers.end_offset);
  if (IsIcmp(headers.l4_protocol)) {
    const auto icmp =
        IcmpHeader<Byte>::At(bytes, headers.l4_offset, headers.l4_protocol);
    if (icmp) {
      record.icmp = static_cast<uint16_t>(icmp.type() << 8 | icmp.code());
    }
  } else if (headers.l4_protocol == IpProtocol::kTcp) {
    const auto tcp = TcpHeader<Byte>::At(bytes, headers.l4_offset);
    if (tcp) record.tcp_flags = tcp.flags();
  }
  return record;
}

void MonitorRecord::Add(const MonitorRecord& other) {
  if (other.packets > 0) {
    first_ns =
        packets > 0 ? std::min(first_ns, other.first_ns) : other.first_ns;
  }
  last_ns = std::max(last_ns, other.last_ns);
  packets += other.packets;
  octets += other.octets;
  link_octets += other.link_octets;
  tcp_flags |= other.tcp_flags;
  icmp = std::max(icmp, other.icmp);
  vlan = std::max(vlan, other.vlan);
  end = std::max(end, other.end);
}

void AddMonitorRecords(const MonitorRecords& records, IpfixWriter& writer) {
  for (const bool icmp : {false, true}) {
    for (const bool ipv4 : {true, false}) {
      const uint16_t number = AddRecordTemplate(ipv4, icmp, writer);
      for (const auto& [key, record] : records) {
        if (IsIcmp(key.ends.protocol) != icmp ||
            (key.ends.form == FlowKeyForm::kIpv4) != ipv4) {
          continue;
        }
        writer.Begin(number);
        AddRecord(key.ends, record, ipv4, writer);
      }
    }
  }
}

}  // namespace snf
