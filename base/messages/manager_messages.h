// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_BASE_MESSAGES_MANAGER_MESSAGES_H_
#define SNF_BASE_MESSAGES_MANAGER_MESSAGES_H_

#include <variant>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/messages/manager_commands.h"
#include "base/time.h"

// The messages about leases that controllers, hosts of units and a resource
// manager send each other (proto/protocol.md §7). Plain data.
namespace snf {

// Answers an AskReport: the leases that a unit has.
struct UnitLeaseReport {
  ReportedUnit unit;
  std::vector<ReportedLease> leases{};
};

// A unit's process of that life runs.
struct UnitReady {
  UnitLife unit;
};
// The unit's process of that life has ended, or never ran.
struct UnitStopped {
  UnitLife unit;
};

// Lets the resource manager fail at that time. Only runs with faults send it,
// to the host of the manager.
struct ManagerDeath {
  Instant at{};
};

// A controller that succeeds a failed one asks for a life of its own.
struct AskLife {
  ControllerId controller;
};

// A lease of a controller that a host of units knows.
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

}  // namespace snf

#endif  // SNF_BASE_MESSAGES_MANAGER_MESSAGES_H_
