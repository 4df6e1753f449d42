// SPDX-License-Identifier: Apache-2.0
#include "platform/process/child_program.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "platform/text/wording.h"

extern char** environ;

namespace snf {
namespace {

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
pid_t Spawn(const std::vector<std::string>& words, const MemoryFile& in,
            const MemoryFile& out, const MemoryFile& errors) {
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
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  errno = posix_spawnp(&child, arguments[0], &actions, &attributes,
                       arguments.data(), environ);
  const bool started = errno == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return started ? child : -1;
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
  const pid_t child = Spawn(program.words, in, out, errors);
  if (child < 0) {
    const int error = errno;
    const std::string why = fmt::format("{}: {}", name, std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(why)
                           : absl::InternalError(why);
  }
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
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
