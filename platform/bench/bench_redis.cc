// SPDX-License-Identifier: Apache-2.0
#include "platform/bench/bench_redis.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

extern char** environ;

namespace snf {
namespace {

constexpr timeval kPatience = {.tv_sec = 5, .tv_usec = 0};

absl::Status Failed(std::string_view what, std::string_view reason) {
  return absl::UnavailableError(
      fmt::format("redis-server: {}: {}", what, reason));
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
  // An interrupt at the terminal is for it as well, though this process has
  // another thread wait for it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  const int error = posix_spawnp(&child, arguments[0], &actions, &attributes,
                                 arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return absl::UnavailableError("no redis-server");
  if (error == 0) return child;
  return Failed("cannot start it", std::strerror(error));
}

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

// What hiredis answers to `command` on this connection; errors of the server
// are errors here.
absl::StatusOr<Reply> Checked(std::string_view command,
                              const redisContext& connection, void* answer) {
  Reply reply(static_cast<redisReply*>(answer));
  if (reply == nullptr) return Failed("no answer", connection.errstr);
  if (reply->type == REDIS_REPLY_ERROR) {
    return Failed(command, std::string_view(reply->str, reply->len));
  }
  return reply;
}

}  // namespace

void BenchRedis::Disconnect::operator()(redisContext* connection) const {
  redisFree(connection);
}

BenchRedis::BenchRedis() : on_broken_pipe_(signal(SIGPIPE, SIG_IGN)) {}

absl::StatusOr<std::unique_ptr<BenchRedis>> BenchRedis::Start() {
  std::unique_ptr<BenchRedis> redis(new BenchRedis);
  std::string directory = "/tmp/snf_bench_XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) {
    return Failed("a directory", std::strerror(errno));
  }
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
  connection_.reset();
  if (server_ > 0) {
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }
  signal(SIGPIPE, on_broken_pipe_);
  if (directory_.empty()) return;
  unlink((directory_ + "/socket").c_str());
  rmdir(directory_.c_str());
}

absl::Status BenchRedis::Connect() {
  using std::chrono::steady_clock;
  const std::string socket = directory_ + "/socket";
  const auto end = steady_clock::now() + std::chrono::seconds(kPatience.tv_sec);
  while (true) {
    connection_.reset(redisConnectUnixWithTimeout(socket.c_str(), kPatience));
    if (connection_ == nullptr) return Failed("cannot connect", "no memory");
    if (connection_->err == 0) break;
    if (steady_clock::now() > end) {
      return Failed("no answer within 5 s", connection_->errstr);
    }
    if (waitpid(server_, nullptr, WNOHANG) == server_) {
      server_ = -1;
      return absl::UnavailableError("redis-server: it stopped at once");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (redisSetTimeout(connection_.get(), kPatience) != REDIS_OK) {
    return Failed("a limit of time", connection_->errstr);
  }
  return absl::OkStatus();
}

absl::Status BenchRedis::Put(std::string_view key, std::string_view value) {
  return Checked("SET", *connection_,
                 redisCommand(connection_.get(), "SET %b %b", key.data(),
                              key.size(), value.data(), value.size()))
      .status();
}

absl::StatusOr<std::string> BenchRedis::Get(std::string_view key) {
  const auto reply = Checked(
      "GET", *connection_,
      redisCommand(connection_.get(), "GET %b", key.data(), key.size()));
  if (!reply.ok()) return reply.status();
  if ((*reply)->type != REDIS_REPLY_STRING) {
    return Failed("GET", "the answer is not a string");
  }
  return std::string((*reply)->str, (*reply)->len);
}

}  // namespace snf
