// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/live/manager_look.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "resource_manager/live/lease_client.h"

namespace snf {
namespace {

void WriteAll(int file, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(file, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    done += static_cast<size_t>(wrote);
  }
}

std::string ReadAll(int file) {
  std::string text;
  std::array<char, 4096> bytes{};
  while (true) {
    const ssize_t got = read(file, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(bytes.data(), static_cast<size_t>(got));
  }
}

// Returns a "+" and the reply, or a "-" and why there is none.
std::string AskAll(const std::vector<LeaseAddress>& addresses, Nanos patience) {
  std::string why;
  for (const LeaseAddress& address : addresses) {
    const auto reply = LookAtLeases(address, patience);
    if (reply.ok()) return "+" + reply->SerializeAsString();
    why = fmt::format("{}: {}", address.target,
                      std::string(reply.status().message()));
  }
  return "-" + why;
}

}  // namespace

absl::StatusOr<proto::LookReply> LookAtManagers(
    const std::vector<LeaseAddress>& addresses, Nanos patience) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    return absl::UnavailableError(
        fmt::format("a pipe: {}", std::strerror(errno)));
  }
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    WriteAll(ends[1], AskAll(addresses, patience));
    _exit(0);
  }
  const int error = errno;
  close(ends[1]);
  const std::string told = child < 0 ? "" : ReadAll(ends[0]);
  close(ends[0]);
  if (child < 0) {
    return absl::UnavailableError(
        fmt::format("a process: {}", std::strerror(error)));
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  proto::LookReply reply;
  if (told.starts_with('+') && reply.ParseFromString(told.substr(1))) {
    return reply;
  }
  return absl::FailedPreconditionError(
      told.starts_with('-') ? told.substr(1)
                            : "the process that asks has failed");
}

}  // namespace snf
