// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/etcd/leadership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "resource_manager/etcd/test_etcd_fixture.h"

namespace snf {
namespace {

class LeadershipTest : public EtcdTest {
 protected:
  void Begin() override {
    client_ = *EtcdClient::Create({.endpoints = etcd_->endpoints(),
                                   .attempt = Milliseconds(500),
                                   .patience = Seconds(1)});
    ASSERT_TRUE(WaitFor([&] { return client_->Put("/up", "").ok(); }));
  }
  std::unique_ptr<Leadership> New(const char* value) {
    return std::make_unique<Leadership>(
        *client_, Leadership::Options{
                      .key = "/leader",
                      .value = value,
                      .term = Seconds(1),
                      .notice = [this](bool is_warning, const auto& line) {
                        const std::scoped_lock lock(mutex_);
                        told_.emplace_back(is_warning, line);
                      }});
  }
  bool MayWrite(const Leadership& leadership) {
    const auto outcome =
        client_->Transact({leadership.condition()}, {{"/x", "x"}});
    return outcome.ok() && outcome->is_done;
  }

  std::unique_ptr<EtcdClient> client_;
  std::mutex mutex_;
  std::vector<std::pair<bool, std::string>> told_;
};

TEST_F(LeadershipTest, IsOfOneUntilThatEnds) {
  auto first = New("first");
  ASSERT_TRUE(WaitFor([&] { return first->is_leader(); }));
  const auto second = New("second");
  // Renewals keep it for longer than a term.
  const Instant began = RealClock::Monotonic();
  while (RealClock::Monotonic() < began + Milliseconds(2'500)) {
    ASSERT_TRUE(first->is_leader());
    ASSERT_FALSE(second->is_leader());
  }
  EXPECT_TRUE(MayWrite(*first));
  EXPECT_FALSE(MayWrite(*second));
  EXPECT_EQ((*client_->Get("/leader"))->value, "first");
  first.reset();
  EXPECT_TRUE(WaitFor([&] { return second->is_leader(); }));
  EXPECT_TRUE(MayWrite(*second));
}

TEST_F(LeadershipTest, EndsByItsOwnClockIfEtcdStandsStill) {
  const auto leadership = New("first");
  ASSERT_TRUE(WaitFor([&] { return leadership->is_leader(); }));
  etcd_->Signal(0, SIGSTOP);
  const Instant began = RealClock::Monotonic();
  EXPECT_TRUE(WaitFor([&] { return !leadership->is_leader(); }));
  EXPECT_LT(RealClock::Monotonic(), began + Seconds(1));
  etcd_->Signal(0, SIGCONT);
  EXPECT_TRUE(WaitFor([&] { return leadership->is_leader(); }));
  EXPECT_TRUE(MayWrite(*leadership));
}

TEST_F(LeadershipTest, IsLostIfTheKeyIsTaken) {
  const auto leadership = New("first");
  ASSERT_TRUE(WaitFor([&] { return leadership->is_leader(); }));
  // As by etcd when the lease has ended there.
  const int64_t lease = (*client_->Get("/leader"))->lease;
  ASSERT_TRUE(client_->Revoke(lease).ok());
  ASSERT_TRUE(client_->Put("/leader", "another").ok());
  EXPECT_FALSE(MayWrite(*leadership));
  EXPECT_TRUE(WaitFor([&] { return !leadership->is_leader(); }));
  const auto has_told = [this](bool is_warning, std::string_view line) {
    const std::scoped_lock lock(mutex_);
    return std::ranges::any_of(told_, [&](const auto& one) {
      return one.first == is_warning && one.second.starts_with(line);
    });
  };
  EXPECT_TRUE(WaitFor([&] { return has_told(true, "no longer leads: "); }));
  EXPECT_TRUE(has_told(false, "leads"));
  ASSERT_TRUE(client_->Delete("/leader").ok());
  EXPECT_TRUE(WaitFor([&] { return leadership->is_leader(); }));
}

}  // namespace
}  // namespace snf
