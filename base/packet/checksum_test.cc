// SPDX-License-Identifier: Apache-2.0
#include "base/packet/checksum.h"

#include "base/packet/headers.h"
#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

// Computes the checksum as RFC 1071 is written, 16 bits at a time.
be16 Naive(std::span<const std::byte> bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = std::to_integer<uint32_t>(bytes[i]);
    sum += i % 2 == 0 ? byte << 8 : byte;
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return be16(static_cast<uint16_t>(~sum));
}

Frame Random(Rng& rng, size_t size) {
  Frame bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.Next());
  return bytes;
}

TEST(InternetChecksum, AgreesWithTheExampleOfRfc1071) {
  EXPECT_EQ(InternetChecksum(Hex("00 01 f2 03 f4 f5 f6 f7")), be16(0x220d));
}

TEST(InternetChecksum, OfARightHeaderIsZero) {
  const Frame header =
      Hex("45 00 00 73 00 00 40 00 40 11 b8 61 c0 a8 00 01 c0 a8 00 c7");
  EXPECT_EQ(InternetChecksum(header), be16(0));
}

TEST(InternetChecksum, OfNothingIsAllOnes) {
  EXPECT_EQ(InternetChecksum({}), be16(0xffff));
}

TEST(InternetChecksum, AgreesWithSummingWordByWord) {
  Rng rng(TestSeeds::One(7));
  for (int round = 0; round < 20'000; ++round) {
    Frame bytes = Random(rng, rng.Below(200));
    if (round % 8 == 0) std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    const size_t odd_start = rng.Below(bytes.size() + 1);
    const auto part = std::span<const std::byte>(bytes).subspan(odd_start);
    ASSERT_EQ(InternetChecksum(part), Naive(part)) << part.size();
  }
}

TEST(UpdateChecksum, AgreesWithTheExampleOfRfc1624) {
  // §4: a word changes from 5555 to 3285; 22d0 + aaaa + 3285 = ffff.
  EXPECT_EQ(UpdateChecksum(be16(0xdd2f), be16(0x5555), be16(0x3285)),
            be16(0x0000));
}

TEST(UpdateChecksum, AgreesWithSummingAgain) {
  Rng rng(TestSeeds::One(7));
  for (int round = 0; round < 50'000; ++round) {
    Frame bytes = Random(rng, 2 * (16 + rng.Below(30)));
    const be16 before = InternetChecksum(bytes);
    const auto place = [&](size_t size) {
      return bytes.data() + 2 * rng.Below((bytes.size() - size) / 2 + 1);
    };
    be16 updated;
    switch (rng.Below(3)) {
      case 0: {
        std::byte* at = place(2);
        const be16 old = LoadBe16(at);
        const be16 fresh(static_cast<uint16_t>(rng.Next()));
        Store(at, fresh);
        updated = UpdateChecksum(before, old, fresh);
        break;
      }
      case 1: {
        std::byte* at = place(4);
        const be32 old = LoadBe32(at);
        const be32 fresh(static_cast<uint32_t>(rng.Next()));
        Store(at, fresh);
        updated = UpdateChecksum(before, old, fresh);
        break;
      }
      default: {
        std::byte* at = place(16);
        const auto old = LoadAs<IpAddress>(at);
        IpAddress fresh;
        for (std::byte& b : fresh.bytes) b = static_cast<std::byte>(rng.Next());
        std::memcpy(at, &fresh, sizeof fresh);
        updated = UpdateChecksum(before, old, fresh);
      }
    }
    ASSERT_EQ(updated, InternetChecksum(bytes)) << "round " << round;
  }
}

TEST(UpdateChecksum, MapsIpv4AddressesLikeTheirWords) {
  EXPECT_EQ(UpdateChecksum(be16(0x1234), V4(10, 0, 0, 1), V4(192, 0, 2, 9)),
            UpdateChecksum(be16(0x1234), be32(0x0a00'0001), be32(0xc000'0209)));
}

TEST(ChecksumChange, OfManyWordsIsThatOfEachInTurn) {
  Rng rng(TestSeeds::One(11));
  for (int round = 0; round < 1'000; ++round) {
    const auto word = [&] { return static_cast<uint32_t>(rng.Next()); };
    const be16 checksum(static_cast<uint16_t>(word()));
    be16 in_turn = checksum;
    ChecksumChange change;
    const auto replace = [&](const auto& before, const auto& after) {
      change.Replace(before, after);
      in_turn = UpdateChecksum(in_turn, before, after);
    };
    for (uint32_t words = word() % 300; words > 0; --words) {
      const uint32_t all = words % 5 == 0 ? 0xffff'ffff : word();
      replace(be32(all), be32(word()));
      replace(be16(static_cast<uint16_t>(all)), be16(0));
      replace(V4(10, 0, 0, 1), IpAddress::FromIpv4(be32(all)));
    }
    ASSERT_EQ(change.ApplyTo(checksum), in_turn) << "round " << round;
  }
}

// The test builds the pseudo header by hand.
TEST(L4Checksum, CoversThePseudoHeaderOfIpv4) {
  const Frame udp = Udp(5000, 53, 7);
  const Frame pseudo = Hex("0a 00 00 01  c0 00 02 09  00 11 00 0f") + udp;
  EXPECT_EQ(
      L4Checksum(V4(10, 0, 0, 1), V4(192, 0, 2, 9), IpProtocol::kUdp, udp),
      Naive(pseudo));
}

TEST(L4Checksum, CoversThePseudoHeaderOfIpv6) {
  const Frame icmp = Icmp(128, 0, 77, Frame(3, std::byte{9}));
  const Frame pseudo = Hex("20010db8 00000000 00000000 00000001"
                           "20010db8 00000000 00000000 00000009"
                           "0000000b 0000003a") +
                       icmp;
  EXPECT_EQ(
      L4Checksum(Ipv6Fields::Address("2001:db8::1"),
                 Ipv6Fields::Address("2001:db8::9"), IpProtocol::kIcmpv6, icmp),
      Naive(pseudo));
}

TEST(L4Checksum, OfASegmentWithItsChecksumIsZero) {
  Frame tcp = Tcp(5000, 80, 3, 11);
  const auto sum = [&] {
    return L4Checksum(V4(10, 0, 0, 1), V4(192, 0, 2, 9), IpProtocol::kTcp, tcp);
  };
  TcpHeader<std::byte>::At(tcp, 0).set_checksum(sum());
  EXPECT_EQ(sum(), be16(0));
  tcp[30] ^= std::byte{1};
  EXPECT_NE(sum(), be16(0));
}

TEST(UdpChecksum, SendsZeroAsAllOnes) {
  EXPECT_EQ(UdpChecksumToSend(be16(0)), be16(0xffff));
  EXPECT_EQ(UdpChecksumToSend(be16(0x1234)), be16(0x1234));
}

TEST(UdpChecksum, StaysAbsentWhenAbsent) {
  EXPECT_EQ(UpdateUdpChecksum(be16(0), be16(1), be16(2)), be16(0));
}

TEST(UdpChecksum, NeverBecomesAbsentByAnUpdate) {
  EXPECT_EQ(UpdateChecksum(be16(0xdd2f), be16(0x5555), be16(0x3285)), be16(0));
  EXPECT_EQ(UpdateUdpChecksum(be16(0xdd2f), be16(0x5555), be16(0x3285)),
            be16(0xffff));
}

TEST(FillIpv4Checksum, MakesTheHeaderRight) {
  Frame packet = Ipv4({.option_words = 3}, {});
  const auto ip = Ipv4Header<std::byte>::At(packet, 0);
  ip.set_checksum(be16(0xbeef));
  FillIpv4Checksum(ip);
  EXPECT_EQ(Naive(ip.header()), be16(0));
}

}  // namespace
}  // namespace snf
