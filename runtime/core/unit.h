// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_H_
#define SNF_RUNTIME_CORE_UNIT_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "runtime/core/flow_index.h"
#include "runtime/core/packet_nodes.h"
#include "runtime/core/unit_commands.h"
#include "runtime/core/unit_limits.h"
#include "runtime/core/unit_options.h"
#include "runtime/core/unit_pieces.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Theory of operation. A compute unit runs one NF, packet by packet, on the
// state of its flows (SNF §5), by the rules U1 … U8 of proto/protocol.md §4.
//
// U1  A packet is run if and only if its clock is the one after the clock that
//     the unit's copy of the flow's state has applied, or it is the first of a
//     new flow. A clock at or below the copy's is a duplicate.
// U2  Any other packet is held. The lowest held packet of a flow, being the
//     first of its flowlet, pulls the state from the unit its metadata names.
// U3  Once a flow has been idle for T/2, its state is pushed, with its clock,
//     to the units that the controller named for the flowlet.
// U4  State is taken only if it is newer than the copy. A push that no packet
//     waits for does not take the place of a current or given copy, which goes
//     by a Takeover alone: it is refused.
// U5  A Pull is answered, from a current or given copy, as soon as exactly its
//     clock is applied. (Once more is applied, the unit that pulled has itself
//     run the clock that followed: the Pull is late, and gets no answer.)
// U6  State leaves a unit only when what it contains was released. The release
//     stage is null so far: what is applied counts as released.
// U7  The first packet run on state from another unit tells that unit, and the
//     controller: Takeover, repeated to the unit until acknowledged (what goes
//     to the controller is not lost). Only then is that copy forgotten, and
//     only if it has not gone on; of state that never left, it is not believed.
// U8  A unit that is to stop answers Pulls until all its flows are taken.
//
// Copies are of three kinds. *Current*: the flow was processed here last, or is
// about to be. *Given*: it answered a Pull, and is kept until it is taken. A
// *replica* was pushed here: a cache, which others evict and which no packet
// names as a source.
//
// Timers of the NF belong to the current copy. A timer changes state without a
// clock, so two copies of one clock could differ: hence state with a timer
// pending is not pushed. It moves by Pull alone, which ends the timer here.
//
// Worked example: clocks 1, 2 of a flow ran at unit A, and the flow has been
// idle for T/2: A pushes (applied 2) to B and C. The controller sends clock 3
// to B, with source A: it runs at once, and B tells A Takeover(3), which
// forgets the flow. Had the push been lost, B would hold 3 and send Pull(need
// 2) to A, which answers State(applied 2). Had clock 3 gone to A after all and
// clock 4 to B, B's copy would be too old: B holds 4 and pulls (need 3).
//
// Packets in the unit, queued or held, keep their channel slots, so the
// controller's credits bound all queues in here: a packet handed over always
// fits.
//
// A packet whose NF sets an alias waits, run but not released, for the
// controller's answer; meanwhile no other packet of the flow is run, and its
// state does not leave (U6, U9). A packet whose NF waits for a piece of a pool
// is run again when pieces come, as many packets as pieces, or when the
// controller has none: then the NF sees the pool exhausted, and may wait for
// one other. Pieces that the unit has too many of go back, and all when it
// stops or the controller asks. What does not fit into the call that is to
// return them, or is kept for packets that are to run again, follows from
// begin(): kAgain until it is done.
//
// The driver serves a unit like this, whatever its clock is (proto/decisions.md
// 5):
//     on_packet …                       as packets come in
//     while begin() == kService:        a packet can run; it takes its time
//       finish()                        at the end of which its effects happen
// and executes the commands of each call before the next one. `now` does not
// run backwards.
//
// A value; owner-thread only; nothing is allocated after construction. Memory:
// ≤ 128 bytes a flow it keeps, and the flow's record, in whole cache lines or,
// where it is less than one, a power of two.
class Unit {
 public:
  // What a unit works on but does not own; the same for all calls.
  struct NfContext {
    NetworkFunction& nf;
    BufferPool& buffers;
  };
  enum class Next : uint8_t {
    kIdle,     // nothing can run until something comes in
    kService,  // a packet is in service: call finish() at the end of it
    kAgain,    // `out` might overflow: empty it and call again
  };
  static constexpr Nanos kNeverHeld{-1};

  // The schema is that of the NF; it must outlive the unit and its copies.
  Unit(UnitId id, const UnitOptions& options, const StateSchema& schema,
       std::span<const NetworkFunction::Pool> pools = {});

  UnitId id() const { return id_; }

  // Where the flow's state is to be pushed from now on; ahead of the first
  // packet of a flowlet.
  void on_replicas(const ReplicaSet& replicas);
  // A packet came through the channel. It must hold a slot. One without payload
  // comes with kNoPacket.
  void on_packet(PacketHandle packet, const PacketMeta& meta) {
    const uint32_t node = nodes_.Add(packet, meta);
    nodes_.Append(inbox_, node);
    if (ahead_ == kNone) ahead_ = node;
    index_.Prefetch(meta.flow);
  }

  // Picks the next packet that can run; those that cannot are held.
  Next begin(Instant now, UnitOut& out);
  // Of the packet in service, which may be one without payload.
  const PacketMeta& in_service() const { return nodes_[in_service_].meta; }
  PacketHandle packet_in_service() const { return nodes_[in_service_].packet; }
  // How long it was held for state; kNeverHeld if it was not.
  Nanos in_service_wait() const { return in_service_wait_; }
  // Whether it was in service before, and waited for pieces then.
  bool in_service_again() const { return records_[in_service_slot_].waited; }
  // Runs the NF on the packet in service; `out` must have room for
  // kMaxUnitCommandsPerCall. Pushes what becomes of the packet, and what
  // follows from the flow's new clock.
  void finish(Instant now, NfContext env, UnitOut& out);

  void on_pull(Instant now, const Pull& pull, UnitOut& out);
  // `record` came beside it, from another unit: it is parsed, not trusted.
  void on_state(Instant now, const State& state,
                std::span<const std::byte> record, UnitOut& out);
  void on_takeover(Instant now, const Takeover& takeover, UnitOut& out);
  void on_takeover_ack(Instant now, const TakeoverAck& ack, UnitOut& out);
  // Answers to kSendAlias; late and repeated ones are harmless.
  void on_alias_ack(Instant now, const AliasAck& ack, NfContext env,
                    UnitOut& out);
  // Answers to kRequestPieces. Pieces that are here already, or that the pool
  // does not have, are counted and not taken.
  void on_pieces(Instant now, const PieceBlock& pieces, UnitOut& out);
  // The controller wants the pool's pieces back that are not in use: one
  // kReturnPieces a word, the last, with mask 0, when that was all. A few come
  // at once, the others from begin(), and all where packets are to run again
  // that waited for the pool.
  void on_reclaim(uint16_t pool, UnitOut& out);
  void on_end_flow(Instant now, const EndFlow& end, NfContext env,
                   UnitOut& out);

  // The controller wants the unit gone: kStopped follows as soon as it keeps
  // nothing but replicas, which go with it, its pieces are back and no request
  // for more is open. It serves its packets and answers pulls until then. No
  // new replicas are taken until on_start.
  void on_stop(UnitOut& out);
  void on_start() { stopping_ = stopped_ = false; }

  // When on_timers wants to be called; Instant::max() for never.
  Instant next_wakeup() const { return timers_.next_wakeup(); }
  // Does what is due (timers of the NF, pushes, repetitions, expiry), as much
  // as `out` has room for, and kMaxTimersPerCall at most: what is left is due
  // at once.
  void on_timers(Instant now, NfContext env, UnitOut& out);

  // The flow's record, of which the first state.bytes go with a kSendState.
  // Valid until the next call that is not const.
  std::span<const std::byte> state_bytes(FlowId flow) const;
  // What a kSendAlias for this flow asks for; valid as state_bytes.
  const Alias& alias(FlowId flow) const;
  // What the NF got for each take in the last finish(), in order, for a
  // checker: no more than kMaxTakesPerCall, after which it got nothing.
  std::span<const std::optional<uint32_t>> pieces_taken() const {
    return pieces_.taken();
  }
  // That are here and free.
  uint32_t pieces(uint16_t pool) const { return pieces_.size(pool); }

  // Flows of which anything is kept: a copy, packets, Pulls, Takeovers.
  uint32_t flows() const { return index_.size(); }
  uint32_t replicas() const { return replicas_; }
  uint32_t held_packets() const { return held_; }
  bool busy() const { return in_service_ != kNone; }
  const UnitCounters& counters() const { return counters_; }

  // Equal for units that behave alike from now on, but for when their timers
  // are due: for exploring. Costs a walk over all that the unit keeps.
  uint64_t Fingerprint() const;

 private:
  static constexpr uint32_t kNone = PacketNodes::kNone;
  static constexpr uint16_t kNoPool = kMaxPools;

  // Something that a flow waits for; in the list of its record.
  struct Pending {
    enum class Kind : uint8_t {
      kPull,    // `peer` wants the state of `clock`
      kMyPull,  // this unit asked `peer` for the state of `clock`
      kMyTook,  // this unit told `peer` that it has run `clock`
      kEnd,     // the flow is over with `clock`
    };
    Clock clock;
    Instant due;  // of the next repetition; of a kPull when it is forgotten
    uint32_t next;
    UnitId peer;
    Kind kind;
    uint8_t tries;
  };
  static_assert(sizeof(Pending) == 24);

  enum class Copy : uint8_t { kNone, kCurrent, kHandedOver, kReplica };
  struct Record {
    FlowId flow;       // kNoFlow: free
    Clock applied;     // of the copy; 0 without one
    Instant timer;     // the NF's, Instant::max() for none
    Instant due;       // of a push (kCurrent) or of expiry (kReplica)
    PacketList held;   // in clock order
    uint32_t pending;  // a list through Pending::next
    uint32_t older;    // in the list of replicas; of a free record the next
    uint32_t newer;    // "
    uint32_t parked;   // the packet of `applied`, until its alias stands
    Copy copy;
    LinkType link;     // of its last packet: how emitted packets are framed
    uint8_t replicas;  // units to push to
    bool resumed;      // a packet of it is in resumed_, or waits for pieces
    bool waited;       // that packet has waited for pieces
    bool idle_armed;   // its timer is armed for no later than `due`
    bool has_left;     // a copy of `applied` was sent to another unit

    bool is_own() const {
      return copy == Copy::kCurrent || copy == Copy::kHandedOver;
    }
  };
  static_assert(sizeof(Record) == 64);

  // What becomes of a packet that was run. One number, so that it stays in a
  // register on its way.
  class Outcome {
   public:
    using Kind = UnitCommand::Kind;
    explicit Outcome(Kind kind, DropReason reason = {}, uint8_t nf_reason = 0)
        : word_(uint32_t{static_cast<uint8_t>(kind)} |
                uint32_t{static_cast<uint8_t>(reason)} << 8 |
                uint32_t{nf_reason} << 16) {}
    Kind kind() const { return static_cast<Kind>(word_ & 0xff); }
    DropReason reason() const {
      return static_cast<DropReason>(word_ >> 8 & 0xff);
    }
    uint8_t nf_reason() const { return static_cast<uint8_t>(word_ >> 16); }

   private:
    uint32_t word_;
  };
  // More of a packet that waits for its alias, or has waited for pieces; by
  // node.
  struct WaitingPacket {
    Alias alias;
    UnitCommand::Kind kind;                      // what becomes of it
    uint8_t nf_reason;                           // "
    uint16_t pool;                               // that it waits for
    std::array<uint16_t, kMaxRefusals> refused;  // pools, then kNoPool
    uint8_t in_vain;  // runs with pieces there, but none of use

    bool IsRefused(uint16_t by) const {
      return std::ranges::find(refused, by) != refused.end();
    }
    void Refuse() {
      *std::ranges::find(refused, kNoPool) = pool;
      in_vain = 0;
    }
  };

  // Records.
  uint32_t Find(FlowId flow) const {
    return index_.Find(flow,
                       [&](uint32_t slot) { return records_[slot].flow; });
  }
  uint32_t FindOrAdd(FlowId flow) {
    const uint32_t slot = Find(flow);
    return slot != FlowIndex::kNotFound ? slot : Add(flow);
  }
  [[gnu::noinline]] uint32_t Add(FlowId flow);
  void ForgetIfEmpty(uint32_t slot);
  void ForgetAll();
  void SetCopy(uint32_t slot, Copy copy);
  void DropCopy(uint32_t slot);
  bool InService(uint32_t slot) const {
    return busy() && slot == in_service_slot_;
  }
  // The clock after `applied` is run here, or about to be, or `applied` is not
  // released: nothing may happen to the flow's state from outside.
  bool IsEngaged(uint32_t slot) const {
    const Record& record = records_[slot];
    return record.resumed || record.parked != kNone || InService(slot);
  }
  std::span<std::byte> StateOf(uint32_t slot);
  std::span<const std::byte> StateOf(uint32_t slot) const;
  bool IsAnnounced(uint32_t slot) const {
    return max_set_ > 0 && announced_[slot] != 0;
  }
  UnitId* ReplicasOf(uint32_t slot) { return &sets_[size_t{slot} * max_set_]; }

  // Packets.
  void FindHotLines();
  void PrefetchAhead();
  static bool IsRunnable(const Record& record, const PacketMeta& meta);
  void TakeIntoService(Instant now, uint32_t slot, uint32_t node);
  void Hold(Instant now, uint32_t slot, uint32_t node, UnitOut& out);
  void DropDuplicate(uint32_t node, UnitOut& out);
  void Complete(Instant now, uint32_t slot, Outcome outcome, uint32_t node,
                NfContext env, UnitOut& out);
  bool AwaitPieces(uint32_t slot, uint32_t node, uint16_t pool, UnitOut& out);
  void Wake(uint16_t pool);
  void Resume(uint32_t node);

  // The NF (unit_nf.cc).
  class NfServices;
  Outcome RunNf(Instant now, NfContext env, uint32_t slot, uint32_t node,
                UnitOut& out);
  void RunNfTimer(Instant now, NfContext env, uint32_t slot, UnitOut& out);
  void RunNfEnd(Instant now, NfContext env, uint32_t slot, UnitOut& out);
  void RunNfRefused(Instant now, NfContext env, uint32_t slot, uint32_t node,
                    AliasResult why, UnitOut& out);

  // State. AfterChange does what may follow from a new state: the next held
  // packet, a pull of it, an answer to somebody else's pull. What ends the flow
  // comes before: what is over gives no answer.
  void AfterChange(Instant now, uint32_t slot, UnitOut& out);
  void ResumeOrPull(Instant now, uint32_t slot, UnitOut& out);
  void AnswerPulls(uint32_t slot, UnitOut& out);
  void EndIfOver(Instant now, uint32_t slot, const NfContext* env,
                 UnitOut& out);
  State StateMessage(uint32_t slot) const;
  void TellTakeover(Instant now, uint32_t slot, const PacketMeta& meta,
                    UnitOut& out);
  bool IsSound(const State& state, std::span<const std::byte> record) const;
  // kCount: it is to be taken.
  StateRefusal Judge(const State& state,
                     std::span<const std::byte> record) const;
  void Refuse(StateRefusal refusal) {
    ++counters_.refused[static_cast<size_t>(refusal)];
  }

  // Timers.
  void PushState(uint32_t slot, UnitOut& out);
  void RepeatPending(Instant now, uint32_t slot, UnitOut& out);
  // Until the next repetition but one; counts this one.
  Nanos NextDelay(uint8_t& tries) const;
  void ArmTimer(uint32_t slot);
  void PushStoppedIfDone(UnitOut& out);

  // The link to the pending thing, or to the end of the list.
  uint32_t* LinkOf(uint32_t slot, Pending::Kind kind, UnitId peer);
  uint32_t* LinkOfPull(uint32_t slot, const Pull& pull);
  size_t PullsOf(uint32_t slot) const;  // that wait
  void AddPending(uint32_t slot, const Pending& pending);
  void ErasePending(uint32_t* link);

  UnitId id_;
  const StateSchema* schema_;
  uint32_t max_set_;  // K
  uint32_t hold_packets_;
  uint32_t max_replicas_;
  Nanos push_after_;
  Nanos replica_lifetime_;
  Nanos retry_after_;

  uint32_t in_service_ = kNone;
  uint32_t in_service_slot_ = kNone;  // of its record
  Nanos in_service_wait_ = kNeverHeld;
  uint32_t held_ = 0;
  uint32_t held_payloads_ = 0;
  uint32_t replicas_ = 0;    // copies of that kind
  uint32_t own_copies_ = 0;  // of the others
  uint32_t pulls_waiting_ = 0;
  uint32_t takeovers_waiting_ = 0;
  uint32_t max_waiting_;  // Pulls
  uint32_t max_tooks_;
  bool stopping_ = false;
  bool stopped_ = false;

  PacketNodes nodes_;
  PacketList inbox_;    // as they came
  PacketList resumed_;  // held before, can run now; go first
  // Of inbox_ the first whose flow is not prefetched, and how many are before.
  uint32_t ahead_ = kNone;
  uint32_t prefetched_ = 0;
  LazyArray<WaitingPacket> waiting_packets_;

  LazyArray<Pending> pending_;
  uint32_t pending_used_ = 0;
  uint32_t free_pending_ = kNone;

  FlowIndex index_;
  LazyArray<Record> records_;
  LazyArray<UnitId> sets_;  // K for each record
  // For each record 1 + the newest flowlet whose first packet is to come, of
  // those whose set has come; 0: none is.
  LazyArray<uint32_t> announced_;
  uint32_t state_words_;
  LazyArray<uint64_t> states_;  // so many for each record
  // The cache lines of a state that are prefetched, by their first bytes.
  std::array<uint16_t, kPrefetchLines> hot_lines_{};
  size_t hot_line_count_ = 0;
  uint32_t records_used_ = 0;
  uint32_t free_record_ = kNone;
  uint32_t oldest_replica_ = kNone;
  uint32_t newest_replica_ = kNone;
  TimingWheel timers_;  // by record

  UnitPieces pieces_;
  UnitCounters counters_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_H_
