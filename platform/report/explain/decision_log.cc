// SPDX-License-Identifier: Apache-2.0
#include "platform/report/explain/decision_log.h"

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/packet/flow_key_text.h"
#include "fmt/format.h"
#include "platform/report/explain/explain.h"

namespace snf {
namespace {

std::string_view WithoutCompression(std::string_view file) {
  for (const std::string_view suffix : {".gz", ".zst"}) {
    if (file.ends_with(suffix)) return file.substr(0, file.rfind('.'));
  }
  return file;
}

bool NamesCsv(std::string_view file) {
  return WithoutCompression(file).ends_with(".csv");
}

std::string_view NameOf(FlowletCause cause) {
  switch (cause) {
    case FlowletCause::kNewFlow:
      return "new_flow";
    case FlowletCause::kGap:
      return "gap";
    case FlowletCause::kBytes:
      return "bytes";
    case FlowletCause::kLate:
      return "late";
  }
  return "";
}

std::string_view ReasonOf(const Placement& placement) {
  if (placement.unit == kNoUnit) return "no_unit";
  if (placement.kept) return "kept";
  return placement.overcommitted ? "no_room" : "room";
}

std::string Seconds(Nanos time) {
  return fmt::format("{}.{:09}", time.ns / 1'000'000'000,
                     time.ns % 1'000'000'000);
}

// A share of a unit's capacity.
std::string ShareText(int64_t quanta) {
  return fmt::format("{:.4f}", static_cast<double>(quanta) / kFullLoad);
}

// A column: its name, and its value in CSV and in JSON.
struct Column {
  std::string_view name;
  std::string csv;
  std::string json;
};

Column Number(std::string_view name, const std::string& number) {
  return {name, number, number};
}

Column Text(std::string_view name, std::string_view text) {
  return {name, std::string(text), fmt::format("\"{}\"", text)};
}

Column Unit(std::string_view name, UnitId unit) {
  if (unit == kNoUnit) return {name, "", "null"};
  return Number(name, fmt::format("{}", value(unit)));
}

Column Replicas(std::span<const UnitId> units) {
  Column column = {"replicas", "", ""};
  for (const UnitId unit : units) {
    column.csv +=
        fmt::format("{}{}", column.csv.empty() ? "" : " ", value(unit));
    column.json +=
        fmt::format("{}{}", column.json.empty() ? "" : ",", value(unit));
  }
  column.json = "[" + column.json + "]";
  return column;
}

Column Candidates(const std::vector<CandidateUnit>& units) {
  Column column = {"candidates", "", ""};
  for (const CandidateUnit& unit : units) {
    const bool has_room = unit.score >= 0;
    column.csv += fmt::format("{}{}:{}:{}{}", column.csv.empty() ? "" : " ",
                              value(unit.unit), ShareText(unit.load),
                              has_room ? ShareText(unit.score) : "-",
                              unit.has_state ? ":state" : "");
    column.json += fmt::format(
        R"({}{{"unit":{},"load":{},"score":{},"state":{}}})",
        column.json.empty() ? "" : ",", value(unit.unit), ShareText(unit.load),
        has_room ? ShareText(unit.score) : "null", unit.has_state);
  }
  column.json = "[" + column.json + "]";
  return column;
}

std::array<Column, 16> ColumnsOf(Nanos time, const FlowKey& key,
                                 const Decision& decision,
                                 const UnitPool& units) {
  const PlacementRequest& request = decision.request;
  const UnitId unit = decision.placement.unit;
  FlowletStory seen;
  DescribeCandidates(decision, units, seen);
  return {{Number("time_s", Seconds(time)), Text("flow", ToString(key)),
           Number("flowlet", fmt::format("{}", decision.flowlet)),
           Text("cause", NameOf(decision.cause)),
           Number("gap_s", Seconds(decision.gap)),
           Number("demand_bps", fmt::format("{}", decision.demand_bps)),
           Number("demand", ShareText(request.demand)),
           Unit("owner", request.owner), Replicas(request.replicas.span()),
           Unit("unit", unit), Text("reason", ReasonOf(decision.placement)),
           unit == kNoUnit ? Column{"load", "", "null"}
                           : Number("load", ShareText(units.load(unit))),
           Number("units", fmt::format("{}", seen.placeable_units)),
           Number("units_with_room", fmt::format("{}", seen.units_with_room)),
           Number("units_starting", fmt::format("{}", seen.starting_units)),
           Candidates(seen.candidates)}};
}

}  // namespace

bool DecisionLog::Names(std::string_view file) {
  return NamesCsv(file) || WithoutCompression(file).ends_with(".jsonl");
}

absl::StatusOr<std::unique_ptr<DecisionLog>> DecisionLog::Open(
    const std::string& file) {
  auto sink = ByteSink::Open(file);
  if (!sink.ok()) return sink.status();
  return std::unique_ptr<DecisionLog>(
      new DecisionLog(*std::move(sink), NamesCsv(file)));
}

DecisionLog::DecisionLog(std::unique_ptr<ByteSink> sink, bool is_csv)
    : sink_(std::move(sink)), is_csv_(is_csv) {
  if (!is_csv) return;
  Write(
      "time_s,flow,flowlet,cause,gap_s,demand_bps,demand,owner,replicas,unit,"
      "reason,load,units,units_with_room,units_starting,candidates\n");
}

void DecisionLog::Write(std::string_view text) {
  sink_->Append(std::as_bytes(std::span(text)));
}

void DecisionLog::on_decision(const Decision& decision, const UnitPool& units) {
  Write(Line(decision, units));
}

std::string DecisionLog::Line(const Decision& decision,
                              const UnitPool& units) const {
  std::string line = is_csv_ ? "" : "{";
  const char* separator = "";
  for (const Column& column :
       ColumnsOf(decision.time - start_, key_, decision, units)) {
    line += separator;
    line += is_csv_ ? column.csv
                    : fmt::format("\"{}\":{}", column.name, column.json);
    separator = ",";
  }
  line += is_csv_ ? "\n" : "}\n";
  return line;
}

}  // namespace snf
