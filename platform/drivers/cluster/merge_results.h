// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_CLUSTER_MERGE_RESULTS_H_
#define SNF_PLATFORM_DRIVERS_CLUSTER_MERGE_RESULTS_H_

#include <vector>

#include "platform/run/run.h"
#include "runtime/sdk/nf.h"

namespace snf {

// Returns the result of runs of one NF that shared one capture and an ingress:
// figures are added up (AddUpFigures). Units and epochs are left out, since
// runs may share units: the caller measures these (cluster_meter.h). So are the
// homes of shared tables, and the NFs' reports, which read these homes
// (AddClusterTables).
RunResult MergeResults(const NetworkFunction& example,
                       std::vector<RunResult> results);

// Adds figures of units and epochs to `sum`, which MergeResults returned, where
// each run had units of its own, and all runs began at one time by one clock.
// units_max is the sum of the runs' maxima. Where samples were forgotten, the
// busiest of these epochs is that of a single run.
void AddOwnUnits(const std::vector<RunResult>& results, RunResult& sum);

// Adds the samples of epochs alone, where runs share units.
void AddEpochs(const std::vector<RunResult>& results, RunResult& sum);

// Returns the figures of a controller from the result of its run, without those
// of leases.
ControllerFigures FiguresOfController(const RunOptions& options,
                                      const RunResult& result);

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_CLUSTER_MERGE_RESULTS_H_
