// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_TRACE_TRACE_INFO_PLOT_H_
#define SNF_PLATFORM_TRACE_TRACE_INFO_PLOT_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "platform/trace/trace_info_report.h"

namespace snf {

// Captures as a PNG image: the rate over time; which share of flows has so many
// bytes, and of gaps inside a flow is so long; flowlets per flow by timeout.
// Of several captures, each has a line; of one, flowlets have a line for each
// limit in bytes. Errors as DrawPng.
absl::StatusOr<std::string> PlotOf(std::span<const CaptureInfo> infos);

}  // namespace snf

#endif  // SNF_PLATFORM_TRACE_TRACE_INFO_PLOT_H_
