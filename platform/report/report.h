// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_REPORT_H_
#define SNF_PLATFORM_REPORT_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "platform/report/chart.h"
#include "platform/report/explain/explain_story.h"
#include "platform/run/run.h"

namespace snf {

class UnitSeries;

// Surrounds a result: how the run was asked for, and what was noticed.
struct RunInfo {
  struct Flag {
    std::string name;   // without dashes
    std::string value;  // as the command line takes it: "500us", "1Gbps"
    // Whether a proposed command repeats the flag: it was given, and shapes the
    // result. False for defaults and for names of outputs.
    bool repeat = false;
  };

  std::string command = "./snf replay";  // what proposed commands begin with
  std::string version;
  uint64_t seed = 0;
  std::string nf;
  std::string policy;
  std::vector<std::string> files = {};     // as named on the command line
  std::vector<Flag> flags = {};            // all, in the order of --help
  std::vector<std::string> warnings = {};  // of the captures
  double elapsed_s = 0;                    // wall clock
  bool is_interrupted = false;             // before all captures were read
  bool is_unpaced =
      false;  // units have no capacity: they are as fast as can be
  std::vector<FlowStory> stories = {};  // that were asked for
};

// True if nothing is wrong with the run itself: packets add up and the checker
// found no violation. Otherwise the exit code is 1.
bool RunIsSound(const RunResult& result);

// Returns the report for people: problems first, then traffic, packets by the
// rule of conservation as a sum, flows, state, what NFs counted, units,
// latency, a chart, the digest, one sentence on what it means and three
// commands to try next. Lines end with '\n'.
std::string TextReport(const RunOptions& options, const RunResult& result,
                       const RunInfo& info, const Terminal& terminal);

// Returns the report for programs: one JSON object, indented, in UTF-8 (bytes
// of file names that are not UTF-8 are replaced), and '\n'. Its keys, their
// order and meaning are in the table of figures
// (platform/run/figures/figures.h). The objects ports, real, aliases, pools and
// the array explain are left out of runs that have none.
std::string JsonReport(const RunOptions& options, const RunResult& result,
                       const RunInfo& info);

// Returns an array with an object for each key of the report, in order: key
// ("a.b" is the key b of the object a), type, unit, adds_up (how it comes of
// those of several units or runs: "sum" or "max"), metric, help.
std::string JsonSchema();

// Writes into `directory`, which is made if need be, replacing files of these
// names:
//
//   bandwidth.csv  a line per 100 ms: start_s (since the first packet; the
//                  first epoch began before it), offered_bps, drained_bps,
//                  provisioned_bps (empty if units are unpaced), units (mean
//                  in the epoch),
//                  dropped_packets. Epochs in which nothing happened are left
//                  out.
//   latency.csv    quantile (0 … 1), latency_ns
//   wait.csv       quantile (0 … 1), wait_ns: for state, of flowlets that moved
//   figures.csv    figure (its key in the JSON report), value, unit: each that
//                  is a number, but shares of capacity if units are unpaced
//   units.csv, unit_series.csv: of `units` (unit_series.h); else removed
//
// Errors name the path and the reason.
absl::Status WriteCsv(const std::string& directory, const RunOptions& options,
                      const RunResult& result,
                      const UnitSeries* units = nullptr,
                      bool is_unpaced = false);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_REPORT_H_
