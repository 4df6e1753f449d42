// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_REDIS_REDIS_CONNECTION_H_
#define SNF_RUNTIME_REDIS_REDIS_CONNECTION_H_

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"

struct redisContext;
struct redisReply;

namespace snf {

// Address of a Redis: a unix socket, or else a host and port.
struct RedisAddress {
  std::string path;
  std::string host;
  int port = 0;
};
// Reads unix:/PATH or HOST:PORT. Errors: InvalidArgument, which quotes it.
absl::StatusOr<RedisAddress> ParseRedisAddress(const std::string& text);
std::string FormatRedisAddress(const RedisAddress& address);

struct DisconnectRedis {
  void operator()(redisContext* connection) const;
};
using RedisConnection = std::unique_ptr<redisContext, DisconnectRedis>;
struct FreeRedisReply {
  void operator()(redisReply* reply) const;
};
using RedisReply = std::unique_ptr<redisReply, FreeRedisReply>;

// Connects, and lets no command of AskRedis take longer than `patience`.
// Errors: Unavailable.
absl::StatusOr<RedisConnection> ConnectToRedis(const RedisAddress& address,
                                               Nanos patience);
// Begins to connect; a failure shows at the first command. Null if there is no
// memory.
RedisConnection BeginToConnect(const RedisAddress& address);

// Sends a command, each word of which may be any bytes, and waits for its
// reply. Errors: Unavailable, from the server, or from the connection, which is
// unusable then.
absl::StatusOr<RedisReply> AskRedis(redisContext& connection,
                                    std::span<const std::string_view> words);
inline absl::StatusOr<RedisReply> AskRedis(
    redisContext& connection, std::initializer_list<std::string_view> words) {
  return AskRedis(connection, std::span(words.begin(), words.size()));
}

// While there is one, SIGPIPE is ignored: hiredis writes to a server that may
// have ended.
class IgnoreBrokenPipes {
 public:
  IgnoreBrokenPipes();
  ~IgnoreBrokenPipes();
  IgnoreBrokenPipes(const IgnoreBrokenPipes&) = delete;
  IgnoreBrokenPipes& operator=(const IgnoreBrokenPipes&) = delete;

 private:
  void (*before_)(int);
};

}  // namespace snf

#endif  // SNF_RUNTIME_REDIS_REDIS_CONNECTION_H_
