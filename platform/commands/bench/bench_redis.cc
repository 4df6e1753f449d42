// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/bench_redis.h"

#include <hiredis/hiredis.h>

#include <array>

namespace snf {
namespace {

constexpr Nanos kRedisPatience = Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<BenchRedis>> BenchRedis::Start() {
  std::unique_ptr<BenchRedis> redis(new BenchRedis);
  auto server = RedisServer::Start();
  if (!server.ok()) return server.status();
  redis->server_ = *std::move(server);
  auto connection = ConnectToRedis(
      {.path = redis->server_->socket(), .host = ""}, kRedisPatience);
  if (!connection.ok()) return connection.status();
  redis->connection_ = *std::move(connection);
  return redis;
}

absl::Status BenchRedis::Put(std::string_view key, std::string_view value) {
  return AskRedis(*connection_, {"SET", key, value}).status();
}

absl::StatusOr<std::string> BenchRedis::Get(std::string_view key) {
  const auto reply = AskRedis(*connection_, {"GET", key});
  if (!reply.ok()) return reply.status();
  if ((*reply)->type != REDIS_REPLY_STRING) {
    return absl::UnavailableError("redis-server: GET: no string");
  }
  return std::string((*reply)->str, (*reply)->len);
}

absl::Status BenchRedis::PutMany(std::string_view key, std::string_view value,
                                 uint32_t times) {
  std::array<const char*, 3> words = {"SET", key.data(), value.data()};
  const std::array<size_t, 3> sizes = {3, key.size(), value.size()};
  for (uint32_t i = 0; i < times; ++i) {
    redisAppendCommandArgv(connection_.get(), words.size(), words.data(),
                           sizes.data());
  }
  for (uint32_t i = 0; i < times; ++i) {
    void* raw = nullptr;
    if (redisGetReply(connection_.get(), &raw) != REDIS_OK) {
      return absl::UnavailableError("redis-server: no answer");
    }
    const RedisReply reply(static_cast<redisReply*>(raw));
  }
  return absl::OkStatus();
}

}  // namespace snf
