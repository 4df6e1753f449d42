// SPDX-License-Identifier: Apache-2.0
#include "platform/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/quantity.h"
#include "fmt/format.h"

namespace snf {
namespace {

constexpr int kRateColumns = 11;  // "1.25 Gbit/s"
constexpr int kPlotColumns = 72 - kRateColumns - 2;
constexpr int kRows = 8;
constexpr int kMaxEpochColumns = 8;
constexpr int64_t kLongestDrawnGap = 10;  // epochs
constexpr double kEpochSeconds = Provisioning::kEpochNs / 1e9;

// The strings that a cell, an axis or the legend is made of.
struct Glyphs {
  // Demand in a cell by eighths of its height, from none to all of it.
  std::array<std::string_view, 9> demanded;
  std::string_view beyond;  // demanded beyond what was provisioned
  std::string_view idle;    // provisioned beyond what was demanded
  std::string_view cut;
  std::string_view y_axis, y_tick, corner, x_axis;
};

constexpr Glyphs kUtf8 = {{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
                          "▓",
                          "░",
                          "┊",
                          "│",
                          "┤",
                          "└",
                          "─"};
constexpr Glyphs kAscii = {{" ", "_", "_", "_", "#", "#", "#", "#", "#"},
                           "!",
                           ".",
                           ":",
                           "|",
                           "+",
                           "+",
                           "-"};

// A stretch of epochs that is drawn without a break.
struct Segment {
  int64_t first_epoch = 0;
  int64_t epochs = 0;
};

struct Column {
  bool has_provisioned = false;
  double demanded_bps = 0;
  double provisioned_bps = 0;
  bool cut = false;  // time was left out here
};

struct Label {
  int column = 0;
  std::string text;
};

struct Layout {
  std::vector<Column> columns;
  std::vector<Label> labels;  // of the x axis
  int64_t epochs_per_column = 1;
};

std::vector<Segment> Segments(std::span<const EpochSample> epochs) {
  std::vector<Segment> segments;
  for (const EpochSample& sample : epochs) {
    const int64_t end =
        segments.empty() ? 0
                         : segments.back().first_epoch + segments.back().epochs;
    if (segments.empty() || sample.epoch - end > kLongestDrawnGap) {
      segments.push_back({sample.epoch, 1});
    } else {
      segments.back().epochs = sample.epoch + 1 - segments.back().first_epoch;
    }
  }
  return segments;
}

int64_t PlotColumnsOf(std::span<const Segment> segments,
                      int64_t epochs_per_column, int64_t columns_per_epoch) {
  int64_t columns = 0;
  for (const Segment& segment : segments) {
    columns += (segment.epochs + epochs_per_column - 1) / epochs_per_column *
               columns_per_epoch;
  }
  return columns + static_cast<int64_t>(segments.size()) - 1;  // the cuts
}

// Adds one column, or several alike, for `samples`, of which a column stands
// for `epochs`.
void Append(std::span<const EpochSample> samples, int64_t epochs,
            int64_t columns, int64_t capacity_bps, std::vector<Column>& out) {
  Column column = {.has_provisioned = capacity_bps > 0};
  for (const EpochSample& sample : samples) {
    column.demanded_bps += static_cast<double>(sample.offered_bytes) * 8;
    column.provisioned_bps += static_cast<double>(sample.unit_ns) / 1e9 *
                              static_cast<double>(capacity_bps);
  }
  const double seconds = static_cast<double>(epochs) * kEpochSeconds;
  column.demanded_bps /= seconds;
  column.provisioned_bps /= seconds;
  out.insert(out.end(), static_cast<size_t>(columns), column);
}

// 1, 2 or 5 times a power of ten, at least `least`.
double RoundStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// The top of the y axis: such that its half is a round number too.
double RoundTop(double most) {
  const double power = std::pow(10, std::floor(std::log10(most)));
  for (const double factor :
       {1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0}) {
    if (factor * power >= most * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// Ticks at round times along a chart without cuts.
std::vector<Label> RoundLabels(double start_s, double column_s, int columns) {
  const double step_s = RoundStep(column_s * std::max(columns / 5, 8));
  std::vector<Label> labels;
  // Behind the start, and not before the first packet with an IP header.
  double tick = std::max(std::floor(start_s / step_s), 0.0);
  for (;; ++tick) {
    const double at = (tick * step_s - start_s) / column_s;
    const int column = static_cast<int>(std::floor(at + 1e-9));
    if (column >= columns) return labels;
    if (column < 0) continue;
    labels.push_back({column, fmt::format("{:g} s", tick * step_s)});
  }
}

// The start of a segment, on the x axis.
std::string StartLabel(const EpochSample& sample, Instant first_packet) {
  const Nanos start = SinceFirstPacket(sample, first_packet);
  return start <= Nanos{0} ? "0 s" : FormatDuration(start);
}

// Moves `next` past the samples of the epochs before `end`.
void SkipTo(int64_t end, std::span<const EpochSample> epochs, size_t& next) {
  while (next < epochs.size() && epochs[next].epoch < end) ++next;
}

// A chart in which every cut is marked, or there is none.
Layout ArrangeSegments(std::span<const EpochSample> epochs,
                       std::span<const Segment> segments, Instant first_packet,
                       int64_t capacity_bps) {
  Layout layout;
  int64_t& per_column = layout.epochs_per_column;
  while (PlotColumnsOf(segments, per_column, 1) > kPlotColumns) ++per_column;
  int64_t wide = 1;
  while (per_column == 1 && wide < kMaxEpochColumns &&
         PlotColumnsOf(segments, 1, wide + 1) <= kPlotColumns) {
    ++wide;
  }
  size_t next = 0;
  for (const Segment& segment : segments) {
    if (!layout.columns.empty()) layout.columns.push_back({.cut = true});
    layout.labels.push_back({static_cast<int>(layout.columns.size()),
                             StartLabel(epochs[next], first_packet)});
    for (int64_t done = 0; done < segment.epochs; done += per_column) {
      const int64_t count = std::min(per_column, segment.epochs - done);
      const size_t begin = next;
      SkipTo(segment.first_epoch + done + count, epochs, next);
      Append(epochs.subspan(begin, next - begin), count, wide, capacity_bps,
             layout.columns);
    }
  }
  if (segments.size() == 1) {
    const double column_s = kEpochSeconds * static_cast<double>(per_column) /
                            static_cast<double>(wide);
    const Nanos start = SinceFirstPacket(epochs.front(), first_packet);
    layout.labels = RoundLabels(static_cast<double>(start.ns) / 1e9, column_s,
                                static_cast<int>(layout.columns.size()));
  }
  return layout;
}

// A chart with more cuts than can be marked: the epochs as if they followed
// each other.
Layout ArrangeJoined(std::span<const EpochSample> epochs, Instant first_packet,
                     int64_t capacity_bps) {
  const auto columns = size_t{kPlotColumns};
  const size_t per_column = (epochs.size() + columns - 1) / columns;
  Layout layout;
  layout.epochs_per_column = static_cast<int64_t>(per_column);
  for (size_t begin = 0; begin < epochs.size(); begin += per_column) {
    if (layout.columns.size() % 16 == 0) {
      layout.labels.push_back({static_cast<int>(layout.columns.size()),
                               StartLabel(epochs[begin], first_packet)});
    }
    const auto in_column =
        epochs.subspan(begin, std::min(per_column, epochs.size() - begin));
    Append(in_column, static_cast<int64_t>(in_column.size()), 1, capacity_bps,
           layout.columns);
  }
  return layout;
}

// What stands in `row`, 0 being the lowest, of a column.
std::string_view GlyphOf(const Column& column, int row, double top_bps,
                         const Glyphs& glyphs) {
  if (column.cut) return glyphs.cut;
  const double per_row = kRows / top_bps;
  const double demanded = column.demanded_bps * per_row - row;
  const double provisioned = column.provisioned_bps * per_row - row;
  // Beyond what is provisioned there are whole cells only, and at least one.
  if (column.has_provisioned && demanded > provisioned + 1.0 / 16 &&
      provisioned < 0.5 &&
      (demanded >= 0.5 || (provisioned > -0.5 && demanded > 0))) {
    return glyphs.beyond;
  }
  const auto eighths =
      static_cast<size_t>(std::clamp(std::lround(demanded * 8), 0L, 8L));
  // What is demanded at all is seen.
  if (row == 0 && eighths == 0 && column.demanded_bps > 0) {
    return glyphs.demanded[1];
  }
  if (glyphs.demanded[eighths] != " ") return glyphs.demanded[eighths];
  return provisioned >= 0.5 ? glyphs.idle : " ";
}

std::string XAxis(const Layout& layout, const Glyphs& glyphs) {
  std::string axis = fmt::format("{:>{}} {}", "0", kRateColumns, glyphs.corner);
  for (size_t i = 0; i < layout.columns.size(); ++i) axis += glyphs.x_axis;
  std::string line;  // ASCII but for "µs"
  for (const Label& label : layout.labels) {
    const auto column = static_cast<size_t>(label.column);
    if (!line.empty() && line.size() + 1 > column) continue;
    if (column + label.text.size() > kPlotColumns) continue;
    line.append(column - line.size(), ' ').append(label.text);
  }
  return fmt::format("{}\n{:{}}{}\n", axis, "", kRateColumns + 2, line);
}

std::string Legend(const Layout& layout, const Glyphs& glyphs) {
  if (!layout.columns.front().has_provisioned) return "";
  const bool beyond = std::ranges::any_of(layout.columns, [](const Column& c) {
    return c.demanded_bps > c.provisioned_bps;
  });
  return fmt::format(
      "{:{}}{} demanded   {} provisioned, unused{}\n", "", kRateColumns + 2,
      glyphs.demanded.back(), glyphs.idle,
      beyond ? fmt::format("   {} demanded beyond it", glyphs.beyond) : "");
}

// What is not seen in the picture itself.
std::string Notes(const Layout& layout, std::span<const Segment> segments) {
  std::string notes;
  const int indent = kRateColumns + 2;
  if (layout.epochs_per_column > 1) {
    notes += fmt::format("{:{}}A column is the mean of {}.\n", "", indent,
                         FormatDuration(Nanos{layout.epochs_per_column *
                                              Provisioning::kEpochNs}));
  }
  if (segments.size() > 1) {
    int64_t epochs = 0;
    for (size_t i = 1; i < segments.size(); ++i) {
      epochs += segments[i].first_epoch - segments[i - 1].first_epoch -
                segments[i - 1].epochs;
    }
    constexpr int64_t kMostEpochs = Nanos::max().ns / Provisioning::kEpochNs;
    const Nanos cut{std::min(epochs, kMostEpochs) * Provisioning::kEpochNs};
    notes += fmt::format(
        "{:{}}Cut out: {} idle time{} of more than 1 s, {} in "
        "all.\n",
        "", indent, FormatCount(segments.size() - 1),
        segments.size() > 2 ? "s" : "", FormatDuration(cut));
  }
  return notes;
}

}  // namespace

Nanos SinceFirstPacket(const EpochSample& sample, Instant first_packet) {
  constexpr int64_t kEpochNs = Provisioning::kEpochNs;
  const int64_t ns = first_packet.ns;
  const int64_t first = ns / kEpochNs - (ns % kEpochNs < 0 ? 1 : 0);
  int64_t since_ns = 0;
  if (__builtin_mul_overflow(sample.epoch - first, kEpochNs, &since_ns)) {
    return sample.epoch < first ? Nanos{-kEpochNs} : Nanos::max();
  }
  return Nanos{since_ns};
}

std::string BandwidthChart(std::span<const EpochSample> epochs,
                           Instant first_packet, int64_t unit_capacity_bps,
                           const Terminal& terminal) {
  if (epochs.empty()) return "";
  const Glyphs& glyphs = terminal.utf8 ? kUtf8 : kAscii;
  const std::vector<Segment> segments = Segments(epochs);
  const bool mark_cuts = static_cast<int>(segments.size()) <= kPlotColumns / 4;
  const Layout layout =
      mark_cuts
          ? ArrangeSegments(epochs, segments, first_packet, unit_capacity_bps)
          : ArrangeJoined(epochs, first_packet, unit_capacity_bps);

  double most_bps = 0;
  for (const Column& column : layout.columns) {
    most_bps =
        std::max({most_bps, column.demanded_bps, column.provisioned_bps});
  }
  const double top_bps = RoundTop(std::max(most_bps, 1.0));
  std::string chart = Legend(layout, glyphs);
  for (int row = kRows - 1; row >= 0; --row) {
    const bool tick = row == kRows - 1 || row == kRows / 2 - 1;
    const std::string label =
        tick ? FormatBitRate(std::llround(top_bps * (row + 1) / kRows)) : "";
    std::string line = fmt::format("{:>{}} {}", label, kRateColumns,
                                   tick ? glyphs.y_tick : glyphs.y_axis);
    for (const Column& column : layout.columns) {
      line += GlyphOf(column, row, top_bps, glyphs);
    }
    chart += line.erase(line.find_last_not_of(' ') + 1) + '\n';
  }
  return chart + XAxis(layout, glyphs) + Notes(layout, segments);
}

}  // namespace snf
