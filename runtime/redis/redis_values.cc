// SPDX-License-Identifier: Apache-2.0
#include "runtime/redis/redis_values.h"

#include <hiredis/hiredis.h>

#include <array>
#include <utility>

#include "base/check.h"

namespace snf {
namespace {

constexpr Nanos kPatienceWithValues = Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<RedisValues>> RedisValues::Start() {
  std::unique_ptr<RedisValues> values(new RedisValues);
  auto server = RedisServer::Start();
  if (!server.ok()) return server.status();
  values->server_ = *std::move(server);
  auto connection = ConnectToRedis(
      {.path = values->server_->socket(), .host = ""}, kPatienceWithValues);
  if (!connection.ok()) return connection.status();
  values->connection_ = *std::move(connection);
  return values;
}

absl::StatusOr<RedisReply> RedisValues::Ask(
    std::span<const std::string_view> words) {
  ++requests_;
  return AskRedis(*connection_, words);
}

absl::Status RedisValues::Get(std::span<const std::string> keys,
                              std::vector<std::string>& values) {
  std::vector<std::string_view> words = {"MGET"};
  words.insert(words.end(), keys.begin(), keys.end());
  const auto reply = Ask(words);
  if (!reply.ok()) return reply.status();
  if ((*reply)->type != REDIS_REPLY_ARRAY ||
      (*reply)->elements != keys.size()) {
    return absl::UnavailableError("MGET: not as many values as keys");
  }
  values.resize(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const redisReply& value = *(*reply)->element[i];
    values[i].clear();
    if (value.type == REDIS_REPLY_STRING)
      values[i].assign(value.str, value.len);
  }
  return absl::OkStatus();
}

absl::Status RedisValues::Set(std::span<const std::string> keys,
                              std::span<const std::string> values) {
  SNF_CHECK(keys.size() == values.size());
  std::vector<std::string_view> words = {"MSET"};
  for (size_t i = 0; i < keys.size(); ++i) {
    words.push_back(keys[i]);
    words.push_back(values[i]);
  }
  return Ask(words).status();
}

absl::Status RedisValues::Remove(std::string_view key) {
  return Ask(std::array<std::string_view, 2>{"DEL", key}).status();
}

absl::Status RedisValues::Increase(std::string_view key) {
  return Ask(std::array<std::string_view, 2>{"INCR", key}).status();
}

}  // namespace snf
