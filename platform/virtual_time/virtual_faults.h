// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_FAULTS_H_
#define SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/rng.h"
#include "base/time.h"
#include "controller/core/commands.h"
#include "controller/core/controller.h"
#include "platform/run/observers.h"
#include "platform/run/run.h"
#include "platform/virtual_time/controller_faults.h"
#include "platform/virtual_time/logger_faults.h"
#include "platform/virtual_time/packet_exits.h"
#include "platform/virtual_time/virtual_event.h"
#include "platform/virtual_time/virtual_loggers.h"
#include "platform/virtual_time/virtual_network.h"
#include "platform/virtual_time/virtual_units.h"
#include "runtime/core/unit_commands.h"

namespace snf {

// The failures of units in a run in virtual time (proto/protocol.md F1-F6), and
// of their loggers (logger_faults.h): who dies and when, what is lost with it,
// and how long it takes until all is with others. A host dies with its process
// and all packets in it; what it has sent comes.
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

  // The controller dies as well.
  void set_controllers(ControllerFaults* controllers) {
    controllers_ = controllers;
  }

  // --- Deaths. ---

  // The first packet comes at that time: those with a time are planned.
  void PlanKills(Instant first_packet);
  // A packet comes: perhaps somebody dies.
  void on_arrival();
  // The planned time of options.faults.kills[number] has come.
  void on_kill(size_t number);
  // The controller is about to learn that the unit's process is gone.
  void on_failure(UnitId unit);
  // After each event: notes when all that died are recovered from.
  void NoteRecovery();

  // --- What reaches nobody. ---

  // For each event at the controller that is from a unit: returns true if it
  // came by an older channel (U14).
  bool IsRefused(const VirtualEvent& event);
  // For each event at a unit or its logger: returns true if nobody is there to
  // take it, and counts what is lost with it.
  bool Lose(const VirtualEvent& event, VirtualUnit& shell);
  LoggerFaults& of_loggers() { return of_loggers_; }
  // The logger is told to seal its unit: what it has not taken is lost.
  void on_seal(const Seal& seal, VirtualUnit& shell);

  // A clock is lost, with its packet if it has one.
  void LoseClock(UnitId unit, const PacketMeta& meta, PacketHandle packet);

  // --- What units have. ---

  void on_start(const ControllerCommand& command);
  void on_packet(const VirtualEvent& event, VirtualUnit& shell);
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
  void KillLogger(const Kill& kill);
  void KillUnit(VirtualUnit& shell);
  static bool IsLost(const Event& event, const UnitProcess& process);
  void LoseEntries(VirtualUnit& shell);
  void LoseMade(UnitId unit, const PacketMeta& meta, PacketHandle packet);

  const FaultOptions options_;
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
  ControllerFaults* controllers_ = nullptr;
  std::vector<Instant> deaths_;  // whose flows are not all moved yet
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_FAULTS_H_
