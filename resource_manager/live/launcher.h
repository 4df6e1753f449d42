// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_LAUNCHER_H_
#define SNF_RESOURCE_MANAGER_LIVE_LAUNCHER_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// Tells what became of a process that a launcher was to start.
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

// Theory of operation. A launcher is a small process of one thread that starts
// other processes by fork: it has loaded what they all need, once, so that a
// start costs no more than the fork. It is made by exec, so that it has nothing
// of the threads, descriptors and memory of the process that wants it.
//
//   snf ──exec──► launcher ──fork──► unit, unit …
//       ◄─notes──          ◄─pidfd─
//
// None outlives another: when its socket is closed, as it is when the process
// at the other end dies, the launcher ends all that it has started, and itself;
// and the units end with the launcher, by a signal of the kernel. They are in a
// process group of their own, which a terminal does not interrupt.
//
// Owner-thread only, but for fd() and Read, which another thread may use.
class Launcher {
 public:
  static constexpr size_t kMostSetupBytes = 64 * 1024;
  static constexpr size_t kMostDescriptors = 128;

  struct Options {
    std::string program;  // its file
    // Its arguments, behind which comes the number of a descriptor, for
    // ReceiveLaunch.
    std::vector<std::string> arguments;
    std::span<const std::byte> setup;
    std::span<const int> descriptors;  // which stay the caller's as well
  };
  // Errors: InvalidArgument for more than the limits above; Unavailable, with
  // the system's reason.
  static absl::StatusOr<Launcher> Start(const Options& options);

  Launcher(Launcher&& other) noexcept;
  Launcher& operator=(Launcher&& other) = delete;
  // Ends the launcher and all that it has started, and waits for that.
  ~Launcher();

  // Becomes readable when there is a note, or the launcher has ended.
  int fd() const { return socket_; }
  pid_t pid() const { return pid_; }
  // Asks for the process with that index, which has ended or was not started
  // yet. A note says what becomes of that.
  void StartAgain(uint32_t index) const;
  // Takes a note; returns false if the launcher has ended.
  bool Read(LaunchNote& note) const;

 private:
  Launcher(int socket, pid_t pid) : socket_(socket), pid_(pid) {}

  int socket_;
  pid_t pid_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_LAUNCHER_H_
