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
  // Numbers the process that runs the units' loggers, from 0 on: each but the
  // first gets all that the units keep (proto/protocol.md F8).
  std::atomic<uint32_t> logger_process{0};
};
static_assert(std::atomic<bool>::is_always_lock_free);

// Numbers the controllers of a run, one after the other: who finds a newer one
// than that to which it has reported does so before it goes on
// (proto/protocol.md F9). Whoever starts a controller writes, once the end of
// the one before was seen; loops of units read. It may lie in a region.
struct alignas(128) ControllerEpoch {
  std::atomic<uint32_t> newest{0};
  // A process that runs the loop from now on has nothing to report to
  // controllers up to this one; whoever starts it writes.
  std::atomic<uint32_t> begun{0};
};

// How many cells of a link from loggers a controller's loop has taken so far,
// to handle them: of what waits in the ring still, the next process that runs
// the controller handles nothing twice. The loop writes. It may lie in memory
// that several processes map one after the other.
struct alignas(128) ControllerNote {
  std::atomic<uint64_t> taken{0};
};

// Tells a loop of output loggers that the process of its units has ended, which
// was seen, and when it has taken all that this process had sent; and who runs
// the units' loop and the loggers, when, that these have what units keep. It
// may lie in a region.
struct alignas(128) LogControl {
  std::atomic<uint32_t> ends{0};     // of processes; whoever saw it writes
  std::atomic<uint32_t> drained{0};  // of them; the loop writes
  // Of the ends, those after which another process was started: that many as
  // there are ends, unless there is none; kNone: there never was any. Whoever
  // starts it writes.
  static constexpr uint32_t kNone = ~uint32_t{0};
  std::atomic<uint32_t> begun{0};
  // The controller to which the loggers are to report although their units have
  // no process, once all is drained; who starts controllers writes.
  std::atomic<uint32_t> asked{0};
  // The newest controller to which units can have reported; the same writes.
  std::atomic<uint32_t> newest{0};
  // The process of loggers (LoopControl) that has all that units keep, none of
  // it out of date, and how many records of flows processes have got so far;
  // the loop writes.
  std::atomic<uint32_t> restored{0};
  std::atomic<uint64_t> records{0};
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_LOOP_CONTROL_H_
