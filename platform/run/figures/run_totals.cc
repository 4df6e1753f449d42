// SPDX-License-Identifier: Apache-2.0
#include "platform/run/figures/run_totals.h"

#include <string>
#include <utility>

#include "runtime/sdk/nf_call.h"
#include "runtime/sdk/nf_report.h"

namespace snf {

void AddNfCounters(const NetworkFunction& example, RunResult& result) {
  for (const NetworkFunction::Part& part : example.parts()) {
    for (const NetworkFunction::CounterInfo& info : part.nf->counters()) {
      result.nf_counters.push_back(
          {.nf = std::string(part.name), .name = info.name, .help = info.help});
    }
  }
}

void AddNfCounts(const NetworkFunction& nf, RunResult& result) {
  size_t i = 0;
  for (const NetworkFunction::Part& part : nf.parts()) {
    for (const uint64_t n : part.nf->counts()) {
      result.nf_counters[i++].value += n;
    }
  }
}

void AddTotals(const Controller& controller, const Ingress& ingress,
               const Provisioning& provisioning, RunResult& result) {
  result.controller = controller.counters();
  result.cold_starts = controller.units().cold_starts();
  result.warm_starts = controller.units().warm_starts();
  result.failed_starts = controller.units().failed_starts();
  result.classifier = ingress.counters();
  result.fragments_kept = ingress.fragments_kept();
  result.fragments_kept_matched = ingress.fragments_kept_matched();
  result.aliases.at_once_max = ingress.aliases_max();
  result.units_max = provisioning.units_max();
  result.units_mean_1000 = provisioning.units_mean_1000();
  result.unit_ns_with_traffic = provisioning.unit_ns_with_traffic();
  result.utilisation_1000 = provisioning.utilisation();
  result.epochs = provisioning.samples();
  result.forgotten = provisioning.forgotten();
}

void AddNfReports(const NetworkFunction& example, RunResult& result) {
  for (const NetworkFunction::Part& part : example.parts()) {
    NfReport report;
    CallNf(*part.nf, NfCall::Hook::kReport, nullptr, kNoPacket,
           [&] { report = part.nf->report(); });
    if (report.tables.empty() && report.files.empty() &&
        report.exports.empty()) {
      continue;
    }
    result.nf_reports.push_back(
        {.nf = std::string(part.name), .report = std::move(report)});
  }
}

}  // namespace snf
