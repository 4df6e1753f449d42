// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/state_schema.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/sdk/test_random_state.h"
#include "runtime/sdk/test_state.h"

namespace snf {
namespace {

using Bytes = std::vector<std::byte>;

// The worked example of state_schema.h.
StateSchema Example() {
  StateSchema schema;
  schema.AddSlot("packets", 8, "uint64_t");
  schema.AddSlot("ports", 12, "Ports");
  schema.AddBlob("name", 20);
  return schema;
}

// Returns a record of the example with all three values; "name" has five bytes.
Bytes ExampleRecord() {
  Bytes record(64);
  record[0] = std::byte{7};
  for (const size_t byte : {8, 16, 27, 40, 44}) record[byte] = std::byte{9};
  record[32] = std::byte{5};
  return record;
}

TEST(StateSchema, LaysSlotsOutAsInTheExample) {
  const StateSchema schema = Example();
  ASSERT_EQ(schema.slots(), 3u);
  EXPECT_EQ(schema.name(0), "packets");
  EXPECT_EQ(schema.name(2), "name");
  EXPECT_EQ(schema.offset(0), 8u);
  EXPECT_EQ(schema.offset(1), 16u);
  EXPECT_EQ(schema.offset(2), 32u);
  EXPECT_EQ(schema.bytes(1), 12u);
  EXPECT_EQ(schema.bytes(2), 20u);
  EXPECT_FALSE(schema.is_blob(1));
  EXPECT_TRUE(schema.is_blob(2));
  EXPECT_EQ(schema.record_bytes(), 64u);
  EXPECT_TRUE(schema.IsWellFormed(ExampleRecord()));
  EXPECT_TRUE(schema.IsWellFormed(Bytes(64)));
}

TEST(StateSchema, WithoutSlotsHasAnEmptyRecord) {
  const StateSchema schema;
  EXPECT_EQ(schema.slots(), 0u);
  EXPECT_EQ(schema.record_bytes(), 0u);
  EXPECT_TRUE(schema.IsWellFormed({}));
  EXPECT_FALSE(schema.IsWellFormed(Bytes(8)));
}

TEST(StateSchema, HashTellsApartWhateverChangesTheMeaning) {
  std::vector<StateSchema> all(9);
  all[0].AddSlot("a", 8, "T");
  all[1].AddSlot("b", 8, "T");
  all[2].AddSlot("a", 7, "T");
  all[3].AddSlot("a", 8, "U");
  all[4].AddBlob("a", 8);
  all[5].AddSlot("a", 8, "T");
  all[5].set_nf("nf");
  all[6].AddSlot("a", 8, "T");
  all[6].set_nf("another");
  all[7].AddSlot("a", 8, "T");
  all[7].AddSlot("b", 8, "T");
  all[8].AddSlot("a", 8, "T");
  all[8].set_nf("nf", "timeout=1s");
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(all[i].hash(), all[j].hash());
  }
  EXPECT_EQ(Example().hash(), Example().hash());
  EXPECT_NE(Example().hash(), 0u);
}

// By any compiler; a type's name is none of its business.
TEST(StateSchema, HashIsTheSameWhoeverBuiltIt) {
  enum class Choice : uint64_t {};
  struct Pair {
    uint32_t a, b;
  };
  struct Other {
    uint32_t c, d;
  };
  StateSchema schema;
  schema.AddSlot("a", 8, StateSchema::KindOf<uint64_t>());
  schema.AddSlot("b", 8, StateSchema::KindOf<Pair>());
  schema.set_nf("nf", "timeout=1s");
  EXPECT_EQ(schema.hash(), 4211044697325351696u);
  EXPECT_EQ(StateSchema::KindOf<Pair>(), StateSchema::KindOf<Other>());
  const std::set<std::string_view> kinds = {
      StateSchema::KindOf<bool>(),
      StateSchema::KindOf<char8_t>(),
      StateSchema::KindOf<int64_t>(),
      StateSchema::KindOf<double>(),
      StateSchema::KindOf<Choice>(),
      StateSchema::KindOf<Pair>(),
      StateSchema::KindOf<std::array<std::byte, 8>>()};
  EXPECT_EQ(kinds.size(), 7u);
}

TEST(StateSchema, HoldsSixtyFourSlotsAndNoMore) {
  StateSchema schema;
  for (int i = 0; i < 64; ++i) schema.AddSlot(std::to_string(i), 1, "T");
  Bytes record(schema.record_bytes());
  EXPECT_EQ(record.size(), 8u + 64u * 8u);
  for (size_t byte = 0; byte < 8; ++byte) record[byte] = std::byte{0xff};
  EXPECT_TRUE(schema.IsWellFormed(record));
  EXPECT_DEATH(schema.AddSlot("64", 1, "T"), "check failed");
}

TEST(StateSchema, HoldsARecordOf64KAndNoMore) {
  constexpr uint32_t kMax = StateSchema::kMaxRecordBytes;
  StateSchema schema;
  schema.AddBlob("blob", kMax - 8 - 8 - 8);
  EXPECT_EQ(schema.record_bytes(), kMax - 8);
  EXPECT_DEATH(schema.AddSlot("a", 9, "T"), "check failed");
  EXPECT_DEATH(schema.AddBlob("b", 1), "check failed");
  schema.AddSlot("a", 8, "T");
  EXPECT_EQ(schema.record_bytes(), kMax);
  EXPECT_DEATH(schema.AddSlot("b", 1, "T"), "check failed");
}

TEST(StateSchema, AbortsOnSlotsThatCannotBe) {
  StateSchema schema;
  schema.AddSlot("a", 8, "T");
  EXPECT_DEATH(schema.AddSlot("a", 8, "T"), "check failed");
  EXPECT_DEATH(schema.AddBlob("a", 8), "check failed");
  EXPECT_DEATH(schema.AddSlot("b", 0, "T"), "check failed");
  EXPECT_DEATH(schema.AddBlob("b", 0), "check failed");
  EXPECT_DEATH(schema.AddSlot("b", 0xffff'ffff, "T"), "check failed");
  EXPECT_DEATH(schema.AddBlob("b", 0xffff'fff8), "check failed");
}

TEST(StateSchema, RefusesARecordThatIsTooLongOrNotOfWords) {
  const StateSchema schema = Example();
  EXPECT_FALSE(schema.IsWellFormed(Bytes(72)));
  for (size_t bytes = 1; bytes < 72; ++bytes) {
    EXPECT_EQ(schema.IsWellFormed(Bytes(bytes)), bytes % 8 == 0 && bytes <= 64);
  }
}

TEST(StateSchema, LeavesOutWordsOfZerosAtTheEnd) {
  const auto bytes = [](const Bytes& record) {
    return StateSchema::WithoutZeros(record).size();
  };
  EXPECT_EQ(bytes({}), 0u);
  EXPECT_EQ(bytes(Bytes(64)), 0u);
  Bytes record(64);
  record[0] = std::byte{1};
  EXPECT_EQ(bytes(record), 8u);
  record[23] = std::byte{1};
  EXPECT_EQ(bytes(record), 24u);
  record[24] = std::byte{1};
  EXPECT_EQ(bytes(record), 32u);
  record[63] = std::byte{1};
  EXPECT_EQ(bytes(record), 64u);
}

TEST(StateSchema, LeavesOutZerosAtTheEndOfALongRecord) {
  for (size_t size = 0; size <= 256; size += 8) {
    EXPECT_EQ(StateSchema::WithoutZeros(Bytes(size)).size(), 0u);
    for (size_t last = 0; last < size; ++last) {
      Bytes record(size);
      record[last] = std::byte{1};
      EXPECT_EQ(StateSchema::WithoutZeros(record).size(), last / 8 * 8 + 8)
          << last << " of " << size;
    }
  }
}

// Bytes that are cut off count as zeros.
TEST(StateSchema, JudgesAShortRecordAsIfItsZerosWereThere) {
  const StateSchema schema = Example();
  for (size_t length = 0; length <= 64; length += 8) {
    for (size_t byte = 0; byte < length; ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        Bytes record = ExampleRecord();
        record[byte] ^= std::byte{1} << bit;
        Bytes filled = record;
        std::fill(filled.begin() + static_cast<ptrdiff_t>(length), filled.end(),
                  std::byte{0});
        record.resize(length);
        EXPECT_EQ(schema.IsWellFormed(record), schema.IsWellFormed(filled));
      }
    }
  }
}

TEST(StateSchema, RefusesEveryBitWhereNoValueIs) {
  const StateSchema schema = Example();
  // Bytes of the full record that a value may use.
  const auto is_value = [](size_t byte) {
    return (8 <= byte && byte < 28) || (40 <= byte && byte < 45);
  };
  for (size_t byte = 0; byte < 64; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      SCOPED_TRACE("byte " + std::to_string(byte) + " bit " +
                   std::to_string(bit));
      Bytes record = ExampleRecord();
      record[byte] ^= std::byte{1} << bit;
      // A length of 7 (5 ^ 2) or 13 (5 ^ 8) is one more that can be.
      const bool longer = byte == 32 && (bit == 1 || bit == 3);
      EXPECT_EQ(schema.IsWellFormed(record), is_value(byte) || longer);
      Bytes empty(64);
      empty[byte] ^= std::byte{1} << bit;
      EXPECT_EQ(schema.IsWellFormed(empty), byte == 0 && bit < 3);
    }
  }
}

TEST(StateSchema, RefusesEqualBytesWhereNoValueIs) {
  const StateSchema schema = Example();
  for (const auto& [begin, end] : {std::pair(28, 32), std::pair(45, 64)}) {
    Bytes record = ExampleRecord();
    std::fill(record.begin() + begin, record.begin() + end, std::byte{0xff});
    EXPECT_FALSE(schema.IsWellFormed(record));
  }
}

TEST(StateSchema, RefusesABlobLongerThanItsMaximum) {
  const StateSchema schema = Example();
  Bytes record = ExampleRecord();
  record[32] = std::byte{20};
  EXPECT_TRUE(schema.IsWellFormed(record));
  record[32] = std::byte{21};
  EXPECT_FALSE(schema.IsWellFormed(record));
}

TEST(StateSchema, AnyRecordWrittenThroughAFlowIsWellFormed) {
  const uint64_t seed = 20;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  for (const uint32_t slots : {1, 2, 5, 64}) {
    RandomStateNf nf(rng, slots, 100);
    Bytes record(nf.schema().record_bytes());
    for (int i = 0; i < 2'000; ++i) {
      TestFlow test(record);
      nf.Change(rng, test.flow);
      ASSERT_TRUE(nf.schema().IsWellFormed(record));
    }
  }
}

// --- Schemas in schemas -----------------------------------------------------

TEST(StateSchema, AppendsTheSlotsOfAnotherSoMuchFurther) {
  StateSchema schema;
  const StateSchema::Shift first = schema.Append("a", Example());
  EXPECT_EQ(first.slots, 0u);
  EXPECT_EQ(first.bytes, 0u);
  EXPECT_EQ(schema.record_bytes(), Example().record_bytes());
  EXPECT_NE(schema.hash(), Example().hash());
  const StateSchema::Shift second = schema.Append("b", Example());
  EXPECT_EQ(second.slots, 3u);
  EXPECT_EQ(second.bytes, 56u);
  for (uint32_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(schema.name(3 + slot), "b." + std::string(Example().name(slot)));
    EXPECT_EQ(schema.offset(3 + slot), Example().offset(slot) + 56);
    EXPECT_EQ(schema.bytes(3 + slot), Example().bytes(slot));
    EXPECT_EQ(schema.is_blob(3 + slot), Example().is_blob(slot));
  }
  EXPECT_EQ(schema.record_bytes(), 64u + 56u);
}

TEST(StateSchema, KeepsWhatIsSeldomUsedWhenAppended) {
  StateSchema one = Example();
  one.MarkSeldom(2);
  EXPECT_EQ(one.hash(), Example().hash());
  StateSchema schema;
  schema.Append("a", Example());
  schema.Append("b", one);
  for (uint32_t slot = 0; slot < schema.slots(); ++slot) {
    EXPECT_EQ(schema.is_seldom(slot), slot == 5) << slot;
  }
}

TEST(StateSchema, HasAHashOfWhatWasAppended) {
  const auto hash = [](std::string_view prefix, uint32_t bytes) {
    StateSchema one;
    one.AddSlot("x", bytes, "bytes");
    StateSchema schema;
    schema.Append(prefix, one);
    return schema.hash();
  };
  EXPECT_EQ(hash("a", 3), hash("a", 3));
  EXPECT_NE(hash("a", 3), hash("b", 3));
  EXPECT_NE(hash("a", 3), hash("a", 4));
  StateSchema nothing;
  nothing.set_nf("nothing");
  StateSchema schema;
  schema.Append("a", nothing);
  EXPECT_NE(schema.hash(), StateSchema().hash());
}

TEST(StateSchema, KnowsWhatFits) {
  StateSchema schema;
  EXPECT_TRUE(schema.HasRoomFor(64, 65'528));
  EXPECT_FALSE(schema.HasRoomFor(65, 8));
  EXPECT_FALSE(schema.HasRoomFor(1, 65'529));
  schema.AddSlot("x", 8, "bytes");
  EXPECT_TRUE(schema.HasRoomFor(63, 65'520));
  EXPECT_FALSE(schema.HasRoomFor(64, 8));
  EXPECT_FALSE(schema.HasRoomFor(1, 65'521));
}

// The schema has one slot of 8 bytes, and a table of at most 3 entries: 16
// bytes of key, and a record of 8 + 8.
struct TableExample {
  TableExample() {
    schema.AddSlot("before", 8, "bytes");
    StateSchema entries;
    entries.AddSlot("x", 3, "bytes");
    slot = schema.AddTable("table", 16, entries, 3);
    schema.AddSlot("after", 8, "bytes");
    record.resize(schema.record_bytes());
    record[0] = std::byte{0b010};
    at = schema.offset(slot);
    record[at] = std::byte{64};
    for (const uint32_t entry : {at + 8, at + 40}) {
      record[entry + 5] = std::byte{0xff};  // a key
      record[entry + 16] = std::byte{1};
      record[entry + 26] = std::byte{9};
    }
  }
  bool IsWellFormed() const { return schema.IsWellFormed(record); }

  StateSchema schema;
  uint32_t slot = 0;
  uint32_t at = 0;
  Bytes record;
};

TEST(StateSchema, LooksIntoTables) {
  TableExample table;
  EXPECT_EQ(table.schema.grain(table.slot), 32u);
  EXPECT_EQ(table.schema.grain(0), 1u);
  EXPECT_EQ(table.schema.bytes(table.slot), 96u);
  ASSERT_TRUE(table.IsWellFormed());
  const auto spoilt = [](uint32_t offset, int byte) {
    TableExample copy;
    copy.record[copy.at + offset] = static_cast<std::byte>(byte);
    return !copy.IsWellFormed();
  };
  EXPECT_TRUE(spoilt(0, 63));       // not whole entries
  EXPECT_TRUE(spoilt(0, 96 + 32));  // too many
  EXPECT_TRUE(spoilt(0, 32));       // bytes behind the last
  EXPECT_FALSE(spoilt(0, 96));      // the third is of zeros
  EXPECT_FALSE(spoilt(8, 7));       // any key
  EXPECT_TRUE(spoilt(8 + 16, 3));   // a slot that there is not
  EXPECT_TRUE(spoilt(40 + 16, 0));  // a value that there is not
  EXPECT_TRUE(spoilt(8 + 27, 1));   // a gap
  EXPECT_TRUE(spoilt(40 + 31, 1));
}

TEST(StateSchema, LooksIntoTablesThatAreCutShort) {
  for (size_t byte = 0; byte < TableExample().record.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      TableExample table;
      table.record[byte] ^= std::byte{1} << bit;
      for (size_t length = 0; length <= table.record.size(); length += 8) {
        Bytes filled(table.record.size());
        std::copy_n(table.record.begin(), length, filled.begin());
        EXPECT_EQ(
            table.schema.IsWellFormed(std::span(table.record).first(length)),
            table.schema.IsWellFormed(filled));
      }
    }
  }
}

TEST(StateSchema, TakesOnlyWholeEntriesForATable) {
  const TableExample table;
  const auto entries =
      std::span<const std::byte>(table.record).subspan(table.at + 8, 64);
  EXPECT_TRUE(table.schema.CanHold(table.slot, entries));
  EXPECT_TRUE(table.schema.CanHold(table.slot, entries.first(32)));
  EXPECT_TRUE(table.schema.CanHold(table.slot, {}));
  EXPECT_FALSE(table.schema.CanHold(table.slot, entries.first(16)));
  EXPECT_FALSE(table.schema.CanHold(table.slot, entries.subspan(16, 32)));
  EXPECT_TRUE(table.schema.CanHold(0, entries.first(3)));
}

}  // namespace
}  // namespace snf
