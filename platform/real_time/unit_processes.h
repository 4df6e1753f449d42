// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_TIME_UNIT_PROCESSES_H_
#define SNF_PLATFORM_REAL_TIME_UNIT_PROCESSES_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "platform/real_time/loop_results.h"
#include "platform/real_time/unit_process.h"
#include "platform/real_time/unit_word.h"
#include "resource_manager/live/launcher.h"

namespace snf {

// The processes of a run that loops of units run in, and the one that all loops
// of their loggers do, as the controller's process sees them. A thread of its
// own waits for what they tell, and for their ends. Processes are numbered as
// the loops of units are; that of the loggers, if there is one, comes behind.
//
// What they tell is not trusted. The first failure counts: a bad word, an NF
// that failed, a process that ended. Owner-thread only; callbacks are called on
// the other thread.
class UnitProcesses {
 public:
  struct Options {
    std::string program;  // the file of this program
    UnitProcessSetup setup;
    std::string nf;            // TextWithModules
    std::vector<int> regions;  // descriptors of their memories, by loop
    int own_region = -1;       // that of the loggers; none without these
    LoopResults like;  // of a loop of as few units as any has; runs nothing
    std::function<void()> told;    // something has failed
    std::function<void()> killed;  // TakeEnd has something to tell
    // The loop of units has said what cannot be, or says that it has heard or
    // found it, or loggers say so of its process behind so many `ends`; if
    // units may be killed. What it says itself counts no more, and its end is
    // no failure.
    std::function<void(uint32_t loop, std::optional<uint32_t> ends,
                       std::string what)>
        blamed = nullptr;
    // That a signal ends a process is no failure: TakeEnd tells of it.
    bool may_be_killed = false;
    // If it is there, the processes outlive this one if it is killed. To its
    // descriptors, those of all memory, come those of processes' sockets.
    std::optional<LaunchKeep> keep = std::nullopt;
    // Those of a process that was killed, which are taken over, by the same
    // descriptors behind so many; none are started then.
    std::optional<Launcher::Kept> kept = std::nullopt;
    size_t kept_memories = 0;
    // A process is ready. Called while Start waits as well.
    std::function<void()> ready = [] {};
  };
  // Returns when all that are started at once are ready, or killed. Errors:
  // those of Launcher::Start and ContainerMethod::Make; Internal, what keeps a
  // process from being ready.
  static absl::StatusOr<std::unique_ptr<UnitProcesses>> Start(Options options);
  UnitProcesses(const UnitProcesses&) = delete;
  UnitProcesses& operator=(const UnitProcesses&) = delete;
  // Ends those that live.
  ~UnitProcesses();

  struct Failure {
    // "unit loop 1 (process 4711) was killed by signal 9"
    std::string text;
    // The call of the NF that failed; its text is `text`.
    std::optional<UnitWord::NfFailure> nf = std::nullopt;
    absl::StatusCode code = absl::StatusCode::kInternal;
  };
  std::optional<Failure> failure() const;

  // From now on processes may end; before that, an end is a failure.
  void LetEnd() { may_end_ = true; }
  // Waits, for kPatience at the most, for the ends of processes that were told
  // to stop (LoopControl); returns what those of units told, which is nothing
  // of those that failed. A process that does not end is a failure.
  static constexpr Nanos kPatience = Seconds(10);
  std::vector<std::optional<LoopResults>> Finish();

  // Says whether the end of that process, from now on, is no failure, but told
  // by TakeEnd.
  void LetEnd(size_t loop, bool may_end);

  // Returns true if a process has ended of which TakeEnd has not told yet.
  bool has_ends() const {
    return ends_.load(std::memory_order_relaxed) != ends_taken_;
  }
  // Fails for a reason of the caller's.
  void EndRun(std::string why) { Fail({.text = std::move(why)}); }
  // Returns the next process that has ended, but was no failure; none: there is
  // none.
  struct End {
    size_t process = 0;
    pid_t pid = 0;           // 0: it was another's (Options::kept)
    bool is_killed = true;   // else it was told to stop
    bool is_blamed = false;  // it was killed, or has ended for what it found
  };
  std::optional<End> TakeEnd();
  // Starts the process, which was not started at once, or of which TakeEnd has
  // told. If that fails kMostFailedStarts times in a row, it is a failure.
  void StartAgain(size_t process);
  static constexpr uint32_t kMostFailedStarts = 16;
  bool is_ready(size_t process) const;

  // Counts the processes of LetEnd that were killed: what those did while they
  // lived is not in their results.
  uint64_t parked_killed() const { return parked_killed_; }

  size_t size() const { return processes_.size(); }
  // Returns the process of the loggers, which there must be, and how many there
  // are of units.
  size_t loggers() const { return units(); }
  size_t units() const { return options_.setup.region.loops; }
  pid_t pid(size_t process) const;
  pid_t launcher_pid() const { return launcher_->pid(); }

 private:
  struct Process {
    int socket = -1;
    pid_t pid = 0;
    bool is_ready = false;
    // It is one that was taken over: perhaps it has still to say so.
    bool may_be_ready = false;
    bool has_ended = false;
    bool may_end = false;  // LetEnd
    // It has said what cannot be, or that it has failed (Options::blamed).
    bool is_blamed = false;
    uint32_t failed_starts = 0;      // since it was ready
    std::vector<std::byte> heard{};  // that is no whole word yet
    std::optional<LoopResults> results{};
    std::optional<LoopResults> earlier{};  // of those before it
  };

  explicit UnitProcesses(Options options);
  absl::Status Launch();
  absl::Status TakeOver();
  absl::Status BeginToWatch();
  template <typename Done>
  bool WaitUntil(Nanos patience, const Done& done);
  void Watch();
  bool TakeNote();
  bool TakeEndOf(size_t loop, int status);
  bool Hear(size_t loop);
  static void HearNoMore(Process& process);
  static void Gather(Process& process);
  bool TakeWord(size_t loop);
  void GiveUp(size_t loop, std::string what);
  void TakeResults(size_t loop, std::span<const std::byte> bytes);
  void Fail(Failure failure);
  std::string NameOf(size_t process) const;

  Options options_;
  std::optional<Launcher> launcher_;
  int end_ = -1;  // an eventfd: the thread ends
  std::atomic<bool> may_end_ = false;
  std::atomic<uint32_t> ends_ = 0;  // that are no failures
  uint32_t ends_taken_ = 0;
  std::atomic<uint64_t> parked_killed_ = 0;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Process> processes_;
  std::optional<Failure> failure_;
  std::deque<End> ended_;  // in order
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_TIME_UNIT_PROCESSES_H_
