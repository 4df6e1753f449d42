// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_REPORT_TABLES_H_
#define SNF_PLATFORM_REPORT_REPORT_TABLES_H_

#include "absl/status/status.h"
#include "base/text/page.h"
#include "nlohmann/json_fwd.hpp"
#include "platform/run/figures/figures.h"
#include "platform/run/run.h"

namespace snf {

// Adds what reports tell of shared tables and what NFs themselves report;
// nothing if there is none.
void AddTables(const RunResult& result, Page& page);
// Adds the records of NFs' logs; nothing if there are none.
void AddNfLogs(const RunResult& result, Page& page);
// Adds what came and left by the ports of live traffic; nothing if there are
// none.
void AddPorts(const RunResult& result, Page& page);
// Returns tables and reports as objects, by the names of tables and of what is
// reported.
nlohmann::ordered_json JsonOfTables(const RunResult& result);
nlohmann::ordered_json JsonOfNfReports(const RunResult& result);

// Returns true for a share of the capacity of units, which has no value if they
// have none (RunInfo::is_unpaced).
bool IsOfCapacity(const Figure& figure);

// Writes the files of NfReport, then sends its exports. Errors name the path or
// the collector, and the reason.
absl::Status WriteNfFiles(const RunResult& result);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_REPORT_TABLES_H_
