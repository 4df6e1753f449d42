// SPDX-License-Identifier: Apache-2.0
#include "platform/options/fault_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/messages/controller_counts.h"
#include "controller/units/host_map.h"
#include "platform/options/fault_flag.h"
#include "platform/run/chaos_flag.h"
#include "platform/run/run_setup.h"

namespace snf {

FaultFlags::FaultFlags(RunFlagSet& set) : set_(set) {
  AddLoggers();
  if (!set_.has_captures) return;
  AddChaos();
  AddFaults();
}

void FaultFlags::AddLoggers() {
  FlagSet& flags = set_.flags;
  RunOptions& run = set_.request.run;
  flags.Choice(
      "loggers", run.loggers,
      {{"off", "as soon as it is processed"},
       {"on", "once the unit's output logger has the changes that it made"}},
      "when a packet is released, and when others see its effects:");
  if (!set_.has_captures) return;
  flags.Switch("recovery", set_.request.recovery,
               "estimate, every 7.3 ms, how long recovery from a unit's "
               "failure would take, and what it costs a packet: with output "
               "loggers; with a checkpoint every 50 ms and a replay of the "
               "input since; and with a datastore (--store) and a replay of "
               "the packets in transit");
  flags.Duration("logger_delay", run.logger_delay, Nanos{0}, Seconds(10),
                 "time from a unit to its logger, and as long back");
}

void FaultFlags::AddChaos() {
  ChaosOptions& chaos = set_.request.run.chaos;
  set_.flags.Custom(
      "chaos", "'KEY=VALUE …'",
      "trouble with messages about state: state_delay=0..2ms is added to each, "
      "evenly from that range; state_loss=0.01 and state_duplicate=0.01 are "
      "probabilities. start_failure=0.1 is the probability that a unit's start "
      "fails. logger_delay, logger_loss and logger_duplicate do the same "
      "between units and their output loggers; lease_delay, lease_loss and "
      "lease_duplicate, to messages about leases",
      [&chaos](const std::string& text) {
        const absl::StatusOr<ChaosOptions> parsed = ParseChaos(text);
        if (parsed.ok()) chaos = *parsed;
        return parsed.status();
      },
      [&chaos] { return FormatChaos(chaos); });
}

void FaultFlags::AddFaults() {
  FaultOptions& faults = set_.request.run.faults;
  set_.flags.Custom(
      "faults", "'kill …; kill …'",
      "failures that the run recovers from, with --loggers=on. Units, with "
      "their host and the packets in it: \"kill unit 3 at 1.2s\" after the "
      "first packet; \"kill any p=0.001\", one that runs, by chance with each "
      "packet. Hosts (--units_per_host), with all their units and the loggers "
      "on them, which serve another host: \"kill host 1 at 2s\", \"kill any "
      "host p=0.001\". Loggers: \"kill logger 3 at 1s\", \"kill any logger "
      "p=0.001\", or \"kill process of any logger p=0.001\", whose ring is "
      "kept. In real "
      "time processes are killed, with all their units, or all loggers. The "
      "controller, which a successor replaces, also while units or loggers "
      "fail: \"kill controller at 2s\", \"kill controller p=0.001\". With "
      "--controllers: \"kill controller 2 at 2s\"; and, without loggers too, "
      "\"add controller at 3s\", \"remove controller 1 at 4s\", whose flows "
      "are handed over, and \"kill resource_manager at 5s\", whose leases stay",
      [&faults](const std::string& text) {
        const absl::StatusOr<FaultOptions> parsed = ParseFaults(text);
        if (parsed.ok()) faults = *parsed;
        return parsed.status();
      },
      [&faults] { return FormatFaults(faults); });
}

absl::Status FaultFlags::Check() const {
  const RunOptions& run = set_.request.run;
  return set_.Check({{.flags = {"logger_delay"},
                      .with = "loggers",
                      .when = !run.loggers,
                      .because = "there are no loggers"},
                     {.flags = {"chaos"},
                      .with = "loggers",
                      .when = run.chaos.meets_loggers() && !run.loggers,
                      .because = "there are no loggers"},
                     {.flags = {"chaos"},
                      .with = "controllers",
                      .when = run.chaos.meets_leases() &&
                              set_.request.cluster.controllers == 1,
                      .because = "a single controller leases nothing"}});
}

absl::Status FaultFlags::CheckFaults() const {
  const RunRequest& request = set_.request;
  const FaultOptions& faults = request.run.faults;
  if (faults.kills.empty() && faults.changes.empty()) return absl::OkStatus();
  if (faults.any() && !request.run.loggers) {
    return set_.AtOdds("faults", "loggers",
                       "without loggers the state of a failed unit is lost");
  }
  if (absl::Status s = CheckControllers(); !s.ok()) return s;
  const bool any_unit_or_logger =
      faults.any_of_units() || faults.any_of_loggers();
  const bool any_manager =
      std::ranges::any_of(faults.kills, &Kill::is_of_manager);
  const bool is_real = request.is_real_time;
  absl::Status status = set_.Check(
      {{.flags = {"faults"},
        .with = "clock",
        .when = is_real && faults.any_of_hosts(),
        .because = "in real time all units and loggers are on one host"},
       {.flags = {"faults"},
        .with = "isolation",
        .when = is_real && any_unit_or_logger &&
                request.real.isolation == Isolation::kThread,
        .because = "in real time only processes of units and loggers can be "
                   "killed, no threads"},
       {.flags = {"faults"},
        .with = "leases",
        .when = is_real && any_manager && !request.cluster.shared,
        .because = "in real time, controllers with units of their own have no "
                   "resource manager"},
       {.flags = {"faults"},
        .with = "clock",
        .when = is_real && !faults.changes.empty(),
        .because = "in real time no controller joins or leaves so far"},
       {.flags = {"faults"},
        .with = "recovery",
        .when = set_.given("recovery"),
        .because = "recovery is estimated only without real failures"}});
  return status.ok() ? CheckNamed() : status;
}

// Returns an error if a unit or a host is named that the run does not have.
absl::Status FaultFlags::CheckNamed() const {
  const uint32_t units = set_.request.run.controller.max_units;
  const auto hosts =
      static_cast<int>(HostMap(set_.request.run.controller).hosts());
  for (const Kill& kill : set_.request.run.faults.kills) {
    if (kill.host >= hosts) {
      return set_.AtOdds("faults", "units_per_host",
                         fmt::format("there is no host {}, the last one is {}",
                                     kill.host, hosts - 1));
    }
    if (kill.unit == kNoUnit || value(kill.unit) < units) continue;
    return set_.AtOdds("faults", "max_units",
                       fmt::format("there is no unit {}, the last one is {}",
                                   value(kill.unit), units - 1));
  }
  return absl::OkStatus();
}

absl::Status FaultFlags::AtOddsWithControllers(
    const std::string& because) const {
  return set_.AtOdds("faults", "controllers", because);
}

absl::Status FaultFlags::CheckControllers() const {
  const FaultOptions& faults = set_.request.run.faults;
  const uint32_t controllers = set_.request.cluster.controllers;
  int most = -1;  // the highest number of a controller that is named
  for (const Kill& kill : faults.kills) most = std::max(most, kill.controller);
  if (controllers == 1) {
    if (most >= 0 || !faults.changes.empty()) {
      return AtOddsWithControllers(
          "a single controller has no number, and no other joins or leaves");
    }
    return std::ranges::any_of(faults.kills, &Kill::is_of_manager)
               ? AtOddsWithControllers(
                     "a single controller has no resource manager")
               : absl::OkStatus();
  }
  if (faults.any_of_units() || faults.any_of_loggers()) {
    return AtOddsWithControllers(
        "with several controllers, no units or loggers fail so far");
  }
  const auto joins = static_cast<uint32_t>(
      std::ranges::count_if(faults.changes, &MemberChange::joins));
  if (controllers + joins > kMostControllers) {
    return AtOddsWithControllers(
        fmt::format("{} and {} that join are more than {}, the most",
                    controllers, joins, kMostControllers));
  }
  for (const MemberChange& change : faults.changes) {
    most = std::max(most, change.controller);
  }
  if (most < static_cast<int>(controllers + joins)) return absl::OkStatus();
  return AtOddsWithControllers(
      fmt::format("there is never a controller {}, the last one is {}", most,
                  controllers + joins - 1));
}

void FaultFlags::Settle() {
  RunOptions& run = set_.request.run;
  if (!run.faults.any()) return;
  // With several controllers, units do not fail.
  if (set_.request.cluster.controllers == 1) AddSpareUnits(run.controller);
  PrepareForFailures(run.controller);
}

}  // namespace snf
