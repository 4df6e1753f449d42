// SPDX-License-Identifier: Apache-2.0
#ifndef SNF_RESOURCE_MANAGER_CORE_MANAGER_COMMANDS_H_
#define SNF_RESOURCE_MANAGER_CORE_MANAGER_COMMANDS_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "base/messages/lease_messages.h"
#include "base/time.h"

// A resource manager is made with these options, commands this, and answers so.

namespace snf {

struct ManagerOptions {
  uint32_t max_units = 64;                 // units 0 … max_units - 1 exist
  uint32_t max_starts = 8;                 // at the same time
  Nanos term = Seconds(1);                 // a lease ends without a renewal
  Nanos revoke_grace = Milliseconds(100);  // for moving flows away
  Nanos start_timeout = Seconds(10);
  Nanos keep_warm = Seconds(10);  // a unit without leases stops then
  Nanos first_back_off = Milliseconds(100);
  Nanos max_back_off = Seconds(10);
};

// Why a message was refused. Each refusal is counted, and changes nothing.
enum class LeaseRefusal : uint8_t {
  kNone,
  kUnknownController,  // never joined, or declared dead
  kStaleEpoch,         // of an earlier life of a controller or of the manager
  kStaleNumber,        // repeated, or overtaken by a later one
  kUnknownUnit,
  kStaleIncarnation,  // of another life of the unit
  kWrongState,        // the unit is not in a state for this
  kUnknownLease,
  kNotHolder,  // another controller's lease
  kNegative,
  kTooMuch,     // more than all units, or than the lease, have
  kBadReport,   // shares that do not fit into a unit, or a lease told twice
  kRecovering,  // the manager does not know all leases yet
  kCount
};

struct StartUnit {
  UnitLife unit;
  // It was said before, and that or its answer may be lost.
  bool is_repeated = false;
};
// The unit ends once nobody uses it, unless a later manager asks for its
// leases before.
struct StopUnit {
  UnitLife unit;
  uint64_t manager_epoch = 0;
};
// Asks a unit for its leases; from then on it refuses earlier managers.
struct AskReport {
  GlobalUnitId unit{};
  uint64_t manager_epoch = 0;
};
using ManagerCommand = std::variant<SetShare, Grant, Revoke, Gone, StartUnit,
                                    StopUnit, AskReport, NewManager>;
using ManagerOut = std::vector<ManagerCommand>;

}  // namespace snf

#endif  // SNF_RESOURCE_MANAGER_CORE_MANAGER_COMMANDS_H_
