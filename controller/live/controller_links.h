// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_LIVE_CONTROLLER_LINKS_H_
#define SNF_CONTROLLER_LIVE_CONTROLLER_LINKS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "controller/core/options.h"
#include "runtime/ring/buffer_pool.h"
#include "runtime/ring/doorbell.h"
#include "runtime/ring/loop_control.h"
#include "runtime/ring/loop_progress.h"
#include "runtime/ring/thread_link.h"
#include "runtime/wire/state_relay.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

struct ControllerLoopOptions {
  ControllerOptions controller;
  // Time that units take to start; 0: they are ready at once.
  Nanos cold_start_delay;
  Nanos warm_start_delay;
  uint32_t nf_reasons = 0;  // drop reasons of the NF
  uint32_t pools = 0;       // of the NF
  // Packets under way are also counted by flow (under_way).
  bool counts_flows = false;
  // The only loop of units takes its turns on this thread, before those of the
  // controller, and its links are joined.
  bool shares_thread = false;
  // Leased units run for other controllers as well: events do not say when
  // these units are up.
  bool shares_units = false;
  // Loops of units may end while others go on (EndLoop). Units have loggers.
  bool recovers = false;
  // The controller may fail (Fail), or its process, which is survived by the
  // homes of shared tables if they are kept (TableHomes::Keep). Units have
  // loggers.
  bool fails = false;
  // With `fails`: the loop takes the place of a loop of a dead process, which
  // had made these links. Succeed has to follow.
  bool inherits = false;
};

// Connects a controller to the loops of units. The targets of its pointers
// outlive the controller's loop.
struct ControllerLinks {
  struct UnitLoopEnds {
    LinkOut out;
    LinkIn in;
    LoopProgress* progress;
    Doorbell* bell = nullptr;  // the loop's, if the controller may fail
    // The loop reads its controller's epoch here, if the loop has memory of its
    // own and the controller may fail.
    ControllerEpoch* controllers = nullptr;
  };
  Doorbell* bell;                   // the controller's; all unit loops ring it
  BufferPool* buffers;              // the controller's end of the pool
  WireFaults* faults;               // bad words of units and loggers
  std::vector<UnitLoopEnds> loops;  // loop i of n runs the units i, n + i, …
  // Loops of the units' loggers, if there are any: loop i has those of unit
  // loop i.
  struct LoggerLoopEnd {
    LinkIn in;
    const LoopProgress* progress;
    // If loops of units may end:
    std::optional<LinkOut> out{};
    LogControl* control = nullptr;
    Doorbell* bell = nullptr;
    ControllerNote* note = nullptr;  // if the controller may fail
  };
  std::vector<LoggerLoopEnd> loggers{};
  ControllerEpoch* controllers = nullptr;  // if the controller may fail
  // If loops of units have memory of their own (LoopRegion): other bells that
  // they and their loggers ring; by loop, the buffers that it reads and writes,
  // and the links of messages about state, which are relayed.
  std::vector<Doorbell*> other_bells{};
  std::vector<BufferPool> copies{};
  std::vector<StateRelay::Loop> relayed{};
  uint32_t record_bytes = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_LIVE_CONTROLLER_LINKS_H_
