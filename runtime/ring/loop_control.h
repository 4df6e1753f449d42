// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_RING_LOOP_CONTROL_H_
#define SNF_RUNTIME_RING_LOOP_CONTROL_H_

#include <atomic>
#include <cstdint>

namespace snf {

// Tells an event loop of units, in this process or another one, what to stop.
// The owner of the loop writes, then rings the loop's Doorbell; the loop reads.
// May lie in a region.
struct alignas(128) LoopControl {
  std::atomic<bool> stops{false};         // UnitLoop::Stop
  std::atomic<bool> stops_timers{false};  // UnitLoop::StopTimers
  // Numbers the process that runs the units' loggers, from 0 on: each but the
  // first gets all that the units keep (proto/protocol.md F8).
  std::atomic<uint32_t> logger_process{0};
  // LogControl::ends when the loop's newest process was started: the
  // incarnation of its log entries follows from it.
  std::atomic<uint32_t> ends{0};
};
static_assert(std::atomic<bool>::is_always_lock_free);

// Numbers the controllers of a run, one after the other. A loop of units that
// finds a newer controller reports to it before it continues (proto/protocol.md
// F9). The driver that starts controllers writes, once it has seen the end of
// the previous one; loops of units read. May lie in a region.
struct alignas(128) ControllerEpoch {
  std::atomic<uint32_t> newest{0};
  // Newest controller to which a newly started process has nothing to report;
  // the starter of the process writes.
  std::atomic<uint32_t> begun{0};
};

// Cells of a link from loggers that a controller's loop has taken for handling
// so far. The next process that runs the controller skips these cells if they
// are still in the ring, so that none is handled twice. The loop writes. May
// lie in memory that several processes map one after the other.
struct alignas(128) ControllerNote {
  std::atomic<uint64_t> taken{0};
};

// Two-way state of a loop of output loggers and its driver: the ends of the
// processes of the loop's units that the driver has seen, how many of these
// processes' messages are drained, and whether new loggers have the state of
// the units. May lie in a region.
struct alignas(128) LogControl {
  std::atomic<uint32_t> ends{0};  // ends of processes; the driver writes
  std::atomic<uint32_t> drained{
      0};  // ends whose messages are drained; the loop writes
  // Value of `ends` at the newest start of a process: equals `ends` while a
  // process runs; kNone before the first start. The driver writes.
  static constexpr uint32_t kNone = ~uint32_t{0};
  std::atomic<uint32_t> begun{0};
  // The controller to which the loggers are to report although their units have
  // no process, once all is drained; the driver writes.
  std::atomic<uint32_t> asked{0};
  // The newest controller to which units can have reported; the driver writes.
  std::atomic<uint32_t> newest{0};
  // Number of the newest process of loggers (LoopControl) that has the complete
  // and current state of the units, and the records of flows received so far,
  // summed over processes; the loop writes.
  std::atomic<uint32_t> restored{0};
  std::atomic<uint64_t> records{0};
};

}  // namespace snf

#endif  // SNF_RUNTIME_RING_LOOP_CONTROL_H_
