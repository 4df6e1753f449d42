// SPDX-License-Identifier: Apache-2.0
//
// Address translation by several controllers: each has a block of the ports,
// by which what comes back finds it.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "gtest/gtest.h"
#include "platform/drivers/virtual_cluster/test_cluster.h"
#include "platform/system_test/test_schedule.h"
#include "platform/system_test/test_tiny_nat.h"
#include "platform/system_test/test_tiny_nat_schedule.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000'000};

TEST(VirtualClusterNat, TooSmallAPoolIsRefusedByName) {
  const TinyNatOptions options = TinyNatTables("first=1024,last=1151");
  EXPECT_TRUE(CheckCluster(options.nf, 2).ok());
  const absl::Status status = CheckCluster(options.nf, 3);
  EXPECT_NE(status.message().find("ports"), status.message().npos) << status;
}

// Hosts that each send and are answered, in turn.
std::vector<OfferedFrame> Answered(uint32_t hosts, uint32_t rounds) {
  std::vector<OfferedFrame> packets;
  Instant time = kStart;
  for (uint32_t i = 0; i < rounds * hosts; ++i) {
    for (const bool from_responder : {false, true}) {
      packets.push_back(
          {.time = time,
           .bytes = UdpFrame({.flow = i % hosts,
                              .sequence = i,
                              .bytes = 500,
                              .from_responder = from_responder})});
      time = time + Microseconds(200);
    }
  }
  return packets;
}

TEST(VirtualClusterNat, WhatComesBackFindsItsController) {
  TinyNatOptions options = TinyNatTables("first=1024,last=5119");
  options.controller = ControllerOptions{};
  options.controller.max_flows = 256;
  options.controller.max_units = 8;
  options.controller.flow_timeout = Seconds(2);
  const auto packets = Answered(60, 5);
  const Outcome one = ReplayTiny(options, packets);
  for (const uint32_t controllers : {2u, 8u}) {
    SCOPED_TRACE(controllers);
    ClusterOptions cluster;
    cluster.controllers = controllers;
    const Ran ran = RunCluster(options, cluster, options.nf, Captured(packets));
    ExpectSoundCluster(ran);
    EXPECT_EQ(ran.run.packets_dropped(), 0u);
    EXPECT_EQ(ran.run.aliases.packets_offered, packets.size() / 2);
    EXPECT_EQ(ran.run.aliases.packets_found, packets.size() / 2);
    EXPECT_EQ(ran.run.controller.aliases_granted, 60u);
    EXPECT_EQ(ran.run.digest_up_to_renaming, one.run.digest_up_to_renaming);
  }
}

TinyNatOptions ManyHosts(const std::string& pool) {
  TinyNatOptions options = TinyNatTables(pool);
  options.controller = ControllerOptions{};
  options.controller.max_flows = 1'024;
  options.controller.max_units = 8;
  options.controller.flow_timeout = Seconds(2);
  options.controller.recovery_slots = 8;
  options.controller.max_owner_runs = 100'000;
  return options;
}

// A flow takes its port along, and what comes back finds it there.
TEST(VirtualClusterNat, FlowsKeepTheirPortsWhoeverComesAndGoes) {
  TinyNatOptions options = ManyHosts("first=1024,last=5119");
  const auto packets = Answered(60, 5);
  const Outcome one = ReplayTiny(options, packets);
  options.faults.changes = {
      {.joins = false, .controller = 1, .at = Milliseconds(30)},
      {.joins = true, .at = Milliseconds(40)},
      {.joins = false, .controller = 0, .at = Milliseconds(60)}};
  ClusterOptions cluster;
  cluster.controllers = 3;
  for (const bool loggers : {false, true}) {
    SCOPED_TRACE(loggers);
    options.loggers = loggers;
    const Ran ran = RunCluster(options, cluster, options.nf, Captured(packets));
    ExpectSoundCluster(ran);
    EXPECT_EQ(ran.run.cluster.joined, 1u);
    EXPECT_EQ(ran.run.cluster.left, 2u);
    EXPECT_GT(ran.run.cluster.flows_moved, 30u);
    EXPECT_EQ(ran.run.packets_dropped(), 0u);
    EXPECT_EQ(ran.run.aliases.packets_found, packets.size() / 2);
    EXPECT_EQ(ran.run.controller.aliases_granted, 60u);
    EXPECT_EQ(ran.run.controller.pieces.pieces_faulty, 0u);
    EXPECT_EQ(ran.run.digest_up_to_renaming, one.run.digest_up_to_renaming);
  }
}

TEST(VirtualClusterNat, OneThatJoinsGetsPortsOfOthers) {
  TinyNatOptions options = ManyHosts("first=1024,last=5119");
  options.faults.changes = {{.joins = true, .at = Milliseconds(5)}};
  const auto packets = Answered(200, 2);
  const Ran ran = RunCluster(options, {}, options.nf, Captured(packets));
  ExpectSoundCluster(ran);
  EXPECT_EQ(ran.run.cluster.joined, 1u);
  EXPECT_GT(ran.run.cluster.words_given, 0u);
  EXPECT_EQ(ran.run.packets_dropped(), 0u);
  EXPECT_EQ(ran.run.controller.aliases_granted, 200u);
}

// Each of two controllers has 8 words of ports, and all hosts are those of one.
TEST(VirtualClusterNat, OneWhosePortsAreUsedUpGetsSomeOfAnother) {
  const TinyNatOptions options = ManyHosts("first=1024,last=2047");
  std::vector<OfferedFrame> packets;
  uint32_t hosts = 0;
  for (uint32_t flow = 0; hosts < 700; ++flow) {
    const auto frame = UdpFrame({.flow = flow, .sequence = flow, .bytes = 500});
    if (HostIsOf(frame, 2) != 0) continue;
    packets.push_back(
        {.time = kStart + Nanos{hosts++ * int64_t{100'000}}, .bytes = frame});
  }
  const Ran ran = RunCluster(options, {}, options.nf, Captured(packets));
  ExpectSoundCluster(ran);
  EXPECT_GE(ran.run.cluster.words_given, 3u);
  EXPECT_EQ(ran.run.controller.aliases_granted, 700u);
  EXPECT_EQ(ran.run.packets_dropped(), 0u);
}

TEST(VirtualClusterNat, HoldsItsPromisesOnAnySchedule) {
  uint64_t aliases = 0, found = 0, hairpinned = 0, moved = 0, refused = 0;
  constexpr uint64_t kSeeds = 100;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    TinyNatOptions options = AnyTinyNat(rng, AnyScheduleOfAsks(rng).options);
    options.nf = NfSpec(TinyNat(), *NfOptions::Parse("first=1024,last=1407"));
    ControllerOptions& c = options.controller;
    c.unit_capacity_bps = std::max<int64_t>(c.unit_capacity_bps, 1'000'000);
    options.hop_delay = std::min(options.hop_delay, Microseconds(50));
    options.loggers = rng.Chance(20'000);
    ClusterOptions cluster = AnyCluster(rng);
    const auto packets = AnyTinyTraffic(rng, !options.inside.empty());
    const Ran ran =
        RunCluster(options, cluster, options.nf, Captured(packets), {}, seed);
    ExpectSoundCluster(ran);
    const PieceCounters& pieces = ran.run.controller.pieces;
    EXPECT_EQ(pieces.pieces_faulty, 0u);
    EXPECT_EQ(pieces.messages_faulty, 0u);
    if (testing::Test::HasFailure()) return;
    aliases += ran.run.controller.aliases_granted;
    found += ran.run.aliases.packets_found;
    hairpinned += ran.run.aliases.packets_hairpinned;
    moved += ran.run.controller.flowlets_moved;
    refused += pieces.requests_refused;
  }
  std::cout << "seeds 1-" << kSeeds << ": " << aliases << " aliases, " << found
            << " packets found by them, " << hairpinned << " hairpinned, "
            << moved << " flowlets moved, " << refused
            << " requests of pieces refused\n";
  EXPECT_GT(aliases, 500u);
  EXPECT_GT(found, 1'000u);
  EXPECT_GT(hairpinned, 10u);
}

}  // namespace
}  // namespace snf
