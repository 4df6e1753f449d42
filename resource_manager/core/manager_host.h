// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_MANAGER_HOST_H_
#define SNF_RESOURCE_MANAGER_CORE_MANAGER_HOST_H_

#include <cstdint>
#include <memory>

#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "base/time.h"
#include "resource_manager/core/resource_manager.h"

namespace snf {

// Counts of the resource managers of some units, one after the other.
struct ManagerCounters {
  uint64_t asks = 0;
  uint64_t given_back = 0;
  // Commands that reached their receivers; of StartUnit, first ones.
  uint64_t grants = 0;
  uint64_t revoked = 0;
  uint64_t gone = 0;
  uint64_t units_started = 0;
  uint64_t units_up_max = 0;  // units that start or run, when one gets ready
  uint64_t refused = 0;       // messages
  uint64_t unheard = 0;       // messages that found no manager
  uint64_t failed = 0;        // managers
  // Managers that knew all leases again after a failure, and the longest time
  // from a failure until then.
  uint64_t recovered = 0;
  uint64_t recovery_ns_max = 0;
};

// Theory of operation. Hosts the resource manager of some units, and counts.
// The manager may fail, with all that it knew. Its successor asks the units for
// their leases, and is ready once all have answered.
//
// Worked example: manager 1 fails after 3 asks. Two more asks come: they count
// as asks, and as unheard. Manager 2 succeeds it, and the counts go on.
//
// Owner-thread only.
class ManagerHost {
 public:
  // Hosts no manager until Begin.
  explicit ManagerHost(const ManagerOptions& options) : options_(options) {}
  ManagerHost(const ManagerOptions& options, uint64_t epoch, ManagerOut& out)
      : ManagerHost(options) {
    Begin(epoch, false, out);
  }

  // Returns null if there is no manager.
  ResourceManager* core() { return core_.get(); }
  const ResourceManager* core() const { return core_.get(); }
  bool is_up() const { return core_ != nullptr; }
  bool is_ready() const { return is_up() && !core_->recovering(); }

  // Replaces the manager by a new one, of an epoch that none had before. With
  // `recover`, the new manager asks all units for their leases.
  void Begin(uint64_t epoch, bool recover, ManagerOut& out);
  // Returns false if there is no manager to fail.
  bool Kill(Instant now);
  void Succeed(uint64_t epoch, ManagerOut& out) { Begin(epoch, true, out); }

  // Counts the message, and hands it to the manager, if there is one.
  LeaseRefusal Handle(Instant now, const ToManager& message, ManagerOut& out);
  // Counts a command that has reached its receiver.
  void on_delivered(const ManagerCommand& command);
  // Count messages that the host's owner did not hand to the manager.
  void on_unheard() { ++counters_.unheard; }
  void on_refused() { ++counters_.refused; }
  // Counts a recovery once the successor of a failed manager is ready.
  void NoteRecovery(Instant now);

  // Returns the counts of all managers until now.
  ManagerCounters counters() const;

 private:
  ManagerOptions options_;
  std::unique_ptr<ResourceManager> core_;
  bool is_recovering_ = false;
  Instant died_;
  ManagerCounters counters_;  // without the refusals of the present manager
};

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_MANAGER_HOST_H_
