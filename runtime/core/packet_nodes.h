// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_PACKET_NODES_H_
#define SNF_RUNTIME_CORE_PACKET_NODES_H_

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/time.h"

namespace snf {

// A node is a packet inside a unit; it is in one list at a time.
struct PacketNode {
  PacketMeta meta;
  PacketHandle packet;
  uint32_t next;
  Instant held_since;  // is Instant::max() if it was never held
};
static_assert(sizeof(PacketNode) == 64);

// A list has packets in order, by the numbers of their nodes.
struct PacketList {
  static constexpr uint32_t kNone = 0xffff'ffff;
  uint32_t head = kNone;
  uint32_t tail = kNone;
};

// PacketNodes keeps the packets inside a unit, and has the operations on lists
// of them. A value; owner-thread only; nothing is allocated after construction.
class PacketNodes {
 public:
  static constexpr uint32_t kNone = PacketList::kNone;

  explicit PacketNodes(size_t max) : nodes_(max) {}

  uint32_t used() const { return used_; }
  bool has_room() const { return used_ < nodes_.size(); }
  PacketNode& operator[](uint32_t node) { return nodes_[node]; }
  const PacketNode& operator[](uint32_t node) const { return nodes_[node]; }

  // Returns the node of a new packet, in no list yet. There must be room.
  uint32_t Add(PacketHandle packet, const PacketMeta& meta) {
    uint32_t node = free_;
    if (node != kNone) {
      free_ = nodes_[node].next;
    } else {
      SNF_CHECK(touched_ < nodes_.size());
      node = touched_++;
    }
    nodes_[node] = {.meta = meta,
                    .packet = packet,
                    .next = kNone,
                    .held_since = Instant::max()};
    ++used_;
    return node;
  }
  void Free(uint32_t node) {
    nodes_[node].next = free_;
    free_ = node;
    --used_;
  }

  void Append(PacketList& list, uint32_t node) {
    nodes_[node].next = kNone;
    (list.tail == kNone ? list.head : nodes_[list.tail].next) = node;
    list.tail = node;
  }
  // Returns the node that was the first, or kNone.
  uint32_t PopFront(PacketList& list) {
    const uint32_t node = list.head;
    if (node == kNone) return kNone;
    list.head = nodes_[node].next;
    if (list.head == kNone) list.tail = kNone;
    return node;
  }

 private:
  LazyArray<PacketNode> nodes_;
  uint32_t used_ = 0;
  uint32_t touched_ = 0;  // counts the nodes that ever were in use
  uint32_t free_ = kNone;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_PACKET_NODES_H_
