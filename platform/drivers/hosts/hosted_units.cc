// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/hosts/hosted_units.h"

#include <algorithm>
#include <cstring>

namespace snf {

using PlaceState = WarmPool::State;

HostedUnits::HostedUnits(const HostSource& source,
                         const HostAssignment::Options& places,
                         ControllerLoop& loop)
    : source_(source),
      loop_(loop),
      assignment_(places),
      places_(places.places),
      bars_(loop.controller().units().max_units()) {}

std::vector<std::byte> HostedUnits::Start(size_t place) {
  if (place >= places_) return {};  // the loggers'
  const auto host = assignment_.Start(loop_.now(), place);
  if (!host.has_value()) return {};
  std::vector<std::byte> argument(sizeof(HostPlace));
  std::memcpy(argument.data(), &*host, sizeof(HostPlace));
  return argument;
}

void HostedUnits::Bar() {
  for (size_t i = 0; i < bars_.size(); ++i) {
    const UnitId unit{static_cast<uint16_t>(i)};
    Bars& bars = bars_[i];
    const bool is_closed = !assignment_.is_open(i % places_);
    if (is_closed == bars.by_host) continue;
    if (is_closed) {
      // Fails if no other unit could be used: then the next look tries again.
      bars.by_host = loop_.controller().Drain(loop_.ReadClock(), unit);
    } else {
      bars.by_host = false;
      if (!bars.by_operator) loop_.controller().Undrain(unit);
    }
  }
}

void HostedUnits::TakeIn() {
  const uint64_t version = source_.version();
  if (version_ == version) return;
  version_ = version;
  if (const auto places = source_.Assigned(); places.has_value()) {
    assignment_.Assign(source_.Hosts(), *places);
  } else {
    assignment_.Set(source_.Hosts());
  }
}

bool HostedUnits::MayLease(size_t place) {
  TakeIn();
  return assignment_.is_open(place);
}

bool HostedUnits::IsMisplaced(size_t place) {
  TakeIn();
  return assignment_.is_misplaced(place);
}

void HostedUnits::Look(
    WarmPool& pool, const std::function<void(const WarmPool::Action&)>& act) {
  TakeIn();
  Bar();
  for (size_t place = 0; place < places_; ++place) {
    pool.Shut(place, !assignment_.is_open(place));
    if (assignment_.is_misplaced(place) &&
        pool.state(place) == PlaceState::kParked) {
      act(pool.End(place));
    }
  }
  const auto tries = assignment_.NextTry(loop_.now());
  if (tries.has_value() && pool.state(*tries) == PlaceState::kNone &&
      !pool.is_awaited(*tries)) {
    act(pool.Prepare(*tries));
  }
}

bool HostedUnits::Drain(UnitId unit) {
  const bool is_drained = loop_.controller().Drain(loop_.ReadClock(), unit);
  if (is_drained) bars_[value(unit)].by_operator = true;
  return is_drained;
}

void HostedUnits::Undrain(UnitId unit) {
  bars_[value(unit)].by_operator = false;
  if (!bars_[value(unit)].by_host) loop_.controller().Undrain(unit);
}

std::string_view HostedUnits::HostOf(UnitId unit) const {
  const HostPlace* const host = assignment_.HostOf(value(unit) % places_);
  return host == nullptr ? "" : host->name.data();
}

void HostedUnits::AddTo(LiveFigures& figures) const {
  for (const HostPlace& host : assignment_.hosts()) {
    figures.hosts.push_back(
        {.name = host.name.data(),
         .address = host.address.data(),
         .state = assignment_.is_silent(host) ? "silent" : "joined",
         .units = host.processes});
  }
  // Hosts that have left, and still have units.
  for (size_t place = 0; place < places_; ++place) {
    const HostPlace* const host = assignment_.HostOf(place);
    if (host == nullptr) continue;
    const bool is_known =
        std::ranges::any_of(figures.hosts, [host](const auto& known) {
          return known.name == host->name.data() &&
                 known.address == host->address.data();
        });
    if (is_known) continue;
    figures.hosts.push_back({.name = host->name.data(),
                             .address = host->address.data(),
                             .state = "left",
                             .units = 0});
  }
}

}  // namespace snf
