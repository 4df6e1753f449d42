// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_CORE_FLOW_STORE_H_
#define SNF_RUNTIME_CORE_FLOW_STORE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/timing_wheel.h"
#include "runtime/core/flow_index.h"
#include "runtime/core/flow_record.h"
#include "runtime/core/packet_nodes.h"
#include "runtime/core/pending_lists.h"
#include "runtime/core/unit_limits.h"
#include "runtime/core/unit_options.h"
#include "runtime/sdk/state_schema.h"

namespace snf {

// Theory of operation. The store keeps what a unit knows of its flows; what
// that means, and when it changes, is up to the parts of the unit that work on
// it (unit.h). A flow has a record, found by its id and from then on named by
// its slot; the memory of its state; the units that its state is to be pushed
// to; a timer; a list of the answers that it waits for; and packets that are
// held for it. A record lives as long as anything is kept of its flow: a copy
// of its state, packets, something pending, or units named ahead of a flowlet.
//
// Copies of others, the replicas, are in a list in the order in which they
// came, so that the oldest can be evicted.
//
// Worked example: a State comes of flow 7, which is unknown. FindOrAdd(7) gives
// slot 0; its bytes go to state(0), and SetCopy(0, kReplica) makes flow 7 the
// newest replica. Once it is evicted, DropCopy(0) and ForgetIfEmpty(0) free
// slot 0 for another flow.
//
// With a logger, it counts each flow's entries that are not released.
//
// A value; owner-thread only; nothing is allocated after construction. Memory:
// at most 136 bytes a flow that is kept, and the flow's state, in whole cache
// lines or, where it is less than one, a power of two.
class FlowStore {
 public:
  static constexpr uint32_t kNone = PacketNodes::kNone;
  static_assert(kNone == FlowIndex::kNotFound && kNone == PendingLists::kNone);

  // The schema must outlive the store and its copies.
  FlowStore(const UnitOptions& options, const StateSchema& schema);

  // --- Records. ---
  uint32_t size() const { return index_.size(); }
  // Returns the slot of the flow's record, or kNone.
  uint32_t Find(FlowId flow) const {
    return index_.Find(flow,
                       [&](uint32_t slot) { return records_[slot].flow; });
  }
  uint32_t FindOrAdd(FlowId flow) {
    const uint32_t slot = Find(flow);
    return slot != kNone ? slot : Add(flow);
  }
  FlowRecord& operator[](uint32_t slot) { return records_[slot]; }
  const FlowRecord& operator[](uint32_t slot) const { return records_[slot]; }
  // All records, and free ones, have lower slots.
  uint32_t slots() const { return records_used_; }
  // Frees the record if nothing is kept of its flow.
  void ForgetIfEmpty(uint32_t slot);
  // Forgets all flows; none may have packets.
  void ForgetAll();

  // Brings the index entry of a flow into the cache, then the record and the
  // state, so that FindOrAdd finds them there.
  void PrefetchIndex(FlowId flow) const { index_.Prefetch(flow); }
  // Is always inlined: GCC drops calls of functions that only prefetch, which
  // it takes for functions without effects.
  [[gnu::always_inline]] void PrefetchRecord(FlowId flow) const {
    const uint32_t slot = index_.Guess(flow);
    if (slot == kNone) return;
    __builtin_prefetch(&records_[slot], 1);
    const std::byte* const bytes = state(slot).data();
    for (const uint16_t line : std::span(hot_lines_).first(hot_line_count_)) {
      __builtin_prefetch(bytes + line, 1);
    }
  }

  // --- Copies of state. ---
  // The bytes are valid until the store is moved or destroyed. Their content is
  // that of the copy; without a copy, it has no meaning.
  std::span<std::byte> state(uint32_t slot) {
    return std::as_writable_bytes(std::span(StateWords(slot), used_words_));
  }
  std::span<const std::byte> state(uint32_t slot) const {
    return std::as_bytes(std::span(StateWords(slot), used_words_));
  }
  void SetCopy(uint32_t slot, CopyKind copy);
  // Forgets that a timer packet was asked for: the clock has moved on, or the
  // timer is not this unit's any more.
  void ForgetTimerRequest(uint32_t slot);
  // Leaves the flow without a copy, a clock and a timer.
  void DropCopy(uint32_t slot);
  uint32_t replicas() const { return replicas_; }
  uint32_t own_copies() const { return own_copies_; }
  // Returns the slot of the replica that came first, or kNone.
  uint32_t oldest_replica() const { return oldest_replica_; }

  // --- Entries at the logger, where there is one. ---
  // The record is kept until they are released.
  bool is_unreleased(uint32_t slot) const {
    return has_logger_ && logged_[slot].entries > 0;
  }
  // Counts the flow's entries that are not released, twice; odd if the next one
  // need not be whole.
  uint64_t entries(uint32_t slot) const {
    if (!has_logger_) return 0;
    return uint64_t{logged_[slot].entries} << 1 | logged_[slot].has_base;
  }
  // The logger has the state that the flow's next entry builds on.
  bool has_base(uint32_t slot) const {
    return has_logger_ && logged_[slot].has_base != 0;
  }
  // Counts the entries of all flows that are not released.
  uint32_t unreleased() const { return unreleased_; }
  // Counts an entry. Returns true if it has to be whole: the state came from
  // elsewhere since the flow's last one (proto/protocol.md L1).
  bool AddEntry(uint32_t slot);
  // A push of a flow waits until the flow's entries are released.
  void NoteMissedPush() { has_missed_push_ = true; }
  // Returns true if there may be such a push.
  bool has_missed_push() const { return has_missed_push_; }
  void ReleaseEntry(uint32_t slot) {
    --logged_[slot].entries;
    if (--unreleased_ == 0) has_missed_push_ = false;
  }
  // The flow's next entry is to be whole.
  void MakeWhole(uint32_t slot) {
    if (has_logger_) logged_[slot].has_base = false;
  }

  // --- Units that the state is to be pushed to. ---
  // The record is kept from now on, until the first packet of the flowlet, or
  // of a later one, has come, or the flow is over. Units named after that
  // packet has come are accepted; units of an earlier flowlet are not.
  void SetTargets(const ReplicaSet& replicas);
  void on_first_of_flowlet(uint32_t slot, uint32_t flowlet) {
    if (max_set_ == 0) return;
    Flowlets& flowlets = flowlets_[slot];
    flowlets.begun = std::max(flowlets.begun, flowlet + 1);
    if (flowlets.announced <= flowlets.begun) flowlets.announced = 0;
  }
  // No packet of the flow comes any more.
  void on_over(uint32_t slot) {
    if (max_set_ > 0) flowlets_[slot].announced = 0;
  }
  std::span<const UnitId> targets(uint32_t slot) const {
    return {&sets_[size_t{slot} * max_set_], records_[slot].replicas};
  }
  // Returns 1 + the newest flowlet whose first packet is still to come, among
  // those for which units were named; 0 if there is none.
  uint32_t announced(uint32_t slot) const {
    return max_set_ > 0 ? flowlets_[slot].announced : 0;
  }
  // Returns 1 + the newest flowlet whose first packet has come; 0 if none has.
  uint32_t begun(uint32_t slot) const {
    return max_set_ > 0 ? flowlets_[slot].begun : 0;
  }

  // --- What belongs to flows. ---
  TimingWheel& timers() { return timers_; }  // by slot
  const TimingWheel& timers() const { return timers_; }
  PendingLists& pending() { return pending_; }
  const PendingLists& pending() const { return pending_; }
  PacketNodes& packets() { return packets_; }
  const PacketNodes& packets() const { return packets_; }

  // Packets that were held and can run now. Their flows' records are engaged.
  PacketList& resumed() { return resumed_; }
  const PacketList& resumed() const { return resumed_; }

 private:
  [[gnu::noinline]] uint32_t Add(FlowId flow);
  void FindHotLines(const StateSchema& schema);
  uint64_t* StateWords(uint32_t slot) {
    return states_.data() + size_t{state_words_} * slot;
  }
  const uint64_t* StateWords(uint32_t slot) const {
    return states_.data() + size_t{state_words_} * slot;
  }

  uint32_t max_set_;  // bounds the units that a flow's state is pushed to
  uint32_t replicas_ = 0;
  uint32_t own_copies_ = 0;

  PacketNodes packets_;
  PacketList resumed_;
  PendingLists pending_;

  FlowIndex index_;
  LazyArray<FlowRecord> records_;
  LazyArray<UnitId> sets_;  // has max_set_ for each record
  // Has one for each record, if max_set_ > 0. Each number is 1 + a flowlet's.
  struct Flowlets {
    uint32_t announced;  // see announced()
    uint32_t begun;      // is the newest whose first packet has come
  };
  LazyArray<Flowlets> flowlets_;
  // Has one for each record, with a logger; FlowRecord has no room.
  struct Logged {
    uint32_t entries;   // are not released
    uint32_t has_base;  // the logger has the state that the next one builds on
  };
  bool has_logger_;
  uint32_t unreleased_ = 0;
  bool has_missed_push_ = false;
  LazyArray<Logged> logged_;
  uint32_t used_words_;   // of a state
  uint32_t state_words_;  // from one state to the next
  LazyArray<uint64_t> states_;
  // The cache lines of a state that are prefetched, by their first bytes.
  std::array<uint16_t, kPrefetchLines> hot_lines_{};
  size_t hot_line_count_ = 0;
  uint32_t records_used_ = 0;
  uint32_t free_record_ = kNone;
  uint32_t oldest_replica_ = kNone;
  uint32_t newest_replica_ = kNone;
  TimingWheel timers_;
};

}  // namespace snf

#endif  // SNF_RUNTIME_CORE_FLOW_STORE_H_
