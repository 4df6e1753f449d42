// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_REPORT_FAULTS_H_
#define SNF_PLATFORM_REPORT_REPORT_FAULTS_H_

#include "base/text/page.h"
#include "platform/run/run.h"

namespace snf {

// Parts of the text report. Each adds nothing for a run that has none of it.

// Adds failures of units, and their losses (--faults).
void AddFaults(const RunResult& result, Page& page);
// Adds failures of loggers. In real time all loggers are one process.
void AddLoggerFaults(const RunResult& result, Page& page);
// Adds failures of controllers, and what their successors found.
void AddControllerFaults(const RunResult& result, Page& page);
// Adds how long recovery from a unit's death would take, by each of three ways
// (--recovery).
void AddRecovery(const RecoveryFigures& recovery, Page& page);
// Adds the leases of units, and the controllers that came and went. Call it
// for a run with several controllers.
void AddLeases(const RunResult& result, bool is_unpaced, Page& page);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_REPORT_FAULTS_H_
