// SPDX-License-Identifier: Apache-2.0
#include "platform/trace_info_plot.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/histogram.h"
#include "base/quantity.h"
#include "platform/plot.h"
#include "platform/report_page.h"

namespace snf {
namespace {

std::string NameOf(const CaptureInfo& info) {
  return Printable(std::filesystem::path(info.file).filename().string());
}

std::string RateText(double bps) {
  return FormatBitRate(static_cast<int64_t>(std::llround(bps)));
}
std::string TimeText(double ns) {
  return FormatDuration(Nanos{static_cast<int64_t>(std::llround(ns))});
}
std::string BytesText(double bytes) {
  return FormatBytes(static_cast<int64_t>(std::llround(bytes)));
}
std::string ShareText(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

// A step a bin, back to 0 at the end.
std::vector<Plot::Point> RateOf(const TrafficSeries& series) {
  std::vector<Plot::Point> points;
  const auto width = static_cast<double>(series.width().ns);
  double at = 0;
  for (const uint64_t bytes : series.bins()) {
    const double bps = static_cast<double>(bytes) * 8e9 / width;
    points.push_back({at, bps});
    at += width;
    points.push_back({at, bps});
  }
  return points;
}

// The share of values that are so great at the most.
std::vector<Plot::Point> Distribution(const Histogram& values) {
  constexpr uint32_t kSteps = 200;
  std::vector<Plot::Point> points;
  if (values.count() == 0) return points;
  for (uint32_t i = 0; i <= kSteps; ++i) {
    points.push_back(
        {static_cast<double>(values.Quantile(100'000 / kSteps * i)),
         static_cast<double>(i) / kSteps});
  }
  return points;
}

// At the limit in bytes of this index; without the timeout of none.
std::vector<Plot::Point> FlowletsPerFlow(const CaptureInfo& info,
                                         size_t limit) {
  const CaptureStatistics::Options& options = info.options;
  std::vector<Plot::Point> points;
  if (info.figures.kind_flows() == 0) return points;
  for (size_t i = 0; i < options.timeouts.size(); ++i) {
    if (options.timeouts[i] == CaptureStatistics::kNoTimeout) continue;
    const uint64_t flowlets =
        info.figures.flowlets[i * options.flowlet_bytes.size() + limit];
    points.push_back({static_cast<double>(options.timeouts[i].ns),
                      static_cast<double>(flowlets) /
                          static_cast<double>(info.figures.kind_flows())});
  }
  return points;
}

std::vector<Plot::Line> FlowletLines(std::span<const CaptureInfo> infos) {
  std::vector<Plot::Line> lines;
  if (infos.size() > 1) {
    for (const CaptureInfo& info : infos) {
      const size_t limits = info.options.flowlet_bytes.size();
      lines.push_back({NameOf(info), FlowletsPerFlow(info, limits - 1)});
    }
    return lines;
  }
  const auto& limits = infos.front().options.flowlet_bytes;
  for (size_t i = 0; i < limits.size(); ++i) {
    const std::string name = limits[i] == CaptureStatistics::kNoLimit
                                 ? "no limit"
                                 : "at most " + FormatBytes(limits[i]);
    lines.push_back({name, FlowletsPerFlow(infos.front(), i)});
  }
  return lines;
}

}  // namespace

absl::StatusOr<std::string> PlotOf(std::span<const CaptureInfo> infos) {
  Plot rate = {.title = "Rate",
               .x = {.title = "since the first packet", .text = TimeText},
               .y = {.title = "", .text = RateText},
               .lines = {}};
  Plot bytes = {.title = "Share of flows with so many bytes or fewer",
                .x = {.title = "bytes", .text = BytesText, .is_log = true},
                .y = {.title = "", .text = ShareText},
                .lines = {}};
  Plot gaps = {.title = "Share of gaps in a flow so long or shorter",
               .x = {.title = "gap", .text = TimeText, .is_log = true},
               .y = {.title = "", .text = ShareText},
               .lines = {}};
  const Plot flowlets = {
      .title = "Flowlets per flow",
      .x = {.title = "flowlet timeout", .text = TimeText, .is_log = true},
      .y = {.title = ""},
      .lines = FlowletLines(infos)};
  for (const CaptureInfo& info : infos) {
    rate.lines.push_back({NameOf(info), RateOf(info.series)});
    bytes.lines.push_back(
        {NameOf(info), Distribution(info.figures.flow_bytes)});
    gaps.lines.push_back({NameOf(info), Distribution(info.figures.gap_ns)});
  }
  const std::string title = infos.size() == 1
                                ? NameOf(infos.front())
                                : fmt::format("{} captures", infos.size());
  return DrawPng(title, {rate, flowlets, bytes, gaps});
}

}  // namespace snf
