// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_PLATFORM_REAL_CLUSTER_LEASE_MAIL_H_
#define SNF_PLATFORM_REAL_CLUSTER_LEASE_MAIL_H_

#include <variant>

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

using ToManager = std::variant<Ask, Renew, GiveBack, ShareSet, UnitReady,
                               UnitStopped, UnitLeaseReport, ManagerDeath>;
using ToController = std::variant<Grant, Revoke, Gone, NewManager>;
using ToUnit = std::variant<SetShare, StartUnit, StopUnit, AskReport>;

using ManagerMail = Mail<ToManager>;
using ControllerMail = Mail<ToController>;
using UnitMail = Mail<ToUnit>;

}  // namespace snf

#endif  // SNF_PLATFORM_REAL_CLUSTER_LEASE_MAIL_H_
