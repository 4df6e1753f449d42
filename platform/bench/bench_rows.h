// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_BENCH_BENCH_ROWS_H_
#define SNF_PLATFORM_BENCH_BENCH_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/bench/bench_suite.h"

namespace snf {

// A line of `snf bench`: a budget of the project by its number in
// platform/bench/budgets.md, what was measured of it, and what it was held
// against in the same run.
struct BenchRow {
  // What the budget is about.
  enum class Of : uint8_t {
    kRatio,         // ours / base
    kInverseRatio,  // base / ours
    kOurs,          // ours
    kRate,          // operations a second, in millions
  };
  struct Budget {
    double limit;
    bool is_least = false;  // else the most
  };
  struct Side {
    std::string what;
    size_t bench_case;
    std::string unit = "ns";
  };

  int number = 0;
  std::string what;
  std::string variant = {};  // "10 K flows"
  Of of = Of::kRatio;
  std::optional<Budget> must = {};
  std::optional<Budget> aim = {};
  std::optional<double> aim_ours = {};  // ours is to be no more, besides
  std::optional<Side> ours = {};
  std::optional<Side> base = {};
  std::vector<Side> beside = {};  // others that are told of
  std::vector<std::string> notes = {};
  std::string not_measured = {};  // why not; then there are no sides
};

// How large the traffic of rows is, so that tests can be quick.
struct BenchSizes {
  uint32_t few_flows = 1'000;
  uint32_t flows = 10'000;
  uint32_t many_flows = 200'000;
  uint32_t memory_flows = 1'000'000;
  uint32_t many_units = 10'000;
  uint32_t latency_packets = 4'000;
  uint64_t operations = 200'000;  // a sample of most
};

// The rows of the numbers from 1 to 17 that are wanted, in order; contestants
// are added. Those that nothing measures yet say so.
std::vector<BenchRow> MakeBenchRows(const std::vector<bool>& wanted,
                                    const BenchSizes& sizes, BenchSuite& suite);
inline constexpr int kBenchRows = 17;

// Each adds the rows of its numbers. Of chains: 1 to 5, 8 and 9; of the
// controller: 6 and 7; of state: 14 and 17.
void AddChainRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                  std::vector<BenchRow>& rows);
void AddControllerRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                       std::vector<BenchRow>& rows);
void AddStateRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                  std::vector<BenchRow>& rows);

// Parse + lookup (base/packet/fixture_parse_lookup.h), a contestant of several
// rows.
std::string ParseLookupName(uint32_t flows);
BenchSuite::BenchCase ParseLookupContestant(uint32_t flows);

// The values that a row's budget is about, one a repetition.
std::vector<double> ValuesOf(const BenchRow& row, const BenchSuite& suite);

enum class BenchVerdict : uint8_t {
  kMetAim,
  kMetMust,
  kMissed,
  kNoBudget,
  kNotMeasured,
};
std::string_view ToString(BenchVerdict verdict);
BenchVerdict VerdictOf(const BenchRow& row, const BenchSuite& suite);

// "1 K", "10 K", "3,500".
std::string InThousands(uint64_t count);

}  // namespace snf

#endif  // SNF_PLATFORM_BENCH_BENCH_ROWS_H_
