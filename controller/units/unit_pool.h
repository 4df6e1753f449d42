// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_CONTROLLER_UNITS_UNIT_POOL_H_
#define SNF_CONTROLLER_UNITS_UNIT_POOL_H_

#include <algorithm>
#include <cstdint>

#include "base/ids.h"
#include "base/lazy_array.h"
#include "base/messages/controller_commands.h"
#include "base/messages/report_messages.h"
#include "base/time.h"
#include "base/timing_wheel.h"
#include "controller/units/pool_options.h"
#include "controller/units/pool_starts.h"
#include "controller/units/unit_bars.h"
#include "controller/units/unit_loads.h"
#include "controller/units/unit_set.h"
#include "controller/units/unit_state_table.h"

namespace snf {

// Theory of operation. The life of a controller's units: which of them run, and
// which of these may be given flowlets. Their loads are UnitLoads, which this
// class is, their starts PoolStarts, their states UnitStateTable, and the
// barred ones UnitBars.
//
//   stopped ──► starting ──ready──► active ──idle──► warm ──unused──► stopping
//      ▲            ▲                                 │                  │
//      │            └─────────── taken again ─────────┘                  │
//      └──────────────────────────────────────────────────────────stopped┘
//
// A unit that has failed while it had a process is crashed until its flows are
// moved away (failover.h); then it is stopped.
//
// If a start has failed (PoolStarts), the unit itself is started again after
// the back-off where packets wait in its channel, or flows are its own; else it
// is stopped.
//
// A unit is placeable when it is active. A warm unit is placeable as soon as it
// is taken, since it needs only microseconds; a started one only when it is
// ready, unless there is no other unit: then its channel is the buffer in which
// packets wait.
//
// A unit is idle when it got no packet for `unit_idle_timeout`, has none left
// and no flowlet is open on it. A warm unit stops `keep_warm` later. If it owns
// flows then, it is leaving: it must be relieved of them one by one (U8), and
// is no longer taken. But if no unit is placeable, its flows have nowhere to
// go, and it stays warm until one is, or until it owns no flow.
//
// With LoadSignal::kWait a unit is closed before it is idle. The unit of the
// highest id is closed when for `unit_idle_timeout` every flowlet that was
// placed on it had found room elsewhere as well: it is not placeable any more,
// so its flows move to other units with their next flowlets, and it is parked
// once nothing waits there. If a flowlet that is open there continues, it is
// placed again. One unit is closed in each such time. A closing unit is
// placeable again before a warm one is taken. So the lowest ids are in use, and
// as few as would be if no flow preferred the unit that has its state
// (proto/decisions.md 12).
//
// A pool of leased units (UnitPoolOptions::leased) starts and parks none. Each
// is active from on_lease to on_revoke, with a share of its capacity. A revoked
// unit gets no more flowlets, and stops once its open flowlets have ended and
// nothing waits there, or at once; then it is leaving as above.
//
// A unit that becomes barred gets no flowlet. Once it is empty it stops,
// whether it is idle or not, and its flows move away; if they have nowhere to
// go, another unit is taken for them.
//
// Worked example, two units, idle after 500 µs and kept warm for 30 s: a flow
// begins, and unit 0, which is warm, is taken. At 1 s the flow's last packet
// comes, and drains: unit 0 is parked 500 µs later, and stops at 31.0005 s. If
// the flow is still in the table then, and unit 1 is active, a null packet
// moves it to unit 1.
//
// A value; owner-thread only; nothing is allocated after construction.
class UnitPool : public UnitLoads {
 public:
  using State = UnitState;

  explicit UnitPool(const UnitPoolOptions& options);

  // Returns the first spare unit (UnitPoolOptions::spare_units).
  uint32_t first_spare() const { return first_spare_; }
  State state(UnitId unit) const { return states_.Of(unit); }
  // True if the unit is active, but gets no more flowlets.
  bool closing(UnitId unit) const { return closing_.Has(unit); }
  // Returns the number of units that start and are not placeable yet, without
  // those whose last start failed.
  uint32_t starting_units() const { return starts_.awaited(); }
  uint64_t failed_starts() const { return starts_.failed(); }
  // Counts the units that start, or are to be started again.
  uint32_t pending_starts() const { return starts_.pending(); }
  // Returns true if packets for the unit wait until it is ready.
  bool is_starting(UnitId unit) const {
    return state(unit) >= State::kStarting;
  }
  uint64_t cold_starts() const { return starts_.cold(); }
  uint64_t warm_starts() const { return starts_.warm(); }
  // Returns the incarnation of the unit's last start; 0 if it was never
  // started.
  uint32_t incarnation(UnitId unit) const { return starts_.incarnation(unit); }

  // True if one is warm, or closing, and can be taken at once.
  bool has_spare() const {
    if (bars_.any()) [[unlikely]]
      return HasSpareBesideBarred();
    return states_.warm() > 0 || closing_.size() > 0;
  }

  // Brings loads up to `now` before a decision, within the bounds of UnitLoads,
  // and closes a unit that is not needed.
  void Refresh(Instant now);
  // Records that a flowlet is placed on the unit because no other had room, or
  // because its flow may not move.
  void MarkNeeded(Instant now, UnitId unit) { needed_[value(unit)] = now; }
  // Makes the closing unit of the lowest id placeable again. Returns kNoUnit if
  // none is closing.
  UnitId Reopen(Instant now);

  // Takes a warm unit, or starts a stopped one, lowest id first, and pushes one
  // command. Returns kNoUnit, and pushes nothing, if there is none, or if a
  // start has just failed.
  UnitId TakeWarm(Instant now, ControllerOut& out);
  UnitId StartStopped(Instant now, ControllerOut& out);
  // Makes a starting unit placeable, lowest id first; for when no unit is
  // placeable. Returns kNoUnit if none is starting.
  UnitId UseStarting(Instant now);
  // The same for a unit whose start has failed.
  UnitId UseFailed(Instant now);
  // Does the same for a unit that is to stop: withdraws its Stop by a warm
  // start (U8). If the unit reports meanwhile that it has stopped, the report
  // is refused.
  UnitId WithdrawStop(Instant now, ControllerOut& out);

  // Returns a barred or spare unit, for when there is no other: one that runs
  // or starts, otherwise starts one. The unit leaves when it is ready.
  UnitId UseBarred(Instant now, ControllerOut& out);

  // Makes that unit placeable, whatever its load, with at most one command.
  // Returns false if the unit is stopping, or barred.
  bool Use(Instant now, UnitId unit, ControllerOut& out);

  // The controller holds this share of the unit from now on, more or less than
  // before. If it was none of its units, or is leaving, one command is pushed.
  // Returns false, and changes nothing, if the share is not 1 … kFullLoad, or
  // the unit has failed.
  bool on_lease(Instant now, UnitId unit, uint32_t share, ControllerOut& out);
  // Ends the use of a leased unit. With `at_once`, its open flowlets move to
  // other units with their next packet, and one command is pushed. Returns
  // false, and changes nothing, if there is no lease, or if it is revoked
  // already and not to be left at once.
  bool on_revoke(Instant now, UnitId unit, bool at_once, ControllerOut& out);

  // Each returns false, and changes nothing, for an impossible message: the
  // unit is not starting, or not stopping.
  bool on_ready(Instant now, UnitId unit);
  bool on_stopped(UnitId unit);

  // Called when the unit has failed: the packets in its channel are lost, and
  // it gets no more. Returns false, and changes nothing, if it is stopped or
  // crashed.
  bool on_failed(UnitId unit);
  // Called once a failed unit owns no flows any more: it may be started again.
  void EndFailure(UnitId unit);
  // Returns true if packets may be under way to the unit, or in it.
  bool has_channel(UnitId unit) const {
    return state(unit) != State::kStopped && state(unit) != State::kCrashed;
  }
  // Returns true if the unit has a process, which may keep state.
  bool has_process(UnitId unit) const {
    return is_starting(unit) ? starts_.was_warm(unit) : has_channel(unit);
  }
  // Continues the counts of starts of an earlier controller's pool, whose last
  // incarnation this is.
  void Continue(const UnitPool& before, uint32_t last_incarnation) {
    starts_.Continue(before.starts_, last_incarnation);
  }
  // A pool that continues another controller's has the unit like this. Once for
  // each unit, before the first packet; each is stopped or warm until then. A
  // leased unit that is used needs its lease as well.
  void Restore(Instant now, const UnitReport& report);
  // Record that the unit owns one flow more or less. RemoveOwned returns true
  // if this was the last flow of a unit that is leaving.
  void AddOwned(UnitId unit) { states_.AddOwned(unit); }
  bool RemoveOwned(Instant now, UnitId unit);
  uint32_t owned_flows(UnitId unit) const { return states_.owned_flows(unit); }
  // Flows that must be moved away from units that are stopping.
  uint64_t leaving_flows() const { return states_.leaving_flows(); }

  // Bars a unit, or bars it no more. Drain returns false, and changes nothing,
  // if no other unit could be used then that is not about to stop itself.
  // O(max_units).
  bool Drain(Instant now, UnitId unit);
  void Undrain(UnitId unit) { bars_.Undrain(unit); }
  bool drained(UnitId unit) const { return bars_.drained(unit); }
  bool barred(UnitId unit) const { return bars_.Has(unit); }
  // Takes over the options of units that may change (Controller::Tune).
  // Returns false, and changes nothing, if no unit could be used then.
  bool Tune(Instant now, const UnitPoolOptions& options);
  // Returns the number of units, from the lowest ids on, that may be used
  // unless drained.
  uint32_t usable_units() const { return bars_.usable(); }

  Instant next_wakeup() const { return timers_.next_wakeup(); }
  // Handles one timer that is due and pushes at most one command. Returns false
  // if no timer is due.
  bool on_timer(Instant now, ControllerOut& out);

 private:
  void SetState(UnitId unit, State state) {
    states_.Set(unit, state);
    channel(unit).set_is_buffer(state >= State::kStarting);
  }
  void NoteUsed(UnitId unit) {
    first_untouched_ = std::max(first_untouched_, value(unit) + uint32_t{1});
  }
  void MakePlaceable(Instant now, UnitId unit);
  bool HasSpareBesideBarred() const;
  UnitId NextClosing() const;
  UnitId LowestIn(State state) const { return states_.LowestIn(state, bars_); }
  UnitId NextStopped() const;
  void LeaveBarred(Instant now, UnitId unit);
  void UseAnother(Instant now, ControllerOut& out);
  void Take(Instant now, UnitId unit, ControllerOut& out);
  void Start(Instant now, UnitId unit, ControllerOut& out);
  void FailStart(Instant now, UnitId unit, ControllerOut& out);
  void EndBackOff(Instant now, UnitId unit, ControllerOut& out);
  void EraseFailed();
  void CloseUnneeded(Instant now);
  void Park(Instant now, UnitId unit, ControllerOut& out);
  void Leave(UnitId unit, ControllerOut& out);
  void EndUse(UnitId unit);
  bool WaitsForOther(UnitId unit);
  void on_timer_of_active(Instant now, UnitId unit, ControllerOut& out);
  void on_timer_of_warm(Instant now, UnitId unit, ControllerOut& out);

  uint32_t first_spare_;
  Nanos idle_timeout_;
  Nanos keep_warm_;
  Nanos start_timeout_;
  bool leased_;
  uint32_t first_untouched_ = 0;        // units from here on were never started
  Instant closed_at_ = Instant::min();  // of the unit closed last
  UnitSet closing_;  // active, but not placeable: to be parked once empty
  UnitSet waiting_;  // keep_warm is over, but their flows have nowhere to go
  UnitSet revoked_;
  UnitBars bars_;
  PoolStarts starts_;
  UnitStateTable states_;
  // The last MarkNeeded of each unit, or the time when it became placeable.
  LazyArray<Instant> needed_;
  TimingWheel timers_;
};

}  // namespace snf

#endif  // SNF_CONTROLLER_UNITS_UNIT_POOL_H_
