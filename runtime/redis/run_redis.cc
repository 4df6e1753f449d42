// SPDX-License-Identifier: Apache-2.0
#include "runtime/redis/run_redis.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/keyed_hash.h"
#include "runtime/redis/redis_store.h"

namespace snf {
namespace {

constexpr int kTries = 5;
constexpr Nanos kTryPatience = Seconds(1);
constexpr std::chrono::milliseconds kFirstPause{20};

absl::Status TryOnce(const RedisAddress& address) {
  auto connection = ConnectToRedis(address, kTryPatience);
  if (!connection.ok()) return connection.status();
  return AskRedis(**connection, {"PING"}).status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunRedis>> RunRedis::Open(
    const std::string& address, const StoreOptions& options) {
  std::unique_ptr<RunRedis> redis(new RunRedis);
  redis->options_ = options;
  redis->key_ = fmt::format("snf:{:016x}", SecretSeed());
  if (!address.empty()) {
    auto parsed = ParseRedisAddress(address);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("--redis: {}", std::string(parsed.status().message())));
    }
    redis->address_ = *std::move(parsed);
  } else {
    auto server = RedisServer::Start();
    if (!server.ok()) {
      return absl::FailedPreconditionError(fmt::format(
          "--state=external: {}; install redis-server, or name a Redis with "
          "--redis",
          std::string(server.status().message())));
    }
    redis->server_ = *std::move(server);
    redis->address_.path = redis->server_->socket();
  }
  absl::Status status = redis->Check();
  if (!status.ok()) return status;
  return redis;
}

absl::Status RunRedis::Check() const {
  auto pause = kFirstPause;
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) {
      std::this_thread::sleep_for(pause);
      pause *= 2;
    }
    status = TryOnce(address_);
    if (status.ok()) return status;
  }
  return absl::FailedPreconditionError(fmt::format(
      "--redis={}: {} (tried {} times)", FormatRedisAddress(address_),
      std::string(status.message()), kTries));
}

RunRedis::~RunRedis() {
  if (server_ != nullptr || address_.path.empty() == address_.host.empty()) {
    return;
  }
  auto connection = ConnectToRedis(address_, kTryPatience);
  if (connection.ok()) AskRedis(**connection, {"UNLINK", key_}).IgnoreError();
}

std::unique_ptr<StateStore> RunRedis::MakeStore() {
  return std::make_unique<RedisStore>(address_, key_, options_, is_gone_);
}

}  // namespace snf
