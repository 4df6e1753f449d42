// SPDX-License-Identifier: Apache-2.0
#include "platform/system_test/test_controller_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "platform/system_test/test_nat_traffic.h"
#include "platform/system_test/test_schedule.h"
#include "platform/system_test/test_tiny_nat.h"
#include "platform/system_test/test_tiny_nat_schedule.h"

namespace snf {
namespace {

Kill AnyKill(std::span<const OfferedFrame> packets, Rng& rng) {
  const OfferedFrame& near = packets[rng.Below(packets.size())];
  const int64_t since = (near.time - packets[0].time).ns;
  return {
      .at = Nanos{std::max<int64_t>(since + rng.Uniform(-5'000, 100'000), 0)}};
}

}  // namespace

void AddKill(Kill::Victim victim, std::span<const OfferedFrame> packets,
             Rng& rng, std::vector<Kill>& kills) {
  Kill kill = AnyKill(packets, rng);
  kill.victim = victim;
  if (!kills.empty() && rng.Below(2) == 0) {
    const Kill& other = kills[rng.Below(kills.size())];
    kill.at = Nanos{
        std::max<int64_t>(other.at.ns + rng.Uniform(-100'000, 200'000), 0)};
  }
  kills.push_back(kill);
}

RunOptions WithDeaths(RunOptions options, std::span<const OfferedFrame> packets,
                      Rng& rng) {
  options.loggers = true;
  constexpr int64_t kDelays[] = {0, 1'000, 50'000, 3'000'000};
  options.logger_delay = Nanos{kDelays[rng.Below(4)]};
  if (rng.Below(2) == 0) {
    options.chaos.logger_loss_65536 = static_cast<uint32_t>(rng.Below(20'000));
    options.chaos.logger_delay_max =
        Nanos{static_cast<int64_t>(rng.Below(2'000'000))};
  }
  options.controller.max_units = std::max(options.controller.max_units, 2u);
  options.controller.recovery_slots = static_cast<uint32_t>(1 + rng.Below(8));
  options.controller.max_owner_runs = 100'000;
  options.controller.unit_capacity_bps =
      std::max(options.controller.unit_capacity_bps, int64_t{1'000'000});
  options.faults.detection = Nanos{kDelays[rng.Below(4)]};
  std::vector<Kill>& kills = options.faults.kills;
  for (uint64_t i = 1 + rng.Below(3); i > 0; --i) {
    AddKill(Kill::Victim::kController, packets, rng, kills);
  }
  for (uint64_t i = rng.Below(3); i > 0; --i) {
    AddKill(rng.Below(2) == 0 ? Kill::Victim::kLoggerHost
                              : Kill::Victim::kLoggerProcess,
            packets, rng, kills);
  }
  for (uint64_t i = rng.Below(4); i > 0; --i) {
    AddKill(Kill::Victim::kUnit, packets, rng, kills);
  }
  if (rng.Below(4) == 0) {
    options.chaos.start_failure_65536 =
        static_cast<uint32_t>(rng.Below(40'000));
    const Nanos longest =
        std::max({options.unit_start_delay, options.warm_start_delay,
                  options.hop_delay, Milliseconds(1)});
    options.controller.start_timeout = {2 * longest.ns};
  }
  return options;
}

Outcome RunAnyChronicle(Rng& rng) {
  const Schedule schedule = AnySchedule(rng);
  return RunFrames(WithDeaths(schedule.options, schedule.packets, rng),
                   TimelessChronicleNf(), schedule.packets, schedule.policy);
}

Outcome RunAnyAsks(Rng& rng) {
  const Schedule schedule = AnyScheduleOfAsks(rng);
  return RunFrames(WithDeaths(schedule.options, schedule.packets, rng),
                   *schedule.nf, schedule.packets, schedule.policy);
}

Outcome RunAnyTinyNat(Rng& rng) {
  const Schedule any = AnyScheduleOfAsks(rng);
  const TinyNatOptions options = AnyTinyNat(rng, any.options);
  const std::vector<OfferedFrame> packets =
      AnyTinyTraffic(rng, !options.inside.empty());
  return RunFrames(WithDeaths(options, packets, rng), options.nf, packets,
                   any.policy);
}

Outcome RunAnyNat(Rng& rng) {
  const NatSchedule any = AnyNatSchedule(rng);
  return RunFrames(WithDeaths(any.options, any.packets, rng), any.nf,
                   any.packets, *any.policy, nullptr);
}

std::string WhatIsWrong(const Outcome& outcome) {
  const RunResult& run = outcome.run;
  if (run.violations > 0) return run.violation_messages.front();
  if (!run.conserved()) {
    return fmt::format("{} begun, {} ended", run.packets_begun(),
                       run.packets_ended());
  }
  const ControllerFaultFigures& faults = run.controller_faults;
  const PieceCounters& pieces = run.controller.pieces;
  const uint64_t given_up = run.controller.failures.flows_given_up;
  // A flow that has found no room for a second is given up.
  const bool had_room = run.faults.recovery_ns.max() < Seconds(1).ns;
  const auto dropped = [&run](DropReason reason) {
    return run.dropped[static_cast<size_t>(reason)];
  };
  struct Same {
    std::string_view name;
    uint64_t is;
    uint64_t expected;
  };
  const Same all[] = {
      {"buffers", outcome.buffers_in_use, 0},
      {"records on the way", outcome.records_on_the_way, 0},
      // Whatever is lost is named.
      {"lost by controllers", dropped(DropReason::kControllerFailed),
       faults.packets_lost},
      {"lost by units", dropped(DropReason::kUnitFailed),
       run.faults.packets_lost + run.faults.logger_packets_lost},
      {"controllers recovered", faults.recovery_ns.count(), faults.kills},
      {"units recovered", run.faults.recovery_ns.count(), run.faults.kills},
      {"loggers recovered", run.faults.logger_recovery_ns.count(),
       run.faults.logger_kills},
      {"flows unnamed", faults.flows_unnamed, 0},
      {"future answers", run.controller.failures.answers_future_clock, 0},
      // A flow that is given up takes its pieces along.
      {"pieces out", given_up > 0 ? 0 : pieces.pieces_out, 0},
      {"pieces faulty", pieces.pieces_faulty, 0},
      {"piece messages faulty", pieces.messages_faulty, 0},
      {"pieces refused", run.state.units.pieces_refused, 0},
      {"flows given up", had_room ? given_up : 0, 0},
  };
  for (const auto& [name, is, expected] : all) {
    if (is != expected)
      return fmt::format("{}: {}, not {}", name, is, expected);
  }
  return "";
}

void Add(const RunResult& run, Totals& totals) {
  ++totals["schedules"];
  totals["packets released"] += run.packets_released;
  totals["i6 compared"] += run.i6_compared;
  const ControllerFaultFigures& faults = run.controller_faults;
  totals["controllers killed"] += faults.kills;
  totals["kills in vain"] += faults.kills_in_vain;
  totals["units killed"] += run.faults.kills;
  totals["loggers killed"] += run.faults.logger_kills;
  totals["packets lost"] += faults.packets_lost;
  totals["clocks lost"] += faults.clocks_lost;
  totals["packets waited"] += faults.packets_waited;
  totals["flows found"] += faults.flows;
  totals["flows ending"] += faults.flows_ending;
  totals["tombstones"] += faults.tombstones;
  totals["null packets"] += faults.null_packets;
  totals["redirects"] += faults.redirects;
  totals["failed starts"] += run.failed_starts;
}

}  // namespace snf
