// SPDX-License-Identifier: Apache-2.0
#include "controller/leases/lease_keeper.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace snf {
namespace {

constexpr int64_t kMaxCapacity = int64_t{1} << 40;
constexpr int64_t kMaxLoad = int64_t{1} << 50;

}  // namespace

LeaseKeeper::LeaseKeeper(const LeaseKeeperOptions& options, ControllerLife life)
    : options_(options), life_(life) {
  SNF_CHECK(options.unit_capacity_bps > 0 &&
            options.unit_capacity_bps <= kMaxCapacity);
  SNF_CHECK(options.max_units <= kMaxUnits && options.headroom <= kWholeUnit);
  SNF_CHECK(options.epoch.ns > 0 && options.term.ns > 0);
}

void LeaseKeeper::AddLoad(Instant now) {
  epoch_load_ += Wide{static_cast<uint64_t>(load_bps_)} *
                 static_cast<uint64_t>((now - load_until_).ns);
  load_until_ = now;
}

int64_t LeaseKeeper::SharesFor(int64_t load_bps, int64_t headroom) const {
  // Whole units and the rest of one are counted apart, so nothing overflows.
  const int64_t with_room = load_bps + load_bps / kWholeUnit * headroom;
  const int64_t unit = options_.unit_capacity_bps;
  const int64_t part = (with_room % unit * kWholeUnit + unit - 1) / unit;
  int64_t shares = with_room / unit * kWholeUnit + part;
  if (options_.whole_units) {
    shares = (shares + kWholeUnit - 1) / kWholeUnit * kWholeUnit;
  }
  return std::min(shares, int64_t{options_.max_units} * kWholeUnit);
}

void LeaseKeeper::AskFor(int64_t shares, LeaseCommands& out) {
  wanted_ = shares;
  Reclaim();
  out.push_back(Ask{life_, ++asks_, shares});
}

void LeaseKeeper::on_load(Instant now, int64_t load_bps, LeaseCommands& out) {
  AddLoad(now);
  load_bps_ = std::clamp<int64_t>(load_bps, 0, kMaxLoad);
  if (SharesFor(load_bps_, options_.headroom / 2) <= wanted_) return;
  AskFor(SharesFor(load_bps_, options_.headroom), out);
}

void LeaseKeeper::on_epoch(Instant now, LeaseCommands& out) {
  AddLoad(now);
  const auto lasted = static_cast<uint64_t>((now - epoch_begin_).ns);
  const auto mean =
      static_cast<int64_t>(lasted == 0 ? 0 : epoch_load_ / lasted);
  epoch_load_ = 0;
  epoch_begin_ = now;
  AskFor(SharesFor(std::max(mean, load_bps_), options_.headroom), out);
  VacateAbove(wanted_, out);
  const bool is_new = std::exchange(has_to_say_again_, false);
  if (is_new || now >= next_renewal_) RenewAll(now, out);
}

void LeaseKeeper::VacateAbove(int64_t shares, LeaseCommands& out) {
  while (held_ > shares) {
    const auto [share, lease] = *by_share_.begin();
    Vacate(leases_.find(lease), std::max(int64_t{0}, share - (held_ - shares)),
           out);
  }
}

// The resource manager counts it as held.
void LeaseKeeper::Reclaim() {
  for (auto at = leases_.begin(); at != leases_.end() && held_ < wanted_;
       ++at) {
    const Held& held = at->second;
    if (held.share >= held.granted || held.is_revoked) continue;
    Resize(at, std::min(held.granted, held.share + wanted_ - held_));
  }
}

void LeaseKeeper::Vacate(Leases::iterator at, int64_t keep,
                         LeaseCommands& out) {
  Resize(at, keep);
  out.push_back(VacateLease{at->first, at->second.unit, keep});
}

void LeaseKeeper::Resize(Leases::iterator at, int64_t share) {
  Held& held = at->second;
  if (held.share > 0) by_share_.erase({held.share, at->first});
  if (share > 0) by_share_.insert({share, at->first});
  held_ += share - held.share;
  units_[value(held.unit)].share += share - held.share;
  held.share = share;
}

// The lease needs no number of a unit any more.
void LeaseKeeper::LeaveUnit(Leases::iterator at) {
  Held& held = at->second;
  if (held.unit == kNoUnit) return;
  Resize(at, 0);
  --units_[value(held.unit)].leases;
  held.unit = kNoUnit;
}

void LeaseKeeper::Forget(Leases::iterator at) {
  LeaveUnit(at);
  leases_.erase(at);
}

void LeaseKeeper::RenewAll(Instant now, LeaseCommands& out) {
  next_renewal_ = now + Nanos{options_.term.ns / 2};
  for (auto at = leases_.begin(); at != leases_.end();) {
    const auto lease = at++;
    const Held& held = lease->second;
    if (held.granted > 0) {
      if (held.is_cut) {
        out.push_back(GiveBack{life_, lease->first, held.granted});
      }
      out.push_back(Renew{life_, lease->first, held.sequence});
    } else if (now - held.given_back > options_.round_trip) {
      Forget(lease);
    }
  }
}

bool LeaseKeeper::IsOld(uint64_t manager_epoch) {
  if (manager_epoch < manager_epoch_) return true;
  has_to_say_again_ |= manager_epoch_ > 0 && manager_epoch > manager_epoch_;
  manager_epoch_ = manager_epoch;
  return false;
}

void LeaseKeeper::SayAgain(Instant now, LeaseCommands& out) {
  has_to_say_again_ = false;
  AskFor(wanted_, out);
  RenewAll(now, out);
}

void LeaseKeeper::on_new_manager(Instant now, const NewManager& manager,
                                 LeaseCommands& out) {
  if (IsOld(manager.manager_epoch)) return Refuse();
  if (has_to_say_again_) SayAgain(now, out);
}

void LeaseKeeper::Succeed(Instant now, ControllerLife life,
                          LeaseCommands& out) {
  life_ = life;
  asks_ = 0;
  SayAgain(now, out);
}

void LeaseKeeper::GiveUp(UnitId unit, LeaseCommands& out) {
  for (auto at = leases_.begin(); at != leases_.end(); ++at) {
    if (at->second.unit == unit && at->second.share > 0) Vacate(at, 0, out);
  }
}

UnitId LeaseKeeper::FindUnit(UnitLife life) {
  size_t free = units_.size();
  for (size_t u = units_.size(); u-- > 0;) {
    if (units_[u].leases == 0) {
      free = u;
    } else if (units_[u].life == life) {
      return UnitId{static_cast<uint16_t>(u)};
    }
  }
  if (free == options_.max_units) return kNoUnit;
  if (free == units_.size()) units_.emplace_back();
  units_[free] = {.life = life};
  return UnitId{static_cast<uint16_t>(free)};
}

void LeaseKeeper::on_grant(const Grant& grant, LeaseCommands& out) {
  if (grant.to != life_ || IsOld(grant.manager_epoch) || grant.share <= 0 ||
      grant.share > kWholeUnit) {
    return Refuse();
  }
  auto at = leases_.find(grant.lease);
  if (at == leases_.end()) {
    const UnitId unit = FindUnit(grant.unit);
    if (unit == kNoUnit) {
      Refuse();
      out.push_back(GiveBack{life_, grant.lease, 0});
      return;
    }
    at = leases_.emplace(grant.lease, Held{.unit = unit}).first;
    ++units_[value(unit)].leases;
  } else if (at->second.granted == 0 || grant.sequence < at->second.sequence) {
    return Refuse();  // it was given back meanwhile, or this one is late
  }
  Held& held = at->second;
  held.sequence = grant.sequence;
  // That was sent before the cut was heard of.
  if (held.is_cut && grant.share > held.granted) return;
  held.is_cut = false;
  // What an earlier resource manager revoked, this one knows nothing of.
  const bool is_void = held.is_revoked && held.revoker < grant.manager_epoch;
  const bool is_vacating = held.share < held.granted && !is_void;
  held.granted = grant.share;
  if (!is_vacating || grant.share < held.share) Resize(at, grant.share);
  held.is_revoked &= held.share < held.granted;
}

void LeaseKeeper::on_revoke(const Revoke& revoke, LeaseCommands& out) {
  const auto at = leases_.find(revoke.lease);
  if (revoke.to != life_ || IsOld(revoke.manager_epoch) ||
      at == leases_.end() || revoke.keep < 0) {
    return Refuse();
  }
  if (at->second.share <= revoke.keep) return;
  at->second.is_revoked = true;
  at->second.revoker = revoke.manager_epoch;
  Vacate(at, revoke.keep, out);
  Reclaim();
}

void LeaseKeeper::on_gone(const Gone& gone) {
  const auto at = leases_.find(gone.lease);
  if (gone.to != life_ || IsOld(gone.manager_epoch) || at == leases_.end()) {
    return Refuse();
  }
  Forget(at);
  Reclaim();
}

void LeaseKeeper::on_vacated(Instant now, LeaseId lease, LeaseCommands& out) {
  const auto at = leases_.find(lease);
  // The lease may be gone, or have been vacated twice.
  if (at == leases_.end() || at->second.share >= at->second.granted) return;
  at->second.granted = at->second.share;
  at->second.is_cut = at->second.share > 0;
  at->second.given_back = now;
  at->second.is_revoked = false;
  out.push_back(GiveBack{life_, lease, at->second.share});
  if (at->second.granted == 0) LeaveUnit(at);
}

}  // namespace snf
