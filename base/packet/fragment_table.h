// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_PACKET_FRAGMENT_TABLE_H_
#define SNF_BASE_PACKET_FRAGMENT_TABLE_H_

#include <cstdint>

#include "base/lazy_array.h"
#include "base/packet/flow_key.h"
#include "base/packet/unread.h"
#include "base/slot_index.h"
#include "base/time.h"

namespace snf {

inline constexpr uint32_t kMaxFragmentTableCapacity = 1 << 20;

// Theory of operation. Of a fragmented packet only the first fragment has the
// ports. The table remembers, for each packet whose first fragment was seen,
// the flow it belongs to. Entries stand in a ring in order of arrival, so the
// oldest is always at hand: it makes room when the ring is full, and time-outs
// cost nothing while they are not due.
//
// Example: the fragment {10.0.0.1 → 10.0.0.2, UDP, id 7, offset 0} has the
// ports 5000 and 53 and is inserted at 0 s. {…, id 7, offset 1480} finds the
// flow at 29 s, and at 31 s does not.
//
// A value; owner-thread only; deterministic. Cost: one hash and one or two
// cache lines a call; no allocation after construction.
class FragmentTable {
 public:
  struct Options {
    // The number of fragmented packets that are remembered at a time, 1 …
    // kMaxFragmentTableCapacity. Each costs 107 bytes once used.
    uint32_t capacity = 4096;
    // The time after its first fragment within which a packet's other fragments
    // may come. RFC 791 §3.2 suggests 15 s and RFC 8200 §4.5 says 60 s; Linux
    // takes 30 s.
    Nanos timeout = Seconds(30);
    // Seeds the hash, and should be secret (keyed_hash.h); does not change
    // results.
    uint64_t hash_seed = 0;
  };
  // A flow, and the direction of the packet: it is reverse if the packet goes
  // from the key's second end to its first.
  struct Flow {
    FlowKey key;
    bool is_reverse = false;
    Unread unread = Unread::kNothing;  // in the first fragment
    // The part of an IPv4 packet that the first fragment had; else 0.
    uint16_t first_bytes = 0;
  };

  explicit FragmentTable(const Options& options);

  // Remembers the flow of the packet whose FragmentKey is `fragment`. A key
  // that is already in the table gets the new flow and time and keeps its place
  // in the ring.
  void Insert(Instant now, const FlowKey& fragment, const Flow& flow);

  // Returns the packet's flow, or null if its first fragment was not seen, came
  // too long ago, or had to make room for others. The pointer is valid until
  // the next Insert.
  const Flow* Find(Instant now, const FlowKey& fragment) const;

  uint32_t size() const { return size_; }
  // Number of entries that were replaced by newer ones before they timed out.
  uint64_t evicted() const { return evicted_; }

 private:
  struct Entry {
    FlowKey fragment;
    Flow flow;
    Instant since;
  };

  bool HasTimedOut(Instant now, const Entry& entry) const {
    return now - entry.since > options_.timeout;
  }
  uint32_t SlotOf(const FlowKey& fragment) const;
  void DropOldest();

  Options options_;
  FlowKeyHash hash_;
  LazyArray<Entry> ring_;
  SlotIndex index_;
  uint32_t oldest_ = 0;
  uint32_t size_ = 0;
  uint64_t evicted_ = 0;
};

}  // namespace snf

#endif  // SNF_BASE_PACKET_FRAGMENT_TABLE_H_
