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
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "platform/hosts/geneve_link.h"
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
  if (strays_ >= 0) close(strays_);
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

// Reads at most kAtOnce datagrams, so that connections are not starved.
void HostAgent::RefuseStrays() {
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce; ++i) {
    std::array<std::byte, 1> byte;
    sockaddr_storage from = {};
    socklen_t size = sizeof(from);
    if (recvfrom(strays_, byte.data(), byte.size(), MSG_DONTWAIT,
                 reinterpret_cast<sockaddr*>(&from), &size) < 0) {
      return;
    }
    ++refused_;
    constexpr uint64_t kTold = 1'000;
    if (refused_ != 1 && refused_ % kTold != 0) continue;
    fmt::print(stderr,
               "UDP datagrams refused: {}, the last one from {}, which is no "
               "daemon's\n",
               refused_, HostStream::TextOf(from, size));
    std::fflush(stderr);
  }
}

absl::Status HostAgent::Serve(const std::function<int(int)>& session) {
  const auto listener = HostStream::Listen(options_.listen);
  if (!listener.ok()) return listener.status();
  if (options_.geneve) {
    const auto strays = GeneveLink::OpenForStrays(*listener);
    if (!strays.ok()) return strays.status();
    strays_ = *strays;
  }
  const HostHello hello = HelloOfThisProgram();
  fmt::print("listens at {}: snf {}, build {:016x}\n",
             HostStream::AddressOf(*listener, false), hello.version,
             hello.build);
  std::fflush(stdout);
  while (true) {
    std::array<pollfd, 2> waits = {
        pollfd{.fd = *listener, .events = POLLIN, .revents = 0},
        pollfd{.fd = strays_, .events = POLLIN, .revents = 0}};
    const int ready =
        poll(waits.data(), waits.size(), sessions_.empty() ? -1 : kReapMs);
    Reap();
    if (ready <= 0) continue;
    if (waits[1].revents != 0) RefuseStrays();
    if (waits[0].revents == 0) continue;
    const int socket = accept4(*listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) Begin(*listener, socket, session);
  }
}

}  // namespace snf
