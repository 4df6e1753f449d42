// SPDX-License-Identifier: Apache-2.0
#include "platform/report/report_faults.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/histogram.h"
#include "base/quantity.h"

namespace snf {
namespace {

constexpr size_t kMostReported = 8;  // controllers, one by one

std::string WhatControllerDid(size_t i, const ControllerFigures& did,
                              bool is_unpaced) {
  std::string what = fmt::format("packets of controller {}", i);
  if (did.units_max > 0) {
    what += fmt::format(", {} units at most", did.units_max);
  }
  if (did.capacity_used > 0 && !is_unpaced) {
    what += fmt::format(", {:.0f} % of their capacity used",
                        did.capacity_used * 100);
  }
  if (did.grants > 0) {
    what += fmt::format(", {:.2f} units leased at most in {} grants",
                        static_cast<double>(did.share_max) / 1'024, did.grants);
  }
  return what;
}

}  // namespace

void AddFaults(const RunResult& result, Page& page) {
  const FaultFigures& faults = result.faults;
  const FailureCounters& failures = result.controller.failures;
  if (faults.kills + faults.kills_without_unit + faults.kills_without_host +
          failures.failures + faults.loggers_hostile + faults.pulls_refused ==
      0) {
    return;
  }
  page.Count("Faults", faults.kills, "units killed");
  if (failures.failures != faults.kills) {
    page.Count("", failures.failures, "units failed: all of a process at once");
  }
  if (faults.kills_without_unit > 0) {
    page.Count("", faults.kills_without_unit,
               "kills that found no unit running, or only the last one");
  }
  if (faults.host_kills > 0) {
    page.Count("", faults.host_kills,
               "hosts killed, with these units and some of the loggers");
  }
  if (faults.kills_without_host > 0) {
    page.Count(
        "", faults.kills_without_host,
        "kills that found no host to kill: nothing ran there, or a state "
        "was only there");
  }
  if (faults.nf_failures > 0) {
    page.Count("", faults.nf_failures, "processes of units that the NF failed");
  }
  if (faults.flows_blocked > 0) {
    page.Count("", faults.flows_blocked,
               "flows blocked, on which it had failed too often");
  }
  if (faults.processes_hostile > 0) {
    page.Count("", faults.processes_hostile,
               "processes of units killed for a bad word");
  }
  if (faults.loggers_hostile > 0) {
    page.Count("", faults.loggers_hostile,
               "processes of loggers killed for a bad word");
  }
  if (faults.pulls_refused > 0) {
    page.Count("", faults.pulls_refused,
               "requests refused for the state of flows of others");
  }
  page.Count("", faults.packets_lost, "packets lost with them");
  if (failures.packets_rerouted > 0) {
    page.Count("", failures.packets_rerouted,
               "packets that survived, and went to others");
  }
  page.Count("", failures.clocks_lost, "clocks lost, now tombstones");
  page.Count("", failures.flows_moved, "flows moved that lost nothing");
  if (failures.flows_given_up > 0) {
    page.Count("", failures.flows_given_up, "flows that had to begin anew");
  }
  if (faults.ends_lost > 0) {
    page.Count("", faults.ends_lost,
               "ends of flows lost on their way to units");
  }
  if (faults.records_left > 0) {
    page.Count("", faults.records_left,
               "old records that loggers keep at the end");
  }
  const auto quantiles = [&page](const Histogram& of, std::string_view what) {
    if (of.count() == 0) return;
    page.Row("", "", FormatDuration(Nanos{of.Quantile(50'000)}),
             fmt::format("p50 {}; p99 {}", what,
                         FormatDuration(Nanos{of.Quantile(99'000)})));
  };
  quantiles(faults.detection_ns, "from a kill until the controller knew");
  if (result.real.threads > 0) {
    quantiles(faults.recovery_ns, "from a death until all was moved");
  }
  if (faults.recovery_ns.count() > 0) {
    page.Row("", "", FormatDuration(Nanos{faults.recovery_ns.max()}),
             "from a death until all was moved, at most");
  }
  page.Blank();
}

void AddLoggerFaults(const RunResult& result, Page& page) {
  const FaultFigures& faults = result.faults;
  if (faults.logger_kills + faults.kills_without_logger +
          faults.logger_failures ==
      0) {
    return;
  }
  const bool is_real = result.real.threads > 0;
  page.Count(
      "Logger faults", faults.logger_kills,
      is_real ? "kills of the process of all loggers" : "loggers killed");
  if (is_real && faults.logger_failures != faults.logger_kills) {
    page.Count("", faults.logger_failures, "ends of it, by whomever");
  }
  if (faults.kills_without_logger > 0) {
    page.Count("", faults.kills_without_logger,
               "kills that found no logger whose unit ran");
  }
  page.Count("", faults.logger_packets_lost,
             "packets lost with them; what these did is kept");
  page.Count("", faults.records_restored,
             "records of flows that units gave to new loggers");
  const Histogram& recovery = faults.logger_recovery_ns;
  if (recovery.count() > 0 && is_real) {
    page.Row(
        "", "", FormatDuration(Nanos{recovery.Quantile(50'000)}),
        fmt::format("p50 from a death until another had taken over; p99 {}",
                    FormatDuration(Nanos{recovery.Quantile(99'000)})));
  }
  if (recovery.count() > 0) {
    page.Row("", "", FormatDuration(Nanos{recovery.max()}),
             "from a death until another had taken over, at most");
  }
  page.Blank();
}

void AddControllerFaults(const RunResult& result, Page& page) {
  const ControllerFaultFigures& faults = result.controller_faults;
  if (faults.kills + faults.kills_in_vain == 0) return;
  page.Count("Succession", faults.kills, "controllers killed");
  if (faults.kills_in_vain > 0) {
    page.Count("", faults.kills_in_vain, "kills that found none");
  }
  page.Count("", faults.packets_lost, "packets lost in their buffers");
  page.Count("", faults.flows, "flows found in what was reported");
  page.Count("", faults.tombstones, "clocks that nobody had, now tombstones");
  page.Count("", faults.packets_waited, "packets waited for a successor");
  const Histogram& recovery = faults.recovery_ns;
  if (recovery.count() > 0 && result.real.threads > 0) {
    page.Row("", "", FormatDuration(Nanos{recovery.Quantile(50'000)}),
             fmt::format("p50 from a death until packets went on; p99 {}",
                         FormatDuration(Nanos{recovery.Quantile(99'000)})));
  }
  if (recovery.count() > 0) {
    page.Row("", "", FormatDuration(Nanos{recovery.max()}),
             "from a death until packets went on, at most");
  }
  page.Blank();
}

void AddRecovery(const RecoveryFigures& recovery, Page& page) {
  if (recovery.samples == 0) return;
  page.Count("Recovery", recovery.samples, "deaths of units thought through");
  const auto add = [&page](uint64_t p50, uint64_t p99, uint64_t path,
                           const char* what) {
    const auto text = [](uint64_t ns) {
      return FormatDuration(Nanos{static_cast<int64_t>(ns)});
    };
    page.Row("", "", text(p50),
             fmt::format("p50 with {}; p99 {}, and {} a packet, p99", what,
                         text(p99), text(path)));
  };
  add(recovery.logger_p50, recovery.logger_p99, recovery.logger_path_p99,
      "output loggers");
  add(recovery.checkpoint_p50, recovery.checkpoint_p99,
      recovery.checkpoint_path_p99, "checkpoints every 50 ms");
  add(recovery.datastore_p50, recovery.datastore_p99,
      recovery.datastore_path_p99, "a datastore");
  page.Blank();
}

void AddLeases(const RunResult& result, bool is_unpaced, Page& page) {
  const ClusterFigures& leases = result.cluster;
  const bool has_leases = leases.asks > 0;
  page.Count("Controllers", leases.controllers,
             has_leases ? "that leased units" : "with units of their own");
  for (size_t i = 0; i < result.controllers.size(); ++i) {
    if (i == kMostReported) {
      page.Row("", "", "…", "others, which --json tells of");
      break;
    }
    page.Count("", result.controllers[i].packets,
               WhatControllerDid(i, result.controllers[i], is_unpaced));
  }
  if (leases.joined > 0) page.Count("", leases.joined, "of them joined later");
  if (leases.left > 0) page.Count("", leases.left, "of them left");
  if (leases.changes_in_vain > 0) {
    page.Count("", leases.changes_in_vain,
               "were to leave or to be killed, and were not there");
  }
  if (leases.flows_moved > 0) {
    page.Count("", leases.flows_moved, "flows moved from one to another");
    page.Count("", leases.packets_waited, "packets waited for these");
  }
  if (leases.flows_not_taken > 0) {
    page.Count("", leases.flows_not_taken,
               "flows lost their state: the next controller had no room");
  }
  if (leases.words_given > 0) {
    page.Count("", leases.words_given, "words of pools given to another");
  }
  if (!has_leases) return;
  page.Count("Leases", leases.grants, "grants of shares, and changes of them");
  page.Count("", leases.given_back, "given back, or a part of them");
  page.Count("", leases.revoked, "revoked, or a part of them");
  if (leases.gone > 0) page.Count("", leases.gone, "ended by their manager");
  if (leases.refused > 0) {
    page.Count("", leases.refused, "messages about them refused");
  }
  if (leases.messages_lost + leases.messages_duplicated > 0) {
    page.Count("", leases.messages_lost, "messages about them lost");
    page.Count("", leases.messages_duplicated, "came twice");
  }
  if (leases.managers_failed > 0) {
    page.Count("", leases.managers_failed, "resource managers killed");
    page.Count("", leases.managers_recovered,
               fmt::format("of which another took the place, within {}",
                           FormatDuration(Nanos{static_cast<int64_t>(
                               leases.manager_recovery_ns_max)})));
  }
}

}  // namespace snf
