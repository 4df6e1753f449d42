// SPDX-License-Identifier: Apache-2.0
#include "platform/real_cluster/lease_desk.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "platform/process/real_clock.h"

namespace snf {

LeaseDesk::LeaseDesk(const ManagerOptions& options, Nanos detection,
                     std::vector<UnitMail*> units)
    : options_(options),
      units_(std::move(units)),
      manager_(options, epoch_, commands_),
      detection_(detection),
      now_(RealClock::Monotonic()) {}

ControllerLife LeaseDesk::Join(ControllerId controller) {
  const auto life = manager_.core()->on_join(now_, controller, commands_);
  SNF_CHECK(life.has_value());
  SendCommands();
  return *life;
}

void LeaseDesk::Start() {
  thread_ = std::thread([this] { Run(); });
}

void LeaseDesk::Stop() {
  stops_.store(true, std::memory_order_seq_cst);
  bell_.Ring();
  if (thread_.joinable()) thread_.join();
}

void LeaseDesk::Run() {
  next_tick_ = RealClock::Monotonic() + options_.revoke_grace;
  while (!stops_.load(std::memory_order_relaxed)) {
    now_ = RealClock::Monotonic();
    for (const ToManager& message : mail_.Take()) Handle(message);
    FailAndSucceed();
    if (now_ >= next_tick_) {
      if (manager_.is_up()) manager_.core()->on_tick(now_, commands_);
      next_tick_ = now_ + options_.revoke_grace;
    }
    SendCommands();
    manager_.NoteRecovery(now_, figures_);
    const auto has_work = [this] {
      return mail_.has_any() || stops_.load(std::memory_order_seq_cst);
    };
    bell_.Wait(has_work, NextDue() - now_, 0);
  }
}

Instant LeaseDesk::NextDue() const {
  Instant due = std::min(next_tick_, succession_);
  for (const Instant death : deaths_) due = std::min(due, death);
  return due;
}

void LeaseDesk::FailAndSucceed() {
  if (succession_ <= now_) {
    succession_ = Instant::max();
    manager_.Succeed(++epoch_, commands_);
  }
  const auto dead =
      std::erase_if(deaths_, [this](Instant death) { return death <= now_; });
  if (dead == 0) return;
  // One that is dead dies no second time.
  const bool dies = manager_.Kill(now_, figures_);
  figures_.changes_in_vain += dead - (dies ? 1 : 0);
  if (dies) succession_ = now_ + detection_;
}

void LeaseDesk::Handle(const ToManager& message) {
  if (const auto* death = std::get_if<ManagerDeath>(&message)) {
    deaths_.push_back(death->at);
    return;
  }
  figures_.asks += std::holds_alternative<Ask>(message) ? 1 : 0;
  figures_.given_back += std::holds_alternative<GiveBack>(message) ? 1 : 0;
  if (manager_.is_up()) {
    Tell(*manager_.core(), message);
  } else {
    ++figures_.unheard;
  }
}

void LeaseDesk::Tell(ResourceManager& manager, const ToManager& message) {
  if (const auto* ask = std::get_if<Ask>(&message)) {
    manager.on_ask(now_, *ask, commands_);
  } else if (const auto* renew = std::get_if<Renew>(&message)) {
    manager.on_renew(now_, *renew, commands_);
  } else if (const auto* back = std::get_if<GiveBack>(&message)) {
    manager.on_give_back(now_, *back, commands_);
  } else if (const auto* set = std::get_if<ShareSet>(&message)) {
    manager.on_share_set(now_, *set, commands_);
  } else if (const auto* ready = std::get_if<UnitReady>(&message)) {
    manager.on_ready(now_, ready->unit, commands_);
    figures_.units_up_max =
        std::max<uint64_t>(figures_.units_up_max, manager.units_up());
  } else if (const auto* report = std::get_if<UnitLeaseReport>(&message)) {
    manager.on_report(now_, report->unit, report->leases, commands_);
  } else if (const auto* life = std::get_if<AskLife>(&message)) {
    GiveLife(life->controller);
  } else {
    manager.on_stopped(now_, std::get<UnitStopped>(message).unit, commands_);
  }
}

// Who asks a manager that is not ready asks again. One whose leases are all
// over is as new.
void LeaseDesk::GiveLife(ControllerId controller) {
  if (!manager_.is_ready()) return;
  ResourceManager& manager = *manager_.core();
  auto life = manager.on_succeed(now_, controller, commands_);
  if (!life.has_value()) life = manager.on_join(now_, controller, commands_);
  if (life.has_value()) controllers_[value(controller)]->Put(NewLife{*life});
}

void LeaseDesk::SendCommands() {
  for (const ManagerCommand& command : commands_) Send(command);
  commands_.clear();
}

void LeaseDesk::Send(const ManagerCommand& command) {
  const auto to = [this](GlobalUnitId unit) -> UnitMail& {
    return *units_[value(unit) % units_.size()];
  };
  if (const auto* set = std::get_if<SetShare>(&command)) {
    to(set->to.unit).Put(*set);
  } else if (const auto* start = std::get_if<StartUnit>(&command)) {
    figures_.units_started += start->is_repeated ? 0 : 1;
    to(start->unit.unit).Put(*start);
  } else if (const auto* stop = std::get_if<StopUnit>(&command)) {
    to(stop->unit.unit).Put(*stop);
  } else if (const auto* ask = std::get_if<AskReport>(&command)) {
    to(ask->unit).Put(*ask);
  } else if (const auto* next = std::get_if<NewManager>(&command)) {
    for (ControllerMail* const controller : controllers_) {
      controller->Put(*next);
    }
  } else if (const auto* grant = std::get_if<Grant>(&command)) {
    ++figures_.grants;
    controllers_[value(grant->to.controller)]->Put(*grant);
  } else if (const auto* revoke = std::get_if<Revoke>(&command)) {
    ++figures_.revoked;
    controllers_[value(revoke->to.controller)]->Put(*revoke);
  } else if (const auto* gone = std::get_if<Gone>(&command)) {
    ++figures_.gone;
    controllers_[value(gone->to.controller)]->Put(*gone);
  }
}

void LeaseDesk::AddFigures(ClusterFigures& figures) const {
  figures.asks += figures_.asks;
  figures.grants += figures_.grants;
  figures.revoked += figures_.revoked;
  figures.given_back += figures_.given_back;
  figures.gone += figures_.gone;
  figures.units_started += figures_.units_started;
  figures.units_up_max = std::max(figures.units_up_max, figures_.units_up_max);
  figures.refused += figures_.refused;
  manager_.AddRefused(figures);
  figures.managers_failed += figures_.managers_failed;
  figures.managers_recovered += figures_.managers_recovered;
  figures.manager_recovery_ns_max = std::max(figures.manager_recovery_ns_max,
                                             figures_.manager_recovery_ns_max);
  figures.unheard += figures_.unheard;
  figures.changes_in_vain += figures_.changes_in_vain;
}

}  // namespace snf
