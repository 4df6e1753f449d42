// SPDX-License-Identifier: Apache-2.0
#include "base/slot_index.h"

#include <cstdint>
#include <iostream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

// The table of an index: a hash for each slot.
class IndexedTable {
 public:
  explicit IndexedTable(uint32_t capacity) : index(capacity) {}

  uint32_t Find(uint64_t hash) const {
    return index.Find(hash,
                      [&](uint32_t slot) { return hashes.at(slot) == hash; });
  }
  void Insert(uint64_t hash, uint32_t slot) {
    hashes[slot] = hash;
    index.Insert(hash, slot);
  }
  void Erase(uint64_t hash, uint32_t slot) {
    index.Erase(hash, slot);
    hashes.erase(slot);
  }

  SlotIndex index;
  std::unordered_map<uint32_t, uint64_t> hashes;
};

// Returns a hash whose home is at `place` of 2^16.
uint64_t HashAt(uint64_t place, uint32_t lower) { return place << 48 | lower; }

TEST(SlotIndex, FindsNothingWhenEmpty) {
  IndexedTable table(4);
  EXPECT_EQ(table.Find(7), SlotIndex::kNotFound);
  EXPECT_EQ(table.index.Guess(7), SlotIndex::kNotFound);
  EXPECT_EQ(table.index.size(), 0u);
}

TEST(SlotIndex, TellsSlotsOfOneTagApartByWhatTheyMatch) {
  IndexedTable table(4);
  table.Insert(HashAt(5, 1), 0);
  table.Insert(HashAt(5, 2), 1);
  EXPECT_EQ(table.Find(HashAt(5, 1)), 0u);
  EXPECT_EQ(table.Find(HashAt(5, 2)), 1u);
  EXPECT_EQ(table.Find(HashAt(5, 3)), SlotIndex::kNotFound);
  EXPECT_EQ(table.index.Guess(HashAt(5, 3)), 0u);
}

TEST(SlotIndex, MovesTheSecondOfAHomeBackAsInTheWorkedExample) {
  IndexedTable table(6);
  const uint64_t first = uint64_t{0x2000'0000} << 32;
  const uint64_t second = uint64_t{0x2100'0000} << 32;
  table.Insert(first, 0);
  table.Insert(second, 1);
  table.Erase(first, 0);
  EXPECT_EQ(table.Find(first), SlotIndex::kNotFound);
  EXPECT_EQ(table.Find(second), 1u);
}

TEST(SlotIndex, FindsTheSlotsThatWrapAroundTheEnd) {
  IndexedTable table(6);
  for (uint32_t slot = 0; slot < 6; ++slot) {
    table.Insert(HashAt(0xffff, slot), slot);  // all at home in the last bucket
  }
  for (uint32_t gone = 0; gone < 6; ++gone) {
    table.Erase(HashAt(0xffff, gone), gone);
    for (uint32_t slot = 0; slot < 6; ++slot) {
      EXPECT_EQ(table.Find(HashAt(0xffff, slot)),
                slot > gone ? slot : SlotIndex::kNotFound);
    }
  }
}

TEST(SlotIndex, KeepsTheSlotsAtHomeBehindAnErasedOne) {
  // Homes 0 0 1 0 3 of nine buckets: an erase must skip those at home.
  const std::vector<uint64_t> hashes = {HashAt(0, 1), HashAt(0, 2),
                                        HashAt(0x2000, 3), HashAt(0, 4),
                                        HashAt(0x5600, 5)};
  for (uint32_t gone = 0; gone < hashes.size(); ++gone) {
    IndexedTable table(6);
    for (uint32_t slot = 0; slot < hashes.size(); ++slot) {
      table.Insert(hashes[slot], slot);
    }
    table.Erase(hashes[gone], gone);
    for (uint32_t slot = 0; slot < hashes.size(); ++slot) {
      EXPECT_EQ(table.Find(hashes[slot]),
                slot == gone ? SlotIndex::kNotFound : slot)
          << "after erasing " << gone;
    }
  }
}

TEST(SlotIndex, WorksWithCapacityZeroAndOne) {
  SlotIndex none(0);
  EXPECT_EQ(none.Guess(1), SlotIndex::kNotFound);
  EXPECT_DEATH(none.Insert(1, 0), "check failed");
  IndexedTable one(1);
  one.Insert(~uint64_t{0}, 0);
  EXPECT_EQ(one.Find(~uint64_t{0}), 0u);
  EXPECT_EQ(one.Find(0), SlotIndex::kNotFound);
  one.Erase(~uint64_t{0}, 0);
  EXPECT_EQ(one.Find(~uint64_t{0}), SlotIndex::kNotFound);
}

TEST(SlotIndex, AbortsOnOneTooManyAndOnErasingWhatIsNotThere) {
  SlotIndex index(2);
  index.Insert(1, 0);
  index.Insert(2, 1);
  EXPECT_DEATH(index.Insert(3, 2), "check failed");
  EXPECT_DEATH(index.Erase(1, 7), "check failed");
}

TEST(SlotIndex, CountsSlotsFarFromTheirHome) {
  SlotIndex index(2 * SlotIndex::kLongProbe);
  // The n-th at one home lies n buckets behind it.
  for (uint32_t n = 0; n <= SlotIndex::kLongProbe; ++n) index.Insert(7, n);
  EXPECT_EQ(index.long_probes(), 0u);
  for (uint32_t n = 1; n <= 3; ++n) {
    index.Insert(7, SlotIndex::kLongProbe + n);
    EXPECT_EQ(index.long_probes(), n);
  }
  index.Insert(HashAt(0x8000, 0), SlotIndex::kLongProbe + 4);
  EXPECT_EQ(index.long_probes(), 3u);
}

TEST(SlotIndex, IsAValue) {
  IndexedTable table(4);
  table.Insert(9, 3);
  IndexedTable copy = table;
  copy.Erase(9, 3);
  EXPECT_EQ(copy.Find(9), SlotIndex::kNotFound);
  EXPECT_EQ(table.Find(9), 3u);
}

struct IndexTotals {
  uint64_t inserts = 0;
  uint64_t erases = 0;
  uint64_t found = 0;
  uint64_t missed = 0;
  uint64_t shared_tags = 0;
  uint64_t full = 0;
};

// Makes random changes to an index and to a std::unordered_map, and compares
// them at each step and, now and then, entry by entry.
void Compare(Rng& rng, IndexTotals& totals) {
  const auto capacity = static_cast<uint32_t>(rng.Uniform(1, 80));
  const uint64_t tags = 1 + rng.Below(uint64_t{2} * capacity);
  // Every third index has all its homes within the last 1/64 of the array.
  const bool at_the_end = rng.Below(3) == 0;
  IndexedTable table(capacity);
  std::unordered_map<uint64_t, uint32_t> reference;
  std::vector<uint64_t> present;
  std::vector<uint32_t> free_slots;
  for (uint32_t slot = 0; slot < capacity; ++slot) free_slots.push_back(slot);
  rng.Shuffle(std::span<uint32_t>(free_slots));
  const auto draw = [&] {
    uint64_t tag = (rng.Below(tags) * 0x9e37'79b9) & 0xffff'ffff;
    if (at_the_end) tag |= 0xfc00'0000;
    return tag << 32 | rng.Below(4);
  };
  uint32_t insert_bias = 49'152;
  for (int step = 0; step < 600; ++step) {
    if (step % 100 == 99) insert_bias = 65'536 - insert_bias;
    const uint64_t hash = draw();
    const auto it = reference.find(hash);
    ASSERT_EQ(table.Find(hash),
              it == reference.end() ? SlotIndex::kNotFound : it->second);
    ++(it == reference.end() ? totals.missed : totals.found);
    if (rng.Chance(insert_bias)) {
      if (it != reference.end() || free_slots.empty()) continue;
      const uint32_t guess = table.index.Guess(hash);
      totals.shared_tags += guess != SlotIndex::kNotFound ? 1 : 0;
      table.Insert(hash, free_slots.back());
      reference[hash] = free_slots.back();
      present.push_back(hash);
      free_slots.pop_back();
      ++totals.inserts;
      totals.full += free_slots.empty() ? 1 : 0;
    } else if (!present.empty()) {
      std::swap(present[rng.Below(present.size())], present.back());
      const uint64_t gone = present.back();
      present.pop_back();
      table.Erase(gone, reference.at(gone));
      free_slots.push_back(reference.at(gone));
      reference.erase(gone);
      ++totals.erases;
    }
    ASSERT_EQ(table.index.size(), reference.size());
    if (step % 25 == 0) {
      for (const auto& [key, slot] : reference) {
        ASSERT_EQ(table.Find(key), slot);
      }
    }
  }
}

TEST(SlotIndex, AgreesWithAnUnorderedMapOverRandomWork) {
  IndexTotals totals;
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    Rng rng(seed);
    Compare(rng, totals);
    if (HasFatalFailure()) {
      std::cout << "seed " << seed << "\n";
      return;
    }
  }
  std::cout << "seeds 1-1000: " << totals.inserts << " inserts, "
            << totals.erases << " erases, " << totals.found << " found, "
            << totals.missed << " missed, " << totals.shared_tags
            << " inserts with a tag that was there, " << totals.full
            << " times full\n";
  EXPECT_GT(totals.inserts, 50'000u);
  EXPECT_GT(totals.erases, 50'000u);
  EXPECT_GT(totals.found, 50'000u);
  EXPECT_GT(totals.missed, 50'000u);
  EXPECT_GT(totals.shared_tags, 10'000u);
  EXPECT_GT(totals.full, 1'000u);
}

}  // namespace
}  // namespace snf
