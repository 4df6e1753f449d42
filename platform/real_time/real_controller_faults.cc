// SPDX-License-Identifier: Apache-2.0
#include "platform/real_time/real_controller_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/quantity.h"

namespace snf {

RealControllerFaults::RealControllerFaults(
    const RunOptions& options, Notice notice,
    std::function<void(Controller&)> prepare, ControllerLoop& loop,
    Egress& egress, ControllerFaultFigures& figures)
    : options_(options.faults),
      notice_(std::move(notice)),
      prepare_(std::move(prepare)),
      loop_(loop),
      egress_(egress),
      figures_(figures),
      rng_(Rng(options.controller.seed)
               .Fork(8)
               .Fork(options.controller.controller_id)),
      kill_times_(options.faults.kills.size(), Instant::max()) {}

void RealControllerFaults::on_start(Instant first_packet) {
  for (size_t i = 0; i < options_.kills.size(); ++i) {
    const Kill& kill = options_.kills[i];
    if (!kill.is_of_controller()) continue;
    if (kill.at.ns < 0) {
      has_chances_ = true;
    } else {
      kill_times_[i] = first_packet + kill.at;
      next_kill_ = std::min(next_kill_, kill_times_[i]);
    }
  }
}

void RealControllerFaults::KillByChance() {
  for (const Kill& kill : options_.kills) {
    if (kill.is_of_controller() && kill.at.ns < 0 &&
        rng_.Chance(kill.chance_65536)) {
      KillOne();
    }
  }
}

bool RealControllerFaults::KillPlanned() {
  if (loop_.now() < next_kill_) return false;
  next_kill_ = Instant::max();
  for (Instant& time : kill_times_) {
    if (time <= loop_.now()) {
      time = Instant::max();
      KillOne();
    }
    next_kill_ = std::min(next_kill_, time);
  }
  return true;
}

void RealControllerFaults::KillOne() {
  if (is_down_ || !loop_.is_led()) {
    ++figures_.kills_in_vain;
    return;
  }
  ++figures_.kills;
  is_down_ = true;
  is_seen_ = false;
  died_ = loop_.ReadClock();
  loop_.Fail(rng_, prepare_, egress_);
  if (notice_ != nullptr) notice_("the controller was killed");
}

bool RealControllerFaults::TurnNow() {
  if (KillPlanned()) return true;
  if (!is_down_) return false;
  if (!is_seen_) {
    is_seen_ = true;
    loop_.Succeed();
    return true;
  }
  if (!loop_.is_led()) return false;
  is_down_ = false;
  const Nanos took = loop_.now() - died_;
  figures_.recovery_ns.Record(took.ns);
  if (notice_ != nullptr) {
    notice_(fmt::format("another controller goes on after {}, with {} flows",
                        FormatDuration(took),
                        loop_.controller().flows().size()));
  }
  return true;
}

void RealControllerFaults::Finish() {
  has_chances_ = false;
  next_kill_ = Instant::max();
  const Succession::Figures& of = loop_.succession()->figures();
  figures_.packets_lost = of.packets_lost;
  figures_.clocks_lost = of.clocks_lost;
  figures_.packets_waited = of.packets_waited;
  figures_.flows = of.made.flows;
  figures_.flows_ending = of.made.flows_ending;
  figures_.flows_unnamed = of.made.flows_unnamed;
  figures_.flows_superseded = of.made.flows_superseded;
  figures_.tombstones = of.made.tombstones;
}

}  // namespace snf
