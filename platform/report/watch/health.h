// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_WATCH_HEALTH_H_
#define SNF_PLATFORM_REPORT_WATCH_HEALTH_H_

#include <optional>

#include "base/time.h"
#include "platform/process/metrics_server.h"
#include "platform/run/figures/live_figures.h"

namespace snf {

// The answers of /healthz and /readyz. A supervisor restarts a run that is not
// alive; a load balancer sends packets to a run that is ready.

// A run shows figures each LiveBoard::kPeriod. A run without figures for
// kMostSilence takes no packets. A single chain that restarts shows none for up
// to a minute (ChainRestarter), so a run counts as dead after kLongestRestart.
inline constexpr Nanos kMostSilence = Seconds(10);
inline constexpr Nanos kLongestRestart = Seconds(180);

// `age` is that of the latest figures; nothing before the first, as while a
// capture is loaded.
MetricsServer::Health Liveness(std::optional<Nanos> age);

// Says which ports and chains are down, whether its group has taken the
// controller out, and that no packet can come before the first figures.
MetricsServer::Health Readiness(std::optional<Nanos> age,
                                const LiveFigures& figures);

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_WATCH_HEALTH_H_
