// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/host_registry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "resource_manager/etcd/test_etcd_fixture.h"

namespace snf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class HostRegistryTest : public EtcdTest {
 protected:
  void Begin() override {
    client_ = NewClient();
    registry_.emplace(*HostRegistry::Of(*client_, "test"));
  }
  static proto::Host HostOf(const std::string& name,
                            const std::string& version = "1") {
    proto::Host host;
    host.set_name(name);
    host.set_address("10.0.0.1");
    host.set_version(version);
    host.set_units(8);
    host.set_unit_capacity_bps(1'000'000'000);
    host.set_pid(7);
    return host;
  }
  std::string WhyNot(const proto::Host& host) {
    return std::string(registry_->Join(host, Seconds(2)).status().message());
  }

  std::unique_ptr<EtcdClient> client_;
  std::optional<HostRegistry> registry_;
};

TEST_F(HostRegistryTest, ListsHostsThatHaveJoined) {
  const auto b = registry_->Join(HostOf("b"), Seconds(60));
  const auto a = registry_->Join(HostOf("a"), Seconds(60));
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  const auto list = registry_->List();
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->host_size(), 2);
  EXPECT_EQ(list->host(0).host().SerializeAsString(),
            HostOf("a").SerializeAsString());
  EXPECT_EQ(list->host(0).term_s(), 60);
  EXPECT_LE(list->host(0).heard_s_ago(), 30);
  EXPECT_EQ(list->host(1).host().name(), "b");
  ASSERT_TRUE((*a)->Leave().ok());
  EXPECT_EQ(registry_->List()->host_size(), 1);
  EXPECT_EQ(HostRegistry::Of(*client_, "other")->List()->host_size(), 0);
}

TEST_F(HostRegistryTest, RefusesASecondHostOfAName) {
  const auto first = registry_->Join(HostOf("a"), Seconds(60));
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(WhyNot(HostOf("a")),
              AllOf(HasSubstr("\"a\" is there already"), HasSubstr("10.0.0.1"),
                    HasSubstr("process 7")));
  ASSERT_TRUE((*first)->Leave().ok());
  EXPECT_EQ(WhyNot(HostOf("a")), "");
}

TEST_F(HostRegistryTest, RefusesAnotherVersionByName) {
  const auto first = registry_->Join(HostOf("a", "1"), Seconds(60));
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(WhyNot(HostOf("b", "2")),
              AllOf(HasSubstr("\"b\" has version 2"), HasSubstr("\"a\""),
                    HasSubstr("version 1")));
  // An empty cluster takes any version.
  ASSERT_TRUE((*first)->Leave().ok());
  EXPECT_EQ(WhyNot(HostOf("b", "2")), "");
  EXPECT_THAT(WhyNot(HostOf("a", "1")), HasSubstr("has version 1"));
}

TEST_F(HostRegistryTest, RefusesWhatIsNoName) {
  for (const char* const name : {"", "a/b", "a b", "\x1b[0m"}) {
    EXPECT_THAT(WhyNot(HostOf(name)), HasSubstr("is no name of a host"));
    EXPECT_FALSE(HostRegistry::Of(*client_, name).ok());
    EXPECT_FALSE(registry_->Remove(name).ok());
  }
  EXPECT_THAT(WhyNot(HostOf(std::string(65, 'a'))), HasSubstr("at most 64"));
  EXPECT_TRUE(absl::IsNotFound(registry_->Remove("nonesuch")));
}

TEST_F(HostRegistryTest, TellsAHostThatItWasRemoved) {
  const auto host = registry_->Join(HostOf("a"), Seconds(60));
  ASSERT_TRUE(host.ok());
  EXPECT_EQ(*(*host)->Beat(), JoinedHost::State::kHere);
  ASSERT_TRUE(registry_->Remove("a").ok());
  EXPECT_EQ(*(*host)->Beat(), JoinedHost::State::kRemoved);
  EXPECT_EQ(registry_->List()->host_size(), 0);
}

TEST_F(HostRegistryTest, ForgetsASilentHostWhichMayJoinAgain) {
  const auto host = registry_->Join(HostOf("a"), Seconds(1));
  const auto other = registry_->Join(HostOf("b"), Seconds(1));
  ASSERT_TRUE(host.ok() && other.ok());
  ASSERT_TRUE(WaitFor([&] { return registry_->List()->host_size() == 0; }));
  EXPECT_EQ(*(*host)->Beat(), JoinedHost::State::kJoinedAgain);
  EXPECT_EQ(*(*host)->Beat(), JoinedHost::State::kHere);
  // Another one has its name meanwhile.
  const auto second = registry_->Join(HostOf("b"), Seconds(60));
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(std::string((*other)->Beat().status().message()),
              HasSubstr("\"b\" is there already"));
  EXPECT_EQ(*(*second)->Beat(), JoinedHost::State::kHere);
}

TEST_F(HostRegistryTest, LetsOneVersionInWhenTwoJoinAtOnce) {
  constexpr int kThreads = 8;
  int met = 0;
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> in{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const auto client = NewClient();
        HostRegistry registry = *HostRegistry::Of(*client, "test");
        const auto joined = registry.Join(
            HostOf(fmt::format("h{}", i), i % 2 == 0 ? "1" : "2"), Seconds(60));
        if (joined.ok()) ++in;
      });
    }
    for (std::thread& thread : threads) thread.join();
    const auto list = registry_->List();
    ASSERT_GT(in.load(), 0);
    EXPECT_EQ(list->host_size(), in.load());
    for (const proto::ListedHost& listed : list->host()) {
      EXPECT_EQ(listed.host().version(), list->host(0).host().version());
      ASSERT_TRUE(registry_->Remove(listed.host().name()).ok());
    }
    met += kThreads - in.load();
  }
  EXPECT_GE(met, 5);  // hosts that were refused
}

// Twelve hosts at a time, of which each name comes twice, and a third has
// another version.
TEST_F(HostRegistryTest, TakesEachNameOnceInAStormOfJoins) {
  constexpr int kThreads = 12;
  constexpr int kNames = 48;
  const auto first = registry_->Join(HostOf("first"), Seconds(60));
  ASSERT_TRUE(first.ok()) << first.status();
  std::atomic<int> in = 0;
  std::atomic<int> twice = 0;
  std::atomic<int> of_other_version = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto client = NewClient();
      HostRegistry registry = *HostRegistry::Of(*client, "test");
      for (int i = thread; i < 3 * kNames; i += kThreads) {
        const bool is_other = i >= 2 * kNames;
        const absl::Status joined =
            registry
                .Join(HostOf(fmt::format("h{}", i % kNames),
                             is_other ? "2" : "1"),
                      Seconds(60))
                .status();
        const std::string why(joined.message());
        if (joined.ok()) {
          ++in;
        } else if (why.find("has version 2") != std::string::npos) {
          ++of_other_version;
        } else if (why.find("is there already") != std::string::npos) {
          ++twice;
        } else {
          ADD_FAILURE() << joined;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(in, kNames);
  EXPECT_EQ(twice, kNames);
  EXPECT_EQ(of_other_version, kNames);
  const auto list = registry_->List();
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->host_size(), 1 + kNames);
  EXPECT_EQ(*(*first)->Beat(), JoinedHost::State::kHere);
}

TEST_F(HostRegistryTest, RefusesAValueOfAnotherProgram) {
  for (const char* const value : {"", "{", "[]", "{\"name\":\"b\"}", "7"}) {
    ASSERT_TRUE(client_->Put("/snf/test/hosts/a", value).ok());
    const absl::Status status = registry_->List().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << value << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/snf/test/hosts/a"));
  }
}

}  // namespace
}  // namespace snf
