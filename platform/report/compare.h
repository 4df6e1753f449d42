// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_COMPARE_H_
#define SNF_PLATFORM_REPORT_COMPARE_H_

#include <span>
#include <string>

#include "platform/report/report.h"

namespace snf {

// One of several runs on the same input that differ in their policy alone.
struct ComparedRun {
  std::string policy;
  RunResult result;
  double elapsed_s = 0;         // wall clock
  bool is_interrupted = false;  // before all captures were read
};

// False if two runs of which every packet can be compared released different
// ones, up to a renaming of external ports (renaming_digest.h): then the exit
// code is 1. They can if no packet was dropped for want of room, no pool was
// exhausted, and I6 was checked of all of them: the NF read no shared table.
bool RunsAgree(std::span<const ComparedRun> runs);

// The runs side by side, a column each, and a sentence on what it means. What
// is as in the first column is "=", other numbers are followed by how far they
// are from it. Of `info`, policy and elapsed_s are not used. At least one run.
//
//                     snf  vanilla_flow        smart_flow
//   Decisions       9,271     573  -94%     1,290  -86%
//   Moved           2,058       0 -100%        81  -96%
//   Latency p50    119 µs  131 µs  +10%    129 µs +8.8%
std::string TextComparison(const RunOptions& options,
                           std::span<const ComparedRun> runs,
                           const RunInfo& info, const Terminal& terminal);

// The JSON report of the first run, with one more key: compare, an array that
// holds for each run, the first one too, the object that JsonReport makes, but
// for the keys flags, files, warnings and version.
std::string JsonComparison(const RunOptions& options,
                           std::span<const ComparedRun> runs,
                           const RunInfo& info);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_COMPARE_H_
