// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/recovery/drill_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/quantity.h"
#include "base/rng.h"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;
using MakeWay = std::function<std::unique_ptr<RecoveryWay>(uint32_t)>;

// Returns the CPU time of a packet.
double TimeOf(const LoadedCapture& capture, RecoveryDrill& drill) {
  const Nanos begin = CpuTimeOfThread();
  for (size_t i = 0; i < capture.size(); ++i) drill.Take(capture.Packet(i, 0));
  return static_cast<double>(CpuTimeOfThread().ns - begin.ns) /
         static_cast<double>(capture.size());
}

void Count(const Death& death, WayFigures& figures) {
  const Recovered& recovered = death.recovered;
  const Heir::Figures& heir = recovered.heir->figures();
  ++figures.deaths;
  figures.records += death.records;
  figures.records_wrong += death.records_wrong;
  figures.records_anew += death.records_anew;
  figures.pieces_wrong += death.pieces_differ ? 1 : 0;
  figures.outputs_suppressed += heir.suppressed;
  figures.outputs_released += heir.released;
  figures.outputs_differ += heir.outputs_differ;
  figures.executed.Record(recovered.executed.ns);
  figures.recovery.Record(recovered.network.ns + recovered.executed.ns);
  figures.at_pace.Record(recovered.network.ns + recovered.service.ns);
  figures.packets.Record(static_cast<int64_t>(heir.packets));
  figures.bytes.Record(static_cast<int64_t>(recovered.bytes));
}

DrillTotals RunDeaths(const LoadedCapture& capture,
                      const std::vector<Instant>& deaths, RecoveryDrill& drill,
                      WayFigures& figures) {
  size_t next = 0;
  for (size_t i = 0; i < capture.size(); ++i) {
    const CapturedPacket packet = capture.Packet(i, 0);
    for (; next < deaths.size() && deaths[next] < packet.time && i > 0;
         ++next) {
      Count(drill.Die(deaths[next]), figures);
    }
    drill.Take(packet);
  }
  for (; next < deaths.size(); ++next) Count(drill.Die(deaths[next]), figures);
  return drill.totals();
}

Json QuantilesOf(const Histogram& values) {
  return {{"mean", values.mean()},
          {"p50", values.Quantile(50'000)},
          {"p99", values.Quantile(99'000)},
          {"max", values.max()}};
}

std::string DurationAt(const Histogram& times, uint32_t per_100000) {
  return FormatDuration(Nanos{times.Quantile(per_100000)});
}

// Returns the difference of two times, which may be below 0.
std::string CostOf(double ns) {
  if (ns < 10'000) return fmt::format("{:.0f} ns", ns);
  return FormatDuration(Nanos{static_cast<int64_t>(ns)});
}

}  // namespace

std::vector<Instant> DrawDeaths(const LoadedCapture& capture,
                                const DrillOptions& options) {
  Rng rng(options.seed);
  Instant first = capture.Packet(0, 0).time;
  Instant last = first;
  for (size_t i = 0; i < capture.size(); ++i) {
    last = std::max(last, capture.Packet(i, 0).time);
  }
  std::vector<Instant> deaths(options.deaths);
  for (Instant& death : deaths) {
    death =
        first + Nanos{rng.Uniform(0, std::max((last - first).ns, int64_t{0}))};
  }
  std::ranges::sort(deaths);
  return deaths;
}

DrillResult RunDrills(const NfSpec& nf, const LoadedCapture& capture,
                      const DrillOptions& options) {
  const RunOptions& run = options.run;
  DrillResult result;
  result.record_bytes = nf.create()->schema().record_bytes();
  result.first = capture.Packet(0, 0).time;
  result.last = capture.Packet(capture.size() - 1, 0).time;
  const uint32_t most = run.controller.max_flows;
  for (uint32_t i = 0; i < options.timed + 1; ++i) {
    RecoveryDrill bare(nf, run, most, nullptr);
    const double cpu_ns = TimeOf(capture, bare);
    result.totals = bare.totals();
    if (i == 0) continue;  // memory was cold
    result.bare_cpu_ns = i == 1 ? cpu_ns : std::min(result.bare_cpu_ns, cpu_ns);
  }
  // A copy of a unit is as large as the unit may become.
  const uint32_t flows = std::min(most, result.totals.flows_max * 5 / 4 + 64);
  const std::vector<Instant> deaths = DrawDeaths(capture, options);
  const std::vector<MakeWay> ways = {
      [&](uint32_t n) { return MakeLoggerWay(nf, run, n); },
      [&](uint32_t) { return MakeCheckpointWay(nf, run); },
      [&](uint32_t n) { return MakeDatastoreWay(nf, run, n); }};
  for (const MakeWay& make : ways) {
    WayFigures& figures = result.ways.emplace_back();
    for (uint32_t i = 0; i < options.timed; ++i) {
      const auto way = make(flows);
      RecoveryDrill drill(nf, run, flows, way.get());
      const double cpu_ns = TimeOf(capture, drill);
      figures.cpu_ns = i == 0 ? cpu_ns : std::min(figures.cpu_ns, cpu_ns);
    }
    figures.path_ns = figures.cpu_ns - result.bare_cpu_ns;
    const auto way = make(flows);
    figures.name = way->name();
    RecoveryDrill drill(nf, run, flows, way.get(), true);
    result.totals = RunDeaths(capture, deaths, drill, figures);
  }
  return result;
}

std::string JsonOf(const DrillResult& result,
                   std::span<const std::pair<std::string, std::string>> flags) {
  const DrillTotals& totals = result.totals;
  Json json = {{"packets_in", totals.packets_in},
               {"flows_max", totals.flows_max},
               {"record_bytes", result.record_bytes},
               {"cpu_ns_a_packet", result.bare_cpu_ns}};
  for (const WayFigures& way : result.ways) {
    json["ways"][std::string(way.name)] = {
        {"deaths", way.deaths},
        {"records", way.records},
        {"records_wrong", way.records_wrong},
        {"records_anew", way.records_anew},
        {"pieces_wrong", way.pieces_wrong},
        {"outputs_suppressed", way.outputs_suppressed},
        {"outputs_differ", way.outputs_differ},
        {"outputs_released", way.outputs_released},
        {"recovery_ns", QuantilesOf(way.recovery)},
        {"executed_ns", QuantilesOf(way.executed)},
        {"at_pace_ns", QuantilesOf(way.at_pace)},
        {"packets_replayed", QuantilesOf(way.packets)},
        {"bytes_moved", QuantilesOf(way.bytes)},
        {"path_cpu_ns", way.path_ns}};
  }
  for (const auto& [flag, value] : flags) json["flags"][flag] = value;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string TextOf(const DrillResult& result, const DrillOptions& options) {
  const DrillTotals& totals = result.totals;
  std::string text = fmt::format(
      "{} packets of {} flows at once, {}; {} deaths, seed {}\n\n"
      "{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}\n"
      "{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}\n",
      totals.packets_in, totals.flows_max,
      FormatDuration(result.last - result.first), options.deaths, options.seed,
      "", "recovery", "", "executed", "at pace", "run again", "on path",
      "records", "", "p50", "p99", "p50", "p50", "p50", "a packet", "wrong");
  for (const WayFigures& way : result.ways) {
    text += fmt::format(
        "{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}\n", way.name,
        DurationAt(way.recovery, 50'000), DurationAt(way.recovery, 99'000),
        DurationAt(way.executed, 50'000), DurationAt(way.at_pace, 50'000),
        way.packets.Quantile(50'000), CostOf(way.path_ns),
        fmt::format("{}/{}", way.records_wrong, way.records));
  }
  return text;
}

}  // namespace snf
