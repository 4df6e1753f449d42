// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_FAULTS_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "platform/drivers/virtual_time/controller_faults.h"
#include "platform/drivers/virtual_time/logger_faults.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_loggers.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/kill_plan.h"
#include "platform/run/observers.h"
#include "platform/run/packet_exits.h"
#include "platform/run/run.h"

namespace snf {

// The failures of units in a run in virtual time (proto/protocol.md F1-F6), and
// of their loggers (logger_faults.h): which unit dies and when, what is lost
// with it, and how long recovery takes. A host dies with its process and all
// packets in it; messages that it has sent arrive.
//
//   death ─detection─► controller ─Seal, hop─► logger ─► Re-route … recovered
//
// Owner-thread only.
class VirtualFaults {
 public:
  // All of them must outlive the object.
  VirtualFaults(const RunOptions& options, const Controller& controller,
                VirtualUnits& units, VirtualNetwork& network,
                VirtualLoggers& loggers, Observers& observers,
                PacketExits& exits, FaultFigures& figures);

  // Says that the controller may fail as well.
  void set_controllers(ControllerFaults* controllers) {
    controllers_ = controllers;
  }

  // --- Deaths. ---

  // Schedules the kills that have a time, counted from the first packet.
  void PlanKills(Instant first_packet);
  // Kills by chance, as a packet arrives.
  void on_arrival();
  // Executes the kill of this number in the plan.
  void on_kill(size_t number);
  // The controller is about to learn that the unit's process has died.
  void on_failure(UnitId unit);
  // Follows each event: notes when recovery from all deaths has ended.
  void NoteRecovery();

  // --- Messages that are lost. ---

  // Returns true for an event at the controller, from a unit, that came by an
  // older channel (U14).
  bool IsRefused(const VirtualEvent& event);
  // Returns true for an event at a unit or its logger that nobody is there to
  // take, and counts what is lost with it.
  bool Lose(const VirtualEvent& event, VirtualUnit& shell);
  LoggerFaults& of_loggers() { return of_loggers_; }
  // The logger is to seal its unit: entries that it has not taken are lost.
  void on_seal(const Seal& seal, VirtualUnit& shell);

  // Counts a clock that is lost, and drops its packet if it has one.
  void LoseClock(UnitId unit, const PacketMeta& meta, PacketHandle packet);

  // --- Packets in units. ---

  void on_start(const ControllerCommand& command);
  void on_packet(const ControllerCommand& enqueue, VirtualUnit& shell);
  void on_command(const UnitCommand& command, VirtualUnit& shell);

 private:
  using Event = VirtualEvent;

  const Controller& Known() const;
  bool IsControllerUp() const {
    return controllers_ == nullptr || controllers_->is_up();
  }
  bool CanDie(UnitId unit);
  bool CanTakeOver(UnitId unit);
  void KillOne(const Kill& kill);
  bool IsSource(UnitId unit) const;
  bool CanLoggerDie(UnitId unit);
  void KillLogger(const Kill& kill);
  void KillHost(const Kill& kill);
  bool CanHostDie(uint32_t host);
  void KillUnit(VirtualUnit& shell);
  static bool IsLost(const Event& event, const UnitProcess& process);
  void LoseEntries(VirtualUnit& shell);
  void LoseMade(UnitId unit, const PacketMeta& meta, PacketHandle packet);

  const Nanos detection_;  // from a death until the controller knows
  const uint32_t max_units_;
  const Controller& controller_;
  VirtualUnits& units_;
  VirtualNetwork& network_;
  VirtualLoggers& loggers_;
  Observers& observers_;
  PacketExits& exits_;
  FaultFigures& figures_;
  LoggerFaults of_loggers_;
  Rng rng_;
  KillPlan plan_;
  ControllerFaults* controllers_ = nullptr;
  std::vector<Instant> deaths_;  // from which recovery has not ended
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_FAULTS_H_
