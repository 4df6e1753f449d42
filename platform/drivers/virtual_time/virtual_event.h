// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_EVENT_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_EVENT_H_

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "platform/drivers/virtual_network/state_network.h"
#include "runtime/logger/logger_commands.h"

namespace snf {

// Something that happens at a later time of a run in virtual time: mostly, a
// command of the controller, a unit or a logger reaches who is to handle it.
struct VirtualEvent {
  enum class Kind : uint8_t {
    kRelease,       // the packet of `command` leaves: a kRelease or a kEmit
    kToUnit,        // `order` reaches `unit`, or its logger
    kBetweenUnits,  // `command`, of a unit or its logger, reaches `unit`, or,
                    // if command.to_logger, the logger of that
    // At the controller.
    kToController,         // `command` of `unit`
    kFromLogger,           // `command` of a logger, in its unit's place
    kHairpin,              // `hairpin` comes back
    kFailureAtController,  // of `unit`
    kKill,                 // as the kill of that number says
    // Of another controller (controller_faults.h):
    kSuccession,          // it takes over
    kReportAtController,  // the report `number`
    kMending,             // it goes on with what it has to make good
    // At a unit.
    kServiceEnd,
    kNameAtUnit,         // the name `number`
    kReportQueryAtUnit,  // of another controller
    kUnitReady,          // the kStartUnit `order` is done
    kUnitTimer,
    // Between `unit` and its logger.
    kEntryAtLogger,      // `number`
    kHeartbeatAtLogger,  // `number` is the newest
    kTakenAtUnit,        // entries up to `number`
    kAskAtUnit,
    kToldAtUnit,           // the controller acknowledges the entry `number`
    kEndToldAtUnit,        // … and that the end of a flow is in it
    kUpdatesMergedAtUnit,  // of tables, in entries up to `number`
    kHeartbeatAtUnit,
    kReportQueryAtLogger,  // of another controller
    kLoggerReady,          // a new one asks its unit for what it keeps
    kLoggerRestored,       // … and has it
  };
  using OrderKind = ControllerCommand::Kind;
  using CommandKind = UnitCommand::Kind;
  // A packet comes back from the network, to an alias or an inside end.
  struct Hairpin {
    FlowKey to;
    PacketHandle packet = kNoPacket;
    bool by_alias = true;
  };
  // The end of a flow is in a logger.
  struct Ended {
    EndFlow end;
    uint64_t number;  // of its entry
  };

  bool is_at_controller() const {
    return kind >= Kind::kToController && kind <= Kind::kMending;
  }
  bool is_from_unit() const { return kind == Kind::kToController; }
  bool is_between_units() const {
    return kind == Kind::kBetweenUnits && !command.to_logger;
  }
  bool is_to_other_logger() const {
    return kind == Kind::kBetweenUnits && command.to_logger;
  }
  bool Is(OrderKind what) const {
    return kind == Kind::kToUnit && order.kind == what;
  }
  // Returns true for a command of that kind to the controller.
  bool Says(CommandKind what) const {
    return (kind == Kind::kToController || kind == Kind::kFromLogger) &&
           command.kind == what;
  }
  // Returns the Takeover that comes to the unit, or to its logger in its place:
  // from another unit, or of a flow that the controller says to forget.
  std::optional<Takeover> takeover() const {
    if (Is(OrderKind::kForget)) {
      return Takeover{.flow = order.end.flow, .clock = order.end.last};
    }
    if (kind != Kind::kBetweenUnits ||
        command.kind != CommandKind::kSendTakeover) {
      return std::nullopt;
    }
    return command.takeover;
  }

  Kind kind{};
  UnitId unit = kNoUnit;  // sends it, at the controller; else gets it
  uint16_t life = 0;      // of `unit` (VirtualUnit::life)
  // Of a message between units: that of the controller to which its sender has
  // reported last (U14).
  uint16_t epoch = 0;
  // Of a kSendState between units: its record; of kToController: the number,
  // but for its upper half, of the entry that tells the controller this.
  uint32_t record = StateNetwork::kNoRecord;
  union {
    uint64_t number = 0;
    ControllerCommand order;
    UnitCommand command;
    Hairpin hairpin;
    LoggerCommand::Ask ask;
    Ended ended;
  };

  static VirtualEvent OfUnit(Kind kind, UnitId unit) {
    return {.kind = kind, .unit = unit, .number = 0};
  }
  static VirtualEvent Of(const ControllerCommand& order) {
    return {.kind = Kind::kToUnit, .unit = order.unit, .order = order};
  }
  static VirtualEvent Of(Kind kind, const UnitCommand& command) {
    return {.kind = kind, .unit = command.unit, .command = command};
  }
  // `sender` is the unit, or that of the logger.
  static VirtualEvent Of(Kind kind, UnitId sender, const UnitCommand& command) {
    VirtualEvent event = {.kind = kind, .unit = sender, .command = command};
    event.command.unit = sender;
    return event;
  }
};
static_assert(sizeof(VirtualEvent) == 80);

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_TIME_VIRTUAL_EVENT_H_
