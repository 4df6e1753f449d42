// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_BENCH_REDIS_H_
#define SNF_PLATFORM_COMMANDS_BENCH_BENCH_REDIS_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/redis/redis_connection.h"
#include "runtime/redis/redis_server.h"

namespace snf {

// A Redis server for benchmarks and a connection to it. Owner-thread only.
class BenchRedis {
 public:
  // Starts the server and connects. Errors: as RedisServer and ConnectToRedis.
  static absl::StatusOr<std::unique_ptr<BenchRedis>> Start();
  BenchRedis(const BenchRedis&) = delete;
  BenchRedis& operator=(const BenchRedis&) = delete;

  // Each call is one round trip. Errors: Unavailable, with what the connection
  // or the server says; after an error of the connection every call fails.
  absl::Status Put(std::string_view key, std::string_view value);
  absl::StatusOr<std::string> Get(std::string_view key);
  // Sends `times` puts at once, so that the server has the next one before it
  // answers.
  absl::Status PutMany(std::string_view key, std::string_view value,
                       uint32_t times);

 private:
  BenchRedis() = default;

  IgnoreBrokenPipes ignore_broken_pipes_;
  std::unique_ptr<RedisServer> server_;
  RedisConnection connection_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_BENCH_REDIS_H_
