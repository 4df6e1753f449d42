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
          .term = cluster.term};
}

}  // namespace

ShardLeases::ShardLeases(const RunOptions& options,
                         const ClusterOptions& cluster, ControllerLife life,
                         ManagerMail& manager)
    : least_bps_(options.controller.unit_capacity_bps *
                 (cluster.fixed_shares.empty()
                      ? cluster.least_share
                      : cluster.fixed_shares[value(life.controller)]) /
                 kWholeUnit),
      keeper_(KeeperOptions(options, cluster), life),
      manager_(manager),
      units_(options.controller.max_units) {}

bool ShardLeases::Poll(RealDriver& driver) {
  const Instant now = RealClock::Monotonic();
  bool did = false;
  bool at_once = false;
  for (const ToController& message : mail_.Take()) {
    Handle(message, at_once);
    did = true;
  }
  for (const UnitId unit : driver.TakeLeft()) {
    Used& left = units_[value(unit)];
    for (const LeaseId lease : left.vacating) {
      keeper_.on_vacated(now, lease, requests_);
    }
    left = {};
    did = true;
  }
  if (now >= next_sample_) Sample(now);
  if (now >= keeper_.next_wakeup()) keeper_.on_epoch(now, requests_);
  if (did || !requests_.empty()) Execute(now, driver, at_once);
  return did;
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

void ShardLeases::Handle(const ToController& message, bool& at_once) {
  if (const auto* grant = std::get_if<Grant>(&message)) {
    ++grants_;
    keeper_.on_grant(*grant, requests_);
  } else if (const auto* revoke = std::get_if<Revoke>(&message)) {
    keeper_.on_revoke(*revoke, requests_);
  } else if (const auto* gone = std::get_if<Gone>(&message)) {
    keeper_.on_gone(*gone);
    for (Used& unit : units_) std::erase(unit.vacating, gone->lease);
    at_once = true;
  } else {
    keeper_.on_new_manager(RealClock::Monotonic(),
                           std::get<NewManager>(message), requests_);
  }
  share_max_ = std::max(share_max_, keeper_.held());
}

void ShardLeases::Execute(Instant now, RealDriver& driver, bool at_once) {
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
              manager_.Put(what);
            }
          },
          request);
    }
    SetShares(now, driver, at_once);
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

void ShardLeases::SetShares(Instant now, RealDriver& driver, bool at_once) {
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
    SetShare(now, driver, u, ShareByLeases(units_[u].life), at_once);
    has_unit |= units_[u].share > 0;
  }
  has_unit_.store(has_unit, std::memory_order_release);
}

void ShardLeases::SetShare(Instant now, RealDriver& driver, uint16_t unit,
                           int64_t share, bool at_once) {
  Used& used = units_[unit];
  if (share == 0) {
    // Without a lease that is to be given back, the unit's time is over.
    const bool is_over = at_once && used.vacating.empty();
    if (used.share > 0 || is_over) driver.Revoke(UnitId{unit}, is_over);
  } else if (share != used.share) {
    SNF_CHECK(driver.Lease(UnitId{unit}, static_cast<uint32_t>(share)));
    // It stays: what was to be given back is so at once.
    for (const LeaseId lease : std::exchange(used.vacating, {})) {
      keeper_.on_vacated(now, lease, requests_);
    }
  }
  used.share = share;
}

}  // namespace snf
