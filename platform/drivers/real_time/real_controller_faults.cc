// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/real_controller_faults.h"

#include <fmt/format.h>

#include <utility>

#include "base/counters.h"
#include "base/quantity.h"
#include "controller/core/controller_counters.h"

namespace snf {

RealControllerFaults::RealControllerFaults(
    const RunOptions& options, Notice notice,
    std::function<void(Controller&)> prepare, ControllerLoop& loop,
    Egress& egress, ControllerFaultFigures& figures)
    : notice_(std::move(notice)),
      prepare_(std::move(prepare)),
      loop_(loop),
      egress_(egress),
      figures_(figures),
      rng_(Rng(options.controller.seed)
               .Fork(8)
               .Fork(options.controller.controller_id)),
      plan_(options.faults, &Kill::is_of_controller) {}

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
  const auto kill = [this](const Kill& /*kill*/) { KillOne(); };
  if (plan_.due(loop_.now(), kill)) return true;
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
    notice_(fmt::format("a successor took over after {}, with {} flows",
                        FormatDuration(took),
                        loop_.controller().flows().size()));
  }
  return true;
}

void RealControllerFaults::Finish() {
  plan_.Stop();
  AddCounters<SuccessionCounters>(figures_, loop_.succession()->counters());
}

}  // namespace snf
