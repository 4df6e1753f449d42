// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_pool.h"

#include <algorithm>

#include "base/check.h"

namespace snf {

UnitPool::UnitPool(const UnitPoolOptions& options)
    : UnitLoads(options),
      first_spare_(options.max_units - options.spare_units),
      idle_timeout_(options.unit_idle_timeout),
      keep_warm_(options.keep_warm),
      start_timeout_(options.start_timeout),
      leased_(options.leased),
      closing_(options.max_units),
      waiting_(options.max_units),
      revoked_(options.max_units),
      bars_(options.max_units, first_spare_),
      starts_(options),
      states_(options.max_units),
      needed_(options.max_units),
      timers_(options.max_units) {
  SNF_CHECK(idle_timeout_.ns > 0 && keep_warm_.ns >= 0);
  SNF_CHECK(start_timeout_.ns > 0);
  if (!leased_) first_untouched_ = std::min(options.warm_units, first_spare_);
  for (uint32_t i = 0; i < first_untouched_; ++i) {
    SetState(UnitId{static_cast<uint16_t>(i)}, State::kWarm);
  }
}

void UnitPool::CloseUnneeded(Instant now) {
  if (leased_ || placeable_units() < 2) return;
  const UnitId last = Ranked(placeable_units() - 1);
  if (state(last) != State::kActive ||
      now < std::max(needed_[value(last)], closed_at_) + idle_timeout_) {
    return;
  }
  closed_at_ = now;
  Erase(last);
  closing_.Insert(last);
  timers_.Arm(value(last), now);
}

UnitId UnitPool::Reopen(Instant now) {
  const UnitId unit = NextClosing();
  if (unit == kNoUnit) return kNoUnit;
  closing_.Erase(unit);
  MakePlaceable(now, unit);
  return unit;
}

void UnitPool::Refresh(Instant now) {
  if (by_wait()) {
    CloseUnneeded(now);
  } else {
    RefreshFading(now, first_untouched_);
  }
}

UnitId UnitPool::NextClosing() const {
  if (closing_.size() == 0) return kNoUnit;
  const UnitId unit = closing_.NextFrom(0, &bars_.drained());
  return unit == kNoUnit || barred(unit) ? kNoUnit : unit;
}

bool UnitPool::HasSpareBesideBarred() const {
  return LowestIn(State::kWarm) != kNoUnit || NextClosing() != kNoUnit;
}

bool UnitPool::Drain(Instant now, UnitId unit) {
  if (leased_ || !states_.HasUsable(usable_units(), bars_, unit)) return false;
  if (bars_.Drain(unit)) LeaveBarred(now, unit);
  return true;
}

bool UnitPool::Tune(Instant now, const UnitPoolOptions& options) {
  const uint32_t before = usable_units();
  const uint32_t usable =
      leased_ ? before : std::min(options.max_units, first_spare_);
  if (!leased_ && !states_.HasUsable(usable, bars_, kNoUnit)) return false;
  idle_timeout_ = options.unit_idle_timeout;
  keep_warm_ = options.keep_warm;
  start_timeout_ = options.start_timeout;
  bars_.set_usable(usable);
  for (uint32_t i = usable; i < before; ++i) {
    LeaveBarred(now, UnitId{static_cast<uint16_t>(i)});
  }
  return true;
}

// Lets a barred unit leave; if it is starting, it leaves when it is ready.
void UnitPool::LeaveBarred(Instant now, UnitId unit) {
  if (state(unit) == State::kActive && placeable(unit)) {
    Erase(unit);
    closing_.Insert(unit);
    timers_.Arm(value(unit), now);
  } else if (state(unit) == State::kWarm) {
    timers_.Arm(value(unit), now);
  }
}

// Makes a unit placeable, where none is.
void UnitPool::UseAnother(Instant now, ControllerOut& out) {
  if (Reopen(now) != kNoUnit || TakeWarm(now, out) != kNoUnit ||
      UseStarting(now) != kNoUnit) {
    return;
  }
  StartStopped(now, out);
}

// Returns the lowest of those whose starts failed least often, and that are not
// barred.
UnitId UnitPool::NextStopped() const {
  UnitId next = kNoUnit;
  for (uint32_t i = 0; i < usable_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (state(unit) != State::kStopped || drained(unit)) continue;
    const uint32_t failures = starts_.failures(unit);
    if (next == kNoUnit || failures < starts_.failures(next)) next = unit;
    if (failures == 0) break;
  }
  return next;
}

void UnitPool::MakePlaceable(Instant now, UnitId unit) {
  MarkNeeded(now, unit);
  Insert(now, unit);
  if (waiting_.size() == 0) return;
  for (UnitId waits = waiting_.NextFrom(0); waits != kNoUnit;
       waits = waiting_.NextFrom(value(waits) + uint32_t{1})) {
    timers_.Arm(value(waits), now);
  }
}

void UnitPool::Take(Instant now, UnitId unit, ControllerOut& out) {
  SetState(unit, State::kStarting);
  waiting_.Erase(unit);
  channel(unit).Open();
  channel(unit).Use(now);
  timers_.Arm(value(unit), now + start_timeout_);
  MakePlaceable(now, unit);
  starts_.Begin(unit, /*warm=*/true, out);
}

void UnitPool::Start(Instant now, UnitId unit, ControllerOut& out) {
  SetState(unit, State::kStarting);
  channel(unit).Open();
  channel(unit).Use(now);
  timers_.Arm(value(unit), now + start_timeout_);
  NoteUsed(unit);
  if (placeable_units() == 0) {
    MakePlaceable(now, unit);
  } else {
    starts_.SetAwaited(unit, true);
  }
  starts_.Begin(unit, /*warm=*/false, out);
}

UnitId UnitPool::TakeWarm(Instant now, ControllerOut& out) {
  if (states_.warm() == 0) return kNoUnit;
  const UnitId unit = LowestIn(State::kWarm);
  if (unit != kNoUnit) Take(now, unit, out);
  return unit;
}

UnitId UnitPool::StartStopped(Instant now, ControllerOut& out) {
  if (leased_ || states_.stopped() == 0 || now < starts_.not_before()) {
    return kNoUnit;
  }
  const UnitId unit = NextStopped();
  if (unit != kNoUnit) Start(now, unit, out);
  return unit;
}

bool UnitPool::Use(Instant now, UnitId unit, ControllerOut& out) {
  if (barred(unit)) return false;
  switch (state(unit)) {
    case State::kStopping:
    case State::kCrashed:
      return false;
    case State::kWarm:
      Take(now, unit, out);
      return true;
    case State::kStopped:
      if (leased_) return false;
      Start(now, unit, out);
      break;
    case State::kActive:
      if (revoked_.Has(unit)) return false;
      break;
    case State::kStarting:
    case State::kFailed:
      break;
  }
  if (!placeable(unit)) {
    closing_.Erase(unit);
    starts_.SetAwaited(unit, false);
    MakePlaceable(now, unit);
  }
  return true;
}

UnitId UnitPool::UseStarting(Instant now) {
  if (starts_.awaited() == 0) return kNoUnit;
  for (uint32_t i = 0; i < first_untouched_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (!starts_.awaits(unit) || barred(unit)) continue;
    starts_.SetAwaited(unit, false);
    MakePlaceable(now, unit);
    return unit;
  }
  return kNoUnit;
}

UnitId UnitPool::UseFailed(Instant now) {
  UnitId unit = LowestIn(State::kFailed);
  if (unit == kNoUnit) unit = LowestIn(State::kStarting);
  if (unit != kNoUnit) MakePlaceable(now, unit);
  return unit;
}

UnitId UnitPool::UseBarred(Instant now, ControllerOut& out) {
  UnitId stopped = kNoUnit;
  for (uint32_t i = 0; i < max_units(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (!barred(unit)) continue;
    const State is = state(unit);
    if (is == State::kActive || is == State::kStarting) return unit;
    if (is == State::kStopped && stopped == kNoUnit) stopped = unit;
  }
  if (stopped != kNoUnit && !leased_) Start(now, stopped, out);
  return leased_ ? kNoUnit : stopped;
}

UnitId UnitPool::WithdrawStop(Instant now, ControllerOut& out) {
  if (leased_) return kNoUnit;  // a leaving unit has no lease any more
  for (uint32_t i = 0; i < first_untouched_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (state(unit) != State::kStopping) continue;
    Take(now, unit, out);
    return unit;
  }
  return kNoUnit;
}

// The unit may still come up: it is parked, and no matter.
void UnitPool::FailStart(Instant now, UnitId unit, ControllerOut& out) {
  SetState(unit, State::kFailed);
  Erase(unit);
  timers_.Arm(value(unit), starts_.on_failed(now, unit));
  out.push(ControllerCommand::OfUnit(ControllerCommand::Kind::kParkUnit, unit,
                                     /*warm=*/starts_.was_warm(unit)));
}

void UnitPool::EndBackOff(Instant now, UnitId unit, ControllerOut& out) {
  const bool is_needed = starts_.was_warm(unit) ||
                         channel(unit).has_packets() || owned_flows(unit) > 0;
  Erase(unit);
  if (!is_needed) {
    SetState(unit, State::kStopped);
    starts_.End(unit);
    return;
  }
  SetState(unit, State::kStarting);
  timers_.Arm(value(unit), now + start_timeout_);
  channel(unit).Open();
  starts_.Repeat(unit, out);
}

// Removes units whose starts failed from the index, since another unit is
// ready.
void UnitPool::EraseFailed() {
  for (uint32_t i = 0; i < first_untouched_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (starts_.failures(unit) > 0 && is_starting(unit)) Erase(unit);
  }
}

bool UnitPool::on_lease(Instant now, UnitId unit, uint32_t share,
                        ControllerOut& out) {
  const State before = state(unit);
  if (!leased_ || share == 0 || share > kFullLoad ||
      before == State::kCrashed) {
    return false;
  }
  Erase(unit);
  waiting_.Erase(unit);
  timers_.Disarm(value(unit));
  set_share(unit, share);
  revoked_.Erase(unit);
  channel(unit).Open();
  channel(unit).Use(now);
  NoteUsed(unit);
  if (before == State::kStopped) starts_.Push(unit, /*warm=*/false, out);
  if (before == State::kStopping) {
    out.push(ControllerCommand::Start(unit, /*warm=*/true, incarnation(unit)));
  }
  SetState(unit, State::kActive);
  MakePlaceable(now, unit);
  return true;
}

bool UnitPool::on_revoke(Instant now, UnitId unit, bool at_once,
                         ControllerOut& out) {
  if (share(unit) == 0 || state(unit) != State::kActive ||
      (revoked_.Has(unit) && !at_once)) {
    return false;
  }
  revoked_.Insert(unit);
  Erase(unit);
  if (at_once) {
    channel(unit).Shut();
    waiting_.Erase(unit);
    Leave(unit, out);
  } else {
    timers_.Arm(value(unit), now);
  }
  return true;
}

// Its flows are moved one by one from now on.
void UnitPool::Leave(UnitId unit, ControllerOut& out) {
  timers_.Disarm(value(unit));
  SetState(unit, State::kStopping);
  out.push(ControllerCommand::OfUnit(ControllerCommand::Kind::kStopUnit, unit,
                                     /*warm=*/false));
}

bool UnitPool::on_ready(Instant now, UnitId unit) {
  if (state(unit) != State::kStarting) return false;
  SetState(unit, State::kActive);
  starts_.on_ready(unit);
  if (!placeable(unit)) MakePlaceable(now, unit);
  if (failed_starts() > 0) EraseFailed();
  channel(unit).Use(now);
  timers_.Arm(value(unit), channel(unit).last_packet() + idle_timeout_);
  if (barred(unit)) LeaveBarred(now, unit);
  return true;
}

bool UnitPool::on_stopped(UnitId unit) {
  if (state(unit) != State::kStopping || owned_flows(unit) > 0) return false;
  SetState(unit, State::kStopped);
  EndUse(unit);
  return true;
}

void UnitPool::EndUse(UnitId unit) {
  if (!leased_) return;
  set_share(unit, 0);
  revoked_.Erase(unit);
  // A flowlet may still be open on it that has sent nothing there.
  channel(unit).Shut();
}

bool UnitPool::on_failed(UnitId unit) {
  if (!has_channel(unit)) return false;
  if (is_starting(unit)) starts_.End(unit);
  waiting_.Erase(unit);
  closing_.Erase(unit);
  Erase(unit);
  timers_.Disarm(value(unit));
  SetState(unit, State::kCrashed);
  channel(unit).Break();
  return true;
}

void UnitPool::EndFailure(UnitId unit) {
  SNF_CHECK(state(unit) == State::kCrashed && owned_flows(unit) == 0);
  SetState(unit, State::kStopped);
  channel(unit).Mend();
  EndUse(unit);
}

void UnitPool::Restore(Instant now, const UnitReport& report) {
  const UnitId unit = report.unit;
  const bool is_used = report.state != UnitReport::State::kStopped;
  starts_.Restore(unit, report.incarnation);
  channel(unit).Restore(report.slots, report.bytes);
  channel(unit).Use(now);
  if (is_used) NoteUsed(unit);
  if (leased_) {
    // on_lease follows.
    SetState(unit, is_used ? State::kActive : State::kStopped);
    return;
  }
  switch (report.state) {
    case UnitReport::State::kStopped:
      SetState(unit, State::kStopped);
      break;
    case UnitReport::State::kStarting:
      SetState(unit, State::kStarting);
      // Its slots and grants can come back only from a running process.
      starts_.RestorePending(unit, report.slots > 0 || report.grants > 0);
      timers_.Arm(value(unit), now + start_timeout_);
      break;
    case UnitReport::State::kActive:
      SetState(unit, State::kActive);
      MakePlaceable(now, unit);
      timers_.Arm(value(unit), now + idle_timeout_);
      break;
    case UnitReport::State::kWarm:
      SetState(unit, State::kWarm);
      timers_.Arm(value(unit), now + keep_warm_);
      break;
  }
}

bool UnitPool::RemoveOwned(Instant now, UnitId unit) {
  const bool has_left = states_.RemoveOwned(unit);
  if (owned_flows(unit) == 0 && waiting_.Has(unit)) {
    timers_.Arm(value(unit), now);
  }
  return has_left;
}

// Returns true, and lets the unit wait, if its flows have nowhere to go.
bool UnitPool::WaitsForOther(UnitId unit) {
  if (owned_flows(unit) == 0 || placeable_units() > 0) {
    waiting_.Erase(unit);
    return false;
  }
  waiting_.Insert(unit);
  return true;
}

void UnitPool::Park(Instant now, UnitId unit, ControllerOut& out) {
  SetState(unit, State::kWarm);
  channel(unit).Shut();  // a flowlet may be open on it
  if (!closing_.Erase(unit)) Erase(unit);
  timers_.Arm(value(unit), barred(unit) ? now : now + keep_warm_);
  out.push(ControllerCommand::OfUnit(ControllerCommand::Kind::kParkUnit, unit,
                                     /*warm=*/true));
}

bool UnitPool::on_timer(Instant now, ControllerOut& out) {
  const uint32_t i = timers_.PopDue(now);
  if (i == TimingWheel::kNone) return false;
  const UnitId unit{static_cast<uint16_t>(i)};
  switch (state(unit)) {
    case State::kStarting:
      FailStart(now, unit, out);
      break;
    case State::kFailed:
      EndBackOff(now, unit, out);
      break;
    case State::kActive:
      on_timer_of_active(now, unit, out);
      break;
    default:
      SNF_CHECK(state(unit) == State::kWarm);
      on_timer_of_warm(now, unit, out);
  }
  return true;
}

void UnitPool::on_timer_of_active(Instant now, UnitId unit,
                                  ControllerOut& out) {
  const bool is_closing = closing(unit);
  const bool is_revoked = revoked_.Has(unit);
  const bool is_drained = channel(unit).is_empty();
  const bool is_unused = is_drained && open_flowlets(unit) == 0;
  const Instant idle_at = channel(unit).last_packet() + idle_timeout_;
  if (is_unused && is_revoked) {
    if (!WaitsForOther(unit)) Leave(unit, out);
  } else if ((is_closing && is_drained) || (is_unused && now >= idle_at)) {
    Park(now, unit, out);
  } else if (is_closing || is_revoked) {
    timers_.Arm(value(unit),
                now + Nanos{std::max<int64_t>(idle_timeout_.ns / 16, 1)});
  } else {
    timers_.Arm(value(unit), now < idle_at ? idle_at : now + idle_timeout_);
  }
}

// keep_warm is over.
void UnitPool::on_timer_of_warm(Instant now, UnitId unit, ControllerOut& out) {
  if (!WaitsForOther(unit)) {
    Leave(unit, out);
  } else if (barred(unit)) {
    UseAnother(now, out);
    // If starts fail, tries again after the pause.
    if (placeable_units() == 0) {
      timers_.Arm(value(unit),
                  std::max(now + Milliseconds(1), starts_.not_before()));
    }
  }
}

}  // namespace snf
