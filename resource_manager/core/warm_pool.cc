// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/warm_pool.h"

#include <algorithm>

#include "base/check.h"

namespace snf {

WarmPool::WarmPool(const Options& options)
    : options_(options), places_(options.places) {
  for (size_t i = 0; i < std::min(options.parked, options.places); ++i) {
    places_[i].state = State::kComing;
  }
}

bool WarmPool::Use(Instant now, size_t place) {
  // More than these change no target.
  if (starts_.size() > size_t{kMostTimes} * options_.parked) {
    starts_.pop_front();
  }
  starts_.push_back(now);
  Place& used = places_[place];
  switch (used.state) {
    case State::kParked:
      used.state = State::kUsed;
      return true;
    case State::kUsed:
      return true;
    case State::kNone:
    case State::kComing:
    case State::kEnding:
      used.is_wanted = true;
      return false;
  }
  return false;
}

void WarmPool::Rest(size_t place) {
  SNF_CHECK(places_[place].state == State::kUsed);
  places_[place].state = State::kParked;
}

bool WarmPool::on_ready(size_t place) {
  Place& ready = places_[place];
  SNF_CHECK(ready.state == State::kComing);
  ready.state = ready.is_wanted ? State::kUsed : State::kParked;
  ready.is_wanted = false;
  return ready.state == State::kUsed;
}

void WarmPool::on_end(size_t place) { places_[place].state = State::kNone; }

size_t WarmPool::count(State state) const {
  return static_cast<size_t>(std::ranges::count(places_, state, &Place::state));
}

size_t WarmPool::target(Instant now) {
  while (!starts_.empty() && now - starts_.front() >= kWindow) {
    starts_.pop_front();
  }
  const size_t least = options_.parked;
  return std::clamp(starts_.size(), least, least * kMostTimes);
}

WarmPool::Action WarmPool::Prepare(size_t place) {
  SNF_CHECK(places_[place].state == State::kNone);
  places_[place].state = State::kComing;
  return {.kind = Action::Kind::kStart, .place = place};
}

WarmPool::Action WarmPool::End(size_t place) {
  SNF_CHECK(places_[place].state == State::kParked);
  places_[place].state = State::kEnding;
  return {.kind = Action::Kind::kEnd, .place = place};
}

std::optional<WarmPool::Action> WarmPool::Next(Instant now) {
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.is_wanted && place.state == State::kNone) return Prepare(i);
  }
  if (is_closed_) return std::nullopt;
  const size_t parked = count(State::kParked);
  const size_t wanted = target(now);
  if (parked < wanted && count(State::kComing) == 0) {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].state == State::kNone && !places_[i].is_shut) {
        return Prepare(i);
      }
    }
  }
  if (parked <= wanted) return std::nullopt;
  size_t last = places_.size() - 1;
  while (places_[last].state != State::kParked) --last;
  return End(last);
}

}  // namespace snf
