// SPDX-License-Identifier: Apache-2.0
#include "controller/hand_over/standby_flows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace snf {

void StandbyFlows::Put(uint32_t from, uint64_t round, Instant now,
                       StandbyFlow flow) {
  const FlowKey key = flow.flow.name.key;
  const FlowKey alias = flow.flow.name.alias;
  if (const auto other = by_key_.find(key); other != by_key_.end()) {
    const Entry& there = *other->second;
    const bool is_outlived = there.from != from && there.flow.flow.last_packet >
                                                       flow.flow.last_packet;
    if (is_outlived) {
      ++counters_.outlived;
      return;
    }
    Erase(other->second);
  }
  if (entries_.size() >= options_.max_flows) {
    Erase(entries_.begin());
    ++counters_.evicted;
  }
  entries_.push_back({from, round, now, std::move(flow)});
  const auto entry = std::prev(entries_.end());
  by_key_[key] = entry;
  if (alias != FlowKey{}) by_alias_[alias] = entry;
  ++of_[from];
  ++counters_.kept;
}

// An alias may be another flow's by now.
void StandbyFlows::Erase(Entries::iterator entry) {
  const FlowName& name = entry->flow.flow.name;
  by_key_.erase(name.key);
  const auto alias = by_alias_.find(name.alias);
  if (alias != by_alias_.end() && alias->second == entry) {
    by_alias_.erase(alias);
  }
  if (entry->here != kNoFlow) taken_.erase(entry->here);
  --of_[entry->from];
  if (entry == next_) ++next_;
  entries_.erase(entry);
}

void StandbyFlows::OnEnd(uint32_t from, const FlowKey& key, FlowId flow) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  const Entry& entry = *found->second;
  // Another flow may have the key by now.
  if (entry.from != from || entry.flow.flow.name.flow != flow) return;
  Erase(found->second);
}

void StandbyFlows::OnWhole(uint32_t from, uint64_t round) {
  EraseOf(from, round);
}

void StandbyFlows::EraseOf(uint32_t from, std::optional<uint64_t> but_round) {
  if (size_of(from) == 0) return;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->from == from && entry->round != but_round) Erase(entry);
    entry = next;
  }
}

bool StandbyFlows::IsExpired(const Entry& entry, Instant now) const {
  const FlowName& name = entry.flow.flow.name;
  const Nanos own = name.idle_timeout;
  return now - entry.came > (own.ns > 0 ? own : options_.idle_timeout);
}

bool StandbyFlows::Expire(Entries::iterator entry, Instant now) {
  if (!IsExpired(*entry, now)) return false;
  ++counters_.expired;
  Erase(entry);
  return true;
}

void StandbyFlows::DropExpired(Instant now, size_t most) {
  for (most = std::min(most, size()); most > 0; --most) {
    if (next_ == entries_.end()) next_ = entries_.begin();
    Expire(next_++, now);
  }
}

const StandbyFlow* StandbyFlows::Find(const FlowKey& key, bool by_alias,
                                      Instant now) {
  const auto& by = by_alias ? by_alias_ : by_key_;
  const auto found = by.find(key);
  if (found == by.end()) return nullptr;
  const auto entry = found->second;
  if (entry->here != kNoFlow || Expire(entry, now)) return nullptr;
  return &entry->flow;
}

std::vector<StandbyFlow> StandbyFlows::TakeAll(MemberSet homes,
                                               MemberSet from) {
  std::vector<StandbyFlow> flows;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (Has(homes, entry->flow.home) && Has(from, entry->from)) {
      if (entry->here == kNoFlow) flows.push_back(entry->flow);
      Erase(entry);
    }
    entry = next;
  }
  return flows;
}

StandbyFlows::Entries::iterator StandbyFlows::OfKey(const FlowKey& key) const {
  const auto found = by_key_.find(key);
  SNF_CHECK(found != by_key_.end());
  return found->second;
}

void StandbyFlows::OnTaken(const FlowKey& key, FlowId here) {
  ++counters_.taken;
  const auto entry = OfKey(key);
  entry->here = here;
  taken_[here] = entry;
}

void StandbyFlows::Drop(const FlowKey& key) { Erase(OfKey(key)); }

void StandbyFlows::OnShown(FlowId here, Clock applied) {
  const auto taken = taken_.find(here);
  if (taken == taken_.end()) return;
  if (applied > taken->second->flow.flow.last) Erase(taken->second);
}

void StandbyFlows::Settle(size_t most,
                          absl::FunctionRef<Fate(FlowId here)> fate_of) {
  for (most = std::min(most, taken_.size()); most > 0; --most) {
    auto taken = taken_.upper_bound(next_settled_);
    if (taken == taken_.end()) taken = taken_.begin();
    const auto [here, entry] = *taken;
    next_settled_ = here;
    switch (fate_of(here)) {
      case Fate::kRuns:
        break;
      case Fate::kEnded:
        Erase(entry);
        break;
      case Fate::kLost:
        taken_.erase(here);
        entry->here = kNoFlow;
        entry->flow.is_due = true;
        ++counters_.reverted;
        break;
    }
  }
}

void StandbyFlows::ForgetTaken() {
  while (!taken_.empty()) Erase(taken_.begin()->second);
}

}  // namespace snf
