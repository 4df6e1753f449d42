// SPDX-License-Identifier: Apache-2.0
#include "runtime/sdk/state.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "runtime/sdk/test_random_state.h"
#include "runtime/sdk/test_state.h"

namespace snf {
namespace {

struct Ports {
  uint32_t low = 1'024;  // a default that is not 0
  uint32_t high = 0;
  uint32_t used = 0;
  friend bool operator==(const Ports&, const Ports&) = default;
};

class ExampleNf final : public NetworkFunction {
 public:
  Slot<uint64_t> packets = declare<uint64_t>("packets");
  Slot<Ports> ports = declare<Ports>("ports");
  Blob name = declare_blob("name", 20);

  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }
};

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class State : public ::testing::Test {
 protected:
  std::string Name(const FlowState& flow) {
    const std::span<const std::byte> bytes = flow.get(nf_.name);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // A blob's text before, what happens, and the part that is noted as written.
  void ExpectRange(std::string_view before, uint32_t begin, uint32_t end,
                   std::string_view after, auto change) {
    std::memset(record_.data(), 0, record_.size());
    TestFlow first(record_);
    EXPECT_TRUE(first.flow.put(nf_.name, Bytes(before)));
    TestFlow second(record_);
    change(second.flow);
    EXPECT_EQ(second.view.dirty(), 4u);
    EXPECT_EQ(second.view.dirty_range(2).begin, begin);
    EXPECT_EQ(second.view.dirty_range(2).end, end);
    EXPECT_EQ(Name(second.flow), after);
    EXPECT_TRUE(nf_.schema().IsWellFormed(record_));
  }

  ExampleNf nf_;
  std::vector<std::byte> record_ =
      std::vector<std::byte>(nf_.schema().record_bytes());
};

TEST_F(State, OfANewFlowIsEmpty) {
  const TestFlow test(record_);
  EXPECT_FALSE(test.flow.has(nf_.packets));
  EXPECT_EQ(test.flow.get(nf_.packets), 0u);
  EXPECT_FALSE(test.flow.has(nf_.ports));
  EXPECT_EQ(test.flow.get(nf_.ports), Ports{});
  EXPECT_FALSE(test.flow.has(nf_.name));
  EXPECT_TRUE(test.flow.get(nf_.name).empty());
  EXPECT_EQ(test.view.dirty(), 0u);
}

TEST_F(State, KeepsWhatWasPut) {
  {
    TestFlow test(record_);
    test.flow.put(nf_.packets, 7);
    test.flow.put(nf_.ports, {.low = 1, .high = 2, .used = 3});
    EXPECT_TRUE(test.flow.put(nf_.name, Bytes("name")));
    EXPECT_EQ(test.view.dirty(), 7u);
  }
  const TestFlow test(record_);
  EXPECT_TRUE(test.flow.has(nf_.packets));
  EXPECT_EQ(test.flow.get(nf_.packets), 7u);
  EXPECT_EQ(test.flow.get(nf_.ports), (Ports{.low = 1, .high = 2, .used = 3}));
  EXPECT_TRUE(test.flow.has(nf_.name));
  EXPECT_EQ(Name(test.flow), "name");
  EXPECT_EQ(test.view.dirty(), 0u);
}

TEST_F(State, ErasedIsThatOfANewFlow) {
  const std::vector<std::byte> empty = record_;
  TestFlow test(record_);
  test.flow.put(nf_.packets, 7);
  test.flow.put(nf_.ports, {.low = 1, .high = 2, .used = 3});
  EXPECT_TRUE(test.flow.put(nf_.name, Bytes("the longest of names")));
  TestFlow again(record_);
  again.flow.erase(nf_.packets);
  EXPECT_EQ(again.view.dirty(), 1u);
  again.flow.erase(nf_.ports);
  EXPECT_EQ(again.flow.get(nf_.ports), Ports{});
  again.flow.erase(nf_.name);
  EXPECT_FALSE(again.flow.has(nf_.name));
  EXPECT_EQ(again.view.dirty(), 7u);
  EXPECT_EQ(record_, empty);
}

TEST_F(State, ABlobWithoutBytesIsAValueToo) {
  TestFlow test(record_);
  EXPECT_TRUE(test.flow.put(nf_.name, {}));
  EXPECT_TRUE(test.flow.has(nf_.name));
  EXPECT_TRUE(test.flow.get(nf_.name).empty());
  test.flow.erase(nf_.name);
  EXPECT_FALSE(test.flow.has(nf_.name));
  EXPECT_TRUE(test.flow.patch(nf_.name, 0, {}));
  EXPECT_TRUE(test.flow.has(nf_.name));
}

TEST_F(State, RefusesMoreThanABlobsMaximumAndChangesNothing) {
  const std::string most(20, 'x');
  const std::string more(21, 'y');
  TestFlow test(record_);
  EXPECT_TRUE(test.flow.put(nf_.name, Bytes(most)));
  TestFlow again(record_);
  EXPECT_FALSE(again.flow.put(nf_.name, Bytes(more)));
  EXPECT_FALSE(again.flow.patch(nf_.name, 20, Bytes("y")));
  EXPECT_FALSE(again.flow.patch(nf_.name, 21, {}));
  EXPECT_FALSE(again.flow.patch(nf_.name, 0xffff'ffff, Bytes("y")));
  EXPECT_EQ(Name(again.flow), most);
  EXPECT_EQ(again.view.dirty(), 0u);
}

TEST_F(State, PatchesOverwriteAndAppendButLeaveNoHole) {
  TestFlow test(record_);
  EXPECT_FALSE(test.flow.patch(nf_.name, 1, Bytes("a")));
  EXPECT_TRUE(test.flow.patch(nf_.name, 0, Bytes("abc")));
  EXPECT_TRUE(test.flow.patch(nf_.name, 1, Bytes("B")));
  EXPECT_TRUE(test.flow.patch(nf_.name, 2, Bytes("CDE")));
  EXPECT_EQ(Name(test.flow), "aBCDE");
}

TEST_F(State, ABlobMayBeMadeFromItself) {
  TestFlow test(record_);
  EXPECT_TRUE(test.flow.put(nf_.name, Bytes("0123456789abcdefghij")));
  EXPECT_TRUE(test.flow.put(nf_.name, test.flow.get(nf_.name).subspan(3)));
  EXPECT_EQ(Name(test.flow), "3456789abcdefghij");
  EXPECT_TRUE(test.flow.patch(nf_.name, 2, test.flow.get(nf_.name).first(16)));
  EXPECT_EQ(Name(test.flow), "343456789abcdefghi");
}

TEST_F(State, NotesWhatOfABlobWasWritten) {
  ExpectRange("0123456789", 3, 5, "012ab56789",
              [&](FlowState& flow) { flow.patch(nf_.name, 3, Bytes("ab")); });
  ExpectRange("0123456789", 2, 7, "01cd4ab789", [&](FlowState& flow) {
    flow.patch(nf_.name, 5, Bytes("ab"));
    flow.patch(nf_.name, 2, Bytes("cd"));
  });
  ExpectRange("0123456789", 10, 13, "0123456789abc", [&](FlowState& flow) {
    flow.patch(nf_.name, 10, Bytes("a"));
    flow.patch(nf_.name, 11, Bytes("bc"));
  });
}

TEST_F(State, NotesABlobThatBecameShorter) {
  ExpectRange("0123456789", 0, 2, "ab", [&](FlowState& flow) {
    flow.patch(nf_.name, 8, Bytes("xy"));
    flow.put(nf_.name, Bytes("ab"));
  });
  ExpectRange("0123456789", 0, 4, "abcd", [&](FlowState& flow) {
    flow.put(nf_.name, Bytes("ab"));
    flow.patch(nf_.name, 2, Bytes("cd"));
  });
  ExpectRange("0123456789", 0, 0, "", [&](FlowState& flow) {
    flow.patch(nf_.name, 8, Bytes("xy"));
    flow.put(nf_.name, {});
  });
}

TEST_F(State, NotesABlobThatWasErasedAndCameBack) {
  ExpectRange("0123456789", 0, 0, "", [&](FlowState& flow) {
    flow.patch(nf_.name, 8, Bytes("xy"));
    flow.erase(nf_.name);
  });
  ExpectRange("0123456789", 0, 3, "abc", [&](FlowState& flow) {
    flow.erase(nf_.name);
    flow.patch(nf_.name, 0, Bytes("ab"));
    flow.patch(nf_.name, 2, Bytes("c"));
  });
}

TEST_F(State, APatchOfNothingWidensNoRange) {
  ExpectRange("0123456789", 2, 3, "01a3456789", [&](FlowState& flow) {
    flow.patch(nf_.name, 10, {});
    flow.patch(nf_.name, 2, Bytes("a"));
  });
}

TEST(RandomState, EqualValuesAreEqualBytesWhateverHappenedBefore) {
  const uint64_t seed = 21;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  for (const uint32_t slots : {1, 3, 8, 64}) {
    for (int round = 0; round < 8; ++round) {
      RandomStateNf nf(rng, slots, 40);
      std::vector<std::byte> record(nf.schema().record_bytes());
      for (int packet = 0; packet < 200; ++packet) {
        TestFlow test(record);
        for (uint64_t left = rng.Below(4); left > 0; --left) {
          nf.Change(rng, test.flow);
        }
        nf.ExpectAllIn(test.flow);
        ASSERT_EQ(record, nf.Record());
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace snf
