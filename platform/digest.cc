// SPDX-License-Identifier: Apache-2.0
#include "platform/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace snf {

void ReleaseDigest::Add(FlowId flow, std::span<const std::byte> bytes) {
  PerFlow* entry = &passed_through_;
  if (flow != kNoFlow) {
    const size_t slot = slot_of(flow);
    if (slot >= flows_.size()) flows_.resize(slot + slot / 2 + 64);
    entry = &flows_[slot];
    // A slot's next flow begins a hash of its own; the last one's stays in.
    if (entry->flow != flow) *entry = {.flow = flow, .hash = 0};
  }
  const uint64_t hash =
      XXH3_64bits_withSeed(bytes.data(), bytes.size(), entry->hash);
  sum_ += hash - entry->hash;
  entry->hash = hash;
}

}  // namespace snf
