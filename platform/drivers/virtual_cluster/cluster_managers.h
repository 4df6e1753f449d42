// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MANAGERS_H_
#define SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MANAGERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/ids.h"
#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/messages/manager_messages.h"
#include "base/time.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/virtual_cluster/cluster_meter.h"
#include "platform/drivers/virtual_cluster/cluster_unit.h"
#include "platform/run/run.h"
#include "resource_manager/core/manager_host.h"
#include "runtime/leases/unit_hosts.h"

namespace snf {

// Theory of operation. The resource managers of several controllers, and the
// processes of the managers' units, in virtual time. Controllers that share
// units have one manager; otherwise each controller has a manager of its own,
// with units of its own. A manager may fail; its units stay.
//
//   controllers ─ToManager─► manager ─ManagerCommand─► units, controllers
//                               ▲                        │
//                               └────────ToManager───────┘
//
// The host carries messages in both directions, and says when a start is over.
//
// Worked example: manager 0 commands the start of unit 3, so the host hears of
// on_start. After the delay of starts the host calls on_started, and the unit
// tells manager 0 that it is ready.
//
// Owner-thread only.
class ClusterManagers {
 public:
  // The cluster, which must outlive the managers.
  class Host {
   public:
    virtual Instant now() const = 0;
    // The time of leases (VirtualCluster).
    virtual Instant lease_now() const = 0;
    // Carry a message about leases.
    virtual void SendToManager(uint32_t manager, const ToManager& message) = 0;
    virtual void SendCommand(uint32_t manager,
                             const ManagerCommand& command) = 0;
    // A process begins to start: on_started is due once the start is over.
    virtual void on_start(uint32_t manager, UnitLife unit) = 0;
    // The manager has no more to give, at a tick.
    virtual void on_nothing_to_give(uint32_t manager) = 0;

   protected:
    ~Host() = default;
  };

  // The references must outlive the object.
  ClusterManagers(const RunOptions& options, const ClusterOptions& cluster,
                  Host& host, ClusterMeter& meter, ClusterFigures& figures);

  size_t size() const { return managers_.size(); }
  uint32_t ManagerOf(ControllerId controller) const {
    return is_shared_ ? 0 : value(controller);
  }
  bool is_ready(uint32_t manager) const {
    return managers_[manager].is_ready();
  }

  // Adds the controller's manager, if there is none yet.
  void AddFor(ControllerId controller);
  // The controller joins its manager, which must be ready. Returns its life.
  ControllerLife Join(ControllerId controller);
  // Returns a life for a successor of the controller; none while its manager is
  // not ready.
  std::optional<ControllerLife> NewLife(ControllerId controller);
  // The controller has left for good. Its manager must be ready.
  void on_dead(ControllerLife life);

  // A message has come to the manager. A manager that has failed loses it.
  void Handle(uint32_t manager, const ToManager& message);
  // To be called every revoke_grace.
  void on_tick();
  // Sends the commands of that manager since the last call.
  void SendCommands(uint32_t manager);
  // Counts a command that has reached a controller.
  void on_delivered(uint32_t manager, const ManagerCommand& command) {
    managers_[manager].on_delivered(command);
  }
  // Fails the manager. Returns false if it has failed already.
  bool Kill(uint32_t manager) {
    return managers_[manager].Kill(host_.lease_now());
  }
  // Replaces a manager that has failed.
  void Succeed(uint32_t manager);
  // Has the manager revoke all leases of a unit. Returns false if it cannot.
  bool Close(uint32_t manager, GlobalUnitId unit);

  // Returns null if there is no such process.
  ClusterUnit* Find(uint32_t manager, UnitLife life) {
    return managers_[manager].units.Find(life);
  }
  // A command of the manager has come to its unit.
  void AtUnit(uint32_t manager, const SetShare& set);
  void AtUnit(uint32_t manager, const StartUnit& start);
  void AtUnit(uint32_t manager, const StopUnit& stop);
  void AtUnit(uint32_t manager, const AskReport& ask);
  // The start of a process is over.
  void on_started(uint32_t manager, UnitLife unit);
  // A controller has left the process, which stops if it is to stop.
  void on_detached(uint32_t manager, UnitLife life);

  // Adds the counts of all managers. Call once, at the end.
  void AddFigures();

 private:
  struct Manager : ManagerHost {
    using ManagerHost::ManagerHost;
    UnitHosts<ClusterUnit> units{};
  };

  void StopIfUnused(uint32_t manager, UnitLife life);
  void CheckPromises(uint32_t manager);

  ManagerOptions options_;
  bool is_shared_;
  Host& host_;
  ClusterMeter& meter_;
  ClusterFigures& figures_;
  std::deque<Manager> managers_;
  uint64_t epochs_ = 0;  // of managers so far
  ManagerOut commands_;
  uint64_t units_up_max_ = 0;  // processes
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_VIRTUAL_CLUSTER_CLUSTER_MANAGERS_H_
