// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/loops/host_memories.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/ring/shared_region.h"

namespace snf {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBytes = 8'192;

class HostMemoriesTest : public ::testing::Test {
 protected:
  HostMemoriesTest() = default;
  ~HostMemoriesTest() override {
    for (const int fd : given_) close(fd);
  }

  // Lets the agent take one turn.
  void Turn() {
    std::vector<pollfd> waits;
    agent_.AddTo(waits);
    ASSERT_GT(poll(waits.data(), waits.size(), 10'000), 0);
    agent_.Serve(waits);
  }
  int Open(std::string daemon = "10.0.0.1") {
    return agent_.Open(std::move(daemon)).value();
  }
  absl::StatusOr<int> Ask(int session, const HostMemoryKey& key,
                          uint64_t bytes = kBytes) {
    std::thread agent([this] { Turn(); });
    auto fd = HostMemories::Ask(session, {.key = key, .bytes = bytes});
    agent.join();
    if (fd.ok()) given_.push_back(*fd);
    return fd;
  }
  void End(int session) {
    close(session);
    Turn();
  }
  static ino_t Identity(int fd) {
    struct stat facts = {};
    EXPECT_EQ(fstat(fd, &facts), 0);
    EXPECT_EQ(facts.st_size, off_t{kBytes});
    return facts.st_ino;
  }

  const HostMemoryKey key_ = HostMemoryKey::Draw();
  HostMemories agent_;
  std::vector<int> given_;
};

TEST_F(HostMemoriesTest, SessionsOfARunShareAMemory) {
  const auto first = Ask(Open(), key_);
  const auto second = Ask(Open(), key_);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Identity(*first), Identity(*second));
  EXPECT_EQ(agent_.memories(), 1u);
  auto one = SharedRegion::Map(*first, 0);
  auto other = SharedRegion::Map(*second, 0);
  ASSERT_TRUE(one.ok() && other.ok());
  one->bytes()[5] = std::byte{7};
  EXPECT_EQ(other->bytes()[5], std::byte{7});
}

TEST_F(HostMemoriesTest, RunsAndDaemonsSeeNothingOfEachOther) {
  const auto first = Ask(Open(), key_);
  const auto of_other_run = Ask(Open(), HostMemoryKey::Draw());
  const auto of_other_daemon = Ask(Open("10.0.0.2"), key_);
  ASSERT_TRUE(first.ok() && of_other_run.ok() && of_other_daemon.ok());
  EXPECT_NE(Identity(*first), Identity(*of_other_run));
  EXPECT_NE(Identity(*first), Identity(*of_other_daemon));
  EXPECT_NE(Identity(*of_other_run), Identity(*of_other_daemon));
  EXPECT_EQ(agent_.memories(), 3u);
}

TEST_F(HostMemoriesTest, IsFreedWithTheLastSession) {
  const int first = Open();
  const int second = Open();
  const int without = Open();  // asks for nothing
  ASSERT_TRUE(Ask(first, key_).ok());
  const auto before = Ask(second, key_);
  ASSERT_TRUE(before.ok());
  End(first);
  EXPECT_EQ(agent_.memories(), 1u);
  End(second);
  EXPECT_EQ(agent_.memories(), 0u);
  EXPECT_EQ(agent_.sessions(), 1u);
  // The same key names another memory then.
  const auto after = Ask(without, key_);
  ASSERT_TRUE(after.ok());
  EXPECT_NE(Identity(*before), Identity(*after));
}

TEST_F(HostMemoriesTest, WhatCannotBeIsRefusedByName) {
  ASSERT_TRUE(Ask(Open(), key_).ok());
  const auto other = Ask(Open(), key_, 2 * kBytes);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("16384 bytes of states, where the same run has 8192"));
  const auto none = Ask(Open(), HostMemoryKey::Draw(), 0);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("of 0 bytes"));
  const int twice = Open();
  ASSERT_TRUE(Ask(twice, key_).ok());
  const auto second = Ask(twice, HostMemoryKey::Draw());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("twice"));
  EXPECT_EQ(agent_.memories(), 1u);
}

TEST_F(HostMemoriesTest, ASessionThatTalksNonsenseIsForgotten) {
  const int session = Open();
  ASSERT_EQ(write(session, "x", 1), 1);
  Turn();
  EXPECT_EQ(agent_.sessions(), 0u);
  close(session);
}

TEST_F(HostMemoriesTest, AnAgentThatHasEndedIsNamed) {
  const int session = Open();
  agent_.CloseAll();
  const auto fd = HostMemories::Ask(session, {.key = key_, .bytes = kBytes});
  EXPECT_THAT(std::string(fd.status().message()), HasSubstr("agent"));
  close(session);
}

}  // namespace
}  // namespace snf
