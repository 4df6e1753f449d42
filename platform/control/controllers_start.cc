// SPDX-License-Identifier: Apache-2.0
#include "platform/control/controllers_start.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "platform/control/daemon_cluster.h"
#include "platform/process/exit_code.h"
#include "platform/service/daemon_files.h"

extern char** environ;

namespace snf {
namespace {

// Runs the program to its end, which says nothing but what is wrong. Errors:
// StatusOfExit; Internal if it cannot be started, or a signal has ended it.
absl::Status RunProgram(const std::string& program,
                        std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), &actions, nullptr,
                                arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::InternalError(
        fmt::format("{}: {}", program, std::strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status)) {
    return absl::InternalError(
        fmt::format("it was ended by signal {}", WTERMSIG(status)));
  }
  return StatusOfExit(WEXITSTATUS(status), "it has said why");
}

// Those that run are of as many.
absl::Status CheckRunning(const ControllersStart& start,
                          const std::vector<ClusterMember>& members) {
  for (const ClusterMember& member : members) {
    const auto reply = StatusOf(member.files);
    if (!reply.ok()) {
      return absl::FailedPreconditionError(
          fmt::format("\"{}\" runs, as process {}, and does not answer: {}",
                      member.files.name, member.pid,
                      std::string(reply.status().message())));
    }
    if (reply->controllers() == start.count) continue;
    return absl::FailedPreconditionError(fmt::format(
        "\"{}\" runs as one of {}; snf down --name={} ends them all",
        member.files.name, std::max(reply->controllers(), 1u), start.name));
  }
  return absl::OkStatus();
}

// Those that are to be replaced run.
absl::Status CheckAllRun(const ControllersStart& start,
                         const std::vector<ClusterMember>& members) {
  for (uint32_t id = 0; id < start.count; ++id) {
    if (std::ranges::find(members, id, &ClusterMember::id) != members.end()) {
      continue;
    }
    return absl::FailedPreconditionError(fmt::format(
        "--upgrade: \"{}\" does not run; the same without --upgrade starts "
        "those that do not",
        ClusterMember::NameOf(start.name, id)));
  }
  return absl::OkStatus();
}

// Says which of them have been replaced, if one could not be.
std::string OthersOf(const ControllersStart& start, uint32_t failed) {
  if (!start.upgrade) return "";
  const auto list = [&start](uint32_t first, uint32_t end) {
    std::string text;
    for (uint32_t id = first; id < end; ++id) {
      text += text.empty() ? "" : ", ";
      text += fmt::format("\"{}\"", ClusterMember::NameOf(start.name, id));
    }
    return text.empty() ? "none" : text;
  };
  return fmt::format(". Replaced: {}; not replaced: {}", list(0, failed),
                     list(failed, start.count));
}

// The resource manager, where there is to be one, has the name of all.
absl::Status StartManager(const ControllersStart& start) {
  const auto files = DaemonFiles::Of(start.name);
  if (!files.ok()) return files.status();
  const absl::StatusOr<pid_t> pid = PidOf(*files);
  if (!pid.ok()) return pid.status();
  bool is_manager = false;
  if (*pid != 0) {
    const auto reply = StatusOf(*files);
    if (!reply.ok()) {
      return absl::FailedPreconditionError(
          fmt::format("\"{}\" runs, as process {}, and does not answer: {}",
                      start.name, *pid, std::string(reply.status().message())));
    }
    is_manager = IsManager(*reply);
  }
  if (*pid != 0 && start.manager.empty() == is_manager) {
    return absl::FailedPreconditionError(fmt::format(
        "\"{0}\" runs already, as process {1}, and is {2} resource manager; "
        "snf down --name={0} ends it",
        start.name, *pid, is_manager ? "a" : "no"));
  }
  if (start.manager.empty() && *pid == 0) return absl::OkStatus();
  if (*pid != 0) {
    fmt::print("\"{}\" runs already, as process {}.\n", start.name, *pid);
    return absl::OkStatus();
  }
  std::vector<std::string> words = {"snf", "manager", "--name=" + start.name};
  words.insert(words.end(), start.manager.begin(), start.manager.end());
  if (absl::Status s = RunProgram(start.program, words); !s.ok()) {
    return absl::Status(
        s.code(), fmt::format("the resource manager \"{}\" has not started: {}",
                              start.name, std::string(s.message())));
  }
  fmt::print("\"{}\" is the resource manager, as process {}.\n", start.name,
             PidOf(*files).value_or(0));
  return absl::OkStatus();
}

}  // namespace

absl::Status StartControllers(const ControllersStart& start) {
  const auto members = MembersOf(start.name);
  if (!members.ok()) return members.status();
  if (absl::Status s = CheckRunning(start, *members); !s.ok()) return s;
  if (start.upgrade) {
    if (absl::Status s = CheckAllRun(start, *members); !s.ok()) return s;
  }
  if (absl::Status s = StartManager(start); !s.ok()) return s;
  for (uint32_t id = 0; id < start.count; ++id) {
    const std::string name = ClusterMember::NameOf(start.name, id);
    const auto at = std::ranges::find(*members, id, &ClusterMember::id);
    if (at != members->end() && !start.upgrade) {
      fmt::print("\"{}\" runs already, as process {}.\n", name, at->pid);
      continue;
    }
    std::vector<std::string> words = {
        "snf", "up", "--name=" + name,
        fmt::format("--controller={}/{}", id, start.count)};
    words.insert(words.end(), start.flags.begin(), start.flags.end());
    if (absl::Status s = RunProgram(start.program, words); !s.ok()) {
      return absl::Status(
          s.code(), fmt::format("\"{}\" has not started: {}{}", name,
                                std::string(s.message()), OthersOf(start, id)));
    }
    const auto files = DaemonFiles::Of(name);
    if (!files.ok()) return files.status();
    fmt::print(
        "\"{}\" is controller {} of {}, as process {}{}.\n", name, id,
        start.count, PidOf(*files).value_or(0),
        start.upgrade ? fmt::format(", in the place of {}", at->pid) : "");
  }
  const std::string flag =
      start.name == "default" ? "" : " --name=" + start.name;
  fmt::print(
      "snf status{0} shows all of them, and with --name={1} one; snf down{0} "
      "ends all.\n",
      flag, ClusterMember::NameOf(start.name, 0));
  return absl::OkStatus();
}

}  // namespace snf
