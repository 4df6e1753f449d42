// SPDX-License-Identifier: Apache-2.0
#include "platform/modules/module_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/modules/described_nf.h"
#include "platform/modules/module_stand_ins.h"
#include "platform/process/child_program.h"
#include "platform/process/exit_code.h"
#include "platform/process/nf_guard.h"
#include "resource_manager/launch/container_method.h"
#include "resource_manager/launch/launcher.h"
#include "runtime/live/rehearsal.h"
#include "runtime/sdk/nf_module.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {
namespace {

// A module that takes longer is killed. It could ignore any other signal.
constexpr std::chrono::seconds kMost(10);
constexpr size_t kMostQuestionBytes = 1 << 20;
constexpr size_t kMostAnswerBytes = 1 << 20;
constexpr std::string_view kPrefix = "module: ";

// Reads up to `most` bytes, until the end or, from a pipe that does not block,
// until it is empty.
absl::StatusOr<std::string> ReadAll(int from, size_t most) {
  std::string bytes;
  std::array<char, 4'096> part{};
  while (true) {
    const ssize_t count = read(from, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0 || (count < 0 && errno == EAGAIN)) return bytes;
    if (count < 0) return absl::UnavailableError(std::strerror(errno));
    bytes.append(part.data(), static_cast<size_t>(count));
    if (bytes.size() > most) {
      return absl::InvalidArgumentError(
          fmt::format("more than {} bytes", most));
    }
  }
}

// Writes all, be it that the pipe does not block.
void WriteAll(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(to, bytes.data(), bytes.size());
    if (count < 0 && errno == EAGAIN) sched_yield();
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

// --- In the container. ---

// Loads the modules, and describes NFs of the last one.
absl::Status Answer(const proto::ModuleQuestion& question,
                    proto::ModuleAnswer& answer) {
  for (const std::string& module : question.module()) {
    const auto loaded = ReplaceByNfModule(module);
    if (!loaded.ok()) return loaded.status();
  }
  const proto::ModuleQuestion::Described& asked = question.described();
  const NfOptions options(std::map<std::string, std::string>(
      asked.option().begin(), asked.option().end()));
  for (const NfRegistration* nf : NfsOfModule(*question.module().rbegin())) {
    if (question.has_described() && nf->name != asked.nf()) continue;
    *answer.add_nf() = Describe(*nf, options);
  }
  return absl::OkStatus();
}

// --- The program that starts the container. ---

// Returns what the process writes to the pipe, once it has ended. Others may
// have the pipe, so it has no end.
absl::StatusOr<std::string> Await(pid_t pid, int pipe) {
  const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    return absl::UnavailableError(
        fmt::format("pidfd_open: {}", std::strerror(errno)));
  }
  std::string bytes;
  std::array<pollfd, 2> waits = {
      {{.fd = pipe, .events = POLLIN, .revents = 0},
       {.fd = pidfd, .events = POLLIN, .revents = 0}}};
  do {
    poll(waits.data(), waits.size(), -1);
    auto part = ReadAll(pipe, kMostAnswerBytes);
    if (part.ok()) bytes += *part;
    if (!part.ok() || bytes.size() > kMostAnswerBytes) {
      close(pidfd);
      return absl::InvalidArgumentError(
          fmt::format("an answer of more than {} bytes", kMostAnswerBytes));
    }
  } while ((waits[1].revents & POLLIN) == 0);
  close(pidfd);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return bytes;
  return absl::InvalidArgumentError(fmt::format("the process that loaded it {}",
                                                LaunchNote::InWords(status)));
}

absl::StatusOr<std::string> AskInContainer(
    const proto::ModuleQuestion& question) {
  const bool has_chain = question.has_chain();
  ReadNf chain;
  if (has_chain) {
    auto known = MakeKnown(question.chain());
    if (!known.ok()) return known.status();
    chain = *std::move(known);
  }
  const auto method = ContainerMethod::Make(
      {}, has_chain ? FilesOf(question.chain()) : FilesOf(question));
  if (!method.ok()) return method.status();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::UnavailableError(
        fmt::format("pipe: {}", std::strerror(errno)));
  }
  proto::ModuleAnswer answer;
  NfSpec loaded;
  const LaunchMethod::Process process = {
      .prepare =
          [&] {
            absl::Status status;
            if (has_chain) {
              auto nf = chain.Load();
              status = nf.status();
              if (nf.ok()) loaded = *std::move(nf);
            } else {
              status = Answer(question, answer);
            }
            answer.set_error(std::string(status.message()));
            return absl::OkStatus();
          },
      .body =
          [&](uint32_t /*starts*/) {
            if (has_chain && answer.error().empty()) Rehearse(loaded, {});
            WriteAll(ends[1], answer.SerializeAsString());
            return kExitOk;
          },
      .descriptors = {ends[1]},
      .name = "snf-module"};
  const auto pid = (*method)->Start(0, 0, process);
  close(ends[1]);
  auto bytes = pid.ok() ? Await(*pid, ends[0]) : pid.status();
  close(ends[0]);
  return bytes;
}

absl::StatusOr<std::string> AnswerInput() {
  const auto bytes = ReadAll(STDIN_FILENO, kMostQuestionBytes);
  if (!bytes.ok()) return bytes;
  proto::ModuleQuestion question;
  if (!question.ParseFromString(*bytes) ||
      question.module().empty() != question.has_chain()) {
    return absl::InternalError("an invalid question");
  }
  return AskInContainer(question);
}

}  // namespace

absl::StatusOr<proto::ModuleAnswer> AskModuleProcess(
    const proto::ModuleQuestion& question, const std::atomic<bool>* stop) {
  const std::string input = question.SerializeAsString();
  const ChildProgram child = {
      .words = {"/proc/self/exe", std::string(kModuleProcessCommand)},
      .input = input,
      .tells_first = true,
      .patience = kMost,
      .stop = stop};
  const auto output = RunChildProgram(child);
  if (absl::IsDeadlineExceeded(output.status())) {
    return absl::InvalidArgumentError(fmt::format(
        "it did not return: it was killed after {} s", kMost.count()));
  }
  if (absl::IsCancelled(output.status())) return output.status();
  if (!output.ok()) {
    std::string why(output.status().message());
    const size_t begin = why.find(kPrefix);
    if (begin != why.npos) why.erase(0, begin + kPrefix.size());
    return absl::InvalidArgumentError(why);
  }
  proto::ModuleAnswer answer;
  if (!answer.ParseFromString(*output)) {
    return absl::InvalidArgumentError("it gives no answer");
  }
  if (answer.error().empty()) return answer;
  return absl::InvalidArgumentError(answer.error());
}

int ModuleProcessMain() {
  GuardNfCalls("module");
  const auto bytes = AnswerInput();
  if (!bytes.ok()) {
    const std::string line =
        fmt::format("{}{}\n", kPrefix, std::string(bytes.status().message()));
    std::fputs(line.c_str(), stderr);
    return kExitUsage;
  }
  WriteAll(STDOUT_FILENO, *bytes);
  return kExitOk;
}

}  // namespace snf
