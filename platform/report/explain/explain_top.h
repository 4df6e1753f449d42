// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REPORT_EXPLAIN_EXPLAIN_TOP_H_
#define SNF_PLATFORM_REPORT_EXPLAIN_EXPLAIN_TOP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/packet/flow_key.h"

namespace snf {

// Finds the flows with the most bytes, in a first pass over a capture, for
// `--explain top`. Exact; of equals the lowest keys, so the answer does not
// depend on the order of packets. Memory: 60-120 bytes a flow. Owner-thread
// only.
class TopFlowFinder {
 public:
  void Add(const FlowKey& key, uint32_t original_length);

  // At most `flows`, the one with the most bytes first.
  std::vector<FlowKey> Top(size_t flows) const;
  size_t flows() const { return bytes_.size(); }

 private:
  absl::flat_hash_map<FlowKey, uint64_t, FlowKeyHash> bytes_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REPORT_EXPLAIN_EXPLAIN_TOP_H_
