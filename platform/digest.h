// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DIGEST_H_
#define SNF_PLATFORM_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace snf {

// One number for everything that was released (decisions.md 25): the sum over
// flows of the hash of the flow's released packets in order. Times are not part
// of it, nor is the order between flows: two runs that release the same bytes,
// flow by flow, have the same digest. Owner-thread only.
class ReleaseDigest {
 public:
  // A packet of the flow was released; kNoFlow for those that passed through.
  void Add(FlowId flow, std::span<const std::byte> bytes);
  uint64_t value() const { return sum_; }

 private:
  struct PerFlow {
    FlowId flow = kNoFlow;
    uint64_t hash = 0;  // already in the sum
  };
  uint64_t sum_ = 0;
  PerFlow passed_through_;
  std::vector<PerFlow> flows_;  // by slot
};

}  // namespace snf

#endif  // SNF_PLATFORM_DIGEST_H_
