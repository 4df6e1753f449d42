// SPDX-License-Identifier: Apache-2.0
#include "platform/commands/simulate/lease_simulation.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace snf {

LeaseSimulation::LeaseSimulation(const LeaseOptions& options,
                                 FlowTraffic traffic)
    : options_(options), traffic_(std::move(traffic)) {
  const uint32_t managers = options.shared ? 1 : options.controllers;
  for (uint32_t m = 0; m < managers; ++m) {
    // Leases of managers with different epochs have different numbers.
    managers_.push_back({ManagerHost(options.manager, m + 1, commands_)});
    managers_[m].honoured.resize(options.manager.max_units);
  }
  controllers_.reserve(options.controllers);
  for (uint32_t c = 0; c < options.controllers; ++c) {
    const auto life =
        core(ManagerOf(c))
            .on_join(now_, ControllerId{static_cast<uint8_t>(c)}, commands_);
    controllers_.emplace_back(options_, *life);
    // Epochs of controllers end one after the other.
    lines_[kEpochs].push_back(
        {Instant{options.epoch.ns * (c + 1) / options.controllers},
         ManagerOf(c), EpochEnd{c}});
  }
  at_epoch_.resize(options.controllers);
  figures_.controllers.resize(options.controllers);
  Push(kTicks, 0, Tick{});
}

Nanos LeaseSimulation::DelayOf(Line line) const {
  switch (line) {
    case kMessages:
      return options_.message_delay;
    case kStarts:
      return options_.unit_start_delay;
    case kDrains:
      return options_.drain_delay;
    case kEpochs:
      return options_.epoch;
    default:
      return options_.manager.revoke_grace;
  }
}

std::deque<LeaseSimulation::Event>& LeaseSimulation::NextLine() {
  std::deque<Event>* first = &lines_[0];
  for (auto& line : lines_) {
    if (line.empty()) continue;
    if (first->empty() || line.front().time < first->front().time) {
      first = &line;
    }
  }
  return *first;
}

LeaseFigures LeaseSimulation::Run() {
  const Instant measured = Instant{} + options_.warm_up;
  const Instant end = measured + options_.duration;
  for (;;) {
    std::deque<Event>& line = NextLine();  // ticks never end
    const Instant due = line.front().time;
    const FlowTraffic::Change change =
        traffic_.Next(std::min(due, measuring_ ? end : measured));
    now_ = change.time;
    if (change.bps != 0) {
      ++figures_.flow_changes;
      controllers_[change.controller].on_load(now_, change.bps, requests_);
      SendRequests(ManagerOf(change.controller));
    } else if (now_ == measured && !measuring_) {
      StartMeasuring();
    } else if (now_ == end) {
      break;
    } else {
      const Event event = std::move(line.front());
      line.pop_front();
      std::visit([&](const auto& what) { On(event.manager, what); },
                 event.what);
      SendRequests(event.manager);
      SendCommands(event.manager);
      ++figures_.events;
    }
  }
  figures_.events += figures_.flow_changes;
  return Finish();
}

LeaseFigures LeaseSimulation::Finish() {
  CountUnits();
  const double seconds = static_cast<double>(options_.duration.ns) * 1e-9;
  figures_.leased_units = leased_unit_s_ / seconds;
  figures_.up_units = up_unit_s_ / seconds;
  for (uint32_t c = 0; c < options_.controllers; ++c) {
    controllers_[c].Advance(now_);
    const LeasingController::Figures& measured = controllers_[c].figures();
    auto& figures = figures_.controllers[c];
    figures.offered_bps = measured.offered_bits / seconds;
    figures.leased_bps = measured.leased_bits / seconds;
    figures.short_bps = measured.short_bits / seconds;
    std::ranges::sort(figures.over_bps);
  }
  figures_.flows_refused = traffic_.refused();
  for (const Manager& manager : managers_) {
    const ManagerCounters counters = manager.host.counters();
    figures_.asks += counters.asks;
    figures_.grants += counters.grants;
    figures_.given_back += counters.given_back;
    figures_.revoked += counters.revoked;
    figures_.gone += counters.gone;
    figures_.unit_starts += counters.units_started;
    figures_.refused += counters.refused;
  }
  return figures_;
}

void LeaseSimulation::StartMeasuring() {
  measuring_ = true;
  CountUnits();
  leased_unit_s_ = up_unit_s_ = 0;
  figures_.most_up_units = up_units_;
  for (uint32_t c = 0; c < options_.controllers; ++c) {
    controllers_[c].Advance(now_);
    controllers_[c].ResetFigures();
  }
}

void LeaseSimulation::CountUnits() {
  const double seconds = static_cast<double>((now_ - units_since_).ns) * 1e-9;
  leased_unit_s_ += seconds * leased_units_;
  up_unit_s_ += seconds * up_units_;
  units_since_ = now_;
  figures_.most_up_units = std::max(figures_.most_up_units, up_units_);
}

void LeaseSimulation::SendCommands(uint32_t manager) {
  if (commands_.empty()) return;
  for (const ManagerCommand& command : commands_) {
    Push(kMessages, manager, command);
  }
  commands_.clear();
}

void LeaseSimulation::SendRequests(uint32_t manager) {
  for (const LeaseCommand& request : requests_) {
    std::visit(
        [&](const auto& what) {
          if constexpr (std::is_constructible_v<ToManager, decltype(what)>) {
            Push(kMessages, manager, what);
          }
        },
        request);
  }
  requests_.clear();
}

// --- At managers -------------------------------------------------------------

void LeaseSimulation::On(uint32_t manager, const ToManager& message) {
  managers_[manager].host.Handle(now_, message, commands_);
  if (!std::holds_alternative<UnitStopped>(message)) return;
  CountUnits();
  --up_units_;
}

void LeaseSimulation::On(uint32_t, const Tick&) {
  for (uint32_t m = 0; m < managers_.size(); ++m) {
    core(m).on_tick(now_, commands_);
    SendCommands(m);
  }
  Push(kTicks, 0, Tick{});
}

// --- At units and controllers ------------------------------------------------

void LeaseSimulation::On(uint32_t manager, const ManagerCommand& command) {
  managers_[manager].host.on_delivered(command);
  Dispatch(
      command,
      [&](GlobalUnitId, const auto& message) { AtUnit(manager, message); },
      [&](ControllerId id, const auto& message) {
        AtController(controllers_[value(id)], message);
      },
      [](const NewManager&) {});  // no manager fails
}

void LeaseSimulation::AtUnit(uint32_t manager, const StartUnit& start) {
  if (start.is_repeated) return;  // nothing is lost
  CountUnits();
  ++up_units_;
  Push(kStarts, manager, StartDone{start.unit});
}

void LeaseSimulation::On(uint32_t manager, const StartDone& done) {
  Push(kMessages, manager, UnitReady{done.unit});
}

void LeaseSimulation::AtUnit(uint32_t manager, const StopUnit& stop) {
  Push(kMessages, manager, UnitStopped{stop.unit});
}

void LeaseSimulation::AtUnit(uint32_t manager, const SetShare& set) {
  if (set.share == 0) {
    Push(kDrains, manager, Drained{set});
    return;
  }
  Honour(manager, set, set.share);
}

void LeaseSimulation::On(uint32_t manager, const Drained& drained) {
  Honour(manager, drained.set, 0);
}

void LeaseSimulation::Honour(uint32_t manager, const SetShare& set,
                             int64_t share) {
  Manager& m = managers_[manager];
  int64_t& honoured = m.honoured[value(set.to.unit)];
  const bool was_leased = honoured > 0;
  int64_t& before = shares_[value(set.lease)];
  honoured += share - before;
  before = share;
  if (share == 0) shares_.erase(value(set.lease));
  if (honoured > kWholeUnit) ++figures_.overcommitted;
  if (was_leased != (honoured > 0)) {
    CountUnits();
    was_leased ? --leased_units_ : ++leased_units_;
  }
  Push(kMessages, manager,
       ShareSet{set.to, set.manager_epoch, set.lease, set.sequence, share});
}

void LeaseSimulation::AtController(LeasingController& controller,
                                   const Grant& grant) {
  controller.on_grant(now_, grant, requests_);
}

void LeaseSimulation::AtController(LeasingController& controller,
                                   const Revoke& revoke) {
  controller.on_revoke(now_, revoke, requests_);
}

void LeaseSimulation::AtController(LeasingController& controller,
                                   const Gone& gone) {
  controller.on_gone(now_, gone);
}

void LeaseSimulation::On(uint32_t manager, const EpochEnd& end) {
  EndEpoch(end.controller);
  Push(kEpochs, manager, end);
}

void LeaseSimulation::EndEpoch(uint32_t c) {
  controllers_[c].on_epoch(now_, requests_);
  const auto now = controllers_[c].figures();
  const auto before = std::exchange(at_epoch_[c], now);
  // Only epochs that were measured from their beginning count.
  if (now_ < Instant{options_.warm_up.ns + options_.epoch.ns}) return;
  const double bits = (now.leased_bits - before.leased_bits) -
                      (now.offered_bits - before.offered_bits);
  figures_.controllers[c].over_bps.push_back(
      bits * 1e9 / static_cast<double>(options_.epoch.ns));
}

int64_t LeaseSimulation::held_by_controllers() const {
  int64_t sum = 0;
  for (const LeasingController& each : controllers_) sum += each.held();
  return sum;
}

int64_t LeaseSimulation::held_by_managers() const {
  int64_t sum = 0;
  for (uint32_t c = 0; c < options_.controllers; ++c) {
    sum += managers_[ManagerOf(c)].host.core()->held(
        ControllerId{static_cast<uint8_t>(c)});
  }
  return sum;
}

}  // namespace snf
