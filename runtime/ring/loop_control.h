// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_LOOP_CONTROL_H_
#define SNF_RUNTIME_RING_LOOP_CONTROL_H_

#include <atomic>
#include <cstdint>

namespace snf {

// Tells an event loop of units, of this process or another one, what is to end.
// Whoever runs the loop writes, then rings the loop's Doorbell; the loop reads.
// It may lie in a region.
struct alignas(128) LoopControl {
  std::atomic<bool> stops{false};         // UnitLoop::Stop
  std::atomic<bool> stops_timers{false};  // UnitLoop::StopTimers
};
static_assert(std::atomic<bool>::is_always_lock_free);

// Tells a loop of output loggers that the process of its units has ended, which
// was seen, and when it has taken all that this process had sent. It may lie in
// a region.
struct alignas(128) LogControl {
  std::atomic<uint32_t> ends{0};     // of processes; whoever saw it writes
  std::atomic<uint32_t> drained{0};  // of them; the loop writes
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_LOOP_CONTROL_H_
