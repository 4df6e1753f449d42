// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_UNIT_SITES_H_
#define SNF_RESOURCE_MANAGER_CORE_UNIT_SITES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace snf {

// A host of a cluster, by the name and address of its entry (`snf host join`).
struct UnitHost {
  std::string name;
  std::string address;
  uint32_t units = 0;  // that run there at most
  friend bool operator==(const UnitHost&, const UnitHost&) = default;
};

// Theory of operation. Says on which host each unit of a resource manager is.
// Hosts that have joined are filled in their order, each with as many units as
// it takes, lowest numbers first. A unit keeps its host until the host leaves,
// or takes fewer units; then the unit is withdrawn: no share of it is given
// any more. Once the unit is unused, Free gives the unit to another host.
//
//   no host ──Set, Free──► placed ──Set──► withdrawn ──Free──► no host
//
// Worked example, three units: b takes two of them and has units 0 and 1; unit
// 2 has no host. c joins with four: unit 2 is on c. b leaves: units 0 and 1 are
// withdrawn. Unit 1 is free first: unit 1 is on c from then on, unit 0 later.
//
// A value; owner-thread only.
class UnitSites {
 public:
  struct Site {
    std::string host;
    std::string address;
    friend bool operator==(const Site&, const Site&) = default;
  };

  explicit UnitSites(uint32_t units) : units_(units) {}

  // The unit has that site since an earlier resource manager. Before Set.
  void Restore(uint32_t unit, Site site);
  // The unit is used, and its site is unknown: no share of the unit is given
  // before Free. Before Set.
  void Withdraw(uint32_t unit) {
    units_[unit] = {.site = Site{}, .is_withdrawn = true};
  }
  // Sets the hosts that have joined, no two of one name and address.
  void Set(std::vector<UnitHost> hosts);
  // Takes the sites of withdrawn units for which `is_unused(unit)` holds, and
  // gives each of them another host that has room. Returns true for any.
  bool Free(const std::function<bool(uint32_t)>& is_unused);

  // Returns null if the unit has no host.
  const Site* Of(uint32_t unit) const {
    return units_[unit].site.has_value() ? &*units_[unit].site : nullptr;
  }
  // Returns true if shares of the unit may be given.
  bool is_placed(uint32_t unit) const {
    return units_[unit].site.has_value() && !units_[unit].is_withdrawn;
  }
  uint32_t size() const { return static_cast<uint32_t>(units_.size()); }

 private:
  struct Unit {
    std::optional<Site> site{};
    bool is_withdrawn = false;
  };

  void Fill();

  std::vector<Unit> units_;
  std::vector<UnitHost> hosts_;
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_UNIT_SITES_H_
