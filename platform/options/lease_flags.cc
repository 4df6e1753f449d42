// SPDX-License-Identifier: Apache-2.0
#include "platform/options/lease_flags.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/messages/controller_counts.h"

namespace snf {

LeaseFlags::LeaseFlags(RunFlagSet& set) : set_(set) {
  if (!set_.has_captures) return;
  set_.flags.Count("controllers", set_.request.cluster.controllers, 1,
                   kMostControllers,
                   "controllers, each with flows of its own, that lease the "
                   "units from a resource manager");
  set_.flags.Choice(
      "leases", independent_,
      {{"shared", "shares of units that all of them use"},
       {"independent", "whole units, each controller its own max_units"}},
      "what several controllers lease:");
}

absl::Status LeaseFlags::Check() const {
  const bool is_alone = set_.request.cluster.controllers == 1;
  absl::Status status =
      set_.Check({{.flags = {"leases"},
                   .with = "controllers",
                   .when = is_alone,
                   .because = "a single controller leases nothing"}});
  if (!status.ok() || is_alone) return status;
  if (absl::Status s = CheckSeveral(); !s.ok()) return s;
  return set_.request.is_real_time ? CheckRealTime() : CheckVirtualTime();
}

absl::Status LeaseFlags::CheckSeveral() const {
  constexpr uint32_t kControllersPerUnit = 7;
  const RunRequest& request = set_.request;
  const uint32_t most = request.run.controller.max_units * kControllersPerUnit;
  return set_.Check(
      {{.flags = {"config", "compare", "explain", "decisions", "warm_up",
                  "annotate", "recovery", "warm_units", "warm_start_delay",
                  "start_timeout", "unit_idle_timeout"},
        .with = "controllers",
        .when = true,
        .because = "several controllers do not have that"},
       {.flags = {"controllers"},
        .with = "max_units",
        .when = !independent_ && request.cluster.controllers > most,
        .because = fmt::format("at most {} can each have an eighth of a unit "
                               "and some headroom",
                               most)}});
}

absl::Status LeaseFlags::CheckRealTime() const {
  return set_.Check(
      {{.flags = {"out", "drops", "isolation", "pin", "state", "redis", "watch",
                  "metrics_port", "metrics_address", "metrics_tls"},
        .with = "controllers",
        .when = true,
        .because = "several controllers in real time do not have that yet"}});
}

absl::Status LeaseFlags::CheckVirtualTime() const {
  constexpr Nanos kMostHop = Milliseconds(1);
  const RunRequest& request = set_.request;
  const uint64_t units =
      uint64_t{request.cluster.controllers} * request.run.controller.max_units;
  return set_.Check(
      {{.flags = {"chaos"},
        .with = "controllers",
        .when = request.run.chaos.start_failure_65536 > 0,
        .because = "only the starts of a single controller can fail"},
       {.flags = {"hop_delay"},
        .with = "controllers",
        .when = request.run.hop_delay > kMostHop,
        .because = "a message about leases takes at most 1 ms"},
       {.flags = {"leases"},
        .with = "max_units",
        .when = independent_ && units > kMaxUnits,
        .because = fmt::format("independent controllers have more than {} "
                               "units in all",
                               kMaxUnits)}});
}

void LeaseFlags::Settle() { set_.request.cluster.shared = !independent_; }

}  // namespace snf
