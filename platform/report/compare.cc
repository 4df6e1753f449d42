// SPDX-License-Identifier: Apache-2.0
#include "platform/report/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "base/text/page.h"
#include "base/text/wording.h"
#include "fmt/format.h"
#include "platform/report/report_advice.h"
#include "platform/run/figures/report_figures.h"

namespace snf {
namespace {

constexpr size_t kLabelColumns = 14;
constexpr size_t kDifferenceColumns = 6;  // " +123%"

// A figure of a run: as text, and what differences are taken of.
struct Cell {
  std::string text;
  double number = 0;
  bool has_difference = false;
};

struct Row {
  std::string_view label;
  std::vector<Cell> cells;  // by run
};

Cell Of(std::string text, double number) {
  return {.text = std::move(text), .number = number, .has_difference = true};
}

Cell Count(uint64_t n) { return Of(FormatCount(n), static_cast<double>(n)); }

// Differences of percentages would be taken for percentages.
Cell Share(double part, double whole) {
  if (whole <= 0) return {.text = "-"};
  return {.text = Percent(part / whole)};
}

Cell Time(const Histogram& times, uint32_t per_100000) {
  if (times.count() == 0) return {.text = "-"};
  const int64_t ns = times.Quantile(per_100000);
  return Of(FormatDuration(Nanos{ns}), static_cast<double>(ns));
}

std::vector<Row> Table(const RunOptions& options,
                       std::span<const ComparedRun> runs) {
  std::vector<Row> rows;
  const auto add = [&](std::string_view label,
                       const std::function<Cell(const RunResult&)>& figure) {
    Row& row = rows.emplace_back(Row{.label = label, .cells = {}});
    for (const ComparedRun& run : runs) row.cells.push_back(figure(run.result));
  };
  using R = const RunResult&;
  add("Flows", [](R r) { return Count(r.controller.flows); });
  add("Flowlets", [](R r) { return Count(r.controller.flowlets); });
  add("Decisions", [](R r) { return Count(r.controller.decisions); });
  add("Moved", [](R r) { return Count(r.controller.flowlets_moved); });
  add("  seamless", [](R r) {
    return Share(static_cast<double>(r.state.seamless),
                 static_cast<double>(r.controller.flowlets_moved));
  });
  add("Units, most", [](R r) { return Count(r.units_max); });
  add("  on average", [](R r) {
    const double mean = static_cast<double>(r.units_mean_1000) / 1000;
    return Of(fmt::format("{:.2f}", mean), mean);
  });
  add("Utilisation", [&options](R r) {
    const bool is_known = r.units_max > 0 && UnitsAreMeasured(r);
    return Share(FiguresOf(options, r).capacity_used, is_known ? 1 : 0);
  });
  add("Overcommitted", [](R r) { return Count(r.controller.overcommitted); });
  add("Dropped", [](R r) { return Count(r.packets_dropped()); });
  add("Latency p50", [](R r) { return Time(r.latency_ns, 50'000); });
  add("        p90", [](R r) { return Time(r.latency_ns, 90'000); });
  add("        p99", [](R r) { return Time(r.latency_ns, 99'000); });
  add("        p99.9", [](R r) { return Time(r.latency_ns, 99'900); });
  add("        max", [](R r) { return Time(r.latency_ns, 100'000); });
  add("Wait    p99", [](R r) { return Time(r.state.wait_ns, 99'000); });
  add("State sent", [](R r) {
    return Of(FormatBytes(static_cast<int64_t>(r.state.bytes)),
              static_cast<double>(r.state.bytes));
  });
  return rows;
}

// "+12%", "-3.1%", "x12"; "" where there is nothing to hold it against.
std::string Difference(const Cell& cell, const Cell& first) {
  if (!cell.has_difference || !first.has_difference || first.number <= 0) {
    return "";
  }
  const double ratio = cell.number / first.number;
  if (ratio >= 9.995) return fmt::format("x{:.0f}", std::min(ratio, 9'999.0));
  const double percent = (ratio - 1) * 100;
  return std::abs(percent) < 9.95 ? fmt::format("{:+.1f}%", percent)
                                  : fmt::format("{:+.0f}%", percent);
}

void AddTable(const std::vector<Row>& rows, std::span<const ComparedRun> runs,
              Page& page) {
  size_t value = 7;
  for (const Row& row : rows) {
    for (const Cell& cell : row.cells) {
      value = std::max(value, ColumnsOf(cell.text));
    }
  }
  // Columns as far apart as there is room; without differences if need be.
  size_t difference = kDifferenceColumns;
  const auto fits = [&](size_t gap) {
    return kLabelColumns + gap + value +
               (runs.size() - 1) * (gap + value + difference) <=
           page.columns();
  };
  size_t gap = 3;
  while (gap > 1 && !fits(gap)) --gap;
  if (!fits(gap)) difference = 0;

  std::string line(kLabelColumns, ' ');
  for (size_t i = 0; i < runs.size(); ++i) {
    const size_t columns = gap + value + (i == 0 ? 0 : difference);
    line += fmt::format("{:>{}}", runs[i].policy, columns);
  }
  page.Heading(line);
  for (const Row& row : rows) {
    line = fmt::format("{:<{}}", row.label, kLabelColumns);
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const Cell& cell = row.cells[i];
      const bool same = i > 0 && cell.text == row.cells[0].text;
      line += fmt::format("{:>{}}", same ? "=" : cell.text, gap + value);
      if (i > 0 && difference > 0) {
        line += fmt::format(
            "{:>{}}", same ? "" : Difference(cell, row.cells[0]), difference);
      }
    }
    line.resize(line.find_last_not_of(' ') + 1);
    page.Raw(line + "\n");
  }
}

bool HasDrops(const ComparedRun& run) {
  return std::ranges::any_of(run.result.dropped,
                             [](uint64_t n) { return n > 0; });
}

// Whether the same input must give the same digest under each policy, up to a
// renaming of external ports. Who finds a pool exhausted depends on who asked
// before.
bool IsComparable(const ComparedRun& run) {
  const RunResult& result = run.result;
  return !HasDrops(run) && result.controller.pieces.requests_refused == 0 &&
         result.i6_compared > 0 && result.i6_not_compared == 0;
}

void AddProblems(std::span<const ComparedRun> runs, Page& page) {
  for (const ComparedRun& run : runs) {
    if (RunIsSound(run.result)) continue;
    page.Alarm(
        fmt::format("PROBLEM: the figures of {0} cannot be trusted; "
                    "--policy={0} tells why.",
                    run.policy));
  }
  if (!RunsAgree(runs)) {
    page.Alarm(
        "PROBLEM: not the same packets were released under each policy: see "
        "Digest.");
  }
}

// The runs with the least and the most of something; of equals the first.
struct Extremes {
  const ComparedRun* least = nullptr;
  const ComparedRun* most = nullptr;
  bool differ = false;
};

Extremes ExtremesOf(std::span<const ComparedRun> runs,
                    const std::function<int64_t(const RunResult&)>& figure) {
  const auto of = [&figure](const ComparedRun& run) {
    return figure(run.result);
  };
  Extremes extremes = {.least = &*std::ranges::min_element(runs, {}, of),
                       .most = &*std::ranges::max_element(runs, {}, of)};
  extremes.differ = of(*extremes.least) != of(*extremes.most);
  return extremes;
}

std::string MeaningOf(std::span<const ComparedRun> runs) {
  const RunResult& any = runs.front().result;
  if (any.packets_in == 0) return "There was no packet to replay.";
  if (any.controller.flows == 0) {
    return "No packet has a readable IP header, so there was nothing to place.";
  }
  const auto mean = [](const ComparedRun& run) {
    return fmt::format("{:.2f}",
                       static_cast<double>(run.result.units_mean_1000) / 1000);
  };
  const auto p99 = [](const ComparedRun& run) {
    return FormatDuration(Nanos{run.result.latency_ns.Quantile(99'000)});
  };
  std::string text;
  const Extremes units = ExtremesOf(
      runs, [](const RunResult& result) { return result.units_mean_1000; });
  if (units.differ) {
    text = fmt::format(
        "{} ran on the fewest units ({} on average), {} on the most ({})",
        units.least->policy, mean(*units.least), units.most->policy,
        mean(*units.most));
  } else {
    text = fmt::format("All ran on {} units on average", mean(*units.least));
  }
  const Extremes latency = ExtremesOf(runs, [](const RunResult& result) {
    return result.latency_ns.Quantile(99'000);
  });
  if (latency.differ) {
    text += fmt::format(
        "; 99 of 100 packets left soonest under {} (within {}), latest under "
        "{} ({})",
        latency.least->policy, p99(*latency.least), latency.most->policy,
        p99(*latency.most));
  } else {
    text += fmt::format("; 99 of 100 packets left within {} under each",
                        p99(*latency.least));
  }
  const Extremes drops = ExtremesOf(runs, [](const RunResult& result) {
    return static_cast<int64_t>(result.packets_dropped());
  });
  if (drops.differ) {
    text += fmt::format(
        "; {} dropped the fewest packets ({}), {} the most ({})",
        drops.least->policy, FormatCount(drops.least->result.packets_dropped()),
        drops.most->policy, FormatCount(drops.most->result.packets_dropped()));
  }
  return text + ".";
}

std::string DigestOf(std::span<const ComparedRun> runs, uint64_t seed) {
  const RunResult& first = runs.front().result;
  const auto is_same = [&](uint64_t RunResult::*digest) {
    return std::ranges::all_of(runs, [&](const ComparedRun& run) {
      return run.result.*digest == first.*digest;
    });
  };
  if (is_same(&RunResult::digest)) {
    return fmt::format(
        "{:016x} of all that was released, the same under each, seed {}",
        first.digest, seed);
  }
  if (is_same(&RunResult::digest_up_to_renaming)) {
    return fmt::format(
        "{:016x} of all that was released, up to which external ports were "
        "given, the same under each, seed {}",
        first.digest_up_to_renaming, seed);
  }
  if (!RunsAgree(runs)) {
    std::string text = "differs, though no packet was dropped:";
    for (const ComparedRun& run : runs) {
      text += fmt::format(" {} {:016x}", run.policy,
                          run.result.digest_up_to_renaming);
    }
    return text;
  }
  const auto lacked_pieces = [](const ComparedRun& run) {
    return run.result.controller.pieces.requests_refused > 0;
  };
  const char* why = std::ranges::any_of(runs, HasDrops) ? "packets were dropped"
                    : std::ranges::any_of(runs, lacked_pieces)
                        ? "a pool was exhausted"
                        : "not all packets were checked";
  return fmt::format("differs; {}, so it cannot be compared", why);
}

}  // namespace

bool RunsAgree(std::span<const ComparedRun> runs) {
  const ComparedRun* first = nullptr;
  for (const ComparedRun& run : runs) {
    if (!IsComparable(run)) continue;
    if (first == nullptr) first = &run;
    if (run.result.digest_up_to_renaming !=
        first->result.digest_up_to_renaming) {
      return false;
    }
  }
  return true;
}

std::string TextComparison(const RunOptions& options,
                           std::span<const ComparedRun> runs,
                           const RunInfo& info, const Terminal& terminal) {
  Page page(terminal);
  AddProblems(runs, page);
  page.Heading(fmt::format("{}: {} under {} policies", FileList(info.files),
                           Printable(info.nf), runs.size()));
  page.Blank();
  AddTable(Table(options, runs), runs, page);
  if (!info.warnings.empty()) {
    page.Blank();
    page.Heading("Notes");
    for (const std::string& warning : info.warnings) {
      page.Item(Printable(warning));
    }
  }
  page.Blank();
  page.Say("Digest", DigestOf(runs, info.seed));
  double elapsed_s = 0;
  for (const ComparedRun& run : runs) elapsed_s += run.elapsed_s;
  if (elapsed_s > 0) {
    page.Say("Took", fmt::format("{:.2f} s, snf {}", elapsed_s, info.version));
  }
  page.Blank();
  page.Heading("What it means");
  page.Prose(MeaningOf(runs));
  return page.Take();
}

}  // namespace snf
