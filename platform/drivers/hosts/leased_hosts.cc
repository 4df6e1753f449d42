// SPDX-License-Identifier: Apache-2.0
#include "platform/drivers/hosts/leased_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/wording.h"

namespace snf {

void LeasedHosts::Set(const proto::UnitHosts& units) {
  Places places;
  std::vector<HostPlace> hosts;
  for (const proto::UnitHost& unit : units.unit()) {
    const auto place = HostPlace::Of(unit.host(), unit.address(), 1);
    if (!place.ok() || unit.unit() >= kMostUnits) {
      notice_(fmt::format("host \"{}\" of unit {}: {}", Printable(unit.host()),
                          unit.unit(),
                          place.ok() ? "the unit cannot be"
                                     : std::string(place.status().message())));
      continue;
    }
    if (places.size() <= unit.unit()) places.resize(unit.unit() + 1);
    places[unit.unit()] = *place;
    const auto known =
        std::ranges::find_if(hosts, [&place](const HostPlace& host) {
          return host.name == place->name && host.address == place->address;
        });
    if (known == hosts.end()) {
      hosts.push_back(*place);
    } else {
      ++known->processes;
    }
  }
  std::ranges::stable_sort(hosts, {}, &HostPlace::name);
  {
    const std::scoped_lock lock(mutex_);
    places_ = std::move(places);
    hosts_ = std::move(hosts);
  }
  version_.fetch_add(1, std::memory_order_release);
}

std::vector<HostPlace> LeasedHosts::Hosts() const {
  const std::scoped_lock lock(mutex_);
  return hosts_;
}

std::optional<HostSource::Places> LeasedHosts::Assigned() const {
  const std::scoped_lock lock(mutex_);
  return places_;
}

}  // namespace snf
