// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_FIGURES_LIVE_BOARD_H_
#define SNF_PLATFORM_RUN_FIGURES_LIVE_BOARD_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "platform/run/figures/live_figures.h"

namespace snf {

// A run in real time puts its figures here twice a second, and other threads
// read them. Thread-safe; the lock is held for a few instructions.
class LiveBoard {
 public:
  static constexpr Nanos kPeriod = Milliseconds(500);

  // `done` returns LiveFigures::done_1000; it is called on the thread that
  // publishes, with the packets that were taken.
  using Done = std::function<std::optional<uint32_t>(uint64_t packets)>;
  explicit LiveBoard(Done done) : done_(std::move(done)) {}

  void Publish(LiveFigures figures) {
    figures.done_1000 = done_(figures.counts[&RunResult::packets_in]);
    auto next = std::make_shared<const LiveFigures>(std::move(figures));
    {
      const std::lock_guard lock(mutex_);
      figures_.swap(next);
      ++published_;
      published_at_ = std::chrono::steady_clock::now();
    }
    changed_.notify_all();
  }

  // Returns the latest figures; zeros before the first.
  std::shared_ptr<const LiveFigures> Latest() const {
    const std::lock_guard lock(mutex_);
    return figures_;
  }

  // Returns how long ago the latest figures were put here; nothing before the
  // first.
  std::optional<Nanos> Age() const {
    const std::lock_guard lock(mutex_);
    if (published_ == 0) return std::nullopt;
    return Nanos{std::chrono::nanoseconds(std::chrono::steady_clock::now() -
                                          published_at_)
                     .count()};
  }

  // Waits for figures after the first `seen`, which it counts, and returns
  // them; null after Close.
  std::shared_ptr<const LiveFigures> WaitForNext(uint64_t& seen) const {
    std::unique_lock lock(mutex_);
    while (published_ == seen && !is_closed_) changed_.wait(lock);
    seen = published_;
    return is_closed_ ? nullptr : figures_;
  }

  void Close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  const Done done_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::shared_ptr<const LiveFigures> figures_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const LiveFigures>();
  uint64_t published_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point published_at_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_FIGURES_LIVE_BOARD_H_
