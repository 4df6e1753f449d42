// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/rng.h"
#include "base/test_seeds.h"
#include "platform/run/run_events.h"
#include "platform/system_test/test_nat_traffic.h"
#include "platform/system_test/test_run.h"
#include "platform/system_test/test_schedule.h"
#include "platform/system_test/test_tiny_nat.h"
#include "platform/system_test/test_tiny_nat_schedule.h"

// Random schedules with output loggers in which units and loggers die, at any
// time and also while others recover. The checker holds them to I1 to I5, I7
// and I8, and what is released to what is left of each flow when its lost
// packets are left out (I6). SNF_TEST_SEED=n runs the one with that seed;
// SNF_LONG_TESTS=1 runs 50 times as many.
namespace snf {
namespace {

// Sums over schedules, by name.
using Totals = std::map<std::string_view, uint64_t>;

// A time near that of a packet, since the first; it may be below 0.
Nanos AnyTime(std::span<const OfferedFrame> packets, Rng& rng) {
  const OfferedFrame& near = packets[rng.Below(packets.size())];
  return Nanos{(near.time - packets[0].time).ns + rng.Uniform(0, 2'000'000)};
}

void AddKillsOfLoggers(std::span<const OfferedFrame> packets, Rng& rng,
                       FaultOptions& faults) {
  using Victim = Kill::Victim;
  const auto any_form = [&rng] {
    return rng.Below(2) == 0 ? Victim::kLoggerHost : Victim::kLoggerProcess;
  };
  for (uint64_t i = rng.Below(4); i > 0; --i) {
    const Kill kill = {.victim = any_form(), .at = AnyTime(packets, rng)};
    if (kill.at.ns >= 0) faults.kills.push_back(kill);
  }
  faults.kills.push_back(
      {.victim = any_form(),
       .chance_65536 = static_cast<uint32_t>(rng.Below(8'000))});
}

RunOptions WithFaults(RunOptions options, std::span<const OfferedFrame> packets,
                      Rng& rng) {
  options.loggers = true;
  constexpr int64_t kDelays[] = {0, 1'000, 50'000, 3'000'000};
  options.logger_delay = Nanos{kDelays[rng.Below(4)]};
  if (rng.Below(2) == 0) {
    options.chaos.logger_loss_65536 = static_cast<uint32_t>(rng.Below(20'000));
    options.chaos.logger_duplicate_65536 =
        static_cast<uint32_t>(rng.Below(20'000));
    options.chaos.logger_delay_max =
        Nanos{static_cast<int64_t>(rng.Below(2'000'000))};
  }
  options.controller.max_units = std::max(options.controller.max_units, 2u);
  // Without any, lost clocks find no slot, and flows are given up.
  options.controller.recovery_slots =
      static_cast<uint32_t>(rng.Below(4) == 0 ? 0 : 1 + rng.Below(8));
  options.controller.max_owner_runs = 100'000;
  options.controller.unit_capacity_bps =
      std::max(options.controller.unit_capacity_bps, int64_t{1'000'000});
  options.faults.detection = Nanos{kDelays[rng.Below(4)]};
  for (uint64_t i = rng.Below(4); i > 0; --i) {
    Kill kill = {.at = AnyTime(packets, rng)};
    if (kill.at.ns < 0) continue;
    if (rng.Below(2) == 0) {
      kill.unit = UnitId{
          static_cast<uint16_t>(rng.Below(options.controller.max_units))};
    }
    options.faults.kills.push_back(kill);
  }
  options.faults.kills.push_back(
      {.chance_65536 = static_cast<uint32_t>(rng.Below(4'000))});
  if (rng.Below(2) == 0) AddKillsOfLoggers(packets, rng, options.faults);
  if (rng.Below(3) == 0) {
    options.chaos.start_failure_65536 =
        static_cast<uint32_t>(rng.Below(40'000));
    const Nanos longest =
        std::max({options.unit_start_delay, options.warm_start_delay,
                  options.hop_delay, Milliseconds(1)});
    options.controller.start_timeout = {2 * longest.ns};
  }
  return options;
}

// No entry is at a logger earlier than the way there takes: what a failed
// process sent is not taken for what the next one sends.
class EntriesOnTheWay final : public RunObserver {
 public:
  explicit EntriesOnTheWay(Nanos delay) : delay_(delay) {}
  void on_service_end(Instant now, UnitId /*unit*/,
                      const PacketMeta& meta) override {
    made_.insert_or_assign({meta.flow, meta.clock}, now);
  }
  void on_logged(Instant now, UnitId /*unit*/,
                 const PacketMeta& meta) override {
    const auto made = made_.find({meta.flow, meta.clock});
    if (made != made_.end() && now < made->second + delay_) ++early_;
  }
  uint64_t early() const { return early_; }

 private:
  Nanos delay_;
  std::map<std::pair<FlowId, Clock>, Instant> made_;
  uint64_t early_ = 0;
};

Outcome RunAndWatch(const RunOptions& options, const NfSpec& nf,
                    std::span<const OfferedFrame> packets,
                    std::string_view policy) {
  EntriesOnTheWay entries(options.logger_delay);
  Outcome outcome = RunFrames(options, nf, packets, policy, &entries);
  EXPECT_EQ(entries.early(), 0u);
  return outcome;
}

void ExpectSurvived(const Outcome& outcome) {
  const RunResult& run = outcome.run;
  EXPECT_TRUE(run.conserved())
      << run.packets_begun() << " begun, " << run.packets_ended() << " ended";
  EXPECT_EQ(run.violations, 0u) << run.violation_messages.front();
  EXPECT_EQ(outcome.buffers_in_use, 0u);
  EXPECT_EQ(outcome.records_on_the_way, 0u);
  EXPECT_EQ(outcome.released.size(),
            run.packets_released + run.packets_passed_through);
  // Whatever is lost is named.
  EXPECT_EQ(run.dropped[static_cast<size_t>(DropReason::kUnitFailed)],
            run.faults.packets_lost + run.faults.logger_packets_lost);
  const FailureCounters& failures = run.controller.failures;
  EXPECT_EQ(failures.failures, run.faults.kills);
  EXPECT_EQ(run.faults.recovery_ns.count(), run.faults.kills);
  EXPECT_EQ(run.faults.logger_recovery_ns.count(), run.faults.logger_kills);
  EXPECT_EQ(failures.failures_refused, 0u);
  EXPECT_EQ(failures.answers_future_clock, 0u);
}

void Add(const RunResult& run, Totals& totals) {
  ++totals["schedules"];
  totals["packets released"] += run.packets_released;
  totals["moves"] += run.controller.flowlets_moved;
  totals["i6 compared"] += run.i6_compared;
  EXPECT_EQ(run.i6_not_compared, 0u);
  const FaultFigures& faults = run.faults;
  totals["kills"] += faults.kills;
  totals["kills without unit"] += faults.kills_without_unit;
  totals["packets lost"] += faults.packets_lost;
  totals["null packets lost"] += faults.null_packets_lost;
  totals["entries lost"] += faults.entries_lost;
  totals["loggers killed"] += faults.logger_kills;
  totals["packets lost with loggers"] += faults.logger_packets_lost;
  totals["records restored"] += faults.records_restored;
  const FailureCounters& failures = run.controller.failures;
  totals["clocks lost"] += failures.clocks_lost;
  totals["flows moved"] += failures.flows_moved;
  totals["redirects"] += failures.redirects;
  totals["failed starts"] += run.failed_starts;
  totals["ends repeated"] += failures.ends_repeated;
}

template <typename RunOne>
Totals RunSeeds(uint64_t count, const RunOne& run_one) {
  const TestSeeds seeds(count, 50 * count);
  Totals totals;
  for (const uint64_t seed : seeds.all()) {
    SCOPED_TRACE(TestSeeds::Name(seed));
    Rng rng(seed);
    run_one(rng, totals);
    if (testing::Test::HasFailure()) break;
  }
  std::cout << fmt::format("seeds {} to {}\n", seeds.first, seeds.last);
  for (const auto& [name, sum] : totals) {
    std::cout << fmt::format("  {:28}{:>12}\n", name, sum);
    if (!seeds.is_part && !testing::Test::HasFailure()) {
      EXPECT_GE(sum, 50u) << name;
    }
  }
  return totals;
}

TEST(FaultsRandom, LeaveChroniclesWhole) {
  RunSeeds(700, [](Rng& rng, Totals& totals) {
    const Schedule schedule = AnySchedule(rng);
    const Outcome outcome =
        RunAndWatch(WithFaults(schedule.options, schedule.packets, rng),
                    TimelessChronicleNf(), schedule.packets, schedule.policy);
    ExpectSurvived(outcome);
    Add(outcome.run, totals);
  });
}

// proto/decisions.md 39.
TEST(FaultsRandom, NeitherLoseNorDoubleALogRecord) {
  RunSeeds(700, [](Rng& rng, Totals& totals) {
    const Schedule schedule = AnyScheduleOfAsks(rng);
    // One of the NFs logs nothing.
    const bool logs = schedule.nf != &ForwardingNf();
    RunOptions options = WithFaults(schedule.options, schedule.packets, rng);
    options.nf_logs = true;
    LoggedFrames logged;
    const Outcome outcome =
        RunFrames(options, logs ? *schedule.nf : TimelessChronicleNf(),
                  schedule.packets, schedule.policy, &logged);
    ExpectSurvived(outcome);
    const RunResult& run = outcome.run;
    logged.Expect(run.state.units.records_refused);
    EXPECT_EQ(run.nf_log.batches_refused, 0u);
    EXPECT_EQ(run.nf_logs[0].released, logged.records());
    EXPECT_EQ(run.nf_logs[1].released, logged.ends());
    totals["kills"] += run.faults.kills;
    totals["loggers killed"] += run.faults.logger_kills;
    totals["packets lost"] += run.faults.packets_lost;
    totals["batches lost with them"] += run.nf_log.batches_lost;
    totals["records"] += logged.records();
    totals["ends"] += logged.ends();
    totals["i6 compared"] += run.i6_compared;
  });
}

// Queues are so short that all of them fill with packets that wait for a clock
// that is lost.
TEST(FaultsRandom, GiveUpFlowsForWhichThereIsNoRoom) {
  uint64_t given_up = 0;
  RunSeeds(700, [&given_up](Rng& rng, Totals& totals) {
    const Schedule schedule = AnySchedule(rng);
    RunOptions options = WithFaults(schedule.options, schedule.packets, rng);
    options.controller.recovery_slots = 0;
    options.controller.unit_queue_packets =
        static_cast<uint32_t>(1 + rng.Below(2));
    options.controller.start_buffer_packets =
        std::min(options.controller.start_buffer_packets,
                 options.controller.unit_queue_packets);
    const Outcome outcome = RunAndWatch(options, TimelessChronicleNf(),
                                        schedule.packets, "per_packet");
    ExpectSurvived(outcome);
    totals["kills"] += outcome.run.faults.kills;
    given_up += outcome.run.controller.failures.flows_given_up;
  });
  if (TestSeeds(700).is_part) return;
  EXPECT_GE(given_up, 10u);
}

TEST(FaultsRandom, HoldTheirPromisesWhateverAnNfDoes) {
  RunSeeds(700, [](Rng& rng, Totals& totals) {
    const Schedule schedule = AnyScheduleOfAsks(rng);
    const Outcome outcome =
        RunAndWatch(WithFaults(schedule.options, schedule.packets, rng),
                    *schedule.nf, schedule.packets, schedule.policy);
    ExpectSurvived(outcome);
    Add(outcome.run, totals);
  });
}

TEST(FaultsRandom, LeaveEachPortToOneFlow) {
  RunSeeds(700, [](Rng& rng, Totals& totals) {
    const Schedule any = AnyScheduleOfAsks(rng);
    const TinyNatOptions options = AnyTinyNat(rng, any.options);
    const std::vector<OfferedFrame> packets =
        AnyTinyTraffic(rng, !options.inside.empty());
    const RunOptions faulty = WithFaults(options, packets, rng);
    const Outcome outcome =
        RunAndWatch(faulty, options.nf, packets, any.policy);
    ExpectSurvived(outcome);
    Add(outcome.run, totals);
    const PieceCounters& pieces = outcome.run.controller.pieces;
    // A flow that is given up takes its pieces along.
    if (outcome.run.controller.failures.flows_given_up == 0) {
      EXPECT_EQ(pieces.pieces_out, 0u);
    }
    EXPECT_EQ(pieces.pieces_faulty, 0u);
    EXPECT_EQ(pieces.messages_faulty, 0u);
    EXPECT_EQ(outcome.run.state.units.pieces_refused, 0u);
    totals["aliases withdrawn"] +=
        outcome.run.controller.failures.aliases_withdrawn;
    totals["tells by loggers"] += outcome.run.faults.tells_by_loggers;
  });
}

// The NFs that come with SNF, alone and in chains, on a NAT's traffic.
NfSpec AnyNf(Rng& rng, const NfSpec& nat, Totals& totals) {
  constexpr std::string_view kNfs[] = {
      "firewall(deny=tcp from any to any)",
      "policer(rate=1Mbps,burst=3KB)",
      "udp_whitelister",
      "udp_whitelister | policer(rate=1Mbps,burst=3KB)",
      "",
      "firewall(deny=tcp from any to any) | ",
      "policer(rate=1Mbps,burst=3KB) | ",
      "firewall | policer(rate=1Mbps,burst=3KB) | ",
  };
  constexpr size_t kWithoutNat = 4;
  const size_t which = rng.Below(std::size(kNfs));
  const std::string_view name = kNfs[which];
  ++totals[name.empty() ? "nat" : name];
  const absl::StatusOr<NfSpec> nf = NfSpec::Parse(
      which < kWithoutNat ? std::string(name)
                          : fmt::format("{}{}", name, nat.text()));
  SNF_CHECK(nf.ok());
  return *nf;
}

TEST(FaultsRandom, LeaveWhatEachNfKeepsOfItsFlows) {
  RunSeeds(500, [](Rng& rng, Totals& totals) {
    const NatSchedule schedule = AnyNatSchedule(rng);
    const NfSpec nf = AnyNf(rng, schedule.nf, totals);
    const RunOptions options =
        WithFaults(schedule.options, schedule.packets, rng);
    const Outcome outcome =
        RunFrames(options, nf, schedule.packets, *schedule.policy, nullptr);
    ExpectSurvived(outcome);
    Add(outcome.run, totals);
    totals.erase("ends repeated");  // few flows end while units fail
    const PieceCounters& pieces = outcome.run.controller.pieces;
    EXPECT_EQ(pieces.pieces_faulty, 0u);
    EXPECT_EQ(pieces.messages_faulty, 0u);
    totals["aliases granted"] += outcome.run.controller.aliases_granted;
  });
}

// "witness": forwards everything, and notes that it was called.
class Witness final : public NetworkFunction {
 public:
  explicit Witness(NfOptions& /*options*/) {}
  Verdict process_packet(Packet& /*packet*/, FlowState& /*flow*/) override {
    was_called = true;
    return Verdict::forward();
  }
  static inline bool was_called = false;
};
SNF_REGISTER_NF(Witness, "witness", "for tests");

// Counts what a monitor beside a witness must count: the packets whose clock is
// in a logger, as these ran last.
class LoggedPackets final : public RunObserver {
 public:
  void on_enqueue(Instant /*now*/, UnitId /*unit*/,
                  const PacketMeta& meta) override {
    ran_.erase({meta.flow, meta.clock});
  }
  void on_nf_begin(const PacketInfo& /*info*/,
                   std::span<const std::byte> /*bytes*/) override {
    Witness::was_called = false;
  }
  void on_nf_end(Instant /*now*/, UnitId /*unit*/, const PacketMeta& meta,
                 const NfOutcome& outcome) override {
    if (!meta.has_payload()) return;
    // A chain undoes a packet that finds no piece.
    const bool is_undone =
        std::ranges::any_of(outcome.commands, [](const UnitCommand& command) {
          return command.kind == UnitCommand::Kind::kDrop &&
                 command.reason == DropReason::kNoPieces;
        });
    const bool is_counted = Witness::was_called && !is_undone;
    ran_[{meta.flow, meta.clock}] = is_counted ? meta.original_length : 0;
  }
  void on_logged(Instant /*now*/, UnitId /*unit*/,
                 const PacketMeta& meta) override {
    const auto ran = ran_.find({meta.flow, meta.clock});
    if (ran == ran_.end()) return;
    packets_ += ran->second > 0 ? 1 : 0;
    bytes_ += ran->second;
    ran_.erase(ran);
  }
  uint64_t packets() const { return packets_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::map<std::pair<FlowId, Clock>, uint64_t> ran_;  // bytes; 0: not counted
  uint64_t packets_ = 0;
  uint64_t bytes_ = 0;
};

// Returns the sum over the rows of the monitor's report.
uint64_t SumOf(const RunResult& run, size_t column) {
  uint64_t sum = 0;
  for (const auto& of : run.nf_reports) {
    for (const auto& row : of.report.tables.front().rows) {
      sum += std::get<uint64_t>(row[column]);
    }
  }
  return sum;
}

TEST(FaultsRandom, CountEachPacketInASharedTableOnce) {
  RunSeeds(500, [](Rng& rng, Totals& totals) {
    const NatSchedule schedule = AnyNatSchedule(rng);
    // Hosts without room are in the table's rest.
    const std::string monitor = fmt::format("monitor(top=1000,max_hosts={})",
                                            rng.Below(2) == 0 ? 2 : 65'536);
    constexpr std::string_view kChains[] = {"{} | witness", "{} | witness | {}",
                                            "firewall | {} | witness | {}"};
    const size_t which = rng.Below(std::size(kChains));
    const absl::StatusOr<NfSpec> nf = NfSpec::Parse(
        fmt::format(fmt::runtime(kChains[which]), monitor, schedule.nf.text()));
    SNF_CHECK(nf.ok());
    RunOptions options = WithFaults(schedule.options, schedule.packets, rng);
    options.table_period = Nanos{static_cast<int64_t>(rng.Below(20'000'000))};
    LoggedPackets logged;
    const Outcome outcome =
        RunFrames(options, *nf, schedule.packets, *schedule.policy, &logged);
    ExpectSurvived(outcome);
    const RunResult& run = outcome.run;
    EXPECT_EQ(SumOf(run, 1), logged.bytes());  // sent
    EXPECT_EQ(SumOf(run, 2), logged.bytes());  // received
    EXPECT_EQ(SumOf(run, 3), logged.packets());
    EXPECT_EQ(SumOf(run, 4), logged.packets());
    ++totals[kChains[which]];
    totals["packets counted"] += logged.packets();
    totals["kills"] += run.faults.kills;
    totals["packets lost"] += run.faults.packets_lost;
    totals["loggers killed"] += run.faults.logger_kills;
    totals["packets lost with loggers"] += run.faults.logger_packets_lost;
    for (const TableFigures& table : run.tables) {
      totals["updates merged"] += table.updates;
      totals["messages repeated"] += table.repeated;
      totals["without room"] += table.refused;
    }
  });
}

TEST(FaultsRandom, AreTheSameForTheSameSeed) {
  RunSeeds(50, [](Rng& rng, Totals& totals) {
    const Schedule schedule = AnySchedule(rng);
    const RunOptions options =
        WithFaults(schedule.options, schedule.packets, rng);
    RunOptions unchecked = options;
    unchecked.check = false;
    const Outcome one = RunFrames(options, TimelessChronicleNf(),
                                  schedule.packets, schedule.policy);
    ExpectSame(one.run, RunFrames(unchecked, TimelessChronicleNf(),
                                  schedule.packets, schedule.policy)
                            .run);
    totals["kills"] += one.run.faults.kills;
  });
}

}  // namespace
}  // namespace snf
