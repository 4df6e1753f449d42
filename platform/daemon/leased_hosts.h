// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DAEMON_LEASED_HOSTS_H_
#define SNF_PLATFORM_DAEMON_LEASED_HOSTS_H_

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/text/wording.h"
#include "platform/hosts/host_place.h"
#include "proto/leases.pb.h"

namespace snf {

// The hosts of a resource manager's units, as the manager says: place 3 is that
// of unit 3. An address that no host can have is told by name, and the unit has
// no host then.
//
// Thread-safe.
class LeasedHosts final : public HostSource {
 public:
  // `notice` gets a line about each such address.
  explicit LeasedHosts(std::function<void(const std::string&)> notice)
      : notice_(std::move(notice)) {}

  void Set(const proto::UnitHosts& units);

  uint64_t version() const override {
    return version_.load(std::memory_order_acquire);
  }
  // Each host has as many processes as it has units here.
  std::vector<HostPlace> Hosts() const override;
  std::optional<Places> Assigned() const override;

 private:
  static constexpr uint32_t kMostUnits = 64;

  const std::function<void(const std::string&)> notice_;
  mutable std::mutex mutex_;
  Places places_ ABSL_GUARDED_BY(mutex_);
  std::vector<HostPlace> hosts_ ABSL_GUARDED_BY(mutex_);  // by name
  std::atomic<uint64_t> version_{0};
};

inline void LeasedHosts::Set(const proto::UnitHosts& units) {
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

inline std::vector<HostPlace> LeasedHosts::Hosts() const {
  const std::scoped_lock lock(mutex_);
  return hosts_;
}

inline std::optional<HostSource::Places> LeasedHosts::Assigned() const {
  const std::scoped_lock lock(mutex_);
  return places_;
}

}  // namespace snf

#endif  // SNF_PLATFORM_DAEMON_LEASED_HOSTS_H_
