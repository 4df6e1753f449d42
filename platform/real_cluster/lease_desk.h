// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_CLUSTER_LEASE_DESK_H_
#define SNF_PLATFORM_REAL_CLUSTER_LEASE_DESK_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/messages/lease_messages.h"
#include "platform/cluster/cluster_options.h"
#include "platform/cluster/manager_host.h"
#include "platform/real_cluster/lease_mail.h"
#include "platform/run/run.h"
#include "resource_manager/core/resource_manager.h"
#include "runtime/ring/doorbell.h"

namespace snf {

// The resource manager of a run in real time, on a thread of its own: takes
// what controllers and units say, in the order in which it comes, and sends
// what the manager commands (proto/protocol.md §7). The unit of the number n is
// one of the n % units-th thread of units.
//
// The manager may fail, with all that it knew: what is said then is lost. Some
// time later another one asks all threads of units what they have promised.
//
// Its owner makes and ends it; the mail is for any thread.
class LeaseDesk {
 public:
  // The mail of threads of units must outlive the desk. `detection` goes by
  // until a manager that has failed has a successor.
  LeaseDesk(const ManagerOptions& options, Nanos detection,
            std::vector<UnitMail*> units);
  ~LeaseDesk() { Stop(); }
  LeaseDesk(const LeaseDesk&) = delete;
  LeaseDesk& operator=(const LeaseDesk&) = delete;

  // Before Start, for the controllers 0, 1, 2 …: gives each its life, and then
  // takes its mail, which must outlive the desk.
  ControllerLife Join(ControllerId controller);
  void Connect(ControllerMail& mail) { controllers_.push_back(&mail); }
  void Start();
  ManagerMail& mail() { return mail_; }
  // From now on no lease changes. Adds what was counted.
  void Stop();
  void AddFigures(ClusterFigures& figures) const;

 private:
  void Run();
  void Handle(const ToManager& message);
  void Tell(ResourceManager& manager, const ToManager& message);
  void GiveLife(ControllerId controller);
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
  std::vector<Instant> deaths_;          // that are to come
  Instant succession_ = Instant::max();  // while there is no manager
  Instant next_tick_;
  ClusterFigures figures_;
  Instant now_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_CLUSTER_LEASE_DESK_H_
