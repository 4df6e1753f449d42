// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/test_real_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "controller/core/placement.h"
#include "platform/drivers/real_cluster/real_cluster.h"

namespace snf {

TestRealCluster::TestRealCluster(const RunOptions& options,
                                 const RealOptions& real, uint32_t controllers,
                                 const NfSpec& nf, std::string_view policy,
                                 const std::vector<RunObserver*>& observers)
    : TestRealCluster(
          options, real,
          ClusterOptions{.controllers = controllers, .shared = false}, nf,
          policy, observers) {}

TestRealCluster::TestRealCluster(const RunOptions& options,
                                 const RealOptions& real,
                                 const ClusterOptions& of_cluster,
                                 const NfSpec& nf, std::string_view policy,
                                 const std::vector<RunObserver*>& observers)
    : controllers_(of_cluster.controllers) {
  std::vector<Observers> of(controllers_);
  for (size_t i = 0; i < observers.size(); ++i) of[i].Add(*observers[i]);
  auto cluster =
      RealCluster::Start(options, real, of_cluster,
                         *FindPlacementPolicy(policy), nf, std::move(of));
  status_ = cluster.status();
  if (cluster.ok()) cluster_ = *std::move(cluster);
}

TestRealCluster::~TestRealCluster() = default;

void TestRealCluster::Offer(Instant time, std::span<const std::byte> bytes,
                            LinkType link) {
  ++offered_;
  cluster_->Offer({.time = time,
                   .bytes = bytes,
                   .original_bytes = static_cast<uint32_t>(bytes.size()),
                   .link = link});
}

RunResult TestRealCluster::Finish() {
  RunResult result = cluster_->Finish();
  EXPECT_EQ(cluster_->buffers_in_use(), 0u);
  EXPECT_TRUE(result.conserved())
      << result.packets_begun() << " and " << result.packets_ended();
  EXPECT_THAT(result.violation_messages, testing::IsEmpty());
  EXPECT_EQ(result.violations, 0u);
  EXPECT_EQ(result.packets_in, offered_);
  EXPECT_EQ(result.cluster.foreign_aliases, 0u);
  EXPECT_EQ(result.cluster.overpromised, 0u);
  EXPECT_EQ(result.controllers.size(), controllers_);
  uint64_t got = 0;
  for (const ControllerFigures& one : result.controllers) got += one.packets;
  EXPECT_LE(got, result.packets_begun());
  return result;
}

RealOptions AsFastAsCanBe(uint32_t threads) {
  return {.speed = {.kind = Speed::Kind::kMax, .value = 0},
          .threads = threads,
          .buffers = {.small = 4'096, .medium = 16, .large = 4},
          .unpaced = true,
          .wait_for_room = true};
}

}  // namespace snf
