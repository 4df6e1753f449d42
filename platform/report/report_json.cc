// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <string>

#include "base/packet/flow_key_text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "platform/report/compare.h"
#include "platform/report/report.h"
#include "platform/report/report_tables.h"
#include "platform/run/report_figures.h"

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

Json Quantiles(const Histogram& times) {
  return {{"p50", times.Quantile(50'000)},
          {"p90", times.Quantile(90'000)},
          {"p99", times.Quantile(99'000)},
          {"p999", times.Quantile(99'900)},
          {"max", times.max()}};
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
  json["latency_ns"] = Quantiles(result.latency_ns);
  json["digest"] = fmt::format("{:016x}", result.digest);
  json["seed"] = info.seed;
  Json& flags = json["flags"] = Json::object();
  for (const RunInfo::Flag& flag : info.flags) flags[flag.name] = flag.value;
  json["version"] = info.version;
  json["elapsed_s"] = info.elapsed_s;
}

void AddState(const RunResult& result, const ReportFigures& figures,
              Json& json) {
  const StateFigures& state = result.state;
  json["flowlets_movable"] = figures.flowlets_movable;
  json["flowlets_moved"] = result.controller.flowlets_moved;
  json["flowlets_seamless"] = state.seamless;
  json["flowlets_pulled"] = state.pulled;
  json["wait_ns"] = Quantiles(state.wait_ns);
  json["wait_worst"] = nullptr;
  if (state.worst.wait.ns > 0) {
    const bool is_known = state.worst.key != FlowKey{};
    json["wait_worst"] = {{"flow", is_known ? ToString(state.worst.key) : ""},
                          {"clock", value(state.worst.clock)},
                          {"unit", value(state.worst.unit)},
                          {"wait_ns", state.worst.wait.ns}};
  }
  json["state_pushes"] = state.pushes;
  json["state_pulls"] = state.pulls;
  json["state_answers"] = state.answers;
  json["state_bytes"] = state.bytes;
  json["state_pushed_bytes"] = state.pushed_bytes;
  json["replication_bps"] = figures.replication_bps;
  json["held_packets_max"] = result.held_packets_max;
  json["tombstones"] = state.tombstones;
  json["flows_handed_over"] = state.null_packets;
  json["state_messages_lost"] = state.messages_lost;
  json["state_messages_duplicated"] = state.messages_duplicated;
  const UnitCounters& units = state.units;
  json["replicas_taken"] = units.replicas_taken;
  json["replicas_evicted"] = units.replicas_evicted;
  json["replicas_expired"] = units.replicas_expired;
  json["pulls_repeated"] = units.pulls_repeated;
  json["takeovers_repeated"] = units.takeovers_repeated;
  json["takeovers_said_once"] = units.takeovers_said_once;
  Json& refused = json["state_refused"] = Json::object();
  for (size_t i = 0; i < kStateRefusals; ++i) {
    refused[std::string(ToString(static_cast<StateRefusal>(i)))] =
        units.refused[i];
  }
}

void AddReal(const RunResult& result, Json& json) {
  const RealFigures& real = result.real;
  if (real.threads == 0) return;
  json["real"] = {{"threads", real.threads},
                  {"wall_s", static_cast<double>(real.wall.ns) / 1e9},
                  {"late_ns", nullptr},
                  {"worker_sleeps", real.sleeps}};
  if (real.schedule_error_ns.count() > 0) {
    json["real"]["late_ns"] = Quantiles(real.schedule_error_ns);
  }
}

void AddAliases(const RunResult& result, Json& json) {
  const AliasFigures& aliases = result.aliases;
  const ControllerCounters& counters = result.controller;
  if (aliases.has_sides) {
    json["aliases"] = {{"granted", counters.aliases_granted},
                       {"at_once_max", aliases.at_once_max},
                       {"refused",
                        {{"conflict", counters.aliases_conflict},
                         {"group_full", counters.aliases_group_full},
                         {"unknown", counters.aliases_refused_unknown +
                                         counters.aliases_refused_future}}},
                       {"packets_offered", aliases.packets_offered},
                       {"packets_found", aliases.packets_found},
                       {"packets_hairpinned", aliases.packets_hairpinned}};
  }
  if (aliases.pools > 0) {
    const PieceCounters& pieces = counters.pieces;
    json["pools"] = {{"pools", aliases.pools},
                     {"pieces_out_max", pieces.pieces_out_max},
                     {"blocks_granted", pieces.blocks_granted},
                     {"requests_refused", pieces.requests_refused},
                     {"reclaim_rounds", pieces.reclaim_rounds}};
  }
}

void AddFurther(const RunOptions& options, const RunResult& result,
                const RunInfo& info, Json& json) {
  const ReportFigures figures = FiguresOf(options, result);
  const ControllerCounters& controller = result.controller;
  json["sound"] = RunIsSound(result);
  json["conserved"] = result.conserved();
  json["violations"] = result.violations;
  json["violation_messages"] = result.violation_messages;
  json["i6_compared"] = result.i6_compared;
  json["i6_not_compared"] = result.i6_not_compared;
  json["nf"] = info.nf;
  Json& counters = json["counters"] = Json::object();
  for (const RunResult::NfCounter& counter : result.nf_counters) {
    counters[NameOf(counter)] = counter.value;
  }
  AddTables(result, json);
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
  AddState(result, figures, json);
  json["starts_cold"] = result.cold_starts;
  json["starts_warm"] = result.warm_starts;
  json["capacity_used"] = figures.capacity_used;
  const Histogram& utilisation = result.utilisation_1000;
  json["utilisation"] = {
      {"p50", static_cast<double>(utilisation.Quantile(50'000)) / 1000},
      {"p99", static_cast<double>(utilisation.Quantile(99'000)) / 1000}};
  AddReal(result, json);
  AddAliases(result, json);
  for (const FlowStory& story : info.stories) {
    json["explain"].push_back(JsonOf(story));
  }
  json["parse_results"] = ParseResults(result.classifier);
  json["fragments_unmatched"] = result.classifier.fragments_unmatched;
}

Json Document(const RunOptions& options, const RunResult& result,
              const RunInfo& info) {
  Json json = Json::object();
  AddRequired(result, info, json);
  AddFurther(options, result, info, json);
  return json;
}

std::string Print(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string JsonReport(const RunOptions& options, const RunResult& result,
                       const RunInfo& info) {
  return Print(Document(options, result, info));
}

std::string JsonComparison(const RunOptions& options,
                           std::span<const ComparedRun> runs,
                           const RunInfo& info) {
  const auto document = [&](const ComparedRun& run) {
    RunInfo of_run = info;
    of_run.policy = run.policy;
    of_run.elapsed_s = run.elapsed_s;
    return Document(options, run.result, of_run);
  };
  Json json = document(runs.front());
  Json& compare = json["compare"] = Json::array();
  for (const ComparedRun& run : runs) {
    Json& one = compare.emplace_back(document(run));
    for (const char* shared : {"flags", "files", "warnings", "version"}) {
      one.erase(shared);
    }
  }
  return Print(json);
}

}  // namespace snf
