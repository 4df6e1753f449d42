// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/frames/frame_offload.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/byte_order.h"
#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/packet_parser.h"
#include "base/packet/test_packets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

using ::testing::ElementsAre;

constexpr uint16_t kTcpChecksum = 16, kUdpChecksum = 6;
constexpr uint8_t kFin = 0x01, kPsh = 0x08, kAck = 0x10, kCwr = 0x80;

std::vector<Frame> Finished(Frame frame, const FrameOffload& offload) {
  std::vector<Frame> packets;
  const size_t count =
      FinishFrame(frame, offload, [&](std::span<const std::byte> packet) {
        packets.emplace_back(packet.begin(), packet.end());
      });
  EXPECT_EQ(count, packets.size());
  return packets;
}

Frame TcpFrame(uint32_t sequence, uint8_t flags, size_t payload_bytes) {
  Frame tcp = Tcp(5000, 80, 3, payload_bytes);
  Store(&tcp[4], be32(sequence));
  tcp[13] = std::byte{flags};
  for (size_t i = 0; i < payload_bytes; ++i) {
    tcp[tcp.size() - payload_bytes + i] = static_cast<std::byte>(i);
  }
  return tcp;
}

// As a kernel leaves it: the field holds the sum of the pseudo header.
FrameOffload LeaveChecksum(Frame& frame, uint16_t offset) {
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
  const size_t at = headers.l4_offset + offset;
  const std::span<std::byte> l4 = std::span(frame).subspan(headers.l4_offset);
  Store(&frame[at], be16(0));
  const bool is_ipv4 = headers.l3 == L3::kIpv4;
  const auto v4 = Ipv4Header<std::byte>::At(frame, headers.l3_offset);
  const auto v6 = Ipv6Header<std::byte>::At(frame, headers.l3_offset);
  const be16 all = L4Checksum(
      is_ipv4 ? IpAddress::FromIpv4(v4.source()) : v6.source(),
      is_ipv4 ? IpAddress::FromIpv4(v4.destination()) : v6.destination(),
      headers.l4_protocol, l4);
  // Without what stands behind it: the sum is the difference.
  const uint32_t sum_of_all = static_cast<uint16_t>(~all.host());
  const uint32_t sum_of_l4 =
      static_cast<uint16_t>(~InternetChecksum(l4).host());
  uint32_t pseudo = sum_of_all + static_cast<uint16_t>(~sum_of_l4);
  pseudo = (pseudo & 0xffff) + (pseudo >> 16);
  Store(&frame[at], be16(static_cast<uint16_t>(pseudo)));
  return {.checksum_start = headers.l4_offset, .checksum_offset = offset};
}

bool HasRightChecksums(const Frame& frame) {
  const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
  const std::span<const std::byte> bytes(frame);
  const auto l4 = bytes.subspan(headers.l4_offset, headers.l4_bytes());
  if (headers.l3 == L3::kIpv6) {
    const auto ip = Ipv6Header<const std::byte>::At(bytes, headers.l3_offset);
    return L4Checksum(ip.source(), ip.destination(), headers.l4_protocol, l4) ==
           be16(0);
  }
  const auto ip = Ipv4Header<const std::byte>::At(bytes, headers.l3_offset);
  return InternetChecksum(ip.header()) == be16(0) &&
         L4Checksum(IpAddress::FromIpv4(ip.source()),
                    IpAddress::FromIpv4(ip.destination()), headers.l4_protocol,
                    l4) == be16(0);
}

TEST(FrameOffload, LeavesAFrameThatIsCompleteAsItIs) {
  const Frame frame = Ethernet(0x0800, Ipv4({}, Udp(1, 2)));
  EXPECT_THAT(Finished(frame, {}), ElementsAre(frame));
  EXPECT_THAT(Finished(Hex("ffff"), {}), ElementsAre(Hex("ffff")));
}

TEST(FrameOffload, CompletesTheChecksumOfTcpAndUdpOverBothVersionsOfIp) {
  const std::vector<Frame> frames = {
      Ethernet(0x0800, Ipv4({.protocol = 6}, TcpFrame(1, kAck, 101))),
      Ethernet(0x86dd, Ipv6({.next_header = 6}, TcpFrame(1, kAck, 7))),
      Ethernet(0x0800, Ipv4({}, Udp(1, 2, 33))),
      Ethernet(0x8100, Vlan(7, 0x86dd, Ipv6({}, Udp(1, 2, 500))))};
  for (Frame frame : frames) {
    const bool is_udp =
        Parse(LinkType::kEthernet, frame).l4_protocol == IpProtocol::kUdp;
    const FrameOffload offload =
        LeaveChecksum(frame, is_udp ? kUdpChecksum : kTcpChecksum);
    EXPECT_FALSE(HasRightChecksums(frame));
    const std::vector<Frame> packets = Finished(frame, offload);
    ASSERT_EQ(packets.size(), 1u);
    EXPECT_TRUE(HasRightChecksums(packets[0]));
  }
}

TEST(FrameOffload, NeverSendsAZeroForAUdpChecksumThatIsZero) {
  Frame frame = Ethernet(0x0800, Ipv4({}, Udp(1, 2, 2)));
  FrameOffload offload = LeaveChecksum(frame, kUdpChecksum);
  const std::vector<Frame> packets = Finished(frame, offload);
  // With the checksum added to the payload, the sum of all is ffff.
  std::byte* const payload = &frame[frame.size() - 2];
  const uint32_t sum =
      uint32_t{LoadBe16(payload).host()} + LoadBe16(&packets[0][40]).host();
  Store(payload, be16(static_cast<uint16_t>(sum + (sum >> 16))));
  EXPECT_EQ(LoadBe16(&Finished(frame, offload)[0][40]), be16(0xffff));
}

TEST(FrameOffload, SplitsTcpAsACardDoes) {
  const Frame frame = Ethernet(
      0x0800, Ipv4({.protocol = 6, .id = 65'535},
                   TcpFrame(0xffff'ff00, kFin | kPsh | kAck | kCwr, 3'000)));
  const std::vector<Frame> packets =
      Finished(frame, {.checksum_start = 34,
                       .checksum_offset = kTcpChecksum,
                       .segment_bytes = 1'448});
  ASSERT_EQ(packets.size(), 3u);
  std::vector<size_t> sizes;
  std::vector<uint32_t> sequences;
  std::vector<int> flags;
  std::vector<uint16_t> ids;
  Frame payload;
  for (const Frame& packet : packets) {
    EXPECT_TRUE(HasRightChecksums(packet));
    const ParsedPacket headers = Parse(LinkType::kEthernet, packet);
    EXPECT_EQ(headers.end_offset, packet.size());
    const auto tcp = TcpHeader<const std::byte>::At(packet, headers.l4_offset);
    sizes.push_back(headers.payload_bytes());
    sequences.push_back(tcp.sequence());
    flags.push_back(tcp.flags());
    ids.push_back(Ipv4Header<const std::byte>::At(packet, 14).id());
    payload.insert(payload.end(), packet.begin() + headers.payload_offset,
                   packet.end());
  }
  EXPECT_THAT(sizes, ElementsAre(1'448, 1'448, 104));
  EXPECT_THAT(sequences, ElementsAre(0xffff'ff00, 1'192, 2'640));
  EXPECT_THAT(flags, ElementsAre(kAck | kCwr, kAck, kFin | kPsh | kAck));
  EXPECT_THAT(ids, ElementsAre(65'535, 0, 1));
  EXPECT_TRUE(std::ranges::equal(payload, std::span(frame).last(3'000)));
}

TEST(FrameOffload, SplitsUdpAndIpv6WithTags) {
  const Frame udp = Ethernet(0x0800, Ipv4({}, Udp(1, 2, 250)));
  const Frame tcp = Ethernet(
      0x88a8,
      Vlan(5, 0x8100,
           Vlan(7, 0x86dd,
                Ipv6({.next_header = 6}, TcpFrame(9, kPsh | kAck, 200)))));
  const std::vector<Frame> of_udp = Finished(udp, {.segment_bytes = 100});
  const std::vector<Frame> of_tcp = Finished(tcp, {.segment_bytes = 100});
  ASSERT_EQ(of_udp.size(), 3u);
  ASSERT_EQ(of_tcp.size(), 2u);
  for (const Frame& packet : of_udp) EXPECT_TRUE(HasRightChecksums(packet));
  for (const Frame& packet : of_tcp) EXPECT_TRUE(HasRightChecksums(packet));
  EXPECT_EQ(LoadBe16(&of_udp[0][38]), be16(108));
  EXPECT_EQ(LoadBe16(&of_udp[2][38]), be16(58));
  EXPECT_EQ(Parse(LinkType::kEthernet, of_tcp[1]).payload_bytes(), 100u);
  EXPECT_EQ(Parse(LinkType::kEthernet, of_tcp[1]).inner_vlan, 7);
}

TEST(FrameOffload, RefusesToSplitWhatATunnelCarries) {
  const Frame frame =
      Ethernet(0x0800, Ipv4({.protocol = 6}, TcpFrame(1, kAck, 3'000)));
  FrameOffload offload = {.checksum_start = 34,
                          .checksum_offset = kTcpChecksum,
                          .segment_bytes = 1'000};
  EXPECT_EQ(Finished(frame, offload).size(), 3u);
  offload.checksum_start = 92;  // of a header farther in
  EXPECT_EQ(Finished(frame, offload).size(), 0u);
}

TEST(FrameOffload, RefusesWhatItCannotDo) {
  Frame sctp = Ethernet(0x0800, Ipv4({.protocol = 132}, Udp(1, 2, 30)));
  EXPECT_TRUE(
      Finished(sctp, {.checksum_start = 34, .checksum_offset = 8}).empty());
  EXPECT_TRUE(Finished(sctp, {.segment_bytes = 10}).empty());
  const Frame udp = Ethernet(0x0800, Ipv4({}, Udp(1, 2, 30)));
  const auto past = static_cast<uint16_t>(udp.size() - 7);
  EXPECT_TRUE(
      Finished(udp, {.checksum_start = past, .checksum_offset = 6}).empty());
  EXPECT_TRUE(
      Finished(Ethernet(0x0800, Ipv4({}, Udp(1, 2, 0))), {.segment_bytes = 9})
          .empty());
  EXPECT_TRUE(Finished(Hex("00"), {.segment_bytes = 10}).empty());
  EXPECT_TRUE(
      Finished(Ethernet(0x0800, Ipv4({.more_fragments = true}, Udp(1, 2, 64))),
               {.segment_bytes = 16})
          .empty());
}

// --- Frames that stay whole. ---

std::vector<Frame> MergedFrames() {
  return {Ethernet(0x0800, Ipv4({.protocol = 6}, TcpFrame(1, kAck, 3'000))),
          Ethernet(0x86dd, Ipv6({.next_header = 6}, TcpFrame(9, kAck, 2'001))),
          Ethernet(0x0800, Ipv4({}, Udp(1, 2, 2'500))),
          Ethernet(0x86dd, Ipv6({}, Udp(1, 2, 1'500)))};
}

// The kernel's own TCP and UDP describe their frames in the same way.
TEST(MergedFrame, IsDescribedAsTheKernelLeavesIt) {
  const uint8_t kinds[] = {OffloadHeader::kTcpIpv4, OffloadHeader::kTcpIpv6,
                           OffloadHeader::kUdp, OffloadHeader::kUdp};
  for (size_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    Frame right = MergedFrames()[i];
    const bool is_tcp = i < 2;
    const FrameOffload left =
        LeaveChecksum(right, is_tcp ? kTcpChecksum : kUdpChecksum);
    Frame frame = right;
    const size_t at = left.checksum_start + left.checksum_offset;
    Store(&frame[at], be16(0x1234));

    std::array<std::byte, kMostMergedHeaders> headers{};
    OffloadHeader described{};
    const size_t bytes = DescribeMerged(frame, 1'000, headers, described);
    ASSERT_EQ(bytes, Parse(LinkType::kEthernet, frame).payload_offset);
    EXPECT_TRUE(
        std::equal(headers.begin(), headers.begin() + bytes, right.begin()));
    EXPECT_EQ(described.flags, OffloadHeader::kNeedsChecksum);
    EXPECT_EQ(described.segments, kinds[i]);
    EXPECT_EQ(described.header_bytes, bytes);
    EXPECT_EQ(described.segment_bytes, 1'000);
    EXPECT_EQ(described.checksum_start, left.checksum_start);
    EXPECT_EQ(described.checksum_offset, left.checksum_offset);
  }
}

TEST(MergedFrame, IsCutWhateverItsChecksumIs) {
  for (Frame frame : MergedFrames()) {
    Frame payload;
    const size_t packets =
        CutFrame(frame, 700, [&](std::span<const std::byte> bytes) {
          const Frame packet(bytes.begin(), bytes.end());
          EXPECT_TRUE(HasRightChecksums(packet));
          const size_t head = Parse(LinkType::kEthernet, packet).payload_offset;
          payload.insert(payload.end(), packet.begin() + head, packet.end());
        });
    ParsedPacket headers = Parse(LinkType::kEthernet, frame);
    headers.segment_bytes = 700;
    EXPECT_EQ(packets, headers.packets());
    EXPECT_EQ(payload,
              Frame(frame.begin() + headers.payload_offset, frame.end()));
  }
}

TEST(MergedFrame, TellsTheCongestionWindowReduced) {
  const Frame frame =
      Ethernet(0x0800, Ipv4({.protocol = 6}, TcpFrame(1, kAck | kCwr, 3'000)));
  std::array<std::byte, kMostMergedHeaders> headers{};
  OffloadHeader described{};
  ASSERT_GT(DescribeMerged(frame, 1'000, headers, described), 0u);
  EXPECT_EQ(described.segments,
            OffloadHeader::kTcpIpv4 | OffloadHeader::kCongestion);
}

TEST(MergedFrame, StaysWholeOnlyIfItCanLeaveSo) {
  const FrameOffload offload = {
      .checksum_start = 34, .checksum_offset = 16, .segment_bytes = 1'000};
  const Frame tcp = TcpFrame(1, kAck, 3'000);
  const Frame plain = Ethernet(0x0800, Ipv4({.protocol = 6}, tcp));
  EXPECT_TRUE(CanStayWhole(plain, offload));
  // A tag in the frame, a tunnel's inner packet, bytes behind the packet, GRE.
  FrameOffload tagged = offload;
  tagged.checksum_start = 38;
  EXPECT_FALSE(CanStayWhole(
      Ethernet(0x8100, Vlan(7, 0x0800, Ipv4({.protocol = 6}, tcp))), tagged));
  FrameOffload inner = offload;
  inner.checksum_start = 84;
  EXPECT_FALSE(CanStayWhole(plain, inner));
  Frame padded = plain;
  padded.resize(padded.size() + 4);
  EXPECT_FALSE(CanStayWhole(padded, offload));
  EXPECT_FALSE(CanStayWhole(
      Ethernet(0x0800, Ipv4({.protocol = 47}, Frame(3'000))), offload));
  EXPECT_FALSE(CanStayWhole(Hex("ffff"), offload));
  std::array<std::byte, kMostMergedHeaders> headers{};
  OffloadHeader described{};
  EXPECT_EQ(DescribeMerged(padded, 1'000, headers, described), 0u);
}

// A process of units may write any size: it makes no flood of its frame.
TEST(MergedFrame, IsOfAFewPackets) {
  const Frame frame = Ethernet(
      0x0800,
      Ipv4({.protocol = 6}, TcpFrame(1, kAck, kMostMergedPackets * 10)));
  std::array<std::byte, kMostMergedHeaders> headers{};
  OffloadHeader described{};
  size_t packets = 0;
  const auto take = [&](std::span<const std::byte>) { ++packets; };
  const FrameOffload ten = {.segment_bytes = 10}, nine = {.segment_bytes = 9};
  EXPECT_EQ(CutFrame(frame, 10, take), kMostMergedPackets);
  EXPECT_GT(DescribeMerged(frame, 10, headers, described), 0u);
  EXPECT_TRUE(CanStayWhole(frame, ten));
  packets = 0;
  EXPECT_EQ(CutFrame(frame, 9, take), 0u);
  EXPECT_EQ(packets, 0u);
  EXPECT_EQ(DescribeMerged(frame, 9, headers, described), 0u);
  EXPECT_FALSE(CanStayWhole(frame, nine));
  // A frame of the kernel is cut all the same.
  EXPECT_EQ(Finished(frame, nine).size(), 143u);
}

TEST(MergedFrame, HasThePartsOfOneCall) {
  const Frame frame =
      Ethernet(0x0800, Ipv4({.protocol = 6}, TcpFrame(1, kAck, 3'000)));
  std::array<std::byte, kMostMergedHeaders> headers{};
  OffloadHeader described{};
  const size_t bytes = DescribeMerged(frame, 1'000, headers, described);
  ASSERT_GT(bytes, 0u);
  MergedFrame merged;
  ASSERT_TRUE(merged.Describe(frame, 1'000, bytes + 1'000));
  Frame joined;
  for (const iovec& part : merged.parts()) {
    const auto* const from = static_cast<const std::byte*>(part.iov_base);
    joined.insert(joined.end(), from, from + part.iov_len);
  }
  Frame expected(sizeof described);
  std::memcpy(expected.data(), &described, sizeof described);
  expected.insert(expected.end(), headers.begin(),
                  headers.begin() + static_cast<ptrdiff_t>(bytes));
  expected.insert(expected.end(), frame.begin() + static_cast<ptrdiff_t>(bytes),
                  frame.end());
  EXPECT_EQ(joined, expected);
  // Longer than the interface's packets may be.
  EXPECT_FALSE(merged.Describe(frame, 1'000, bytes + 999));
  EXPECT_FALSE(merged.Describe(Hex("ffff"), 1'000, 9'000));
}

TEST(ReadOffload, SaysWhatTheKernelLeftUndone) {
  OffloadHeader header{};
  std::optional<FrameOffload> left = ReadOffload(header, 0);
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(left->checksum_start, 0);
  EXPECT_EQ(left->segment_bytes, 0);
  header = {.flags = OffloadHeader::kNeedsChecksum,
            .segments = OffloadHeader::kTcpIpv6 | OffloadHeader::kCongestion,
            .header_bytes = 74,
            .segment_bytes = 1'428,
            .checksum_start = 54,
            .checksum_offset = 16};
  left = ReadOffload(header, 4);
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(left->checksum_start, 58);  // behind the tag
  EXPECT_EQ(left->checksum_offset, 16);
  EXPECT_EQ(left->segment_bytes, 1'428);
  header.segment_bytes = 0;
  EXPECT_FALSE(ReadOffload(header, 4).has_value());
  header.segments = 2;  // of no known kind
  header.segment_bytes = 1'428;
  EXPECT_FALSE(ReadOffload(header, 4).has_value());
  header.segments = OffloadHeader::kNone;
  EXPECT_EQ(ReadOffload(header, 0)->segment_bytes, 0);
}

}  // namespace
}  // namespace snf
