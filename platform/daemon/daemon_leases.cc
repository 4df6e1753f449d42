// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/daemon_leases.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "platform/drivers/cluster/cluster_options.h"

namespace snf {
namespace {

ClusterOptions TermsOf(const LeaseMember& member) {
  return {.term = member.term()};
}

}  // namespace

DaemonLeases::DaemonLeases(std::unique_ptr<LeaseMember> member,
                           const RunOptions& options)
    : member_(std::move(member)),
      leases_(options, TermsOf(*member_), member_->first_life(),
              member_->outbox(), {}),
      units_(options.controller.max_units,
             [this](GlobalUnitId unit) { return leases_.uses(unit); }) {}

bool DaemonLeases::Poll() {
  did_ = false;
  for (const FromManager& message : member_->inbox().Take()) {
    Handle(message);
    did_ = true;
  }
  PollLeases();
  for (ToManager& answer : units_.TakeAnswers()) {
    member_->outbox().Put(std::move(answer));
  }
  return did_;
}

void DaemonLeases::PollLeases() {
  if (!leases_.Poll()) return;
  did_ = true;
  units_.on_left();
}

// Says Gone of each lease in place of a manager.
void DaemonLeases::EndAll() {
  if (leases_.mail().has_any()) PollLeases();
  const ControllerLife life = leases_.life();
  for (const LeaseId lease : units_.EndAll()) {
    leases_.mail().Put(Gone{life, lease, units_.manager_epoch()});
  }
  PollLeases();
}

void DaemonLeases::Handle(const FromManager& message) {
  if (const auto* set = std::get_if<SetShare>(&message)) {
    // A grant that came before it is known first.
    if (leases_.mail().has_any()) PollLeases();
    units_.on_set_share(*set);
  } else if (const auto* ask = std::get_if<AskReport>(&message)) {
    units_.on_ask_report(*ask);
  } else if (const auto* stop = std::get_if<StopUnit>(&message)) {
    units_.on_stop_unit(*stop);
  } else if (std::holds_alternative<LeasesEnded>(message)) {
    EndAll();
  } else {
    std::visit(
        [this](const auto& what) {
          if constexpr (std::is_constructible_v<ToController, decltype(what)>) {
            leases_.mail().Put(what);
          }
        },
        message);
  }
}

}  // namespace snf
