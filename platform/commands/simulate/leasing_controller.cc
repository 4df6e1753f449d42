// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/simulate/leasing_controller.h"

#include <algorithm>
#include <variant>

#include "base/ids.h"

namespace snf {

LeasingController::LeasingController(const LeaseOptions& options,
                                     ControllerLife life)
    : unit_capacity_bps_(static_cast<double>(options.unit_capacity_bps)),
      keeper_({.unit_capacity_bps = options.unit_capacity_bps,
               .max_units = std::min(options.manager.max_units, kMaxUnits),
               .headroom = options.headroom,
               .whole_units = !options.shared,
               .epoch = options.epoch,
               .term = options.manager.term,
               .round_trip = {2 * options.message_delay.ns}},
              life) {}

void LeasingController::Advance(Instant now) {
  const double seconds = static_cast<double>((now - since_).ns) * 1e-9;
  since_ = now;
  const double offered = static_cast<double>(keeper_.load_bps()) * seconds;
  const double leased = static_cast<double>(keeper_.held()) / kWholeUnit *
                        unit_capacity_bps_ * seconds;
  figures_.offered_bits += offered;
  figures_.leased_bits += leased;
  figures_.short_bits += std::max(0.0, offered - leased);
}

void LeasingController::VacateAll(Instant now, LeaseCommands& out) {
  size_t kept = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const LeaseCommand command = out[i];
    if (const auto* vacate = std::get_if<VacateLease>(&command)) {
      keeper_.on_vacated(now, vacate->lease, out);
    } else {
      out[kept++] = command;
    }
  }
  out.resize(kept);
}

void LeasingController::on_load(Instant now, int64_t change_bps,
                                LeaseCommands& out) {
  Advance(now);
  keeper_.on_load(now, keeper_.load_bps() + change_bps, out);
}

void LeasingController::on_epoch(Instant now, LeaseCommands& out) {
  Advance(now);
  keeper_.on_epoch(now, out);
  VacateAll(now, out);
}

void LeasingController::on_grant(Instant now, const Grant& grant,
                                 LeaseCommands& out) {
  Advance(now);
  keeper_.on_grant(grant, out);
}

void LeasingController::on_revoke(Instant now, const Revoke& revoke,
                                  LeaseCommands& out) {
  Advance(now);
  keeper_.on_revoke(revoke, out);
  VacateAll(now, out);
}

void LeasingController::on_gone(Instant now, const Gone& gone) {
  Advance(now);
  keeper_.on_gone(gone);
}

}  // namespace snf
