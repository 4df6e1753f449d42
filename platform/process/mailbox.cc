// SPDX-License-Identifier: Apache-2.0
#include "platform/process/mailbox.h"

#include <algorithm>

#include "base/check.h"

namespace snf {

Mailbox::~Mailbox() {
  const std::lock_guard lock(mutex_);
  SNF_CHECK(letters_.empty());
}

absl::Status Mailbox::Ask(absl::FunctionRef<void()> task, Deadline deadline) {
  Letter letter = {.task = task, .state = Letter::State::kWaits};
  std::unique_lock lock(mutex_);
  if (is_closed_) return absl::UnavailableError("it is shutting down");
  if (letters_.size() >= kMostLetters) {
    return absl::ResourceExhaustedError("too many requests are waiting");
  }
  letters_.push_back(&letter);
  has_letters_.store(true, std::memory_order_relaxed);
  while (letter.state == Letter::State::kWaits ||
         letter.state == Letter::State::kOpened) {
    // Once it was opened it is soon done, and the task must outlive that.
    if (letter.state == Letter::State::kOpened) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout &&
               letter.state == Letter::State::kWaits) {
      std::erase(letters_, &letter);
      has_letters_.store(!letters_.empty(), std::memory_order_relaxed);
      return absl::DeadlineExceededError("no answer in time");
    }
  }
  return letter.state == Letter::State::kDone
             ? absl::OkStatus()
             : absl::UnavailableError("it is shutting down");
}

bool Mailbox::OpenFirst() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || letters_.empty()) return false;
  Letter& letter = *letters_.front();
  letters_.pop_front();
  has_letters_.store(!letters_.empty(), std::memory_order_relaxed);
  letter.state = Letter::State::kOpened;
  lock.unlock();
  letter.task();
  lock.lock();
  letter.state = Letter::State::kDone;
  // Under the lock: the waiting thread may destroy the letter as soon as the
  // lock is released.
  changed_.notify_all();
  return true;
}

void Mailbox::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (Letter* letter : letters_) letter->state = Letter::State::kRefused;
  letters_.clear();
  has_letters_.store(false, std::memory_order_relaxed);
  changed_.notify_all();
}

}  // namespace snf
