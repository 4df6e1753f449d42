// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/launch/launch_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "resource_manager/launch/launch_wire.h"
#include "resource_manager/launch/launcher.h"

namespace snf {
namespace {

struct Started {
  pid_t pid = -1;  // -1: it has ended
  int pidfd = -1;
  uint32_t starts = 0;
  bool was_killed = true;  // the previous process, by SIGKILL
};

void Tell(int socket, const LaunchNote& note) {
  // A receiver that does not listen any more has closed its end.
  [[maybe_unused]] const auto sent =
      send(socket, &note, sizeof(note), MSG_NOSIGNAL);
}

void TellRefused(int socket, uint32_t index, const absl::Status& status) {
  LaunchNote note = {.kind = LaunchNote::Kind::kRefused,
                     .index = index,
                     .status = static_cast<int>(status.code())};
  const std::string text(status.message());
  std::memcpy(note.text.data(), text.data(),
              std::min(text.size(), note.text.size() - 1));
  Tell(socket, note);
}

void StartOne(int socket, LaunchMethod& method, uint32_t index,
              const LaunchMethod::Process& process, Started& child) {
  const absl::StatusOr<pid_t> pid =
      method.Start(index, child.starts++, process);
  if (!pid.ok()) {
    method.on_ended(index);
    TellRefused(socket, index, pid.status());
    return;
  }
  const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, *pid, 0));
  if (pidfd < 0) {  // its end could not be seen
    const int error = errno;
    kill(*pid, SIGKILL);
    while (waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    method.on_ended(index);
    TellRefused(socket, index,
                absl::UnavailableError(
                    absl::StrCat("pidfd_open: ", std::strerror(error))));
    return;
  }
  child.pid = *pid;
  child.pidfd = pidfd;
  Tell(socket,
       {.kind = LaunchNote::Kind::kStarted, .index = index, .pid = *pid});
}

// Waits for its end, which is at hand.
void Reap(int socket, uint32_t index, Started& child, LaunchMethod& method) {
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  Tell(socket, {.kind = LaunchNote::Kind::kEnded,
                .index = index,
                .pid = child.pid,
                .status = status});
  close(child.pidfd);
  const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  child = {.starts = child.starts, .was_killed = was_killed};
  method.on_ended(index);
}

// Listens from the beginning: who comes just after the end finds it.
class Keeper {
 public:
  explicit Keeper(const LaunchKeep* keep) : keep_(keep) {
    sockaddr_un address;
    if (keep == nullptr || !SocketAddressOf(keep->socket, address)) return;
    listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    unlink(keep->socket.c_str());
    const mode_t before = umask(0177);
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&address),
             sizeof(address)) != 0 ||
        listen(listener_, 1) != 0) {
      close(std::exchange(listener_, -1));
    }
    umask(before);
    stat(keep->socket.c_str(), &own_);
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper() {
    if (listener_ < 0) return;
    // Another launcher may have the name by now.
    struct stat now = {};
    if (stat(keep_->socket.c_str(), &now) == 0 && now.st_ino == own_.st_ino &&
        now.st_dev == own_.st_dev) {
      unlink(keep_->socket.c_str());
    }
    close(listener_);
  }

  // Returns the socket of the process that replaces the killed one; -1 if none
  // comes in time, or a process has failed. Calls `reap` for processes that end
  // meanwhile.
  template <typename Reap>
  int Await(std::span<const Started> children, const Reap& reap) const {
    if (listener_ < 0) return -1;
    const auto end =
        Clock::now() + std::chrono::milliseconds(keep_->patience_ms);
    std::vector<pollfd> waits(children.size() + 1);
    while (std::ranges::all_of(children, &Started::was_killed)) {
      for (size_t i = 0; i < children.size(); ++i) {
        waits[i] = {.fd = children[i].pidfd, .events = POLLIN, .revents = 0};
      }
      waits.back() = {.fd = listener_, .events = POLLIN, .revents = 0};
      if (poll(waits.data(), waits.size(), MsUntil(end)) == 0) return -1;
      for (uint32_t i = 0; i < children.size(); ++i) {
        if (waits[i].revents != 0) reap(i);
      }
      if (waits.back().revents == 0) continue;
      const int next = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (next < 0) continue;
      const Asked asked = Serve(next, children, MsUntil(end));
      if (asked == Asked::kTaken) return next;
      close(next);
      if (asked == Asked::kEnd) return -1;
    }
    RefuseNext();
    return -1;
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Asked { kNothing, kTaken, kEnd };

  static int MsUntil(Clock::time_point end) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    return static_cast<int>(std::max<int64_t>(left.count(), 0));
  }
  // Refuses a process that already waits to take over.
  void RefuseNext() const {
    pollfd wait = {.fd = listener_, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, 0) <= 0) return;
    const int next = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (next < 0) return;
    Answer(next, {.kind = KeptHead::Kind::kEnded}, {}, {});
    close(next);
  }
  static bool Answer(int socket, const KeptHead& head,
                     std::span<const std::byte> rest,
                     std::span<const int> descriptors) {
    std::vector<std::byte> bytes(sizeof(head));
    std::memcpy(bytes.data(), &head, sizeof(head));
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    return SendWithDescriptors(socket, bytes, descriptors);
  }
  // Serves one request. A peer that closes the connection, or sends nothing in
  // time, has asked for nothing.
  Asked Serve(int socket, std::span<const Started> children,
              int left_ms) const {
    pollfd wait = {.fd = socket, .events = POLLIN, .revents = 0};
    std::vector<std::byte> bytes(sizeof(KeptHello) +
                                 Launcher::kMostIdentityBytes);
    std::vector<int> none;
    KeptHello hello;
    if (poll(&wait, 1, kHelloMs) <= 0 ||
        !ReceiveWithDescriptors(socket, bytes, none) ||
        bytes.size() < sizeof(hello)) {
      return Asked::kNothing;
    }
    std::memcpy(&hello, bytes.data(), sizeof(hello));
    std::vector<KeptProcess> processes;
    for (const Started& child : children) {
      processes.push_back({.pid = child.pid, .starts = child.starts});
    }
    const auto all = std::as_bytes(std::span(processes));
    const auto own = std::as_bytes(std::span(keep_->identity));
    switch (hello.kind) {
      case KeptHello::Kind::kLook:
        Answer(socket, {.kind = KeptHead::Kind::kWaits, .left_ms = left_ms},
               all, {});
        return Asked::kNothing;
      case KeptHello::Kind::kEnd:
        return Asked::kEnd;
      case KeptHello::Kind::kTake:
        break;
    }
    if (!std::ranges::equal(std::span(bytes).subspan(sizeof(hello)), own)) {
      Answer(socket, {.kind = KeptHead::Kind::kOther}, own, {});
      return Asked::kEnd;
    }
    return Answer(socket, {.kind = KeptHead::Kind::kTaken}, all,
                  keep_->descriptors)
               ? Asked::kTaken
               : Asked::kNothing;
  }

  static constexpr int kHelloMs = 1'000;
  const LaunchKeep* keep_;
  int listener_ = -1;
  struct stat own_ = {};
};

}  // namespace

absl::StatusOr<Launch> ReceiveLaunch(int socket) {
  std::vector<std::byte> bytes(Launcher::kMostSetupBytes +
                               Launcher::kMostIdentityBytes +
                               sizeof(LaunchHead) + sizeof(sockaddr_un));
  Launch launch;
  LaunchHead head;
  const bool is_whole =
      ReceiveWithDescriptors(socket, bytes, launch.descriptors);
  if (bytes.size() >= sizeof(head)) {
    std::memcpy(&head, bytes.data(), sizeof(head));
  }
  const size_t words =
      sizeof(head) + size_t{head.socket_bytes} + head.identity_bytes;
  if (!is_whole || launch.descriptors.empty() || bytes.size() < words ||
      launch.descriptors.size() < head.kept) {
    for (const int descriptor : launch.descriptors) close(descriptor);
    return absl::FailedPreconditionError(absl::StrCat(
        "descriptor ", socket, " is not the socket of a launcher"));
  }
  if (head.socket_bytes > 0) {
    const auto* const text =
        reinterpret_cast<const char*>(bytes.data() + sizeof(head));
    const auto first_kept =
        launch.descriptors.end() - static_cast<std::ptrdiff_t>(head.kept);
    launch.keep = {
        .socket = std::string(text, head.socket_bytes),
        .patience_ms = head.patience_ms,
        .identity = std::string(text + head.socket_bytes, head.identity_bytes),
        .descriptors = {first_kept, launch.descriptors.end()}};
    launch.descriptors.erase(first_kept, launch.descriptors.end());
  }
  launch.setup.assign(bytes.begin() + static_cast<std::ptrdiff_t>(words),
                      bytes.end());
  return launch;
}

absl::Status LeaveStandardStreams() {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
      dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return absl::UnavailableError(
        absl::StrCat("/dev/null: ", std::strerror(errno)));
  }
  close(nothing);
  return absl::OkStatus();
}

void LaunchMethod::CloseOthers(std::vector<int> descriptors) {
  std::ranges::sort(descriptors);
  unsigned first = STDERR_FILENO + 1;
  for (const int kept : descriptors) {
    const auto next = static_cast<unsigned>(kept);
    if (next > first) syscall(SYS_close_range, first, next - 1, 0);
    first = next + 1;
  }
  syscall(SYS_close_range, first, ~0u, 0);
}

absl::StatusOr<pid_t> ForkMethod::Start(uint32_t /*index*/, uint32_t starts,
                                        const Process& process) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    return absl::UnavailableError(absl::StrCat("fork: ", std::strerror(errno)));
  }
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it ended before that
  CloseOthers(process.descriptors);
  if (process.prepare != nullptr) EndUnless(process.prepare());
  _exit(process.body(starts));
}

void LaunchMethod::EndUnless(const absl::Status& status) {
  if (status.ok()) return;
  const std::string line =
      absl::StrCat("snf: ", std::string(status.message()), "\n");
  [[maybe_unused]] const auto written =
      write(STDERR_FILENO, line.data(), line.size());
  _exit(1);
}

void RefuseLaunch(int socket, const absl::Status& status) {
  TellRefused(socket, 0, status);
  pollfd wait = {.fd = socket, .events = POLLIN, .revents = 0};
  while (poll(&wait, 1, -1) <= 0) {
  }
}

void ServeLaunch(int socket, LaunchMethod& method,
                 std::span<const LaunchMethod::Process> processes,
                 const LaunchKeep* keep) {
  const Keeper keeper(keep);
  const auto count = static_cast<uint32_t>(processes.size());
  std::vector<Started> children(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (!processes[i].is_at_once) continue;
    StartOne(socket, method, i, processes[i], children[i]);
  }
  // A negative descriptor is passed over.
  std::vector<pollfd> waits(count + 1);
  bool is_open = true;
  while (is_open) {
    waits[count] = {.fd = socket, .events = POLLIN, .revents = 0};
    for (uint32_t i = 0; i < count; ++i) {
      waits[i] = {.fd = children[i].pidfd, .events = POLLIN, .revents = 0};
    }
    if (poll(waits.data(), waits.size(), -1) < 0) continue;
    for (uint32_t i = 0; i < count; ++i) {
      if (waits[i].revents != 0) Reap(socket, i, children[i], method);
    }
    if (waits[count].revents == 0) continue;
    uint32_t index = 0;
    std::array<std::byte, sizeof(index) + Launcher::kMostArgumentBytes> message;
    const ssize_t size = recv(socket, message.data(), message.size(), 0);
    if (size < static_cast<ssize_t>(sizeof(index))) {
      const int next = keeper.Await(
          children, [&](uint32_t i) { Reap(socket, i, children[i], method); });
      is_open = next >= 0 && dup3(next, socket, O_CLOEXEC) >= 0;
      if (next >= 0) close(next);
      continue;
    }
    std::memcpy(&index, message.data(), sizeof(index));
    is_open = index != kLaunchEnds;
    if (!is_open || index >= count || children[index].pid > 0) continue;
    if (processes[index].take_argument != nullptr) {
      processes[index].take_argument(std::span(message)
                                         .first(static_cast<size_t>(size))
                                         .subspan(sizeof(index)));
    }
    StartOne(socket, method, index, processes[index], children[index]);
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (children[i].pid <= 1) continue;
    kill(children[i].pid, SIGKILL);
    Reap(socket, i, children[i], method);
  }
}

}  // namespace snf
