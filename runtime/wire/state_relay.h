// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RUNTIME_WIRE_STATE_RELAY_H_
#define SNF_RUNTIME_WIRE_STATE_RELAY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/messages/messages.h"
#include "runtime/ring/thread_link.h"
#include "runtime/wire/decoder.h"
#include "runtime/wire/wire_faults.h"

namespace snf {

// Theory of operation. Carries messages about state between loops of units that
// do not map each other's memory: each loop sends its messages to all other
// loops by one link, and gets theirs by another one. Both links are in the
// loop's own memory, which the relay maps, too.
//
//   loop 0 ─from─► ┌───────┐ ─to─► loop 1
//   loop 1 ─from─► │ relay │ ─to─► loop 0
//                  └───────┘
//
// Every word of a loop passes a decoder here (proto/protocol.md U14), so a loop
// gets only words that another loop may send, in order. The first bad word of a
// loop is reported to WireFaults, and no more words are taken from the loop.
//
// A message for which a loop's link has no room is lost, and counted: units
// repeat important messages, and a stalled loop does not delay the others.
//
// A Pull of a unit that has nothing to do with the flow is dropped and counted,
// so that no unit can read another unit's state by it. The unit is not blamed,
// because a Pull may be repeated until its unit has the state, and come late.
//
// A message stays in its ring until it is carried on. So another process may
// continue as the relay if this one dies; it carries some messages twice.
//
// Owner-thread only. Nothing is allocated for a message.
class StateRelay {
 public:
  // Connects the relay to a loop of units.
  struct Loop {
    LinkIn from;
    LinkOut to;
  };
  // `faults` must outlive the relay. No record of state is longer than
  // `record_bytes`.
  StateRelay(std::vector<Loop> loops, uint32_t max_units, uint32_t record_bytes,
             WireFaults& faults);

  // Says whether a unit may ask for a flow's state; without it, any may. Call
  // it before anything else.
  using MayPull = std::function<bool(const Pull&)>;
  void set_may_pull(MayPull may_pull) { may_pull_ = std::move(may_pull); }

  // Carries the waiting messages; returns true if there were any.
  bool Turn();
  // The loop's process has ended. If its links were closed, or broken, their
  // contents are dropped, and the links are open again. Repairs the rings of
  // the process.
  void EndLoop(size_t loop);
  // For Doorbell::Wait.
  bool has_items() {
    return std::ranges::any_of(
        loops_, [](Loop& loop) { return loop.from.has_items(); });
  }

  // Return the messages taken and sent, counted as by LinkOut::sent_in_all(),
  // the messages lost, and the Pulls refused.
  uint64_t handled() const;
  uint64_t sent() const;
  uint64_t lost() const { return lost_; }
  uint64_t refused() const { return refused_; }

 private:
  void CloseBrokenLinks();

  std::vector<Loop> loops_;
  std::vector<WordsBetweenUnits> words_;  // by the loop they come from
  MayPull may_pull_;                      // may be null
  uint64_t lost_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace snf

#endif  // SNF_RUNTIME_WIRE_STATE_RELAY_H_
