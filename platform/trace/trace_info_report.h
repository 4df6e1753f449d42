// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TRACE_TRACE_INFO_REPORT_H_
#define SNF_PLATFORM_TRACE_TRACE_INFO_REPORT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/text/text_style.h"
#include "traces/capture_reader.h"
#include "traces/capture_statistics.h"

namespace snf {

// What is known of one capture.
struct CaptureInfo {
  std::string file;
  uint64_t stored_bytes = 0;  // 0: not known (a pipe)
  CaptureFacts facts;
  std::vector<std::string> warnings;
  CaptureStatistics::Options options;
  CaptureFigures figures;
  TrafficSeries series;
};

// "connection", "5tuple,vlan": as --flow_key takes it.
std::string NameOf(FlowKeyKind kind, bool vlan);

// What of the capture is not usable, or only in part, and why: a sentence each;
// nothing where all is well.
std::vector<std::string> RemarksOn(const CaptureInfo& info);

// The capture on a page. Pure functions.
std::string TextOf(const CaptureInfo& info, const TextStyle& style);
// All captures as one document of the form {"captures": […]}.
std::string JsonOf(std::span<const CaptureInfo> infos);

}  // namespace snf

#endif  // SNF_PLATFORM_TRACE_TRACE_INFO_REPORT_H_
