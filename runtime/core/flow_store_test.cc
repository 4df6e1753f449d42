// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/flow_store.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/core/test_inputs.h"

namespace snf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FlowStoreTest : public ::testing::Test {
 protected:
  uint32_t AddReplica(uint64_t flow) {
    const uint32_t slot = flows_.FindOrAdd(FlowId{flow});
    flows_.SetCopy(slot, CopyKind::kReplica);
    return slot;
  }
  void Drop(uint32_t slot) {
    flows_.DropCopy(slot);
    flows_.ForgetIfEmpty(slot);
  }

  StateSchema schema_ = ScriptedNf::Schema();
  FlowStore flows_{kSmallUnit, schema_};
};

TEST_F(FlowStoreTest, FindsARecordUntilNothingIsKept) {
  EXPECT_EQ(flows_.Find(FlowId{7}), FlowStore::kNone);
  const uint32_t slot = flows_.FindOrAdd(FlowId{7});
  flows_.SetCopy(slot, CopyKind::kCurrent);
  flows_.ForgetIfEmpty(slot);
  EXPECT_EQ(flows_.Find(FlowId{7}), slot);
  EXPECT_EQ(flows_.FindOrAdd(FlowId{7}), slot);
  EXPECT_EQ(flows_.own_copies(), 1u);
  Drop(slot);
  EXPECT_EQ(flows_.Find(FlowId{7}), FlowStore::kNone);
  EXPECT_EQ(flows_.size(), 0u);
  EXPECT_EQ(flows_.own_copies(), 0u);
  EXPECT_EQ(flows_.FindOrAdd(FlowId{8}), slot) << "the slot is used again";
}

TEST_F(FlowStoreTest, KeepsARecordThatSomethingIsPendingFor) {
  const uint32_t slot = flows_.FindOrAdd(FlowId{7});
  flows_.pending().Add(flows_[slot].pending, {.clock = Clock{1},
                                              .due = Instant::max(),
                                              .next = FlowStore::kNone,
                                              .peer = UnitId{1},
                                              .kind = Pending::Kind::kPull,
                                              .tries = 0});
  flows_.ForgetIfEmpty(slot);
  EXPECT_EQ(flows_.size(), 1u);
  flows_.pending().Erase(&flows_[slot].pending);
  flows_.ForgetIfEmpty(slot);
  EXPECT_EQ(flows_.size(), 0u);
}

TEST_F(FlowStoreTest, KeepsARecordWithTargetsUntilItsFlowletBegins) {
  flows_.SetTargets({.flow = FlowId{7},
                     .units = {UnitId{1}, UnitId{2}},
                     .count = 2,
                     .flowlet = 4});
  const uint32_t slot = flows_.Find(FlowId{7});
  ASSERT_NE(slot, FlowStore::kNone);
  EXPECT_THAT(flows_.targets(slot), ElementsAre(UnitId{1}, UnitId{2}));
  flows_.on_first_of_flowlet(slot, 3);
  flows_.ForgetIfEmpty(slot);
  EXPECT_EQ(flows_.size(), 1u);
  flows_.on_first_of_flowlet(slot, 4);
  flows_.ForgetIfEmpty(slot);
  EXPECT_EQ(flows_.size(), 0u);
}

TEST_F(FlowStoreTest, KnowsTheOldestReplica) {
  const uint32_t a = AddReplica(1);
  const uint32_t b = AddReplica(2);
  const uint32_t c = AddReplica(3);
  EXPECT_EQ(flows_.replicas(), 3u);
  EXPECT_EQ(flows_.oldest_replica(), a);
  flows_.SetCopy(b, CopyKind::kCurrent);
  Drop(a);
  EXPECT_EQ(flows_.oldest_replica(), c);
  flows_.SetCopy(b, CopyKind::kReplica);
  EXPECT_EQ(flows_.oldest_replica(), c);
  Drop(c);
  EXPECT_EQ(flows_.oldest_replica(), b);
  Drop(b);
  EXPECT_EQ(flows_.oldest_replica(), FlowStore::kNone);
  EXPECT_EQ(flows_.replicas(), 0u);
}

TEST_F(FlowStoreTest, ForgetsAll) {
  AddReplica(1);
  flows_.SetTargets({.flow = FlowId{2}, .units = {UnitId{1}}, .count = 1});
  const uint32_t slot = flows_.FindOrAdd(FlowId{3});
  flows_.SetCopy(slot, CopyKind::kHandedOver);
  flows_.timers().Arm(slot, Instant{1});
  flows_.ForgetAll();
  EXPECT_EQ(flows_.size(), 0u);
  EXPECT_EQ(flows_.timers().next_wakeup(), Instant::max());
}

TEST_F(FlowStoreTest, CopiesHaveRecordsAndStateOfTheirOwn) {
  const uint32_t slot = AddReplica(1);
  flows_.state(slot)[0] = std::byte{5};
  FlowStore copy = flows_;
  copy.state(slot)[0] = std::byte{6};
  copy[slot].applied = Clock{9};
  EXPECT_EQ(flows_.state(slot)[0], std::byte{5});
  EXPECT_EQ(flows_[slot].applied, Clock{});
  EXPECT_EQ(copy.Find(FlowId{1}), slot);
}

// Targets behind the flowlet's first packet keep no record.
TEST_F(FlowStoreTest, TakesLateTargetsButWaitsForNoPacket) {
  const auto name = [this](uint32_t flowlet, UnitId unit) {
    flows_.SetTargets(
        {.flow = FlowId{7}, .units = {unit}, .count = 1, .flowlet = flowlet});
  };
  const uint32_t slot = flows_.FindOrAdd(FlowId{7});
  flows_.on_first_of_flowlet(slot, 4);
  name(4, UnitId{1});
  EXPECT_EQ(flows_.announced(slot), 0u);
  EXPECT_THAT(flows_.targets(slot), ElementsAre(UnitId{1}));
  name(3, UnitId{2});
  EXPECT_EQ(flows_.announced(slot), 0u);
  EXPECT_THAT(flows_.targets(slot), ElementsAre(UnitId{1}));
  name(5, UnitId{3});
  EXPECT_EQ(flows_.announced(slot), 6u);
  EXPECT_THAT(flows_.targets(slot), ElementsAre(UnitId{3}));
  flows_.ForgetIfEmpty(slot);
  EXPECT_EQ(flows_.size(), 1u);
  flows_.on_first_of_flowlet(slot, 5);
  flows_.ForgetIfEmpty(slot);
  EXPECT_EQ(flows_.size(), 0u);
}

TEST_F(FlowStoreTest, KeepsNothingForFlowletsOfAFlowThatIsOver) {
  flows_.SetTargets({.flow = FlowId{7}, .units = {UnitId{1}}, .count = 1});
  const uint32_t slot = flows_.Find(FlowId{7});
  flows_.on_over(slot);
  flows_.ForgetIfEmpty(slot);
  EXPECT_EQ(flows_.size(), 0u);
}

TEST(FlowStore, HasNoTargetsWhereNothingIsPushed) {
  UnitOptions options = kSmallUnit;
  options.replicas = 0;
  const StateSchema schema = ScriptedNf::Schema();
  FlowStore flows(options, schema);
  flows.SetTargets({.flow = FlowId{7}, .units = {UnitId{1}}, .count = 1});
  EXPECT_EQ(flows.size(), 0u);
  const uint32_t slot = flows.FindOrAdd(FlowId{7});
  EXPECT_EQ(flows.announced(slot), 0u);
  EXPECT_THAT(flows.targets(slot), IsEmpty());
}

ptrdiff_t MappingsOfThisProcess() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

// A process may have 65,530 mappings (vm.max_map_count).
TEST(FlowStore, TakesNoMappingsOfItsOwnWithoutLargePages) {
  UnitOptions options = kSmallUnit;
  options.max_flows = 32'768;
  options.packets_elsewhere = 1 << 20;  // tables of many large pages
  options.large_pages = false;
  const StateSchema schema = ScriptedNf::Schema();
  constexpr ptrdiff_t kStores = 64;
  std::vector<std::unique_ptr<FlowStore>> stores;
  const ptrdiff_t before = MappingsOfThisProcess();
  for (ptrdiff_t i = 0; i < kStores; ++i) {
    stores.push_back(std::make_unique<FlowStore>(options, schema));
  }
  EXPECT_LT(MappingsOfThisProcess() - before, kStores);
}

}  // namespace
}  // namespace snf
