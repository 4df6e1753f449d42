// SPDX-License-Identifier: Apache-2.0
#include "platform/run/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace snf {

void ReleaseDigest::Add(FlowId flow, std::span<const std::byte> bytes) {
  uint64_t& kept = flow == kNoFlow ? passed_through_ : HashOf(flow);
  const uint64_t hash = XXH3_64bits_withSeed(bytes.data(), bytes.size(), kept);
  sum_ += hash - kept;
  kept = hash;
}

uint64_t& ReleaseDigest::HashOf(FlowId flow) {
  const size_t slot = slot_of(flow);
  if (slot >= flows_.size()) flows_.resize(slot + slot / 2 + 64);
  PerFlow& entry = flows_[slot];
  if (entry.flow == flow) return entry.hash;
  if (entry.flow != kNoFlow) {
    const auto earlier = earlier_.find(flow);
    if (earlier != earlier_.end()) return earlier->second;
    KeepEarlier(entry);
  }
  entry = {.flow = flow, .hash = 0};
  return entry.hash;
}

void ReleaseDigest::KeepEarlier(const PerFlow& entry) {
  earlier_.emplace(entry.flow, entry.hash);
  if (earlier_order_.size() < kMaxEarlier) {
    earlier_order_.push_back(entry.flow);
    return;
  }
  FlowId& oldest = earlier_order_[earlier_oldest_];
  earlier_.erase(oldest);
  oldest = entry.flow;
  earlier_oldest_ = (earlier_oldest_ + 1) % kMaxEarlier;
}

}  // namespace snf
