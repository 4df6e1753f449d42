// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_LOGGERS_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_LOGGERS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "platform/check/checker.h"
#include "platform/drivers/virtual_network/state_network.h"
#include "platform/drivers/virtual_time/virtual_event.h"
#include "platform/drivers/virtual_time/virtual_network.h"
#include "platform/drivers/virtual_time/virtual_units.h"
#include "platform/run/observers.h"
#include "platform/run/packet_exits.h"
#include "platform/run/run.h"
#include "runtime/logger/log_entry.h"
#include "runtime/logger/logger_commands.h"

namespace snf {

// The output loggers of a run in virtual time (proto/protocol.md §5), and the
// channels to them, in which entries meet delays and chaos of their own:
//
//   unit ─Take─► entry ─► logger ─► what it releases
//    ▲                      │
//    └──── on_released ◄── taken
//
// Owner-thread only.
class VirtualLoggers {
 public:
  // The driver, which runs the units.
  class Host {
   public:
    // The unit is done with a packet of the controller's.
    virtual void Drained(UnitId unit, const PacketMeta& meta) = 0;
    // Makes a call of a unit's core, and executes what that commands.
    virtual void CallUnit(VirtualUnit& shell,
                          absl::FunctionRef<void(UnitOut&)> call) = 0;
    // The unit's logger has what that clock did.
    virtual void on_released(VirtualUnit& shell, const PacketMeta& meta) = 0;
    // The unit has made an entry with these updates of shared tables.
    virtual void on_updates(UnitId unit,
                            std::span<const std::byte> updates) = 0;
    // The unit has stopped, and its logger has all entries.
    virtual void on_stopped(VirtualUnit& shell) = 0;

    // The logger knows of the unit's first `number` grants of pieces.
    virtual void on_grants_logged(UnitId unit, uint64_t number) = 0;

   protected:
    ~Host() = default;
  };

  // All references must outlive the object.
  VirtualLoggers(const RunOptions& options, Host& units,
                 VirtualNetwork& network, Observers& observers,
                 Checker& checker, PacketExits& exits, RunResult& result);

  // Makes entries of a unit's commands. Returns false if the command is not for
  // the logger.
  bool Take(VirtualUnit& shell, const UnitCommand& command);

  // Handles an event between a unit and its logger. Returns whether the event
  // was for the unit.
  bool Handle(const VirtualEvent& event, VirtualUnit& shell);
  // Answers a Pull in place of a unit that failed.
  void on_pull(VirtualUnit& shell, const Pull& pull);

  // Seals the logger of a unit that failed, which then tells the controller
  // what it has; a sealed logger only tells once more (F2).
  void on_seal(VirtualUnit& shell, const Seal& seal);
  // Takes a Takeover in place of such a unit (U7).
  void on_takeover(VirtualUnit& shell, const Takeover& takeover);

  // --- A new logger. ---
  // Loses the packets of these entries, whose changes the new logger has.
  void LosePackets(VirtualUnit& shell, uint64_t first, uint64_t last);
  // Lets the new logger acknowledge what it has, and ask for the rest.
  void AskForAll(VirtualUnit& shell);

  // The homes have merged updates of tables that the unit's logger had.
  void on_updates_merged(VirtualUnit& shell);

  // Adds the messages that were lost and duplicated.
  void AddTotals(RunResult& result) const;

 private:
  using Event = VirtualEvent;

  // At the unit's end of the channel.
  void SendEntry(VirtualUnit& shell);
  void SendByLog(VirtualUnit& shell, Event event);
  void SendHeartbeatLater(VirtualUnit& shell);
  void on_heartbeat_due(VirtualUnit& shell);
  void on_asked(VirtualUnit& shell, const LoggerCommand::Ask& ask);
  void on_taken(VirtualUnit& shell, uint64_t number);
  void on_released(VirtualUnit& shell, const LogEntryView& entry);
  void TellController(VirtualUnit& shell, const LogEntryView& entry);

  // At the logger.
  void on_entry(VirtualUnit& shell, uint64_t number);
  void on_heartbeat(VirtualUnit& shell, uint64_t sent);
  void Acknowledge(VirtualUnit& shell);
  void Resume(VirtualUnit& shell);
  void ExecuteAll(VirtualUnit& shell);
  void Execute(VirtualUnit& shell, const LoggerCommand& command);
  void ExecuteSealed(VirtualUnit& shell, const LoggerCommand& command);
  void on_tell(VirtualUnit& shell, const LoggerTell& tell);
  void SendPieces(UnitId unit, PieceBlock pieces);
  // Sends the controller a command of the unit's logger.
  void SendByLogger(UnitId unit, const UnitCommand& command);
  void AcknowledgeForget(FlowId flow, Clock clock);
  void EndPacket(UnitId unit, UnitCommand::Kind kind,
                 const LoggerCommand& command);

  const bool controllers_fail_;
  const Nanos hop_delay_;
  const Nanos heartbeat_;  // period, while entries are on their way
  Host& units_;
  VirtualNetwork& network_;
  StateNetwork log_network_;  // between units and loggers
  Observers& observers_;
  Checker& checker_;
  PacketExits& exits_;
  RunResult& result_;
  LoggerOut out_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_LOGGERS_H_
