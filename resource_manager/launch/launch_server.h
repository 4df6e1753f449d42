// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LAUNCH_LAUNCH_SERVER_H_
#define SNF_RESOURCE_MANAGER_LAUNCH_LAUNCH_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "resource_manager/launch/launcher.h"

namespace snf {

// The message of Launcher::Start.
struct Launch {
  std::vector<std::byte> setup;
  std::vector<int> descriptors;
  std::optional<LaunchKeep> keep{};
};
// Takes it from the socket. Errors: FailedPrecondition if the socket is not a
// launcher's.
absl::StatusOr<Launch> ReceiveLaunch(int socket);

// Makes standard input empty, and standard output the same as stderr: the
// original standard output is for no other process. Errors: Unavailable.
absl::Status LeaveStandardStreams();

// A way to start a process: by fork, or into a container.
class LaunchMethod {
 public:
  struct Process {
    // Loads the code and the data of others that `body` needs; called first, in
    // the new process. May be null. Under ContainerMethod, `prepare` may read
    // files of the container, `body` may not. If there is an error, it goes to
    // stderr and the process ends.
    std::function<absl::Status()> prepare{};
    // Returns the exit code. It is told how often the process was started
    // before.
    std::function<int(uint32_t)> body;
    // The descriptors that it gets, and standard ones.
    std::vector<int> descriptors;
    // Name of the process as the system shows it: at most 15 characters. A
    // confined process cannot change it.
    std::string name;
    bool is_at_once = true;  // started at once, not on request
    // Takes the argument of Launcher::StartAgain, in the launcher, before each
    // start that was asked for; may be null.
    std::function<void(std::span<const std::byte>)> take_argument{};
  };
  virtual ~LaunchMethod() = default;
  // Returns the process, which is the caller's child.
  virtual absl::StatusOr<pid_t> Start(uint32_t index, uint32_t starts,
                                      const Process& process) = 0;
  // The process has ended, and was waited for.
  virtual void on_ended(uint32_t /*index*/) {}

 protected:
  // Closes all descriptors except the given and the standard ones.
  static void CloseOthers(std::vector<int> descriptors);
  // Ends the calling process, with a line on stderr, if there is an error.
  static void EndUnless(const absl::Status& status);
};

// Starts processes by fork. They end with this one, by the kernel.
class ForkMethod final : public LaunchMethod {
 public:
  absl::StatusOr<pid_t> Start(uint32_t index, uint32_t starts,
                              const Process& process) override;
};

// Starts the processes: either at once or when Launcher::StartAgain asks for
// them, which it may for any process that does not run. Reports starts and ends
// to the socket. When the socket's other end is closed and, with `keep`, no
// other process takes its place, kills all live processes, waits for their ends
// and returns.
void ServeLaunch(int socket, LaunchMethod& method,
                 std::span<const LaunchMethod::Process> processes,
                 const LaunchKeep* keep = nullptr);
// Tells the socket why there will be no process, and waits until its other end
// is closed.
void RefuseLaunch(int socket, const absl::Status& status);

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LAUNCH_LAUNCH_SERVER_H_
