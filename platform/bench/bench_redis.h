// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BENCH_BENCH_REDIS_H_
#define SNF_PLATFORM_BENCH_BENCH_REDIS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace snf {

// For benchmarks: a Redis server of its own, without a file or a port, on a
// unix socket in a new directory under /tmp, and a connection to it. Both end
// with it. Owner-thread only.
class BenchRedis {
 public:
  // Errors: Unavailable, with the reason: there is no redis-server, or it does
  // not answer within 5 s.
  static absl::StatusOr<std::unique_ptr<BenchRedis>> Start();
  ~BenchRedis();
  BenchRedis(const BenchRedis&) = delete;
  BenchRedis& operator=(const BenchRedis&) = delete;

  // A round trip each.
  absl::Status Put(std::string_view key, std::string_view value);
  absl::StatusOr<std::string> Get(std::string_view key);

 private:
  BenchRedis() = default;
  absl::Status Connect();
  // Sends a command in RESP; its answer is of one line, and a bulk string if
  // that says so.
  absl::StatusOr<std::string> Call(std::string_view command);

  std::string directory_;
  pid_t server_ = -1;
  int socket_ = -1;
};

}  // namespace snf

#endif  // SNF_PLATFORM_BENCH_BENCH_REDIS_H_
