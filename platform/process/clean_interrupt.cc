// SPDX-License-Identifier: Apache-2.0
#include "platform/process/clean_interrupt.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "base/text/stderr_line.h"
#include "traces/byte_sink.h"

namespace snf {
namespace {

bool IsIgnored(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

// Signals that end a process by default and that another process may send.
// NfGuard needs SIGALRM; faults, profilers and pipes keep their default.
constexpr std::array kSignals = {SIGINT,  SIGTERM, SIGHUP,    SIGQUIT, SIGUSR1,
                                 SIGUSR2, SIGPWR,  SIGSTKFLT, SIGIO};

// Returns the next signal that ends the process.
int Wait(const sigset_t& signals, const std::function<void(int)>& on_hangup) {
  while (true) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    const bool is_hangup = signal == SIGHUP || signal == SIGUSR1;
    if (!is_hangup || on_hangup == nullptr) return signal;
    on_hangup(signal);
  }
}

[[noreturn]] void WaitAndEnd(const sigset_t& signals,
                             const std::string& command, FirstInterrupt* first,
                             const std::function<void(int)>& on_hangup) {
  int signal = Wait(signals, on_hangup);
  while (first != nullptr && first->is_awaited.exchange(false)) {
    first->signal = signal;
    first->came = true;
    signal = Wait(signals, on_hangup);
  }
  const auto lock = ByteSink::RemovePartialFiles();
  // On a terminal there may be a line of progress.
  const std::string_view wipe = isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "";
  const std::string how = signal == SIGINT ? "interrupted"
                          : signal == SIGTERM
                              ? "terminated"
                              : "ended by " + NameOfSignal(signal);
  PrintOnStderr("{}{}: {}; no unfinished file is left\n", wipe, command, how);
  _exit(128 + signal);
}

}  // namespace

std::string NameOfSignal(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal)
                         : fmt::format("SIG{}", name);
}

void EndCleanlyWhenInterrupted(std::string command, FirstInterrupt* first,
                               std::function<void(int)> on_hangup) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kSignals) {
    const bool is_hangup = signal == SIGHUP || signal == SIGUSR1;
    if (is_hangup && on_hangup != nullptr) std::signal(signal, SIG_DFL);
    if (!IsIgnored(signal)) sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, command = std::move(command), first,
               on_hangup = std::move(on_hangup)] {
    WaitAndEnd(signals, command, first, on_hangup);
  }).detach();
}

}  // namespace snf
