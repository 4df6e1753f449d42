// SPDX-License-Identifier: Apache-2.0
#include "base/packet/fragment_table.h"

#include "base/check.h"

namespace snf {

FragmentTable::FragmentTable(const Options& options)
    : options_(options),
      hash_(options.hash_seed),
      ring_(options.capacity),
      index_(options.capacity) {
  SNF_CHECK(options.capacity >= 1 &&
            options.capacity <= kMaxFragmentTableCapacity);
}

uint32_t FragmentTable::SlotOf(const FlowKey& fragment) const {
  return index_.Find(hash_(fragment), [&](uint32_t slot) {
    return ring_[slot].fragment == fragment;
  });
}

void FragmentTable::DropOldest() {
  index_.Erase(hash_(ring_[oldest_].fragment), oldest_);
  oldest_ = oldest_ + 1 == options_.capacity ? 0 : oldest_ + 1;
  --size_;
}

void FragmentTable::Insert(Instant now, const FlowKey& fragment,
                           const Flow& flow) {
  if (const uint32_t slot = SlotOf(fragment); slot != SlotIndex::kNotFound) {
    ring_[slot].flow = flow;
    ring_[slot].since = now;
    return;
  }
  while (size_ > 0 && HasTimedOut(now, ring_[oldest_])) DropOldest();
  if (size_ == options_.capacity) {
    DropOldest();
    ++evicted_;
  }
  uint32_t slot = oldest_ + size_;
  if (slot >= options_.capacity) slot -= options_.capacity;
  ring_[slot] = {fragment, flow, now};
  index_.Insert(hash_(fragment), slot);
  ++size_;
}

const FragmentTable::Flow* FragmentTable::Find(Instant now,
                                               const FlowKey& fragment) const {
  const uint32_t slot = SlotOf(fragment);
  if (slot == SlotIndex::kNotFound || HasTimedOut(now, ring_[slot])) {
    return nullptr;
  }
  return &ring_[slot].flow;
}

}  // namespace snf
