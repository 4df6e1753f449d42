// SPDX-License-Identifier: Apache-2.0
#include "base/tunnels/gwlb_header.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>

#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

const std::string kEndpoint = "0108 01 02 1122334455667788";
const std::string kAttachment = "0108 02 02 99aabbccddeeff00";
const std::string kCookie = "0108 03 01 cafef00d";
const std::string kInner = "4500 0014";

// A header with this list of options, and a packet behind it.
Frame Payload(const std::string& options, const std::string& flags = "00",
              const std::string& type = "0800",
              const std::string& inner = kInner) {
  const Frame list = Hex(options);
  Frame payload = Hex("00" + flags + type + "00000000") + list + Hex(inner);
  payload[0] = static_cast<std::byte>(list.size() / 4);
  return payload;
}

// The bytes end where the allocation does.
std::string RefusalOf(const Frame& payload) {
  const auto copy = std::make_unique<std::byte[]>(payload.size());
  std::ranges::copy(payload, copy.get());
  GeneveHeader header;
  return std::string(Name(ParseGwlb({copy.get(), payload.size()}, header)));
}

TEST(GwlbHeader, TakesTheThreeOptionsInAnyOrderAndKeepsOthers) {
  EXPECT_EQ(RefusalOf(Payload(kEndpoint + kAttachment + kCookie)), "none");
  EXPECT_EQ(RefusalOf(Payload(kCookie + kEndpoint + kAttachment)), "none");
  EXPECT_EQ(RefusalOf(Payload("0108 04 00" + kEndpoint + "fff0 01 01 00000000" +
                              kAttachment + kCookie)),
            "none");
  EXPECT_EQ(RefusalOf(Payload(kEndpoint + kAttachment + kCookie, "00", "86dd")),
            "none");
}

TEST(GwlbHeader, RefusesAPacketWithoutItsOptions) {
  EXPECT_EQ(RefusalOf(Payload("")), "no_endpoint");
  EXPECT_EQ(RefusalOf(Payload(kAttachment + kCookie)), "no_endpoint");
  EXPECT_EQ(RefusalOf(Payload(kEndpoint + kCookie)), "no_attachment");
  EXPECT_EQ(RefusalOf(Payload(kEndpoint + kAttachment)), "no_cookie");
  // The same types of another class are others.
  EXPECT_EQ(RefusalOf(Payload(kEndpoint + kAttachment + "0109 03 01 cafef00d")),
            "no_cookie");
}

TEST(GwlbHeader, RefusesOptionsOfAnotherLengthOrTwice) {
  EXPECT_EQ(RefusalOf(Payload("0108 01 01 11223344" + kAttachment + kCookie)),
            "aws_option_length");
  EXPECT_EQ(RefusalOf(Payload(kEndpoint + kAttachment +
                              "0108 03 02 cafef00d00000000")),
            "aws_option_length");
  EXPECT_EQ(RefusalOf(Payload(kEndpoint + kAttachment + kCookie + kCookie)),
            "aws_option_twice");
}

TEST(GwlbHeader, RefusesWhatIsNoPacketOfIp) {
  const std::string all = kEndpoint + kAttachment + kCookie;
  EXPECT_EQ(RefusalOf(Payload(all, "80")), "control");
  EXPECT_EQ(RefusalOf(Payload(all, "00", "6558")), "inner_protocol");
  EXPECT_EQ(RefusalOf(Payload(all, "00", "0806")), "inner_protocol");
  EXPECT_EQ(RefusalOf(Payload(all, "00", "0800", "")), "inner_empty");
  EXPECT_EQ(RefusalOf(Payload(all + "0108 81 00", "40")), "critical_option");
}

TEST(GwlbHeader, RefusesInnerPacketsOfMoreThan8500Bytes) {
  Frame payload = Payload(kEndpoint + kAttachment + kCookie);
  const size_t header = payload.size() - Hex(kInner).size();
  payload.resize(header + kGwlbMtu);
  EXPECT_EQ(RefusalOf(payload), "none");
  payload.resize(header + kGwlbMtu + 1);
  EXPECT_EQ(RefusalOf(payload), "inner_too_long");
}

TEST(GwlbHeader, RefusesWhateverIsCut) {
  const Frame whole = Payload(kEndpoint + kAttachment + kCookie);
  const size_t header = whole.size() - Hex(kInner).size();
  for (size_t length = 0; length <= header; ++length) {
    const Frame cut(whole.begin(), whole.begin() + static_cast<int>(length));
    EXPECT_EQ(RefusalOf(cut), length < 8        ? "truncated"
                              : length < header ? "options_truncated"
                                                : "inner_empty");
  }
}

TEST(GwlbHeader, ReadsTheMetadataInAnyOrderAmongOtherOptions) {
  const GwlbMetadata expected = {.endpoint = 0x1122'3344'5566'7788,
                                 .attachment = 0x99aa'bbcc'ddee'ff00,
                                 .cookie = 0xcafe'f00d};
  for (const std::string& options :
       {kEndpoint + kAttachment + kCookie, "fff0 01 01 00000000" + kCookie +
                                               kAttachment + "0108 04 00" +
                                               kEndpoint}) {
    const Frame payload = Payload(options);
    GeneveHeader header;
    ASSERT_EQ(ParseGwlb(payload, header), GwlbRefusal::kNone);
    EXPECT_EQ(ReadGwlbMetadata(header), expected);
  }
}

TEST(GwlbHeader, BuildsTheHeaderThatItReads) {
  const Frame whole = Payload(kEndpoint + kAttachment + kCookie);
  std::array<std::byte, kGwlbHeaderBytes> built{};
  BuildGwlb({.endpoint = 0x1122'3344'5566'7788,
             .attachment = 0x99aa'bbcc'ddee'ff00,
             .cookie = 0xcafe'f00d},
            EtherType::kIpv4, built);
  EXPECT_TRUE(std::ranges::equal(
      built, std::span(whole).first(whole.size() - Hex(kInner).size())));
  BuildGwlb({}, EtherType::kIpv6, built);
  EXPECT_EQ(built[2], std::byte{0x86});
}

TEST(GwlbHeader, GivesEachRefusalAName) {
  Rng rng(TestSeeds::One(1));
  const Frame whole = Payload(kEndpoint + kAttachment + kCookie + "0108 04 00");
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    Frame payload = whole;
    for (auto n = rng.Below(3); n > 0; --n) {
      payload[rng.Below(payload.size())] = std::byte(rng.Below(256));
    }
    taken += RefusalOf(payload) == "none" ? 1 : 0;
  }
  EXPECT_GT(taken, 5'000);
}

}  // namespace
}  // namespace snf
