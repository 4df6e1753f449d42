// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_REPORT_NOTES_H_
#define SNF_PLATFORM_REPORT_REPORT_NOTES_H_

#include <string>
#include <vector>

#include "platform/report/report.h"

namespace snf {

// Returns what is to be known of the captures, and of what was assumed about
// them, a sentence each.
std::vector<std::string> NotesOf(const RunOptions& options,
                                 const RunResult& result, const RunInfo& info);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_REPORT_NOTES_H_
