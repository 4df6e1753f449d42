// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/test_cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/packet/classifier.h"
#include "base/packet/endpoint.h"
#include "controller/core/placement.h"
#include "platform/drivers/cluster/flow_dispatcher.h"
#include "platform/drivers/virtual_cluster/virtual_cluster.h"

namespace snf {
namespace {

// Sends what cannot be: of unknown, dead or other senders, with bad numbers.
void InjectBad(VirtualCluster& run, Rng& rng) {
  const auto any = static_cast<uint32_t>(rng.Below(run.members()));
  const ControllerLife life = run.member(any).life();
  const ControllerLife dead = {life.controller, 1};
  const ControllerLife unknown = {ControllerId{200}, uint64_t{1} << 32 | 1};
  const LeaseId lease{uint64_t{1} << 32 | rng.Below(100)};
  const GlobalUnitId unit{static_cast<uint32_t>(rng.Below(100))};
  const UnitLife no_unit = {unit, 1};
  const uint64_t epoch = 1 + rng.Below(2);
  switch (rng.Below(9)) {
    case 0:
      return run.Inject(Ask{life, ~uint64_t{0}, -rng.Uniform(1, 9)});
    case 1:
      return run.Inject(Ask{life, ~uint64_t{0}, int64_t{1} << 62});
    case 2:
      return run.Inject(Ask{life, 0, kWholeUnit});
    case 3:
      return run.Inject(Ask{dead, 1, kWholeUnit});
    case 4:
      return run.Inject(Ask{unknown, rng.Below(100), kWholeUnit / 16});
    case 5:
      return run.Inject(GiveBack{life, lease, -rng.Uniform(1, 9)});
    case 6:
      return run.Inject(ShareSet{no_unit, 1, lease, 0, kWholeUnit});
    case 7:
      return run.Inject(SetShare{no_unit, 1, lease, life, 9, kWholeUnit});
    default:
      return run.Inject(
          UnitLeaseReport{.unit = {.unit = no_unit, .manager_epoch = epoch}});
  }
}

}  // namespace

Ran RunCluster(const RunOptions& options, const ClusterOptions& cluster,
               const NfSpec& nf, const std::vector<CapturedPacket>& packets,
               const std::vector<RunObserver*>& observers,
               uint64_t close_units) {
  const auto joins =
      std::ranges::count_if(options.faults.changes, &MemberChange::joins);
  std::vector<Observers> of(cluster.controllers + static_cast<size_t>(joins));
  for (size_t i = 0; i < observers.size(); ++i) of[i].Add(*observers[i]);
  VirtualCluster run(options, cluster, *FindPlacementPolicy("snf"), nf,
                     std::move(of));
  Rng rng(close_units);
  Rng bad = Rng(close_units).Fork(1);
  for (const CapturedPacket& packet : packets) {
    run.Offer(packet);
    if (options.chaos.meets_leases() && bad.Chance(4'000)) InjectBad(run, bad);
    if (close_units == 0 || !rng.Chance(1'000)) continue;
    run.CloseUnit(0, GlobalUnitId{static_cast<uint32_t>(rng.Below(4))});
  }
  Ran ran = {.run = run.Finish()};
  ran.buffers_in_use = run.buffers_in_use();
  return ran;
}

void ExpectSoundCluster(const Ran& ran, bool late) {
  for (const std::string& message : ran.run.violation_messages) {
    ADD_FAILURE() << message;
  }
  EXPECT_EQ(ran.run.violations, 0u);
  EXPECT_TRUE(ran.run.conserved())
      << ran.run.packets_begun() << " and " << ran.run.packets_ended();
  EXPECT_EQ(ran.buffers_in_use, 0u);
  EXPECT_EQ(ran.run.cluster.overpromised, 0u);
  if (!late) {
    EXPECT_EQ(ran.run.cluster.overcommitted, 0u);
  }
  EXPECT_EQ(ran.run.cluster.foreign_aliases, 0u);
}

ClusterOptions AnyCluster(Rng& rng) {
  ClusterOptions cluster;
  cluster.controllers = static_cast<uint32_t>(rng.Uniform(1, 5));
  cluster.shared = rng.Chance(50'000);
  cluster.epoch = Milliseconds(rng.Uniform(2, 50));
  cluster.term = {cluster.epoch.ns * rng.Uniform(3, 10)};
  cluster.revoke_grace = Microseconds(rng.Uniform(50, 5'000));
  cluster.least_share = static_cast<uint32_t>(rng.Uniform(1, 300));
  return cluster;
}

uint32_t HostIsOf(std::span<const std::byte> frame, uint32_t controllers) {
  FlowClassifier classifier({});
  ParsedPacket headers;
  FlowKey key;
  const Direction direction =
      classifier.Classify(Instant{0}, LinkType::kEthernet, frame, headers, key);
  DispatchTable table;
  for (uint32_t c = 0; c < controllers; ++c) {
    table.Join(ControllerId{static_cast<uint8_t>(c)});
  }
  return value(*table.Steer({}, 0, EndpointsOf(key, direction).from));
}

absl::Status CheckCluster(const NfSpec& nf, uint32_t controllers) {
  return FlowDispatcher::Check(*nf.create(), controllers, /*units=*/0);
}

}  // namespace snf
