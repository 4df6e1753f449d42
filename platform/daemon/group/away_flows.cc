// SPDX-License-Identifier: Apache-2.0
#include "platform/daemon/group/away_flows.h"

#include <algorithm>
#include <iterator>

namespace snf {

void AwayFlows::Put(Instant now, uint32_t owner, const AwayFlow& flow) {
  Erase(flow.key);
  if (entries_.size() >= kMost) {
    EraseEntry(entries_.begin());
    ++evicted_;
  }
  entries_.push_back({.flow = flow, .owner = owner, .used = now});
  by_key_[flow.key] = std::prev(entries_.end());
  ++of_[owner];
  // The other end may be slow.
  if (untold_.size() >= kMost) untold_.pop_front();
  untold_.push_back(flow.key);
}

std::optional<uint32_t> AwayFlows::Find(Instant now, const FlowKey& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  found->second->used = now;
  return found->second->flow.home;
}

void AwayFlows::Erase(const FlowKey& key) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) EraseEntry(found->second);
}

void AwayFlows::EraseEntry(Entries::iterator entry) {
  by_key_.erase(entry->flow.key);
  --of_[entry->owner];
  if (entry == next_) ++next_;
  entries_.erase(entry);
}

void AwayFlows::DropExpired(Instant now, size_t most) {
  for (most = std::min(most, size()); most > 0; --most) {
    if (next_ == entries_.end()) next_ = entries_.begin();
    const auto entry = next_++;
    const Nanos own = entry->flow.idle_timeout;
    if (now - entry->used > (own.ns > 0 ? own : idle_timeout_)) {
      EraseEntry(entry);
    }
  }
}

void AwayFlows::ForEach(absl::FunctionRef<void(const AwayFlow&)> visit) const {
  for (const Entry& entry : entries_) visit(entry.flow);
}

void AwayFlows::TellAll() {
  untold_.clear();
  for (const Entry& entry : entries_) untold_.push_back(entry.flow.key);
}

std::optional<AwayFlow> AwayFlows::Next() {
  while (!untold_.empty()) {
    const auto found = by_key_.find(untold_.front());
    untold_.pop_front();
    if (found != by_key_.end()) return found->second->flow;
  }
  return std::nullopt;
}

}  // namespace snf
