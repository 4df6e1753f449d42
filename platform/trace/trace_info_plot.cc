// SPDX-License-Identifier: Apache-2.0
#include "platform/trace/trace_info_plot.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "platform/process/version.h"
#include "platform/text/page.h"

extern char** environ;

namespace snf {
namespace {

std::string Python() {
  const char* const named = std::getenv("SNF_PYTHON");
  return named == nullptr ? "/usr/bin/python3" : named;
}

// A file in memory, for a stream of the script. Its bytes are bounded by
// memory alone, so neither side ever waits for the other.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("snf-plot", MFD_CLOEXEC)) {}
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
pid_t Spawn(const std::array<const char*, 4>& words, const MemoryFile& in,
            const MemoryFile& out, const MemoryFile& errors) {
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
  errno = posix_spawnp(&child, words[0], &actions, &attributes,
                       const_cast<char* const*>(words.data()), environ);
  const bool started = errno == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return started ? child : -1;
}

std::string LastLine(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  const size_t end = text.rfind('\n');
  return Printable(end == text.npos ? text : text.substr(end + 1));
}

// Runs Python with these arguments on `input`. Returns what it writes. Errors:
// Internal, with what it says last.
absl::StatusOr<std::string> RunPython(const char* first, const char* second,
                                      std::string_view input) {
  const std::string python = Python();
  MemoryFile in, out, errors;
  if (!in.Write(input)) return absl::InternalError("no memory for a plot");
  const pid_t child =
      Spawn({python.c_str(), first, second, nullptr}, in, out, errors);
  if (child < 0) {
    return absl::InternalError(
        fmt::format("{}: {}", Printable(python), std::strerror(errno)));
  }
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return out.Read();
  return absl::InternalError(
      fmt::format("{}: {}", Printable(python), LastLine(errors.Read())));
}

}  // namespace

absl::Status CheckPlotting() {
  const auto ran = RunPython("-c", "import matplotlib", "");
  if (ran.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "--plot draws with matplotlib, Debian's package python3-matplotlib: {}",
      std::string(ran.status().message())));
}

absl::StatusOr<std::string> PlotOf(const std::string& json) {
  const std::string script =
      std::string(kSourceDirectory) + "/experiments/plot_captures.py";
  return RunPython(script.c_str(), nullptr, json);
}

}  // namespace snf
