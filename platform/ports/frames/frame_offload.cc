// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/frames/frame_offload.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/byte_order.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"

namespace snf {
namespace {

constexpr uint8_t kCwr = 0x80;  // RFC 3168
// Offset of SCTP's checksum, which is of another kind (RFC 9260).
constexpr uint16_t kSctpChecksumOffset = 8;
constexpr uint16_t kUdpChecksumOffset = 6;

bool CompleteChecksum(std::span<std::byte> frame, const FrameOffload& offload) {
  const size_t at = size_t{offload.checksum_start} + offload.checksum_offset;
  if (at + 2 > frame.size()) return false;
  if (offload.checksum_offset == kSctpChecksumOffset) return false;
  be16 checksum = InternetChecksum(frame.subspan(offload.checksum_start));
  if (offload.checksum_offset == kUdpChecksumOffset) {
    checksum = UdpChecksumToSend(checksum);
  }
  Store(&frame[at], checksum);
  return true;
}

bool CanSplit(const ParsedPacket& headers) {
  return headers.result == ParseResult::kComplete &&
         headers.fragment == Fragment::kNone && headers.payload_bytes() > 0 &&
         (headers.l4_protocol == IpProtocol::kTcp ||
          headers.l4_protocol == IpProtocol::kUdp);
}

// One of the packets of a frame, with the offset of its payload in the frame's
// payload.
struct Piece {
  std::span<std::byte> bytes;
  uint32_t number;
  uint32_t offset;
  bool is_last;
};

void FinishTcp(const Piece& piece, const ParsedPacket& headers) {
  const std::span<std::byte> tcp = piece.bytes.subspan(headers.l4_offset);
  Store(&tcp[4], be32(LoadBe32(&tcp[4]).host() + piece.offset));
  uint8_t left_out = 0;
  if (!piece.is_last) {
    left_out |= TcpHeader<std::byte>::kFin | TcpHeader<std::byte>::kPsh;
  }
  if (piece.number > 0) left_out |= kCwr;
  tcp[13] &= static_cast<std::byte>(~left_out);
}

void FinishChecksum(const Piece& piece, const ParsedPacket& headers,
                    const IpAddress& source, const IpAddress& destination) {
  const std::span<std::byte> l4 = piece.bytes.subspan(headers.l4_offset);
  const bool is_tcp = headers.l4_protocol == IpProtocol::kTcp;
  const size_t at =
      is_tcp ? TcpHeader<std::byte>::kChecksumOffset : kUdpChecksumOffset;
  Store(&l4[at], be16(0));
  const be16 checksum =
      L4Checksum(source, destination, headers.l4_protocol, l4);
  Store(&l4[at], is_tcp ? checksum : UdpChecksumToSend(checksum));
}

void FinishPiece(const Piece& piece, const ParsedPacket& headers) {
  const std::span<std::byte> bytes = piece.bytes;
  const std::span<std::byte> l4 = bytes.subspan(headers.l4_offset);
  if (headers.l4_protocol == IpProtocol::kTcp) {
    FinishTcp(piece, headers);
  } else {
    Store(&l4[4], be16(static_cast<uint16_t>(l4.size())));
  }
  const size_t l3 = headers.l3_offset;
  if (headers.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<std::byte>::At(bytes, l3);
    ip.set_total_bytes(static_cast<uint16_t>(bytes.size() - l3));
    const uint32_t id = LoadBe16(&bytes[l3 + 4]).host() + piece.number;
    Store(&bytes[l3 + 4], be16(static_cast<uint16_t>(id)));
    FillIpv4Checksum(ip);
    FinishChecksum(piece, headers, IpAddress::FromIpv4(ip.source()),
                   IpAddress::FromIpv4(ip.destination()));
  } else {
    const auto ip = Ipv6Header<std::byte>::At(bytes, l3);
    ip.set_payload_bytes(static_cast<uint16_t>(bytes.size() - l3 -
                                               Ipv6Header<std::byte>::kBytes));
    FinishChecksum(piece, headers, ip.source(), ip.destination());
  }
}

bool IsWholeFrame(std::span<const std::byte> frame,
                  const ParsedPacket& headers) {
  return CanSplit(headers) && headers.vlan_tags == 0 &&
         headers.end_offset == frame.size() &&
         headers.payload_offset <= kMostMergedHeaders;
}

// Returns false if the frame is a tunnel's, whose inner packet is to be split,
// which is not supported.
bool IsOfOutermost(const ParsedPacket& headers, const FrameOffload& offload) {
  return offload.checksum_start == 0 ||
         offload.checksum_start == headers.l4_offset;
}

// Returns the sum that a network card begins with, not complemented.
be16 PseudoHeaderSum(std::span<const std::byte> frame,
                     const ParsedPacket& headers) {
  IpAddress source, destination;
  if (headers.l3 == L3::kIpv4) {
    const auto ip = Ipv4Header<const std::byte>::At(frame, headers.l3_offset);
    source = IpAddress::FromIpv4(ip.source());
    destination = IpAddress::FromIpv4(ip.destination());
  } else {
    const auto ip = Ipv6Header<const std::byte>::At(frame, headers.l3_offset);
    source = ip.source();
    destination = ip.destination();
  }
  const be16 without_length =
      L4Checksum(source, destination, headers.l4_protocol, {});
  const be16 checksum =
      UpdateChecksum(without_length, be32(0), be32(headers.l4_bytes()));
  return be16(static_cast<uint16_t>(~checksum.host()));
}

bool IsFlood(const ParsedPacket& headers, uint16_t segment_bytes) {
  return headers.payload_bytes() > segment_bytes * kMostMergedPackets;
}

size_t Cut(std::span<const std::byte> frame, const ParsedPacket& headers,
           uint16_t segment_bytes,
           absl::FunctionRef<void(std::span<const std::byte>)> take) {
  const auto head = frame.first(headers.payload_offset);
  const auto payload = frame.subspan(head.size(), headers.payload_bytes());
  std::vector<std::byte> room(head.size() + segment_bytes);
  Piece piece = {.bytes = {}, .number = 0, .offset = 0, .is_last = false};
  while (piece.offset < payload.size()) {
    const size_t left = payload.size() - piece.offset;
    const size_t bytes = std::min<size_t>(left, segment_bytes);
    piece.is_last = bytes == left;
    piece.bytes = std::span(room).first(head.size() + bytes);
    std::ranges::copy(head, piece.bytes.begin());
    std::memcpy(&piece.bytes[head.size()], &payload[piece.offset], bytes);
    FinishPiece(piece, headers);
    take(piece.bytes);
    ++piece.number;
    piece.offset += static_cast<uint32_t>(bytes);
  }
  return piece.number;
}

}  // namespace

size_t FinishFrame(std::span<std::byte> frame, const FrameOffload& offload,
                   absl::FunctionRef<void(std::span<const std::byte>)> take) {
  if (offload.segment_bytes == 0) {
    if (offload.checksum_start != 0 && !CompleteChecksum(frame, offload)) {
      return 0;
    }
    take(frame);
    return 1;
  }
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
  if (!CanSplit(headers) || !IsOfOutermost(headers, offload)) return 0;
  return Cut(frame, headers, offload.segment_bytes, take);
}

size_t CutFrame(std::span<const std::byte> frame, uint16_t segment_bytes,
                absl::FunctionRef<void(std::span<const std::byte>)> take) {
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
  if (!CanSplit(headers) || IsFlood(headers, segment_bytes)) return 0;
  return Cut(frame, headers, segment_bytes, take);
}

std::optional<FrameOffload> ReadOffload(const OffloadHeader& header,
                                        size_t tag_bytes) {
  FrameOffload left = {.segment_bytes = 0};
  if ((header.flags & OffloadHeader::kNeedsChecksum) != 0) {
    left.checksum_start =
        static_cast<uint16_t>(header.checksum_start + tag_bytes);
    left.checksum_offset = header.checksum_offset;
  }
  switch (header.segments & ~OffloadHeader::kCongestion) {
    case OffloadHeader::kNone:
      return left;
    case OffloadHeader::kTcpIpv4:
    case OffloadHeader::kTcpIpv6:
    case OffloadHeader::kUdp:
      if (header.segment_bytes == 0) return std::nullopt;
      left.segment_bytes = header.segment_bytes;
      return left;
    default:
      return std::nullopt;
  }
}

bool CanStayWhole(std::span<const std::byte> frame,
                  const FrameOffload& offload) {
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
  return IsWholeFrame(frame, headers) && IsOfOutermost(headers, offload) &&
         !IsFlood(headers, offload.segment_bytes);
}

size_t DescribeMerged(std::span<const std::byte> frame, uint16_t segment_bytes,
                      std::span<std::byte, kMostMergedHeaders> headers,
                      OffloadHeader& described) {
  const ParsedPacket h = Parse(LinkType::kEthernet, frame);
  if (!IsWholeFrame(frame, h) || IsFlood(h, segment_bytes)) return 0;
  std::ranges::copy(frame.first(h.payload_offset), headers.begin());
  const bool is_tcp = h.l4_protocol == IpProtocol::kTcp;
  const size_t at =
      is_tcp ? TcpHeader<std::byte>::kChecksumOffset : kUdpChecksumOffset;
  Store(&headers[h.l4_offset + at], PseudoHeaderSum(frame, h));
  const uint8_t tcp =
      h.l3 == L3::kIpv4 ? OffloadHeader::kTcpIpv4 : OffloadHeader::kTcpIpv6;
  described = {.flags = OffloadHeader::kNeedsChecksum,
               .segments = is_tcp ? tcp : OffloadHeader::kUdp,
               .header_bytes = h.payload_offset,
               .segment_bytes = segment_bytes,
               .checksum_start = h.l4_offset,
               .checksum_offset = static_cast<uint16_t>(at)};
  if (is_tcp && (std::to_integer<uint8_t>(frame[h.l4_offset + 13]) & kCwr)) {
    described.segments |= OffloadHeader::kCongestion;
  }
  return h.payload_offset;
}

bool MergedFrame::Describe(std::span<const std::byte> frame,
                           uint16_t segment_bytes, size_t most_bytes) {
  const size_t bytes =
      DescribeMerged(frame, segment_bytes, headers_, described_);
  if (bytes == 0 || bytes + segment_bytes > most_bytes) return false;
  const std::span<const std::byte> payload = frame.subspan(bytes);
  parts_ = {{{&described_, sizeof described_},
             {headers_.data(), bytes},
             {const_cast<std::byte*>(payload.data()), payload.size()}}};
  return true;
}

}  // namespace snf
