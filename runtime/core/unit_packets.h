// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_UNIT_PACKETS_H_
#define SNF_RUNTIME_CORE_UNIT_PACKETS_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/messages/unit_commands.h"
#include "base/time.h"
#include "runtime/core/flow_store.h"
#include "runtime/core/packet_nodes.h"
#include "runtime/core/unit_limits.h"

namespace snf {

// Theory of operation. The packets in a unit that have not run, and in which
// order they stand: the inbox, as they came through the channel, and a list for
// each flow of packets that are held for state, by their clocks. Packets of the
// inbox are a few ahead of their turn when their flows' records are prefetched.
//
//   Add ─► inbox ─TakeNext─► runs, is a duplicate, or
//                            Hold ─► held ─TakeHeld─► FlowStore::resumed()
//
// A packet above the limit of held payloads is dropped, but its clock stays, as
// a tombstone: the flow's next clock needs it.
//
// Worked example: clocks 3 and 5 of a flow come, and then 4. All are held, as
// 3, 4, 5. With a limit of two payloads, clock 4 is a tombstone.
//
// The store keeps the packets themselves, and comes with each call. A value;
// owner-thread only; nothing is allocated.
class UnitPackets {
 public:
  static constexpr uint32_t kNone = PacketNodes::kNone;

  // At most `max_held` packets with payload are held.
  explicit UnitPackets(uint32_t max_held) : max_held_(max_held) {}

  // --- The inbox. ---
  // The store must have room for a packet.
  void Add(PacketHandle packet, const PacketMeta& meta, FlowStore& flows) {
    const uint32_t node = flows.packets().Add(packet, meta);
    flows.packets().Append(inbox_, node);
    if (ahead_ == kNone) ahead_ = node;
    flows.PrefetchIndex(meta.flow);
  }
  // Takes the first packet out of the inbox; returns kNone if there is none.
  uint32_t TakeNext(FlowStore& flows) {
    PrefetchAhead(flows);
    return flows.packets().PopFront(inbox_);
  }
  const PacketList& inbox() const { return inbox_; }

  // --- Held packets. ---
  uint32_t held() const { return held_; }
  // Holds the packet for its flow. Returns false if a packet of its clock is
  // held already: then it is dropped as a duplicate.
  bool Hold(Instant now, uint32_t slot, uint32_t node, FlowStore& flows,
            UnitOut& out);
  // Takes the first of the flow's held packets, of which there are some.
  uint32_t TakeHeld(uint32_t slot, FlowStore& flows) {
    PacketNodes& nodes = flows.packets();
    const uint32_t node = nodes.PopFront(flows[slot].held);
    Uncount(nodes[node]);
    return node;
  }
  // Makes tombstones of the flow's held packets, as many as `out` has room for.
  // Returns true if there are more.
  bool DropHeldPayloads(uint32_t slot, DropReason reason, FlowStore& flows,
                        UnitOut& out);

  // --- All of them. ---
  // Returns the packet of that clock, if it is here and has not run, or kNone.
  uint32_t Find(FlowId flow, Clock clock, const FlowStore& flows) const;
  // Drop the flow's packets in the inbox, or held ones, for kUnitFailed.
  // Return false if `out` has no room for more.
  bool DropFromInbox(FlowId flow, FlowStore& flows, UnitOut& out);
  bool DropHeld(uint32_t slot, FlowStore& flows, UnitOut& out);
  // Drops a packet of a clock that has run, or is held already.
  static void DropDuplicate(uint32_t node, PacketNodes& nodes, UnitOut& out);

 private:
  // Brings in the records that the next packets need; the first packet is about
  // to be taken.
  void PrefetchAhead(const FlowStore& flows) {
    for (; prefetched_ <= kPrefetchPackets && ahead_ != kNone; ++prefetched_) {
      const PacketNode& node = flows.packets()[ahead_];
      ahead_ = node.next;
      flows.PrefetchRecord(node.meta.flow);
    }
    if (prefetched_ > 0) --prefetched_;
  }
  void Uncount(const PacketNode& node) {
    --held_;
    held_payloads_ -= node.meta.has_payload() ? 1 : 0;
  }
  bool DropAllOf(FlowId flow, PacketList& list, PacketNodes& nodes,
                 UnitOut& out);

  PacketList inbox_;
  // The first packet of inbox_ whose flow is not prefetched, and the number of
  // packets before it.
  uint32_t ahead_ = kNone;
  uint32_t prefetched_ = 0;
  uint32_t held_ = 0;
  uint32_t held_payloads_ = 0;
  uint32_t max_held_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_UNIT_PACKETS_H_
