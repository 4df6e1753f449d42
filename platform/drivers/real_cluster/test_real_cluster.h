// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_TEST_REAL_CLUSTER_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_TEST_REAL_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/packet/link_type.h"
#include "base/time.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/real_time/real_driver.h"
#include "platform/run/run.h"
#include "platform/run/run_events.h"
#include "runtime/sdk/nf_spec.h"

namespace snf {

class RealCluster;

// A run of several controllers in real time, for tests.
class TestRealCluster {
 public:
  // The i-th observer is of the i-th controller. Controllers have units of
  // their own, unless the options of a cluster say otherwise.
  TestRealCluster(const RunOptions& options, const RealOptions& real,
                  uint32_t controllers, const NfSpec& nf,
                  std::string_view policy = "snf",
                  const std::vector<RunObserver*>& observers = {});
  TestRealCluster(const RunOptions& options, const RealOptions& real,
                  const ClusterOptions& cluster, const NfSpec& nf,
                  std::string_view policy = "snf",
                  const std::vector<RunObserver*>& observers = {});
  ~TestRealCluster();

  const absl::Status& status() const { return status_; }
  void Offer(Instant time, std::span<const std::byte> bytes,
             LinkType link = LinkType::kEthernet);
  // Expects what holds for every run.
  RunResult Finish();

 private:
  uint32_t controllers_;
  uint64_t offered_ = 0;
  absl::Status status_;
  std::unique_ptr<RealCluster> cluster_;
};

// As fast as can be, and without drops.
RealOptions AsFastAsCanBe(uint32_t threads);

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_TEST_REAL_CLUSTER_H_
