// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_ETCD_TEST_ETCD_FIXTURE_H_
#define SNF_RESOURCE_MANAGER_ETCD_TEST_ETCD_FIXTURE_H_

#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <memory>
#include <optional>

#include "base/time.h"
#include "resource_manager/etcd/etcd_client.h"
#include "resource_manager/etcd/test_etcd.h"
#include "runtime/ring/real_clock.h"

namespace snf {

// Waits without a clock of its own.
inline void Pause(Nanos time) {
  poll(nullptr, 0, static_cast<int>(time.ns / 1'000'000));
}

// Tests that each have an etcd of one member, and are skipped where the machine
// has no etcd.
class EtcdTest : public testing::Test {
 protected:
  void SetUp() final {
    if (!TestEtcd::IsHere()) {
      GTEST_SKIP() << "needs etcd and etcdctl (packages etcd-server and "
                      "etcd-client)";
    }
    etcd_.emplace();
    Begin();
  }
  // Is called once etcd was started.
  virtual void Begin() {}

  std::unique_ptr<EtcdClient> NewClient() const {
    return *EtcdClient::Create(
        {.endpoints = etcd_->endpoints(), .patience = Seconds(20)});
  }

  // Returns false if the condition is still false after a minute.
  static bool WaitFor(const std::function<bool()>& condition) {
    const Instant end = RealClock::Monotonic() + Seconds(60);
    while (RealClock::Monotonic() < end) {
      if (condition()) return true;
      Pause(Milliseconds(1));
    }
    return false;
  }

  std::optional<TestEtcd> etcd_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_ETCD_TEST_ETCD_FIXTURE_H_
