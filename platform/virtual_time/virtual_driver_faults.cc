// SPDX-License-Identifier: Apache-2.0
//
// Units that fail (proto/protocol.md F1-F6, F10), in virtual time.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "platform/virtual_time/log_channel.h"
#include "platform/virtual_time/virtual_driver.h"
#include "platform/virtual_time/virtual_driver_event.h"

namespace snf {

using ProcessState = UnitProcess::State;

// What comes by an older channel than that of the receiver is refused (U14).
void VirtualDriver::Stamp(Event& event) {
  if (event.unit == kNoUnit || event.life != 0) return;
  event.life = units_.of(event.unit).process.life;
}

// --- Deaths. ---

// Those with a time; the first packet has just come.
void VirtualDriver::PlanKills() {
  const std::vector<Kill>& kills = options_.faults.kills;
  for (size_t i = 0; i < kills.size(); ++i) {
    if (kills[i].at.ns < 0) continue;
    Push(result_.first_packet + kills[i].at,
         {.kind = Event::Kind::kKill, .number = i});
  }
}

void VirtualDriver::MeetChance() {
  for (const Kill& kill : options_.faults.kills) {
    if (kill.at.ns < 0 && fault_rng_.Chance(kill.chance_65536)) KillOne(kill);
  }
}

bool VirtualDriver::CanDie(UnitId unit) {
  switch (controller_.units().state(unit)) {
    case UnitPool::State::kStopped:
    case UnitPool::State::kCrashed:
    case UnitPool::State::kFailed:
      return false;
    default:
      return units_.of(unit).process.state == ProcessState::kRuns;
  }
}

// Returns true if the unit can take over what another had.
bool VirtualDriver::CanTakeOver(UnitId unit) {
  const UnitPool::State state = controller_.units().state(unit);
  return state != UnitPool::State::kCrashed &&
         state != UnitPool::State::kStopping &&
         units_.of(unit).process.state != ProcessState::kDead;
}

// Kills none if nobody else could take over what it has.
void VirtualDriver::KillOne(const Kill& kill) {
  std::vector<UnitId> units;
  uint32_t others = 0;
  for (uint32_t i = 0; i < options_.controller.max_units; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    others += CanTakeOver(unit) ? 1 : 0;
    if (kill.unit != kNoUnit && kill.unit != unit) continue;
    if (CanDie(unit)) units.push_back(unit);
  }
  const UnitId victim =
      units.empty() ? kNoUnit : units[fault_rng_.Below(units.size())];
  if (victim == kNoUnit || others == (CanTakeOver(victim) ? 1u : 0u)) {
    ++result_.faults.kills_without_unit;
    return;
  }
  KillUnit(units_.of(victim));
}

// The process is gone with its packets, and nobody is told.
void VirtualDriver::KillUnit(VirtualUnit& shell) {
  UnitProcess& process = shell.process;
  const UnitId self = shell.unit.id();
  ++result_.faults.kills;
  process.state = ProcessState::kDead;
  process.died = now_;
  waiting_ -= std::exchange(process.waiting, 0);
  for (const auto& [flow_and_clock, inside] : process.inside) {
    LoseClock(self, inside.meta, inside.packet);
  }
  process.inside.clear();
  shell.log->maker().ForEachWaiting(
      [&](PacketHandle made) { LoseMade(self, {}, made); });
  Push(now_ + options_.faults.detection,
       Event::OfUnit(Event::Kind::kFailureAtController, self));
}

// The controller learns that the unit's process is gone.
void VirtualDriver::on_failure(UnitId unit) {
  UnitProcess& process = units_.of(unit).process;
  process.state = ProcessState::kFailed;
  ++process.life;
  in_channels_ -= std::exchange(process.in_channel, 0);
  if (std::exchange(process.is_up, false)) {
    observers_.on_unit_down(now_, unit);
  }
  deaths_.push_back(process.died);
  SNF_CHECK(controller_.on_unit_failed(
      now_, unit, controller_.units().incarnation(unit), controller_out_));
}

void VirtualDriver::NoteRecovery() {
  if (deaths_.empty() || controller_.is_recovering()) return;
  for (const Instant died : deaths_) {
    result_.faults.recovery_ns.Record((now_ - died).ns);
  }
  deaths_.clear();
}

void VirtualDriver::Start(const ControllerCommand& command) {
  const ProcessState state = units_.of(command.unit).process.state;
  if (!command.warm &&
      (state == ProcessState::kFailed || state == ProcessState::kStopped)) {
    // The controller has a new channel to it.
    if (state == ProcessState::kStopped) ++units_.of(command.unit).process.life;
    units_.Renew(command.unit);
    observers_.on_process_begins(now_, command.unit);
  }
  units_.of(command.unit).process.is_up = true;
}

// --- What is lost. ---

// A packet goes into a unit's channel. If it is a tombstone in place of one
// that set the flow's alias, the alias is withdrawn.
void VirtualDriver::NoteGiven(const ControllerCommand& command) {
  ++units_.of(command.unit).process.in_channel;
  const PacketMeta& meta = command.meta;
  if ((meta.flags & PacketMeta::kTombstone) == 0) return;
  if (controller_.aliases().clock(slot_of(meta.flow)) != Clock{}) return;
  ingress_.ForgetAlias(meta.flow, meta.clock);
}

void VirtualDriver::NoteLeft(VirtualUnit& shell, const UnitCommand& command) {
  auto& inside = shell.process.inside;
  const std::pair<FlowId, Clock> name = {command.meta.flow, command.meta.clock};
  if (command.kind <= UnitCommand::Kind::kAdvance) {
    inside.erase(name);
  } else if (command.kind == UnitCommand::Kind::kDropPayload) {
    const auto dropped = inside.find(name);
    if (dropped != inside.end()) dropped->second.packet = kNoPacket;
  }
}

// Returns true if nobody is there to take it.
bool VirtualDriver::IsLost(const Event& event, const VirtualUnit& shell) {
  const UnitProcess& process = shell.process;
  switch (event.kind) {
    case Event::Kind::kPullAtUnit:
    case Event::Kind::kStateAtUnit:
    case Event::Kind::kTakeoverAtUnit:
    case Event::Kind::kTakeoverAckAtUnit:
      return !process.lives();
    case Event::Kind::kEntryAtLogger:
    case Event::Kind::kHeartbeatAtLogger:
      return event.life != process.log_life;
    case Event::Kind::kPullAtLogger:
    case Event::Kind::kTakeoverAtLogger:
    case Event::Kind::kSealAtLogger:
      return false;
    default:
      return !process.lives() || event.life != process.life;
  }
}

void VirtualDriver::Lose(const Event& event, VirtualUnit& shell) {
  switch (event.kind) {
    case Event::Kind::kPacketAtUnit:
      LoseClock(event.unit, event.meta, event.packet);
      break;
    case Event::Kind::kStateAtUnit:
      network_.Free(event.record);
      break;
    case Event::Kind::kTakeoverAtUnit:
      // Its logger takes it in its place, once it is sealed (U7).
      logger_out_.clear();
      shell.log->logger().on_takeover(event.takeover, logger_out_);
      ExecuteLogger(shell);
      break;
    case Event::Kind::kEndFlowAtUnit:
      ++result_.faults.ends_lost;
      break;
    default:
      break;
  }
}

// A clock is lost, with its packet if it has one.
void VirtualDriver::LoseClock(UnitId unit, const PacketMeta& meta,
                              PacketHandle packet) {
  if (packet == kNoPacket) {
    ++result_.faults.null_packets_lost;
  } else {
    ++result_.faults.packets_lost;
    exits_.Lose(now_, unit, meta, packet);
  }
  observers_.on_lost(now_, unit, meta);
}

// A packet that an NF made is lost.
void VirtualDriver::LoseMade(UnitId unit, const PacketMeta& meta,
                             PacketHandle packet) {
  ++result_.packets_generated;
  ++result_.faults.packets_lost;
  exits_.Lose(now_, unit, meta, packet);
}

// What the logger has not taken is lost: it never came, or waits behind a hole.
void VirtualDriver::LoseEntries(VirtualUnit& shell) {
  LogChannel& log = *shell.log;
  const UnitId self = shell.unit.id();
  const uint64_t taken = log.logger().taken();
  for (uint64_t number = std::max(log.first(), taken + 1);
       !log.entry(number).empty(); ++number) {
    ++result_.faults.entries_lost;
    const auto entry = log.Parse(log.entry(number));
    SNF_CHECK(entry.has_value());
    if ((*entry)->kind != LogEntry::Kind::kClock) continue;
    const PacketMeta& meta = (*entry)->meta;
    for (size_t i = 0; i < (*entry)->emitted; ++i) {
      LoseMade(self, meta, entry->emitted(i));
    }
    // A flow's end has no clock of the controller's.
    if ((meta.flags & PacketMeta::kEnd) != 0) continue;
    LoseClock(self, meta, (*entry)->packet);
  }
}

// --- Recovery. ---

void VirtualDriver::on_done_query(VirtualUnit& shell, DoneQuery query) {
  const UnitId self = shell.unit.id();
  const auto answer = [&](const DoneAnswer& done) {
    PushInOrder(
        now_ + options_.hop_delay,
        {.kind = Event::Kind::kDoneAtController, .unit = self, .done = done});
  };
  uint32_t at = 0;
  while (auto done = shell.unit.NextDone(at)) {
    done->round = query.round;
    answer(*done);
  }
  answer({.round = query.round, .unit = self});
}

void VirtualDriver::on_seal(VirtualUnit& shell, const Seal& seal) {
  OutputLogger& logger = shell.log->logger();
  shell.process.seal = seal;
  const bool seals = !seal.is_sealed && !logger.sealed();
  if (seals) {
    LoseEntries(shell);
    logger.Seal();
  } else {
    logger.Report();
  }
  while (logger.has_more()) {
    logger_out_.clear();
    logger.Resume(logger_out_);
    ExecuteLogger(shell);
  }
}

// What a sealed logger says.
void VirtualDriver::ExecuteSealed(VirtualUnit& shell,
                                  const LoggerCommand& command) {
  using Kind = LoggerCommand::Kind;
  const UnitId self = shell.unit.id();
  const Instant after_hop = now_ + options_.hop_delay;
  const uint32_t round = shell.process.seal.round;
  switch (command.kind) {
    case Kind::kSendState:
      SendState(self, command.unit, command.state,
                shell.log->logger().state_bytes(command.state.flow));
      break;
    case Kind::kTell:
      on_tell(shell, command.tell);
      break;
    case Kind::kFreePieces: {
      PieceBlock pieces = command.pieces;
      pieces.unit = self;
      PushInOrder(after_hop,
                  {.kind = Event::Kind::kPiecesAtController, .pieces = pieces});
      break;
    }
    case Kind::kApplied:
      PushInOrder(after_hop, {.kind = Event::Kind::kSealedAtController,
                              .done = {.flow = command.applied.flow,
                                       .applied = command.applied.clock,
                                       .round = round,
                                       .unit = self}});
      break;
    case Kind::kSealed:
      // Else another process has grants by now, with numbers of its own.
      if (!shell.process.seal.is_sealed) {
        PushInOrder(after_hop, {.kind = Event::Kind::kGrantsSealedAtController,
                                .unit = self,
                                .number = command.sealed.grant});
      }
      PushInOrder(after_hop, {.kind = Event::Kind::kSealedAtController,
                              .done = {.round = round, .unit = self}});
      break;
    default:
      SNF_CHECK(false);
  }
}

// The controller hears what the unit has not told it itself.
void VirtualDriver::on_tell(VirtualUnit& shell, const LoggerTell& tell) {
  if (tell.ended) {
    // The controller has ended the flow by itself.
    shell.log->logger().on_end_ack(tell.note.flow, tell.note.clock);
    return;
  }
  if (tell.number <= shell.process.told) return;
  ++result_.faults.tells_by_loggers;
  const Instant after_hop = now_ + options_.hop_delay;
  if (tell.is_return) {
    PieceBlock pieces = tell.pieces;
    pieces.unit = shell.unit.id();
    PushInOrder(after_hop,
                {.kind = Event::Kind::kPiecesAtController, .pieces = pieces});
  } else {
    PushInOrder(after_hop,
                {.kind = Event::Kind::kNoteAtController, .note = tell.note});
  }
}

void VirtualDriver::HandleFailover(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kKill:
      KillOne(options_.faults.kills[event.number]);
      break;
    case Event::Kind::kFailureAtController:
      on_failure(event.unit);
      break;
    case Event::Kind::kDoneAtController:
      controller_.on_done(now_, event.done, controller_out_);
      break;
    case Event::Kind::kGrantsSealedAtController:
      observers_.on_grants_sealed(now_, event.unit, event.number);
      controller_.on_grants_sealed(now_, event.unit, event.number,
                                   controller_out_);
      break;
    case Event::Kind::kSealedAtController:
      controller_.on_sealed(now_, event.done, controller_out_);
      break;
    default:
      SNF_CHECK(false);
  }
}

}  // namespace snf
