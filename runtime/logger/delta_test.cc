// SPDX-License-Identifier: Apache-2.0
#include "runtime/logger/delta.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/test_random_state.h"
#include "runtime/sdk/test_state.h"

namespace snf {
namespace {

using Bytes = std::vector<std::byte>;

std::span<const std::byte> Text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The schema of the worked example of delta.h.
class ExampleNf final : public NetworkFunction {
 public:
  Slot<uint64_t> packets = declare<uint64_t>("packets");
  Slot<std::array<uint32_t, 3>> ports =
      declare<std::array<uint32_t, 3>>("ports");
  Blob name = declare_blob("name", 20);

  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};

// The delta of what `change` does to `record`, in a buffer of its very size, so
// that a sanitizer sees a read behind it.
template <typename F>
Bytes DeltaOf(const StateSchema& schema, Bytes& record, F change) {
  TestFlow test(record);
  change(test.flow);
  Bytes delta(MaxDeltaBytes(schema));
  delta.resize(EncodeDelta(schema, test.view, delta));
  return Bytes(delta);
}

class Delta : public ::testing::Test {
 protected:
  Bytes Change(const std::function<void(FlowState&)>& change) {
    return DeltaOf(schema_, record_, change);
  }
  // `change` makes a delta that takes a copy of the record along.
  void ExpectFollows(const std::function<void(FlowState&)>& change) {
    Bytes copy = record_;
    const Bytes delta = Change(change);
    EXPECT_TRUE(ApplyDelta(schema_, delta, copy));
    EXPECT_EQ(copy, record_);
  }
  void ExpectRefused(const Bytes& delta, const Bytes& record) {
    Bytes copy = record;
    EXPECT_FALSE(ApplyDelta(schema_, delta, copy));
    EXPECT_EQ(copy, record);
  }

  ExampleNf nf_;
  const StateSchema& schema_ = nf_.schema();
  Bytes record_ = Bytes(schema_.record_bytes());
};

TEST_F(Delta, IsThatOfTheExample) {
  Change([&](FlowState& flow) { flow.put(nf_.name, Text("apple")); });
  const Bytes delta = Change([&](FlowState& flow) {
    flow.put(nf_.packets, 1);
    flow.patch(nf_.name, 5, Text("pie"));
  });
  ASSERT_EQ(delta.size(), 39u);
  const std::array<uint64_t, 3> head = {5, 5, 1};
  const std::array<uint32_t, 3> blob = {8, 5, 8};
  EXPECT_EQ(std::memcmp(delta.data(), head.data(), 24), 0);
  EXPECT_EQ(std::memcmp(delta.data() + 24, blob.data(), 12), 0);
  EXPECT_EQ(std::memcmp(delta.data() + 36, "pie", 3), 0);
}

TEST_F(Delta, OfNoChangeIsNoBytes) {
  EXPECT_TRUE(Change([](FlowState&) {}).empty());
  ExpectFollows([](FlowState&) {});
  EXPECT_TRUE(Change([&](FlowState& flow) {
                EXPECT_EQ(flow.get(nf_.packets), 0u);
                EXPECT_FALSE(flow.patch(nf_.name, 1, {}));
              }).empty());
}

TEST_F(Delta, FollowsEachKindOfChange) {
  const std::array<std::string_view, 4> names = {"", "a", "abcdefgh",
                                                 "abcdefghijklmnopqrst"};
  for (const std::string_view before : names) {
    for (const std::string_view after : names) {
      ExpectFollows([&](FlowState& flow) { flow.put(nf_.name, Text(before)); });
      ExpectFollows([&](FlowState& flow) { flow.put(nf_.name, Text(after)); });
      ExpectFollows([&](FlowState& flow) { flow.erase(nf_.name); });
      ExpectFollows([&](FlowState& flow) { flow.put(nf_.name, Text(after)); });
      ExpectFollows([&](FlowState& flow) {
        flow.put(nf_.ports, {1, 2, 3});
        flow.erase(nf_.name);
        flow.patch(nf_.name, 0, Text(before));
      });
      ExpectFollows([&](FlowState& flow) {
        flow.erase(nf_.ports);
        flow.put(nf_.packets, flow.get(nf_.packets) + 1);
      });
    }
  }
}

TEST_F(Delta, TakesNoMoreThanItsMaximum) {
  EXPECT_EQ(MaxDeltaBytes(schema_), 16u + 8u + 12u + 12u + 20u);
  const Bytes delta = Change([&](FlowState& flow) {
    flow.put(nf_.packets, 1);
    flow.put(nf_.ports, {});
    flow.put(nf_.name, Text("abcdefghijklmnopqrst"));
  });
  EXPECT_EQ(delta.size(), MaxDeltaBytes(schema_));
}

TEST_F(Delta, OfASchemaWithoutSlotsIsAlwaysEmpty) {
  const StateSchema none;
  EXPECT_EQ(MaxDeltaBytes(none), 0u);
  const StateView view({});
  EXPECT_EQ(EncodeDelta(none, view, {}), 0u);
  EXPECT_TRUE(ApplyDelta(none, {}, {}));
  EXPECT_FALSE(ApplyDelta(none, Bytes(1), {}));
  EXPECT_FALSE(ApplyDelta(none, Bytes(16), {}));
}

TEST_F(Delta, AbortsWithoutRoom) {
  TestFlow test(record_);
  test.flow.put(nf_.packets, 1);
  Bytes room(23);
  EXPECT_DEATH(EncodeDelta(schema_, test.view, room), "check failed");
}

TEST_F(Delta, RefusesABaseThatItWasNotMadeOn) {
  const Bytes empty = record_;
  Change([&](FlowState& flow) { flow.put(nf_.name, Text("apple")); });
  // "ports" has a value in one of them.
  const Bytes count =
      Change([&](FlowState& flow) { flow.put(nf_.packets, 1); });
  Bytes other = empty;
  DeltaOf(schema_, other, [&](FlowState& flow) {
    flow.put(nf_.ports, {1, 2, 3});
  });
  ExpectRefused(count, other);
  // There is nothing to append to.
  const Bytes append =
      Change([&](FlowState& flow) { flow.patch(nf_.name, 5, Text("pie")); });
  Bytes shorter = empty;
  DeltaOf(schema_, shorter, [&](FlowState& flow) {
    flow.put(nf_.packets, 1);
    flow.put(nf_.name, Text("appl"));
  });
  ExpectRefused(append, shorter);
}

TEST_F(Delta, RefusesFieldsThatCannotBe) {
  struct Fields {
    std::array<uint64_t, 2> masks;
    std::array<uint32_t, 3> blob;
    uint32_t bytes;
  };
  const auto delta = [](const Fields& fields) {
    Bytes bytes(28 + fields.bytes);
    std::memcpy(bytes.data(), fields.masks.data(), 16);
    std::memcpy(bytes.data() + 16, fields.blob.data(), 12);
    return bytes;
  };
  Change([&](FlowState& flow) { flow.put(nf_.name, Text("apple")); });
  const Bytes record = record_;
  EXPECT_TRUE(ApplyDelta(schema_, delta({{4, 4}, {8, 5, 8}, 3}), record_));
  Bytes no_change(16);
  no_change[8] = std::byte{4};  // "name" has a value, as before
  ExpectRefused(no_change, record);
  constexpr uint32_t kBig = 0xffff'ffff;
  for (const Fields& fields : std::vector<Fields>{
           {{4, 4}, {8, 5, 8}, 2},        // too few bytes
           {{4, 4}, {8, 5, 8}, 4},        // too many
           {{0, 4}, {8, 5, 8}, 3},        // nothing changed
           {{4, 0}, {8, 5, 8}, 3},        // bytes of an erased blob
           {{4, 5}, {8, 5, 8}, 3},        // another slot got a value
           {{12, 12}, {8, 5, 8}, 3},      // a slot that is not there
           {{4, 12}, {8, 5, 8}, 3},       // "
           {{4, 4}, {21, 5, 21}, 16},     // longer than its maximum
           {{4, 4}, {8, 5, 9}, 4},        // written behind its length
           {{4, 4}, {5, 5, 4}, 0},        // ends before it begins
           {{4, 4}, {8, 6, 8}, 2},        // a hole behind the old length
           {{4, 4}, {8, 5, 7}, 2},        // a hole before the new length
           {{4, 4}, {kBig, 5, kBig}, 3},  // 4 GB
           {{4, 4}, {8, kBig, 8}, 3},
           {{4, 4}, {8, kBig, 2}, 3},
       }) {
    ExpectRefused(delta(fields), record);
  }
}

// A base, a delta that was made on it, and what comes of them; of an NF that
// lives on.
struct Case {
  std::unique_ptr<RandomStateNf> nf;
  Bytes base;
  Bytes delta;
  Bytes result;
};

std::vector<Case> RandomCases(Rng& rng, int count) {
  std::vector<Case> cases;
  while (count-- > 0) {
    Case one;
    one.nf = std::make_unique<RandomStateNf>(
        rng, static_cast<uint32_t>(rng.Below(9) + 1), 24);
    const StateSchema& schema = one.nf->schema();
    one.base.resize(schema.record_bytes());
    const auto change = [&](FlowState& flow) {
      for (int i = 0; i < 6; ++i) one.nf->Change(rng, flow);
    };
    DeltaOf(schema, one.base, change);
    one.result = one.base;
    one.delta = DeltaOf(schema, one.result, change);
    cases.push_back(std::move(one));
  }
  return cases;
}

TEST(RandomDelta, AllDeltasInOrderMakeAnEqualRecord) {
  const uint64_t seed = 30;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  uint64_t deltas = 0;
  for (const uint32_t slots : {1, 2, 7, 63, 64}) {
    for (int round = 0; round < 20; ++round) {
      RandomStateNf nf(rng, slots, 60);
      Bytes record(nf.schema().record_bytes());
      Bytes copy = record;
      for (int packet = 0; packet < 100; ++packet) {
        const Bytes delta = DeltaOf(nf.schema(), record, [&](FlowState& flow) {
          for (uint64_t left = rng.Below(6); left > 0; --left) {
            nf.Change(rng, flow);
          }
        });
        deltas += delta.empty() ? 0 : 1;
        ASSERT_TRUE(ApplyDelta(nf.schema(), delta, copy));
        ASSERT_EQ(copy, record);
        ASSERT_EQ(copy, nf.Record());
      }
    }
  }
  EXPECT_GT(deltas, 7'000u);
}

TEST(HostileDelta, CutAnywhereIsRefused) {
  const uint64_t seed = 31;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  size_t cuts = 0;
  for (const Case& one : RandomCases(rng, 300)) {
    for (size_t bytes = 1; bytes < one.delta.size(); ++bytes, ++cuts) {
      const Bytes cut(one.delta.begin(),
                      one.delta.begin() + static_cast<ptrdiff_t>(bytes));
      Bytes record = one.base;
      ASSERT_FALSE(ApplyDelta(one.nf->schema(), cut, record));
      ASSERT_EQ(record, one.base);
    }
  }
  EXPECT_GT(cuts, 10'000u);
}

TEST(HostileDelta, WithBitsFlippedLeavesAWellFormedRecord) {
  const uint64_t seed = 32;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  int applied = 0;
  int refused = 0;
  const auto try_delta = [&](const Case& one, const Bytes& delta) {
    // A record within more bytes, which stay as they are.
    constexpr size_t kMargin = 64;
    Bytes room(kMargin + one.base.size() + kMargin, std::byte{0xa5});
    const std::span<std::byte> record =
        std::span(room).subspan(kMargin, one.base.size());
    std::copy(one.base.begin(), one.base.end(), record.begin());
    const bool is_applied = ApplyDelta(one.nf->schema(), delta, record);
    ++(is_applied ? applied : refused);
    ASSERT_TRUE(one.nf->schema().IsWellFormed(record));
    if (!is_applied) {
      ASSERT_TRUE(std::equal(record.begin(), record.end(), one.base.begin()));
    }
    for (size_t i = 0; i < kMargin; ++i) {
      ASSERT_EQ(room[i], std::byte{0xa5});
      ASSERT_EQ(room[room.size() - 1 - i], std::byte{0xa5});
    }
  };
  for (const Case& one : RandomCases(rng, 200)) {
    if (one.delta.empty()) continue;
    for (size_t bit = 0; bit < one.delta.size() * 8; ++bit) {
      Bytes delta = one.delta;
      delta[bit / 8] ^= std::byte{1} << bit % 8;
      try_delta(one, delta);
    }
    for (int i = 0; i < 200; ++i) {
      Bytes delta = one.delta;
      for (uint64_t flips = rng.Below(8); flips > 0; --flips) {
        delta[rng.Below(delta.size())] ^= static_cast<std::byte>(rng.Next());
      }
      delta.resize(delta.size() + rng.Below(4));
      try_delta(one, delta);
    }
  }
  EXPECT_GT(applied, 10'000);
  EXPECT_GT(refused, 10'000);
}

TEST(DeltaOfRecords, LeadsFromEachRecordToEachOther) {
  const uint64_t seed = 34;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  StateSchema schema;
  schema.AddSlot("a", 8, "bytes");
  schema.AddBlob("b", 24);
  schema.AddSlot("c", 3, "bytes");
  StateSchema entries;
  entries.AddSlot("x", 3, "bytes");
  const uint32_t table = schema.AddTable("table", 8, entries, 4);
  const auto any_record = [&](Bytes record) {
    StateView state(record);
    for (uint64_t changes = rng.Below(6); changes > 0; --changes) {
      const auto slot = static_cast<uint32_t>(rng.Below(schema.slots()));
      const uint32_t offset = schema.offset(slot);
      if (!schema.is_blob(slot)) {
        const uint64_t number = rng.Below(3);
        state.Put(slot, offset, &number, schema.bytes(slot));
        if (rng.Below(4) == 0) state.Erase(slot, offset, schema.bytes(slot));
        continue;
      }
      const uint32_t grain = schema.grain(slot);
      Bytes blob(rng.Below(schema.bytes(slot) / grain + 1) * grain);
      for (size_t at = 0; at < blob.size(); at += grain) {
        blob[at] = static_cast<std::byte>(rng.Below(3));
        if (slot == table) blob[at + 8] = std::byte{1};
      }
      state.PutBlob(slot, offset, blob);
      if (rng.Below(4) == 0) state.EraseBlob(slot, offset);
    }
    return record;
  };
  int smaller = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Bytes before = any_record(Bytes(schema.record_bytes()));
    const Bytes after =
        any_record(rng.Below(2) == 0 ? before : Bytes(before.size()));
    Bytes delta(MaxDeltaBytes(schema));
    delta.resize(EncodeDifference(schema, before, after, delta));
    ASSERT_EQ(delta.empty(), before == after);
    Bytes record = before;
    ASSERT_TRUE(ApplyDelta(schema, Bytes(delta), record));
    ASSERT_EQ(record, after);
    smaller += delta.size() < before.size() / 2 ? 1 : 0;
  }
  EXPECT_GT(smaller, 5'000);
}

TEST(HostileDelta, ToATableLeavesAWellFormedRecord) {
  const uint64_t seed = 33;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  StateSchema entries;
  entries.AddSlot("x", 3, "bytes");
  entries.AddBlob("y", 5);
  StateSchema schema;
  const uint32_t slot = schema.AddTable("table", 8, entries, 4);
  const uint32_t offset = schema.offset(slot);
  const uint32_t entry_bytes = schema.grain(slot);
  int applied = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes record(schema.record_bytes());
    StateView before(record);
    before.PutBlob(slot, offset, Bytes(rng.Below(4) * entry_bytes));
    Bytes changed = record;
    StateView state(changed);
    // An entry that was there, or one more, with a value.
    Bytes entry(entry_bytes);
    entry[8] = std::byte{1};
    entry[16] = std::byte{5};
    const auto count = state.BlobLength(offset) / entry_bytes;
    state.PatchBlob(slot, offset,
                    static_cast<uint32_t>(rng.Below(count + 1)) * entry_bytes,
                    entry);
    Bytes delta(MaxDeltaBytes(schema));
    delta.resize(EncodeDelta(schema, state, delta));
    for (uint64_t flips = rng.Below(3); flips > 0; --flips) {
      delta[rng.Below(delta.size())] ^= std::byte{1} << rng.Below(8);
    }
    const Bytes base = record;
    const bool is_applied = ApplyDelta(schema, delta, record);
    ASSERT_TRUE(schema.IsWellFormed(record));
    if (!is_applied) {
      ASSERT_EQ(record, base);
    }
    applied += is_applied ? 1 : 0;
  }
  EXPECT_GT(applied, 5'000);
  EXPECT_LT(applied, 15'000);
}

}  // namespace
}  // namespace snf
