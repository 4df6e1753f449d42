// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/host_agent.h"

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
#include <span>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/text/stderr_line.h"
#include "platform/hosts/geneve_link.h"
#include "platform/hosts/host_stream.h"
#include "platform/service/background.h"
#include "platform/service/socket_address.h"
#include "platform/service/tls_files.h"

namespace snf {
namespace {

constexpr int kReapMs = 200;

// A storm fills no disk.
bool IsTold(uint64_t count) {
  constexpr uint64_t kPeriod = 1'000;
  return count == 1 || count % kPeriod == 0;
}

// Encrypts the connection as a session does. A daemon that waits for a
// handshake would not read a plain frame.
absl::Status Encrypt(HostStream& stream, const std::string& tls) {
  if (tls.empty()) return absl::OkStatus();
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to what may be closed
  const auto files = ReadTlsFiles(tls, TlsEnd::kServer);
  if (!files.ok()) return files.status();
  return stream.Shake(*files, TlsEnd::kServer, "");
}

}  // namespace

bool HostAgent::IsMember(const std::string& address) const {
  return std::ranges::find(options_.from, address) != options_.from.end();
}

absl::StatusOr<std::vector<std::string>> HostAgent::ParseFrom(
    const std::string& text) {
  std::vector<std::string> from;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const auto address = ParseHostIp(part);
    if (!address.ok()) return address.status();
    from.push_back(*address);
  }
  return from;
}

std::string HostAgent::WhyNot(int socket) const {
  if (!IsMember(HostStream::PeerIpOf(socket))) {
    return fmt::format("{} is not named by --from",
                       HostStream::AddressOf(socket, true));
  }
  if (sessions_.size() < kMostSessions) return "";
  return fmt::format("{} daemons' processes run already", kMostSessions);
}

void HostAgent::Refuse(int socket, const std::string& why) const {
  HostStream stream(socket);  // owns it
  PrintOnStderr("daemon at {} was refused: {}\n",
                HostStream::AddressOf(socket, true), why);
  std::fflush(stderr);
  if (!Encrypt(stream, options_.tls).ok()) return;
  [[maybe_unused]] const absl::Status told =
      stream.Send(HostFrame::kRefuse, std::as_bytes(std::span(why)));
}

void HostAgent::TellClosed(const std::string& peer, const std::string& why) {
  if (!IsTold(++closed_)) return;
  PrintOnStderr(
      "connections closed without a word: {}, the last one from "
      "{}: {}\n",
      closed_, peer, why);
  std::fflush(stderr);
}

void HostAgent::Reap() {
  for (std::vector<pid_t>* processes : {&sessions_, &refusals_}) {
    std::erase_if(*processes, [](pid_t process) {
      return waitpid(process, nullptr, WNOHANG) != 0;
    });
  }
}

void HostAgent::Begin(int listener, int socket, const Session& session) {
  const std::string peer = HostStream::AddressOf(socket, true);
  std::string why_not = WhyNot(socket);
  if (!why_not.empty() && refusals_.size() >= kMostRefusals) {
    close(socket);
    return TellClosed(peer, why_not);
  }
  int memories = -1;
  if (why_not.empty()) {
    const auto opened = memories_.Open(HostStream::PeerIpOf(socket));
    if (opened.ok())
      memories = *opened;
    else
      why_not = std::string(opened.status().message());
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) {
    if (child < 0) TellClosed(peer, std::strerror(errno));
    close(socket);
    if (memories >= 0) close(memories);
    if (child > 0) (why_not.empty() ? sessions_ : refusals_).push_back(child);
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  close(listener);
  if (strays_ >= 0) close(strays_);
  memories_.CloseAll();
  signal(SIGINT, SIG_IGN);  // the agent decides
  signal(SIGTERM, SIG_DFL);
  if (why_not.empty()) _exit(session(socket, memories));
  Refuse(socket, why_not);
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
    if (!IsTold(++refused_)) continue;
    PrintOnStderr(
        "UDP datagrams refused: {}, the last one from {}, which is no "
        "daemon's\n",
        refused_, HostStream::TextOf(from, size));
    std::fflush(stderr);
  }
}

absl::Status HostAgent::Serve(const Session& session) {
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
  NotifySystemd("READY=1");
  while (true) {
    std::vector<pollfd> waits = {
        pollfd{.fd = *listener, .events = POLLIN, .revents = 0},
        pollfd{.fd = strays_, .events = POLLIN, .revents = 0}};
    memories_.AddTo(waits);
    const bool has_children = !sessions_.empty() || !refusals_.empty();
    const int ready =
        poll(waits.data(), waits.size(), has_children ? kReapMs : -1);
    Reap();
    if (ready <= 0) continue;
    memories_.Serve(std::span(waits).subspan(2));
    if (waits[1].revents != 0) RefuseStrays();
    if (waits[0].revents == 0) continue;
    const int socket = accept4(*listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) Begin(*listener, socket, session);
  }
}

}  // namespace snf
