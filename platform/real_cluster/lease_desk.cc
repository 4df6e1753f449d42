// SPDX-License-Identifier: Apache-2.0
#include "platform/real_cluster/lease_desk.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "platform/process/real_clock.h"

namespace snf {

LeaseDesk::LeaseDesk(const ManagerOptions& options,
                     std::vector<UnitMail*> units)
    : options_(options),
      units_(std::move(units)),
      manager_(options, 1, false, commands_),
      now_(RealClock::Monotonic()) {}

ControllerLife LeaseDesk::Join(ControllerId controller) {
  const auto life = manager_.on_join(now_, controller, commands_);
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
  Instant next_tick = RealClock::Monotonic() + options_.revoke_grace;
  while (!stops_.load(std::memory_order_relaxed)) {
    now_ = RealClock::Monotonic();
    for (const ToManager& message : mail_.Take()) Handle(message);
    if (now_ >= next_tick) {
      manager_.on_tick(now_, commands_);
      next_tick = now_ + options_.revoke_grace;
    }
    SendCommands();
    const auto has_work = [this] {
      return mail_.has_any() || stops_.load(std::memory_order_seq_cst);
    };
    bell_.Wait(has_work, next_tick - now_, 0);
  }
}

void LeaseDesk::Handle(const ToManager& message) {
  if (const auto* ask = std::get_if<Ask>(&message)) {
    ++figures_.asks;
    manager_.on_ask(now_, *ask, commands_);
  } else if (const auto* renew = std::get_if<Renew>(&message)) {
    manager_.on_renew(now_, *renew, commands_);
  } else if (const auto* back = std::get_if<GiveBack>(&message)) {
    ++figures_.given_back;
    manager_.on_give_back(now_, *back, commands_);
  } else if (const auto* set = std::get_if<ShareSet>(&message)) {
    manager_.on_share_set(now_, *set, commands_);
  } else if (const auto* ready = std::get_if<UnitReady>(&message)) {
    manager_.on_ready(now_, ready->unit, commands_);
    figures_.units_up_max =
        std::max<uint64_t>(figures_.units_up_max, manager_.units_up());
  } else {
    manager_.on_stopped(now_, std::get<UnitStopped>(message).unit, commands_);
  }
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
  for (size_t why = 0; why < static_cast<size_t>(LeaseRefusal::kCount); ++why) {
    figures.refused += manager_.refused(static_cast<LeaseRefusal>(why));
  }
}

}  // namespace snf
