// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PROCESS_MAILBOX_H_
#define SNF_PLATFORM_PROCESS_MAILBOX_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace snf {

// Hands work over to a thread that never waits: that of a loop, which looks
// into its mailbox between other things. Others put a letter in and wait until
// it was opened.
//
//   any thread ──Ask(task, deadline)──► letters ──Open()──► task() on the owner
//
// An empty mailbox costs its owner one load. The owner opens one letter at a
// time, so a letter's task should take no longer than the loop may stand still.
// Thread-safe, but Open and Close are the owner's.
class Mailbox {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  static constexpr size_t kMostLetters = 64;

  Mailbox() = default;
  // No letter may be in it, nor come.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Returns once the owner has run the task. On an error the task is never run:
  // DeadlineExceeded if the owner was too late; ResourceExhausted if
  // kMostLetters wait; Unavailable if the mailbox is closed.
  absl::Status Ask(absl::FunctionRef<void()> task, Deadline deadline);

  // Runs the task of the first letter, if there is one and no thread is just
  // adding one. Returns true if it ran one.
  bool Open() {
    if (!has_letters_.load(std::memory_order_relaxed)) [[likely]]
      return false;
    return OpenFirst();
  }
  // Refuses all letters that are in it, and all to come.
  void Close();

 private:
  struct Letter {
    absl::FunctionRef<void()> task;
    enum class State : uint8_t { kWaits, kOpened, kDone, kRefused } state;
  };
  bool OpenFirst();

  std::atomic<bool> has_letters_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Letter*> letters_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_PROCESS_MAILBOX_H_
