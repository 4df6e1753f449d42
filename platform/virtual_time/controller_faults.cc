// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_time/controller_faults.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "platform/virtual_time/log_channel.h"

namespace snf {

ControllerFaults::ControllerFaults(const RunOptions& options, Host& host,
                                   Controller& controller, VirtualUnits& units,
                                   VirtualNetwork& network,
                                   Observers& observers, PacketExits& exits,
                                   ControllerFaultFigures& figures)
    : options_(options),
      host_(host),
      controller_(controller),
      units_(units),
      network_(network),
      observers_(observers),
      exits_(exits),
      figures_(figures),
      rng_(Rng(options.controller.seed).Fork(7)),
      of_units_(options.controller.max_units) {}

// --- The death. ---

void ControllerFaults::Kill(bool unit_has_failed) {
  if (!is_up() || unit_has_failed) {
    ++figures_.kills_in_vain;
    return;
  }
  ++figures_.kills;
  phase_ = Phase::kDead;
  died_ = network_.now();
  for (OfUnit& unit : of_units_) {
    unit.is_cut = unit.is_asked = unit.has_reported = unit.is_heard = false;
    unit.drained = 0;
    unit.drained_bytes = 0;
  }
  former_.emplace(std::move(controller_));
  host_.Succeed(++epoch_);
  network_.After(options_.faults.detection,
                 Event::OfUnit(Event::Kind::kSuccession, kNoUnit));
}

bool ControllerFaults::Hold(const FlowKey& key, bool by_alias,
                            PacketHandle packet) {
  if (is_up()) return false;
  if (phase_ == Phase::kDead || waiting_.size() == kMaxWaiting) {
    ++figures_.packets_lost;
    exits_.Drop(network_.now(), packet, DropReason::kControllerFailed);
    return true;
  }
  ++figures_.packets_waited;
  waiting_.push_back({key, by_alias, packet});
  return true;
}

bool ControllerFaults::HoldDrain(UnitId unit, uint32_t cost) {
  if (is_up() || phase_ == Phase::kMending) return false;
  OfUnit& of = KeptOf(unit);
  if (of.has_reported) {
    ++of.drained;
    of.drained_bytes += cost;
  }
  return true;
}

// --- What is under way. ---

bool ControllerFaults::IsFromController(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kReplicasAtUnit:
    case Event::Kind::kPacketAtUnit:
    case Event::Kind::kEndFlowAtUnit:
    case Event::Kind::kAliasAckAtUnit:
    case Event::Kind::kPiecesAtUnit:
    case Event::Kind::kReclaimAtUnit:
    case Event::Kind::kStopAtUnit:
    case Event::Kind::kDoneQueryAtUnit:
    case Event::Kind::kRedirectAtUnit:
    case Event::Kind::kNameAtUnit:
    case Event::Kind::kForsakeAtUnit:
      return true;
    default:
      return false;
  }
}

bool ControllerFaults::Take(const Event& event) {
  const bool is_away = phase_ == Phase::kDead || phase_ == Phase::kGathering;
  switch (event.kind) {
    case Event::Kind::kSuccession:
      BeginSuccession();
      return true;
    case Event::Kind::kReportQueryAtUnit:
      if (!KeptOf(event.unit).has_reported) MakeReport(event.unit);
      return true;
    case Event::Kind::kReportAtController:
      on_report(event.number);
      return true;
    case Event::Kind::kMending:
      Mend();
      return true;
    default:
      break;
  }
  if (MustReportFirst(event)) MakeReport(event.unit);
  if (is_away && IsFromController(event) && TakeUnsent(event)) return true;
  if (event.kind == Event::Kind::kNameAtUnit) {
    const auto name = names_.extract(event.number);
    VirtualUnit& shell = units_.of(event.unit);
    if (shell.process.lives()) {
      KeptOf(event.unit).kept.on_name(name.mapped(), [&](FlowId flow) {
        return Keeps(shell, flow);
      });
    }
    return true;
  }
  if (event.kind == Event::Kind::kToldAtUnit ||
      event.kind == Event::Kind::kEndToldAtUnit) {
    return TakeTold(event);
  }
  return is_away && TakeAtController(event);
}

// Returns true if the unit has anything of the flow.
bool ControllerFaults::Keeps(const VirtualUnit& shell, FlowId flow) {
  if (shell.unit.Keeps(flow)) return true;
  const auto& inside = shell.process.inside;
  const auto packet = inside.lower_bound({flow, Clock{}});
  return packet != inside.end() && packet->first.first == flow;
}

// Returns true if the event was in the buffers of the controller that died: all
// that follows for that unit was as well.
bool ControllerFaults::TakeUnsent(const Event& event) {
  OfUnit& of = KeptOf(event.unit);
  constexpr uint32_t kChance = 65'536 / 4;
  if (!of.is_cut && !rng_.Chance(kChance)) return false;
  of.is_cut = true;
  if (event.kind == Event::Kind::kPacketAtUnit) {
    ++figures_.clocks_lost;
    figures_.packets_lost += event.packet != kNoPacket ? 1 : 0;
  }
  if (event.kind == Event::Kind::kNameAtUnit) names_.erase(event.number);
  host_.Unsent(event);
  return true;
}

// The controller's acknowledgement comes only once it has heard.
bool ControllerFaults::TakeTold(const Event& event) {
  const uint64_t number = event.kind == Event::Kind::kToldAtUnit
                              ? event.number
                              : event.ended.number;
  const UnitProcess& process = units_.of(event.unit).process;
  return event.life == process.life && number > process.told;
}

// While there is no controller.
bool ControllerFaults::TakeAtController(const Event& event) {
  // The starts of units go on; leased ones have been started by others.
  const bool is_start =
      event.kind == Event::Kind::kUnitReady && !options_.controller.leased;
  if (!event.is_at_controller() && !is_start) return false;
  if (event.kind == Event::Kind::kKill || event.kind == Event::Kind::kHairpin) {
    return false;
  }
  Held held = {.event = event, .alias = {}};
  if (event.kind == Event::Kind::kAliasAtController) {
    held.alias = host_.TakeAlias();
  }
  // What the logger keeps until it is acknowledged is said again.
  const bool is_kept =
      event.is_from_unit() && event.record != StateNetwork::kNoRecord;
  if (is_start || is_kept || !event.is_from_unit() ||
      KeptOf(event.unit).is_heard) {
    held_.push_back(held);
  }
  return true;
}

// --- What units keep. ---

void ControllerFaults::SendName(UnitId unit, const FlowName& name) {
  names_.emplace(++last_name_, name);
  network_.AfterHop(
      {.kind = Event::Kind::kNameAtUnit, .unit = unit, .number = last_name_});
}

void ControllerFaults::on_start(const ControllerCommand& command) {
  OfUnit& of = KeptOf(command.unit);
  of.incarnation = command.incarnation;
  if (!command.warm) of.kept.BeginAnew();
}

void ControllerFaults::on_grant(const Event& event) {
  if (event.pieces.mask != 0) KeptOf(event.unit).kept.on_grant(event.pieces);
}

// --- The successor. ---

void ControllerFaults::BeginSuccession() {
  phase_ = Phase::kGathering;
  rebuild_.emplace(options_.controller.max_units,
                   options_.controller.max_flows);
  reports_.clear();
  awaited_ = 0;
  for (uint32_t i = 0; i < of_units_.size(); ++i) {
    AskUnit(UnitId{static_cast<uint16_t>(i)});
  }
  if (awaited_ == 0) BeginMending();
}

// The resource manager knows of those that have no process; their loggers have
// the ledgers.
void ControllerFaults::AskUnit(UnitId unit) {
  OfUnit& of = KeptOf(unit);
  const bool was_never_warm =
      of.incarnation == 0 && (options_.controller.leased ||
                              value(unit) >= options_.controller.warm_units);
  const bool has_process =
      !was_never_warm && units_.of(unit).process.lives() &&
      units_.of(unit).process.state != UnitProcess::State::kStopped;
  if (has_process) {
    of.is_asked = true;
    ++awaited_;
    const auto more = static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(
        std::max(kQueryJitterNs, options_.chaos.state_delay_max.ns))));
    network_.After(Nanos{options_.hop_delay.ns + more},
                   Event::OfUnit(Event::Kind::kReportQueryAtUnit, unit));
    return;
  }
  AddWords(unit);
  UnitReport report = {.unit = unit, .incarnation = of.incarnation};
  if (of.incarnation > 0) {
    report.was_sealed = units_.of(unit).log->logger().was_sealed();
  }
  rebuild_->on_unit(report);
}

void ControllerFaults::AddWords(UnitId unit) {
  KeptOf(unit).kept.ForEachWord(
      unit, [&](const PieceBlock& word) { rebuild_->on_word(word); });
}

// Collects what a unit reports, and puts what it asks for behind that.
class ControllerFaults::Collector final : public Unit::Report {
 public:
  Collector(UnitReports& reports, std::vector<Held>& asks)
      : reports_(reports), asks_(asks) {}
  void on_flow(const FlowReport& flow) override {
    reports_.flows.push_back(flow);
  }
  void on_packet(const PacketReport& packet) override {
    reports_.packets.push_back(packet);
  }
  void on_open_alias(const Alias& alias) override {
    Event event =
        Event::OfUnit(Event::Kind::kAliasAtController, reports_.unit.unit);
    asks_.push_back({.event = event, .alias = alias});
  }
  void on_open_request(const PieceRequest& request) override {
    asks_.push_back({.event = {.kind = Event::Kind::kPieceRequestAtController,
                               .unit = reports_.unit.unit,
                               .piece_request = request},
                     .alias = {}});
  }

 private:
  UnitReports& reports_;
  std::vector<Held>& asks_;
};

UnitReport ControllerFaults::StandingOf(VirtualUnit& shell) {
  const UnitId self = shell.unit.id();
  const OfUnit& of = KeptOf(self);
  UnitReport unit = {.unit = self,
                     .was_sealed = shell.log->logger().was_sealed(),
                     .incarnation = of.incarnation,
                     .grants = of.kept.grants()};
  unit.state = shell.ready           ? UnitReport::State::kActive
               : shell.process.is_up ? UnitReport::State::kStarting
                                     : UnitReport::State::kWarm;
  for (const auto& [name, inside] : shell.process.inside) {
    ++unit.slots;
    unit.bytes += controller_.CostOf(inside.meta.original_length);
  }
  SNF_CHECK(unit.slots == shell.process.in_channel);
  return unit;
}

// Whoever sent that has reported. Those that are not asked have nothing.
bool ControllerFaults::MustReportFirst(const Event& event) {
  if (phase_ != Phase::kGathering || !event.is_between_units()) return false;
  const OfUnit& of = KeptOf(event.unit);
  return of.is_asked && !of.has_reported && event.epoch == epoch_;
}

void ControllerFaults::MakeReport(UnitId self) {
  VirtualUnit& shell = units_.of(self);
  OfUnit& of = KeptOf(self);
  of.has_reported = true;
  shell.process.epoch = static_cast<uint16_t>(epoch_);
  // A Stop is void from now on.
  if (shell.stopping || shell.leaves) {
    shell.stopping = shell.leaves = shell.log->has_stopped = false;
    shell.unit.on_start();
  }
  UnitReports& reports = reports_.emplace_back();
  // Its process may have ended meanwhile, as the old controller had it.
  if (shell.process.state == UnitProcess::State::kStopped) {
    reports.unit = {.unit = self, .incarnation = of.incarnation};
  } else {
    reports.unit = StandingOf(shell);
    std::vector<Held> asks;
    Collector collector(reports, asks);
    shell.unit.MakeReport(collector);
    for (Held& ask : asks) {
      ask.event.life = shell.process.life;
      held_.push_back(ask);
    }
    of.kept.ForEachName(
        [&](const FlowName& name) { reports.names.push_back(name); });
    of.kept.ForEachGrant(
        [&](const GrantReport& grant) { reports.grants.push_back(grant); });
    // The marks of ends that the logger may not have.
    const LogChannel& log = *shell.log;
    for (uint64_t n = log.first(); !log.entry(n).empty(); ++n) {
      const auto entry = log.Parse(log.entry(n));
      SNF_CHECK(entry.has_value());
      if (!(*entry)->is(LogEntry::kEnd)) continue;
      reports.flows.push_back({.flow = (*entry)->meta.flow,
                               .clock = Clock{value((*entry)->meta.clock) - 1},
                               .unit = self,
                               .kind = FlowReport::Kind::kEnd});
    }
  }
  network_.AfterHop({.kind = Event::Kind::kReportAtController,
                     .number = reports_.size() - 1});
}

void ControllerFaults::on_report(uint64_t number) {
  const UnitReports& reports = reports_[number];
  KeptOf(reports.unit.unit).is_heard = true;
  AddWords(reports.unit.unit);
  for (const FlowName& name : reports.names) rebuild_->on_name(name);
  for (const FlowReport& flow : reports.flows) rebuild_->on_flow(flow);
  for (const PacketReport& packet : reports.packets) {
    rebuild_->on_packet(packet);
  }
  for (const GrantReport& grant : reports.grants) rebuild_->on_grant(grant);
  rebuild_->on_unit(reports.unit);
  if (--awaited_ == 0) BeginMending();
}

void ControllerFaults::BeginMending() {
  observers_.on_successor(network_.now());
  rebuild_->Begin(controller_, network_.now(), *former_);
  former_.reset();
  host_.on_rebuilt();
  phase_ = Phase::kMending;
  for (uint32_t i = 0; i < of_units_.size(); ++i) {
    const OfUnit& of = of_units_[i];
    if (of.drained == 0) continue;
    SNF_CHECK(controller_.on_drained(network_.now(),
                                     {.unit = UnitId{static_cast<uint16_t>(i)},
                                      .packets = of.drained,
                                      .bytes = of.drained_bytes}));
  }
  for (const Held& held : std::exchange(held_, {})) HandOver(held);
  Mend();
}

// Says what was put off, and acknowledges it if it is kept until then.
void ControllerFaults::HandOver(const Held& held) {
  const Event& event = held.event;
  host_.HandleHeld(event, held.alias);
  if (!event.is_from_unit() || event.record == StateNetwork::kNoRecord) return;
  if (event.kind == Event::Kind::kEndedAtController) {
    network_.AfterHop({.kind = Event::Kind::kEndToldAtUnit,
                       .unit = event.unit,
                       .ended = event.ended});
  } else {
    network_.AfterHop({.kind = Event::Kind::kToldAtUnit,
                       .unit = event.unit,
                       .number = event.record});
  }
}

void ControllerFaults::Mend() {
  ControllerOut out;
  const bool is_done = rebuild_->Advance(controller_, network_.now(), out);
  host_.ExecuteOf(out);
  if (!is_done) {
    network_.After(kMendRetry, Event::OfUnit(Event::Kind::kMending, kNoUnit));
    return;
  }
  const Rebuild::Figures& made = rebuild_->figures();
  figures_.flows += made.flows;
  figures_.flows_ending += made.flows_ending;
  figures_.flows_unnamed += made.flows_unnamed;
  figures_.flows_superseded += made.flows_superseded;
  figures_.tombstones += made.tombstones;
  figures_.recovery_ns.Record((network_.now() - died_).ns);
  phase_ = Phase::kUp;
  for (const Waiting& packet : std::exchange(waiting_, {})) {
    host_.Arrive(packet.key, packet.by_alias, packet.packet);
  }
}

}  // namespace snf
