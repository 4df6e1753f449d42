// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_DIGEST_H_
#define SNF_PLATFORM_RUN_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "platform/run/run_events.h"

namespace snf {

// One number for everything that was released (proto/decisions.md 25): the sum
// over flows of the hash of the flow's released packets in order. Times are not
// part of it, nor is the order between flows: two runs that release the same
// bytes, flow by flow, have the same digest.
//
// A flow may end while packets of it are still queued, and its slot then has
// releases of two flows in turn: the hash of a flow that lost its slot is kept
// until kMaxEarlier others have lost theirs.
//
// Owner-thread only. Memory: 16 bytes a flow slot.
class ReleaseDigest final : public RunObserver {
 public:
  // A packet of the flow was released; kNoFlow for those that passed through.
  void Add(FlowId flow, std::span<const std::byte> bytes);
  void on_release(const ReleasedPacket& packet) override {
    Add(packet.route.flow, packet.bytes);
  }
  uint64_t value() const { return sum_; }
  // A flow goes on in another digest, whose sum is added to this one's, and
  // with another id: its hash so far, which Continue takes there.
  uint64_t OfFlow(FlowId flow) { return HashOf(flow); }
  void Continue(FlowId flow, uint64_t hash) { HashOf(flow) = hash; }
  static constexpr size_t kMaxEarlier = 65'536;

 private:
  struct PerFlow {
    FlowId flow = kNoFlow;
    uint64_t hash = 0;  // already in the sum
  };
  uint64_t& HashOf(FlowId flow);
  void KeepEarlier(const PerFlow& entry);

  uint64_t sum_ = 0;
  uint64_t passed_through_ = 0;
  std::vector<PerFlow> flows_;  // by slot
  std::unordered_map<FlowId, uint64_t> earlier_;
  std::vector<FlowId> earlier_order_;  // a ring of at most kMaxEarlier
  size_t earlier_oldest_ = 0;
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_DIGEST_H_
