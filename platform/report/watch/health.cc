// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/health.h"

#include <fmt/format.h>

#include <string>

#include "base/quantity.h"

namespace snf {

MetricsServer::Health Liveness(std::optional<Nanos> age) {
  if (!age.has_value() || *age <= kMostSilence) return {};
  return {.is_good = false,
          .text = fmt::format("The run has shown no figures for {}.\n",
                              FormatDuration(*age))};
}

MetricsServer::Health Readiness(std::optional<Nanos> age,
                                const LiveFigures& figures) {
  if (!age.has_value()) {
    return {.is_good = false, .text = "The run has not begun.\n"};
  }
  MetricsServer::Health health = Liveness(age);
  if (!health.is_good) return health;
  std::string down;
  for (const PortFigures& port : figures.live.ports) {
    if (port.down.ns == 0) continue;
    down += fmt::format("Port {} ({}) has been down for {}.\n", port.name,
                        port.interface, FormatDuration(port.down));
  }
  if (!down.empty()) health = {.is_good = false, .text = down};
  return health;
}

}  // namespace snf
