// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_CLUSTER_MANAGER_HOST_H_
#define SNF_PLATFORM_CLUSTER_MANAGER_HOST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/time.h"
#include "platform/run/run.h"
#include "resource_manager/core/resource_manager.h"

namespace snf {

// Where the resource manager of some units runs. It may fail, with all that it
// knew: then another one asks the units for their leases, and is ready once it
// has heard of all. Owner-thread only.
class ManagerHost {
 public:
  // No epoch is used twice.
  ManagerHost(const ManagerOptions& options, uint64_t epoch, ManagerOut& out)
      : options_(options),
        core_(std::make_unique<ResourceManager>(options, epoch, false, out)) {}

  // Returns null while there is none.
  ResourceManager* core() { return core_.get(); }
  bool is_up() const { return core_ != nullptr; }
  bool is_ready() const { return is_up() && !core_->recovering(); }

  // Returns false if there is none.
  bool Kill(Instant now, ClusterFigures& figures) {
    if (!is_up()) return false;
    AddRefused(figures);
    core_.reset();
    if (!std::exchange(is_recovering_, true)) died_ = now;
    ++figures.managers_failed;
    return true;
  }
  void Succeed(uint64_t epoch, ManagerOut& out) {
    core_ = std::make_unique<ResourceManager>(options_, epoch, true, out);
  }
  // Counts it once it is ready again.
  void NoteRecovery(Instant now, ClusterFigures& figures) {
    if (!is_recovering_ || !is_ready()) return;
    is_recovering_ = false;
    ++figures.managers_recovered;
    figures.manager_recovery_ns_max =
        std::max(figures.manager_recovery_ns_max,
                 static_cast<uint64_t>((now - died_).ns));
  }
  // Adds the messages that the present one has refused.
  void AddRefused(ClusterFigures& figures) const {
    if (!is_up()) return;
    for (size_t why = 0; why < static_cast<size_t>(LeaseRefusal::kCount);
         ++why) {
      figures.refused += core_->refused(static_cast<LeaseRefusal>(why));
    }
  }

 private:
  ManagerOptions options_;
  std::unique_ptr<ResourceManager> core_;
  bool is_recovering_ = false;
  Instant died_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_CLUSTER_MANAGER_HOST_H_
