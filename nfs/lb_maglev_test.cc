// SPDX-License-Identifier: Apache-2.0
#include "nfs/lb_maglev.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"

namespace snf {
namespace {

using Member = MaglevTable::Member;

uint64_t Mixed(uint64_t number) {
  number = (number ^ number >> 31) * 0x9e37'79b9'7f4a'7c15u;
  number = (number ^ number >> 29) * 0xbf58'476d'1ce4'e5b9u;
  return number ^ number >> 32;
}

Member MemberOf(uint16_t value, uint32_t weight = 1) {
  return {.offset_hash = Mixed(2 * value + 1u),
          .skip_hash = Mixed(2 * value + 2u),
          .weight = weight,
          .value = value};
}

std::vector<Member> Members(uint16_t count, uint32_t weight = 1) {
  std::vector<Member> members;
  for (uint16_t i = 0; i < count; ++i) {
    members.push_back(MemberOf(i, weight));
  }
  return members;
}

// The values for hashes that are spread evenly.
std::vector<uint16_t> Values(const MaglevTable& table, size_t count) {
  std::vector<uint16_t> values;
  for (size_t i = 0; i < count; ++i) values.push_back(table.Find(Mixed(i + 1)));
  return values;
}

std::map<uint16_t, double> Shares(const std::vector<uint16_t>& values) {
  std::map<uint16_t, double> shares;
  for (const uint16_t value : values) {
    shares[value] += 1.0 / static_cast<double>(values.size());
  }
  return shares;
}

TEST(MaglevTable, TakesPrimesOnly) {
  for (const uint32_t size : {251u, 65'537u, 4'194'301u}) {
    EXPECT_TRUE(MaglevTable::IsSize(size)) << size;
  }
  for (const uint32_t size :
       {0u, 2u, 241u, 252u, 253u, 65'535u, 65'536u, 4'194'303u, 4'194'319u}) {
    EXPECT_FALSE(MaglevTable::IsSize(size)) << size;
  }
}

TEST(MaglevTable, FollowsThePermutationsInTurn) {
  // The permutation of each is offset, offset + skip, …, modulo the size.
  const Member a = {.offset_hash = 3, .skip_hash = 3, .weight = 1, .value = 0};
  const Member b = {.offset_hash = 0, .skip_hash = 1, .weight = 1, .value = 1};
  const MaglevTable table({a, b}, 251);
  const auto slot = [&table](uint64_t i) {
    // The middle of the slot's range of hashes.
    return table.Find((((2 * i + 1) << 32) / 502) << 32);
  };
  // Member a takes 3, 7, 11 and so on, and b takes 0, 2, 4 and so on.
  EXPECT_EQ(slot(3), 0);
  EXPECT_EQ(slot(7), 0);
  EXPECT_EQ(slot(0), 1);
  EXPECT_EQ(slot(2), 1);
  EXPECT_EQ(slot(4), 1);
}

TEST(MaglevTable, DependsOnTheMembersAndNotOnTheirOrder) {
  std::vector<Member> members = Members(10);
  const std::vector<uint16_t> values =
      Values(MaglevTable(members, 65'537), 10'000);
  Rng rng(TestSeeds::One(7));
  for (int i = 0; i < 5; ++i) {
    for (size_t k = members.size(); k > 1; --k) {
      std::swap(members[k - 1], members[rng.Below(k)]);
    }
    EXPECT_EQ(Values(MaglevTable(members, 65'537), 10'000), values);
  }
}

TEST(MaglevTable, IsEmptyWithoutMembers) {
  EXPECT_TRUE(MaglevTable({}, 251).empty());
  EXPECT_EQ(Values(MaglevTable(Members(1), 251), 100),
            std::vector<uint16_t>(100, 0));
}

// The share of each is within 1.05 of its fair one if the table has 100 slots
// for each unit of weight, counted in the smallest weight.
TEST(MaglevTable, GivesEachItsFairShare) {
  const auto check = [](std::vector<Member> members, uint32_t size) {
    double weights = 0;
    for (const Member& member : members) weights += member.weight;
    const MaglevTable table(members, size);
    // Slots are counted, not hashes, which have a spread of their own.
    std::map<uint16_t, double> shares;
    for (uint64_t slot = 0; slot < size; ++slot) {
      shares[table.Find((((2 * slot + 1) << 32) / (2 * size)) << 32)] +=
          1.0 / size;
    }
    for (const Member& member : members) {
      const double fair = member.weight / weights;
      EXPECT_LE(shares[member.value], 1.05 * fair) << member.value;
      EXPECT_GE(shares[member.value], fair / 1.05) << member.value;
    }
  };
  check(Members(10), 65'537);
  check(Members(2, 1'000), 251);
  check(Members(600), 65'537);
  check({MemberOf(0, 1), MemberOf(1, 2), MemberOf(2, 5), MemberOf(3, 10)},
        65'537);
}

// A million connections: if their server goes they must move, and a new server
// takes its share. At most 2 % of the others move.
TEST(MaglevTable, MovesFewConnectionsIfAMemberComesOrGoes) {
  constexpr size_t kConnections = 1'000'000;
  const std::vector<Member> ten = Members(10);
  const std::vector<uint16_t> before =
      Values(MaglevTable(ten, 65'537), kConnections);
  for (const auto& [server, share] : Shares(before)) {
    EXPECT_LE(share, 0.1 * 1.05) << server;
    EXPECT_GE(share, 0.1 / 1.05) << server;
  }
  std::vector<Member> nine = ten;
  nine.erase(nine.begin() + 4);
  std::vector<Member> eleven = ten;
  eleven.push_back(MemberOf(10));
  const auto moved = [&](const std::vector<Member>& members) {
    const std::vector<uint16_t> after =
        Values(MaglevTable(members, 65'537), kConnections);
    size_t needless = 0;
    for (size_t i = 0; i < kConnections; ++i) {
      if (after[i] != before[i] && before[i] != 4 && after[i] != 10) {
        ++needless;
      }
    }
    return static_cast<double>(needless) / kConnections;
  };
  const double by_removal = moved(nine), by_addition = moved(eleven);
  std::printf("moved needlessly: %.4f by a removal, %.4f by an addition\n",
              by_removal, by_addition);
  EXPECT_LE(by_removal, 0.02);
  EXPECT_LE(by_addition, 0.02);
}

}  // namespace
}  // namespace snf
