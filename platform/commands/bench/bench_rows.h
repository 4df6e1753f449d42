// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_BENCH_BENCH_ROWS_H_
#define SNF_PLATFORM_COMMANDS_BENCH_BENCH_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/commands/bench/bench_suite.h"

namespace snf {

// A line of `snf bench`: a budget of the project by its number in
// platform/commands/bench/budgets.md, its measurement, and the baseline of the
// same run.
struct BenchRow {
  // The value that the budget limits.
  enum class Of : uint8_t {
    kRatio,         // ours / base
    kInverseRatio,  // base / ours
    kOurs,          // ours
    kDifference,    // ours - base
    kRate,          // operations a second, in millions
  };
  struct Budget {
    double limit;
    bool is_least = false;  // the limit is the least value, else the most
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
  // For the aim, ours must not exceed this, besides.
  std::optional<double> aim_ours = {};
  std::optional<Side> ours = {};
  std::optional<Side> base = {};
  std::vector<Side> beside = {};  // printed, but not part of the value
  std::vector<std::string> notes = {};
  // Says why the row is not measured; then it has no sides.
  std::string not_measured = {};
};

// The sizes of the rows' traffic; tests make them small to be quick.
struct BenchSizes {
  uint32_t few_flows = 1'000;
  uint32_t flows = 10'000;
  uint32_t many_flows = 200'000;
  uint32_t memory_flows = 1'000'000;
  uint32_t many_units = 10'000;
  uint32_t latency_packets = 4'000;
  uint64_t operations = 200'000;  // of a sample, in most rows
  std::string_view capture = "traces/small.pcap.zst";  // of rows 15, 18
  std::string_view rules = {};  // files of row 15, joined by +; may be empty
};

inline constexpr int kBenchRows = 21;

// Makes the rows from 1 to kBenchRows that are wanted, in order, and adds their
// cases to `suite`. A row that nothing measures says so.
std::vector<BenchRow> MakeBenchRows(const std::vector<bool>& wanted,
                                    const BenchSizes& sizes, BenchSuite& suite);

// Each of these adds the rows of `number` if they are its own. Rows 1 to 5, 8
// to 10, 18 and 19 are about chains, 15 about rules of Snort, 6 and 7 about the
// controller, 11 about starts, 12 about moves, 13 about failures, 14 and 17
// about state, 16 about ports, 20 and 21 about the load balancer.
void AddChainRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                  std::vector<BenchRow>& rows);
void AddControllerRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                       std::vector<BenchRow>& rows);
void AddStateRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                  std::vector<BenchRow>& rows);

void AddLbRow(const BenchSizes& sizes, BenchSuite& suite,
              std::vector<BenchRow>& rows);
void AddConnectionsRow(const BenchSizes& sizes, BenchSuite& suite,
                       std::vector<BenchRow>& rows);
void AddIdsRow(BenchSuite& suite, std::vector<BenchRow>& rows);
void AddIdsCaptureRows(const BenchSizes& sizes, BenchSuite& suite,
                       std::vector<BenchRow>& rows);
void AddStartRows(int number, BenchSuite& suite, std::vector<BenchRow>& rows);
void AddMoveRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                 std::vector<BenchRow>& rows);
void AddRecoveryRows(int number, BenchSuite& suite,
                     std::vector<BenchRow>& rows);
void AddLiveRows(int number, const BenchSizes& sizes, BenchSuite& suite,
                 std::vector<BenchRow>& rows);

// Return the name and the case of parse + lookup
// (base/packet/fixture_parse_lookup.h), which several rows compare with.
std::string ParseLookupName(uint32_t flows);
BenchSuite::BenchCase ParseLookupCase(uint32_t flows);

// Returns the values that the row's budget limits, one a repetition.
std::vector<double> ValuesOf(const BenchRow& row, const BenchSuite& suite);

// The result of holding a row to its budgets.
enum class BenchVerdict : uint8_t {
  kMetAim,
  kMetMust,
  kMissed,
  kNoBudget,
  kNotMeasured,
};
std::string_view ToString(BenchVerdict verdict);
// Compares the median of ValuesOf with the row's budgets.
BenchVerdict VerdictOf(const BenchRow& row, const BenchSuite& suite);

// Returns a count in text: "1 K", "10 K", "3,500".
std::string InThousands(uint64_t count);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_BENCH_BENCH_ROWS_H_
