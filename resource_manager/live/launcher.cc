// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace snf {
namespace {

constexpr int kSocketOfChild = 3;

absl::Status Error(const std::string& what, int error) {
  return absl::UnavailableError(
      absl::StrCat("launcher: ", what, ": ", std::strerror(error)));
}

// Signals that the caller blocks or ignores are not so there.
int Spawn(const Launcher::Options& options, int socket, pid_t& pid) {
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), options.program);
  arguments.push_back(std::to_string(kSocketOfChild));
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, kSocketOfChild);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                            POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const int error = posix_spawn(&pid, options.program.c_str(), &actions,
                                &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

bool SendSetup(int socket, const Launcher::Options& options) {
  iovec bytes = {.iov_base = const_cast<std::byte*>(options.setup.data()),
                 .iov_len = options.setup.size()};
  alignas(cmsghdr)
      std::array<char, CMSG_SPACE(Launcher::kMostDescriptors * sizeof(int))>
          control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  const size_t size = options.descriptors.size_bytes();
  message.msg_controllen = CMSG_SPACE(size);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(header), options.descriptors.data(), size);
  return sendmsg(socket, &message, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(options.setup.size());
}

}  // namespace

std::string LaunchNote::InWords(int status) {
  return WIFSIGNALED(status)
             ? absl::StrCat("was killed by signal ", WTERMSIG(status))
             : absl::StrCat("ended with exit code ", WEXITSTATUS(status));
}

absl::StatusOr<Launcher> Launcher::Start(const Options& options) {
  if (options.setup.size() > kMostSetupBytes || options.setup.empty() ||
      options.descriptors.size() > kMostDescriptors ||
      options.descriptors.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "launcher: a set-up of ", options.setup.size(), " bytes and ",
        options.descriptors.size(), " descriptors, of at most ",
        kMostSetupBytes, " and ", kMostDescriptors));
  }
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) !=
      0) {
    return Error("socketpair", errno);
  }
  // A descriptor that is its own target would be closed by exec.
  int theirs = sockets[1];
  if (theirs == kSocketOfChild) {
    theirs = fcntl(theirs, F_DUPFD_CLOEXEC, kSocketOfChild + 1);
    close(sockets[1]);
  }
  pid_t pid = -1;
  const int error = Spawn(options, theirs, pid);
  close(theirs);
  if (error != 0) {
    close(sockets[0]);
    return Error(options.program, error);
  }
  Launcher launcher(sockets[0], pid);
  if (!SendSetup(launcher.socket_, options)) return Error("set-up", errno);
  return launcher;
}

Launcher::Launcher(Launcher&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      pid_(std::exchange(other.pid_, -1)) {}

Launcher::~Launcher() {
  if (socket_ >= 0) close(socket_);
  if (pid_ < 0) return;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Launcher::StartAgain(uint32_t index) const {
  // A launcher that has ended is told of by Read.
  [[maybe_unused]] const auto sent =
      send(socket_, &index, sizeof(index), MSG_NOSIGNAL);
}

bool Launcher::Read(LaunchNote& note) const {
  ssize_t size = 0;
  do {
    size = recv(socket_, &note, sizeof(note), 0);
  } while (size < 0 && errno == EINTR);
  note.text.back() = '\0';
  return size == static_cast<ssize_t>(sizeof(note));
}

}  // namespace snf
