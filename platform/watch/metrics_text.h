// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_WATCH_METRICS_TEXT_H_
#define SNF_PLATFORM_WATCH_METRICS_TEXT_H_

#include <string>

#include "platform/run/live_figures.h"

namespace snf {

// The figures of a run in Prometheus' text format 0.0.4, each with HELP and
// TYPE. Counters end in _total and times are in seconds. There is a label for
// each reason to drop and for each unit that was ever started, none for flows.
// A pure function.
std::string MetricsText(const LiveFigures& figures);

}  // namespace snf

#endif  // SNF_PLATFORM_WATCH_METRICS_TEXT_H_
