// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_UNIT_PROCESSES_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_UNIT_PROCESSES_H_

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
#include "platform/drivers/loops/loop_results.h"
#include "platform/drivers/loops/unit_process.h"
#include "platform/process/printed_lines.h"
#include "platform/process/unit_word.h"
#include "resource_manager/launch/launcher.h"

namespace snf {

// The processes of a run, as the controller's process sees them: one for each
// loop of units, and one for all loops of loggers. A thread of the object's own
// waits for their words and their ends. A loop's process has the loop's number;
// the loggers' process comes last.
//
// Words of processes are not trusted. The first failure counts: a bad word, an
// NF that failed, a process that ended, however it did. If processes may fail,
// these are failures only until Start returns and after LetEnd; in between
// TakeEnd returns the end of the process. Owner-thread only; callbacks are
// called on the other thread.
class UnitProcesses {
 public:
  struct Options {
    std::string program;  // the file of this program
    UnitProcessSetup setup;
    std::string nf;            // bytes of a LaunchedNf
    std::vector<int> regions;  // descriptors of loops' memories, by loop
    int own_region = -1;       // descriptor of the loggers' memory; -1: none
    HostDescriptors host;      // with UnitProcessSetup::host_store
    // The CPU of each process, on which it runs from when it is ready; empty:
    // processes run on any.
    std::vector<int> cpus = {};
    LoopResults like;  // of a loop with the fewest units, that ran nothing
    std::function<void()> told;    // called after a failure
    std::function<void()> killed;  // called when TakeEnd has an end
    // Called when a loop of units has sent a bad word, reports that it got one,
    // or is reported by loggers, after `ends` ends of its processes; only if
    // units may be killed. Later words of the process are ignored, and its end
    // is no failure.
    std::function<void(uint32_t loop, std::optional<uint32_t> ends,
                       std::string what)>
        blamed = nullptr;
    // The end of a process is no failure: TakeEnd returns it.
    bool may_be_killed = false;
    // If present, the processes outlive this process if it is killed. Sockets
    // of processes are added to its descriptors, which are of all memory.
    std::optional<LaunchKeep> keep = std::nullopt;
    // Processes to take over, of a process that was killed: their sockets come
    // after kept_memories descriptors. No process is started then.
    std::optional<Launcher::Kept> kept = std::nullopt;
    size_t kept_memories = 0;
    // Returns the argument of a start (Launcher::StartAgain); may be null.
    std::function<std::vector<std::byte>(size_t process)> argument = nullptr;
    // Called when a process is ready, also while Start waits.
    std::function<void()> ready = [] {};
    // Gets lines that processes print on stderr, by PrintedLines. Null: they
    // have this process's stderr. A process that takes over has one if and only
    // if the killed process had.
    PrintedLines::Notice printed = nullptr;
  };
  // Returns when all processes that are started at once are ready, or killed.
  // Errors: those of Launcher::Start and ContainerMethod::Make; Internal, the
  // reason why a process is not ready, or has not its CPU.
  static absl::StatusOr<std::unique_ptr<UnitProcesses>> Start(Options options);
  UnitProcesses(const UnitProcesses&) = delete;
  UnitProcesses& operator=(const UnitProcesses&) = delete;
  // Ends all processes.
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
  // Waits, at most for kPatience, for the ends of processes that were told to
  // stop (LoopControl). Returns the results of each loop of units; absent if
  // its process failed. A process that does not end is a failure.
  static constexpr Nanos kPatience = Seconds(10);
  std::vector<std::optional<LoopResults>> Finish();

  // Sets whether the end of that process, from now on, is returned by TakeEnd
  // instead of being a failure.
  void LetEnd(size_t loop, bool may_end);

  // Returns true if TakeEnd has an end to return.
  bool has_ends() const {
    return ends_.load(std::memory_order_relaxed) != ends_taken_;
  }
  // Fails for a reason of the caller's.
  void EndRun(std::string why) { Fail({.text = std::move(why)}); }
  // Returns the next end of a process that was no failure; absent if there is
  // none.
  struct End {
    size_t process = 0;
    pid_t pid = 0;           // 0: no process (Options::kept, or a start)
    bool has_failed = true;  // false: it was told to stop
    bool by_kill = true;     // by SIGKILL, whoever sent it
    bool was_ready = true;   // false: it has served nothing
    std::string how{};       // "was killed by signal 9"
    // The failed call of the NF, if the process has reported one.
    std::optional<UnitWord::NfFailure> nf = std::nullopt;
  };
  std::optional<End> TakeEnd();
  // Starts a process that was not started at once, or whose end TakeEnd has
  // returned. More than kMostFailedStarts failed starts in a row are a failure,
  // if no other process of its kind runs.
  void StartAgain(size_t process);
  static constexpr uint32_t kMostFailedStarts = 16;
  bool is_ready(size_t process) const;

  // Counts processes of LetEnd(loop) that were killed, whose work is in no
  // results.
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
    // Taken over: the process may have reported that it is ready, or not yet.
    bool may_be_ready = false;
    bool has_ended = false;
    bool may_end = false;  // LetEnd
    // Has sent a bad word, or reported that it has failed (Options::blamed).
    bool is_blamed = false;
    uint32_t failed_starts = 0;               // since it was ready
    std::string fault{};                      // why it is not ready
    std::optional<UnitWord::NfFailure> nf{};  // as reported
    std::vector<std::byte> heard{};           // that is no whole word yet
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
  bool TakeEndOf(size_t loop, LaunchNote note);
  bool MayGoOn(size_t loop) const;
  // Pins a process that is ready to its CPU. Returns an error, or "".
  std::string Pin(size_t loop) const;
  // The run has begun, and has not ended: processes may fail.
  bool may_fail() const {
    return options_.may_be_killed && has_begun_ && !may_end_;
  }
  bool HearPrinted();
  void HearAllPrinted();
  bool Hear(size_t loop);
  static void HearNoMore(Process& process);
  static void Gather(Process& process);
  bool TakeWord(size_t loop);
  void GiveUp(size_t loop, std::string what,
              absl::StatusCode code = absl::StatusCode::kInternal);
  void TakeResults(size_t loop, std::span<const std::byte> bytes);
  void Fail(Failure failure);
  std::string NameOf(size_t process) const;

  Options options_;
  std::optional<PrintedLines> printed_;  // by process, then any other
  int printed_socket_ = -1;
  std::optional<Launcher> launcher_;
  int end_ = -1;  // an eventfd: the thread ends
  std::atomic<bool> has_begun_ = false;
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

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_UNIT_PROCESSES_H_
