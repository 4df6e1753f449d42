// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_FLOW_RECORD_H_
#define SNF_RUNTIME_CORE_FLOW_RECORD_H_

#include <cstdint>

#include "base/ids.h"
#include "base/messages/messages.h"
#include "base/packet/packet_info.h"
#include "base/time.h"
#include "runtime/core/packet_nodes.h"

namespace snf {

// The kinds of copies of a flow's state that a unit keeps.
enum class CopyKind : uint8_t {
  kNone,
  kCurrent,     // the flow was processed here last, or is about to be
  kHandedOver,  // it answered a Pull, and is kept until the Takeover
  kReplica,     // it was pushed here: a cache, which may be evicted
};

// A unit's record of one flow, without its state, in one cache line. The parts
// of a unit (unit.h) share it.
struct FlowRecord {
  FlowId flow;       // is kNoFlow if the record is free
  Clock applied;     // is the copy's clock, 0 without a copy
  Instant timer;     // is when the NF's timer runs out, or Instant::max()
  Instant due;       // is when a kCurrent is pushed, or a kReplica expires
  PacketList held;   // lists the packets that wait for state, in clock order
  uint32_t pending;  // heads the list in PendingLists
  uint32_t older;    // links the replicas; in a free record, the free ones
  uint32_t newer;    // links the replicas
  uint32_t parked;   // is the packet of `applied`, until its alias is granted
  CopyKind copy;
  LinkType link;     // of the last packet, says how emitted packets are framed
  uint8_t replicas;  // counts the units that the state is pushed to
  bool engaged;      // means that a packet of it is in service, is about to be,
                     // or waits for pieces
  bool waited;       // means that this packet has waited for pieces
  bool idle_armed;   // means that its timer is armed for no later than `due`
  bool ran_here;     // means that the packet of `applied` ran here
  bool has_left;     // means that a copy of `applied` was sent to another unit

  // The copy is more than a cache: packets may name this unit as its source.
  bool is_own() const {
    return copy == CopyKind::kCurrent || copy == CopyKind::kHandedOver;
  }
  // Nothing may happen to the state from outside: the clock after `applied` is
  // run here, or about to be, or `applied` is not released.
  bool is_busy() const { return engaged || parked != PacketList::kNone; }
};
static_assert(sizeof(FlowRecord) == 64);

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_FLOW_RECORD_H_
