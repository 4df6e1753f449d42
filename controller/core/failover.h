// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_CORE_FAILOVER_H_
#define SNF_CONTROLLER_CORE_FAILOVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/messages.h"
#include "base/time.h"
#include "controller/core/options.h"
#include "controller/core/owner_history.h"
#include "controller/core/seal_round.h"
#include "controller/core/unit_set.h"

namespace snf {

// Theory of operation. How a controller makes good the failure of a unit
// (proto/protocol.md F1-F6), in five steps, of which each takes as long as
// there is room for commands:
//
//   sealing      the loggers of the units that have failed are sealed (kSeal)
//   asking       the surviving units are asked what they have applied
//   (kDoneQuery) waiting      until all have answered (SealRound) redirecting
//   flow by flow: who waits for state of a failed unit hears that
//                it is at its logger
//   moving       flow by flow: what the failed unit owned goes to others
//
// Of a flow, let `done` be the highest clock that anybody has applied. A clock
// above it that a failed unit owned is lost: it is re-routed, in order, as a
// tombstone, or as the packet itself if that survives (on_survivor). Its state
// is at the owner of the clock before, or at the failed unit's logger. Whoever
// holds the packet behind it is redirected. A flow that a failed unit owned
// last, and of which no clock is lost, goes to another unit by a null packet.
// Meanwhile the flow's packets are routed on: they wait at their units.
//
// Another failure begins all this anew, with what is moved already in its new
// place. So every logger that was ever sealed is asked, since what it keeps may
// not have been taken yet.
//
// Worked example: unit 0 had clocks 1-4 of a flow and unit 1 has clock 5. Unit
// 0 fails; its logger has applied 3. Clock 4 goes to unit 1 as a tombstone with
// unit 0's logger as its source, and the Redirect of clock 5 says that its
// state is at unit 1 itself. The history is then: 1-3 at unit 0's logger, 4- at
// unit 1.

// The runs of clocks of one flow, oldest first; the last is that of the owner.
class OwnerRuns {
 public:
  using Run = OwnerHistory::Run;
  static constexpr size_t kMax = 64;

  // Returns false, and does nothing, if there is no room.
  bool Append(const Run& run) {
    if (count_ == kMax) return false;
    runs_[count_++] = run;
    return true;
  }
  std::span<Run> all() { return std::span(runs_).first(count_); }
  std::span<const Run> all() const { return std::span(runs_).first(count_); }
  // Returns the run with that clock, or null.
  const Run* Find(Clock clock) const {
    for (const Run& run : all()) {
      if (clock >= run.first && clock <= run.last) return &run;
    }
    return nullptr;
  }
  // Gives the clock, which a run has, to `unit`. Returns false, and does
  // nothing, if there is no room.
  bool Assign(Clock clock, UnitId unit) {
    if (count_ + 2 > kMax) return false;
    OwnerRuns made;
    for (const Run& run : all()) {
      if (clock < run.first || clock > run.last) {
        made.Extend(run);
        continue;
      }
      Run part = run;
      part.last = clock - 1;
      if (part.first <= part.last) made.Extend(part);
      made.Extend({.first = clock, .last = clock, .unit = unit});
      part = run;
      part.first = clock + 1;
      if (part.first <= part.last) made.Extend(part);
    }
    *this = made;
    return true;
  }

 private:
  // Appends a run, to the last one if that is at the same place.
  void Extend(const Run& run) {
    Run* const last = count_ > 0 ? &runs_[count_ - 1] : nullptr;
    if (last != nullptr && last->unit == run.unit &&
        last->at_logger == run.at_logger) {
      last->last = run.last;
    } else {
      Append(run);
    }
  }

  std::array<Run, kMax> runs_;
  size_t count_ = 0;
};

// A packet that was in the channel of a failed unit and survives it.
struct Survivor {
  FlowId flow{};
  Clock clock{};
  Instant arrival{};
  PacketHandle packet = kNoPacket;
  uint32_t original_length = 0;
};

// How far the controller is. A value; owner-thread only; nothing is allocated
// after construction. Costs next to nothing until a unit fails, and then 8
// bytes a flow and 32 a surviving packet.
struct Failover {
  enum class Phase : uint8_t {
    kIdle,
    kSealing,
    kAsking,
    kWaiting,
    kRedirecting,
    kMoving,
    kDropping,  // what survives and is not needed
  };

  explicit Failover(const ControllerOptions& options)
      : round(options.max_flows, options.max_units),
        crashed(options.max_units),
        sealed(options.max_units),
        packets(4 * size_t{options.unit_queue_packets}) {}

  bool is_active() const { return phase != Phase::kIdle; }
  // Nobody waits for its answer any more.
  void on_unit_stopped(UnitId unit) {
    if (!is_active()) return;
    round.on_stopped(unit);
    if (phase == Phase::kWaiting) wakeup = Instant::min();
  }

  SealRound round;
  UnitSet crashed;  // whose flows are not all moved yet
  UnitSet sealed;   // that have failed once
  Phase phase = Phase::kIdle;
  uint32_t next = 0;                // the unit or the flow's slot to go on with
  Instant wakeup = Instant::max();  // when to go on
  LazyArray<Survivor> packets;
  uint32_t packet_count = 0;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_CORE_FAILOVER_H_
