// SPDX-License-Identifier: Apache-2.0
#include "platform/bench/bench_redis.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

extern char** environ;

namespace snf {
namespace {

absl::Status Failed(const std::string& what) {
  return absl::UnavailableError(
      fmt::format("redis-server: {}: {}", what, std::strerror(errno)));
}

std::string Bulk(std::string_view text) {
  return fmt::format("${}\r\n{}\r\n", text.size(), text);
}

// A child of this process; what it prints goes nowhere.
absl::StatusOr<pid_t> Spawn(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int descriptor : {0, 1, 2}) {
    posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR,
                                     0);
  }
  pid_t child = -1;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr,
                                 arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return absl::UnavailableError("no redis-server");
  if (error == 0) return child;
  errno = error;
  return Failed("cannot start it");
}

}  // namespace

absl::StatusOr<std::unique_ptr<BenchRedis>> BenchRedis::Start() {
  std::unique_ptr<BenchRedis> redis(new BenchRedis);
  std::string directory = "/tmp/snf_bench_XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return Failed("a directory");
  redis->directory_ = directory;
  auto server =
      Spawn({"redis-server", "--port", "0", "--save", "", "--appendonly", "no",
             "--dir", directory, "--unixsocket", directory + "/socket"});
  if (!server.ok()) return server.status();
  redis->server_ = *server;
  const absl::Status status = redis->Connect();
  if (!status.ok()) return status;
  return redis;
}

BenchRedis::~BenchRedis() {
  if (socket_ >= 0) close(socket_);
  if (server_ > 0) {
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }
  if (directory_.empty()) return;
  unlink((directory_ + "/socket").c_str());
  rmdir(directory_.c_str());
}

absl::Status BenchRedis::Connect() {
  using std::chrono::steady_clock;
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return Failed("a socket");
  timeval patience = {.tv_sec = 5, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  directory_.copy(address.sun_path, sizeof address.sun_path - 8);
  std::strcat(address.sun_path, "/socket");
  const auto end = steady_clock::now() + std::chrono::seconds(5);
  while (connect(socket_, reinterpret_cast<const sockaddr*>(&address),
                 sizeof address) != 0) {
    if (steady_clock::now() > end) return Failed("no answer within 5 s");
    if (waitpid(server_, nullptr, WNOHANG) == server_) {
      server_ = -1;
      return absl::UnavailableError("redis-server: it stopped at once");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> BenchRedis::Call(std::string_view command) {
  if (send(socket_, command.data(), command.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(command.size())) {
    return Failed("cannot send");
  }
  std::string answer;
  size_t wanted = 1;  // bytes; more is known once there is a line
  bool has_line = false;
  while (answer.size() < wanted || !has_line) {
    std::array<char, 4'096> part;
    const ssize_t got = recv(socket_, part.data(), part.size(), 0);
    if (got <= 0) return Failed("no answer");
    answer.append(part.data(), static_cast<size_t>(got));
    const size_t line = answer.find("\r\n");
    has_line = line != answer.npos;
    if (!has_line) continue;
    wanted = line + 2;
    if (answer[0] != '$') continue;
    int64_t bytes = -1;
    std::from_chars(answer.data() + 1, answer.data() + line, bytes);
    if (bytes >= 0) wanted += static_cast<size_t>(bytes) + 2;
  }
  return answer;
}

absl::Status BenchRedis::Put(std::string_view key, std::string_view value) {
  const auto answer = Call("*3\r\n" + Bulk("SET") + Bulk(key) + Bulk(value));
  if (!answer.ok()) return answer.status();
  if (*answer == "+OK\r\n") return absl::OkStatus();
  return absl::UnavailableError("redis-server: SET: " + *answer);
}

absl::StatusOr<std::string> BenchRedis::Get(std::string_view key) {
  auto answer = Call("*2\r\n" + Bulk("GET") + Bulk(key));
  if (!answer.ok()) return answer;
  const size_t line = answer->find("\r\n");
  if ((*answer)[0] != '$' || answer->size() < line + 4) {
    return absl::UnavailableError("redis-server: GET: " + *answer);
  }
  return answer->substr(line + 2, answer->size() - line - 4);
}

}  // namespace snf
