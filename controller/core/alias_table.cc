// SPDX-License-Identifier: Apache-2.0
#include "controller/core/alias_table.h"

#include <algorithm>

namespace snf {

AliasTable::AliasTable(uint32_t max_flows, uint64_t hash_seed)
    : hash_(hash_seed),
      group_hash_(hash_seed),
      index_(max_flows, Pages::kLarge),
      entries_(max_flows, Pages::kGrowing),
      group_index_(max_flows),
      groups_(max_flows),
      former_(kMaxFormer) {}

uint32_t AliasTable::FindGroup(uint64_t id) const {
  return group_index_.Find(
      HashOfGroup(id), [&](uint32_t group) { return groups_[group].id == id; });
}

uint32_t AliasTable::InsertGroup(uint64_t id) {
  uint32_t group = free_group_;
  if (group != kNone) {
    free_group_ = groups_[group].next_free;
  } else {
    // Every group has at least one flow, so there are never more than
    // max_flows.
    group = groups_used_++;
  }
  groups_[group] = {.id = id, .flows = 0, .next_free = kNone};
  group_index_.Insert(HashOfGroup(id), group);
  return group;
}

AliasResult AliasTable::Set(uint32_t slot, const Alias& alias) {
  if (entries_[slot].group != 0 && alias.clock < entries_[slot].clock) {
    return AliasResult::kUnknown;
  }
  const uint64_t hash = hash_(alias.key);
  const uint32_t holder = Find(alias.key, hash);
  if (holder != kNone && holder != slot) return AliasResult::kConflict;
  uint32_t group = FindGroup(alias.group);
  if (alias.group_limit != 0 && group != kNone) {
    // The alias that is replaced does not count towards the limit.
    const uint32_t own = entries_[slot].group == group + 1 ? 1 : 0;
    if (groups_[group].flows - own >= alias.group_limit) {
      return AliasResult::kGroupFull;
    }
  }
  if (entries_[slot].group != 0) {
    Keep(slot, alias.clock);
    Remove(slot);
  }
  Insert(slot, alias.key, hash, alias.clock, alias.group);
  return AliasResult::kGranted;
}

void AliasTable::Insert(uint32_t slot, const FlowKey& key, uint64_t hash,
                        Clock clock, uint64_t group) {
  uint32_t place = FindGroup(group);
  if (place == kNone) place = InsertGroup(group);
  ++groups_[place].flows;
  entries_[slot] = {.key = key, .clock = clock, .group = place + 1};
  index_.Insert(hash, slot);
}

bool AliasTable::Erase(uint32_t slot, Clock clock) {
  DropFormer(slot, clock);
  if (size() == 0 || entries_[slot].group == 0 || entries_[slot].clock > clock)
    return false;
  Remove(slot);
  return true;
}

bool AliasTable::Withdraw(uint32_t slot, Clock done) {
  if (clock(slot) <= done) return false;
  Remove(slot);
  const auto end =
      static_cast<uint32_t>(std::min(formers_, uint64_t{kMaxFormer}));
  for (uint32_t i = 0; i < end; ++i) {
    Former& former = former_[i];
    if (former.slot != slot || former.until <= done) continue;
    former.until = Clock{};
    const uint64_t hash = hash_(former.key);
    if (former.clock > done || Find(former.key, hash) != kNone) continue;
    Insert(slot, former.key, hash, former.clock, former.group);
  }
  return true;
}

// Keeps the flow's alias, which another is about to replace at that clock.
void AliasTable::Keep(uint32_t slot, Clock until) {
  const Entry& entry = entries_[slot];
  if (entry.clock == until) return;
  former_[formers_++ % kMaxFormer] = {.key = entry.key,
                                      .group = groups_[entry.group - 1].id,
                                      .clock = entry.clock,
                                      .until = until,
                                      .slot = slot};
}

// Gives up the flow's former aliases up to that clock.
void AliasTable::DropFormer(uint32_t slot, Clock clock) {
  const auto end =
      static_cast<uint32_t>(std::min(formers_, uint64_t{kMaxFormer}));
  for (uint32_t i = 0; i < end; ++i) {
    Former& former = former_[i];
    if (former.slot == slot && former.clock <= clock) former.until = Clock{};
  }
}

void AliasTable::Remove(uint32_t slot) {
  Entry& entry = entries_[slot];
  const uint32_t place = entry.group - 1;
  Group& group = groups_[place];
  if (--group.flows == 0) {
    group_index_.Erase(HashOfGroup(group.id), place);
    group.next_free = free_group_;
    free_group_ = place;
  }
  index_.Erase(hash_(entry.key), slot);
  entry.group = 0;
}

}  // namespace snf
