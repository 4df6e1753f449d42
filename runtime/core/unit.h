// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_H_
#define SNF_RUNTIME_CORE_UNIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/messages/failure_messages.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "runtime/core/flow_record.h"
#include "runtime/core/flow_store.h"
#include "runtime/core/nf_calls.h"
#include "runtime/core/packet_nodes.h"
#include "runtime/core/replication.h"
#include "runtime/core/unit_changes.h"
#include "runtime/core/unit_options.h"
#include "runtime/core/unit_packets.h"
#include "runtime/core/unit_reader.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Theory of operation. A compute unit runs one NF, packet by packet, on the
// state of its flows (SNF §5). The unit itself decides which packet runs next,
// by the first of the rules of proto/protocol.md §4; its parts do the rest.
//
// U1  A packet is run if and only if its clock is the one after the clock that
//     the unit's copy of the flow's state has applied, or it is the first of a
//     new flow. A clock at or below the copy's is a duplicate. Any other packet
//     is held, until the state that it needs has come.
//
//   FlowStore    keeps the records of flows and their state
//   UnitPackets  keeps packets that have not run, in order
//   Replication  moves state between units, and says who owns it: U2 … U8
//   NfCalls      calls the NF, and keeps packets that wait for its requests
//   UnitChanges  has the changes for the output logger
//   UnitFlowEnds     ends flows, and drops those that are given up
//
// The parts do not know each other; the unit hands them the store with each
// call. After each change of a flow by a message or a packet, the unit
// continues in one place (AfterChange): the next held packet may run, or pulls
// the state that it needs, and Pulls of other units may be answered.
//
// Worked example: clock 3 of a flow comes to unit B, which knows nothing of the
// flow, with source A. B holds it and sends Pull(need 2). State(applied 2)
// comes: Replication takes it, and AfterChange finds clock 3 the next, so
// begin() takes it into service. finish() runs the NF on it, releases it, and
// tells A and the controller Takeover(3).
//
// Packets in the unit, queued or held, keep their channel slots, so the
// controller's credits bound all queues in here: a packet handed over always
// fits.
//
// The driver serves a unit like this, whatever its clock is (proto/decisions.md
// 5):
//     on_packet …                    as packets come in
//     while (begin()):               a packet can run; it takes its time
//       finish()                     at the end of which its effects happen
// It executes the commands of each call before the next one. `now` does not run
// backwards. There may be more to push than `out` has room for: pieces that go
// back to the controller, and the outcome of packets that cannot run. To get
// all of it, after any call, unless begin() comes next anyway:
//     while (has_more()): Resume()   with `out` emptied before
//
// A value; owner-thread only; nothing is allocated after construction. Memory:
// flow_store.h.
class Unit {
 public:
  static constexpr Nanos kNeverHeld{-1};

  // The schema is that of the NF; it must outlive the unit and its copies.
  Unit(UnitId id, const UnitOptions& options, const StateSchema& schema,
       std::span<const NetworkFunction::Pool> pools = {});

  UnitId id() const { return id_; }
  // Shows states to other units of the host, and takes theirs (U16). Call this
  // before the first packet. The records must outlive the unit and its copies.
  void UseHost(HostRecords& host) { replication_.UseHost(&host); }

  // --- Packets. ---
  // Names where the flow's state is to be pushed from now on; comes ahead of
  // the first packet of a flowlet.
  void on_replicas(const ReplicaSet& replicas) { flows_.SetTargets(replicas); }
  // Returns false if all slots of the channel are in use.
  bool has_room() const { return flows_.packets().has_room(); }
  // A packet came through the channel. It must hold a slot. One without payload
  // comes with kNoPacket.
  void on_packet(PacketHandle packet, const PacketMeta& meta) {
    packets_.Add(packet, meta, flows_);
  }
  // Takes the next packet that can run into service; earlier packets that
  // cannot run are held. Returns false if none can run, or has_more(). Not
  // while busy.
  bool begin(Instant now, UnitOut& out);
  bool busy() const { return in_service_ != kNone; }
  // Describes the packet in service, which may be one without payload.
  const PacketMeta& in_service() const {
    return flows_.packets()[in_service_].meta;
  }
  PacketHandle packet_in_service() const {
    return flows_.packets()[in_service_].packet;
  }
  // Says how long it was held for state; kNeverHeld if it was not.
  Nanos in_service_wait() const { return in_service_wait_; }
  // Returns the flow's lowest held packet, or null if none is held. Valid until
  // the next call.
  const PacketNode* held(FlowId flow) const;
  // Returns true if the packet was in service before, and waited for pieces
  // then.
  bool in_service_again() const { return flows_[in_service_slot_].waited; }
  // Runs the NF on the packet in service; `out` must have room for
  // kMaxUnitCommandsPerCall. Pushes the outcome of the packet, and what follows
  // from the flow's new clock.
  void finish(Instant now, NfContext env, UnitOut& out);

  // --- The output logger, with UnitOptions::has_logger (U6, U13). ---
  // An entry of the logger describes the effects of finish() or on_alias_ack(),
  // or the end of a flow: the commands up to kLog, and this change.
  using Change = UnitChanges::Change;
  // Returns that of the last kLog; valid until the next call.
  Change change() const { return changes_.last(flows_, nf_); }
  // Returns the pieces that the NF took and gave back in the last call, which a
  // kLog or kSendAlias follows. Pieces that the NF gave back are free from
  // on_pieces_released on, once the entry is released.
  std::span<const PieceUse> piece_uses() const { return nf_.piece_uses(); }
  // From now on what the NF merges into its shared tables, which are these, is
  // part of its entries (proto/protocol.md T1). Call this before the first
  // packet. The tables must outlive the unit and its copies.
  void LogTables(std::span<TableCopy* const> tables) { nf_.LogTables(tables); }
  // Returns these updates (table_update.h), without numbers; as piece_uses().
  std::span<const std::byte> table_updates() const {
    return nf_.table_updates();
  }
  // Returns the flow's whole record, valid as change(). Its clock is 0 if there
  // is none but a replica, or while the flow waits for its alias.
  Change whole(FlowId flow) const { return UnitChanges::Whole(flow, flows_); }
  // Called when the logger has released the entry of that packet; entries of a
  // flow are released in order. Sends the messages that waited for the release.
  void on_released(Instant now, const PacketMeta& meta, NfContext env,
                   UnitOut& out);
  void on_pieces_released(const PieceBlock& pieces, UnitOut& out);
  // Returns true if a flow, or a stop, waits for something, which may be that
  // an entry is released. If false, on_released leads to no message, except
  // for the entry of a packet that TakesOver.
  bool is_waiting() const {
    return stopping_ || flows_.has_missed_push() || !flows_.pending().empty();
  }
  // Returns true if a packet at that unit is the first that ran on the state of
  // another one.
  static bool TakesOver(const PacketMeta& meta, UnitId at) {
    return (meta.flags & PacketMeta::kFirstOfFlowlet) != 0 &&
           (meta.source_kind == StateSource::kLogger ||
            (meta.source_kind == StateSource::kUnit && meta.source != at));
  }

  // Returns true if commands of earlier calls are left because `out` was full.
  // False while busy: then begin() continues.
  bool has_more() const {
    return !busy() && (is_cut_short_ || nf_.pieces().can_return() ||
                       (stopping_ && nf_.pieces().spare() > 0 && is_idle()));
  }
  // Pushes the commands that are left, after the caller has emptied `out`.
  // Returns true if a packet is in service now, which happens only in an
  // unfinished begin().
  bool Resume(Instant now, UnitOut& out);

  // --- Messages of other units. ---
  // They are parsed, not trusted (replication.h).
  void on_pull(Instant now, const Pull& pull, UnitOut& out);
  // `record` came beside the message.
  void on_state(Instant now, const State& state,
                std::span<const std::byte> record, UnitOut& out);
  void on_takeover(Instant now, const Takeover& takeover, UnitOut& out);
  void on_takeover_ack(Instant now, const TakeoverAck& ack, UnitOut& out);

  // --- Messages of the controller. ---
  // Answers a kSendAlias; late and repeated answers are harmless.
  void on_alias_ack(Instant now, const AliasAck& ack, NfContext env,
                    UnitOut& out);
  // Answers a kRequestPieces. Pieces that the unit has already, or that the
  // pool does not have, are counted and refused.
  void on_pieces(Instant now, const PieceBlock& pieces, UnitOut& out);
  // The controller wants the pool's pieces back that are not in use: one
  // kReturnPieces a word, the last, with mask 0, when that was all. Where
  // packets are to run again that waited for the pool, they run before.
  void on_reclaim(uint16_t pool, UnitOut& out);
  // Ends the flow with that clock. The NF is told once the clock has run here.
  void on_end_flow(Instant now, const EndFlow& end, NfContext env,
                   UnitOut& out);
  // The controller wants the unit gone: kStopped follows as soon as it keeps
  // nothing but replicas, which go with it, its pieces are back and no request
  // for more is open. It serves its packets and answers Pulls until then. No
  // new replicas are taken until on_start.
  void on_stop(UnitOut& out);
  void on_start();

  // --- Failures of other units, in unit_failover.cc. ---
  // Answers a DoneQuery: returns the newest clock of the next flow with a copy
  // here, or with an unacknowledged Takeover, and advances `at`, which is 0 at
  // first; nothing after the last flow. The unit may process packets in between
  // (proto/protocol.md F3).
  std::optional<DoneAnswer> NextDone(uint32_t& at) const {
    return UnitReader(id_, flows_, nf_).NextDone(at);
  }
  // The unit's logger is to be replaced (F8). NextLogged goes through the flows
  // of which the logger has a record, as NextDone does. If a flow waits for its
  // alias, its record is the one after the waiting clock; the earlier record is
  // not kept, and the flow's next log entry is whole.
  using LoggedFlow = UnitChanges::LoggedFlow;
  std::optional<LoggedFlow> NextLogged(uint32_t& at) const {
    return UnitChanges::NextLogged(at, flows_);
  }
  bool has_parked() const { return UnitReader(id_, flows_, nf_).has_parked(); }
  // Changes the source of the state that a packet here needs (F6): it is pulled
  // from there. Late calls are harmless.
  void on_redirect(Instant now, const Redirect& redirect, UnitOut& out);
  // Drops a flow that the controller has given up: packets that cannot run are
  // dropped for kUnitFailed, as many as `out` has room for, and not logged. The
  // copy is removed once the running packet is released; the NF is not told.
  // Returns true if there are more packets.
  bool on_forsake(Instant now, FlowId flow, UnitOut& out);

  // --- Another controller, in unit_failover.cc as well (F9). ---
  using Report = UnitReader::Report;
  // Reports all that the unit keeps, and its open requests to a controller.
  void MakeReport(Report& report) const;
  // Returns true if anything is kept of the flow but packets that just came.
  bool Keeps(FlowId flow) const { return flows_.Find(flow) != kNone; }

  // --- Handing a flow over to another controller (H1-H3). ---
  // Returns the message that takes the flow's state after `last`, with
  // state_bytes(flow), to the other controller. Returns nothing while the state
  // is not here or not released, or anything of the flow waits here. The copy
  // stays until on_forsake.
  std::optional<State> StateToHandOver(FlowId flow, Clock last) const;
  // Returns the message that shows the newest state of the flow here, with
  // state_bytes(flow), to a controller. Returns nothing if there is none, or
  // a packet is being run. The packet of that clock may not have left yet.
  std::optional<State> StateToShow(FlowId flow) const;
  // The state of a flow comes that was another controller's, ahead of a packet
  // without payload of the clock behind it. The unit may have stopped, and be
  // about to start. Returns false, and changes nothing, if the message cannot
  // be.
  bool on_handed_over(Instant now, const State& state,
                      std::span<const std::byte> record);

  // Called when the store of the flow's state is silent: drops packets that
  // wait for it, as many as `out` has room for; their clocks are applied when
  // the store answers after all. Returns true if there are more packets. In
  // unit_failover.cc as well.
  bool on_store_silent(FlowId flow, UnitOut& out);

  // --- Timers. ---
  // Returns when on_timers wants to be called; Instant::max() for never.
  Instant next_wakeup() const { return flows_.timers().next_wakeup(); }
  // Handles due timers (requests of timer packets, pushes, repetitions,
  // expiry), as many as `out` has room for, and at most kMaxTimersPerCall; the
  // others stay due.
  void on_timers(Instant now, UnitOut& out);
  // The run is coming to its end: timers of the NF that become due from now on
  // are counted (timers_left), and not asked for.
  void StopTimers() { stops_timers_ = true; }

  // --- What commands refer to. ---
  // Returns the flow's record. Valid until the next call that is not const.
  std::span<const std::byte> state_bytes(FlowId flow) const;
  // Returns the bytes that go with a kSendState; valid as state_bytes.
  std::span<const std::byte> bytes_of(const State& state) const {
    return state.delta ? replication_.delta(state.flow)
                       : state_bytes(state.flow).first(state.bytes);
  }
  // Returns the alias that a kSendAlias for this flow asks for; valid as
  // state_bytes.
  const Alias& alias(FlowId flow) const;
  // Returns, for a checker, the result of each take of the NF in the last
  // finish(), in order: at most kMaxTakesPerCall, since further takes got
  // nothing.
  std::span<const std::optional<uint32_t>> pieces_taken() const {
    return nf_.pieces().taken();
  }

  // --- Figures. ---
  // Counts the pieces that are here and free.
  uint32_t pieces(uint16_t pool) const { return nf_.pieces().size(pool); }
  // Counts the flows of which anything is kept: a copy, packets, Pulls or
  // Takeovers.
  uint32_t flows() const { return flows_.size(); }
  uint32_t replicas() const { return flows_.replicas(); }
  // Returns the number of flows whose state is here, without replicas.
  uint32_t own_copies() const { return flows_.own_copies(); }
  uint32_t held_packets() const { return packets_.held(); }
  UnitCounters counters() const {
    UnitCounters counters = replication_.counters();
    counters.pieces_refused = nf_.pieces_refused();
    counters.records_refused = nf_.records_refused();
    counters.timers_left = timers_left_;
    return counters;
  }

 private:
  friend class UnitFingerprint;  // is for tests

  static constexpr uint32_t kNone = FlowStore::kNone;

  // Nothing is in service, nor may begin() find anything.
  bool is_idle() const {
    return !busy() && packets_.inbox().head == kNone &&
           flows_.resumed().head == kNone;
  }
  static bool IsRunnable(const FlowRecord& record, const PacketMeta& meta);
  void TakeIntoService(Instant now, uint32_t slot, uint32_t node);
  void Hold(Instant now, uint32_t slot, uint32_t node, UnitOut& out);
  void Complete(Instant now, uint32_t slot, NfCalls::Outcome outcome,
                uint32_t node, NfContext env, UnitOut& out);
  bool TakesOver(const PacketMeta& meta) const { return TakesOver(meta, id_); }
  // Continues after a change of a flow's state. The end of the flow comes
  // first: an ended flow gives no answer.
  void AfterChange(Instant now, uint32_t slot, UnitOut& out);
  // Lets the first of the held packets, of which there are some, run or pull.
  void ResumeOrPull(Instant now, uint32_t slot, UnitOut& out);
  // If `env` is null, the NF cannot be told: the end of a flow that ran here
  // waits.
  void EndIfOver(Instant now, uint32_t slot, const NfContext* env,
                 UnitOut& out);
  void PushStoppedIfDone(UnitOut& out);
  static bool CancelDueTimer(Instant now, FlowRecord& record);

  UnitId id_;
  bool stopping_ = false;
  bool stopped_ = false;
  bool stops_timers_ = false;
  bool is_cut_short_ = false;  // begin() was cut short because `out` was full
  uint32_t in_service_ = kNone;
  uint32_t in_service_slot_ = kNone;
  Nanos in_service_wait_ = kNeverHeld;
  uint64_t timers_left_ = 0;
  bool has_logger_;
  bool has_store_;

  UnitPackets packets_;
  FlowStore flows_;
  Replication replication_;
  NfCalls nf_;
  UnitChanges changes_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_H_
