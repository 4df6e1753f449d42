// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_COMMANDS_H_
#define SNF_CONTROLLER_CORE_COMMANDS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/command_buffer.h"
#include "base/messages/drop_reason.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/time.h"

namespace snf {

// A packet as it reaches the controller. Arrivals of one controller come in
// time order, but a time that runs backwards is harmless: it opens no gap.
struct Arrival {
  FlowKey key;
  Instant time;
  uint32_t original_length = 0;
  PacketHandle packet = kNoPacket;
  // `key` is an alias: the packet is its flow's, and dropped without one.
  bool by_alias = false;
  // What Controller::Expect has found so far: where the flow is, most likely,
  // and the hash of `key`; 0 if it was not called.
  uint32_t slot = ~uint32_t{0};
  uint64_t hash = 0;
};

// What the controller asks of its driver.
struct ControllerCommand {
  enum class Kind : uint8_t {
    kReplicas,   // put `replicas` into the channel of `unit`: stands before the
                 // kEnqueue of a flowlet's first packet; takes no slot
    kEnqueue,    // put `packet` with `meta` into the channel of `unit`; a null
                 // packet (PacketMeta::kNull) comes with kNoPacket
    kDrop,       // drop `packet` for `reason`
    kStartUnit,  // start `unit`, then call on_unit_ready; `warm` says from what
    kParkUnit,   // `unit` is out of use but keeps its process and state
    kStopUnit,   // stop `unit` once all its flows are taken, then
                 // on_unit_stopped
    kEndFlow,    // tell `unit` that a flow is over
    kAliasAck,   // answer `unit`
    kPieces,     // give `pieces` to `unit`
    kReclaim,    // ask `unit` for the pieces of pieces.pool that it can spare
  };
  Kind kind{};
  DropReason reason{};
  bool warm = false;
  UnitId unit = kNoUnit;
  PacketHandle packet = kNoPacket;
  union {
    PacketMeta meta;
    ReplicaSet replicas;
    EndFlow end;
    AliasAck alias_ack;
    PieceBlock pieces;
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
  static ControllerCommand OfUnit(Kind kind, UnitId unit, bool warm) {
    return {.kind = kind, .warm = warm, .unit = unit, .end = {}};
  }
  static ControllerCommand End(UnitId unit, EndFlow end) {
    return {.kind = Kind::kEndFlow, .unit = unit, .end = end};
  }
  static ControllerCommand Ack(UnitId unit, const AliasAck& ack) {
    return {.kind = Kind::kAliasAck, .unit = unit, .alias_ack = ack};
  }
  static ControllerCommand Pieces(Kind kind, const PieceBlock& pieces) {
    return {.kind = kind, .unit = pieces.unit, .pieces = pieces};
  }
};

// The most commands that one packet, or one timer, can cause. A packet causes
// four at the most: a unit that the policy starts, one started ahead of need,
// the flowlet's replicas, and what becomes of the packet.
inline constexpr size_t kMaxControllerCommandsPerStep = 6;
using ControllerOut = CommandBuffer<ControllerCommand, 256>;

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_COMMANDS_H_
