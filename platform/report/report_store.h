// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_REPORT_STORE_H_
#define SNF_PLATFORM_REPORT_REPORT_STORE_H_

#include "platform/run/run.h"
#include "platform/text/page.h"

namespace snf {

// Parts of the text report, each left out of runs that do not have it: what an
// external store was asked and how fast it answered (--state=external); what
// the death of a unit would take, by each of three ways (--recovery).
void AddStore(const StoreFigures& store, Page& page);
void AddRecovery(const RecoveryFigures& recovery, Page& page);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_REPORT_STORE_H_
