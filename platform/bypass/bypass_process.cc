// SPDX-License-Identifier: Apache-2.0
#include "platform/bypass/bypass_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>

#include "base/quantity.h"
#include "base/text/wording.h"
#include "platform/bypass/bypass_core.h"
#include "platform/bypass/bypass_ports.h"
#include "platform/bypass/bypass_state.h"
#include "platform/process/exit_code.h"
#include "platform/service/daemon_log.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

using Phase = BypassCore::Phase;

int PidfdOf(const std::string& pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, std::atoi(pid.c_str()), 0));
}

// The guard's loop. It has memory for packets only while packets pass.
class Guard {
 public:
  Guard(const DaemonFiles& files, const std::vector<std::string>& words);

  // Returns once the guard is to end, with nothing left behind.
  void Run();

 private:
  static constexpr Nanos kLookPeriod = Milliseconds(1);
  static constexpr Nanos kTellPeriod = Milliseconds(100);
  static constexpr Nanos kOpenPeriod = Milliseconds(200);
  static constexpr int kMostSleepMs = 10;
  static constexpr int kMostEndMs = 1'000;

  void Sleep();
  void HearDaemon();
  void HearSignal();
  bool is_claimed() const;
  void Look(Instant now);
  void Tell(Phase before);
  void OpenPorts(Instant now);
  void ClosePorts();
  void Write();
  std::string Counted() const;

  const DaemonFiles& files_;
  const std::string inside_;
  const std::string outside_;
  LogOptions log_;
  const std::string daemon_;  // the number of its process
  const Descriptor process_;  // of the daemon
  const Descriptor life_;
  const Descriptor file_;
  Descriptor signals_;
  BypassCore core_;
  BypassState told_;
  std::optional<BypassPorts> ports_;
  std::string open_error_;  // that was logged
  Instant next_look_{};
  Instant next_tell_{};
  Instant next_open_{};
};

Guard::Guard(const DaemonFiles& files, const std::vector<std::string>& words)
    : files_(files),
      inside_(words[1]),
      outside_(words[2]),
      log_{.file = words[4], .json = words[5] == "json"},
      daemon_(words[7]),
      process_(PidfdOf(words[7])),
      life_(kBypassLife),
      file_(kBypassFile),
      core_(Nanos{std::atoll(words[3].c_str())}) {
  ParseLogLevel(words[6], log_.level);
  told_.pid = getpid();
  told_.patience = Nanos{std::atoll(words[3].c_str())};
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT}) {
    sigaddset(&signals, signal);
  }
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = Descriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) {
    ::signal(signal, SIG_IGN);
  }
}

void Guard::Run() {
  while (core_.state() != Phase::kEnded) {
    Sleep();
    const Instant now = RealClock::Monotonic();
    if (now < next_look_) {
      if (ports_.has_value()) ports_->Pass();
      continue;
    }
    next_look_ = now + kLookPeriod;
    Look(now);
    if (ports_.has_value()) ports_->Pass();
  }
  ClosePorts();
  // The next guard opens its file after the end of this process.
  unlink(BypassFileOf(files_).c_str());
  if (!core_.is_daemon_gone()) return;
  for (const std::string& name : {inside_, outside_}) {
    NetworkInterface(name).Join();  // switches features on again
  }
}

void Guard::Sleep() {
  std::array<pollfd, 4> waits = {
      pollfd{.fd = signals_.number(), .events = POLLIN, .revents = 0},
      pollfd{.fd = -1, .events = POLLIN, .revents = 0},
      pollfd{.fd = -1, .events = POLLIN, .revents = 0},
      pollfd{.fd = -1, .events = POLLIN, .revents = 0}};
  const bool is_armed = core_.state() == Phase::kArmed;
  if (is_armed) waits[1].fd = life_.number();
  if (ports_.has_value()) {
    waits[2].fd = ports_->descriptors()[0];
    waits[3].fd = ports_->descriptors()[1];
  }
  poll(waits.data(), waits.size(), is_armed ? -1 : kMostSleepMs);
  if (waits[0].revents != 0) HearSignal();
  if (waits[1].revents != 0) HearDaemon();
}

void Guard::HearSignal() {
  signalfd_siginfo came{};
  if (read(signals_.number(), &came, sizeof came) == sizeof came) {
    const Phase before = core_.state();
    core_.on_told_to_end();
    Tell(before);
  }
}

void Guard::HearDaemon() {
  char byte = 0;
  if (recv(life_.number(), &byte, sizeof byte, 0) > 0) {
    core_.on_clean_end();
    return;
  }
  core_.on_daemon_gone(RealClock::Monotonic());
  // A process that ends closes its descriptors one by one: its claims are gone
  // with the process, and are no other daemon.
  pollfd end = {.fd = process_.number(), .events = POLLIN, .revents = 0};
  poll(&end, 1, kMostEndMs);
  OpenLog(log_).IgnoreError();  // packets matter more
  Tell(Phase::kArmed);
}

bool Guard::is_claimed() const {
  return NetworkInterface(inside_).is_claimed("") ||
         NetworkInterface(outside_).is_claimed("");
}

void Guard::Look(Instant now) {
  const Phase before = core_.state();
  if (before == Phase::kArmed || before == Phase::kEnded) return;
  const Phase state = core_.Look(now, is_claimed());
  if (state != Phase::kPassing) ClosePorts();
  if (state == Phase::kPassing) OpenPorts(now);
  if (state != before) {
    Tell(before);
  } else if (now >= next_tell_) {
    next_tell_ = now + kTellPeriod;
    if (ports_.has_value()) ports_->AddCounts(told_.counts);
    Write();
  }
}

void Guard::OpenPorts(Instant now) {
  if (ports_.has_value() && ports_->status().ok()) return;
  if (now < next_open_) return;
  next_open_ = now + kOpenPeriod;
  ClosePorts();
  auto opened = BypassPorts::Open(inside_, outside_);
  if (opened.ok()) {
    ports_.emplace(*std::move(opened));
    if (!open_error_.empty()) {
      LogLine(LogLevel::kWarning, "--bypass: the interfaces are back");
    }
    open_error_.clear();
    return;
  }
  std::string error(opened.status().message());
  if (error == open_error_) return;
  LogLine(LogLevel::kError,
          fmt::format("--bypass: no packets pass: {}", error));
  open_error_ = std::move(error);
}

void Guard::ClosePorts() {
  if (!ports_.has_value()) return;
  ports_->AddCounts(told_.counts);
  ports_.reset();
}

std::string Guard::Counted() const {
  return fmt::format("{} came from the inside, {} from the outside, {} dropped",
                     Plural(told_.counts.inside, "frame"), told_.counts.outside,
                     told_.counts.dropped);
}

void Guard::Write() { WriteBypassState(file_, told_); }

// Writes and logs a new state.
void Guard::Tell(Phase before) {
  told_.state = core_.state();
  told_.since = PacketPort::WallClock();
  Write();
  switch (core_.state()) {
    case Phase::kWaiting:
      LogLine(LogLevel::kWarning,
              fmt::format("--bypass: {} is gone; packets pass unprocessed "
                          "unless another daemon comes within {}",
                          before == Phase::kArmed
                              ? fmt::format("the daemon (process {})", daemon_)
                              : "the process that had the interfaces",
                          FormatDuration(told_.patience)));
      break;
    case Phase::kPassing:
      LogLine(LogLevel::kError,
              fmt::format("--bypass: the daemon is gone; packets pass "
                          "unprocessed between {} and {}",
                          inside_, outside_));
      break;
    case Phase::kGivenWay:
      LogLine(LogLevel::kWarning,
              fmt::format("--bypass: another process has the interfaces; "
                          "packets pass unprocessed no more: {}",
                          Counted()));
      break;
    case Phase::kEnded:
      if (ports_.has_value()) ports_->AddCounts(told_.counts);
      if (core_.is_daemon_gone()) {
        LogLine(LogLevel::kInfo,
                fmt::format("--bypass: the guard ends: {}", Counted()));
      }
      break;
    case Phase::kArmed:
      break;
  }
}

}  // namespace

int BypassProcessMain(const std::vector<std::string>& words) {
  if (words.size() != kBypassWords) return kExitUsage;
  close_range(kBypassFile + 1, ~0U, 0);
  prctl(PR_SET_NAME, "snf-bypass");
  const absl::StatusOr<DaemonFiles> files = DaemonFiles::Of(words[0]);
  if (!files.ok()) return kExitUsage;
  Guard(*files, words).Run();
  return kExitOk;
}

}  // namespace snf
