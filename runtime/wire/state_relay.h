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
// do not map each other's memory: each loop sends what is for all others by one
// link, and gets what comes from them by another one, both in its own memory,
// which the relay maps as well.
//
//   loop 0 ─from─► ┌───────┐ ─to─► loop 1
//   loop 1 ─from─► │ relay │ ─to─► loop 0
//                  └───────┘
//
// What a loop says passes a decoder here (proto/protocol.md U14), so a loop
// gets only words that another one may send, in order. The first bad word of a
// loop is told to WireFaults, and nothing more is taken from it.
//
// A message for which a loop's link has no room is lost, and counted: units
// repeat what matters, and a loop that stands still holds back no other.
//
// A Pull of a unit that has no business with the flow is not carried on, and
// counted: no unit reads by it what another has. No more comes of it, as a Pull
// may be repeated until its unit has the state, and come late.
//
// A message stays in its ring until it is carried on. So another process may go
// on as the relay, if this one dies: it carries some messages once more.
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

  // Carries on what has come; returns true if there was anything.
  bool Turn();
  // The loop's process has ended. If its links were closed, or broken, what is
  // in them is dropped, and they are open again. What it has spoilt of its
  // rings is put right.
  void EndLoop(size_t loop);
  // For Doorbell::Wait.
  bool has_items() {
    return std::ranges::any_of(
        loops_, [](Loop& loop) { return loop.from.has_items(); });
  }

  // Counts what was taken and what was sent, as LinkOut::sent_in_all() does,
  // messages that were lost, and Pulls that were refused.
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
