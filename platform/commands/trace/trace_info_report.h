// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_COMMANDS_TRACE_TRACE_INFO_REPORT_H_
#define SNF_PLATFORM_COMMANDS_TRACE_TRACE_INFO_REPORT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/text/terminal.h"
#include "traces/capture_reader.h"
#include "traces/capture_statistics.h"

namespace snf {

// The data of one capture.
struct CaptureInfo {
  std::string file;
  uint64_t stored_bytes = 0;  // 0: not known (a pipe)
  CaptureFacts facts;
  std::vector<std::string> warnings;
  CaptureStatistics::Options options;
  CaptureFigures figures;
  TrafficSeries series;
};

// Returns "connection" or "5tuple,vlan", as --flow_key takes it.
std::string NameOf(FlowKeyKind kind, bool vlan);

// Returns a sentence on each thing of the capture that is not usable, or only
// in part; none where all is well.
std::vector<std::string> RemarksOn(const CaptureInfo& info);

// Returns the capture as a page of text. This and JsonOf are pure functions.
std::string TextOf(const CaptureInfo& info, const Terminal& terminal);
// Returns all captures as one document of the form {"captures": […]}.
std::string JsonOf(std::span<const CaptureInfo> infos);

}  // namespace snf

#endif  // SNF_PLATFORM_COMMANDS_TRACE_TRACE_INFO_REPORT_H_
