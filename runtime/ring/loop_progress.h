// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_LOOP_PROGRESS_H_
#define SNF_RUNTIME_RING_LOOP_PROGRESS_H_

#include <atomic>
#include <cstdint>

#include "base/ids.h"
#include "base/time.h"

namespace snf {

// Tells other threads how far an event loop of units has come, so that they can
// see that nothing is under way. The messages that `received` counts are
// handled, and the messages that this caused are in `sent`. So a thread that
// reads `received` of all loops first, and later finds the same sum in `sent`
// of all loops, knows that no message was under way in between.
//
// The loop writes, any thread reads. It may lie in a region.
struct alignas(128) LoopProgress {
  std::atomic<uint64_t> received{0};
  std::atomic<uint64_t> sent{0};
  std::atomic<int64_t> next_due{Instant::max().ns};
  // When the loop last began a unit that was to start, by the machine's clock.
  std::atomic<int64_t> started{Instant::min().ns};
  // The buffers of the loop's own share that are in use.
  std::atomic<uint64_t> buffers{0};
  // For the eye only, as in StateFigures.
  std::atomic<uint64_t> seamless{0};
  std::atomic<uint64_t> pulled{0};
  // Time for which the loop's units have been busy, if the loop measures it.
  std::atomic<int64_t> busy_ns{0};
  // The packet that an NF of the loop is called for (CallMark::Show), if the
  // loop shows that. It stays after the end of a process amid a call.
  std::atomic<PacketHandle> in_call{kNoPacket};
  // A loop of loggers has updates of tables that no home has merged.
  std::atomic<bool> has_updates{false};
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(LoopProgress) == 128);

}  // namespace snf

#endif  // SNF_RUNTIME_RING_LOOP_PROGRESS_H_
