// SPDX-License-Identifier: Apache-2.0
#include "platform/virtual_time/controller_faults.h"

#include <algorithm>
#include <utility>

#include "controller/core/failover.h"
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

void ControllerFaults::Kill() {
  if (phase_ == Phase::kDead) {
    ++figures_.kills_in_vain;
    return;
  }
  ++figures_.kills;
  deaths_.push_back(network_.now());
  for (const Waiting& packet : std::exchange(waiting_, {})) {
    ++figures_.packets_lost;
    exits_.Drop(network_.now(), packet.packet, DropReason::kControllerFailed);
  }
  for (const Held& held : held_) {
    if (held.event.kind == Event::Kind::kFailureAtController) {
      host_.NoteFailure(held.event.unit);
    }
  }
  std::erase_if(held_, [&](const Held& held) { return !IsStillToSay(held); });
  for (OfUnit& unit : of_units_) {
    // One that had not begun had sent nothing yet.
    if (phase_ != Phase::kGathering) unit.is_cut = false;
    unit.is_asked = unit.has_reported = unit.is_heard = false;
    unit.logger = {};
    unit.drained = 0;
    unit.drained_bytes = 0;
  }
  if (phase_ != Phase::kGathering) former_.emplace(std::move(controller_));
  phase_ = Phase::kDead;
  host_.Succeed(++epoch_);
  Event succession = Event::OfUnit(Event::Kind::kSuccession, kNoUnit);
  succession.epoch = static_cast<uint16_t>(epoch_);
  network_.After(options_.faults.detection, succession);
}

// What a unit says that nobody keeps for it, its next report says as well.
bool ControllerFaults::IsStillToSay(const Held& held) const {
  const Event& event = held.event;
  if (event.kind == Event::Kind::kFailureAtController) return false;
  return !event.is_from_unit() || event.record != StateNetwork::kNoRecord;
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
    case Event::Kind::kSealAtLogger:
      return true;
    case Event::Kind::kTakeoverAtUnit:
    case Event::Kind::kTakeoverAtLogger:
      return event.takeover.taker == kNoUnit;
    default:
      return false;
  }
}

bool ControllerFaults::Take(const Event& event) {
  const bool is_away = phase_ == Phase::kDead || phase_ == Phase::kGathering;
  const bool is_present = event.epoch == epoch_;
  switch (event.kind) {
    case Event::Kind::kSuccession:
      if (is_present) BeginSuccession();
      return true;
    case Event::Kind::kReportQueryAtUnit:
      // Unless it has died, and another process of it has begun.
      if (is_present && KeptOf(event.unit).is_asked &&
          !KeptOf(event.unit).has_reported) {
        MakeReport(event.unit);
      }
      return true;
    case Event::Kind::kReportQueryAtLogger:
      if (is_present && !KeptOf(event.unit).logger.has_reported) {
        MakeLoggerReport(event.unit);
      }
      return true;
    case Event::Kind::kReportAtController:
      if (is_present) on_report(event.number);
      return true;
    case Event::Kind::kMending:
      if (is_present) Mend();
      return true;
    case Event::Kind::kFailureAtController:
      if (is_away) on_failure(event);
      return is_away;
    default:
      break;
  }
  if (is_away && TakeFromLogger(event)) return true;
  if (MustLoggerReportFirst(event)) MakeLoggerReport(event.unit);
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
  if (shell.log->logger().applied(flow) != Clock{}) return true;
  const auto& inside = shell.process.inside;
  const auto packet = inside.lower_bound({flow, Clock{}});
  return packet != inside.end() && packet->first.first == flow;
}

// Returns true if the event was in the buffers of the controller that died: all
// that follows for that unit was as well.
bool ControllerFaults::TakeUnsent(const Event& event) {
  // What is for a unit that has failed since is lost there.
  if (event.life != units_.of(event.unit).process.life) return false;
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

// What sealed loggers say while there is no controller: what they have of flows
// is their report; of pieces, that those are the next controller's.
bool ControllerFaults::TakeFromLogger(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kSealedAtController:
      if (phase_ == Phase::kGathering &&
          event.done.round == Failover::FirstRound({.epoch = epoch_})) {
        on_logger_report(event.done);
      }
      return true;
    case Event::Kind::kGrantsSealedAtController:
      observers_.on_grants_sealed(network_.now(), event.unit, event.number);
      on_grants_sealed(event.unit, event.number);
      return true;
    case Event::Kind::kPiecesAtController:
      if (event.unit != kNoUnit) return false;
      observers_.on_pieces_returned(network_.now(), event.pieces);
      on_returned(event.pieces);
      return true;
    default:
      return false;
  }
}

// The death of a unit is noticed while there is no controller.
void ControllerFaults::on_failure(const Event& event) {
  OfUnit& of = KeptOf(event.unit);
  if (of.has_reported) {
    held_.push_back({.event = event, .alias = {}});
    return;
  }
  host_.NoteFailure(event.unit);
  if (!of.is_asked) return;
  of.is_asked = false;
  of.is_heard = true;
  UnitReport report = {.unit = event.unit,
                       .was_sealed = true,
                       .has_failed = true,
                       .incarnation = of.incarnation};
  rebuild_->on_unit(report);
  // What it has reported may be older than what its unit did since.
  rebuild_->ForgetLogger(event.unit);
  if (!of.logger.is_awaited || of.logger.has_reported) AskLogger(event.unit);
  on_heard();
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
  const VirtualUnit& shell = units_.of(command.unit);
  if (!command.warm) {
    // Packets may wait in its channel, where a start has failed before.
    of.kept.BeginAnew([&](FlowId flow) { return Keeps(shell, flow); });
  }
}

void ControllerFaults::on_grant(const Event& event) {
  if (event.pieces.mask != 0) KeptOf(event.unit).kept.on_grant(event.pieces);
}

}  // namespace snf
