// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/cluster/merge_results.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "platform/run/figures/figures.h"
#include "platform/run/figures/report_figures.h"
#include "platform/run/figures/run_totals.h"
#include "platform/run/run_setup.h"

namespace snf {
namespace {

// Adds the figures of tables, without the figures of their homes.
void AddTableFigures(RunResult& sum, const RunResult& one) {
  if (sum.tables.empty()) {
    sum.tables = one.tables;
    return;
  }
  for (size_t i = 0; i < sum.tables.size(); ++i) {
    TableFigures& to = sum.tables[i];
    const TableFigures& from = one.tables[i];
    to.updates += from.updates;
    to.refused += from.refused;
    to.forgotten += from.forgotten;
    to.messages += from.messages;
    to.bytes += from.bytes;
    to.repeated += from.repeated;
    to.staleness_ns.Merge(from.staleness_ns);
    to.spread_ns.Merge(from.spread_ns);
  }
}

void AddForgotten(ForgottenEpochs& sum, const ForgottenEpochs& one) {
  sum.epochs = std::max(sum.epochs, one.epochs);
  sum.with_offered = std::max(sum.with_offered, one.with_offered);
  sum.offered_bytes += one.offered_bytes;
  sum.drained_bytes += one.drained_bytes;
  sum.most_offered_bytes =
      std::max(sum.most_offered_bytes, one.most_offered_bytes);
}

// Returns the time of traffic over which Provisioning took the mean of units.
double TrafficNs(const RunResult& one) {
  return one.units_mean_1000 == 0
             ? 0
             : static_cast<double>(one.unit_ns_with_traffic) * 1000 /
                   static_cast<double>(one.units_mean_1000);
}

// Adds what is no figure with a place in the table.
void AddOthers(RunResult& sum, const RunResult& one) {
  if (one.packets_in > 0) {
    sum.last_packet = std::max(sum.last_packet, one.last_packet);
  }
  for (size_t i = 0; i < sum.dropped.size(); ++i) {
    sum.dropped[i] += one.dropped[i];
  }
  for (size_t i = 0; i < sum.nf_dropped.size(); ++i) {
    sum.nf_dropped[i] += one.nf_dropped[i];
  }
  for (size_t i = 0; i < sum.nf_logs.size(); ++i) {
    sum.nf_logs[i].released += one.nf_logs[i].released;
    sum.nf_logs[i].no_room += one.nf_logs[i].no_room;
  }
  for (size_t i = 0; i < sum.nf_counters.size(); ++i) {
    sum.nf_counters[i].value += one.nf_counters[i].value;
  }
  // Digests are sums over flows, and each flow is in one run.
  sum.digest += one.digest;
  sum.digest_up_to_renaming += one.digest_up_to_renaming;
  sum.violation_messages.insert(sum.violation_messages.end(),
                                one.violation_messages.begin(),
                                one.violation_messages.end());
}

}  // namespace

RunResult MergeResults(const NetworkFunction& example,
                       std::vector<RunResult> results) {
  RunResult sum = EmptyResult(example);
  AddNfCounters(example, sum);
  for (const RunResult& one : results) {
    sum.first_packet = one.first_packet;
    if (sum.last_packet < sum.first_packet) sum.last_packet = sum.first_packet;
    AddUpFigures(sum, one);
    AddOthers(sum, one);
    AddTableFigures(sum, one);
    // The runs share one ingress.
    sum.classifier = one.classifier;
  }
  sum.units_max = 0;
  return sum;
}

void AddEpochs(const std::vector<RunResult>& results, RunResult& sum) {
  std::map<int64_t, EpochSample> by_epoch;
  for (const RunResult& one : results) {
    AddForgotten(sum.forgotten, one.forgotten);
    for (const EpochSample& sample : one.epochs) {
      EpochSample& to = by_epoch[sample.epoch];
      to.epoch = sample.epoch;
      to.offered_bytes += sample.offered_bytes;
      to.drained_bytes += sample.drained_bytes;
      to.dropped_packets += sample.dropped_packets;
      to.unit_ns += sample.unit_ns;
    }
  }
  for (const auto& [epoch, sample] : by_epoch) sum.epochs.push_back(sample);
}

void AddOwnUnits(const std::vector<RunResult>& results, RunResult& sum) {
  double traffic_ns = 0;
  for (const RunResult& one : results) {
    sum.units_max += one.units_max;
    sum.unit_ns_with_traffic += one.unit_ns_with_traffic;
    sum.utilisation_1000.Merge(one.utilisation_1000);
    traffic_ns = std::max(traffic_ns, TrafficNs(one));
  }
  if (traffic_ns > 0) {
    sum.units_mean_1000 = std::llround(
        static_cast<double>(sum.unit_ns_with_traffic) * 1000 / traffic_ns);
  }
  AddEpochs(results, sum);
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
