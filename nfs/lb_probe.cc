// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_probe.h"

#include <algorithm>
#include <cstring>

#include "base/answers/ip_writing.h"
#include "base/packet/checksum.h"
#include "base/packet/flow_key.h"
#include "base/packet/headers.h"
#include "base/packet/l4_headers.h"
#include "base/packet/link_reversal.h"

namespace snf {
namespace {

using Byte = std::byte;
using Bytes = std::span<const std::byte>;
using Tcp = TcpHeader<const Byte>;

constexpr size_t kIpv4Bytes = Ipv4Header<Byte>::kMinBytes;
constexpr size_t kIpv6Bytes = Ipv6Header<Byte>::kBytes;
// The ports of the rounds, one after the other.
constexpr uint32_t kFirstPort = 32'768;
constexpr uint32_t kPorts = 28'000;

be16 PortOf(uint64_t round) {
  return be16(static_cast<uint16_t>(kFirstPort + round % kPorts));
}

// The first sequence number of a server's check in a round.
uint32_t SequenceOf(const LbEnd& server, uint64_t round) {
  FlowKey key;
  key.source = server.address;
  std::memcpy(key.destination.bytes.data(), &round, sizeof round);
  key.source_port = server.port;
  key.form = server.is_ipv6 ? FlowKeyForm::kIpv6 : FlowKeyForm::kIpv4;
  return static_cast<uint32_t>(Hash(key) >> 32);
}

// Says what the first bytes of an HTTP response mean.
LbAnswer ReadResponse(Bytes payload) {
  constexpr std::string_view kVersion = "HTTP/1.";
  constexpr size_t kStatusAt = 9;  // behind "HTTP/1.1 "
  const std::string_view text(reinterpret_cast<const char*>(payload.data()),
                              payload.size());
  if (!text.starts_with(kVersion) || text.size() <= kStatusAt) {
    return LbAnswer::kFailed;
  }
  const char first = text[kStatusAt];
  return first == '2' || first == '3' ? LbAnswer::kPassed : LbAnswer::kFailed;
}

}  // namespace

std::string LbRequest(const LbHealthOptions& options) {
  if (options.check != LbHealthCheck::kHttp) return "";
  return "GET " + options.path + " HTTP/1.0\r\n\r\n";
}

void LbProbe::WriteIp(const Packet& like, size_t link_bytes,
                      const IpAddress& from, const IpAddress& to,
                      size_t payload_bytes) {
  const size_t l4_bytes = Tcp::kMinBytes + payload_bytes;
  const bool is_ipv6 = like.headers().l3 == L3::kIpv6;
  size_ = link_bytes + (is_ipv6 ? kIpv6Bytes : kIpv4Bytes) + l4_bytes;
  const std::span<Byte> ip = std::span(bytes_).first(size_).subspan(link_bytes);
  if (is_ipv6) {
    WriteIpv6Header(ip, 0, 0, IpProtocol::kTcp, from, to);
    Ipv6Header<Byte>::At(ip, 0).set_payload_bytes(
        static_cast<uint16_t>(l4_bytes));
    return;
  }
  WriteIpv4Header(ip, 0, IpProtocol::kTcp, from, to);
  const auto header = Ipv4Header<Byte>::At(ip, 0);
  header.set_total_bytes(static_cast<uint16_t>(ip.size()));
  FillIpv4Checksum(header);
}

// Behind WriteIp.
void LbProbe::WriteTcp(const IpAddress& from, const IpAddress& to,
                       be16 from_port, be16 to_port, uint32_t sequence,
                       std::optional<uint32_t> acknowledgement, uint8_t flags,
                       std::string_view payload) {
  const size_t l4_bytes = Tcp::kMinBytes + payload.size();
  const std::span<Byte> l4 =
      std::span(bytes_).subspan(size_ - l4_bytes, l4_bytes);
  constexpr size_t kSequence = 4, kAck = 8, kWords = 12, kFlags = 13,
                   kWindow = 14;
  Store(&l4[0], from_port);
  Store(&l4[2], to_port);
  Store(&l4[kSequence], be32(sequence));
  if (acknowledgement.has_value()) {
    Store(&l4[kAck], be32(*acknowledgement));
    flags |= Tcp::kAck;
  }
  l4[kWords] = Byte{5 << 4};
  l4[kFlags] = Byte{flags};
  Store(&l4[kWindow], be16(16'384));
  std::memcpy(l4.data() + Tcp::kMinBytes, payload.data(), payload.size());
  Store(&l4[Tcp::kChecksumOffset], L4Checksum(from, to, IpProtocol::kTcp, l4));
}

LbProbe LbProbe::Syn(const Packet& beside, Way way, const LbEnd& server,
                     const IpAddress& source, uint64_t round) {
  LbProbe probe;
  const auto link_bytes = ReverseLinkHeader(beside.link(), beside.bytes(),
                                            beside.headers(), probe.bytes_);
  if (!link_bytes.has_value()) return probe;
  if (way == Way::kOn) {
    std::ranges::copy(beside.bytes().first(*link_bytes), probe.bytes_.begin());
  }
  probe.WriteIp(beside, *link_bytes, source, server.address, 0);
  probe.WriteTcp(source, server.address, PortOf(round), server.port,
                 SequenceOf(server, round), {}, Tcp::kSyn, "");
  return probe;
}

LbProbe LbProbe::Answer(const Packet& segment, std::string_view request) {
  LbProbe probe;
  const ParsedPacket& headers = segment.headers();
  const Bytes frame = segment.bytes();
  const auto tcp = Tcp::At(frame.first(headers.end_offset), headers.l4_offset);
  if (!tcp || request.size() > kMaxRequestBytes) return probe;
  const auto link_bytes =
      ReverseLinkHeader(segment.link(), frame, headers, probe.bytes_);
  if (!link_bytes.has_value()) return probe;
  const FlowKey ends = FiveTuple(frame, headers, false);
  std::optional<uint32_t> acknowledgement;
  if (!request.empty()) acknowledgement = tcp.sequence() + 1;
  probe.WriteIp(segment, *link_bytes, ends.destination, ends.source,
                request.size());
  probe.WriteTcp(ends.destination, ends.source, ends.destination_port,
                 ends.source_port, tcp.acknowledgement(), acknowledgement,
                 request.empty() ? Tcp::kRst : Tcp::kPsh, request);
  return probe;
}

LbAnswer ReadLbAnswer(const Packet& segment, const LbEnd& server, uint64_t now,
                      const LbHealthOptions& options, uint64_t& round) {
  const ParsedPacket& headers = segment.headers();
  const Bytes bytes = segment.bytes().first(headers.end_offset);
  const auto tcp = Tcp::At(bytes, headers.l4_offset);
  if (!tcp || (tcp.flags() & Tcp::kAck) == 0) return LbAnswer::kNone;
  for (const uint64_t one : {now, now - 1}) {
    if (tcp.destination_port() != PortOf(one)) continue;
    round = one;
    const uint32_t open = SequenceOf(server, one) + 1;
    if ((tcp.flags() & Tcp::kRst) != 0) {
      return tcp.acknowledgement() == open ? LbAnswer::kRefused
                                           : LbAnswer::kNone;
    }
    const bool is_http = options.check == LbHealthCheck::kHttp;
    if ((tcp.flags() & Tcp::kSyn) != 0) {
      if (tcp.acknowledgement() != open) return LbAnswer::kNone;
      return is_http ? LbAnswer::kOpen : LbAnswer::kPassed;
    }
    const auto sent = static_cast<uint32_t>(LbRequest(options).size());
    const bool is_response = is_http && headers.payload_bytes() > 0 &&
                             tcp.acknowledgement() == open + sent;
    if (!is_response) return LbAnswer::kNone;
    return ReadResponse(bytes.subspan(headers.payload_offset));
  }
  return LbAnswer::kNone;
}

}  // namespace snf
