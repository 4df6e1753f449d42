// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_CLUSTER_LEASE_MAIL_H_
#define SNF_PLATFORM_REAL_CLUSTER_LEASE_MAIL_H_

#include <variant>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/time.h"
#include "platform/cluster/unit_hosts.h"
#include "platform/real_cluster/mail.h"
#include "resource_manager/core/manager_commands.h"

// Messages about leases between the threads of a run in real time.
namespace snf {

// A unit runs; or a process of that life is gone.
struct UnitReady {
  UnitLife unit;
};
struct UnitStopped {
  UnitLife unit;
};

// The resource manager is to fail, at that time of the machine's clock.
struct ManagerDeath {
  Instant at;
};

// The controller has taken the place of one that failed, and asks for a life of
// its own. The answer, which comes from a resource manager that is ready.
struct AskLife {
  ControllerId controller;
};
struct NewLife {
  ControllerLife life;
};

// The answer to AskLeases: what a thread of units has of the controller's.
struct HeldLease {
  UnitLife unit;
  ReportedLease lease;
};
using HeldLeases = std::vector<HeldLease>;

using ToManager =
    std::variant<Ask, Renew, GiveBack, ShareSet, UnitReady, UnitStopped,
                 UnitLeaseReport, ManagerDeath, AskLife>;
using ToController =
    std::variant<Grant, Revoke, Gone, NewManager, NewLife, HeldLeases>;

using ManagerMail = Mail<ToManager>;
using ControllerMail = Mail<ToController>;

// The controller has failed: its successor asks for its leases. The mail for
// the answer must outlive it.
struct AskLeases {
  ControllerId controller;
  ControllerMail* answer_to;
};
using ToUnit =
    std::variant<SetShare, StartUnit, StopUnit, AskReport, AskLeases>;
using UnitMail = Mail<ToUnit>;

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_CLUSTER_LEASE_MAIL_H_
