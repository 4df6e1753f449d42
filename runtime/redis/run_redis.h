// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_REDIS_RUN_REDIS_H_
#define SNF_RUNTIME_REDIS_RUN_REDIS_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/redis/redis_connection.h"
#include "runtime/redis/redis_server.h"
#include "runtime/store/state_store.h"
#include "runtime/store/store_options.h"

namespace snf {

// The Redis in which a run keeps the state of its flows: an existing server, or
// a server of its own, which ends with this object. In an existing server the
// states are one hash, snf:RUN with a random RUN, which is removed at the end;
// a killed run leaves it behind. Owner-thread only, except for the stores.
class RunRedis {
 public:
  // `address` as ParseRedisAddress, or "" for a server of its own. It is tried
  // a few times, for less than 10 s in all. Errors, which name the address:
  // InvalidArgument, a bad one; FailedPrecondition, no Redis answers there, or
  // there is no redis-server.
  static absl::StatusOr<std::unique_ptr<RunRedis>> Open(
      const std::string& address, const StoreOptions& options);
  ~RunRedis();

  // A connection for one loop, of whichever thread; it must not outlive this.
  std::unique_ptr<StateStore> MakeStore();
  // A store has found that the Redis is gone (RedisStore). Any thread.
  bool is_gone() const { return is_gone_.load(std::memory_order_relaxed); }

  const RedisAddress& address() const { return address_; }
  // Null if the server is somebody else's.
  const RedisServer* server() const { return server_.get(); }

 private:
  RunRedis() = default;
  absl::Status Check() const;

  IgnoreBrokenPipes ignore_broken_pipes_;
  std::unique_ptr<RedisServer> server_;
  RedisAddress address_;
  std::string key_;
  StoreOptions options_;
  std::atomic<bool> is_gone_{false};
};

}  // namespace snf

#endif  // SNF_RUNTIME_REDIS_RUN_REDIS_H_
