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
    const auto life = managers_[ManagerOf(id)]->on_join(now_, id, commands_);
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
    events_.Push(first_packet + kill.at, {0, Death{kill.controller}});
  }
}

void VirtualCluster::AddManager() {
  const ManagerOptions manager = {
      .max_units = options_.controller.max_units,
      .term = cluster_.term,
      .revoke_grace = cluster_.revoke_grace,
      .start_timeout = {options_.unit_start_delay.ns + Seconds(1).ns},
      .keep_warm = options_.controller.keep_warm};
  units_.emplace_back();
  // Leases of managers with different epochs have different numbers.
  managers_.push_back(std::make_unique<ResourceManager>(
      manager, managers_.size() + 1, false, commands_));
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
    if (kill.at.ns < 0 && rng_.Chance(kill.chance_65536)) {
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
  meter_.Finish(sum);
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
  units_[manager].insert_or_assign(value(ready.unit.unit),
                                   ClusterUnit(ready.unit));
  meter_.on_unit_up(now_, {manager, ready.unit});
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
  units_[manager].erase(at);
  meter_.on_unit_down(now_, {manager, life});
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
  EnterIfReady(member);
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
  ClusterMember& member = *members_[end.member];
  const bool was_leaving = member.gives_up_units() && !member.uses_units();
  member.on_epoch();
  LeaveIfDone(member);
  // Nothing came any more in a whole epoch.
  if (was_leaving && !member.uses_units() && Bequeath(member)) {
    managers_[manager]->on_controller_dead(now_, member.life(), commands_);
    SendCommands(manager);
    return;
  }
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

// --- Pools. ------------------------------------------------------------------

// Pieces of a controller come back to it from units of another.
void VirtualCluster::On(uint32_t, const PiecesHome& home) {
  const ControllerId owner = pools_.owner(home.pieces.pool, home.pieces.word);
  VirtualDriver& driver = members_[value(owner)]->driver();
  if (!driver.is_controller_up()) {
    events_.Push(now_ + Microseconds(10), {0, home});
    return;
  }
  driver.AddPieces(now_, home.pieces, true);
}

void VirtualCluster::on_lack(ControllerId of, const PieceRequest& request) {
  events_.Push(now_ + Nanos{2 * options_.hop_delay.ns},
               {0, Lack{of, members_[value(of)]->successions(), request}});
}

// The one with most to spare gives some words.
void VirtualCluster::On(uint32_t, const Lack& lack) {
  ClusterMember& asks = *members_[value(lack.controller)];
  // A successor hears of requests that are open.
  if (!asks.driver().is_controller_up() ||
      asks.successions() != lack.successions) {
    return;
  }
  const uint16_t pool = lack.request.pool;
  ClusterMember* donor = nullptr;
  uint32_t most = 0;
  for (const auto& each : members_) {
    if (each.get() == &asks || !each->driver().is_controller_up()) continue;
    const uint32_t words =
        pools_.WholeWords(each->driver().controller(), each->id(), pool);
    if (words <= most) continue;
    most = words;
    donor = each.get();
  }
  if (donor != nullptr && asks.driver().controller().lacks_pieces(pool)) {
    for (const PieceBlock& word :
         pools_.Split(donor->driver().controller(), donor->id(),
                      lack.controller, pool)) {
      ++figures_.words_given;
      donor->driver().RemovePieces(word);
      asks.driver().AddPieces(now_, word, false);
    }
  }
  asks.driver().AskForPieces(now_, lack.request);
}

// The pools of one that has left are another's. Returns false if none can take
// them now.
bool VirtualCluster::Bequeath(ClusterMember& member) {
  const auto heir = std::ranges::find_if(live_, [this](ControllerId id) {
    return members_[value(id)]->driver().is_controller_up();
  });
  if (heir == live_.end()) return false;
  VirtualDriver& to = members_[value(*heir)]->driver();
  const Controller& from = member.driver().controller();
  const auto pools = example_->pools();
  for (uint16_t p = 0; p < pools.size(); ++p) {
    for (uint32_t w = pools[p].first / 64; w < pools[p].words(); ++w) {
      if (pools_.owner(p, w) != member.id()) continue;
      PieceBlock free = {.word = w, .pool = p, .mask = from.free_pieces(p, w)};
      PieceBlock out = free;
      out.mask = pools_.MaskOf(p, w) & ~free.mask;
      to.InheritPieces(now_, free, out);
    }
  }
  pools_.Inherit(member.id(), *heir);
  return true;
}

// --- Controllers that come and go. -------------------------------------------

int VirtualCluster::Choose(int controller) {
  if (live_.empty()) return -1;
  if (controller == Kill::kAnyController) {
    return value(live_[rng_.Below(live_.size())]);
  }
  const bool is_live = std::ranges::any_of(
      live_,
      [controller](ControllerId id) { return int{value(id)} == controller; });
  return is_live ? controller : -1;
}

void VirtualCluster::On(uint32_t, const Death& death) {
  const int controller = Choose(death.controller);
  if (controller < 0 || is_ending_) {
    ++figures_.changes_in_vain;
    return;
  }
  members_[static_cast<size_t>(controller)]->driver().KillController(now_);
}

void VirtualCluster::On(uint32_t, const Change& change) {
  if (is_ending_) {
    ++figures_.changes_in_vain;
  } else if (change.what.joins) {
    Join();
  } else {
    Leave(Choose(change.what.controller));
  }
}

void VirtualCluster::Join() {
  const ControllerId id{static_cast<uint8_t>(members_.size())};
  if (!cluster_.shared) AddManager();
  const auto life = managers_[ManagerOf(id)]->on_join(now_, id, commands_);
  SNF_CHECK(life.has_value());
  joining_.push_back(id);
  AddMember(id, *life);
}

// It takes flows once it has a unit for them.
void VirtualCluster::EnterIfReady(ClusterMember& member) {
  if (member.driver().controller().units().placeable_units() == 0 ||
      std::erase(joining_, member.id()) == 0) {
    return;
  }
  ++figures_.joined;
  SNF_CHECK(dispatcher_.Join(member.id()));
  live_.push_back(member.id());
  TableChanged();
}

void VirtualCluster::Leave(int controller) {
  if (controller < 0 || live_.size() < 2) {
    ++figures_.changes_in_vain;
    return;
  }
  const ControllerId id{static_cast<uint8_t>(controller)};
  ++figures_.left;
  SNF_CHECK(dispatcher_.Leave(id) && std::erase(live_, id) == 1);
  TableChanged();
}

void VirtualCluster::TableChanged() {
  for (const auto& each : members_) moves_.Scan(*each);
  MoveLater();
}

void VirtualCluster::LeaveIfDone(ClusterMember& member) {
  const ControllerId id = member.id();
  const bool stays =
      std::ranges::count(live_, id) > 0 || std::ranges::count(joining_, id) > 0;
  if (stays || member.gives_up_units() || !member.driver().is_controller_up() ||
      moves_.from(member) > 0 ||
      member.driver().controller().flows().size() > 0) {
    return;
  }
  member.GiveUpUnits();
}

void VirtualCluster::MoveLater() {
  if (moves_on_ || moves_.empty()) return;
  moves_on_ = true;
  const Nanos later =
      std::max(Microseconds(10), Nanos{3 * options_.hop_delay.ns});
  events_.Push(now_ + later, {0, MoveOn{}});
}

void VirtualCluster::On(uint32_t, const MoveOn&) {
  moves_on_ = false;
  moves_.Advance(now_);
  MoveLater();
}

std::optional<ControllerLife> VirtualCluster::on_rebuilt(ControllerId id) {
  const uint32_t manager = ManagerOf(id);
  const auto life = managers_[manager]->on_succeed(now_, id, commands_);
  SendCommands(manager);
  moves_.on_rebuilt(now_, *members_[value(id)]);
  MoveLater();
  return life;
}

}  // namespace snf
