// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/launch_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "resource_manager/live/launcher.h"

namespace snf {
namespace {

struct Started {
  pid_t pid = -1;  // -1: it has ended
  int pidfd = -1;
  uint32_t starts = 0;
};

void Tell(int socket, const LaunchNote& note) {
  // Whoever does not listen any more has closed its end.
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
    TellRefused(socket, index, pid.status());
    return;
  }
  child.pid = *pid;
  child.pidfd = static_cast<int>(syscall(SYS_pidfd_open, *pid, 0));
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
  child = {.starts = child.starts};
  method.on_ended(index);
}

}  // namespace

absl::StatusOr<Launch> ReceiveLaunch(int socket) {
  Launch launch;
  launch.setup.resize(Launcher::kMostSetupBytes);
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(Launcher::kMostDescriptors * sizeof(int))>
          control{};
  iovec bytes = {.iov_base = launch.setup.data(),
                 .iov_len = launch.setup.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* const header = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("descriptor ", socket, " is no launcher's socket"));
  }
  launch.setup.resize(static_cast<size_t>(size));
  launch.descriptors.resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(launch.descriptors.data(), CMSG_DATA(header),
              launch.descriptors.size() * sizeof(int));
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
  _exit(process.body(starts));
}

void RefuseLaunch(int socket, const absl::Status& status) {
  TellRefused(socket, 0, status);
  pollfd wait = {.fd = socket, .events = POLLIN, .revents = 0};
  while (poll(&wait, 1, -1) <= 0) {
  }
}

void ServeLaunch(int socket, LaunchMethod& method,
                 std::span<const LaunchMethod::Process> processes,
                 size_t at_once) {
  const auto count = static_cast<uint32_t>(processes.size());
  std::vector<Started> children(count);
  for (uint32_t i = 0; i < std::min<size_t>(count, at_once); ++i) {
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
    is_open = recv(socket, &index, sizeof(index), 0) == sizeof(index);
    if (!is_open || index >= count || children[index].pid > 0) continue;
    StartOne(socket, method, index, processes[index], children[index]);
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (children[i].pid <= 1) continue;
    kill(children[i].pid, SIGKILL);
    Reap(socket, i, children[i], method);
  }
}

}  // namespace snf
