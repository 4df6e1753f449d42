// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_COMPOSE_REPORT_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_COMPOSE_REPORT_H_

#include <string>
#include <vector>

#include "traces/synthesis/flowlet_figures.h"
#include "traces/synthesis/overlay.h"
#include "traces/synthesis/overlay_tally.h"
#include "traces/synthesis/source_captures.h"

namespace snf {

// Data of the report of `snf trace compose`: the result, and its sources.
struct ComposeReport {
  const std::string& out;
  const SourceCaptures& sources;
  const std::vector<std::string>& left_out;  // captures that are no source
  const Overlay::Options& options;
  const OverlayTally& tally;
};
std::string TextOf(const ComposeReport& report);
std::string JsonOf(const ComposeReport& report);

// FlowletTable returns the lines of a table of flowlets per flow, with a column
// for each of kFlowletGaps.
struct FlowletRow {
  std::string name;
  FlowletFigures figures;
};
std::string FlowletTable(const std::vector<FlowletRow>& rows);

// Counts the flowlets per flow of each file's conversations, with its times
// divided by the factor that brings the file to this rate, if the factor is
// above 1.
FlowletFigures SqueezedFigures(const SourceCaptures& sources, int64_t rate_bps,
                               const std::vector<double>& weights);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_COMPOSE_REPORT_H_
