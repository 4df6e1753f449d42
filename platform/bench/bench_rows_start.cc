// SPDX-License-Identifier: Apache-2.0
//
// Row 11: how long it takes until a unit is there.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/histogram.h"
#include "platform/bench/bench_rows.h"
#include "platform/bench/fixture_parked_process.h"

namespace snf {
namespace {

using BenchCase = BenchSuite::BenchCase;
using Processes =
    std::shared_ptr<absl::StatusOr<std::unique_ptr<ParkedProcess>>>;

// The median of some starts.
template <typename StartOne>
BenchSuite::Make Starts(const Processes& processes, const StartOne& start) {
  return [processes, start]() -> absl::StatusOr<BenchCase> {
    if (!processes->ok()) return processes->status();
    auto status = std::make_shared<absl::Status>();
    return BenchCase{
        .sample =
            [processes, start, status](uint64_t operations) {
              Histogram times;
              const uint64_t starts = operations / 2'000 + 10;
              for (uint64_t i = 0; i < starts && status->ok(); ++i) {
                const Nanos took = start(***processes);
                if (took == Nanos::max()) {
                  *status = absl::InternalError("a unit did not start");
                } else {
                  times.Record(std::max<int64_t>(took.ns, 1));
                }
              }
              return static_cast<double>(times.Quantile(50'000));
            },
        .check = [status] { return *status; }};
  };
}

}  // namespace

void AddStartRows(int number, BenchSuite& suite, std::vector<BenchRow>& rows) {
  SNF_CHECK(number == 11);
  const auto processes =
      std::make_shared<absl::StatusOr<std::unique_ptr<ParkedProcess>>>(
          ParkedProcess::Start());
  const auto side = [&](const std::string& what, const auto& start) {
    return BenchRow::Side{what,
                          suite.Add("start " + what, Starts(processes, start))};
  };
  rows.push_back(
      {.number = 11,
       .what = "unit start: parked process against fork",
       .of = BenchRow::Of::kInverseRatio,
       .must = {{.limit = 5, .is_least = true}},
       .aim = {{.limit = 5, .is_least = true}},
       .aim_ours = 30'000,
       .ours = side("parked", [](ParkedProcess& of) { return of.Wake(false); }),
       .base = side("forked", [](ParkedProcess& of) { return of.Fork(); }),
       .beside = {side("spinning",
                       [](ParkedProcess& of) { return of.Wake(true); })},
       .notes = {"By the wall clock, medians, until the unit's first packet "
                 "has gone through a NAT. The fork is of a process that has "
                 "loaded no more than that."}});
}

}  // namespace snf
