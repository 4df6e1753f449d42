// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_BENCH_REPORT_H_
#define SNF_PLATFORM_COMMANDS_BENCH_BENCH_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "platform/commands/bench/bench_machine.h"
#include "platform/commands/bench/bench_rows.h"
#include "platform/commands/bench/bench_suite.h"

namespace snf {

// A run of `snf bench`, with the facts that its figures depend on.
struct BenchRun {
  MachineFacts machine;
  double load_before = -1;  // LoadAverage() before the run and after it
  double load_after = -1;
  uint32_t repetitions = 0;
  uint64_t operations = 0;  // of a sample
  bool is_quick = false;
  std::string version = {};
  std::vector<BenchRow> rows = {};
};

// Returns the reasons to doubt the figures, one line each.
std::vector<std::string> BenchWarnings(const BenchRun& run);

// Returns the unit of the row's values: " ns", " B", " M/s" or "×".
std::string_view UnitOf(const BenchRow& row);

// Return every row of the run, as UTF-8 text of 80 columns and as JSON.
std::string BenchText(const BenchRun& run, const BenchSuite& suite);
std::string BenchJson(const BenchRun& run, const BenchSuite& suite);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_BENCH_REPORT_H_
