// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_cluster/cluster_member.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "base/check.h"
#include "platform/run/run_setup.h"

namespace snf {
namespace {

RunOptions OptionsOf(RunOptions options, ControllerId controller) {
  options.controller.controller_id = value(controller);
  options.controller.leased = true;
  if (options.faults.any_controller()) {
    // The cluster says when.
    Kill never;
    never.victim = Kill::Victim::kController;
    options.faults.kills = {never};
  } else {
    options.faults.kills.clear();
  }
  return options;
}

LeaseKeeperOptions KeeperOptions(const RunOptions& options,
                                 const ClusterOptions& cluster) {
  return {.unit_capacity_bps = options.controller.unit_capacity_bps,
          .max_units = options.controller.max_units,
          .headroom =
              cluster.fixed_shares.empty() ? LeaseKeeperOptions().headroom : 0,
          .whole_units = !cluster.shared,
          .epoch = cluster.epoch,
          .term = cluster.term,
          .round_trip = Nanos{4 * options.hop_delay.ns}};
}

}  // namespace

ClusterMember::ClusterMember(const RunOptions& options,
                             const ClusterOptions& cluster,
                             const PlacementPolicy& policy, const NfSpec& nf,
                             Observers observers, ControllerLife life,
                             Host& host)
    : host_(host),
      id_(life.controller),
      life_(life),
      unleased_since_(host.now()),
      is_fixed_(!cluster.fixed_shares.empty()),
      least_bps_(options.controller.unit_capacity_bps *
                 (is_fixed_ ? cluster.fixed_shares[value(life.controller)]
                            : cluster.least_share) /
                 kWholeUnit),
      keeper_options_(KeeperOptions(options, cluster)),
      keeper_(keeper_options_, life),
      locals_(options.controller.max_units),
      driver_(OptionsOf(options, life.controller), policy, nf,
              std::move(observers), this) {
  keeper_.on_load(host_.now(), least_bps_, requests_);
}

void ClusterMember::AddPiecePools(const NetworkFunction&,
                                  Controller& controller) {
  host_.pools().AddTo(controller, id_);
}

bool ClusterMember::on_returned(const PieceBlock& pieces) {
  if (host_.pools().owner(pieces.pool, pieces.word) == id_) return false;
  host_.on_returned(pieces);
  return true;
}

// --- Packets. ----------------------------------------------------------------

void ClusterMember::Take(Instant arrival, const CapturedPacket& captured,
                         const Ingress::Taken& taken, bool waits) {
  if (taken.fate == Ingress::Taken::Fate::kPacket) {
    sampled_[sample_] += driver_.controller().CostOf(captured.original_bytes);
  }
  driver_.Take(arrival, captured, taken, waits);
}

void ClusterMember::TakeBack(const FlowKey& alias, PacketHandle packet,
                             bool waits) {
  sampled_[sample_] +=
      driver_.controller().CostOf(buffers().info(packet).original_length);
  driver_.TakeBack(host_.now(), alias, packet, waits);
}

bool ClusterMember::Sample() {
  const uint64_t bytes =
      std::accumulate(sampled_.begin(), sampled_.end(), uint64_t{0});
  sample_ = (sample_ + 1) % kSamples;
  sampled_[sample_] = 0;
  constexpr int64_t kPerSecond =
      1'000'000'000 / (kSample.ns * static_cast<int64_t>(kSamples));
  const int64_t load =
      gives_up_units_ ? 0 : static_cast<int64_t>(bytes) * 8 * kPerSecond;
  if (!is_up()) return bytes > 0;
  keeper_.on_load(host_.now(),
                  is_fixed_ ? least_bps_ : std::max(load, least_bps_),
                  requests_);
  Execute(false);
  return bytes > 0;
}

// --- Leases. -----------------------------------------------------------------

// What comes while there is no controller is lost.
void ClusterMember::on_epoch() {
  if (!is_up()) return;
  TakeLife();
  keeper_.on_epoch(host_.now(), requests_);
  Execute(false);
}

void ClusterMember::on_grant(const Grant& grant) {
  if (!is_up()) return;
  newest_ = std::max(newest_, grant.lease);
  keeper_.on_grant(grant, requests_);
  Execute(false);
}

void ClusterMember::on_revoke(const Revoke& revoke) {
  if (!is_up()) return;
  keeper_.on_revoke(revoke, requests_);
  Execute(false);
}

void ClusterMember::on_gone(const Gone& gone) {
  if (!is_up()) return;
  keeper_.on_gone(gone);
  for (Local& local : locals_) std::erase(local.vacating, gone.lease);
  Execute(true);
}

void ClusterMember::on_new_manager(const NewManager& manager) {
  RestartWait();
  if (!is_up()) return;
  TakeLife();
  keeper_.on_new_manager(host_.now(), manager, requests_);
  Execute(false);
}

void ClusterMember::NoteHeld() {
  const bool had_units = std::exchange(has_units_, keeper_.held() > 0);
  if (had_units == has_units_) return;
  const Instant now = host_.now();
  if (had_units) {
    unleased_since_ = now;
  } else if (!is_waiting_over_) {
    unleased_max_ = std::max(unleased_max_, now - unleased_since_);
  }
}

void ClusterMember::EndWait(bool has_manager) {
  is_waiting_over_ = true;
  const bool asks = is_up() && !awaits_life_ && !gives_up_units_;
  if (!has_manager || has_units_ || !asks) return;
  unleased_max_ = std::max(unleased_max_, host_.now() - unleased_since_);
}

int64_t ClusterMember::share(UnitLife life) const {
  const Local* const local = Find(life);
  if (local == nullptr) return 0;
  if (is_up()) return local->share;
  return std::min(host_.FindUnit(id_, life)->leases().share(id_), kWholeUnit);
}

const ClusterMember::Local* ClusterMember::Find(UnitLife life) const {
  const auto at = std::ranges::find_if(locals_, [&](const Local& local) {
    return local.is_used && local.life == life;
  });
  return at == locals_.end() ? nullptr : &*at;
}

int64_t ClusterMember::ShareByLeases(UnitLife life) const {
  int64_t sum = 0;
  for (uint16_t u = 0; u < keeper_.units(); ++u) {
    if (keeper_.life(UnitId{u}) == life) sum += keeper_.share(UnitId{u});
  }
  return std::min(sum, kWholeUnit);
}

void ClusterMember::Execute(bool at_once) {
  LeaseCommands requests = std::exchange(requests_, {});
  for (const LeaseCommand& request : requests) {
    const auto* vacate = std::get_if<VacateLease>(&request);
    if (vacate == nullptr) {
      // Nobody would take it from one that has no life of its own yet.
      if (!awaits_life_) host_.Send(id_, request);
      continue;
    }
    Local* const local = Find(keeper_.life(vacate->unit));
    if (local != nullptr && ShareByLeases(local->life) == 0) {
      local->vacating.push_back(vacate->lease);
    } else {
      // It was cut, or not used yet: nothing has to move.
      keeper_.on_vacated(host_.now(), vacate->lease, requests_);
    }
  }
  SetShares(at_once);
  NoteHeld();
  if (!requests_.empty()) Execute(at_once);
}

void ClusterMember::SetShares(bool at_once) {
  AddLocals();
  for (Local& local : locals_) {
    if (local.is_used) SetShare(local, ShareByLeases(local.life), at_once);
  }
}

void ClusterMember::AddLocals() {
  for (uint16_t u = 0; u < keeper_.units(); ++u) {
    if (keeper_.share(UnitId{u}) == 0) continue;
    const UnitLife life = keeper_.life(UnitId{u});
    if (Find(life) != nullptr) continue;
    ClusterUnit* const shared = host_.FindUnit(id_, life);
    if (shared == nullptr) {
      // The grant was late: the unit has stopped since.
      keeper_.GiveUp(UnitId{u}, requests_);
      continue;
    }
    const auto unused = std::ranges::find(locals_, false, &Local::is_used);
    // One that is being left has its number for a while yet.
    if (unused == locals_.end()) return;
    *unused = {.is_used = true, .life = life};
    shared->Attach(id_, driver_, NumberOf(*unused));
  }
}

void ClusterMember::SetShare(Local& local, int64_t share, bool at_once) {
  const UnitId unit = NumberOf(local);
  if (share > 0) local.newest = newest_;
  if (share == 0) {
    // Without a lease that is to be given back, the unit's time is over.
    const bool now = at_once && local.vacating.empty();
    if (local.share > 0 || now) driver_.Revoke(host_.now(), unit, now);
  } else if (share != local.share) {
    SNF_CHECK(driver_.Lease(host_.now(), unit, static_cast<uint32_t>(share)));
    // It stays: what was to be given back is so at once.
    for (const LeaseId lease : std::exchange(local.vacating, {})) {
      keeper_.on_vacated(host_.now(), lease, requests_);
    }
  }
  if (share == local.share) return;
  local.share = share;
  host_.on_shares(id_, local.life);
}

// --- Words of the driver. ----------------------------------------------------

void ClusterMember::on_next(UnitId unit, uint32_t cost) {
  Shared(unit).on_next(host_.now(), id_, cost);
}

void ClusterMember::on_empty(UnitId unit) {
  if (locals_[value(unit)].is_used) Shared(unit).on_empty(id_);
}

void ClusterMember::on_served(UnitId unit) {
  Shared(unit).on_served(host_.now());
}

void ClusterMember::on_left(UnitId unit) {
  if (!locals_[value(unit)].is_used) return;  // it was detached since
  std::vector<ShareSet> answers;
  Shared(unit).leases().on_left(id_, locals_[value(unit)].newest, answers);
  for (const ShareSet& answer : answers) host_.Send(id_, answer);
}

void ClusterMember::on_unit_stopped(UnitId unit) {
  Local& local = locals_[value(unit)];
  for (const LeaseId lease : local.vacating) {
    keeper_.on_vacated(host_.now(), lease, requests_);
  }
  Detach(local);
  Execute(false);
}

// Nothing of the controller is left in the unit.
void ClusterMember::Detach(Local& local) {
  const UnitLife life = local.life;
  Shared(NumberOf(local)).Detach(id_);
  local = {};
  host_.on_detached(id_, life);
}

// --- A controller that takes the place of one that failed, or leaves.
// ---------

// Its leases are those that units report (proto/protocol.md §7).
void ClusterMember::on_rebuilt() {
  ++successions_;
  host_.on_rebuilt(id_);
  const auto life = host_.NewLife(id_);
  awaits_life_ = !life.has_value();
  life_ = life.value_or(life_);
  refused_ += keeper_.refused();
  RestartWait();
  has_units_ = false;
  keeper_ = LeaseKeeper(keeper_options_, life_);
  requests_.clear();
  for (Local& local : locals_) {
    if (!local.is_used) continue;
    const UnitId unit = NumberOf(local);
    local.vacating.clear();
    const int64_t share = Adopt(local);
    const bool is_gone =
        driver_.controller().units().state(unit) == UnitPool::State::kStopped;
    if (is_gone && share == 0) {
      Detach(local);
      continue;
    }
    SNF_CHECK(driver_.Lease(
        host_.now(), unit, static_cast<uint32_t>(std::max(share, int64_t{1}))));
    // One without a lease is left as soon as may be.
    if (share == 0) driver_.Revoke(host_.now(), unit, false);
    local.share = share;
    host_.on_shares(id_, local.life);
  }
  keeper_.on_load(host_.now(), least_bps_, requests_);
  Execute(false);
}

// Until there is a resource manager, its leases stay as they are.
void ClusterMember::TakeLife() {
  if (!awaits_life_) return;
  const auto life = host_.NewLife(id_);
  if (!life.has_value()) return;
  awaits_life_ = false;
  life_ = *life;
  keeper_.Succeed(host_.now(), life_, requests_);
}

// Returns the share that the unit has for the controller.
int64_t ClusterMember::Adopt(Local& local) {
  int64_t share = 0;
  for (const ReportedLease& lease : Shared(NumberOf(local)).leases().Report()) {
    if (lease.holder.controller != id_ || lease.target == 0) continue;
    keeper_.on_grant({.to = life_,
                      .lease = lease.lease,
                      .unit = local.life,
                      .share = lease.target,
                      .sequence = lease.sequence},
                     requests_);
    newest_ = std::max(newest_, lease.lease);
    local.newest = newest_;
    share += lease.target;
  }
  return std::min(share, kWholeUnit);
}

void ClusterMember::GiveUpUnits() {
  gives_up_units_ = true;
  least_bps_ = 0;
  keeper_.on_load(host_.now(), 0, requests_);
  on_epoch();
}

bool ClusterMember::uses_units() const {
  return std::ranges::any_of(locals_, &Local::is_used);
}

}  // namespace snf
