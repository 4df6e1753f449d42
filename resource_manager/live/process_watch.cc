// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/process_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

// In glibc 2.36 the header does not say that its functions are C's.
extern "C" {
#include <sys/pidfd.h>
}

namespace snf {

std::optional<ProcessId> ProcessIdOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The name, in brackets, may have blanks and brackets; the 20th word behind
  // it is the start time.
  const size_t bracket = text.rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(bracket + 1));
  std::string skipped;
  for (int i = 0; i < 19; ++i) words >> skipped;
  uint64_t start_time = 0;
  if (!(words >> start_time)) return std::nullopt;
  return ProcessId{pid, start_time};
}

ProcessId OwnProcessId() {
  return ProcessIdOf(getpid()).value_or(ProcessId{getpid(), 0});
}

std::string OwnMachine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string machine;
  file >> machine;
  for (const char* const name : {"/proc/self/ns/net", "/proc/self/ns/pid"}) {
    struct stat of {};
    machine += fmt::format("/{}", stat(name, &of) == 0 ? of.st_ino : 0);
  }
  return machine;
}

// Once the file is open, the number is not used again for another process: so
// what is read then is of this one.
ProcessWatch::ProcessWatch(ProcessId process) {
  if (process.pid <= 0) return;
  file_ = pidfd_open(process.pid, 0);
  if (file_ >= 0 && ProcessIdOf(process.pid) != process) {
    close(std::exchange(file_, -1));
  }
}

ProcessWatch::~ProcessWatch() {
  if (file_ >= 0) close(file_);
}

ProcessWatch::ProcessWatch(ProcessWatch&& other) noexcept
    : file_(std::exchange(other.file_, -1)) {}

ProcessWatch& ProcessWatch::operator=(ProcessWatch&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

bool ProcessWatch::is_alive() const {
  if (file_ < 0) return false;
  pollfd entry = {.fd = file_, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) == 0;
}

}  // namespace snf
