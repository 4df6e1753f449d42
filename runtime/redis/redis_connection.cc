// SPDX-License-Identifier: Apache-2.0
#include "runtime/redis/redis_connection.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/un.h>

#include <charconv>
#include <vector>

namespace snf {
namespace {

constexpr std::string_view kUnix = "unix:";

timeval TimeOf(Nanos time) {
  return {.tv_sec = time.ns / 1'000'000'000,
          .tv_usec = time.ns % 1'000'000'000 / 1'000};
}

absl::Status ConnectError(std::string_view reason) {
  return absl::UnavailableError(fmt::format("cannot connect: {}", reason));
}

}  // namespace

absl::StatusOr<RedisAddress> ParseRedisAddress(const std::string& text) {
  const auto bad = [&text](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" {}; want unix:/PATH or HOST:PORT", text, why));
  };
  if (text.starts_with(kUnix)) {
    RedisAddress address = {.path = text.substr(kUnix.size()), .host = ""};
    if (!address.path.starts_with('/')) return bad("has no absolute path");
    if (address.path.size() >= sizeof(sockaddr_un{}.sun_path)) {
      return bad("is longer than a socket's path may be");
    }
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad("has no port");
  RedisAddress address = {.path = "", .host = text.substr(0, colon)};
  const char* const end = text.data() + text.size();
  const auto parsed =
      std::from_chars(text.data() + colon + 1, end, address.port);
  if (parsed.ec != std::errc() || parsed.ptr != end || address.port < 1 ||
      address.port > 65'535) {
    return bad("has no port from 1 to 65535");
  }
  return address;
}

std::string FormatRedisAddress(const RedisAddress& address) {
  if (!address.path.empty()) return fmt::format("{}{}", kUnix, address.path);
  return fmt::format("{}:{}", address.host, address.port);
}

void DisconnectRedis::operator()(redisContext* connection) const {
  redisFree(connection);
}

void FreeRedisReply::operator()(redisReply* reply) const {
  freeReplyObject(reply);
}

absl::StatusOr<RedisConnection> ConnectToRedis(const RedisAddress& address,
                                               Nanos patience) {
  const timeval timeout = TimeOf(patience);
  RedisConnection connection(
      address.path.empty()
          ? redisConnectWithTimeout(address.host.c_str(), address.port, timeout)
          : redisConnectUnixWithTimeout(address.path.c_str(), timeout));
  if (connection == nullptr) return ConnectError("no memory");
  if (connection->err != 0) return ConnectError(connection->errstr);
  if (redisSetTimeout(connection.get(), timeout) != REDIS_OK) {
    return ConnectError(connection->errstr);
  }
  return connection;
}

RedisConnection BeginToConnect(const RedisAddress& address) {
  return RedisConnection(
      address.path.empty()
          ? redisConnectNonBlock(address.host.c_str(), address.port)
          : redisConnectUnixNonBlock(address.path.c_str()));
}

absl::StatusOr<RedisReply> AskRedis(redisContext& connection,
                                    std::span<const std::string_view> words) {
  std::vector<const char*> starts;
  std::vector<size_t> sizes;
  for (const std::string_view word : words) {
    starts.push_back(word.data());
    sizes.push_back(word.size());
  }
  RedisReply reply(static_cast<redisReply*>(
      redisCommandArgv(&connection, static_cast<int>(starts.size()),
                       starts.data(), sizes.data())));
  if (reply == nullptr) {
    return absl::UnavailableError(
        fmt::format("no answer: {}", connection.errstr));
  }
  if (reply->type == REDIS_REPLY_ERROR) {
    return absl::UnavailableError(fmt::format(
        "{}: {}", words.front(), std::string_view(reply->str, reply->len)));
  }
  return reply;
}

IgnoreBrokenPipes::IgnoreBrokenPipes() : before_(signal(SIGPIPE, SIG_IGN)) {}

IgnoreBrokenPipes::~IgnoreBrokenPipes() { signal(SIGPIPE, before_); }

}  // namespace snf
