// SPDX-License-Identifier: Apache-2.0
#include "platform/ports/gwlb/outer_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/packet/test_packets.h"
#include "base/rng.h"
#include "base/test_allocations.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

constexpr size_t kLinkBytes = 14;

// An outer header of flow `number`, and its bytes.
struct Outer {
  explicit Outer(uint32_t number, size_t bytes = 40) : geneve(bytes) {
    for (size_t i = 0; i < bytes; ++i) geneve[i] = std::byte(i * 7);
    if (bytes >= 4) Store(geneve.data() + bytes - 4, be32(number));
    header = {.source = be32(0x0a000107),
              .destination = be32(0x0a000209),
              .source_port = be16(static_cast<uint16_t>(40'000 + number % 7)),
              .traffic_class = 0xb8,
              .geneve = geneve};
  }
  Frame geneve;
  OuterHeader header;
};

Frame LinkOf(OuterTable& table, const Outer& outer) {
  Frame link(kLinkBytes);
  link[12] = std::byte{0x08};
  table.Name(outer.header, link);
  EXPECT_EQ(link[12], std::byte{0x08});
  return link;
}
Frame Reversed(Frame link) {
  std::swap_ranges(link.begin(), link.begin() + 6, link.begin() + 6);
  return link;
}

bool Same(const std::optional<OuterHeader>& found, const Outer& outer) {
  return found.has_value() && found->source == outer.header.source &&
         found->destination == outer.header.destination &&
         found->source_port == outer.header.source_port &&
         found->traffic_class == outer.header.traffic_class &&
         std::ranges::equal(found->geneve, outer.geneve);
}

TEST(OuterTable, FindsTheHeaderThatAFrameNames) {
  OuterTable table(4, 1);
  const Outer a(1), b(2);
  const Frame link_a = LinkOf(table, a), link_b = LinkOf(table, b);
  EXPECT_TRUE(Same(table.Find(link_a), a));
  EXPECT_TRUE(Same(table.Find(link_b), b));
  // An NF's answer has the addresses exchanged.
  EXPECT_TRUE(Same(table.Find(Reversed(link_a)), a));
}

TEST(OuterTable, AddressesAreThoseOfNoCardAndNoGroup) {
  OuterTable table(4, 1);
  const Frame link = LinkOf(table, Outer(1));
  for (const size_t at : {0, 6}) {
    EXPECT_EQ(link[at] & std::byte{0x03}, std::byte{0x02});
  }
}

TEST(OuterTable, HasOneSlotForEachHeaderThatDiffers) {
  OuterTable table(64, 1);
  std::vector<Outer> outers;
  for (int i = 0; i < 6; ++i) outers.emplace_back(1);
  outers[1].header.source = be32(1);
  outers[2].header.destination = be32(1);
  outers[3].header.source_port = be16(1);
  outers[4].header.traffic_class = 1;
  outers[5].geneve[9] = std::byte{0xff};
  for (const Outer& outer : outers) {
    const Frame link = LinkOf(table, outer);
    EXPECT_EQ(LinkOf(table, outer), link);
  }
  EXPECT_EQ(table.size(), outers.size());
  for (const size_t bytes : {0, 8, 55, 56, 57, 112, 260}) {
    const Outer outer(1, bytes);
    EXPECT_TRUE(Same(table.Find(LinkOf(table, outer)), outer)) << bytes;
  }
}

TEST(OuterTable, FindsNothingForOtherFrames) {
  OuterTable table(4, 1);
  const Frame link = LinkOf(table, Outer(1));
  // Another process has another number.
  OuterTable other(4, 2);
  LinkOf(other, Outer(1));
  EXPECT_FALSE(other.Find(link).has_value());
  EXPECT_FALSE(table.Find(Hex("ffffffffffff 020000000000 0800")).has_value());
  EXPECT_FALSE(table.Find(Frame{}).has_value());
  for (size_t at = 0; at < 12; ++at) {
    Frame wrong = link;
    wrong[at] ^= std::byte{0x10};
    EXPECT_FALSE(table.Find(wrong).has_value()) << at;
    EXPECT_FALSE(table.Find(Reversed(wrong)).has_value()) << at;
  }
  const Frame cut(link.begin(), link.begin() + 11);
  EXPECT_FALSE(table.Find(cut).has_value());
}

TEST(OuterTable, ForgetsTheHeaderThatHasNotComeForLongest) {
  OuterTable table(3, 1);
  std::vector<Frame> links;
  for (uint32_t i = 0; i < 3; ++i) links.push_back(LinkOf(table, Outer(i)));
  // All are recent: the hand clears all of them and takes the first.
  const Frame fourth = LinkOf(table, Outer(3));
  EXPECT_EQ(table.evicted(), 1u);
  EXPECT_FALSE(table.Find(links[0]).has_value());
  EXPECT_TRUE(Same(table.Find(fourth), Outer(3)));
  // The second has come again, and the third is evicted.
  LinkOf(table, Outer(1));
  LinkOf(table, Outer(4));
  EXPECT_EQ(table.evicted(), 2u);
  EXPECT_TRUE(Same(table.Find(links[1]), Outer(1)));
  EXPECT_FALSE(table.Find(links[2]).has_value());
  EXPECT_EQ(table.size(), 3u);
}

// Random headers: a name finds its own header or nothing.
TEST(OuterTable, NeverFindsTheHeaderOfAnother) {
  const uint64_t seed = TestSeeds::One(1);
  Rng rng(seed);
  OuterTable table(50, seed);
  std::map<Frame, uint32_t> named;
  uint64_t forgotten = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto number = static_cast<uint32_t>(rng.Below(120));
    named[LinkOf(table, Outer(number))] = number;
    const auto any =
        std::next(named.begin(), static_cast<int64_t>(rng.Below(named.size())));
    const auto found = table.Find(any->first);
    if (found.has_value()) {
      ASSERT_TRUE(Same(found, Outer(any->second)));
    } else {
      ++forgotten;
      named.erase(any);
    }
  }
  EXPECT_GT(forgotten, 1'000u);
  EXPECT_GT(table.evicted(), 1'000u);
}

TEST(OuterTable, AllocatesNothingForPackets) {
  OuterTable table(2, 1);
  const Outer a(1), b(2), c(3);
  std::array<std::byte, kLinkBytes> link{};
  const uint64_t before = Allocations();
  for (const Outer* outer : {&a, &b, &c, &a}) {
    table.Name(outer->header, link);
    EXPECT_TRUE(table.Find(link).has_value());
  }
  EXPECT_EQ(Allocations(), before);
}

}  // namespace
}  // namespace snf
