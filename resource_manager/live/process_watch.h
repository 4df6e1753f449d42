// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_LIVE_PROCESS_WATCH_H_
#define SNF_RESOURCE_MANAGER_LIVE_PROCESS_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace snf {

// Names a process of this machine; no other one has both numbers.
struct ProcessId {
  pid_t pid = 0;
  uint64_t start_time = 0;  // in ticks since the machine was started
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

// Returns what names this process, or another one; none if there is none.
ProcessId OwnProcessId();
std::optional<ProcessId> ProcessIdOf(pid_t pid);

// Names this machine since its start, and the namespaces of networks and
// processes that this process has, without blanks. A ProcessId is of one such
// machine.
std::string OwnMachine();

// Tells whether a process lives. One that ended counts as dead although its
// parent has not taken notice. Owner-thread only.
class ProcessWatch {
 public:
  // If there is no such process, it is dead.
  explicit ProcessWatch(ProcessId process);
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&& other) noexcept;
  ProcessWatch& operator=(ProcessWatch&& other) noexcept;

  bool is_alive() const;

 private:
  int file_ = -1;  // of pidfd_open; -1: it is dead
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_LIVE_PROCESS_WATCH_H_
