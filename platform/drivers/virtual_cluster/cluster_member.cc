// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/cluster_member.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "platform/drivers/cluster/lease_user_options.h"
#include "platform/run/run_setup.h"

namespace snf {

RunOptions ClusterMember::OptionsOf(RunOptions options,
                                    ControllerId controller) {
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

ClusterMember::ClusterMember(const RunOptions& options,
                             const ClusterOptions& cluster,
                             const PlacementPolicy& policy, const NfSpec& nf,
                             Observers observers, ControllerLife life,
                             Host& host)
    : host_(host),
      id_(life.controller),
      unleased_since_(host.now()),
      user_(LeaseUserOptionsOf(options, cluster, life.controller,
                               Nanos{4 * options.hop_delay.ns}),
            life),
      driver_(OptionsOf(options, life.controller), policy, nf,
              std::move(observers), this) {
  user_.on_load(host_.lease_now(), 0);
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
    user_.on_packet(driver_.controller().CostOf(captured.original_bytes));
  }
  driver_.Take(arrival, captured, taken, waits);
}

void ClusterMember::TakeBack(const FlowKey& to, bool by_alias,
                             PacketHandle packet, bool waits) {
  user_.on_packet(
      driver_.controller().CostOf(buffers().info(packet).original_length));
  driver_.TakeBack(host_.now(), to, by_alias, packet, waits);
}

bool ClusterMember::Sample() {
  const int64_t load_bps = user_.EndSample();
  if (is_up()) {
    user_.on_load(host_.lease_now(), load_bps);
    Carry();
  }
  return load_bps > 0;
}

// --- Leases. -----------------------------------------------------------------

void ClusterMember::on_epoch() {
  if (!is_up()) return;
  TakeLife();
  user_.on_epoch(host_.lease_now());
  Carry();
}

void ClusterMember::Handle(const ToController& message) {
  const bool is_new_manager = std::holds_alternative<NewManager>(message);
  if (is_new_manager) RestartWait();
  if (!is_up()) return;
  if (is_new_manager) TakeLife();
  user_.Handle(host_.lease_now(), message);
  Carry();
}

void ClusterMember::Carry() {
  bool has_gone_unit = false;
  for (const LeaseUserCommand& command : user_.Settle(host_.lease_now())) {
    if (const auto* lease = std::get_if<LeaseUnit>(&command)) {
      has_gone_unit |= !Lease(*lease);
    } else if (const auto* revoke = std::get_if<RevokeUnit>(&command)) {
      driver_.Revoke(host_.now(), revoke->unit, revoke->at_once);
      host_.on_shares(id_, LifeOf(revoke->unit));
    } else {
      const auto& message = std::get<ToManager>(command);
      // TakeLife asks for a life.
      if (!std::holds_alternative<AskLife>(message)) host_.Send(id_, message);
    }
  }
  if (has_gone_unit) return Carry();
  NoteHeld();
}

bool ClusterMember::Lease(const LeaseUnit& lease) {
  ClusterUnit* const shared = host_.FindUnit(id_, lease.life);
  if (shared == nullptr) {
    // The grant was late: the unit has stopped since.
    user_.on_no_unit(lease.unit);
    return false;
  }
  if (!shared->is_attached(id_)) shared->Attach(id_, driver_, lease.unit);
  SNF_CHECK(driver_.Lease(host_.now(), lease.unit,
                          static_cast<uint32_t>(lease.share)));
  host_.on_shares(id_, lease.life);
  return true;
}

void ClusterMember::Detach(UnitLife life) {
  host_.FindUnit(id_, life)->Detach(id_);
  host_.on_detached(id_, life);
}

void ClusterMember::on_granted() {
  ++grants_;
  share_max_ = std::max(share_max_, user_.held());
}

void ClusterMember::AddFigures(ClusterFigures& all,
                               ControllerFigures& own) const {
  all.refused += user_.refused();
  all.unleased_ns_max =
      std::max(all.unleased_ns_max, static_cast<uint64_t>(unleased_max_.ns));
  own.grants = grants_;
  own.share_max = share_max_;
}

void ClusterMember::NoteHeld() {
  const bool had_units = std::exchange(has_units_, user_.held() > 0);
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
  const bool asks = is_up() && !user_.awaits_life() && !gives_up_units();
  if (!has_manager || has_units_ || !asks) return;
  unleased_max_ = std::max(unleased_max_, host_.now() - unleased_since_);
}

int64_t ClusterMember::share(UnitLife life) const {
  const auto unit = user_.Find(life);
  if (!unit.has_value()) return 0;
  if (is_up()) return user_.share(*unit);
  return std::min(host_.FindUnit(id_, life)->leases().share(id_), kWholeUnit);
}

// --- Words of the driver. ----------------------------------------------------

void ClusterMember::on_next(UnitId unit, uint32_t cost) {
  Shared(unit).on_next(host_.now(), id_, cost);
}

void ClusterMember::on_empty(UnitId unit) {
  if (user_.uses(unit)) Shared(unit).on_empty(id_);
}

void ClusterMember::on_served(UnitId unit) {
  Shared(unit).on_served(host_.now());
}

void ClusterMember::on_left(UnitId unit) {
  if (!user_.uses(unit)) return;  // the controller was detached since
  std::vector<ShareSet> answers;
  Shared(unit).leases().on_left(id_, user_.newest(unit), answers);
  for (const ShareSet& answer : answers) host_.Send(id_, answer);
}

void ClusterMember::on_unit_stopped(UnitId unit) {
  const UnitLife life = LifeOf(unit);
  user_.on_left(host_.lease_now(), unit);
  Detach(life);
  Carry();
}

// --- Successors, and controllers that leave. ---------------------------------

// The successor has the leases that units report (proto/protocol.md §7).
void ClusterMember::on_rebuilt() {
  ++successions_;
  host_.on_rebuilt(id_);
  const auto life = host_.NewLife(id_);
  RestartWait();
  has_units_ = false;
  std::vector<UnitLife> used;
  for (uint16_t u = 0; u < user_.units(); ++u) {
    if (user_.uses(UnitId{u})) used.push_back(LifeOf(UnitId{u}));
  }
  const UnitPool& units = driver_.controller().units();
  user_.on_successor(host_.lease_now(), life, ReportedLeases(),
                     [&](UnitId unit) {
                       return units.state(unit) != UnitPool::State::kStopped;
                     });
  for (const UnitLife unit : used) {
    if (!user_.Find(unit).has_value()) Detach(unit);
  }
  Carry();
}

HeldLeases ClusterMember::ReportedLeases() {
  HeldLeases held;
  for (uint16_t u = 0; u < user_.units(); ++u) {
    const UnitId unit{u};
    if (!user_.uses(unit)) continue;
    for (const ReportedLease& lease : Shared(unit).leases().Report()) {
      if (lease.holder.controller == id_) held.push_back({LifeOf(unit), lease});
    }
  }
  return held;
}

// A successor's leases stay as they are until a resource manager gives it a
// life.
void ClusterMember::TakeLife() {
  if (!user_.awaits_life()) return;
  const auto life = host_.NewLife(id_);
  if (life.has_value()) user_.Handle(host_.lease_now(), snf::NewLife{*life});
}

void ClusterMember::GiveUpUnits() {
  user_.LeaveAll(host_.lease_now());
  on_epoch();
}

}  // namespace snf
