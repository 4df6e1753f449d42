// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_PORTS_ROUTER_RETURNED_FRAMES_H_
#define SNF_PLATFORM_PORTS_ROUTER_RETURNED_FRAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "base/lazy_array.h"

namespace snf {

// Frames that a router has made for the chain, until its port gives them to it.
// While the chain gets one, it may send packets about which the router makes
// others: these wait for the next call of Give.
//
// Memory: up to 2 MiB, as far as it was used. Owner-thread only. No allocation
// after construction.
class ReturnedFrames {
 public:
  // Limits of what waits at a time.
  static constexpr uint32_t kMost = 1'024;
  static constexpr size_t kMostBytes = 1 << 20;

  // Copies the frame. Returns false if too many wait already.
  bool Add(std::span<const std::byte> frame);
  // Gives the frames that wait now, in their order. Each is valid during the
  // call of `take`, in which Add is allowed. Returns false if there was none.
  bool Give(absl::FunctionRef<void(std::span<const std::byte>)> take);
  bool empty() const { return batches_[next_].frames == 0; }

 private:
  struct Batch {
    LazyArray<std::byte> bytes{kMostBytes};
    std::array<uint32_t, kMost> sizes;
    uint32_t frames = 0;
    size_t end = 0;
  };
  std::array<Batch, 2> batches_;
  size_t next_ = 0;  // where frames are added; the other one is given
};

}  // namespace snf

#endif  // SNF_PLATFORM_PORTS_ROUTER_RETURNED_FRAMES_H_
