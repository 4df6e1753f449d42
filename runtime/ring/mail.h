// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_MAIL_H_
#define SNF_RUNTIME_RING_MAIL_H_

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "runtime/ring/doorbell.h"

namespace snf {

// Brings messages from any threads to one, in the order in which they came.
// Messages are rare, some in each epoch of a controller, so a lock does not
// matter. Thread-safe, but Take is the owner's.
template <typename Message>
class Mail {
 public:
  // Rings the bell of the owner, which outlives this, unless it is null.
  explicit Mail(Doorbell* bell = nullptr) : bell_(bell) {}

  void Put(Message message) {
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back(std::move(message));
      has_any_.store(true, std::memory_order_seq_cst);
    }
    if (bell_ != nullptr) bell_->Ring();
  }
  bool has_any() const { return has_any_.load(std::memory_order_seq_cst); }
  std::vector<Message> Take() {
    if (!has_any_.load(std::memory_order_acquire)) [[likely]]
      return {};
    const std::lock_guard lock(mutex_);
    has_any_.store(false, std::memory_order_relaxed);
    return std::exchange(messages_, {});
  }

 private:
  Doorbell* bell_;
  std::mutex mutex_;
  std::vector<Message> messages_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_any_{false};
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_MAIL_H_
