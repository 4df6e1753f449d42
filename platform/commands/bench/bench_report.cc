// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/quantity.h"
#include "base/text/page.h"
#include "nlohmann/json.hpp"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

// Three significant digits, at the least the whole number: 6.24, 62.4, 6,240.
std::string Digits(double value) {
  if (value >= 99.95) {
    return FormatCount(static_cast<uint64_t>(std::llround(value)));
  }
  return fmt::format("{:.{}f}", value, value >= 9.995 ? 1 : 2);
}

// 2.5, 250, 5,000.
std::string Limit(double limit) {
  return limit < 1'000 ? fmt::format("{:g}", limit)
                       : FormatCount(static_cast<uint64_t>(limit));
}

std::string BudgetText(const BenchRow& row,
                       const std::optional<BenchRow::Budget>& budget) {
  if (!budget.has_value()) return "";
  return fmt::format("{} {}{}", budget->is_least ? "≥" : "≤",
                     Limit(budget->limit), UnitOf(row));
}

std::string SpreadText(const Spread& spread, std::string_view unit) {
  return fmt::format("{}{} ({}–{})", Digits(spread.median), unit,
                     Digits(spread.lowest), Digits(spread.highest));
}

std::string SideText(const BenchRow::Side& side, const BenchSuite& suite) {
  return fmt::format(
      "{} {}", side.what,
      SpreadText(SpreadOf(suite.samples(side.bench_case)), " " + side.unit));
}

// Pads the text on its right to `columns`, with at least one blank.
std::string Padded(const std::string& text, size_t columns) {
  const size_t used = ColumnsOf(text);
  return text + std::string(used < columns ? columns - used : 1, ' ');
}

bool CrossesLimit(const BenchRow& row, const Spread& spread) {
  const auto crosses = [&](const std::optional<BenchRow::Budget>& budget) {
    return budget.has_value() && spread.lowest <= budget->limit &&
           budget->limit < spread.highest;
  };
  return crosses(row.must) || crosses(row.aim);
}

std::vector<std::string> NotesOf(const BenchRow& row, const BenchSuite& suite) {
  std::vector<std::string> notes = row.notes;
  if (row.aim_ours.has_value()) {
    notes.push_back(fmt::format("The aim is also {} of at most {:g} ns.",
                                row.ours->what, *row.aim_ours));
  }
  if (CrossesLimit(row, SpreadOf(ValuesOf(row, suite)))) {
    notes.push_back("Some repetitions are within the limit, some are not.");
  }
  return notes;
}

void AddRow(const BenchRow& row, const BenchSuite& suite, Page& page) {
  const std::string verdict(ToString(VerdictOf(row, suite)));
  std::string measured;
  if (row.not_measured.empty()) {
    measured = SpreadText(SpreadOf(ValuesOf(row, suite)), UnitOf(row));
  }
  const std::string what =
      row.variant.empty() ? row.what : row.what + ", " + row.variant;
  page.Raw(fmt::format("{:>2}  {}\n", row.number, what));
  page.Raw("      " + Padded(BudgetText(row, row.must), 10) +
           Padded(BudgetText(row, row.aim), 10) + Padded(measured, 32) +
           verdict + "\n");
  if (!row.not_measured.empty()) {
    page.Wrap("      ", 6, row.not_measured + ".");
    return;
  }
  std::string sides =
      SideText(*row.ours, suite) + " against " + SideText(*row.base, suite);
  for (const BenchRow::Side& side : row.beside) {
    sides += "; " + SideText(side, suite);
  }
  page.Wrap("      ", 6, sides + ".");
  for (const std::string& note : NotesOf(row, suite)) {
    page.Wrap("      ", 6, note);
  }
}

void AddMachine(const BenchRun& run, Page& page) {
  const MachineFacts& machine = run.machine;
  const auto or_unknown = [](const std::string& text) {
    return text.empty() ? "unknown" : text;
  };
  std::string caches;
  for (const MachineFacts::Cache& cache : machine.caches) {
    caches += (caches.empty() ? "" : ", ") + cache.name + " " + cache.size;
  }
  page.Say("Machine",
           fmt::format("{}, {} CPUs at {:.2f} GHz{}; caches {}; {}; governor "
                       "{}; load {:.1f} before, {:.1f} after",
                       or_unknown(machine.cpu), machine.cpus,
                       static_cast<double>(machine.clock_hz) / 1e9,
                       machine.hypervisor.empty() ? "" : ", virtual",
                       or_unknown(caches), or_unknown(machine.kernel),
                       or_unknown(machine.governor), run.load_before,
                       run.load_after));
  page.Say(
      "Figures",
      fmt::format(
          "medians of {} interleaved repetitions of {} operations, with the "
          "least and the greatest; CPU time unless stated otherwise; snf {}",
          run.repetitions, FormatCount(run.operations), run.version));
}

Json SpreadJson(const Spread& spread) {
  return {{"median", spread.median},
          {"min", spread.lowest},
          {"max", spread.highest}};
}

Json SideJson(const BenchRow::Side& side, const BenchSuite& suite) {
  const std::vector<double>& samples = suite.samples(side.bench_case);
  Json json = {{"what", side.what}, {"unit", side.unit}};
  json.update(SpreadJson(SpreadOf(samples)));
  json["samples"] = samples;
  return json;
}

Json BudgetJson(const std::optional<BenchRow::Budget>& budget) {
  if (!budget.has_value()) return nullptr;
  Json json = Json::object();
  json[budget->is_least ? "at_least" : "at_most"] = budget->limit;
  return json;
}

Json RowJson(const BenchRow& row, const BenchSuite& suite) {
  Json json = {{"row", row.number},
               {"what", row.what},
               {"variant", row.variant},
               {"must", BudgetJson(row.must)},
               {"aim", BudgetJson(row.aim)},
               {"verdict", ToString(VerdictOf(row, suite))}};
  if (!row.not_measured.empty()) {
    json["not_measured"] = row.not_measured;
    return json;
  }
  const std::vector<double> values = ValuesOf(row, suite);
  json["measured"] = SpreadJson(SpreadOf(values));
  json["measured"]["values"] = values;
  const bool is_ratio =
      row.of == BenchRow::Of::kRatio || row.of == BenchRow::Of::kInverseRatio;
  json["unit"] = is_ratio ? "ratio" : std::string(UnitOf(row).substr(1));
  json["ours"] = SideJson(*row.ours, suite);
  json["base"] = SideJson(*row.base, suite);
  Json& beside = json["beside"] = Json::array();
  for (const BenchRow::Side& side : row.beside) {
    beside.push_back(SideJson(side, suite));
  }
  json["notes"] = NotesOf(row, suite);
  return json;
}

Json MachineJson(const BenchRun& run) {
  const MachineFacts& machine = run.machine;
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json caches = Json::object();
  for (const MachineFacts::Cache& cache : machine.caches) {
    caches[cache.name] = cache.size;
  }
  return {{"cpu", or_null(machine.cpu)},
          {"cpus", machine.cpus},
          {"clock_hz", machine.clock_hz},
          {"caches", caches},
          {"kernel", or_null(machine.kernel)},
          {"governor", or_null(machine.governor)},
          {"virtual", !machine.hypervisor.empty()},
          {"load_before", run.load_before},
          {"load_after", run.load_after}};
}

}  // namespace

std::string_view UnitOf(const BenchRow& row) {
  switch (row.of) {
    case BenchRow::Of::kRatio:
    case BenchRow::Of::kInverseRatio:
      return "×";
    case BenchRow::Of::kOurs:
    case BenchRow::Of::kDifference:
      return row.ours.has_value() && row.ours->unit == "B" ? " B" : " ns";
    case BenchRow::Of::kRate:
      return " M/s";
  }
  return "";
}

std::vector<std::string> BenchWarnings(const BenchRun& run) {
  std::vector<std::string> warnings;
  const double load = std::max(run.load_before, run.load_after);
  if (load > run.machine.cpus) {
    warnings.push_back(fmt::format(
        "the machine was busy: a load of {:.1f} on {} CPUs; CPU times are too "
        "high, and latencies mean nothing",
        load, run.machine.cpus));
  }
  if (run.machine.cpus < 2) {
    warnings.push_back("one CPU: two threads cannot spin at one time (row 9)");
  }
  if (run.is_quick) {
    warnings.push_back("--quick: too few packets for reliable figures");
  }
#ifndef NDEBUG
  warnings.push_back("not built for release: the figures mean nothing");
#endif
  return warnings;
}

std::string BenchText(const BenchRun& run, const BenchSuite& suite) {
  Page page({.columns = 80});
  AddMachine(run, page);
  page.Blank();
  page.Raw(" #  what\n      must      aim       measured" +
           std::string(24, ' ') + "verdict\n");
  for (const BenchRow& row : run.rows) AddRow(row, suite, page);
  const auto warnings = BenchWarnings(run);
  if (!warnings.empty()) page.Blank();
  for (const std::string& warning : warnings) {
    page.Wrap("Warning: ", 9, warning);
  }
  return page.Take();
}

std::string BenchJson(const BenchRun& run, const BenchSuite& suite) {
  Json json = {
      {"version", run.version},         {"machine", MachineJson(run)},
      {"repetitions", run.repetitions}, {"operations", run.operations},
      {"quick", run.is_quick},          {"warnings", BenchWarnings(run)}};
  Json& rows = json["rows"] = Json::array();
  for (const BenchRow& row : run.rows) rows.push_back(RowJson(row, suite));
  return json.dump(2) + "\n";
}

}  // namespace snf
