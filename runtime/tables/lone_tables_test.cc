// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/lone_tables.h"

#include <cstdint>
#include <memory>

#include "gtest/gtest.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

constexpr uint32_t kFull = 300;

// Has a table of each kind of event.
class Eventful final : public NetworkFunction {
 public:
  using Counts = SharedTable<uint64_t, uint64_t>;
  struct Mark {
    uint64_t count;
    uint64_t is_many;
  };

  Eventful() {
    timed.every(Seconds(1), [](uint64_t& count, uint64_t periods) {
      count = periods == 1 ? count : 0;
      return count > 1;
    });
    marked.when([](const Mark& all) { return all.count >= 3; },
                [](Mark& all) { all.is_many = 1; });
  }
  Verdict process_packet(Packet&, FlowState&) override {
    return Verdict::forward();
  }

  Counts timed = declare_shared<uint64_t, uint64_t>("timed", kFull);
  SharedTable<uint64_t, Mark> marked =
      declare_shared<uint64_t, Mark>("marked", 8);
  Counts expiring = declare_shared<uint64_t, uint64_t>(
      "expiring", kFull, SumOfWords{}, TableReader::kPacket, Seconds(2));
  Counts reported = declare_shared<uint64_t, uint64_t>(
      "reported", 2, SumOfWords{}, TableReader::kReport);
};

class LoneTablesTest : public testing::Test {
 protected:
  static Instant At(double seconds) {
    return Instant{1'000'000'000'000} +
           Nanos{static_cast<int64_t>(seconds * 1e9)};
  }
  Eventful nf_;
  LoneTables tables_{TablesOf(nf_), {.forget_after = Seconds(10)}};
};

TEST_F(LoneTablesTest, CallATimerAtTheFirstUpdateOfAPeriod) {
  nf_.timed.update(1, 5);
  nf_.timed.update(2, 1);
  tables_.Merge(At(0.9));
  EXPECT_EQ(nf_.timed.get(1), 5u);
  EXPECT_EQ(nf_.timed.get(2), 1u);
  nf_.timed.update(3, 1);
  tables_.Merge(At(1.1));
  EXPECT_EQ(nf_.timed.get(1), 5u);
  EXPECT_EQ(nf_.timed.size(), 2u) << "the key 2 is erased";
  EXPECT_EQ(nf_.timed.rest(), 1u);
  // Two periods have ended.
  nf_.timed.update(3, 1);
  tables_.Merge(At(3.1));
  EXPECT_EQ(nf_.timed.get(1), 0u);
  EXPECT_EQ(nf_.timed.get(3), 1u);
}

// A home calls the timer of 256 keys at a time.
TEST_F(LoneTablesTest, CallATimerForAllKeysOfALargeTable) {
  for (uint64_t key = 0; key < kFull; ++key) {
    nf_.timed.update(key, 2);
    tables_.Merge(At(0));
  }
  nf_.timed.update(0, 1);
  tables_.Merge(At(5));
  for (uint64_t key = 1; key < kFull; ++key) {
    ASSERT_EQ(nf_.timed.get(key), 0u) << key;
  }
  EXPECT_EQ(nf_.timed.rest(), 0u);
}

TEST_F(LoneTablesTest, CallATriggerAtOnce) {
  nf_.marked.update(7, {2, 0});
  tables_.Merge(At(0));
  EXPECT_EQ(nf_.marked.get(7).is_many, 0u);
  nf_.marked.update(7, {1, 0});
  tables_.Merge(At(0));
  EXPECT_EQ(nf_.marked.get(7).is_many, 1u);
  nf_.marked.update(7, {1, 0});
  tables_.Merge(At(0));
  EXPECT_EQ(nf_.marked.get(7).count, 4u);
  EXPECT_EQ(nf_.marked.get(7).is_many, 1u);
}

TEST_F(LoneTablesTest, LetKeysExpireAtTheNextUpdate) {
  nf_.expiring.update(1, 5);
  tables_.Merge(At(0));
  tables_.Merge(At(100));
  EXPECT_EQ(nf_.expiring.get(1), 5u);
  nf_.expiring.update(2, 1);
  tables_.Merge(At(100));
  EXPECT_EQ(nf_.expiring.get(1), 0u);
  EXPECT_EQ(nf_.expiring.get(2), 1u);
  EXPECT_EQ(nf_.expiring.rest(), 5u);
}

TEST_F(LoneTablesTest, ForgetOldKeysOfAFullTable) {
  for (uint64_t key = 1; key <= 3; ++key) {
    nf_.reported.update(key, 1);
    tables_.Merge(At(0));
  }
  EXPECT_EQ(nf_.reported.size(), 2u);
  EXPECT_EQ(nf_.reported.rest(), 1u);
  for (int i = 0; i < 2; ++i) {
    nf_.reported.update(4, 1);
    tables_.Merge(At(11));
  }
  EXPECT_EQ(nf_.reported.get(4) + nf_.reported.rest(), 5u);
  EXPECT_GT(nf_.reported.get(4), 0u);
}

TEST_F(LoneTablesTest, EraseKeysAndTakeThemAgain) {
  nf_.expiring.update(1, 5);
  tables_.Merge(At(0));
  nf_.expiring.erase(1);
  nf_.expiring.update(1, 2);
  tables_.Merge(At(0));
  EXPECT_EQ(nf_.expiring.get(1), 2u);
  EXPECT_EQ(nf_.expiring.rest(), 5u);
}

TEST_F(LoneTablesTest, TakeATimeThatRunsBackwardsAsTheLatest) {
  nf_.timed.update(1, 5);
  tables_.Merge(At(5));
  nf_.timed.update(1, 5);
  tables_.Merge(At(0));
  EXPECT_EQ(nf_.timed.get(1), 10u);
}

}  // namespace
}  // namespace snf
