// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/controller_faults.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "controller/core/failover.h"

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
      of_units_(options.controller.max_units),
      kept_(options.controller.max_units, units, network),
      round_(options, driver, controller, units, network, observers, kept_,
             succession_, held_, rng_) {}

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
    unit.drained = 0;
    unit.drained_bytes = 0;
  }
  round_.Forget();
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
  if (round_.has_reported(unit)) {
    OfUnit& of = of_units_[value(unit)];
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
      if (is_present) round_.on_unit_query(event.unit);
      return true;
    case Event::Kind::kReportQueryAtLogger:
      if (is_present) round_.on_logger_query(event.unit);
      return true;
    case Event::Kind::kReportAtController:
      if (is_present && round_.on_report(event.number)) MendIfHeard();
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
  round_.MakeReportsBefore(event);
  if (is_away && IsFromController(event) && TakeUnsent(event)) return true;
  if (event.kind == Event::Kind::kNameAtUnit) {
    kept_.on_name(event);
    return true;
  }
  if (event.kind == Event::Kind::kToldAtUnit ||
      event.kind == Event::Kind::kEndToldAtUnit) {
    return TakeTold(event);
  }
  return is_away && TakeAtController(event);
}

// Returns true if the event was in the buffers of the dead controller. All
// later events for that unit were there as well.
bool ControllerFaults::TakeUnsent(const Event& event) {
  // The event is for an earlier process of the unit, and is lost with it.
  if (event.life != units_.of(event.unit).process.life) return false;
  OfUnit& of = of_units_[value(event.unit)];
  constexpr uint32_t kChance = 65'536 / 4;
  if (!of.is_cut && !rng_.Chance(kChance)) return false;
  of.is_cut = true;
  if (event.Is(ControllerCommand::Kind::kEnqueue)) {
    ++figures_.clocks_lost;
    figures_.packets_lost += event.order.packet != kNoPacket ? 1 : 0;
  }
  if (event.kind == Event::Kind::kNameAtUnit) kept_.LoseName(event);
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
        if (round_.on_logger_report(said.done)) MendIfHeard();
      }
      return true;
    case UnitCommand::Kind::kSendGrants:
      observers_.on_grants_sealed(network_.now(), said.unit, said.grants);
      kept_.on_grants_sealed(said.unit, said.grants);
      return true;
    case UnitCommand::Kind::kReturnPieces:
      observers_.on_pieces_returned(network_.now(), said.pieces);
      kept_.on_returned(said.pieces);
      return true;
    default:
      return false;
  }
}

// The death of a unit is noticed while there is no controller.
void ControllerFaults::on_failure(const Event& event) {
  if (round_.has_reported(event.unit)) {
    held_.push_back({.event = event, .alias = {}});
    return;
  }
  host_.NoteFailure(event.unit);
  if (round_.on_failure(event.unit)) MendIfHeard();
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
      round_.is_heard(event.unit)) {
    held_.push_back(held);
  }
  return true;
}

// --- The succession. ---

void ControllerFaults::BeginSuccession() {
  succession_.Gather();
  round_.Begin();
  MendIfHeard();
}

void ControllerFaults::MendIfHeard() {
  if (succession_.has_all()) BeginMending();
}

void ControllerFaults::BeginMending() {
  for (uint32_t i = 0; i < of_units_.size(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    kept_.report(unit).ForEachWord(unit, [&](const PieceBlock& word) {
      succession_.rebuild().on_word(word);
    });
  }
  succession_.Begin(controller_, network_.now());
  TellRebuilt();
  host_.on_rebuilt();
  mend_retry_ = kMendRetry;
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

void ControllerFaults::TellRebuilt() {
  const FlowTable& flows = controller_.flows();
  for (uint32_t slot = 0; slot < flows.used(); ++slot) {
    if (flows.cold(slot).owner == kNoUnit) continue;
    const bool is_ending = (flows.hot(slot).flags & FlowHot::kEnding) != 0;
    host_.on_found(controller_.IdOfSlot(slot), flows.hot(slot).clock,
                   is_ending);
  }
  observers_.on_successor(network_.now());
  for (const AliasAck& alias : succession_.rebuild().withdrawn()) {
    host_.on_alias_withdrawn(alias.flow, alias.clock);
  }
}

// Delivers an event that waited for the successor. If the logger keeps it until
// the controller has it, the acknowledgement follows.
void ControllerFaults::HandOver(const Held& held) {
  const Event& event = held.event;
  if (event.Says(UnitCommand::Kind::kSendAlias)) network_.PutBack(held.alias);
  driver_.Handle(event);
  if (!event.is_from_unit() || event.record == StateNetwork::kNoRecord) return;
  if (event.command.kind == UnitCommand::Kind::kSendEnded) {
    network_.AfterHop({.kind = Event::Kind::kEndToldAtUnit,
                       .unit = event.unit,
                       .ended = {event.command.ended, event.record}});
  } else {
    network_.AfterHop({.kind = Event::Kind::kToldAtUnit,
                       .unit = event.unit,
                       .number = event.record});
  }
}

void ControllerFaults::Mend() {
  ControllerOut out;
  const bool is_done = succession_.Mend(controller_, network_.now(), out);
  host_.ExecuteOf(out);
  if (!is_done) {
    Event retry = Event::OfUnit(Event::Kind::kMending, kNoUnit);
    retry.epoch = epoch();
    network_.After(mend_retry_, retry);
    mend_retry_ = std::min(Nanos{2 * mend_retry_.ns}, kMaxMendRetry);
    return;
  }
  for (const Instant died : std::exchange(deaths_, {})) {
    figures_.recovery_ns.Record((network_.now() - died).ns);
  }
  for (const Arrival& packet : succession_.Finish()) {
    host_.Arrive(packet.key, packet.by_alias, packet.packet);
  }
}

}  // namespace snf
