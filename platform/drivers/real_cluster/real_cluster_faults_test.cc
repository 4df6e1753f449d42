// SPDX-License-Identifier: Apache-2.0
//
// Runs in real time of several controllers that fail under load (F9), and so
// may their resource manager.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/messages/drop_reason.h"
#include "base/packet/ip_prefix.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "platform/drivers/real_cluster/test_real_cluster.h"
#include "platform/drivers/real_time/test_by_flow.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_tiny_nat.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

using testing::HasSubstr;

constexpr Instant kBegin{1'000'000'000'000};

std::vector<OfferedFrame> FramesOf(uint32_t count, uint32_t flows, Nanos gap) {
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < count; ++i) {
    frames.push_back(
        {.time = kBegin + Nanos{gap.ns * i},
         .bytes = UdpFrame({.flow = i % flows, .sequence = i / flows})});
  }
  return frames;
}

Kill ControllerKill(int controller = Kill::kAnyController) {
  Kill kill;
  kill.victim = Kill::Victim::kController;
  kill.controller = controller;
  return kill;
}

Kill WithOneIn(Kill kill, uint32_t packets) {
  kill.chance_65536 = 65'536 / packets;
  return kill;
}

Kill ManagerKill() {
  Kill kill;
  kill.victim = Kill::Victim::kManager;
  return kill;
}

ClusterOptions ClusterOf(uint32_t controllers, bool shared) {
  return {.controllers = controllers,
          .shared = shared,
          .epoch = Milliseconds(2),
          .term = Seconds(10),  // a thread of a busy machine may be late
          .revoke_grace = Milliseconds(2)};
}

struct Seen {
  RunResult result;
  ByFlow by_flow;
};

Seen RunWithFailures(RunOptions options, const RealOptions& real,
                     const ClusterOptions& of_cluster, const NfSpec& nf,
                     std::span<const OfferedFrame> frames,
                     std::string_view policy = "snf") {
  options.loggers = true;
  std::deque<ByFlow> observers(of_cluster.controllers);
  std::vector<RunObserver*> observed;
  for (ByFlow& each : observers) observed.push_back(&each);
  TestRealCluster cluster(options, real, of_cluster, nf, policy, observed);
  EXPECT_TRUE(cluster.status().ok()) << cluster.status();
  if (!cluster.status().ok()) return {};
  for (const OfferedFrame& frame : frames) {
    cluster.Offer(frame.time, frame.bytes, frame.link);
  }
  Seen seen = {.result = cluster.Finish(), .by_flow = {}};
  for (const ByFlow& each : observers) seen.by_flow.Add(each);
  const RunResult& result = seen.result;
  EXPECT_EQ(result.failure, "");
  const ControllerFaultFigures& faults = result.controller_faults;
  for (size_t why = 0; why < result.dropped.size(); ++why) {
    const auto reason = static_cast<DropReason>(why);
    const bool is_loss = reason == DropReason::kControllerFailed;
    EXPECT_EQ(result.dropped[why], is_loss ? faults.packets_lost : 0)
        << ToString(reason);
  }
  EXPECT_EQ(faults.recovery_ns.count(), faults.kills);
  EXPECT_EQ(faults.flows_unnamed, 0u);
  EXPECT_EQ(result.controller.pieces.pieces_faulty, 0u);
  fmt::print(
      "{} controllers and {} managers failed, {} kills in vain; {} packets "
      "lost, {} waited; {} flows found\n",
      faults.kills, result.cluster.managers_failed, faults.kills_in_vain,
      faults.packets_lost, faults.packets_waited, faults.flows);
  return seen;
}

// Controllers share units, or have units of their own; so many threads run
// them. Units may show each other the states of flows.
struct Setup {
  bool shared;
  uint32_t threads;
  bool host_state = false;
};

class RealClusterFaults : public testing::TestWithParam<Setup> {
 protected:
  RealOptions real() const {
    RealOptions real = AsFastAsCanBe(GetParam().threads);
    real.host_state = GetParam().host_state;
    return real;
  }
  // Flows are idle, and move, more often where their states are shown.
  static RunOptions Options() {
    RunOptions options = SmallTables();
    if (GetParam().host_state) {
      options.controller.flowlet_timeout = Microseconds(20);
    }
    return options;
  }
  ClusterOptions Cluster(uint32_t controllers) const {
    return ClusterOf(controllers, GetParam().shared);
  }
};

TEST_P(RealClusterFaults, LoseNoFlowThatHasLostNothing) {
  const uint64_t seed = TestSeeds::One(1);
  const auto frames = FramesOf(10'000, 300, Microseconds(10));
  RunOptions options = Options();
  options.controller.seed = seed;
  options.controller.flow_timeout = Nanos::max();
  options.controller.max_units = 1;
  ByFlow whole;
  RunFrames(options, TimelessChronicleNf(), frames, "snf", &whole);
  options.controller.max_units = 4;
  options.faults.kills = {WithOneIn(ControllerKill(), 500)};
  const Seen seen = RunWithFailures(options, real(), Cluster(3),
                                    TimelessChronicleNf(), frames, "rotate");
  const ControllerFaultFigures& faults = seen.result.controller_faults;
  EXPECT_EQ(seen.result.packets_released + faults.packets_lost, 10'000u);
  EXPECT_GE(faults.kills, 3u);
  EXPECT_GE(faults.flows, 150u);
  EXPECT_GE(seen.by_flow.CompareWith(whole), 30u);
  const UnitCounters& units = seen.result.state.units;
  EXPECT_EQ(units.records_shown > 0, GetParam().host_state);
  // A controller that leases shares may have a single unit.
  if (GetParam().host_state && !GetParam().shared) {
    EXPECT_GT(units.records_read, 0u);
  }
}

// Only one of them: the others lose nothing, also in the units that it shares.
TEST_P(RealClusterFaults, LeaveOtherControllersAlone) {
  const auto frames = FramesOf(6'000, 60, Microseconds(20));
  RunOptions options = SmallTables();
  ByFlow whole;
  RunFrames(options, TimelessChronicleNf(), frames, "snf", &whole);
  options.controller.max_units = 3;
  Kill kill = ControllerKill(1);
  kill.at = Milliseconds(20);
  Kill again = kill;
  again.at = Milliseconds(70);
  options.faults.kills = {kill, again};
  RealOptions at_their_time = real();
  at_their_time.speed = Speed{};
  std::mutex mutex;
  std::vector<std::string> told;
  at_their_time.notice = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    told.emplace_back(line);
  };
  const Seen seen = RunWithFailures(options, at_their_time, Cluster(3),
                                    TimelessChronicleNf(), frames);
  const ControllerFaultFigures& faults = seen.result.controller_faults;
  // On a busy machine the second one may find that the first one's successor
  // is not there yet.
  EXPECT_EQ(faults.kills + faults.kills_in_vain, 2u);
  EXPECT_EQ(told.size(), 2 * faults.kills);  // of its end, and of the next one
  EXPECT_THAT(told, testing::Each(testing::StartsWith("controller 1: ")));
  EXPECT_GT(faults.flows, 10u);
  EXPECT_EQ(seen.result.controllers[0].dropped, 0u);
  EXPECT_EQ(seen.result.controllers[1].dropped, faults.packets_lost);
  EXPECT_EQ(seen.result.controllers[2].dropped, 0u);
  EXPECT_GE(seen.by_flow.CompareWith(whole), 30u);
}

// Flows begin all along, so that successors grant ports.
TEST_P(RealClusterFaults, LeaveEachPortToOneFlow) {
  const uint64_t seed = TestSeeds::One(1);
  constexpr uint32_t kFlows = 2'000;
  Rng rng(seed);
  std::vector<OfferedFrame> frames;
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    for (uint32_t i = 0; i < 5; ++i) {
      const uint64_t of = i == 0 ? flow : rng.Below(flow + 1);
      frames.push_back(
          {.time = kBegin + Microseconds(10 * (5 * int64_t{flow} + i)),
           .bytes =
               UdpFrame({.flow = static_cast<uint32_t>(of), .sequence = i})});
    }
  }
  RunOptions options = Options();
  options.controller.seed = seed;
  options.controller.flow_timeout = Nanos::max();
  options.inside = *ParsePrefixes("10.0.0.0/8");
  options.controller.max_units = 4;
  options.faults.kills = {WithOneIn(ControllerKill(), 500)};
  const Seen seen = RunWithFailures(
      options, real(), Cluster(2),
      *NfSpec::Parse("firewall | nat(ip=203.0.113.1)"), frames, "rotate");
  seen.by_flow.ExpectOneFlowForEachPort();
  EXPECT_GE(seen.by_flow.ports(), kFlows - 100);
  EXPECT_GE(seen.result.controller_faults.kills, 3u);
}

// Ports are taken and given back, flows end, and answers come by alias.
TEST_P(RealClusterFaults, TranslateAnswersOfFlowsThatTheyFound) {
  const uint64_t seed = TestSeeds::One(1);
  std::vector<OfferedFrame> frames;
  for (uint32_t i = 0; i < 6'000; ++i) {
    frames.push_back({.time = kBegin + Microseconds(20 * int64_t{i}),
                      .bytes = UdpFrame({.flow = i / 3 % 40,
                                         .sequence = i,
                                         .from_responder = i % 3 == 2})});
  }
  TinyNatOptions options = TinyNatTables("first=1024,last=5119");
  options.controller.seed = seed;
  options.inside = *ParsePrefixes("10.0.0.0/8");
  options.controller.max_units = 4;
  options.faults.kills = {WithOneIn(ControllerKill(), 300)};
  const Seen seen = RunWithFailures(options, real(), Cluster(3), options.nf,
                                    frames, "rotate");
  EXPECT_GE(seen.result.controller_faults.kills, 3u);
  EXPECT_GE(seen.result.aliases.packets_found, 1'900u);
  // All flows are over: what is out is whole grants of units that are leased.
  constexpr uint64_t kGrant = 64;
  EXPECT_EQ(seen.result.controller.pieces.pieces_out % kGrant, 0u);
}

INSTANTIATE_TEST_SUITE_P(Setups, RealClusterFaults,
                         testing::Values(Setup{true, 1}, Setup{true, 2},
                                         Setup{false, 1}, Setup{false, 2},
                                         Setup{true, 2, true},
                                         Setup{false, 2, true}));

// Units tell a successor of its leases, which nobody else could.
TEST(RealClusterFaultsOfAll, GoOnWithTheirLeasesWithoutAResourceManager) {
  const auto frames = FramesOf(4'000, 60, Microseconds(20));
  RunOptions options = SmallTables();
  ByFlow whole;
  RunFrames(options, TimelessChronicleNf(), frames, "snf", &whole);
  options.controller.max_units = 3;
  options.faults.detection = Seconds(100);  // none follows
  options.faults.kills = {ManagerKill()};
  options.faults.kills[0].at = Milliseconds(10);
  for (int controller = 0; controller < 3; ++controller) {
    options.faults.kills.push_back(ControllerKill(controller));
    options.faults.kills.back().at = Milliseconds(20 + 10 * controller);
  }
  RealOptions real = AsFastAsCanBe(2);
  real.speed = Speed{};
  const Seen seen = RunWithFailures(options, real, ClusterOf(3, true),
                                    TimelessChronicleNf(), frames);
  EXPECT_EQ(seen.result.controller_faults.kills, 3u);  // of each one
  EXPECT_EQ(seen.result.cluster.managers_failed, 1u);
  EXPECT_EQ(seen.result.cluster.managers_recovered, 0u);
  EXPECT_GE(seen.result.cluster.unheard, 3u);
  EXPECT_GE(seen.by_flow.CompareWith(whole), 30u);
}

// With resource managers that fail as well, leases that come and go, and an NF
// that asks for anything.
TEST(RealClusterFaultsAtRandom, HoldTheInvariants) {
  const TestSeeds seeds(12, 400);
  uint64_t kills = 0;
  uint64_t managers_recovered = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    fmt::print("{}: ", TestSeeds::Name(seed));
    Rng rng(seed);
    const bool is_timeless = rng.Chance(32'768);
    std::vector<OfferedFrame> frames =
        is_timeless ? FramesOf(3'000, static_cast<uint32_t>(rng.Uniform(1, 60)),
                               Microseconds(20))
                    : FramesThatAskForAnything(3'000, kBegin);
    RunOptions options = SmallTables();
    options.controller.seed = seed;
    ByFlow whole;
    if (is_timeless) {
      RunFrames(options, TimelessChronicleNf(), frames, "snf", &whole);
    }
    Nanos silence;
    for (OfferedFrame& frame : frames) {
      if (rng.Chance(200)) silence.ns += Milliseconds(5).ns;
      frame.time = frame.time + silence;
    }
    options.controller.max_units = static_cast<uint32_t>(rng.Uniform(1, 6));
    options.faults.kills = {WithOneIn(
        ControllerKill(), static_cast<uint32_t>(rng.Uniform(50, 600)))};
    if (rng.Chance(40'000)) {
      options.faults.kills.push_back(WithOneIn(
          ManagerKill(), static_cast<uint32_t>(rng.Uniform(100, 1'000))));
      options.faults.detection = Milliseconds(rng.Uniform(0, 5));
    }
    ClusterOptions cluster = ClusterOf(
        static_cast<uint32_t>(rng.Uniform(
            1, std::min<int64_t>(5, 7 * options.controller.max_units))),
        true);
    cluster.epoch = Milliseconds(rng.Uniform(1, 4));
    cluster.revoke_grace = Milliseconds(rng.Uniform(1, 4));
    RealOptions real = AsFastAsCanBe(static_cast<uint32_t>(rng.Uniform(1, 2)));
    if (rng.Chance(32'768)) real.speed = Speed{};
    real.unpaced = rng.Chance(32'768);
    real.host_state = seed % 2 == 0;
    const std::string_view policy = rng.Chance(32'768) ? "snf" : "rotate";
    const Seen seen = RunWithFailures(
        options, real, cluster,
        is_timeless ? TimelessChronicleNf() : ChronicleNf(), frames, policy);
    if (is_timeless) seen.by_flow.CompareWith(whole);
    EXPECT_LE(seen.result.cluster.managers_recovered,
              seen.result.cluster.managers_failed);
    kills += seen.result.controller_faults.kills;
    managers_recovered += seen.result.cluster.managers_recovered;
    if (testing::Test::HasFailure()) return;
  }
  if (!seeds.is_part) {
    EXPECT_GT(kills, 3 * seeds.count());
    EXPECT_GT(managers_recovered, 0u);
  }
}

// --- Tables that packets read (proto/protocol.md T8). ---

constexpr size_t kKeys = 4;
using Counts = std::array<std::atomic<uint64_t>, kKeys>;

// Counts packets by flow, and reads the counts of all controllers.
class SharedReader final : public NetworkFunction {
 public:
  Verdict process_packet(Packet& packet, FlowState&) override {
    const size_t key = FlowOf(packet.bytes()) % kKeys;
    const uint64_t read = counts_.get(key);
    // An update is seen only after it was made.
    too_high += read > made[key].load() ? 1 : 0;
    uint64_t before = most_read[key].load();
    while (read > before && !most_read[key].compare_exchange_weak(before, read))
      continue;
    ++made[key];
    counts_.update(key, 1);
    return Verdict::forward();
  }
  NfReport report() const override {
    NfReport::Table table = {.title = "counts", .columns = {}, .rows = {}};
    counts_.for_each([&](uint64_t key, uint64_t count) {
      table.rows.push_back({key, count});
    });
    return {.tables = {table}, .files = {}};
  }

  static void Forget() {
    for (auto& each : made) each = 0;
    for (auto& each : most_read) each = 0;
    too_high = 0;
  }
  // Sums over all units of all controllers.
  static inline Counts made{};
  static inline Counts most_read{};
  static inline std::atomic<uint64_t> too_high{0};

 private:
  SharedTable<uint64_t, uint64_t> counts_ =
      declare_shared<uint64_t, uint64_t>("counts", 100);
};
SNF_REGISTER_NF(SharedReader, "shared_reader", "for tests");

void ExpectAllCounted(const RunResult& result) {
  EXPECT_EQ(SharedReader::too_high, 0u);
  std::map<uint64_t, uint64_t> sums;
  for (const auto& row : result.nf_reports.at(0).report.tables.at(0).rows) {
    sums[std::get<uint64_t>(row[0])] = std::get<uint64_t>(row[1]);
  }
  for (size_t key = 0; key < kKeys; ++key) {
    EXPECT_EQ(sums[key], SharedReader::made[key]) << key;
  }
}

// Units are threads, which do not fail: each packet that a unit ran counts.
TEST(RealClusterTables, CountEachPacketOnceHoweverControllersFail) {
  const TestSeeds seeds(12, 400);
  uint64_t kills = 0;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    fmt::print("{}: ", TestSeeds::Name(seed));
    Rng rng(seed);
    const auto frames = FramesOf(3'000, 40, Microseconds(20));
    RunOptions options = SmallTables();
    options.controller.seed = seed;
    options.controller.max_units = static_cast<uint32_t>(rng.Uniform(1, 4));
    options.table_period = Microseconds(rng.Uniform(50, 5'000));
    if (rng.Chance(40'000)) {
      options.faults.kills = {WithOneIn(ControllerKill(), 300)};
    }
    ClusterOptions cluster =
        ClusterOf(static_cast<uint32_t>(rng.Uniform(2, 4)), rng.Chance(32'768));
    RealOptions real = AsFastAsCanBe(static_cast<uint32_t>(rng.Uniform(1, 2)));
    if (rng.Chance(32'768)) real.speed = Speed{};
    SharedReader::Forget();
    const Seen seen = RunWithFailures(options, real, cluster,
                                      {*FindNf("shared_reader"), {}}, frames);
    ExpectAllCounted(seen.result);
    kills += seen.result.controller_faults.kills;
    if (testing::Test::HasFailure()) return;
  }
  if (!seeds.is_part) {
    EXPECT_GT(kills, seeds.count());
  }
}

// Packets of one flow are counted, and then packets of flows of all controllers
// read the count, until one of another controller has read all of it.
TEST(RealClusterTables, AReaderLearnsWhatOtherControllersCounted) {
  constexpr uint32_t kCounted = 100;
  constexpr uint32_t kFlows = 16;
  RunOptions options = SmallTables();
  RealOptions real = AsFastAsCanBe(1);
  real.speed = Speed{};
  SharedReader::Forget();
  TestRealCluster cluster(options, real, ClusterOf(3, false),
                          {*FindNf("shared_reader"), {}}, "snf");
  ASSERT_TRUE(cluster.status().ok()) << cluster.status();
  Instant time = kBegin;
  uint32_t sequence = 0;
  const auto offer = [&](uint32_t flow) {
    time = time + Microseconds(500);
    cluster.Offer(time, UdpFrame({.flow = flow, .sequence = sequence++}));
  };
  for (uint32_t i = 0; i < kCounted; ++i) offer(0);
  // Each flow of the key adds one packet a round, and reads. With a table of
  // each controller, no read of ten rounds would be near the sum of all.
  constexpr uint32_t kLeast = 10 * kFlows;
  constexpr uint32_t kMost = 40'000;  // 20 s
  uint32_t offered = 0;
  const auto knows_all = [&] {
    return offered >= kLeast &&
           SharedReader::most_read[0] + kFlows >= kCounted + offered;
  };
  do {
    for (uint32_t flow = 0; flow < kFlows; ++flow) {
      offer(flow * kKeys);
      ++offered;
    }
    for (uint32_t i = 0; i < 100; ++i) offer(1);  // 50 ms
  } while (!knows_all() && sequence < kMost);
  EXPECT_TRUE(knows_all()) << SharedReader::most_read[0] << " of "
                           << kCounted + offered;
  ExpectAllCounted(cluster.Finish());
}

TEST(RealClusterFaultsRefuse, AControllerThatThereIsNot) {
  RunOptions options = SmallTables();
  options.loggers = true;
  options.faults.kills = {ControllerKill(3)};
  const auto refusal = [&] {
    const TestRealCluster cluster(options, AsFastAsCanBe(1), ClusterOf(3, true),
                                  TimelessChronicleNf());
    return std::string(cluster.status().message());
  };
  EXPECT_THAT(refusal(), HasSubstr("no controller 3"));
  options.faults.kills = {ControllerKill(2)};
  EXPECT_EQ(refusal(), "");
  options.loggers = false;
  EXPECT_THAT(refusal(), HasSubstr("output loggers"));
  options.faults.changes.emplace_back();
  EXPECT_THAT(refusal(), HasSubstr("join or leave"));
}

}  // namespace
}  // namespace snf
