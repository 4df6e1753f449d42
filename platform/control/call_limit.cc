// SPDX-License-Identifier: Apache-2.0
#include "platform/control/call_limit.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>

#include "base/check.h"
#include "platform/process/exit_code.h"

namespace snf {
namespace {

// What the handler writes: it may neither allocate nor lock.
std::array<char, 512> line_of_limit;
size_t bytes_of_limit = 0;
bool is_limited = false;

void EndTheProcess(int /*signal*/) {
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line_of_limit.data(), bytes_of_limit);
  _exit(kExitUnavailable);
}

void SetTimer(Nanos most) {
  const itimerval timer = {
      .it_interval = {},
      .it_value = {.tv_sec = most.ns / 1'000'000'000,
                   .tv_usec = most.ns % 1'000'000'000 / 1'000}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

CallLimit::CallLimit(const std::string& line, Nanos most) {
  SNF_CHECK(!is_limited);
  is_limited = true;
  bytes_of_limit = std::min(line.size(), line_of_limit.size() - 1);
  std::copy_n(line.begin(), bytes_of_limit, line_of_limit.begin());
  line_of_limit[bytes_of_limit++] = '\n';
  std::signal(SIGALRM, EndTheProcess);
  SetTimer(most);
}

CallLimit::~CallLimit() {
  SetTimer(Nanos{0});
  is_limited = false;
}

}  // namespace snf
