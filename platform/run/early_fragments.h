// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_RUN_EARLY_FRAGMENTS_H_
#define SNF_PLATFORM_RUN_EARLY_FRAGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "base/packet/flow_key.h"
#include "base/time.h"
#include "traces/capture_reader.h"

namespace snf {

inline constexpr uint32_t kMaxEarlyFragments = 1024;

// Theory of operation. Only the first fragment of a packet has the ports. Some
// senders send it last, and some networks reorder; RFC 4787 §11 wants a NAT to
// take fragments out of order, within bounds. So fragments that come before
// their first one are kept, as copies, until the first one has come or they are
// too old. At the bound no more are kept, so a flood costs what the bound says.
//
// Example: of a packet in three fragments, {offset 2960} and {offset 1480} come
// at 0 ms, and {offset 0} at 1 ms. Release() of the packet's key at 1 ms makes
// Next() return both, in this order. Without {offset 0}, Next() returns them
// once they are older than kLongest.
//
// Owner-thread only. Allocates for each fragment that is kept.
class EarlyFragments {
 public:
  // A fragment is kept no longer than that beside traffic: time is looked at
  // when packets come.
  static constexpr Nanos kLongest = Seconds(1);

  // Keeps at most `most` fragments, 0 … kMaxEarlyFragments.
  explicit EarlyFragments(uint32_t most) : most_(most) {}

  bool empty() const { return kept_.empty(); }
  size_t size() const { return kept_.size(); }

  // Copies a fragment of the packet whose FragmentKey is `packet`. Returns
  // false, and keeps nothing, if `most` are kept.
  bool Keep(Instant now, const FlowKey& packet, const CapturedPacket& fragment);

  // The packet's first fragment has come.
  void Release(const FlowKey& packet);

  // Removes and returns a fragment whose packet was released or that is too old
  // at `now`; null if there is none. Fragments of one packet come in the order
  // in which they were kept. The result is valid until the next call.
  const CapturedPacket* Next(Instant now);

 private:
  struct Kept {
    Instant since;
    FlowKey packet;
    CapturedPacket fragment;
    std::unique_ptr<std::byte[]> bytes;
    bool is_released = false;
  };

  uint32_t most_;
  std::list<Kept> kept_;  // the oldest first
  std::optional<Kept> last_;
  size_t released_ = 0;  // of kept_
};

}  // namespace snf

#endif  // SNF_PLATFORM_RUN_EARLY_FRAGMENTS_H_
