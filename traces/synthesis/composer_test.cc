// SPDX-License-Identifier: Apache-2.0
#include "traces/synthesis/composer.h"

#include <set>
#include <string>
#include <vector>

#include "base/packet/classifier.h"
#include "base/packet/headers.h"
#include "base/packet/test_packets.h"
#include "traces/fixture_capture.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TextOf(const Frame& frame) {
  return {reinterpret_cast<const char*>(frame.data()), frame.size()};
}

// Packets of Ethernet, or of another link type, so many µs apart.
class CaptureFile {
 public:
  explicit CaptureFile(uint32_t link_number = 1) {
    file_.PcapHeader(kPcapMicroseconds, link_number);
  }
  CaptureFile& Add(uint32_t microseconds, const Frame& frame,
                   uint32_t missing = 0) {
    file_.PcapRecord(1, microseconds, TextOf(frame),
                     static_cast<uint32_t>(frame.size()) + missing);
    return *this;
  }
  const std::string& bytes() const { return file_.bytes(); }

 private:
  HandmadeCapture file_;
};

Frame TcpFrom(uint8_t host, uint16_t port, uint8_t to_host, uint16_t to_port,
              uint8_t flags = 0x10) {
  Frame tcp = Tcp(port, to_port, 0, 10);
  tcp[13] = std::byte{flags};
  return Ipv4({.source = V4(10, 0, 0, host),
               .destination = V4(10, 0, 0, to_host),
               .protocol = 6},
              tcp);
}

SourceCaptures Sources(const std::vector<std::string>& captures,
                       uint32_t snap_bytes = kMaxCapturedBytes) {
  const TestFolder folder;
  SourceCaptures sources(snap_bytes);
  for (const std::string& capture : captures) {
    EXPECT_TRUE(sources.Add(folder.Write("capture", capture)).ok());
  }
  return sources;
}

TEST(SourceCaptures, TakesEachFileApartIntoItsConversations) {
  CaptureFile a;
  a.Add(0, Ethernet(0x0800, TcpFrom(1, 5'000, 9, 80)))
      .Add(10, Ethernet(0x0800, TcpFrom(2, 5'000, 9, 80)))
      .Add(30, Ethernet(0x0800, TcpFrom(9, 80, 1, 5'000)))
      .Add(40, Ethernet(0x0806, Hex("01 02 03")));
  const SourceCaptures sources = Sources({a.bytes(), a.bytes()});
  const Conversations& conversations = sources.conversations();
  ASSERT_EQ(conversations.size(), 4u);
  EXPECT_EQ(conversations.CountOf(0), 2u);
  EXPECT_THAT(conversations.OffsetsOf(0), ElementsAre(0, 30'000));
  EXPECT_EQ(conversations.CountOf(1), 1u);
  EXPECT_EQ(conversations.WireBytes(1, 0), 64u);
  ASSERT_EQ(sources.files().size(), 2u);
  const SourceCaptures::File& second = sources.files()[1];
  EXPECT_EQ(second.first, 2u);
  EXPECT_EQ(second.end, 4u);
  EXPECT_EQ(second.packets, 3u);
  EXPECT_EQ(second.packets_without, 1u);
  EXPECT_EQ(second.wire_bytes, 192u);
  EXPECT_EQ(second.duration, Microseconds(30));
}

TEST(SourceCaptures, PutsThePacketsOfAConversationInOrder) {
  CaptureFile file;
  file.Add(50, Ethernet(0x0800, TcpFrom(9, 80, 1, 5'000)))
      .Add(20, Ethernet(0x0800, TcpFrom(1, 5'000, 9, 80)));
  const SourceCaptures sources = Sources({file.bytes()});
  EXPECT_THAT(sources.conversations().OffsetsOf(0), ElementsAre(0, 30'000));
  EXPECT_EQ(sources.EndsOf(0).client, V4(10, 0, 0, 1));
}

TEST(SourceCaptures, TakesTheSenderOfTheFirstPacketForTheClient) {
  const auto client = [](const Frame& first) {
    CaptureFile file;
    file.Add(0, Ethernet(0x0800, first));
    return Sources({file.bytes()}).EndsOf(0).client;
  };
  EXPECT_EQ(client(TcpFrom(1, 5'000, 9, 80)), V4(10, 0, 0, 1));
  EXPECT_EQ(client(TcpFrom(9, 80, 1, 5'000)), V4(10, 0, 0, 9));
  // But an answer to a SYN was asked for.
  EXPECT_EQ(client(TcpFrom(9, 80, 1, 5'000, 0x12)), V4(10, 0, 0, 1));
  EXPECT_EQ(client(TcpFrom(1, 5'000, 9, 80, 0x12)), V4(10, 0, 0, 9));
}

TEST(SourceCaptures, MakesEthernetOfOtherLinkTypes) {
  const Frame ip = TcpFrom(1, 5'000, 9, 80);
  CaptureFile raw(101);
  raw.Add(0, ip);
  CaptureFile cooked(113);
  cooked.Add(0, LinuxSll(0x0800, ip));
  CaptureFile ipv6(101);
  ipv6.Add(0, Ipv6({.next_header = 6}, Tcp(1, 2)));
  const SourceCaptures sources =
      Sources({raw.bytes(), cooked.bytes(), ipv6.bytes()});
  for (size_t i = 0; i < 3; ++i) {
    const auto bytes = sources.BytesOf(i, 0);
    const ParsedPacket headers = Parse(LinkType::kEthernet, bytes);
    EXPECT_EQ(headers.l3, i == 2 ? L3::kIpv6 : L3::kIpv4);
    EXPECT_EQ(headers.l3_offset, 14);
    EXPECT_EQ(headers.result, ParseResult::kComplete);
    EXPECT_EQ(sources.conversations().WireBytes(i, 0), bytes.size());
    EXPECT_EQ(sources.EndsOf(i).l3, headers.l3);
  }
}

TEST(SourceCaptures, KeepsTheFrontOfPacketsAndTheirLength) {
  CaptureFile file;
  file.Add(0, Ethernet(0x0800, Ipv4({}, Udp(1, 2, 1'000))), /*missing=*/7);
  const SourceCaptures sources = Sources({file.bytes()}, 100);
  EXPECT_EQ(sources.BytesOf(0, 0).size(), 100u);
  EXPECT_EQ(sources.conversations().WireBytes(0, 0), 14u + 20 + 8 + 1'000 + 7);
}

TEST(SourceCaptures, SaysWhyAFileCannotBeRead) {
  const TestFolder folder;
  SourceCaptures sources;
  EXPECT_EQ(sources.Add(folder.Path("none")).code(),
            absl::StatusCode::kNotFound);
  const absl::Status broken = sources.Add(folder.Write("b", "no capture"));
  EXPECT_EQ(broken.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(broken.message()), HasSubstr("neither pcap"));
}

TEST(FreshEnds, AreOthersForEveryCopy) {
  std::set<std::pair<IpAddress, IpAddress>> seen;
  for (const uint64_t round : {0u, 1u, 2u, 5'000u}) {
    for (uint64_t i = 0; i < 1'000; ++i) {
      for (const L3 l3 : {L3::kIpv4, L3::kIpv6}) {
        const FreshEnds ends = FreshEndsOf((round << 24) + i * 16'777, l3);
        EXPECT_TRUE(seen.emplace(ends.client, ends.server).second);
      }
    }
  }
}

TEST(Composer, GivesEachCopyAConnectionOfItsOwnWithRightChecksums) {
  CaptureFile file;
  file.Add(0, Ethernet(0x0800, TcpFrom(1, 5'000, 9, 80)))
      .Add(400, Ethernet(0x0800, TcpFrom(9, 80, 1, 5'000)))
      .Add(900, Ethernet(0x86dd, Ipv6({.next_header = 6}, Tcp(7, 8, 0, 30))));
  const SourceCaptures sources = Sources({file.bytes()});
  Composer composer(
      sources,
      {.rate_bps = 10'000'000, .duration = Milliseconds(50), .seed = 3});
  FlowClassifier classifier({});
  std::set<FlowKey> keys;
  CapturedPacket packet;
  Instant last = kWindowStart;
  uint64_t packets = 0;
  while (composer.Next(packet)) {
    EXPECT_GE(packet.time, last);
    last = packet.time;
    ParsedPacket headers;
    FlowKey key;
    ASSERT_NE(classifier.Classify(packet.time, packet.link, packet.bytes,
                                  headers, key),
              Direction::kNone);
    keys.insert(key);
    std::vector<std::byte> filled(packet.bytes.begin(), packet.bytes.end());
    FillChecksums(filled, headers);
    EXPECT_TRUE(std::ranges::equal(filled, packet.bytes));
    ++packets;
  }
  EXPECT_EQ(packets, composer.tally().packets());
  EXPECT_EQ(keys.size(), composer.tally().flows());
  EXPECT_EQ(composer.expected_bytes(), composer.tally().bytes());
  EXPECT_GT(packets, 500u);
}

}  // namespace
}  // namespace snf
