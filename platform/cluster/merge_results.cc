// SPDX-License-Identifier: Apache-2.0
#include "platform/cluster/merge_results.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/counters.h"
#include "platform/run/report_figures.h"
#include "platform/run/run_setup.h"
#include "platform/run/run_totals.h"
#include "runtime/core/state_figures.h"

namespace snf {
namespace {

void AddPackets(RunResult& sum, const RunResult& one) {
  if (one.packets_in > 0) {
    sum.last_packet = std::max(sum.last_packet, one.last_packet);
  }
  sum.packets_in += one.packets_in;
  sum.bytes_in += one.bytes_in;
  sum.packets_generated += one.packets_generated;
  sum.packets_released += one.packets_released;
  sum.packets_passed_through += one.packets_passed_through;
  sum.packets_consumed += one.packets_consumed;
  for (size_t i = 0; i < sum.dropped.size(); ++i) {
    sum.dropped[i] += one.dropped[i];
  }
  for (size_t i = 0; i < sum.nf_dropped.size(); ++i) {
    sum.nf_dropped[i] += one.nf_dropped[i];
  }
  for (size_t i = 0; i < sum.nf_counters.size(); ++i) {
    sum.nf_counters[i].value += one.nf_counters[i].value;
  }
  sum.latency_ns.Merge(one.latency_ns);
  // Both are sums over flows, of which each is in one run.
  sum.digest += one.digest;
  sum.digest_up_to_renaming += one.digest_up_to_renaming;
}

void AddParts(RunResult& sum, const RunResult& one) {
  AddCounters(sum.controller, one.controller);
  AddTo(sum.state, one.state);
  sum.cold_starts += one.cold_starts;
  sum.warm_starts += one.warm_starts;
  sum.failed_starts += one.failed_starts;
  sum.aliases.packets_offered += one.aliases.packets_offered;
  sum.aliases.packets_found += one.aliases.packets_found;
  sum.aliases.packets_hairpinned += one.aliases.packets_hairpinned;
  sum.loggers.entries += one.loggers.entries;
  sum.loggers.bytes += one.loggers.bytes;
  sum.loggers.whole += one.loggers.whole;
  sum.loggers.partial += one.loggers.partial;
  sum.loggers.delta_bytes += one.loggers.delta_bytes;
  sum.loggers.sent_again += one.loggers.sent_again;
  sum.loggers.messages_lost += one.loggers.messages_lost;
  sum.loggers.messages_duplicated += one.loggers.messages_duplicated;
  sum.held_packets_max = std::max(sum.held_packets_max, one.held_packets_max);
}

void AddFaults(RunResult& sum, const RunResult& one) {
  ControllerFaultFigures& all = sum.controller_faults;
  const ControllerFaultFigures& more = one.controller_faults;
  all.kills += more.kills;
  all.kills_in_vain += more.kills_in_vain;
  all.packets_lost += more.packets_lost;
  all.clocks_lost += more.clocks_lost;
  all.packets_waited += more.packets_waited;
  all.flows += more.flows;
  all.flows_ending += more.flows_ending;
  all.tombstones += more.tombstones;
  all.null_packets += more.null_packets;
  all.redirects += more.redirects;
  all.aliases_withdrawn += more.aliases_withdrawn;
  all.flows_unnamed += more.flows_unnamed;
  all.flows_superseded += more.flows_superseded;
  all.recovery_ns.Merge(more.recovery_ns);
  sum.faults.records_left += one.faults.records_left;
}

void AddChecks(RunResult& sum, const RunResult& one) {
  sum.violations += one.violations;
  sum.violation_messages.insert(sum.violation_messages.end(),
                                one.violation_messages.begin(),
                                one.violation_messages.end());
  sum.i6_compared += one.i6_compared;
  sum.i6_not_compared += one.i6_not_compared;
  sum.i6_after_table_read += one.i6_after_table_read;
  sum.i6_after_difference += one.i6_after_difference;
}

}  // namespace

RunResult MergeResults(const NetworkFunction& example,
                       std::vector<RunResult> results) {
  RunResult sum = EmptyResult(example);
  AddNfCounters(example, sum);
  for (const RunResult& one : results) {
    sum.first_packet = one.first_packet;
    if (sum.last_packet < sum.first_packet) sum.last_packet = sum.first_packet;
    // The ingress is that of all.
    sum.classifier = one.classifier;
    sum.aliases.at_once_max = one.aliases.at_once_max;
    AddPackets(sum, one);
    AddParts(sum, one);
    AddFaults(sum, one);
    AddChecks(sum, one);
  }
  if (!results.empty()) sum.nf_reports = std::move(results[0].nf_reports);
  return sum;
}

ControllerFigures FiguresOfController(const RunOptions& options,
                                      const RunResult& result) {
  return {.packets = result.packets_in + result.aliases.packets_hairpinned,
          .bytes = result.bytes_in,
          .dropped = result.packets_dropped(),
          .units_max = result.units_max,
          .capacity_used = FiguresOf(options, result).capacity_used};
}

}  // namespace snf
