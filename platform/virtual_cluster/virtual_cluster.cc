// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_cluster/virtual_cluster.h"

#include <algorithm>
#include <set>
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

StateNetwork NetworkOfLeases(RunOptions options) {
  ChaosOptions& chaos = options.chaos;
  chaos.state_delay_min = chaos.lease_delay_min;
  chaos.state_delay_max = chaos.lease_delay_max;
  chaos.state_loss_65536 = chaos.lease_loss_65536;
  chaos.state_duplicate_65536 = chaos.lease_duplicate_65536;
  constexpr uint64_t kStream = 9;
  return StateNetwork(options, 0, kStream);
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
      network_(NetworkOfLeases(options)),
      moves_(*this, members_, figures_),
      pools_(*example_, cluster.controllers),
      leases_(observers_.size()),
      rng_(Rng(options.controller.seed).Fork(8)),
      meter_(
          options.controller,
          options.controller.max_units *
              (cluster.shared ? 1 : static_cast<uint32_t>(observers_.size()))) {
  SNF_CHECK(cluster.controllers >= 1 &&
            cluster.controllers <= ClusterOptions::kMostControllers);
  const auto joins =
      std::ranges::count_if(options.faults.changes, &MemberChange::joins);
  const size_t most = cluster.controllers + static_cast<size_t>(joins);
  SNF_CHECK(most <= ClusterOptions::kMostControllers);
  SNF_CHECK(observers_.size() == most);
  SNF_CHECK(cluster.fixed_shares.empty() ||
            cluster.fixed_shares.size() == most);
  SNF_CHECK(FlowDispatcher::Check(*example_, cluster.controllers).ok());
  figures_.controllers = cluster.controllers;
}

// --- The run. ----------------------------------------------------------------

void VirtualCluster::Begin(Instant first_packet) {
  has_begun_ = true;
  first_packet_ = first_packet;
  meter_.on_start(first_packet);
  now_ = first_packet + Nanos{-LeadOf(options_).ns};
  for (uint32_t c = 0; c < cluster_.controllers; ++c) {
    const ControllerId id{static_cast<uint8_t>(c)};
    if (c == 0 || !cluster_.shared) AddManager();
    const auto life =
        managers_[ManagerOf(id)].core()->on_join(now_, id, commands_);
    SNF_CHECK(life.has_value() && dispatcher_.Join(id));
    live_.push_back(id);
    AddMember(id, *life);
  }
  events_.Push(now_ + cluster_.revoke_grace, {0, Tick{}});
  for (const MemberChange& change : options_.faults.changes) {
    events_.Push(first_packet + change.at, {0, Change{change}});
  }
  for (const Kill& kill : options_.faults.kills) {
    if (kill.at.ns < 0) continue;
    if (kill.is_of_manager()) {
      events_.Push(first_packet + kill.at, {0, ManagerDeath{}});
    } else {
      events_.Push(first_packet + kill.at, {0, Death{kill.controller}});
    }
  }
}

void VirtualCluster::AddManager() {
  const ManagerOptions manager = {
      .max_units = options_.controller.max_units,
      .term = cluster_.term,
      .revoke_grace = cluster_.revoke_grace,
      .start_timeout = {options_.unit_start_delay.ns + Seconds(1).ns},
      .keep_warm = options_.controller.keep_warm};
  // Leases of managers with different epochs have different numbers.
  managers_.emplace_back(manager, ++manager_epochs_, commands_);
}

void VirtualCluster::AddMember(ControllerId id, ControllerLife life) {
  const uint32_t c = value(id);
  SNF_CHECK(c == members_.size());
  SendCommands(ManagerOf(id));
  ClusterMember::Host& host = *this;
  observers_[c].Add(meter_.Watch([this, c](UnitId unit) {
    return ClusterMeter::Unit{ManagerOf(members_[c]->id()),
                              members_[c]->LifeOf(unit)};
  }));
  members_.push_back(std::make_unique<ClusterMember>(
      options_, cluster_, policy_, nf_, std::move(observers_[c]), life, host));
  members_[c]->driver().on_start(first_packet_);
  members_[c]->on_epoch();  // sends what it asks for
  // Epochs of controllers end one after the other.
  const auto all = static_cast<int64_t>(observers_.size());
  events_.Push(now_ + Nanos{cluster_.epoch.ns * (c + 1) / all},
               {ManagerOf(id), EpochEnd{c}});
}

ClusterMember& VirtualCluster::Steer(const FlowKey& key, bool by_alias) {
  const auto to = by_alias ? dispatcher_.SteerTo(key)
                           : dispatcher_.Steer(IpAddress{}, 0, key);
  return *members_[value(*to)];
}

void VirtualCluster::Offer(const CapturedPacket& captured) {
  if (!has_begun_) Begin(captured.time);
  late_packets_ += captured.time < now_ ? 1 : 0;
  const Instant arrival = std::max(captured.time, now_);
  RunUntil(arrival);
  now_ = arrival;
  for (const Kill& kill : options_.faults.kills) {
    if (kill.at.ns >= 0 || !rng_.Chance(kill.chance_65536)) continue;
    if (kill.is_of_manager()) {
      On(0, ManagerDeath{});
    } else {
      On(0, Death{kill.controller});
    }
  }
  const Ingress::Taken& taken = ingress_.Take(arrival, captured);
  using Fate = Ingress::Taken::Fate;
  const bool passes = taken.fate == Fate::kPassesThrough;
  const bool waits = taken.fate == Fate::kPacket && moves_.holds(*taken.flow);
  ClusterMember& to = passes  ? *members_[0]
                      : waits ? OwnerOf(*taken.flow)
                              : Steer(*taken.key, taken.by_alias);
  to.Take(arrival, captured, taken, waits);
  if (waits) {
    moves_.Wait(*taken.flow, taken.by_alias, *taken.key, taken.packet);
  }
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
  for (const auto& each : members_) {
    each->EndWait(managers_[ManagerOf(each->id())].is_ready());
    each->driver().BeginEnd(now_);
  }
  if (has_begun_) RunUntil(now_ + kTimersAfterLastPacket);
  for (const auto& each : members_) each->driver().StopTimers();
  RunUntil(Instant::max());
  for (const ClusterManager& manager : managers_) manager.AddRefused(figures_);
  figures_.messages_lost = network_.lost();
  figures_.messages_duplicated = network_.duplicated();
  std::vector<RunResult> results;
  std::vector<ControllerFigures> controllers;
  for (size_t c = 0; c < members_.size(); ++c) {
    results.push_back(members_[c]->driver().TakeResult());
    figures_.refused += members_[c]->refused();
    figures_.unleased_ns_max =
        std::max(figures_.unleased_ns_max,
                 static_cast<uint64_t>(members_[c]->unleased_max().ns));
    controllers.push_back(FiguresOfController(options_, results.back()));
    controllers.back().grants = leases_[c].grants;
    controllers.back().share_max = leases_[c].share_max;
  }
  RunResult sum = MergeResults(*example_, std::move(results));
  sum.late_packets = late_packets_;
  sum.cluster = figures_;
  sum.controllers = std::move(controllers);
  sum.cold_starts = figures_.units_started;
  meter_.Finish(sum);
  return sum;
}

bool VirtualCluster::CloseUnit(uint32_t manager, GlobalUnitId unit) {
  ClusterUnit* const at = managers_[manager].units().Find(unit);
  if (at == nullptr || !managers_[manager].is_up()) return false;
  const LeaseRefusal why =
      managers_[manager].core()->Close(now_, at->leases().life(), commands_);
  SendCommands(manager);
  return why == LeaseRefusal::kNone;
}

void VirtualCluster::SendCommands(uint32_t manager) {
  for (const ManagerCommand& command : commands_) {
    std::visit([&](const auto& what) { SendOfLeases(manager, what); }, command);
  }
  commands_.clear();
  managers_[manager].NoteRecovery(now_, figures_);
}

ResourceManager* VirtualCluster::Hear(uint32_t manager) {
  ResourceManager* const core = managers_[manager].core();
  figures_.unheard += core == nullptr ? 1 : 0;
  return core;
}

// --- At managers. ------------------------------------------------------------

void VirtualCluster::On(uint32_t manager, const Ask& ask) {
  ++figures_.asks;
  if (auto* const core = Hear(manager)) core->on_ask(now_, ask, commands_);
}

void VirtualCluster::On(uint32_t manager, const Renew& renew) {
  if (auto* const core = Hear(manager)) core->on_renew(now_, renew, commands_);
}

void VirtualCluster::On(uint32_t manager, const GiveBack& back) {
  ++figures_.given_back;
  if (auto* const core = Hear(manager)) {
    core->on_give_back(now_, back, commands_);
  }
}

void VirtualCluster::On(uint32_t manager, const ShareSet& set) {
  if (auto* const core = Hear(manager)) {
    core->on_share_set(now_, set, commands_);
  }
  CheckPromises(manager);
}

void VirtualCluster::On(uint32_t manager, const UnitReady& ready) {
  if (auto* const core = Hear(manager)) {
    core->on_ready(now_, ready.unit, commands_);
  }
}

void VirtualCluster::On(uint32_t manager, const UnitStopped& stopped) {
  if (auto* const core = Hear(manager)) {
    core->on_stopped(now_, stopped.unit, commands_);
  }
}

void VirtualCluster::On(uint32_t manager, const UnitLeaseReport& report) {
  if (auto* const core = Hear(manager)) {
    core->on_report(now_, report.unit, report.leases, commands_);
  }
  CheckPromises(manager);
}

// At the end of the run nothing is given up, and the last events are not to be
// waited for.
void VirtualCluster::On(uint32_t, const Tick&) {
  if (is_ending_) return;
  for (uint32_t m = 0; m < managers_.size(); ++m) {
    if (!managers_[m].is_up()) continue;
    managers_[m].core()->on_tick(now_, commands_);
    SendCommands(m);
    if (managers_[m].core()->can_give(now_)) continue;
    for (const auto& each : members_) {
      if (ManagerOf(each->id()) == m) each->RestartWait();
    }
  }
  events_.Push(now_ + cluster_.revoke_grace, {0, Tick{}});
}

// --- At units. ---------------------------------------------------------------

void VirtualCluster::On(uint32_t manager, const StartUnit& start) {
  ClusterUnit* const before = managers_[manager].units().Find(start.unit.unit);
  const auto old =
      before == nullptr ? std::nullopt : std::optional(before->leases().life());
  if (before != nullptr && before->leases().life() == start.unit) {
    SendOfLeases(manager, UnitReady{start.unit});
    return;
  }
  if (!managers_[manager].units().Start(start)) {
    figures_.refused += start.is_repeated ? 0 : 1;
    return;
  }
  if (old.has_value()) meter_.on_unit_down(now_, {manager, *old});
  ++figures_.units_started;
  events_.Push(now_ + options_.unit_start_delay, {manager, UnitUp{start.unit}});
}

void VirtualCluster::On(uint32_t manager, const UnitUp& up) {
  if (managers_[manager].units().Ready(up.unit) == nullptr) return;
  meter_.on_unit_up(now_, {manager, up.unit});
  uint64_t units = 0;
  for (ClusterManager& each : managers_) units += each.units().units_up();
  figures_.units_up_max = std::max(figures_.units_up_max, units);
  SendOfLeases(manager, UnitReady{up.unit});
}

void VirtualCluster::On(uint32_t manager, const SetShare& set) {
  std::vector<ShareSet> answers;
  const bool is_taken = managers_[manager].units().SetShare(set, answers);
  figures_.refused += is_taken ? 0 : 1;
  for (const ShareSet& answer : answers) SendOfLeases(manager, answer);
  CheckPromises(manager);
}

// What controllers keep in a unit goes with its process, so that waits.
void VirtualCluster::On(uint32_t manager, const StopUnit& stop) {
  if (managers_[manager].units().Stop(stop)) {
    StopIfUnused(manager, stop.unit);
  } else {
    ++figures_.refused;
  }
}

void VirtualCluster::StopIfUnused(uint32_t manager, UnitLife life) {
  auto& units = managers_[manager].units();
  const bool was_there = units.Find(life) != nullptr;
  if (!units.HasStopped(life)) return;
  if (was_there) meter_.on_unit_down(now_, {manager, life});
  SendOfLeases(manager, UnitStopped{life});
}

void VirtualCluster::On(uint32_t manager, const AskReport& ask) {
  auto report = managers_[manager].units().Ask(ask);
  if (report.has_value()) {
    SendOfLeases(manager, *report);
  } else {
    ++figures_.refused;
  }
}

void VirtualCluster::CheckPromises(uint32_t manager) {
  if (!managers_[manager].is_ready()) return;
  figures_.overpromised +=
      managers_[manager].units().CountOverpromised(*managers_[manager].core());
}

// --- At controllers. ---------------------------------------------------------

void VirtualCluster::On(uint32_t, const Grant& grant) {
  if (!IsMember(grant.to.controller)) return;
  ++figures_.grants;
  ClusterMember& member = MemberOf(grant.to);
  member.on_grant(grant);
  ControllerFigures& of = leases_[value(grant.to.controller)];
  ++of.grants;
  of.share_max = std::max(of.share_max, member.held());
  EnterIfReady(member);
}

void VirtualCluster::On(uint32_t, const Revoke& revoke) {
  if (!IsMember(revoke.to.controller)) return;
  ++figures_.revoked;
  MemberOf(revoke.to).on_revoke(revoke);
}

void VirtualCluster::On(uint32_t, const Gone& gone) {
  if (!IsMember(gone.to.controller)) return;
  ++figures_.gone;
  MemberOf(gone.to).on_gone(gone);
}

void VirtualCluster::On(uint32_t manager, const NewManager& next) {
  for (const auto& each : members_) {
    if (ManagerOf(each->id()) == manager) each->on_new_manager(next);
  }
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
  ClusterMember& member = *members_[end.member];
  const bool was_leaving = member.gives_up_units() && !member.uses_units();
  member.on_epoch();
  LeaveIfDone(member);
  // Nothing came any more in a whole epoch.
  if (was_leaving && !member.uses_units() && managers_[manager].is_ready() &&
      Bequeath(member)) {
    managers_[manager].core()->on_controller_dead(now_, member.life(),
                                                  commands_);
    SendCommands(manager);
    return;
  }
  events_.Push(now_ + cluster_.epoch, {manager, end});
}

// --- Words of members. -------------------------------------------------------

ClusterUnit* VirtualCluster::FindUnit(ControllerId controller, UnitLife life) {
  return managers_[ManagerOf(controller)].units().Find(life);
}

void VirtualCluster::Send(ControllerId from, const LeaseCommand& request) {
  std::visit([&](const auto& what) { SendOfLeases(ManagerOf(from), what); },
             request);
}

void VirtualCluster::Send(ControllerId of, const ShareSet& answer) {
  SendOfLeases(ManagerOf(of), answer);
}

void VirtualCluster::on_detached(ControllerId controller, UnitLife life) {
  const uint32_t manager = ManagerOf(controller);
  if (managers_[manager].units().Find(life) != nullptr) {
    StopIfUnused(manager, life);
  }
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
  if (external_.try_emplace(alias.source, true).second) {
    // Pools of an address have the same few ranges.
    std::set<std::pair<uint32_t, uint32_t>> given;
    for (const NetworkFunction::Pool& pool : example_->pools()) {
      if (!given.insert({pool.first, pool.last}).second) continue;
      for (uint32_t c = 0; c < cluster_.controllers; ++c) {
        const auto part = PartOf(pool, c, cluster_.controllers);
        dispatcher_.Give({.address = alias.source,
                          .first = static_cast<uint16_t>(part->first),
                          .last = static_cast<uint16_t>(part->last)},
                         members_[c]->id());
      }
    }
  }
  if (dispatcher_.OwnerOf(alias) != of) dispatcher_.Pin(alias, of);
  for (const auto& each : members_) {
    figures_.foreign_aliases +=
        each->id() != of && each->driver().HasAlias(alias) ? 1 : 0;
  }
}

void VirtualCluster::on_hairpin(const FlowKey& alias, PacketHandle packet) {
  const FlowKey& flow = ingress_.FlowOf(alias);
  const bool waits = moves_.holds(flow);
  (waits ? OwnerOf(flow) : Steer(alias, true)).TakeBack(alias, packet, waits);
  if (waits) moves_.Wait(flow, true, alias, packet);
}

}  // namespace snf
