// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/lease_desk.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "platform/drivers/cluster/cluster_figures.h"
#include "runtime/ring/real_clock.h"

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
    manager_.NoteRecovery(now_);
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
  // A dead manager dies no second time.
  const bool dies = manager_.Kill(now_);
  deaths_in_vain_ += dead - (dies ? 1 : 0);
  if (dies) succession_ = now_ + detection_;
}

void LeaseDesk::Handle(const ToManager& message) {
  if (const auto* death = std::get_if<ManagerDeath>(&message)) {
    deaths_.push_back(death->at);
  } else {
    manager_.Handle(now_, message, commands_);
  }
}

void LeaseDesk::SendCommands() {
  for (const ManagerCommand& command : commands_) Send(command);
  commands_.clear();
}

void LeaseDesk::Send(const ManagerCommand& command) {
  manager_.on_delivered(command);
  Dispatch(
      command,
      [this](GlobalUnitId unit, const auto& message) {
        units_[value(unit) % units_.size()]->Put(message);
      },
      [this](ControllerId controller, const auto& message) {
        controllers_[value(controller)]->Put(message);
      },
      [this](const NewManager& next) {
        for (ControllerMail* const each : controllers_) each->Put(next);
      });
}

void LeaseDesk::AddFigures(ClusterFigures& figures) const {
  AddCounters(manager_.counters(), figures);
  figures.changes_in_vain += deaths_in_vain_;
}

}  // namespace snf
