// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/store_value.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace snf {
namespace {

constexpr FlowId kFlow{0x0102'0304'0506'0708};

std::vector<std::byte> Record(size_t bytes) {
  std::vector<std::byte> record(bytes);
  for (size_t i = 0; i < bytes; ++i) record[i] = static_cast<std::byte>(i + 1);
  return record;
}

State StateOf(uint32_t bytes) {
  return {.flow = kFlow,
          .applied = Clock{9},
          .timer = Instant{123},
          .schema = 55,
          .bytes = bytes,
          .link = LinkType::kRawIp,
          .pushed = true};
}

std::vector<std::byte> ValueOf(const State& state) {
  std::vector<std::byte> value(3, std::byte{0xff});  // of an earlier one
  MakeStoreValue(state, Record(state.bytes), value);
  return value;
}

TEST(StoreValue, BringsBackTheStateAndItsRecord) {
  for (const uint32_t bytes : {0u, 8u, 4'096u}) {
    const State state = StateOf(bytes);
    const std::vector<std::byte> value = ValueOf(state);
    EXPECT_EQ(value.size(), kStoreValueHeader + bytes);
    const auto parsed = ParseStoreValue(value, kFlow);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->state.flow, state.flow);
    EXPECT_EQ(parsed->state.applied, state.applied);
    EXPECT_EQ(parsed->state.timer, state.timer);
    EXPECT_EQ(parsed->state.schema, state.schema);
    EXPECT_EQ(parsed->state.link, state.link);
    EXPECT_TRUE(parsed->state.pushed);
    EXPECT_TRUE(std::ranges::equal(parsed->record, Record(bytes)));
  }
}

TEST(StoreValue, OfAnotherFlowOrLengthOrFormatIsNone) {
  const std::vector<std::byte> value = ValueOf(StateOf(16));
  EXPECT_FALSE(ParseStoreValue(value, FlowId{1}).has_value());
  EXPECT_FALSE(ParseStoreValue({}, kFlow).has_value());
  for (size_t bytes = 0; bytes < value.size(); ++bytes) {
    EXPECT_FALSE(
        ParseStoreValue(std::span(value).first(bytes), kFlow).has_value());
  }
  std::vector<std::byte> longer = value;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(ParseStoreValue(longer, kFlow).has_value());
  for (const size_t place : {size_t{0}, size_t{7}}) {
    std::vector<std::byte> other = value;
    other[place] ^= std::byte{1};
    EXPECT_FALSE(ParseStoreValue(other, kFlow).has_value());
  }
}

// Whatever the bytes are, they are read in bounds, and a bool is one.
TEST(StoreValue, OfAnyBytesIsNoneOrWhatTheySay) {
  constexpr uint64_t kSeed = 20'261;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Rng rng(kSeed);
  const std::vector<std::byte> good = ValueOf(StateOf(24));
  size_t taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> value = good;
    const uint64_t flips = rng.Below(4);
    for (uint64_t flip = 0; flip < flips; ++flip) {
      value[rng.Below(value.size())] = static_cast<std::byte>(rng.Below(256));
    }
    const auto parsed = ParseStoreValue(value, kFlow);
    if (!parsed.has_value()) continue;
    ++taken;
    EXPECT_EQ(parsed->state.flow, kFlow);
    EXPECT_EQ(parsed->state.bytes, parsed->record.size());
  }
  EXPECT_GT(taken, 5'000u);
  EXPECT_LT(taken, 19'999u);
}

}  // namespace
}  // namespace snf
