// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_CONTROLLER_H_
#define SNF_CONTROLLER_CORE_CONTROLLER_H_

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/rng.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "controller/core/alias_table.h"
#include "controller/core/commands.h"
#include "controller/core/controller_counters.h"
#include "controller/core/demand_estimator.h"
#include "controller/core/flow_table.h"
#include "controller/core/idle_timeouts.h"
#include "controller/core/options.h"
#include "controller/core/owner_history.h"
#include "controller/core/piece_pools.h"
#include "controller/core/placement.h"
#include "controller/core/replica_chooser.h"
#include "controller/core/unit_pool.h"

namespace snf {

// Why a flowlet began (SNF §4.1).
enum class FlowletCause : uint8_t {
  kNewFlow,  // the first packet of its flow
  kGap,      // the gap exceeded T
  kBytes,    // the packet would have pushed the flowlet over B bytes, or the
             // policy wants a flowlet for each packet
  kLate,     // a later packet of a flowlet that has no unit (any more)
};

// A flowlet gets a unit, be it without a choice (Placement::kept).
struct Decision {
  Instant time;  // arrival of the packet that caused it
  FlowId flow{};
  uint32_t flowlet = 0;
  FlowletCause cause{};
  Nanos gap;               // since the flow's last packet
  uint32_t bytes = 0;      // of the flowlet that it ended
  int64_t demand_bps = 0;  // the estimate
  PlacementRequest request;
  Placement placement;
};

// Sees every decision before it takes effect: the pool's loads are those that
// the policy saw. Off the hot path: a controller without one pays a branch a
// decision.
class DecisionObserver {
 public:
  virtual ~DecisionObserver() = default;
  virtual void on_decision(const Decision& decision, const UnitPool& units) = 0;
};

// Theory of operation. The controller cuts each flow into flowlets, gives each
// flowlet a unit, and each packet a logical clock and the metadata of
// proto/protocol.md §3 (SNF §4, §5.3). It is a pure core: events and the time
// come in, commands go out; it has no threads, clocks or sockets.
//
// Per packet: find the flow; is this the same flowlet? then send it where the
// flowlet goes. Per flowlet: close the one before (measure its rate, update the
// flow's estimate), ask the policy for a unit, count the demand on it, choose
// the units that get a replica of the state when the flowlet idles. By timer: a
// flowlet that has been silent for more than T no longer counts; a flow that
// has been silent for flow_timeout is ended.
//
// Scale-in (U8). A unit that is to stop and still owns flows is relieved of
// them: each gets a null packet to another unit, which pulls the state. They
// are found by going through the flow table, evacuate_slots at a time, for all
// such units at once. Where a flow's packet comes first, that moves it as well.
//
// Time. A packet's own arrival decides about gaps, to the nanosecond; `now`
// drives timers only. So flowlet counts do not depend on bursts or timers.
// Each event's `now` must be at least the one before, and `now` of on_packets
// at least the arrivals in it.
//
// Aliases (U9). A packet that comes by alias is one of the flow that has it,
// and from there on like any other. What an NF says of a flow, with a clock,
// may overtake what it said at another unit before: the newer clock wins.
// Pieces are granted by the word and asked back when there are none
// (piece_pool.h).
//
// A clock is given only to a packet that gets a slot of the unit's channel;
// otherwise the packet is dropped before, so that no clock is ever a hole.
//
// A value, copyable; owner-thread only; nothing is allocated after
// construction and AddPiecePool. Memory: ≤ 128 bytes a flow at max_flows; if
// all have an alias and an idle timeout of their own 102 more, and 16 for each
// group.
class Controller {
 public:
  // The policy must outlive the controller.
  Controller(const ControllerOptions& options, const PlacementPolicy& policy);

  // The batch that on_packets is to get has one packet more, its last: brings
  // in what will be needed for it, a step at a time. Where this was not called
  // for a packet, on_packets does it itself; then it has to wait for memory.
  void Expect(std::span<Arrival> batch);

  // Handles packets in order until all are done or `out` might not hold the
  // commands of one more; returns how many are done. Budget: ≤ 3 × parse and
  // lookup a packet of a running flowlet; no allocation.
  size_t on_packets(Instant now, std::span<const Arrival> arrivals,
                    ControllerOut& out);

  // Packets left a unit, which frees their slots.
  void on_drained(Instant now, const DrainReport& report) {
    units_.on_drained(now, report);
  }
  // A unit that kStartUnit named is ready; one that kStopUnit named is gone.
  void on_unit_ready(Instant now, UnitId unit) { units_.on_ready(now, unit); }
  // All pieces of the latter were returned before.
  void on_unit_stopped(UnitId unit) {
    units_.on_stopped(unit);
    pieces_.on_unit_stopped(unit);
  }
  // A unit processed a packet on state from another unit (U7). Late and
  // repeated ones are harmless; what cannot be true is refused and counted.
  void on_takeover(const Takeover& takeover);

  // A unit asks for an alias of a flow: kAliasAck follows. It stands until the
  // flow has another, or none, or is over. Of a flow that is not in the table,
  // or of a clock that was not given yet, it is refused as kUnknown; where
  // there is no such unit, it is only counted.
  void on_alias(const Alias& alias, ControllerOut& out);
  // What an NF keeps of a flow. What cannot be true is refused and counted.
  void on_flow_note(Instant now, const FlowNote& note, ControllerOut& out);
  // A pool of the NF: pieces first … last are the controller's. Call for each,
  // in order, before the first packet.
  void AddPiecePool(uint32_t first, uint32_t last) { pieces_.Add(first, last); }
  // The unit is running. kPieces follows, at once or when units that were asked
  // with kReclaim have returned some, or none; then from on_timers as well.
  void on_piece_request(Instant now, const PieceRequest& request,
                        ControllerOut& out) {
    pieces_.on_request(now, request, counters_.pieces, out);
  }
  // Mask 0: that was all that kReclaim asked for.
  void on_pieces_returned(Instant now, const PieceBlock& pieces,
                          ControllerOut& out) {
    pieces_.on_returned(now, pieces, counters_.pieces, out);
  }

  // When on_timers wants to be called, at once if that has passed;
  // Instant::max() for never.
  Instant next_wakeup() const {
    const Instant timers =
        std::min({flow_timers_.next_wakeup(), units_.next_wakeup(),
                  pieces_.next_wakeup()});
    return IsEvacuating() ? std::min(timers, evacuate_at_) : timers;
  }
  // Handles due timers, as many as `out` has room for.
  void on_timers(Instant now, ControllerOut& out);

  // Null (the default) for none; it must outlive its use.
  void set_decision_observer(DecisionObserver* observer) {
    observer_ = observer;
  }

  const ControllerCounters& counters() const { return counters_; }
  const UnitPool& units() const { return units_; }
  const FlowTable& flows() const { return flows_; }
  const OwnerHistory& owners() const { return owners_; }
  const AliasTable& aliases() const { return aliases_; }
  // Units to which a flow's state is to be pushed, at the most.
  uint32_t replicas() const { return replicas_; }

 private:
  static constexpr size_t kBatch = 32;
  // Packets between what Expect does first for one and what it does then.
  static constexpr size_t kLead = 8;
  // Until a full channel is tried again with a null packet.
  static constexpr Nanos kEvacuateRetry = Milliseconds(1);

  uint64_t BringIndex(const Arrival& arrival) const;
  uint32_t BringEntry(const Arrival& arrival, uint64_t hash) const;
  void on_packet(Instant now, const Arrival& arrival, uint64_t hash,
                 uint32_t likely, ControllerOut& out);
  void BeginFlowlet(Instant now, const Arrival& arrival, uint32_t slot,
                    FlowletCause cause, ControllerOut& out);
  void ResumeFlowlet(Instant now, const Arrival& arrival, uint32_t slot,
                     ControllerOut& out);
  void PlaceFlowlet(Instant now, const Arrival& arrival, uint32_t slot,
                    FlowletCause cause, ControllerOut& out);
  void CloseFlowlet(uint32_t slot);
  bool BeginsPeriod(Instant arrival, Instant last_packet);
  void Enqueue(Instant now, const Arrival& arrival, uint32_t slot,
               ControllerOut& out);
  // What a flowlet's first packet says besides (PacketMeta).
  struct FirstOfFlowlet {
    UnitId source = kNoUnit;
    StateSource source_kind = StateSource::kNone;
    uint8_t flags = 0;
  };
  FirstOfFlowlet BeginAtUnit(Instant now, uint32_t slot, ControllerOut& out);
  void SendReplicas(uint32_t slot, ControllerOut& out);
  void ChangeOwner(Instant now, uint32_t slot, UnitId to);
  void Disown(Instant now, UnitId unit);
  bool IsEvacuating() const {
    return units_.leaving_flows() > 0 && units_.placeable_units() > 0;
  }
  void Evacuate(Instant now, ControllerOut& out);
  bool SendNullPacket(Instant now, uint32_t slot, ControllerOut& out);
  void ScaleAhead(Instant now, ControllerOut& out);
  void on_flow_timer(Instant now, uint32_t slot, ControllerOut& out);
  void ArmIdle(uint32_t slot);
  void EndFlow(Instant now, uint32_t slot, ControllerOut& out);
  // A flow to which a clock was given, which is the least that is said of.
  bool Knows(FlowId flow) const {
    const uint32_t slot = slot_of(flow);
    return slot < flows_.used() && IdOf(slot) == flow &&
           flows_.cold(slot).owner != kNoUnit;
  }
  FlowId IdOf(uint32_t slot) const {
    return MakeFlowId(controller_id_, slot, flows_.numbers(slot).generation);
  }

  Nanos flowlet_timeout_;
  int64_t flowlet_bytes_;  // -1: every packet is too many
  Nanos replicas_after_;   // the gap in which replicas have landed
  Nanos reassign_period_;
  uint32_t alpha_;
  uint32_t replicas_;  // 0 where the choice is none, or flows stay
  uint32_t evacuate_slots_;
  uint8_t controller_id_;
  const PlacementPolicy* policy_;
  DecisionObserver* observer_ = nullptr;
  FlowTable flows_;
  AliasTable aliases_;
  IdleTimeouts idle_timeouts_;
  TimingWheel flow_timers_;
  DemandEstimator demand_;
  UnitPool units_;
  PiecePools pieces_;
  ReplicaChooser chooser_;
  Rng rng_;
  OwnerHistory owners_;
  Instant period_start_;        // of some reassign_period: the last one asked
  uint32_t evacuate_next_ = 0;  // the slot to go on with
  Instant evacuate_at_;         // and when
  ControllerCounters counters_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_CONTROLLER_H_
