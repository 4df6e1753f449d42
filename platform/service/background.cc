// SPDX-License-Identifier: Apache-2.0
#include "platform/service/background.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace snf {
namespace {

// Returns the parent's exit code.
int WaitFor(int ready, pid_t child) {
  char byte = 0;
  ssize_t size = 0;
  do {
    size = read(ready, &byte, 1);
  } while (size < 0 && errno == EINTR);
  close(ready);
  if (size == 1) return 0;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Makes stderr what the file is, as far as it can be opened.
void OpenErrors(const std::string& log) {
  const int errors = open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (errors < 0) return;
  dup2(errors, STDERR_FILENO);
  close(errors);
}

}  // namespace

int Background::ready_ = -1;
int Background::terminal_ = -1;
bool Background::is_ready_ = false;

absl::StatusOr<std::optional<int>> Background::Begin() {
  std::array<int, 2> ends{};
  const auto failed = [](const char* what) {
    return absl::UnavailableError(
        fmt::format("{}: {}", what, std::strerror(errno)));
  };
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return failed("a pipe");
  const pid_t child = fork();
  if (child < 0) return failed("a process");
  if (child > 0) {
    close(ends[1]);
    return WaitFor(ends[0], child);
  }
  close(ends[0]);
  ready_ = ends[1];
  setsid();
  return std::nullopt;
}

void Background::SendErrorsTo(const std::string& log) {
  if (ready_ < 0) return;
  terminal_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  OpenErrors(log);
}

void Background::TakeErrorsBack() {
  if (terminal_ < 0) return;
  dup2(terminal_, STDERR_FILENO);
  close(terminal_);
  terminal_ = -1;
}

void Background::SayReady(const std::string& log) {
  if (ready_ < 0) return;
  is_ready_ = true;
  TakeErrorsBack();
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (nothing >= 0) dup2(nothing, file);
  }
  OpenErrors(log);
  if (nothing > STDERR_FILENO) close(nothing);
  while (write(ready_, "r", 1) < 0 && errno == EINTR) {
  }
  close(ready_);
  ready_ = -1;
}

void Background::ReopenErrors(const std::string& log) {
  if (is_ready_) OpenErrors(log);
}

void NotifySystemd(const char* state) {
  const char* const name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || (*name != '/' && *name != '@')) return;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(name);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, name, length);
  if (*name == '@') address.sun_path[0] = '\0';  // has no file
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  // A failure is not reported: the service works without systemd.
  [[maybe_unused]] const ssize_t sent =
      sendto(socket, state, std::strlen(state), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&address),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(socket);
}

}  // namespace snf
