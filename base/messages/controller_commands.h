// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_CONTROLLER_COMMANDS_H_
#define SNF_BASE_MESSAGES_CONTROLLER_COMMANDS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/command_buffer.h"
#include "base/messages/drop_reason.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/time.h"

namespace snf {

// A packet that reaches the controller. Arrivals come in the order of their
// times; a time that runs backwards is harmless, since it opens no gap.
struct Arrival {
  FlowKey key;
  Instant time;
  uint32_t original_length = 0;
  PacketHandle packet = kNoPacket;
  // If true, `key` is an alias: the packet belongs to the flow that has this
  // alias, and is dropped if no flow has it.
  bool by_alias = false;
  // Private to the controller: Expect stores the flow's likely slot and the
  // hash of `key` here, on_packets reads them. Callers leave the defaults.
  uint32_t slot = ~uint32_t{0};
  uint64_t hash = 0;
};

// An order of the controller to its driver.
struct ControllerCommand {
  enum class Kind : uint8_t {
    kReplicas,   // put `replicas` into the channel of `unit`; precedes the
                 // kEnqueue of a flowlet's first packet; takes no slot
    kEnqueue,    // put `packet` with `meta` into the channel of `unit`; a null
                 // packet (PacketMeta::kNull) comes with kNoPacket
    kDrop,       // drop `packet` for `reason`
    kStartUnit,  // start `unit`, which is warm if `warm`, else stopped, with
                 // `incarnation`; then call on_unit_ready
    kParkUnit,   // `unit` is out of use but keeps its process and state
    kStopUnit,   // stop `unit` once all its flows are taken over, then call
                 // on_unit_stopped
    kEndFlow,    // tell `unit` that a flow is over
    kAliasAck,   // answer the alias request of `unit`
    kPieces,     // give `pieces` to `unit`
    kReclaim,    // ask `unit` for the pieces of pieces.pool that it can spare
    // After a failure (failover.h):
    kSeal,       // seal the logger of `unit`; on_sealed answers
    kDoneQuery,  // ask `unit` for its applied clocks; on_done answers
    kRedirect,   // put `redirect` into the channel of `unit`; takes no slot
    kForsake,    // tell `unit` to drop its copies of the flow `end`, which is
                 // given up; end.last is not 0 if `unit` is the owner
    // Only with ControllerOptions::forgets_copies:
    kForget,  // tell `unit`, or, if `of_logger`, its sealed logger, that clock
              // end.last has been released elsewhere: older copies of the flow
              // are not needed; it answers as it does a Takeover, and the
              // answer is for on_takeover
    // Only with ControllerOptions::names_flows:
    kName,  // tell `unit` the result of Controller::NameOf(end.flow); goes down
            // the packets' channel and takes no slot
    // Between a controller and another one's heir (FlowHandOver):
    kAskState,   // ask `unit` for the state of end.flow; kShowState answers, if
                 // the unit has it
    kTakeState,  // `state` of a flow that was another controller's, whose
                 // record goes along; precedes the kEnqueue of a null packet
  };
  Kind kind{};
  DropReason reason{};
  bool warm = false;
  bool of_logger = false;
  UnitId unit = kNoUnit;
  PacketHandle packet = kNoPacket;
  union {
    PacketMeta meta;
    ReplicaSet replicas;
    EndFlow end;
    AliasAck alias_ack;
    PieceBlock pieces;
    uint32_t incarnation;
    Seal seal;
    DoneQuery done_query;
    Redirect redirect;
    State state;
  };

  static ControllerCommand Replicas(UnitId unit, const ReplicaSet& replicas) {
    return {.kind = Kind::kReplicas, .unit = unit, .replicas = replicas};
  }
  static ControllerCommand Enqueue(UnitId unit, PacketHandle packet,
                                   const PacketMeta& meta) {
    return {
        .kind = Kind::kEnqueue, .unit = unit, .packet = packet, .meta = meta};
  }
  static ControllerCommand Drop(PacketHandle packet, DropReason reason) {
    return {.kind = Kind::kDrop, .reason = reason, .packet = packet, .end = {}};
  }
  static ControllerCommand Start(UnitId unit, bool warm, uint32_t incarnation) {
    return {.kind = Kind::kStartUnit,
            .warm = warm,
            .unit = unit,
            .incarnation = incarnation};
  }
  static ControllerCommand OfUnit(Kind kind, UnitId unit, bool warm) {
    return {.kind = kind, .warm = warm, .unit = unit, .end = {}};
  }
  static ControllerCommand End(UnitId unit, EndFlow end) {
    return {.kind = Kind::kEndFlow, .unit = unit, .end = end};
  }
  static ControllerCommand Forsake(UnitId unit, EndFlow end) {
    return {.kind = Kind::kForsake, .unit = unit, .end = end};
  }
  static ControllerCommand Forget(UnitId unit, bool of_logger,
                                  const EndFlow& end) {
    return {.kind = Kind::kForget,
            .of_logger = of_logger,
            .unit = unit,
            .end = end};
  }
  static ControllerCommand OfFlow(UnitId unit, FlowId flow) {
    return {.kind = Kind::kName, .unit = unit, .end = {.flow = flow}};
  }
  static ControllerCommand AskState(UnitId unit, FlowId flow) {
    return {.kind = Kind::kAskState, .unit = unit, .end = {.flow = flow}};
  }
  static ControllerCommand Take(UnitId unit, const State& state) {
    return {.kind = Kind::kTakeState, .unit = unit, .state = state};
  }
  static ControllerCommand Ack(UnitId unit, const AliasAck& ack) {
    return {.kind = Kind::kAliasAck, .unit = unit, .alias_ack = ack};
  }
  static ControllerCommand Of(const Seal& seal) {
    return {.kind = Kind::kSeal, .unit = seal.unit, .seal = seal};
  }
  static ControllerCommand Ask(UnitId unit, DoneQuery query) {
    return {.kind = Kind::kDoneQuery, .unit = unit, .done_query = query};
  }
  static ControllerCommand Of(UnitId unit, const Redirect& redirect) {
    return {.kind = Kind::kRedirect, .unit = unit, .redirect = redirect};
  }
  static ControllerCommand Pieces(Kind kind, const PieceBlock& pieces) {
    return {.kind = kind, .unit = pieces.unit, .pieces = pieces};
  }
};

// Largest number of commands that one packet, or one timer, causes. A packet
// causes at most six: end a flow, start the unit that the policy wants, start
// one ahead of need, name the flow, name the flowlet's replicas, and enqueue or
// drop the packet.
inline constexpr size_t kMaxControllerCommandsPerStep = 6;
using ControllerOut = CommandBuffer<ControllerCommand, 256>;

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_CONTROLLER_COMMANDS_H_
