// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_FLOW_TABLE_H_
#define SNF_CONTROLLER_CORE_FLOW_TABLE_H_

#include <array>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/slot_index.h"
#include "base/time.h"

namespace snf {

// Says whether the state of a flowlet that moves ought to be at its new unit,
// or why not (ControllerCounters).
enum class MoveCause : uint8_t { kState, kNoReplica, kElsewhere, kTooSoon };

// The part of a flow that every packet reads and writes: one cache line.
struct alignas(64) FlowHot {
  FlowKey key;
  Instant last_packet;
  Clock clock{};           // of the newest packet enqueued
  uint32_t flowlet_bytes;  // sum of original lengths in this flowlet
  UnitId unit{};           // of this flowlet's packets
  uint16_t flags;

  static constexpr uint16_t kOpen = 1 << 0;  // its demand counts at `unit`
  // No packet of this flowlet has been enqueued yet: the next one is its first.
  static constexpr uint16_t kFirstPending = 1 << 1;
  // This flowlet has been measured: a late packet may have reopened it.
  static constexpr uint16_t kMeasured = 1 << 2;
  // The flow is over, and its key may be another's: only its end is awaited.
  static constexpr uint16_t kEnding = 1 << 3;
  // The NF has failed on the flow too often: it is given up (Failover).
  static constexpr uint16_t kCondemned = 1 << 4;
  // Another controller gave the flow's first clocks: no unit here has had them.
  static constexpr uint16_t kHanded = 1 << 7;
  // From this bit on, two bits: a MoveCause.
  static constexpr int kMoveShift = 5;
  // From this bit on: the kind of the flowlet (MoveChances).
  static constexpr int kKindShift = 8;
};
static_assert(sizeof(FlowHot) == 64);

// The numbers that every packet of a flow carries and that only flowlets
// change.
struct FlowNumbers {
  uint32_t flowlet;     // 1, 2, 3 …
  uint32_t generation;  // of the slot; 24 bits are used
};

// The part of a flow that only the begin and the end of a flowlet need.
struct FlowCold {
  Instant flowlet_first;  // arrival of the flowlet's first packet
  int64_t demand_bps;     // its estimate e_n
  UnitId owner{};         // of the newest clock; kNoUnit before the first
  std::array<UnitId, 3> replicas;  // the first three, see SetReplicas
};
static_assert(sizeof(FlowNumbers) + sizeof(FlowCold) == 32);

// The flows of one controller: a slot each, found by key. Slots do not move. A
// new flow gets the slot freed last, or else the lowest unused one, so flow ids
// are the same in every run. A slot takes 64 + 8 + 24 bytes, 2 for each replica
// above three, and at most 10.7 of index; unused slots cost no memory. A value;
// owner-thread only.
class FlowTable {
 public:
  static constexpr uint32_t kNone = SlotIndex::kNotFound;
  // Generations of a slot in an epoch. Two epochs share no generation.
  static constexpr uint32_t kPerEpoch = 1 << 16;

  // A flow has up to `replicas` replicas, at most kMaxReplicas.
  FlowTable(uint32_t max_flows, uint64_t hash_seed, uint32_t replicas)
      : hash_(hash_seed),
        replicas_(replicas),
        index_(max_flows, Pages::kLarge),
        hot_(max_flows, Pages::kGrowing),
        numbers_(max_flows, Pages::kGrowing),
        cold_(max_flows, Pages::kGrowing),
        more_replicas_(
            replicas > kInCold ? size_t{max_flows} * (replicas - kInCold) : 0) {
  }

  uint32_t size() const { return index_.size(); }
  uint64_t long_probes() const { return index_.long_probes(); }
  // Slots from this one on were never used. A slot below it may be free: then
  // it has no owner.
  uint32_t used() const { return used_; }
  FlowHot& hot(uint32_t slot) { return hot_[slot]; }
  FlowNumbers& numbers(uint32_t slot) { return numbers_[slot]; }
  FlowCold& cold(uint32_t slot) { return cold_[slot]; }
  const FlowHot& hot(uint32_t slot) const { return hot_[slot]; }
  const FlowNumbers& numbers(uint32_t slot) const { return numbers_[slot]; }
  const FlowCold& cold(uint32_t slot) const { return cold_[slot]; }

  // A batch is looked up in three passes: HashOf and PrefetchIndex; Guess and
  // Prefetch; Find. Guess returns the likely slot of a flow, or kNone.
  uint64_t HashOf(const FlowKey& key) const { return hash_(key); }
  void PrefetchIndex(uint64_t hash) const { index_.Prefetch(hash); }
  uint32_t Guess(uint64_t hash) const { return index_.Guess(hash); }
  void Prefetch(uint32_t slot) const {
    if (slot == kNone) return;
    __builtin_prefetch(&hot_[slot], 1);
    __builtin_prefetch(&numbers_[slot]);
  }

  // Returns the flow's slot, or kNone. A wrong `guess` costs only time.
  uint32_t Find(const FlowKey& key, uint64_t hash,
                uint32_t guess = kNone) const {
    if (guess != kNone && hot_[guess].key == key) [[likely]]
      return guess;
    return index_.Find(hash,
                       [&](uint32_t slot) { return hot_[slot].key == key; });
  }

  // Adds a flow that is not in the table and returns its slot, or kNone if the
  // table is full.
  uint32_t Insert(const FlowKey& key, uint64_t hash) {
    uint32_t slot = free_;
    if (slot != kNone) {
      free_ = numbers_[slot].flowlet;
    } else if (used_ < hot_.size()) {
      slot = used_++;
      numbers_[slot].generation = first_generation_;
    } else if (worn_ != kNone) {
      slot = worn_;
      worn_ = numbers_[slot].flowlet;
    } else {
      return kNone;
    }
    hot_[slot] = {};
    hot_[slot].key = key;
    numbers_[slot].flowlet = 0;
    cold_[slot] = {};
    cold_[slot].owner = kNoUnit;
    cold_[slot].replicas.fill(kNoUnit);
    index_.Insert(hash, slot);
    return slot;
  }

  // Slots that have not been used yet begin with the first generation of this
  // epoch. If others `follow` this one, a slot that has had kPerEpoch flows is
  // used again only once no other slot is free.
  void set_epoch(uint32_t epoch, bool follow) {
    first_generation_ = epoch * kPerEpoch & 0xff'ffff;
    wears_ = follow;
  }
  // Puts a flow of another table into `slot`, which is above all slots used so
  // far; slots in between are free. Its key is not found, as after Unlink,
  // until Link.
  void Restore(uint32_t slot, uint32_t generation) {
    while (used_ < slot) {
      numbers_[used_] = {.flowlet = free_, .generation = first_generation_};
      cold_[used_].owner = kNoUnit;
      free_ = used_++;
    }
    ++used_;
    hot_[slot] = {};
    numbers_[slot] = {.flowlet = 0, .generation = generation};
    cold_[slot] = {};
    cold_[slot].owner = kNoUnit;
    cold_[slot].replicas.fill(kNoUnit);
  }
  // The key, which no other flow may have, is that of the flow in the slot.
  void Link(uint32_t slot, const FlowKey& key) {
    hot_[slot].key = key;
    index_.Insert(HashOf(key), slot);
  }

  // The flow's key is found no more; the slot stays the flow's until Free.
  void Unlink(uint32_t slot) {
    index_.Erase(HashOf(hot_[slot].key), slot);
    hot_[slot].key = {};  // matches no flow, so an older guess is wrong
  }
  // Frees a slot. The next flow in it gets another flow id.
  void Free(uint32_t slot) {
    const uint32_t next = (numbers_[slot].generation + 1) & 0xff'ffff;
    const uint32_t of_next_epoch = (first_generation_ + kPerEpoch) & 0xff'ffff;
    uint32_t& list = wears_ && next == of_next_epoch ? worn_ : free_;
    numbers_[slot].generation = next;
    numbers_[slot].flowlet = list;
    cold_[slot].owner = kNoUnit;
    list = slot;
  }

  // Sets or reads the units to which the flow's state is pushed; a new flow has
  // none.
  void SetReplicas(uint32_t slot, std::span<const UnitId> units) {
    for (uint32_t i = 0; i < replicas_; ++i) {
      Replica(slot, i) = i < units.size() ? units[i] : kNoUnit;
    }
  }
  void GetReplicas(uint32_t slot, ReplicaSet& set) const {
    for (set.count = 0; set.count < replicas_; ++set.count) {
      const UnitId unit = Replica(slot, set.count);
      if (unit == kNoUnit) return;
      set.units[set.count] = unit;
    }
  }

 private:
  static constexpr uint32_t kInCold = 3;

  UnitId& Replica(uint32_t slot, uint32_t i) {
    return i < kInCold ? cold_[slot].replicas[i]
                       : more_replicas_[MoreReplicas(slot) + i - kInCold];
  }
  UnitId Replica(uint32_t slot, uint32_t i) const {
    return i < kInCold ? cold_[slot].replicas[i]
                       : more_replicas_[MoreReplicas(slot) + i - kInCold];
  }
  size_t MoreReplicas(uint32_t slot) const {
    return size_t{slot} * (replicas_ - kInCold);
  }

  FlowKeyHash hash_;
  uint32_t replicas_;
  uint32_t used_ = 0;      // slots ever used
  uint32_t free_ = kNone;  // list of freed slots, linked by `flowlet`
  uint32_t worn_ = kNone;  // list of freed slots at the next epoch's ids
  uint32_t first_generation_ = 0;
  bool wears_ = false;
  SlotIndex index_;
  LazyArray<FlowHot> hot_;
  LazyArray<FlowNumbers> numbers_;
  LazyArray<FlowCold> cold_;
  LazyArray<UnitId> more_replicas_;  // beyond those in FlowCold
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_FLOW_TABLE_H_
