// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LAUNCH_LAUNCHER_H_
#define SNF_RESOURCE_MANAGER_LAUNCH_LAUNCHER_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// The outcome of a process that a launcher was to start.
struct LaunchNote {
  enum class Kind : uint32_t {
    kStarted,
    kEnded,    // `status` is of waitpid
    kRefused,  // it could not be started; `text` says why
  };
  Kind kind = Kind::kStarted;
  uint32_t index = 0;  // of the process, from 0 on
  pid_t pid = 0;
  int status = 0;
  std::array<char, 496> text{};  // ends with a zero

  // Returns "was killed by signal 9" or "ended with exit code 3".
  static std::string InWords(int status);
};

// Lets a launcher and its processes outlive their user if that is killed:
// another process may take them over (Launcher::TakeOver).
struct LaunchKeep {
  // The file of a unix socket at which the launcher listens, and which it
  // removes; in a folder that is the user's alone.
  std::string socket;
  // Milliseconds to wait for another process after the user's end; then all
  // end.
  int patience_ms = 0;
  // Describes the processes: lines, as "--max_flows<tab>65536". A process with
  // another identity gets nothing, and all end.
  std::string identity;
  // Descriptors for the process that takes over, such as the user's ends of the
  // processes' sockets.
  std::vector<int> descriptors;
};

// Theory of operation. A launcher is a small process of one thread that starts
// other processes by fork: it has loaded their program and data once, so that a
// start costs no more than the fork. It is made by exec, so that it shares no
// threads, descriptors and memory with its user.
//
//   snf ──exec──► launcher ──fork──► unit, unit …
//       ◄─notes──          ◄─pidfd─
//
// None outlives another: when its socket is closed, also by the death of its
// user, the launcher ends all processes that it has started, and itself; and
// the units end with the launcher, by a signal of the kernel. They are in a
// process group of their own, which a terminal does not interrupt.
//
// With LaunchKeep the launcher distinguishes a user that ends by itself, which
// says so, from one that was killed. After a kill it waits for another user,
// unless one of its own processes ends meanwhile by anything but SIGKILL:
//
//   snf (killed)    launcher ──► unit, unit …     which go on
//   snf ──connect──►         its socket is the launcher's from now on
//       ◄─processes, descriptors─
//
// Owner-thread only, except for fd() and Read, which another thread may use.
class Launcher {
 public:
  static constexpr size_t kMostSetupBytes = 64 * 1024;
  static constexpr size_t kMostDescriptors = 128;
  static constexpr size_t kMostIdentityBytes = 16 * 1024;

  struct Options {
    std::string program;  // its file
    // Its arguments, behind which comes the number of a descriptor, for
    // ReceiveLaunch.
    std::vector<std::string> arguments;
    std::span<const std::byte> setup;
    std::span<const int> descriptors;  // which the caller keeps, too
    const LaunchKeep* keep = nullptr;  // as its descriptors; may be null
    // The descriptor that is stderr there; -1: the caller's stderr.
    int errors = -1;
  };
  // Errors: InvalidArgument for more than the limits above; Unavailable, with
  // the system's reason.
  static absl::StatusOr<Launcher> Start(const Options& options);

  // Takes over a launcher that LaunchKeep has kept at `socket`, once its user
  // is dead; absent if there is none. Errors: FailedPrecondition if the
  // launcher has another identity, whose lines that differ are named; Aborted
  // if one of its processes had failed, and all have ended now, or if the
  // launcher does not answer in time; Unavailable, with the system's reason.
  struct Kept;
  static constexpr int kTakePatienceMs = 10'000;
  static absl::StatusOr<std::optional<Kept>> TakeOver(
      const std::string& socket, const std::string& identity,
      int patience_ms = kTakePatienceMs);

  // Looks at a launcher that waits there for somebody to take it over; absent
  // if none does, be it that its process lives.
  struct Waiting {
    uint32_t processes = 0;
    int left_ms = 0;  // then all end
  };
  static std::optional<Waiting> LookAt(const std::string& socket);
  // Ends a launcher that waits at `socket`, and returns once all its processes
  // have ended; false if none waits.
  static bool EndWaiting(const std::string& socket);

  Launcher(Launcher&& other) noexcept;
  Launcher& operator=(Launcher&& other) = delete;
  // Ends the launcher and all its processes, and waits for their ends.
  ~Launcher();

  // Becomes readable when there is a note, or the launcher has ended.
  int fd() const { return socket_; }
  pid_t pid() const { return pid_; }
  // Asks for the process with that index, which has ended or was not started
  // yet. A note reports the outcome. The launcher gets the argument, of
  // kMostArgumentBytes at most, before the start
  // (LaunchMethod::Process::take_argument).
  static constexpr size_t kMostArgumentBytes = 512;
  void StartAgain(uint32_t index,
                  std::span<const std::byte> argument = {}) const;
  // Takes a note; returns false if the launcher has ended.
  bool Read(LaunchNote& note) const;

 private:
  Launcher(int socket, pid_t pid) : socket_(socket), pid_(pid) {}
  static absl::StatusOr<std::optional<Launcher>> Connect(
      const std::string& socket);
  void LetGo();

  int socket_;
  pid_t pid_;
  int pidfd_ = -1;  // if the launcher is another process's child
};

// A process of a launcher that is taken over.
struct KeptProcess {
  pid_t pid = -1;       // -1: it was killed, or was not started yet
  uint32_t starts = 0;  // how often it was started so far
};

struct Launcher::Kept {
  Launcher launcher;
  std::vector<KeptProcess> processes;  // by index
  std::vector<int> descriptors;  // LaunchKeep's, which are the caller's now
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LAUNCH_LAUNCHER_H_
