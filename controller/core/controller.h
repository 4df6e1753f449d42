// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_CONTROLLER_H_
#define SNF_CONTROLLER_CORE_CONTROLLER_H_

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/messages/controller_commands.h"
#include "base/messages/messages.h"
#include "base/messages/report_messages.h"
#include "base/rng.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "controller/core/alias_table.h"
#include "controller/core/controller_counters.h"
#include "controller/core/decision.h"
#include "controller/core/failover.h"
#include "controller/core/flow_ends.h"
#include "controller/core/flow_table.h"
#include "controller/core/flowlets.h"
#include "controller/core/idle_timeouts.h"
#include "controller/core/move_chances.h"
#include "controller/core/null_packets.h"
#include "controller/core/options.h"
#include "controller/core/packet_cost.h"
#include "controller/core/piece_pools.h"
#include "controller/core/placement.h"
#include "controller/core/replica_chooser.h"
#include "controller/recovery/owner_history.h"
#include "controller/units/unit_pool.h"

namespace snf {

// Theory of operation. The controller cuts each flow into flowlets, gives each
// flowlet a unit, and each packet a logical clock and the metadata of
// proto/protocol.md §3 (SNF §4, §5.3). It is a pure core: events and the time
// come in, commands go out; it has no threads, clocks or sockets.
//
// Per packet: find the flow and, if the flowlet is still open, send the packet
// to the flowlet's unit. Per flowlet: close the previous one and ask the policy
// for a unit (Flowlets), choose the units that get a replica of the state when
// the flowlet idles. By timer: a flowlet that has been silent for more than T
// no longer counts; a flow that has been silent for flow_timeout is ended
// (FlowEnds); flows are moved away from units that are to stop (NullPackets).
//
// Time. A packet's own arrival decides about gaps, to the nanosecond; `now`
// drives timers only. So flowlet counts do not depend on bursts or timers.
// `now` must not decrease from event to event, and `now` of on_packets must be
// at least the arrivals in it.
//
// Aliases (U9). A packet that comes by alias belongs to the flow that has the
// alias, and is then treated like any other. A message of an NF about a flow
// may overtake an earlier one from another unit: each carries a clock, and the
// newer clock wins. Pieces are granted a word at a time and reclaimed when
// there are none (piece_pool.h).
//
// A packet gets a clock only once it has a slot of the unit's channel; a packet
// without a slot is dropped before, so no clock is ever missing at the units.
//
// A value, copyable; owner-thread only; nothing is allocated after construction
// and AddPiecePool. Memory: ≤ 128 bytes a flow at max_flows; 102 more if all
// have an alias and an idle timeout of their own, 8 once a unit has failed, and
// 16 for each group.
class Controller {
 public:
  // The policy must outlive the controller.
  Controller(const ControllerOptions& options, const PlacementPolicy& policy);

  // Prefetches the memory that the last packet of `batch` will need. The caller
  // builds the batch for on_packets packet by packet and calls this after each
  // one. Without the call on_packets prefetches itself, and waits for memory.
  void Expect(std::span<Arrival> batch);

  // Changes the options that may change while the controller runs: the times of
  // flowlets, flows and units (flowlet_timeout, flow_timeout, evict_after,
  // unit_idle_timeout, keep_warm, start_timeout, push_delay, reassign_period),
  // flowlet_bytes, α, δ, demand_floor, and replicas and max_units up to their
  // values at construction (not of leased units). Units beyond max_units leave
  // as drained ones do. A timer that is armed runs at its old time. Returns
  // false, and changes nothing, if no unit could be used then.
  bool Tune(Instant now, const ControllerOptions& options);
  // The unit, below max_units, gets no flowlets from now on until Undrain; once
  // it is empty it stops, and its flows move to others (U8). Returns false, and
  // changes nothing, if no other unit could be used then.
  bool Drain(Instant now, UnitId unit) { return units_.Drain(now, unit); }
  void Undrain(UnitId unit) { units_.Undrain(unit); }

  // Handles packets in order until all are done or `out` might not hold the
  // commands of one more. Returns how many are done. Budget for a packet of a
  // running flowlet: ≤ 3 × parse and lookup; no allocation.
  size_t on_packets(Instant now, std::span<const Arrival> arrivals,
                    ControllerOut& out);

  // Returns the cost of a packet at a unit, for drain reports.
  uint32_t CostOf(uint32_t original_length) const {
    return cost_(original_length);
  }
  // The next three return false, and change nothing, for an impossible message.
  // Units are below max_units.
  //
  // Packets have left a unit, which frees their slots; `report.bytes` is the
  // sum of what each cost (CostOf).
  bool on_drained(Instant now, const DrainReport& report) {
    return units_.on_drained(now, report);
  }
  // The unit that a kStartUnit named is ready. If that start has failed, by
  // start_timeout, it is too late.
  bool on_unit_ready(Instant now, UnitId unit) {
    return units_.on_ready(now, unit);
  }
  // The unit that a kStopUnit named is gone. The caller must have returned all
  // its pieces with on_pieces_returned before.
  bool on_unit_stopped(UnitId unit) {
    if (!units_.on_stopped(unit)) return false;
    failover_.on_unit_stopped(unit);
    pieces_.on_unit_stopped(unit);
    return true;
  }
  // --- Leases (proto/protocol.md §7), with ControllerOptions::leased. ---
  // The controller may use this share of the unit, in 1/1024 of its capacity;
  // again when the share has changed. A kStartUnit, which is not to be
  // answered, goes ahead of the unit's first packet, and withdraws a kStopUnit
  // that is under way. Returns false, and changes nothing, if the share cannot
  // be, or the unit has failed.
  bool on_lease(Instant now, UnitId unit, uint32_t share, ControllerOut& out) {
    return units_.on_lease(now, unit, share, out);
  }
  // The controller is to leave the unit: flows go on at others with their next
  // flowlet, or, with `at_once`, with their next packet. kStopUnit follows when
  // nothing more is sent there, and the flows that are left move by null
  // packets (U8); on_unit_stopped ends the use. While there is no other unit,
  // a unit with flows is left only at once. Returns false, and changes nothing,
  // if there is no lease or that is known.
  bool on_revoke(Instant now, UnitId unit, bool at_once, ControllerOut& out) {
    return units_.on_revoke(now, unit, at_once, out);
  }

  // A unit has processed a packet on state that it took over from another unit,
  // and that has forgotten its copy (U7). Late and repeated messages are
  // harmless; impossible ones are refused and counted.
  void on_takeover(const Takeover& takeover);

  // A unit asks for a timer packet of a flow that it owns (U11). A timer packet
  // opens no flowlet and is no sign of life of the flow. If the owner is
  // parked or stopping, it goes to another unit, which takes the flow over; if
  // none is, one is started for it. A request that finds no free slot is put
  // off: the unit repeats it. Outdated ones are refused and counted.
  void on_timer_due(Instant now, const TimerDue& due, ControllerOut& out) {
    NullPackets::on_timer_due(*this, now, due, out);
  }

  // --- Failures of units (failover.h). ---
  // The unit that a kStartUnit named with that incarnation has failed. From now
  // on the caller refuses messages of this incarnation. Returns false, and
  // changes nothing, if it is not running.
  bool on_unit_failed(Instant now, UnitId unit, uint32_t incarnation,
                      ControllerOut& out) {
    return failover_.on_unit_failed(*this, now, unit, incarnation, out);
  }
  // The flow of a unit that is about to fail is to be given up, since its NF
  // would fail at each unit. Does nothing if there is no such flow.
  void Condemn(FlowId flow) {
    if (Keeps(flow)) flows_.hot(slot_of(flow)).flags |= FlowHot::kCondemned;
  }
  // A packet that was in the channel of a failed unit survives, as it came with
  // a kEnqueue. Returns false, and does not take it, unless the loggers have
  // still to answer and there is room.
  bool on_survivor(const PacketMeta& meta, PacketHandle packet) {
    return failover_.on_survivor(*this, meta, packet);
  }
  // The logger that a kSeal named answers, or a unit answers a kDoneQuery: once
  // for each flow of which it has a copy, then for kNoFlow. Answers that cannot
  // be are counted and change nothing.
  void on_sealed(Instant now, const SealAnswer& answer, ControllerOut& out) {
    failover_.on_sealed(*this, now, answer, out);
  }
  void on_done(Instant now, const DoneAnswer& answer, ControllerOut& out) {
    failover_.on_done(*this, now, answer, out);
  }
  // The logger of a failed unit knows of the unit's first `logged` grants of
  // pieces. It returns the pieces that it knows to be free by
  // on_pieces_returned before its last answer (F10).
  void on_grants_sealed(Instant now, UnitId unit, uint64_t logged,
                        ControllerOut& out) {
    pieces_.on_grants_sealed(now, unit, logged, counters_.pieces, out);
  }
  // Only with ControllerOptions::awaits_ends: called when the flow's end, which
  // a kEndFlow named, is in a logger. Returns false, and changes nothing, if no
  // end is awaited.
  bool on_ended(FlowId flow) { return FlowEnds::on_ended(*this, flow); }
  // Returns the contents of a kName of the flow, which the controller knows.
  FlowName NameOf(FlowId flow) const;
  // Returns true while flows of failed units are to be moved.
  bool is_recovering() const { return failover_.is_active(); }

  // A unit asks for an alias of a flow; kAliasAck answers, with the result that
  // is returned. A granted alias stands until the flow gets another, gives it
  // up, or ends. A request is refused as kUnknown if its flow is not in the
  // table, or its clock has not been given yet or is older than that of the
  // flow's alias. A request from a unit that does not exist is counted and not
  // answered.
  AliasResult on_alias(const Alias& alias, ControllerOut& out);
  // An NF says how long it keeps a flow, or that the flow is over. Impossible
  // notes are refused and counted.
  void on_flow_note(Instant now, const FlowNote& note, ControllerOut& out);
  // Ends the flow as if it had timed out: its packets under way still run, and
  // the next one begins a new flow. Returns false, and changes nothing, if the
  // flow is unknown, or some of its state may be at another unit than its
  // owner; the call may be repeated, and has old copies forgotten.
  bool DeleteFlow(Instant now, FlowId flow, ControllerOut& out,
                  Deletion why = Deletion::kByHand) {
    return ends_.Delete(*this, now, flow, why, out);
  }
  // Adds a pool of the NF, whose pieces first … last are all at the controller.
  // Called for each pool in order, before the first packet.
  void AddPiecePool(uint32_t first, uint32_t last) { pieces_.Add(first, last); }
  // A running unit asks for pieces. kPieces answers: at once, or after the
  // units that were asked with kReclaim have answered, possibly from on_timers.
  void on_piece_request(Instant now, const PieceRequest& request,
                        ControllerOut& out) {
    pieces_.on_request(now, request, counters_.pieces, out);
  }
  // A unit returns pieces. Mask 0 says that it has returned all pieces asked
  // for by the last kReclaim.
  void on_pieces_returned(Instant now, const PieceBlock& pieces,
                          ControllerOut& out) {
    pieces_.on_returned(now, pieces, counters_.pieces, out);
  }

  // Pieces that are another controller's leave the pool, or others come to it,
  // which may have been out (H4). Their unit means nothing.
  void RemovePieces(const PieceBlock& pieces) { pieces_.Remove(pieces); }
  void AddPieces(Instant now, const PieceBlock& pieces, bool were_out,
                 ControllerOut& out) {
    pieces_.AddPieces(now, pieces, were_out, counters_.pieces, out);
  }
  // Return the pieces of a word that are here, and true if the pool has none.
  uint64_t free_pieces(uint16_t pool, uint32_t word) const {
    return pieces_.pool(pool).free(word);
  }
  bool lacks_pieces(uint16_t pool) const {
    return pool < pieces_.size() && pieces_.pool(pool).free() == 0;
  }

  // The time at which on_timers must be called, which may have passed;
  // Instant::max() for never.
  Instant next_wakeup() const {
    const Instant timers =
        std::min({flow_timers_.next_wakeup(), units_.next_wakeup(),
                  pieces_.next_wakeup(), failover_.wakeup()});
    return null_packets_.Earlier(units_, timers);
  }
  // Handles due timers, as many as `out` has room for and at most some
  // thousand; if there are more, next_wakeup() is not later than now.
  void on_timers(Instant now, ControllerOut& out);

  // Sets the observer; null (the default) for none. The observer must outlive
  // the controller or the next call.
  void set_decision_observer(DecisionObserver* observer) {
    flowlets_.set_observer(observer);
  }

  const ControllerCounters& counters() const { return counters_; }
  const UnitPool& units() const { return units_; }
  const FlowTable& flows() const { return flows_; }
  const OwnerHistory& owners() const { return owners_; }
  // Returns the id of the flow in that slot, which has one.
  FlowId IdOfSlot(uint32_t slot) const { return IdOf(slot); }
  const AliasTable& aliases() const { return aliases_; }
  // The most units to which a flow's state is pushed.
  uint32_t replicas() const { return replicas_; }

 private:
  friend class Failover;
  friend class FlowEnds;
  friend class FlowHandOver;
  friend class Flowlets;
  friend class NullPackets;
  friend class Rebuild;

  static constexpr size_t kBatch = 32;
  // Expect prefetches a packet's index bucket, and this many packets later its
  // entry.
  static constexpr size_t kLead = 8;
  // Most flow timers that one on_timers handles; most timers cause no command.
  static constexpr uint32_t kTimersPerCall = 1'024;

  uint64_t BringIndex(const Arrival& arrival) const;
  uint32_t BringEntry(const Arrival& arrival, uint64_t hash) const;
  void on_packet(Instant now, const Arrival& arrival, uint64_t hash,
                 uint32_t likely, ControllerOut& out);
  void CloseFlowlet(uint32_t slot) { flowlets_.Close(*this, slot); }
  void Enqueue(Instant now, const Arrival& arrival, uint32_t slot,
               ControllerOut& out);
  // The fields of PacketMeta that only a flowlet's first packet sets.
  struct FirstOfFlowlet {
    UnitId source = kNoUnit;
    StateSource source_kind = StateSource::kNone;
    uint8_t flags = 0;
  };
  FirstOfFlowlet BeginAtUnit(Instant now, uint32_t slot, ControllerOut& out);
  void SendReplicas(uint32_t slot, ControllerOut& out);
  void ChangeOwner(Instant now, uint32_t slot, UnitId to, ControllerOut& out);
  void Disown(Instant now, UnitId unit);
  // Sends the controller's current data of the flow to the unit.
  void Name(uint32_t slot, UnitId unit, ControllerOut& out) {
    if (!names_flows_) [[likely]]
      return;
    ++names_told_;
    out.push(ControllerCommand::OfFlow(unit, IdOf(slot)));
  }
  void CountLongProbes() {
    counters_.long_probes = flows_.long_probes() + aliases_.long_probes();
  }
  // Returns true if the flow is in the table and got a clock; units send
  // messages only about such flows.
  bool Knows(FlowId flow) const {
    return Keeps(flow) && !IsEnding(slot_of(flow));
  }
  // The same, or its end is awaited.
  bool Keeps(FlowId flow) const {
    const uint32_t slot = slot_of(flow);
    return slot < flows_.used() && IdOf(slot) == flow &&
           flows_.cold(slot).owner != kNoUnit;
  }
  bool IsEnding(uint32_t slot) const {
    return (flows_.hot(slot).flags & FlowHot::kEnding) != 0;
  }
  FlowId IdOf(uint32_t slot) const {
    return MakeFlowId(controller_id_, slot, flows_.numbers(slot).generation);
  }

  uint32_t replicas_;  // 0 if the choice is kNone, or flows never move
  bool likely_;        // the choice is kLikely
  bool names_flows_;
  bool forgets_copies_;
  uint32_t evacuate_slots_;
  uint8_t controller_id_;
  Flowlets flowlets_;
  FlowTable flows_;
  AliasTable aliases_;
  IdleTimeouts idle_timeouts_;
  TimingWheel flow_timers_;
  PacketCost cost_;
  UnitPool units_;
  PiecePools pieces_;
  ReplicaChooser chooser_;
  MoveChances chances_;
  Rng rng_;
  OwnerHistory owners_;
  FlowEnds ends_;
  NullPackets null_packets_;
  Failover failover_;
  uint64_t names_told_ = 0;
  ControllerCounters counters_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_CONTROLLER_H_
