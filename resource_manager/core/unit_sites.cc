// SPDX-License-Identifier: Apache-2.0
#include "resource_manager/core/unit_sites.h"

#include <algorithm>
#include <utility>

namespace snf {

void UnitSites::Restore(uint32_t unit, Site site) {
  // Before the hosts are known, none of them has left.
  units_[unit].site = std::move(site);
}

void UnitSites::Set(std::vector<UnitHost> hosts) {
  hosts_ = std::move(hosts);
  std::vector<uint32_t> left;
  for (const UnitHost& host : hosts_) left.push_back(host.units);
  // Units that were withdrawn before take room only if there is some: a unit
  // that is being left is not used again.
  for (Unit& unit : units_) {
    if (!unit.site.has_value() || unit.is_withdrawn) continue;
    const auto at = std::ranges::find_if(hosts_, [&](const UnitHost& host) {
      return host.name == unit.site->host && host.address == unit.site->address;
    });
    const auto i = static_cast<size_t>(at - hosts_.begin());
    unit.is_withdrawn = at == hosts_.end() || left[i] == 0;
    if (!unit.is_withdrawn) --left[i];
  }
  Fill();
}

void UnitSites::Fill() {
  for (const UnitHost& host : hosts_) {
    const auto is_there = [&host](const Unit& unit) {
      return unit.site.has_value() && unit.site->host == host.name &&
             unit.site->address == host.address;
    };
    auto taken = static_cast<uint32_t>(std::ranges::count_if(units_, is_there));
    for (Unit& unit : units_) {
      if (taken >= host.units) break;
      if (unit.site.has_value()) continue;
      unit = {.site = Site{.host = host.name, .address = host.address}};
      ++taken;
    }
  }
}

bool UnitSites::Free(const std::function<bool(uint32_t)>& is_unused) {
  bool did = false;
  for (uint32_t i = 0; i < size(); ++i) {
    if (!units_[i].is_withdrawn || !is_unused(i)) continue;
    units_[i] = {};
    did = true;
  }
  if (did) Fill();
  return did;
}

}  // namespace snf
