// SPDX-License-Identifier: Apache-2.0
#include "platform/bypass/bypass_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "platform/bypass/bypass_process.h"
#include "platform/bypass/bypass_state.h"

extern char** environ;

namespace snf {
namespace {

absl::Status Failed(std::string_view what, int error) {
  return absl::UnavailableError(
      fmt::format("--bypass: {}: {}", what, std::strerror(error)));
}

// Returns a copy whose number is none of the guard's own ones.
Descriptor Above(const Descriptor& descriptor) {
  constexpr int kLowest = 64;
  return Descriptor(fcntl(descriptor.number(), F_DUPFD_CLOEXEC, kLowest));
}

// Returns the error's number; 0 if the program was started.
int Spawn(const std::string& program, std::vector<std::string> words,
          const Descriptor& life, const Descriptor& file, bool keeps_stderr,
          pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  if (!keeps_stderr) {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, life.number(), kBypassLife);
  posix_spawn_file_actions_adddup2(&actions, file.number(), kBypassFile);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID |
                                            POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes,
                                pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

absl::StatusOr<BypassGuard> BypassGuard::Start(const DaemonFiles& files,
                                               const Options& options) {
  BypassState state = {.patience = options.patience};
  const Descriptor opened = OpenBypassFile(files, state);
  if (!opened.is_open()) return Failed(BypassFileOf(files), errno);
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Failed("a pair of sockets", errno);
  }
  Descriptor own(ends[0]);
  const Descriptor other(ends[1]);
  const Descriptor life = Above(other);
  const Descriptor file = Above(opened);
  if (!life.is_open() || !file.is_open()) return Failed("a descriptor", errno);
  const int error = Spawn(
      options.program,
      {"snf", std::string(kBypassProcessCommand), files.name, options.inside,
       options.outside, std::to_string(options.patience.ns), options.log.file,
       options.log.json ? "json" : "text", std::string(Name(options.log.level)),
       std::to_string(getpid())},
      life, file, options.log.file == "-", state.pid);
  if (error != 0) return Failed("its process", error);
  WriteBypassState(opened, state);
  return BypassGuard(files, state.pid, std::move(own));
}

void BypassGuard::End() {
  constexpr int kLooks = 500;
  constexpr std::chrono::milliseconds kLook(4);
  if (!life_.is_open()) return;
  send(life_.number(), &kBypassCleanEnd, sizeof kBypassCleanEnd, MSG_NOSIGNAL);
  bool has_ended = false;
  for (int i = 0; i < kLooks && !has_ended; ++i) {
    has_ended = waitpid(pid_, nullptr, WNOHANG) != 0;
    if (!has_ended) std::this_thread::sleep_for(kLook);
  }
  if (!has_ended) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  unlink(BypassFileOf(files_).c_str());  // of a guard that was killed
  life_ = Descriptor();
}

}  // namespace snf
