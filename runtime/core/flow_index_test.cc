// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/flow_index.h"

#include <map>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"

namespace snf {
namespace {

// An index and the records that it is about.
class FlowIndexTest : public testing::Test {
 protected:
  static constexpr uint32_t kRecords = 64;

  auto FlowOf() const {
    return [this](uint32_t record) { return flows_[record]; };
  }
  void Insert(FlowId flow, uint32_t record) {
    flows_[record] = flow;
    index_.Insert(flow, record, FlowOf());
  }
  uint32_t Find(FlowId flow) const { return index_.Find(flow, FlowOf()); }

  std::vector<FlowId> flows_ = std::vector<FlowId>(kRecords);
  FlowIndex index_{16, kRecords};
};

TEST_F(FlowIndexTest, FindsTheNewestOfASlotAndThoseBefore) {
  const FlowId first = MakeFlowId(0, 3, 1);
  const FlowId second = MakeFlowId(0, 3, 2);
  const FlowId third = MakeFlowId(0, 3, 3);
  Insert(second, 7);
  Insert(first, 5);
  Insert(third, 9);
  EXPECT_EQ(Find(first), 5u);
  EXPECT_EQ(Find(second), 7u);
  EXPECT_EQ(Find(third), 9u);
  EXPECT_EQ(index_.Guess(first), 9u);
  EXPECT_EQ(Find(MakeFlowId(1, 3, 3)), FlowIndex::kNotFound);
  index_.Erase(third, 9);
  EXPECT_EQ(Find(third), FlowIndex::kNotFound);
  EXPECT_EQ(Find(second), 7u);
  EXPECT_EQ(index_.size(), 2u);
}

TEST_F(FlowIndexTest, FindsFlowsOfSlotsBeyondItsArray) {
  const FlowId far = MakeFlowId(0, 0xffff'ffff, 1);
  EXPECT_EQ(Find(far), FlowIndex::kNotFound);
  EXPECT_EQ(index_.Guess(far), FlowIndex::kNotFound);
  Insert(far, 1);
  EXPECT_EQ(Find(far), 1u);
  index_.Erase(far, 1);
  EXPECT_EQ(Find(far), FlowIndex::kNotFound);
  EXPECT_EQ(index_.size(), 0u);
}

TEST_F(FlowIndexTest, AgreesWithAMapWhateverComes) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  std::map<FlowId, uint32_t> model;
  std::vector<uint32_t> free;
  for (uint32_t record = 0; record < kRecords; ++record) free.push_back(record);
  for (int step = 0; step < 20'000; ++step) {
    const FlowId flow = MakeFlowId(static_cast<uint8_t>(rng.Below(2)),
                                   static_cast<uint32_t>(rng.Below(20)),
                                   static_cast<uint32_t>(rng.Below(4)));
    const auto found = model.find(flow);
    ASSERT_EQ(Find(flow),
              found == model.end() ? FlowIndex::kNotFound : found->second);
    if (found != model.end()) {
      index_.Erase(flow, found->second);
      free.push_back(found->second);
      model.erase(found);
    } else if (!free.empty()) {
      Insert(flow, free.back());
      model[flow] = free.back();
      free.pop_back();
    }
    ASSERT_EQ(index_.size(), model.size());
  }
}

}  // namespace
}  // namespace snf
