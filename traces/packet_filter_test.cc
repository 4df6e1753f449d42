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
