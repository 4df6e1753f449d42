// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_UNIT_COMMANDS_H_
#define SNF_BASE_MESSAGES_UNIT_COMMANDS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/command_buffer.h"
#include "base/messages/drop_reason.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"

namespace snf {

// A command of a unit to its driver.
struct UnitCommand {
  enum class Kind : uint8_t {
    // The outcome of a packet; each of these frees the packet's slot of the
    // channel.
    kRelease,  // the NF forwards `packet`: to the release stage
    kNfDrop,   // the NF drops it; `nf_reason` indexes its drop_reasons()
    kDrop,     // the unit drops it for `reason`
    kConsume,  // the NF keeps it
    kAdvance,  // a packet without payload was applied; there is no `packet`
    // About packets as well, but these free no slot.
    kEmit,  // `packet` is new, made by the NF while it handled `meta.flow`
    kWait,  // `packet` is to be run again, once the awaited input has arrived
    kDropPayload,  // `packet` is dropped for `reason`; its clock stays here, as
                   // a tombstone
    // Only with a logger (UnitOptions::has_logger, entry_maker.h).
    kPiecesCame,  // `pieces` of the controller's are the unit's now
    kLog,  // ends an entry of the logger: `meta` is applied, Unit::change() is
           // its delta. The commands of this clock above that are about
           // packets, or are a kSendNote, are part of it. A flow's end is an
           // entry, too (PacketMeta::kEnd)
    // Messages to `unit`.
    kSendPull,
    kSendState,  // takes Unit::bytes_of(state) along;
                 // to kNoUnit: to the store, which forgets the flow if the
                 // state's clock is 0
    kSendTakeover,
    kSendTakeoverAck,
    // Messages to the controller.
    kReportTakeover,
    kSendAlias,  // takes Unit::alias(meta.flow), of `meta`'s packet, along
    kSendNote,
    kSendTimerDue,
    kRequestPieces,
    kReturnPieces,
    kStopped,  // the unit keeps nothing any more and may go
    // Sent by the drivers of units or of their loggers to the controller
    // (proto/protocol.md F3, U11, F10).
    kSendDone,    // `done` answers a DoneQuery or a Seal
    kSendEnded,   // `ended` is in the unit's logger
    kSendGrants,  // the first `grants` grants of pieces are in its logger
    // Reports of units and their loggers to a new controller (F9).
    kReportName,  // takes a FlowName along
    kReportFlow,
    kReportPacket,  // `packet`, if there is one, with `meta`, is in the unit
    kReportParked,  // the same; it was processed, and waits for its alias
    kReportWord,    // `pieces` have come from, or gone back to, controllers
    kReportUnit,    // of units: what `standing` says; of loggers: its grants
    kReported,  // the loop's reports to the controller with this `epoch` are
                // complete
    // A logger tells its unit: homes have merged all updates of shared tables
    // in entries up to `entry`.
    kUpdatesMerged,
    // Answers a kAskState of the controller: `state`, whose record goes along
    // unless it is too long.
    kShowState,
  };
  Kind kind{};
  DropReason reason{};
  uint8_t nf_reason = 0;
  bool to_logger =
      false;  // of a kSendPull: to that of `unit`, which has failed
  UnitId unit = kNoUnit;
  PacketHandle packet = kNoPacket;
  union {
    PacketMeta meta;
    Pull pull;
    State state;
    Takeover takeover;
    TakeoverAck takeover_ack;
    FlowNote note;
    TimerDue timer_due;
    PieceRequest request;
    PieceBlock pieces;
    DoneAnswer done;
    EndFlow ended;
    uint64_t grants;
    FlowReport report;
    UnitReport standing;
    uint32_t epoch;
    uint64_t entry;
  };

  static UnitCommand OfPacket(Kind kind, PacketHandle packet,
                              const PacketMeta& meta) {
    return {.kind = kind, .packet = packet, .meta = meta};
  }
  static UnitCommand Send(UnitId to, const Pull& pull) {
    return {.kind = Kind::kSendPull, .unit = to, .pull = pull};
  }
  static UnitCommand Send(UnitId to, const State& state) {
    return {.kind = Kind::kSendState, .unit = to, .state = state};
  }
  static UnitCommand Send(UnitId to, const Takeover& takeover) {
    return {.kind = Kind::kSendTakeover, .unit = to, .takeover = takeover};
  }
  static UnitCommand Send(UnitId to, const TakeoverAck& ack) {
    return {.kind = Kind::kSendTakeoverAck, .unit = to, .takeover_ack = ack};
  }
  static UnitCommand Report(const Takeover& takeover) {
    return {.kind = Kind::kReportTakeover, .takeover = takeover};
  }
  static UnitCommand Send(const FlowNote& note) {
    return {.kind = Kind::kSendNote, .note = note};
  }
  static UnitCommand Send(const TimerDue& timer_due) {
    return {.kind = Kind::kSendTimerDue, .timer_due = timer_due};
  }
  static UnitCommand Send(const PieceRequest& request) {
    return {.kind = Kind::kRequestPieces, .request = request};
  }
  static UnitCommand Return(const PieceBlock& pieces) {
    return {.kind = Kind::kReturnPieces, .pieces = pieces};
  }
  static UnitCommand Came(const PieceBlock& pieces) {
    return {.kind = Kind::kPiecesCame, .pieces = pieces};
  }
  static UnitCommand Stopped() { return {.kind = Kind::kStopped, .meta = {}}; }
  static UnitCommand Done(const DoneAnswer& done) {
    return {.kind = Kind::kSendDone, .unit = done.unit, .done = done};
  }
  static UnitCommand Ended(const EndFlow& ended) {
    return {.kind = Kind::kSendEnded, .ended = ended};
  }
  static UnitCommand Grants(uint64_t grants) {
    return {.kind = Kind::kSendGrants, .grants = grants};
  }
  static UnitCommand Of(const FlowReport& report) {
    return {.kind = Kind::kReportFlow, .unit = report.unit, .report = report};
  }
  static UnitCommand Of(Kind kind, const PacketReport& report) {
    return {.kind = kind,
            .unit = report.unit,
            .packet = report.packet,
            .meta = report.meta};
  }
  static UnitCommand Of(const UnitReport& standing) {
    return {
        .kind = Kind::kReportUnit, .unit = standing.unit, .standing = standing};
  }
  static UnitCommand OfWord(const PieceBlock& pieces) {
    return {.kind = Kind::kReportWord, .unit = pieces.unit, .pieces = pieces};
  }
  static UnitCommand OfName(UnitId unit) {
    return {.kind = Kind::kReportName, .unit = unit, .ended = {}};
  }
  static UnitCommand Merged(UnitId unit, uint64_t entry) {
    return {.kind = Kind::kUpdatesMerged, .unit = unit, .entry = entry};
  }
  static UnitCommand Show(UnitId unit, const State& state) {
    return {.kind = Kind::kShowState, .unit = unit, .state = state};
  }
  static UnitCommand Reported(UnitId any, uint32_t epoch) {
    return {.kind = Kind::kReported, .unit = any, .epoch = epoch};
  }
};

using UnitOut = CommandBuffer<UnitCommand, 128>;

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_UNIT_COMMANDS_H_
