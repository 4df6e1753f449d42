// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_WATCH_METRICS_TEXT_H_
#define SNF_PLATFORM_REPORT_WATCH_METRICS_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/run/figures/live_figures.h"

namespace snf {

// One value of a metric, exact: `value` is in units of 1 / `per_unit`.
struct MetricSample {
  std::string_view suffix;  // of the family's name: "", "_sum" or "_count"
  std::vector<std::pair<std::string, std::string>> labels;
  uint64_t value = 0;
  uint64_t per_unit = 1;  // 1, or 10⁹ for a time in nanoseconds
};

// The samples of a metric, under one name.
struct MetricFamily {
  enum class Type : uint8_t { kCounter, kGauge, kSummary };
  std::string name;
  std::string help;
  Type type{};
  // A summary has a sample for each label `quantile`, then its sum and count.
  std::vector<MetricSample> samples{};
};

// Returns the figures of a run as metrics by the conventions of Prometheus:
// counters end in _total, and times are in seconds. There is a label for each
// reason to drop and for each unit that was ever started, none for flows.
// A pure function.
std::vector<MetricFamily> MetricsOf(const LiveFigures& figures);

// Returns the metrics in Prometheus' text format 0.0.4, each with HELP and
// TYPE.
std::string MetricsText(const std::vector<MetricFamily>& metrics);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_WATCH_METRICS_TEXT_H_
