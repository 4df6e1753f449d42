// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_cluster/virtual_cluster.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/messages/controller_counts.h"
#include "platform/drivers/cluster/cluster_figures.h"
#include "platform/drivers/cluster/flow_dispatcher.h"
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
      lease_clock_(cluster),
      network_(NetworkOfLeases(options)),
      dispatch_(*example_, cluster.controllers),
      moves_(*this, members_, figures_),
      pieces_(*example_, cluster.controllers, members_, figures_),
      rng_(Rng(options.controller.seed).Fork(8)),
      plan_(options.faults),
      meter_(
          options.controller,
          options.controller.max_units *
              (cluster.shared ? 1 : static_cast<uint32_t>(observers_.size()))),
      managers_(options, cluster, *this, meter_, figures_) {
  SNF_CHECK(cluster.controllers >= 1 &&
            cluster.controllers <= kMostControllers);
  const auto joins =
      std::ranges::count_if(options.faults.changes, &MemberChange::joins);
  const size_t most = cluster.controllers + static_cast<size_t>(joins);
  SNF_CHECK(most <= kMostControllers);
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
    managers_.AddFor(id);
    dispatch_.Add(id);
    AddMember(id);
  }
  events_.Push(now_ + cluster_.revoke_grace, {0, Event::Tick{}});
  for (const MemberChange& change : options_.faults.changes) {
    events_.Push(first_packet + change.at, {0, Event::Change{change}});
  }
  plan_.on_start(first_packet);
  for (const auto& [kill, at] : plan_.planned()) {
    if (kill.is_of_manager()) {
      events_.Push(at, {0, ManagerDeath{}});
    } else {
      events_.Push(at, {0, Event::Death{kill.controller}});
    }
  }
}

void VirtualCluster::AddMember(ControllerId id) {
  const uint32_t c = value(id);
  SNF_CHECK(c == members_.size());
  const ControllerLife life = managers_.Join(id);
  ClusterMember::Host& host = *this;
  observers_[c].Add(meter_.Watch([this, c](UnitId unit) {
    return ClusterMeter::Unit{managers_.ManagerOf(members_[c]->id()),
                              members_[c]->LifeOf(unit)};
  }));
  members_.push_back(std::make_unique<ClusterMember>(
      options_, cluster_, policy_, nf_, std::move(observers_[c]), life, host));
  members_[c]->driver().on_start(first_packet_);
  members_[c]->on_epoch();  // sends the first Ask
  // Epochs of controllers end one after the other.
  const auto all = static_cast<int64_t>(observers_.size());
  events_.Push(now_ + Nanos{cluster_.epoch.ns * (c + 1) / all},
               {managers_.ManagerOf(id), Event::EpochEnd{c}});
}

void VirtualCluster::Offer(const CapturedPacket& captured) {
  if (!has_begun_) Begin(captured.time);
  late_packets_ += captured.time < now_ ? 1 : 0;
  const Instant arrival = std::max(captured.time, now_);
  RunUntil(arrival);
  now_ = arrival;
  lease_clock_.on_busy(now_);
  plan_.on_arrival(rng_, [this](const Kill& kill) {
    if (kill.is_of_manager()) {
      KillManager();
    } else {
      On(0, Event::Death{kill.controller});
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
  events_.Push(now_ + LeaseUser::kSample, {0, Event::Sample{}});
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
      lease_clock_.on_busy(now_);
      member->driver().RunUntil(next);
      continue;
    }
    const Event event = events_.Pop();
    if (!event.keeps_leases()) lease_clock_.on_busy(now_);
    std::visit([&](const auto& what) { On(event.manager, what); }, event.what);
    managers_.SendCommands(event.manager);
  }
}

bool VirtualCluster::SkipIdleTime(Instant until) {
  if (is_ending_ || until == Instant::max()) return false;
  if (!lease_clock_.MaySkip(now_, until)) return false;
  const size_t periodic =
      events_.Count([](const Event& event) { return event.is_periodic(); });
  if (periodic != events_.size()) return false;
  const Nanos skipped = lease_clock_.Skip(now_, until);
  if (skipped.ns <= 0) return false;
  events_.Delay(skipped);
  now_ = now_ + skipped;
  return true;
}

RunResult VirtualCluster::Finish() {
  is_ending_ = true;
  for (const auto& each : members_) {
    each->EndWait(managers_.is_ready(managers_.ManagerOf(each->id())));
    each->driver().BeginEnd(now_);
  }
  if (has_begun_) RunUntil(now_ + kTimersAfterLastPacket);
  for (const auto& each : members_) each->driver().StopTimers();
  RunUntil(Instant::max());
  managers_.AddFigures();
  figures_.messages_lost = network_.lost();
  figures_.messages_duplicated = network_.duplicated();
  std::vector<RunResult> results;
  std::vector<ControllerFigures> controllers;
  for (size_t c = 0; c < members_.size(); ++c) {
    results.push_back(members_[c]->driver().TakeResult());
    controllers.push_back(FiguresOfController(options_, results.back()));
    members_[c]->AddFigures(figures_, controllers.back());
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

// --- Leases. -----------------------------------------------------------------

void VirtualCluster::On(uint32_t manager, const ToManager& message) {
  if (std::holds_alternative<ManagerDeath>(message)) return KillManager();
  managers_.Handle(manager, message);
}

// Ticks end with traffic: then no lease is given up, and the last events need
// no more ticks.
void VirtualCluster::On(uint32_t, const Event::Tick&) {
  if (is_ending_) return;
  managers_.on_tick();
  events_.Push(now_ + cluster_.revoke_grace, {0, Event::Tick{}});
}

void VirtualCluster::on_nothing_to_give(uint32_t manager) {
  for (const auto& each : members_) {
    if (managers_.ManagerOf(each->id()) == manager) each->RestartWait();
  }
}

void VirtualCluster::On(uint32_t manager, const ManagerCommand& command) {
  Dispatch(
      command,
      [&](GlobalUnitId, const auto& message) {
        managers_.AtUnit(manager, message);
      },
      [&](ControllerId id, const auto& message) {
        if (!IsMember(id)) return;
        managers_.on_delivered(manager, message);
        AtController(id, message);
      },
      [&](const NewManager& next) {
        for (const auto& each : members_) {
          if (managers_.ManagerOf(each->id()) == manager) each->Handle(next);
        }
      });
}

void VirtualCluster::AtController(ControllerId id,
                                  const ToController& message) {
  ClusterMember& member = MemberOf(id);
  member.Handle(message);
  if (!std::holds_alternative<Grant>(message)) return;
  member.on_granted();
  EnterIfReady(member);
}

// --- Loads and epochs of controllers. ----------------------------------------

void VirtualCluster::On(uint32_t, const Event::Sample&) {
  samples_ = false;
  for (const auto& each : members_) samples_ |= each->Sample();
  if (is_ending_ || !samples_) {
    samples_ = false;
    return;
  }
  events_.Push(now_ + LeaseUser::kSample, {0, Event::Sample{}});
}

void VirtualCluster::On(uint32_t manager, const Event::EpochEnd& end) {
  if (is_ending_) return;
  ClusterMember& member = *members_[end.member];
  const bool was_leaving = member.gives_up_units() && !member.uses_units();
  member.on_epoch();
  LeaveIfDone(member);
  // Nothing came any more in a whole epoch.
  if (was_leaving && !member.uses_units() && managers_.is_ready(manager) &&
      pieces_.Bequeath(now_, member, dispatch_.live())) {
    managers_.on_dead(member.life());
    return;
  }
  events_.Push(now_ + cluster_.epoch, {manager, end});
}

// --- Words of members. -------------------------------------------------------

void VirtualCluster::on_shares(ControllerId controller, UnitLife life) {
  int64_t sum = 0;
  for (const auto& each : members_) {
    if (managers_.ManagerOf(each->id()) == managers_.ManagerOf(controller)) {
      sum += each->share(life);
    }
  }
  figures_.overcommitted += sum > kWholeUnit ? 1 : 0;
}

void VirtualCluster::on_alias(ControllerId of, const FlowKey& alias) {
  dispatch_.on_alias(of, alias);
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

// --- Pools. ------------------------------------------------------------------

// Pieces of a controller come back to it from units of another.
void VirtualCluster::On(uint32_t, const Event::PiecesHome& home) {
  if (pieces_.TakeHome(now_, home.pieces)) return;
  events_.Push(now_ + Microseconds(10), {0, home});
}

void VirtualCluster::on_lack(ControllerId of, const PieceRequest& request) {
  events_.Push(now_ + Nanos{2 * options_.hop_delay.ns},
               {0, Event::Lack{of, MemberOf(of).successions(), request}});
}

// A successor hears of requests that are open.
void VirtualCluster::On(uint32_t, const Event::Lack& lack) {
  ClusterMember& asks = MemberOf(lack.controller);
  if (!asks.driver().is_controller_up() ||
      asks.successions() != lack.successions) {
    return;
  }
  pieces_.Share(now_, asks, lack.request);
}

// --- Controllers that come and go. -------------------------------------------

void VirtualCluster::On(uint32_t, const Event::Death& death) {
  const auto controller = dispatch_.Choose(death.controller, rng_);
  if (!controller.has_value() || is_ending_) {
    ++figures_.changes_in_vain;
    return;
  }
  MemberOf(*controller).driver().KillController(now_);
}

// Kills any manager, if controllers have managers of their own.
void VirtualCluster::KillManager() {
  const auto manager = static_cast<uint32_t>(rng_.Below(managers_.size()));
  if (is_ending_ || !managers_.Kill(manager)) {
    ++figures_.changes_in_vain;
    return;
  }
  events_.Push(now_ + options_.faults.detection,
               {manager, Event::NextManager{}});
}

void VirtualCluster::On(uint32_t, const Event::Change& change) {
  if (is_ending_) {
    ++figures_.changes_in_vain;
  } else if (change.what.joins) {
    Join(change);
  } else {
    Leave(change.what.controller);
  }
}

void VirtualCluster::Join(const Event::Change& change) {
  const ControllerId id{static_cast<uint8_t>(members_.size())};
  managers_.AddFor(id);
  if (!managers_.is_ready(managers_.ManagerOf(id))) {
    // Growth waits for the next resource manager.
    events_.Push(now_ + Milliseconds(1), {0, change});
    return;
  }
  dispatch_.Await(id);
  AddMember(id);
}

// A controller takes flows once it has a unit for them.
void VirtualCluster::EnterIfReady(ClusterMember& member) {
  if (member.driver().controller().units().placeable_units() == 0 ||
      !dispatch_.Enter(member.id())) {
    return;
  }
  ++figures_.joined;
  TableChanged();
}

void VirtualCluster::Leave(int controller) {
  const auto id = dispatch_.Choose(controller, rng_);
  if (!id.has_value() || dispatch_.live().size() < 2) {
    ++figures_.changes_in_vain;
    return;
  }
  ++figures_.left;
  dispatch_.Remove(*id);
  TableChanged();
}

void VirtualCluster::TableChanged() {
  for (const auto& each : members_) moves_.Scan(*each);
  MoveLater();
}

void VirtualCluster::LeaveIfDone(ClusterMember& member) {
  if (dispatch_.has(member.id()) || member.gives_up_units() ||
      !member.driver().is_controller_up() || moves_.from(member) > 0 ||
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
  events_.Push(now_ + later, {0, Event::MoveOn{}});
}

void VirtualCluster::On(uint32_t, const Event::MoveOn&) {
  moves_on_ = false;
  moves_.Advance(now_);
  MoveLater();
}

void VirtualCluster::on_rebuilt(ControllerId id) {
  moves_.on_rebuilt(now_, *members_[value(id)]);
  MoveLater();
}

}  // namespace snf
