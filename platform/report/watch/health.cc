// SPDX-License-Identifier: Apache-2.0
#include "platform/report/watch/health.h"

#include <fmt/format.h>

#include <string>

#include "base/quantity.h"
#include "base/text/wording.h"

namespace snf {

namespace {

MetricsServer::Health SilentFor(Nanos age) {
  return {.is_good = false,
          .text = fmt::format("The run has shown no figures for {}.\n",
                              FormatDuration(age))};
}

}  // namespace

MetricsServer::Health Liveness(std::optional<Nanos> age) {
  if (!age.has_value() || *age <= kLongestRestart) return {};
  return SilentFor(*age);
}

MetricsServer::Health Readiness(std::optional<Nanos> age,
                                const LiveFigures& figures) {
  if (!age.has_value()) {
    return {.is_good = false, .text = "The run has not begun.\n"};
  }
  if (*age > kMostSilence) return SilentFor(*age);
  std::string down;
  for (const PortFigures& port : figures.live.ports) {
    if (port.down.ns == 0) continue;
    down += fmt::format("Port {} ({}) has been down for {}.\n", port.name,
                        port.interface, FormatDuration(port.down));
  }
  if (figures.group.has_value() && figures.group->state != "active") {
    down += fmt::format("Group {}: this controller is {}, in epoch {}.\n",
                        Printable(figures.group->name), figures.group->state,
                        figures.group->epoch);
  }
  for (const LiveFigures::Chain& chain : figures.chains) {
    if (!chain.is_down) continue;
    down += fmt::format("Chain {} ({}) has failed, and restarts.\n",
                        chain.number, Printable(chain.nf));
  }
  if (down.empty()) return {};
  return {.is_good = false, .text = down};
}

}  // namespace snf
