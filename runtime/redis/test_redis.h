// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_REDIS_TEST_REDIS_H_
#define SNF_RUNTIME_REDIS_TEST_REDIS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/redis/redis_server.h"

namespace snf {

// A server for a test, or null where there is no redis-server: then the test is
// to skip. Other reasons fail it.
inline std::unique_ptr<RedisServer> StartTestRedis() {
  auto server = RedisServer::Start();
  if (server.ok()) return *std::move(server);
  EXPECT_EQ(server.status().message(), "no redis-server");
  return nullptr;
}

#define SNF_SKIP_WITHOUT_REDIS(server)                            \
  if ((server) == nullptr) {                                      \
    GTEST_SKIP() << "redis-server is not installed: apt install " \
                    "redis-server";                               \
  }

}  // namespace snf

#endif  // SNF_RUNTIME_REDIS_TEST_REDIS_H_
