// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/text/stderr_line.h"
#include "platform/commands/host/host_command.h"
#include "platform/process/exit_code.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

// For daemons to drain their units here once the host has left.
constexpr Nanos kDrain = Seconds(15);
// For a child to end after a signal.
constexpr Nanos kEnding = Seconds(5);
constexpr Nanos kLook = Milliseconds(50);

// Takes the message READY=1 of a child, as systemd would (sd_notify(3)).
class Readiness {
 public:
  // Error: Unavailable, with the system's reason.
  absl::Status Open() {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(sa_family_t);  // the kernel chooses the name
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_ < 0 || bind(socket_, generic, size) != 0 ||
        getsockname(socket_, generic, &(size = sizeof(address))) != 0) {
      return absl::UnavailableError(
          fmt::format("a socket: {}", std::strerror(errno)));
    }
    const size_t before = offsetof(sockaddr_un, sun_path) + 1;
    name_ = "@" + std::string(&address.sun_path[1], size - before);
    return absl::OkStatus();
  }
  Readiness() = default;
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;
  ~Readiness() {
    if (socket_ >= 0) close(socket_);
  }
  // In the child, before it runs its program.
  void BeOfThisProcess() const { setenv("NOTIFY_SOCKET", name_.c_str(), 1); }
  bool Came() const {
    char text[64] = {};
    return recv(socket_, text, sizeof(text) - 1, 0) > 0 &&
           std::string_view(text) == "READY=1";
  }

 private:
  int socket_ = -1;
  std::string name_;
};

// Runs the commands of one host as children, until one of them ends or a signal
// comes. The host joins once its agent listens. Also the first process of a
// container: reaps inherited children. In a process with one thread.
class HostProcesses {
 public:
  HostProcesses() {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) {
      sigaddset(&signals_, signal);
    }
    sigprocmask(SIG_BLOCK, &signals_, &before_);
  }
  ~HostProcesses() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  HostProcesses(const HostProcesses&) = delete;
  HostProcesses& operator=(const HostProcesses&) = delete;

  absl::Status Run(const std::vector<std::string>& serve,
                   const std::vector<std::string>& join) {
    Readiness listens;
    if (absl::Status s = listens.Open(); !s.ok()) return s;
    if (absl::Status s = Start(serve, serve_, &listens); !s.ok()) return s;
    while (!serve_.state && !listens.Came()) {
      if (!Wait(kLook)) continue;
      End(serve_);
      return absl::CancelledError("interrupted before the host has joined");
    }
    if (serve_.state) return EndOf("snf host serve", *serve_.state);
    if (absl::Status s = Start(join, join_, nullptr); !s.ok()) {
      End(serve_);
      return s;
    }
    while (!serve_.state && !join_.state) {
      if (Wait(Seconds(60))) End(join_);
    }
    if (serve_.state) {
      End(join_);
      return EndOf("snf host serve", *serve_.state);
    }
    const bool has_left =
        WIFEXITED(*join_.state) && WEXITSTATUS(*join_.state) == 0;
    if (has_left) AwaitDrain();
    End(serve_);
    return has_left ? absl::OkStatus() : EndOf("snf host join", *join_.state);
  }

 private:
  struct Child {
    pid_t pid = -1;
    std::optional<int> state{};  // once the child has ended
  };

  // Keeps a terminal's Ctrl-C from this child: its parent ends all in order.
  static void LeaveForeground() {
    setpgid(0, 0);
    // Discards a Ctrl-C that came before.
    void (*const before)(int) = signal(SIGINT, SIG_IGN);
    signal(SIGINT, before);
  }

  // The child tells `readiness`, unless that is null.
  absl::Status Start(const std::vector<std::string>& words, Child& child,
                     const Readiness* readiness) {
    std::error_code error;
    const std::string program =
        std::filesystem::read_symlink("/proc/self/exe", error).string();
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (const std::string& word : words) {
      arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    const pid_t parent = getpid();
    child.pid = fork();
    if (child.pid < 0) {
      return absl::UnavailableError(
          fmt::format("fork: {}", std::strerror(errno)));
    }
    if (child.pid > 0) return absl::OkStatus();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    LeaveForeground();
    if (readiness != nullptr) readiness->BeOfThisProcess();
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    execv(program.c_str(), arguments.data());
    PrintOnStderr("{}: {}\n", program, std::strerror(errno));
    _exit(1);
  }

  // Waits for a signal. Returns true if the host is to end.
  bool Wait(Nanos patience) {
    const timespec time = {.tv_sec = patience.ns / Seconds(1).ns,
                           .tv_nsec = patience.ns % Seconds(1).ns};
    const int signal = sigtimedwait(&signals_, nullptr, &time);
    int state = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &state, WNOHANG)) > 0;) {
      for (Child* child : {&serve_, &join_}) {
        if (child->pid == pid) child->state = state;
      }
    }
    return signal == SIGTERM || signal == SIGINT;
  }

  // Ends a child by SIGTERM, or by SIGKILL after kEnding.
  void End(Child& child) {
    if (child.state) return;
    kill(child.pid, SIGTERM);
    const Instant due = RealClock::Monotonic() + kEnding;
    while (!child.state && RealClock::Monotonic() < due) Wait(kLook);
    if (child.state) return;
    kill(child.pid, SIGKILL);
    while (!child.state) Wait(kLook);
  }

  // The agent has a child for each process of units; daemons end them once the
  // units are drained.
  bool HasUnits() const {
    std::ifstream children(
        fmt::format("/proc/{}/task/{}/children", serve_.pid, serve_.pid));
    std::string child;
    return static_cast<bool>(children >> child);
  }
  void AwaitDrain() {
    const Instant due = RealClock::Monotonic() + kDrain;
    while (!serve_.state && HasUnits() && RealClock::Monotonic() < due) {
      Wait(kLook);
    }
  }

  // Returns the error of a command that has ended by itself: the exit code of
  // this process is the command's.
  static absl::Status EndOf(const char* command, int state) {
    if (!WIFEXITED(state)) {
      return absl::InternalError(
          fmt::format("{} was ended by signal {}", command, WTERMSIG(state)));
    }
    const int code = WEXITSTATUS(state);
    const std::string text =
        fmt::format("{} has ended with exit code {}", command, code);
    return code == kExitOk ? absl::InternalError(text)
                           : StatusOfExit(code, text);
  }

  sigset_t signals_{};
  sigset_t before_{};
  Child serve_;
  Child join_;
};

class HostRunCommand final : public HostCommand {
 public:
  HostRunCommand()
      : HostCommand(
            {.summary = "serve as a host, and be one of a cluster's",
             .usage = "snf host run NAME --etcd=HOST:PORT,… "
                      "--listen=ADDRESS:PORT [--from=ADDRESS,…] "
                      "[--units=COUNT] [--tls=DIRECTORY | --geneve]",
             .about =
                 "Runs snf host serve and snf host join together, until "
                 "Ctrl-C, SIGTERM or snf host leave, as the first process of a "
                 "container if need be. The host joins once its agent listens. "
                 "The host leaves the cluster first; its "
                 "agent ends once daemons have drained their units here, or "
                 "after 15 s. If one of the two commands fails, both end, "
                 "with its exit code."}) {
    flags().Argument("NAME", name_of_host_);
    AddEtcd();
    flags().Text("listen", listen_, "ADDRESS:PORT",
                 "address at which daemons connect, and by which they know "
                 "this host");
    flags().Text("from", from_, "ADDRESS,…",
                 "addresses of the daemons' hosts; all others are refused");
    flags().Text("tls", tls_, "DIRECTORY", "encrypt, as of snf host serve");
    capacity_.AddTo(flags(),
                    "let daemons ask for --host_wire=geneve, as of snf "
                    "host serve");
  }

 private:
  absl::Status Run() override {
    if (listen_.empty()) {
      return absl::InvalidArgumentError(
          "--listen: is missing; as --listen=192.0.2.2:7000");
    }
    absl::Status checked = CheckEntry(name_of_host_, "listen", listen_);
    checked.Update(ReadFrom(from_).status());
    if (!checked.ok()) return checked;
    if (capacity_.geneve && !tls_.empty()) {
      return absl::InvalidArgumentError(
          "--geneve: does not go with --tls, since GENEVE encrypts nothing");
    }
    std::vector<std::string> serve = {"snf", "host", "serve"};
    std::vector<std::string> join = {"snf", "host", "join", name_of_host_,
                                     "--address=" + listen_};
    for (const std::string& flag :
         GivenFlags(flags(), {"listen", "from", "tls", "geneve"})) {
      serve.push_back(flag);
    }
    for (const std::string& flag : GivenFlags(flags(), kJoinFlags)) {
      join.push_back(flag);
    }
    absl::Status status = HostProcesses().Run(serve, join);
    // LXD removes what a container has printed together with the container.
    if (!status.ok() && getpid() == 1) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kEnding.ns));
    }
    return status;
  }

  std::string name_of_host_;
  std::string listen_;
  std::string from_ = "127.0.0.1";
  std::string tls_;
  HostCapacity capacity_;
};

}  // namespace

std::vector<std::string> GivenFlags(const FlagSet& flags,
                                    const std::vector<std::string>& names) {
  std::vector<std::string> given;
  for (const std::string& name : names) {
    if (flags.given(name)) given.push_back(flags.Printed(name));
  }
  return given;
}

std::unique_ptr<Command> CreateHostRunCommand() {
  return std::make_unique<HostRunCommand>();
}

}  // namespace snf
