// SPDX-License-Identifier: Apache-2.0
#include "base/tunnels/packet_resize.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/packet/checksum.h"
#include "base/packet/headers.h"
#include "base/packet/test_packet_text.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "base/tunnels/test_buffer.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr uint32_t kMtu = 1'500;
const std::string kUdp = "udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\"";
const std::string kTcp6 =
    "tcp [2001:db8::1]:5000 > [2001:db8::9]:80 SYN seq=1 options=x'01020304'";

// The header that each version begins with.
Frame Outer4(uint8_t protocol = 4, const Frame& behind = {}) {
  return Ipv4({.protocol = protocol}, behind);
}
Frame Outer6(uint8_t next = 41) { return Ipv6({.next_header = next}, {}); }

TEST(PacketResize, PrependsHeadersOfEitherVersion) {
  for (const std::string& inner : {kUdp, kTcp6}) {
    for (const bool is_ipv6 : {false, true}) {
      TestBuffer buffer(inner);
      const Frame before(buffer.bytes().begin() + 14, buffer.bytes().end());
      const Frame outer = is_ipv6 ? Outer6() : Outer4();
      ASSERT_EQ(PrependHeaders(buffer.info, buffer.room, outer, kMtu),
                PacketResize::kDone);
      buffer.Text();
      EXPECT_EQ(buffer.info.headers.l3, is_ipv6 ? L3::kIpv6 : L3::kIpv4);
      EXPECT_EQ(buffer.info.original_length, buffer.info.length);
      const auto bytes = buffer.bytes();
      EXPECT_EQ(LoadBe16(&bytes[12]), be16(is_ipv6 ? 0x86dd : 0x0800));
      EXPECT_TRUE(std::ranges::equal(bytes.subspan(14 + outer.size()), before));
      const size_t ip_bytes = outer.size() + before.size();
      if (is_ipv6) {
        const auto ip = Ipv6Header<const std::byte>::At(bytes, 14);
        EXPECT_EQ(ip.payload_bytes(), ip_bytes - 40);
      } else {
        const auto ip = Ipv4Header<const std::byte>::At(bytes, 14);
        EXPECT_EQ(ip.total_bytes(), ip_bytes);
        EXPECT_EQ(InternetChecksum(ip.header()), be16(0));
      }
      EXPECT_EQ(RemoveHeaders(buffer.info, buffer.room,
                              static_cast<uint32_t>(outer.size())),
                PacketResize::kDone);
      EXPECT_EQ(buffer.Text(), Same(inner));
    }
  }
}

TEST(PacketResize, FillsInTheLengthOfAnOuterUdpHeader) {
  TestBuffer buffer(kUdp);
  Frame outer = Outer4(17, Udp(1000, 6080, 0));
  EXPECT_EQ(PrependHeaders(buffer.info, buffer.room, outer, kMtu),
            PacketResize::kDone);
  const auto udp = UdpHeader<const std::byte>::At(buffer.bytes(), 34);
  EXPECT_EQ(udp.length_bytes(), buffer.bytes().size() - 34);
  EXPECT_EQ(udp.checksum(), be16(0));
}

TEST(PacketResize, DropsPaddingAndKeepsTheLengthOfWhatWasCut) {
  TestPacket padded = *ParsePacket("udp 10.0.0.1:5000 > 192.0.2.9:53 \"a\"");
  padded.bytes.resize(60, std::byte{'p'});
  TestBuffer buffer(padded);
  EXPECT_EQ(PrependHeaders(buffer.info, buffer.room, Outer4(), kMtu),
            PacketResize::kDone);
  EXPECT_EQ(buffer.info.length, 14u + 20 + 29);
  EXPECT_EQ(buffer.info.original_length, 14u + 20 + 29);
  // The capture has 100 of 1,000 bytes of data.
  TestPacket cut = *ParsePacket("udp 10.0.0.1:5000 > 192.0.2.9:53 len=1000");
  cut.original_length = static_cast<uint32_t>(cut.bytes.size());
  cut.bytes.resize(142);
  TestBuffer short_buffer(cut);
  EXPECT_EQ(
      PrependHeaders(short_buffer.info, short_buffer.room, Outer4(), kMtu),
      PacketResize::kDone);
  EXPECT_EQ(short_buffer.info.length, 162u);
  EXPECT_EQ(short_buffer.info.original_length, 1'062u);
  EXPECT_EQ(
      Ipv4Header<const std::byte>::At(short_buffer.bytes(), 14).total_bytes(),
      1'048u);
}

TEST(PacketResize, RefusesByNameAndLeavesThePacket) {
  const auto expect = [](const std::string& text, size_t room,
                         PacketResize want, const auto& change) {
    TestBuffer buffer(text, room);
    const TestBuffer before = buffer;
    EXPECT_EQ(Name(change(buffer.info, buffer.room)), Name(want)) << text;
    EXPECT_EQ(buffer.Text(), before.Text());
    EXPECT_EQ(buffer.room, before.room);
  };
  // The packet has 33 bytes of IP behind 14.
  const auto prepend = [](uint32_t mtu, const Frame& outer = Outer4()) {
    return [=](PacketInfo& info, std::span<std::byte> room) {
      return PrependHeaders(info, room, outer, mtu);
    };
  };
  expect(kUdp, 66, PacketResize::kNoRoom, prepend(kMtu));
  expect(kUdp, 67, PacketResize::kTooLong, prepend(52));
  const auto append = [](uint32_t mtu, size_t bytes) {
    return [=](PacketInfo& info, std::span<std::byte> room) {
      return AppendPayload(info, room, Frame(bytes), mtu);
    };
  };
  expect(kUdp, 66, PacketResize::kNoRoom, append(kMtu, 20));
  expect(kUdp, 200, PacketResize::kTooLong, append(52, 20));
  const auto trim = [](uint32_t bytes) {
    return [=](PacketInfo& info, std::span<std::byte> room) {
      return TrimPayload(info, room, bytes);
    };
  };
  expect(kUdp, 200, PacketResize::kTooShort, trim(6));
  for (const std::string& text :
       {std::string("udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\" more"),
        std::string("udp 10.0.0.1:5000 > 192.0.2.9:53 \"query\" offset=8"),
        std::string("89 10.0.0.1 > 192.0.2.9 \"data\"")}) {
    expect(text, 200, PacketResize::kNotWhole, trim(1));
    expect(text, 200, PacketResize::kNotWhole, append(kMtu, 1));
  }
  const auto remove = [](uint32_t bytes) {
    return [=](PacketInfo& info, std::span<std::byte> room) {
      return RemoveHeaders(info, room, bytes);
    };
  };
  for (const uint32_t bytes : {8u, 20u, 33u, 34u, 5'000u}) {
    expect(kUdp, 200, PacketResize::kTooShort, remove(bytes));
  }
}

TEST(PacketResize, AllowsAsMuchAsTheMtuAndTheRoom) {
  TestBuffer buffer(kUdp, 67);
  EXPECT_EQ(PrependHeaders(buffer.info, buffer.room, Outer4(), 53),
            PacketResize::kDone);
  TestBuffer longest("udp 10.0.0.1:5000 > 192.0.2.9:53 len=65000", 70'000);
  EXPECT_EQ(AppendPayload(longest.info, longest.room, Frame(507), 100'000),
            PacketResize::kDone);
  EXPECT_EQ(AppendPayload(longest.info, longest.room, Frame(1), 100'000),
            PacketResize::kTooLong);
}

TEST(PacketResize, NamesTheVersionInTheLinkHeaderOrRefuses) {
  const Frame inner = Ipv4({}, Udp(5000, 53));
  struct Case {
    const char* name;
    LinkType link;
    Frame frame;
    bool same, other;  // versions that can be prepended
  };
  const std::vector<Case> cases = {
      {"two tags", LinkType::kEthernet,
       Ethernet(0x88a8, Vlan(1, 0x8100, Vlan(2, 0x0800, inner))), true, true},
      {"raw", LinkType::kRawIp, inner, true, true},
      {"cooked", LinkType::kLinuxSll, LinuxSll(0x0800, inner), true, true},
      {"cooked 2", LinkType::kLinuxSll2, LinuxSll2(0x0800, inner), true, true},
      {"PPP", LinkType::kPpp, Hex("ff03 0021") + inner, true, true},
      {"PPP, short", LinkType::kPpp, Hex("21") + inner, false, false},
      {"loopback", LinkType::kNull, Hex("02000000") + inner, true, false},
      {"SNAP", LinkType::kEthernet, Snap(0x0800, inner), false, false},
      {"MPLS", LinkType::kEthernet, Ethernet(0x8847, Mpls(16, true, inner)),
       false, false},
      {"PPPoE", LinkType::kEthernet, Ethernet(0x8864, Pppoe(0x0021, inner)),
       false, false}};
  for (const Case& c : cases) {
    for (const bool is_ipv6 : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (is_ipv6 ? ", IPv6" : ", IPv4"));
      TestBuffer buffer(TestPacket{.bytes = c.frame, .link = c.link});
      ASSERT_EQ(buffer.info.headers.l3, L3::kIpv4);
      const std::string before = buffer.Text();
      const Frame outer = is_ipv6 ? Outer6(4) : Outer4();
      const PacketResize outcome =
          PrependHeaders(buffer.info, buffer.room, outer, kMtu);
      ASSERT_EQ(Name(outcome), (is_ipv6 ? c.other : c.same) ? "done" : "link");
      if (outcome == PacketResize::kDone) {
        EXPECT_EQ(buffer.info.headers.l3, is_ipv6 ? L3::kIpv6 : L3::kIpv4);
        EXPECT_EQ(RemoveHeaders(buffer.info, buffer.room,
                                static_cast<uint32_t>(outer.size())),
                  PacketResize::kDone);
      }
      EXPECT_EQ(buffer.Text(), before);
    }
  }
}

// Texts name checksums that are wrong, so the text tells that none is.
TEST(PacketResize, AppendsAndTrimsWithLengthsAndChecksumsRight) {
  const uint64_t seed = TestSeeds::One(1);
  Rng rng(seed);
  const std::vector<std::string> packets = {
      "udp 10.0.0.1:5000 > 192.0.2.9:53 ",
      "udp 10.0.0.1:5000 > 192.0.2.9:53 no_checksum ",
      "tcp 10.0.0.1:5000 > 192.0.2.9:80 PSH seq=9 vlan=7 ",
      "icmp 10.0.0.1 > 192.0.2.9 echo id=7 seq=1 ",
      "udp [2001:db8::1]:5000 > [2001:db8::9]:53 ",
      "tcp [2001:db8::1]:5000 > [2001:db8::9]:80 PSH seq=9 ",
      "icmp [2001:db8::1] > [2001:db8::9] echo id=7 seq=1 ",
      "tcp 10.0.0.1:5000 > 192.0.2.9:80 PSH seq=9 bad_checksum=0x1234 "};
  for (const std::string& packet : packets) {
    const bool is_wrong = packet.find("bad") != std::string::npos;
    for (int i = 0; i < 100; ++i) {
      const auto text = [&](const std::string& data) {
        return packet + (data.empty() ? "" : "\"" + data + "\"");
      };
      std::string data, more;
      for (auto n = rng.Below(20); n > 0; --n) {
        data += static_cast<char>('a' + rng.Below(26));
      }
      for (auto n = rng.Below(20); n > 0; --n) {
        more += static_cast<char>('A' + rng.Below(26));
      }
      TestBuffer buffer(text(data));
      const std::string before = buffer.Text();
      ASSERT_EQ(AppendPayload(buffer.info, buffer.room,
                              std::as_bytes(std::span(more)), kMtu),
                PacketResize::kDone);
      if (!is_wrong) {
        ASSERT_EQ(buffer.Text(), Same(text(data + more)));
      } else {
        ASSERT_NE(buffer.Text().find("bad_checksum"), std::string::npos);
      }
      ASSERT_EQ(TrimPayload(buffer.info, buffer.room,
                            static_cast<uint32_t>(more.size())),
                PacketResize::kDone);
      ASSERT_EQ(buffer.Text(), before);
    }
  }
}

TEST(PacketResize, TrimsAwayPaddingToo) {
  TestPacket padded = *ParsePacket("udp 10.0.0.1:5000 > 192.0.2.9:53 \"abc\"");
  padded.bytes.resize(60, std::byte{'p'});
  TestBuffer buffer(padded);
  EXPECT_EQ(TrimPayload(buffer.info, buffer.room, 2), PacketResize::kDone);
  EXPECT_EQ(buffer.Text(), Same("udp 10.0.0.1:5000 > 192.0.2.9:53 \"a\""));
}

// Any bytes: nothing outside of the room is touched, and `info` stays sound.
TEST(PacketResize, StaysSoundWhateverTheFrameIs) {
  const uint64_t seed = TestSeeds::One(1);
  Rng rng(seed);
  const std::vector<Sample> samples = AllSamples();
  int done = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Sample& sample = samples[rng.Below(samples.size())];
    Frame frame = sample.frame;
    for (auto n = rng.Below(4); n > 0 && !frame.empty(); --n) {
      frame[rng.Below(frame.size())] = std::byte(rng.Below(256));
    }
    if (rng.Below(4) == 0) frame.resize(rng.Below(frame.size() + 1));
    TestBuffer buffer(TestPacket{.bytes = frame, .link = sample.link},
                      frame.size() + rng.Below(100));
    if (!buffer.info.headers.has_ip()) continue;
    for (int change = 0; change < 3; ++change) {
      const auto bytes = static_cast<uint32_t>(rng.Below(60));
      const uint64_t kind = rng.Below(4);
      const PacketResize outcome =
          kind == 0
              ? PrependHeaders(buffer.info, buffer.room,
                               rng.Below(2) == 0 ? Outer4() : Outer6(), kMtu)
          : kind == 1 ? RemoveHeaders(buffer.info, buffer.room, bytes)
          : kind == 2
              ? AppendPayload(buffer.info, buffer.room, Frame(bytes), kMtu)
              : TrimPayload(buffer.info, buffer.room, bytes);
      done += outcome == PacketResize::kDone;
      ASSERT_LE(buffer.info.length, buffer.room.size());
      ASSERT_TRUE(buffer.info.IsSound());
      ASSERT_EQ(buffer.info.headers, Parse(sample.link, buffer.bytes()));
      if (!buffer.info.headers.has_ip()) break;
    }
  }
  EXPECT_GT(done, 5'000);
}

}  // namespace
}  // namespace snf
