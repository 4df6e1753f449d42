// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/controller_faults.h"

#include <algorithm>
#include <utility>

#include "controller/core/failover.h"
#include "platform/drivers/virtual_time/log_channel.h"

namespace snf {

ControllerFaults::ControllerFaults(const RunOptions& options, Host& host,
                                   Driver& driver, Controller& controller,
                                   VirtualUnits& units, VirtualNetwork& network,
                                   Observers& observers, PacketExits& exits,
                                   ControllerFaultFigures& figures)
    : options_(options),
      host_(host),
      driver_(driver),
      controller_(controller),
      units_(units),
      network_(network),
      observers_(observers),
      exits_(exits),
      figures_(figures),
      rng_(Rng(options.controller.seed).Fork(7)),
      succession_(options.controller.max_units, options.controller.max_flows,
                  2 * size_t{options.controller.max_units}, figures),
      of_units_(options.controller.max_units) {}

// --- The death. ---

void ControllerFaults::Kill() {
  const Phase phase = succession_.phase();
  if (phase == Phase::kDead) {
    ++figures_.kills_in_vain;
    return;
  }
  ++figures_.kills;
  deaths_.push_back(network_.now());
  for (const Arrival& packet : succession_.LoseWaiting()) {
    exits_.Drop(network_.now(), packet.packet, DropReason::kControllerFailed);
  }
  for (const Held& held : held_) {
    if (held.event.kind == Event::Kind::kFailureAtController) {
      host_.NoteFailure(held.event.unit);
    }
  }
  std::erase_if(held_, [&](const Held& held) { return !IsStillToSay(held); });
  for (OfUnit& unit : of_units_) {
    // A successor that was being made had sent nothing.
    if (phase != Phase::kGathering) unit.is_cut = false;
    unit.is_asked = unit.has_reported = unit.is_heard = false;
    unit.logger = {};
    unit.drained = 0;
    unit.drained_bytes = 0;
  }
  if (phase == Phase::kGathering) {
    succession_.Restart();
  } else {
    succession_.Fail(std::move(controller_));
  }
  host_.Succeed(succession_.newest_epoch());
  Event succession = Event::OfUnit(Event::Kind::kSuccession, kNoUnit);
  succession.epoch = epoch();
  network_.After(options_.faults.detection, succession);
}

// Returns true unless the unit's next report repeats the event.
bool ControllerFaults::IsStillToSay(const Held& held) const {
  const Event& event = held.event;
  if (event.kind == Event::Kind::kFailureAtController) return false;
  return !event.is_from_unit() || event.record != StateNetwork::kNoRecord;
}

bool ControllerFaults::Hold(const FlowKey& key, bool by_alias,
                            PacketHandle packet) {
  if (is_up()) return false;
  const Arrival arrival = {.key = key,
                           .time = network_.now(),
                           .packet = packet,
                           .by_alias = by_alias};
  if (!succession_.Hold(arrival)) {
    exits_.Drop(network_.now(), packet, DropReason::kControllerFailed);
  }
  return true;
}

bool ControllerFaults::HoldDrain(UnitId unit, uint32_t cost) {
  if (succession_.has_controller()) return false;
  OfUnit& of = KeptOf(unit);
  if (of.has_reported) {
    ++of.drained;
    of.drained_bytes += cost;
  }
  return true;
}

// --- What is under way. ---

bool ControllerFaults::IsFromController(const Event& event) {
  return event.kind == Event::Kind::kToUnit ||
         event.kind == Event::Kind::kNameAtUnit;
}

bool ControllerFaults::Take(const Event& event) {
  const bool is_away = !succession_.has_controller();
  const bool is_present = event.epoch == epoch();
  switch (event.kind) {
    case Event::Kind::kSuccession:
      if (is_present) BeginSuccession();
      return true;
    case Event::Kind::kReportQueryAtUnit:
      // The unit may have died since, and another process of it begun.
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

// Returns true if the event was in the buffers of the dead controller. All
// later events for that unit were there as well.
bool ControllerFaults::TakeUnsent(const Event& event) {
  // The event is for an earlier process of the unit, and is lost with it.
  if (event.life != units_.of(event.unit).process.life) return false;
  OfUnit& of = KeptOf(event.unit);
  constexpr uint32_t kChance = 65'536 / 4;
  if (!of.is_cut && !rng_.Chance(kChance)) return false;
  of.is_cut = true;
  if (event.Is(ControllerCommand::Kind::kEnqueue)) {
    ++figures_.clocks_lost;
    figures_.packets_lost += event.order.packet != kNoPacket ? 1 : 0;
  }
  if (event.kind == Event::Kind::kNameAtUnit) names_.erase(event.number);
  host_.Unsent(event);
  return true;
}

// Returns true if the acknowledgement is of a word that the controller has yet
// to hear.
bool ControllerFaults::TakeTold(const Event& event) {
  const uint64_t number = event.kind == Event::Kind::kToldAtUnit
                              ? event.number
                              : event.ended.number;
  const UnitProcess& process = units_.of(event.unit).process;
  return event.life == process.life && number > process.told;
}

// Takes words of sealed loggers while there is no controller: words about flows
// are their report, and pieces belong to the successor.
bool ControllerFaults::TakeFromLogger(const Event& event) {
  if (event.kind != Event::Kind::kFromLogger) return false;
  const UnitCommand& said = event.command;
  switch (said.kind) {
    case UnitCommand::Kind::kSendDone:
      if (is_gathering() &&
          said.done.round == Failover::FirstRound({.epoch = epoch()})) {
        on_logger_report(said.done);
      }
      return true;
    case UnitCommand::Kind::kSendGrants:
      observers_.on_grants_sealed(network_.now(), said.unit, said.grants);
      on_grants_sealed(said.unit, said.grants);
      return true;
    case UnitCommand::Kind::kReturnPieces:
      observers_.on_pieces_returned(network_.now(), said.pieces);
      on_returned(said.pieces);
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
  succession_.rebuild().on_unit(report);
  // The logger's earlier report lacks what its unit did since.
  succession_.rebuild().ForgetLogger(event.unit);
  if (!of.logger.is_awaited || of.logger.has_reported) AskLogger(event.unit);
  on_heard(SourceOf(event.unit));
}

// Takes events for the controller while there is none: they wait, or are said
// again.
bool ControllerFaults::TakeAtController(const Event& event) {
  // Starts of units go on; leased units were started by the resource manager.
  const bool is_start =
      event.kind == Event::Kind::kUnitReady && !options_.controller.leased;
  if (!event.is_at_controller() && !is_start) return false;
  if (event.kind == Event::Kind::kKill || event.kind == Event::Kind::kHairpin) {
    return false;
  }
  Held held = {.event = event, .alias = {}};
  if (event.Says(UnitCommand::Kind::kSendAlias)) {
    held.alias = network_.TakeAlias();
  }
  // The logger keeps its words until they are acknowledged, and repeats them.
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
    // If an earlier start has failed, packets may wait in the channel.
    of.kept.BeginAnew([&](FlowId flow) { return Keeps(shell, flow); });
  }
}

void ControllerFaults::on_grant(const PieceBlock& pieces) {
  if (pieces.mask != 0) KeptOf(pieces.unit).kept.on_grant(pieces);
}

}  // namespace snf
