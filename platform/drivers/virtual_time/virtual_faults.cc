// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/virtual_time/virtual_faults.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "platform/drivers/virtual_time/log_channel.h"

namespace snf {

using ProcessState = UnitProcess::State;

VirtualFaults::VirtualFaults(const RunOptions& options,
                             const Controller& controller, VirtualUnits& units,
                             VirtualNetwork& network, VirtualLoggers& loggers,
                             Observers& observers, PacketExits& exits,
                             FaultFigures& figures)
    : detection_(options.faults.detection),
      max_units_(options.controller.max_units),
      controller_(controller),
      units_(units),
      network_(network),
      loggers_(loggers),
      observers_(observers),
      exits_(exits),
      figures_(figures),
      of_loggers_(options, network, loggers, figures),
      rng_(Rng(options.controller.seed).Fork(6)),
      plan_(options.faults) {}

// --- Deaths. ---

void VirtualFaults::PlanKills(Instant first_packet) {
  plan_.on_start(first_packet);
  for (size_t i = 0; i < plan_.planned().size(); ++i) {
    network_.At(plan_.planned()[i].at,
                {.kind = Event::Kind::kKill, .number = i});
  }
}

void VirtualFaults::on_arrival() {
  plan_.on_arrival(rng_, [this](const Kill& kill) { KillOne(kill); });
}

void VirtualFaults::on_kill(size_t number) {
  KillOne(plan_.planned()[number].kill);
}

// While another controller is made, the one before knows more.
const Controller& VirtualFaults::Known() const {
  return controllers_ != nullptr ? controllers_->known() : controller_;
}

bool VirtualFaults::CanDie(UnitId unit) {
  switch (Known().units().state(unit)) {
    case UnitPool::State::kStopped:
    case UnitPool::State::kCrashed:
    case UnitPool::State::kFailed:
      return false;
    default:
      return units_.of(unit).process.state == ProcessState::kRuns &&
             !units_.of(unit).log->failure.has_value();
  }
}

// Returns true if the unit can take over what another had.
bool VirtualFaults::CanTakeOver(UnitId unit) {
  const UnitPool::State state = Known().units().state(unit);
  return state != UnitPool::State::kCrashed &&
         units_.of(unit).process.state != ProcessState::kDead;
}

// Returns true if the unit's logger has records, or updates of tables, of an
// earlier process that nobody else has, or may come to have some.
bool VirtualFaults::IsSource(UnitId unit) const {
  if (units_.of(unit).process.life == 1) return false;
  if (units_.of(unit).log->logger().updates().has_earlier()) return true;
  if (controller_.is_recovering() || !IsControllerUp()) return true;
  bool is_source = false;
  for (uint32_t slot = 0; slot < controller_.flows().used(); ++slot) {
    controller_.owners().ForEach(slot, [&](const OwnerHistory::Run& run) {
      is_source |= run.at_logger && run.unit == unit;
    });
  }
  return is_source;
}

bool VirtualFaults::CanLoggerDie(UnitId unit) {
  return CanDie(unit) && LoggerFaults::CanDie(units_.of(unit)) &&
         !IsSource(unit);
}

void VirtualFaults::KillLogger(const Kill& kill) {
  std::vector<UnitId> units;
  for (uint32_t i = 0; i < max_units_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (kill.unit != kNoUnit && kill.unit != unit) continue;
    if (CanLoggerDie(unit)) units.push_back(unit);
  }
  if (units.empty()) {
    ++figures_.kills_without_logger;
    return;
  }
  VirtualUnit& shell = units_.of(units[rng_.Below(units.size())]);
  of_loggers_.KillLogger(network_.now(), kill.victim, shell, rng_);
}

// Returns true if the host has a running unit, or the logger of a running unit,
// and not the only copy of a state. A logger that is to replace another logger
// has not begun.
bool VirtualFaults::CanHostDie(uint32_t host) {
  const HostMap& hosts = network_.hosts();
  bool has_any = false;
  bool has_other = false;
  for (uint32_t i = 0; i < max_units_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    const UnitProcess& process = units_.of(unit).process;
    if (hosts.host_of(unit) == host) {
      if (CanDie(unit)) {
        has_any = true;
      } else if (process.state == ProcessState::kRuns &&
                 units_.of(unit).log->failure.has_value()) {
        return false;
      }
    } else {
      has_other |= CanTakeOver(unit);
    }
    if (hosts.host_of_logger(unit) != host) continue;
    if (CanLoggerDie(unit)) {
      has_any = true;
    } else if (process.state == ProcessState::kDead || IsSource(unit)) {
      return false;
    }
  }
  return has_any && has_other;
}

// Kills all units of the host, and all loggers on it, which serve other hosts.
void VirtualFaults::KillHost(const Kill& kill) {
  const HostMap& hosts = network_.hosts();
  std::vector<uint32_t> victims;
  const uint32_t all =
      hosts.host_of(UnitId{static_cast<uint16_t>(max_units_ - 1)});
  for (uint32_t host = 0; host <= all; ++host) {
    if (kill.host >= 0 && static_cast<uint32_t>(kill.host) != host) continue;
    if (CanHostDie(host)) victims.push_back(host);
  }
  if (victims.empty()) {
    ++figures_.kills_without_host;
    return;
  }
  ++figures_.host_kills;
  const uint32_t victim = victims[rng_.Below(victims.size())];
  for (uint32_t i = 0; i < max_units_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    const bool has_logger = hosts.host_of_logger(unit) == victim;
    if (hosts.host_of(unit) == victim && CanDie(unit)) {
      KillUnit(units_.of(unit));
    } else if (has_logger && CanLoggerDie(unit)) {
      of_loggers_.KillLogger(network_.now(), Kill::Victim::kLoggerHost,
                             units_.of(unit), rng_);
    }
  }
}

// Kills none if nobody else could take over what it has.
void VirtualFaults::KillOne(const Kill& kill) {
  if (kill.is_of_controller()) {
    controllers_->Kill();
    return;
  }
  if (kill.is_of_logger()) return KillLogger(kill);
  if (kill.is_of_host()) return KillHost(kill);
  std::vector<UnitId> units;
  uint32_t others = 0;
  for (uint32_t i = 0; i < max_units_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    others += CanTakeOver(unit) ? 1 : 0;
    if (kill.unit != kNoUnit && kill.unit != unit) continue;
    if (CanDie(unit)) units.push_back(unit);
  }
  const UnitId victim =
      units.empty() ? kNoUnit : units[rng_.Below(units.size())];
  if (victim == kNoUnit || others == (CanTakeOver(victim) ? 1u : 0u)) {
    ++figures_.kills_without_unit;
    return;
  }
  KillUnit(units_.of(victim));
}

// The process is gone with its packets, and nobody is told.
void VirtualFaults::KillUnit(VirtualUnit& shell) {
  UnitProcess& process = shell.process;
  const UnitId self = shell.unit.id();
  ++figures_.kills;
  process.state = ProcessState::kDead;
  process.died = network_.now();
  for (const auto& [flow_and_clock, inside] : process.inside) {
    LoseClock(self, inside.meta, inside.packet);
  }
  process.inside.clear();
  shell.log->maker().ForEachWaiting(
      [&](PacketHandle made) { LoseMade(self, {}, made); });
  network_.After(detection_,
                 Event::OfUnit(Event::Kind::kFailureAtController, self));
}

void VirtualFaults::on_failure(UnitId unit) {
  UnitProcess& process = units_.of(unit).process;
  process.state = ProcessState::kFailed;
  ++process.life;
  if (std::exchange(process.is_up, false)) {
    observers_.on_unit_down(network_.now(), unit);
  }
  deaths_.push_back(process.died);
}

void VirtualFaults::NoteRecovery() {
  if (deaths_.empty() || controller_.is_recovering() || !IsControllerUp()) {
    return;
  }
  for (const Instant died : deaths_) {
    figures_.recovery_ns.Record((network_.now() - died).ns);
  }
  deaths_.clear();
}

// --- What reaches nobody. ---

bool VirtualFaults::IsRefused(const Event& event) {
  UnitProcess& process = units_.of(event.unit).process;
  if (event.life != process.life) return true;
  if (event.record != StateNetwork::kNoRecord) process.told = event.record;
  return false;
}

bool VirtualFaults::IsLost(const Event& event, const UnitProcess& process) {
  switch (event.kind) {
    case Event::Kind::kBetweenUnits:
      return !event.command.to_logger && !process.lives();
    case Event::Kind::kEntryAtLogger:
    case Event::Kind::kHeartbeatAtLogger:
      return event.life != process.log_life;
    case Event::Kind::kLoggerReady:
    case Event::Kind::kLoggerRestored:
      return false;
    case Event::Kind::kToUnit:
      if (event.Is(ControllerCommand::Kind::kSeal)) return false;
      if (event.Is(ControllerCommand::Kind::kForget)) {
        return !event.order.of_logger && !process.lives();
      }
      [[fallthrough]];
    default:
      return !process.lives() || event.life != process.life;
  }
}

bool VirtualFaults::Lose(const Event& event, VirtualUnit& shell) {
  if (LoggerFaults::IsLost(event, shell)) return true;
  if (!IsLost(event, shell.process)) return false;
  if (event.Is(ControllerCommand::Kind::kEnqueue)) {
    LoseClock(event.unit, event.order.meta, event.order.packet);
  } else if (event.Is(ControllerCommand::Kind::kEndFlow)) {
    ++figures_.ends_lost;
  } else if (const auto takeover = event.takeover(); takeover.has_value()) {
    // Once it is sealed, the unit's logger takes a Takeover (U7).
    if (shell.log->logger().sealed()) loggers_.on_takeover(shell, *takeover);
  } else if (event.is_between_units() &&
             event.command.kind == UnitCommand::Kind::kSendState) {
    network_.states().Free(event.record);
  }
  return true;
}

void VirtualFaults::on_seal(const Seal& seal, VirtualUnit& shell) {
  if (shell.log->failure.has_value()) {
    // Its unit runs: others have failed, and the next logger answers.
    shell.process.seal = seal;
    shell.log->failure->is_asked = true;
    return;
  }
  const bool seals = !seal.is_sealed && !shell.log->logger().sealed();
  loggers_.on_seal(shell, seal);
  if (seals) LoseEntries(shell);
}

// What the logger has not taken never came to it, or waits there behind a hole.
void VirtualFaults::LoseEntries(VirtualUnit& shell) {
  LogChannel& log = *shell.log;
  const UnitId self = shell.unit.id();
  const uint64_t taken = log.logger().taken();
  // A logger that took over has what some entries did that never came to it.
  const uint64_t kept = std::max(taken, log.logger().kept_through());
  loggers_.LosePackets(shell, std::max(log.first(), taken + 1), kept);
  for (uint64_t number = std::max(log.first(), kept + 1);
       !log.entry(number).empty(); ++number) {
    ++figures_.entries_lost;
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

void VirtualFaults::LoseClock(UnitId unit, const PacketMeta& meta,
                              PacketHandle packet) {
  if (packet == kNoPacket) {
    ++figures_.null_packets_lost;
  } else {
    ++figures_.packets_lost;
    exits_.Lose(network_.now(), unit, meta, packet, /*generated=*/false);
  }
  observers_.on_lost(network_.now(), unit, meta);
}

// A packet that an NF made, or its log records, are lost.
void VirtualFaults::LoseMade(UnitId unit, const PacketMeta& meta,
                             PacketHandle packet) {
  const bool is_packet =
      exits_.Lose(network_.now(), unit, meta, packet, /*generated=*/true);
  figures_.packets_lost += is_packet ? 1 : 0;
}

// --- What units have. ---

void VirtualFaults::on_start(const ControllerCommand& command) {
  VirtualUnit& shell = units_.of(command.unit);
  const ProcessState state = shell.process.state;
  const bool is_gone =
      state == ProcessState::kFailed || state == ProcessState::kStopped;
  if (!command.warm && is_gone) {
    // The controller has a new channel to it.
    if (state == ProcessState::kStopped) ++shell.process.life;
    units_.Renew(command.unit);
    observers_.on_process_begins(network_.now(), command.unit);
  }
  UnitProcess& process = units_.of(command.unit).process;
  // A Stop that is withdrawn may have been obeyed just before.
  if (process.state == ProcessState::kStopped) {
    process.state = ProcessState::kRuns;
  }
  process.is_up = true;
}

void VirtualFaults::on_packet(const ControllerCommand& enqueue,
                              VirtualUnit& shell) {
  // A Stop was obeyed that the controller had withdrawn.
  if (shell.process.state == ProcessState::kStopped) {
    shell.process.state = ProcessState::kRuns;
  }
  shell.process.inside.insert_or_assign(
      {enqueue.meta.flow, enqueue.meta.clock},
      UnitProcess::Inside{enqueue.packet, enqueue.meta});
}

// Packets leave the unit.
void VirtualFaults::on_command(const UnitCommand& command, VirtualUnit& shell) {
  if (command.kind > UnitCommand::Kind::kDropPayload) return;
  auto& inside = shell.process.inside;
  const std::pair<FlowId, Clock> name = {command.meta.flow, command.meta.clock};
  if (command.kind <= UnitCommand::Kind::kAdvance) {
    inside.erase(name);
  } else if (command.kind == UnitCommand::Kind::kDropPayload) {
    const auto dropped = inside.find(name);
    if (dropped != inside.end()) dropped->second.packet = kNoPacket;
  }
}

}  // namespace snf
