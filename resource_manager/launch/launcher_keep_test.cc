// SPDX-License-Identifier: Apache-2.0
//
// Launchers whose processes outlive the one that wanted them. This program is
// the launcher as well: so it is called with kArgument.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "resource_manager/launch/launch_server.h"
#include "resource_manager/launch/launch_wire.h"
#include "resource_manager/launch/launcher.h"

namespace snf {
namespace {

constexpr char kArgument[] = "as-launcher";
constexpr int kProcesses = 2;
constexpr int kLong = 30'000;  // ms, which no test waits for
const std::string kIdentity =
    "processes\ttwo\nfile a.txt\t3 bytes\nflows\t10\n";

// Answers each byte with the next one, and ends with the other end.
int Echo(int socket) {
  for (char byte = 0; recv(socket, &byte, 1, 0) == 1;) {
    ++byte;
    if (send(socket, &byte, 1, MSG_NOSIGNAL) != 1) break;
  }
  return 0;
}

void Launch(int socket) {
  const absl::StatusOr<snf::Launch> launch = ReceiveLaunch(socket);
  if (!launch.ok()) return;
  std::vector<LaunchMethod::Process> processes;
  for (const int own : launch->descriptors) {
    processes.push_back({.body = [own](uint32_t) { return Echo(own); },
                         .descriptors = {own},
                         .name = "echo"});
  }
  ForkMethod method;
  ServeLaunch(socket, method, processes,
              launch->keep.has_value() ? &*launch->keep : nullptr);
}

// Runs ahead of main.
[[maybe_unused]] const bool is_launcher = [] {
  std::ifstream file("/proc/self/cmdline");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const size_t at = line.find(std::string(1, '\0') + kArgument + '\0');
  if (at == std::string::npos) return false;
  Launch(std::atoi(&line[at + sizeof(kArgument) + 1]));
  _exit(0);
}();

// A descriptor of a process, which becomes readable when that has ended.
class Watched {
 public:
  explicit Watched(pid_t pid)
      : pidfd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}
  Watched(Watched&& other) noexcept : pidfd_(std::exchange(other.pidfd_, -1)) {}
  Watched& operator=(Watched&&) = delete;
  ~Watched() {
    if (pidfd_ >= 0) close(pidfd_);
  }
  bool EndsWithin(int ms) const {
    pollfd wait = {.fd = pidfd_, .events = POLLIN, .revents = 0};
    return pidfd_ < 0 || poll(&wait, 1, ms) > 0;
  }

 private:
  int pidfd_;
};

class LauncherKeep : public testing::Test {
 protected:
  LauncherKeep() {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    socket_ = folder_ + "/kept";
  }
  ~LauncherKeep() override {
    unlink(socket_.c_str());
    rmdir(folder_.c_str());
  }

  // Starts a launcher in another process, which then waits to be killed, or
  // ends by itself once it hears something.
  void StartOwner(int patience_ms) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pipe.data()), 0);
    owner_ = fork();
    if (owner_ == 0) {
      close(pipe[0]);
      Own(pipe[1], patience_ms);
      _exit(0);
    }
    close(pipe[1]);
    to_owner_ = pipe[0];
    pids_.resize(kProcesses);
    ASSERT_EQ(recv(to_owner_, pids_.data(), sizeof(pid_t) * kProcesses, 0),
              static_cast<ssize_t>(sizeof(pid_t) * kProcesses));
    for (const pid_t pid : pids_) watched_.emplace_back(pid);
  }
  void Own(int pipe, int patience_ms) const {
    LaunchKeep keep = {.socket = socket_,
                       .patience_ms = patience_ms,
                       .identity = kIdentity,
                       .descriptors = {}};
    std::vector<int> theirs;
    for (int i = 0; i < kProcesses; ++i) {
      std::array<int, 2> ends{};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return;
      keep.descriptors.push_back(ends[0]);
      theirs.push_back(ends[1]);
    }
    const std::array<std::byte, 1> setup{};
    auto launcher = Launcher::Start({.program = "/proc/self/exe",
                                     .arguments = {kArgument},
                                     .setup = setup,
                                     .descriptors = theirs,
                                     .keep = &keep});
    if (!launcher.ok()) return;
    for (const int end : theirs) close(end);
    std::array<pid_t, kProcesses> pids{};
    for (pid_t& pid : pids) {
      LaunchNote note;
      if (!launcher->Read(note)) return;
      pid = note.pid;
    }
    send(pipe, pids.data(), sizeof(pids), 0);
    char byte = 0;
    recv(pipe, &byte, 1, 0);
  }
  void KillOwner() {
    kill(owner_, SIGKILL);
    waitpid(owner_, nullptr, 0);
    close(to_owner_);
  }
  bool AllEndWithin(int ms) const {
    for (const Watched& process : watched_) {
      if (!process.EndsWithin(ms)) return false;
    }
    return true;
  }
  bool has_socket() const { return access(socket_.c_str(), F_OK) == 0; }

  std::string folder_ = "/tmp/snf_keep_XXXXXX";
  std::string socket_;
  pid_t owner_ = -1;
  int to_owner_ = -1;
  std::vector<pid_t> pids_;
  std::vector<Watched> watched_;
};

TEST_F(LauncherKeep, GivesWhatItKeptToTheNextProcess) {
  StartOwner(kLong);
  struct stat file = {};
  ASSERT_EQ(stat(socket_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  KillOwner();
  {
    auto kept = Launcher::TakeOver(socket_, kIdentity);
    ASSERT_TRUE(kept.ok()) << kept.status();
    ASSERT_TRUE(kept->has_value());
    ASSERT_EQ((*kept)->processes.size(), size_t{kProcesses});
    for (int i = 0; i < kProcesses; ++i) {
      EXPECT_EQ((*kept)->processes[i].pid, pids_[i]);
      EXPECT_EQ((*kept)->processes[i].starts, 1u);
    }
    ASSERT_EQ((*kept)->descriptors.size(), size_t{kProcesses});
    for (const int socket : (*kept)->descriptors) {
      char byte = 'a';
      ASSERT_EQ(send(socket, &byte, 1, MSG_NOSIGNAL), 1);
      ASSERT_EQ(recv(socket, &byte, 1, 0), 1);
      EXPECT_EQ(byte, 'b');
    }
    EXPECT_FALSE(watched_[0].EndsWithin(0));
    // It hears of ends, and has one started again.
    kill(pids_[1], SIGKILL);
    LaunchNote note;
    ASSERT_TRUE((*kept)->launcher.Read(note));
    EXPECT_EQ(note.kind, LaunchNote::Kind::kEnded);
    EXPECT_EQ(note.pid, pids_[1]);
    (*kept)->launcher.StartAgain(1);
    ASSERT_TRUE((*kept)->launcher.Read(note));
    EXPECT_EQ(note.kind, LaunchNote::Kind::kStarted);
    watched_.emplace_back(note.pid);
    for (const int socket : (*kept)->descriptors) close(socket);
  }
  EXPECT_TRUE(AllEndWithin(kLong));
  EXPECT_FALSE(has_socket());
  const auto gone = Launcher::TakeOver(socket_, kIdentity);
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_FALSE(gone->has_value());
}

TEST_F(LauncherKeep, KeepsNothingOfOneThatEndsByItself) {
  StartOwner(kLong);
  send(to_owner_, "e", 1, 0);
  EXPECT_TRUE(Watched(owner_).EndsWithin(kLong / 3));
  waitpid(owner_, nullptr, 0);
  close(to_owner_);
  EXPECT_TRUE(AllEndWithin(0));  // it has waited for that
  EXPECT_FALSE(has_socket());
}

TEST_F(LauncherKeep, EndsAllIfNobodyComes) {
  StartOwner(50);
  KillOwner();
  EXPECT_TRUE(AllEndWithin(kLong));
}

TEST_F(LauncherKeep, RefusesWhoWantsAnotherThing) {
  StartOwner(kLong);
  KillOwner();
  const auto kept = Launcher::TakeOver(
      socket_, "processes\ttwo\nfile a.txt\t4 bytes\nfile b.txt\t1 byte\n");
  EXPECT_EQ(kept.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(kept.status().message(),
            "launcher: the kept processes have file a.txt \"3 bytes\", not "
            "\"4 bytes\"; file b.txt nothing, not \"1 byte\"; flows \"10\", "
            "not nothing");
  EXPECT_TRUE(AllEndWithin(0));
  EXPECT_FALSE(has_socket());
}

TEST_F(LauncherKeep, TellsOfThoseThatWereKilledAndStartsThemAgain) {
  StartOwner(kLong);
  kill(owner_, SIGSTOP);
  kill(pids_[0], SIGKILL);  // before its end
  EXPECT_TRUE(watched_[0].EndsWithin(kLong));
  KillOwner();
  ASSERT_TRUE(Launcher::LookAt(socket_).has_value());  // it waits
  kill(pids_[1], SIGKILL);                             // and after that
  EXPECT_TRUE(watched_[1].EndsWithin(kLong));
  auto kept = Launcher::TakeOver(socket_, kIdentity);
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_TRUE(kept->has_value());
  for (const int socket : (*kept)->descriptors) close(socket);
  for (uint32_t i = 0; i < kProcesses; ++i) {
    EXPECT_EQ((*kept)->processes[i].pid, -1);
    EXPECT_EQ((*kept)->processes[i].starts, 1u);
    (*kept)->launcher.StartAgain(i);
    LaunchNote note;
    ASSERT_TRUE((*kept)->launcher.Read(note));
    EXPECT_EQ(note.kind, LaunchNote::Kind::kStarted);
    EXPECT_EQ(note.index, i);
  }
}

TEST_F(LauncherKeep, KeepsNothingOnceAProcessHasFailedByItself) {
  StartOwner(kLong);
  KillOwner();
  ASSERT_TRUE(Launcher::LookAt(socket_).has_value());
  kill(pids_[0], SIGSEGV);
  EXPECT_TRUE(AllEndWithin(kLong));
  const auto kept = Launcher::TakeOver(socket_, kIdentity);
  EXPECT_TRUE(!kept.ok() || !kept->has_value());
}

TEST_F(LauncherKeep, SaysForHowLongItWaits) {
  StartOwner(kLong);
  KillOwner();
  for (int i = 0; i < 2; ++i) {
    const auto waiting = Launcher::LookAt(socket_);
    ASSERT_TRUE(waiting.has_value());
    EXPECT_EQ(waiting->processes, uint32_t{kProcesses});
    EXPECT_GT(waiting->left_ms, 0);
    EXPECT_LE(waiting->left_ms, kLong);
  }
  EXPECT_FALSE(AllEndWithin(0));
  EXPECT_TRUE(Launcher::EndWaiting(socket_));
  EXPECT_TRUE(AllEndWithin(0));  // it has waited for that
  EXPECT_FALSE(Launcher::LookAt(socket_).has_value());
  EXPECT_FALSE(Launcher::EndWaiting(socket_));
}

// A launcher whose user lives answers no other process.
TEST_F(LauncherKeep, IsNotWaitedForIfItDoesNotAnswer) {
  StartOwner(kLong);
  for (int life = 0; life < 2; ++life) {
    const auto kept = Launcher::TakeOver(socket_, kIdentity, 50);
    EXPECT_EQ(kept.status().code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(kept.status().message()),
                ::testing::HasSubstr("did not answer within 50 ms"));
  }
  KillOwner();
  EXPECT_FALSE(AllEndWithin(0));
  const auto kept = Launcher::TakeOver(socket_, kIdentity);
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_TRUE(kept->has_value());
  for (const int socket : (*kept)->descriptors) close(socket);
}

TEST_F(LauncherKeep, GoesOnToWaitWhereSomebodySaysNothing) {
  StartOwner(kLong);
  KillOwner();
  const int silent = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un address;
  ASSERT_TRUE(SocketAddressOf(socket_, address));
  ASSERT_EQ(connect(silent, reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)),
            0);
  close(silent);
  const auto kept = Launcher::TakeOver(socket_, kIdentity);
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_TRUE(kept->has_value());
  for (const int socket : (*kept)->descriptors) close(socket);
}

TEST(LauncherKeepOptions, NeedANameOfASocketAndNoLongIdentity) {
  const std::array<std::byte, 1> setup{};
  const int descriptor = STDERR_FILENO;
  const auto start = [&](const LaunchKeep& keep) {
    return Launcher::Start({.program = "/proc/self/exe",
                            .arguments = {kArgument},
                            .setup = setup,
                            .descriptors = {&descriptor, 1},
                            .keep = &keep})
        .status();
  };
  const std::string long_name(200, 'x');
  const absl::Status name =
      start({.socket = long_name, .identity = "", .descriptors = {}});
  EXPECT_EQ(name.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(name.message(),
            "launcher: not the name of a socket: \"" + long_name + "\"");
  const absl::Status identity =
      start({.socket = "s",
             .identity = std::string(Launcher::kMostIdentityBytes + 1, 'x'),
             .descriptors = {}});
  EXPECT_EQ(identity.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(identity.message(),
            "launcher: identity too long: 16385 bytes, at most 16384");
}

// The first message of a launcher: whole, or no launch.
TEST(LaunchWords, OfAnyBytesAreALaunchOrNone) {
  int launches = 0;
  int refused = 0;
  for (const uint64_t seed : TestSeeds(2'000, 100'000).all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
    const LaunchHead head = {
        .socket_bytes = static_cast<uint32_t>(rng.Below(2) * rng.Below(40)),
        .identity_bytes = static_cast<uint32_t>(
            rng.Below(8) == 0 ? rng.Next() : rng.Below(40)),
        .patience_ms = static_cast<int32_t>(rng.Next()),
        .kept = static_cast<uint32_t>(rng.Below(4))};
    std::vector<std::byte> bytes(rng.Below(120));
    std::ranges::generate(bytes, [&] { return std::byte(rng.Below(256)); });
    if (rng.Below(8) != 0) {
      bytes.resize(std::max(bytes.size(), sizeof(head)));
      std::memcpy(bytes.data(), &head, sizeof(head));
    }
    const std::vector<int> descriptors(rng.Below(4), STDERR_FILENO);
    SendWithDescriptors(ends[0], bytes, descriptors);
    close(ends[0]);
    const absl::StatusOr<snf::Launch> launch = ReceiveLaunch(ends[1]);
    close(ends[1]);
    ++(launch.ok() ? launches : refused);
    if (!launch.ok()) continue;
    size_t received = launch->descriptors.size();
    ASSERT_LE(launch->setup.size(), bytes.size());
    for (const int descriptor : launch->descriptors) close(descriptor);
    if (launch->keep.has_value()) {
      received += launch->keep->descriptors.size();
      for (const int descriptor : launch->keep->descriptors) close(descriptor);
    }
    ASSERT_EQ(received, descriptors.size());
  }
  EXPECT_GT(launches, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace snf
