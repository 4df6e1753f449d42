// SPDX-License-Identifier: Apache-2.0
#include "platform/real_cluster/shard_leases.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "base/check.h"
#include "platform/process/real_clock.h"

namespace snf {
namespace {

LeaseKeeperOptions KeeperOptions(const RunOptions& options,
                                 const ClusterOptions& cluster) {
  return {.unit_capacity_bps = options.controller.unit_capacity_bps,
          .max_units = options.controller.max_units,
          .headroom =
              cluster.fixed_shares.empty() ? LeaseKeeperOptions().headroom : 0,
          .epoch = cluster.epoch,
          .term = cluster.term,
          // Threads and processes may stand still for some time.
          .round_trip = Seconds(1)};
}

}  // namespace

ShardLeases::ShardLeases(const RunOptions& options,
                         const ClusterOptions& cluster, ControllerLife life,
                         ManagerMail& manager, std::vector<UnitMail*> units)
    : least_bps_(options.controller.unit_capacity_bps *
                 (cluster.fixed_shares.empty()
                      ? cluster.least_share
                      : cluster.fixed_shares[value(life.controller)]) /
                 kWholeUnit),
      keeper_options_(KeeperOptions(options, cluster)),
      life_(life),
      keeper_(keeper_options_, life),
      manager_(manager),
      unit_mail_(std::move(units)),
      units_(options.controller.max_units) {}

bool ShardLeases::Poll() {
  if (!driver_->has_controller()) return false;
  const Instant now = RealClock::Monotonic();
  bool did = false;
  bool at_once = false;
  for (const ToController& message : mail_.Take()) {
    Handle(now, message, at_once);
    did = true;
  }
  for (const UnitId unit : driver_->TakeLeft()) {
    OnLeft(now, unit);
    did = true;
  }
  if (now >= next_sample_) Sample(now);
  if (now >= keeper_.next_wakeup()) {
    if (awaits_life_) AskForLife();
    FindFailed(now);
    keeper_.on_epoch(now, requests_);
    did = true;
  }
  if (did || !requests_.empty()) Execute(now, at_once);
  return did;
}

void ShardLeases::OnLeft(Instant now, UnitId unit) {
  for (const LeaseId lease : std::exchange(units_[value(unit)], {}).vacating) {
    keeper_.on_vacated(now, lease, requests_);
  }
}

// Of a unit whose process was killed, flows have gone on elsewhere. It is
// leased anew once the next process is there.
void ShardLeases::FindFailed(Instant now) {
  for (uint16_t u = 0; u < units_.size(); ++u) {
    if (units_[u].is_used && driver_->controller().units().state(UnitId{u}) ==
                                 UnitPool::State::kStopped) {
      OnLeft(now, UnitId{u});
    }
  }
}

// --- A controller that takes the place of one that failed. ---

void ShardLeases::on_failure() {
  reported_.clear();
  awaited_ = unit_mail_.size();
  for (UnitMail* const thread : unit_mail_) {
    thread->Put(AskLeases{life_.controller, &mail_});
  }
}

bool ShardLeases::has_answers() {
  if (awaited_ == 0) return true;
  for (const ToController& message : mail_.Take()) {
    const auto* held = std::get_if<HeldLeases>(&message);
    if (held == nullptr) continue;
    --awaited_;
    reported_.insert(reported_.end(), held->begin(), held->end());
  }
  return awaited_ == 0;
}

void ShardLeases::on_successor() {
  const Instant now = RealClock::Monotonic();
  keeper_ = LeaseKeeper(keeper_options_, life_);
  requests_.clear();
  std::ranges::fill(units_, Used{});
  for (const HeldLease& held : std::exchange(reported_, {})) Adopt(held);
  for (uint16_t u = 0; u < units_.size(); ++u) {
    units_[u].is_used = driver_->controller().units().state(UnitId{u}) !=
                        UnitPool::State::kStopped;
    if (!units_[u].is_used || ShareByLeases(units_[u].life) > 0) continue;
    // It has flows there, and no lease: they move away.
    SNF_CHECK(driver_->Lease(UnitId{u}, 1));
    driver_->Revoke(UnitId{u}, false);
  }
  AskForLife();
  keeper_.on_load(now, least_bps_, requests_);
  Execute(now, false);
}

void ShardLeases::Adopt(const HeldLease& held) {
  const ReportedLease& lease = held.lease;
  if (lease.target == 0 || value(held.unit.unit) >= units_.size()) return;
  keeper_.on_grant({.to = life_,
                    .lease = lease.lease,
                    .unit = held.unit,
                    .share = lease.target,
                    .sequence = lease.sequence},
                   requests_);
  units_[value(held.unit.unit)].life = held.unit;
}

void ShardLeases::AskForLife() {
  awaits_life_ = true;
  manager_.Put(AskLife{life_.controller});
}

void ShardLeases::Sample(Instant now) {
  const uint64_t bytes =
      std::accumulate(sampled_.begin(), sampled_.end(), uint64_t{0});
  sample_ = (sample_ + 1) % kSamples;
  sampled_[sample_] = 0;
  next_sample_ = now + kSample;
  constexpr int64_t kPerSecond =
      1'000'000'000 / (kSample.ns * static_cast<int64_t>(kSamples));
  const int64_t load = static_cast<int64_t>(bytes) * 8 * kPerSecond;
  keeper_.on_load(now, std::max(load, least_bps_), requests_);
}

void ShardLeases::Handle(Instant now, const ToController& message,
                         bool& at_once) {
  if (const auto* grant = std::get_if<Grant>(&message)) {
    ++grants_;
    keeper_.on_grant(*grant, requests_);
  } else if (const auto* revoke = std::get_if<Revoke>(&message)) {
    keeper_.on_revoke(*revoke, requests_);
  } else if (const auto* gone = std::get_if<Gone>(&message)) {
    keeper_.on_gone(*gone);
    for (Used& unit : units_) std::erase(unit.vacating, gone->lease);
    at_once = true;
  } else if (const auto* next = std::get_if<NewManager>(&message)) {
    keeper_.on_new_manager(now, *next, requests_);
  } else if (const auto* given = std::get_if<NewLife>(&message)) {
    awaits_life_ = false;
    life_ = given->life;
    keeper_.Succeed(now, life_, requests_);
  }
  share_max_ = std::max(share_max_, keeper_.held());
}

void ShardLeases::Execute(Instant now, bool at_once) {
  while (true) {
    for (const LeaseCommand& request : std::exchange(requests_, {})) {
      if (const auto* vacate = std::get_if<VacateLease>(&request)) {
        const UnitLife life = keeper_.life(vacate->unit);
        Used& unit = units_[value(life.unit)];
        if (unit.is_used && unit.life == life && ShareByLeases(life) == 0) {
          unit.vacating.push_back(vacate->lease);
        } else {
          // It was cut, or not used yet: nothing has to move.
          keeper_.on_vacated(now, vacate->lease, requests_);
        }
        continue;
      }
      std::visit(
          [this](const auto& what) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(what)>,
                                          VacateLease>) {
              // Nobody would take it from one without a life of its own.
              if (!awaits_life_) manager_.Put(what);
            }
          },
          request);
    }
    SetShares(now, at_once);
    if (requests_.empty()) return;
  }
}

int64_t ShardLeases::ShareByLeases(UnitLife life) const {
  int64_t sum = 0;
  for (uint16_t u = 0; u < keeper_.units(); ++u) {
    if (keeper_.life(UnitId{u}) == life) sum += keeper_.share(UnitId{u});
  }
  return std::min(sum, kWholeUnit);
}

void ShardLeases::SetShares(Instant now, bool at_once) {
  for (uint16_t u = 0; u < keeper_.units(); ++u) {
    if (keeper_.share(UnitId{u}) == 0) continue;
    const UnitLife life = keeper_.life(UnitId{u});
    Used& unit = units_[value(life.unit)];
    // Another life of it is the same loop: what is in it stays.
    unit.life = life;
    unit.is_used = true;
  }
  bool has_unit = false;
  for (uint16_t u = 0; u < units_.size(); ++u) {
    if (!units_[u].is_used) continue;
    SetShare(now, u, ShareByLeases(units_[u].life), at_once);
    has_unit |= units_[u].share > 0;
  }
  has_unit_.store(has_unit, std::memory_order_release);
}

void ShardLeases::SetShare(Instant now, uint16_t unit, int64_t share,
                           bool at_once) {
  Used& used = units_[unit];
  if (share == 0) {
    // Without a lease that is to be given back, the unit's time is over.
    const bool is_over = at_once && used.vacating.empty();
    if (used.share > 0 || is_over) driver_->Revoke(UnitId{unit}, is_over);
  } else if (share != used.share) {
    // While a process of it fails, it is tried again each epoch.
    if (!driver_->Lease(UnitId{unit}, static_cast<uint32_t>(share))) return;
    // It stays: what was to be given back is so at once.
    for (const LeaseId lease : std::exchange(used.vacating, {})) {
      keeper_.on_vacated(now, lease, requests_);
    }
  }
  used.share = share;
}

}  // namespace snf
