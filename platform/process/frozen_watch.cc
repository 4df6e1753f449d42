// SPDX-License-Identifier: Apache-2.0
#include "platform/process/frozen_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace snf {

bool FrozenWatch::Look(Instant now, size_t process, pid_t pid, uint64_t done) {
  Seen& seen = seen_[process];
  if (pid <= 1 || pid != seen.pid || done != seen.done || !IsStopped(pid)) {
    seen = {.pid = pid, .done = done};
    return false;
  }
  if (seen.stopped == Instant::max()) seen.stopped = now;
  if (now - seen.stopped < kPatience) return false;
  seen = {};
  return true;
}

// The state stands behind the name, which may have any characters in it
// (proc(5)).
bool FrozenWatch::IsStopped(pid_t pid) {
  const int file =
      open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, 128> bytes;
  const ssize_t size = read(file, bytes.data(), bytes.size());
  close(file);
  if (size <= 0) return false;
  const std::string_view text(bytes.data(), static_cast<size_t>(size));
  const size_t name_end = text.rfind(')');
  return name_end != std::string_view::npos &&
         text.substr(name_end).starts_with(") T");
}

}  // namespace snf
