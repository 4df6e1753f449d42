// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_TEST_PROCESS_H_
#define SNF_RUNTIME_RING_TEST_PROCESS_H_

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "gtest/gtest.h"
#include "runtime/ring/shared_region.h"

namespace snf {

inline SharedRegion MakeRegion(size_t bytes) {
  auto region = SharedRegion::Create({.bytes = bytes});
  EXPECT_TRUE(region.ok()) << region.status();
  return std::move(*region);
}

// A process that runs act() and exits with its result.
class Child {
 public:
  template <typename Act>
  explicit Child(const Act& act) : pid_(fork()) {
    if (pid_ == 0) _exit(act());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { Kill(); }

  // Kills the process and returns when it is dead.
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Join();
  }
  // Waits for the end of the process. Returns its exit code, or -1 if a signal
  // ended it.
  int Join() {
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, 0) != pid_) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Wait for the next stop of a traced child. IsStepped returns true if it has
  // stopped after one instruction, IsStopped if it has stopped by SIGSTOP.
  bool IsStepped() { return NextStop() == SIGTRAP; }
  bool IsStopped() { return NextStop() == SIGSTOP; }
  pid_t pid() const { return pid_; }

 private:
  int NextStop() {
    int status = 0;
    const bool is_stop =
        waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status);
    return is_stop ? WSTOPSIG(status) : 0;
  }
  pid_t pid_;
};

// Returns true if this machine lets a process trace its child.
inline bool CanTrace() {
  Child child([] {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 1;
    raise(SIGSTOP);
    return 0;
  });
  return child.IsStopped();
}

// Runs, for k = 0, `stride`, 2 · `stride` …, prepare(), act() in a child that
// is killed after k machine instructions, and judge(k), until act() comes to
// its end. Returns how many instructions that took, with some before and after
// act(). A stride above 1 is for sanitizers, which turn a few instructions into
// thousands.
template <typename Prepare, typename Act, typename Judge>
int KillAtEveryInstruction(int stride, const Prepare& prepare, const Act& act,
                           const Judge& judge) {
  for (int k = 0;; k += stride) {
    prepare();
    Child child([&] {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      act();
      raise(SIGSTOP);
      return 0;
    });
    bool runs = child.IsStopped();
    for (int step = 0; runs && step < k; ++step) {
      ptrace(PTRACE_SINGLESTEP, child.pid(), nullptr, nullptr);
      runs = child.IsStepped();
    }
    child.Kill();
    judge(k);
    if (!runs || ::testing::Test::HasFailure()) return k;
  }
}

#if defined(__SANITIZE_ADDRESS__)
inline constexpr int kStride = 23;
#else
inline constexpr int kStride = 1;
#endif

}  // namespace snf

#endif  // SNF_RUNTIME_RING_TEST_PROCESS_H_
