// SPDX-License-Identifier: Apache-2.0
#include "platform/trace/trace_info_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/histogram.h"
#include "base/quantity.h"
#include "platform/text/page.h"
#include "platform/text/plot.h"

namespace snf {
namespace {

std::string NameOf(const CaptureInfo& info) {
  return Printable(std::filesystem::path(info.file).filename().string());
}

// At marks, which are round.
std::string RateText(double bps) {
  return FormatBitRate(static_cast<int64_t>(std::llround(bps)),
                       Precision::kExact);
}
std::string TimeText(double ns) {
  return FormatDuration(Nanos{static_cast<int64_t>(std::llround(ns))},
                        Precision::kExact);
}
std::string BytesText(double bytes) {
  return FormatBytes(static_cast<int64_t>(std::llround(bytes)),
                     Precision::kExact);
}
std::string ShareText(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

// Means over so long.
Nanos StepOf(const TrafficSeries& series) {
  constexpr size_t kMostSteps = 240;
  const size_t bins = (series.bins().size() + kMostSteps - 1) / kMostSteps;
  return {series.width().ns * static_cast<int64_t>(std::max<size_t>(bins, 1))};
}

// By seconds, each mean in the middle of its time; one at the end of less than
// half the time is left out, if there are others.
std::vector<Plot::Point> RateOf(const CaptureInfo& info) {
  std::vector<Plot::Point> points;
  const std::vector<uint64_t>& bins = info.series.bins();
  const auto width = static_cast<double>(info.series.width().ns);
  const auto step =
      static_cast<size_t>(StepOf(info.series).ns / info.series.width().ns);
  const auto duration = static_cast<double>(info.figures.duration().ns);
  for (size_t i = 0; i < bins.size(); i += step) {
    const size_t end = std::min(i + step, bins.size());
    const double begin_ns = static_cast<double>(i) * width;
    const double whole_ns = static_cast<double>(step) * width;
    const double ns = std::min(whole_ns, duration - begin_ns);
    if (ns <= 0 || (i > 0 && ns < whole_ns / 2)) continue;
    double bytes = 0;
    for (size_t k = i; k < end; ++k) bytes += static_cast<double>(bins[k]);
    points.push_back({(begin_ns + ns / 2) / 1e9, bytes * 8e9 / ns});
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

std::string LimitText(uint32_t bytes) {
  return bytes == CaptureStatistics::kNoLimit ? "no limit"
                                              : "at most " + BytesText(bytes);
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
    lines.push_back({LimitText(limits[i]), FlowletsPerFlow(infos.front(), i)});
  }
  return lines;
}

}  // namespace

absl::StatusOr<std::string> PlotOf(std::span<const CaptureInfo> infos) {
  const CaptureInfo& first = infos.front();
  const bool is_one = infos.size() == 1;
  Plot rate = {.title = "Rate",
               .x = {.title = "time since the first packet, in s"},
               .y = {.title = "rate", .text = RateText},
               .lines = {}};
  if (is_one) {
    rate.y.title =
        fmt::format("rate, mean of {}",
                    FormatDuration(StepOf(first.series), Precision::kExact));
  }
  Plot bytes = {
      .title = "Flow sizes",
      .x = {.title = "bytes of a flow", .text = BytesText, .is_log = true},
      .y = {.title = "flows of so many bytes or fewer", .text = ShareText},
      .lines = {}};
  Plot gaps = {.title = "Gaps between a flow's packets",
               .x = {.title = "gap", .text = TimeText, .is_log = true},
               .y = {.title = "gaps so long or shorter", .text = ShareText},
               .lines = {}};
  const Plot flowlets = {
      .title =
          is_one ? "Flowlets"
                 : "Flowlets, " + LimitText(first.options.flowlet_bytes.back()),
      .x = {.title = "flowlet timeout", .text = TimeText, .is_log = true},
      .y = {.title = "flowlets per flow"},
      .lines = FlowletLines(infos)};
  for (const CaptureInfo& info : infos) {
    rate.lines.push_back({NameOf(info), RateOf(info)});
    bytes.lines.push_back(
        {NameOf(info), Distribution(info.figures.flow_bytes)});
    gaps.lines.push_back({NameOf(info), Distribution(info.figures.gap_ns)});
  }
  const std::string title =
      is_one ? fmt::format("{}: {}, {}", NameOf(first),
                           Plural(first.figures.packets, "packet"),
                           Plural(first.figures.kind_flows(), "flow"))
             : fmt::format("{} captures, flows", infos.size());
  return DrawPng(fmt::format("{} by {}", title,
                             NameOf(first.options.kind, first.options.vlan)),
                 {rate, flowlets, bytes, gaps});
}

}  // namespace snf
