// SPDX-License-Identifier: Apache-2.0
#include "platform/process/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace snf {

absl::Status FlushStdout() {
  const bool was_ok = std::ferror(stdout) == 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && was_ok) return absl::OkStatus();
  const int error = errno == 0 ? EIO : errno;
  std::clearerr(stdout);
  __fpurge(stdout);
  return absl::UnavailableError(
      fmt::format("stdout: {}", std::strerror(error)));
}

void OccupyStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // Gets the lowest number that is free. Used in its direction, it fails.
    open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace snf
