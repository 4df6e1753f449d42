// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_DRIVERS_REAL_CLUSTER_LEASE_DESK_H_
#define SNF_PLATFORM_DRIVERS_REAL_CLUSTER_LEASE_DESK_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/messages/lease_messages.h"
#include "platform/drivers/cluster/cluster_options.h"
#include "platform/drivers/real_cluster/lease_mail.h"
#include "platform/run/run.h"
#include "resource_manager/core/manager_host.h"
#include "runtime/ring/doorbell.h"

namespace snf {

// Runs the resource manager of a run in real time on a thread of its own: reads
// the mail of controllers and units in order, and sends the manager's commands
// (proto/protocol.md §7). Thread n % threads of units runs unit n.
//
// The manager may fail, with all that it knew: messages that come then are
// lost. After `detection`, a successor asks all threads of units for their
// leases.
//
// One owner makes and ends a desk; any thread may use the mail.
class LeaseDesk {
 public:
  // The mail of threads of units must outlive the desk. A manager that fails
  // has a successor after `detection`.
  LeaseDesk(const ManagerOptions& options, Nanos detection,
            std::vector<UnitMail*> units);
  ~LeaseDesk() { Stop(); }
  LeaseDesk(const LeaseDesk&) = delete;
  LeaseDesk& operator=(const LeaseDesk&) = delete;

  // Gives a controller its life; Connect then takes the controller's mail,
  // which must outlive the desk. To be called before Start, for controllers 0,
  // 1, 2 … in order.
  ControllerLife Join(ControllerId controller);
  void Connect(ControllerMail& mail) { controllers_.push_back(&mail); }
  void Start();
  ManagerMail& mail() { return mail_; }
  // Ends the thread: from now on no lease changes.
  void Stop();
  // Adds the manager's counts, after Stop.
  void AddFigures(ClusterFigures& figures) const;

 private:
  void Run();
  void Handle(const ToManager& message);
  void FailAndSucceed();
  Instant NextDue() const;
  void SendCommands();
  void Send(const ManagerCommand& command);

  ManagerOptions options_;
  std::vector<ControllerMail*> controllers_;
  std::vector<UnitMail*> units_;
  Doorbell bell_;
  ManagerMail mail_{&bell_};
  ManagerOut commands_;
  uint64_t epoch_ = 1;  // of the latest manager
  ManagerHost manager_;
  Nanos detection_;
  std::vector<Instant> deaths_;          // future ones
  Instant succession_ = Instant::max();  // while there is no manager
  Instant next_tick_;
  uint64_t deaths_in_vain_ = 0;
  Instant now_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_DRIVERS_REAL_CLUSTER_LEASE_DESK_H_
