// SPDX-License-Identifier: Apache-2.0
#include "nfs/snort/fragments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/packet/headers.h"
#include "base/packet/test_packets.h"

namespace snf::snort {
namespace {

constexpr size_t kRoom = 2'000;

// The payload of an IP packet of 40 bytes.
std::string Payload() {
  std::string payload;
  for (char c = 'A'; c < 'A' + 40; ++c) payload += c;
  return payload;
}

Frame BytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A fragment of it: its bytes begin … end - 1.
Frame Piece4(size_t begin, size_t end, uint16_t id = 7,
             const std::string& payload = Payload()) {
  return Ethernet(0x0800,
                  Ipv4({.protocol = 253,
                        .id = id,
                        .fragment_offset_bytes = static_cast<uint16_t>(begin),
                        .more_fragments = end < payload.size()},
                       BytesOf(payload.substr(begin, end - begin))));
}

class Reassembly {
 public:
  explicit Reassembly(size_t room = kRoom) : room_(room) {}
  Fragments::Result Take(const Frame& frame, uint32_t second = 0,
                         uint32_t original_length = 0) {
    const ParsedPacket headers = Parse(LinkType::kEthernet, frame);
    EXPECT_NE(headers.fragment, Fragment::kNone);
    return fragments_.Take({.frame = frame,
                            .headers = headers,
                            .original_length = original_length,
                            .second = second,
                            .to_server = to_server},
                           room_, held_);
  }
  // The payload of the packet that was completed.
  std::string Whole() const {
    const ParsedPacket headers = Parse(LinkType::kEthernet, fragments_.whole());
    EXPECT_EQ(headers.fragment, Fragment::kNone);
    EXPECT_EQ(headers.end_offset, fragments_.whole().size());
    const auto bytes = fragments_.whole().subspan(headers.l4_offset);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // The part of it that the first fragment had.
  std::string first_payload() const {
    const ParsedPacket headers = Parse(LinkType::kEthernet, fragments_.whole());
    return Whole().substr(0, fragments_.first_bytes() - headers.l4_offset);
  }
  const std::string& held() const { return held_; }
  bool to_server = true;

 private:
  size_t room_;
  Fragments fragments_;
  std::string held_;
};

TEST(Fragments, ArePutTogetherInAnyOrder) {
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  do {
    Reassembly reassembly;
    for (size_t i = 0; i < order.size(); ++i) {
      const auto result =
          reassembly.Take(Piece4(order[i] * 8, order[i] * 8 + 8));
      EXPECT_FALSE(result.overlaps || result.has_no_room);
      // The first one, and others before it.
      const auto first = std::ranges::find(order, 0u) - order.begin();
      EXPECT_EQ(result.is_alone, static_cast<ptrdiff_t>(i) <= first);
      EXPECT_EQ(result.is_whole, i == 4);
    }
    EXPECT_EQ(reassembly.Whole(), Payload());
    EXPECT_EQ(reassembly.first_payload(), Payload().substr(0, 8));
    EXPECT_TRUE(reassembly.held().empty());
  } while (std::ranges::next_permutation(order).found);
}

TEST(Fragments, OfOtherPacketsAndDirectionsAreKeptApart) {
  Reassembly reassembly;
  EXPECT_FALSE(reassembly.Take(Piece4(0, 16, 1)).is_whole);
  EXPECT_FALSE(reassembly.Take(Piece4(16, 40, 2)).is_whole);
  reassembly.to_server = false;
  EXPECT_FALSE(reassembly.Take(Piece4(16, 40, 1)).is_whole);
  EXPECT_EQ(Fragments::PacketsIn(reassembly.held()), 3u);
  reassembly.to_server = true;
  EXPECT_TRUE(reassembly.Take(Piece4(16, 40, 1)).is_whole);
  EXPECT_EQ(reassembly.Whole(), Payload());
  EXPECT_EQ(Fragments::PacketsIn(reassembly.held()), 2u);
}

// Copies of a byte: the first one wins, and a difference is told.
TEST(Fragments, ThatOverlapAreTold) {
  std::string other = Payload();
  other[20] = '!';
  for (const bool is_first : {true, false}) {
    const std::string& a = is_first ? other : Payload();
    const std::string& b = is_first ? Payload() : other;
    Reassembly reassembly;
    EXPECT_FALSE(reassembly.Take(Piece4(0, 24, 7, a)).overlaps);
    // The same bytes once more are no difference.
    EXPECT_FALSE(reassembly.Take(Piece4(0, 16, 7, b)).overlaps);
    const auto result = reassembly.Take(Piece4(16, 40, 7, b));
    EXPECT_TRUE(result.overlaps);
    EXPECT_TRUE(result.is_alone);
    EXPECT_TRUE(result.is_whole);
    EXPECT_EQ(reassembly.Whole(), a);
  }
}

TEST(Fragments, BeyondTheLastOneAreLookedAtAlone) {
  Reassembly reassembly;
  reassembly.Take(Piece4(16, 24, 7, Payload().substr(0, 24)));
  auto result = reassembly.Take(Piece4(24, 32));
  EXPECT_TRUE(result.is_alone && result.overlaps);
  // A second end in front of the first one.
  result = reassembly.Take(Piece4(8, 12, 7, Payload().substr(0, 12)));
  EXPECT_TRUE(result.is_alone && result.overlaps);
  EXPECT_EQ(Fragments::PacketsIn(reassembly.held()), 1u);
  EXPECT_TRUE(reassembly.Take(Piece4(0, 16)).is_whole);
  EXPECT_EQ(reassembly.Whole(), Payload().substr(0, 24));
}

TEST(Fragments, ThatAreNoPartOfAPacketAreLookedAtAlone) {
  Reassembly reassembly;
  // More follow, but the length is no multiple of 8.
  EXPECT_TRUE(reassembly.Take(Piece4(0, 12)).is_alone);
  // The capture has cut it.
  EXPECT_TRUE(reassembly.Take(Piece4(0, 16), 0, 1'000).is_alone);
  const std::string huge(65'534, 'x');
  const auto result = reassembly.Take(Piece4(65'528, 65'534, 7, huge));
  EXPECT_TRUE(result.is_alone && result.is_too_large);
  EXPECT_TRUE(reassembly.held().empty());
}

TEST(Fragments, AreBoundedInBytesAndNumber) {
  Reassembly small(100);
  EXPECT_FALSE(small.Take(Piece4(0, 24)).has_no_room);
  EXPECT_EQ(small.held().size(), 16 + 34 + 24u);
  auto result = small.Take(Piece4(32, 40));
  EXPECT_FALSE(result.has_no_room);
  result = small.Take(Piece4(24, 32, 8));
  EXPECT_TRUE(result.has_no_room && result.is_alone);
  // The last one needs no room.
  EXPECT_TRUE(small.Take(Piece4(24, 32)).is_whole);
  Reassembly many(1 << 20);
  size_t held = 0;
  for (uint16_t id = 0; id < 200; ++id) {
    held += many.Take(Piece4(8, 16, id)).has_no_room ? 0 : 1;
  }
  EXPECT_EQ(held, Fragments::kMaxPieces);
}

TEST(Fragments, AreGivenUpAfterATime) {
  Reassembly reassembly;
  reassembly.Take(Piece4(0, 8, 1), 100);
  reassembly.Take(Piece4(8, 16, 1), 101);
  reassembly.Take(Piece4(0, 16, 2), 110);
  EXPECT_EQ(reassembly.Take(Piece4(0, 8, 3), 130).given_up, 0u);
  EXPECT_EQ(reassembly.Take(Piece4(0, 8, 3), 132).given_up, 1u);
  EXPECT_TRUE(reassembly.Take(Piece4(16, 40, 2), 140).is_whole);
  EXPECT_FALSE(reassembly.Take(Piece4(16, 40, 1), 140).is_whole);
}

// Destination options stand in front of the fragment header, and once more
// behind it, in the part that is fragmented.
TEST(Fragments, OfIpv6ArePutTogether) {
  const Frame all = Ipv6Extension(253, 1, BytesOf(Payload()));
  const auto piece = [&](size_t begin, size_t end) {
    const Frame part(all.begin() + static_cast<ptrdiff_t>(begin),
                     all.begin() + static_cast<ptrdiff_t>(end));
    return Ethernet(
        0x86dd,
        Ipv6({.next_header = 60},
             Ipv6Extension(44, 1,
                           Ipv6Fragment(60, static_cast<uint16_t>(begin),
                                        end < all.size(), 5, part))));
  };
  Reassembly reassembly;
  EXPECT_FALSE(reassembly.Take(piece(16, 48)).is_whole);
  EXPECT_TRUE(reassembly.Take(piece(0, 16)).is_whole);
  EXPECT_EQ(reassembly.Whole(), Payload());
}

}  // namespace
}  // namespace snf::snort
