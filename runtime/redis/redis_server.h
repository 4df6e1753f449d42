// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_REDIS_REDIS_SERVER_H_
#define SNF_RUNTIME_REDIS_REDIS_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace snf {

// A Redis server of this process: it has neither a port nor files, and at most
// 1 GiB of data; it listens on a unix socket in a new directory under /tmp, and
// ends with this object, as the directory does, or with the thread that made
// it. Owner-thread only.
class RedisServer {
 public:
  // Starts it; it answers on return. Errors: Unavailable, with the reason:
  // there is no redis-server, or it does not answer within 5 s.
  static absl::StatusOr<std::unique_ptr<RedisServer>> Start();
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // The path of its socket, and its process, which tests stop and kill.
  std::string socket() const { return directory_ + "/socket"; }
  pid_t process() const { return process_; }

 private:
  RedisServer() = default;
  absl::Status AwaitAnswer();

  std::string directory_;
  pid_t process_ = -1;
};

}  // namespace snf

#endif  // SNF_RUNTIME_REDIS_REDIS_SERVER_H_
