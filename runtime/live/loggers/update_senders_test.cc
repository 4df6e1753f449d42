// SPDX-License-Identifier: Apache-2.0
#include "runtime/live/loggers/update_senders.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/live/loggers/test_loop_loggers.h"

namespace snf {
namespace {

constexpr UnitId kUnit{2};
constexpr Instant kStart{Seconds(1).ns};

class UpdateSendersTest : public testing::Test {
 protected:
  std::vector<TableMessage> Sent(Instant now) {
    std::vector<TableMessage> sent;
    senders().SendDue(
        now, [&](const TableMessage& message) { sent.push_back(message); });
    return sent;
  }
  // A home has merged the unit's updates up to this number.
  static TableMessage Merged(uint64_t number) {
    return {.kind = TableMessage::Kind::kLoggedAck,
            .unit = kUnit,
            .incarnation = LogWord::kIncarnation,
            .merged = number};
  }
  UpdateSenders& senders() { return test_.loggers().updates(); }

  TestLoopLoggers test_{"monitor"};
};

TEST_F(UpdateSendersTest, SendsUpdatesUntilAHomeHasMergedThem) {
  test_.loggers().Of(kUnit, LogWord::kIncarnation);
  EXPECT_FALSE(senders().HasUpdates());
  EXPECT_FALSE(senders().IsDue(kStart));
  test_.TakeUpdate(kUnit, FlowId{7}, 1);
  test_.TakeUpdate(kUnit, FlowId{7}, 2);
  EXPECT_TRUE(senders().HasUpdates());
  EXPECT_TRUE(senders().IsDue(kStart));
  const std::vector<TableMessage> sent = Sent(kStart);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].unit, kUnit);
  EXPECT_EQ(sent[0].seq, 2u);
  EXPECT_FALSE(senders().IsDue(kStart));
  EXPECT_EQ(senders().on_home(kStart, Merged(2)), 2u);
  EXPECT_FALSE(senders().HasUpdates());
}

TEST_F(UpdateSendersTest, NamesMergedEntriesUntilTheUnitHasHeardOfThem) {
  test_.TakeUpdate(kUnit, FlowId{7}, 1);
  Sent(kStart);
  EXPECT_EQ(senders().on_home(kStart, Merged(1)), 1u);
  EXPECT_EQ(senders().on_home(kStart, Merged(1)), 1u) << "the word was lost";
  senders().on_told(kUnit, 1);
  EXPECT_EQ(senders().on_home(kStart, Merged(1)), 0u);
  senders().BeginAnew(kUnit);
  EXPECT_EQ(senders().on_home(kStart, Merged(1)), 1u);
}

TEST_F(UpdateSendersTest, SendsAtOnceIfTheUnitsHaveEnded) {
  test_.TakeUpdate(kUnit, FlowId{7}, 1);
  Sent(kStart);
  senders().on_home(kStart, Merged(1));
  test_.TakeUpdate(kUnit, FlowId{7}, 2);
  EXPECT_FALSE(senders().IsDue(kStart)) << "a period later";
  EXPECT_FALSE(senders().Hurry());
  EXPECT_EQ(Sent(kStart).size(), 1u);
  senders().on_home(kStart, Merged(2));
  EXPECT_TRUE(senders().Hurry());
}

TEST_F(UpdateSendersTest, IsFullIfOneLoggerKeepsTooManyUpdates) {
  test_.loggers().Of(UnitId{1}, LogWord::kIncarnation);
  for (uint64_t i = 1; i <= UpdateLog::kMaxUpdates; ++i) {
    EXPECT_FALSE(senders().IsFull());
    test_.TakeUpdate(kUnit, FlowId{7}, i);
  }
  EXPECT_TRUE(senders().IsFull());
}

}  // namespace
}  // namespace snf
