// SPDX-License-Identifier: Apache-2.0
#include "platform/hosts/host_assignment.h"

#include <algorithm>
#include <utility>

namespace snf {

HostAssignment::HostAssignment(const Options& options)
    : options_(options), places_(options.places) {}

bool HostAssignment::is_joined(const HostPlace& host) const {
  return std::ranges::any_of(hosts_, [&host](const HostPlace& other) {
    return other.name == host.name && other.address == host.address;
  });
}

void HostAssignment::Set(std::vector<HostPlace> hosts) {
  hosts_ = std::move(hosts);
  std::vector<uint32_t> left;
  for (const HostPlace& host : hosts_) left.push_back(host.processes);
  const auto take = [&](const HostPlace& wanted) {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].name != wanted.name ||
          hosts_[i].address != wanted.address || left[i] == 0) {
        continue;
      }
      --left[i];
      return true;
    }
    return false;
  };
  for (Place& place : places_) {
    if (place.wanted.has_value() && !take(*place.wanted)) place.wanted.reset();
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    if (is_own(i) || places_[i].wanted.has_value()) continue;
    const auto free = std::ranges::find_if(left, [](uint32_t n) { return n; });
    if (free == left.end()) break;
    --*free;
    places_[i].wanted = hosts_[static_cast<size_t>(free - left.begin())];
  }
  ForgetSilent();
}

void HostAssignment::Assign(std::vector<HostPlace> hosts,
                            const HostSource::Places& places) {
  hosts_ = std::move(hosts);
  for (size_t i = 0; i < places_.size(); ++i) {
    if (is_own(i)) continue;
    places_[i].wanted = i < places.size() ? places[i] : std::nullopt;
  }
  ForgetSilent();
}

// Forgets that a host was silent once the host has left.
void HostAssignment::ForgetSilent() {
  std::erase_if(silent_, [this](const auto& silent) {
    return std::ranges::none_of(hosts_, [&silent](const HostPlace& host) {
      return silent.first == host.address.data();
    });
  });
}

std::optional<HostPlace> HostAssignment::Start(Instant now, size_t place) {
  Place& starts = places_[place];
  starts.has_process = true;
  starts.on = starts.wanted;
  if (!starts.wanted.has_value()) return std::nullopt;
  const auto silent = silent_.find(starts.wanted->address.data());
  if (silent == silent_.end()) return starts.on;
  // One place tries; the others have no time to wait for the outcome.
  if (silent->second.is_tried || now < silent->second.next_try) {
    starts.on.reset();
  } else {
    silent->second.is_tried = true;
  }
  return starts.on;
}

void HostAssignment::on_ready(size_t place) {
  const std::optional<HostPlace>& on = places_[place].on;
  if (on.has_value()) silent_.erase(on->address.data());
}

void HostAssignment::on_end(Instant now, size_t place, bool has_failed) {
  Place& ended = places_[place];
  ended.has_process = false;
  const std::optional<HostPlace> on = std::exchange(ended.on, std::nullopt);
  if (!has_failed || !on.has_value() || !is_joined(*on)) return;
  const auto [found, is_new] = silent_.try_emplace(
      on->address.data(),
      Silence{.next_try = now + kFirstPause, .pause = kFirstPause});
  Silence& silence = found->second;
  if (is_new || !std::exchange(silence.is_tried, false)) return;
  silence.pause = std::min(Nanos{2 * silence.pause.ns}, kLongestPause);
  silence.next_try = now + silence.pause;
}

bool HostAssignment::is_open(size_t place) const {
  if (is_own(place)) return true;
  const Place& of = places_[place];
  return of.wanted.has_value() && !is_misplaced(place) &&
         !is_silent(*of.wanted);
}

bool HostAssignment::is_misplaced(size_t place) const {
  const Place& of = places_[place];
  if (!of.has_process || is_own(place)) return false;
  if (of.on.has_value() != of.wanted.has_value()) return true;
  return of.on.has_value() && (of.on->name != of.wanted->name ||
                               of.on->address != of.wanted->address);
}

std::optional<size_t> HostAssignment::NextTry(Instant now) const {
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.has_process || !place.wanted.has_value()) continue;
    const auto silent = silent_.find(place.wanted->address.data());
    if (silent == silent_.end() || silent->second.is_tried) continue;
    if (now >= silent->second.next_try) return i;
  }
  return std::nullopt;
}

const HostPlace* HostAssignment::HostOf(size_t place) const {
  const Place& of = places_[place];
  const std::optional<HostPlace>& host = of.has_process ? of.on : of.wanted;
  return host.has_value() ? &*host : nullptr;
}

}  // namespace snf
