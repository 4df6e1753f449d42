// SPDX-License-Identifier: Apache-2.0
#include "controller/leases/lease_user.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

namespace snf {

LeaseUser::LeaseUser(const LeaseUserOptions& options, ControllerLife life)
    : options_(options),
      life_(life),
      keeper_(options.keeper, life),
      units_(options.keeper.max_units) {}

// --- Load. -------------------------------------------------------------------

int64_t LeaseUser::EndSample() {
  const uint64_t bytes =
      std::accumulate(sampled_.begin(), sampled_.end(), uint64_t{0});
  sample_ = (sample_ + 1) % kSamples;
  sampled_[sample_] = 0;
  constexpr int64_t kPerSecond =
      1'000'000'000 / (kSample.ns * static_cast<int64_t>(kSamples));
  return static_cast<int64_t>(bytes) * 8 * kPerSecond;
}

void LeaseUser::on_load(Instant now, int64_t load_bps) {
  const int64_t least = is_leaving_ ? 0 : options_.least_bps;
  const bool counts = !is_leaving_ && !options_.is_fixed;
  keeper_.on_load(now, counts ? std::max(load_bps, least) : least, requests_);
}

void LeaseUser::LeaveAll(Instant now) {
  is_leaving_ = true;
  on_load(now, 0);
}

// --- Time, and messages of the resource manager. -----------------------------

void LeaseUser::on_epoch(Instant now) {
  asks_life_ = awaits_life_;
  keeper_.on_epoch(now, requests_);
  has_changed_ = true;
}

void LeaseUser::Handle(Instant now, const ToController& message) {
  has_changed_ = true;
  if (const auto* grant = std::get_if<Grant>(&message)) {
    newest_ = std::max(newest_, grant->lease);
    keeper_.on_grant(*grant, requests_);
  } else if (const auto* revoke = std::get_if<Revoke>(&message)) {
    keeper_.on_revoke(*revoke, requests_);
  } else if (const auto* gone = std::get_if<Gone>(&message)) {
    keeper_.on_gone(*gone);
    for (Unit& unit : units_) std::erase(unit.vacating, gone->lease);
    has_lost_lease_ = true;
  } else if (const auto* next = std::get_if<NewManager>(&message)) {
    keeper_.on_new_manager(now, *next, requests_);
  } else if (const auto* given = std::get_if<NewLife>(&message)) {
    awaits_life_ = asks_life_ = false;
    life_ = given->life;
    keeper_.Succeed(now, life_, requests_);
  }
}

// --- Answers of the driver. --------------------------------------------------

void LeaseUser::on_left(Instant now, UnitId unit) {
  for (const LeaseId lease : std::exchange(units_[value(unit)], {}).vacating) {
    keeper_.on_vacated(now, lease, requests_);
  }
  has_changed_ = true;
}

void LeaseUser::on_no_unit(UnitId unit) {
  GiveUp(std::exchange(units_[value(unit)], {}).life);
}

void LeaseUser::on_not_leased(UnitId unit) { units_[value(unit)].share = 0; }

void LeaseUser::on_successor(Instant now, std::optional<ControllerLife> life,
                             std::span<const HeldLease> held,
                             absl::FunctionRef<bool(UnitId)> is_there) {
  awaits_life_ = asks_life_ = !life.has_value();
  life_ = life.value_or(life_);
  refused_ += keeper_.refused();
  keeper_ = LeaseKeeper(options_.keeper, life_);
  requests_.clear();
  commands_.clear();
  has_changed_ = true;
  for (Unit& unit : units_) unit.vacating.clear();
  for (const HeldLease& each : held) Adopt(each);
  for (uint16_t u = 0; u < units_.size(); ++u) {
    Unit& unit = units_[u];
    unit.share = ShareByLeases(unit.life);
    unit.is_used = unit.share > 0 || is_there(UnitId{u});
    if (!unit.is_used) {
      unit = {};
      continue;
    }
    commands_.emplace_back(
        LeaseUnit{UnitId{u}, unit.life, std::max(unit.share, int64_t{1})});
    // Flows in a unit without a lease move away.
    if (unit.share == 0) commands_.emplace_back(RevokeUnit{UnitId{u}, false});
  }
  on_load(now, 0);
}

void LeaseUser::Adopt(const HeldLease& held) {
  const ReportedLease& lease = held.lease;
  if (lease.target == 0 || Take(held.unit) == nullptr) return;
  newest_ = std::max(newest_, lease.lease);
  keeper_.on_grant({.to = life_,
                    .lease = lease.lease,
                    .unit = held.unit,
                    .share = lease.target,
                    .sequence = lease.sequence},
                   requests_);
}

// --- Commands. ---------------------------------------------------------------

LeaseUserCommands LeaseUser::Settle(Instant now) {
  const bool at_once = std::exchange(has_lost_lease_, false);
  if (std::exchange(asks_life_, false)) {
    commands_.emplace_back(AskLife{life_.controller});
  }
  while (std::exchange(has_changed_, false) || !requests_.empty()) {
    for (const LeaseCommand& request : std::exchange(requests_, {})) {
      Execute(now, request);
    }
    NumberUnits();
    for (uint16_t u = 0; u < units_.size(); ++u) {
      if (units_[u].is_used) SetShare(now, UnitId{u}, at_once);
    }
  }
  return std::exchange(commands_, {});
}

void LeaseUser::Execute(Instant now, const LeaseCommand& request) {
  const auto send = [this](const auto& message) {
    using Message = std::decay_t<decltype(message)>;
    if constexpr (!std::is_same_v<Message, VacateLease>) {
      // The manager refuses a successor without a life of its own.
      if (!awaits_life_) commands_.emplace_back(message);
    }
  };
  const auto* const vacate = std::get_if<VacateLease>(&request);
  if (vacate == nullptr) return std::visit(send, request);
  const UnitLife life = keeper_.life(vacate->unit);
  const auto unit = Find(life);
  if (unit.has_value() && ShareByLeases(life) == 0) {
    units_[value(*unit)].vacating.push_back(vacate->lease);
  } else {
    // The lease was cut, or is not used yet: no flow has to move.
    keeper_.on_vacated(now, vacate->lease, requests_);
  }
}

void LeaseUser::NumberUnits() {
  for (uint16_t u = 0; u < keeper_.units(); ++u) {
    if (keeper_.share(UnitId{u}) == 0) continue;
    const UnitLife life = keeper_.life(UnitId{u});
    // A number may be free later, but a global one never is.
    if (Take(life) == nullptr && options_.has_global_numbers) GiveUp(life);
  }
}

LeaseUser::Unit* LeaseUser::Take(UnitLife life) {
  if (const auto known = Find(life)) return &units_[value(*known)];
  const auto at = options_.has_global_numbers
                      ? units_.begin() + std::min<ptrdiff_t>(value(life.unit),
                                                             std::ssize(units_))
                      : std::ranges::find(units_, false, &Unit::is_used);
  if (at == units_.end()) return nullptr;
  // Another life of a unit of that number has all that is in the unit.
  at->life = life;
  at->is_used = true;
  return &*at;
}

void LeaseUser::SetShare(Instant now, UnitId number, bool at_once) {
  Unit& unit = units_[value(number)];
  const int64_t share = ShareByLeases(unit.life);
  if (share > 0) unit.newest = newest_;
  if (share == 0) {
    // The last lease has ended, and none is to be given back.
    const bool is_over = at_once && unit.vacating.empty();
    if (unit.share > 0 || is_over) {
      commands_.emplace_back(RevokeUnit{number, is_over});
    }
  } else if (share != unit.share) {
    commands_.emplace_back(LeaseUnit{number, unit.life, share});
    // The unit stays: no flow has to leave it for these leases.
    for (const LeaseId lease : std::exchange(unit.vacating, {})) {
      keeper_.on_vacated(now, lease, requests_);
    }
  }
  unit.share = share;
}

int64_t LeaseUser::ShareByLeases(UnitLife life) const {
  int64_t sum = 0;
  for (uint16_t u = 0; u < keeper_.units(); ++u) {
    if (keeper_.life(UnitId{u}) == life) sum += keeper_.share(UnitId{u});
  }
  return std::min(sum, kWholeUnit);
}

void LeaseUser::GiveUp(UnitLife life) {
  for (uint16_t u = 0; u < keeper_.units(); ++u) {
    if (keeper_.life(UnitId{u}) == life) keeper_.GiveUp(UnitId{u}, requests_);
  }
}

// --- What the controller uses. -----------------------------------------------

std::optional<UnitId> LeaseUser::Find(UnitLife life) const {
  const auto at = std::ranges::find_if(units_, [life](const Unit& unit) {
    return unit.is_used && unit.life == life;
  });
  if (at == units_.end()) return std::nullopt;
  return UnitId{static_cast<uint16_t>(at - units_.begin())};
}

bool LeaseUser::uses_units() const {
  return std::ranges::any_of(units_, &Unit::is_used);
}

bool LeaseUser::has_share() const {
  return std::ranges::any_of(
      units_, [](const Unit& unit) { return unit.is_used && unit.share > 0; });
}

}  // namespace snf
