// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_HOSTS_LEASED_HOSTS_H_
#define SNF_PLATFORM_DRIVERS_HOSTS_LEASED_HOSTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
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

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_HOSTS_LEASED_HOSTS_H_
