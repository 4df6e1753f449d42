// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_ALIAS_TABLE_H_
#define SNF_CONTROLLER_CORE_ALIAS_TABLE_H_

#include <cstdint>

#include "base/ids.h"
#include "base/keyed_hash.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/packet/flow_key.h"
#include "base/slot_index.h"

namespace snf {

// Theory of operation. An alias is the second key of a flow: return traffic of
// a flow that an NF translates comes to an address that the NF chose
// (proto/protocol.md U9, proto/decisions.md 15, 20). A flow, which is a slot of
// the flow table, has at most one alias, and an alias belongs to one flow.
// Aliases are counted by group (an inside host), so that a limit of a group
// holds over all units.
//
// Worked example: flow slot 7 of host 10.0.0.1, limit 1, sets 198.51.100.1:1024
// and gets it; Find gives 7. Slot 8 of the same host sets 198.51.100.1:1026:
// kGroupFull. Slot 9 of another host sets …:1024: kConflict. Slot 7 sets
// …:1028, which is granted in place of …:1024, and …:1024 is free again.
//
// An alias is granted before its clock is released. If the clock is lost with a
// unit, the flow continues with its previous alias: so the last kMaxFormer
// replaced aliases are kept.
//
// A value; owner-thread only; nothing is allocated after construction. Memory:
// 64 bytes for each flow slot that ever had an alias, 16 for each group, and in
// each of the two indexes at most 10.7 for each of max_flows; 80 for each of
// kMaxFormer; nothing without aliases.
class AliasTable {
 public:
  static constexpr uint32_t kNone = SlotIndex::kNotFound;
  static constexpr uint32_t kMaxFormer = 256;

  // With the flow table's seed, a key has the same hash here as there.
  AliasTable(uint32_t max_flows, uint64_t hash_seed);

  uint32_t size() const { return index_.size(); }
  uint64_t long_probes() const {
    return index_.long_probes() + group_index_.long_probes();
  }
  uint32_t groups() const { return group_index_.size(); }

  // Prefetch the index, and then the entry, ahead of Find. PrefetchEntry
  // returns the slot that Find will most likely return, or kNone.
  void PrefetchIndex(uint64_t hash) const { index_.Prefetch(hash); }
  uint32_t PrefetchEntry(uint64_t hash) const {
    const uint32_t slot = index_.Guess(hash);
    if (slot != kNone) __builtin_prefetch(&entries_[slot]);
    return slot;
  }
  // Returns the slot of the flow whose alias is `key`, or kNone. `hash` is that
  // of the key.
  uint32_t Find(const FlowKey& key, uint64_t hash) const {
    return index_.Find(
        hash, [&](uint32_t slot) { return entries_[slot].key == key; });
  }

  // Gives the flow this alias in place of the one it has. Returns kGranted, or
  // kConflict or kGroupFull, or kUnknown if the flow's alias is of a newer
  // clock, and changes nothing.
  AliasResult Set(uint32_t slot, const Alias& alias);
  // Returns the clock at which the flow's alias was set; 0 if it has none.
  Clock clock(uint32_t slot) const {
    return size() == 0 || entries_[slot].group == 0 ? Clock{}
                                                    : entries_[slot].clock;
  }
  // Reads the flow's alias: its key, clock and group. Returns false if it has
  // none.
  bool Read(uint32_t slot, Alias& alias) const {
    if (size() == 0 || entries_[slot].group == 0) return false;
    alias.key = entries_[slot].key;
    alias.clock = entries_[slot].clock;
    alias.group = groups_[entries_[slot].group - 1].id;
    return true;
  }
  // Removes the flow's alias if it was set at or before `clock`. Returns false
  // if there is no such alias.
  bool Erase(uint32_t slot, Clock clock);
  // The flow's clocks after `done` are lost. If its alias was set at a lost
  // clock, restores the previous alias, unless another flow has that now, or it
  // is not kept any more. Returns false, and changes nothing, if the alias is
  // older.
  bool Withdraw(uint32_t slot, Clock done);

 private:
  struct alignas(64) Entry {
    FlowKey key;
    Clock clock;     // when it was set
    uint32_t group;  // 1 + its place in groups_; 0 for no alias
  };
  static_assert(sizeof(Entry) == 64);
  struct Group {
    uint64_t id;
    uint32_t flows;  // with an alias
    uint32_t next_free;
  };
  static_assert(sizeof(Group) == 16);
  // An alias that was replaced.
  struct Former {
    FlowKey key;
    uint64_t group;  // its id
    Clock clock;     // when it was set
    Clock until;     // when it was replaced; 0: given up
    uint32_t slot;
  };

  uint64_t HashOfGroup(uint64_t id) const { return group_hash_(&id, 1); }
  uint32_t FindGroup(uint64_t id) const;
  uint32_t InsertGroup(uint64_t id);
  void Insert(uint32_t slot, const FlowKey& key, uint64_t hash, Clock clock,
              uint64_t group);
  void Remove(uint32_t slot);
  void Keep(uint32_t slot, Clock until);
  void DropFormer(uint32_t slot, Clock clock);

  FlowKeyHash hash_;
  KeyedHash group_hash_;
  SlotIndex index_;
  LazyArray<Entry> entries_;  // by flow slot
  SlotIndex group_index_;
  LazyArray<Group> groups_;
  uint32_t groups_used_ = 0;     // ever
  uint32_t free_group_ = kNone;  // list of freed groups
  LazyArray<Former> former_;     // is a ring
  uint64_t formers_ = 0;         // ever
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_ALIAS_TABLE_H_
