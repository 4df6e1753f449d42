// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/virtual_cluster.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "platform/drivers/cluster/cluster_figures.h"
#include "platform/drivers/cluster/merge_results.h"
#include "platform/drivers/virtual_network/table_network.h"
#include "platform/run/figures/table_totals.h"
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
      ingress_(options, *example_, buffers_),
      tables_(*example_, static_cast<uint32_t>(observers_.size()),
              options.controller.max_units,
              TableOptionsOf(options, TableNetwork::AreLogged(
                                          ClusterMember::OptionsOf(
                                              options, ControllerId{0}),
                                          *example_))),
      network_(NetworkOfLeases(options)),
      moves_(*this, members_, figures_),
      pools_(*example_, cluster.controllers),
      leases_(observers_.size()),
      rng_(Rng(options.controller.seed).Fork(8)),
      plan_(options.faults),
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
  SNF_CHECK(FlowDispatcher::Check(*example_, cluster.controllers,
                                  most * options.controller.max_units)
                .ok());
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
        managers_[ManagerOf(id)].core()->on_join(lease_now(), id, commands_);
    SNF_CHECK(life.has_value() && dispatcher_.Join(id));
    live_.push_back(id);
    AddMember(id, *life);
  }
  events_.Push(now_ + cluster_.revoke_grace, {0, Tick{}});
  for (const MemberChange& change : options_.faults.changes) {
    events_.Push(first_packet + change.at, {0, Change{change}});
  }
  plan_.on_start(first_packet);
  for (const auto& [kill, at] : plan_.planned()) {
    if (kill.is_of_manager()) {
      events_.Push(at, {0, ManagerDeath{}});
    } else {
      events_.Push(at, {0, Death{kill.controller}});
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
  now_ = busy_until_ = arrival;
  plan_.on_arrival(rng_, [this](const Kill& kill) {
    if (kill.is_of_manager()) {
      KillManager();
    } else {
      On(0, Death{kill.controller});
    }
  });
  const Ingress::Taken& taken = ingress_.Take(arrival, captured);
  using Fate = Ingress::Taken::Fate;
  const bool has_none = taken.key == nullptr;
  const bool waits = taken.fate == Fate::kPacket && moves_.holds(*taken.flow);
  ClusterMember& to = has_none ? *members_[0]
                      : waits  ? OwnerOf(*taken.flow)
                               : Steer(*taken.key, taken.by_alias);
  to.Take(arrival, captured, taken, waits);
  if (waits) {
    moves_.Wait(*taken.flow, taken.by_alias, *taken.key, taken.packet);
  }
  if (samples_) return;
  samples_ = true;
  events_.Push(now_ + LeaseUser::kSample, {0, Sample{}});
}

void VirtualCluster::RunUntil(Instant time) {
  while (true) {
    Instant next = events_.next_time();
    Instant due_of_drivers = Instant::max();
    ClusterMember* member = nullptr;
    for (const auto& each : members_) {
      const Instant due = each->driver().next_time();
      due_of_drivers = std::min(due_of_drivers, due);
      if (due >= next) continue;
      next = due;
      member = each.get();
    }
    if (member == nullptr && SkipIdleTime(std::min(time, due_of_drivers))) {
      continue;
    }
    if (next > time || next == Instant::max()) return;
    now_ = std::max(now_, next);
    if (member != nullptr) {
      busy_until_ = now_;
      member->driver().RunUntil(next);
      continue;
    }
    const Event event = events_.Pop();
    if (!KeepsLeases(event)) busy_until_ = now_;
    std::visit([&](const auto& what) { On(event.manager, what); }, event.what);
    SendCommands(event.manager);
  }
}

bool VirtualCluster::KeepsLeases(const Event& event) {
  const auto& what = event.what;
  return std::holds_alternative<Tick>(what) ||
         std::holds_alternative<EpochEnd>(what) ||
         std::holds_alternative<ToManager>(what) ||
         std::holds_alternative<ManagerCommand>(what);
}

bool VirtualCluster::SkipIdleTime(Instant until) {
  if (is_ending_ || until == Instant::max()) return false;
  const Nanos settling{std::max(kSettling.ns, 16 * cluster_.term.ns)};
  if (now_ - busy_until_ < settling || until - now_ < settling) return false;
  const size_t periodic = events_.Count([](const Event& event) {
    return std::holds_alternative<Tick>(event.what) ||
           std::holds_alternative<EpochEnd>(event.what);
  });
  if (periodic != events_.size()) return false;
  // All events keep their places in their periods.
  const int64_t both = std::lcm(cluster_.epoch.ns, cluster_.revoke_grace.ns);
  const int64_t period =
      both > 0 && both <= settling.ns ? both : cluster_.epoch.ns;
  const Nanos skipped{(until - now_).ns / period * period - period};
  if (skipped.ns <= 0) return false;
  events_.Delay(skipped);
  now_ = now_ + skipped;
  skipped_ = Nanos{skipped_.ns + skipped.ns};
  busy_until_ = now_;
  return true;
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
  for (const ClusterManager& manager : managers_) {
    AddCounters(manager.counters(), figures_);
  }
  figures_.units_up_max = units_up_max_;
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
  AddClusterTables(tables_.homes, *example_, sum);
  tables_.spread.AddTimes(sum);
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
  const LeaseRefusal why = managers_[manager].core()->Close(
      lease_now(), at->leases().life(), commands_);
  SendCommands(manager);
  return why == LeaseRefusal::kNone;
}

void VirtualCluster::SendCommands(uint32_t manager) {
  for (const ManagerCommand& command : commands_) {
    SendOfLeases(manager, command);
  }
  commands_.clear();
  managers_[manager].NoteRecovery(lease_now());
}

// --- At managers. ------------------------------------------------------------

void VirtualCluster::On(uint32_t manager, const ToManager& message) {
  if (std::holds_alternative<ManagerDeath>(message)) return KillManager();
  managers_[manager].Handle(lease_now(), message, commands_);
  if (std::holds_alternative<ShareSet>(message) ||
      std::holds_alternative<UnitLeaseReport>(message)) {
    CheckPromises(manager);
  }
}

// Ticks end with traffic: then no lease is given up, and the last events need
// no more ticks.
void VirtualCluster::On(uint32_t, const Tick&) {
  if (is_ending_) return;
  for (uint32_t m = 0; m < managers_.size(); ++m) {
    if (!managers_[m].is_up()) continue;
    managers_[m].core()->on_tick(lease_now(), commands_);
    SendCommands(m);
    if (managers_[m].core()->can_give(lease_now())) continue;
    for (const auto& each : members_) {
      if (ManagerOf(each->id()) == m) each->RestartWait();
    }
  }
  events_.Push(now_ + cluster_.revoke_grace, {0, Tick{}});
}

// --- At units and controllers. -----------------------------------------------

void VirtualCluster::On(uint32_t manager, const ManagerCommand& command) {
  Dispatch(
      command,
      [&](GlobalUnitId, const auto& message) { AtUnit(manager, message); },
      [&](ControllerId id, const auto& message) {
        if (!IsMember(id)) return;
        managers_[manager].on_delivered(message);
        AtController(id, message);
      },
      [&](const NewManager& next) {
        for (const auto& each : members_) {
          if (ManagerOf(each->id()) == manager) each->Handle(next);
        }
      });
}

void VirtualCluster::AtController(ControllerId id,
                                  const ToController& message) {
  ClusterMember& member = *members_[value(id)];
  member.Handle(message);
  if (!std::holds_alternative<Grant>(message)) return;
  ControllerFigures& of = leases_[value(id)];
  ++of.grants;
  of.share_max = std::max(of.share_max, member.held());
  EnterIfReady(member);
}

void VirtualCluster::AtUnit(uint32_t manager, const StartUnit& start) {
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
  // Counts a command whose first one was lost, too.
  managers_[manager].on_delivered(StartUnit{start.unit});
  events_.Push(now_ + options_.unit_start_delay, {manager, UnitUp{start.unit}});
}

void VirtualCluster::On(uint32_t manager, const UnitUp& up) {
  if (managers_[manager].units().Ready(up.unit) == nullptr) return;
  meter_.on_unit_up(now_, {manager, up.unit});
  uint64_t units = 0;
  for (ClusterManager& each : managers_) units += each.units().units_up();
  units_up_max_ = std::max(units_up_max_, units);
  SendOfLeases(manager, UnitReady{up.unit});
}

void VirtualCluster::AtUnit(uint32_t manager, const SetShare& set) {
  std::vector<ShareSet> answers;
  const bool is_taken = managers_[manager].units().SetShare(set, answers);
  figures_.refused += is_taken ? 0 : 1;
  for (const ShareSet& answer : answers) SendOfLeases(manager, answer);
  CheckPromises(manager);
}

// A unit's process keeps controllers' flows, and so runs until none uses it.
void VirtualCluster::AtUnit(uint32_t manager, const StopUnit& stop) {
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

void VirtualCluster::AtUnit(uint32_t manager, const AskReport& ask) {
  auto report = managers_[manager].units().Ask(ask);
  if (report.has_value()) {
    SendOfLeases(manager, *report);
  } else {
    ++figures_.refused;
  }
}

void VirtualCluster::CheckPromises(uint32_t manager) {
  if (!managers_[manager].is_ready()) return;
  figures_.overpromised += managers_[manager].units().CountOverpromised(
      [&core = *managers_[manager].core()](GlobalUnitId unit) {
        return core.ReservedOf(unit);
      });
}

// --- Loads and epochs of controllers. ----------------------------------------

void VirtualCluster::On(uint32_t, const Sample&) {
  samples_ = false;
  for (const auto& each : members_) samples_ |= each->Sample();
  if (is_ending_ || !samples_) {
    samples_ = false;
    return;
  }
  events_.Push(now_ + LeaseUser::kSample, {0, Sample{}});
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
    managers_[manager].core()->on_controller_dead(lease_now(), member.life(),
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
    GiveBlocks(PartsOf(example_->pools(), cluster_.controllers), alias.source,
               dispatcher_);
  }
  if (dispatcher_.OwnerOf(alias) != of) dispatcher_.Pin(alias, of);
  for (const auto& each : members_) {
    figures_.foreign_aliases +=
        each->id() != of && each->driver().moves().HasAlias(alias) ? 1 : 0;
  }
}

void VirtualCluster::on_hairpin(const FlowKey& to, bool by_alias,
                                PacketHandle packet) {
  const FlowKey& flow = ingress_.FlowOf(to);
  const bool waits = moves_.holds(flow);
  (waits ? OwnerOf(flow) : Steer(to, by_alias))
      .TakeBack(to, by_alias, packet, waits);
  if (waits) moves_.Wait(flow, by_alias, to, packet);
}

}  // namespace snf
