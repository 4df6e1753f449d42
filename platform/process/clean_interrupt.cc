// SPDX-License-Identifier: Apache-2.0
#include "platform/process/clean_interrupt.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>
#include <thread>
#include <utility>

#include "traces/byte_sink.h"

namespace snf {
namespace {

bool IsIgnored(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

int Wait(const sigset_t& signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  return signal;
}

[[noreturn]] void WaitAndEnd(const sigset_t& signals,
                             const std::string& command,
                             FirstInterrupt* first) {
  int signal = Wait(signals);
  while (first != nullptr && first->is_awaited.exchange(false)) {
    first->came = true;
    signal = Wait(signals);
  }
  const auto lock = ByteSink::RemovePartialFiles();
  // On a terminal there may be a line of progress.
  const std::string_view wipe = isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "";
  fmt::print(stderr, "{}{}: {}; no unfinished file is left\n", wipe, command,
             signal == SIGINT ? "interrupted" : "terminated");
  _exit(128 + signal);
}

}  // namespace

void EndCleanlyWhenInterrupted(std::string command, FirstInterrupt* first) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) {
    if (!IsIgnored(signal)) sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, command = std::move(command), first] {
    WaitAndEnd(signals, command, first);
  }).detach();
}

}  // namespace snf
