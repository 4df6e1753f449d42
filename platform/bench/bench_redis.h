// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BENCH_BENCH_REDIS_H_
#define SNF_PLATFORM_BENCH_BENCH_REDIS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct redisContext;

namespace snf {

// A Redis server for benchmarks and a connection to it. The server has neither
// a port nor files: it listens on a unix socket in a new directory under /tmp,
// and ends with this object, as the directory does. While there is one,
// SIGPIPE is ignored: hiredis writes to a server that may have ended.
// Owner-thread only.
class BenchRedis {
 public:
  // Starts the server and connects. Errors: Unavailable, with the reason:
  // there is no redis-server, or it does not answer within 5 s.
  static absl::StatusOr<std::unique_ptr<BenchRedis>> Start();
  ~BenchRedis();
  BenchRedis(const BenchRedis&) = delete;
  BenchRedis& operator=(const BenchRedis&) = delete;

  // Each call is one round trip. Errors: Unavailable, with what the connection
  // or the server says; after an error of the connection every call fails.
  absl::Status Put(std::string_view key, std::string_view value);
  absl::StatusOr<std::string> Get(std::string_view key);

 private:
  struct Disconnect {
    void operator()(redisContext* connection) const;
  };

  BenchRedis();
  absl::Status Connect();

  std::string directory_;
  pid_t server_ = -1;
  std::unique_ptr<redisContext, Disconnect> connection_;
  void (*on_broken_pipe_)(int);  // what was set before
};

}  // namespace snf

#endif  // SNF_PLATFORM_BENCH_BENCH_REDIS_H_
