// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/bench_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text/page.h"
#include "base/text_file.h"
#include "nlohmann/json.hpp"

namespace snf {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxFileBytes = 16'000'000;
// The normal distribution takes the place of the exact one for more values.
constexpr size_t kMostExact = 40;

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

// Returns twice the rank of each value among all; `before` comes first.
// Equal values share the mean of their ranks.
std::vector<size_t> DoubledRanks(std::span<const double> before,
                                 std::span<const double> now) {
  std::vector<double> all(before.begin(), before.end());
  all.insert(all.end(), now.begin(), now.end());
  std::vector<double> sorted = all;
  std::ranges::sort(sorted);
  std::vector<size_t> ranks;
  for (const double value : all) {
    const auto [first, last] = std::ranges::equal_range(sorted, value);
    ranks.push_back(static_cast<size_t>(first - sorted.begin()) + 1 +
                    static_cast<size_t>(last - sorted.begin()));
  }
  return ranks;
}

// Returns the share of all ways to choose `count` of the ranks whose sum is at
// least `deviation` from the mean.
double ExactChance(const std::vector<size_t>& ranks, size_t count, double mean,
                   double deviation) {
  size_t most = 0;
  for (const size_t rank : ranks) most += rank;
  // ways[c][s]: how many choices of c ranks have the sum s.
  std::vector<std::vector<double>> ways(count + 1,
                                        std::vector<double>(most + 1));
  ways[0][0] = 1;
  for (const size_t rank : ranks) {
    for (size_t c = count; c > 0; --c) {
      for (size_t s = most; s >= rank; --s) ways[c][s] += ways[c - 1][s - rank];
    }
  }
  double all = 0;
  double far = 0;
  for (size_t s = 0; s <= most; ++s) {
    all += ways[count][s];
    if (std::abs(static_cast<double>(s) - mean) >= deviation) {
      far += ways[count][s];
    }
  }
  return far / all;
}

double NormalChance(const std::vector<size_t>& ranks, size_t count,
                    double deviation) {
  const auto n = static_cast<double>(count);
  const auto all = static_cast<double>(ranks.size());
  double squares = 0;
  for (const size_t rank : ranks) {
    const double off = static_cast<double>(rank) - (all + 1);
    squares += off * off;
  }
  const double variance = n * (all - n) / (all * (all - 1)) * squares;
  return variance == 0 ? 1 : std::erfc(deviation / std::sqrt(2 * variance));
}

// A row that both runs measured.
struct Change {
  const BenchRow* row;
  std::string unit;
  double before;
  double now;
  double chance;

  double ratio() const { return before > 0 ? now / before : 1; }
  bool is_beyond_noise() const {
    return chance <= kBenchNoise && before != now;
  }
  bool is_better() const {
    const bool more_is_better = row->of == BenchRow::Of::kInverseRatio ||
                                row->of == BenchRow::Of::kRate;
    return (now > before) == more_is_better;
  }
  std::string_view verdict() const {
    if (!is_beyond_noise()) return "no change";
    return is_better() ? "better" : "worse";
  }
};

std::vector<Change> ChangesOf(const EarlierBench& before, const BenchRun& run,
                              const BenchSuite& suite) {
  std::vector<Change> changes;
  for (const BenchRow& row : run.rows) {
    const auto earlier =
        std::ranges::find_if(before.rows, [&row](const EarlierBench::Row& one) {
          return one.number == row.number && one.what == row.what &&
                 one.variant == row.variant;
        });
    if (earlier == before.rows.end() || earlier->values.empty() ||
        !row.not_measured.empty()) {
      continue;
    }
    const std::vector<double> now = ValuesOf(row, suite);
    changes.push_back({.row = &row,
                       .unit = std::string(UnitOf(row)),
                       .before = SpreadOf(earlier->values).median,
                       .now = SpreadOf(now).median,
                       .chance = ChanceOf(earlier->values, now)});
  }
  return changes;
}

// Reasons for which the runs cannot be compared row by row.
std::vector<std::string> Doubts(const EarlierBench& before,
                                const BenchRun& run) {
  std::vector<std::string> doubts;
  if (before.cpu != run.machine.cpu) {
    doubts.push_back(fmt::format("another processor: {} before",
                                 before.cpu.empty() ? "unknown" : before.cpu));
  }
  if (before.is_quick != run.is_quick || before.operations != run.operations) {
    doubts.push_back(fmt::format("other sizes: {} operations{} before",
                                 before.operations,
                                 before.is_quick ? " with --quick" : ""));
  }
  return doubts;
}

}  // namespace

double ChanceOf(std::span<const double> before, std::span<const double> now) {
  if (before.empty() || now.empty()) return 1;
  const std::vector<size_t> ranks = DoubledRanks(before, now);
  const size_t count = before.size();
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<double>(ranks[i]);
  const double mean =
      static_cast<double>(count) * static_cast<double>(ranks.size() + 1);
  const double deviation = std::abs(sum - mean);
  return ranks.size() <= kMostExact ? ExactChance(ranks, count, mean, deviation)
                                    : NormalChance(ranks, count, deviation);
}

absl::StatusOr<EarlierBench> ReadEarlierBench(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadTextFile(file, kMaxFileBytes);
  if (!text.ok()) return text.status();
  return ParseEarlierBench(file, *text);
}

absl::StatusOr<EarlierBench> ParseEarlierBench(const std::string& file,
                                               const std::string& text) {
  EarlierBench before = {.file = file};
  try {
    const Json json = Json::parse(text);
    before.version = json.at("version").get<std::string>();
    before.operations = json.at("operations").get<uint64_t>();
    before.is_quick = json.at("quick").get<bool>();
    const Json& cpu = json.at("machine").at("cpu");
    if (cpu.is_string()) before.cpu = cpu.get<std::string>();
    for (const Json& row : json.at("rows")) {
      EarlierBench::Row one = {.number = row.at("row").get<int>(),
                               .what = row.at("what").get<std::string>(),
                               .variant = row.at("variant").get<std::string>()};
      if (row.contains("measured")) {
        one.values = row.at("measured").at("values").get<std::vector<double>>();
      }
      before.rows.push_back(std::move(one));
    }
  } catch (const Json::exception& error) {
    return Bad(
        fmt::format("{}: not what snf bench --json of this version "
                    "writes: {}",
                    file, error.what()));
  }
  return before;
}

std::string CompareText(const EarlierBench& before, const BenchRun& run,
                        const BenchSuite& suite) {
  Page page({.columns = 80});
  page.Blank();
  page.Say("Compared",
           fmt::format("with {} of snf {}: rows that differ more than two runs "
                       "of one program do in one case of 100",
                       before.file, before.version));
  const std::vector<Change> changes = ChangesOf(before, run, suite);
  size_t beyond = 0;
  for (const Change& change : changes) {
    if (!change.is_beyond_noise()) continue;
    ++beyond;
    const BenchRow& row = *change.row;
    page.Wrap(
        fmt::format("{:>2}  ", row.number), 6,
        fmt::format("{}{}{}: {:.3g}{} before, {:.3g}{} now, {:+.1f} %: {}",
                    row.what, row.variant.empty() ? "" : ", ", row.variant,
                    change.before, change.unit, change.now, change.unit,
                    100 * (change.ratio() - 1), change.verdict()));
  }
  page.Wrap("    ", 4,
            fmt::format("{} of {} rows changed beyond noise.", beyond,
                        changes.size()));
  for (const std::string& doubt : Doubts(before, run)) {
    page.Wrap("Warning: ", 9, doubt);
  }
  return page.Take();
}

}  // namespace snf
