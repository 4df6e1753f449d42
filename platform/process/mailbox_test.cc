// SPDX-License-Identifier: Apache-2.0
#include "platform/process/mailbox.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace snf {
namespace {

using std::chrono::steady_clock;

Mailbox::Deadline Soon() { return steady_clock::now(); }
Mailbox::Deadline Never() {
  return steady_clock::now() + std::chrono::hours(1);
}

// Opens letters on a thread of its own, as a loop does.
class Loop {
 public:
  explicit Loop(Mailbox& mailbox)
      : thread_([this, &mailbox] {
          while (!stop_.load()) {
            if (!mailbox.Open()) std::this_thread::yield();
          }
          mailbox.Close();
        }) {}
  ~Loop() {
    stop_ = true;
    thread_.join();
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(Mailbox, RunsATaskOnItsOwnersThread) {
  Mailbox mailbox;
  const Loop loop(mailbox);
  std::thread::id ran;
  ASSERT_TRUE(
      mailbox.Ask([&] { ran = std::this_thread::get_id(); }, Never()).ok());
  EXPECT_EQ(ran, loop.id());
}

TEST(Mailbox, RunsEachTaskOnceOfManyThreads) {
  constexpr int kThreads = 8;
  constexpr int kTasks = 500;
  Mailbox mailbox;
  const Loop loop(mailbox);
  int count = 0;  // of the owner alone
  std::vector<std::thread> threads;
  std::atomic<int> done = 0;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kTasks; ++n) {
        done += mailbox.Ask([&count] { ++count; }, Never()).ok() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kThreads * kTasks);
  int seen = 0;
  ASSERT_TRUE(mailbox.Ask([&] { seen = count; }, Never()).ok());
  EXPECT_EQ(seen, kThreads * kTasks);
}

TEST(Mailbox, WithdrawsALetterThatNobodyOpensInTime) {
  Mailbox mailbox;
  bool ran = false;
  const absl::Status status = mailbox.Ask([&] { ran = true; }, Soon());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(mailbox.Open());
  EXPECT_FALSE(ran);
}

TEST(Mailbox, RefusesLettersWhenClosed) {
  Mailbox mailbox;
  std::atomic<bool> asks = false;
  absl::Status status;
  std::thread asker([&] {
    asks = true;
    status = mailbox.Ask([] { FAIL(); }, Never());
  });
  while (!asks) std::this_thread::yield();
  mailbox.Close();
  asker.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(mailbox.Ask([] { FAIL(); }, Never()).code(),
            absl::StatusCode::kUnavailable);
}

TEST(Mailbox, HoldsABoundedNumber) {
  Mailbox mailbox;
  std::atomic<size_t> refused = 0;
  std::atomic<size_t> closed = 0;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < Mailbox::kMostLetters + 5; ++i) {
    threads.emplace_back([&] {
      const absl::Status status = mailbox.Ask([] {}, Never());
      refused += absl::IsResourceExhausted(status) ? 1 : 0;
      closed += absl::IsUnavailable(status) ? 1 : 0;
    });
  }
  while (refused < 5) std::this_thread::yield();
  mailbox.Close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 5u);
  EXPECT_EQ(closed, Mailbox::kMostLetters);
}

}  // namespace
}  // namespace snf
