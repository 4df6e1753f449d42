// SPDX-License-Identifier: Apache-2.0
#include "runtime/redis/redis_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

namespace snf {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr int kNoProgram = 127;  // as a shell says it

absl::Status ServerError(std::string_view what, std::string_view reason) {
  return absl::UnavailableError(
      fmt::format("redis-server: {}: {}", what, reason));
}

// In the child. Nothing but what a child of several threads may call.
[[noreturn]] void BecomeServer(pid_t parent, char* const* arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNoProgram);
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : {0, 1, 2}) dup2(nowhere, descriptor);
  // An interrupt at the terminal is for the parent, which ends the server.
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(arguments[0], arguments);
  _exit(kNoProgram);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisServer>> RedisServer::Start() {
  std::unique_ptr<RedisServer> server(new RedisServer);
  std::string directory = "/tmp/snf_redis_XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) {
    return ServerError("a directory", std::strerror(errno));
  }
  server->directory_ = directory;
  std::vector<std::string> words = {"redis-server",
                                    "--port",
                                    "0",
                                    "--save",
                                    "",
                                    "--appendonly",
                                    "no",
                                    "--dir",
                                    directory,
                                    "--unixsocket",
                                    server->socket(),
                                    "--unixsocketperm",
                                    "700",
                                    "--maxmemory",
                                    "1gb",
                                    "--maxmemory-policy",
                                    "noeviction"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t self = getpid();
  server->process_ = fork();
  if (server->process_ == 0) BecomeServer(self, arguments.data());
  if (server->process_ < 0) {
    return ServerError("cannot start it", std::strerror(errno));
  }
  absl::Status status = server->AwaitAnswer();
  if (!status.ok()) return status;
  return server;
}

RedisServer::~RedisServer() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  if (directory_.empty()) return;
  unlink(socket().c_str());
  rmdir(directory_.c_str());
}

absl::Status RedisServer::AwaitAnswer() {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + kPatience;
  while (true) {
    redisContext* const connection = redisConnectUnixWithTimeout(
        socket().c_str(), {.tv_sec = 1, .tv_usec = 0});
    const bool answers = connection != nullptr && connection->err == 0;
    redisFree(connection);
    if (answers) return absl::OkStatus();
    int how = 0;
    if (waitpid(process_, &how, WNOHANG) == process_) {
      process_ = -1;
      if (WIFEXITED(how) && WEXITSTATUS(how) == kNoProgram) {
        return absl::UnavailableError("no redis-server");
      }
      return absl::UnavailableError("redis-server stopped immediately");
    }
    if (steady_clock::now() > end) {
      return ServerError("no answer within", "5 s");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace snf
