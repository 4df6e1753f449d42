// SPDX-License-Identifier: Apache-2.0
#include "controller/units/unit_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace snf {

UnitPool::UnitPool(const UnitPoolOptions& options)
    : max_units_(options.max_units),
      first_spare_(options.max_units - options.spare_units),
      hosts_(options),
      queue_packets_(options.unit_queue_packets),
      recovery_slots_(options.recovery_slots),
      start_buffer_packets_(
          std::min(options.start_buffer_packets, options.unit_queue_packets)),
      idle_timeout_(options.unit_idle_timeout),
      keep_warm_(options.keep_warm),
      start_timeout_(options.start_timeout),
      next_incarnation_(options.first_incarnation),
      latency_target_(options.latency_target),
      leased_(options.leased),
      units_warm_(leased_ ? 0 : std::min(options.warm_units, first_spare_)),
      units_stopped_(leased_ ? 0 : options.max_units - units_warm_),
      closing_(options.max_units),
      drained_(options.max_units),
      usable_(first_spare_),
      units_(options.max_units),
      meter_(options),
      fill_(options),
      index_(options.max_units),
      parts_(options.max_units),
      part_ids_(options.max_units),
      ranks_(options.max_units),
      timers_(options.max_units) {
  SNF_CHECK(latency_target_ <= Seconds(10));
  SNF_CHECK(idle_timeout_.ns > 0 && keep_warm_.ns >= 0);
  SNF_CHECK(start_timeout_.ns > 0);
  SNF_CHECK(queue_packets_ + recovery_slots_ < kShut);
  first_untouched_ = units_warm_;
  // Numbers of a later controller's packets are above all numbers of ended
  // channels.
  constexpr int kNumberBits = 40;
  for (uint32_t i = 0; options.epoch > 0 && i < max_units_; ++i) {
    units_[i].channel_number = uint64_t{options.epoch} << kNumberBits;
  }
  for (uint32_t i = 0; i < units_warm_; ++i) units_[i].state = State::kWarm;
}

void UnitPool::CloseUnneeded(Instant now) {
  if (leased_ || index_.size() < 2) return;
  const UnitId last = ranks_.At(index_.size() - 1);
  const Unit& u = units_[value(last)];
  if (u.state != State::kActive ||
      now < std::max(u.needed, closed_at_) + idle_timeout_) {
    return;
  }
  closed_at_ = now;
  index_.Erase(last);
  ranks_.Erase(last);
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
    return;
  }
  const uint64_t bucket = meter_.Bucket(now);
  ForEachPart([&](UnitId unit) { meter_.Load(now, unit); });
  if (bucket != refresh_bucket_) {
    refresh_bucket_ = bucket;
    refresh_left_ = std::min(first_untouched_, kRefreshPerBucket);
  }
  if (refresh_left_ == 0) return;
  const bool all = first_untouched_ <= kRefreshPerBucket;
  const uint32_t now_due =
      all ? refresh_left_ : std::min(refresh_left_, kRefreshPerDecision);
  refresh_left_ -= now_due;
  for (uint32_t i = 0; i < now_due; ++i) {
    refresh_next_ =
        refresh_next_ + 1 < first_untouched_ ? refresh_next_ + 1 : 0;
    Touch(now, UnitId{static_cast<uint16_t>(refresh_next_)});
  }
}

// Returns the lowest that is not barred.
UnitId UnitPool::LowestIn(State state) const {
  for (uint32_t i = 0; i < usable_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (units_[i].state == state && !drained_.Has(unit)) return unit;
  }
  return kNoUnit;
}

UnitId UnitPool::NextClosing() const {
  if (closing_.size() == 0) return kNoUnit;
  const UnitId unit = closing_.NextFrom(0, &drained_);
  return unit == kNoUnit || IsBarred(unit) ? kNoUnit : unit;
}

bool UnitPool::HasSpareBesideBarred() const {
  return LowestIn(State::kWarm) != kNoUnit || NextClosing() != kNoUnit;
}

// A unit that stops may need another one for its flows.
bool UnitPool::HasUsable(uint32_t usable, UnitId beside) const {
  for (uint32_t i = 0; i < usable; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (unit == beside || drained_.Has(unit)) continue;
    if (state(unit) != State::kStopping && state(unit) != State::kCrashed) {
      return true;
    }
  }
  return false;
}

bool UnitPool::Drain(Instant now, UnitId unit) {
  if (leased_ || !HasUsable(usable_, unit)) return false;
  if (drained_.Insert(unit)) LeaveBarred(now, unit);
  return true;
}

bool UnitPool::Tune(Instant now, const UnitPoolOptions& options) {
  const uint32_t usable =
      leased_ ? usable_ : std::min(options.max_units, first_spare_);
  if (!leased_ && !HasUsable(usable, kNoUnit)) return false;
  idle_timeout_ = options.unit_idle_timeout;
  keep_warm_ = options.keep_warm;
  start_timeout_ = options.start_timeout;
  const uint32_t before = std::exchange(usable_, usable);
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
  for (uint32_t i = 0; i < usable_; ++i) {
    if (units_[i].state != State::kStopped) continue;
    if (drained_.Has(UnitId{static_cast<uint16_t>(i)})) continue;
    if (next == kNoUnit || units_[i].failures < units_[value(next)].failures) {
      next = UnitId{static_cast<uint16_t>(i)};
    }
    if (units_[i].failures == 0) break;
  }
  return next;
}

void UnitPool::MakePlaceable(Instant now, UnitId unit) {
  MarkNeeded(now, unit);
  const Unit& u = units_[value(unit)];
  const uint32_t load = meter_.Load(now, unit, u.queued_bytes);
  if (u.share % kFullLoad == 0) {
    index_.Insert(unit, load);
  } else {
    parts_.Insert(unit);
    part_ids_.Insert(unit);
  }
  ranks_.Insert(unit);
  if (units_waiting_ == 0) return;
  for (uint32_t i = 0; i < first_untouched_; ++i) {
    if (units_[i].waits) timers_.Arm(i, now);
  }
}

void UnitPool::Take(Instant now, UnitId unit, ControllerOut& out) {
  Unit& u = units_[value(unit)];
  u.state = State::kStarting;
  SetWaits(u, false);
  u.was_warm = true;
  u.last_packet = now;
  timers_.Arm(value(unit), now + start_timeout_);
  --units_warm_;
  ++warm_starts_;
  ++pending_starts_;
  MakePlaceable(now, unit);
  PushStart(unit, /*warm=*/true, out);
}

void UnitPool::Start(Instant now, UnitId unit, ControllerOut& out) {
  Unit& u = units_[value(unit)];
  u.state = State::kStarting;
  u.was_warm = false;
  u.last_packet = now;
  timers_.Arm(value(unit), now + start_timeout_);
  first_untouched_ = std::max(first_untouched_, value(unit) + uint32_t{1});
  --units_stopped_;
  ++cold_starts_;
  ++pending_starts_;
  if (index_.size() == 0) {
    MakePlaceable(now, unit);
  } else {
    SetAwaited(u, true);
  }
  PushStart(unit, /*warm=*/false, out);
}

UnitId UnitPool::TakeWarm(Instant now, ControllerOut& out) {
  if (units_warm_ == 0) return kNoUnit;
  const UnitId unit = LowestIn(State::kWarm);
  if (unit != kNoUnit) Take(now, unit, out);
  return unit;
}

UnitId UnitPool::StartStopped(Instant now, ControllerOut& out) {
  if (units_stopped_ == 0 || now < start_not_before_) return kNoUnit;
  const UnitId unit = NextStopped();
  if (unit != kNoUnit) Start(now, unit, out);
  return unit;
}

bool UnitPool::Use(Instant now, UnitId unit, ControllerOut& out) {
  if (IsBarred(unit)) return false;
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
      if (units_[value(unit)].revoked) return false;
      break;
    case State::kStarting:
    case State::kFailed:
      break;
  }
  if (!placeable(unit)) {
    closing_.Erase(unit);
    SetAwaited(units_[value(unit)], false);
    MakePlaceable(now, unit);
  }
  return true;
}

UnitId UnitPool::UseStarting(Instant now) {
  if (units_awaited_ == 0) return kNoUnit;
  uint32_t i = 0;
  const auto may_be = [this](uint32_t at) {
    return units_[at].awaited && !IsBarred(UnitId{static_cast<uint16_t>(at)});
  };
  while (i < first_untouched_ && !may_be(i)) ++i;
  if (i == first_untouched_) return kNoUnit;
  const UnitId unit{static_cast<uint16_t>(i)};
  SetAwaited(units_[i], false);
  MakePlaceable(now, unit);
  return unit;
}

UnitId UnitPool::UseFailed(Instant now) {
  UnitId unit = LowestIn(State::kFailed);
  if (unit == kNoUnit) unit = LowestIn(State::kStarting);
  if (unit != kNoUnit) MakePlaceable(now, unit);
  return unit;
}

UnitId UnitPool::UseBarred(Instant now, ControllerOut& out) {
  UnitId stopped = kNoUnit;
  for (uint32_t i = 0; i < max_units_; ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    if (!IsBarred(unit)) continue;
    const State state = units_[i].state;
    if (state == State::kActive || state == State::kStarting) return unit;
    if (state == State::kStopped && stopped == kNoUnit) stopped = unit;
  }
  if (stopped != kNoUnit && !leased_) Start(now, stopped, out);
  return leased_ ? kNoUnit : stopped;
}

UnitId UnitPool::WithdrawStop(Instant now, ControllerOut& out) {
  if (leased_) return kNoUnit;  // a leaving unit has no lease any more
  for (uint32_t i = 0; i < first_untouched_; ++i) {
    Unit& u = units_[i];
    if (u.state != State::kStopping) continue;
    leaving_flows_ -= u.owned_flows;
    u.state = State::kWarm;
    ++units_warm_;
    const UnitId unit{static_cast<uint16_t>(i)};
    Take(now, unit, out);
    return unit;
  }
  return kNoUnit;
}

// The unit may still come up: it is parked, and no matter.
void UnitPool::FailStart(Instant now, UnitId unit, ControllerOut& out) {
  Unit& u = units_[value(unit)];
  ++failed_starts_;
  u.state = State::kFailed;
  u.failures = static_cast<uint8_t>(std::min(u.failures + 1, 255));
  SetAwaited(u, false);
  Erase(unit);
  Nanos pause = kFirstBackOff;
  for (uint32_t i = 0; i < failed_in_a_row_ && pause < kMaxBackOff; ++i) {
    pause.ns *= 2;
  }
  ++failed_in_a_row_;
  start_not_before_ = now + std::min(pause, kMaxBackOff);
  timers_.Arm(value(unit), start_not_before_);
  out.push(ControllerCommand::OfUnit(ControllerCommand::Kind::kParkUnit, unit,
                                     /*warm=*/u.was_warm));
}

void UnitPool::EndBackOff(Instant now, UnitId unit, ControllerOut& out) {
  Unit& u = units_[value(unit)];
  const bool is_needed = u.was_warm || u.slots_used > 0 || u.owned_flows > 0;
  Erase(unit);
  if (!is_needed) {
    u.state = State::kStopped;
    ++units_stopped_;
    --pending_starts_;
    return;
  }
  u.state = State::kStarting;
  ++(u.was_warm ? warm_starts_ : cold_starts_);
  timers_.Arm(value(unit), now + start_timeout_);
  PushStart(unit, u.was_warm, out);
}

// Removes units whose starts failed from the index, since another unit is
// ready.
void UnitPool::EraseFailed() {
  for (uint32_t i = 0; i < first_untouched_; ++i) {
    if (units_[i].failures == 0 || units_[i].state < State::kStarting) continue;
    Erase(UnitId{static_cast<uint16_t>(i)});
  }
}

bool UnitPool::on_lease(Instant now, UnitId unit, uint32_t share,
                        ControllerOut& out) {
  Unit& u = units_[value(unit)];
  if (!leased_ || share == 0 || share > kFullLoad ||
      u.state == State::kCrashed) {
    return false;
  }
  Erase(unit);
  SetWaits(u, false);
  timers_.Disarm(value(unit));
  u.share = share;
  u.revoked = false;
  u.slots_used &= ~kShut;
  u.last_packet = std::max(u.last_packet, now);
  first_untouched_ = std::max(first_untouched_, value(unit) + uint32_t{1});
  if (u.state == State::kStopped) PushStart(unit, /*warm=*/false, out);
  if (u.state == State::kStopping) {
    leaving_flows_ -= u.owned_flows;
    out.push(ControllerCommand::Start(unit, /*warm=*/true, u.incarnation));
  }
  u.state = State::kActive;
  MakePlaceable(now, unit);
  return true;
}

bool UnitPool::on_revoke(Instant now, UnitId unit, bool at_once,
                         ControllerOut& out) {
  Unit& u = units_[value(unit)];
  if (u.share == 0 || u.state != State::kActive || (u.revoked && !at_once)) {
    return false;
  }
  u.revoked = true;
  Erase(unit);
  if (at_once) {
    u.slots_used |= kShut;
    SetWaits(u, false);
    Leave(unit, out);
  } else {
    timers_.Arm(value(unit), now);
  }
  return true;
}

// Its flows are moved one by one from now on.
void UnitPool::Leave(UnitId unit, ControllerOut& out) {
  Unit& u = units_[value(unit)];
  timers_.Disarm(value(unit));
  u.state = State::kStopping;
  leaving_flows_ += u.owned_flows;
  out.push(ControllerCommand::OfUnit(ControllerCommand::Kind::kStopUnit, unit,
                                     /*warm=*/false));
}

UnitId UnitPool::LeastLoadedWithParts(UnitId least) const {
  ForEachPart([&](UnitId unit) {
    if (least == kNoUnit || load(unit) < load(least)) least = unit;
  });
  return least;
}

bool UnitPool::on_ready(Instant now, UnitId unit) {
  Unit& u = units_[value(unit)];
  if (u.state != State::kStarting) return false;
  u.state = State::kActive;
  u.failures = 0;
  --pending_starts_;
  failed_in_a_row_ = 0;
  start_not_before_ = Instant::min();
  if (!placeable(unit)) {
    SetAwaited(u, false);
    MakePlaceable(now, unit);
  }
  if (failed_starts_ > 0) EraseFailed();
  u.last_packet = std::max(u.last_packet, now);
  timers_.Arm(value(unit), u.last_packet + idle_timeout_);
  if (IsBarred(unit)) LeaveBarred(now, unit);
  return true;
}

bool UnitPool::on_stopped(UnitId unit) {
  Unit& u = units_[value(unit)];
  if (u.state != State::kStopping || u.owned_flows > 0) return false;
  u.state = State::kStopped;
  EndUse(u);
  return true;
}

void UnitPool::EndUse(Unit& unit) {
  if (!leased_) {
    ++units_stopped_;
    return;
  }
  unit.share = 0;
  unit.revoked = false;
  // A flowlet may still be open on it that has sent nothing there.
  unit.slots_used |= kShut;
}

bool UnitPool::on_failed(UnitId unit) {
  Unit& u = units_[value(unit)];
  if (u.state == State::kStopped || u.state == State::kCrashed) return false;
  if (u.state == State::kStopping) leaving_flows_ -= u.owned_flows;
  if (u.state == State::kWarm) --units_warm_;
  if (u.state >= State::kStarting) --pending_starts_;
  SetWaits(u, false);
  SetAwaited(u, false);
  closing_.Erase(unit);
  Erase(unit);
  timers_.Disarm(value(unit));
  u.state = State::kCrashed;
  u.slots_used = queue_packets_ + recovery_slots_;  // none is free
  u.queued_bytes = 0;
  return true;
}

void UnitPool::EndFailure(UnitId unit) {
  Unit& u = units_[value(unit)];
  SNF_CHECK(u.state == State::kCrashed && u.owned_flows == 0);
  u.state = State::kStopped;
  u.slots_used = 0;
  EndUse(u);
}

void UnitPool::Restore(Instant now, const UnitReport& report) {
  Unit& u = units_[value(report.unit)];
  if (!leased_) --(u.state == State::kWarm ? units_warm_ : units_stopped_);
  u.incarnation = report.incarnation;
  next_incarnation_ = std::max(next_incarnation_, report.incarnation + 1);
  u.slots_used = report.slots;
  u.queued_bytes = report.bytes;
  u.last_packet = now;
  if (report.state != UnitReport::State::kStopped) {
    first_untouched_ =
        std::max(first_untouched_, value(report.unit) + uint32_t{1});
  }
  if (leased_) {
    // on_lease follows.
    const bool is_used = report.state != UnitReport::State::kStopped;
    u.state = is_used ? State::kActive : State::kStopped;
    return;
  }
  switch (report.state) {
    case UnitReport::State::kStopped:
      u.state = State::kStopped;
      ++units_stopped_;
      break;
    case UnitReport::State::kStarting:
      u.state = State::kStarting;
      // Its slots and grants can come back only from a running process.
      u.was_warm = report.slots > 0 || report.grants > 0;
      ++pending_starts_;
      SetAwaited(u, true);
      timers_.Arm(value(report.unit), now + start_timeout_);
      break;
    case UnitReport::State::kActive:
      u.state = State::kActive;
      MakePlaceable(now, report.unit);
      timers_.Arm(value(report.unit), now + idle_timeout_);
      break;
    case UnitReport::State::kWarm:
      u.state = State::kWarm;
      ++units_warm_;
      timers_.Arm(value(report.unit), now + keep_warm_);
      break;
  }
}

bool UnitPool::on_drained(Instant now, const DrainReport& report) {
  meter_.Prefetch(report.unit);
  index_.Prefetch(report.unit);
  Unit& u = units_[value(report.unit)];
  if (u.state == State::kCrashed || u.slots_used < report.packets ||
      u.queued_bytes < report.bytes) [[unlikely]] {
    return false;
  }
  u.slots_used -= report.packets;
  u.queued_bytes -= report.bytes;
  meter_.AddDrained(now, report.unit, report.bytes);
  Touch(now, report.unit);
  return true;
}

void UnitPool::OpenFlowlet(UnitId unit, int64_t demand_bps) {
  meter_.AddOpenDemand(unit, demand_bps);
  TouchSameTime(unit);
}

void UnitPool::CloseFlowlet(UnitId unit, int64_t demand_bps) {
  meter_.RemoveOpenDemand(unit, demand_bps);
  TouchSameTime(unit);
}

bool UnitPool::RemoveOwned(Instant now, UnitId unit) {
  Unit& u = units_[value(unit)];
  SNF_CHECK(u.owned_flows > 0);
  --u.owned_flows;
  if (u.owned_flows == 0 && u.waits) timers_.Arm(value(unit), now);
  if (u.state != State::kStopping) return false;
  --leaving_flows_;
  return u.owned_flows == 0;
}

void UnitPool::Park(Instant now, UnitId unit, ControllerOut& out) {
  Unit& u = units_[value(unit)];
  u.state = State::kWarm;
  u.slots_used |= kShut;  // a flowlet may be open on it
  ++units_warm_;
  if (!closing_.Erase(unit)) {
    index_.Erase(unit);
    ranks_.Erase(unit);
  }
  timers_.Arm(value(unit), IsBarred(unit) ? now : now + keep_warm_);
  out.push(ControllerCommand::OfUnit(ControllerCommand::Kind::kParkUnit, unit,
                                     /*warm=*/true));
}

bool UnitPool::on_timer(Instant now, ControllerOut& out) {
  const uint32_t i = timers_.PopDue(now);
  if (i == TimingWheel::kNone) return false;
  const UnitId unit{static_cast<uint16_t>(i)};
  Unit& u = units_[i];
  if (u.state == State::kStarting) {
    FailStart(now, unit, out);
    return true;
  }
  if (u.state == State::kFailed) {
    EndBackOff(now, unit, out);
    return true;
  }
  if (u.state == State::kActive) {
    const bool closing = closing_.Has(unit);
    const bool is_drained = u.slots_used == 0;
    const bool empty = is_drained && meter_.open_flowlets(unit) == 0;
    const Instant idle_at = u.last_packet + idle_timeout_;
    if (empty && u.revoked) {
      SetWaits(u, u.owned_flows > 0 && placeable_units() == 0);
      if (!u.waits) Leave(unit, out);
    } else if ((closing && is_drained) || (empty && now >= idle_at)) {
      Park(now, unit, out);
    } else if (closing || u.revoked) {
      timers_.Arm(i, now + Nanos{std::max<int64_t>(idle_timeout_.ns / 16, 1)});
    } else {
      timers_.Arm(i, now < idle_at ? idle_at : now + idle_timeout_);
    }
    return true;
  }
  SNF_CHECK(u.state == State::kWarm);
  SetWaits(u, u.owned_flows > 0 && placeable_units() == 0);
  if (u.waits && IsBarred(unit)) {
    UseAnother(now, out);
    // If starts fail, tries again after the pause.
    if (placeable_units() == 0) {
      timers_.Arm(i, std::max(now + Milliseconds(1), start_not_before_));
    }
  } else if (!u.waits) {
    --units_warm_;
    Leave(unit, out);
  }
  return true;
}

}  // namespace snf
