// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/packet/flow_key_text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "platform/report/compare.h"
#include "platform/report/report.h"
#include "platform/report/report_tables.h"
#include "platform/run/figures/figures.h"
#include "platform/run/figures/report_figures.h"

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

Json Flags(const RunInfo& info) {
  Json json = Json::object();
  for (const RunInfo::Flag& flag : info.flags) json[flag.name] = flag.value;
  return json;
}

Json Counters(const RunResult& result) {
  Json json = Json::object();
  for (const RunResult::NfCounter& counter : result.nf_counters) {
    json[NameOf(counter)] = counter.value;
  }
  return json;
}

Json NfLogs(const RunResult& result) {
  Json json = Json::object();
  for (const NfLogCount& log : result.nf_logs) {
    json[log.name] = {{"released", log.released}, {"no_room", log.no_room}};
  }
  return json;
}

Json WorstWait(const StateFigures::Worst& worst) {
  if (worst.wait.ns == 0) return nullptr;
  const bool is_known = worst.key != FlowKey{};
  return {{"flow", is_known ? ToString(worst.key) : ""},
          {"clock", value(worst.clock)},
          {"unit", value(worst.unit)},
          {"wait_ns", worst.wait.ns}};
}

Json Ports(const PortsFigures& live) {
  Json json = Json::object();
  for (const PortFigures& port : live.ports) {
    Json& of_port = json[port.name] = {{"interface", port.interface},
                                       {"down_ns", port.down.ns}};
    for (const PortCount& count : PortCounts()) {
      of_port[std::string(count.key)] = port.*count.count;
    }
    for (const NamedCount& count : port.router) {
      of_port["router"][count.name] = count.count;
    }
  }
  json["filtered"] = live.filtered;
  json["unrouted"] = live.unrouted;
  json["copies"] = live.copies;
  json["answer_copies"] = live.answer_copies;
  json["no_chain"] = live.no_chain;
  return json;
}

Json Controllers(const std::vector<ControllerFigures>& controllers,
                 const RunInfo& info) {
  Json json = Json::array();
  // Controllers that lease have no units of their own.
  const auto of_own = [](const ControllerFigures& one, auto figure) {
    return one.units_max > 0 || one.packets == 0 ? Json(figure) : Json(nullptr);
  };
  for (const ControllerFigures& one : controllers) {
    json.push_back(
        {{"packets", one.packets},
         {"bytes", one.bytes},
         {"packets_dropped", one.dropped},
         {"units_max", of_own(one, one.units_max)},
         {"capacity_used",
          info.is_unpaced ? Json(nullptr) : of_own(one, one.capacity_used)},
         {"grants", one.grants},
         {"share_max", static_cast<double>(one.share_max) / 1'024}});
  }
  return json;
}

Json Refused(const UnitCounters& units) {
  Json json = Json::object();
  for (size_t i = 0; i < kStateRefusals; ++i) {
    json[std::string(ToString(static_cast<StateRefusal>(i)))] =
        units.refused[i];
  }
  return json;
}

Json Missed(const UnitCounters& units) {
  Json json = Json::object();
  for (size_t i = 0; i < kHostMisses; ++i) {
    json[std::string(ToString(static_cast<HostMiss>(i)))] =
        units.records_missed[i];
  }
  return json;
}

Json Stories(const RunInfo& info) {
  Json json = Json::array();
  for (const FlowStory& story : info.stories) json.push_back(JsonOf(story));
  return json;
}

// A figure that is no number, which the table leaves to the report.
struct Composed {
  std::string_view key;
  Json (*json)(const RunResult& result, const RunInfo& info);
};
using R = const RunResult&;
using I = const RunInfo&;
constexpr Composed kComposed[] = {
    {"packets_dropped", [](R r, I) { return Drops(r); }},
    {"ports", [](R r, I) { return Ports(r.live); }},
    {"leases.by_controller",
     [](R r, I i) { return Controllers(r.controllers, i); }},
    {"digest", [](R r, I) { return Json(fmt::format("{:016x}", r.digest)); }},
    {"digest_up_to_renaming",
     [](R r, I) {
       return Json(fmt::format("{:016x}", r.digest_up_to_renaming));
     }},
    {"seed", [](R, I i) { return Json(i.seed); }},
    {"flags", [](R, I i) { return Flags(i); }},
    {"version", [](R, I i) { return Json(i.version); }},
    {"elapsed_s", [](R, I i) { return Json(i.elapsed_s); }},
    {"interrupted", [](R, I i) { return Json(i.is_interrupted); }},
    {"violation_messages", [](R r, I) { return Json(r.violation_messages); }},
    {"nf", [](R, I i) { return Json(i.nf); }},
    {"counters", [](R r, I) { return Counters(r); }},
    {"nf_logs", [](R r, I) { return NfLogs(r); }},
    {"tables", [](R r, I) { return JsonOfTables(r); }},
    {"nf_reports", [](R r, I) { return JsonOfNfReports(r); }},
    {"policy", [](R, I i) { return Json(i.policy); }},
    {"files", [](R, I i) { return Json(i.files); }},
    {"warnings", [](R, I i) { return Json(i.warnings); }},
    {"wait_worst", [](R r, I) { return WorstWait(r.state.worst); }},
    {"state_refused", [](R r, I) { return Refused(r.state.units); }},
    {"host_records.missed", [](R r, I) { return Missed(r.state.units); }},
    {"explain", [](R, I i) { return Stories(i); }},
    {"parse_results", [](R r, I) { return ParseResults(r.classifier); }},
};

// The value of a figure that is shown.
Json JsonOf(const Figure& figure, const RunResult& result,
            const ReportFigures& derived, const RunInfo& info) {
  if (info.is_unpaced && IsOfCapacity(figure)) return nullptr;
  const FigureValue value = ValueOf(figure, result, derived);
  if (std::holds_alternative<std::monostate>(value)) {
    const auto composed =
        std::ranges::find(kComposed, figure.key, &Composed::key);
    SNF_CHECK(composed != std::end(kComposed));
    return composed->json(result, info);
  }
  const auto json = []<typename T>(const T& number) -> Json {
    if constexpr (std::is_same_v<T, const Histogram*>) {
      return number == nullptr ? Json(nullptr) : Quantiles(*number);
    } else if constexpr (std::is_same_v<T, std::monostate>) {
      return nullptr;
    } else {
      return number;
    }
  };
  return std::visit(json, value);
}

// Returns false for what a run did not ask for or cannot know.
bool IsKnown(const Figure& figure, const RunResult& result,
             const RunInfo& info) {
  if (figure.key == "ports") return !result.live.ports.empty();
  return figure.key != "explain" || !info.stories.empty();
}

Json Document(const RunOptions& options, const RunResult& result,
              const RunInfo& info) {
  const ReportFigures derived = FiguresOf(options, result);
  Json json = Json::object();
  for (const Figure& figure : Figures()) {
    if (!IsShown(figure, result) || !IsKnown(figure, result, info)) continue;
    Json* at = &json;
    const std::vector<std::string> path =
        absl::StrSplit(std::string(figure.key), '.');
    for (const std::string& key : path) at = &(*at)[key];
    *at = JsonOf(figure, result, derived, info);
  }
  return json;
}

std::string Print(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string JsonSchema() {
  Json schema = Json::array();
  for (const Figure& figure : Figures()) {
    if (!figure.is_in_report()) continue;
    Json& one = schema.emplace_back(
        Json{{"key", figure.key}, {"type", TypeOf(figure)}});
    const bool has_unit = !std::holds_alternative<std::monostate>(figure.place);
    if (has_unit && !figure.unit.empty()) one["unit"] = figure.unit;
    if (figure.adds != AddUp::kNot) one["adds_up"] = Name(figure.adds);
    if (!figure.metric.name.empty()) one["metric"] = figure.metric.name;
    one["help"] = figure.help;
  }
  return Print(schema);
}

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
