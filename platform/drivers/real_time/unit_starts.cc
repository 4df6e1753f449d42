// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/real_time/unit_starts.h"

#include <algorithm>
#include <utility>

#include "runtime/ring/real_clock.h"

namespace snf {

using PlaceState = WarmPool::State;

UnitStarts::UnitStarts(uint32_t parked, UnitProcesses& processes,
                       ControllerLoop& loop,
                       std::vector<LoopRegion::Loop> loops,
                       UnitStartFigures& figures, RealFaults* faults,
                       HostedUnits* hosts)
    : processes_(processes),
      loop_(loop),
      loops_(std::move(loops)),
      figures_(figures),
      faults_(faults),
      hosts_(hosts),
      pool_({.places = static_cast<uint32_t>(loops_.size()), .parked = parked}),
      leased_until_(loops_.size(), Instant::min()) {
  figures_.is_pooled = true;
  figures_.processes = pool_.count(PlaceState::kComing);
  loop.set_starter(*this);
  if (faults_ != nullptr) {
    faults_->LetRest(parked, [this](size_t place) { on_end(place); });
  }
  TakeReady();
  Act();
}

bool UnitStarts::on_start(UnitId unit) {
  const size_t place = value(unit) % loops_.size();
  const bool is_there = pool_.Use(loop_.now(), place);
  // One that was told to end may do so still; then another is started.
  if (pool_.state(place) == PlaceState::kUsed) processes_.LetEnd(place, false);
  // Of a start that has failed before, no more is to be heard.
  std::erase_if(starts_, [unit](const Start& s) { return s.unit == unit; });
  starts_.push_back(
      {.unit = unit, .asked = RealClock::Monotonic(), .is_parked = is_there});
  is_busy_ = true;
  return is_there;
}

bool UnitStarts::MayLease(UnitId unit) {
  const size_t place = value(unit) % loops_.size();
  if (hosts_ != nullptr && !hosts_->MayLease(place)) return false;
  const PlaceState state = pool_.state(place);
  if (state == PlaceState::kParked || state == PlaceState::kUsed) return true;
  // Until then the process is not idle.
  leased_until_[place] = loop_.now() + kLeaseWait;
  is_busy_ = true;
  if (state == PlaceState::kEnding || pool_.is_awaited(place)) return false;
  return pool_.Use(loop_.now(), place);
}

bool UnitStarts::TurnNow() {
  bool did = has_ends();
  while (has_ends()) on_end(processes_.TakeEnd()->process);
  if (TakeReady()) did = true;
  if (loop_.now() >= next_look_) Look();
  if (Act()) did = true;
  Measure();
  const bool is_any_coming = pool_.count(PlaceState::kComing) > 0;
  is_busy_ = is_any_coming || !starts_.empty();
  return did || is_any_coming;
}

void UnitStarts::on_end(size_t place) {
  const bool is_used = pool_.state(place) == PlaceState::kUsed;
  if (hosts_ != nullptr) {
    hosts_->on_end(place, pool_.state(place) != PlaceState::kEnding);
  }
  pool_.on_end(place);
  loops_[place].progress->next_due.store(Instant::max().ns);
  // It was dead before it was asked for: what it should do is still there. Or
  // it was killed, and its units are to be there again.
  if (is_used) pool_.Use(loop_.now(), place);
  figures_.killed = processes_.parked_killed();
  is_busy_ = true;
}

bool UnitStarts::TakeReady() {
  bool did = false;
  for (size_t place = 0; place < loops_.size(); ++place) {
    if (pool_.state(place) != PlaceState::kComing ||
        !processes_.is_ready(place) ||
        (faults_ != nullptr && !faults_->is_up(place))) {
      continue;
    }
    if (hosts_ != nullptr) hosts_->on_ready(place);
    const bool is_used = pool_.on_ready(place);
    processes_.LetEnd(place, !is_used);
    if (is_used) loop_.BeginStarts(place);
    did = true;
  }
  return did;
}

// Returns true if the process of a loop has anything to do.
bool UnitStarts::IsUsed(size_t place) const {
  if (loop_.now() < leased_until_[place] || !loop_.IsIdle(place) ||
      loops_[place].has_mail())
    return true;
  const UnitPool& units = loop_.controller().units();
  for (size_t unit = place; unit < units.max_units(); unit += loops_.size()) {
    if (units.state(UnitId{static_cast<uint16_t>(unit)}) !=
        UnitPool::State::kStopped) {
      return true;
    }
  }
  return false;
}

void UnitStarts::Look() {
  next_look_ = loop_.now() + kLook;
  for (size_t place = 0; place < loops_.size(); ++place) {
    if (pool_.state(place) == PlaceState::kUsed && !IsUsed(place)) {
      pool_.Rest(place);
      processes_.LetEnd(place, true);
    } else if (pool_.state(place) == PlaceState::kNone &&
               !pool_.is_awaited(place) &&
               (!loop_.IsIdle(place) || loops_[place].has_mail())) {
      pool_.Use(loop_.now(), place);
    }
  }
  if (hosts_ == nullptr) return;
  hosts_->Look(pool_, [this](const WarmPool::Action& action) { Do(action); });
}

void UnitStarts::BeginEnded() {
  if (faults_ == nullptr) return;
  for (size_t place = 0; place < loops_.size(); ++place) {
    if (pool_.state(place) != PlaceState::kNone || pool_.is_awaited(place) ||
        loops_[place].log_control->ends.load() == 0) {
      continue;
    }
    pool_.Use(loop_.now(), place);
    is_busy_ = true;
  }
}

bool UnitStarts::Act() {
  bool did = false;
  while (const auto action = pool_.Next(loop_.now())) {
    did = true;
    Do(*action);
  }
  const size_t none = pool_.count(PlaceState::kNone);
  figures_.most_processes =
      std::max<uint64_t>(figures_.most_processes, loops_.size() - none);
  return did;
}

void UnitStarts::Do(const WarmPool::Action& action) {
  const size_t place = action.place;
  const LoopRegion::Loop& loop = loops_[place];
  const bool starts = action.kind == WarmPool::Action::Kind::kStart;
  loop.control->stops = !starts;
  is_busy_ = true;
  if (!starts) {
    ++figures_.ended;
    loop.bell->Ring();
    return;
  }
  ++figures_.processes;
  processes_.LetEnd(place, !pool_.is_awaited(place));
  if (faults_ != nullptr) {
    faults_->Begin(place);
  } else {
    processes_.StartAgain(place);
  }
}

void UnitStarts::Measure() {
  std::erase_if(starts_, [this](const Start& start) {
    const size_t place = value(start.unit) % loops_.size();
    const PlaceState state = pool_.state(place);
    // The unit was stopped, or its process killed, before it said that it runs.
    const bool is_over = state != PlaceState::kUsed &&
                         state != PlaceState::kComing &&
                         !pool_.is_awaited(place);
    if (is_over) return true;
    const auto& progress = *loops_[place].progress;
    const Instant began{progress.started.load(std::memory_order_relaxed)};
    if (began < start.asked) return false;
    (start.is_parked ? figures_.parked_ns : figures_.cold_ns)
        .Record((began - start.asked).ns);
    return true;
  });
}

}  // namespace snf
