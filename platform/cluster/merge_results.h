// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CLUSTER_MERGE_RESULTS_H_
#define SNF_PLATFORM_CLUSTER_MERGE_RESULTS_H_

#include <vector>

#include "platform/run/run.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Returns what came of runs of one NF that shared one capture and an ingress:
// counts are summed up. Of units and epochs there is nothing, for the units are
// shared (cluster_meter.h).
RunResult MergeResults(const NetworkFunction& example,
                       std::vector<RunResult> results);

// Returns what a controller did whose run had that result; of leases there is
// nothing.
ControllerFigures FiguresOfController(const RunOptions& options,
                                      const RunResult& result);

}  // namespace snf

#endif  // SNF_PLATFORM_CLUSTER_MERGE_RESULTS_H_
