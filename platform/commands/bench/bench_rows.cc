// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/bench/bench_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/quantity.h"

namespace snf {
namespace {

bool IsMet(const BenchRow::Budget& budget, double value) {
  return budget.is_least ? value >= budget.limit : value <= budget.limit;
}

}  // namespace

std::vector<BenchRow> MakeBenchRows(const std::vector<bool>& wanted,
                                    const BenchSizes& sizes,
                                    BenchSuite& suite) {
  std::vector<BenchRow> rows;
  // Its processes are copies of this one, which is small as yet.
  if (wanted[11]) AddStartRows(11, suite, rows);
  for (int number = 1; number <= kBenchRows; ++number) {
    if (!wanted[static_cast<size_t>(number)] || number == 11) continue;
    if (number == 6 || number == 7) {
      AddControllerRows(number, sizes, suite, rows);
    } else if (number <= 10 || number == 18 || number == 19) {
      AddChainRows(number, sizes, suite, rows);
    } else if (number == 12) {
      AddMoveRows(number, sizes, suite, rows);
    } else if (number == 13) {
      AddRecoveryRows(number, suite, rows);
    } else if (number == 14 || number == 17) {
      AddStateRows(number, sizes, suite, rows);
    } else if (number == 15) {
      AddIdsRow(suite, rows);
      if (!sizes.rules.empty()) AddIdsCaptureRows(sizes, suite, rows);
    } else if (number == 20) {
      AddLbRow(sizes, suite, rows);
    } else if (number == 21) {
      AddConnectionsRow(sizes, suite, rows);
    } else {
      AddLiveRows(number, sizes, suite, rows);
    }
  }
  std::ranges::stable_sort(rows, {}, &BenchRow::number);
  for (BenchRow& row : rows) {
    for (const auto& side : {row.ours, row.base}) {
      if (!side.has_value() || !row.not_measured.empty()) continue;
      row.not_measured = std::string(suite.status(side->bench_case).message());
    }
  }
  return rows;
}

std::vector<double> ValuesOf(const BenchRow& row, const BenchSuite& suite) {
  std::vector<double> values = suite.samples(row.ours->bench_case);
  for (size_t i = 0; i < values.size(); ++i) {
    switch (row.of) {
      case BenchRow::Of::kRatio:
        values[i] /= suite.samples(row.base->bench_case)[i];
        break;
      case BenchRow::Of::kInverseRatio:
        values[i] = suite.samples(row.base->bench_case)[i] / values[i];
        break;
      case BenchRow::Of::kOurs:
        break;
      case BenchRow::Of::kDifference:
        values[i] -= suite.samples(row.base->bench_case)[i];
        break;
      case BenchRow::Of::kRate:
        values[i] = 1'000 / values[i];
        break;
    }
  }
  return values;
}

std::string_view ToString(BenchVerdict verdict) {
  switch (verdict) {
    case BenchVerdict::kMetAim:
      return "met aim";
    case BenchVerdict::kMetMust:
      return "met must";
    case BenchVerdict::kMissed:
      return "missed";
    case BenchVerdict::kNoBudget:
      return "no budget";
    case BenchVerdict::kNotMeasured:
      return "not measured";
  }
  SNF_CHECK(false);
}

BenchVerdict VerdictOf(const BenchRow& row, const BenchSuite& suite) {
  if (!row.not_measured.empty()) return BenchVerdict::kNotMeasured;
  if (!row.must.has_value() && !row.aim.has_value()) {
    return BenchVerdict::kNoBudget;
  }
  const double value = SpreadOf(ValuesOf(row, suite)).median;
  const double ours = SpreadOf(suite.samples(row.ours->bench_case)).median;
  const bool is_aim = row.aim.has_value() && IsMet(*row.aim, value) &&
                      ours <= row.aim_ours.value_or(ours);
  if (is_aim) return BenchVerdict::kMetAim;
  if (row.must.has_value() && IsMet(*row.must, value)) {
    return BenchVerdict::kMetMust;
  }
  return BenchVerdict::kMissed;
}

std::string InThousands(uint64_t count) {
  return count > 0 && count % 1'000 == 0 ? fmt::format("{} K", count / 1'000)
                                         : FormatCount(count);
}

}  // namespace snf
