// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_REPLICATION_H_
#define SNF_RUNTIME_CORE_REPLICATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "runtime/core/flow_record.h"
#include "runtime/core/flow_store.h"
#include "runtime/core/host_records.h"
#include "runtime/core/pending_lists.h"
#include "runtime/core/push_bases.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Theory of operation. Replication moves the state of flows between units, and
// says which of them owns it: the rules U2 … U8 of proto/protocol.md §4, for
// one unit. (U1, and which packet pulls, are the unit's: unit.h.)
//
// U2  The lowest held packet of a flow, being the first of its flowlet, pulls
//     the state from the unit that its metadata names.
// U3  Once a flow has been idle for T/2, its state is pushed, with its clock,
//     to the units that the controller named for the flowlet. Units that got
//     an older state get only what changed since then (push_bases.h).
// U4  State is taken only if it is newer than the copy. A push that no packet
//     waits for is refused if the copy is current or handed over; only a
//     Takeover removes such a copy.
// U5  A Pull is answered, from a current or a handed-over copy, as soon as
//     exactly its clock is applied. (Once more is applied, the unit that pulled
//     has itself run the next clock: the Pull is late, and gets no answer.)
// U6  State leaves a unit only when its content was released: with a logger,
//     pushes and answers wait until no entry of the flow is left there. Without
//     one, state counts as released once it is applied.
// U7  The first packet run on state from another unit tells that unit, and the
//     controller: Takeover, repeated to the unit until acknowledged (what goes
//     to the controller is not lost). Only then is that copy forgotten, and
//     only if it has applied no later clock. A Takeover of state that never
//     left is refused.
// U8  A unit that is to stop answers Pulls until all its flows are taken.
//
// CopyKind (flow_record.h) names the kinds of copies. No packet names a replica
// as its source.
//
// U11 The NF's timer belongs to the state: it is pushed and pulled with it.
// Only the current copy looks at it. When it is due, the controller is asked
// for a timer packet, which has a clock of its own; the request is repeated
// until the flow's next clock has run here or the copy is no longer current.
//
// Worked example: clocks 1, 2 of a flow ran at unit A, and the flow has been
// idle for T/2: A pushes (applied 2) to B and C. The controller sends clock 3
// to B, with source A: it runs at once, and B tells A Takeover(3), which
// forgets the flow. Had the push been lost, B would hold 3 and send Pull(need
// 2) to A, which answers State(applied 2). Had clock 3 gone to A after all and
// clock 4 to B, B's copy would be too old: B holds 4 and pulls (need 3).
//
// With a store outside of units (UnitOptions::has_store), pushes go there, also
// from a unit that stops, and Pulls for the previous unit go to the store first
// (proto/decisions.md 36). So clock 3 of the example is held until the store
// has answered State(applied 2).
//
// U16 Units of one host show each other the states that might be pushed
// (HostRecords). A unit takes one where its next packet needs exactly that
// clock, as if the answer to a Pull had come. So in the example clock 3 finds
// the state at A, and nothing is pushed to B and C. A Pull is answered by the
// record's name, and by its bytes if the record cannot be taken. If A has
// failed, and its logger is the source (F5), the state is looked for at A all
// the same, ahead of a Pull from the logger.
//
// Each call names the unit's FlowStore, which is always the same one. Messages
// of other units are not trusted: an impossible one is counted as refused, and
// changes nothing. A value; owner-thread only; nothing is allocated after
// construction.
class Replication {
 public:
  static constexpr uint32_t kNone = FlowStore::kNone;

  // The schema is that of the NF; it must outlive this and its copies.
  Replication(UnitId id, const UnitOptions& options, const StateSchema& schema);

  // Shows states to other units of the host, and takes theirs, from now on.
  void UseHost(HostRecords* host) {
    host_ = host;
    pushes_ = true;
  }

  // No state is pushed and no push is taken from on_stop until on_start.
  void on_stop() { stopping_ = true; }
  void on_start() { stopping_ = false; }

  // --- Messages. ---
  // Each returns the slot of the flow that the message changed, or kNone if it
  // changed nothing. The unit then continues with that flow, and answers Pulls.
  uint32_t on_pull(Instant now, const Pull& pull, FlowStore& flows);
  // `record` came beside the message.
  uint32_t on_state(Instant now, const State& state,
                    std::span<const std::byte> record, FlowStore& flows);
  // The same for a state that is named. If the record cannot be taken, its
  // bytes are pulled.
  uint32_t on_named_state(Instant now, const State& state, FlowStore& flows,
                          UnitOut& out);
  // Takes the state that the packet needs where another unit of the host shows
  // it. Returns false if there is none that fits.
  bool TakeShown(Instant now, const PacketMeta& meta, uint32_t slot,
                 FlowStore& flows) {
    return host_ != nullptr && flows[slot].held.head == kNone &&
           TakeFromHost(now, meta, slot, flows);
  }
  // The same for the flow's lowest held packet, whose source has changed (F6).
  void TakeShownForHeld(Instant now, uint32_t slot, FlowStore& flows) {
    if (host_ == nullptr) return;
    TakeFromHost(now, flows.packets()[flows[slot].held.head].meta, slot, flows);
  }
  // Pushes the acknowledgement.
  uint32_t on_takeover(const Takeover& takeover, FlowStore& flows,
                       UnitOut& out);
  uint32_t on_takeover_ack(const TakeoverAck& ack, FlowStore& flows,
                           UnitOut& out);

  // --- What follows from a flow's new state. ---
  // A packet or a timer of the NF changed the state: it is to be pushed later.
  void on_change(Instant now, FlowRecord& record) const {
    if (pushes_) record.due = now + push_after_;
  }
  // All of the flow's entries are released. A push that was due meanwhile is to
  // happen after all.
  void on_released(Instant now, FlowRecord& record) const {
    const bool has_missed = record.copy == CopyKind::kCurrent &&
                            !record.is_busy() && record.due == Instant::max();
    if (has_missed) on_change(now, record);
  }
  // Asks the unit that the packet names, or its logger, for the state before
  // its clock, unless that was asked for or there is no such unit.
  void PullFor(Instant now, const PacketMeta& meta, uint32_t slot,
               FlowStore& flows, UnitOut& out);
  // The source of the state has changed, or the state is here.
  static void ForgetMyPull(uint32_t slot, FlowStore& flows);
  // Tells the source of the packet, the first that ran on its state, and the
  // controller.
  void TellTakeover(Instant now, const PacketMeta& meta, uint32_t slot,
                    FlowStore& flows, UnitOut& out);
  // Answers at most kMaxAnswersPerCall Pulls that the copy satisfies.
  void AnswerPulls(uint32_t slot, FlowStore& flows, UnitOut& out);
  // Forgets the Pull that on_pull took if it was not answered and more wait
  // than may.
  void RefuseExcess(const Pull& pull, uint32_t slot, FlowStore& flows);
  // Drops replicas, the oldest first, while there are more than may be.
  void EvictReplicas(FlowStore& flows) {
    while (flows.replicas() > max_replicas_) EvictReplica(flows);
  }

  // --- Timers. ---
  // The pushes of earlier calls were sent.
  void BeginTimers() { bases_.BeginCall(); }
  // Returns the bytes of a push with State::delta, in the call that made it.
  std::span<const std::byte> delta(FlowId flow) const {
    return bases_.delta(flow);
  }
  // Asks for a timer packet if the NF's timer is due and none is asked for.
  void AskForTimer(Instant now, uint32_t slot, FlowStore& flows, UnitOut& out);
  // Arms the flow's timer for the first of: the NF's timer, a push or an
  // expiry, and repetitions.
  void ArmTimer(uint32_t slot, FlowStore& flows);
  // Returns the message with which the flow's state goes elsewhere.
  State MessageOf(uint32_t slot, const FlowStore& flows) const;
  // Pushes the state if that is due, or drops a replica that has expired.
  void PushOrExpire(Instant now, uint32_t slot, FlowStore& flows, UnitOut& out);
  // Repeats the messages that are due as far as `out` has room, and forgets old
  // Pulls.
  void Repeat(Instant now, uint32_t slot, FlowStore& flows, UnitOut& out);

  // Counts all but pieces_refused.
  const UnitCounters& counters() const { return counters_; }

 private:
  // Returns why the state is not to be taken.
  std::optional<StateRefusal> Judge(const State& state,
                                    std::span<const std::byte> record,
                                    const FlowStore& flows) const;
  void Refuse(StateRefusal refusal) {
    ++counters_.refused[static_cast<size_t>(refusal)];
  }
  void Miss(HostMiss miss) {
    ++counters_.records_missed[static_cast<size_t>(miss)];
  }
  // Makes the state, which was found good, the flow's copy.
  void Take(Instant now, const State& state, std::span<const std::byte> record,
            uint32_t slot, FlowStore& flows);
  bool TakeFromHost(Instant now, const PacketMeta& meta, uint32_t slot,
                    FlowStore& flows);
  // Makes the record that the delta leads to the flow's copy. Returns why not.
  std::optional<StateRefusal> ApplyTo(uint32_t slot,
                                      std::span<const std::byte> delta,
                                      FlowStore& flows) const;
  // Sets clock, timer and link of a copy whose record was taken.
  void SetTaken(Instant now, const State& state, uint32_t slot,
                FlowStore& flows);
  std::optional<HostRecord> ReadShown(UnitId unit, FlowId flow, Clock clock);
  // Returns false if there is no place.
  bool Show(const State& state, uint32_t slot, const FlowStore& flows);
  // Returns true if that unit can read what this one shows.
  bool is_neighbour(UnitId unit) const {
    return host_ != nullptr && host_->has(unit);
  }
  State AnswerTo(const Pending& pull, uint32_t slot, const FlowStore& flows);
  static void SendPull(UnitId to, bool to_logger, const Pull& pull,
                       UnitOut& out) {
    UnitCommand command = UnitCommand::Send(to, pull);
    command.to_logger = to_logger;
    out.push(command);
  }
  void EvictReplica(FlowStore& flows);
  void Push(Instant now, uint32_t slot, FlowStore& flows, UnitOut& out);
  // Returns the time until the next repetition but one, and counts this one.
  Nanos NextDelay(uint8_t& tries) const;

  UnitId id_;
  bool pushes_;  // some flow's state may be pushed
  bool has_store_;
  HostRecords* host_ = nullptr;
  bool stopping_ = false;
  uint32_t max_replicas_;
  const StateSchema* schema_;
  Nanos push_after_;
  Nanos replica_lifetime_;
  Nanos retry_after_;
  UnitCounters counters_;
  PushBases bases_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_REPLICATION_H_
