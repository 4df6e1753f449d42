// SPDX-License-Identifier: Apache-2.0
#include "runtime/leases/held_units.h"

#include <utility>

namespace snf {

HeldUnits::Part* HeldUnits::Find(GlobalUnitId unit, uint64_t manager_epoch) {
  if (value(unit) >= units_.size() || manager_epoch < manager_epoch_) {
    ++refused_;
    return nullptr;
  }
  manager_epoch_ = manager_epoch;
  return &units_[value(unit)];
}

void HeldUnits::Answer(std::vector<ShareSet> answers) {
  answers_.insert(answers_.end(), answers.begin(), answers.end());
}

void HeldUnits::on_set_share(const SetShare& set) {
  Part* const part = Find(set.to.unit, set.manager_epoch);
  if (part == nullptr) return;
  std::optional<UnitLeases>& leases = part->leases;
  const bool is_other = leases.has_value() && leases->life() != set.to;
  // Another life of the unit begins where nothing of the one before is left.
  if (is_other && (leases->life().incarnation > set.to.incarnation ||
                   leases->leases() > 0 || uses_(set.to.unit))) {
    ++refused_;
    return;
  }
  if (is_other || !leases.has_value()) leases.emplace(set.to);
  std::vector<ShareSet> answers;
  const auto why = leases->on_set_share(set, uses_(set.to.unit), answers);
  refused_ += why == UnitLeases::Refusal::kNone ? 0 : 1;
  Answer(std::move(answers));
}

void HeldUnits::on_ask_report(const AskReport& ask) {
  Part* const part = Find(ask.unit, ask.manager_epoch);
  if (part == nullptr) return;
  part->stops.reset();
  UnitLeaseReport report = {.unit = {.unit = {ask.unit, 0},
                                     .manager_epoch = ask.manager_epoch,
                                     .is_dead = true}};
  if (part->leases.has_value() && part->leases->leases() > 0) {
    report.unit.unit = part->leases->life();
    report.unit.is_dead = false;
    report.leases = *part->leases->on_ask_report(ask.manager_epoch);
  }
  answers_.emplace_back(std::move(report));
}

void HeldUnits::on_stop_unit(const StopUnit& stop) {
  Part* const part = Find(stop.unit.unit, stop.manager_epoch);
  if (part == nullptr) return;
  part->stops = stop.unit;
  StopIfLeft(*part);
}

std::vector<LeaseId> HeldUnits::EndAll() {
  std::vector<LeaseId> ended;
  for (Part& part : units_) {
    if (part.leases.has_value()) {
      for (const ReportedLease& lease : part.leases->Report()) {
        ended.push_back(lease.lease);
      }
    }
    part = {};
  }
  answers_.clear();
  return ended;
}

void HeldUnits::on_left() {
  for (Part& part : units_) {
    if (part.stops.has_value()) StopIfLeft(part);
    if (!part.leases.has_value() || part.leases->leases() == 0) continue;
    if (uses_(part.leases->life().unit)) continue;
    std::vector<ShareSet> answers;
    for (const ReportedLease& lease : part.leases->Report()) {
      part.leases->on_unused(lease.lease, answers);
    }
    Answer(std::move(answers));
  }
}

// Leases that its manager does not know end with it.
void HeldUnits::StopIfLeft(Part& part) {
  if (uses_(part.stops->unit)) return;
  part.leases.reset();
  answers_.emplace_back(UnitStopped{*std::exchange(part.stops, {})});
}

std::vector<ToManager> HeldUnits::TakeAnswers() {
  return std::exchange(answers_, {});
}

}  // namespace snf
