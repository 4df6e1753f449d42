// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_LOOPS_LOOP_RESULTS_H_
#define SNF_PLATFORM_DRIVERS_LOOPS_LOOP_RESULTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "platform/run/figures/table_totals.h"
#include "platform/run/run.h"
#include "runtime/live/unit_loop.h"

namespace snf {

// What a loop of units tells at its end. A value.
struct LoopResults {
  // No result has more words.
  static constexpr size_t kMostWords = size_t{1} << 22;

  UnitLoopFigures figures;
  uint32_t buffers_in_use = 0;
  // Has an element for each unit of the loop, by id; in it, one by table.
  std::vector<std::vector<TableCopyFigures>> tables;

  // Asks a loop that takes no turns any more; `options` are its own.
  static LoopResults Of(const UnitLoop& loop, const UnitLoopOptions& options);

  // Adds those of the loop's next process, in which all units began anew.
  void Add(const LoopResults& next);

  // As words, for another process of the same program.
  std::vector<uint64_t> ToWords() const;
  // The loop's process is not trusted: errors are InvalidArgument, and so are
  // results of more units, counters or tables than `like`, which is of a loop
  // that ran nothing, has.
  static absl::StatusOr<LoopResults> FromWords(std::span<const uint64_t> words,
                                               const LoopResults& like);
};

// Adds the results of all loops of units, by loop, to the result of their run;
// a loop without figures adds nothing. Returns the figures of tables by unit,
// for AddTables.
std::vector<std::vector<TableCopyFigures>> AddLoops(
    std::span<const LoopResults> loops, uint32_t max_units, RunResult& result);

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_LOOPS_LOOP_RESULTS_H_
