// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_H_
#define SNF_RUNTIME_CORE_UNIT_H_

#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages.h"
#include "base/slot_index.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "runtime/core/unit_commands.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/sdk/nf.h"

namespace snf {

struct UnitOptions {
  uint32_t max_flows = 1 << 20;   // flows it may keep at one time
  uint32_t queue_packets = 1024;  // slots of its channel: packets not finished
  // Slots of all other units' channels. Each may hold the last packet of a flow
  // that is over for the controller and whose state is still here, so that this
  // unit keeps as many flows above max_flows. Costs nothing until it happens.
  uint32_t packets_elsewhere = 65'536;
};

// Theory of operation. A compute unit runs one NF, packet by packet, on the
// state of its flows (SNF §5). A flow is at one unit at a time: a packet is run
// if and only if its clock is the one after the last clock that this unit's
// copy of the flow has seen, or it is the first of a new flow (protocol.md U1).
// Else it is held, and the lowest held packet of the flow, being the first of
// its flowlet, pulls the state from the unit that its metadata names (U2). The
// unit that is asked answers when it has applied the clock before (U5), and
// with the answer gives the flow away.
//
// Worked example: clocks 1, 2 of a flow are queued at unit A when the
// controller sends clock 3 to unit B with source A. B holds 3 and sends
// Pull(need 2) to A. A runs 1 and 2, answers State(applied 2) and forgets the
// flow; B runs 3. Had the controller already sent clock 4 back to A, A would
// hold it and pull from B with need 3.
//
// Packets in the unit, queued or held, keep their channel slots, so the
// controller's credits bound all queues in here: a packet handed over always
// fits.
//
// The driver serves a unit like this, whatever its clock is (decisions.md 5):
//     on_packet …                       as packets come in
//     while begin() == kService:        a packet can run; it takes its time
//       finish()                        at the end of which its effects happen
//
// A value; owner-thread only; nothing is allocated after construction. Memory:
// ≤ 128 bytes a flow it keeps.
class Unit {
 public:
  // What a unit works on but does not own; the same for all calls.
  struct Environment {
    NetworkFunction& nf;
    BufferPool& pool;
  };
  enum class Next : uint8_t {
    kIdle,     // nothing can run until something comes in
    kService,  // a packet is in service: call finish() at the end of it
    kAgain,    // `out` might overflow: empty it and call again
  };

  Unit(UnitId id, const UnitOptions& options);

  UnitId id() const { return id_; }

  // A packet came through the channel. It must hold a slot.
  void on_packet(PacketHandle packet, const PacketMeta& meta);

  // Picks the next packet that can run; those that cannot are held.
  Next begin(UnitOut& out);
  // Of the packet in service.
  const PacketMeta& in_service() const { return nodes_[in_service_].meta; }
  // Runs the NF on the packet in service; `out` must be empty. Pushes what
  // becomes of the packet, and what follows from the flow's new clock.
  void finish(Instant now, Environment env, UnitOut& out);

  void on_pull(const Pull& pull, UnitOut& out);
  // A state that no held packet waits for is ignored (U4).
  void on_state(const State& state, UnitOut& out);
  void on_end_flow(const EndFlow& end, UnitOut& out);

  // The controller wants the unit gone: kStopped follows as soon as it keeps
  // nothing. It serves its packets and answers pulls until then.
  void on_stop(UnitOut& out);

  // When on_timers wants to be called; Instant::max() for never.
  Instant next_wakeup() const { return timers_.next_wakeup(); }
  // Runs timers of the NF that are due, as many as `out` has room for.
  void on_timers(Instant now, Environment env, UnitOut& out);

  uint32_t flows() const { return index_.size(); }
  uint32_t held_packets() const { return held_; }
  bool busy() const { return in_service_ != kNone; }

 private:
  static constexpr uint32_t kNone = 0xffff'ffff;

  // A packet inside the unit; in one list at a time.
  struct Node {
    PacketMeta meta;
    PacketHandle packet;
    uint32_t next;
  };
  static_assert(sizeof(Node) == 56);
  struct List {
    uint32_t head = kNone;
    uint32_t tail = kNone;
  };
  struct PendingPull {
    Pull pull;
    uint32_t next;
  };
  struct Record {
    FlowId flow;
    Clock applied;      // of the copy, or of the last one that was here
    Clock last;         // forget the flow once applied; 0 = it is not over
    Clock pulled_need;  // of the last Pull sent
    Instant timer;      // the NF's, Instant::max() for none
    List held;          // in clock order
    uint32_t pulls;     // unanswered, a list through PendingPull::next
    bool has_state;
    LinkType link;  // of its last packet: how emitted packets are framed
  };

  uint32_t Find(FlowId flow) const;
  uint32_t FindOrAdd(FlowId flow);
  void ForgetIfEmpty(uint32_t slot);
  void Hold(uint32_t slot, uint32_t node, UnitOut& out);
  void DropDuplicate(uint32_t node, UnitOut& out);
  // What may follow from a new state: the next held packet, a pull of it, an
  // answer to somebody else's, the flow's end.
  void AfterChange(uint32_t slot, UnitOut& out);
  void PushStoppedIfDone(UnitOut& out);

  void Append(List& list, uint32_t node);
  uint32_t PopFront(List& list);
  void FreeNode(uint32_t node);

  UnitId id_;
  uint32_t in_service_ = kNone;
  uint32_t in_service_slot_ = kNone;  // of its record
  uint32_t held_ = 0;
  uint32_t packets_ = 0;  // in nodes
  bool stopping_ = false;

  List inbox_;    // as they came
  List resumed_;  // held before, can run now; go first
  LazyArray<Node> nodes_;
  uint32_t nodes_used_ = 0;
  uint32_t free_node_ = kNone;

  LazyArray<PendingPull> pulls_;
  uint32_t pulls_used_ = 0;
  uint32_t free_pull_ = kNone;

  SlotIndex index_;
  LazyArray<Record> records_;
  uint32_t records_used_ = 0;
  uint32_t free_record_ = kNone;  // through Record::pulls
  TimingWheel timers_;            // by record
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_H_
