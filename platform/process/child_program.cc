// SPDX-License-Identifier: Apache-2.0
#include "platform/process/child_program.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text/wording.h"

extern char** environ;

namespace snf {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How often a flag that stops a child is looked at.
constexpr milliseconds kLook(50);
// The kernel may need this to end a child that was killed.
constexpr milliseconds kKilled(1'000);

// A file in memory, for a stream of the program. Its bytes are bounded by
// memory alone, so neither side ever waits for the other.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("snf-stream", MFD_CLOEXEC)) {}
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }

  bool Write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = write(descriptor_, text.data(), text.size());
      if (written <= 0) return false;
      text.remove_prefix(static_cast<size_t>(written));
    }
    return lseek(descriptor_, 0, SEEK_SET) == 0;
  }
  std::string Read() {
    std::string text;
    std::array<char, 65'536> part;
    lseek(descriptor_, 0, SEEK_SET);
    while (true) {
      const ssize_t got = read(descriptor_, part.data(), part.size());
      if (got <= 0) return text;
      text.append(part.data(), static_cast<size_t>(got));
    }
  }

 private:
  int descriptor_;
};

// Starts a child with these words and streams. Returns its number, or -1 with
// errno set. It may be interrupted, though this process waits for signals.
pid_t Spawn(const std::vector<std::string>& words, bool has_group,
            const MemoryFile& in, const MemoryFile& out,
            const MemoryFile& errors) {
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.descriptor(),
                                   STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  const int group = has_group ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(&attributes,
                           static_cast<short>(POSIX_SPAWN_SETSIGMASK | group));
  pid_t child = -1;
  errno = posix_spawnp(&child, arguments[0], &actions, &attributes,
                       arguments.data(), environ);
  const bool started = errno == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return started ? child : -1;
}

// Waits for the child's end for at most `patience`, or until `*stop` is true.
// Returns whether it has ended. Without a descriptor of it, it looks at times.
bool AwaitEnd(pid_t child, milliseconds patience, const std::atomic<bool>* stop,
              int& state) {
  const int file = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  const auto end = steady_clock::now() + patience;
  bool has_ended = false;
  while (true) {
    has_ended = waitpid(child, &state, WNOHANG) == child;
    const auto left =
        std::chrono::ceil<milliseconds>(end - steady_clock::now());
    if (has_ended || left.count() <= 0) break;
    if (stop != nullptr && *stop) break;
    pollfd ends = {.fd = file, .events = POLLIN, .revents = 0};
    poll(&ends, 1, static_cast<int>(std::min(left, kLook).count()));
  }
  if (file >= 0) close(file);
  return has_ended;
}

// Kills the child's group if it takes longer than it may.
absl::Status AwaitInTime(const ChildProgram& program, const std::string& name,
                         pid_t child, int& state) {
  if (AwaitEnd(child, *program.patience, program.stop, state)) {
    return absl::OkStatus();
  }
  kill(-child, SIGKILL);
  AwaitEnd(child, kKilled, nullptr, state);
  if (program.stop != nullptr && *program.stop) {
    return absl::CancelledError(name + " was stopped");
  }
  return absl::DeadlineExceededError(
      fmt::format("{} was killed: it did not end within {} s", name,
                  std::chrono::duration<double>(*program.patience).count()));
}

std::string LineOf(std::string text, bool first) {
  while (text.ends_with('\n')) text.pop_back();
  const size_t end = first ? text.find('\n') : text.rfind('\n');
  if (end == text.npos) return Printable(text);
  return Printable(first ? text.substr(0, end) : text.substr(end + 1));
}

}  // namespace

absl::StatusOr<std::string> RunChildProgram(const ChildProgram& program) {
  const std::string name = Printable(program.words.front());
  MemoryFile in, out, errors;
  if (!in.Write(program.input)) {
    return absl::InternalError(
        fmt::format("{}: no memory for its input", name));
  }
  const pid_t child =
      Spawn(program.words, program.patience.has_value(), in, out, errors);
  if (child < 0) {
    const int error = errno;
    const std::string why = fmt::format("{}: {}", name, std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(why)
                           : absl::InternalError(why);
  }
  int state = 0;
  if (program.patience.has_value()) {
    absl::Status in_time = AwaitInTime(program, name, child, state);
    if (!in_time.ok()) return in_time;
  } else {
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return out.Read();
  const std::string line = LineOf(errors.Read(), program.tells_first);
  if (line.empty()) {
    return absl::InternalError(
        WIFSIGNALED(state)
            ? fmt::format("{} was killed by signal {}", name, WTERMSIG(state))
            : fmt::format("{} ended with exit code {}", name,
                          WEXITSTATUS(state)));
  }
  return absl::InternalError(fmt::format("{}: {}", name, line));
}

}  // namespace snf
