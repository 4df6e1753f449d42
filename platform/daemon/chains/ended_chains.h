// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_CHAINS_ENDED_CHAINS_H_
#define SNF_PLATFORM_DAEMON_CHAINS_ENDED_CHAINS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "platform/outcome/earlier_chain.h"
#include "platform/run/figures/figures.h"
#include "platform/run/figures/live_figures.h"
#include "platform/run/figures/report_figures.h"
#include "platform/run/run.h"

namespace snf {

// Add the counts of a generation of a chain to figures of several.
void AddCounts(const LiveFigures& more, LiveFigures& figures);
void AddCounts(const RunResult& more, LiveFigures& figures);

// Adds the violations and failures of generations to the result of a run.
void AddViolations(const std::vector<EarlierChain>& chains, RunResult& result);

// Returns the result of a generation in short, with its violations.
EarlierChain InShort(uint32_t number, const std::string& nf,
                     const RunResult& result);

// Theory of operation. The generations of a chain that have ended: each in
// short, with the sums of their figures and latencies. The last kMostTold of
// them are told one by one, and earlier ones as one sum. Owner-thread only.
//
// Worked example: with kMostTold = 2, generations 1, 2, 3 and 4 have ended. The
// list has "all before" with number 2, the sum of 1 and 2, and then 3 and 4.
class EndedChains {
 public:
  static constexpr size_t kMostTold = 64;

  // Adds a generation that has ended.
  void Add(uint32_t number, const std::string& nf, const RunResult& result);
  // As Add, of a generation that failed and restarts: the failure and
  // violations do not count for the run.
  void AddRenewed(uint32_t number, const std::string& nf,
                  const RunResult& result);

  // Returns the generations, in the order in which they ended.
  const std::vector<EarlierChain>& list() const { return list_; }
  // Adds the counts of all.
  void AddFigures(LiveFigures& figures) const;
  const Histogram& latency() const { return latency_; }

 private:
  void Keep(EarlierChain chain, const RunResult& result);

  std::vector<EarlierChain> list_;
  FigureCounts counts_;
  std::vector<DropCount> drops_;
  Histogram latency_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_CHAINS_ENDED_CHAINS_H_
