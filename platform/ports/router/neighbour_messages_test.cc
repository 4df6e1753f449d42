// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/router/neighbour_messages.h"

#include <algorithm>
#include <vector>

#include "base/packet/checksum.h"
#include "base/packet/test_packets.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr MacAddress kMyMac = {std::byte{2}, {}, {}, {}, {}, std::byte{1}};
constexpr MacAddress kYourMac = {std::byte{2}, {}, {}, {}, {}, std::byte{2}};

NeighbourFrame::End Me() { return {.address = V4(10, 1, 0, 1), .mac = kMyMac}; }
NeighbourFrame::End Me6() {
  return {.address = Ipv6Fields::Address("fd01::1"), .mac = kMyMac};
}
NeighbourFrame::End You6() {
  return {.address = Ipv6Fields::Address("fd01::9"), .mac = kYourMac};
}
Frame Copy(const NeighbourFrame& frame) {
  return {frame.bytes().begin(), frame.bytes().end()};
}
// Makes the checksum of a frame of discovery right again.
Frame Mended(Frame frame) {
  Store(&frame[56], be16(0));
  Store(&frame[56],
        L4Checksum(LoadAs<IpAddress>(&frame[22]), LoadAs<IpAddress>(&frame[38]),
                   IpProtocol::kIcmpv6, std::span(frame).subspan(54)));
  return frame;
}

TEST(NeighbourMessages, AQuestionOfArpIsThatOfRfc826) {
  EXPECT_EQ(Copy(NeighbourFrame::Question(Me(), V4(10, 1, 0, 9), std::nullopt)),
            Hex("ff ff ff ff ff ff 02 00 00 00 00 01 08 06"
                "00 01 08 00 06 04 00 01 02 00 00 00 00 01 0a 01 00 01"
                "00 00 00 00 00 00 0a 01 00 09"));
}

TEST(NeighbourMessages, ASolicitationGoesToTheGroupOfItsTarget) {
  const Frame frame =
      Copy(NeighbourFrame::Question(Me6(), You6().address, std::nullopt));
  EXPECT_EQ(Frame(frame.begin(), frame.begin() + 14),
            Hex("33 33 ff 00 00 09 02 00 00 00 00 01 86 dd"));
  EXPECT_EQ(LoadAs<IpAddress>(&frame[38]),
            Ipv6Fields::Address("ff02::1:ff00:9"));
  EXPECT_EQ(frame[21], std::byte{255});  // the hop limit
  const auto message = ReadDiscovery(frame);
  ASSERT_TRUE(message.has_value());
  EXPECT_TRUE(message->is_question);
  EXPECT_EQ(message->sender, Me6().address);
  EXPECT_EQ(message->target, You6().address);
  EXPECT_EQ(*message->mac, kMyMac);
  // A known neighbour is asked at its own address.
  const Frame again =
      Copy(NeighbourFrame::Question(Me6(), You6().address, You6().mac));
  EXPECT_TRUE(std::ranges::equal(kYourMac, std::span(again).first(6)));
  EXPECT_EQ(LoadAs<IpAddress>(&again[38]), You6().address);
}

TEST(NeighbourMessages, AnAdvertisementSaysThatItIsARouters) {
  const Frame frame = Copy(NeighbourFrame::Answer(Me6(), You6(), false));
  EXPECT_EQ(frame[58], std::byte{0xe0});
  EXPECT_EQ(Copy(NeighbourFrame::Answer(Me6(), You6(), true))[58],
            std::byte{0xc0});  // the host itself may overrule it
  // To a host that has no address yet: to all, and not solicited.
  const Frame to_all = Copy(
      NeighbourFrame::Answer(Me6(), {.address = {}, .mac = kYourMac}, false));
  EXPECT_EQ(to_all[58], std::byte{0xa0});
  EXPECT_EQ(LoadAs<IpAddress>(&to_all[38]), Ipv6Fields::Address("ff02::1"));
  EXPECT_FALSE(ReadDiscovery(to_all)->is_solicited);
}

TEST(NeighbourMessages, RefusesArpThatIsWrong) {
  const Frame good =
      Copy(NeighbourFrame::Question(Me(), V4(10, 1, 0, 9), std::nullopt));
  EXPECT_TRUE(ReadArp(good).has_value());
  for (const size_t at : {15u, 16u, 18u, 19u, 21u, 22u}) {
    Frame bad = good;  // hardware, protocol, lengths, operation, a group
    bad[at] = std::byte{0x07};
    EXPECT_FALSE(ReadArp(bad).has_value()) << at;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(
        ReadArp(Frame(good.begin(), good.begin() + static_cast<int>(size))));
  }
}

TEST(NeighbourMessages, RefusesDiscoveryThatIsWrong) {
  const Frame good =
      Copy(NeighbourFrame::Question(Me6(), You6().address, std::nullopt));
  const auto refused = [&](size_t at, uint8_t value) {
    Frame bad = good;
    bad[at] = std::byte{value};
    return !ReadDiscovery(Mended(bad)).has_value();
  };
  EXPECT_FALSE(refused(55, 0));    // the code as it is
  EXPECT_TRUE(refused(21, 254));   // came over a router
  EXPECT_TRUE(refused(55, 1));     // another code
  EXPECT_TRUE(refused(54, 137));   // a redirect
  EXPECT_TRUE(refused(62, 0xff));  // a group as the target
  EXPECT_TRUE(refused(19, 23));    // cut within the message
  EXPECT_TRUE(refused(19, 33));    // longer than the frame
  EXPECT_TRUE(refused(79, 0));     // an option without a length
  EXPECT_TRUE(refused(79, 2));     // an option that ends behind the message
  EXPECT_TRUE(refused(80, 0x01));  // a group as the sender
  EXPECT_TRUE(refused(22, 0xff));  // and in IP
  Frame bad = good;
  bad[57] ^= std::byte{1};
  EXPECT_FALSE(ReadDiscovery(bad).has_value());
}

TEST(NeighbourMessages, AHostWithoutAnAddressSaysNoLinkAddress) {
  Frame frame =
      Copy(NeighbourFrame::Question(Me6(), You6().address, std::nullopt));
  std::ranges::fill(std::span(frame).subspan(22, 16), std::byte{});
  EXPECT_FALSE(ReadDiscovery(Mended(frame)).has_value());
  frame[78] = std::byte{14};  // a nonce instead (RFC 7527)
  EXPECT_TRUE(ReadDiscovery(Mended(frame)).has_value());
  Frame to_all = frame;
  to_all[53] = std::byte{1};
  EXPECT_FALSE(ReadDiscovery(Mended(to_all)).has_value());
}

}  // namespace
}  // namespace snf
