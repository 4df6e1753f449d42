// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_EVENT_H_
#define SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_EVENT_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "platform/virtual_time/state_network.h"
#include "runtime/logger/logger_commands.h"

namespace snf {

// Something that happens at a later time of a run in virtual time.
struct VirtualEvent {
  enum class Kind : uint8_t {
    kRelease,
    // At the controller.
    kTakeoverAtController,
    kAliasAtController,  // the first that is on its way
    kNoteAtController,
    kTimerDueAtController,
    kPieceRequestAtController,
    kPiecesAtController,
    kStoppedAtController,
    kDoneAtController,
    kEndedAtController,
    // … of which these do not come from a unit.
    kHairpin,  // `packet` comes back, to `key`
    kSealedAtController,
    kGrantsSealedAtController,  // the first `number` are logged
    kFailureAtController,       // of `unit`
    kKill,                      // as the kill of that number says
    // Of another controller (controller_faults.h):
    kSuccession,          // it takes over
    kReportAtController,  // the report `number`
    kMending,             // it goes on with what it has to make good
    // At a unit.
    kReplicasAtUnit,
    kPacketAtUnit,
    kServiceEnd,
    kPullAtUnit,
    kStateAtUnit,
    kTakeoverAtUnit,
    kTakeoverAckAtUnit,
    kEndFlowAtUnit,
    kAliasAckAtUnit,
    kPiecesAtUnit,
    kReclaimAtUnit,
    kStopAtUnit,
    kDoneQueryAtUnit,
    kRedirectAtUnit,
    kForsakeAtUnit,
    kNameAtUnit,         // the name `number`
    kReportQueryAtUnit,  // of another controller
    kUnitReady,
    kUnitTimer,
    // Between `unit` and its logger.
    kEntryAtLogger,      // `number`
    kHeartbeatAtLogger,  // `number` is the newest
    kTakenAtUnit,        // entries up to `number`
    kAskAtUnit,
    kToldAtUnit,     // the controller acknowledges the entry `number`
    kEndToldAtUnit,  // … and that the end of a flow is in it
    kHeartbeatAtUnit,
    kPullAtLogger,
    kTakeoverAtLogger,
    kSealAtLogger,
    kReportQueryAtLogger,  // of another controller
    kLoggerReady,          // a new one asks its unit for what it keeps
    kLoggerRestored,       // … and has it
  };
  // The end of a flow is in a logger.
  struct Ended {
    EndFlow end;
    uint64_t number;  // of its entry
  };
  bool is_at_controller() const {
    return kind > Kind::kRelease && kind < Kind::kReplicasAtUnit;
  }
  bool is_from_unit() const {
    return is_at_controller() && kind < Kind::kHairpin && unit != kNoUnit;
  }
  bool is_between_units() const {
    return kind >= Kind::kPullAtUnit && kind <= Kind::kTakeoverAckAtUnit;
  }
  bool is_to_other_logger() const {
    return kind == Kind::kPullAtLogger || kind == Kind::kTakeoverAtLogger;
  }
  bool is_of_logger() const { return kind >= Kind::kEntryAtLogger; }
  Kind kind{};
  bool generated = false;  // of kRelease: the NF made the packet
  bool cold = false;       // of kUnitReady: its process is new
  UnitId unit = kNoUnit;   // sends it, at the controller; else gets it
  uint16_t life = 0;       // of `unit` (VirtualUnit::life)
  // Of a message between units: that of the controller to which its sender has
  // reported last (U14).
  uint16_t epoch = 0;
  PacketHandle packet = kNoPacket;
  // Of kStateAtUnit; or the number, but for its upper half, of the entry that
  // tells the controller this.
  uint32_t record = StateNetwork::kNoRecord;
  union {
    PacketMeta meta{};
    ReplicaSet replicas;
    Pull pull;
    State state;
    Takeover takeover;
    TakeoverAck takeover_ack;
    EndFlow end;
    AliasAck alias_ack;
    FlowNote note;
    TimerDue timer_due;
    PieceRequest piece_request;
    PieceBlock pieces;
    FlowKey key;
    uint32_t incarnation;  // of kUnitReady
    uint64_t number;       // of an entry
    LoggerCommand::Ask ask;
    Seal seal;
    DoneQuery done_query;
    DoneAnswer done;  // of a unit or a logger
    Redirect redirect;
    Ended ended;
  };

  static VirtualEvent OfUnit(Kind kind, UnitId unit) {
    return {.kind = kind, .unit = unit, .meta = {}};
  }
};

}  // namespace snf

#endif  // SNF_PLATFORM_VIRTUAL_TIME_VIRTUAL_EVENT_H_
