// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/host_agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "platform/hosts/host_stream.h"

namespace snf {
namespace {

constexpr int kReapMs = 200;
// Processes beyond kMostSessions, which tell why they refuse.
constexpr size_t kMostRefusals = 16;

void Refuse(int socket, const std::string& why) {
  HostStream stream(socket);  // owns it
  [[maybe_unused]] const absl::Status told =
      stream.Send(HostFrame::kRefuse, std::as_bytes(std::span(why)));
  fmt::print(stderr, "daemon at {} was refused: {}\n",
             HostStream::AddressOf(socket, true), why);
  std::fflush(stderr);
}

}  // namespace

bool HostAgent::IsMember(const std::string& peer) const {
  std::string address = peer.substr(0, peer.rfind(':'));
  if (address.starts_with('[')) address = address.substr(1, address.size() - 2);
  return std::ranges::find(options_.from, address) != options_.from.end();
}

void HostAgent::Reap() {
  std::erase_if(sessions_, [](pid_t session) {
    return waitpid(session, nullptr, WNOHANG) != 0;
  });
}

void HostAgent::Begin(int listener, int socket,
                      const std::function<int(int)>& session) {
  const bool is_full = sessions_.size() >= kMostSessions + kMostRefusals;
  const pid_t parent = getpid();
  const pid_t child = is_full ? -1 : fork();
  if (child != 0) {
    close(socket);
    if (child > 0) sessions_.push_back(child);
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  close(listener);
  signal(SIGINT, SIG_IGN);  // the agent decides
  signal(SIGTERM, SIG_DFL);
  const std::string peer = HostStream::AddressOf(socket, true);
  if (!IsMember(peer)) {
    Refuse(socket, fmt::format("{} is not named by --from", peer));
  } else if (sessions_.size() >= kMostSessions) {
    Refuse(socket,
           fmt::format("{} daemons' processes run already", kMostSessions));
  } else {
    _exit(session(socket));
  }
  _exit(1);
}

absl::Status HostAgent::Serve(const std::function<int(int)>& session) {
  const auto listener = HostStream::Listen(options_.listen);
  if (!listener.ok()) return listener.status();
  const HostHello hello = HelloOfThisProgram();
  fmt::print("listens at {}: snf {}, build {:016x}\n",
             HostStream::AddressOf(*listener, false), hello.version,
             hello.build);
  std::fflush(stdout);
  while (true) {
    pollfd wait = {.fd = *listener, .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, sessions_.empty() ? -1 : kReapMs);
    Reap();
    if (ready <= 0) continue;
    const int socket = accept4(*listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) Begin(*listener, socket, session);
  }
}

}  // namespace snf
