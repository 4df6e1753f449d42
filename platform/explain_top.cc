// SPDX-License-Identifier: Apache-2.0
#include "platform/explain_top.h"

namespace snf {

void TopFlowFinder::Add(const FlowKey& key, uint32_t original_length) {
  const uint64_t bytes = bytes_[key] += original_length;
  // Sums only grow, so whoever ends on top was seen here when it got there.
  if (!top_.has_value() || bytes > top_bytes_ ||
      (bytes == top_bytes_ && key < *top_)) {
    top_ = key;
    top_bytes_ = bytes;
  }
}

}  // namespace snf
