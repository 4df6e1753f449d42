// SPDX-License-Identifier: Apache-2.0
//
// Random schedules in which controllers and resource managers fail, and
// controllers join and leave, while units are taken back and messages about
// leases are late, lost, come twice or cannot be. The checker holds them to
// I1-I4 and I6-I8. SNF_LONG_TESTS=1 runs 20,000 of them, SNF_TEST_SEED=m-n
// those with these seeds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <iostream>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "base/test_seeds.h"
#include "gtest/gtest.h"
#include "platform/drivers/virtual_cluster/test_cluster.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_schedule.h"
#include "platform/system_test/test_tiny_nat.h"
#include "platform/system_test/test_tiny_nat_schedule.h"
#include "runtime/sdk/nf.h"

namespace snf {
namespace {

// Sums over schedules, by name.
using Totals = std::map<std::string_view, uint64_t>;

void Add(const RunResult& run, Totals& totals) {
  totals["packets"] += run.packets_in;
  totals["released"] += run.packets_released;
  totals["i6 compared"] += run.i6_compared;
  totals["flowlets moved"] += run.controller.flowlets_moved;
  totals["joined"] += run.cluster.joined;
  totals["left"] += run.cluster.left;
  totals["changes in vain"] += run.cluster.changes_in_vain;
  totals["flows moved"] += run.cluster.flows_moved;
  totals["flows not taken"] += run.cluster.flows_not_taken;
  totals["packets waited"] += run.cluster.packets_waited;
  totals["leases revoked"] += run.cluster.revoked;
  totals["leases gone"] += run.cluster.gone;
  totals["lease messages refused"] += run.cluster.refused;
  totals["lease messages lost"] += run.cluster.messages_lost;
  totals["lease messages twice"] += run.cluster.messages_duplicated;
  totals["lease messages unheard"] += run.cluster.unheard;
  totals["managers killed"] += run.cluster.managers_failed;
  totals["managers recovered"] += run.cluster.managers_recovered;
  uint64_t& longest = totals["longest without a share, us"];
  longest = std::max(longest, run.cluster.unleased_ns_max / 1'000);
  totals["controllers killed"] += run.controller_faults.kills;
  totals["packets lost"] += run.controller_faults.packets_lost;
  totals["tombstones"] += run.controller_faults.tombstones;
}

// Faults near packets of the schedule, of up to five controllers.
FaultOptions AnyFaults(const std::vector<OfferedFrame>& packets, bool kills,
                       Rng& rng) {
  FaultOptions faults;
  const auto any_time = [&] {
    const OfferedFrame& near = packets[rng.Below(packets.size())];
    const int64_t since = (near.time - packets.front().time).ns;
    return Nanos{std::max<int64_t>(since + rng.Uniform(-5'000, 100'000), 0)};
  };
  for (uint64_t i = rng.Below(4); i > 0; --i) {
    const bool joins = rng.Chance(30'000);
    faults.changes.push_back({.joins = joins, .at = any_time()});
  }
  for (uint64_t i = kills ? rng.Below(4) : 0; i > 0; --i) {
    Kill kill;
    kill.victim = Kill::Victim::kController;
    kill.at = any_time();
    faults.kills.push_back(kill);
  }
  constexpr int64_t kDelays[] = {0, 1'000, 50'000, 3'000'000};
  faults.detection = Nanos{kDelays[rng.Below(4)]};
  return faults;
}

// Trouble with the resource manager, and with messages about leases. The rest
// of the schedule is as without it.
void AddLeaseTrouble(const std::vector<OfferedFrame>& packets, uint64_t seed,
                     RunOptions& options) {
  Rng rng = Rng(seed).Fork(1);
  for (uint64_t i = rng.Below(3); i > 0; --i) {
    const OfferedFrame& near = packets[rng.Below(packets.size())];
    Kill kill;
    kill.victim = Kill::Victim::kManager;
    kill.at =
        Nanos{(near.time - packets.front().time).ns + rng.Uniform(0, 100'000)};
    options.faults.kills.push_back(kill);
  }
  if (rng.Chance(32'768)) return;
  ChaosOptions& chaos = options.chaos;
  constexpr int64_t kDelays[] = {0, 5'000, 500'000, 20'000'000};
  chaos.lease_delay_max = Nanos{kDelays[rng.Below(4)]};
  chaos.lease_loss_65536 = static_cast<uint32_t>(rng.Below(13'000));
  chaos.lease_duplicate_65536 = static_cast<uint32_t>(rng.Below(20'000));
}

// For several controllers, some of which may fail.
void PrepareForFaults(RunOptions& options, Rng& rng) {
  ControllerOptions& c = options.controller;
  c.unit_capacity_bps = std::max<int64_t>(c.unit_capacity_bps, 1'000'000);
  c.recovery_slots = static_cast<uint32_t>(1 + rng.Below(8));
  c.max_owner_runs = 100'000;
  options.hop_delay = std::min(options.hop_delay, Microseconds(50));
  options.loggers = rng.Chance(40'000);
}

// A controller that asks has a share of some unit within this time, while there
// is a resource manager that has something to give. Asks are made once an
// epoch, and a successor says what it needs after one; a tick, which comes each
// revoke_grace, finds whose share is to be cut, which takes as long again, or
// four times if it has to be drained; then messages pass: an ask, a start and
// its end, a share and its answer, a grant. What is lost is said again with the
// next ask, or after two ticks. Of the four answers that have to come, each
// takes another try with a chance of 36 % at most: 24 more in all are met once
// in 10^8 waits.
uint64_t LongestWait(const RunOptions& options, const ClusterOptions& cluster) {
  const ChaosOptions& chaos = options.chaos;
  const int64_t message = options.hop_delay.ns + chaos.lease_delay_max.ns;
  const int64_t grace = cluster.revoke_grace.ns;
  const int64_t again = std::max(cluster.epoch.ns, 3 * grace) + 2 * message;
  const int64_t lost = chaos.lease_loss_65536 > 0 ? 24 : 0;
  return static_cast<uint64_t>(options.unit_start_delay.ns +
                               2 * cluster.epoch.ns + 8 * grace + 6 * message +
                               lost * again);
}

void ExpectSurvived(const RunResult& run) {
  const ControllerFaultFigures& faults = run.controller_faults;
  EXPECT_EQ(run.dropped[static_cast<size_t>(DropReason::kControllerFailed)],
            faults.packets_lost);
  EXPECT_EQ(faults.recovery_ns.count(), faults.kills);
  EXPECT_EQ(faults.flows_unnamed, 0u);
}

TEST(VirtualClusterChanges, HoldTheInvariantsWhoeverComesAndGoes) {
  const TestSeeds seeds(500, 20'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    seeds.Note(seed);
    Rng rng(seed);
    Schedule schedule = AnyScheduleOfAsks(rng);
    RunOptions& options = schedule.options;
    PrepareForFaults(options, rng);
    // Packets are never years apart, or thousands of epochs would pass.
    Instant time = schedule.packets.front().time;
    Instant before = time;
    for (OfferedFrame& packet : schedule.packets) {
      const Nanos gap = packet.time - std::exchange(before, packet.time);
      time = time + std::min(gap, Milliseconds(30));
      packet.time = time;
    }
    options.faults = AnyFaults(schedule.packets, options.loggers, rng);
    AddLeaseTrouble(schedule.packets, seed, options);
    const ClusterOptions cluster = AnyCluster(rng);
    const Ran ran = RunCluster(options, cluster, NfSpec(*schedule.nf),
                               Captured(schedule.packets), {}, seed);
    ExpectSoundCluster(ran, options.chaos.meets_leases());
    ExpectSurvived(ran.run);
    EXPECT_LE(ran.run.cluster.unleased_ns_max, LongestWait(options, cluster));
    if (testing::Test::HasFailure()) return;
    Add(ran.run, totals);
  }
  for (const auto& [name, count] : totals) {
    std::cout << name << " " << count << "\n";
  }
  if (seeds.is_part) return;
  EXPECT_GT(totals["joined"], seeds.count() / 4);
  EXPECT_GT(totals["left"], seeds.count() / 4);
  EXPECT_GT(totals["flows moved"], seeds.count());
  EXPECT_GT(totals["packets waited"], seeds.count() / 10);
  EXPECT_GT(totals["controllers killed"], seeds.count() / 4);
  EXPECT_GT(totals["leases revoked"], seeds.count() / 4);
  EXPECT_GT(totals["managers recovered"], seeds.count() / 4);
  EXPECT_GT(totals["lease messages lost"], seeds.count() / 2);
  EXPECT_GT(totals["lease messages twice"], seeds.count() / 2);
}

// No port twice, and what comes back finds its flow.
TEST(VirtualClusterChanges, ANatHoldsItsPromisesWhoeverComesAndGoes) {
  const TestSeeds seeds(300, 10'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    seeds.Note(seed);
    Rng rng(seed);
    TinyNatOptions options = AnyTinyNat(rng, AnyScheduleOfAsks(rng).options);
    options.nf = NfSpec(TinyNat(), *NfOptions::Parse("first=1024,last=1407"));
    PrepareForFaults(options, rng);
    const auto packets = AnyTinyTraffic(rng, !options.inside.empty());
    options.faults = AnyFaults(packets, options.loggers, rng);
    AddLeaseTrouble(packets, seed, options);
    const ClusterOptions cluster = AnyCluster(rng);
    const Ran ran =
        RunCluster(options, cluster, options.nf, Captured(packets), {}, seed);
    ExpectSoundCluster(ran, options.chaos.meets_leases());
    ExpectSurvived(ran.run);
    EXPECT_LE(ran.run.cluster.unleased_ns_max, LongestWait(options, cluster));
    EXPECT_EQ(ran.run.controller.pieces.pieces_faulty, 0u);
    EXPECT_EQ(ran.run.controller.pieces.messages_faulty, 0u);
    if (testing::Test::HasFailure()) return;
    Add(ran.run, totals);
    totals["aliases"] += ran.run.controller.aliases_granted;
    totals["packets found"] += ran.run.aliases.packets_found;
    totals["words given"] += ran.run.cluster.words_given;
  }
  for (const auto& [name, count] : totals) {
    std::cout << name << " " << count << "\n";
  }
  if (seeds.is_part) return;
  EXPECT_GT(totals["flows moved"], seeds.count());
  EXPECT_GT(totals["packets found"], seeds.count());
  EXPECT_GT(totals["words given"], seeds.count() / 10);
  EXPECT_GT(totals["controllers killed"], seeds.count() / 4);
}

// --- Tables that packets read. ---

constexpr size_t kKeys = 8;
using Counts = std::array<uint64_t, kKeys>;

// Counts packets by key, and reads the counts of all controllers.
class ClusterReader final : public NetworkFunction {
 public:
  explicit ClusterReader(NfOptions& options)
      : room_(static_cast<uint32_t>(
            options.Integer("room", 1'000, 1, 1'000, "entries"))),
        erases_(options.Flag("erases", false, "erase keys")) {}

  static uint64_t KeyOf(std::span<const std::byte> frame) {
    return IsUdpFrame(frame) ? FlowOf(frame) % kKeys : 0;
  }
  Verdict process_packet(Packet& packet, FlowState&) override {
    const uint64_t key = KeyOf(packet.bytes());
    const uint64_t read = counts_.get(key);
    too_high += read > made[key] ? 1 : 0;
    of_others += read > own_[key] ? 1 : 0;
    if (erases_ && made[key] % 16 == 7) counts_.erase(key);
    counts_.update(key, 1);
    ++made[key];
    ++own_[key];
    return Verdict::forward();
  }
  NfReport report() const override {
    NfReport::Table table = {.title = "counts", .columns = {}, .rows = {}};
    counts_.for_each([&](uint64_t key, uint64_t count) {
      table.rows.push_back({key, count});
    });
    table.rows.push_back({uint64_t{kKeys}, counts_.rest()});
    return {.tables = {table}, .files = {}};
  }

  // Sums over all units of all controllers, with lost updates.
  static inline Counts made{};
  static inline uint64_t too_high = 0;  // reads above all updates made
  static inline uint64_t of_others =
      0;  // reads that saw another unit's updates

 private:
  uint32_t room_;
  bool erases_;
  Counts own_{};
  SharedTable<uint64_t, uint64_t> counts_ =
      declare_shared<uint64_t, uint64_t>("counts", room_);
};
SNF_REGISTER_NF(ClusterReader, "cluster_reader", "for tests");

// Counts the packets of a controller, and the packets whose clock is in a
// logger, as these ran last.
class LoggedOfController final : public RunObserver {
 public:
  void on_enqueue(Instant /*now*/, UnitId /*unit*/,
                  const PacketMeta& meta) override {
    ran_.erase({meta.flow, meta.clock});
  }
  void on_nf_begin(const PacketInfo& /*info*/,
                   std::span<const std::byte> bytes) override {
    key_ = ClusterReader::KeyOf(bytes);
  }
  void on_nf_end(Instant /*now*/, UnitId /*unit*/, const PacketMeta& meta,
                 const NfOutcome& /*outcome*/) override {
    if (!meta.has_payload()) return;
    ran_[{meta.flow, meta.clock}] = key_;
    ++ran[key_];
  }
  void on_logged(Instant /*now*/, UnitId /*unit*/,
                 const PacketMeta& meta) override {
    const auto of_clock = ran_.find({meta.flow, meta.clock});
    if (of_clock == ran_.end()) return;
    ++logged[of_clock->second];
    ran_.erase(of_clock);
  }

  Counts ran{};
  Counts logged{};

 private:
  uint64_t key_ = 0;
  std::map<std::pair<FlowId, Clock>, uint64_t> ran_;  // keys
};

// T8: units of all controllers see an update as soon as units of one do: after
// two periods, one in which a unit says that it reads, ticks of the home, and
// four messages either way.
TEST(VirtualClusterTables, ReadersOfAllControllersSeeUpdatesWithinTheBound) {
  std::vector<OfferedFrame> packets;
  for (uint32_t i = 0; i < 3'000; ++i) {
    packets.push_back({.time = {int64_t{i} * 100'000},
                       .bytes = UdpFrame({.flow = i % 16, .sequence = i})});
  }
  for (const int64_t ms : {1, 10, 50}) {
    RunOptions options = SmallTables();
    options.controller.unit_capacity_bps = 1'000'000;
    options.controller.max_units = 8;
    options.controller.flow_timeout = Seconds(1);
    options.table_period = Milliseconds(ms);
    ClusterOptions cluster;
    cluster.controllers = 3;
    ClusterReader::made = {};
    ClusterReader::too_high = ClusterReader::of_others = 0;
    const Ran ran = RunCluster(
        options, cluster, {*FindNf("cluster_reader"), {}}, Captured(packets));
    ExpectSoundCluster(ran);
    const TableFigures& figures = ran.run.tables[0];
    EXPECT_GT(figures.staleness_ns.count(), 10u);
    const int64_t period = ms * 1'000'000 + 32'768;
    EXPECT_LT(figures.staleness_ns.max(), 3 * period + 10'000);
    EXPECT_EQ(figures.spread_ns.count(), figures.staleness_ns.count());
    EXPECT_LT(figures.spread_ns.max(),
              (TableOptions::kUnreadPeriods + 2) * period);
    EXPECT_GT(ClusterReader::of_others, 1'000u);
  }
}

// proto/protocol.md T8: each packet counts once, in one home for all
// controllers; and no read is above the updates made. At the end each
// unit's copy is the home's (AddTables).
TEST(VirtualClusterChanges, TablesCountOnceWhoeverComesAndGoes) {
  const TestSeeds seeds(300, 10'000);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    seeds.Note(seed);
    Rng rng(seed);
    Schedule schedule = AnyScheduleOfAsks(rng);
    RunOptions& options = schedule.options;
    PrepareForFaults(options, rng);
    options.table_period = Nanos{rng.Uniform(1, 3'000'000)};
    // The checker runs the NF once more, and so hides a read that is too high.
    options.check = rng.Chance(16'384);
    Instant time = schedule.packets.front().time;
    Instant before = time;
    for (OfferedFrame& packet : schedule.packets) {
      const Nanos gap = packet.time - std::exchange(before, packet.time);
      time = time + std::min(gap, Milliseconds(2));
      packet.time = time;
    }
    options.faults = AnyFaults(schedule.packets, options.loggers, rng);
    ClusterOptions cluster = AnyCluster(rng);
    cluster.controllers = static_cast<uint32_t>(rng.Uniform(2, 4));
    const bool is_full = rng.Below(3) == 0;
    const bool erases = rng.Below(3) == 0;
    const std::string text = fmt::format("room={}{}", is_full ? 3 : 1'000,
                                         erases ? ",erases=true" : "");
    ClusterReader::made = {};
    ClusterReader::too_high = ClusterReader::of_others = 0;
    const auto joins =
        std::ranges::count_if(options.faults.changes, &MemberChange::joins);
    std::deque<LoggedOfController> logged(cluster.controllers +
                                          static_cast<size_t>(joins));
    std::vector<RunObserver*> observers;
    for (LoggedOfController& each : logged) observers.push_back(&each);
    const Ran ran = RunCluster(
        options, cluster, {*FindNf("cluster_reader"), *NfOptions::Parse(text)},
        Captured(schedule.packets), observers, seed);
    ExpectSoundCluster(ran);
    ExpectSurvived(ran.run);
    EXPECT_EQ(ClusterReader::too_high, 0u);
    // Only a run in which a controller fails loses clocks.
    const bool has_lost = ran.run.controller_faults.kills > 0;
    Counts counts{};
    for (const LoggedOfController& each : logged) {
      for (size_t key = 0; key < kKeys; ++key) {
        counts[key] += has_lost ? each.logged[key] : each.ran[key];
      }
    }
    std::map<uint64_t, uint64_t> sums;
    uint64_t sum = 0;
    for (const auto& row : ran.run.nf_reports.at(0).report.tables.at(0).rows) {
      sum += sums[std::get<uint64_t>(row[0])] = std::get<uint64_t>(row[1]);
    }
    EXPECT_EQ(sum, std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
    for (uint64_t key = 0; !is_full && !erases && key < kKeys; ++key) {
      EXPECT_EQ(sums[key], counts[key]) << key;
    }
    if (testing::Test::HasFailure()) return;
    Add(ran.run, totals);
    totals["packets counted"] += sum;
    totals["reads of others' updates"] += ClusterReader::of_others;
    totals["in the rest"] += sums[kKeys];
    totals["table messages"] += ran.run.tables.at(0).messages;
  }
  for (const auto& [name, count] : totals) {
    std::cout << name << " " << count << "\n";
  }
  if (seeds.is_part) return;
  EXPECT_GT(totals["packets counted"], 10 * seeds.count());
  EXPECT_GT(totals["reads of others' updates"], seeds.count());
  EXPECT_GT(totals["in the rest"], seeds.count());
  EXPECT_GT(totals["controllers killed"], seeds.count() / 8);
  EXPECT_GT(totals["flows moved"], seeds.count() / 2);
}

}  // namespace
}  // namespace snf
