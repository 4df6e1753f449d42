// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_cluster/virtual_cluster.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "platform/cluster/merge_results.h"
#include "platform/run/run_setup.h"

namespace snf {
namespace {

// Controllers have their first leases so long after they ask.
Nanos LeadOf(const RunOptions& options) {
  return {options.unit_start_delay.ns + 16 * options.hop_delay.ns};
}

}  // namespace

VirtualCluster::VirtualCluster(const RunOptions& options,
                               const ClusterOptions& cluster,
                               const PlacementPolicy& policy, const NfSpec& nf,
                               std::vector<Observers> observers)
    : options_(options),
      cluster_(cluster),
      policy_(policy),
      nf_(nf),
      example_(nf.create()),
      observers_(std::move(observers)),
      buffers_(options.buffers),
      ingress_(options, HasSides(*example_), buffers_),
      dispatcher_(*example_, cluster.controllers),
      leases_(cluster.controllers) {
  SNF_CHECK(cluster.controllers >= 1 &&
            cluster.controllers <= ClusterOptions::kMostControllers);
  SNF_CHECK(observers_.size() == cluster.controllers);
  SNF_CHECK(cluster.fixed_shares.empty() ||
            cluster.fixed_shares.size() == cluster.controllers);
  figures_.controllers = cluster.controllers;
}

// --- The run. ----------------------------------------------------------------

void VirtualCluster::Begin(Instant first_packet) {
  has_begun_ = true;
  first_packet_ = counted_until_ = first_packet;
  now_ = first_packet + Nanos{-LeadOf(options_).ns};
  const uint32_t managers = cluster_.shared ? 1 : cluster_.controllers;
  const ManagerOptions manager = {
      .max_units = options_.controller.max_units,
      .term = cluster_.term,
      .revoke_grace = cluster_.revoke_grace,
      .start_timeout = {options_.unit_start_delay.ns + Seconds(1).ns},
      .keep_warm = options_.controller.keep_warm};
  units_.resize(managers);
  for (uint32_t m = 0; m < managers; ++m) {
    // Leases of managers with different epochs have different numbers.
    managers_.push_back(
        std::make_unique<ResourceManager>(manager, m + 1, false, commands_));
  }
  Host& host = *this;
  for (uint32_t c = 0; c < cluster_.controllers; ++c) {
    const ControllerId id{static_cast<uint8_t>(c)};
    const auto life = managers_[ManagerOf(id)]->on_join(now_, id, commands_);
    SendCommands(ManagerOf(id));
    SNF_CHECK(life.has_value());
    members_.push_back(
        std::make_unique<ClusterMember>(options_, cluster_, policy_, nf_,
                                        std::move(observers_[c]), *life, host));
    members_[c]->driver().on_start(first_packet);
    members_[c]->on_epoch();  // sends what it asks for
    // Epochs of controllers end one after the other.
    events_.Push(
        now_ + Nanos{cluster_.epoch.ns * (c + 1) / cluster_.controllers},
        {ManagerOf(id), EpochEnd{c}});
  }
  events_.Push(now_ + cluster_.revoke_grace, {0, Tick{}});
}

ClusterMember& VirtualCluster::Steer(const FlowKey& key, bool by_alias) {
  return *members_[value(dispatcher_.Steer(key, by_alias))];
}

void VirtualCluster::Offer(const CapturedPacket& captured) {
  if (!has_begun_) Begin(captured.time);
  late_packets_ += captured.time < now_ ? 1 : 0;
  const Instant arrival = std::max(captured.time, now_);
  RunUntil(arrival);
  now_ = arrival;
  const Ingress::Taken& taken = ingress_.Take(arrival, captured);
  using Fate = Ingress::Taken::Fate;
  ClusterMember& to = taken.fate == Fate::kPassesThrough
                          ? *members_[0]
                          : Steer(*taken.key, taken.by_alias);
  to.Take(arrival, captured, taken);
  if (samples_) return;
  samples_ = true;
  events_.Push(now_ + ClusterMember::kSample, {0, Sample{}});
}

void VirtualCluster::RunUntil(Instant time) {
  while (true) {
    Instant next = events_.next_time();
    ClusterMember* member = nullptr;
    for (const auto& each : members_) {
      const Instant due = each->driver().next_time();
      if (due >= next) continue;
      next = due;
      member = each.get();
    }
    if (next > time || next == Instant::max()) return;
    now_ = std::max(now_, next);
    if (member != nullptr) {
      member->driver().RunUntil(next);
      continue;
    }
    const Event event = events_.Pop();
    std::visit([&](const auto& what) { On(event.manager, what); }, event.what);
    SendCommands(event.manager);
  }
}

RunResult VirtualCluster::Finish() {
  is_ending_ = true;
  CountUnitTime();
  const int64_t unit_ns = unit_ns_;
  const int64_t lasted = (counted_until_ - first_packet_).ns;
  for (const auto& each : members_) each->driver().BeginEnd();
  if (has_begun_) RunUntil(now_ + kTimersAfterLastPacket);
  for (const auto& each : members_) each->driver().StopTimers();
  RunUntil(Instant::max());
  for (const auto& manager : managers_) {
    for (size_t why = 0; why < static_cast<size_t>(LeaseRefusal::kCount);
         ++why) {
      figures_.refused += manager->refused(static_cast<LeaseRefusal>(why));
    }
  }
  std::vector<RunResult> results;
  std::vector<ControllerFigures> controllers;
  for (size_t c = 0; c < members_.size(); ++c) {
    results.push_back(members_[c]->driver().TakeResult());
    controllers.push_back(FiguresOfController(options_, results.back()));
    controllers.back().grants = leases_[c].grants;
    controllers.back().share_max = leases_[c].share_max;
  }
  RunResult sum = MergeResults(*example_, std::move(results));
  sum.late_packets = late_packets_;
  sum.cluster = figures_;
  sum.controllers = std::move(controllers);
  sum.cold_starts = figures_.units_started;
  sum.units_max = static_cast<uint32_t>(figures_.units_up_max);
  sum.unit_ns_with_traffic = unit_ns;
  sum.units_mean_1000 = lasted == 0 ? 1'000 * int64_t{sum.units_max}
                                    : unit_ns / ((lasted + 999) / 1'000);
  return sum;
}

bool VirtualCluster::CloseUnit(uint32_t manager, GlobalUnitId unit) {
  const auto at = units_[manager].find(value(unit));
  if (at == units_[manager].end()) return false;
  const LeaseRefusal why =
      managers_[manager]->Close(now_, at->second.leases().life(), commands_);
  SendCommands(manager);
  return why == LeaseRefusal::kNone;
}

void VirtualCluster::SendCommands(uint32_t manager) {
  for (const ManagerCommand& command : commands_) {
    std::visit([&](const auto& what) { SendAfterHop(manager, what); }, command);
  }
  commands_.clear();
}

void VirtualCluster::CountUnitTime() {
  if (now_ <= counted_until_) return;
  int64_t up = 0;
  for (const Units& units : units_) up += static_cast<int64_t>(units.size());
  unit_ns_ += up * (now_ - counted_until_).ns;
  counted_until_ = now_;
}

// --- At managers. ------------------------------------------------------------

void VirtualCluster::On(uint32_t manager, const Ask& ask) {
  ++figures_.asks;
  managers_[manager]->on_ask(now_, ask, commands_);
}

void VirtualCluster::On(uint32_t manager, const Renew& renew) {
  managers_[manager]->on_renew(now_, renew, commands_);
}

void VirtualCluster::On(uint32_t manager, const GiveBack& back) {
  ++figures_.given_back;
  managers_[manager]->on_give_back(now_, back, commands_);
}

void VirtualCluster::On(uint32_t manager, const ShareSet& set) {
  managers_[manager]->on_share_set(now_, set, commands_);
}

void VirtualCluster::On(uint32_t manager, const UnitReady& ready) {
  CountUnitTime();
  units_[manager].insert_or_assign(value(ready.unit.unit),
                                   ClusterUnit(ready.unit));
  uint64_t up = 0;
  for (const Units& units : units_) up += units.size();
  figures_.units_up_max = std::max(figures_.units_up_max, up);
  managers_[manager]->on_ready(now_, ready.unit, commands_);
}

void VirtualCluster::On(uint32_t manager, const UnitStopped& stopped) {
  managers_[manager]->on_stopped(now_, stopped.unit, commands_);
}

// At the end of the run nothing is given up, and the last events are not to be
// waited for.
void VirtualCluster::On(uint32_t, const Tick&) {
  if (is_ending_) return;
  for (uint32_t m = 0; m < managers_.size(); ++m) {
    managers_[m]->on_tick(now_, commands_);
    SendCommands(m);
  }
  events_.Push(now_ + cluster_.revoke_grace, {0, Tick{}});
}

// --- At units. ---------------------------------------------------------------

void VirtualCluster::On(uint32_t manager, const StartUnit& start) {
  ++figures_.units_started;
  events_.Push(now_ + options_.unit_start_delay,
               {manager, UnitReady{start.unit}});
}

void VirtualCluster::On(uint32_t manager, const SetShare& set) {
  const auto at = units_[manager].find(value(set.to.unit));
  if (at == units_[manager].end()) return;
  std::vector<ShareSet> answers;
  const auto why = at->second.leases().on_set_share(set, answers);
  figures_.refused += why == UnitLeases::Refusal::kNone ? 0 : 1;
  for (const ShareSet& answer : answers) SendAfterHop(manager, answer);
}

// What controllers keep in a unit goes with its process, so that waits.
void VirtualCluster::On(uint32_t manager, const StopUnit& stop) {
  const auto at = units_[manager].find(value(stop.unit.unit));
  if (at == units_[manager].end()) return;
  at->second.is_to_stop = true;
  StopIfUnused(manager, stop.unit);
}

void VirtualCluster::StopIfUnused(uint32_t manager, UnitLife life) {
  const auto at = units_[manager].find(value(life.unit));
  if (at == units_[manager].end() || !at->second.is_to_stop ||
      at->second.is_attached()) {
    return;
  }
  CountUnitTime();
  units_[manager].erase(at);
  SendAfterHop(manager, UnitStopped{life});
}

// --- At controllers. ---------------------------------------------------------

void VirtualCluster::On(uint32_t, const Grant& grant) {
  ++figures_.grants;
  ClusterMember& member = MemberOf(grant.to);
  member.on_grant(grant);
  ControllerFigures& of = leases_[value(grant.to.controller)];
  ++of.grants;
  of.share_max = std::max(of.share_max, member.held());
}

void VirtualCluster::On(uint32_t, const Revoke& revoke) {
  ++figures_.revoked;
  MemberOf(revoke.to).on_revoke(revoke);
}

void VirtualCluster::On(uint32_t, const Gone& gone) {
  ++figures_.gone;
  MemberOf(gone.to).on_gone(gone);
}

void VirtualCluster::On(uint32_t, const Sample&) {
  samples_ = false;
  for (const auto& each : members_) samples_ |= each->Sample();
  if (is_ending_ || !samples_) {
    samples_ = false;
    return;
  }
  events_.Push(now_ + ClusterMember::kSample, {0, Sample{}});
}

void VirtualCluster::On(uint32_t manager, const EpochEnd& end) {
  if (is_ending_) return;
  members_[end.member]->on_epoch();
  events_.Push(now_ + cluster_.epoch, {manager, end});
}

// --- Words of members. -------------------------------------------------------

ClusterUnit& VirtualCluster::UnitOf(ControllerId controller, UnitLife life) {
  ClusterUnit& unit = units_[ManagerOf(controller)].at(value(life.unit));
  SNF_CHECK(unit.leases().life() == life);
  return unit;
}

void VirtualCluster::Send(ControllerId from, const LeaseCommand& request) {
  std::visit([&](const auto& what) { SendAfterHop(ManagerOf(from), what); },
             request);
}

void VirtualCluster::Send(ControllerId of, const ShareSet& answer) {
  SendAfterHop(ManagerOf(of), answer);
}

void VirtualCluster::on_detached(ControllerId controller, UnitLife life) {
  StopIfUnused(ManagerOf(controller), life);
}

void VirtualCluster::on_shares(ControllerId controller, UnitLife life) {
  int64_t sum = 0;
  for (const auto& each : members_) {
    if (ManagerOf(each->id()) == ManagerOf(controller)) {
      sum += each->share(life);
    }
  }
  figures_.overcommitted += sum > kWholeUnit ? 1 : 0;
}

void VirtualCluster::on_alias(ControllerId of, const FlowKey& alias) {
  figures_.foreign_aliases += dispatcher_.on_alias(of, alias) ? 0 : 1;
}

void VirtualCluster::on_hairpin(const FlowKey& alias, PacketHandle packet) {
  Steer(alias, true).TakeBack(alias, packet);
}

}  // namespace snf
