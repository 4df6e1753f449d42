// SPDX-License-Identifier: Apache-2.0
#include "runtime/tables/update_sender.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/logger/table_update.h"
#include "runtime/tables/table_home.h"

namespace snf {
namespace {

constexpr UnitId kUnit{1};

class Sending : public ::testing::Test {
 protected:
  // Logs an update, of the rest for key 0.
  void Log(uint64_t key, uint64_t delta, bool erases = false) {
    LogIn(log_, key, delta, erases);
  }
  static void LogIn(UpdateLog& log, uint64_t key, uint64_t delta,
                    bool erases = false) {
    const uint64_t words[] = {key, delta};
    std::vector<std::byte> bytes;
    AppendUpdate({.number = log.newest(0) + 1,
                  .is_rest = key == 0 ? uint8_t{1} : uint8_t{0},
                  .erases = erases ? uint8_t{1} : uint8_t{0},
                  .words = 2},
                 words, bytes);
    log.Add(log.newest(0) + 1, bytes);
  }
  // Returns a message that is due; fails if none is.
  TableMessage Due() {
    TableMessage message;
    EXPECT_TRUE(sender_.on_timers(now_, log_, message));
    return message;
  }
  TableMessage AtHome(const TableMessage& message) {
    TableMessage answer;
    EXPECT_TRUE(home_.on_message(now_, message, answer));
    return answer;
  }
  uint64_t Total(uint64_t key) {
    const uint64_t* const total = home_.Find(&key);
    return total == nullptr ? 0 : *total;
  }

  const TableShape shape_ = {
      .name = "n", .key_bytes = 8, .value_bytes = 8, .max_entries = 100};
  const TableOptions options_;
  Instant now_{1'000'000'000};
  TableHome home_{0, shape_, 2, options_};
  UpdateLog log_{{&shape_, 1}};
  UpdateSender sender_{kUnit, options_, 1};
  TableMessage out_;
};

TEST_F(Sending, MergesByKeyAndCountsOnce) {
  EXPECT_EQ(sender_.next_wakeup(log_), Instant::max());
  for (const uint64_t key : {7, 8, 7, 0, 0}) Log(key, key + 10);
  const TableMessage message = Due();
  EXPECT_EQ(message.entries, 3u);
  EXPECT_EQ(message.seq, 5u);
  const TableMessage answer = AtHome(message);
  EXPECT_EQ(AtHome(message).merged, 5u);
  EXPECT_EQ(Total(7), 34u);
  EXPECT_EQ(Total(8), 18u);
  EXPECT_EQ(*home_.rest(), 20u);
  EXPECT_EQ(home_.logged(kUnit), 5u);
  EXPECT_FALSE(sender_.on_message(now_, answer, log_, out_));
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(sender_.next_wakeup(log_), Instant::max());
}

TEST_F(Sending, RepeatsUntilAnAnswerComes) {
  Log(7, 1);
  Due();
  EXPECT_FALSE(sender_.on_timers(now_, log_, out_));
  now_ = sender_.next_wakeup(log_);
  Log(7, 2);
  const TableMessage again = Due();  // with the second update
  EXPECT_EQ(again.merged, 0u);
  EXPECT_EQ(again.seq, 2u);
  EXPECT_EQ(sender_.repeated(0), 1u);
  EXPECT_FALSE(sender_.on_message(now_, AtHome(again), log_, out_));
  EXPECT_EQ(Total(7), 3u);
}

// The first message comes, its answer is lost, and the second begins where the
// home is not any more.
TEST_F(Sending, BeginsWhereTheHomeIs) {
  Log(7, 1);
  AtHome(Due());
  now_ = sender_.next_wakeup(log_);
  Log(7, 2);
  const TableMessage answer = AtHome(Due());
  EXPECT_EQ(answer.merged, 1u);
  EXPECT_EQ(Total(7), 1u);
  // The rest of the round follows at once.
  now_ = now_ + options_.period;
  if (!sender_.on_message(now_, answer, log_, out_)) {
    now_ = sender_.next_wakeup(log_);
    out_ = Due();
  }
  EXPECT_EQ(out_.merged, 1u);
  EXPECT_EQ(AtHome(out_).merged, 2u);
  EXPECT_EQ(Total(7), 3u);
}

TEST_F(Sending, TakesAsManyMessagesAsItNeeds) {
  const uint32_t most = TableMessage::MaxEntries(shape_);
  for (uint64_t key = 1; key <= 2 * most + 1; ++key) Log(key % 97 + 1, 1);
  TableMessage message = Due();
  int messages = 1;
  EXPECT_EQ(message.entries, most);
  while (sender_.on_message(now_, AtHome(message), log_, message)) ++messages;
  EXPECT_EQ(messages, 3);
  EXPECT_TRUE(log_.empty());
  uint64_t sum = 0;
  for (uint64_t key = 1; key <= 97; ++key) sum += Total(key);
  EXPECT_EQ(sum, 2 * most + 1);
}

// A unit's next incarnation numbers its updates from 1 on. The updates are sent
// once all earlier ones are merged; late messages of these change nothing.
TEST_F(Sending, SendsOnForTheNextIncarnation) {
  log_ = UpdateLog({&shape_, 1}, 1);
  for (int i = 0; i < 3; ++i) Log(7, 1);
  const TableMessage late = Due();
  log_.Begin(2);
  Log(7, 10);
  AtHome(late);
  now_ = sender_.next_wakeup(log_);
  const TableMessage again = Due();
  EXPECT_EQ(again.incarnation, 1u);
  EXPECT_EQ(again.seq, 3u);
  TableMessage next;
  const TableMessage answer = AtHome(again);
  now_ = now_ + options_.period;
  if (!sender_.on_message(now_, answer, log_, next)) {
    now_ = sender_.next_wakeup(log_);
    next = Due();
  }
  EXPECT_EQ(next.incarnation, 2u);
  EXPECT_EQ(next.merged, 0u);
  EXPECT_EQ(AtHome(next).merged, 1u);
  EXPECT_EQ(AtHome(late).incarnation, 2u);
  AtHome(next);
  EXPECT_EQ(Total(7), 13u);
  EXPECT_EQ(home_.logged(kUnit), 4u);
}

// No update in front of the first message of an incarnation may be missing.
TEST_F(Sending, OfANewIncarnationTheHomeTakesTheFirstUpdatesFirst) {
  log_ = UpdateLog({&shape_, 1}, 1);
  Log(7, 1);
  TableMessage message = Due();
  message.merged = 4;
  message.seq = 5;
  EXPECT_EQ(AtHome(message).merged, 0u);
  EXPECT_EQ(Total(7), 0u);
}

TEST_F(Sending, HurriesWhenTheUnitHasEnded) {
  Log(7, 1);
  EXPECT_FALSE(sender_.on_message(now_, AtHome(Due()), log_, out_));
  Log(7, 2);
  EXPECT_GT(sender_.next_wakeup(log_), now_);
  sender_.Hurry(log_);
  AtHome(Due());
  sender_.Hurry(log_);  // the message is under way
  EXPECT_FALSE(sender_.on_timers(now_, log_, out_));
  EXPECT_EQ(Total(7), 3u);
}

// A logger dies after its message was merged. The next one has the updates from
// further back, and sends on for the unit's next incarnation.
TEST_F(Sending, IsTakenOverByANewLogger) {
  for (int i = 0; i < 3; ++i) Log(7, 1);
  const TableMessage late = Due();
  UpdateLog next(log_);
  LogIn(next, 7, 10);
  AtHome(late);
  UpdateSender sender(kUnit, options_, 1);
  TableMessage message;
  ASSERT_TRUE(sender.on_timers(now_, next, message));
  EXPECT_EQ(message.seq, 4u);
  TableMessage answer = AtHome(message);
  EXPECT_EQ(answer.merged, 3u);
  now_ = now_ + options_.retry_after;
  if (!sender.on_message(now_, answer, next, message)) {
    ASSERT_TRUE(sender.on_timers(now_ + options_.period, next, message));
  }
  AtHome(message);
  AtHome(late);
  EXPECT_EQ(Total(7), 13u);
}

// Updates of a key before its erasure go in a message of their own.
TEST_F(Sending, KeepsTheOrderOfUpdatesAndErasures) {
  Log(7, 5);
  Log(8, 1);
  Log(7, 1, true);
  Log(7, 1);
  Log(7, 0, true);
  TableMessage message = Due();
  EXPECT_EQ(message.seq, 2u);
  EXPECT_EQ(message.in_rest, 0u);
  ASSERT_TRUE(sender_.on_message(now_, AtHome(message), log_, message));
  EXPECT_EQ(message.seq, 4u);
  EXPECT_EQ(message.in_rest, 1u);
  const TableMessage answer = AtHome(message);
  EXPECT_EQ(AtHome(message).merged, 4u);  // comes twice
  EXPECT_EQ(Total(7), 2u);
  EXPECT_EQ(*home_.rest(), 5u);
  ASSERT_TRUE(sender_.on_message(now_, answer, log_, message));
  EXPECT_FALSE(sender_.on_message(now_, AtHome(message), log_, message));
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(home_.size(), 1u);
  EXPECT_EQ(*home_.rest(), 7u);
}

TEST_F(Sending, TakesNoAnswerOfOthers) {
  Log(7, 1);
  TableMessage answer = AtHome(Due());
  answer.unit = UnitId{0};
  EXPECT_FALSE(sender_.on_message(now_, answer, log_, out_));
  answer.unit = kUnit;
  answer.table = 1;
  EXPECT_FALSE(sender_.on_message(now_, answer, log_, out_));
  answer.table = 0;
  answer.kind = TableMessage::Kind::kMerged;
  EXPECT_FALSE(sender_.on_message(now_, answer, log_, out_));
  EXPECT_FALSE(log_.empty());
}

}  // namespace
}  // namespace snf
