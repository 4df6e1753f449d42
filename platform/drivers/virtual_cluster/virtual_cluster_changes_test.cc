// SPDX-License-Identifier: Apache-2.0
//
// Controllers of a cluster that fail, join and leave: their flows go on as if
// nothing had been.
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "platform/drivers/virtual_cluster/test_cluster.h"
#include "platform/system_test/test_run.h"

namespace snf {
namespace {

constexpr Instant kStart{1'000'000'000'000};

RunOptions Options() {
  RunOptions options = SmallTables();
  options.controller = ControllerOptions{};
  options.controller.max_flows = 1'024;
  options.controller.max_units = 16;
  options.controller.flow_timeout = Milliseconds(200);
  options.controller.recovery_slots = 8;
  options.controller.max_owner_runs = 100'000;
  options.buffers = {.small = 8'192, .medium = 8'192, .large = 8'192};
  return options;
}

Kill KillAt(Nanos at, int controller = Kill::kAnyController) {
  Kill kill;
  kill.victim = Kill::Victim::kController;
  kill.controller = controller;
  kill.at = at;
  return kill;
}

// Of 40 flows in turn, at 400 Mbit/s for 60 ms.
std::vector<OfferedFrame> Steady(uint32_t flows = 40) {
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < 3'000; ++i) {
    packets.push_back(
        {.time = kStart + Nanos{i * int64_t{20'000}},
         .bytes =
             UdpFrame({.flow = i % flows, .sequence = i, .bytes = 1'000})});
  }
  return packets;
}

class Changes : public testing::Test {
 protected:
  Changes() : options_(Options()) { cluster_.controllers = 3; }

  // Runs all, and expects that each packet was released as a single
  // controller's would have been.
  RunResult RunLossless() {
    const auto packets = Steady();
    const Outcome one =
        RunFrames(Options(), TimelessChronicleNf(), packets, "snf");
    const Ran ran = RunCluster(options_, cluster_, TimelessChronicleNf(),
                               Captured(packets));
    ExpectSoundCluster(ran);
    EXPECT_EQ(ran.run.packets_in, packets.size());
    EXPECT_EQ(ran.run.packets_dropped(), 0u);
    EXPECT_EQ(ran.run.digest, one.run.digest);
    EXPECT_EQ(ran.run.cluster.flows_not_taken, 0u);
    return ran.run;
  }

  RunOptions options_;
  ClusterOptions cluster_;
};

TEST_F(Changes, FlowsOfOneThatLeavesGoOnAtOthers) {
  for (const bool loggers : {false, true}) {
    SCOPED_TRACE(loggers);
    options_.loggers = loggers;
    options_.faults.changes = {
        {.joins = false, .controller = 1, .at = Milliseconds(20)}};
    const RunResult run = RunLossless();
    EXPECT_EQ(run.cluster.left, 1u);
    // About a third of 40.
    EXPECT_GT(run.cluster.flows_moved, 5u);
    EXPECT_LT(run.cluster.flows_moved, 25u);
  }
}

TEST_F(Changes, OneThatJoinsGetsItsPartOfTheFlows) {
  for (const bool shared : {false, true}) {
    SCOPED_TRACE(shared);
    cluster_.shared = shared;
    options_.faults.changes = {{.joins = true, .at = Milliseconds(20)}};
    const RunResult run = RunLossless();
    EXPECT_EQ(run.cluster.joined, 1u);
    // About a quarter of 40, and those of no other.
    EXPECT_GT(run.cluster.flows_moved, 3u);
    EXPECT_LT(run.cluster.flows_moved, 20u);
  }
}

// What was in its buffers is lost, and nothing else is.
TEST_F(Changes, OneThatFailsHasASuccessor) {
  options_.loggers = true;
  options_.faults.kills = {KillAt(Milliseconds(20), 2)};
  const auto packets = Steady();
  const Ran ran =
      RunCluster(options_, cluster_, TimelessChronicleNf(), Captured(packets));
  ExpectSoundCluster(ran);
  const ControllerFaultFigures& faults = ran.run.controller_faults;
  EXPECT_EQ(faults.kills, 1u);
  EXPECT_EQ(faults.recovery_ns.count(), 1u);
  EXPECT_GT(faults.flows, 5u);
  EXPECT_LT(faults.flows, 25u);
  EXPECT_EQ(faults.flows_unnamed, 0u);
  EXPECT_EQ(ran.run.packets_dropped(), faults.packets_lost);
  EXPECT_EQ(ran.run.packets_released + faults.packets_lost, packets.size());
  EXPECT_EQ(ran.run.cluster.flows_moved, 0u);
  EXPECT_EQ(ran.run.cluster.gone, 0u);
}

TEST_F(Changes, AllOfThemInOneRun) {
  options_.loggers = true;
  options_.faults.kills = {KillAt(Milliseconds(10), 0),
                           KillAt(Milliseconds(31))};
  options_.faults.changes = {
      {.joins = true, .at = Milliseconds(15)},
      {.joins = false, .controller = 1, .at = Milliseconds(30)},
      {.joins = false, .controller = 9, .at = Milliseconds(35)},
      {.joins = true, .at = Milliseconds(40)}};
  const auto packets = Steady();
  const Ran ran =
      RunCluster(options_, cluster_, TimelessChronicleNf(), Captured(packets));
  ExpectSoundCluster(ran);
  EXPECT_EQ(ran.run.cluster.joined, 2u);
  EXPECT_EQ(ran.run.cluster.left, 1u);
  EXPECT_EQ(ran.run.cluster.changes_in_vain, 1u);
  EXPECT_EQ(ran.run.controller_faults.kills, 2u);
  EXPECT_EQ(ran.run.packets_dropped(), ran.run.controller_faults.packets_lost);
}

// Nothing is lost, and leases stay: the next one knows them from the units.
TEST_F(Changes, AResourceManagerThatFailsIsReplaced) {
  for (const bool shared : {true, false}) {
    SCOPED_TRACE(shared);
    cluster_.shared = shared;
    cluster_.epoch = Milliseconds(5);
    cluster_.term = Milliseconds(15);
    cluster_.revoke_grace = Milliseconds(1);  // and a tick: leases may lapse
    Kill kill;
    kill.victim = Kill::Victim::kManager;
    kill.at = Milliseconds(20);
    options_.faults.kills = {kill};
    // Longer than a term: without a manager no lease lapses.
    options_.faults.detection = Milliseconds(25);
    const RunResult run = RunLossless();
    EXPECT_EQ(run.cluster.managers_failed, 1u);
    EXPECT_EQ(run.cluster.managers_recovered, 1u);
    EXPECT_GE(run.cluster.manager_recovery_ns_max, 25'000'000u);
    EXPECT_LT(run.cluster.manager_recovery_ns_max, 26'000'000u);
    EXPECT_GT(run.cluster.unheard, 3u);
    EXPECT_EQ(run.cluster.gone, 0u);
    EXPECT_EQ(run.cluster.units_started, shared ? 1u : 3u);
  }
}

// Growth waits: one that joins gets no share before the next manager knows all.
TEST_F(Changes, WithoutAResourceManagerNobodyJoins) {
  Kill kill;
  kill.victim = Kill::Victim::kManager;
  kill.at = Milliseconds(20);
  options_.faults.kills = {kill};
  options_.faults.detection = Milliseconds(20);
  options_.faults.changes = {{.joins = true, .at = Milliseconds(25)}};
  EXPECT_EQ(RunLossless().cluster.joined, 1u);
  options_.faults.detection = Milliseconds(60);
  EXPECT_EQ(RunLossless().cluster.joined, 0u);
}

// Its successor goes on with the leases that units tell it, and has them
// confirmed once there is a manager.
TEST_F(Changes, AControllerFailsWhileThereIsNoResourceManager) {
  options_.loggers = true;
  options_.faults.detection = Milliseconds(5);
  cluster_.epoch = Milliseconds(5);
  cluster_.term = Milliseconds(15);
  cluster_.revoke_grace = Milliseconds(1);  // and a tick: leases may lapse
  Kill kill;
  kill.victim = Kill::Victim::kManager;
  kill.at = Milliseconds(20);
  // The manager is back before the successor is made, and after it.
  for (const int64_t later_us : {1'000, 4'900, -4'900, -1'000}) {
    SCOPED_TRACE(later_us);
    options_.faults.kills = {kill, KillAt(Microseconds(20'000 + later_us), 1)};
    const Ran ran = RunCluster(options_, cluster_, TimelessChronicleNf(),
                               Captured(Steady()));
    ExpectSoundCluster(ran);
    EXPECT_EQ(ran.run.cluster.managers_recovered, 1u);
    EXPECT_EQ(ran.run.controller_faults.recovery_ns.count(), 1u);
    EXPECT_EQ(
        ran.run.dropped[static_cast<size_t>(DropReason::kControllerFailed)],
        ran.run.packets_dropped());
    // Its leases did not lapse.
    EXPECT_EQ(ran.run.cluster.gone, 0u);
  }
}

// It cannot hear that, so another one has that share before its successor
// comes.
TEST_F(Changes, AShareIsCutWhileItsControllerIsNotThere) {
  options_.loggers = true;
  options_.controller.max_units = 1;
  options_.faults.detection = Milliseconds(20);
  options_.faults.kills = {KillAt(Milliseconds(20), 0)};
  options_.faults.changes = {{.joins = true, .at = Milliseconds(22)}};
  cluster_.controllers = 2;
  cluster_.fixed_shares = {700, 300, 100};
  cluster_.revoke_grace = Milliseconds(1);
  const Ran ran =
      RunCluster(options_, cluster_, TimelessChronicleNf(), Captured(Steady()));
  ExpectSoundCluster(ran);
  EXPECT_EQ(ran.run.cluster.joined, 1u);
  EXPECT_EQ(ran.run.cluster.revoked, 1u);
  EXPECT_EQ(ran.run.controllers[2].share_max, 100);
}

TEST_F(Changes, TheLastOneStays) {
  cluster_.controllers = 2;
  options_.faults.changes = {
      {.joins = false, .controller = 0, .at = Milliseconds(20)},
      {.joins = false, .controller = 1, .at = Milliseconds(25)}};
  const RunResult run = RunLossless();
  EXPECT_EQ(run.cluster.left, 1u);
  EXPECT_EQ(run.cluster.changes_in_vain, 1u);
}

}  // namespace
}  // namespace snf
