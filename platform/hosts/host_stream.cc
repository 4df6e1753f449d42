// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/host_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "base/patience.h"
#include "base/text/wording.h"
#include "base/text_file.h"
#include "base/version.h"
#include "platform/service/socket_address.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

constexpr size_t kMostProgramBytes = size_t{1} << 30;
constexpr size_t kStep = size_t{1} << 20;  // by which memory grows

absl::Status Lost(const char* what, int error) {
  return absl::UnavailableError(
      fmt::format("{}: {}", what, std::strerror(error)));
}

bool IsReadyIn(int socket, short events, Nanos whole) {
  Patience patience(whole);
  while (true) {
    const Instant before = RealClock::Monotonic();
    pollfd wait = {.fd = socket, .events = events, .revents = 0};
    const int ms = static_cast<int>((patience.step().ns + 999'999) / 1'000'000);
    const int ready = poll(&wait, 1, ms);
    if (ready > 0) return true;
    if (patience.is_over()) return false;
    patience.Spend(RealClock::Monotonic() - before);
  }
}

void SetOptions(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  fcntl(socket, F_SETFL, O_NONBLOCK);
}

}  // namespace

// --- Sockets. ---

absl::StatusOr<int> HostStream::Connect(const std::string& address,
                                        Nanos patience) {
  const auto to = ParseSocketAddress(address);
  if (!to.ok()) return to.status();
  const int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Lost("socket", errno);
  SetOptions(fd);
  int error = 0;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&*to),
              SocketAddressBytes(*to)) != 0) {
    error = errno;
    socklen_t size = sizeof(error);
    if (error == EINPROGRESS && !IsReadyIn(fd, POLLOUT, patience)) {
      error = ETIMEDOUT;
    } else if (error == EINPROGRESS) {
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error == 0) return fd;
  close(fd);
  return Lost("no connection", error);
}

absl::StatusOr<int> HostStream::Listen(const std::string& address) {
  const auto at = ParseSocketAddress(address);
  if (!at.ok()) return at.status();
  const int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Lost("socket", errno);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  constexpr int kWaiting = 64;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&*at),
           SocketAddressBytes(*at)) == 0 &&
      listen(fd, kWaiting) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  return Lost(address.c_str(), error);
}

std::string HostStream::AddressOf(int socket, bool of_peer) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const int got = of_peer ? getpeername(socket, generic, &size)
                          : getsockname(socket, generic, &size);
  return got != 0 ? "unknown" : TextOf(address, size);
}

std::string HostStream::PeerIpOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return "unknown";
  }
  return IpTextOf(address);
}

std::string HostStream::TextOf(const sockaddr_storage& address,
                               socklen_t size) {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host,
                  sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  return address.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                       : fmt::format("{}:{}", host, port);
}

HostStream::HostStream(int socket)
    : socket_(socket), last_sent_(RealClock::Monotonic()) {
  SetOptions(socket_);
}

// If bytes came that were not read, close() would reset the connection before
// the peer has read the last frame.
HostStream::~HostStream() {
  constexpr Nanos kPatience = Milliseconds(200);
  shutdown(socket_, SHUT_WR);
  const Instant end = RealClock::Monotonic() + kPatience;
  std::array<std::byte, 16'384> bytes;
  while (IsReadyIn(socket_, POLLIN, end - RealClock::Monotonic())) {
    const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
  }
  close(socket_);
}

void HostStream::StopReceiving() { shutdown(socket_, SHUT_RD); }

absl::Status HostStream::Shake(const TlsFiles& files, TlsEnd end,
                               const std::string& address) {
  auto tls = HostTls::Shake(files, end, socket_, address, kSilence);
  const auto refuse = [this, end](std::string_view why) {
    if (end == TlsEnd::kClient) return;
    Send(HostFrame::kRefuse, std::as_bytes(std::span(why))).IgnoreError();
  };
  if (absl::IsFailedPrecondition(tls.status())) refuse("wants TLS");
  if (!tls.ok()) return tls.status();
  tls_ = *std::move(tls);
  if (end == TlsEnd::kClient) return absl::OkStatus();
  absl::Status allowed = tls_->CheckRole();
  if (!allowed.ok()) refuse(std::string(allowed.message()));
  return allowed;
}

absl::Status HostStream::Ended(int error) {
  constexpr char kWhat[] = "the connection has ended";
  if (tls_ == nullptr || error != EPROTO) return Lost(kWhat, error);
  return absl::UnavailableError(fmt::format("{}: {}", kWhat, tls_->why()));
}

ssize_t HostStream::ReadSome(std::span<std::byte> to) {
  if (tls_ != nullptr) return tls_->Read(to);
  return recv(socket_, to.data(), to.size(), 0);
}

ssize_t HostStream::WriteSome(std::span<const std::byte> from) {
  if (tls_ != nullptr) return tls_->Write(from);
  return send(socket_, from.data(), from.size(), MSG_NOSIGNAL);
}

// --- Frames. ---

absl::Status HostStream::WriteAll(std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t sent = WriteSome(from);
    if (sent > 0) {
      from = from.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!IsReadyIn(socket_, POLLOUT, kSilence)) {
        return absl::UnavailableError("the connection takes no more bytes");
      }
    } else if (errno != EINTR) {
      return Ended(errno);
    }
  }
  return absl::OkStatus();
}

absl::Status HostStream::ReadAll(std::span<std::byte> to, Nanos patience) {
  while (!to.empty()) {
    const ssize_t got = ReadSome(to);
    if (got > 0) {
      to = to.subspan(static_cast<size_t>(got));
    } else if (got == 0) {
      return absl::UnavailableError("the connection was closed");
    } else if (errno == EAGAIN) {
      if (!IsReadyIn(socket_, POLLIN, patience)) {
        return absl::UnavailableError(
            fmt::format("was silent for {} ms", patience.ns / 1'000'000));
      }
    } else if (errno != EINTR) {
      return Ended(errno);
    }
  }
  return absl::OkStatus();
}

absl::Status HostStream::Send(HostFrame kind,
                              std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const Head head = {.kind = static_cast<uint16_t>(kind),
                     .number = next_sent_++,
                     .bytes = bytes.size()};
  last_sent_ = RealClock::Monotonic();
  constexpr size_t kTogether = 16'384;
  if (bytes.size() > kTogether) {
    absl::Status status = WriteAll(std::as_bytes(std::span(&head, 1)));
    return status.ok() ? WriteAll(bytes) : status;
  }
  std::byte together[sizeof(head) + kTogether];
  std::memcpy(together, &head, sizeof(head));
  if (!bytes.empty()) {
    std::memcpy(together + sizeof(head), bytes.data(), bytes.size());
  }
  return WriteAll(std::span(together, sizeof(head) + bytes.size()));
}

bool HostStream::is_beat_due() const {
  const std::lock_guard lock(mutex_);
  return RealClock::Monotonic() - last_sent_ >= kBeat;
}

absl::StatusOr<HostStream::Received> HostStream::Receive(Nanos patience,
                                                         size_t most) {
  Head head;
  absl::Status status =
      ReadAll(std::as_writable_bytes(std::span(&head, 1)), patience);
  if (!status.ok()) return status;
  const auto refuse = [](const char* field, uint64_t value) {
    return absl::InvalidArgumentError(
        fmt::format("a frame with {} {:#x}", field, value));
  };
  if (Head::IsTls(head.mark)) {
    return absl::InvalidArgumentError(
        "the other end speaks TLS, and this end does not");
  }
  if (head.mark != Head::kMark) return refuse("mark", head.mark);
  if (head.kind >= static_cast<uint16_t>(HostFrame::kCount) ||
      head.reserved != 0) {
    return refuse("kind", head.kind);
  }
  if (head.number != next_received_) return refuse("number", head.number);
  if (head.bytes > most) return refuse("bytes", head.bytes);
  ++next_received_;
  received_.clear();
  while (received_.size() < head.bytes) {
    const size_t at = received_.size();
    received_.resize(std::min<size_t>(head.bytes, at + kStep));
    status = ReadAll(std::span(received_).subspan(at), patience);
    if (!status.ok()) return status;
  }
  return Received{.kind = static_cast<HostFrame>(head.kind),
                  .bytes = received_};
}

// --- The hello. ---

uint64_t BuildOfThisProgram() {
  const absl::StatusOr<std::string> text =
      ReadTextFile("/proc/self/exe", kMostProgramBytes);
  return text.ok() ? std::hash<std::string>{}(*text) : 0;
}

HostHello HelloOfThisProgram() {
  static const uint64_t build = BuildOfThisProgram();
  HostHello hello;
  hello.build = build;
  const std::string_view version = kVersion;
  version.copy(hello.version, sizeof(hello.version) - 1);
  return hello;
}

absl::Status CheckHello(std::span<const std::byte> bytes,
                        const HostHello& own) {
  HostHello hello;
  if (bytes.size() != sizeof(hello)) {
    return absl::InvalidArgumentError(
        fmt::format("a hello of {} bytes", bytes.size()));
  }
  std::memcpy(&hello, bytes.data(), sizeof(hello));
  hello.version[sizeof(hello.version) - 1] = '\0';
  if (hello.protocol == own.protocol && hello.build == own.build &&
      std::strcmp(hello.version, own.version) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(fmt::format(
      "runs snf {} (build {:016x}, protocol {}), the daemon snf {} (build "
      "{:016x}, protocol {}): both hosts need the same program",
      own.version, own.build, own.protocol, Printable(hello.version),
      hello.build, hello.protocol));
}

}  // namespace snf
