// SPDX-License-Identifier: Apache-2.0
#include "runtime/redis/run_redis.h"

#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "runtime/redis/test_redis.h"
#include "runtime/ring/real_clock.h"

namespace snf {
namespace {

std::string ErrorOf(const std::string& address) {
  const auto redis = RunRedis::Open(address, {});
  return redis.ok() ? "opened" : std::string(redis.status().message());
}

TEST(RunRedis, RefusesAnAddressThatIsNoneNamingIt) {
  EXPECT_EQ(ErrorOf("redis"),
            "--redis: \"redis\" has no port; want unix:/PATH or HOST:PORT");
  EXPECT_EQ(ErrorOf(":17"),
            "--redis: \":17\" has no port; want unix:/PATH or HOST:PORT");
  EXPECT_EQ(ErrorOf("unix:here"),
            "--redis: \"unix:here\" has no absolute path; want unix:/PATH or "
            "HOST:PORT");
  EXPECT_EQ(ErrorOf("a:70000"),
            "--redis: \"a:70000\" has no port from 1 to 65535; want "
            "unix:/PATH or HOST:PORT");
  EXPECT_EQ(ErrorOf("unix:/" + std::string(200, 'x')).find("--redis: \"unix"),
            0u);
}

TEST(RunRedis, SaysWhereNobodyAnswers) {
  EXPECT_EQ(ErrorOf("unix:/nonexistent/socket"),
            "--redis=unix:/nonexistent/socket: cannot connect: No such file "
            "or directory (tried 5 times)");
  EXPECT_EQ(ErrorOf("127.0.0.1:1"),
            "--redis=127.0.0.1:1: cannot connect: Connection refused (tried 5 "
            "times)");
}

TEST(RunRedis, StartsAServerThatEndsWithIt) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  pid_t process = -1;
  std::string socket;
  {
    auto redis = RunRedis::Open("", {});
    ASSERT_TRUE(redis.ok()) << redis.status();
    ASSERT_NE((*redis)->server(), nullptr);
    process = (*redis)->server()->process();
    socket = (*redis)->server()->socket();
    EXPECT_EQ(kill(process, 0), 0);
    EXPECT_TRUE(std::filesystem::exists(socket));
  }
  EXPECT_EQ(kill(process, 0), -1);
  EXPECT_FALSE(
      std::filesystem::exists(std::filesystem::path(socket).parent_path()));
}

TEST(RunRedis, LeavesNothingInTheRedisOfOthers) {
  const auto server = StartTestRedis();
  SNF_SKIP_WITHOUT_REDIS(server);
  auto connection =
      ConnectToRedis({.path = server->socket(), .host = ""}, Seconds(5));
  ASSERT_TRUE(connection.ok()) << connection.status();
  const auto keys = [&] {
    auto reply = AskRedis(**connection, {"DBSIZE"});
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? (*reply)->integer : -1;
  };
  {
    auto redis = RunRedis::Open("unix:" + server->socket(), {});
    ASSERT_TRUE(redis.ok()) << redis.status();
    const std::unique_ptr<StateStore> store = (*redis)->MakeStore();
    store->Write({.flow = FlowId{1}, .applied = Clock{1}}, {});
    const Instant end = RealClock::Monotonic() + Seconds(10);
    while (store->is_waiting() && RealClock::Monotonic() < end) {
      store->Poll([](const StoreAnswer&) {});
    }
    EXPECT_EQ(keys(), 1);
  }
  EXPECT_EQ(keys(), 0);
}

}  // namespace
}  // namespace snf
