// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/unit_packets.h"

namespace snf {
namespace {

// The node stays as a tombstone.
void DropPayload(PacketNode& node, DropReason reason, UnitOut& out) {
  UnitCommand drop = UnitCommand::OfPacket(UnitCommand::Kind::kDropPayload,
                                           node.packet, node.meta);
  drop.reason = reason;
  out.push(drop);
  node.packet = kNoPacket;
  node.meta.flags |= PacketMeta::kTombstone;
}

// A packet without payload cannot be dropped, only applied.
void Drop(const PacketNode& node, DropReason reason, UnitOut& out) {
  UnitCommand drop =
      UnitCommand::OfPacket(UnitCommand::Kind::kDrop, node.packet, node.meta);
  if (!node.meta.has_payload()) drop.kind = UnitCommand::Kind::kAdvance;
  drop.reason = reason;
  out.push(drop);
}

}  // namespace

void UnitPackets::DropDuplicate(uint32_t node, PacketNodes& nodes,
                                UnitOut& out) {
  Drop(nodes[node], DropReason::kDuplicateClock, out);
  nodes.Free(node);
}

bool UnitPackets::Hold(Instant now, uint32_t slot, uint32_t node,
                       FlowStore& flows, UnitOut& out) {
  PacketNodes& nodes = flows.packets();
  PacketList& held = flows[slot].held;
  PacketNode& n = nodes[node];
  const Clock clock = n.meta.clock;
  if (held.tail == kNone || nodes[held.tail].meta.clock < clock) {
    // The rule, since clocks of one flow come through the channel in order.
    nodes.Append(held, node);
  } else {
    uint32_t* link = &held.head;
    while (nodes[*link].meta.clock < clock) link = &nodes[*link].next;
    if (nodes[*link].meta.clock == clock) {
      DropDuplicate(node, nodes, out);
      return false;
    }
    n.next = *link;
    *link = node;
  }
  ++held_;
  if (n.held_since == Instant::max()) n.held_since = now;
  if (n.meta.has_payload() && held_payloads_ >= max_held_) {
    DropPayload(n, DropReason::kHoldOverflow, out);
  }
  held_payloads_ += n.meta.has_payload() ? 1 : 0;
  return true;
}

bool UnitPackets::DropHeldPayloads(uint32_t slot, DropReason reason,
                                   FlowStore& flows, UnitOut& out) {
  PacketNodes& nodes = flows.packets();
  for (uint32_t i = flows[slot].held.head; i != kNone; i = nodes[i].next) {
    if (!nodes[i].meta.has_payload()) continue;
    if (out.room() == 0) return true;
    DropPayload(nodes[i], reason, out);
    --held_payloads_;
  }
  return false;
}

uint32_t UnitPackets::Find(FlowId flow, Clock clock,
                           const FlowStore& flows) const {
  const PacketNodes& nodes = flows.packets();
  const auto find_in = [&](const PacketList& list) {
    uint32_t node = list.head;
    while (node != kNone &&
           (nodes[node].meta.flow != flow || nodes[node].meta.clock != clock)) {
      node = nodes[node].next;
    }
    return node;
  };
  const uint32_t slot = flows.Find(flow);
  uint32_t node = slot == kNone ? kNone : find_in(flows[slot].held);
  if (node == kNone) node = find_in(inbox_);
  if (node == kNone) node = find_in(flows.resumed());
  return node;
}

bool UnitPackets::DropAllOf(FlowId flow, PacketList& list, PacketNodes& nodes,
                            UnitOut& out) {
  PacketList others;
  bool has_room = true;
  for (uint32_t node = nodes.PopFront(list); node != kNone;
       node = nodes.PopFront(list)) {
    const PacketNode& n = nodes[node];
    has_room = has_room && out.room() > kMaxUnitCommandsPerCall;
    if (n.meta.flow != flow || !has_room) {
      nodes.Append(others, node);
      continue;
    }
    Drop(n, DropReason::kUnitFailed, out);
    if (n.held_since != Instant::max()) Uncount(n);
    nodes.Free(node);
  }
  list = others;
  return has_room;
}

bool UnitPackets::DropFromInbox(FlowId flow, FlowStore& flows, UnitOut& out) {
  const bool is_done = DropAllOf(flow, inbox_, flows.packets(), out);
  ahead_ = inbox_.head;
  prefetched_ = 0;
  return is_done;
}

bool UnitPackets::DropHeld(uint32_t slot, FlowStore& flows, UnitOut& out) {
  FlowRecord& record = flows[slot];
  return DropAllOf(record.flow, record.held, flows.packets(), out);
}

}  // namespace snf
