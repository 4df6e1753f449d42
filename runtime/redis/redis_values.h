// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_REDIS_REDIS_VALUES_H_
#define SNF_RUNTIME_REDIS_REDIS_VALUES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/redis/redis_connection.h"
#include "runtime/redis/redis_server.h"

namespace snf {

// Values by key in a Redis server of its own, which ends with this. Each call
// is one request, and waits for its answer: what a program does whose state is
// in a store. Keys and values may be any bytes. Owner-thread only.
//
// Errors are Unavailable, and final: the server is gone, does not answer for
// 5 s, or refuses.
class RedisValues {
 public:
  // Starts the server.
  static absl::StatusOr<std::unique_ptr<RedisValues>> Start();
  RedisValues(const RedisValues&) = delete;
  RedisValues& operator=(const RedisValues&) = delete;

  // Fills in the value of each key, "" for a key without a value.
  absl::Status Get(std::span<const std::string> keys,
                   std::vector<std::string>& values);
  // Sets the value of each key; there are as many values.
  absl::Status Set(std::span<const std::string> keys,
                   std::span<const std::string> values);
  absl::Status Remove(std::string_view key);
  // Adds one to a number, which is 0 at first.
  absl::Status Increase(std::string_view key);

  uint64_t requests() const { return requests_; }

 private:
  RedisValues() = default;
  absl::StatusOr<RedisReply> Ask(std::span<const std::string_view> words);

  IgnoreBrokenPipes ignore_broken_pipes_;
  std::unique_ptr<RedisServer> server_;
  RedisConnection connection_;
  uint64_t requests_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_REDIS_REDIS_VALUES_H_
