// SPDX-License-Identifier: Apache-2.0
#include "platform/process/frozen_watch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace snf {
namespace {

// A process that sleeps.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    while (pid_ == 0) pause();
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  pid_t pid() const { return pid_; }
  void Stop() const {
    kill(pid_, SIGSTOP);
    waitpid(pid_, nullptr, WUNTRACED);
  }
  void GoOn() const {
    kill(pid_, SIGCONT);
    waitpid(pid_, nullptr, WCONTINUED);
  }

 private:
  pid_t pid_;
};

TEST(FrozenWatch, FindsAProcessThatASignalHasStoppedForLong) {
  const Sleeper sleeper;
  FrozenWatch watch(2);
  EXPECT_FALSE(watch.Look({0}, 1, sleeper.pid(), 7));
  sleeper.Stop();
  EXPECT_FALSE(watch.Look(Instant{} + Seconds(1), 1, sleeper.pid(), 7));
  EXPECT_FALSE(
      watch.Look(Instant{} + Milliseconds(1'999), 1, sleeper.pid(), 7));
  EXPECT_TRUE(watch.Look(Instant{} + Seconds(2), 1, sleeper.pid(), 7));
  EXPECT_FALSE(watch.Look(Instant{} + Seconds(9), 1, sleeper.pid(), 7));
}

TEST(FrozenWatch, LeavesAloneWhoSleepsGoesOnOrGetsSomethingDone) {
  const Sleeper sleeper;
  const Sleeper other;
  FrozenWatch watch(1);
  for (int second = 0; second < 5; ++second) {
    EXPECT_FALSE(watch.Look(Instant{} + Seconds(second), 0, sleeper.pid(), 7));
  }
  sleeper.Stop();
  EXPECT_FALSE(watch.Look(Instant{} + Seconds(5), 0, sleeper.pid(), 7));
  sleeper.GoOn();
  EXPECT_FALSE(watch.Look(Instant{} + Seconds(7), 0, sleeper.pid(), 7));
  sleeper.Stop();
  // It has been stopped for no time yet, as far as is known.
  EXPECT_FALSE(watch.Look(Instant{} + Seconds(9), 0, sleeper.pid(), 7));
  EXPECT_FALSE(watch.Look(Instant{} + Seconds(11), 0, sleeper.pid(), 8));
  // Nor is another process with its number the one that was seen.
  EXPECT_FALSE(watch.Look(Instant{} + Seconds(13), 0, other.pid(), 8));
  EXPECT_FALSE(watch.Look(Instant{} + Seconds(15), 0, 0, 8));
}

TEST(FrozenWatch, LooksNowAndThen) {
  FrozenWatch watch(1);
  EXPECT_TRUE(watch.is_due({0}));
  watch.Begin({0});
  EXPECT_FALSE(watch.is_due({0}));
  EXPECT_TRUE(watch.is_due(Instant{} + FrozenWatch::kLook));
}

}  // namespace
}  // namespace snf
