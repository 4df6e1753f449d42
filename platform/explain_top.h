// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_EXPLAIN_TOP_H_
#define SNF_PLATFORM_EXPLAIN_TOP_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "base/flow_key.h"

namespace snf {

// Finds the flow with the most bytes, in a first pass over a capture, for
// `--explain top`. Exact; of equals the lowest key, so the answer does not
// depend on the order of packets. Memory: 60-120 bytes a flow. Owner-thread
// only.
class TopFlowFinder {
 public:
  void Add(const FlowKey& key, uint32_t original_length);

  // Nothing if there was no packet.
  std::optional<FlowKey> top() const { return top_; }
  size_t flows() const { return bytes_.size(); }

 private:
  struct KeyHash {
    size_t operator()(const FlowKey& key) const { return Hash(key, 0); }
  };

  // Looked up, never iterated.
  absl::flat_hash_map<FlowKey, uint64_t, KeyHash> bytes_;
  std::optional<FlowKey> top_;
  uint64_t top_bytes_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_EXPLAIN_TOP_H_
