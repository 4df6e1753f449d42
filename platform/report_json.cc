// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "platform/report.h"
#include "platform/report_figures.h"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

Json Drops(const RunResult& result) {
  Json json = Json::object();
  for (const DropCount& drop : DropCounts(result)) {
    json[drop.name] = drop.packets;
  }
  return json;
}

Json Latency(const Histogram& latency) {
  return {{"p50", latency.Quantile(50'000)},
          {"p90", latency.Quantile(90'000)},
          {"p99", latency.Quantile(99'000)},
          {"p999", latency.Quantile(99'900)},
          {"max", latency.max()}};
}

Json ParseResults(const ClassifierCounters& classifier) {
  Json json = Json::object();
  for (size_t i = 0; i < kParseResults; ++i) {
    json[std::string(Name(static_cast<ParseResult>(i)))] =
        classifier.results[i];
  }
  return json;
}

void AddRequired(const RunResult& result, const RunInfo& info, Json& json) {
  json["packets_in"] = result.packets_in;
  json["packets_generated"] = result.packets_generated;
  json["packets_released"] = result.packets_released;
  json["packets_consumed"] = result.packets_consumed;
  json["packets_passed_through"] = result.packets_passed_through;
  json["packets_dropped"] = Drops(result);
  json["flows"] = result.controller.flows;
  json["flowlets"] = result.controller.flowlets;
  json["decisions"] = result.controller.decisions;
  json["units_used_max"] = result.units_max;
  json["units_used_mean"] = static_cast<double>(result.units_mean_1000) / 1000;
  json["overcommitted"] = result.controller.overcommitted;
  json["latency_ns"] = Latency(result.latency_ns);
  json["digest"] = fmt::format("{:016x}", result.digest);
  json["seed"] = info.seed;
  Json& flags = json["flags"] = Json::object();
  for (const RunInfo::Flag& flag : info.flags) flags[flag.name] = flag.value;
  json["version"] = info.version;
  json["elapsed_s"] = info.elapsed_s;
}

void AddFurther(const RunOptions& options, const RunResult& result,
                const RunInfo& info, Json& json) {
  const ReportFigures figures = FiguresOf(options, result);
  const ControllerCounters& controller = result.controller;
  json["sound"] = RunIsSound(result);
  json["conserved"] = result.conserved();
  json["violations"] = result.violations;
  json["violation_messages"] = result.violation_messages;
  json["nf"] = info.nf;
  json["policy"] = info.policy;
  json["files"] = info.files;
  json["warnings"] = info.warnings;
  json["duration_s"] = static_cast<double>(figures.duration.ns) / 1e9;
  json["bytes_in"] = result.bytes_in;
  json["bit_rate_mean_bps"] = figures.mean_rate_bps;
  json["late_packets"] = result.late_packets;
  json["flowlets_by"] = {
      {"new_flow", controller.flowlets - controller.flowlets_by_gap -
                       controller.flowlets_by_bytes},
      {"gap", controller.flowlets_by_gap},
      {"bytes", controller.flowlets_by_bytes}};
  json["flowlets_moved"] = controller.flowlets_moved;
  json["state_pulls"] = result.state_pulls;
  json["starts_cold"] = result.cold_starts;
  json["starts_warm"] = result.warm_starts;
  json["held_packets_max"] = result.held_packets_max;
  json["capacity_used"] = figures.capacity_used;
  const Histogram& utilisation = result.utilisation_1000;
  json["utilisation"] = {
      {"p50", static_cast<double>(utilisation.Quantile(50'000)) / 1000},
      {"p99", static_cast<double>(utilisation.Quantile(99'000)) / 1000}};
  json["parse_results"] = ParseResults(result.classifier);
  json["fragments_unmatched"] = result.classifier.fragments_unmatched;
}

}  // namespace

std::string JsonReport(const RunOptions& options, const RunResult& result,
                       const RunInfo& info) {
  Json json = Json::object();
  AddRequired(result, info, json);
  AddFurther(options, result, info, json);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace snf
