// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_cluster/shared_units.h"

#include <algorithm>
#include <utility>

namespace snf {

void SharedUnits::Handle(const ToUnit& message) {
  if (const auto* start = std::get_if<StartUnit>(&message)) {
    if (!hosts_.Start(*start)) {
      refused_ += start->is_repeated ? 0 : 1;
      return;
    }
    SharedUnit& unit = *hosts_.Ready(start->unit);
    // Those that have not left the life before.
    for (Inbox& inbox : inboxes_) {
      const auto id = static_cast<uint16_t>(value(start->unit.unit));
      unit.SetAttached(inbox.controller(), inbox.uses_[id]);
    }
    answers_.emplace_back(UnitReady{start->unit});
  } else if (const auto* stop = std::get_if<StopUnit>(&message)) {
    if (hosts_.Stop(*stop)) {
      SayIfStopped(stop->unit);
    } else {
      ++refused_;
    }
  } else if (const auto* ask = std::get_if<AskReport>(&message)) {
    if (auto report = hosts_.Ask(*ask); report.has_value()) {
      answers_.emplace_back(*std::move(report));
    } else {
      ++refused_;
    }
  } else if (const auto* leases = std::get_if<AskLeases>(&message)) {
    leases->answer_to->Put(LeasesOf(leases->controller));
  } else {
    Set(std::get<SetShare>(message));
  }
}

void SharedUnits::Set(const SetShare& set) {
  const auto too_much = [&] {
    SharedUnit* const unit = hosts_.Find(set.to);
    if (unit == nullptr) return uint64_t{0};
    return unit->leases().refused(UnitLeases::Refusal::kTooMuch);
  };
  const uint64_t before = too_much();
  std::vector<ShareSet> answers;
  refused_ += hosts_.SetShare(set, answers) ? 0 : 1;
  overpromised_ += too_much() - before;
  Answer(answers);
}

HeldLeases SharedUnits::LeasesOf(ControllerId controller) {
  HeldLeases held;
  hosts_.ForEach([&](SharedUnit& unit) {
    for (const ReportedLease& lease : unit.leases().Report()) {
      if (lease.holder.controller != controller) continue;
      held.push_back({.unit = unit.leases().life(), .lease = lease});
    }
  });
  return held;
}

void SharedUnits::Answer(const std::vector<ShareSet>& answers) {
  answers_.insert(answers_.end(), answers.begin(), answers.end());
}

void SharedUnits::SayIfStopped(UnitLife life) {
  if (hosts_.HasStopped(life)) answers_.emplace_back(UnitStopped{life});
}

std::vector<ToManager> SharedUnits::TakeAnswers() {
  return std::exchange(answers_, {});
}

SharedUnits::Inbox& SharedUnits::InboxOf(ControllerId controller) {
  const auto at = std::ranges::find(inboxes_, controller, &Inbox::controller);
  if (at != inboxes_.end()) return *at;
  return inboxes_.emplace_back(*this, controller);
}

UnitTurns& SharedUnits::TurnsOf(ControllerId controller) {
  return InboxOf(controller);
}

void SharedUnits::Leave(ControllerId controller) {
  Inbox& inbox = InboxOf(controller);
  for (uint32_t u = 0; u < kMaxUnits; ++u) {
    const UnitId unit{static_cast<uint16_t>(u)};
    if (!inbox.uses_[u]) continue;
    inbox.on_empty(unit);
    inbox.on_drained(unit);
    inbox.on_stopped(unit);
  }
}

// --- What a loop asks. -------------------------------------------------------

void SharedUnits::Inbox::on_start(UnitId unit) {
  uses_[value(unit)] = true;
  if (SharedUnit* const at = Find(unit)) at->SetAttached(controller_, true);
}

void SharedUnits::Inbox::on_drained(UnitId unit) {
  SharedUnit* const at = Find(unit);
  if (at == nullptr) return;
  at->SetDrained(controller_);
  std::vector<ShareSet> answers;
  at->leases().on_unused(controller_, answers);
  units_.Answer(answers);
}

void SharedUnits::Inbox::on_stopped(UnitId unit) {
  uses_[value(unit)] = false;
  SharedUnit* const at = Find(unit);
  if (at == nullptr) return;
  at->SetAttached(controller_, false);
  if (at->is_to_stop) units_.SayIfStopped(at->leases().life());
}

void SharedUnits::Inbox::on_next(UnitId unit, uint32_t cost) {
  if (SharedUnit* const at = Find(unit))
    at->leases().on_next(controller_, cost);
}

void SharedUnits::Inbox::on_empty(UnitId unit) {
  SharedUnit* const at = Find(unit);
  if (at == nullptr) return;
  at->leases().on_empty(controller_);
  if (at->serves == controller_) at->serves.reset();
}

bool SharedUnits::Inbox::Begin(UnitId unit) {
  SharedUnit* const at = Find(unit);
  if (at == nullptr) return true;
  if (!at->serves.has_value()) at->serves = at->leases().Next();
  return at->serves == controller_;
}

void SharedUnits::Inbox::on_served(UnitId unit, Instant end) {
  SharedUnit* const at = Find(unit);
  if (at == nullptr) return;
  at->last_end = end;
  at->serves.reset();
}

Instant SharedUnits::Inbox::last_end(UnitId unit) const {
  const SharedUnit* const at = Find(unit);
  return at == nullptr ? Instant::min() : at->last_end;
}

}  // namespace snf
