// SPDX-License-Identifier: Apache-2.0
#include "nfs/test_nat.h"

#include <algorithm>

#include "base/check.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"

namespace snf {
namespace {

using Header = Ipv4Header<const std::byte>;

size_t ChecksumOffset(IpProtocol protocol) {
  return protocol == IpProtocol::kTcp   ? 16
         : protocol == IpProtocol::kUdp ? 6
                                        : 2;
}

be16 SumOfL4(const Frame& packet) {
  const ParsedPacket headers = Parse(LinkType::kRawIp, packet);
  const auto ip = Header::At(packet, 0);
  const auto l4 =
      std::span(packet).subspan(headers.l4_offset, headers.l4_bytes());
  if (headers.l4_protocol == IpProtocol::kIcmp) return InternetChecksum(l4);
  return L4Checksum(IpAddress::FromIpv4(ip.source()),
                    IpAddress::FromIpv4(ip.destination()), headers.l4_protocol,
                    l4);
}

TestEnd EndOf(const Frame& packet, bool source) {
  const ParsedPacket headers = Parse(LinkType::kRawIp, packet);
  const auto ip = Header::At(packet, 0);
  TestEnd end = {IpAddress::FromIpv4(source ? ip.source() : ip.destination()),
                 0};
  const size_t offset = headers.l4_protocol == IpProtocol::kIcmp ? 4
                        : source                                 ? 0
                                                                 : 2;
  if (headers.fragment != Fragment::kLater) {
    end.port = LoadBe16(&packet[headers.l4_offset + offset]).host();
  }
  return end;
}

}  // namespace

TestNat::TestNat(std::string_view options) {
  const absl::StatusOr<NfOptions> parsed = NfOptions::Parse(options);
  SNF_CHECK(parsed.ok());
  nf_ = FindNf("nat")->create(*parsed);
  for (const NetworkFunction::Pool& pool : nf_->pools()) {
    PieceSet& pieces = pools_.emplace_back(pool.words());
    for (uint32_t p = pool.first; p <= pool.last; ++p) {
      pieces.Add(p / 64, uint64_t{1} << p % 64);
    }
  }
}

TestNat::Flow TestNat::NewFlow() const {
  return {std::vector<std::byte>(nf_->schema().record_bytes())};
}

TestNat::Sent TestNat::Send(Flow& flow, Side side, const Frame& frame, Nanos at,
                            LinkType link, uint32_t original_length) {
  Sent sent;
  sent.frame = frame;
  PacketInfo info;
  info.arrival = Instant{} + at;
  info.length = static_cast<uint32_t>(frame.size());
  info.original_length = original_length == 0 ? info.length : original_length;
  info.headers = Parse(link, frame);
  info.link = link;
  info.side = side;
  Packet packet(info, sent.frame);
  StateView view(flow.record);
  FlowState state(FlowId{1}, info.arrival, Instant::max(), view, *this);
  const size_t pieces_before = pieces();
  sent.verdict = nf_->process_packet(packet, state);
  if (sent.verdict.kind() == Verdict::Kind::kWait) {
    SNF_CHECK(view.dirty() == 0 && sent.frame == frame &&
              pieces() == pieces_before);
  }
  if (sent.verdict.kind() == Verdict::Kind::kDrop) {
    sent.drop = nf_->drop_reasons()[sent.verdict.reason()];
  }
  SNF_CHECK(nf_->schema().IsWellFormed(flow.record));
  return sent;
}

void TestNat::RefuseAlias(Flow& flow, AliasResult why) {
  StateView view(flow.record);
  FlowState state(FlowId{1}, Instant{}, Instant::max(), view, *this);
  nf_->on_alias_refused(state, why);
  SNF_CHECK(nf_->schema().IsWellFormed(flow.record));
}

void TestNat::End(Flow& flow) {
  StateView view(flow.record);
  FlowState state(FlowId{1}, Instant{}, Instant::max(), view, *this);
  nf_->on_end(state);
  std::ranges::fill(flow.record, std::byte{});
}

size_t TestNat::pieces() const {
  size_t pieces = 0;
  for (const PieceSet& pool : pools_) pieces += pool.size();
  return pieces;
}

bool TestNat::Emit(std::span<const std::byte> frame) {
  if (frame.empty()) return false;
  emitted.emplace_back(frame.begin(), frame.end());
  return true;
}

std::optional<uint32_t> TestNat::TakePiece(PoolId pool,
                                           const PiecePreference& wish) {
  return pools_[static_cast<size_t>(pool)].Take(wish);
}

void TestNat::GivePiece(PoolId pool, uint32_t piece) {
  const uint64_t twice = pools_[static_cast<size_t>(pool)].Add(
      piece / 64, uint64_t{1} << piece % 64);
  SNF_CHECK(twice == 0);
}

bool TestNat::IsExhausted(PoolId pool) const {
  return exhausted.contains(static_cast<uint16_t>(pool));
}

void TestNat::SetAlias(const FlowKey& key, uint64_t group,
                       uint32_t group_limit) {
  aliases.push_back({key, group, group_limit});
}

void TestNat::Note(Nanos idle_timeout, bool over) {
  notes.push_back({idle_timeout, over});
}

Frame WithChecksum(Frame ip_packet) {
  const ParsedPacket headers = Parse(LinkType::kRawIp, ip_packet);
  std::byte* const field =
      &ip_packet[headers.l4_offset + ChecksumOffset(headers.l4_protocol)];
  Store(field, be16(0));
  const be16 sum = SumOfL4(ip_packet);
  Store(field,
        headers.l4_protocol == IpProtocol::kUdp ? UdpChecksumToSend(sum) : sum);
  return ip_packet;
}

Frame Between(uint8_t protocol, TestEnd from, TestEnd to, uint8_t tcp_flags,
              uint8_t icmp_type) {
  const Ipv4Fields fields = {
      .source = from.address, .destination = to.address, .protocol = protocol};
  if (protocol == 6) {
    Frame packet = Ipv4(fields, Tcp(from.port, to.port, 1, 12));
    packet[33] = std::byte{tcp_flags};
    return WithChecksum(packet);
  }
  if (protocol == 17) {
    return WithChecksum(Ipv4(fields, Udp(from.port, to.port, 11)));
  }
  const bool is_request = icmp_type == 8 || icmp_type == 13;
  return WithChecksum(
      Ipv4(fields, Icmp(icmp_type, 0, is_request ? from.port : to.port,
                        Frame(9, std::byte{0x42}))));
}

Frame ErrorAbout(const Frame& ip_packet, const IpAddress& from,
                 const IpAddress& to) {
  Frame quoted = ip_packet;
  quoted.resize(28);
  return WithChecksum(Ipv4({.source = from, .destination = to, .protocol = 1},
                           Icmp(3, 1, 0, quoted)));
}

bool HasGoodChecksums(const Frame& ip_packet) {
  const ParsedPacket headers = Parse(LinkType::kRawIp, ip_packet);
  if (InternetChecksum(Header::At(ip_packet, 0).header()) != be16(0)) {
    return false;
  }
  if (headers.icmp_inner_offset != 0 &&
      InternetChecksum(
          Header::At(ip_packet, headers.icmp_inner_offset).header()) !=
          be16(0)) {
    return false;
  }
  return SumOfL4(ip_packet) == be16(0);
}

TestEnd SourceOf(const Frame& ip_packet) { return EndOf(ip_packet, true); }
TestEnd DestinationOf(const Frame& ip_packet) {
  return EndOf(ip_packet, false);
}

}  // namespace snf
