// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/difference.h"
#include "resource_manager/launch/launch_wire.h"

namespace snf {
namespace {

constexpr int kSocketOfChild = 3;
// Patience of a process that looks at a waiting launcher.
constexpr timeval kPatience = {.tv_sec = 2, .tv_usec = 0};
constexpr timeval kNoLimit = {.tv_sec = 0, .tv_usec = 0};

absl::Status Error(const std::string& what, int error) {
  return absl::UnavailableError(
      absl::StrCat("launcher: ", what, ": ", std::strerror(error)));
}

// Signals that the caller blocks or ignores are not so there.
int Spawn(const Launcher::Options& options, int socket, pid_t& pid) {
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), options.program);
  arguments.push_back(std::to_string(kSocketOfChild));
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (options.errors >= 0) {
    posix_spawn_file_actions_adddup2(&actions, options.errors, STDERR_FILENO);
  }
  posix_spawn_file_actions_adddup2(&actions, socket, kSocketOfChild);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                            POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const int error = posix_spawn(&pid, options.program.c_str(), &actions,
                                &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

bool SendSetup(int socket, const Launcher::Options& options) {
  std::vector<int> descriptors(options.descriptors.begin(),
                               options.descriptors.end());
  LaunchHead head;
  std::string words;
  if (const LaunchKeep* const keep = options.keep; keep != nullptr) {
    head = {.socket_bytes = static_cast<uint32_t>(keep->socket.size()),
            .identity_bytes = static_cast<uint32_t>(keep->identity.size()),
            .patience_ms = keep->patience_ms,
            .kept = static_cast<uint32_t>(keep->descriptors.size())};
    words = keep->socket + keep->identity;
    descriptors.insert(descriptors.end(), keep->descriptors.begin(),
                       keep->descriptors.end());
  }
  std::vector<std::byte> bytes(sizeof(head) + words.size());
  std::memcpy(bytes.data(), &head, sizeof(head));
  std::memcpy(bytes.data() + sizeof(head), words.data(), words.size());
  bytes.insert(bytes.end(), options.setup.begin(), options.setup.end());
  return SendWithDescriptors(socket, bytes, descriptors);
}

absl::Status CheckKeep(const LaunchKeep& keep) {
  sockaddr_un address;
  if (!SocketAddressOf(keep.socket, address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "launcher: not the name of a socket: \"", keep.socket, "\""));
  }
  if (keep.identity.size() <= Launcher::kMostIdentityBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("launcher: identity too long: ", keep.identity.size(),
                   " bytes, at most ", Launcher::kMostIdentityBytes));
}

bool SayHello(int socket, KeptHello::Kind kind, const std::string& identity) {
  const KeptHello hello = {.kind = kind};
  std::vector<std::byte> bytes(sizeof(hello) + identity.size());
  std::memcpy(bytes.data(), &hello, sizeof(hello));
  std::memcpy(bytes.data() + sizeof(hello), identity.data(), identity.size());
  return SendWithDescriptors(socket, bytes, {});
}

// Takes the answer: a head, and what follows.
bool HearAnswer(int socket, KeptHead& head, std::vector<std::byte>& rest,
                std::vector<int>& descriptors) {
  rest.resize(Launcher::kMostSetupBytes);
  if (!ReceiveWithDescriptors(socket, rest, descriptors) ||
      rest.size() < sizeof(head)) {
    return false;
  }
  std::memcpy(&head, rest.data(), sizeof(head));
  rest.erase(rest.begin(), rest.begin() + sizeof(head));
  return true;
}

NamedValues LinesOf(const std::string& identity) {
  NamedValues lines;
  for (const auto part : absl::StrSplit(identity, '\n', absl::SkipEmpty())) {
    const std::string line(part);
    const size_t tab = std::min(line.find('\t'), line.size() - 1);
    lines.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
  return lines;
}

}  // namespace

std::string LaunchNote::InWords(int status) {
  return WIFSIGNALED(status)
             ? absl::StrCat("was killed by signal ", WTERMSIG(status))
             : absl::StrCat("ended with exit code ", WEXITSTATUS(status));
}

absl::StatusOr<Launcher> Launcher::Start(const Options& options) {
  const size_t kept =
      options.keep != nullptr ? options.keep->descriptors.size() : 0;
  if (options.keep != nullptr) {
    if (absl::Status s = CheckKeep(*options.keep); !s.ok()) return s;
  }
  if (options.setup.size() > kMostSetupBytes || options.setup.empty() ||
      options.descriptors.size() + kept > kMostDescriptors ||
      options.descriptors.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "launcher: set-up too large: ", options.setup.size(), " bytes and ",
        options.descriptors.size() + kept, " descriptors, at most ",
        kMostSetupBytes, " and ", kMostDescriptors));
  }
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) !=
      0) {
    return Error("socketpair", errno);
  }
  // A descriptor that is its own target would be closed by exec.
  int theirs = sockets[1];
  if (theirs == kSocketOfChild) {
    theirs = fcntl(theirs, F_DUPFD_CLOEXEC, kSocketOfChild + 1);
    close(sockets[1]);
  }
  pid_t pid = -1;
  const int error = Spawn(options, theirs, pid);
  close(theirs);
  if (error != 0) {
    close(sockets[0]);
    return Error(options.program, error);
  }
  Launcher launcher(sockets[0], pid);
  if (!SendSetup(launcher.socket_, options)) return Error("set-up", errno);
  return launcher;
}

absl::StatusOr<std::optional<Launcher>> Launcher::Connect(
    const std::string& socket) {
  sockaddr_un address;
  if (!SocketAddressOf(socket, address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("launcher: not the name of a socket: \"", socket, "\""));
  }
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connection < 0) return Error("socket", errno);
  Launcher launcher(connection, -1);
  // Connects in time as well.
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &kPatience,
             sizeof(kPatience));
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
    return Error(socket, errno);
  }
  ucred peer = {};
  socklen_t size = sizeof(peer);
  getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  launcher.pid_ = peer.pid;
  launcher.pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
  if (launcher.pidfd_ < 0) return Error("pidfd_open", errno);
  return launcher;
}

absl::StatusOr<std::optional<Launcher::Kept>> Launcher::TakeOver(
    const std::string& socket, const std::string& identity, int patience_ms) {
  auto launcher = Connect(socket);
  if (!launcher.ok()) return launcher.status();
  if (!launcher->has_value()) return std::nullopt;
  Kept kept = {
      .launcher = *std::move(*launcher), .processes = {}, .descriptors = {}};
  const int connection = kept.launcher.fd();
  std::vector<std::byte> rest;
  KeptHead head;
  const timeval patience = {.tv_sec = patience_ms / 1'000,
                            .tv_usec = patience_ms % 1'000 * 1'000};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  errno = 0;
  const bool is_heard =
      SayHello(connection, KeptHello::Kind::kTake, identity) &&
      HearAnswer(connection, head, rest, kept.descriptors);
  if (!is_heard && errno == EAGAIN) {
    const pid_t pid = kept.launcher.pid();
    kept.launcher.LetGo();
    return absl::AbortedError(absl::StrCat("launcher: process ", pid, " at \"",
                                           socket, "\" did not answer within ",
                                           patience_ms, " ms"));
  }
  if (!is_heard || head.kind == KeptHead::Kind::kEnded) {
    return absl::AbortedError("launcher: the kept processes have ended");
  }
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kNoLimit, sizeof(kNoLimit));
  if (head.kind == KeptHead::Kind::kOther) {
    const std::string theirs(reinterpret_cast<const char*>(rest.data()),
                             rest.size());
    return absl::FailedPreconditionError(
        absl::StrCat("launcher: the kept processes have ",
                     DifferenceOf(LinesOf(theirs), LinesOf(identity))));
  }
  kept.processes.resize(rest.size() / sizeof(KeptProcess));
  std::memcpy(kept.processes.data(), rest.data(),
              kept.processes.size() * sizeof(KeptProcess));
  return kept;
}

std::optional<Launcher::Waiting> Launcher::LookAt(const std::string& socket) {
  auto launcher = Connect(socket);
  if (!launcher.ok() || !launcher->has_value()) return std::nullopt;
  const int connection = (*launcher)->fd();
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kPatience,
             sizeof(kPatience));
  std::vector<std::byte> rest;
  std::vector<int> none;
  KeptHead head;
  const bool waits = SayHello(connection, KeptHello::Kind::kLook, "") &&
                     HearAnswer(connection, head, rest, none) &&
                     head.kind == KeptHead::Kind::kWaits;
  (*launcher)->LetGo();
  if (!waits) return std::nullopt;
  return Waiting{
      .processes = static_cast<uint32_t>(rest.size() / sizeof(KeptProcess)),
      .left_ms = head.left_ms};
}

bool Launcher::EndWaiting(const std::string& socket) {
  auto launcher = Connect(socket);
  if (!launcher.ok() || !launcher->has_value()) return false;
  // Its end is waited for where the launcher goes.
  if (SayHello((*launcher)->fd(), KeptHello::Kind::kEnd, "")) return true;
  (*launcher)->LetGo();
  return false;
}

Launcher::Launcher(Launcher&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::exchange(other.pidfd_, -1)) {}

void Launcher::LetGo() {
  close(std::exchange(socket_, -1));
  close(std::exchange(pidfd_, -1));
  pid_ = -1;
}

// Tells the launcher that this end is regular: it would wait for another
// process after a kill.
Launcher::~Launcher() {
  if (socket_ >= 0) {
    [[maybe_unused]] const auto sent =
        send(socket_, &kLaunchEnds, sizeof(kLaunchEnds), MSG_NOSIGNAL);
    close(socket_);
  }
  if (pidfd_ >= 0) {
    pollfd end = {.fd = pidfd_, .events = POLLIN, .revents = 0};
    while (poll(&end, 1, -1) < 0 && errno == EINTR) {
    }
    close(pidfd_);
    return;
  }
  if (pid_ < 0) return;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Launcher::StartAgain(uint32_t index,
                          std::span<const std::byte> argument) const {
  SNF_CHECK(argument.size() <= kMostArgumentBytes);
  std::array<std::byte, sizeof(index) + kMostArgumentBytes> message;
  std::memcpy(message.data(), &index, sizeof(index));
  std::ranges::copy(argument, message.begin() + sizeof(index));
  // Read reports a launcher that has ended.
  [[maybe_unused]] const auto sent = send(
      socket_, message.data(), sizeof(index) + argument.size(), MSG_NOSIGNAL);
}

bool Launcher::Read(LaunchNote& note) const {
  ssize_t size = 0;
  do {
    size = recv(socket_, &note, sizeof(note), 0);
  } while (size < 0 && errno == EINTR);
  note.text.back() = '\0';
  return size == static_cast<ssize_t>(sizeof(note));
}

}  // namespace snf
