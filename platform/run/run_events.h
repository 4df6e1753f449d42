// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_RUN_EVENTS_H_
#define SNF_PLATFORM_RUN_RUN_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/packet/flow_key.h"
#include "base/packet/packet_info.h"
#include "base/time.h"
#include "controller/core/controller.h"
#include "platform/run/released_packet.h"
#include "runtime/ring/buffer_pool.h"

namespace snf {

// Tells what a unit's NF made of a packet. None of the commands, which are
// those of Unit::finish, was executed yet. Valid during the call that it is
// passed to.
struct NfOutcome {
  BufferPool& buffers;  // in which the packet is as the NF left it
  PacketHandle packet = kNoPacket;
  std::span<const UnitCommand> commands;
  std::span<const std::optional<uint32_t>> pieces_taken;
  // Returns the flow's record at the unit. Not to be called of a flow's last
  // packet, after which the unit has none.
  absl::FunctionRef<std::span<const std::byte>()> record;
};

// An event of a run is one method here, which does nothing unless a member of
// the driver's Observers (observers.h) overrides it. An observer changes
// nothing in the run. Times never run backwards. All calls are made on the
// driver's thread.
//
// A packet of a flow meets, in this order: on_arrival, on_enqueue,
// on_service_begin, on_service_end, on_nf_begin, on_nf_end, and on_release or
// what else becomes of it.
class RunObserver : public DecisionObserver {
 public:
  virtual void on_start(Instant /*first_packet*/) {}
  // Nothing is under way any more.
  virtual void on_end(Instant /*now*/) {}

  // At the controller. What a packet causes there (a decision, an enqueue, a
  // drop) is told of before the next call of on_arrival.
  virtual void on_arrival(Instant /*now*/, const FlowKey& /*key*/,
                          uint32_t /*original_length*/) {}
  void on_decision(const Decision& /*decision*/,
                   const UnitPool& /*units*/) override {}
  virtual void on_enqueue(Instant /*now*/, UnitId /*unit*/,
                          const PacketMeta& /*meta*/) {}
  virtual void on_end_flow(Instant /*now*/, UnitId /*unit*/,
                           const EndFlow& /*end*/) {}
  // A unit is ordered to start, or parked.
  virtual void on_unit_up(Instant /*now*/, UnitId /*unit*/) {}
  virtual void on_unit_down(Instant /*now*/, UnitId /*unit*/) {}

  // State: a record sets out, pushed or in answer to a pull; a pull or a record
  // reaches a unit; a unit learns that its copy is no longer needed.
  virtual void on_state_sent(Instant /*now*/, UnitId /*sender*/,
                             UnitId /*receiver*/, const State& /*state*/) {}
  virtual void on_pull(Instant /*now*/, UnitId /*asked*/,
                       const Pull& /*pull*/) {}
  virtual void on_state(Instant /*now*/, UnitId /*receiver*/,
                        const State& /*state*/) {}
  virtual void on_takeover(Instant /*now*/, UnitId /*told*/,
                           const Takeover& /*takeover*/) {}

  // Service at a unit. `wait` is how long the packet was held for state
  // (Unit::in_service_wait). A packet that its NF let wait begins again.
  virtual void on_service_begin(Instant /*now*/, UnitId /*unit*/,
                                const PacketMeta& /*meta*/, Nanos /*wait*/) {}
  virtual void on_service_again(Instant /*now*/, UnitId /*unit*/,
                                const PacketMeta& /*meta*/) {}
  virtual void on_service_end(Instant /*now*/, UnitId /*unit*/,
                              const PacketMeta& /*meta*/) {}
  // In real time, instead of these: a unit has run a packet, or a clock without
  // one, which is at its end; units were busy for so long since the last call.
  virtual void on_run(Instant /*now*/, const PacketMeta& /*meta*/) {}
  virtual void on_busy(Instant /*now*/, Nanos /*time*/) {}
  // The NF is about to run a packet, and has. Both come after on_service_end.
  // Of a timer packet there is only the second.
  virtual void on_nf_begin(const PacketInfo& /*info*/,
                           std::span<const std::byte> /*bytes*/) {}
  virtual void on_nf_end(Instant /*now*/, UnitId /*unit*/,
                         const PacketMeta& /*meta*/,
                         const NfOutcome& /*outcome*/) {}

  // With loggers: what that clock did is in the unit's logger.
  virtual void on_logged(Instant /*now*/, UnitId /*unit*/,
                         const PacketMeta& /*meta*/) {}

  // The ends of packets. Those that an NF made, and those that passed
  // through without a flow, are released like others; see PacketRoute.
  virtual void on_release(const ReleasedPacket& /*packet*/) {}
  // Log records of an NF leave, of a packet that arrived then (log_batch.h).
  // The batch is well-formed, and valid during the call.
  virtual void on_records(Instant /*arrival*/,
                          std::span<const std::byte> /*batch*/) {}
  // The packet as it stood when it was dropped, at a unit or before it.
  virtual void on_drop(const ReleasedPacket& /*packet*/,
                       std::string_view /*reason*/) {}
  virtual void on_consumed(Instant /*now*/, const PacketMeta& /*meta*/) {}
  // A clock is done at its unit because the packet was dropped or consumed; or
  // because it had no payload. A payload was dropped, and its clock goes on.
  virtual void on_taken(Instant /*now*/, UnitId /*unit*/,
                        const PacketMeta& /*meta*/) {}
  virtual void on_advanced(Instant /*now*/, UnitId /*unit*/,
                           const PacketMeta& /*meta*/) {}
  virtual void on_payload_dropped(Instant /*now*/, UnitId /*unit*/,
                                  const PacketMeta& /*meta*/) {}
  // The clock was with a unit that failed, and in no logger. Its packet, if it
  // had one, is gone, and the controller may give the clock once more.
  virtual void on_lost(Instant /*now*/, UnitId /*unit*/,
                       const PacketMeta& /*meta*/) {}
  // Packets with payload left a unit; `bytes` is what they cost (PacketCost).
  virtual void on_drained(Instant /*now*/, UnitId /*unit*/,
                          uint32_t /*packets*/, uint64_t /*bytes*/) {}

  // Aliases, notes and pieces that reach the controller or leave it: an alias
  // with the answer, and its refusal again before the unit tells the NF.
  virtual void on_alias(Instant /*now*/, const Alias& /*alias*/,
                        AliasResult /*result*/) {}
  virtual void on_alias_refused(Instant /*now*/, const AliasAck& /*ack*/,
                                BufferPool& /*buffers*/) {}
  virtual void on_flow_note(const FlowNote& /*note*/) {}
  virtual void on_pieces_granted(Instant /*now*/,
                                 const PieceBlock& /*pieces*/) {}
  virtual void on_pieces_returned(Instant /*now*/,
                                  const PieceBlock& /*pieces*/) {}
  // The logger of a unit that failed knows of the first `logged` grants only:
  // others come back. A new process of the unit begins, with new numbers.
  virtual void on_grants_sealed(Instant /*now*/, UnitId /*unit*/,
                                uint64_t /*logged*/) {}
  virtual void on_process_begins(Instant /*now*/, UnitId /*unit*/) {}

  // The controller has failed. What it had said, and not sent, is lost: clocks,
  // ends, grants and aliases. Then another goes on: clocks that were lost at
  // the end of a flow are given once more.
  virtual void on_unsent(Instant /*now*/, UnitId /*unit*/,
                         const PacketMeta& /*meta*/) {}
  virtual void on_end_unsent(Instant /*now*/, const EndFlow& /*end*/) {}
  virtual void on_grant_unsent(Instant /*now*/, const PieceBlock& /*pieces*/) {}
  // Before that: the flow goes on with the clock behind this one.
  virtual void on_flow_found(FlowId /*flow*/, Clock /*newest*/) {}
  virtual void on_successor(Instant /*now*/) {}
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_RUN_EVENTS_H_
