// SPDX-License-Identifier: Apache-2.0
#include "traces/packet_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/packet/test_packets.h"

namespace snf {
namespace {

CapturedPacket PacketOf(const Frame& frame, LinkType link) {
  return {.time = {},
          .bytes = frame,
          .original_bytes = static_cast<uint32_t>(frame.size()),
          .link = link};
}

TEST(PacketFilter, SaysTheSameOfAPacketInEveryFraming) {
  auto filter = PacketFilter::Compile("udp port 53 and host 192.0.2.9");
  ASSERT_TRUE(filter.ok()) << filter.status();
  for (const uint16_t port : {uint16_t{53}, uint16_t{54}}) {
    const Frame ip = Ipv4({}, Udp(5000, port));
    const bool passes = port == 53;
    for (const auto& [frame, link] :
         {std::pair{Ethernet(0x0800, ip), LinkType::kEthernet},
          {ip, LinkType::kRawIp},
          {LinuxSll(0x0800, ip), LinkType::kLinuxSll},
          {LinuxSll2(0x0800, ip), LinkType::kLinuxSll2},
          {Hex("02 00 00 00") + ip, LinkType::kNull},
          {Hex("00 00 00 02") + ip, LinkType::kLoop}}) {
      EXPECT_EQ((*filter)->Passes(PacketOf(frame, link)), passes)
          << static_cast<int>(link);
    }
  }
  EXPECT_TRUE((*filter)->status().ok()) << (*filter)->status();
}

// libpcap compiles for the address families of the host that it runs on.
TEST(PacketFilter, KnowsTheLoopbackOfEverySystemInBothByteOrders) {
  const Frame ip4 = Ipv4({}, Udp(5000, 53));
  const Frame ip6 = Ipv6({}, Udp(5000, 53));
  struct Family {
    std::string little_endian;
    std::string big_endian;
    const Frame& ip;
  };
  const std::vector<Family> families = {
      {"02 00 00 00", "00 00 00 02", ip4},
      {"0a 00 00 00", "00 00 00 0a", ip6},   // Linux
      {"18 00 00 00", "00 00 00 18", ip6},   // NetBSD, OpenBSD
      {"1c 00 00 00", "00 00 00 1c", ip6},   // FreeBSD
      {"1e 00 00 00", "00 00 00 1e", ip6}};  // macOS
  const auto is_ip4 = PacketFilter::Compile("ip and udp port 53");
  const auto is_ip6 = PacketFilter::Compile("ip6 and udp port 53");
  ASSERT_TRUE(is_ip4.ok() && is_ip6.ok());
  for (const Family& family : families) {
    SCOPED_TRACE(family.big_endian);
    for (const LinkType link : {LinkType::kNull, LinkType::kLoop}) {
      for (const std::string& header :
           {family.little_endian, family.big_endian}) {
        const Frame frame = Hex(header) + family.ip;
        const bool is_v4 = &family.ip == &ip4;
        EXPECT_EQ((*is_ip4)->Passes(PacketOf(frame, link)), is_v4);
        EXPECT_EQ((*is_ip6)->Passes(PacketOf(frame, link)), !is_v4);
      }
    }
  }
  // Of another family, and of none.
  EXPECT_FALSE(
      (*is_ip4)->Passes(PacketOf(Hex("07 00 00 00") + ip4, LinkType::kNull)));
  EXPECT_FALSE((*is_ip4)->Passes(PacketOf(Hex("02 00"), LinkType::kNull)));
}

TEST(PacketFilter, ReadsNoFurtherThanWhatWasCaptured) {
  auto filter = PacketFilter::Compile("udp port 53");
  ASSERT_TRUE(filter.ok());
  const Frame frame = Ethernet(0x0800, Ipv4({}, Udp(5000, 53)));
  for (size_t bytes = 0; bytes <= frame.size(); ++bytes) {
    const Frame cut(frame.begin(),
                    frame.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_EQ((*filter)->Passes(PacketOf(cut, LinkType::kEthernet)),
              bytes >= 38);
  }
}

TEST(PacketFilter, QuotesAFilterThatIsNone) {
  const auto filter = PacketFilter::Compile("tcp porrt 80");
  EXPECT_EQ(filter.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(filter.status().message()),
              testing::StartsWith("\"tcp porrt 80\": "));
}

TEST(PacketFilter, SaysWhereALinkTypeHasNoSuchThing) {
  auto filter = PacketFilter::Compile("ether host 02:00:00:00:00:01");
  ASSERT_TRUE(filter.ok());
  EXPECT_FALSE(
      (*filter)->Passes(PacketOf(Ipv4({}, Udp(1, 2)), LinkType::kRawIp)));
  EXPECT_EQ((*filter)->status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace snf
