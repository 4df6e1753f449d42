// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/cluster_managers.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "platform/drivers/cluster/cluster_figures.h"

namespace snf {

ClusterManagers::ClusterManagers(const RunOptions& options,
                                 const ClusterOptions& cluster, Host& host,
                                 ClusterMeter& meter, ClusterFigures& figures)
    : options_({.max_units = options.controller.max_units,
                .term = cluster.term,
                .revoke_grace = cluster.revoke_grace,
                .start_timeout = {options.unit_start_delay.ns + Seconds(1).ns},
                .keep_warm = options.controller.keep_warm}),
      is_shared_(cluster.shared),
      host_(host),
      meter_(meter),
      figures_(figures) {}

// --- Managers. ---------------------------------------------------------------

void ClusterManagers::AddFor(ControllerId controller) {
  if (ManagerOf(controller) < managers_.size()) return;
  // Leases of managers with different epochs have different numbers.
  managers_.emplace_back(options_, ++epochs_, commands_);
}

ControllerLife ClusterManagers::Join(ControllerId controller) {
  const uint32_t manager = ManagerOf(controller);
  const auto life = managers_[manager].core()->on_join(host_.lease_now(),
                                                       controller, commands_);
  SNF_CHECK(life.has_value());
  SendCommands(manager);
  return *life;
}

std::optional<ControllerLife> ClusterManagers::NewLife(
    ControllerId controller) {
  const uint32_t manager = ManagerOf(controller);
  if (!is_ready(manager)) return std::nullopt;
  const auto life = managers_[manager].core()->LifeFor(host_.lease_now(),
                                                       controller, commands_);
  SendCommands(manager);
  return life;
}

void ClusterManagers::on_dead(ControllerLife life) {
  const uint32_t manager = ManagerOf(life.controller);
  managers_[manager].core()->on_controller_dead(host_.lease_now(), life,
                                                commands_);
  SendCommands(manager);
}

void ClusterManagers::Handle(uint32_t manager, const ToManager& message) {
  managers_[manager].Handle(host_.lease_now(), message, commands_);
  if (std::holds_alternative<ShareSet>(message) ||
      std::holds_alternative<UnitLeaseReport>(message)) {
    CheckPromises(manager);
  }
}

void ClusterManagers::on_tick() {
  for (uint32_t m = 0; m < managers_.size(); ++m) {
    if (!managers_[m].is_up()) continue;
    managers_[m].core()->on_tick(host_.lease_now(), commands_);
    SendCommands(m);
    if (managers_[m].core()->can_give(host_.lease_now())) continue;
    host_.on_nothing_to_give(m);
  }
}

void ClusterManagers::SendCommands(uint32_t manager) {
  for (const ManagerCommand& command : commands_) {
    host_.SendCommand(manager, command);
  }
  commands_.clear();
  managers_[manager].NoteRecovery(host_.lease_now());
}

void ClusterManagers::Succeed(uint32_t manager) {
  managers_[manager].Succeed(++epochs_, commands_);
}

bool ClusterManagers::Close(uint32_t manager, GlobalUnitId unit) {
  ClusterUnit* const at = managers_[manager].units.Find(unit);
  if (at == nullptr || !managers_[manager].is_up()) return false;
  const LeaseRefusal why = managers_[manager].core()->Close(
      host_.lease_now(), at->leases().life(), commands_);
  SendCommands(manager);
  return why == LeaseRefusal::kNone;
}

void ClusterManagers::AddFigures() {
  for (const Manager& manager : managers_) {
    AddCounters(manager.counters(), figures_);
  }
  figures_.units_up_max = units_up_max_;
}

// --- Units. ------------------------------------------------------------------

void ClusterManagers::AtUnit(uint32_t manager, const StartUnit& start) {
  auto& units = managers_[manager].units;
  ClusterUnit* const before = units.Find(start.unit.unit);
  const auto old =
      before == nullptr ? std::nullopt : std::optional(before->leases().life());
  if (before != nullptr && before->leases().life() == start.unit) {
    host_.SendToManager(manager, UnitReady{start.unit});
    return;
  }
  if (!units.Start(start)) {
    figures_.refused += start.is_repeated ? 0 : 1;
    return;
  }
  if (old.has_value()) meter_.on_unit_down(host_.now(), {manager, *old});
  // Counts a command whose first one was lost, too.
  managers_[manager].on_delivered(StartUnit{start.unit});
  host_.on_start(manager, start.unit);
}

void ClusterManagers::on_started(uint32_t manager, UnitLife unit) {
  if (managers_[manager].units.Ready(unit) == nullptr) return;
  meter_.on_unit_up(host_.now(), {manager, unit});
  uint64_t up = 0;
  for (const Manager& each : managers_) up += each.units.units_up();
  units_up_max_ = std::max(units_up_max_, up);
  host_.SendToManager(manager, UnitReady{unit});
}

void ClusterManagers::AtUnit(uint32_t manager, const SetShare& set) {
  std::vector<ShareSet> answers;
  const bool is_taken = managers_[manager].units.SetShare(set, answers);
  figures_.refused += is_taken ? 0 : 1;
  for (const ShareSet& answer : answers) host_.SendToManager(manager, answer);
  CheckPromises(manager);
}

// A unit's process keeps controllers' flows, and so runs until none uses it.
void ClusterManagers::AtUnit(uint32_t manager, const StopUnit& stop) {
  if (managers_[manager].units.Stop(stop)) {
    StopIfUnused(manager, stop.unit);
  } else {
    ++figures_.refused;
  }
}

void ClusterManagers::on_detached(uint32_t manager, UnitLife life) {
  if (Find(manager, life) != nullptr) StopIfUnused(manager, life);
}

void ClusterManagers::StopIfUnused(uint32_t manager, UnitLife life) {
  const bool was_there = Find(manager, life) != nullptr;
  if (!managers_[manager].units.HasStopped(life)) return;
  if (was_there) meter_.on_unit_down(host_.now(), {manager, life});
  host_.SendToManager(manager, UnitStopped{life});
}

void ClusterManagers::AtUnit(uint32_t manager, const AskReport& ask) {
  auto report = managers_[manager].units.Ask(ask);
  if (report.has_value()) {
    host_.SendToManager(manager, *std::move(report));
  } else {
    ++figures_.refused;
  }
}

void ClusterManagers::CheckPromises(uint32_t manager) {
  if (!is_ready(manager)) return;
  figures_.overpromised += managers_[manager].units.CountOverpromised(
      [&core = *managers_[manager].core()](GlobalUnitId unit) {
        return core.ReservedOf(unit);
      });
}

}  // namespace snf
