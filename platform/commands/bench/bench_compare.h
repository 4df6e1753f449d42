// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_BENCH_COMPARE_H_
#define SNF_PLATFORM_COMMANDS_BENCH_BENCH_COMPARE_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "platform/commands/bench/bench_report.h"

namespace snf {

// An earlier run, read from the JSON that `snf bench --json` wrote.
struct EarlierBench {
  struct Row {
    int number = 0;
    std::string what = {};
    std::string variant = {};
    std::vector<double> values = {};  // one a repetition; none: not measured
  };
  std::string file = {};
  std::string version = {};
  std::string cpu = {};
  uint64_t operations = 0;
  bool is_quick = false;
  std::vector<Row> rows = {};
};

// Errors are InvalidArgument, and begin with the file.
absl::StatusOr<EarlierBench> ReadEarlierBench(const std::string& file);
// The same of a text that was read from the file.
absl::StatusOr<EarlierBench> ParseEarlierBench(const std::string& file,
                                               const std::string& text);

// Returns the chance that two runs of one program differ at least as much: the
// two-sided p of the test of Mann and Whitney (1947), exact. 1 if a run has no
// values.
double ChanceOf(std::span<const double> before, std::span<const double> now);

// Differences that are less likely than this are beyond noise.
inline constexpr double kBenchNoise = 0.01;

// Returns the rows that changed beyond noise, and how many did not, as text of
// 80 columns.
std::string CompareText(const EarlierBench& before, const BenchRun& run,
                        const BenchSuite& suite);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_BENCH_COMPARE_H_
