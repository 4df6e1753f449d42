// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/manager_host.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

namespace snf {

void ManagerHost::Begin(uint64_t epoch, bool recover, ManagerOut& out) {
  counters_ = counters();
  core_ = std::make_unique<ResourceManager>(options_, epoch, recover, out);
}

bool ManagerHost::Kill(Instant now) {
  if (!is_up()) return false;
  counters_ = counters();
  core_.reset();
  if (!std::exchange(is_recovering_, true)) died_ = now;
  ++counters_.failed;
  return true;
}

LeaseRefusal ManagerHost::Handle(Instant now, const ToManager& message,
                                 ManagerOut& out) {
  counters_.asks += std::holds_alternative<Ask>(message) ? 1 : 0;
  counters_.given_back += std::holds_alternative<GiveBack>(message) ? 1 : 0;
  if (!is_up()) {
    on_unheard();
    return LeaseRefusal::kNone;
  }
  const LeaseRefusal why = core_->Handle(now, message, out);
  if (std::holds_alternative<UnitReady>(message)) {
    counters_.units_up_max =
        std::max<uint64_t>(counters_.units_up_max, core_->units_up());
  }
  return why;
}

void ManagerHost::on_delivered(const ManagerCommand& command) {
  counters_.grants += std::holds_alternative<Grant>(command) ? 1 : 0;
  counters_.revoked += std::holds_alternative<Revoke>(command) ? 1 : 0;
  counters_.gone += std::holds_alternative<Gone>(command) ? 1 : 0;
  const auto* const start = std::get_if<StartUnit>(&command);
  counters_.units_started += start != nullptr && !start->is_repeated ? 1 : 0;
}

void ManagerHost::NoteRecovery(Instant now) {
  if (!is_recovering_ || !is_ready()) return;
  is_recovering_ = false;
  ++counters_.recovered;
  counters_.recovery_ns_max = std::max(counters_.recovery_ns_max,
                                       static_cast<uint64_t>((now - died_).ns));
}

ManagerCounters ManagerHost::counters() const {
  ManagerCounters counters = counters_;
  for (size_t why = 0;
       is_up() && why < static_cast<size_t>(LeaseRefusal::kCount); ++why) {
    counters.refused += core_->refused(static_cast<LeaseRefusal>(why));
  }
  return counters;
}

}  // namespace snf
